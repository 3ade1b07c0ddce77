# A split is planned before its header is locked (hm_make_room_at()).  The session stops between the two, with its leaf
# locked, while others change the segment.
#
# The library is built with FAULT_POINTS (src/am/fault.h) and SMALL_LIMITS.
use strict;
use warnings;

use FaultSessions;
use Harmonia;
use Test::More;

my $node = new_node('planned_splits', conf => <<'END');
shared_buffers = 32MB
wal_consistency_checking = generic
END

sub sql { return $node->safe_psql('postgres', $_[0]); }

# Some segments.  Leaves have been split, so that movement pays.
sub make_table
{
	my ($kind) = @_;

	sql(<<"END");
SET client_min_messages = warning;
DROP TABLE IF EXISTS t;
CREATE $kind TABLE t (k int) WITH (autovacuum_enabled = off);
INSERT INTO t SELECT 10 * i FROM generate_series(1, 6000) i;
CREATE INDEX t_k ON t USING harmonia (k) WITH (fillfactor = 90);
INSERT INTO t SELECT 20 * i + 5 FROM generate_series(1, 3000) i;
END
	return;
}

# One row after the other, so that none is in a batch.
sub insert_rows
{
	my ($key, $rows) = @_;

	return "INSERT INTO t SELECT x FROM (SELECT $key x FROM generate_series(1, $rows) i) s";
}

# A session whose next row by which a leaf is split stops when the split is planned.
sub open_splitter
{
	my ($key) = @_;
	my $session = open_session($node, 'SET harmonia.batch_inserts = off');

	hold($node, 'split_planned');
	ask($session, "SET harmonia.fault = 'split_planned:wait'");
	send_sql($session, insert_rows("$key + i % 90", 2000));
	ok(blocked_on($node, 'PgSleep', "^INSERT INTO t SELECT x FROM .SELECT $key"), 'a split is planned');
	return $session;
}

# ----------------------------------------------------------------
# A mover sets its mark: the mark is looked at after the header has been locked
# ----------------------------------------------------------------
for my $kind ('', 'UNLOGGED')
{
	my $name = lc("$kind a mark") =~ s/^ //r;
	my $mover = open_session($node);

	make_table($kind);
	hold($node, 'move_followed');
	ask($mover, "SET harmonia.fault = 'move_followed:wait'");
	send_sql($mover, "SELECT harmonia_reorganize('t_k')");
	stopped_at($node, 'move_followed');
	my $splitter = open_splitter(3000);
	release('move_followed');

	# It has set the mark, and wants the leaf.
	ok(blocked_on($node, 'BufferContent', '^SELECT harmonia_reorganize'), "$name: the mover waits for the leaf");
	release('split_planned');
	like(answer($mover), qr/^[1-9]\d*$/, "$name: segments are moved");
	is(answer($splitter), '', "$name: the writer goes on");
	close_session($_) for ($mover, $splitter);
	check_index($node, 't_k', "$name: the index is as the table");
}

# ----------------------------------------------------------------
# Others write to other leaves of the segment meanwhile, and split these: the header is not locked
# ----------------------------------------------------------------
{
	my $name = 'other leaves';

	make_table('');
	my $leaves = sql("SELECT sum(leaves) FROM harmonia_segments('t_k')");
	my $splitter = open_splitter(3000);
	my ($writer, $neighbour) = map { open_session($node, 'SET harmonia.batch_inserts = off') } 1 .. 2;

	# A writer that waits for the header could not be cancelled.
	send_sql($writer, insert_rows('12000 + i % 90', 1000));
	my $ended = ends_without_wait($node, $writer, '^INSERT INTO t SELECT x FROM .SELECT 12000');
	ok($ended, "$name: a writer of another leaf does not wait");

	# This reads the header.
	cmp_ok(sql("SELECT sum(leaves) FROM harmonia_segments('t_k')"), '>', $leaves, "$name: it has split that") if $ended;
	send_sql($neighbour, insert_rows('3001', 1));
	ok(blocked_on($node, 'BufferContent', '^INSERT INTO t SELECT x FROM .SELECT 3001'), "$name: a writer of the same leaf waits");
	release('split_planned');
	is(answer($_), '', "$name: all go on") for ($writer, $splitter, $neighbour);
	close_session($_) for ($splitter, $writer, $neighbour);
	check_index($node, 't_k', "$name: the index is as the table");
}

# ----------------------------------------------------------------
# The header is not free: the row goes to one of the slots that are left free, and waits for nothing with its leaf locked
# ----------------------------------------------------------------
{
	my $name = 'the header is locked';
	make_table('');
	my ($writer, $mover) = map { open_session($node, 'SET harmonia.batch_inserts = off') } 1 .. 2;

	# Fill a leaf, row by row: of a statement that fails, all rows would be dead, and leave the leaf.
	ask($writer, "SET harmonia.fault = 'split_planned:error'");
	my $rows = 0;
	$rows++ while $rows < 2000 && ask($writer, 'INSERT INTO t VALUES (' . (3000 + $rows % 90) . ')') eq '';
	cmp_ok($rows, '<', 2000, "$name: a leaf is full");
	hold($node, 'move_flagging');
	ask($mover, "SET harmonia.fault = 'move_flagging:wait'");
	send_sql($mover, "SELECT harmonia_reorganize('t_k')");
	ok(blocked_on($node, 'PgSleep', '^SELECT harmonia_reorganize'), "$name: by a mover");
	send_sql($writer, "SET harmonia.fault = ''; INSERT INTO t VALUES (" . (3000 + $rows % 90) . ')');
	ok(ends_without_wait($node, $writer, '^INSERT INTO t VALUES'), "$name: a row does not wait");
	release('move_flagging');
	is(answer($writer), '', "$name: it is inserted");
	like(answer($mover), qr/^[1-9]\d*$/, "$name: the mover goes on");
	close_session($_) for ($writer, $mover);
	check_index($node, 't_k', "$name: the index is as the table");
}

# ----------------------------------------------------------------
# Nothing is in the way: the leaf is split where it was found full, and not looked for again
# ----------------------------------------------------------------
{
	my $name = 'one session alone';
	make_table('');
	my $session = open_session($node, 'SET harmonia.batch_inserts = off');
	my $leaves = "SELECT sum(leaves) FROM harmonia_segments('t_k')";
	my $before = sql($leaves);

	ask($session, "SET harmonia.fault = 'insert_leaf_full:error'");
	is(ask($session, insert_rows('3000 + i % 90', 1000)), '', "$name: no second attempt");
	cmp_ok(sql($leaves), '>', $before, "$name: leaves are split");
	close_session($session);
	check_index($node, 't_k', "$name: the index is as the table");
}

# ----------------------------------------------------------------
# The session fails: no lock stays
# ----------------------------------------------------------------
{
	my $name = 'an error';
	make_table('');
	my $session = open_session($node, "SET harmonia.batch_inserts = off; SET harmonia.fault = 'split_planned:error'");

	like(ask($session, insert_rows('3000 + i % 90', 2000)), qr/split_planned/, "$name: the split fails");
	is(ask($session, insert_rows('3000 + i % 90', 2000)), '', "$name: the next one does not");
	close_session($session);
	check_index($node, 't_k', "$name: the index is as the table");
}

$node->stop;
done_testing();
