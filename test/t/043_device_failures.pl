# The daemon and the connection to it can fail at any time.  Each query still gets its
# answer, from the CPU if necessary, or can be cancelled.  Nothing is left behind.
use strict;
use warnings;

use Harmonia;
use HarmoniaDevice;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

# Few descriptors, so that a test can use them up
my $node = new_device_node('device_failures', conf => "max_files_per_process = 64\nmax_connections = 60\n");
$node->safe_psql('postgres', <<'END');
CREATE TABLE t (k int, v int) WITH (autovacuum_enabled = off);
INSERT INTO t SELECT i, i FROM generate_series(1, 300000) i;
CREATE INDEX t_k ON t USING harmonia (k);
CREATE TABLE c AS SELECT k, v FROM t;
CREATE INDEX c_k ON c USING harmonia (k) INCLUDE (v);
CREATE TABLE p AS SELECT hashint4(i) & 524287 AS k FROM generate_series(1, 200000) i;
VACUUM ANALYZE t, c, p;
ALTER DATABASE postgres SET enable_hashjoin = off;
ALTER DATABASE postgres SET enable_mergejoin = off;
ALTER DATABASE postgres SET enable_nestloop = off;
ALTER DATABASE postgres SET max_parallel_workers_per_gather = 0;
ALTER DATABASE postgres SET work_mem = '16MB';
END
my $join = 'SELECT count(*), sum(t.v) FROM p JOIN t USING (k)';
my $keys = 'SELECT count(*), sum(t.k) FROM p JOIN t USING (k)';
my $wanted = $node->safe_psql('postgres', "SET harmonia.enable_lookup_join = off; SET enable_hashjoin = on; $join");
is($node->safe_psql('postgres', $join), $wanted, 'the device answers');

# ----------------------------------------------------------------
# The daemon is killed while sessions search, again and again
# ----------------------------------------------------------------
my $readers = start_pgbench($node, {
		'join' => "SELECT 1 / ((count(*), sum(t.v))::text = '(' || replace('$wanted', '|', ',') || ')')::int FROM p JOIN t USING (k);\n",
		'keys' => "SELECT 1 / ((count(*), sum(t.k))::text = '(' || replace('$wanted', '|', ',') || ')')::int FROM p JOIN t USING (k);\n",
		'covered' => "SELECT 1 / ((count(*), sum(c.v))::text = '(' || replace('$wanted', '|', ',') || ')')::int FROM p JOIN c USING (k);\n" },
	'-c', 3, '-T', 20);
my $writer = start_pgbench($node, {
		'insert' => "\\set i random(1, 100000)\nINSERT INTO t SELECT :i + 600000, i FROM generate_series(1, 50) i;\n" },
	'-c', 1, '-T', 20, '-R', 50);
my $end = time + 18;
my $kills = 0;
while (time < $end)
{
	my $pid = daemon_pid($node);
	usleep(int(rand(400_000)));
	$kills += kill KILL => $pid if $pid;
	# The supervisor starts the next daemon after 1, 2, 4 ... seconds.  A new setting
	# makes it begin with 1 again.
	usleep(100_000) if !$pid;
	if ($kills % 3 == 2)
	{
		$node->append_conf('postgresql.conf', 'harmonia.device_memory = ' . (500 + $kills));
		$node->reload;
	}
}
unlike(finish($readers), qr/ERROR|FATAL|abort/, 'all queries got the right answer');
unlike(finish($writer), qr/ERROR|FATAL|abort/, 'all changes were made');
cmp_ok($kills, '>=', 3, "the daemon was killed $kills times");
my $log = slurp_file($node->logfile);
like($log, qr/WARNING:  "harmonia_gpud" ended/, 'the log says that it ended');
unlike($log, qr/PANIC|TRAP|terminated by signal/, 'no other process did');
cmp_ok(stat_of($node, 't_k', 'fallbacks'), '>', 0, 'the CPU took over: ' . stat_of($node, 't_k', 'fallbacks || \' times\''));

