# Few keys with thousands of rows each, while leaves get the class of one key and lose it again:
# the index is right on the primary, with a device that looks keys up, on a replica, and after a
# crash.  Replay makes the same pages.
use strict;
use warnings;

use Harmonia;
use HarmoniaDevice;
use PostgreSQL::Test::Cluster;
use Test::More;

my $seed = test_seed();
my $primary = new_device_node('primary', allows_streaming => 1, conf => <<'END');
wal_consistency_checking = 'generic'
max_wal_size = 2GB
wal_keep_size = 8GB
END

sub sql { return $primary->safe_psql('postgres', $_[0]); }

# Both ends, neighbours, and both sides of what 16, 32 and 63 bits hold.
my @keys = (
	'-9223372036854775808', '-9223372036854775807', -1, 0, 1, 65535, 65536, 4294967295, 4294967296,
	'4611686018427387904', '9223372036854775806', '9223372036854775807');
my $hot = 'ARRAY[' . join(',', map { "($_)" } @keys) . ']::bigint[]';
my $last = @keys;

sql(<<"END");
CREATE TABLE few (k bigint, id bigint GENERATED ALWAYS AS IDENTITY) WITH (autovacuum_enabled = off);
INSERT INTO few (k) SELECT ($hot)[1 + i % $last] FROM generate_series(1, 40000) i;
CREATE INDEX few_k ON few USING harmonia (k);
CREATE TABLE grown (k int, id bigint GENERATED ALWAYS AS IDENTITY) WITH (autovacuum_enabled = off);
CREATE INDEX grown_k ON grown USING harmonia (k DESC);
END
$primary->backup('backup');

my $standby = PostgreSQL::Test::Cluster->new('standby');

$standby->init_from_backup($primary, 'backup', has_streaming => 1);
$standby->append_conf('postgresql.conf', "harmonia.gpu = off\n");
$standby->start;

my %writers = (
	'one@10' => <<"END",
\\set i random(1, $last)
SET harmonia.batch_inserts = off;
INSERT INTO few (k) SELECT ($hot)[:i] FROM generate_series(1, 100);
INSERT INTO grown (k) SELECT :i % 4 FROM generate_series(1, 200);
END
	'batch@5' => <<"END",
\\set i random(1, $last)
\\set n random(1, 1500)
SET harmonia.batch_inserts = on;
INSERT INTO few (k) SELECT ($hot)[:i] FROM generate_series(1, :n);
INSERT INTO grown (k) SELECT CASE WHEN :i < 5 THEN NULL ELSE :i % 4 END FROM generate_series(1, :n);
END
	'neighbours@2' => <<"END",
\\set i random(2, $last - 1)
\\set d random(-1, 1)
INSERT INTO few (k) SELECT ($hot)[:i] + :d FROM generate_series(1, 3);
INSERT INTO grown (k) VALUES (:i - 5);
END
	'delete@2' => <<"END",
\\set i random(0, 19)
DELETE FROM few WHERE id % 20 = :i;
END
	'update@1' => <<"END",
\\set i random(1, $last)
\\set r random(0, 999)
UPDATE few SET k = ($hot)[:i] WHERE id % 1000 = :r;
UPDATE grown SET k = :i % 4 WHERE id % 1000 = :r;
END
);
my @time = ('-T', $ENV{HARMONIA_SECONDS} // 8);

# As long as others write, and then again, each answer is that of a sequential scan.
sub load
{
	my ($name, $seconds, $rounds) = @_;
	my $load = start_pgbench($primary, \%writers, '-c', 3, '-T', $seconds, "--random-seed=$seed", '--max-tries=100');
	my $maintenance = start_pgbench(
		$primary,
		{
			'vacuum@5' => "VACUUM (INDEX_CLEANUP on) few;\nVACUUM (INDEX_CLEANUP on) grown;\n",
			'reorganize@1' => "SELECT harmonia_reorganize('few_k'), harmonia_reorganize('grown_k');\n",
		},
		'-c', 1, '-T', $seconds, '-R', 2);

	if ($rounds > 0)
	{
		my $problem = '';
		for (my $round = 0; $round < $rounds && $problem eq ''; $round++)
		{
			$problem = check_all_indexes($primary);
		}
		is($problem, '', "$name: right while others write");
	}
	return ($load, $maintenance);
}

my ($load, $maintenance) = load('at first', $time[1], 3);
no_errors($load, 'writers');
no_errors($maintenance, 'maintenance');
check_all_indexes($primary, 'the primary is right');

cmp_ok(sql(<<"END"), '>', 10, 'there are leaves of one key');
SELECT count(*) FROM unnest('{few_k,grown_k}'::regclass[]) i, harmonia_segments(i) s, harmonia_leaves(i, s.block) l
WHERE key_bits = 0
END
cmp_ok(sql(<<"END"), '>', 1, 'and others');
SELECT count(*) FROM harmonia_segments('few_k') s, harmonia_leaves('few_k', s.block) l WHERE key_bits > 0
END
my ($batches, $synced) = split /\|/, sql('SELECT sum(device_batches), sum(synced_blocks) FROM harmonia_stat_indexes()');
cmp_ok($batches, '>', 10, "$batches batches on the device");
cmp_ok($synced, '>', 10, "$synced blocks had changed before");

$primary->wait_for_catchup($standby);
check_all_indexes($standby, 'the replica is right');
$standby->stop;

# A crash
($load, $maintenance) = load('later', 600, 0);
wait_for_work($primary);
crash_after($primary, 2);
finish($load);
finish($maintenance);
$primary->start;
wait_for_device($primary);
check_all_indexes($primary, 'the primary has recovered');

$primary->stop;
done_testing();
