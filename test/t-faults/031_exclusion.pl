# The scan by which PostgreSQL checks an exclusion constraint, stopped while others change the index: a row with the same
# key is found, and no other row is taken for one.
#
# The library is built with FAULT_POINTS (src/am/fault.h) and SMALL_LIMITS.
use strict;
use warnings;

use FaultSessions;
use Harmonia;
use Test::More;

my $node = new_node('exclusion', conf => "deadlock_timeout = 10ms\n");

sub sql { return $node->safe_psql('postgres', $_[0]); }

# Rows of many leaves; that of key 1000 is dead.
sub make_table
{
	return sql(<<'END');
SET client_min_messages = warning;
DROP TABLE IF EXISTS t;
CREATE TABLE t (k int, v int, CONSTRAINT t_x EXCLUDE USING harmonia (k WITH =)) WITH (autovacuum_enabled = off);
INSERT INTO t SELECT i * 10, 0 FROM generate_series(1, 3000) i;
DELETE FROM t WHERE k = 1000;
END
}

# A session that inserts a row and stops in the scan which looks for others like it.
sub inserting
{
	my ($key, $point) = @_;
	my $session = open_session($node);

	hold($node, $point);
	ask($session, "SET harmonia.fault = '$point:wait'");
	send_sql($session, "INSERT INTO t VALUES ($key, 1)");
	stopped_at($node, $point);
	return $session;
}

my $conflict = qr/conflicting key value violates exclusion constraint "t_x"/;

# The dead row's line pointer cannot get another row as long as the scan may follow it.
make_table();
my $first = inserting(1000, 'scan_leaf_read');
my $other = open_session($node);
send_sql($other, 'VACUUM (INDEX_CLEANUP on, TRUNCATE off) t');
blocked_on($node, 'BufferPin', 'VACUUM') || die 'VACUUM does not wait';
release('scan_leaf_read');
is(answer($first), '', "a dead row's TID is not taken for another row's");
is(answer($other), '', 'VACUUM ends');
close_session($_) for $first, $other;
is(sql('INSERT INTO t VALUES (1001, 2); SELECT count(*) - count(DISTINCT k) FROM t'), 0, 'no key is there twice');

# Another session inserts the same key.  It finds the first one's row, which does not find its own if its leaf was read.
for my $point ('scan_descended', 'scan_leaf_read')
{
	make_table();
	my $first = inserting(1000, $point);
	my $other = open_session($node);

	send_sql($other, 'INSERT INTO t VALUES (1000, 2)');
	blocked_on($node, 'transactionid', 'INSERT INTO t VALUES .1000, 2.') || die "$point: the other session does not wait";
	release($point);
	my @answers = (answer($first), answer($other));
	like("@answers", $point eq 'scan_leaf_read' ? $conflict : qr/$conflict|deadlock detected/, "$point: one session fails");
	is($answers[0], '', "$point: the first one does not") if $point eq 'scan_leaf_read';
	is(sql('SELECT count(*) FROM t WHERE k = 1000'), 1, "$point: one row");
	close_session($_) for $first, $other;
	check_index($node, 't_x', "$point: the index is as the table");
}

# The row that conflicts is moved, with its segment, whose blocks are used again.
for my $point ('scan_descended', 'scan_leaf_read')
{
	make_table();
	my $pages = "SELECT string_agg(block::text, ' ') FROM harmonia_segments('t_x')";
	sql('INSERT INTO t SELECT i * 10 + 5 FROM generate_series(1, 3000) i');
	my $before = sql($pages);
	my $first = inserting(2000, $point);

	sql("SELECT harmonia_reorganize('t_x')");
	isnt(sql($pages), $before, "$point: segments have been moved");
	sql('INSERT INTO t SELECT i FROM generate_series(100000, 103000) i');
	release($point);
	like(answer($first), $conflict, "$point: the row is found where it is now");
	close_session($first);
	check_index($node, 't_x', "$point: the index is as the table after it was moved");
}

$node->stop;
done_testing();
