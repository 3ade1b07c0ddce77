--
-- Sub-selects: keys read from the sub-select of an array
--
SET client_min_messages = warning;
SET timezone = 'UTC';
SET jit = off;
SET max_parallel_workers_per_gather = 0;
SET harmonia.enable_lookup_aggregate = off;
CREATE SCHEMA lookup_subplan;
SET search_path = lookup_subplan, public;
\getenv srcdir PG_ABS_SRCDIR
\set compare :srcdir '/sql/include/compare.sql'
\i :compare
\set lookup :srcdir '/sql/include/lookup.sql'
\i :lookup

-- Keys 0 to 1499 in two rows each, and NULLs
CREATE TABLE t (k int, id int GENERATED ALWAYS AS IDENTITY, b bigint, f float4, d date, ts timestamp) WITH (autovacuum_enabled = off);
INSERT INTO t (k, b, f, d, ts) SELECT n, n, n / 4.0, date '2000-01-01' + n, timestamp '2000-01-01' + n * interval '6 hours'
	FROM (SELECT shuffle(i) % 1500 AS n FROM generate_series(1, 3000) i) s;
INSERT INTO t (k) SELECT NULL FROM generate_series(1, 50);
CREATE INDEX ON t USING harmonia (k);
CREATE INDEX ON t USING harmonia (b);
CREATE INDEX ON t USING harmonia (f);
CREATE INDEX ON t USING harmonia (d);
CREATE INDEX ON t USING harmonia (ts);
-- What is looked for: duplicates, NULLs, and keys that are in no row
CREATE TABLE p (n int, k int, b bigint, s smallint, f float8, f4 float4, d date, ts timestamp, tz timestamptz, num numeric) WITH (autovacuum_enabled = off);
INSERT INTO p SELECT i, x, x, x, x / 4.0, x / 4.0, date '2000-01-01' + x, timestamp '2000-01-01' + x * interval '6 hours', timestamptz '2000-01-01' + x * interval '6 hours', x
	FROM (SELECT i, CASE WHEN i % 10 > 0 THEN shuffle(i * 7) % 1800 - 150 END AS x FROM generate_series(1, 600) i) s;
CREATE TABLE none (k int);
:vacuum ANALYZE t, p, none;

-- Whether a query's lookup scan reads the keys from the sub-select.  The sub-select's rows, and
-- how often it ran, as EXPLAIN ANALYZE says.
CREATE FUNCTION reads_keys(VARIADIC queries text[]) RETURNS TABLE (reads text, rows int, loops int, query text) LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	CALL use_lookups(true);
	PERFORM set_config('enable_seqscan', 'on', true);
	FOREACH query IN ARRAY queries LOOP
		EXECUTE 'EXPLAIN (ANALYZE, FORMAT JSON) ' || query INTO plan;
		SELECT string_agg(coalesce(node ->> 'Keys From Subplan', 'array'), ', ') INTO reads
			FROM jsonb_path_query(plan::jsonb, 'strict $.** ? (@."Custom Plan Provider" == "HarmoniaLookupScan")') node;
		SELECT (node ->> 'Actual Rows')::numeric, (node ->> 'Actual Loops')::int INTO rows, loops
			FROM jsonb_path_query(plan::jsonb, 'strict $.** ? (@."Parent Relationship" == "InitPlan")') node LIMIT 1;
		RETURN NEXT;
	END LOOP;
END $$;

