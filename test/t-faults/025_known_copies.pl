# A session that has brought the device's copy of an index up to date searches it again without a re-sync, unless the
# copy may be out of date.
#
# The library is built with FAULT_POINTS (src/am/fault.h) and SMALL_LIMITS.
use strict;
use warnings;

use FaultSessions;
use Harmonia;
use HarmoniaDevice;
use Test::More;

my $node = new_device_node('known_copies');
my $query = 'SELECT count(*) FROM t WHERE k = ANY (ARRAY(SELECT 10 * i FROM generate_series(1, 9000) i))';

$node->safe_psql('postgres', <<'END');
CREATE TABLE t (k int) WITH (autovacuum_enabled = off);
INSERT INTO t SELECT 10 * i FROM generate_series(1, 3000) i;
CREATE INDEX t_k ON t USING harmonia (k);
END

my $session = open_session($node, 'SET enable_bitmapscan = off; SET enable_indexscan = off; SET enable_indexonlyscan = off');

sub device_batches
{
	return $node->safe_psql('postgres', q{SELECT sum(device_batches) FROM pg_stat_harmonia WHERE indexrelname ~ 't_k'}) || 0;
}

# The number of rows that the session finds, all of them on the device, or "re-sync" if it begins one.
sub rows_found
{
	my $before = device_batches();

	ask($session, "SET harmonia.fault = 'sync_begun:error'");
	my $answer = ask($session, $query);
	return 're-sync' if $answer =~ /fault point "sync_begun"/;
	is(device_batches() - $before, 1, 'the device has searched');
	return $answer;
}

# The same with any re-sync that is needed.
sub rows_found_at_last
{
	ask($session, "SET harmonia.fault = ''");
	return ask($session, $query);
}

is(rows_found(), 're-sync', 'the first lookup makes a copy');
is(rows_found_at_last(), 3000, 'rows');
is(rows_found(), 3000, 'the next lookup needs no re-sync');
ask($session, 'BEGIN');
is(rows_found(), 3000, 'nor does one in another transaction');
ask($session, 'COMMIT');

$node->safe_psql('postgres', 'INSERT INTO t VALUES (30010)');
is(rows_found(), 're-sync', 'there is a re-sync after an insert');
is(rows_found_at_last(), 3001, 'the row is found');

# The re-sync that failed has cost the copy.  The new one was made beside marks, which the next re-sync takes.
is(rows_found_at_last(), 3001, 'and found again');
is(rows_found(), 3001, 'and no re-sync is needed');

# Another session's re-sync serves this one.
$node->safe_psql('postgres', "INSERT INTO t VALUES (30020); SELECT harmonia_load('t_k')");
is(rows_found(), 3002, 'another session has brought the copy up to date');

for my $command ('REINDEX INDEX t_k', 'VACUUM FULL t', 'TRUNCATE t; INSERT INTO t SELECT 10 * i FROM generate_series(1, 3002) i',
	q{SELECT harmonia_unload('t_k')}, q{ALTER INDEX t_k SET (fillfactor = 50); REINDEX INDEX CONCURRENTLY t_k})
{
	$node->safe_psql('postgres', $command);
	is(rows_found(), 're-sync', "$command: a copy is made");
	is(rows_found_at_last(), 3002, "$command: rows");
	is(rows_found(), 3002, "$command: no re-sync");
}

# The next daemon has no copy.  The session asks it at once, and not the old one, whose connection is of no use.
my $daemon = daemon_pid($node);
kill 'KILL', $daemon;
wait_for_device($node, 'up', $daemon);
is(rows_found(), 're-sync', 'a new daemon has no copy');
is(rows_found_at_last(), 3002, 'rows after that');

# More indexes than a session remembers.
$node->safe_psql('postgres', join '', map { "CREATE TABLE t$_ AS SELECT 10 * i k FROM generate_series(1, $_) i; CREATE INDEX t${_}_k ON t$_ USING harmonia (k);" } 1 .. 20);
ask($session, "SET harmonia.fault = ''");
for my $round (1 .. 2)
{
	for my $n (1 .. 20)
	{
		is(ask($session, $query =~ s/FROM t /FROM t$n /r), $n, "round $round, table $n");
	}
}
is(rows_found_at_last(), 3002, 'and the first table again');

close_session($session);
$node->stop;
done_testing();
