--
-- Scalar sub-selects by a unique key: left joins
--
LOAD 'harmonia';
SET client_min_messages = warning;
SET jit = off;
SET max_parallel_workers_per_gather = 0;
CREATE SCHEMA scalar_subselect;
SET search_path = scalar_subselect, public;
\getenv srcdir PG_ABS_SRCDIR
\set compare :srcdir '/sql/include/compare.sql'
\i :compare
\set lookup :srcdir '/sql/include/lookup.sql'
\i :lookup

CREATE TABLE dim (id int PRIMARY KEY, name text, code varchar(9) UNIQUE, a int, b bigint, num numeric UNIQUE,
	late int UNIQUE DEFERRABLE, part int, plain int, ok bool, CONSTRAINT ab UNIQUE (a, b)) WITH (autovacuum_enabled = off);
INSERT INTO dim SELECT i, CASE WHEN i % 9 > 0 THEN 'n' || i END, 'c' || i, i / 10, i % 10, i, i, i, i, i % 3 > 0 FROM generate_series(1, 400) i;
INSERT INTO dim SELECT i, 'null', NULL, NULL, i, NULL, NULL, NULL, NULL, NULL FROM generate_series(401, 420) i;
CREATE UNIQUE INDEX ON dim (part) WHERE part > 0;
CREATE UNIQUE INDEX ON dim ((id + 1));
CREATE INDEX ON dim (plain);
CREATE TABLE o (n int PRIMARY KEY, k int, b bigint, num numeric, t text, x int, y int) WITH (autovacuum_enabled = off);
INSERT INTO o SELECT i, nullif(k, 7), k, k + (k % 20 = 0)::int * 0.5, 'c' || k, k % 5, k / 10 FROM (SELECT i, shuffle(i) % 500 AS k FROM generate_series(1, 600) i) s;
CREATE TABLE few AS SELECT * FROM o LIMIT 20;
CREATE TABLE pdim (id int, v int, PRIMARY KEY (id)) PARTITION BY RANGE (id);
CREATE TABLE pdim1 PARTITION OF pdim FOR VALUES FROM (0) TO (200);
CREATE TABLE pdim2 PARTITION OF pdim FOR VALUES FROM (200) TO (1000);
INSERT INTO pdim SELECT i, i * 3 FROM generate_series(0, 450) i;
CREATE TABLE parent (id int PRIMARY KEY, v int);
CREATE TABLE child () INHERITS (parent);
INSERT INTO parent SELECT i, i FROM generate_series(1, 300) i;
INSERT INTO child SELECT i, i FROM generate_series(301, 400) i;
CREATE MATERIALIZED VIEW m AS SELECT id, name FROM dim;
CREATE UNIQUE INDEX ON m (id);
CREATE VIEW v AS SELECT n, x, (SELECT name FROM dim WHERE id = k) AS name, (SELECT upper(name) FROM dim WHERE id = k) AS upper FROM o;
CREATE VIEW barrier WITH (security_barrier) AS SELECT n, x, (SELECT name FROM dim WHERE id = k) AS name FROM o WHERE n % 3 > 0;
CREATE TABLE copy (n int, name text);
:vacuum ANALYZE dim, o, few, pdim, parent, child, m;

