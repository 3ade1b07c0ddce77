# An autovacuum worker that moves a segment, or looks for lost blocks, while a writer waits
# for it longer than deadlock_timeout: the server cancels a worker whose lock a backend queues
# for, so writers must not queue.
#
# The library is built with FAULT_POINTS (src/am/fault.h) and SMALL_LIMITS.
use strict;
use warnings;

use FaultSessions;
use Harmonia;
use PostgreSQL::Test::Utils qw(slurp_file);
use Test::More;

my $node = new_node('autovacuum', conf => <<'END');
shared_buffers = 32MB
autovacuum = on
autovacuum_naptime = 1s
deadlock_timeout = 10ms
END

sub sql { return $node->safe_psql('postgres', $_[0]); }

# Workers that start from now on stop at a point.
sub stop_workers_at
{
	my ($point) = @_;

	$node->append_conf('postgresql.conf', "harmonia.fault = '" . ($point ? "$point:wait" : '') . "'");
	$node->reload;
	return;
}

# Where a worker stops, and a writer that waits for it there.
for my $case (
	[ 'movement', 'move_flagged', 'INSERT INTO t VALUES (1)' ],
	[ 'sweep', 'sweep_entered', 'INSERT INTO t SELECT 3000 FROM generate_series(1, 9000)' ])
{
	my ($name, $point, $insert) = @$case;
	my $writer = open_session($node);
	my $worker = "FROM pg_stat_activity WHERE backend_type = 'autovacuum worker' AND query LIKE '%public.t%'";

	sql(<<'END');
SET client_min_messages = warning;
DROP TABLE IF EXISTS t;
CREATE TABLE t (k int) WITH (autovacuum_enabled = off);
INSERT INTO t SELECT i FROM generate_series(1, 6000) i;
CREATE INDEX t_k ON t USING harmonia (k) WITH (fillfactor = 100);
DELETE FROM t WHERE k % 10 <> 0;
END
	hold($node, $point);
	stop_workers_at($point);
	sql('ALTER TABLE t SET (autovacuum_enabled = on)');
	stopped_at($node, $point);
	my $pid = sql("SELECT pid $worker");

	ask($writer, "SET harmonia.fault = ''");
	send_sql($writer, $insert);
	wait_until($node, "SELECT FROM pg_stat_activity WHERE pid = $writer->{pid}"
		  . " AND (state = 'idle' OR clock_timestamp() > query_start + interval '300 ms')");
	is(sql("SELECT state FROM pg_stat_activity WHERE pid = $writer->{pid}"), 'active', "$name: a writer waits");
	is(sql("SELECT count(*) FROM pg_locks WHERE locktype = 'page' AND NOT granted"), '0', "$name: it is in no queue");
	is(sql("SELECT pid $worker AND wait_event = 'advisory'"), $pid, "$name: the worker is not cancelled");

	stop_workers_at('');
	release($point);
	is(answer($writer), '', "$name: the writer goes on");
	close_session($writer);
	is(sql("SELECT harmonia_check('t_k', true)"), '', "$name: the index is whole");
}

$node->stop;
unlike(slurp_file($node->logfile), qr/canceling autovacuum task/, 'no worker has been cancelled');
done_testing();
