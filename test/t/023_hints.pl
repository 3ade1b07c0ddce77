# Hints that rows are dead: who believes them, how they are logged, and what a replica is told before the entries
# that they are about are removed.
#
# 012_dead_rows.pl has the rest of early removal.
use strict;
use warnings;

use FaultSessions;
use Harmonia;
use HarmoniaDamage;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $primary = new_node('primary', allows_streaming => 1, conf => "wal_log_hints = on\nwal_keep_size = 1GB\n");
my $plans = 'SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off;'
  . ' SET harmonia.enable_lookup_scan = off; SET harmonia.enable_lookup_join = off';
my $by_index = 'SELECT count(*) FROM t WHERE k > 0';
my $lookup = q[SELECT count(xmin) FROM t WHERE k BETWEEN 1 AND 600 OR k BETWEEN 601 AND 5000];
my $lookups = q[SET harmonia.enable_lookup_scan = on; SET enable_indexscan = off;];
my $by_lookup = "$lookups $lookup; SET harmonia.enable_lookup_scan = off; SET enable_indexscan = on";

sub sql { return $primary->safe_psql('postgres', $_[0]); }

# A thousand rows in nine pages of the table, which have free room, so that they are not pruned: no record
# but that of the index speaks of dead rows.
sub make_table
{
	sql(<<'END');
DROP TABLE IF EXISTS t;
CREATE TABLE t (k int) WITH (fillfactor = 50);
CREATE INDEX t_k ON t USING harmonia (k);
INSERT INTO t SELECT i FROM generate_series(1, 1000) i;
END
	return;
}

# A scan by the index gives hints.
sub scan { return sql("$plans; $by_index"); }

# Fill the leaves.
sub fill
{
	my ($node) = @_;

	$node->safe_psql('postgres', join ';', ('INSERT INTO t SELECT 1 + i * 7 % 1000 FROM generate_series(1, 500) i') x 4);
	return;
}

sub old_session
{
	my ($node) = @_;
	my $session = open_session($node, $plans);

	ask($session, 'BEGIN ISOLATION LEVEL REPEATABLE READ');
	return ($session, ask($session, $by_index));
}

# ----------------------------------------------------------------
# The first hint on a page after a checkpoint logs the page, as checksums and pg_rewind need it
# ----------------------------------------------------------------
make_table();
sql('DELETE FROM t WHERE k <= 500; CHECKPOINT');
my $start = sql('SELECT pg_current_wal_insert_lsn()');
is(scan(), 500, 'a scan finds the rows that are left');
sql('CREATE TABLE flushed ()');
my $end = sql('SELECT pg_current_wal_flush_lsn()');
my $file = sql("SELECT pg_relation_filenode('t_k')");
my ($records) = run_command([ 'pg_waldump', '-p', $primary->data_dir . '/pg_wal', '-s', $start, '-e', $end, '-r', 'XLOG' ]);
like($records, qr{FPI_FOR_HINT.*rel \d+/\d+/$file blk}, 'the page of its hints is logged');
my ($length) = $records =~ m{len \(rec/tot\): +\d+/ +(\d+),.*FPI_FOR_HINT.*rel \d+/\d+/$file blk};
cmp_ok($length, '<', 8192, 'without its hole, where the hints are');

# ----------------------------------------------------------------
# A leaf's entries are asked about in several questions, and the newest deletion counts
#
# A replica has a snapshot from between two deletions.
# ----------------------------------------------------------------
$primary->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'backup', has_streaming => 1);
$standby->append_conf('postgresql.conf', "hot_standby_feedback = off\nmax_standby_streaming_delay = -1\n");
$standby->start;

for my $case ([ 'the last rows are deleted last', '<', '>=' ], [ 'the first rows are deleted last', '>=', '<' ])
{
	my ($name, $first, $second) = @$case;

	make_table();
	sql("DELETE FROM t WHERE ctid $first '(6,0)'");
	$primary->wait_for_catchup($standby);
	my ($session, $rows) = old_session($standby);
	sql("DELETE FROM t WHERE ctid $second '(6,0)'");
	is(scan(), 0, "$name: hints for all");
	fill($primary);
	cmp_ok(sql("SELECT entries FROM harmonia_index_info('t_k')"), '<', 3000, "$name: entries are removed");
	my $end = sql('SELECT pg_current_wal_insert_lsn()');
	wait_until($standby,
		"SELECT FROM pg_stat_activity WHERE wait_event = 'RecoveryConflictSnapshot'"
		  . " UNION ALL SELECT FROM (SELECT pg_last_wal_replay_lsn() l) s WHERE l >= '$end'")
	  || die 'replay neither waits nor ends';
	cmp_ok($rows, '>', 100, "$name: the snapshot has $rows rows");
	is(ask($session, $by_index), $rows, "$name: and keeps them");
	ask($session, 'COMMIT');
	close_session($session);
	$primary->wait_for_catchup($standby);
	check_index($standby, 't_k', "$name: the replica has the same");
}