SELECT * FROM reads_keys(
	'SELECT id FROM t WHERE k = ANY (ARRAY(SELECT k FROM p))',
	'SELECT count(*) FROM t WHERE k = ANY (ARRAY(SELECT k FROM p))',
	'SELECT id FROM t WHERE k = ANY (ARRAY(SELECT k FROM p WHERE n < 100 UNION SELECT n FROM p WHERE n > 550 ORDER BY 1 LIMIT 50))',
	'SELECT id FROM t WHERE k = ANY ((SELECT array_agg(k) FROM p)::int[])',
	'SELECT id FROM t WHERE k = ANY ((SELECT array_agg(n + k) FROM p)::int[])',
	'SELECT id FROM t WHERE b = ANY (ARRAY(SELECT k FROM p))',
	'SELECT id FROM t WHERE k = ANY (ARRAY(SELECT k FROM none))',
	'SELECT id FROM t WHERE k = ANY ((SELECT array_agg(k) FROM none)::int[])',
	'SELECT id FROM t WHERE k = ANY (ARRAY(SELECT k FROM p)) AND id % 2 = 0',
	'DELETE FROM t WHERE k = ANY (ARRAY(SELECT 2000 + k FROM p))');
-- The array is needed
SELECT * FROM reads_keys(
	'SELECT id FROM t WHERE k = ANY ((SELECT array_agg(k ORDER BY k) FROM p)::int[])',
	'SELECT id FROM t WHERE k = ANY ((SELECT array_agg(DISTINCT k) FROM p)::int[])',
	'SELECT id FROM t WHERE k = ANY ((SELECT array_agg(k) FILTER (WHERE n > 3) FROM p)::int[])',
	'SELECT id FROM t WHERE k = ANY ((SELECT array_agg(k) FROM p HAVING count(*) > 3)::int[])',
	'SELECT id FROM t WHERE k = ANY ((SELECT array_agg(k) FROM p WHERE n = 9 GROUP BY s)::int[])',
	'SELECT id FROM t WHERE k = ANY ((SELECT array_agg(k) || 5 FROM p)::int[])',
	'SELECT id FROM t WHERE k = ANY ((SELECT array_agg(ARRAY[k, n]) FROM p)::int[])',
	'SELECT id FROM t WHERE k = ANY (ARRAY(SELECT ARRAY[k, n] FROM p))',
	'SELECT id FROM t WHERE k = ANY (ARRAY(SELECT k FROM p)) AND k > 10',
	'SELECT id FROM t WHERE k = ANY (ARRAY(SELECT k FROM p)) OR k = 10',
	'SELECT id FROM t WHERE k = ANY (ARRAY(SELECT k FROM p WHERE random() >= 0))',
	'SELECT id FROM t WHERE k = ANY (ARRAY(SELECT k + (SELECT random() * 0)::int FROM p))',
	'SELECT id FROM t WHERE k = ANY (ARRAY(SELECT k + (SELECT p.k * random() * 0)::int FROM p))',
	'SELECT id FROM t WHERE ts = ANY (ARRAY(SELECT tz FROM p))',
	'SELECT id FROM t WHERE k <= ANY (ARRAY(SELECT k FROM p)) AND k >= ANY (ARRAY(SELECT k FROM p))');

