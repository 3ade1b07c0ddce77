# A movement copies leaves while writers go on.  Sessions change leaves between its steps: each change is in
# the new segments, too.
#
# Each case is tried with an index that writes WAL and with an unlogged one, of which LSNs say nothing; what
# has changed is found in different ways.
#
# The library is built with FAULT_POINTS (src/am/fault.h) and SMALL_LIMITS.
use strict;
use warnings;

use FaultSessions;
use Harmonia;
use Test::More;

my $node = new_node('movement', conf => <<'END');
shared_buffers = 32MB
wal_consistency_checking = generic
restart_after_crash = on
END

sub sql { return $node->safe_psql('postgres', $_[0]); }

# Some segments.  Leaves have been split, so that movement pays; the rows are few, so that many changes fit.
# The rows of 20000 to 29999 come last in the table.
sub make_table
{
	my ($kind) = @_;

	sql(<<"END");
SET client_min_messages = warning;
DROP TABLE IF EXISTS t;
CREATE $kind TABLE t (k int, k2 int) WITH (autovacuum_enabled = off);
INSERT INTO t SELECT 10 * i, 10 * i FROM generate_series(1, 6000) i;
CREATE INDEX t_k ON t USING harmonia (k) WITH (fillfactor = 90);
CREATE INDEX t_k2 ON t (k2);
INSERT INTO t SELECT 20 * i + 5, 20 * i + 5 FROM generate_series(1, 3000) i;
END
	return;
}

