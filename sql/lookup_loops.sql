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
	SELECT i * 7919 % 2000 + 1 AS s, i % 25 AS n, i AS v, repeat('x', 100) AS pad FROM generate_series(1, 30000) i;
CREATE TABLE orders AS
	SELECT i / 4 AS o, i % 4 AS line, i * 7919 % 2500 AS d, repeat('x', 50) AS pad FROM generate_series(4, 30003) i ORDER BY shuffle(i);
CREATE TABLE staging AS SELECT i * 1237 % 7500 + 1 AS o, i % 4 AS line, i AS v FROM generate_series(1, 1000) i;
CREATE INDEX supplier_n ON supplier USING harmonia (n);
CREATE INDEX partsupp_s ON partsupp USING harmonia (s);
CREATE INDEX partsupp_n ON partsupp USING harmonia (n);
CREATE INDEX orders_h ON orders USING harmonia (o, line);
CREATE INDEX orders_d ON orders USING harmonia (d, line);
CREATE UNIQUE INDEX orders_b ON orders (o, line);
-- What ANALYZE finds in large tables, where equal keys are neighbours
ALTER TABLE orders ALTER o SET (n_distinct = 1800);
SELECT format('VACUUM ANALYZE %I', relname) FROM pg_class WHERE relnamespace = 'lookup_loops'::regnamespace AND relkind = 'r' ORDER BY relname \gexec

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
SELECT * FROM chosen('SELECT sum(v) FROM nation JOIN supplier USING (n) JOIN partsupp ON partsupp.s = supplier.s WHERE name = ''n7''');

-- A loop that is over after one row, or after the first match
SELECT * FROM chosen(
	'SELECT sum(orders.d) FROM staging JOIN orders USING (o, line)',
	'SELECT sum(orders.d) FROM staging LEFT JOIN orders USING (o, line)',
	'SELECT count(*) FROM staging WHERE EXISTS (SELECT FROM orders WHERE orders.o = staging.o AND orders.d < 1600)',
	'SELECT count(*) FROM staging WHERE NOT EXISTS (SELECT FROM orders WHERE orders.o = staging.o AND orders.d < 1600)');

-- All rows have to be read where they are sorted. Without an order the loops return the first rows sooner.
SELECT * FROM chosen(
	'SELECT v FROM nation JOIN supplier USING (n) JOIN partsupp ON partsupp.s = supplier.s WHERE name = ''n7'' ORDER BY v LIMIT 5',
	'SELECT v FROM nation JOIN supplier USING (n) JOIN partsupp ON partsupp.s = supplier.s WHERE name = ''n7'' LIMIT 5');

-- A probe finds at most one row if a unique index says so.
CREATE FUNCTION cost_of(query text) RETURNS numeric LANGUAGE plpgsql AS $$
DECLARE
	plan jsonb;
BEGIN
	EXECUTE 'EXPLAIN (FORMAT JSON) ' || query INTO plan;
	RETURN plan -> 0 -> 'Plan' -> 'Total Cost';
END $$;
BEGIN;
SET LOCAL lookup.seqscan = on;
CALL use_lookups(false);
SELECT cost_of('SELECT sum(orders.d) FROM staging JOIN orders USING (o, line) WHERE staging.v <= 20') AS unique \gset
DROP INDEX orders_b;
SELECT cost_of('SELECT sum(orders.d) FROM staging JOIN orders USING (o, line) WHERE staging.v <= 20') / :unique > 1.1 AS costs_more;
ROLLBACK;

-- Where one side is unique, PostgreSQL charges a hash join next to nothing for its rows.
ALTER TABLE supplier ADD PRIMARY KEY (s);
SELECT * FROM chosen('SELECT supplier.s, count(v) FROM supplier LEFT JOIN partsupp ON partsupp.s = supplier.s GROUP BY 1');

-- A lookup join that costs more than a hash join may cost less with a lookup aggregate on top.
SET work_mem = '64kB';
SELECT * FROM chosen('SELECT partsupp.v, count(*) FROM supplier LEFT JOIN partsupp ON partsupp.s = supplier.s GROUP BY 1');
RESET work_mem;

-- Processes claim pages of the outer table. One page is for one process.
CREATE FUNCTION is_parallel(query text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	plan jsonb;
BEGIN
	EXECUTE 'EXPLAIN (FORMAT JSON) ' || query INTO plan;
	RETURN plan @? 'strict $.** ? (@."Custom Plan Provider" starts with "HarmoniaLookupJoin" && @."Parallel Aware" == true)';
END $$;
SET max_parallel_workers_per_gather = 2;
SET min_parallel_table_scan_size = '64kB';
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_nestloop = off;
SELECT is_parallel('SELECT sum(length(pad)) FROM nation JOIN partsupp USING (n)'),
	is_parallel('SELECT sum(length(pad)) FROM supplier JOIN partsupp USING (s)');

DROP SCHEMA lookup_loops CASCADE;