-- Answers
SELECT * FROM compare_lookups(
	'SELECT * FROM t WHERE k = ANY (ARRAY(SELECT k FROM p))',
	'SELECT k FROM t WHERE k = ANY (ARRAY(SELECT k FROM p))',
	'SELECT count(*) FROM t WHERE k = ANY (ARRAY(SELECT k FROM p))',
	'SELECT * FROM t WHERE k = ANY ((SELECT array_agg(k) FROM p)::int[])',
	'SELECT * FROM t WHERE k = ANY ((SELECT array_agg(CASE WHEN k > 50 THEN n END) FROM p)::int[])',
	'SELECT * FROM t WHERE k = ANY ((SELECT array_agg(k + n) FROM p JOIN none USING (k))::int[])',
	'SELECT * FROM t WHERE k = ANY ((SELECT array_agg((SELECT max(q.k) FROM p q WHERE q.n = p.k)) FROM p WHERE n < 30)::int[])',
	'SELECT * FROM t WHERE k = ANY ((SELECT array_agg(5) FROM p)::int[])',
	'SELECT * FROM t WHERE k = ANY (ARRAY(SELECT n FROM p))',
	'SELECT * FROM t WHERE k = ANY ((SELECT array_agg(k % n) FROM p)::int[])',
	'SELECT * FROM t WHERE k = ANY (ARRAY(SELECT k FROM none))',
	'SELECT * FROM t WHERE k = ANY ((SELECT array_agg(k) FROM none)::int[])',
	'SELECT * FROM t WHERE k = ANY (ARRAY(SELECT NULL::int FROM p))',
	'SELECT * FROM t WHERE k = ANY (ARRAY(SELECT k FROM p order by n LIMIT 7 OFFSET 3))',
	'SELECT * FROM t WHERE k = ANY (ARRAY(SELECT k FROM p)) AND k = ANY (ARRAY(SELECT n FROM p))',
	'SELECT * FROM t WHERE k = ANY (ARRAY(SELECT k FROM p)) OR k = ANY (ARRAY(SELECT n + 1400 FROM p))',
	'SELECT * FROM t WHERE k = ANY (ARRAY(SELECT k FROM p)) AND id = ANY (ARRAY(SELECT n FROM p))',
	'SELECT * FROM t WHERE k = ANY (ARRAY(SELECT k FROM t WHERE k = ANY (ARRAY(SELECT k FROM p)) AND id % 3 = 0))',
	'SELECT id, ARRAY(SELECT k FROM p WHERE n < 5) FROM t WHERE k = ANY (ARRAY(SELECT k FROM p WHERE n < 50))',
	'SELECT * FROM t WHERE k = ANY (ARRAY(SELECT k FROM p)) ORDER BY id LIMIT 10',
	-- One array for several scans
	'SELECT * FROM (SELECT k, id FROM t UNION ALL SELECT b::int, -id FROM t) s WHERE k = ANY (ARRAY(SELECT k FROM p))',
	'SELECT min(k), max(k), min(id) FROM t WHERE k = ANY (ARRAY(SELECT k FROM p))',
	'SELECT * FROM (SELECT k, count(*) FROM t GROUP BY k OFFSET 0) s WHERE k = ANY (ARRAY(SELECT k FROM p))',
	'SELECT * FROM (SELECT k, count(*) FROM t GROUP BY k) s WHERE k = ANY (ARRAY(SELECT k FROM p))',
	'SELECT a.id, b.id FROM t a JOIN t b USING (k) WHERE a.k = ANY (ARRAY(SELECT k FROM p WHERE n < 300)) AND b.id % 2 = 0',
	'SELECT a.id, b.id FROM t a, t b WHERE (a.k = ANY (ARRAY(SELECT k FROM p WHERE n < 30)) AND b.k = 1) OR (a.k = 5 AND b.k = 2)',
	'WITH s AS MATERIALIZED (SELECT k FROM p WHERE n % 3 = 0) SELECT * FROM t WHERE k = ANY (ARRAY(SELECT k FROM s)) AND id % 5 <> (SELECT count(*) FROM s) % 5');
-- Types.  What may have keys that are not equal needs the array.
SELECT * FROM compare_lookups(
	'SELECT * FROM t WHERE k = ANY (ARRAY(SELECT b FROM p))', 'SELECT * FROM t WHERE k = ANY (ARRAY(SELECT b * 10000000 FROM p))', 'SELECT * FROM t WHERE k = ANY (ARRAY(SELECT s FROM p))', 'SELECT * FROM t WHERE k = ANY (ARRAY(SELECT num FROM p))',
	'SELECT * FROM t WHERE b = ANY (ARRAY(SELECT k FROM p))', 'SELECT * FROM t WHERE b = ANY ((SELECT array_agg(s) FROM p)::smallint[])', 'SELECT * FROM t WHERE b = ANY (ARRAY(SELECT b FROM p))',
	'SELECT * FROM t WHERE f = ANY (ARRAY(SELECT f FROM p))', 'SELECT * FROM t WHERE f = ANY (ARRAY(SELECT f + 0.1 FROM p))', 'SELECT * FROM t WHERE f = ANY (ARRAY(SELECT f4 FROM p))',
	'SELECT * FROM t WHERE d = ANY (ARRAY(SELECT d FROM p))', 'SELECT * FROM t WHERE d = ANY (ARRAY(SELECT ts FROM p))', 'SELECT * FROM t WHERE d = ANY (ARRAY(SELECT tz FROM p))',
	'SELECT * FROM t WHERE ts = ANY (ARRAY(SELECT d FROM p))', 'SELECT * FROM t WHERE ts = ANY (ARRAY(SELECT ts FROM p))', 'SELECT * FROM t WHERE ts = ANY (ARRAY(SELECT tz FROM p))');

