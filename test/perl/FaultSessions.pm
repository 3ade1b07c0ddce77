# Sessions that wait at fault points (src/am/fault.h) while others go on.
package FaultSessions;

use strict;
use warnings;

use Exporter 'import';
use IPC::Run ();
use PostgreSQL::Test::Utils;
use Time::HiRes qw(usleep);

our @EXPORT = qw(
  open_session close_session send_sql ask answer
  hold release release_once wait_until stopped_at blocked_on settled ends_without_wait pausing
);

my %holders;

# A session of psql that stays open.  Setup is SQL that it runs first.
sub open_session
{
	my ($node, $setup) = @_;
	my $session = { in => '', out => '', err => '', sent => 0 };

	$session->{timeout} = IPC::Run::timeout(5 * $PostgreSQL::Test::Utils::timeout_default);
	$session->{run} = IPC::Run::start(
		[ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-f', '-' ],
		'<', \$session->{in}, '>', \$session->{out}, '2>', \$session->{err},
		$session->{timeout});
	$session->{pid} =
	  ask($session, "LOAD 'harmonia'; SET enable_seqscan = off;"
		  . 'SELECT pg_backend_pid();' . ($setup // ''));
	return $session;
}

sub close_session
{
	my ($session) = @_;

	# The session may have lost its backend.
	eval { $session->{run}->finish; 1 } or do {
		die $@ if $@ =~ /timeout/;
	};
	return;
}

# Send SQL and do not wait for the answer.
sub send_sql
{
	my ($session, $sql) = @_;

	$session->{out} = $session->{err} = '';
	$session->{sent}++;
	$session->{in} .= "$sql;\n\\echo end $session->{sent}\n";
	$session->{run}->pump_nb while $session->{in} ne '';
	return;
}

# Wait for the answer: the output, then the errors.
sub answer
{
	my ($session) = @_;

	$session->{timeout}->reset;
	$session->{timeout}->start;
	$session->{run}->pump until $session->{out} =~ s/^end $session->{sent}\n//m;
	my $result = $session->{out} . $session->{err};
	chomp $result;
	return $result;
}

# Send SQL and wait for the answer.
sub ask
{
	my ($session, $sql) = @_;

	send_sql($session, $sql);
	return answer($session);
}

# Make sessions wait at a fault point until release().  They must have set the point's
# action to "wait".
sub hold
{
	my ($node, $point) = @_;

	$holders{$point} //= open_session($node);
	ask($holders{$point}, "SELECT pg_advisory_lock(hashtext('$point'))");
	return;
}

sub release
{
	my ($point) = @_;

	close_session(delete $holders{$point});
	return;
}

# Let a session that has stopped at a fault point go on, and make those wait that come to the point next.
sub release_once
{
	my ($node, $point) = @_;
	my $next = open_session($node);

	# It stands in the queue behind the session that has stopped.
	send_sql($next, "SELECT pg_advisory_lock(hashtext('$point'))");
	wait_until($node, "SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND pid = $next->{pid}")
	  || die "the lock of $point is free";
	release($point);
	answer($next);
	$holders{$point} = $next;
	return;
}

# Wait until a query returns a row; false if it does not within the usual time.
sub wait_until
{
	my ($node, $condition) = @_;

	return $node->poll_query_until('postgres', "SELECT EXISTS ($condition)");
}

# Wait until a session stops at a fault point.
sub stopped_at
{
	my ($node, $point) = @_;

	return wait_until($node,
		"SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
		  . " AND objid = (hashtext('$point')::bigint & 4294967295)::oid")
	  || die "$point was not reached";
}

# Wait until the last statement of a session, which matches a pattern, has ended; false if the session waits for a
# buffer's lock, which it then does for two seconds.
sub ends_without_wait
{
	my ($node, $session, $pattern) = @_;
	my $waits = 0;

	for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
	{
		my $state = $node->safe_psql('postgres', <<"END");
SELECT CASE WHEN state = 'idle' AND query ~ '$pattern' THEN 'ended' WHEN wait_event ~ '^Buffer' THEN 'waits' ELSE 'runs' END
FROM pg_stat_activity WHERE pid = $session->{pid}
END
		return 1 if $state eq 'ended';
		$waits = $state eq 'waits' ? $waits + 1 : 0;
		return 0 if $waits > 20;
		usleep(100_000);
	}
	return 0;
}

# The wait event of a backend that tries to get a lock again and again, "Movement" or
# "Allocation".  Servers before 17 call both of them "Extension".
sub pausing
{
	my ($node, $name) = @_;

	return $node->safe_psql('postgres', 'SHOW server_version_num') >= 170000 ? "Harmonia$name" : 'Extension';
}

# Wait until a session's statement has ended or waits for another session.
sub settled
{
	my ($node, $session) = @_;

	return wait_until($node,
		"SELECT FROM pg_stat_activity WHERE pid = $session->{pid}"
		  . " AND (state LIKE 'idle%' OR wait_event_type IN ('Lock', 'BufferPin', 'Extension'))");
}

# Wait until a statement that matches a pattern waits for an event.  The event can be a
# regular expression, such as 'BufferPin|page'.
sub blocked_on
{
	my ($node, $event, $pattern) = @_;

	return wait_until($node,
		"SELECT FROM pg_stat_activity WHERE state = 'active' AND wait_event ~ '^($event)\$' AND query ~ '$pattern'");
}

1;
