# An index outgrows its watch words while its copy on the device is brought up to date.  A
# change of a leaf without a word is not noted anywhere.
#
# The library is built with FAULT_POINTS (src/am/fault.h) and SMALL_LIMITS.
use strict;
use warnings;

use FaultSessions;
use Harmonia;
use HarmoniaDevice;
use Test::More;

# No index may double if it takes more than half of them.
my $node = new_device_node('device_growth', conf => "harmonia.max_resident_blocks = 500\n");
my $query = 'SELECT count(*), sum(k) FROM t WHERE k = ANY (ARRAY(SELECT 100 * i FROM generate_series(1, 3000) i))';

sub blocks { return $node->safe_psql('postgres', q{SELECT pg_relation_size('t_k') / 8192}); }

for my $point ('sync_begun', 'sync_listed')
{
	$node->safe_psql('postgres', <<'END');
DROP TABLE IF EXISTS t;
CREATE TABLE t (k int) WITH (autovacuum_enabled = off);
INSERT INTO t SELECT 100 * i FROM generate_series(1, 3000) i;
CREATE INDEX t_k ON t USING harmonia (k);
SELECT harmonia_load('t_k');
INSERT INTO t VALUES (1);
END

	# The index has so many words; the daemon makes room for an eighth more
	# (src/device/watch.c).
	my $words = int(blocks() * 5 / 4) + 256;
	my $reader = open_session($node, 'SET enable_bitmapscan = off; SET enable_indexscan = off; SET enable_indexonlyscan = off');

	hold($node, $point);
	ask($reader, "SET harmonia.fault = '$point:wait'");
	send_sql($reader, $query);
	stopped_at($node, $point);
	$node->safe_psql('postgres', <<"END");
DO \$\$
DECLARE
	i int := 0;
BEGIN
	WHILE pg_relation_size('t_k') / 8192 <= $words + 8 LOOP
		INSERT INTO t SELECT 100 * j + 1 + i % 99 FROM generate_series(1, 3000) j WHERE j % 150 = i % 150;
		i := i + 1;
	END LOOP;
END \$\$;
END
	my $blocks = blocks();
	ok($blocks > $words && $blocks < $words * 9 / 8, "$point: the index has outgrown its $words words: $blocks blocks");
	release($point);
	is(answer($reader), '3000|450150000', "$point: all rows are found");
	is(ask($reader, $query), '3000|450150000', "$point: and found again");
	close_session($reader);
}

# Where there are more words, an index that doubles needs no other copy.
$node->append_conf('postgresql.conf', 'harmonia.max_resident_blocks = 0');
$node->restart;
wait_for_device($node, 'up');
$node->safe_psql('postgres', <<'END');
CREATE TABLE d (k int) WITH (autovacuum_enabled = off);
INSERT INTO d SELECT 2 * i FROM generate_series(1, 700000) i;
CREATE INDEX d_k ON d USING harmonia (k);
SELECT harmonia_load('d_k');
SELECT harmonia_stat_reset('d_k');
END
my $before = $node->safe_psql('postgres', q{SELECT pg_relation_size('d_k') / 8192});
for my $part (0 .. 8)
{
	$node->safe_psql('postgres', "INSERT INTO d SELECT 2 * i + 1 FROM generate_series(1, 700000) i WHERE i % 10 = $part");
	is($node->safe_psql('postgres', "SET enable_bitmapscan = off; SET enable_indexscan = off; SET enable_indexonlyscan = off;
			SELECT count(*), sum(k) FROM d WHERE k = ANY (ARRAY(SELECT generate_series(3, 1400001, 200)))"),
		$part == 0 ? '0|' : '7000|4899321000', "part $part");
}
my ($times, $loads, $batches) = split /\|/, $node->safe_psql('postgres', <<"END");
SELECT round(pg_relation_size('d_k') / 8192.0 / $before, 2), loads, device_batches FROM pg_stat_harmonia WHERE indexrelid = 'd_k'::regclass
END
cmp_ok($times, '>', 1.5, "the index has grown to $times times its size");
is($loads, '0', 'without another copy');
cmp_ok($batches, '>=', 9, 'all batches were searched on the device');

$node->stop;
done_testing();
