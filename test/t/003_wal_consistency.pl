# Replay makes the same pages, byte for byte, as the server that wrote the WAL: on a
# replica and after a crash.
use strict;
use warnings;

use Harmonia;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $seed = test_seed();

# Each generic record then has the page that it leads to.  Replay ends with a FATAL error
# if it makes a different page.
my $primary = new_node('primary', allows_streaming => 1, conf => <<'END');
wal_consistency_checking = 'generic'
max_wal_size = 2GB
wal_keep_size = 8GB
END

make_pairs($primary);
make_load($primary);
$primary->backup('backup');

my $standby = PostgreSQL::Test::Cluster->new('standby');

$standby->init_from_backup($primary, 'backup', has_streaming => 1);
$standby->start;

my @time = ('-T', $ENV{HARMONIA_SECONDS} // 8);
my $load = start_load($primary, '-c', 3, '--random-seed=' . $seed, @time);
my $writers = write_pairs($primary, '-c', 2, '--random-seed=' . $seed, @time);

no_errors($load, 'load');
no_errors($writers, 'writers');

# VACUUM of sparse segments, and changes after it.
$primary->safe_psql('postgres', <<'END');
DELETE FROM pairs WHERE id % 4 <> 0;
VACUUM pairs;
DELETE FROM pairs WHERE k BETWEEN 100000 AND 900000;
VACUUM pairs;
INSERT INTO pairs (k, k2) SELECT i, i FROM generate_series(1, 50000) i;
REINDEX INDEX CONCURRENTLY pairs_k;
REINDEX INDEX load_f;
CREATE TABLE other AS SELECT k::int8 FROM pairs;
CREATE INDEX other_k ON other USING harmonia (k DESC) WITH (fanout = 16);
UPDATE other SET k = -k WHERE k % 3 = 0;
END

$primary->wait_for_catchup($standby);
check_all_indexes($standby, 'the replica has replayed it');
$standby->stop;

# The same after a crash.
$primary->safe_psql('postgres', 'CHECKPOINT');
my $start = $primary->safe_psql('postgres', 'SELECT redo_lsn FROM pg_control_checkpoint()');

$load = start_load($primary, '-c', 3, '-T', 600, '--random-seed=' . ($seed + 1));
$writers = write_pairs($primary, '-c', 2, '-T', 600, '--random-seed=' . ($seed + 1));
wait_for_work($primary);
crash_after($primary, 2);
finish($load);
finish($writers);
$primary->start;
check_all_indexes($primary, 'the primary has recovered');

# The WAL has pages to compare with.  Just after a checkpoint the records hold pages that
# replay puts in place, so these come later.
my ($records) = run_command(
	[
		'pg_waldump', '--bkp-details', '--rmgr=Generic', '--limit=10000', '--start', $start,
		'--path', $primary->data_dir . '/pg_wal'
	]);

ok($records =~ /for WAL verification/, 'WAL has pages to compare with');
$primary->stop;
done_testing();
