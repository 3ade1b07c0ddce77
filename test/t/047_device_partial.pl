# An index that does not fit the device's memory: the device has a part of it, and the CPU answers
# the other probes of each batch.  Also while others write, move and vacuum, and what is
# resident changes.
use strict;
use warnings;

use Harmonia;
use HarmoniaDevice;
use Test::More;
use Time::HiRes qw(usleep);

my $seconds = $ENV{SECS} // 25;
my $node = new_device_node('device_partial', conf => <<'END');
max_connections = 30
autovacuum = off
harmonia.device_memory = 2
END

$node->safe_psql('postgres', <<'END');
CREATE SEQUENCE ids;
CREATE TABLE t (id bigint DEFAULT nextval('ids'), k bigint, v int) WITH (autovacuum_enabled = off);
INSERT INTO t (k, v) SELECT hashint4(i), i FROM generate_series(1, 200000) i;
CREATE INDEX t_k ON t USING harmonia (k) WITH (fillfactor = 70);
CREATE TABLE w (u uuid, v int) WITH (autovacuum_enabled = off);
INSERT INTO w SELECT md5(i::text)::uuid, i FROM generate_series(1, 100000) i;
CREATE INDEX w_u ON w USING harmonia (u) WITH (fillfactor = 70);
-- Many rows with the same key: they fill more than a zone.
CREATE TABLE d (k int) WITH (autovacuum_enabled = off);
INSERT INTO d SELECT i / 40000 FROM generate_series(1, 300000) i;
CREATE INDEX d_k ON d USING harmonia (k) WITH (fillfactor = 50);
-- An included column
CREATE TABLE c (k bigint, v int) WITH (autovacuum_enabled = off);
INSERT INTO c SELECT hashint4(i / 3), i FROM generate_series(1, 150000) i;
CREATE INDEX c_k ON c USING harmonia (k) INCLUDE (v) WITH (fillfactor = 60);
VACUUM ANALYZE t, w, d, c;

CREATE FUNCTION lookups() RETURNS void LANGUAGE sql AS $$
	SELECT set_config('enable_seqscan', 'off', false), set_config('enable_hashjoin', 'off', false),
		set_config('enable_mergejoin', 'off', false), set_config('enable_nestloop', 'off', false),
		set_config('enable_indexscan', 'off', false),
		set_config('enable_bitmapscan', 'off', false), set_config('max_parallel_workers_per_gather', '0', false) $$;
END
my $lookups = 'DO $$ BEGIN PERFORM lookups(); END $$';

