--
-- Sub-selects: lookup joins that drop the duplicates of IN (SELECT ...) themselves
--
SET client_min_messages = warning;
SET timezone = 'UTC';
SET jit = off;
SET max_parallel_workers_per_gather = 0;
SET harmonia.enable_lookup_aggregate = off;
CREATE SCHEMA lookup_distinct;
SET search_path = lookup_distinct, public;
\getenv srcdir PG_ABS_SRCDIR
\set compare :srcdir '/sql/include/compare.sql'
\i :compare
\set lookup :srcdir '/sql/include/lookup.sql'
\i :lookup

-- Keys 0 to 3999 in two rows each, and NULLs
CREATE TABLE t (k int, id int GENERATED ALWAYS AS IDENTITY, b bigint, f float8, d date, ts timestamp) WITH (autovacuum_enabled = off);
INSERT INTO t (k, b, f, d, ts) SELECT n, n, n / 4.0, date '2000-01-01' + n, timestamp '2000-01-01' + n * interval '6 hours'
	FROM (SELECT shuffle(i) % 4000 AS n FROM generate_series(1, 8000) i) s;
INSERT INTO t (k) SELECT NULL FROM generate_series(1, 50);
CREATE INDEX ON t USING harmonia (k);
CREATE INDEX ON t USING harmonia (b);
CREATE INDEX ON t USING harmonia (f);
CREATE INDEX ON t USING harmonia (d);
CREATE INDEX ON t USING harmonia (ts);
-- What is looked for: duplicates, NULLs, and keys that are in no row
CREATE TABLE p (n int, k int, b bigint, s smallint, f float8, f4 float4, d date, ts timestamp, tz timestamptz) WITH (autovacuum_enabled = off);
INSERT INTO p SELECT i, x, x, x, x / 4.0, x / 4.0, date '2000-01-01' + x, timestamp '2000-01-01' + x * interval '6 hours', timestamptz '2000-01-01' + x * interval '6 hours'
	FROM (SELECT i, CASE WHEN i % 10 > 0 THEN shuffle(i * 7) % 900 * 5 - 150 END AS x FROM generate_series(1, 1500) i) s;
-- Many keys, of which most are different, or few
CREATE TABLE many WITH (autovacuum_enabled = off) AS SELECT shuffle(i) % 20000 AS k, shuffle(i) % 700 AS few FROM generate_series(1, 30000) i;
CREATE TABLE none (k int);
:vacuum ANALYZE t, p, many, none;

-- Whether a query's lookup join drops duplicates, and whether what PostgreSQL would do it with
-- is in the plan
CREATE FUNCTION drops(VARIADIC queries text[]) RETURNS TABLE (drops text, others text, query text) LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	CALL use_lookups(true);
	PERFORM set_config('enable_seqscan', 'on', true);
	FOREACH query IN ARRAY queries LOOP
		EXECUTE 'EXPLAIN (FORMAT JSON) ' || query INTO plan;
		SELECT string_agg(coalesce(node ->> 'Distinct Keys', 'false'), ', ') INTO drops
			FROM jsonb_path_query(plan::jsonb, 'strict $.** ? (@."Custom Plan Provider" == "HarmoniaLookupJoin")') node;
		others := plan_nodes(query, 'Aggregate|Unique|Sort');
		RETURN NEXT;
	END LOOP;
END $$;
BEGIN;
CALL use_lookups(true);
SET LOCAL enable_seqscan = on;
SELECT * FROM plan('SELECT k FROM t WHERE k IN (SELECT k FROM p)');
ROLLBACK;
SELECT * FROM drops(
	'SELECT id FROM t WHERE k IN (SELECT k FROM p)',
	'SELECT k FROM t WHERE k IN (SELECT k FROM p)',
	'SELECT id FROM t WHERE k = ANY (SELECT n + k FROM p WHERE n > 7)',
	'SELECT id FROM t WHERE EXISTS (SELECT FROM p WHERE p.k = t.k AND p.n < 100)',
	'SELECT id FROM t WHERE b IN (SELECT k FROM p)',
	'SELECT id FROM t WHERE k IN (SELECT b FROM p)',
	'SELECT id FROM t WHERE k IN (SELECT p.k FROM p JOIN none USING (k))',
	'SELECT id FROM t WHERE k IN (SELECT k FROM p) AND id % 2 = 0',
	-- DISTINCT and GROUP BY on that column alone
	'SELECT id FROM (SELECT DISTINCT k FROM p) s JOIN t USING (k)',
	'SELECT s.k, id FROM (SELECT k FROM p GROUP BY k) s JOIN t USING (k)',
	'SELECT id FROM (SELECT DISTINCT p.k + n AS x FROM p JOIN many USING (k)) s JOIN t ON t.k = x',
	'SELECT id FROM t WHERE k IN (SELECT DISTINCT k FROM p)',
	'SELECT id FROM (SELECT DISTINCT k FROM p ORDER BY k) s JOIN t USING (k)');
