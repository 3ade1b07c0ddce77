--
-- Sub-selects: NOT IN (SELECT ...) where what is selected cannot be NULL
--
SET client_min_messages = warning;
SET jit = off;
SET max_parallel_workers_per_gather = 0;
SET harmonia.enable_lookup_aggregate = off;
CREATE SCHEMA lookup_not_in;
SET search_path = lookup_not_in, public;
\getenv srcdir PG_ABS_SRCDIR
\set compare :srcdir '/sql/include/compare.sql'
\i :compare
\set lookup :srcdir '/sql/include/lookup.sql'
\i :lookup

-- Keys that cannot be NULL (k) and keys that can (maybe)
CREATE TABLE t (k int NOT NULL, maybe int, b bigint NOT NULL, plain int NOT NULL, id int) WITH (autovacuum_enabled = off);
INSERT INTO t SELECT n, nullif(n, 5), n, n, i FROM (SELECT i, shuffle(i) % 400 AS n FROM generate_series(1, 500) i) s;
CREATE INDEX ON t USING harmonia (k);
CREATE INDEX ON t USING harmonia (maybe);
CREATE INDEX ON t USING harmonia (b);
CREATE INDEX ON t (plain);
CREATE TABLE o (n int NOT NULL, k int NOT NULL, maybe int, b bigint NOT NULL, num numeric NOT NULL) WITH (autovacuum_enabled = off);
INSERT INTO o SELECT i, x, CASE WHEN i % 10 > 0 THEN x END, x, x FROM (SELECT i, shuffle(i * 3) % 600 AS x FROM generate_series(1, 300) i) s;
CREATE TABLE empty (k int NOT NULL);
CREATE INDEX ON empty USING harmonia (k);
CREATE VIEW v AS SELECT n, k, maybe AS m FROM o WHERE n % 3 > 0;
CREATE VIEW barrier WITH (security_barrier) AS SELECT n, k FROM o WHERE n % 3 > 0;
:vacuum ANALYZE t, o, empty;

-- Whether a query is planned with a subplan or an antijoin
CREATE FUNCTION planned(VARIADIC queries text[]) RETURNS TABLE (planned text, query text) LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	FOREACH query IN ARRAY queries LOOP
		EXECUTE 'EXPLAIN (FORMAT JSON) ' || query INTO plan;
		planned := concat_ws(', ', CASE WHEN plan::text ~ '"SubPlan' THEN 'subplan' END, CASE WHEN plan::text ~ '"Anti"|"Right Anti"' THEN 'antijoin' END);
		RETURN NEXT;
	END LOOP;
END $$;
SELECT * FROM planned(
	'SELECT * FROM o WHERE k NOT IN (SELECT k FROM t)',
	'SELECT * FROM o WHERE NOT k IN (SELECT k FROM t WHERE id % 2 = 0) AND n > 5',
	'SELECT * FROM o WHERE b NOT IN (SELECT k FROM t)',
	'SELECT * FROM o WHERE maybe IS NOT NULL AND maybe NOT IN (SELECT k FROM t)',
	'SELECT * FROM o WHERE k NOT IN (SELECT maybe FROM t WHERE maybe IS NOT NULL)',
	'SELECT * FROM o WHERE k NOT IN (SELECT t.k FROM t JOIN o u USING (k))',
	'SELECT * FROM o WHERE k NOT IN (SELECT DISTINCT k FROM t ORDER BY k)',
	'SELECT * FROM o WHERE k NOT IN (SELECT k FROM t WHERE t.id = o.n)',
	'SELECT * FROM o WHERE k NOT IN (SELECT k FROM t) AND b NOT IN (SELECT b FROM t)',
	'SELECT * FROM o LEFT JOIN t USING (k) WHERE o.k NOT IN (SELECT k FROM t)',
	'SELECT * FROM v WHERE k NOT IN (SELECT k FROM t)',
	'SELECT * FROM barrier WHERE k NOT IN (SELECT k FROM t)',
	'WITH s AS MATERIALIZED (SELECT * FROM o WHERE k NOT IN (SELECT k FROM t)) SELECT * FROM s',
	'SELECT * FROM (SELECT * FROM o WHERE k NOT IN (SELECT k FROM t) OFFSET 0) s',
	'SELECT count(*) FROM o WHERE 5 NOT IN (SELECT k FROM t WHERE id < o.n)',
	'INSERT INTO empty SELECT k FROM o WHERE k NOT IN (SELECT k FROM t)');
