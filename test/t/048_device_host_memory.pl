# An index that does not fit the device's memory, where the device may use the machine's for the rest.
use strict;
use warnings;

use Harmonia;
use HarmoniaDevice;
use Test::More;

my $seconds = $ENV{SECS} // 8;
my $node = new_device_node('device_host_memory', conf => <<'END');
autovacuum = off
harmonia.device_memory = 2
harmonia.device_host_memory = 64
harmonia.max_resident_blocks = 100000
END

$node->safe_psql('postgres', <<'END');
CREATE TABLE t (id int, k bigint, v int) WITH (autovacuum_enabled = off);
INSERT INTO t SELECT i, hashint4(i), i FROM generate_series(1, 500000) i;
CREATE INDEX t_k ON t USING harmonia (k) WITH (fillfactor = 70);
CREATE TABLE w (u uuid, v int) WITH (autovacuum_enabled = off);
INSERT INTO w SELECT md5(i::text)::uuid, i FROM generate_series(1, 150000) i;
CREATE INDEX w_u ON w USING harmonia (u) WITH (fillfactor = 70);
VACUUM ANALYZE t, w;
END
my $lookups = 'SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_nestloop = off; '
  . 'SET enable_indexscan = off; SET enable_bitmapscan = off; SET max_parallel_workers_per_gather = 0';
my $hash_join = 'SET harmonia.enable_lookup_join = off; SET harmonia.enable_lookup_scan = off; SET enable_indexscan = off; SET enable_indexonlyscan = off';
my @queries = (
	'SELECT count(*), sum(v) FROM t WHERE k = ANY (ARRAY(SELECT hashint4(g)::bigint FROM generate_series(1, 400000, 5) g))',
	'SELECT count(*), sum(t.k) FROM generate_series(1, 300000, 7) g JOIN t ON t.k = hashint4(g)',
	'SELECT count(*), sum(t.v) FROM generate_series(-2000000000, 2000000000, 40000000) g JOIN t ON t.k BETWEEN g AND g + 3000000',
	'SELECT count(*) FROM generate_series(1, 400000, 7) g WHERE NOT EXISTS (SELECT FROM t WHERE t.k = hashint4(g))',
	'SELECT count(*), sum(w.v) FROM generate_series(1, 200000, 7) g JOIN w ON w.u = md5(g::text)::uuid');

# All queries give what they give without a device.
sub compare_answers
{
	my ($what) = @_;
	for my $query (@queries)
	{
		is($node->safe_psql('postgres', "$lookups; $query"), $node->safe_psql('postgres', "$hash_join; $query"), "$what: $query");
	}
	return;
}

# The same, and the device takes part in each.
sub compare
{
	my ($what) = @_;
	compare_answers($what);
	for my $query (@queries)
	{
		like(nodes_of($node, $query, $lookups), qr/Device Batches: [1-9]/, 'the device takes part');
	}
	return;
}

# Set the machine's memory for copies; the daemon restarts.
sub set_host_memory
{
	my ($memory) = @_;
	my $pid = daemon_pid($node);

	$node->append_conf('postgresql.conf', "harmonia.device_host_memory = $memory");
	$node->reload;
	wait_for_device($node, 'up', $pid);
	return;
}

# ----------------------------------------------------------------
# A whole copy, in both memories
# ----------------------------------------------------------------
my $size = $node->safe_psql('postgres', "SELECT pg_relation_size('t_k')");
cmp_ok($size, '>', 4 * 1024 * 1024, 'the index is twice as large as the memory');
cmp_ok($node->safe_psql('postgres', "SELECT harmonia_load('t_k')"), '>=', $size, 'all of it is copied');
my ($bytes, $host_bytes) = split /\|/, stat_of($node, 't_k', 'device_bytes, host_bytes');
cmp_ok($bytes - $host_bytes, '<=', 2 * 1024 * 1024, 'the device has as much as it may');
cmp_ok($host_bytes, '>=', $size - 2 * 1024 * 1024, 'the machine has the rest');
compare('in both memories');
like(nodes_of($node, $queries[0], $lookups), qr/Device: GPU( \(host device\))?\n.*Keys: 80000  Fallbacks: 0/s, 'the device searches for all keys');

