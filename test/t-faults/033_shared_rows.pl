# The processes of a parallel lookup join share outer rows: what happens when one of them fails, is cancelled or
# is ended in each phase, while the others wait for it; and when fewer start than were planned.
#
# The library is built with FAULT_POINTS (src/am/fault.h).
use strict;
use warnings;

use FaultSessions;
use Harmonia;
use Test::More;

my $node = new_node('shared_rows', conf => <<'END');
shared_buffers = 32MB
max_worker_processes = 8
max_parallel_workers_per_gather = 3
min_parallel_table_scan_size = 0
parallel_setup_cost = 0
parallel_tuple_cost = 0
enable_hashjoin = off
enable_mergejoin = off
enable_nestloop = off
END

sub sql { return $node->safe_psql('postgres', $_[0]); }

sql(<<'END');
CREATE TABLE t (k int, v text) WITH (autovacuum_enabled = off, parallel_workers = 3);
INSERT INTO t SELECT i * 7919 % 20011, 'v' || i FROM generate_series(1, 20000) i;
CREATE INDEX t_k ON t USING harmonia (k);
CREATE TABLE o (k int, n int, name text) WITH (autovacuum_enabled = off, parallel_workers = 3);
INSERT INTO o SELECT CASE WHEN i % 10 > 0 THEN i * 31 % 25000 END, i, 'name ' || i FROM generate_series(1, 30000) i;
VACUUM ANALYZE t;
VACUUM ANALYZE o;
END
my $query = 'SELECT count(*), sum(n), count(t.k), sum(hashtext(name)::bigint) FROM o LEFT JOIN t USING (k)';
my $expected = sql("SET max_parallel_workers_per_gather = 0; $query");
like(sql("EXPLAIN (COSTS off) $query"), qr/Workers Planned: 3.*Parallel Custom Scan \(HarmoniaLookupJoin\)/s, 'the plan');

# With little memory there are several generations.
for my $memory ('64kB', '4MB')
{
	for my $point (qw(shared_rows_read shared_rows_dividing shared_rows_copying))
	{
		my $name = "$point, $memory";
		my $session = open_session($node, "SET enable_seqscan = on; SET work_mem = '$memory';");

		for my $skip (0, 1)
		{
			ask($session, "SET harmonia.fault = '$point:error:$skip'");
			my $result = ask($session, $query);
			# A process may not come there twice.
			like($result, $skip == 0 ? qr/fault point/ : qr/fault point|^\Q$expected\E$/, "$name: an error, after $skip times");
			is(ask($session, "RESET harmonia.fault; $query"), $expected, "$name: and then an answer");
		}

		# One process waits at the point, and so all do: for it, or there.
		for my $end ('pg_cancel_backend', 'pg_terminate_backend of a worker')
		{
			hold($node, $point);
			ask($session, "SET harmonia.fault = '$point:wait'");
			send_sql($session, $query);
			stopped_at($node, $point);
			if ($end =~ /worker/)
			{
				wait_until($node, "SELECT FROM pg_stat_activity WHERE leader_pid = $session->{pid}") || die 'no worker';
				sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE leader_pid = $session->{pid}");
			}
			else
			{
				sql("SELECT pg_cancel_backend($session->{pid})");
			}
			like(answer($session), qr/cancel|terminat|lost connection/, "$name: $end");
			release($point);
			is(ask($session, "RESET harmonia.fault; $query"), $expected, "$name: an answer after $end");
		}
		close_session($session);
	}
}

# Others go on while one waits, and wait for it: the answer is whole.
my $point = 'shared_rows_read';
my $session = open_session($node, 'SET enable_seqscan = on;');
hold($node, $point);
ask($session, "SET harmonia.fault = '$point:wait'");
send_sql($session, $query);
stopped_at($node, $point);
release($point);
is(answer($session), $expected, 'a process that was late');
is(ask($session, "RESET harmonia.fault; SET max_parallel_workers = 1; $query"), $expected, 'fewer workers than planned');
is(ask($session, "SET max_parallel_workers = 0; $query"), $expected, 'no workers');
is(ask($session, "RESET max_parallel_workers; SET parallel_leader_participation = off; $query"), $expected, 'no leader');
is(ask($session, 'SELECT count(*) FROM pg_stat_activity WHERE leader_pid IS NOT NULL'), '0', 'no worker is left');
close_session($session);

$node->stop;
done_testing();