-- The left side can be NULL
SELECT * FROM planned(
	'SELECT * FROM o WHERE maybe NOT IN (SELECT k FROM t)',
	'SELECT * FROM o WHERE k + 0 NOT IN (SELECT k FROM t)',
	'SELECT * FROM o LEFT JOIN t USING (k) WHERE t.k NOT IN (SELECT k FROM t)',
	'SELECT * FROM t RIGHT JOIN o USING (k) WHERE t.k NOT IN (SELECT k FROM t)',
	'SELECT * FROM v WHERE m NOT IN (SELECT k FROM t)',
	'SELECT * FROM (SELECT k FROM o GROUP BY ROLLUP (k)) s WHERE k NOT IN (SELECT k FROM t)',
	'SELECT * FROM o WHERE maybe NOT IN (SELECT k FROM t WHERE t.id = o.n)',
	'SELECT * FROM o WHERE maybe NOT IN (SELECT t.k FROM t JOIN o u USING (k))',
	'INSERT INTO empty SELECT maybe FROM o WHERE maybe NOT IN (SELECT k FROM t)');
SELECT * FROM plan('SELECT * FROM o WHERE maybe NOT IN (SELECT k FROM t WHERE id > 5)');
-- Not so
SELECT * FROM planned(
	'SELECT * FROM o WHERE maybe NOT IN (SELECT t.k FROM t JOIN v USING (k))',
	'WITH s AS (SELECT k FROM t) SELECT * FROM o WHERE maybe NOT IN (SELECT t.k FROM t JOIN s USING (k))',
	'SELECT * FROM o WHERE maybe + (SELECT 1) NOT IN (SELECT k FROM t)',
	'SELECT * FROM o WHERE maybe + (random() * 0)::int NOT IN (SELECT k FROM t)',
	'SELECT * FROM o WHERE k NOT IN (SELECT maybe FROM t)',
	'SELECT * FROM o WHERE k NOT IN (SELECT plain FROM t)',
	'SELECT * FROM o WHERE k NOT IN (SELECT k + 0 FROM t)',
	'SELECT * FROM o WHERE num NOT IN (SELECT k FROM t)',
	'SELECT * FROM o WHERE NULL::int NOT IN (SELECT k FROM t WHERE id < o.n)',
	'SELECT * FROM o WHERE (k, n) NOT IN (SELECT k, id FROM t)',
	'SELECT * FROM o WHERE k NOT IN (SELECT t.k FROM o u LEFT JOIN t USING (k))',
	'SELECT * FROM o WHERE k NOT IN (SELECT t.k FROM t FULL JOIN o u USING (k))',
	'SELECT * FROM o WHERE k NOT IN (SELECT k FROM t LIMIT 5)',
	'SELECT * FROM o WHERE k NOT IN (SELECT DISTINCT ON (id) k FROM t)',
	'SELECT * FROM o WHERE k NOT IN (SELECT k FROM t GROUP BY k)',
	'SELECT * FROM o WHERE k NOT IN (SELECT k FROM t UNION ALL SELECT k FROM t)',
	'SELECT * FROM o WHERE k NOT IN (SELECT k FROM t WHERE random() < 2)',
	'SELECT * FROM o WHERE k NOT IN (SELECT k FROM t) OR n = 3',
	'SELECT k NOT IN (SELECT k FROM t) FROM o',
	'SELECT * FROM o WHERE k NOT IN (SELECT k FROM t) FOR UPDATE',
	'DELETE FROM o WHERE k NOT IN (SELECT k FROM t)',
	'UPDATE o SET n = 0 WHERE k NOT IN (SELECT k FROM t)');

