--
-- Queries that lookup nodes once answered wrong, or could: each answer is compared
-- with that of a plan without lookup nodes
--
CREATE SCHEMA lookup_review;
SET search_path = lookup_review, public;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_nestloop = off;
SET enable_bitmapscan = off;
SET enable_indexscan = off;
SET enable_indexonlyscan = off;

-- Which lookup node a plan has, and whether a plan without it has the same rows.
CREATE FUNCTION answer(query text) RETURNS text[]
LANGUAGE plpgsql AS $$
DECLARE
	result text[];
BEGIN
	EXECUTE format('SELECT array_agg(q::text ORDER BY q::text) FROM (%s) q', query) INTO result;
	RETURN result;
END $$;
CREATE FUNCTION check_query(query text, OUT node text, OUT same bool)
LANGUAGE plpgsql AS $$
DECLARE
	line text;
	expected text[];
BEGIN
	SET LOCAL harmonia.enable_lookup_scan = off;
	SET LOCAL harmonia.enable_lookup_join = off;
	expected := answer(query);
	SET LOCAL harmonia.enable_lookup_scan = on;
	SET LOCAL harmonia.enable_lookup_join = on;
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		node := coalesce(node, substring(line FROM 'Harmonia(Lookup\w+)'));
	END LOOP;
	same := answer(query) IS NOT DISTINCT FROM expected;
END $$;

CREATE TABLE t (k int, v int) WITH (autovacuum_enabled = off);
INSERT INTO t SELECT i % 500, i % 7 FROM generate_series(1, 2000) i;
CREATE INDEX t_k ON t USING harmonia (k);
CREATE TABLE u (k bigint, y int) WITH (autovacuum_enabled = off);
INSERT INTO u SELECT i, i % 10 FROM generate_series(1, 300) i;
CREATE INDEX u_k ON u USING harmonia (k);
CREATE TABLE o (id int, x int) WITH (autovacuum_enabled = off);
INSERT INTO o SELECT i, i % 400 FROM generate_series(1, 500) i;
INSERT INTO o VALUES (501, NULL);
VACUUM ANALYZE t;
VACUUM ANALYZE u;
VACUUM ANALYZE o;

-- Expressions over both sides: a projection replaces the node's target list
SELECT * FROM check_query($$SELECT o.x + t.v FROM o JOIN t ON t.k = o.x$$);
SELECT * FROM check_query($$SELECT o.tableoid::regclass, o.ctid, t.v IS NULL FROM o LEFT JOIN t ON t.k = o.x$$);
SELECT * FROM check_query($$SELECT o, t.v % 2 AS odd, count(*) FROM o JOIN t ON t.k = o.x GROUP BY 1, 2$$);

-- Expressions from below outer joins that became inner joins, in conditions of the
-- join and of the table
SELECT * FROM check_query($$
	SELECT o.id FROM o LEFT JOIN (SELECT k, coalesce(v, 1) AS s FROM t) q ON o.x = q.k
	WHERE q.s > 5 AND q.k > 0$$);
SELECT * FROM check_query($$
	SELECT o.id FROM o
	LEFT JOIN (SELECT t.k, coalesce(u.y, t.v) AS s FROM u JOIN t ON u.k = t.k) q ON o.x = q.k
	WHERE q.s > 3 AND q.k > 0$$);

-- One-time filters
SELECT * FROM check_query($$
	SELECT o.id FROM o JOIN t ON t.k = o.x AND current_setting('work_mem') = 'none'$$);
SELECT * FROM check_query($$
	SELECT o.id FROM o LEFT JOIN t ON t.k = o.x AND current_setting('work_mem') = 'none'$$);
SELECT * FROM check_query($$
	SELECT o.id FROM o
	WHERE NOT EXISTS (SELECT FROM t WHERE t.k = o.x AND current_setting('work_mem') = 'none')$$);

-- The current row of a cursor, with and without its tuple
BEGIN;
DECLARE c CURSOR FOR SELECT * FROM t WHERE k = ANY ('{20, 10}');
MOVE 2 FROM c;
UPDATE t SET v = -1 WHERE CURRENT OF c RETURNING k, v;
MOVE 5 FROM c;
DELETE FROM t WHERE CURRENT OF c RETURNING k, v;
CLOSE c;
SET LOCAL enable_indexonlyscan = on;
EXPLAIN (COSTS OFF) SELECT k FROM t WHERE k = ANY ('{40, 30}');
DECLARE c CURSOR FOR SELECT k FROM t WHERE k = ANY ('{40, 30}');
MOVE 6 FROM c;
UPDATE t SET v = -2 WHERE CURRENT OF c RETURNING k, v;
ROLLBACK;