# ----------------------------------------------------------------
# Each kind of batch
# ----------------------------------------------------------------
cmp_ok($node->safe_psql('postgres', "SELECT pg_relation_size('t_k')"), '>', 2.5 * 1024 * 1024, 'the index is larger than the memory');
cmp_ok($node->safe_psql('postgres', "SELECT harmonia_load('t_k')"), '<=', 2 * 1024 * 1024, 'a part of it is copied');
my $rows = 'SELECT count(*), sum(v) FROM t WHERE k = ANY (ARRAY(SELECT hashint4(g)::bigint FROM generate_series(1, 250000, 5) g))';
like(nodes_of($node, $rows, $lookups), qr/Device: GPU( \(host device\))?, CPU/, 'EXPLAIN names both');
my ($batches, $device_keys, $fallbacks) = nodes_of($node, $rows, $lookups) =~ /Device Batches: (\d+)  Keys: (\d+)  Fallbacks: (\d+)/;
is($batches, 1, 'the device searches');
cmp_ok($device_keys, '>', 15000, 'many of the keys');
cmp_ok($device_keys, '<', 45000, 'and the CPU the others');
is($fallbacks, 0, 'which is no failure');
is(stat_of($node, 't_k', 'loads'), '1', 'one copy is made');
my $hash_join = 'SET harmonia.enable_lookup_join = off; SET harmonia.enable_lookup_scan = off; SET enable_indexscan = off; SET enable_indexonlyscan = off';
for my $query (
	$rows, $rows =~ s/, sum\(v\)//r,
	'SELECT count(*), sum(k) FROM t WHERE k = ANY (ARRAY(SELECT hashint4(g % 5000)::bigint FROM generate_series(1, 20000) g))',
	'SELECT count(*), sum(t.k) FROM generate_series(1, 200000, 7) g JOIN t ON t.k = hashint4(g)',
	'SELECT count(*), sum(t.v) FROM generate_series(1, 200000, 7) g JOIN t ON t.k = hashint4(g)',
	'SELECT count(*), sum(t.v) FROM generate_series(-2000000000, 2000000000, 40000000) g JOIN t ON t.k BETWEEN g AND g + 3000000',
	'SELECT count(*), sum(t.v) FROM generate_series(1, 100) g JOIN t ON t.k BETWEEN hashint4(g) AND hashint4(g) + g * 100000::bigint',
	'SELECT count(*) FROM generate_series(1, 250000, 7) g WHERE EXISTS (SELECT FROM t WHERE t.k = hashint4(g))',
	'SELECT count(*) FROM generate_series(1, 250000, 7) g WHERE NOT EXISTS (SELECT FROM t WHERE t.k = hashint4(g))',
	'SELECT count(*), sum(w.v) FROM generate_series(1, 150000, 7) g JOIN w ON w.u = md5(g::text)::uuid',
	'SELECT count(*) FROM w WHERE u = ANY (ARRAY(SELECT md5(g::text)::uuid FROM generate_series(1, 150000, 7) g))',
	'SELECT count(*), sum(c.v) FROM generate_series(1, 60000, 3) g JOIN c ON c.k = hashint4(g)',
	'SELECT count(*), sum(v) FROM c WHERE k = ANY (ARRAY(SELECT hashint4(g)::bigint FROM generate_series(1, 60000, 3) g))',
	'SELECT count(*), sum(t.k) FROM generate_series(1, 100) g JOIN t ON t.k BETWEEN hashint4(g) AND hashint4(g) + g * 100000::bigint',
	'SELECT count(*), sum(d.k) FROM generate_series(0, 1000) g JOIN d ON d.k = g',
	'SELECT count(*) FROM d WHERE k = ANY (ARRAY(SELECT generate_series(0, 3000)))')
{
	is($node->safe_psql('postgres', "$lookups; $query"), $node->safe_psql('postgres', "$hash_join; $query"), "the same without a device: $query");
	like(nodes_of($node, $query, $lookups), qr/Device Batches: [1-9]/, 'the device takes part');
}

# More indexes than a session keeps the zones of, in several batches each
$node->safe_psql('postgres', <<'END');
CREATE TABLE p (k bigint, v int) PARTITION BY HASH (k);
DO $$ BEGIN FOR i IN 0 .. 5 LOOP
	EXECUTE format('CREATE TABLE p%s PARTITION OF p FOR VALUES WITH (MODULUS 6, REMAINDER %s)', i, i);
