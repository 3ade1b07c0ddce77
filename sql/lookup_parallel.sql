--
-- Parallel plans: processes that divide the keys of a lookup scan, or the outer rows of a
-- lookup join
--
SET client_min_messages = warning;
SET jit = off;
SET harmonia.enable_lookup_aggregate = off;
CREATE SCHEMA lookup_parallel;
SET search_path = lookup_parallel, public;
\getenv srcdir PG_ABS_SRCDIR
\set compare :srcdir '/sql/include/compare.sql'
\i :compare
\set lookup :srcdir '/sql/include/lookup.sql'
\i :lookup

-- Keys 0 to 9999 in two rows each, NULLs, one key in 5000 rows, and extreme values.
CREATE TABLE t (k int, id int GENERATED ALWAYS AS IDENTITY, v text) WITH (autovacuum_enabled = off);
INSERT INTO t (k, v) SELECT shuffle(i) % 10000, 'v' || i FROM generate_series(1, 20000) i;
INSERT INTO t (k, v) SELECT NULL, i FROM generate_series(1, 100) i;
INSERT INTO t (k, v) SELECT 77777, i FROM generate_series(1, 5000) i;
INSERT INTO t (k, v) VALUES (-2147483648, 'min'), (2147483647, 'max');
CREATE INDEX t_k ON t USING harmonia (k);
:vacuum ANALYZE t;
-- Some pages are not all-visible.
UPDATE t SET v = 'new' WHERE id % 500 = 3;
DELETE FROM t WHERE id % 700 = 5;
CREATE TABLE o (n int, k int) WITH (autovacuum_enabled = off);
INSERT INTO o SELECT i, CASE WHEN i % 50 > 0 THEN shuffle(i) % 15000 END FROM generate_series(1, 4000) i;
CREATE TABLE few WITH (autovacuum_enabled = off, parallel_workers = 0) AS SELECT i AS n FROM generate_series(1, 3) i;
CREATE TABLE arrays (name text, keys int[]);
INSERT INTO arrays VALUES ('none', '{}'), ('null', NULL), ('nulls', '{NULL, NULL}'), ('one', '{77777}'),
	('equal', array_fill(77777, '{5000}')), ('both', array_fill(0, '{3000}') || array_fill(9999, '{3000}'));
INSERT INTO arrays SELECT 'many', array_agg(CASE WHEN i % 100 > 0 THEN shuffle(i) % 12000 END) FROM generate_series(1, 7000) i;
INSERT INTO arrays SELECT 'extremes', array_agg(CASE i % 3 WHEN 0 THEN -2147483648 WHEN 1 THEN 2147483647 ELSE shuffle(i) END) FROM generate_series(1, 3000) i;
CREATE TABLE p (k int, id int) PARTITION BY RANGE (k);
CREATE TABLE p_1 PARTITION OF p FOR VALUES FROM (0) TO (3000) WITH (autovacuum_enabled = off);
CREATE TABLE p_2 PARTITION OF p FOR VALUES FROM (3000) TO (100000) WITH (autovacuum_enabled = off);
INSERT INTO p SELECT k, id FROM t WHERE k >= 0 AND k < 100000;
CREATE INDEX p_k ON p USING harmonia (k);
:vacuum ANALYZE o;
:vacuum ANALYZE few;
:vacuum ANALYZE arrays;
:vacuum ANALYZE p;

SET max_parallel_workers_per_gather = 2;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET lookup.seqscan = on;
ALTER TABLE t SET (parallel_workers = 2);
ALTER TABLE p_1 SET (parallel_workers = 2);
ALTER TABLE p_2 SET (parallel_workers = 2);

