# A session that waits for a movement or the sweep is in no lock's queue.  lock_timeout and
# deadlock_timeout do not end this wait; all else that ends a wait does.
#
# The library is built with FAULT_POINTS (src/am/fault.h) and SMALL_LIMITS.
use strict;
use warnings;

use FaultSessions;
use Harmonia;
use Test::More;

my $node = new_node('waits', conf => "shared_buffers = 32MB\ndeadlock_timeout = 100ms\n");

sub sql { return $node->safe_psql('postgres', $_[0]); }

# Wait until a session has waited longer than its lock_timeout.
sub has_waited
{
	my ($session, $event) = @_;

	return wait_until($node,
		"SELECT FROM pg_stat_activity WHERE pid = $session->{pid} AND state = 'active'"
		  . " AND wait_event = '$event' AND clock_timestamp() > query_start + interval '200 ms'");
}

sub make_table
{
	return sql(<<'END');
SET client_min_messages = warning;
DROP TABLE IF EXISTS t, other;
CREATE TABLE t (k int) WITH (autovacuum_enabled = off);
INSERT INTO t SELECT i FROM generate_series(1, 6000) i;
CREATE INDEX t_k ON t USING harmonia (k) WITH (fillfactor = 100);
INSERT INTO t SELECT i FROM generate_series(1, 6000, 10) i;
CREATE TABLE other ();
END
}

# A name, the point at which the first statement stops, and the second, which waits for it,
# with the wait event.
for my $case (
	[ 'movement', 'move_flagged', "SELECT harmonia_reorganize('t_k')", 'INSERT INTO t VALUES (3000)', 'Movement' ],
	[ 'movement by another', 'move_locked', 'INSERT INTO t SELECT 3000 FROM generate_series(1, 20000)',
		"SELECT harmonia_reorganize('t_k') > 0", 'Movement' ],
	[ 'sweep', 'sweep_entered', 'VACUUM t', 'INSERT INTO t SELECT 3000 FROM generate_series(1, 20000)', 'Allocation' ])
{
	my ($name, $point, $first, $second, $event) = @$case;
	my ($holder, $waiter, $locker) = map { open_session($node) } 1 .. 3;

	for my $end ('goes on', 'is cancelled', 'times out')
	{
		make_table();
		hold($node, $point);
		ask($holder, "SET harmonia.fault = '$point:wait'");
		send_sql($holder, $first);
		stopped_at($node, $point);

		ask($waiter, q{SET lock_timeout = '1ms'; SET statement_timeout = 0});
		ask($waiter, q{SET statement_timeout = '500ms'}) if $end eq 'times out';
		send_sql($waiter, $second);
		if ($end eq 'goes on')
		{
			ok(has_waited($waiter, pausing($node, $event)), "$name: a session waits");
			release($point);
			unlike(answer($waiter), qr/ERROR/, "$name: it goes on");
		}
		elsif ($end eq 'is cancelled')
		{
			ok(has_waited($waiter, pausing($node, $event)), "$name: a session waits");
			sql("SELECT pg_cancel_backend($waiter->{pid})");
			like(answer($waiter), qr/due to user request/, "$name: it is cancelled");
		}
		else
		{
			like(answer($waiter), qr/due to statement timeout/, "$name: the statement times out");
		}
		release($point) if $end ne 'goes on';
		answer($holder);

		# Afterwards lock_timeout works for tables.
		is(ask($waiter, 'SET statement_timeout = 0; SHOW lock_timeout'), '1ms', "$name: lock_timeout is as it was");
		ask($locker, 'BEGIN; LOCK TABLE other');
		like(ask($waiter, 'SELECT FROM other'), qr/due to lock timeout/, "$name: lock_timeout works");
		ask($locker, 'COMMIT');
		is(sql("SELECT harmonia_check('t_k', true)"), '', "$name, $end: the index is whole");
	}
	close_session($_) for ($holder, $waiter, $locker);
}

$node->stop;
done_testing();
