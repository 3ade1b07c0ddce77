# Lookup nodes on a replica answer right from each of its snapshots while it replays
# changes.  Before its promotion they do not trust the visibility map.
use strict;
use warnings;

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