# The other index has taken half of the device's memory for itself.  From now on both stay, and grow where they are.
my $loads = stat_of($node, 't_k', 'loads');
cmp_ok($loads, '<=', 2, "$loads copies are made");
compare('both indexes');
$node->safe_psql('postgres', 'INSERT INTO t SELECT i, 3000000000 + i, i FROM generate_series(500001, 600000) i; DELETE FROM t WHERE id % 10 = 0; VACUUM t');
compare('after changes');
is(stat_of($node, 't_k', 'loads, fallbacks'), "$loads|0", 'without another copy');
cmp_ok(stat_of($node, 't_k', 'host_bytes'), '>', $host_bytes, 'with more of the machine\'s memory');

# ----------------------------------------------------------------
# Too large for both
# ----------------------------------------------------------------
set_host_memory(2);
compare_answers('too large for both');
like(nodes_of($node, $queries[0], $lookups), qr/Device: CPU\n\s+CPU Reason: not enough device memory/, 'the CPU searches it');

# A copy outgrows both.
set_host_memory(20);
compare('just fits');
is(stat_of($node, 't_k', 'resident'), 't', 'there is a copy');
$node->safe_psql('postgres', 'INSERT INTO t SELECT i, hashint4(i), i FROM generate_series(600001, 2000000) i; VACUUM t');
compare_answers('outgrows both');
is(stat_of($node, 't_k', 'resident'), 'f', 'there is none');

set_host_memory(0);
compare_answers('without the machine\'s memory');
is(stat_of($node, 't_k', 'resident, host_bytes'), 'f|0', 'nor is there one');

# ----------------------------------------------------------------
# Beside writers
# ----------------------------------------------------------------
set_host_memory(100);
create_compare_queries($node);
$node->safe_psql('postgres', <<'END');
CREATE FUNCTION compare(seed int, keys int) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	probes bigint[] := ARRAY(SELECT k FROM t WHERE id % 17 = seed % 17 ORDER BY hashint8(id + seed) LIMIT keys);
	queries text[] := ARRAY[
		'SELECT count(*), sum(t.id), sum(t.v) FROM unnest($1) p(k) JOIN t ON t.k = p.k',
		'SELECT count(*), sum(t.k), NULL FROM unnest($1) p(k) JOIN t ON t.k = p.k',
		'SELECT count(*), sum(t.id), sum(t.v) FROM unnest($1[1:100]) p(k) JOIN t ON t.k BETWEEN p.k AND p.k + 300000',
		'SELECT count(*) FROM t WHERE k = ANY ($1 || $1)'];
BEGIN
	PERFORM compare_queries(queries, probes);
END $$;
END
my $pid = daemon_pid($node);
my $readers = start_pgbench($node, {
		'compare' => "\\set seed random(1, 1000000)\n\\set keys random(1, 20000)\n"
		  . "BEGIN ISOLATION LEVEL REPEATABLE READ;\nSELECT compare(:seed, :keys);\nCOMMIT;\n" },
	'-c', 2, '-T', $seconds);
my $writers = start_pgbench($node, {
		'insert@4' => "\\set i random(1, 100000000)\nINSERT INTO t SELECT i, hashint4(i), i FROM generate_series(:i, :i + 400) i;\n",
		'delete@2' => "\\set i random(1, 1000)\nDELETE FROM t WHERE id % 1000 = :i;\n",
		'reorganize@1' => "SELECT harmonia_reorganize('t_k');\n",
		'vacuum@1' => "VACUUM t;\n" },
	'-c', 1, '-T', $seconds);
no_errors($readers, 'readers: no errors');
no_errors($writers, 'writers: no errors');
is(index_problem($node, 't_k'), '', 'the index is in order');
is(daemon_pid($node), $pid, 'the daemon lives');

$node->stop;
done_testing();