--
-- Plans
--
BEGIN;
CALL use_lookups(true);
SET LOCAL enable_seqscan = off;
SET LOCAL plan_cache_mode = force_generic_plan;
PREPARE by_array(int[]) AS SELECT count(*), sum(id) FROM t WHERE k = ANY ($1);
SELECT * FROM plan('EXECUTE by_array(''{1}'')');
EXECUTE by_array('{1,2,3,3,2,1}');
EXECUTE by_array('{77777,NULL}');
EXECUTE by_array('{}');
EXECUTE by_array(NULL);
-- Each process counts, and PostgreSQL adds up
SET LOCAL harmonia.enable_lookup_aggregate = on;
SELECT * FROM plan('SELECT count(*), count(k) + 1 FROM t WHERE k < 100 OR k > 9000', 'VERBOSE');
SELECT count(*), count(k) + 1 FROM t WHERE k < 100 OR k > 9000;
SELECT * FROM plan('SELECT count(*) FROM t WHERE (k < 100 OR k > 9000) AND v > ''v3''');
SET LOCAL harmonia.enable_lookup_aggregate = off;
SELECT * FROM plan('SELECT count(*), max(k) FROM t WHERE k < 100 OR k > 9000');
-- Partitions, each of them divided
SELECT * FROM plan('SELECT sum(id) FROM p WHERE k < 100 OR k BETWEEN 3000 AND 3100');
-- Not with rows that are locked
SELECT * FROM plan('SELECT * FROM t WHERE k < 100 OR k > 9000 FOR UPDATE');
ROLLBACK;
DEALLOCATE ALL;