# The daemon comes back by itself.
$node->append_conf('postgresql.conf', 'harmonia.device_memory = 0');
$node->reload;
wait_for_device($node);
my $pid = daemon_pid($node);
kill KILL => $pid;
ok($node->poll_query_until('postgres', "SELECT state = 'up' AND pid <> $pid FROM harmonia_device()"), 'the daemon comes back');
like(nodes_of($node, $join), qr/Device: GPU/, 'it searches');
is($node->safe_psql('postgres', $join), $wanted, 'it finds all rows');

# ----------------------------------------------------------------
# The daemon hangs: sessions can be cancelled, and all go on without the device at once.
# It is killed and replaced, unless it goes on.
# ----------------------------------------------------------------
$pid = daemon_pid($node);
kill STOP => $pid;
my ($result, $out, $err) = $node->psql('postgres', "SET statement_timeout = 200;\n$join", on_error_stop => 0);
like($err, qr/canceling statement due to statement timeout/, 'a statement times out');
my $checked = "SELECT 1 / ((count(*), sum(t.v))::text = '(" . ($wanted =~ tr/|/,/r) . ")')::int FROM p JOIN t USING (k)";
my @waiting = map { start_psql($node, $checked) } 1 .. 4;
is(finish($_), '', 'a session that waits goes on without the device') for @waiting;
ok($node->poll_query_until('postgres', "SELECT state = 'up' AND pid <> $pid FROM harmonia_device()"), 'the daemon is replaced');
ok(wait_for_end($pid), 'the one that hung has ended');
like(slurp_file($node->logfile), qr/"harmonia_gpud" did not answer for \d+ ms and was killed/, 'the log says so');
is($node->safe_psql('postgres', $join), $wanted, 'the device answers again');

$pid = daemon_pid($node);
kill STOP => $pid;
my $start = time;
is($node->safe_psql('postgres', "SET statement_timeout = '30s'; $join"), $wanted, 'a session finds out that the daemon hangs');
note(sprintf('after %.1f s', time - $start));
is($node->safe_psql('postgres', 'SELECT state FROM harmonia_device()'), 'hung', 'the others know it');
like(nodes_of($node, $join), qr/CPU Reason: device does not answer/, 'and do not ask it');
kill CONT => $pid;
wait_for_device($node);
is(daemon_pid($node), $pid, 'a daemon that goes on is kept');
is($node->safe_psql('postgres', $join), $wanted, 'it answers again');

# Cancelled at any time: a half-made copy is made again.
for my $ms (1, 2, 3, 5, 8, 12, 20, 30, 50, 80)
{
	$node->psql('postgres', "UPDATE t SET v = v WHERE k % 100 = $ms; SET statement_timeout = $ms; $join");
	$node->psql('postgres', "SELECT harmonia_unload('t_k'); SET statement_timeout = $ms; $join");
}
is($node->safe_psql('postgres', $join), $wanted, 'after all that');
is($node->safe_psql('postgres', $keys), $wanted, 'also from the index alone');

# A session keeps one socket, and closes it when the daemon ends.
my $descriptors = join ";\n", "SELECT pg_backend_pid() AS pid \\gset\n$join",
  q(SELECT count(*) FROM pg_ls_dir('/proc/' || :pid || '/fd')), $join, $join,
  q(SELECT count(*) FROM pg_ls_dir('/proc/' || :pid || '/fd')), '';
my @lines = grep { !/\|/ } split /\n/, $node->safe_psql('postgres', $descriptors);
is($lines[0], $lines[1], "no descriptors are left: $lines[0]");

