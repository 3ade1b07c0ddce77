# What the device does, what EXPLAIN and the functions say of it, and which file a copy is of.
use strict;
use warnings;

use Harmonia;
use HarmoniaDevice;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# ----------------------------------------------------------------
# Without the library preloaded
# ----------------------------------------------------------------
skip_without_daemon();
my $plain = new_node('plain');
$plain->safe_psql('postgres', 'CREATE TABLE t (k int); CREATE INDEX t_k ON t USING harmonia (k)');
for my $call ("harmonia_load('t_k')", "harmonia_unload('t_k')", 'harmonia_stat_reset()')
{
	my ($result, $out, $err) = $plain->psql('postgres', "\\set VERBOSITY verbose\nSELECT $call");
	like($err, qr/55000: harmonia must be loaded via shared_preload_libraries/, "$call needs the library preloaded");
}
is($plain->safe_psql('postgres', 'SELECT state, is_gpu, pid, memory FROM harmonia_device()'), 'not preloaded|||', 'no device');
is($plain->safe_psql('postgres', 'SELECT count(*) FROM pg_stat_harmonia'), '0', 'no statistics');
$plain->stop;

# ----------------------------------------------------------------
# Loading, searching, re-sync
# ----------------------------------------------------------------
my $node = new_device_node('device', conf => "max_prepared_transactions = 5\nharmonia.max_resident_blocks = 3000\n");
is($node->safe_psql('postgres', 'SELECT is_gpu, name IS NOT NULL, pid > 0, starts FROM harmonia_device()'),
	(on_gpu() ? 't' : 'f') . '|t|t|1', 'the device is up');

$node->safe_psql('postgres', <<'END');
CREATE TABLE t (k int, v int) WITH (autovacuum_enabled = off);
INSERT INTO t SELECT i, i FROM generate_series(1, 50000) i;
CREATE INDEX t_k ON t USING harmonia (k);
VACUUM ANALYZE t;
CREATE FUNCTION lookups() RETURNS void LANGUAGE sql AS $$
	SELECT set_config('enable_seqscan', 'off', false), set_config('enable_hashjoin', 'off', false),
		set_config('enable_mergejoin', 'off', false), set_config('enable_nestloop', 'off', false),
		set_config('enable_indexscan', 'off', false),
		set_config('enable_bitmapscan', 'off', false), set_config('max_parallel_workers_per_gather', '0', false) $$;
END
my $lookups = 'DO $$ BEGIN PERFORM lookups(); END $$';
my $rows = 'SELECT count(*), sum(v) FROM t WHERE k = ANY (ARRAY(SELECT generate_series(1, 60000, 2)))';
my $keys = 'SELECT count(*), sum(k) FROM t WHERE k = ANY (ARRAY(SELECT generate_series(1, 60000, 2)))';

cmp_ok($node->safe_psql('postgres', "SELECT harmonia_load('t_k')"), '>', 40 * 8192, 'a copy takes memory');
is(stat_of($node, 't_k', 'loads, resident, batches'), '1|t|0', 'it is resident');
like(nodes_of($node, $rows, $lookups), qr/Device: GPU( \(host device\))?\n\s+Device Batches: 1  Keys: 30000  Fallbacks: 0  Re-synced Blocks: 0 /,
	'the device searches');
is($node->safe_psql('postgres', "$lookups; $rows"), '25000|625000000', 'points');
is($node->safe_psql('postgres', "$lookups; $keys"), '25000|625000000', 'points, from the index alone');
like(nodes_of($node, $keys, $lookups), qr/Index Only: true.*Hits: 25000 .*Heap Fetches: 0/s, 'no heap fetches');
is($node->safe_psql('postgres', "$lookups; SELECT count(*), sum(v) FROM generate_series(1, 50000, 1000) g JOIN t ON k BETWEEN g AND g + 99"),
	'5000|122752500', 'ranges');
like(nodes_of($node, 'SELECT sum(k) FROM generate_series(1, 50000, 1000) g JOIN t ON k BETWEEN g AND g + 99', $lookups),
	qr/Index Only: true.*Device: GPU.*Heap Fetches: /s, 'ranges, from the index alone');
is($node->safe_psql('postgres', "$lookups; SELECT count(*) FROM t WHERE k = ANY (ARRAY(SELECT generate_series(5000000000, 5000001000)))"),
	'0', 'keys that the index cannot have');

