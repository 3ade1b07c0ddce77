--
-- A lookup join beside a nested loop that looks up the same keys: it reads no more pages
-- than the loops, so it must not cost more
--
SET client_min_messages = warning;
SET jit = off;
SET max_parallel_workers_per_gather = 0;
CREATE SCHEMA lookup_loops;
SET search_path = lookup_loops, public;
\getenv srcdir PG_ABS_SRCDIR
\set compare :srcdir '/sql/include/compare.sql'
\i :compare
\set lookup :srcdir '/sql/include/lookup.sql'
\i :lookup

-- So few rows that ANALYZE reads all
CREATE TABLE nation AS SELECT i AS n, 'n' || i AS name FROM generate_series(0, 24) i;
CREATE TABLE supplier AS SELECT i AS s, i % 25 AS n FROM generate_series(1, 2000) i;
CREATE TABLE partsupp AS
	SELECT i * 7919 % 2000 + 1 AS s, i AS v, repeat('x', 100) AS pad FROM generate_series(1, 30000) i;
CREATE TABLE orders AS
	SELECT i / 4 AS o, i % 4 AS line, i * 7919 % 2500 AS d, repeat('x', 50) AS pad FROM generate_series(4, 30003) i;
CREATE TABLE staging AS SELECT i * 1237 % 7500 + 1 AS o, i % 4 AS line, i AS v FROM generate_series(1, 1000) i;
CREATE INDEX supplier_n ON supplier USING harmonia (n);
CREATE INDEX partsupp_s ON partsupp USING harmonia (s);
CREATE INDEX orders_h ON orders USING harmonia (o, line);
CREATE INDEX orders_d ON orders USING harmonia (d, line);
CREATE UNIQUE INDEX orders_b ON orders (o, line);
-- What ANALYZE finds in large tables, where equal keys are neighbours
ALTER TABLE orders ALTER o SET (n_distinct = 1800);
SELECT format('VACUUM ANALYZE %I', relname) FROM pg_class WHERE relnamespace = 'lookup_loops'::regnamespace AND relkind = 'r' \gexec

CREATE FUNCTION chosen(VARIADIC queries text[]) RETURNS TABLE (random_page_cost text, nodes text, query text) LANGUAGE plpgsql AS $$
BEGIN
	FOREACH query IN ARRAY queries LOOP
		FOREACH random_page_cost IN ARRAY '{4,1.1}'::text[] LOOP
			PERFORM set_config('random_page_cost', random_page_cost, true);
			nodes := lookup_nodes(query);
			RETURN NEXT;
		END LOOP;
	END LOOP;
END $$;

-- The outer rows come from a join, with fewer rows than the table that has the key: PostgreSQL charges the
-- inner index scan as if there were a loop for each row of that table.
SELECT * FROM chosen('SELECT sum(v) FROM nation JOIN supplier USING (n) JOIN partsupp USING (s) WHERE name = ''n7''');

-- A loop that is over after one row, or after the first match
SELECT * FROM chosen(
	'SELECT sum(orders.d) FROM staging JOIN orders USING (o, line)',
	'SELECT sum(orders.d) FROM staging LEFT JOIN orders USING (o, line)',
	'SELECT count(*) FROM staging WHERE EXISTS (SELECT FROM orders WHERE orders.o = staging.o AND orders.d < 1600)',
	'SELECT count(*) FROM staging WHERE NOT EXISTS (SELECT FROM orders WHERE orders.o = staging.o AND orders.d < 1600)');