END LOOP; END $$;
INSERT INTO p SELECT i, i FROM generate_series(1, 300000) i;
CREATE INDEX p_k ON p USING harmonia (k) WITH (fillfactor = 20);
VACUUM ANALYZE p;
END
my $many = 'SELECT count(*), sum(p.v) FROM generate_series(1, 400000, 3) g JOIN p ON p.k = g';
is($node->safe_psql('postgres', "SET work_mem = '1MB'; $lookups; $many"), $node->safe_psql('postgres', "$hash_join; $many"), 'six partitions');
my ($several) = nodes_of($node, $many, "SET work_mem = '1MB'; $lookups") =~ /Device Batches: (\d+)/;
cmp_ok($several // 0, '>', 6, "$several batches on the device");

# ----------------------------------------------------------------
# What is resident follows the probes
# ----------------------------------------------------------------
$node->safe_psql('postgres', "SELECT harmonia_unload(i) FROM unnest('{t_k,w_u,d_k}'::regclass[]) i");
my $few = 'SELECT count(*), sum(v) FROM t WHERE k = ANY (ARRAY(SELECT k FROM t WHERE k BETWEEN %s ORDER BY hashint8(k) LIMIT 40000))';
my $loads_before;
for my $range ('-2200000000 AND -900000000', '900000000 AND 2200000000', '-700000000 AND 700000000')
{
	my $query = sprintf $few, $range;
	my $share = 0;

	for (1 .. 60)
	{
		# Leaves are split between the re-syncs that exchange zones.
		$node->safe_psql('postgres', "INSERT INTO t (k, v) SELECT hashint4(i), i FROM generate_series($_ * 1000000, $_ * 1000000 + 500) i")
		  if $_ < 10 && $range =~ /^-7/;
		my $wanted = $node->safe_psql('postgres', "$hash_join; $query");

		is($node->safe_psql('postgres', "$lookups; $query"), $wanted, "keys $range") if $_ % 20 == 1 || $range =~ /^-7/;
		my $nodes = nodes_of($node, $query, $lookups);

		($share) = $nodes =~ /Device Batches: \d+  Keys: (\d+)/;
		last if ($share // 0) > 35000;
	}
	cmp_ok($share // 0, '>', 35000, "keys $range become resident");
	is($node->safe_psql('postgres', "$lookups; $query"), $node->safe_psql('postgres', "$hash_join; $query"), "keys $range, resident");
	$loads_before //= stat_of($node, 't_k', 'loads, fallbacks');
}
is(stat_of($node, 't_k', 'loads, fallbacks'), $loads_before, 'by exchanges of zones, not by other copies');

# Movements make leaves that begin in one zone and end in another; what is inserted there is found.
my $every = 'SELECT count(*), sum(v) FROM t WHERE k = ANY (ARRAY(SELECT k FROM t))';
for my $round (1 .. 4)
{
	$node->safe_psql('postgres', "INSERT INTO t (k, v) SELECT hashint4(i), i FROM generate_series($round * 3000000, $round * 3000000 + 3000) i");
	$node->safe_psql('postgres', "$lookups; $every");
	$node->safe_psql('postgres', "SELECT harmonia_reorganize('t_k')");
	$node->safe_psql('postgres', "$lookups; $every");
	$node->safe_psql('postgres', "INSERT INTO t (k, v) SELECT hashint4(i), i FROM generate_series($round * 5000000, $round * 5000000 + 3000) i");
	is($node->safe_psql('postgres', "$lookups; $every"), $node->safe_psql('postgres', "$hash_join; $every"), "all keys after a movement: $round");
}
like(nodes_of($node, $every, $lookups), qr/Device Batches: [1-9]/, 'the device takes part');

# ----------------------------------------------------------------
# Beside writers
# ----------------------------------------------------------------
create_compare_queries($node);
$node->safe_psql('postgres', <<'END');
-- Compare, in one snapshot, what the device and a sequential scan find for random keys of t.
CREATE FUNCTION compare(seed int, keys int) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	first bigint := hashint4(seed);
	probes bigint[] := CASE WHEN seed % 2 = 0 THEN ARRAY(SELECT k FROM t WHERE id % 17 = seed % 17 ORDER BY hashint8(id + seed) LIMIT keys)
		ELSE ARRAY(SELECT k FROM t WHERE k BETWEEN first AND first + 500000000 ORDER BY hashint8(id + seed) LIMIT keys) END;
	queries text[] := ARRAY[
		'SELECT count(*), sum(t.id), sum(t.v) FROM unnest($1) p(k) JOIN t ON t.k = p.k',
		'SELECT count(*), sum(t.k), NULL FROM unnest($1) p(k) JOIN t ON t.k = p.k',
		'SELECT count(*), sum(t.id), sum(t.v) FROM unnest($1[1:100]) p(k) JOIN t ON t.k BETWEEN p.k AND p.k + 300000',
		'SELECT count(*), sum(id), sum(v) FROM t WHERE k = ANY ($1 || $1)',
		'SELECT count(*), sum(k), NULL FROM t WHERE k = ANY ($1 || $1)',
		'SELECT count(*) FROM t WHERE k = ANY ($1 || $1)',
		'SELECT count(*) FROM t WHERE k BETWEEN $1[1] AND $1[1] + 400000000 OR k BETWEEN $1[2] AND $1[2] + 400000000',
		'SELECT count(*), sum(w.v), NULL FROM unnest($1) p(k) JOIN w ON w.u = md5((p.k % 100000)::text)::uuid'];
BEGIN
	PERFORM compare_queries(queries, probes);
END $$;
END
my $pid = daemon_pid($node);
my $readers = start_pgbench($node, {
		'compare' => "\\set seed random(1, 1000000)\n\\set keys random(1, 20000)\n"
		  . "BEGIN ISOLATION LEVEL REPEATABLE READ;\nSELECT compare(:seed, :keys);\nCOMMIT;\n" },
	'-c', 4, '-T', $seconds);
my $writers = start_pgbench($node, {
		'insert@6' => "\\set i random(1, 100000000)\nINSERT INTO t (k, v) SELECT hashint4(i), i FROM generate_series(:i, :i + 400) i;\n",
		'ascend@1' => "INSERT INTO t (k, v) SELECT 3000000000 + nextval('ids'), i FROM generate_series(1, 500) i;\n",
		'single@6' => "\\set i random(1, 100000000)\nINSERT INTO t (k, v) VALUES (hashint4(:i), :i);\nINSERT INTO w SELECT md5((:i % 100000)::text)::uuid, :i;\n",
		'delete@3' => "\\set i random(1, 1000)\nDELETE FROM t WHERE id % 1000 = :i;\nDELETE FROM w WHERE v % 1000 = :i;\n",
		'update@2' => "\\set i random(1, 1000)\nUPDATE t SET k = k + 1 WHERE id % 1000 = :i;\n" },
	'-c', 2, '-T', $seconds, '--max-tries=100');
my $maintenance = start_pgbench($node, {
		'vacuum@3' => "VACUUM t;\nVACUUM w;\n",
		'reorganize@2' => "SELECT harmonia_reorganize('t_k');\n",
		'unload@1' => "SELECT harmonia_unload('t_k');\n",
		'reindex@1' => "REINDEX INDEX CONCURRENTLY w_u;\n" },
	'-c', 1, '-T', $seconds);

for my $session ([ readers => $readers ], [ writers => $writers ], [ maintenance => $maintenance ])
{
	my $errors = finish($session->[1]);
	unlike($errors, qr/ERROR|abort|FATAL|PANIC/, "$session->[0]: no errors") or diag substr $errors, 0, 2000;
}
is(index_problem($node, 't_k'), '', 'the index is in order');
is(daemon_pid($node), $pid, 'the daemon lives');
my ($all, $on_device, $keys, $keys_there, $synced, $loads, $failed) = split /\|/, $node->safe_psql('postgres',
	"SELECT sum(batches), sum(device_batches), sum(keys), sum(device_keys), sum(synced_blocks), sum(loads), sum(fallbacks) FROM harmonia_stat_indexes()");
cmp_ok($on_device, '>', 50, "$on_device of $all batches and $keys_there of $keys keys on the device, $loads copies");
cmp_ok($synced, '>', 500, "$synced blocks had changed before");
cmp_ok($failed, '<', $on_device / 5, "$failed of these fell back to the CPU");

# ----------------------------------------------------------------
# Statements that are cancelled
# ----------------------------------------------------------------
# In one session, so that what a cancelled statement leaves behind meets the next one
my $wanted = $node->safe_psql('postgres', "$hash_join; $every");
my $script = "$lookups;\n";
for my $round (1 .. 60)
{
	my $timeout = 2 * $round;
	$script .= "SET statement_timeout = '${timeout}ms';\n$every;\nRESET statement_timeout;\n";
	$script .= "$every;\n" if $round % 6 == 0;
}
my (undef, $answers, $cancelled) = $node->psql('postgres', $script, on_error_stop => 0);
my @others = grep { $_ ne $wanted && $_ ne '' } split /\n/, $answers;
is_deeply(\@others, [], 'statements that end have the right answer');
my $ended = () = $answers =~ /^\Q$wanted\E$/mg;
my $cancels = () = $cancelled =~ /canceling statement due to statement timeout/g;
cmp_ok($cancels, '>', 5, "$cancels statements were cancelled");
# A RESET can take too long, too.
cmp_ok($ended + $cancels, '>=', 70, 'and all others have ended');
like(nodes_of($node, $every, $lookups), qr/Device Batches: [1-9]/, 'the device takes part after that');

# ----------------------------------------------------------------
# Daemons that die
# ----------------------------------------------------------------
$node->append_conf('postgresql.conf', 'harmonia.device_restart_delay = 10ms');
$node->reload;
$readers = start_pgbench($node, { 'compare' => "\\set seed random(1, 1000000)\n\\set keys random(1, 20000)\n"
	  . "BEGIN ISOLATION LEVEL REPEATABLE READ;\nSELECT compare(:seed, :keys);\nCOMMIT;\n" }, '-c', 3, '-T', 10);
$writers = start_pgbench($node, { 'single' => "\\set i random(1, 100000000)\nINSERT INTO t (k, v) VALUES (hashint4(:i), :i);\n" }, '-c', 1, '-T', 10);
my $kills = 0;
for (1 .. 16)
{
	usleep(500_000);
	my $victim = $node->safe_psql('postgres', 'SELECT pid FROM harmonia_device()');
	$kills += kill 'KILL', $victim if $victim ne '';
}
for my $session ([ readers => $readers ], [ writers => $writers ])
{
	my $errors = finish($session->[1]);
	unlike($errors, qr/ERROR|abort|FATAL|PANIC/, "$session->[0] beside $kills deaths: no errors") or diag substr $errors, 0, 2000;
}
cmp_ok($kills, '>', 5, "$kills daemons were killed");

$node->stop;
done_testing();
