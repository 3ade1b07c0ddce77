# A session that stops in the middle of a re-sync loses it: the daemon closes its connection when others wait, or is
# started again.  Another session makes a new copy then.  Marks that are set after that are owed to the new copy, so the
# first session must not take them when it goes on.
#
# The library is built with FAULT_POINTS (src/am/fault.h) and SMALL_LIMITS.
use strict;
use warnings;

use FaultSessions;
use Harmonia;
use HarmoniaDevice;
use Test::More;

my $node = new_device_node('lost_syncs');
my $query = 'SELECT count(*) FROM t WHERE k = ANY (ARRAY(SELECT 10 * i FROM generate_series(1, 9000) i))';
my $lookups = 'SET enable_bitmapscan = off; SET enable_indexscan = off; SET enable_indexonlyscan = off;';

sub sql { return $node->safe_psql('postgres', $_[0]); }

sub answers_are
{
	my ($session, $count, $name) = @_;

	is(ask($session, $query), $count, "$name: on the device");
	is(ask($session, "SET harmonia.enable_device = off; $query; RESET harmonia.enable_device"), $count, "$name: on the CPU");
	return;
}

# How the first session's re-sync ends.
my %losses = (
	'a stopped client' => sub { },
	'a new daemon' => sub {
		my $daemon = daemon_pid($node);

		kill 'KILL', $daemon;
		wait_for_device($node, 'up', $daemon);
	});

sub lose_sync
{
	my ($loss, $point) = @_;
	my $name = "$loss, at $point";

	sql(<<'END');
DROP TABLE IF EXISTS t;
CREATE TABLE t (k int) WITH (autovacuum_enabled = off);
INSERT INTO t SELECT 10 * i FROM generate_series(1, 3000) i;
CREATE INDEX t_k ON t USING harmonia (k);
SELECT harmonia_load('t_k');
END
	my ($stopped, $maker, $third) = map { open_session($node, $lookups) } 1 .. 3;

	is(ask($stopped, $query), 3000, "$name: a copy");
	sql('INSERT INTO t VALUES (10); INSERT INTO t VALUES (30010)');
	hold($node, $point);
	ask($stopped, "SET harmonia.fault = '$point:wait'");
	send_sql($stopped, $query);
	stopped_at($node, $point);
	$losses{$loss}->();

	like(ask($maker, "SELECT harmonia_load('t_k')"), qr/^\d+$/, "$name: another copy");
	answers_are($maker, 3002, "$name: the other copy");
	sql('INSERT INTO t VALUES (10)');

	# The third session's re-sync has begun when the stopped one goes on.
	hold($node, 'sync_listed');
	ask($third, "SET harmonia.fault = 'sync_listed:wait'");
	send_sql($third, $query);
	stopped_at($node, 'sync_listed');
	release($point);
	is(answer($stopped), 3002, "$name: the stopped session");
	release('sync_listed');
	is(answer($third), 3003, "$name: the third session");
	answers_are($_, 3003, "$name: after that") for ($maker, $third, $stopped);
	close_session($_) for ($stopped, $maker, $third);
	return;
}

for my $loss (sort keys %losses)
{
	lose_sync($loss, $_) for ('sync_granted', 'sync_begun', 'sync_page_pinned');
}

$node->stop;
done_testing();
