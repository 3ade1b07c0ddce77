# The daemon dies, stops for a moment or hangs, again and again, while 16 sessions search
# batches on the device.  No query fails, none is wrong, and none is delayed by more than a
# second: the CPU goes on.
#
# DEATHS=n for n of these events; HARMONIA_SEED=n repeats their order.
use strict;
use warnings;

use Harmonia;
use HarmoniaDevice;
use List::Util qw(max min);
use Test::More;
use Time::HiRes qw(time usleep);

my $deaths = $ENV{DEATHS} // 200;
my $seed = test_seed();
my $clients = 16;
my $round_seconds = min(60, max(20, $deaths / 3));

my $node = new_device_node('device_deaths', conf => <<'END');
max_connections = 40
shared_buffers = 64MB
harmonia.device_restart_delay = 10ms
enable_seqscan = off
enable_indexscan = off
enable_indexonlyscan = off
enable_bitmapscan = off
enable_hashjoin = off
enable_mergejoin = off
enable_nestloop = off
max_parallel_workers_per_gather = 0
jit = off
log_min_messages = error
END
$node->safe_psql('postgres', <<'END');
CREATE TABLE t (k int, v int) WITH (autovacuum_enabled = off);
INSERT INTO t SELECT i, i FROM generate_series(1, 100000) i;
CREATE INDEX t_k ON t USING harmonia (k);
VACUUM ANALYZE t;
END

# Each query knows its answer, and divides by zero if it gets another one.  Writers insert keys
# that no query looks for.
my $pause = '\sleep ' . ($clients * 4) . " ms\n";
my $keys = 'ARRAY(SELECT generate_series(:a, :a + 2997, 3))';
my $random = '\set a random(1, 90000)' . "\n";
my %readers = (
	rows => "$random${pause}SELECT 1 / ((count(*), sum(v)) = (1000, 1000 * :a::bigint + 1498500))::int FROM t WHERE k = ANY ($keys);\n",
	count => "$random${pause}SELECT 1 / (count(*) = 1000)::int FROM t WHERE k = ANY ($keys);\n",
	join => "$random${pause}SELECT 1 / ((count(*), sum(v)) = (1000, 1000 * :a::bigint + 1498500))::int"
	  . " FROM unnest($keys) p(k) JOIN t USING (k);\n",
	tally => "$random${pause}SELECT 1 / ((count(*), sum(k)) = (1000, 1000 * :a::bigint + 1498500))::int"
	  . " FROM unnest($keys) p(k) JOIN t USING (k);\n");
my $writer = "\\set i random(1, 1000000)\nINSERT INTO t SELECT 200000 + :i, i FROM generate_series(1, 20) i;\n";

for my $name (sort keys %readers)
{
	my ($query) = $readers{$name} =~ /^(SELECT .*);/m;

	$query =~ s/:a/500/g;
	like(nodes_of($node, $query), qr/Device: GPU/, "$name: on the device");
}

# Run the readers, and "meanwhile" until they end.  Returns the times of their queries, in ms.
my $run = 0;

sub times_of_load
{
	my ($seconds, $meanwhile) = @_;
	my $prefix = $node->basedir . '/latency' . $run++;
	my $load = start_pgbench($node, \%readers, '-c', $clients, '-j', 2, '-T', $seconds,
		'-l', "--log-prefix=$prefix");
	my $writes = start_pgbench($node, { write => $writer }, '-c', 1, '-T', $seconds, '-R', 20);
	my $end = time + $seconds - 2;
	my @times;

	wait_for_work($node);
	$meanwhile->($end);
	no_errors($load, 'no query failed, and none was wrong');
	no_errors($writes, 'nor did an insertion');
	for my $file (glob "$prefix.*")
	{
		open my $log, '<', $file or die "$file: $!";
		push @times, map { (split)[2] / 1000 - $clients * 4 } <$log>;
	}
	@times = sort { $a <=> $b } @times;
	return @times;
}

# The state of the device and the daemon's process.
sub device_state { return split /\|/, $node->safe_psql('postgres', 'SELECT state, pid FROM harmonia_device()'), 2; }

# ----------------------------------------------------------------
# Without such events
# ----------------------------------------------------------------
my @usual = times_of_load(10, sub { usleep(100_000) while time < $_[0]; });
note(sprintf 'queries usually take %.0f ms, at most %.0f ms', $usual[ $#usual / 2 ], $usual[-1]);

# ----------------------------------------------------------------
# With them
# ----------------------------------------------------------------
srand($seed);
my %count = (killed => 0, stopped => 0, hung => 0);
my $events = 0;
my ($slowest, $queries, $unanswered) = (0, 0, 0);

sub next_event
{
	my ($state, $pid) = device_state();

	if ($state ne 'up')
	{
		usleep(20_000);
		return;
	}
	usleep(int(rand(250_000)));
	my $kind = rand();

	if ($kind < 0.65)
	{
		$count{killed} += kill KILL => $pid;
	}
	elsif ($kind < 0.96)
	{
		# It may be found to hang, or not.
		$count{stopped} += kill STOP => $pid;
		usleep(int(rand(1_200_000)));
		kill CONT => $pid;
	}
	else
	{
		$count{hung} += kill STOP => $pid;
		$unanswered++ unless wait_for_end($pid);
	}
	$events++;
	return;
}

while ($events < $deaths)
{
	my @times = times_of_load($round_seconds,
		sub { next_event() while time < $_[0] && $events < $deaths; });

	$queries += @times;
	$slowest = max($slowest, $times[-1]);
	note(sprintf '%d events, %d queries, half of them took %.0f ms, one in 100 %.0f ms, the slowest %.0f ms',
		$events, scalar @times, $times[ $#times / 2 ], $times[ $#times * 0.99 ], $times[-1]);
}
is($events, $deaths, "killed $count{killed} times, stopped $count{stopped} times, hung $count{hung} times");
is($unanswered, 0, 'each daemon that hung was killed');
cmp_ok($slowest, '<', 1000 + $usual[-1], sprintf('no query of %d was delayed by more than a second: %.0f ms', $queries, $slowest));
cmp_ok(stat_of($node, 't_k', 'device_batches'), '>', $queries / 10, 'the device searched: ' . stat_of($node, 't_k', 'device_batches'));
cmp_ok(stat_of($node, 't_k', 'fallbacks'), '>', 0, 'the CPU took over: ' . stat_of($node, 't_k', 'fallbacks'));
wait_for_device($node);
(my $last) = $readers{rows} =~ /^(SELECT .*);/m;
$last =~ s/:a/500/g;
is($node->safe_psql('postgres', $last), '1', 'the last daemon answers');
is(index_problem($node, 't_k'), '', 'the index is in order');

$node->stop;
done_testing();