# Two columns, alone.  NULL shares its key with 2177342782468422677, so such rows are looked at.
$node->safe_psql('postgres', <<'END');
CREATE TABLE pairs (a bigint, b bigint) WITH (autovacuum_enabled = off);
INSERT INTO pairs SELECT i % 100, i FROM generate_series(1, 50000) i;
INSERT INTO pairs SELECT a, b FROM unnest('{2177342782468422677,NULL,7}'::bigint[]) a, unnest('{2177342782468422677,NULL,8}'::bigint[]) b;
CREATE INDEX pairs_key ON pairs USING harmonia (a, b);
VACUUM ANALYZE pairs;
SELECT harmonia_load('pairs_key');
END
my $probes = '(SELECT CASE WHEN i % 3 = 0 THEN 2177342782468422677 ELSE i % 100 END AS a, CASE WHEN i % 6 = 0 THEN 2177342782468422677 ELSE i END AS b'
  . ' FROM generate_series(1, 30000) i) o';
for my $query ("SELECT count(*), sum(p.a), sum(p.b) FROM $probes JOIN pairs p USING (a, b)",
	'SELECT count(*) FROM generate_series(1, 30000) i JOIN pairs p ON a = i % 100 AND b = i',
	"SELECT count(*) FROM $probes WHERE NOT EXISTS (SELECT FROM pairs p WHERE p.a = o.a AND p.b = o.b)")
{
	like(nodes_of($node, $query, $lookups), qr/Index Only: true.*Device: GPU/s, "the device searches: $query");
	is($node->safe_psql('postgres', "$lookups; $query"),
		$node->safe_psql('postgres', "SET harmonia.enable_lookup_join = off; SET enable_indexonlyscan = off; $query"), 'the same without it');
}
is($node->safe_psql('postgres', "$lookups; SELECT count(*) FROM generate_series(4294967297, 4294970000) g JOIN t ON k = g"),
	'0', 'such keys are not taken for others');

$node->safe_psql('postgres', 'UPDATE t SET v = 0 WHERE k <= 10; INSERT INTO t VALUES (1, 1000000)');
like(nodes_of($node, $rows, $lookups), qr/Re-synced Blocks: [1-3]  Lines: \d\d? /, 'little is sent after few changes');
is($node->safe_psql('postgres', "$lookups; $rows"), '25001|625999975', 'changed rows are found');
$node->safe_psql('postgres', 'DELETE FROM t WHERE k > 40000');
$node->safe_psql('postgres', 'VACUUM t');
is($node->safe_psql('postgres', "$lookups; $keys"), '20001|400000001', 'rows that VACUUM has removed are not found');
is($node->safe_psql('postgres', "BEGIN; INSERT INTO t VALUES (3, 0); $lookups; $keys; ROLLBACK"), '20002|400000004',
	'a transaction sees its own changes');

# Rows that a device has found are compared with the probe, and the planner charges for that:
# an expression is evaluated for each of them.
$node->safe_psql('postgres', <<'END');
CREATE FUNCTION slow(int) RETURNS int IMMUTABLE COST 1000 LANGUAGE plpgsql AS 'BEGIN RETURN $1; END';
CREATE TABLE e AS SELECT i AS k, i AS v FROM generate_series(1, 2000) i;
CREATE INDEX e_slow ON e USING harmonia (slow(k));
VACUUM ANALYZE e;
END
my $slow = 'SELECT sum(v) FROM e WHERE slow(k) IN (' . join(',', 1 .. 1000) . ')';
my %cost;
for my $enabled ('on', 'off')
{
	my $plan = $node->safe_psql('postgres', "SET harmonia.enable_device = $enabled; $lookups; EXPLAIN $slow");

	($cost{$enabled}) = $plan =~ /LookupScan\) on e  \(cost=[\d.]+\.\.([\d.]+)/;
}
cmp_ok($cost{on} - $cost{off}, '>', 2000, 'to evaluate an expression for 1000 rows has a cost');

# Counts of rows on all-visible pages and on others
my $number = 'SELECT count(*) FROM t WHERE k = ANY (ARRAY(SELECT generate_series(0, 60000, 2) UNION ALL SELECT generate_series(1, 30001, 3)))';
$node->safe_psql('postgres', 'VACUUM (INDEX_CLEANUP on) t');
is($node->safe_psql('postgres', "$lookups; $number"), '25002', 'how many rows there are');
like(nodes_of($node, $number, $lookups), qr/Device: GPU( \(host device\))?\n.*Hits: 25002 .*Heap Fetches: 0/s, 'rows are counted without the heap');
like(nodes_of($node, $number, $lookups), qr/Bytes: \d+ \+ 0\n/, 'the device counts them');
$node->safe_psql('postgres', 'UPDATE t SET v = v WHERE k = 20000');
my ($bytes, $fetches) = nodes_of($node, $number, $lookups) =~ /Bytes: \d+ \+ (\d+)\n.*Heap Fetches: (\d+)/s;
cmp_ok($fetches, '>', 0, 'the heap is asked for rows on changed pages');
cmp_ok($fetches, '<', 600, 'and not for others');
is($bytes, 8 * $fetches, 'the device returns just these');
is($node->safe_psql('postgres', "$lookups; $number"), '25002', 'and counts the others');
is($node->safe_psql('postgres', "BEGIN; DELETE FROM t WHERE k <= 100; INSERT INTO t VALUES (4, 0), (4, 1); $lookups; $number; ROLLBACK"),
	'24936', 'some rows are deleted and others new');
