# Files of replicas: they are as long as the primary's, whenever a base backup was taken,
# and the locks that shortening them takes are short.
#
# The library is built with FAULT_POINTS (src/am/fault.h) and SMALL_LIMITS.
use strict;
use warnings;

use FaultSessions;
use Harmonia;
use PostgreSQL::Test::Cluster;
use Test::More;

my $primary = new_node('primary', allows_streaming => 1, conf => "shared_buffers = 16MB\nwal_keep_size = 1GB\n");
my $standby;

sub sql { return $primary->safe_psql('postgres', $_[0]); }

sub start_standby
{
	my ($backup) = @_;
	my $node = PostgreSQL::Test::Cluster->new("standby_$backup");

	$node->init_from_backup($primary, $backup, has_streaming => 1);
	$node->start;
	return $node;
}

sub size
{
	my ($node, $index) = @_;
	return $node->safe_psql('postgres', "SELECT pg_relation_size('$index')");
}

# ----------------------------------------------------------------
# A base backup while the file becomes longer
#
# What is not in the backup has to be in the WAL that it begins with.
# ----------------------------------------------------------------
for my $point ('extent_extend_begun', 'extent_extended', 'extent_extend_logged')
{
	my $session = open_session($primary);

	# One full leaf is split, and needs an extent for that.
	sql(<<'END');
SET client_min_messages = warning;
DROP TABLE IF EXISTS t;
CREATE TABLE t (k int) WITH (autovacuum_enabled = off);
INSERT INTO t SELECT 10 * i FROM generate_series(1, 3000) i;
CREATE INDEX t_k ON t USING harmonia (k) WITH (fillfactor = 100);
END
	my $before = size($primary, 't_k');
	hold($primary, $point);
	ask($session, "SET harmonia.fault = '$point:wait'");
	send_sql($session, 'INSERT INTO t SELECT 5003 FROM generate_series(1, 300) i');
	stopped_at($primary, $point);
	$primary->backup($point);
	release($point);
	is(answer($session), '', "$point: the statement ends");
	close_session($session);

	$standby = start_standby($point);
	$primary->wait_for_catchup($standby);
	cmp_ok(size($primary, 't_k'), '>', $before, "$point: the file is longer");
	my $complete = is(size($standby, 't_k'), size($primary, 't_k'), "$point: so is the replica's");
	next if $point ne 'extent_extend_logged' || !$complete;

	# Its spare blocks can be used.
	$standby->promote;
	$standby->safe_psql('postgres', 'INSERT INTO t SELECT hashint4(i) % 30000 FROM generate_series(1, 5000) i');
	check_index($standby, 't_k', 'the promoted replica is as its table');
}
continue
{
	$standby->stop;
}

# ----------------------------------------------------------------
# VACUUM of several indexes
#
# A replica keeps the locks with which it truncates one until VACUUM commits.
# ----------------------------------------------------------------
sql(<<'END');
CREATE TABLE v (a int, b int) WITH (autovacuum_enabled = off);
INSERT INTO v SELECT i, i FROM generate_series(1, 20000) i;
CREATE INDEX v_a ON v USING harmonia (a);
CREATE INDEX v_b ON v USING harmonia (b);
DELETE FROM v WHERE a > 1000;
END
my %before = map { $_ => size($primary, $_) } ('v_a', 'v_b');
$primary->backup('vacuum');
$standby = start_standby('vacuum');

my $vacuum = open_session($primary);
hold($primary, 'vacuum_compacted');
ask($vacuum, "SET harmonia.fault = 'vacuum_compacted:wait'");
send_sql($vacuum, 'VACUUM v');
stopped_at($primary, 'vacuum_compacted');
$primary->wait_for_catchup($standby);
is($standby->safe_psql('postgres', "SELECT count(*) FROM pg_locks WHERE mode = 'AccessExclusiveLock'"),
	'0', 'a replica has no lock while VACUUM goes on to the next index');
release('vacuum_compacted');
is(answer($vacuum), '', 'VACUUM ends');
close_session($vacuum);

$primary->wait_for_catchup($standby);
for my $index (sort keys %before)
{
	cmp_ok(size($primary, $index), '<', $before{$index}, "$index is shorter");
	is(size($standby, $index), size($primary, $index), "and so is the replica's");
	check_index($standby, $index);
}

$standby->stop;
$primary->stop;
done_testing();