-- Not so
SELECT * FROM drops(
	'SELECT id FROM t WHERE (k, id) IN (SELECT k, n FROM p)',
	'SELECT id FROM t WHERE EXISTS (SELECT FROM p WHERE p.k = t.k AND p.n < t.id)',
	'SELECT id FROM t WHERE ts IN (SELECT tz FROM p)',
	'SELECT n, id FROM p JOIN t USING (k)',
	'SELECT n FROM p WHERE k IN (SELECT k FROM t)',
	'SELECT id FROM (SELECT DISTINCT k, n FROM p) s JOIN t USING (k)',
	'SELECT id FROM (SELECT DISTINCT ON (n) k FROM p) s JOIN t USING (k)',
	'SELECT id FROM (SELECT k FROM p GROUP BY k, n) s JOIN t USING (k)',
	'SELECT id FROM (SELECT k FROM p GROUP BY k HAVING count(*) > 1) s JOIN t USING (k)',
	'SELECT id FROM (SELECT k FROM p GROUP BY k HAVING k + random() * 0 > 500) s JOIN t USING (k)',
	'SELECT id, c FROM (SELECT k, count(*) AS c FROM p GROUP BY k) s JOIN t USING (k)',
	'SELECT id FROM (SELECT DISTINCT k FROM p LIMIT 5) s JOIN t USING (k)',
	'SELECT id FROM (SELECT k FROM p UNION SELECT n FROM p) s JOIN t USING (k)',
	'SELECT id FROM (SELECT DISTINCT k + (random() * 0)::int AS k FROM p) s JOIN t USING (k)',
	'SELECT id FROM (SELECT DISTINCT k FROM p) s JOIN t ON t.k = s.k % 10',
	'SELECT id, s.k FROM (SELECT DISTINCT b AS k FROM p) s JOIN t USING (k)',
	'SELECT id FROM (SELECT DISTINCT k FROM p) s JOIN t ON t.k = s.k AND t.id > s.k',
	'SELECT id FROM (SELECT DISTINCT k FROM p) s LEFT JOIN t USING (k)');

-- Answers
SELECT * FROM compare_lookups(
	'SELECT * FROM t WHERE k IN (SELECT k FROM p)',
	'SELECT k FROM t WHERE k IN (SELECT k FROM p)',
	'SELECT count(*) FROM t WHERE k IN (SELECT k FROM p)',
	'SELECT * FROM t WHERE k = ANY (SELECT n + k FROM p WHERE n > 7)',
	'SELECT * FROM t WHERE k IN (SELECT k FROM none)',
	'SELECT * FROM t WHERE k IN (SELECT NULL::int FROM p)',
	'SELECT * FROM t WHERE k IN (SELECT 500 FROM p)',
	'SELECT * FROM t WHERE k IN (SELECT k FROM p) AND id % 2 = 0 AND ts > ''2001-01-01''',
	'SELECT * FROM t WHERE EXISTS (SELECT FROM p WHERE p.k = t.k AND p.n < 100)',
	'SELECT * FROM t WHERE k IN (SELECT p.k FROM p JOIN many USING (k) WHERE few < 50)',
	'SELECT * FROM t WHERE k IN (SELECT k FROM p UNION ALL SELECT few FROM many)',
	'SELECT * FROM t WHERE k IN (SELECT k FROM p) AND b IN (SELECT b FROM p WHERE n < 2000)',
	'SELECT t.id, many.few FROM t JOIN many USING (k) WHERE t.k IN (SELECT k FROM p WHERE n < 100)',
	'SELECT t.id, u.id FROM t JOIN t u USING (k) WHERE k IN (SELECT k FROM p)',
	'SELECT t.id, u.id FROM t LEFT JOIN t u ON u.k = t.k AND u.id % 3 = 0 WHERE t.k IN (SELECT k FROM p)',
	'SELECT t.k, u.b FROM t JOIN t u ON u.b = t.k WHERE t.k IN (SELECT k FROM p WHERE n < 100)',
	'SELECT k, count(*) FROM t WHERE k IN (SELECT k FROM p) GROUP BY k',
	'SELECT * FROM t WHERE k IN (SELECT k FROM p) ORDER BY k, id LIMIT 100',
	'SELECT * FROM t WHERE k IN (SELECT k FROM many)',
	'SELECT * FROM t WHERE k IN (SELECT few FROM many)',
	'SELECT k FROM t WHERE b IN (SELECT k FROM many)',
	'SELECT count(*) FROM t WHERE k IN (SELECT few FROM many)');