is($node->safe_psql('postgres', "SET default_transaction_isolation = 'serializable'; $lookups; $number"), '25002', 'in a serializable transaction');
is($node->safe_psql('postgres', "SET work_mem = '1MB'; $lookups; $number"), '25002', 'in several batches');
$number = 'SELECT count(*) FROM t WHERE k BETWEEN 1 AND 99 OR k BETWEEN 200 AND 299 OR k BETWEEN 39000 AND 70000';
is($node->safe_psql('postgres', "$lookups; $number"), '1201', 'rows in ranges');
like(nodes_of($node, $number, $lookups), qr/HarmoniaLookupAggregate.*Device: GPU/s, 'the device counts rows in ranges');

# Joins that read the index alone get what is on all-visible pages by probe, and the rest as hits.
# Keys have several rows, outer rows several equal keys, and four pages in ten are not all-visible.
$node->safe_psql('postgres', <<'END');
CREATE TABLE m (k int) WITH (autovacuum_enabled = off);
INSERT INTO m SELECT i % 5000 FROM generate_series(1, 20000) i;
CREATE INDEX m_k ON m USING harmonia (k);
CREATE TABLE o AS SELECT i * 7919 % 6000 AS k, i::bigint * 7919 % 6000 + 1000000000000 * (i % 50 / 49) AS far, i AS p
	FROM generate_series(1, 12000) i;
INSERT INTO o VALUES (NULL, NULL, 0);
VACUUM ANALYZE m, o;
DELETE FROM m WHERE k < 2000 AND k % 100 = 77;
INSERT INTO m VALUES (3), (3), (5500);
END
my %by_probe = (
	'an inner join' => 'SELECT count(*), sum(p), sum(m.k), min(m.k) FROM o JOIN m USING (k)',
	'an inner join, row by row' => 'SELECT count(s.*), sum(p), sum(hashint4(k)) FROM (SELECT o.p, m.k FROM o JOIN m USING (k) OFFSET 0) s',
	'a join with a condition' => 'SELECT count(*), sum(p) FROM o JOIN m ON m.k = o.k AND m.k % 3 = o.p % 3',
	'a left join' => 'SELECT count(*), sum(p), count(m.k), sum(m.k) FROM o LEFT JOIN m USING (k)',
	'a semijoin' => 'SELECT count(*), sum(p) FROM o WHERE EXISTS (SELECT FROM m WHERE m.k = o.k)',
	'an antijoin' => 'SELECT count(*), sum(p) FROM o WHERE NOT EXISTS (SELECT FROM m WHERE m.k = o.k)',
	'groups' => 'SELECT sum(n * g), count(*) FROM (SELECT p % 7 AS g, count(*) AS n FROM o JOIN m USING (k) GROUP BY 1) s',
	'a join with distinct keys' => 'SELECT count(*), sum(k) FROM m WHERE k IN (SELECT k FROM o)',
	'distinct keys that the index cannot have' => 'SELECT count(*), sum(k) FROM m WHERE k IN (SELECT far FROM o)');
for my $case (sort keys %by_probe)
{
	my $expected = $node->safe_psql('postgres',
		"SET harmonia.enable_lookup_join = off; SET harmonia.enable_lookup_scan = off; $by_probe{$case}");
	my $plan = nodes_of($node, $by_probe{$case}, $lookups);

	like($plan, qr/LookupJoin.*Index Only: true.*Device: GPU/s, "$case: the plan");
	my ($hits, $fetched) = $plan =~ /Hits: (\d+) .*Heap Fetches: (\d+)/;
	cmp_ok($fetched, '>', $hits / 20, "$case: $fetched of $hits hits are fetched");
	cmp_ok($fetched, '<', $hits * 3 / 5, "$case: and no more");
	is($node->safe_psql('postgres', "$lookups; $by_probe{$case}"), $expected, $case);
	is($node->safe_psql('postgres', "SET work_mem = '64kB'; $lookups; $by_probe{$case}"), $expected, "$case, in several batches");
	is($node->safe_psql('postgres', "SET default_transaction_isolation = 'serializable'; $lookups; $by_probe{$case}"),
		$expected, "$case, in a serializable transaction");
}

