--
-- Compiled expressions: other tests have plans interpreted, because those that they force cost so much that each one would be compiled
--
SET client_min_messages = warning;
CREATE SCHEMA jit;
SET search_path = jit, public;
\getenv srcdir PG_ABS_SRCDIR
\set compare :srcdir '/sql/include/compare.sql'
\i :compare
\set lookup :srcdir '/sql/include/lookup.sql'
\i :lookup

CREATE TABLE t (k int, id int GENERATED ALWAYS AS IDENTITY, v text) WITH (autovacuum_enabled = off);
INSERT INTO t (k, v) SELECT shuffle(i) % 1000, 'v' || i FROM generate_series(1, 3000) i;
INSERT INTO t (k, v) SELECT NULL, i FROM generate_series(1, 50) i;
CREATE INDEX t_k ON t USING harmonia (k);
CREATE INDEX t_key ON t USING harmonia ((k % 700 + 1), (k % 3));
CREATE TABLE o (n int, k int) WITH (autovacuum_enabled = off);
INSERT INTO o SELECT i, CASE WHEN i % 50 > 0 THEN shuffle(i) % 1500 END FROM generate_series(1, 800) i;
:vacuum ANALYZE t;
:vacuum ANALYZE o;

-- Each query by lookup nodes, without and with compilation
CREATE FUNCTION compare_compiled(VARIADIC queries text[])
	RETURNS TABLE (n bigint, result text, nodes text, query text) LANGUAGE plpgsql AS $$
DECLARE
	wanted record;
BEGIN
	FOREACH query IN ARRAY queries LOOP
		CALL use_lookups(false);
		wanted := digest(query, false);
		n := wanted.n;
		nodes := lookup_nodes(query);
		PERFORM set_config('jit', 'on', true);
		PERFORM set_config(name, '0', true) FROM unnest('{jit_above_cost,jit_inline_above_cost,jit_optimize_above_cost}'::text[]) name;
		result := CASE WHEN digest(query, false) = wanted THEN 'same' ELSE 'DIFFERS' END;
		RETURN NEXT;
	END LOOP;
END $$;
SELECT * FROM compare_compiled(
	'SELECT id + 1, v FROM t WHERE k = ANY (ARRAY(SELECT generate_series(1, 900, 2))) AND id % 3 = 1', 'SELECT count(*) FROM t WHERE k < 100 OR k > 900',
	'SELECT k, sum(id * 2), max(v) FROM t WHERE k < 100 OR k > 900 GROUP BY k', 'SELECT o.n + t.id, upper(t.v) FROM o JOIN t ON t.k = o.k - 1 AND t.id > o.n',
	'SELECT o.n, t.id FROM o LEFT JOIN t ON t.k = o.k AND t.v > ''v3''', 'SELECT n FROM o WHERE EXISTS (SELECT FROM t WHERE t.k BETWEEN o.k AND o.k + 3 AND t.id > o.n)',
	'SELECT n FROM o WHERE NOT EXISTS (SELECT FROM t WHERE t.k = o.k AND t.id % 2 = 0)', 'SELECT n FROM o WHERE k NOT IN (SELECT k FROM t WHERE k IS NOT NULL)',
	'SELECT id FROM t WHERE k IN (SELECT k * 2 FROM o WHERE n % 7 > 0)', 'SELECT sum(t.id + o.n), count(DISTINCT v) FROM o JOIN t USING (k)',
	'SELECT o.n, t.id FROM o JOIN t ON t.k % 700 + 1 = o.k AND t.k % 3 = o.n % 3');

-- Entries with a compiled expression, one by one and as a batch
SET jit = on;
SET jit_above_cost = 0;
INSERT INTO t (k, v) VALUES (5, 'one');
INSERT INTO t (k, v) SELECT i % 1000, 'many' FROM generate_series(1, 3000) i;
UPDATE t SET k = k + 1 WHERE id % 100 = 5;
SET jit = off;
SELECT verify('t_k');
SELECT harmonia_check('t_key', true);

DROP SCHEMA jit CASCADE;
