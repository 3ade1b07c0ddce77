--
-- Plans: when the planner takes a harmonia index
--
CREATE SCHEMA plan_test;
SET search_path = plan_test, public;
\getenv srcdir PG_ABS_SRCDIR
\set compare :srcdir '/sql/include/compare.sql'
\i :compare
-- Plain scans only; lookup_scan and lookup_join test the lookup nodes
SET harmonia.enable_lookup_scan = off;
SET harmonia.enable_lookup_join = off;
-- Default costs
SET random_page_cost = 4;
SET effective_cache_size = '4GB';
SET max_parallel_workers_per_gather = 0;
SET jit = off;

-- What plans read: indexes, and tables in full. PostgreSQL versions differ in how
-- they read them, and whether by a bitmap.
CREATE FUNCTION plans(VARIADIC queries text[]) RETURNS TABLE (query text, reads text) LANGUAGE plpgsql
AS $$
DECLARE
	plan json;
BEGIN
	FOREACH query IN ARRAY queries LOOP
		EXECUTE 'EXPLAIN (FORMAT JSON) ' || query INTO plan;
		reads := (SELECT string_agg(DISTINCT coalesce(node ->> 'Index Name', 'table ' || (node ->> 'Relation Name'), node ->> 'Node Type'), ', ')
			FROM jsonb_path_query(plan::jsonb, 'strict $.** ? (exists (@."Node Type"))') node
			WHERE node ->> 'Node Type' IN ('Index Scan', 'Index Only Scan', 'Bitmap Index Scan', 'Seq Scan', 'Sort'));
		RETURN NEXT;
	END LOOP;
END $$;

-- So few rows that ANALYZE reads all, and estimates are the same each time.
CREATE TABLE t (k int, id int, pad text) WITH (autovacuum_enabled = off);
INSERT INTO t SELECT shuffle(i) % 40000, i, repeat('x', 100) FROM generate_series(1, 20000) i;
CREATE INDEX t_k ON t USING harmonia (k);
CREATE INDEX t_id ON t USING harmonia (id);
:vacuum ANALYZE t;

--
-- The index for few rows, the table for many
--
SELECT * FROM plans(
	'SELECT * FROM t WHERE k = 5', 'SELECT * FROM t WHERE 5 = k', 'SELECT * FROM t WHERE k < 3', 'SELECT * FROM t WHERE k < 500',
	'SELECT * FROM t WHERE k < 35000', 'SELECT * FROM t WHERE k IS NULL', 'SELECT * FROM t WHERE k IS NOT NULL',
	'SELECT * FROM t WHERE k = ANY (''{1,2,3}'')', 'SELECT * FROM t WHERE k = ANY (ARRAY(SELECT generate_series(1, 5)))',
	'SELECT * FROM t WHERE k = 5::bigint', 'SELECT * FROM t WHERE k = 5::numeric', 'SELECT * FROM t WHERE k <> 5',
	'SELECT * FROM t WHERE k = (SELECT 5)', 'SELECT * FROM t WHERE k = 5 OR k > 39990', 'SELECT * FROM t WHERE k = 5 OR id = 5',
	'SELECT * FROM t WHERE k + 1 = 5', 'SELECT * FROM t');
EXPLAIN (COSTS OFF) SELECT * FROM t WHERE k = 5;

-- Ranges are cheap in a column with the order of the table
SELECT * FROM plans(
	'SELECT * FROM t WHERE id < 5000', 'SELECT * FROM t WHERE k < 1000',
	'SELECT * FROM t WHERE id BETWEEN 8000 AND 12000', 'SELECT * FROM t WHERE id > 18000 AND k < 30000');

-- What the index alone can answer
SELECT * FROM plans(
	'SELECT k FROM t WHERE k < 10000', 'SELECT id FROM t WHERE id < 15000', 'SELECT count(*) FROM t WHERE id > 0',
	'SELECT k, id FROM t WHERE k < 30000');
EXPLAIN (COSTS OFF) SELECT k FROM t WHERE k < 10000;

-- Rows in order without a sort
SELECT * FROM plans(
	'SELECT * FROM t ORDER BY k LIMIT 10', 'SELECT * FROM t ORDER BY k DESC LIMIT 10', 'SELECT * FROM t ORDER BY k NULLS FIRST LIMIT 10',
	'SELECT * FROM t ORDER BY id', 'SELECT * FROM t ORDER BY pad', 'SELECT max(k), min(id) FROM t',
	'SELECT DISTINCT k FROM t ORDER BY k LIMIT 10', 'SELECT * FROM t WHERE k > 100 ORDER BY k LIMIT 10',
	'SELECT * FROM t WHERE k = 5 ORDER BY k');
EXPLAIN (COSTS OFF) SELECT * FROM t ORDER BY k DESC LIMIT 10;

--
-- Joins
--
CREATE TABLE few (k int);
INSERT INTO few SELECT i * 1000 FROM generate_series(1, 10) i;
ANALYZE few;
EXPLAIN (COSTS OFF) SELECT * FROM few JOIN t USING (k);
SELECT * FROM plans(
	'SELECT * FROM few JOIN t USING (k)', 'SELECT * FROM few LEFT JOIN t USING (k)', 'SELECT * FROM t WHERE k IN (SELECT k FROM few)',
	'SELECT * FROM few WHERE EXISTS (SELECT FROM t WHERE t.k = few.k)',
	'SELECT * FROM few, LATERAL (SELECT id FROM t WHERE t.k >= few.k ORDER BY t.k LIMIT 1) s',
	'SELECT a.pad, b.pad FROM t a JOIN t b USING (k)');