# A serializable transaction locks the pages whose rows it takes at the map's word.
is($node->safe_psql('postgres', <<"END"), '10000|t', 'a serializable transaction locks pages');
CREATE TABLE s AS SELECT generate_series(0, 4999) AS k;
CREATE INDEX s_k ON s USING harmonia (k);
VACUUM ANALYZE s;
$lookups;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT count(p) AS found, max(p) FROM o JOIN s USING (k) \\gset
SELECT :found, count(*) > 0 FROM pg_locks WHERE mode = 'SIReadLock' AND relation = 's'::regclass;
ROLLBACK;
END

# Each key has rows all over the table, and portions of hits are small.  The device returns hits
# in the order of heap pages, so a page is not visited for every portion.
$node->safe_psql('postgres', 'CREATE TABLE w AS SELECT i % 100 AS k, i AS v FROM generate_series(1, 30000) i;'
	  . ' CREATE INDEX w_k ON w USING harmonia (k); VACUUM ANALYZE w');
my $scattered = 'SELECT count(*), sum(v) FROM w WHERE k = ANY (ARRAY(SELECT generate_series(0, 99)))';
my %visits;
for my $enabled ('on', 'off')
{
	($visits{$enabled}) = nodes_of($node, $scattered, "SET work_mem = '64kB'; SET harmonia.enable_device = $enabled; $lookups") =~
	  /Hits: 30000 .*Heap Blocks: (\d+)/;
}
cmp_ok($visits{on}, '<', 200, 'pages visited for hits of the device');
cmp_ok($visits{off}, '>', 500, 'pages visited for hits of the CPU');
is($node->safe_psql('postgres', "SET work_mem = '64kB'; $lookups; $scattered"), '30000|450015000', 'their rows');

# Most rows of a key are left when a join begins again, for an outer row that finds none.
my $begins_again = 'SELECT FROM (VALUES (1, 5), (2, 1000), (3, 6)) o (p, k) JOIN w USING (k) WHERE o.p = %s LIMIT 2';
like(nodes_of($node, sprintf($begins_again, 1), $lookups), qr/LookupJoin.*Index Only: true/s, 'a join of few rows');
is($node->safe_psql('postgres', "$lookups; SELECT string_agg((SELECT count(*) FROM (" . sprintf($begins_again, 'g') . ") l)::text, ' ' ORDER BY i)"
	  . ' FROM unnest(ARRAY[2, 1, 2, 3, 2]) WITH ORDINALITY AS u (g, i)'), '0 2 0 2 0', 'a join that begins again has no rows of before');

# Two lookups that take hits in turn
is($node->safe_psql('postgres', "$lookups; SET work_mem = '64kB'; SELECT count(*), sum(a.v), sum(b.v)"
	  . ' FROM generate_series(1, 30000) g JOIN t a ON a.k = g JOIN t b ON b.k = a.k - 1'),
	$node->safe_psql('postgres', 'SET harmonia.enable_lookup_join = off; SELECT count(*), sum(a.v), sum(b.v)'
	  . ' FROM generate_series(1, 30000) g JOIN t a ON a.k = g JOIN t b ON b.k = a.k - 1'), 'two joins share staging memory');

# Errors are caught inside a query.  Only the error frees the lookup's memory.
is($node->safe_psql('postgres', <<"END"), '60', 'errors in between');
$lookups;
CREATE FUNCTION fails(i int) RETURNS int LANGUAGE plpgsql AS \$\$ BEGIN
	PERFORM 1 / (v - v) FROM t WHERE k = ANY (ARRAY(SELECT generate_series(1, 3000)));
	RETURN 0;
EXCEPTION WHEN division_by_zero THEN RETURN i;
END \$\$;
SELECT sum(fails(3)) FROM (SELECT k FROM t WHERE k = ANY (ARRAY(SELECT generate_series(11, 30))) OFFSET 0) s;
END

# A cursor whose hits stay in staging memory
is($node->safe_psql('postgres', <<"END"), '2990 11 3000 2990', 'a cursor and other queries take turns');
$lookups;
CREATE FUNCTION alternate(OUT result text) LANGUAGE plpgsql AS \$\$
DECLARE
	keys int[] := '{}';
	key int;
	found bigint := 0;
BEGIN
	FOR key IN SELECT k FROM t WHERE k = ANY (ARRAY(SELECT generate_series(11, 3000))) LOOP
		keys := keys || key;
		found := found + (SELECT count(*) FROM t WHERE k = ANY (ARRAY[key]));
	END LOOP;
	SELECT concat_ws(' ', count(DISTINCT k), min(k), max(k), found) INTO result FROM unnest(keys) k;
END \$\$;
SELECT alternate();
END

