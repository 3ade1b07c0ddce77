# Servers with a device.  It is the host device, which searches copies of indexes on the
# CPU, unless GPU=on asks for a GPU.
package HarmoniaDevice;

use strict;
use warnings;

use Exporter 'import';
use Harmonia;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

our @EXPORT = qw(
  on_gpu new_device_node wait_for_device daemon_pid socket_path
  device_settings has_daemon skip_without_daemon
  is_running wait_for_end stat_of nodes_of create_compare_queries
);

# tools/check.sh says which device it is.  All batches go there, whatever they cost.
my $device = $ENV{GPU} || 'host';

sub on_gpu { return $device ne 'host'; }

# Where sessions are stopped in the middle of a re-sync, no worker does it before them.
sub device_settings
{
	return <<"END" . ($INC{'FaultSessions.pm'} ? "harmonia.resync_ahead = off\n" : '');
shared_preload_libraries = 'harmonia'
harmonia.gpu = $device
harmonia.force_device = on
END
}

# Without a C++ compiler tools/check.sh builds no daemon.
sub has_daemon
{
	my ($library_dir) = run_command([ 'pg_config', '--pkglibdir' ]);

	return -x "$library_dir/harmonia_gpud";
}

sub skip_without_daemon
{
	plan skip_all => 'harmonia_gpud is not installed' unless has_daemon();
	return;
}

# A running server whose device is up; parameters as for new_node().
sub new_device_node
{
	my ($name, %params) = @_;

	skip_without_daemon();
	$params{conf} = device_settings() . "shared_buffers = 32MB\n" . ($params{conf} // '');
	my $node = new_node($name, %params);
	wait_for_device($node);
	return $node;
}

# Wait until the device is up, or in another state.  With the pid of a daemon that has
# ended, wait for another daemon.
sub wait_for_device
{
	my ($node, $state, $ended) = @_;

	$state //= 'up';
	$ended //= 0;
	$node->poll_query_until('postgres',
		"SELECT state = '$state' AND pid IS DISTINCT FROM $ended FROM harmonia_device()")
	  or die "the device is not $state";
	return;
}

sub daemon_pid
{
	my ($node) = @_;
	my $pid = '';

	# A daemon that is being started again has none for a moment.
	for (my $try = 0; $pid eq '' && $try < 600; $try++)
	{
		usleep(100_000) if $try > 0;
		$pid = $node->safe_psql('postgres', "SELECT pid FROM harmonia_device() WHERE state = 'up'");
	}
	die "there is no daemon\n" if $pid eq '';
	return $pid;
}

sub socket_path { my ($node) = @_; return $node->data_dir . '/pg_stat_tmp/harmonia_gpud.sock'; }

# Whether a process runs.  A zombie does not.
sub is_running
{
	my ($pid) = @_;

	return process_state($pid) !~ /[ZX]/;
}

# Wait until a process has ended, at most ten seconds.
sub wait_for_end
{
	my ($pid) = @_;

	for (1 .. 1000)
	{
		return 1 unless is_running($pid);
		usleep(10_000);
	}
	return 0;
}

# A column of pg_stat_harmonia, for one index.
sub stat_of
{
	my ($node, $index, $column, $database) = @_;
	return $node->safe_psql($database // 'postgres',
		"SELECT $column FROM pg_stat_harmonia WHERE indexrelid = '$index'::regclass");
}

# The output of EXPLAIN ANALYZE for a query, after some settings.
sub nodes_of
{
	my ($node, $query, $settings) = @_;
	return $node->safe_psql('postgres',
		($settings // '') . ";\nEXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) $query");
}

# Create compare_queries(queries, probes), which executes each query, with the probes as $1, once without lookup
# nodes and once with them, and raises an error if the answers differ.
sub create_compare_queries
{
	my ($node) = @_;

	$node->safe_psql('postgres', <<'END');
CREATE FUNCTION compare_queries(queries text[], probes bigint[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	query text;
	wanted record;
	got record;
BEGIN
	FOREACH query IN ARRAY queries LOOP
		PERFORM set_config('enable_hashjoin', 'on', true), set_config('enable_nestloop', 'on', true),
			set_config('enable_seqscan', 'on', true), set_config('enable_indexscan', 'off', true),
			set_config('enable_indexonlyscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
			set_config('enable_mergejoin', 'off', true), set_config('jit', 'off', true),
			set_config('harmonia.enable_lookup_join', 'off', true), set_config('harmonia.enable_lookup_scan', 'off', true);
		EXECUTE query INTO wanted USING probes;
		PERFORM set_config('enable_hashjoin', 'off', true), set_config('enable_nestloop', 'off', true),
			set_config('enable_seqscan', 'off', true), set_config('enable_indexonlyscan', 'on', true),
			set_config('harmonia.enable_lookup_join', 'on', true), set_config('harmonia.enable_lookup_scan', 'on', true);
		EXECUTE query INTO got USING probes;
		IF wanted IS DISTINCT FROM got THEN
			RAISE 'wrong answer: % instead of % from %', got, wanted, query;
		END IF;
	END LOOP;
END $$;
END
}

1;