-- Answers
SELECT * FROM compare_lookups(
	'SELECT * FROM o WHERE k NOT IN (SELECT k FROM t)',
	'SELECT count(*) FROM o WHERE k NOT IN (SELECT k FROM t)',
	'SELECT * FROM o WHERE NOT k IN (SELECT k FROM t WHERE id % 2 = 0) AND n > 5',
	'SELECT * FROM o WHERE b NOT IN (SELECT k FROM t)',
	'SELECT * FROM o WHERE maybe IS NOT NULL AND maybe NOT IN (SELECT k FROM t)',
	'SELECT * FROM o WHERE maybe NOT IN (SELECT k FROM t)',
	'SELECT * FROM o WHERE k NOT IN (SELECT maybe FROM t WHERE maybe IS NOT NULL)',
	'SELECT * FROM o WHERE k NOT IN (SELECT maybe FROM t)',
	'SELECT * FROM o WHERE k NOT IN (SELECT k FROM empty)',
	'SELECT * FROM o WHERE maybe NOT IN (SELECT k FROM empty)',
	'SELECT * FROM o WHERE maybe NOT IN (SELECT k FROM t WHERE id < 0)',
	'SELECT * FROM o WHERE maybe NOT IN (SELECT k FROM t WHERE id < 5) AND NOT (maybe IN (SELECT b FROM t WHERE id > 400))',
	'SELECT count(*), count(maybe) FROM o WHERE maybe + 1 NOT IN (SELECT k FROM t)',
	'SELECT * FROM o WHERE maybe NOT IN (SELECT k FROM t WHERE t.id = o.n)',
	'SELECT * FROM o WHERE maybe NOT IN (SELECT k FROM t WHERE t.id = o.n * 7)',
	'SELECT * FROM o WHERE maybe NOT IN (SELECT t.k FROM t JOIN o u USING (k))',
	'SELECT * FROM o WHERE maybe NOT IN (SELECT k FROM t) OR maybe IS NULL',
	'SELECT * FROM o WHERE n < 20 AND (SELECT count(*) FROM t WHERE t.maybe NOT IN (SELECT k FROM t u WHERE u.id < o.n)) > 3',
	'SELECT * FROM o LEFT JOIN (SELECT maybe, id FROM t WHERE maybe NOT IN (SELECT k FROM t WHERE id < 100)) s ON s.id = o.n',
	'SELECT * FROM v WHERE m IS NOT NULL AND m NOT IN (SELECT k FROM t)',
	'SELECT * FROM o WHERE k NOT IN (SELECT t.k FROM t JOIN o u USING (k))',
	'SELECT * FROM o WHERE k NOT IN (SELECT t.k FROM o u LEFT JOIN t USING (k))',
	'SELECT * FROM o WHERE k NOT IN (SELECT DISTINCT k FROM t ORDER BY k)',
	'SELECT * FROM o WHERE k NOT IN (SELECT DISTINCT ON (id % 7) k FROM t ORDER BY id % 7, id)',
	'SELECT * FROM o WHERE k NOT IN (SELECT k FROM t WHERE t.id = o.n)',
	'SELECT * FROM o WHERE k NOT IN (SELECT k FROM t) AND b NOT IN (SELECT b + 1 FROM t)',
	'SELECT * FROM o LEFT JOIN t USING (k) WHERE o.k NOT IN (SELECT k FROM t)',
	'SELECT * FROM o LEFT JOIN t USING (k) WHERE t.k NOT IN (SELECT k FROM t)',
	'SELECT * FROM v WHERE k NOT IN (SELECT k FROM t)',
	'SELECT * FROM v WHERE m NOT IN (SELECT k FROM t)',
	'SELECT * FROM (SELECT k FROM o GROUP BY ROLLUP (k)) s WHERE k NOT IN (SELECT k FROM t)',
	'SELECT * FROM o WHERE 5 NOT IN (SELECT k FROM t WHERE id < o.n)',
	'SELECT * FROM o WHERE EXISTS (SELECT FROM t WHERE t.id = o.n AND t.k NOT IN (SELECT k FROM o))');

-- A column that may be NULL from now on
PREPARE q AS SELECT count(*) FROM o WHERE k NOT IN (SELECT k FROM t);
BEGIN;
SET LOCAL plan_cache_mode = force_generic_plan;
EXECUTE q;
SELECT * FROM planned('EXECUTE q');
ALTER TABLE t ALTER k DROP NOT NULL;
EXECUTE q;
SELECT * FROM planned('EXECUTE q');
INSERT INTO t VALUES (NULL, 0, 0, 0, 0);
EXECUTE q;
DELETE FROM t WHERE k IS NULL;
ALTER TABLE t ALTER k SET NOT NULL;
EXECUTE q;
SELECT * FROM planned('EXECUTE q');
ALTER TABLE o ALTER k DROP NOT NULL;
INSERT INTO o VALUES (0, NULL, 0, 0, 0);
EXECUTE q;
SELECT * FROM planned('EXECUTE q');
ROLLBACK;
DEALLOCATE q;
-- A constraint that does not hold for all rows: NOT VALID, which 18 has, and of a parent alone
CREATE TABLE parent (k int NOT NULL);
CREATE INDEX ON parent USING harmonia (k);
CREATE TABLE unvalidated (k int);
CREATE INDEX ON unvalidated USING harmonia (k);
INSERT INTO unvalidated VALUES (NULL);
DO $$
BEGIN
	IF current_setting('server_version_num')::int >= 180000 THEN
		EXECUTE 'ALTER TABLE unvalidated ADD CONSTRAINT not_null NOT NULL k NOT VALID';
		DROP TABLE parent;
		EXECUTE 'CREATE TABLE parent (k int, CONSTRAINT not_null NOT NULL k NO INHERIT)';
		CREATE INDEX ON parent USING harmonia (k);
		CREATE TABLE child () INHERITS (parent);
	ELSE
		CREATE TABLE child () INHERITS (parent);
		ALTER TABLE child ALTER k DROP NOT NULL;
	END IF;