is(stat_of($node, 't_k', 'loads, evictions, fallbacks, resident'), '1|0|0|t', 'one copy served all this');
is($node->safe_psql('postgres', "SELECT harmonia_unload('t_k'), harmonia_unload('t_k')"), 't|f', 'a copy is unloaded once');
is(stat_of($node, 't_k', 'resident, device_bytes'), 'f|0', 'the index is not resident any more');
is($node->safe_psql('postgres', "$lookups; $keys"), '20001|400000001', 'a batch loads it again');
$node->safe_psql('postgres', 'SELECT harmonia_stat_reset()');
is(stat_of($node, 't_k', 'loads, batches, keys, resident'), '0|0|0|t', 'counts begin at 0 again');

# ----------------------------------------------------------------
# New files of an index, and copies of databases
# ----------------------------------------------------------------
$node->safe_psql('postgres', 'REINDEX INDEX t_k');
is($node->safe_psql('postgres', "$lookups; $keys"), '20001|400000001', 'after REINDEX');
is($node->safe_psql('postgres', "$lookups; BEGIN; TRUNCATE t; INSERT INTO t VALUES (7, 7); $keys; ROLLBACK; $keys"),
	"1|7\n20001|400000001", 'TRUNCATE rolled back');
is($node->safe_psql('postgres', <<"END"), "2|4\n1|7\n3|9", 'TRUNCATE of a new table, in place');
$lookups;
BEGIN;
CREATE TABLE fresh (k int);
INSERT INTO fresh VALUES (1), (3);
CREATE INDEX fresh_k ON fresh USING harmonia (k);
SELECT count(*), sum(k) FROM fresh WHERE k = ANY (ARRAY(SELECT generate_series(1, 1000)));
TRUNCATE fresh;
INSERT INTO fresh VALUES (7);
SELECT count(*), sum(k) FROM fresh WHERE k = ANY (ARRAY(SELECT generate_series(1, 1000)));
TRUNCATE fresh;
INSERT INTO fresh VALUES (2), (3), (4);
SELECT count(*), sum(k) FROM fresh WHERE k = ANY (ARRAY(SELECT generate_series(1, 1000)));
DROP TABLE fresh;
COMMIT;
END
is($node->safe_psql('postgres', "$lookups; BEGIN; DROP INDEX t_k; ROLLBACK; $keys"), '20001|400000001', 'DROP rolled back');

my $space = $node->basedir . '/space';
mkdir $space or die $!;
$node->safe_psql('postgres', "CREATE TABLESPACE space LOCATION '$space'");
$node->safe_psql('postgres', 'ALTER INDEX t_k SET TABLESPACE space');
$node->safe_psql('postgres', 'INSERT INTO t VALUES (1, 1)');
is($node->safe_psql('postgres', "$lookups; $keys"), '20002|400000002', 'in another tablespace');

# A copied database has indexes with the same file numbers and build ids.
$node->safe_psql('postgres', 'CREATE DATABASE one');
$node->safe_psql('one', 'CREATE EXTENSION harmonia; CREATE TABLE d (k int); INSERT INTO d SELECT generate_series(1, 1000);'
	  . ' CREATE INDEX d_k ON d USING harmonia (k); VACUUM ANALYZE d');
my $count = 'SET enable_seqscan = off; SELECT count(*) FROM d WHERE k = ANY (ARRAY(SELECT generate_series(1, 2000)))';
is($node->safe_psql('one', $count), '1000', 'a database');
$node->safe_psql('postgres', 'CREATE DATABASE two TEMPLATE one OID 40000');
$node->safe_psql('two', 'INSERT INTO d SELECT generate_series(1001, 1100)');
is($node->safe_psql('two', $count), '1100', 'a changed copy of it');
is($node->safe_psql('one', $count), '1000', 'the original');
$node->safe_psql('postgres', 'DROP DATABASE two');
$node->safe_psql('postgres', 'CREATE DATABASE two TEMPLATE one OID 40000');
is($node->safe_psql('two', $count), '1000', 'another copy in its place');
$node->safe_psql('postgres', 'ALTER DATABASE two SET TABLESPACE space');
$node->safe_psql('two', 'DELETE FROM d WHERE k > 900; INSERT INTO d SELECT generate_series(1201, 1205)');
$node->safe_psql('postgres', 'ALTER DATABASE two SET TABLESPACE pg_default');
is($node->safe_psql('two', $count), '905', 'a database that was changed in another tablespace and moved back');
$node->safe_psql('postgres', 'ALTER DATABASE two SET TABLESPACE space');
is($node->safe_psql('two', $count), '905', 'and moved there again');

