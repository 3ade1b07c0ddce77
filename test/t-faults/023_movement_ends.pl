# Movements that do not end as they began: the copy is given up twice, the disk is full, something fails
# while writers are kept out.  Nothing is lost, writers go on, and a later movement works.
#
# The library is built with FAULT_POINTS (src/am/fault.h) and SMALL_LIMITS.
use strict;
use warnings;

use FaultSessions;
use Harmonia;
use PostgreSQL::Test::Utils;
use Test::More;

# WAL is in small files, so that the index is the largest file.
my $node = new_node('movement_ends', extra => [ '--wal-segsize=1' ], conf => <<'END');
shared_buffers = 32MB
min_wal_size = 2MB
wal_consistency_checking = generic
END

sub sql { return $node->safe_psql('postgres', $_[0]); }

# The index has what its table has, and answers as the btree does.
sub check
{
	my ($name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	check_index($node, 't_k', "$name: the index is as the table");
	my $rows = "SELECT md5(string_agg(k || ' ' || ctid, ',')) FROM (SELECT %s k, ctid FROM t WHERE %s < 10000000 ORDER BY %s, ctid) s";
	my @answers = map {
		sql('SET enable_seqscan = off; SET enable_bitmapscan = off; ' . $rows =~ s/%s/$_/gr)
	} ('k', 'k2');
	is($answers[0], $answers[1], "$name: the same rows as with a btree");
	return;
}

sub make_table
{
	my ($kind, $fillfactor, $rows) = @_;

	sql(<<"END");
SET client_min_messages = warning;
DROP TABLE IF EXISTS t;
CREATE $kind TABLE t (k int, k2 int) WITH (autovacuum_enabled = off);
INSERT INTO t SELECT 10 * i, 10 * i FROM generate_series(1, $rows) i;
CREATE INDEX t_k ON t USING harmonia (k) WITH (fillfactor = $fillfactor);
CREATE INDEX t_k2 ON t (k2);
END
	return;
}

sub moving { return sql("SELECT count(*) FROM harmonia_segments('t_k') WHERE state = 'moving'"); }

# ----------------------------------------------------------------
# A segment changes so fast that it is copied three times
#
# It is the last one, with room for more leaves.  Its copy has room for few, and rows come at the end.
# The third copy is made while writers are kept out.
# ----------------------------------------------------------------
my $last_leaves = "(SELECT leaves FROM harmonia_segments('t_k') ORDER BY segment DESC LIMIT 1)";
my $append = "INSERT INTO t SELECT m + 10 * i, m + 10 * i FROM (SELECT max(k2) m FROM t) s, generate_series(1, 10) i";

# Rows are appended until the last segment has so many leaves.
sub append_until
{
	my ($leaves) = @_;

	return "DO \$\$ BEGIN WHILE $last_leaves <> $leaves LOOP $append; END LOOP; END \$\$";
}

for my $kind ('', 'UNLOGGED')
{
	my $name = lc("$kind three copies") =~ s/^ //r;
	my ($mover, $writer, $other) = map { open_session($node) } 1 .. 3;

	make_table($kind, 10, 30000);
	sql(append_until(1));
	sql(append_until(4));
	my ($segment, $room) = split /\|/, sql("SELECT segment, leaf_room FROM harmonia_segments('t_k') ORDER BY segment DESC LIMIT 1");
	cmp_ok($room, '>=', 10, "$name: the last segment has room");

	# So that one leaf less is needed
	my $low = sql("SELECT min(l.low_key) - 2147483648 FROM harmonia_segments('t_k') s, harmonia_leaves('t_k', s.block) l WHERE segment = $segment AND leaf > 0");
	sql("DELETE FROM t WHERE k > $low AND k % 30 = 0 AND k2 < (SELECT max(k2) - 100 FROM t)");
	sql('VACUUM (INDEX_CLEANUP on, TRUNCATE off) t');
	is(sql("SELECT leaves FROM harmonia_segments('t_k') ORDER BY segment DESC LIMIT 1"), 4, "$name: its leaves are sparse");
	my $at_move = "SELECT harmonia_reorganize('t_k')";
	hold($node, 'move_copied');
	ask($mover, "SET harmonia.fault = 'move_copied:wait:0:3'");
	send_sql($mover, $at_move);
	stopped_at($node, 'move_copied');
	is(ask($writer, append_until(5)), '', "$name: rows at the end of the first copy");
	release_once($node, 'move_copied');
	stopped_at($node, 'move_copied');
	is(moving(), 0, "$name: the second copy is made beside writers");
	is(ask($writer, append_until($room)), '', "$name: rows at the end of the second copy");
	release_once($node, 'move_copied');
	stopped_at($node, 'move_copied');
	is(moving(), 1, "$name: the third copy is made while writers are kept out");
	send_sql($writer, $append);
	ok(blocked_on($node, pausing($node, 'Movement'), '^INSERT INTO t SELECT m'), "$name: a writer waits");
	is(ask($other, 'INSERT INTO t VALUES (5, 5)'), '', "$name: one elsewhere does not");
	release('move_copied');
	cmp_ok(answer($mover), '>', 0, "$name: the segment is moved");
	is(answer($writer), '', "$name: the writer goes on");
	is(moving(), 0, "$name: no mark is left");
	check($name);
	close_session($_) for ($mover, $writer, $other);
}

# ----------------------------------------------------------------
# Something fails while writers are kept out
#
# The mover stops before its mark, and a leaf gets so many rows that the copy, too, has to be split.  Then
# the disk is full, as the limit for the size of files says.  Or the mover fails in its last round.
# ----------------------------------------------------------------
my $have_limits = system('prlimit --version >/dev/null 2>&1') == 0;
my $split = 'INSERT INTO t SELECT x, x FROM (SELECT 3000 + i % 400 x FROM generate_series(1, 3000) i) s';

# What the mover answers when it goes on.
sub last_round
{
	my ($mover, $writer, $fails) = @_;

	hold($node, 'move_followed');
	ask($mover, "SET harmonia.fault = 'move_followed:wait'");
	send_sql($mover, "SELECT harmonia_reorganize('t_k')");
	stopped_at($node, 'move_followed');
	is(ask($writer, 'INSERT INTO t SELECT x, x FROM (SELECT 3000 + i % 3 x FROM generate_series(1, 4000) i) s'), '', 'leaves are split');
	$fails->($mover);
	release('move_followed');
	return answer($mover);
}

# The mark of a movement that has failed is gone after the next insert, and the segment can be moved.
sub check_failed
{
	my ($name, $writer, $other) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	is(moving(), 1, "$name: the mark is left");
	is(ask($other, 'INSERT INTO t VALUES (500000, 500000)'), '', "$name: a writer elsewhere");
	is(ask($writer, "SET statement_timeout = '60s'; INSERT INTO t VALUES (3001, 3001)"), '', "$name: a writer goes on");
	is(moving(), 0, "$name: and has removed the mark");
	check($name);
	cmp_ok(sql("SELECT harmonia_reorganize('t_k')"), '>', 0, "$name: a later movement works");
	check("$name, later");
	sql('VACUUM t') for 1 .. 2;
	cmp_ok(sql("SELECT lost_pages FROM harmonia_index_info('t_k')"), '<=', 20, "$name: no block stays lost");
	return;
}

for my $kind ($have_limits ? ('', 'UNLOGGED') : ())
{
	my $name = lc("$kind full disk") =~ s/^ //r;
	my ($mover, $writer, $other) = map { open_session($node) } 1 .. 3;

	make_table($kind, 10, 60000);
	sql($split);
	my $answer = last_round($mover, $writer, sub {
		my $size = sql("SELECT pg_relation_size('t_k')");
		cmp_ok($size, '>', sql("SELECT pg_relation_size('t')"), "$name: the index is the largest file");
		system_or_bail('prlimit', "--pid=$_[0]{pid}", "--fsize=$size:unlimited");
	});
	like($answer, qr/could not extend file/, "$name: there is no room for the copy");
	check_failed($name, $writer, $other);
	close_session($_) for ($mover, $writer, $other);
}

for my $kind ('', 'UNLOGGED')
{
	my $name = lc("$kind error in the last round") =~ s/^ //r;
	my ($mover, $writer, $other) = map { open_session($node) } 1 .. 3;

	make_table($kind, 10, 60000);
	sql($split);
	my ($leaves) = split /\|/, sql("SELECT leaves FROM harmonia_segments('t_k') WHERE auxiliaries > 0");
	ask($mover, "SET harmonia.fault = 'move_leaf_checked:error:" . ($leaves + 3) . "'");
	like(ask($mover, "SELECT harmonia_reorganize('t_k')"), qr/fault point "move_leaf_checked"/, "$name: it fails");
	check_failed($name, $writer, $other);
	close_session($_) for ($mover, $writer, $other);
}

# ----------------------------------------------------------------
# VACUUM moves the segments of several indexes at the same time, by its parallel workers
# ----------------------------------------------------------------
{
	my $name = 'workers of VACUUM';
	my ($vacuum, $writer) = map { open_session($node) } 1 .. 2;

	make_table('', 10, 60000);
	sql('CREATE INDEX t_sum ON t USING harmonia ((k + k2)) WITH (fillfactor = 10); DELETE FROM t WHERE k % 100 <> 0');
	my $movements = "SELECT movements FROM harmonia_index_info('%s')";
	my @before = map { sql(sprintf $movements, $_) } ('t_k', 't_sum');
	hold($node, 'move_flagged');
	ask($vacuum, "SET min_parallel_index_scan_size = 0; SET max_parallel_maintenance_workers = 2; SET harmonia.fault = 'move_flagged:wait'");
	send_sql($vacuum, 'VACUUM (PARALLEL 2, INDEX_CLEANUP on, TRUNCATE off) t');
	ok(wait_until($node, "SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted HAVING count(DISTINCT pid) = 2"),
		"$name: two processes have marked a segment each");
	is(sql("SELECT string_agg(DISTINCT backend_type, ', ' ORDER BY backend_type) FROM pg_stat_activity WHERE pid IN (SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND NOT granted)"),
		'client backend, parallel worker', "$name: one is a parallel worker");
	send_sql($writer, 'INSERT INTO t VALUES (101, 101)');
	ok(blocked_on($node, pausing($node, 'Movement'), '^INSERT INTO t VALUES .101'), "$name: a writer waits");
	release('move_flagged');
	is(answer($_), '', "$name: a session ends") for ($vacuum, $writer);
	cmp_ok(sql(sprintf $movements, ('t_k', 't_sum')[$_]), '>', $before[$_] + 1, "$name: segments are moved") for 0, 1;
	check($name);
	is(sql("SELECT harmonia_check('t_sum', true)"), '', "$name: the other index is as the table");
	close_session($_) for ($vacuum, $writer);
}

$node->stop;
done_testing();