--
-- Answers
--
-- All nodes in a query's plan that run in several processes
CREATE FUNCTION divided(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (FORMAT JSON) ' || query INTO plan;
	RETURN (SELECT string_agg(DISTINCT replace(node ->> 'Custom Plan Provider', 'HarmoniaLookup', ''), ', ')
		FROM jsonb_path_query(plan::jsonb, 'strict $.**') node
		WHERE node ->> 'Custom Plan Provider' LIKE 'Harmonia%' AND (node ->> 'Parallel Aware')::boolean);
END $$;
-- Compare with sequential and index scans, in batches of all sizes: every other query
-- without the leader, or where no worker can be started
CREATE FUNCTION compare_parallel(other text, VARIADIC queries text[])
	RETURNS TABLE (n bigint, result text, nodes text, divided text, query text) LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1 .. cardinality(queries) LOOP
		PERFORM set_config('parallel_leader_participation', CASE WHEN i % 2 = 0 AND other = 'no leader' THEN 'off' ELSE 'on' END, true),
			set_config('max_parallel_workers', CASE WHEN i % 2 = 0 AND other = 'no workers' THEN '0' ELSE '8' END, true);
		SELECT c.* INTO n, result, nodes, query FROM compare_lookups(queries[i]) c;
		divided := divided(query);
		RETURN NEXT;
	END LOOP;
END $$;
SET lookup.seqscan = off;
SELECT c.* FROM compare_parallel('no leader', VARIADIC ARRAY(
	SELECT format('SELECT %s FROM t WHERE k = ANY ((SELECT keys FROM arrays WHERE name = ''%s'')::int[])', result, name)
	FROM arrays, unnest('{id,count(*)}'::text[]) result ORDER BY result, name)) c;
SELECT * FROM compare_parallel('no leader',
	'SELECT count(*), sum(id) FROM t WHERE k IN (1, 2, 3, 77777)', 'SELECT count(k) FROM t WHERE k = ANY (ARRAY(SELECT generate_series(1, 3000, 2)))',
	-- Ranges: few and many of them, open ones, none, overlapping ones
	'SELECT k, id FROM t WHERE k < 10 OR k > 9990', 'SELECT count(*) FROM t WHERE k < 10 OR k > 9990', 'SELECT k FROM t WHERE k BETWEEN 5 AND 5000 OR k BETWEEN 3 AND 4000',
	'SELECT count(*) FROM t WHERE k <= -2147483648 OR k >= 2147483647', 'SELECT id FROM t WHERE k BETWEEN 5 AND 4 OR k BETWEEN 7 AND 3',
	'SELECT count(*), min(id) FROM t WHERE k = ANY (ARRAY(SELECT generate_series(1, 9000, 3))) AND k > 77 OR k IN (5, 77777)',
	'SELECT id FROM t WHERE (k IN (1, 2, 3, 4) AND v > ''v3'') OR k BETWEEN 100 AND 120',
	-- Arrays and other conditions together, and filters
	'SELECT k FROM t WHERE k = ANY (ARRAY(SELECT generate_series(1, 9000, 3))) AND k BETWEEN 1000 AND 2000', 'SELECT count(*) FROM t WHERE k = ANY (ARRAY(SELECT generate_series(1, 9000))) AND id % 3 = 0',
	'SELECT k, count(*), sum(id) FROM t WHERE k = ANY (ARRAY(SELECT generate_series(1, 9000, 5))) GROUP BY k',
	'SELECT k, id FROM t WHERE k = ANY (ARRAY(SELECT generate_series(1, 9000, 5))) ORDER BY k, id LIMIT 70',
	-- Partitions
	'SELECT k, id FROM p WHERE k = ANY (ARRAY(SELECT generate_series(1, 9000, 5)))', 'SELECT count(*) FROM p WHERE k < 100 OR k BETWEEN 2900 AND 3100');
SET lookup.seqscan = on;
SELECT * FROM compare_parallel('no workers',
	'SELECT o.*, t.* FROM o JOIN t USING (k)', 'SELECT count(*) FROM o JOIN t USING (k)', 'SELECT n, t.id FROM o LEFT JOIN t ON t.k = o.k AND t.v > ''v3''',
	'SELECT n FROM o WHERE EXISTS (SELECT FROM t WHERE t.k = o.k)', 'SELECT n FROM o WHERE NOT EXISTS (SELECT FROM t WHERE t.k = o.k)',
	'SELECT count(*) FROM t a JOIN t b USING (k) WHERE a.k IN (1, 2, 3, 4, 5, 6, 7)');

-- Outer rows that processes share: values that are copied, NULLs, half of the rows with one key, in memory for some
-- hundred rows at a time
CREATE TABLE s (n int, k int, name text) WITH (autovacuum_enabled = off, parallel_workers = 2);
INSERT INTO s SELECT i, CASE WHEN i % 50 = 0 THEN NULL WHEN i % 2 = 0 THEN 5 ELSE shuffle(i) % 15000 END, CASE WHEN i % 7 > 0 THEN repeat('name ', i % 40) || i END
FROM generate_series(1, 8000) i;
:vacuum ANALYZE s;
CREATE FUNCTION shared(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, FORMAT JSON) ' || query INTO plan;
	RETURN jsonb_path_query_first(plan::jsonb, 'strict $.**."Shared Rows"');
END $$;
SET work_mem = '64kB';
SELECT * FROM compare_parallel('no leader',
	'SELECT s.*, t.k FROM s JOIN t USING (k)', 'SELECT s.*, t.k FROM s JOIN t USING (k)', 'SELECT count(*) FROM s JOIN t USING (k)', 'SELECT count(*) FROM s JOIN t USING (k)',
	'SELECT s.*, t.k FROM s LEFT JOIN t ON t.k = s.k AND s.n % 3 = 0', 'SELECT n, name FROM s WHERE EXISTS (SELECT FROM t WHERE t.k = s.k)',
	'SELECT s.* FROM s WHERE NOT EXISTS (SELECT FROM t WHERE t.k = s.k)', 'SELECT s.* FROM s WHERE NOT EXISTS (SELECT FROM t WHERE t.k = s.k AND s.n % 3 = 0)',
	'SELECT n, name, p.k FROM s JOIN p USING (k)', 'SELECT n, name, p.k FROM s LEFT JOIN p USING (k)');
SELECT * FROM compare_parallel('no workers', 'SELECT name, t.k FROM s LEFT JOIN t USING (k)', 'SELECT name, t.k FROM s LEFT JOIN t USING (k)');
RESET work_mem;
SELECT * FROM compare_parallel('no leader', 'SELECT s.*, t.k FROM s LEFT JOIN t USING (k)', 'SELECT s.*, t.k FROM s LEFT JOIN t USING (k)');
BEGIN;
CALL use_lookups(true);
SELECT shared(q), q FROM unnest('{SELECT n\, t.k FROM s LEFT JOIN t USING (k),SELECT n\, t.k FROM s JOIN t USING (k)}'::text[]) q;
-- Not where rows of the table are read, nor where the first rows are wanted soon
SELECT shared('SELECT n, id FROM s JOIN t USING (k)');
SELECT shared('SELECT n, t.k FROM s JOIN t USING (k) LIMIT 10');
ROLLBACK;

-- Lookup aggregates
SET harmonia.enable_lookup_aggregate = on;
SELECT * FROM compare_parallel('no leader',
	'SELECT count(*), sum(id), min(k) FROM t WHERE k = ANY (ARRAY(SELECT generate_series(1, 9000, 3)))', 'SELECT sum(id), max(k) FROM t WHERE k < 3000 OR k > 9000',
	'SELECT k, sum(id) FROM t WHERE k < 3000 OR k > 9000 GROUP BY k', 'SELECT sum(t.id), sum(n) FROM o JOIN t USING (k)');
SET harmonia.enable_lookup_aggregate = off;

-- Fuzzy keys: a timestamptz is compared with dates
CREATE TABLE d WITH (autovacuum_enabled = off, parallel_workers = 2) AS SELECT date '2020-01-01' + i % 300 AS k, i AS id FROM generate_series(1, 3000) i;
CREATE INDEX d_k ON d USING harmonia (k);
:vacuum ANALYZE d;
SET timezone = 'America/New_York';
SELECT * FROM compare_parallel('no workers',
	'SELECT id FROM d WHERE k = ANY (ARRAY(SELECT timestamptz ''2020-01-01 00:00'' + i * interval ''12 hours'' FROM generate_series(1, 200) i))',
	'SELECT count(*) FROM d WHERE k > timestamptz ''2020-10-01 12:00'' OR k < timestamptz ''2020-01-03 00:00+00''');

-- The same keys in another order in each process
CREATE FUNCTION in_any_order() RETURNS int[] STABLE PARALLEL SAFE LANGUAGE plpgsql AS $$
DECLARE
	keys int[];
BEGIN
	FOR i IN 0 .. 1222 LOOP
		keys[i] := (i * (1 + pg_backend_pid() % 1222)) % 1223;
	END LOOP;
	RETURN keys;
END $$;
SELECT * FROM compare_parallel('no leader', 'SELECT id FROM t WHERE k = ANY (in_any_order())', 'SELECT count(*) FROM t WHERE k = ANY (in_any_order())');

-- Rows are wanted that come first, and no others
BEGIN;
CALL use_lookups(false);
SELECT count(*) FROM (SELECT id FROM t WHERE k = ANY ((SELECT keys FROM arrays WHERE name = 'many')::int[]) LIMIT 20) s;
SELECT count(DISTINCT id) FROM (SELECT id FROM t WHERE k < 5000 OR k > 6000 LIMIT 3000) s;
-- A cursor has no workers, whatever its plan
DECLARE c CURSOR FOR SELECT id FROM t WHERE k IN (1, 2, 77777);
SELECT * FROM rest('c');
CLOSE c;
SELECT count(*), sum(id) FROM t WHERE k IN (1, 2, 77777);

--
-- Workers that are started again
--
SET LOCAL enable_nestloop = on;
SET LOCAL enable_material = off;
SET LOCAL harmonia.enable_lookup_aggregate = on;
SELECT * FROM plan('SELECT n, s.* FROM few LEFT JOIN (SELECT count(*) AS c FROM t WHERE k < 100 OR k = 77777) s ON c > n');
SELECT n, s.* FROM few LEFT JOIN (SELECT count(id) AS c, sum(id) FROM t WHERE k = ANY ((SELECT keys FROM arrays WHERE name = 'many')::int[])) s ON c > n ORDER BY n;
SELECT n, s.* FROM few LEFT JOIN (SELECT count(*) AS c FROM t WHERE k < 100 OR k = 77777) s ON c > n ORDER BY n;
SELECT n, s.* FROM few LEFT JOIN (SELECT count(*) AS c FROM o JOIN t USING (k)) s ON c > n ORDER BY n;
ROLLBACK;

--
-- EXPLAIN ANALYZE adds up what all processes have done
--
CREATE FUNCTION counters(query text, OUT parallel boolean, OUT keys int, OUT hits int, OUT fetches int) LANGUAGE plpgsql AS $$
DECLARE
	plan json;
	node jsonb;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, FORMAT JSON) ' || query INTO plan;
	FOR node IN SELECT * FROM jsonb_path_query(plan::jsonb, 'strict $.** ? (@."Custom Plan Provider" like_regex "LookupScan|LookupJoin")') LOOP
		parallel := node -> 'Parallel Aware';
		keys := node -> 'Keys';
		hits := node -> 'Hits';
		fetches := node -> 'Heap Fetches';
	END LOOP;
