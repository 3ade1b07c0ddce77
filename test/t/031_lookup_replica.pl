# Lookup nodes on a replica answer right from each of its snapshots while it replays
# changes.  Before its promotion they do not trust the visibility map.
use strict;
use warnings;

use FaultSessions;
use Harmonia;
use HarmoniaLookups;
use HarmoniaRandom;
use PostgreSQL::Test::Cluster;
use Test::More;

my $seed = test_seed();
my $r = HarmoniaRandom->new($seed);
my ($tables, $writers) = lookup_tables($r);
my $primary = new_node('primary', allows_streaming => 1, conf => "shared_buffers = 16MB\nwal_keep_size = 4GB\n");

make_lookup_functions($primary);
$primary->safe_psql('postgres', $tables);
$primary->safe_psql('postgres', <<'END');
CREATE TABLE fixed (k int) WITH (autovacuum_enabled = off);
INSERT INTO fixed SELECT generate_series(1, 10000);
CREATE INDEX ON fixed USING harmonia (k);
VACUUM ANALYZE fixed;
CREATE TABLE changed (k int, v int) WITH (autovacuum_enabled = off);
INSERT INTO changed SELECT i, i FROM generate_series(1, 10000) i;
CREATE INDEX ON changed USING harmonia (k);
VACUUM ANALYZE changed;
END
$primary->backup('backup');

my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'backup', has_streaming => 1);
$standby->append_conf('postgresql.conf', "hot_standby_feedback = on\nmax_standby_streaming_delay = 600s\n");
$standby->start;
$primary->wait_for_catchup($standby);

# The output of EXPLAIN ANALYZE for a query by lookup nodes.
sub nodes_of
{
	my ($node, $query) = @_;
	return $node->safe_psql('postgres', <<"END");
BEGIN;
DO 'BEGIN PERFORM plan_settings(''only''); END';
EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) $query;
COMMIT;
END
}

# How many of 2000 hits an index-only lookup fetches from the heap; -1 if the plan has no
# such lookup.
sub index_only_fetches
{
	my ($node, $query) = @_;
	return nodes_of($node, $query) =~ /Index Only: true\n.*Hits: 2000 .*Heap Fetches: (\d+)/s ? $1 : -1;
}

my $scan = 'SELECT k FROM fixed WHERE k = ANY (ARRAY(SELECT generate_series(1, 4000, 2)))';
my $join = 'SELECT count(fixed.k) FROM (SELECT generate_series(1, 4000, 2) AS k OFFSET 0) s JOIN fixed USING (k)';
for my $query ($scan, $join)
{
	my $fetches = index_only_fetches($primary, $query);
	ok($fetches >= 0 && $fetches < 1500, "the primary reads the index alone for most hits: $fetches fetches");
	my $nodes = nodes_of($standby, $query);
	like($nodes, qr/HarmoniaLookup.*Hits: 2000 .*Heap Fetches: 2000\b/s, 'a replica reads the heap too');
	unlike($nodes, qr/Index Only/, 'a replica does not plan to read the index alone');
}

# Each node, after replay of rows that died, and of TIDs that were used again; and with a
# snapshot from before
my $outer = '(SELECT generate_series(1, 4000, 2) AS k OFFSET 0) s';
my @nodes = (
	[ 'scan', 'LookupScan', 'SELECT count(*), sum(v) FROM (SELECT * FROM changed WHERE k = ANY (ARRAY(SELECT generate_series(1, 4000, 2))) OFFSET 0) q' ],
	[ 'count', 'LookupAggregate', 'SELECT count(*) FROM changed WHERE k = ANY (ARRAY(SELECT generate_series(1, 4000, 2)))' ],
	[ 'join', 'LookupJoin', "SELECT count(*), sum(v) FROM (SELECT k, v FROM $outer JOIN changed USING (k) OFFSET 0) q" ],
	[ 'left join', 'Join Type: Left', "SELECT count(*), count(v), sum(v) FROM (SELECT k, v FROM $outer LEFT JOIN changed USING (k) OFFSET 0) q" ],
	[ 'semijoin', 'Join Type: Semi', "SELECT count(*), sum(k) FROM (SELECT k FROM $outer WHERE EXISTS (SELECT FROM changed c WHERE c.k = s.k) OFFSET 0) q" ],
	[ 'antijoin', 'Join Type: Anti', "SELECT count(*), sum(k) FROM (SELECT k FROM $outer WHERE NOT EXISTS (SELECT FROM changed c WHERE c.k = s.k) OFFSET 0) q" ],
	[ 'aggregate', 'LookupAggregate.*LookupJoin', "SELECT count(*), sum(v), max(k) FROM $outer JOIN changed USING (k)" ],
	[ 'counted join', 'LookupAggregate.*LookupJoin', "SELECT count(*) FROM $outer JOIN changed USING (k)" ],
	[ 'aggregate of a scan', 'LookupAggregate.*LookupScan', 'SELECT sum(v), min(k) FROM changed WHERE k = ANY (ARRAY(SELECT generate_series(1, 4000, 2)))' ]);

sub answer_of
{
	my ($session, $kind, $query) = @_;

	return ask($session, "DO 'BEGIN PERFORM plan_settings(''$kind''); END'; $query");
}

sub nodes_are_right
{
	my ($when) = @_;
	my $old = open_session($standby, 'BEGIN ISOLATION LEVEL REPEATABLE READ');
	my %before = map { $_->[0] => answer_of($old, 'seq', $_->[2]) } @nodes;
	$primary->safe_psql('postgres', <<'END');
DELETE FROM changed WHERE k % 3 = 0;
UPDATE changed SET v = v + 1 WHERE k % 5 = 0;
END
	$primary->safe_psql('postgres', 'VACUUM changed');
	$primary->safe_psql('postgres', 'INSERT INTO changed SELECT i + 1, -i FROM generate_series(1, 3000, 2) i');
	$primary->wait_for_catchup($standby);
	for my $node (@nodes)
	{
		my ($name, $plan, $query) = @$node;
		my $now = open_session($standby, 'BEGIN');

		like(nodes_of($standby, $query), qr/$plan/s, "$name $when: the plan");
		is(answer_of($now, 'only', $query), answer_of($now, 'seq', $query), "$name $when");
		is(answer_of($old, 'only', $query), $before{$name}, "$name $when, in an old snapshot");
		close_session($now);
	}
	close_session($old);
	return;
}

nodes_are_right("on a replica ($_)") for 1 .. 2;

# Queries during replay
my $load = start_pgbench($primary, $writers, '-c', 2, '-T', 600, '-R', 100, "--random-seed=$seed", '--max-tries=100');
wait_for_work($primary);
my ($result, $out, $err) = $standby->psql('postgres', lookup_script(lookup_queries($r, 25)), on_error_stop => 1);
$load->{run}->kill_kill;
unlike($load->{err}, qr/ERROR|abort/, 'writers');
is($err, '', 'same answers during replay');
is(scalar(() = $out =~ /^(?:lookup|other|too large)$/mg), 25, 'no query was left out');
cmp_ok(scalar(() = $out =~ /^lookup$/mg), '>', 15, 'most queries used lookups');

$primary->wait_for_catchup($standby);
$standby->promote;
for my $query ($scan, $join)
{
	my $fetches = index_only_fetches($standby, $query);
	ok($fetches >= 0 && $fetches < 1500, "a promoted replica reads the index alone for most hits: $fetches fetches");
}
($result, $out, $err) = $standby->psql('postgres', lookup_script(lookup_queries($r, 5)), on_error_stop => 1);
is($err, '', 'same answers after promotion');

$standby->stop;
$primary->stop('immediate');
done_testing();
