# Citus: indexes, lookup nodes and moves of shards on two workers, where it is installed.
use strict;
use warnings;

use Harmonia;
use PostgreSQL::Test::Utils;
use Test::More;

my ($share) = run_command([ 'pg_config', '--sharedir' ]);
plan skip_all => 'Citus is not installed' if !-e "$share/extension/citus.control";

my $conf = <<'END';
shared_preload_libraries = 'citus,harmonia'
listen_addresses = '127.0.0.1'
shared_buffers = 64MB
max_connections = 100
max_prepared_transactions = 100
citus.node_conninfo = 'sslmode=prefer'
citus.shard_count = 6
citus.override_table_visibility = off
citus.enable_statistics_collection = off
END
my ($coordinator, @workers) = map { new_node($_, allows_streaming => 'logical', conf => $conf) } qw(coordinator worker_1 worker_2);

# A query's answer on the coordinator.
sub answer
{
	my ($query, $settings) = @_;
	return $coordinator->safe_psql('postgres', ($settings // '') . $query);
}

# The nodes of ours in the plans of a query's tasks.
sub nodes_in_tasks
{
	my ($query, $settings) = @_;
	my $plan = answer($query, ($settings // '') . 'SET citus.explain_all_tasks = on; EXPLAIN (COSTS OFF) ');
	my %nodes = map { $_ => 1 } $plan =~ /Custom Scan \(Harmonia(\w+)\)/g;

	return join ' ', sort keys %nodes;
}

# What a query answers on all workers; each has one line.
sub on_workers
{
	my ($query) = @_;
	return map { $_->safe_psql('postgres', $query) } @workers;
}

# The indexes of a table's shards on a worker.
sub shard_indexes
{
	my ($table) = @_;
	return <<"END";
	SELECT i.indexrelid::regclass AS name FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
		JOIN pg_class t ON t.oid = i.indrelid
	WHERE t.relname ~ '^${table}_[0-9]+\$' AND c.relam = (SELECT oid FROM pg_am WHERE amname = 'harmonia')
END
}

$_->safe_psql('postgres', 'CREATE EXTENSION citus') for $coordinator, @workers;
answer(sprintf "SELECT citus_set_coordinator_host('127.0.0.1', %d)", $coordinator->port);
answer(sprintf "SELECT citus_add_node('127.0.0.1', %d)", $_->port) for @workers;

# ----------------------------------------------------------------
# Tables and indexes
# ----------------------------------------------------------------
answer(<<'END');
CREATE TABLE points (k bigint, other int, v int);
CREATE TABLE probes (k bigint, other int, p int);
CREATE TABLE kinds (other int, name text);
CREATE TABLE copied (k bigint, other int, v int);
INSERT INTO copied SELECT hashint8extended(i, 0) % 100000, i % 1000, i FROM generate_series(1, 60000) i;
SELECT create_distributed_table('points', 'k');
SELECT create_distributed_table('probes', 'k', colocate_with => 'points');
SELECT create_reference_table('kinds');
CREATE INDEX points_k ON points USING harmonia (k);
INSERT INTO points SELECT * FROM copied;
CREATE TABLE copied_probes AS SELECT k, other, v AS p FROM copied WHERE v % 7 = 0;
INSERT INTO probes SELECT * FROM copied_probes;
INSERT INTO kinds SELECT i, 'kind ' || i FROM generate_series(0, 999) i;
CREATE INDEX kinds_other ON kinds USING harmonia (other);
END
answer('CREATE INDEX CONCURRENTLY points_other ON points USING harmonia (other)');
answer('VACUUM ANALYZE points, probes, kinds, copied');

my @counts = on_workers('SELECT count(*) FROM (' . shard_indexes('points') . ') i');
is_deeply(\@counts, [ 6, 6 ], 'each shard has both indexes');
is_deeply([ on_workers('SELECT count(*) FROM (' . shard_indexes('kinds') . ') i') ], [ 1, 1 ], 'each copy of a reference table has its own');

# ----------------------------------------------------------------
# Lookup nodes in shards
# ----------------------------------------------------------------
my $wanted = answer("SELECT array_agg(k)::text FROM copied WHERE v % 11 = 0");
my %queries = (
	'an array' => [ "SELECT count(*), sum(v) FROM %s WHERE k = ANY ('$wanted')", 'LookupScan' ],
	'an array of another column' => [ "SELECT count(*), sum(v) FROM %s WHERE other = ANY ('{1,20,300,400,500,600,700,800,900}')", 'LookupScan' ],
	'a join of shards' => [ 'SELECT count(*), sum(v) FROM probes JOIN %s USING (k)', 'LookupJoin' ],
	'a left join of shards' => [ 'SELECT count(*), sum(v) FROM probes LEFT JOIN %s USING (k)', 'LookupJoin' ],
	'EXISTS' => [ 'SELECT count(*), sum(p) FROM probes WHERE EXISTS (SELECT FROM %1$s WHERE %1$s.k = probes.k AND v > p)', 'LookupJoin' ],
	'NOT EXISTS' => [ 'SELECT count(*), sum(p) FROM probes WHERE NOT EXISTS (SELECT FROM %1$s WHERE %1$s.k = probes.k AND v > p)', 'LookupJoin' ],
	'a reference table' => [ 'SELECT count(*), sum(length(name)) FROM %s JOIN kinds USING (other)', 'LookupJoin' ]);
# So small shards would be hashed.  What is set on the coordinator holds on workers, too.
my $lookups_alone = join ' ', 'BEGIN;', map { "SET LOCAL $_;" } 'citus.propagate_set_commands = local',
  map { "enable_$_ = off" } qw(hashjoin mergejoin nestloop seqscan bitmapscan indexscan);
for my $name (sort keys %queries)
{
	my ($query, $node) = @{ $queries{$name} };
	my ($distributed, $local) = map { sprintf $query, $_ } qw(points copied);

	$local =~ s/\bprobes\b/copied_probes/g;
	like(nodes_in_tasks($distributed, $lookups_alone), qr/\b$node\b/, "$name: lookup nodes in shards");
	is(answer($distributed, $lookups_alone), answer($local), "$name: its answer");
	is(answer($distributed), answer($local), "$name: the same by the plans that are chosen");
}

# ----------------------------------------------------------------
# Changes and moves
# ----------------------------------------------------------------
answer(<<'END') for 1, 2;
UPDATE points SET other = other + 1 WHERE v % 5 = 0;
UPDATE copied SET other = other + 1 WHERE v % 5 = 0;
DELETE FROM points WHERE v % 9 = 1;
DELETE FROM copied WHERE v % 9 = 1;
INSERT INTO points SELECT k + 1, other, v + 100000 FROM copied WHERE v % 3 = 0 AND v < 100000;
INSERT INTO copied SELECT k + 1, other, v + 100000 FROM copied WHERE v % 3 = 0 AND v < 100000;
END

for my $mode ('block_writes', 'force_logical')
{
	answer(sprintf "SELECT citus_move_shard_placement(shardid, nodename, nodeport, '127.0.0.1', %d, shard_transfer_mode => '$mode')
		FROM citus_shards WHERE table_name = 'points'::regclass AND nodeport = %d ORDER BY shardid LIMIT 1", $workers[1]->port, $workers[0]->port);
	is(answer('SELECT count(DISTINCT nodeport) FROM citus_shards'), 3, "$mode: a shard has moved");
}
answer('SET citus.defer_drop_after_shard_move = off; CALL citus_cleanup_orphaned_resources()');
@counts = on_workers('SELECT count(*) FROM (' . shard_indexes('points') . ') i');
is_deeply(\@counts, [ 2, 10 ], 'indexes have moved with their shards');
is_deeply([ on_workers('SELECT count(harmonia_check(name, true)) FROM (' . shard_indexes('points') . ') i') ], \@counts, 'and are right');
is(answer(<<'END'), 12, 'as the coordinator can ask') or diag(answer("SELECT * FROM run_command_on_shards('points', 'SELECT 1')"));
SELECT sum(result::int) FROM run_command_on_shards('points', $$
	SELECT count(harmonia_check(indexrelid, true)) FROM pg_index i JOIN pg_class c ON c.oid = indexrelid
	WHERE indrelid = '%s'::regclass AND relam = (SELECT oid FROM pg_am WHERE amname = 'harmonia') $$)
END
for my $name (sort keys %queries)
{
	my ($distributed, $local) = map { sprintf $queries{$name}[0], $_ } qw(points copied);

	$local =~ s/\bprobes\b/copied_probes/g;
	is(answer($distributed, $lookups_alone), answer($local), "$name: its answer after changes and moves");
}

# ----------------------------------------------------------------
# The order of libraries
# ----------------------------------------------------------------
$coordinator->stop;
$coordinator->adjust_conf('postgresql.conf', 'shared_preload_libraries', "'harmonia,citus'");
ok(!$coordinator->start(fail_ok => 1), 'a server with harmonia before Citus does not start');
like(slurp_file($coordinator->logfile), qr/Citus has to be loaded first/, 'which Citus says');

done_testing();