-- How a query is planned, and whether it has the same rows as without joins
CREATE FUNCTION outcome(query text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	RETURN digest(query, false);
EXCEPTION WHEN OTHERS THEN
	RETURN SQLERRM;
END $$;
CREATE FUNCTION ask(VARIADIC queries text[]) RETURNS TABLE (planned text, "same rows" bool, query text) LANGUAGE plpgsql AS $$
DECLARE
	plan json;
	rows text;
BEGIN
	FOREACH query IN ARRAY queries LOOP
		EXECUTE 'EXPLAIN (FORMAT JSON) ' || query INTO plan;
		planned := concat_ws(', ', CASE WHEN plan::text ~ 'SubPlan' THEN 'subplan' END,
			CASE WHEN plan::text ~ '"Join Type"|"Harmonia' THEN 'join' END);
		rows := outcome(query);
		SET LOCAL harmonia.enable_subselect_join = off;
		"same rows" := rows = outcome(query);
		SET LOCAL harmonia.enable_subselect_join = on;
		RETURN NEXT;
	END LOOP;
END $$;

SELECT * FROM plan('SELECT n, (SELECT name FROM dim WHERE id = o.k) FROM o', 'VERBOSE');
SELECT * FROM plan('SELECT n, (SELECT upper(name) FROM dim WHERE id = o.k), (SELECT code FROM dim WHERE id = o.k) FROM o', 'VERBOSE');
BEGIN;
SET LOCAL harmonia.enable_btree_lookup = on;
SET LOCAL enable_hashjoin = off;
SET LOCAL enable_mergejoin = off;
SELECT * FROM plan('SELECT sum((SELECT num FROM dim WHERE id = o.k)) FROM o');
COMMIT;

-- Which sub-selects
SELECT * FROM ask(
	'SELECT n, (SELECT name FROM dim WHERE id = o.k) FROM o',
	'SELECT n, (SELECT name FROM dim WHERE o.k = dim.id) FROM o',
	'SELECT n, (SELECT name FROM dim WHERE id = o.b) FROM o',
	'SELECT n, (SELECT name FROM dim WHERE id = o.k AND ok) FROM o',
	'SELECT n, (SELECT name FROM dim WHERE id = o.k AND ok IS NOT NULL AND plain > o.x AND o.y <> 7) FROM o',
	'SELECT n, (SELECT name FROM dim WHERE id = o.k AND (num < 100 OR name IN (''n300'', ''n301''))) FROM o',
	'SELECT n, (SELECT name FROM dim WHERE code = o.t) FROM o',
	'SELECT n, (SELECT name FROM dim WHERE num = o.num) FROM o',
	'SELECT n, (SELECT name FROM dim WHERE a = o.y AND b = o.x) FROM o',
	'SELECT n, (SELECT name FROM dim WHERE a = 5 AND b = o.x) FROM o',
	'SELECT n, (SELECT name FROM dim WHERE id = o.k LIMIT 1) FROM o',
	'SELECT n, (SELECT 5 FROM dim WHERE id = o.k) FROM o',
	'SELECT n, (SELECT o.x FROM dim WHERE id = o.k) FROM o',
	'SELECT n, (SELECT coalesce(name, ''none'') FROM dim WHERE id = o.k) FROM o',
	'SELECT n, (SELECT 100 / o.x FROM dim WHERE id = o.k AND o.x > 0) FROM o',
	'SELECT n, (SELECT dim FROM dim WHERE id = o.k) FROM o',
	'SELECT n, (SELECT v FROM pdim WHERE id = o.k) FROM o',
	'SELECT n, (SELECT v FROM ONLY parent WHERE id = o.k) FROM o',
	'SELECT n, (SELECT name FROM m WHERE id = o.k) FROM o');
-- Not these
SELECT * FROM ask(
	'SELECT n, (SELECT name FROM dim WHERE plain = o.k) FROM o',
	'SELECT n, (SELECT name FROM dim WHERE id = o.k ORDER BY id LIMIT 2) FROM o',
	'SELECT n, (SELECT name FROM dim WHERE late = o.k) FROM o',
	'SELECT n, (SELECT name FROM dim WHERE part = o.k AND part > 0) FROM o',
	'SELECT n, (SELECT name FROM dim WHERE id + 1 = o.k) FROM o',
	'SELECT n, (SELECT name FROM dim WHERE id <= o.k AND id >= o.k) FROM o',
	'SELECT n, (SELECT name FROM dim WHERE a = o.y AND b % 10 = 3) FROM o',
	'SELECT n, (SELECT name FROM dim WHERE id = plain AND plain = o.k) FROM o',
	'SELECT n, (SELECT name FROM dim WHERE code COLLATE "C" = o.t) FROM o',
	'SELECT n, (SELECT name FROM dim WHERE id::float8 = o.k) FROM o',
	'SELECT n, (SELECT name FROM dim WHERE id = o.k OR ok) FROM o',
	'SELECT n, (SELECT name FROM dim WHERE id = 5) FROM o',
	'SELECT n, (SELECT name FROM dim WHERE id = o.k / o.x AND o.x > 0) FROM o',
	'SELECT n, (SELECT name FROM dim WHERE id = o.k AND 100 / (plain - 5) > 1) FROM o',
	'SELECT n, (SELECT name FROM dim WHERE id = o.k AND id = (SELECT min(few.n) FROM few)) FROM o',
	'SELECT n, (SELECT max(name) FROM dim WHERE id = o.k) FROM o',
	'SELECT n, (SELECT name FROM dim WHERE id = o.k LIMIT 0) FROM o',
	'SELECT n, (SELECT name FROM dim WHERE id = o.k OFFSET 1) FROM o',
	'SELECT n, (SELECT generate_series(1, id - id + 1) FROM dim WHERE id = o.k) FROM o',
	'SELECT n, (SELECT name FROM dim WHERE id = o.k UNION SELECT name FROM dim WHERE id = o.k) FROM o',
	'SELECT n, (SELECT dim.name FROM dim JOIN m USING (id) WHERE dim.id = o.k) FROM o',
	'SELECT n, (SELECT name FROM dim TABLESAMPLE bernoulli (100) WHERE id = o.k) FROM o',
	'SELECT n, (SELECT v FROM parent WHERE id = o.k) FROM o',
	'SELECT n, (SELECT (random() * 0)::text FROM dim WHERE id = o.k) FROM o',
	'SELECT n, EXISTS (SELECT name FROM dim WHERE id = o.k OR id = o.x) FROM o');

-- Where they stand
SELECT * FROM ask(
	'SELECT n FROM o WHERE (SELECT name FROM dim WHERE id = o.k) = ''n5''',
	'SELECT n FROM o WHERE (SELECT name FROM dim WHERE id = o.k) IS NULL AND n > 5',
	'SELECT n FROM o WHERE coalesce((SELECT name FROM dim WHERE id = o.k), ''x'') > ''n5''',
	'SELECT n FROM o WHERE (SELECT plain FROM dim WHERE id = o.k) IN (SELECT x FROM few)',
	'SELECT n FROM o WHERE NOT (SELECT ok FROM dim WHERE id = o.k)',
	'SELECT n, (SELECT name FROM dim WHERE id = o.k) || (SELECT code FROM dim WHERE a = o.y AND b = o.x) FROM o',
	'SELECT n, CASE (SELECT plain % 3 FROM dim WHERE id = o.k) WHEN 1 THEN ''one'' WHEN 2 THEN ''two'' END FROM o',
	'SELECT n, CASE WHEN (SELECT ok FROM dim WHERE id = o.k) THEN ''yes'' ELSE ''no'' END FROM o',
	'SELECT row_number() OVER (ORDER BY (SELECT name FROM dim WHERE id = o.k), n) FROM o',
	'SELECT sum((SELECT plain FROM dim WHERE id = o.k)) OVER (PARTITION BY x) FROM o',
	'SELECT DISTINCT (SELECT ok FROM dim WHERE id = o.k) FROM o',
	'SELECT n FROM o ORDER BY (SELECT plain FROM dim WHERE id = o.k), n LIMIT 10',
	'SELECT o.n, (SELECT name FROM dim WHERE id = few.k) FROM o LEFT JOIN few ON few.n = o.n - 3',
	'SELECT k, (SELECT name FROM dim WHERE id = k) FROM o FULL JOIN few USING (k)',
	'SELECT o.n, (SELECT name FROM dim WHERE id = few.k AND plain <> o.x) FROM o, few WHERE o.x = few.x AND few.n < 9',
	'SELECT (SELECT name FROM dim WHERE id = s.k) FROM (SELECT k FROM o ORDER BY n LIMIT 10) s',
	'SELECT (SELECT plain FROM dim WHERE id = o.n + 0 * g) FROM o, generate_series(1, 2) g',
	'SELECT generate_series(1, 2), (SELECT name FROM dim WHERE id = o.k) FROM o',
	'SELECT * FROM v',
	'SELECT n FROM v',
	'SELECT count(*) FROM v',
	'SELECT f.n, v.name, v.upper FROM few f LEFT JOIN v ON v.n = f.n + 1',
	'SELECT * FROM v WHERE name > ''n4''',
	'SELECT * FROM barrier WHERE name > ''n4''',
	'WITH s AS MATERIALIZED (SELECT x, (SELECT name FROM dim WHERE id = o.k) FROM o) SELECT * FROM s',
	'SELECT n, (SELECT name FROM dim WHERE id = o.k) FROM o UNION ALL SELECT n, (SELECT name FROM m WHERE id = o.k) FROM o',
	'SELECT n, (SELECT count(*) FROM (SELECT (SELECT name FROM dim WHERE id = few.k) FROM few WHERE few.x = o.x) s) FROM o WHERE n < 9');
-- EXISTS, and IN where NULL is false
SELECT * FROM ask(
	'SELECT n, EXISTS (SELECT FROM dim WHERE id = o.k) FROM o',
	'SELECT n, NOT EXISTS (SELECT * FROM dim WHERE id = o.k AND ok) FROM o',
	'SELECT n, EXISTS (SELECT 1 / 0 FROM dim WHERE a = o.y AND b = o.x ORDER BY name LIMIT 1) FROM o',
	'SELECT n, CASE WHEN EXISTS (SELECT 1 FROM dim WHERE id = o.k) THEN ''yes'' ELSE ''no'' END FROM o',
	'SELECT n, (SELECT name FROM dim WHERE id = o.k), EXISTS (SELECT FROM dim WHERE id = o.k) FROM o',
	'SELECT count(*) FILTER (WHERE EXISTS (SELECT FROM dim WHERE id = o.k)) FROM o',
	'SELECT EXISTS (SELECT FROM dim WHERE id = o.k), count(*) FROM o GROUP BY 1',
	'SELECT n FROM o WHERE EXISTS (SELECT FROM dim WHERE id = o.k) OR x = 1',
	'SELECT n FROM o WHERE x = 1 OR EXISTS (SELECT FROM dim WHERE id = o.k)',
	'SELECT n FROM o WHERE x IS NULL OR (y > 5 AND NOT EXISTS (SELECT FROM dim WHERE id = o.k))',
	'SELECT n FROM o WHERE (x = 1 OR EXISTS (SELECT FROM dim WHERE id = o.k AND ok)) AND (x = 2 OR NOT EXISTS (SELECT FROM dim WHERE id = o.n))',
	'SELECT n FROM o WHERE EXISTS (SELECT FROM dim WHERE id = o.k AND ok) IS NOT TRUE',
	'SELECT n FROM o WHERE x = 1 OR k IN (SELECT id FROM dim)',
	'SELECT n FROM o WHERE x = 1 OR k IN (SELECT id FROM dim WHERE ok)',
	'SELECT n FROM o WHERE x = 1 OR t IN (SELECT code FROM dim)',
	'SELECT n FROM o WHERE x = 1 OR num IN (SELECT num FROM dim)',
	'SELECT n FROM o WHERE k IN (SELECT id FROM dim) OR n IN (SELECT id FROM dim WHERE ok)',
	'SELECT count(*) FILTER (WHERE k IN (SELECT id FROM dim)) FROM o',
	'SELECT n, CASE WHEN k IN (SELECT id FROM dim) THEN 1 ELSE 2 END FROM o',
	'SELECT o.n FROM o LEFT JOIN few USING (n) WHERE few.x = 1 OR o.k IN (SELECT id FROM dim) OR few.k IN (SELECT id FROM m)',
	'SELECT n FROM o WHERE x = 1 OR y > ANY (SELECT a FROM dim WHERE id = o.k)');
-- Not these: PostgreSQL joins them, NULL counts, or several rows may be found
SELECT * FROM ask(
	'SELECT n FROM o WHERE EXISTS (SELECT FROM dim WHERE id = o.k)',
	'SELECT n FROM o WHERE NOT EXISTS (SELECT FROM dim WHERE id = o.k) AND k IN (SELECT num::int FROM dim)',
	'SELECT n FROM o WHERE k NOT IN (SELECT id FROM dim)',
	'SELECT n, k IN (SELECT id FROM dim) FROM o',
	'SELECT n FROM o WHERE (k IN (SELECT id FROM dim)) IS NULL OR x = 1',
	'SELECT n FROM o WHERE x = 1 OR NOT k IN (SELECT id FROM dim)',
	'SELECT n FROM o WHERE x = 1 OR coalesce(k IN (SELECT id FROM dim), true)',
	'SELECT n FROM o WHERE x = 1 OR k = ALL (SELECT id FROM dim)',
	'SELECT n FROM o WHERE x = 1 OR k IN (SELECT id FROM dim LIMIT 5)',
	'SELECT n FROM o WHERE x = 1 OR k IN (SELECT plain FROM dim)',
	'SELECT n FROM o WHERE x = 1 OR EXISTS (SELECT FROM dim WHERE plain = o.k)',
	'SELECT n FROM o WHERE x = 1 OR EXISTS (SELECT count(*) FROM dim WHERE id = o.k)',
	'SELECT n FROM o WHERE x = 1 OR EXISTS (SELECT FROM dim WHERE id = o.k LIMIT 0)',
	'SELECT n FROM o WHERE x = 1 OR EXISTS (SELECT generate_series(1, k) FROM dim WHERE id = o.k)',
	'SELECT n FROM o WHERE x = 1 OR (k, n) IN (SELECT id, id FROM dim)');
-- Where some rows need it: not where most are decided before, nor after what can fail
SELECT * FROM ask(
	'SELECT n FROM o WHERE x >= 0 OR EXISTS (SELECT FROM dim WHERE id = o.k)',
	'SELECT n FROM o WHERE x = 1 OR y = 1 OR x = 2 OR y = 2 OR EXISTS (SELECT FROM dim WHERE id = o.k)',
	'SELECT n FROM o WHERE x = 1 OR y = 1 OR x = 2 OR y = 2 OR y = 3 OR EXISTS (SELECT FROM dim WHERE id = o.k)',
	'SELECT n FROM o WHERE x / y = 1 OR EXISTS (SELECT FROM dim WHERE id = o.k)',
	'SELECT n FROM o WHERE y = 0 OR x / y = 1 OR EXISTS (SELECT FROM dim WHERE id = o.k)',
	'SELECT n FROM o WHERE random() < 0 OR EXISTS (SELECT FROM dim WHERE id = o.k)',
	'SELECT n FROM (SELECT n, x, k FROM o OFFSET 0) o WHERE x = 1 OR EXISTS (SELECT FROM dim WHERE id = o.k)',
	'SELECT n, CASE WHEN false THEN EXISTS (SELECT FROM dim WHERE id = o.k AND 1 / 0 > id) END FROM o',
	'SELECT n, CASE WHEN false THEN x = 1 OR 1 / 0 > 0 OR EXISTS (SELECT FROM dim WHERE id = o.k) END FROM o',
	'SELECT n, CASE WHEN x <> 1 THEN (SELECT name FROM dim WHERE id = o.k) ELSE (SELECT code FROM dim WHERE id = o.k) END FROM o',
	'SELECT n, CASE x WHEN 1 THEN (SELECT name FROM dim WHERE id = o.k) END FROM o',
	'SELECT n, x > 1 AND (SELECT ok FROM dim WHERE id = o.k) FROM o',
	'SELECT n, x > 1 AND (SELECT ok FROM dim WHERE id = o.k) AND EXISTS (SELECT FROM dim WHERE id = o.n) FROM o',
	'SELECT x, CASE WHEN x > 1 THEN max((SELECT name FROM dim WHERE id = o.k)) END FROM o GROUP BY x');
SELECT * FROM plan('SELECT n FROM o WHERE x = 1 OR EXISTS (SELECT FROM dim WHERE id = o.k)', 'VERBOSE');

-- EXISTS over a join, of which one table has a unique key: that is joined
SELECT * FROM plan('SELECT n FROM o WHERE EXISTS (SELECT FROM dim JOIN few ON few.n = dim.plain WHERE dim.id = o.k)');
CREATE FUNCTION planned(query text, joins bool) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	PERFORM set_config('harmonia.enable_subselect_join', joins::text, true);
	RETURN (SELECT string_agg(p, E'\n') FROM plan(query) p);
END $$;
SELECT planned(q, true) <> planned(q, false) AS separated, "same rows", query FROM unnest(ARRAY[
	'SELECT n FROM o WHERE EXISTS (SELECT FROM dim JOIN few ON few.n = dim.plain WHERE dim.id = o.k)',
	'SELECT n FROM o WHERE x > 1 AND EXISTS (SELECT * FROM few, dim WHERE few.x = dim.b AND o.k = dim.id AND few.y > o.x AND dim.ok)',
	'SELECT n FROM o WHERE EXISTS (SELECT FROM dim JOIN few ON few.n = dim.plain JOIN m ON m.id = few.n + 1 WHERE dim.id = o.k AND m.name > dim.name)',
	'SELECT n, (SELECT name FROM dim WHERE id = o.k) FROM o WHERE EXISTS (SELECT FROM dim JOIN few ON few.n = dim.plain WHERE dim.id = o.k)',
	'SELECT o.n FROM o JOIN few USING (n) WHERE EXISTS (SELECT FROM dim JOIN pdim ON pdim.id = dim.plain WHERE dim.id = o.k)',
	'SELECT n FROM o WHERE NOT EXISTS (SELECT FROM dim JOIN few ON few.n = dim.plain WHERE dim.id = o.k)',
	'SELECT n FROM o WHERE EXISTS (SELECT FROM dim JOIN few ON few.n = dim.plain WHERE dim.plain = o.k)',
	'SELECT n FROM o WHERE EXISTS (SELECT FROM dim LEFT JOIN few ON few.n = dim.plain WHERE dim.id = o.k)',
	'SELECT n FROM o WHERE EXISTS (SELECT FROM dim JOIN few ON few.n IS NOT DISTINCT FROM dim.plain WHERE dim.id = o.k)',
	'SELECT n FROM o WHERE EXISTS (SELECT FROM dim, few WHERE dim.id = o.k AND few.n = o.n)',
	'SELECT n FROM o WHERE EXISTS (SELECT FROM m JOIN pdim USING (id) WHERE m.id = o.k)',
	'SELECT n FROM o WHERE EXISTS (SELECT FROM dim JOIN few ON few.n = dim.plain WHERE dim.id = o.k LIMIT 0)']) AS q,
	ask(q);
RESET harmonia.enable_subselect_join;

-- Below grouping, but not above
SELECT * FROM ask(
	'SELECT sum((SELECT plain FROM dim WHERE id = o.k)) FROM o',
	'SELECT x, max((SELECT name FROM dim WHERE id = o.k)) FROM o GROUP BY x',
	'SELECT x, count(*) FILTER (WHERE (SELECT ok FROM dim WHERE id = o.k)) FROM o GROUP BY x',
	'SELECT (SELECT name FROM dim WHERE id = o.k), count(*) FROM o GROUP BY 1',
	'SELECT upper((SELECT name FROM dim WHERE id = o.k)), count(*) FROM o GROUP BY (SELECT name FROM dim WHERE id = o.k)',
	'SELECT count(*) FROM o GROUP BY (SELECT name FROM dim WHERE id = o.k) HAVING (SELECT name FROM dim WHERE id = o.k) > ''n3''',
	'SELECT x, count(*) FROM o GROUP BY x HAVING max((SELECT plain FROM dim WHERE id = o.k)) > 300',
	'SELECT x, sum((SELECT plain FROM dim WHERE id = o.k)) FROM o GROUP BY ROLLUP (x)',
	'SELECT x, (SELECT name FROM dim WHERE id = o.x), count(*) FROM o GROUP BY x',
	'SELECT x, (SELECT name FROM dim WHERE id = o.x), count(*) FROM o GROUP BY x, (SELECT name FROM dim WHERE id = o.x)',
	'SELECT x, (SELECT name FROM dim WHERE id = o.x + o.y) FROM o GROUP BY x, y',
	'SELECT (SELECT name FROM dim WHERE id = o.k), count(*) FROM o GROUP BY ROLLUP (1)',
	'SELECT x, count(*) FROM o GROUP BY x HAVING x > (SELECT plain FROM dim WHERE id = o.x)');
-- For few rows
SELECT * FROM ask(
	'SELECT n, (SELECT name FROM dim WHERE id = o.k) FROM o WHERE n = 5',
	'SELECT n, (SELECT name FROM dim WHERE id = few.k) FROM few',
	'SELECT n, (SELECT name FROM dim WHERE id = o.k) FROM o ORDER BY n LIMIT 5',
	'SELECT n, (SELECT name FROM dim WHERE id = o.k) FROM (SELECT * FROM o OFFSET 0) o LIMIT (SELECT 700)',
	'SELECT n, name FROM v ORDER BY n LIMIT 5',
	'SELECT n, name FROM (SELECT * FROM v OFFSET 0) v ORDER BY n LIMIT 5',
	'SELECT x, max(name) FROM v GROUP BY x ORDER BY x LIMIT 2',
	'SELECT n, CASE WHEN x = 3 THEN (SELECT name FROM dim WHERE id = o.k) END FROM o',
	'SELECT n, CASE WHEN x = 3 THEN ''a'' WHEN (SELECT ok FROM dim WHERE id = o.k) THEN ''b'' END FROM o',
	'SELECT n, coalesce(nullif(x, 3)::text, (SELECT name FROM dim WHERE id = o.k)) FROM o',
	'SELECT n, x = 3 AND (SELECT ok FROM dim WHERE id = o.k) FROM o',
	'SELECT n FROM o WHERE x = 3 OR (SELECT ok FROM dim WHERE id = o.k)',
	'SELECT sum((SELECT plain FROM dim WHERE id = o.k)) FILTER (WHERE x = 3) FROM o');
BEGIN;
DECLARE c CURSOR FOR SELECT o.n, (SELECT name FROM dim WHERE id = o.k) FROM o JOIN few USING (n);
SELECT * FROM plan('DECLARE d CURSOR FOR SELECT o.n, (SELECT name FROM dim WHERE id = o.k) FROM o JOIN few USING (n)') WHERE "QUERY PLAN" ~ 'SubPlan';
COMMIT;

-- Many: the planner's time counts
SELECT string_agg(format('(SELECT name FROM dim WHERE id = o.k AND plain <> %s)', i), ',') AS many,
	string_agg(format('(SELECT name || %s FROM dim WHERE id = o.k)', i), ',') AS one FROM generate_series(1, 9) i \gset
SELECT count(*) FROM plan('SELECT ' || :'many' || ' FROM o') WHERE "QUERY PLAN" ~ 'Join';
SELECT count(*) FROM plan('SELECT ' || :'one' || ' FROM o') WHERE "QUERY PLAN" ~ 'Join';
SELECT "same rows" FROM ask('SELECT ' || :'many' || ' FROM o', 'SELECT ' || :'one' || ' FROM o');

-- Rows that are changed or locked
SELECT * FROM plan('SELECT n, (SELECT name FROM dim WHERE id = o.k) FROM o FOR UPDATE');
SELECT * FROM plan('UPDATE o SET t = (SELECT name FROM dim WHERE id = o.k)');
SELECT * FROM plan('INSERT INTO copy SELECT n, (SELECT name FROM dim WHERE id = o.k) FROM o');

-- An index that came later than the snapshot: rows may be equal for that
CREATE TABLE later (id int, v int);
INSERT INTO later VALUES (1, 1), (1, 2);
SELECT count(*) FROM (SELECT (SELECT v FROM later WHERE id = o.k) FROM o) s;
DELETE FROM later WHERE v = 1;
CREATE UNIQUE INDEX ON later (id);
SELECT * FROM ask('SELECT (SELECT v FROM later WHERE id = o.k) FROM o');
-- One that is dropped while a plan is kept
SET plan_cache_mode = force_generic_plan;
PREPARE q AS SELECT count((SELECT v FROM later WHERE id = o.n)) FROM o;
EXECUTE q;
DROP INDEX later_id_idx;
INSERT INTO later VALUES (1, 2);
EXECUTE q;
RESET plan_cache_mode;

-- Privileges, row by row too
CREATE ROLE scalar_reader;
GRANT USAGE ON SCHEMA scalar_subselect TO scalar_reader;
GRANT SELECT ON o, v, few TO scalar_reader;
GRANT SELECT (id, name) ON dim TO scalar_reader;
SET ROLE scalar_reader;
SELECT count((SELECT name FROM dim WHERE id = o.k)) FROM o;
SELECT count((SELECT code FROM dim WHERE id = o.k)) FROM o;
SELECT count((SELECT name FROM dim WHERE id = o.k)), count((SELECT code FROM dim WHERE id = o.k)) FROM o;
SELECT count((SELECT v FROM pdim WHERE id = o.k)) FROM o;
SELECT count(upper) FROM v;
RESET ROLE;
REVOKE SELECT ON dim FROM scalar_reader;
REVOKE SELECT (id, name) ON dim FROM scalar_reader;
SET ROLE scalar_reader;
SELECT count(name) FROM v;
SELECT count((SELECT name FROM dim WHERE id = o.k)) FROM o;
RESET ROLE;
GRANT SELECT ON dim TO scalar_reader;
ALTER TABLE dim ENABLE ROW LEVEL SECURITY;
CREATE POLICY p ON dim USING (id % 2 = 0);
SET ROLE scalar_reader;
SELECT count((SELECT name FROM dim WHERE id = o.k)) FROM o;
SELECT * FROM plan('SELECT (SELECT name FROM dim WHERE id = o.k) FROM o') WHERE "QUERY PLAN" ~ 'SubPlan';
RESET ROLE;
ALTER TABLE dim DISABLE ROW LEVEL SECURITY;
ALTER TABLE o ENABLE ROW LEVEL SECURITY;
CREATE POLICY p ON o USING (n % 2 = 0);
SET ROLE scalar_reader;
SELECT count(*), count((SELECT name FROM dim WHERE id = o.k)) FROM o;
RESET ROLE;
DROP OWNED BY scalar_reader;
DROP ROLE scalar_reader;
SET client_min_messages = error;
DROP SCHEMA scalar_subselect CASCADE;