# ----------------------------------------------------------------
# Keys of 128 bits
# ----------------------------------------------------------------
$node->safe_psql('postgres', <<'END');
CREATE TABLE uuids (k uuid, v int) WITH (autovacuum_enabled = off);
INSERT INTO uuids SELECT md5(i::text)::uuid, i FROM generate_series(1, 20000) i;
INSERT INTO uuids VALUES ('00000000-0000-0000-0000-000000000000', 1), ('ffffffff-ffff-ffff-ffff-ffffffffffff', 2), (NULL, 3);
INSERT INTO uuids SELECT 'ffffffff-ffff-ffff-ffff-ffffffffffff', 4 FROM generate_series(1, 2000);
CREATE INDEX uuids_k ON uuids USING harmonia (k);
CREATE TABLE orders (tenant int, id bigint, v int) WITH (autovacuum_enabled = off);
INSERT INTO orders SELECT i % 20, i, i FROM generate_series(1, 20000) i;
INSERT INTO orders SELECT a, b, -1 FROM unnest('{-2147483648,0,2147483647,NULL}'::int[]) a,
	unnest('{-9223372036854775808,-1,0,9223372036854775807,NULL}'::bigint[]) b;
CREATE INDEX orders_key ON orders USING harmonia (tenant, id);
CREATE TABLE wanted AS SELECT CASE i % 3 WHEN 0 THEN md5(i::text) WHEN 1 THEN md5('no' || i) ELSE repeat('f', 32) END::uuid AS k,
	i % 23 AS tenant, i::bigint + i % 2 AS id, i AS p FROM generate_series(1, 3000) i;
INSERT INTO wanted VALUES (NULL, NULL, 0, 0), ('00000000-0000-0000-0000-000000000000', -2147483648, -9223372036854775808, 0),
	(NULL, 2147483647, 9223372036854775807, 0), (NULL, 0, -1, 0);
VACUUM ANALYZE uuids, orders, wanted;
END
cmp_ok($node->safe_psql('postgres', "SELECT harmonia_load('$_')"), '>', 10 * 8192, "a copy of $_") for ('uuids_k', 'orders_key');
my $uuid_rows = 'SELECT count(*), sum(v) FROM uuids WHERE k = ANY (ARRAY(SELECT md5(i::text)::uuid FROM generate_series(1, 40000, 2) i))';
my $on_device = qr/Device: GPU( \(host device\))?\n/;
my %wide = (
	'points' => $uuid_rows,
	'rows in ranges' => "SELECT count(*), sum(v) FROM uuids WHERE k < '10000000-0000-0000-0000-000000000000' OR k > 'f0000000-0000-0000-0000-000000000000'",
	'a join, index-only' => 'SELECT count(*), sum(p) FROM wanted JOIN uuids USING (k)',
	'its rows' => 'SELECT count(*), sum(v + p) FROM wanted JOIN uuids USING (k)',
	'a semijoin' => 'SELECT count(*), sum(p) FROM wanted w WHERE EXISTS (SELECT FROM uuids u WHERE u.k = w.k)',
	'an antijoin' => 'SELECT count(*), sum(p) FROM wanted w WHERE NOT EXISTS (SELECT FROM uuids u WHERE u.k = w.k)',
	'distinct keys' => 'SELECT count(*), sum(v) FROM uuids WHERE k IN (SELECT k FROM wanted)',
	'a count' => 'SELECT count(*) FROM wanted JOIN uuids USING (k)',
	'two columns' => 'SELECT count(*), sum(p), sum(o.id) FROM wanted JOIN orders o USING (tenant, id)',
	'two columns, an antijoin' => 'SELECT count(*), sum(p) FROM wanted w WHERE NOT EXISTS (SELECT FROM orders o WHERE o.tenant = w.tenant AND o.id = w.id)',
	'the first column' => 'SELECT count(*), sum(o.v) FROM wanted JOIN orders o USING (tenant) WHERE p <= 50',
	'ranges of the second' => 'SELECT count(*), sum(v) FROM orders WHERE tenant IN (3, 5, 2147483647) AND id > 500');
for my $name (sort keys %wide)
{
	my $expected = $node->safe_psql('postgres', 'SET harmonia.enable_lookup_scan = off; SET harmonia.enable_lookup_join = off;'
		  . " SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_bitmapscan = off; $wide{$name}");

	like(nodes_of($node, $wide{$name}, $lookups), $on_device, "128 bits, $name: the device searches");
	is($node->safe_psql('postgres', "$lookups; $wide{$name}"), $expected, "128 bits, $name");
	is($node->safe_psql('postgres', "SET work_mem = '64kB'; $lookups; $wide{$name}"), $expected, "128 bits, $name, in several batches");
}
like(nodes_of($node, 'SELECT count(*) FROM uuids WHERE k = ANY (ARRAY(SELECT k FROM wanted))', $lookups),
	qr/Index Only: true.*Device: GPU( \(host device\))?\n\s+Device Batches: 1  Keys: \d+  .*Bytes: \d+ \+ 0\n.*Heap Fetches: 0/s, '128 bits: the device counts');