# ----------------------------------------------------------------
# Wrong hints
#
# They are written to a replica's file: all rows of the first leaf are said to be dead.  A transaction that began in recovery does
# not believe any hint, because its snapshot may need what is dead to others.  And no entry is
# removed because of a hint alone.
# ----------------------------------------------------------------
make_table();
# A first hint, in the first leaf, so that the header of its segment tells of hints.
sql('INSERT INTO t VALUES (1); DELETE FROM t WHERE ctid = (SELECT max(ctid) FROM t)');
is(scan(), 1000, 'one hint');
sql('CHECKPOINT');
my ($leaf, $bits) = split /\|/,
  sql("SELECT l.block, key_bits FROM harmonia_segments('t_k') s, harmonia_leaves('t_k', s.block) l WHERE tid_bytes = 4 LIMIT 1");
my $path = sql("SELECT pg_relation_filepath('t_k')");
$primary->wait_for_catchup($standby);
$standby->safe_psql('postgres', 'CHECKPOINT');
$standby->stop;

my $data = read_index($standby->data_dir . "/$path");
my %slots = (16 => 21, 32 => 15);
my ($hole, $end_of_hole) = map { get(\$data, $leaf, $_, 'S') } 12, 14;
my $hints = "\0" x ($end_of_hole - $hole);
my $planted = 0;
for my $block (0 .. 58)
{
	my $count = get(\$data, $leaf, 512 + 128 * $block + 126, 'C');

	vec($hints, $block * $slots{$bits} + $_, 1) = 1 for 0 .. $count - 1;
	$planted += $count;
}
# One of them is right.
$planted--;
cmp_ok($planted, '>', 500, "$planted hints are planted");
put(\$data, $leaf, $hole, 'a*', $hints);
write_index($standby->data_dir . "/$path", $data);
$standby->start;

my ($session, $rows) = old_session($standby);
is($rows, 1000, 'a replica does not believe hints');
is(ask($session, $by_lookup), 1000, 'in a lookup neither');
my $snapshot = ask($session, 'SELECT pg_export_snapshot()');
$standby->promote;
is(ask($session, $by_index), 1000, 'nor does a transaction that began before the promotion');
is(ask($session, $by_lookup), 1000, 'in a lookup neither');

# Neither a worker's transaction nor one that has imported the snapshot began in recovery.
my $parallel = 'SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0;'
  . ' SET parallel_leader_participation = off; SET min_parallel_index_scan_size = 0';
ask($session, $parallel);
like(ask($session, "$lookups EXPLAIN $lookup"), qr/Gather.*HarmoniaLookup/s, 'a parallel lookup');
is(ask($session, $by_lookup), 1000, 'nor do its workers');
my $import = open_session($standby, $plans);
ask($import, "BEGIN ISOLATION LEVEL REPEATABLE READ; SET TRANSACTION SNAPSHOT '$snapshot'");
is(ask($import, $by_index), 1000, 'nor does one that has its snapshot');
is(ask($import, $by_lookup), 1000, 'in a lookup neither');
close_session($import);
ask($session, 'COMMIT');
is(ask($session, $by_index), 1000 - $planted, 'a later one does');
is(ask($session, $by_lookup), 1000 - $planted, 'in a lookup, too');
fill($standby);
is(ask($session, $by_index), 3000, 'entries of living rows are not removed, whatever hints say');
close_session($session);
check_index($standby, 't_k', 'the index is as its table');

$standby->stop;

# ----------------------------------------------------------------
# A snapshot that is too old finds out by LSNs, which hints leave alone.  So there are none where that is
# possible, up to PostgreSQL 16.
# ----------------------------------------------------------------
for my $threshold (sql('SHOW server_version_num') < 170000 ? ('-1', '1min') : ())
{
	$primary->append_conf('postgresql.conf', "old_snapshot_threshold = $threshold");
	$primary->restart;
	make_table();
	sql('DELETE FROM t WHERE k <= 500');
	is(scan(), 500, "old_snapshot_threshold $threshold: the rows that are left");
	my $session = open_session($primary, $plans);
	my $read = "SELECT pg_stat_get_xact_tuples_returned('t_k'::regclass)";
	ask($session, 'BEGIN');
	is(ask($session, $by_index), 500, "old_snapshot_threshold $threshold: the same rows");
	is(ask($session, $read), $threshold eq '-1' ? 500 : 1000, "old_snapshot_threshold $threshold: whether there are hints");
	ask($session, 'COMMIT');
	close_session($session);
}

$primary->stop;
done_testing();
