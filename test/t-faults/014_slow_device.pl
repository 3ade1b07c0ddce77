# A device whose searches do not end in a reasonable time: the CPU answers instead, and a
# cancelled query leaves the device to others at once.
#
# The daemon has such a device in place of a GPU (cuda/test/faulty.cc).
use strict;
use warnings;

use FaultSessions;
use Harmonia;
use HarmoniaDevice;
use Test::More;
use Time::HiRes qw(time);

plan skip_all => 'there is a GPU' if on_gpu();

my $node;
{
	local $ENV{FAULT_SLOW} = '60000';
	$node = new_device_node('slow_device', conf => "harmonia.gpu = on\nenable_indexscan = off\nenable_bitmapscan = off\nenable_seqscan = off\n");
}
$node->safe_psql('postgres', <<'END');
CREATE TABLE t (k int, v int);
INSERT INTO t SELECT i, i FROM generate_series(1, 20000) i;
CREATE INDEX t_k ON t USING harmonia (k);
VACUUM ANALYZE t;
SELECT harmonia_load('t_k');
END
my $query = 'SELECT count(*), sum(v) FROM t WHERE k = ANY (ARRAY(SELECT generate_series(1, 30000, 3)))';
is($node->safe_psql('postgres', $query), '6667|66670000', 'the CPU answers');
like(nodes_of($node, $query), qr/CPU Reason: device took too long/, 'EXPLAIN says why');

# The daemon abandons a search after a second, this one when the query ends.
my ($result, $out, $err) = $node->psql('postgres', "SET statement_timeout = 200; $query");
my $start = time;
like($err, qr/canceling statement due to statement timeout/, 'a query is cancelled');
is($node->safe_psql('postgres', "SELECT harmonia_unload('t_k')"), 't', 'the next client is served');
cmp_ok(time - $start, '<', 0.5, 'at once');

# So does one whose session ends.
my $session = start_psql($node, $query);
wait_for_work($node);
$node->safe_psql('postgres', "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'work'");
finish($session);
$start = time;
is($node->safe_psql('postgres', "SELECT harmonia_load('t_k') > 0"), 't', 'the next client is served');
cmp_ok(time - $start, '<', 0.5, 'at once');

# A session that waits while another one makes a copy holds nobody else up: the CPU is done sooner.
my $loader = open_session($node, "SET harmonia.fault = 'sync_begun:wait'; SELECT harmonia_unload('t_k')");
hold($node, 'sync_begun');
send_sql($loader, "SELECT harmonia_load('t_k') > 0");
stopped_at($node, 'sync_begun');
my $hold_settings = 'SET harmonia.force_device = off';
$start = time;
is($node->safe_psql('postgres', "$hold_settings; $query"), '6667|66670000', 'the CPU answers while a copy is made');
cmp_ok(time - $start, '<', 5, 'without waiting for it');
like(nodes_of($node, $query, $hold_settings), qr/CPU Reason: index is being copied to the device/, 'EXPLAIN says why');
release('sync_begun');
is(answer($loader), 't', 'the copy is made');
unlike(nodes_of($node, $query, $hold_settings), qr/being copied/, 'then it is there');

# Nor does one that stops while it brings the copy up to date.
ask($loader, "INSERT INTO t SELECT -i, 0 FROM generate_series(1, 100) i; SET harmonia.fault = 'sync_begun:wait'");
hold($node, 'sync_begun');
send_sql($loader, "SELECT harmonia_load('t_k') > 0");
stopped_at($node, 'sync_begun');
$start = time;
like(nodes_of($node, $query, $hold_settings), qr/CPU Reason: another session keeps the device busy with the index/, 'the CPU answers');
cmp_ok(time - $start, '<', 2, 'soon');
is($node->safe_psql('postgres', "$hold_settings; $query"), '6667|66670000', 'with the same rows');
my $patient = start_psql($node, "$hold_settings; SELECT harmonia_load('t_k') > 0");
wait_for_work($node);
release('sync_begun');
is(answer($loader), 't', 'the copy is up to date');
is(finish($patient), '', 'another harmonia_load() has waited for it');
close_session($loader);

$node->stop;
done_testing();