SELECT * FROM compare_lookups(
	'SELECT id FROM (SELECT DISTINCT k FROM p) s JOIN t USING (k)',
	'SELECT s.k, id, t.k FROM (SELECT k FROM p GROUP BY k) s JOIN t USING (k)',
	'SELECT s.k + 1 FROM (SELECT DISTINCT k FROM many) s JOIN t USING (k) WHERE s.k > 500',
	'SELECT s.d, id FROM (SELECT DISTINCT d FROM p) s JOIN t USING (d)',
	'SELECT s.f, id FROM (SELECT DISTINCT f FROM p) s JOIN t USING (f)',
	'SELECT s.b, id FROM (SELECT DISTINCT b FROM p) s JOIN t ON t.k = s.b',
	'SELECT id FROM (SELECT DISTINCT b FROM p) s JOIN t ON t.k = s.b',
	'SELECT id FROM (SELECT DISTINCT p.k + n AS x FROM p JOIN many USING (k)) s JOIN t ON t.k = x',
	'SELECT id, u.n FROM (SELECT DISTINCT k FROM p) s JOIN t USING (k) JOIN p u ON u.k = s.k',
	'SELECT id FROM t WHERE k IN (SELECT DISTINCT k FROM p)',
	'SELECT id FROM (SELECT DISTINCT ON (n) k FROM p) s JOIN t USING (k)',
	'SELECT id FROM (SELECT k FROM p GROUP BY k HAVING k + random() * 0 > 500) s JOIN t USING (k)',
	'SELECT id FROM (SELECT DISTINCT k FROM p) s JOIN t ON t.k = s.k % 10',
	'SELECT id, s.k FROM (SELECT DISTINCT k FROM p) s LEFT JOIN t USING (k)',
	'SELECT k FROM (SELECT DISTINCT k FROM p) s WHERE EXISTS (SELECT FROM t WHERE t.k = s.k)',
	'SELECT k FROM (SELECT DISTINCT k FROM p) s WHERE NOT EXISTS (SELECT FROM t WHERE t.k = s.k)');
-- Types
SELECT * FROM compare_lookups(
	'SELECT * FROM t WHERE k IN (SELECT b FROM p)', 'SELECT * FROM t WHERE k IN (SELECT b * 10000000 FROM p)', 'SELECT * FROM t WHERE k IN (SELECT s FROM p)', 'SELECT * FROM t WHERE b IN (SELECT k FROM p)',
	'SELECT * FROM t WHERE f IN (SELECT f FROM p)', 'SELECT * FROM t WHERE f IN (SELECT f4 FROM p)', 'SELECT t.id, u.id FROM t JOIN t u ON u.f = t.f WHERE t.f IN (SELECT -f * -1 FROM p)',
	'SELECT * FROM t WHERE d IN (SELECT d FROM p)', 'SELECT * FROM t WHERE d IN (SELECT ts FROM p)', 'SELECT * FROM t WHERE d IN (SELECT tz FROM p)',
	'SELECT * FROM t WHERE ts IN (SELECT d FROM p)', 'SELECT * FROM t WHERE ts IN (SELECT ts FROM p)', 'SELECT * FROM t WHERE ts IN (SELECT tz FROM p)');

-- Rescans, with other keys and with the same
SELECT * FROM compare_lookups(
	'SELECT n, (SELECT sum(id) FROM t WHERE k IN (SELECT q.k FROM p q WHERE q.n BETWEEN p.n AND p.n + 100)) FROM p WHERE n % 300 = 3',
	'SELECT n, s.* FROM p, LATERAL (SELECT k, id FROM t WHERE k IN (SELECT q.k FROM p q WHERE q.n < 40) AND id > p.n * 10 OFFSET 0) s WHERE n % 300 = 3',
	'SELECT n, s.* FROM p, LATERAL (SELECT k, id FROM t WHERE k IN (SELECT many.k FROM many WHERE few > p.n) AND id < 500 OFFSET 0) s WHERE n IN (30, 600, 699)');

-- Keys that do not fit into memory, though the distinct ones may
CREATE FUNCTION uses_disk(query text) RETURNS TABLE (disk boolean, batches int, keys int) LANGUAGE plpgsql AS $$
DECLARE
	plan json;
	node jsonb;
BEGIN
	CALL use_lookups(true);
	SET LOCAL enable_seqscan = on;
	SET LOCAL work_mem = '64kB';
	SET LOCAL hash_mem_multiplier = 1;
	EXECUTE 'EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ' || query INTO plan;
	FOR node IN SELECT jsonb_path_query(plan::jsonb, 'strict $.** ? (@."Distinct Keys" == true)') LOOP
		disk := (node ->> 'Temp Written Blocks')::int > 0;
		batches := node ->> 'Batches';
		keys := node ->> 'Keys';
		RETURN NEXT;
	END LOOP;