-- Batches of few wide rows
CREATE FUNCTION batches(query text) RETURNS SETOF text
LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) ' || query LOOP
		RETURN QUERY SELECT substring(line FROM 'Batches: \d+  Keys: \d+');
	END LOOP;
END $$;
SET work_mem = '64kB';
SELECT b FROM batches($$
	SELECT length(q.w), t.v
	FROM (SELECT x, repeat('x', 20000) AS w FROM o WHERE id <= 20 OFFSET 0) q JOIN t ON t.k = q.x
$$) b WHERE b IS NOT NULL;
RESET work_mem;

-- Many rescans with few hits take no more memory than one
CREATE FUNCTION executor_memory() RETURNS numeric LANGUAGE plpgsql AS $$
BEGIN
	RETURN (SELECT sum(total_bytes) FROM pg_backend_memory_contexts WHERE name = 'ExecutorState');
END $$;
SET work_mem = '1GB';
SET enable_nestloop = on;
SELECT count(*), sum(n), max(bytes) - min(bytes) < 100000 AS constant
FROM (
	SELECT n, executor_memory() AS bytes
	FROM generate_series(1, 20) i,
		LATERAL (SELECT count(t.v) AS n FROM t WHERE k = ANY (ARRAY[i]) OFFSET 0) l
	OFFSET 0
) m;
RESET work_mem;

-- So do rescans that read a part of an array
CREATE FUNCTION scan_memory() RETURNS numeric LANGUAGE plpgsql AS $$
BEGIN
	RETURN (SELECT sum(total_bytes) FROM pg_backend_memory_contexts WHERE name = 'harmonia lookup scan');
END $$;
SET enable_seqscan = off;
SET enable_material = off;
SELECT count(DISTINCT bytes) AS constant
FROM (
	SELECT CASE WHEN i % 1000 = 0 THEN scan_memory() END AS bytes
	FROM generate_series(1, 4000) i LEFT JOIN (SELECT v FROM t WHERE k = ANY (ARRAY(SELECT generate_series(1, 1000))) LIMIT 1) l ON true
	OFFSET 0
) m;
RESET enable_material;
RESET enable_seqscan;
SET enable_nestloop = off;

-- A table is joined above a semijoin by the same key, and compared with the semijoin's inner one
CREATE TABLE halves (k int, v int) PARTITION BY HASH (k);
CREATE TABLE half_0 PARTITION OF halves FOR VALUES WITH (MODULUS 2, REMAINDER 0) WITH (autovacuum_enabled = off);
CREATE TABLE half_1 PARTITION OF halves FOR VALUES WITH (MODULUS 2, REMAINDER 1) WITH (autovacuum_enabled = off);
INSERT INTO halves SELECT i % 300, i % 7 FROM generate_series(1, 1000) i;
CREATE INDEX halves_k ON halves USING harmonia (k);
VACUUM ANALYZE halves;
SELECT * FROM check_query($$SELECT o.id, u.y FROM o JOIN u ON u.k = o.x + 0 WHERE EXISTS (SELECT FROM t WHERE t.k = o.x + 0)$$);
SELECT * FROM check_query($$SELECT o.id, u.y FROM o JOIN u ON u.k = o.x + 0 WHERE EXISTS (SELECT FROM t WHERE t.k = o.x + 0 AND t.v > 3)$$);
SELECT * FROM check_query($$SELECT o.id, t.v FROM o JOIN t ON t.k = o.x + 0 WHERE EXISTS (SELECT FROM u WHERE u.k = o.x + 0 AND u.y <> o.id % 10)$$);
SELECT * FROM check_query($$SELECT o.id, t.v FROM o JOIN t ON t.k = abs(o.x) WHERE abs(o.x) IN (SELECT k FROM halves)$$);
SELECT * FROM check_query($$SELECT count(*), sum(u.y) FROM o JOIN u ON u.k = abs(o.x) WHERE abs(o.x) IN (SELECT k FROM halves WHERE v <> 2)$$);

\set VERBOSITY terse
DROP SCHEMA lookup_review CASCADE;