-- More keys than the planner expects, in several batches
SET harmonia.batch_size = 1000;
SELECT * FROM compare_lookups('SELECT * FROM t WHERE k = ANY (ARRAY(SELECT shuffle(i) % 1800 FROM generate_series(1, (SELECT count(*) * 20 FROM p)) i))');
RESET harmonia.batch_size;

-- Rescans: the sub-select's rows change, or only what the scan's rows are joined with
SELECT * FROM compare_lookups(
	'SELECT n, (SELECT sum(id) FROM t WHERE k = ANY (ARRAY(SELECT q.k FROM p q WHERE q.n < p.n))) FROM p WHERE n % 60 = 3',
	'SELECT n, (SELECT count(*) FROM t WHERE k = ANY ((SELECT array_agg(q.k) FROM p q WHERE q.n < p.n)::int[])) FROM p WHERE n % 60 = 3',
	'SELECT n, (SELECT sum(id) FROM t WHERE id > p.n AND k = ANY (ARRAY(SELECT q.k FROM p q WHERE q.n < 40))) FROM p WHERE n % 60 = 3',
	'SELECT n, s.* FROM p, LATERAL (SELECT * FROM t WHERE k = ANY (ARRAY(SELECT q.k FROM p q WHERE q.n < 40)) AND id > p.n * 10 OFFSET 0) s WHERE n % 20 = 3',
	'SELECT n, s.* FROM p, LATERAL (SELECT * FROM t WHERE k = ANY (ARRAY(SELECT q.k FROM p q WHERE q.n BETWEEN p.n AND p.n + 5))) s WHERE n % 20 = 3',
	'SELECT n, EXISTS (SELECT FROM t WHERE k = ANY (ARRAY(SELECT q.k FROM p q WHERE q.n BETWEEN p.n AND p.n + 5)) AND id < p.n OFFSET 0) FROM p WHERE n % 20 = 3');
BEGIN;
CALL use_lookups(false);
SET LOCAL enable_seqscan = on;
SET LOCAL enable_nestloop = on;
SET LOCAL enable_material = off;
-- The keys are read once, and looked up for each of the outer rows.
SELECT line FROM explained('SELECT n, s.id FROM p LEFT JOIN (SELECT id FROM t WHERE k = ANY (ARRAY(SELECT q.k FROM p q WHERE q.n < 10))) s ON s.id % 7 = n % 7 WHERE n < 6') line WHERE line ~ 'Keys|InitPlan|q \(';
SELECT line FROM explained('SELECT n, (SELECT count(*) FROM t WHERE k = ANY (ARRAY(SELECT q.k FROM p q WHERE q.n < p.n))) FROM p WHERE n < 6') line WHERE line ~ 'Keys|InitPlan|q \(';
ROLLBACK;

-- Cursors
BEGIN;
CALL use_lookups(false);
SET LOCAL enable_seqscan = on;
DECLARE c SCROLL CURSOR FOR SELECT id FROM t WHERE k = ANY (ARRAY(SELECT k FROM p));
SELECT n FROM rest('c', 300);
MOVE BACKWARD ALL IN c;
SELECT n FROM rest('c');
MOVE BACKWARD 100 IN c;
SELECT n FROM rest('c');
CLOSE c;
ROLLBACK;