# Little is sent after few changes, also where leaves are split or moved.
$node->safe_psql('postgres', "UPDATE uuids SET v = 0 WHERE k < '01000000-0000-0000-0000-000000000000' AND v % 3 = 0");
like(nodes_of($node, $uuid_rows, $lookups), qr/Re-synced Blocks: \d  Lines: \d+ /, '128 bits: little is sent after few changes');
for my $change ('INSERT INTO uuids SELECT md5(i::text)::uuid, i FROM generate_series(20001, 25000) i', "DELETE FROM uuids WHERE v % 5 = 0; VACUUM uuids",
	"SELECT harmonia_reorganize('uuids_k')")
{
	$node->safe_psql('postgres', $change);
	is($node->safe_psql('postgres', "$lookups; $uuid_rows"), $node->safe_psql('postgres', 'SET harmonia.enable_lookup_scan = off;'
		  . " SET enable_indexscan = off; SET enable_bitmapscan = off; $uuid_rows"), "128 bits, after $change");
}
is(stat_of($node, 'uuids_k', 'loads, fallbacks, resident'), '1|0|t', '128 bits: one copy served all this');

# ----------------------------------------------------------------
# What the device does not do
# ----------------------------------------------------------------
sub error_of
{
	my ($query, $settings) = @_;
	my ($result, $out, $err) = $node->psql('postgres', "\\set VERBOSITY verbose\n" . ($settings // '') . "SELECT $query");
	return $err;
}
$node->safe_psql('postgres', <<'END');
CREATE TABLE parted (k int) PARTITION BY RANGE (k);
CREATE TABLE part PARTITION OF parted DEFAULT;
CREATE INDEX parted_k ON parted USING harmonia (k);
CREATE TABLE b (k int);
CREATE INDEX b_k ON b (k);
CREATE ROLE stranger;
CREATE TABLE big (k int) WITH (autovacuum_enabled = off);
INSERT INTO big SELECT generate_series(1, 500000);
CREATE INDEX big_k ON big USING harmonia (k) WITH (fillfactor = 10);
ANALYZE big;
END
like(error_of("harmonia_load('parted_k')"), qr/ERROR:  42809/, 'a partitioned index');
like(error_of("harmonia_load('b_k')"), qr/ERROR:  42809/, 'a btree');
like(error_of("harmonia_load('t')"), qr/ERROR:  42809/, 'a table');
like(error_of("harmonia_load('t_k')", 'SET ROLE stranger;'), qr/42501: must be owner of index t_k/, "another role's index");
like(error_of("harmonia_unload('t_k')", 'SET ROLE stranger;'), qr/42501: must be owner of index t_k/, 'only its owner can unload it');
like(error_of('harmonia_stat_reset()', 'SET ROLE stranger;'), qr/42501/, 'others cannot reset counts');
like(error_of('1', 'SET ROLE stranger; SET harmonia.force_device = on;'), qr/42501/, 'others cannot force the use of the device');
like(error_of("harmonia_load('tt_k')", 'CREATE TEMP TABLE tt (k int); CREATE INDEX tt_k ON tt USING harmonia (k);'),
	qr/0A000: cannot keep temporary index/, 'a temporary index');
like(error_of("harmonia_load('big_k')"), qr/53400: index "big_k" is too large.*HINT:  Raise harmonia.max_resident_blocks/s,
	'more blocks than can be watched');
my $many = 'SELECT count(*) FROM %s WHERE k = ANY (ARRAY(SELECT generate_series(1, 2000)))';
like(nodes_of($node, sprintf($many, 'big'), $lookups), qr/CPU Reason: index exceeds harmonia.max_resident_blocks/, 'EXPLAIN says so');
like(nodes_of($node, sprintf($many, 'tt'), "CREATE TEMP TABLE tt (k int); CREATE INDEX tt_k ON tt USING harmonia (k); $lookups"),
	qr/CPU Reason: temporary index/, 'EXPLAIN names a temporary index');
$node->safe_psql('postgres', 'CREATE UNLOGGED TABLE un AS SELECT generate_series(1, 1000) AS k; CREATE INDEX un_k ON un USING harmonia (k); ANALYZE un');
is($node->safe_psql('postgres', "$lookups; " . sprintf($many, 'un')), '1000', 'an unlogged index');
is(stat_of($node, 'un_k', 'device_batches'), '1', 'the device serves an unlogged index');

# Without harmonia.force_device costs decide: a batch of few keys stays on the CPU.
like(nodes_of($node, 'SELECT count(*) FROM t WHERE k = ANY (ARRAY(SELECT generate_series(1, 200)))',
		"SET harmonia.force_device = off; $lookups"), qr/Device: CPU\n\s+CPU Reason: few keys/, 'few keys');

# An index is copied when its batches have taken as much time as a copy is expected to take.
$node->safe_psql('postgres', 'CREATE TABLE auto AS SELECT generate_series(1, 50000) AS k; CREATE INDEX auto_k ON auto USING harmonia (k); ANALYZE auto');
my $auto = "SET harmonia.force_device = off; $lookups";
my $auto_rows = 'SELECT count(*), sum(k) FROM auto WHERE k = ANY (ARRAY(SELECT generate_series(1, 60000, 2)))';
like(nodes_of($node, $auto_rows, $auto), qr/Device: CPU\n\s+CPU Reason: index is not resident/, 'the first batch makes no copy');
my ($wrong, $loads) = (0, 0);
for (1 .. 500)
{
	$wrong++ if $node->safe_psql('postgres', "$auto; $auto_rows") ne '25000|625000000';
	$loads = stat_of($node, 'auto_k', 'loads');
	last if $loads > 0;
}
is($loads, 1, 'a later one does');
$wrong += $node->safe_psql('postgres', "$auto; $auto_rows") ne '25000|625000000' for 1 .. 20;
is($wrong, 0, 'all answers were right');
unlike(nodes_of($node, $auto_rows, $auto), qr/CPU Reason: (?!faster on the CPU)/, 'then the faster one is used');

# An index outgrows the words that were set aside for it.
$node->safe_psql('postgres', 'CREATE TABLE g (k int); INSERT INTO g VALUES (1); CREATE INDEX g_k ON g USING harmonia (k) WITH (fillfactor = 50)');
my $grown = 'SELECT count(*), sum(k) FROM g WHERE k = ANY (ARRAY(SELECT generate_series(1, 400000, 400)))';
is($node->safe_psql('postgres', "$lookups; $grown"), '1|1', 'a small index');
for my $i (0 .. 7)
{
	$node->safe_psql('postgres', "INSERT INTO g SELECT generate_series($i * 50000 + 2, $i * 50000 + 50001)");
	my $n = ($i + 1) * 125 + ($i == 7 ? 0 : 1);
	is($node->safe_psql('postgres', "$lookups; $grown"),
		$n . '|' . ($n + 400 * $n * ($n - 1) / 2), "an index grown to $n wanted keys");
}

# ----------------------------------------------------------------
# Settings
# ----------------------------------------------------------------
my $pid = daemon_pid($node);
$node->append_conf('postgresql.conf', 'harmonia.device_memory = 4');
$node->reload;
ok(wait_for_end($pid), 'another limit of memory ends the daemon');
wait_for_device($node, 'up', $pid);
is($node->safe_psql('postgres', "SELECT harmonia_load('g_k') <= 4 * 1024 * 1024"), 't', 'too little for an index: a part of it is copied');
my ($n, $there) = nodes_of($node, $grown, $lookups) =~ /Device Batches: (\d)  Keys: (\d+)/;
ok($n == 1 && $there > 100 && $there < 1000, "$there of 1000 keys are searched there");
is($node->safe_psql('postgres', "$lookups; $grown"), '1000|199801000', 'all are found');

# There is room for one of three copies of 2 MB each.
for my $i (1 .. 3)
{
	$node->safe_psql('postgres', "CREATE TABLE e$i AS SELECT generate_series(1, 150000) AS k; CREATE INDEX e${i}_k ON e$i USING harmonia (k) WITH (fillfactor = 50); ANALYZE e$i");
}
for my $i (1, 2, 3, 1, 2, 3)
{
	is($node->safe_psql('postgres', "$lookups; " . sprintf($many, "e$i")), '2000', "one of three copies: $i");
}
cmp_ok($node->safe_psql('postgres', "SELECT sum(loads) FROM pg_stat_harmonia WHERE indexrelname ~ '^e._k'"), '>', 3, 'older copies are evicted');

$node->append_conf('postgresql.conf', 'harmonia.gpu = off');
$node->reload;
wait_for_device($node, 'off');
like(error_of("harmonia_load('t_k')"), qr/55000: no device is in use\nHINT:  Set harmonia.gpu/, 'switched off');
unlike(nodes_of($node, $rows, $lookups), qr/Reason/, 'EXPLAIN gives no reason');
SKIP:
{
	skip 'there is a GPU', 4 if -e '/dev/nvidiactl';

	$node->append_conf('postgresql.conf', 'harmonia.gpu = auto');
	$node->reload;
	wait_for_device($node, 'absent');
	like($node->safe_psql('postgres', 'SELECT name FROM harmonia_device()'), qr/./, 'there is no GPU');
	like(nodes_of($node, $rows, $lookups), qr/CPU Reason: no device/, 'EXPLAIN says so');
	like(error_of("harmonia_load('t_k')"), qr/55000: the device is not available/, 'harmonia_load() says so');
	is(scalar(() = slurp_file($node->logfile) =~ /harmonia uses no GPU/g), 1, 'the log says so once');
}

$node->stop;
done_testing();