END $$;
INSERT INTO child VALUES (NULL);
SELECT count(*) FROM o WHERE k NOT IN (SELECT k FROM unvalidated);
SELECT count(*) FROM o WHERE k NOT IN (SELECT k FROM parent);
SELECT count(*) FROM o WHERE k NOT IN (SELECT k FROM ONLY parent);

-- Partitions
CREATE TABLE r (k int NOT NULL, id int) PARTITION BY RANGE (k);
CREATE TABLE r_1 PARTITION OF r FOR VALUES FROM (MINVALUE) TO (100);
CREATE TABLE r_2 PARTITION OF r DEFAULT;
INSERT INTO r SELECT k, id FROM t;
CREATE INDEX ON r USING harmonia (k);
:vacuum ANALYZE r;
SELECT * FROM planned('SELECT * FROM o WHERE k NOT IN (SELECT k FROM r)', 'SELECT * FROM r WHERE k NOT IN (SELECT k FROM t)');
SELECT * FROM compare_lookups('SELECT * FROM o WHERE k NOT IN (SELECT k FROM r)', 'SELECT * FROM r WHERE k NOT IN (SELECT k FROM t WHERE id < 200)');

-- Privileges, row-level security and security barriers are those of the query.
CREATE ROLE regress_not_in;
GRANT USAGE ON SCHEMA lookup_not_in TO regress_not_in;
GRANT SELECT ON o, barrier TO regress_not_in;
GRANT SELECT (id) ON t TO regress_not_in;
SET ROLE regress_not_in;
SELECT count(*) FROM o WHERE k NOT IN (SELECT k FROM t);
SELECT count(*) FROM o WHERE k NOT IN (SELECT t.k FROM lookup_not_in.t);
RESET ROLE;
GRANT SELECT ON t TO regress_not_in;
ALTER TABLE t ENABLE ROW LEVEL SECURITY;
CREATE POLICY even ON t USING (id % 2 = 0);
SELECT count(*) FROM o WHERE k NOT IN (SELECT k FROM t WHERE id % 2 = 0);
-- Called for a row that the view hides, or that the policy does, it would say so.
CREATE FUNCTION leaky(i int) RETURNS boolean LANGUAGE plpgsql COST 0.001 AS $$
BEGIN
	IF i % 2 = 1 THEN
		RAISE 'leaked %', i;
	END IF;
	RETURN true;
END $$;
SET ROLE regress_not_in;
SELECT count(*) FROM o WHERE k NOT IN (SELECT k FROM t);
SELECT count(*) FROM o WHERE k NOT IN (SELECT k FROM t WHERE leaky(id));
SELECT count(*) FROM barrier WHERE k NOT IN (SELECT k FROM t WHERE leaky(id));
RESET ROLE;
ALTER TABLE t DISABLE ROW LEVEL SECURITY;

-- The setting of lookup joins is this one's, too.
SET harmonia.enable_lookup_join = off;
SELECT * FROM planned('SELECT * FROM o WHERE k NOT IN (SELECT k FROM t)');
RESET harmonia.enable_lookup_join;

-- A snapshot may be older than the declaration of a column, which may come from its own transaction.
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT * FROM planned('SELECT * FROM o WHERE k NOT IN (SELECT k FROM t)');
ALTER TABLE t ALTER k DROP NOT NULL, ALTER k SET NOT NULL;
SELECT * FROM planned('SELECT * FROM o WHERE k NOT IN (SELECT k FROM t)');
ROLLBACK;

DROP SCHEMA lookup_not_in CASCADE;
DROP ROLE regress_not_in;
