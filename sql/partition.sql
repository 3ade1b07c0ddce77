--
-- Partitioned tables and inheritance
--
CREATE SCHEMA partition_test;
SET search_path = partition_test, public;
\getenv srcdir PG_ABS_SRCDIR
\set compare :srcdir '/sql/include/compare.sql'
\i :compare
-- Plain scans only; lookup_scan and lookup_join test the lookup nodes
SET harmonia.enable_lookup_scan = off;
SET harmonia.enable_lookup_join = off;

-- Verify the indexes of all partitions; returns their names and the results.
CREATE FUNCTION verify_all(parent regclass) RETURNS TABLE (name regclass, result text) LANGUAGE sql
AS $$
	SELECT relid, verify(relid) FROM pg_partition_tree(parent) WHERE isleaf ORDER BY relid::text;
$$;

--
-- An index on the parent
--
CREATE TABLE p (k int, id int) PARTITION BY RANGE (k);
CREATE TABLE p_1 PARTITION OF p FOR VALUES FROM (0) TO (1000);
CREATE INDEX p_k ON p USING harmonia (k) WITH (fanout = 8, fillfactor = 30);
CREATE TABLE p_2 PARTITION OF p FOR VALUES FROM (1000) TO (2000);
CREATE TABLE p_3 PARTITION OF p FOR VALUES FROM (2000) TO (3000) PARTITION BY HASH (id);
CREATE TABLE p_3_0 PARTITION OF p_3 FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE p_3_1 PARTITION OF p_3 FOR VALUES WITH (MODULUS 2, REMAINDER 1);
CREATE TABLE p_rest PARTITION OF p DEFAULT;
INSERT INTO p SELECT i * 7 % 3500, i FROM generate_series(1, 10000) i;
INSERT INTO p VALUES (NULL, 0), (NULL, 0), (-5, 0);
SELECT * FROM verify_all('p_k');
SELECT inhrelid::regclass, inhparent::regclass, reloptions FROM pg_inherits JOIN pg_class c ON c.oid = inhrelid
	WHERE relkind IN ('i', 'I') AND relnamespace = 'partition_test'::regnamespace ORDER BY 1;
\d p
\d p_k

-- Rows that move between partitions
UPDATE p SET k = k + 500;
UPDATE p SET k = 2500 - k WHERE k < 1500;
DELETE FROM p WHERE k % 11 = 0;
SELECT * FROM verify_all('p_k');
:vacuum ANALYZE p;
SELECT * FROM verify_all('p_k');

--
-- Pruning
--
BEGIN;
CALL use('only');
SELECT * FROM plan('SELECT k FROM p WHERE k = 1501');
SELECT * FROM plan('SELECT k FROM p WHERE k BETWEEN 900 AND 1100 ORDER BY k');
SELECT * FROM plan('SELECT k FROM p_3 WHERE k BETWEEN 2400 AND 2500 ORDER BY k DESC LIMIT 5');
SELECT * FROM plan('SELECT k FROM p WHERE k IS NULL');
SET LOCAL plan_cache_mode = force_generic_plan;
PREPARE by_key(int) AS SELECT count(*) FROM p WHERE k = $1;
SELECT * FROM plan('EXECUTE by_key(1501)');
EXECUTE by_key(1501);
EXECUTE by_key(2501);
EXECUTE by_key(NULL);
DEALLOCATE by_key;
COMMIT;
SELECT query, n, result FROM compare_queries(
	'SELECT k, id FROM p WHERE k = 1501', 'SELECT k, id FROM p WHERE k BETWEEN 900 AND 2100',
	'SELECT k FROM p ORDER BY k', 'SELECT k FROM p ORDER BY k DESC LIMIT 100', 'SELECT k FROM p ORDER BY k NULLS FIRST LIMIT 5',
	'SELECT k, id FROM p WHERE k = ANY (''{1,1501,2501,5000,NULL}'')', 'SELECT k, id FROM p WHERE k IS NULL',
	'SELECT min(k), max(k) FROM p', 'SELECT k, id FROM p WHERE k = (SELECT 1501)',
	'SELECT k, id FROM p WHERE k IN (SELECT 100 * i FROM generate_series(1, 40) i)');

--
-- Joins partition by partition
--
CREATE TABLE q (k int, id int) PARTITION BY RANGE (k);
CREATE TABLE q_1 PARTITION OF q FOR VALUES FROM (0) TO (1000);
CREATE TABLE q_2 PARTITION OF q FOR VALUES FROM (1000) TO (2000);
CREATE TABLE q_rest PARTITION OF q DEFAULT;
INSERT INTO q SELECT i, i FROM generate_series(-10, 2500, 3) i;
CREATE TABLE r (LIKE q) PARTITION BY RANGE (k);
CREATE TABLE r_1 PARTITION OF r FOR VALUES FROM (0) TO (1000);
CREATE TABLE r_2 PARTITION OF r FOR VALUES FROM (1000) TO (2000);
CREATE TABLE r_rest PARTITION OF r DEFAULT;
CREATE INDEX r_k ON r USING harmonia (k);
INSERT INTO r SELECT i % 3000, i FROM generate_series(-10, 10000) i;
ANALYZE q;
ANALYZE r;
BEGIN;
SET LOCAL enable_partitionwise_join = on;
SET LOCAL enable_partitionwise_aggregate = on;
SET LOCAL enable_hashjoin = off;
SET LOCAL enable_mergejoin = off;
SET LOCAL enable_material = off;
SET LOCAL enable_memoize = off;
CALL use('index');
SELECT * FROM plan('SELECT q.id, r.id FROM q JOIN r USING (k) WHERE q.id < 100');
SELECT query, n, result FROM compare_queries(
	'SELECT q.k, q.id, r.id FROM q JOIN r USING (k)', 'SELECT q.k, q.id, r.id FROM q LEFT JOIN r USING (k)',
	'SELECT q.k, q.id FROM q WHERE EXISTS (SELECT FROM r WHERE r.k = q.k AND r.id > 5000)',
	'SELECT q.k, q.id FROM q WHERE NOT EXISTS (SELECT FROM r WHERE r.k = q.k)',
	'SELECT k, count(*) FROM r GROUP BY k');