# A session gives the staging memory of a large batch back when it has not used it for
# some time, also after errors.
my $large = 'SELECT count(*), sum(k) FROM t WHERE k = ANY (ARRAY(SELECT generate_series(1, 300000)))';
my $mapped = q{SELECT count(*) FROM regexp_matches(pg_read_file('/proc/' || pg_backend_pid() || '/maps'), 'memfd:harmonia', 'g')};
my $all = $node->safe_psql('postgres', 'SELECT count(*), sum(k) FROM t WHERE k <= 300000');
is($node->safe_psql('postgres', "SET work_mem = '256MB';\n$large;\n$mapped;\nSELECT pg_sleep(6);\n$large;\n"
		  . "\\set ON_ERROR_STOP 0\nSELECT 1 / 0;\n\\set ON_ERROR_STOP 1\n"
		  . "SELECT pg_sleep(6);\n$mapped;\nSELECT pg_sleep(6);\n$mapped;\n$large"),
	"$all\n1\n\n$all\n\n1\n\n0\n$all", 'staging memory is given back, and taken again');

# A session has no descriptors left for sockets, or one or two.  Then the CPU searches, or
# the device.
SKIP:
{
	skip 'there is no dblink', 1
	  if $node->safe_psql('postgres', q{SELECT count(*) FROM pg_available_extensions WHERE name = 'dblink'}) eq '0';
	my $self = 'host=' . $node->host . ' port=' . $node->port . ' dbname=template1';
	my $answers = $node->safe_psql('postgres', <<"END");
SET client_min_messages = error;
CREATE EXTENSION dblink;
DO \$\$
BEGIN
	FOR i IN 1 .. 1000 LOOP
		PERFORM dblink_connect('c' || i, '$self');
	END LOOP;
EXCEPTION WHEN OTHERS THEN NULL;
END \$\$;
$join;
SELECT dblink_disconnect('c1');
$join;
SELECT dblink_disconnect('c2');
$join;
SELECT dblink_disconnect('c3');
$join;
SELECT dblink_disconnect(c) FROM unnest(dblink_get_connections()) c \\g /dev/null
DROP EXTENSION dblink;
END
	is($answers, join("\nOK\n", ($wanted) x 4), 'queries are answered with few descriptors left');
}

# ----------------------------------------------------------------
# A backend crashes: the server restarts and trusts no old copy
# ----------------------------------------------------------------
$node->append_conf('postgresql.conf', "restart_after_crash = on\n");
$node->reload;
$pid = daemon_pid($node);
my $victim = start_psql($node, 'SELECT pg_sleep(600)');
wait_for_work($node);
kill KILL => $node->safe_psql('postgres', "SELECT pid FROM pg_stat_activity WHERE query ~ '^SELECT pg_sleep' AND state = 'active'");
finish($victim);
ok($node->poll_query_until('postgres', "SELECT state = 'up' AND pid <> $pid FROM harmonia_device()"), 'the server has restarted');
ok(wait_for_end($pid), 'the old daemon has ended');
is($node->safe_psql('postgres', "UPDATE t SET v = v + 1 WHERE k = 5; $join"),
	$node->safe_psql('postgres', "SET harmonia.enable_lookup_join = off; SET enable_hashjoin = on; $join"), 'the new one has the right answer');

# ----------------------------------------------------------------
# The server stops
# ----------------------------------------------------------------
for my $mode ('smart', 'fast', 'immediate')
{
	$pid = daemon_pid($node);
	my $session = $mode eq 'smart' ? undef : start_psql($node, "$join;" x 100);
	wait_for_work($node) if $session;
	$node->stop($mode);
	ok(wait_for_end($pid), "$mode stop: the daemon ends");
	for (1 .. 100)
	{
		last unless -e socket_path($node);
		usleep(50_000);
	}
	ok(!-e socket_path($node), 'it leaves no socket');
	finish($session) if $session;
	$node->start;
	wait_for_device($node);
}
$pid = daemon_pid($node);
crash_node($node);
ok(wait_for_end($pid), 'power failure: the daemon ends');
$node->start;
wait_for_device($node);
like($node->safe_psql('postgres', $join), qr/^\d+\|\d+$/, 'queries are answered again');

$node->stop;
done_testing();
