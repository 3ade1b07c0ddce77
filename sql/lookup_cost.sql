--
-- When lookups are chosen: where they are the fastest, and not where a hit's heap page
-- would be visited again for each portion of hits
--
SET client_min_messages = warning;
SET jit = off;
SET max_parallel_workers_per_gather = 0;
SET harmonia.enable_lookup_aggregate = off;
CREATE SCHEMA lookup_cost;
SET search_path = lookup_cost, public;
\getenv srcdir PG_ABS_SRCDIR
\set compare :srcdir '/sql/include/compare.sql'
\i :compare
\set lookup :srcdir '/sql/include/lookup.sql'
\i :lookup

-- 100 values, scattered and side by side, and keys that are all different
CREATE TABLE t (s int, c int, k int, v int) WITH (autovacuum_enabled = off);
INSERT INTO t SELECT shuffle(i) % 100, i / 3000, shuffle(i), i FROM generate_series(1, 300000) i;
CREATE INDEX t_s ON t USING harmonia (s);
CREATE INDEX t_c ON t USING harmonia (c);
CREATE INDEX t_k ON t USING harmonia (k);
CREATE TABLE few WITH (autovacuum_enabled = off) AS SELECT i * 5 AS s FROM generate_series(0, 19) i;
CREATE TABLE many WITH (autovacuum_enabled = off) AS SELECT shuffle(i) AS k FROM generate_series(1, 2000) i;
:vacuum ANALYZE t;
:vacuum ANALYZE few;
:vacuum ANALYZE many;

CREATE FUNCTION chosen(VARIADIC queries text[])
	RETURNS TABLE (cost text, small_portions text, one_portion text, query text) LANGUAGE plpgsql AS $$
BEGIN
	FOREACH cost IN ARRAY '{4,1.1}'::text[] LOOP
		PERFORM set_config('random_page_cost', cost, true);
		FOREACH query IN ARRAY queries LOOP
			PERFORM set_config('work_mem', '128kB', true);
			small_portions := lookup_nodes(query);
			PERFORM set_config('work_mem', '64MB', true);
			one_portion := lookup_nodes(query);
			RETURN NEXT;
		END LOOP;
	END LOOP;
END $$;

SELECT * FROM chosen(
	'SELECT sum(v) FROM t WHERE s IN (3, 13, 23, 33, 43, 53, 63, 73, 83, 93)',
	'SELECT sum(v) FROM t WHERE s = ANY (ARRAY(SELECT generate_series(1, 99, 2)))',
	'SELECT sum(v) FROM t WHERE c IN (3, 13, 23, 33, 43, 53, 63, 73, 83, 93)',
	'SELECT sum(v) FROM t WHERE k = ANY (ARRAY(SELECT k FROM many))',
	'SELECT count(*) FROM t WHERE s IN (3, 13, 23, 33, 43, 53, 63, 73, 83, 93)',
	'SELECT sum(v) FROM few JOIN t USING (s)',
	'SELECT sum(v) FROM few JOIN t ON t.c = few.s',
	'SELECT sum(v) FROM many JOIN t USING (k)',
	'SELECT count(*) FROM few JOIN t USING (s)');

-- PostgreSQL's own paths stay, also where the first rows are wanted in the order of the key and
-- the array's length is not known.
SELECT plan_nodes('SELECT * FROM t WHERE s = ANY (ARRAY(SELECT generate_series(1, 99, 2))) ORDER BY s LIMIT ' || n) FROM (VALUES (10), (25000)) v (n);

-- A join whose outer side reads a disabled node is as disabled as that. Here a nested loop costs
-- more, but needs no sequential scan.
CREATE INDEX many_k ON many USING hash (k);
BEGIN;
SET LOCAL enable_bitmapscan = off;
SELECT lookup_nodes('SELECT sum(v) FROM t JOIN many USING (k) WHERE t.k >= 0');
SET LOCAL enable_seqscan = off;
SELECT lookup_nodes('SELECT sum(v) FROM t JOIN many USING (k) WHERE t.k >= 0');
ROLLBACK;

-- A stored array of any length is looked up, also in a table that is in the order of the key, where
-- PostgreSQL charges a plain index scan for few pages.
CREATE TABLE in_order AS SELECT i AS k, i AS v FROM generate_series(1, 100000) i;
CREATE INDEX in_order_k ON in_order USING harmonia (k);
VACUUM ANALYZE in_order;
BEGIN;
SET LOCAL random_page_cost = 1.1;
SELECT n, lookup_nodes(format('SELECT sum(v) FROM in_order WHERE k = ANY (%L)',
	(SELECT array_agg(1 + i * 7919 % 100000) FROM generate_series(1, n) i)))
	FROM (VALUES (20), (100), (1000), (10000), (50000)) v (n);
ROLLBACK;

-- An index is charged for all entries that it finds. Conditions on other columns than its first ones do not make
-- them fewer, and neither do those of an OR that are not on its columns. A better index is chosen then.
CREATE TABLE events AS
	SELECT i % 100 AS a, i AS b, i AS d, shuffle(i) AS k, i % 10 AS c, repeat('x', 50) AS pad FROM generate_series(1, 60000) i;
CREATE INDEX events_a ON events USING harmonia (a);
CREATE INDEX events_a_b ON events USING harmonia (a, b);
CREATE INDEX events_d_k ON events USING harmonia (d, k);
CREATE INDEX events_c_d_k ON events USING harmonia (c, d, k);
CREATE INDEX events_k ON events USING harmonia (k);
VACUUM ANALYZE events;
CREATE FUNCTION indexes_of(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	line text;
	names text[] := '{}';
BEGIN
	FOR line IN EXECUTE 'EXPLAIN ' || query LOOP
		names := names || coalesce(substring(line FROM 'events_[a-z_]+'), '{}'::text);
	END LOOP;
	RETURN array_to_string(array_remove(names, '{}'), ' ');
END $$;
SELECT query, indexes_of(query) FROM (VALUES
	('SELECT sum(d) FROM events WHERE (a, b) IN ((0, 100), (1, 101), (2, 102), (3, 103), (4, 104), (5, 105))'),
	('SELECT sum(d) FROM events WHERE (a = 1 AND b = ANY (''{101,201,301}'')) OR (a = 2 AND b = ANY (''{102,202}''))'),
	('SELECT * FROM events WHERE d > 10 AND k = ANY (''{5,6}'')'),
	('SELECT * FROM events WHERE c = ANY (''{1,2,3}'') AND k = 6'),
	('SELECT * FROM events WHERE c = ANY (''{1,2,3}'') AND d = ANY (''{11,21}'')')) v (query);

-- Equality on a frequent key, and a range of the next column: the range narrows each probe, so a join need not be charged
-- for all rows of the key.
CREATE TABLE skewed AS SELECT i AS id, CASE WHEN i % 2 = 0 THEN 1 ELSE i END AS s FROM generate_series(1, 60000) i;
CREATE TABLE probing AS SELECT i AS id, CASE WHEN i % 3 < 2 THEN 1 ELSE i END AS s FROM generate_series(1, 6000) i;
CREATE INDEX skewed_s_id ON skewed USING harmonia (s, id);
VACUUM ANALYZE skewed;
VACUUM ANALYZE probing;
SELECT lookup_nodes('SELECT count(*) FROM probing o JOIN skewed t ON t.s = o.s AND t.id < o.id + 1 AND t.id > o.id - 1');

DROP SCHEMA lookup_cost CASCADE;