END $$;
:vacuum ANALYZE t;
BEGIN;
CALL use_lookups(true);
SET LOCAL parallel_leader_participation = off;
SELECT parallel, hits, fetches, keys FROM counters('SELECT sum(id) FROM t WHERE k = ANY (ARRAY(SELECT generate_series(0, 5999)))');
SELECT parallel, hits, fetches, keys FROM counters('SELECT count(*) FROM t WHERE k = ANY (ARRAY(SELECT generate_series(0, 5999)))');
SET LOCAL parallel_leader_participation = on;
SELECT parallel, hits, fetches, keys FROM counters('SELECT sum(id) FROM t WHERE k = ANY (ARRAY(SELECT generate_series(0, 5999)))');
-- Two ranges were cut, so that all processes had something to do.
SELECT parallel, hits, fetches, keys > 100 AS cut FROM counters('SELECT count(*) FROM t WHERE k < 3000 OR k BETWEEN 5000 AND 6000');
SET LOCAL enable_seqscan = on;
SELECT parallel, hits, fetches, keys FROM counters('SELECT sum(id) FROM o JOIN t USING (k)');
ROLLBACK;

--
-- A join has as many workers as its work deserves, not as its outer table's size deserves
--
RESET min_parallel_table_scan_size;
CREATE TABLE large WITH (autovacuum_enabled = off) AS SELECT i AS k, i AS id FROM generate_series(1::bigint, 700000) i ORDER BY hashint8(i);
CREATE TABLE small WITH (autovacuum_enabled = off) AS SELECT i * 7 AS k, i AS n FROM generate_series(1::bigint, 30000) i;
CREATE INDEX large_k ON large USING harmonia (k) WITH (fillfactor = 50);
:vacuum ANALYZE large;
:vacuum ANALYZE small;
CREATE FUNCTION workers(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (FORMAT JSON) ' || query INTO plan;
	RETURN (SELECT jsonb_path_query_first(plan::jsonb, '$.**."Workers Planned"'));
END $$;
BEGIN;
CALL use_lookups(true);
SET LOCAL enable_seqscan = on;
SET LOCAL max_parallel_workers_per_gather = 8;
SELECT workers('SELECT count(*) FROM small WHERE n > 0') AS scan, workers('SELECT sum(id) FROM small JOIN large USING (k)') AS "join";
SELECT sum(id), count(*) FROM small JOIN large USING (k);
SET LOCAL max_parallel_workers_per_gather = 1;
SELECT workers('SELECT sum(id) FROM small JOIN large USING (k)');
SET LOCAL max_parallel_workers_per_gather = 8;
ALTER TABLE small SET (parallel_workers = 4);
SELECT workers('SELECT sum(id) FROM small JOIN large USING (k)');
ALTER TABLE small SET (parallel_workers = 0);
SELECT workers('SELECT sum(id) FROM small JOIN large USING (k)');
ALTER TABLE small RESET (parallel_workers);
-- At PostgreSQL's own costs for starting workers, few keys are left to one process
SET LOCAL parallel_setup_cost = 1000;
SET LOCAL parallel_tuple_cost = 0.1;
SELECT workers('SELECT sum(id) FROM (SELECT * FROM small WHERE n < 100) s JOIN large USING (k)'), workers('SELECT sum(id) FROM large WHERE k IN (1, 2, 3)');
-- Workers get an array that is a constant as text, which takes longer than to look it up
SELECT workers(format('SELECT sum(id) FROM large WHERE k = ANY (%L)', array_agg(i))) FROM generate_series(1, 20000) i;
-- Ranges of an index with several segments
SET LOCAL parallel_setup_cost = 0;
SET LOCAL enable_seqscan = off;
SELECT count(*) > 1 AS segments FROM harmonia_segments('large_k');
SELECT parallel, hits, keys > 100 AS cut FROM counters('SELECT count(*) FROM large WHERE k < 100001 OR k BETWEEN 200001 AND 650000');
SELECT count(*), sum(k) = sum(id) AS same, sum(k) FROM large WHERE k < 100001 OR k BETWEEN 200001 AND 650000;
SELECT sum(i) FROM generate_series(1, 650000) i WHERE i < 100001 OR i > 200000;
ROLLBACK;

-- Serializable transactions
BEGIN ISOLATION LEVEL SERIALIZABLE;
CALL use_lookups(true);
SELECT divided('SELECT count(*) FROM large WHERE k < 1000 OR k BETWEEN 200001 AND 300000'), count(*)
	FROM large WHERE k < 1000 OR k BETWEEN 200001 AND 300000;
COMMIT;

SET client_min_messages = warning;
DROP SCHEMA lookup_parallel CASCADE;