END $$;
SELECT disk, batches > 1 AS several, keys FROM uses_disk('SELECT id FROM t WHERE k IN (SELECT k FROM many)');
SELECT disk, batches > 1 AS several, keys < 8000 AS few FROM uses_disk('SELECT id FROM t WHERE k IN (SELECT few FROM many)');
SELECT disk, batches > 1 AS several, keys FROM uses_disk('SELECT id FROM t WHERE k IN (SELECT k FROM p WHERE n < 1000)');
-- No more is left of a query that fails, or that is not read to its end.
BEGIN;
CALL use_lookups(false);
SET LOCAL enable_seqscan = on;
SET LOCAL work_mem = '64kB';
SAVEPOINT s;
SELECT sum(1 / (id - 5000)) FROM t WHERE k IN (SELECT k FROM many);
ROLLBACK TO s;
DECLARE c CURSOR FOR SELECT id FROM t WHERE k IN (SELECT k FROM many);
SELECT n FROM rest('c', 3000);
CLOSE c;
DECLARE c SCROLL CURSOR FOR SELECT id FROM t WHERE k IN (SELECT k FROM p);
SELECT n FROM rest('c', 300);
MOVE BACKWARD ALL IN c;
SELECT n FROM rest('c');
CLOSE c;
ROLLBACK;
SELECT count(*) FROM (SELECT FROM t WHERE k IN (SELECT k FROM p) LIMIT 7) s;

-- Prepared
PREPARE q(int) AS SELECT count(*), sum(id) FROM t WHERE k IN (SELECT k FROM p WHERE n < $1);
BEGIN;
CALL use_lookups(false);
SET LOCAL enable_seqscan = on;
SET LOCAL plan_cache_mode = force_generic_plan;
EXECUTE q(100);
INSERT INTO p (n, k) VALUES (1, 17), (1, 17);
EXECUTE q(100);
EXECUTE q(NULL);
ROLLBACK;
DEALLOCATE q;

-- Partitions
CREATE TABLE r (k int, id int) PARTITION BY RANGE (k);
CREATE TABLE r_1 PARTITION OF r FOR VALUES FROM (MINVALUE) TO (1000);
CREATE TABLE r_2 PARTITION OF r FOR VALUES FROM (1000) TO (3000);
CREATE TABLE r_3 PARTITION OF r DEFAULT;
INSERT INTO r SELECT k, id FROM t;
CREATE INDEX ON r USING harmonia (k);
CREATE TABLE h (k int, id int) PARTITION BY HASH (k);
CREATE TABLE h_0 PARTITION OF h FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE h_1 PARTITION OF h FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO h SELECT k, id FROM t;
CREATE INDEX ON h USING harmonia (k);
:vacuum ANALYZE r, h;
SELECT drops, others FROM drops('SELECT * FROM r WHERE k IN (SELECT k FROM p)', 'SELECT * FROM h WHERE k IN (SELECT k FROM p)');
SELECT * FROM compare_lookups(
	'SELECT * FROM r WHERE k IN (SELECT k FROM p)', 'SELECT * FROM r WHERE k IN (SELECT k FROM many)', 'SELECT k FROM r WHERE k IN (SELECT few FROM many)',
	'SELECT r.id, t.id FROM r JOIN t USING (k) WHERE r.k IN (SELECT k FROM p WHERE n < 1000)', 'SELECT * FROM r WHERE k IN (SELECT b FROM p) AND k > (SELECT min(few) FROM many)',
	'SELECT * FROM h WHERE k IN (SELECT k FROM p)', 'SELECT * FROM h WHERE k IN (SELECT k FROM many)', 'SELECT count(*) FROM h WHERE k IN (SELECT n + k FROM p)');

-- Parallel plans
BEGIN;
SET LOCAL max_parallel_workers_per_gather = 2;
SET LOCAL parallel_setup_cost = 0;
SET LOCAL parallel_tuple_cost = 0;
SET LOCAL min_parallel_table_scan_size = 0;
SET LOCAL min_parallel_index_scan_size = 0;
SET LOCAL :force_parallel = on;
SET LOCAL lookup.seqscan = on;
SELECT n, result FROM compare_lookups('SELECT * FROM t WHERE k IN (SELECT k FROM p)', 'SELECT * FROM t WHERE k IN (SELECT k FROM many)');
ROLLBACK;

DROP SCHEMA lookup_distinct CASCADE;