--
-- Generic plans
--
SET plan_cache_mode = force_generic_plan;
PREPARE one(int) AS SELECT * FROM t WHERE k = $1;
PREPARE listed(int[]) AS SELECT * FROM t WHERE k = ANY ($1);
PREPARE ranged(int, int) AS SELECT * FROM t WHERE k BETWEEN $1 AND $2;
PREPARE below(int) AS SELECT * FROM t WHERE k < $1;
SELECT * FROM plans('EXECUTE one(5)', 'EXECUTE listed(''{1,2,3}'')', 'EXECUTE ranged(1, 100000)');
SET plan_cache_mode = force_custom_plan;
SELECT * FROM plans('EXECUTE one(5)', 'EXECUTE listed(''{1,2,3}'')', 'EXECUTE ranged(1, 100000)', 'EXECUTE below(3)', 'EXECUTE below(40000)');
DEALLOCATE ALL;
RESET plan_cache_mode;

--
-- Changes of rows
--
SELECT * FROM plans(
	'UPDATE t SET pad = ''y'' WHERE k = 5', 'DELETE FROM t WHERE k < 3', 'DELETE FROM t USING few WHERE t.k = few.k',
	'SELECT * FROM t WHERE k = 5 FOR UPDATE', 'DELETE FROM t');

--
-- Small tables
--
CREATE TABLE tiny (k int);
CREATE INDEX tiny_k ON tiny USING harmonia (k);
INSERT INTO tiny SELECT i FROM generate_series(1, 20) i;
ANALYZE tiny;
SELECT * FROM plans('SELECT * FROM tiny WHERE k = 5', 'SELECT * FROM tiny WHERE k < 15', 'SELECT * FROM tiny ORDER BY k');

--
-- Conditions and expressions
--
CREATE INDEX t_part ON t USING harmonia (id) WHERE k < 400;
CREATE INDEX t_half ON t USING harmonia ((k / 2));
ANALYZE t;
SELECT * FROM plans(
	'SELECT * FROM t WHERE k / 2 = 5', 'SELECT * FROM t WHERE k < 400 AND id BETWEEN 1000 AND 5000',
	'SELECT * FROM t WHERE k < 300 AND id BETWEEN 1000 AND 2000', 'SELECT * FROM t WHERE k < 1000 AND id = 2000',
	'SELECT * FROM t ORDER BY k / 2 LIMIT 10');
DROP INDEX t_part, t_half;

--
-- With a btree index beside it, the one that can do more is used
--
CREATE TABLE pair (k int, v int) WITH (autovacuum_enabled = off);
INSERT INTO pair SELECT shuffle(i) % 40000, i FROM generate_series(1, 20000) i;
CREATE INDEX pair_harmonia ON pair USING harmonia (k);
CREATE INDEX pair_btree ON pair USING btree (k, v);
:vacuum ANALYZE pair;
SELECT * FROM plans('SELECT k, v FROM pair ORDER BY k, v LIMIT 10', 'SELECT k, v FROM pair WHERE k < 10000', 'SELECT k FROM pair WHERE k < 10000');
DROP INDEX pair_btree;
CREATE INDEX pair_btree ON pair USING btree (k);
-- Both indexes give the same answer
BEGIN;
CALL use('index');
SELECT count(*), sum(v) FROM pair WHERE k BETWEEN 500 AND 600;
CALL use('seq');
SELECT count(*), sum(v) FROM pair WHERE k BETWEEN 500 AND 600;
COMMIT;
DROP INDEX pair_btree;

-- Costs are similar to btree's
CREATE FUNCTION cost(query text) RETURNS numeric LANGUAGE plpgsql SET enable_seqscan = off
AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (FORMAT JSON) ' || query INTO plan;
	RETURN plan -> 0 -> 'Plan' ->> 'Total Cost';
END $$;
CREATE FUNCTION costs(OUT query text, OUT cost numeric) RETURNS SETOF record LANGUAGE sql
AS $$
	SELECT query, cost(query) FROM unnest(ARRAY[
		'SELECT * FROM pair WHERE k = 5', 'SELECT * FROM pair WHERE k < 1000', 'SELECT * FROM pair WHERE k < 20000',
		'SELECT k FROM pair WHERE k < 20000', 'SELECT k FROM pair WHERE k = ANY (''{1,2,3,4,5}'')',
		'SELECT * FROM pair ORDER BY k', 'SELECT * FROM pair ORDER BY k DESC LIMIT 10']) query;
$$;
CREATE TABLE with_harmonia AS SELECT * FROM costs();
DROP INDEX pair_harmonia;
CREATE INDEX pair_btree ON pair USING btree (k);
SELECT query, h.cost / b.cost BETWEEN 0.6 AND 1.5 AS alike FROM with_harmonia h JOIN costs() b USING (query) ORDER BY query;
DROP INDEX pair_btree;
-- Costs grow with the size of the index
CREATE INDEX pair_harmonia ON pair USING harmonia (k) WITH (fillfactor = 10);
SELECT query, s.cost > 1.5 * h.cost AS dearer FROM with_harmonia h JOIN costs() s USING (query)
	WHERE query = 'SELECT k FROM pair WHERE k < 20000';

--
-- An index that is invalid, or is not to be used
--
UPDATE pg_index SET indisvalid = false WHERE indexrelid = 't_k'::regclass;
SELECT * FROM plans('SELECT * FROM t WHERE k = 5');
UPDATE pg_index SET indisvalid = true WHERE indexrelid = 't_k'::regclass;
SELECT * FROM plans('SELECT * FROM t WHERE k = 5');
SET enable_indexscan = off;
EXPLAIN (COSTS OFF) SELECT * FROM t WHERE k = 5;
SET enable_bitmapscan = off;
SELECT * FROM plans('SELECT * FROM t WHERE k = 5');
RESET enable_indexscan;
RESET enable_bitmapscan;