SET LOCAL enable_mergejoin = on;
SET LOCAL enable_nestloop = off;
SELECT query, n, result FROM compare_queries(
	'SELECT a.k, a.id, b.id FROM r a JOIN r b USING (k) WHERE a.id < 500');
COMMIT;

--
-- Attach and detach
--
CREATE TABLE new_1 (k int, id int);
INSERT INTO new_1 SELECT i, i FROM generate_series(3000, 3999) i;
CREATE INDEX own ON new_1 USING harmonia (k DESC);
ALTER TABLE p DETACH PARTITION p_rest;
ALTER TABLE p ATTACH PARTITION new_1 FOR VALUES FROM (3000) TO (4000);
-- A table with a matching index gets no new one
CREATE TABLE new_2 (id int, k int);
INSERT INTO new_2 SELECT i, i FROM generate_series(4000, 4999) i;
CREATE INDEX new_2_mine ON new_2 USING harmonia (k);
ALTER TABLE p ATTACH PARTITION new_2 FOR VALUES FROM (4000) TO (5000);
-- A btree index does not match
CREATE TABLE new_3 (k int, id int);
CREATE INDEX new_3_btree ON new_3 USING btree (k);
ALTER TABLE p ATTACH PARTITION new_3 FOR VALUES FROM (5000) TO (6000);
INSERT INTO p SELECT i, i FROM generate_series(3500, 5500) i;
SELECT * FROM verify_all('p_k') WHERE name::text ~ 'new';
SELECT tablename, indexname FROM pg_indexes WHERE tablename ~ '^new' AND schemaname = 'partition_test' ORDER BY 1, 2;
ALTER TABLE p DETACH PARTITION new_2 CONCURRENTLY;
INSERT INTO new_2 SELECT i, i FROM generate_series(4000, 4099) i;
SELECT verify('new_2_mine');
ALTER TABLE p DETACH PARTITION p_2;
SELECT verify('p_2_k_idx');
-- The partitions' indexes are dropped with the parent's
DROP INDEX p_k;
SELECT tablename, indexname FROM pg_indexes WHERE tablename ~ '^(p|new)' AND schemaname = 'partition_test' ORDER BY 1, 2;

--
-- An index built partition by partition
--
CREATE INDEX p_k ON ONLY p USING harmonia (k);
SELECT indisvalid FROM pg_index WHERE indexrelid = 'p_k'::regclass;
CREATE INDEX CONCURRENTLY p_1_k ON p_1 USING harmonia (k);
ALTER INDEX p_k ATTACH PARTITION p_1_k;
CREATE INDEX p_3_k ON p_3 USING harmonia (k);
ALTER INDEX p_k ATTACH PARTITION p_3_k;
CREATE INDEX new_1_k ON new_1 USING harmonia (k);
ALTER INDEX p_k ATTACH PARTITION new_1_k;
SELECT indisvalid FROM pg_index WHERE indexrelid = 'p_k'::regclass;
ALTER INDEX p_k ATTACH PARTITION new_3_btree;
CREATE INDEX new_3_k ON new_3 USING harmonia (k);
ALTER INDEX p_k ATTACH PARTITION new_3_k;
SELECT indisvalid FROM pg_index WHERE indexrelid = 'p_k'::regclass;
SELECT * FROM verify_all('p_k');
REINDEX INDEX p_k;
REINDEX TABLE CONCURRENTLY p;
TRUNCATE p_1;
SELECT * FROM verify_all('p_k');
CREATE INDEX CONCURRENTLY p_refused ON p USING harmonia (id);

-- Partitions whose columns differ; expressions and conditions
CREATE TABLE e (at timestamp, flag bool, note text) PARTITION BY LIST (flag);
CREATE TABLE e_true PARTITION OF e FOR VALUES IN (true);
CREATE UNLOGGED TABLE e_false PARTITION OF e FOR VALUES IN (false);
CREATE INDEX e_at ON e USING harmonia (at);
CREATE INDEX e_day ON e USING harmonia ((at::date)) WHERE note IS NOT NULL;
INSERT INTO e SELECT '2000-01-01'::timestamp + i * interval '7 hours', i % 3 = 0, nullif(i % 4, 0)::text FROM generate_series(1, 2000) i;
SELECT * FROM verify_all('e_at');
SELECT * FROM verify_all('e_day');

--
-- Inheritance
--
CREATE TABLE h (k int);
CREATE TABLE h_1 () INHERITS (h);
CREATE INDEX h_k ON h USING harmonia (k);
CREATE INDEX h_1_k ON h_1 USING harmonia (k);
INSERT INTO h SELECT i FROM generate_series(1, 1000) i;
INSERT INTO h_1 SELECT i FROM generate_series(500, 1500) i;
ANALYZE h;
BEGIN;
CALL use('index');
SELECT * FROM plan('SELECT k FROM h WHERE k > 900 ORDER BY k');
COMMIT;
SELECT query, n, result FROM compare_queries('SELECT k FROM h ORDER BY k', 'SELECT k FROM h WHERE k > 900 ORDER BY k DESC', 'SELECT k FROM ONLY h WHERE k > 900');
