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

my $node = new_device_node('device_growth');
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

	# The index has so many words, which are enough for it to double; the daemon makes room for an eighth more
	# (src/device/watch.c).
	my $words = int(blocks() / 4) + 2 * blocks() + 256;
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

# An index that doubles needs no other copy.
$node->safe_psql('postgres', <<'END');
CREATE TABLE d (k int) WITH (autovacuum_enabled = off);
INSERT INTO d SELECT 2 * i FROM generate_series(1, 60000) i;
CREATE INDEX d_k ON d USING harmonia (k);
SELECT harmonia_load('d_k');
SELECT harmonia_stat_reset('d_k');
END
my $before = $node->safe_psql('postgres', q{SELECT pg_relation_size('d_k') / 8192});
for my $part (0 .. 8)
{
	$node->safe_psql('postgres', "INSERT INTO d SELECT 2 * i + 1 FROM generate_series(1, 60000) i WHERE i % 10 = $part");
	is($node->safe_psql('postgres', "SET enable_bitmapscan = off; SET enable_indexscan = off; SET enable_indexonlyscan = off;
			SELECT count(*), sum(k) FROM d WHERE k = ANY (ARRAY(SELECT generate_series(3, 120001, 20)))"),
		$part == 0 ? '0|' : '6000|359958000', "part $part");
}
my ($times, $loads, $batches) = split /\|/, $node->safe_psql('postgres', <<"END");
SELECT round(pg_relation_size('d_k') / 8192.0 / $before, 2), loads, device_batches FROM pg_stat_harmonia WHERE indexrelid = 'd_k'::regclass
END
cmp_ok($times, '>', 1.5, "the index has grown to $times times its size");
is("$loads $batches", '0 9', 'all batches were searched on the device, without another copy');

$node->stop;
done_testing();
