# A movement marks the leaves of new segments, and counts the change of structure after that.  A re-sync that takes the marks
# in between has an old list of leaves.  It must not send that as the list of the state after the movement: nothing would be
# marked any more that tells of the new leaves.
#
# The library is built with FAULT_POINTS (src/am/fault.h) and SMALL_LIMITS.
use strict;
use warnings;

use FaultSessions;
use Harmonia;
use HarmoniaDevice;
use Test::More;

my $lookups = 'SET enable_bitmapscan = off; SET enable_indexscan = off; SET enable_indexonlyscan = off;';

sub counting
{
	return 'SELECT count(*) FROM t WHERE k = ANY (ARRAY('
	  . join(' UNION ALL ', map { "SELECT generate_series($_->[0], $_->[1])" } @_) . '))';
}

sub answers_are
{
	my ($session, $query, $name) = @_;

	is(ask($session, $query), ask($session, "SET harmonia.enable_device = off; $query; RESET harmonia.enable_device"), $name);
	return;
}

# Leave something to move.
sub stop_movement
{
	my ($node) = @_;
	my ($result, $out, $err) =
	  $node->psql('postgres', "SET harmonia.fault = 'move_freed:error'; SELECT harmonia_reorganize('t_k')");

	like($err, qr/fault point "move_freed"/, 'a movement was stopped');
	return;
}

# Begin a movement that has marked leaves, and not counted the change.
sub begin_movement
{
	my ($node) = @_;
	my $mover = open_session($node, "SET harmonia.fault = 'move_flip_marked:wait'");

	hold($node, 'move_flip_marked');
	send_sql($mover, "SELECT harmonia_reorganize('t_k')");
	wait_until($node, "SELECT FROM pg_stat_activity WHERE pid = $mover->{pid} AND wait_event = 'PgSleep'")
	  || die 'move_flip_marked was not reached';
	return $mover;
}

sub end_movement
{
	my ($mover) = @_;

	release('move_flip_marked');
	like(answer($mover), qr/^\d+$/, 'the movement');
	close_session($mover);
	return;
}

# Wait until a session stops at a point or waits for the movement.
sub goes_on
{
	my ($node, $session) = @_;

	return wait_until($node, "SELECT FROM pg_stat_activity WHERE pid = $session->{pid}"
		  . " AND (state LIKE 'idle%' OR wait_event = 'advisory' OR wait_event ~ '^Buffer')");
}

# The second attempt to make a copy: pages are there, the list is sent anew.
sub test_whole_copy
{
	my $node = new_device_node('whole_copy');
	my $query = counting([ 1, 70000 ]);

	$node->safe_psql('postgres', <<'END');
CREATE TABLE t (k int) WITH (autovacuum_enabled = off);
INSERT INTO t SELECT 10 * i FROM generate_series(1, 6000) i;
CREATE INDEX t_k ON t USING harmonia (k);
INSERT INTO t SELECT 20 * i + 5 FROM generate_series(1, 3000) i;
END
	stop_movement($node);
	my ($loader, $other) = map { open_session($node, $lookups) } 1 .. 2;

	hold($node, 'sync_listed');
	ask($loader, "SET harmonia.fault = 'sync_listed:wait:0:2'");
	send_sql($loader, "SELECT harmonia_load('t_k')");
	stopped_at($node, 'sync_listed');
	ask($other, 'INSERT INTO t SELECT 30000 + i % 100 FROM generate_series(1, 500) i');
	release_once($node, 'sync_listed');
	stopped_at($node, 'sync_listed');
	my $mover = begin_movement($node);

	release('sync_listed');
	goes_on($node, $loader);
	end_movement($mover);
	like(answer($loader), qr/^\d+$/, 'a whole copy');
	ask($other, 'INSERT INTO t VALUES (17), (12345), (42345), (55555), (60001)');
	answers_are($other, $query, 'after some inserts');
	ask($other, 'INSERT INTO t SELECT 10 * i + 3 FROM generate_series(1, 6000, 17) i');
	answers_are($other, $query, 'after more inserts');
	close_session($_) for ($loader, $other);
	$node->stop;
	return;
}

test_whole_copy();
done_testing();