# The index has what its table has, and answers as the btree does.
sub check
{
	my ($name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	check_index($node, 't_k', "$name: the index is as the table");
	my $rows = "SELECT md5(string_agg(k || ' ' || ctid, ',')) FROM (SELECT %s k, ctid FROM t WHERE %s < 1000000 ORDER BY %s, ctid) s";
	my @answers = map {
		sql('SET enable_seqscan = off; SET enable_bitmapscan = off; ' . $rows =~ s/%s/$_/gr)
	} ('k', 'k2');
	is($answers[0], $answers[1], "$name: the same rows as with a btree");
	return;
}

# Rows with these keys, one statement for each, so that none is in a batch.
sub insert_each
{
	my (@keys) = @_;

	return join(';', map { "INSERT INTO t VALUES ($_, $_)" } @keys);
}

sub insert_many
{
	my ($key, $from, $to) = @_;

	return "INSERT INTO t SELECT x, x FROM (SELECT $key x FROM generate_series($from, $to) i) s";
}

# What is done while the mover has stopped.
my @changes = (
	[ 'no change' => 'SELECT 1' ],
	[ 'a row here and there' => insert_each(map { 97 + 1000 * $_ } 0 .. 59) ],
	[ 'the least and the greatest row' => insert_each(-5, 0, 70000, 70001) ],
	[ 'a batch in each leaf' => insert_many('20 * i + 7', 1, 3000) ],
	[ 'leaves that are split' => insert_many('30000 + i % 100', 1, 3000) ],
	[ 'leaves that are split, row by row' => 'SET harmonia.batch_inserts = off; ' . insert_many('31000 + i % 100', 1, 2000) ],
	[ 'rows at the end' => insert_many('70000 + i', 1, 5000) ],
	# The table is asked for dead rows when a leaf is full.
	[ 'dead rows that leave early' => 'SET harmonia.batch_inserts = off; DELETE FROM t WHERE k BETWEEN 40000 AND 42000;'
		  . insert_many('40000 + i % 100', 1, 2000) ],
	[ 'rows that are inserted and rolled back' => 'BEGIN; ' . insert_many('45000 + i', 1, 3000) . '; ROLLBACK' ]);

for my $kind ('', 'UNLOGGED')
{
	for my $point ('move_copied', 'move_followed')
	{
		for my $change (@changes)
		{
			my ($name, $statements) = @$change;
			$name = lc("$kind $point, $name") =~ s/^ //r;
			my ($mover, $writer) = map { open_session($node) } 1 .. 2;

			make_table($kind);
			hold($node, $point);
			ask($mover, "SET harmonia.fault = '$point:wait:1'");
			send_sql($mover, "SELECT harmonia_reorganize('t_k')");
			stopped_at($node, $point);
			is(ask($writer, "SET statement_timeout = '60s'; $statements") =~ s/^1$//r, '', "$name: the writer does not wait");
			release($point);
			cmp_ok(answer($mover), '>', 0, "$name: segments are moved");
			is(ask($writer, 'RESET statement_timeout; ' . insert_each(41, 42, 43)), '', "$name: the writer goes on");
			close_session($_) for ($mover, $writer);
			check($name);
		}
	}
}

# ----------------------------------------------------------------
# Writers are kept out before the leaves are looked at for the last time
#
# The mover stops in the middle of its last round.  A row for a leaf that it has passed would be lost.
# ----------------------------------------------------------------
for my $kind ('', 'UNLOGGED')
{
	my $name = lc("$kind the last round") =~ s/^ //r;
	my ($mover, $writer) = map { open_session($node) } 1 .. 2;

	make_table($kind);
	my ($leaves) = split /\|/, sql("SELECT leaves FROM harmonia_segments('t_k') ORDER BY block LIMIT 1");
	my $skip = $leaves + 1;

	# The writer remembers its leaf.
	ask($writer, insert_each(3, 4));
	hold($node, 'move_leaf_checked');
	ask($mover, "SET harmonia.fault = 'move_leaf_checked:wait:$skip'");
	send_sql($mover, "SELECT harmonia_reorganize('t_k')");
	stopped_at($node, 'move_leaf_checked');
	send_sql($writer, insert_each(5));
	ok(blocked_on($node, pausing($node, 'Movement'), '^INSERT INTO t VALUES .5'), "$name: the writer waits");
	release('move_leaf_checked');
	cmp_ok(answer($mover), '>', 0, "$name: segments are moved");
	is(answer($writer), '', "$name: the writer goes on");
	close_session($_) for ($mover, $writer);
	check($name);
}

# ----------------------------------------------------------------
# The last segment gets a high bound
#
# Another segment is added after it, and nothing else changes in it: its last leaf was full.  The copy has no
# high bound.  The segment could be packed better, and nothing in it is shadowed: otherwise its auxiliary node would get
# the next leaf.
# ----------------------------------------------------------------
{
	my $name = 'a segment after the last one';
	my ($mover, $writer) = map { open_session($node) } 1 .. 2;
	my $segments = "SELECT count(*) FROM harmonia_segments('t_k')";
	my $add = 'INSERT INTO t SELECT m + 1, m + 1 FROM (SELECT max(k2) m FROM t) s';
	my $small = sub {
		sql(<<'END');
SET client_min_messages = warning;
DROP TABLE IF EXISTS t;
CREATE TABLE t (k int, k2 int) WITH (autovacuum_enabled = off);
INSERT INTO t SELECT 10 * i, 10 * i FROM generate_series(1, 2500) i;
CREATE INDEX t_k ON t USING harmonia (k) WITH (fillfactor = 50);
ALTER INDEX t_k SET (fillfactor = 90);
CREATE INDEX t_k2 ON t (k2);
END
	};

	$small->();
	is(sql($segments), '1', "$name: there is one");
	sql("DO 'BEGIN WHILE ($segments) = 1 LOOP $add; END LOOP; END'" =~ s/'t_k'/''t_k''/r);
	my $added = sql('SELECT count(*) FROM t WHERE k2 > 25000');
	$small->();
	sql("DO 'BEGIN FOR i IN 2 .. $added LOOP $add; END LOOP; END'");
	is(sql($segments), '1', "$name: its last leaf is full");

	hold($node, 'move_copied');
	ask($mover, "SET harmonia.fault = 'move_copied:wait'");
	send_sql($mover, "SELECT harmonia_reorganize('t_k')");
	stopped_at($node, 'move_copied');
	is(ask($writer, $add), '', "$name: a row");
	is(sql($segments), '2', "$name: there are two");
	release('move_copied');
	cmp_ok(answer($mover), '>', 0, "$name: it is moved");
	is(sql($segments), '2', "$name: there are two afterwards");
	close_session($_) for ($mover, $writer);
	check($name);
}

# ----------------------------------------------------------------
# VACUUM removes entries that have been copied
#
# An insert moves a segment.  Afterwards other rows get the TIDs of the removed ones.
# ----------------------------------------------------------------
for my $kind ('', 'UNLOGGED')
{
	my $name = lc("$kind VACUUM") =~ s/^ //r;
	my ($mover, $vacuum) = map { open_session($node) } 1 .. 2;
	my $rows = 'INSERT INTO t SELECT x, x FROM (SELECT 30000 + i * 7919 % 1000 x FROM generate_series(1, 16000) i) s';

	make_table($kind);
	sql('DELETE FROM t WHERE k BETWEEN 25000 AND 31000');
	hold($node, 'move_copied');
	ask($mover, "SET harmonia.fault = 'move_copied:wait'");
	send_sql($mover, $rows);
	stopped_at($node, 'move_copied');
	my $entries = "SELECT sum(entries) FROM harmonia_segments('t_k') s, harmonia_leaves('t_k', s.block) l WHERE l.low_key BETWEEN 2147508648 AND 2147514648";
	my $before = sql($entries);
	send_sql($vacuum, 'VACUUM (INDEX_CLEANUP on, TRUNCATE off) t');
	ok(wait_until($node, "SELECT FROM ($entries) s WHERE s.sum < $before"), "$name: entries are removed");
	release('move_copied');
	is(answer($_), '', "$name: a session ends") for ($mover, $vacuum);
	close_session($_) for ($mover, $vacuum);
	sql('INSERT INTO t SELECT 26001, 26001 FROM generate_series(1, 900)');
	check($name);
}

# ----------------------------------------------------------------
# Crashes while a copy catches up
# ----------------------------------------------------------------
for my $fault ('move_following:panic:1', 'move_leaf_checked:panic:25', 'move_followed:panic', 'move_flagging:panic',
	'move_flagged:panic', 'move_complete:panic', 'move_flip_logged:panic')
{
	my $point = $fault =~ s/:.*//r;

	make_table('');
	my $writers = start_pgbench($node, {
			'row@10' => <<'END', 'batch@1' => <<'END' }, '-c', 3, '-t', 100_000);
\set k random(1, 60000)
INSERT INTO t VALUES (:k, :k);
DELETE FROM t WHERE k2 = :k + 1;
END
\set k random(1, 60000)
INSERT INTO t SELECT x, x FROM (SELECT :k + i % 50 x FROM generate_series(1, 300) i) s;
END
	wait_for_work($node);
	my $log_offset = -s $node->logfile;
	my ($result, $out, $err) = $node->psql('postgres',
		"LOAD 'harmonia'; SET harmonia.fault = '$fault'; SELECT harmonia_reorganize('t_k')");
	like($err, qr/PANIC.*fault point "$point"/, "$fault: crash");
	finish($writers);
	wait_for_restart($node, $log_offset);
	check($fault);
	is(sql(insert_each(1 .. 9)), '', "$fault: writers go on");
	sql('VACUUM t');
	sql("SELECT harmonia_reorganize('t_k')");
	check("$fault, later");
}

$node->stop;
done_testing();