-- Prepared: each execution reads the rows that there are
PREPARE q(int) AS SELECT count(*), sum(id) FROM t WHERE k = ANY (ARRAY(SELECT k FROM p WHERE n < $1));
BEGIN;
CALL use_lookups(false);
SET LOCAL plan_cache_mode = force_generic_plan;
EXECUTE q(100);
INSERT INTO p (n, k) VALUES (1, 1321);
EXECUTE q(100);
EXECUTE q(NULL);
ROLLBACK;
SELECT count(*), sum(id) FROM t WHERE k IN (SELECT k FROM p WHERE n < 100);
DEALLOCATE q;

-- Changes of the rows that are found
BEGIN;
CALL use_lookups(false);
SET LOCAL enable_seqscan = on;
UPDATE t SET b = -1 WHERE k = ANY (ARRAY(SELECT k FROM p));
SELECT count(*), count(*) FILTER (WHERE b = -1) FROM t WHERE k IN (SELECT k FROM p);
SELECT count(*) FROM (SELECT FROM t WHERE k = ANY (ARRAY(SELECT k FROM p WHERE n < 100)) FOR UPDATE) s;
DELETE FROM t WHERE k = ANY ((SELECT array_agg(k) FROM p)::int[]);
SELECT count(*), count(*) FILTER (WHERE b = -1) FROM t;
ROLLBACK;

-- Partitions: all have the same array
CREATE TABLE r (k int, id int) PARTITION BY RANGE (k);
CREATE TABLE r_1 PARTITION OF r FOR VALUES FROM (MINVALUE) TO (1000);
CREATE TABLE r_2 PARTITION OF r FOR VALUES FROM (1000) TO (3000);
CREATE TABLE r_3 PARTITION OF r DEFAULT;
INSERT INTO r SELECT k, id FROM t;
CREATE INDEX ON r USING harmonia (k);
:vacuum ANALYZE r;
SELECT * FROM compare_lookups(
	'SELECT * FROM r WHERE k = ANY (ARRAY(SELECT k FROM p))', 'SELECT count(*) FROM r WHERE k = ANY ((SELECT array_agg(k) FROM p)::int[])',
	'SELECT * FROM r_2 WHERE k = ANY (ARRAY(SELECT k FROM p))');
SELECT reads FROM reads_keys('SELECT * FROM r WHERE k = ANY (ARRAY(SELECT k FROM p))', 'SELECT * FROM r_2 WHERE k = ANY (ARRAY(SELECT k FROM p))');

-- The aggregate that is passed over is still one that the user may call.
CREATE ROLE regress_subplan;
GRANT USAGE ON SCHEMA lookup_subplan TO regress_subplan;
GRANT SELECT ON t, p TO regress_subplan;
BEGIN;
CALL use_lookups(false);
SET LOCAL enable_seqscan = on;
REVOKE EXECUTE ON FUNCTION array_agg(anynonarray) FROM PUBLIC;
SET LOCAL ROLE regress_subplan;
SELECT count(*) FROM t WHERE k = ANY ((SELECT array_agg(k) FROM p)::int[]);
ROLLBACK;

-- Parallel plans: workers get the array
BEGIN;
SET LOCAL max_parallel_workers_per_gather = 2;
SET LOCAL parallel_setup_cost = 0;
SET LOCAL parallel_tuple_cost = 0;
SET LOCAL min_parallel_table_scan_size = 0;
SET LOCAL min_parallel_index_scan_size = 0;
SET LOCAL :force_parallel = on;
SET LOCAL lookup.seqscan = on;
SELECT * FROM compare_lookups(
	'SELECT * FROM t WHERE k = ANY (ARRAY(SELECT k FROM p))', 'SELECT count(*) FROM t WHERE k = ANY (ARRAY(SELECT k FROM p))',
	'SELECT * FROM t WHERE k = ANY ((SELECT array_agg(k) FROM p)::int[])',
	'SELECT p.n, s.id FROM p JOIN (SELECT k, id FROM t WHERE k = ANY (ARRAY(SELECT k FROM p WHERE n < 500)) OFFSET 0) s ON p.n = s.id');
ROLLBACK;

DROP SCHEMA lookup_subplan CASCADE;
DROP ROLE regress_subplan;
