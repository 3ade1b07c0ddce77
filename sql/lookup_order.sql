--
-- Lookup joins that keep the order of their outer side
--
SET client_min_messages = warning;
SET jit = off;
SET max_parallel_workers_per_gather = 0;
SET harmonia.enable_btree_lookup = on;
CREATE SCHEMA lookup_order;
SET search_path = lookup_order, public;
\getenv srcdir PG_ABS_SRCDIR
\set compare :srcdir '/sql/include/compare.sql'
\i :compare
\set lookup :srcdir '/sql/include/lookup.sql'
\i :lookup

CREATE TABLE t (id int, many int, v int, w text);
INSERT INTO t SELECT i, i % 300, i % 50, repeat('w', i % 40) || i FROM generate_series(1, 6000) i;
CREATE INDEX t_id ON t USING harmonia (id);
CREATE INDEX t_many ON t (many);
CREATE TABLE o (n int, k int, b int, s text);
INSERT INTO o SELECT i, nullif(shuffle(i) % 9000, 77), i % 17, 's' || i % 1000 FROM generate_series(1, 3000) i;
CREATE UNIQUE INDEX o_n ON o (n);
CREATE INDEX o_b ON o (b DESC, n);
CREATE TABLE p (id int, v int) PARTITION BY RANGE (id);
CREATE TABLE p_low PARTITION OF p FOR VALUES FROM (MINVALUE) TO (2000);
CREATE TABLE p_high PARTITION OF p FOR VALUES FROM (2000) TO (MAXVALUE);
INSERT INTO p SELECT id, v FROM t;
CREATE INDEX p_id ON p USING harmonia (id);
:vacuum ANALYZE t, o, p;

-- Compare queries that have an order by lookup joins which keep it, without a Sort, with those of
-- PostgreSQL's own plans.
CREATE FUNCTION compare_order(VARIADIC queries text[]) RETURNS TABLE (n bigint, result text, query text) LANGUAGE plpgsql AS $$
DECLARE
	wanted record;
	lines text[];
	kind text;
BEGIN
	FOREACH query IN ARRAY queries LOOP
		CALL use_no_lookups('seq');
		wanted := digest(query, true);
		n := wanted.n;
		CALL use_lookups(true);
		PERFORM set_config('enable_sort', 'off', true), set_config('enable_incremental_sort', 'off', true), set_config('enable_indexscan', 'on', true);
		SELECT array_agg(p) INTO lines FROM plan(query) p;
		result := concat(CASE WHEN NOT array_to_string(lines, E'\n') LIKE '%In Outer Order: true%' THEN 'not in order ' END,
			CASE WHEN array_to_string(lines, E'\n') LIKE '%Sort Key%' THEN 'sorted ' END);
		FOREACH kind IN ARRAY '{4MB,64kB,256MB}'::text[] LOOP
			PERFORM set_config('work_mem', kind, true);
			IF digest(query, true) <> wanted THEN
				result := concat(result, ' DIFFERS with ', kind);
			END IF;
		END LOOP;
		PERFORM set_config('work_mem', '4MB', true), set_config('enable_sort', 'on', true), set_config('enable_incremental_sort', 'on', true);
		result := coalesce(nullif(result, ''), 'same');
		RETURN NEXT;
	END LOOP;
END $$;

-- Plans
BEGIN;
CALL use_lookups(false);
SET LOCAL enable_indexscan = on;
SELECT * FROM plan('SELECT o.n, t.v FROM o JOIN t ON t.id = o.k ORDER BY o.n LIMIT 100');
SELECT * FROM plan('SELECT o.n FROM o WHERE NOT EXISTS (SELECT FROM t WHERE t.id = o.k) ORDER BY o.b DESC, o.n');
SELECT * FROM plan('SELECT DISTINCT ON (b) b, n, w FROM o JOIN t ON t.id = o.k ORDER BY b DESC, n');
ROLLBACK;
-- A few rows are left to a nested loop
SELECT lookup_nodes('SELECT o.n, t.v FROM o JOIN t ON t.id = o.k ORDER BY o.n LIMIT 1');

-- Answers
SELECT * FROM compare_order('SELECT n, k, v, w FROM o JOIN t ON t.id = o.k ORDER BY n', 'SELECT n, v FROM o JOIN t ON t.id = o.k AND t.v > o.b ORDER BY n LIMIT 100', 'SELECT n, k, v, w, s FROM o LEFT JOIN t ON t.id = o.k AND t.v > 20 ORDER BY n',
	'SELECT n, v FROM o LEFT JOIN t ON t.id = o.k WHERE t.v IS NULL OR t.v < 9 ORDER BY n LIMIT 500', 'SELECT n FROM o WHERE EXISTS (SELECT FROM t WHERE t.id = o.k AND v < 30) ORDER BY n', 'SELECT n, s FROM o WHERE NOT EXISTS (SELECT FROM t WHERE t.id = o.k) ORDER BY n LIMIT 90',
	'SELECT n FROM o JOIN t ON t.many = o.b ORDER BY n', 'SELECT n FROM o WHERE b IN (SELECT many FROM t WHERE v < 3) ORDER BY n', 'SELECT b, n FROM o JOIN t ON t.id = o.k ORDER BY b DESC, n', 'SELECT b, n FROM o JOIN t ON t.id = o.k ORDER BY b DESC, n LIMIT 1000 OFFSET 300',
	'SELECT n, p.v FROM o JOIN p ON p.id = o.k ORDER BY n', 'SELECT n, p.v FROM o LEFT JOIN p ON p.id = o.k ORDER BY n LIMIT 700', 'SELECT n, t.v, p.v + 1 FROM o JOIN t ON t.id = o.k JOIN p ON p.id = o.n ORDER BY n',
	'SELECT DISTINCT ON (b) b, n, w FROM o JOIN t ON t.id = o.k ORDER BY b DESC, n', 'SELECT n, sum(v) OVER (ORDER BY n) FROM o JOIN t ON t.id = o.k', 'SELECT b, count(*), sum(v) FROM o LEFT JOIN t ON t.id = o.k GROUP BY b ORDER BY b DESC',
	'SELECT n, o FROM o JOIN t ON t.id = o.k ORDER BY n', 'SELECT n, t FROM o JOIN t ON t.id = o.k ORDER BY n LIMIT 200', 'SELECT 1 FROM o JOIN t ON t.id = o.k ORDER BY o.n');

-- Cursors, other limits, rescans
BEGIN;
CALL use_lookups(false);
SET LOCAL enable_indexscan = on;
DECLARE c SCROLL CURSOR FOR SELECT n, v FROM o JOIN t ON t.id = o.k ORDER BY n;
SELECT count(*) FROM plan('DECLARE c SCROLL CURSOR FOR SELECT n, v FROM o JOIN t ON t.id = o.k ORDER BY n') p WHERE p LIKE '%In Outer Order%';
FETCH 3 FROM c;
FETCH BACKWARD 2 FROM c;
MOVE 500 FROM c;
FETCH 2 FROM c;
FETCH FIRST FROM c;
CLOSE c;
SELECT x, (SELECT string_agg(n || ' ' || v, ', ') FROM (SELECT n, v FROM o JOIN t ON t.id = o.k WHERE n > x * 100 ORDER BY n LIMIT x) q) FROM generate_series(0, 4) x;
PREPARE limited(int) AS SELECT n, v FROM o JOIN t ON t.id = o.k ORDER BY n LIMIT $1;
EXECUTE limited(2);
EXECUTE limited(3);
ROLLBACK;

-- What fails in the middle of a sorted batch, or while it is sorted, leaves nothing behind
CREATE FUNCTION fails(n int) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
	IF n = 900 THEN
		RAISE 'row %', n;
	END IF;
	RETURN n;
END $$;
\set join 'FROM (SELECT n, t.v, w FROM o JOIN t ON t.many = o.b ORDER BY n) q'
CALL use_lookups(false);
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_nestloop = off;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET enable_sort = off;
SET work_mem = '64kB';
SELECT count(*) FROM plan('SELECT n ' || :'join') p WHERE p LIKE '%In Outer Order: true%';
SELECT count(*), sum(v), sum(length(w)) :join;
SET statement_timeout = '200ms';
SELECT count(*) FROM (SELECT pg_sleep(0.01) :join) s;
RESET statement_timeout;
SELECT count(*), sum(v), sum(length(w)) :join;
SET temp_file_limit = 0;
\set VERBOSITY sqlstate
SELECT count(w) :join;
\set VERBOSITY default
RESET temp_file_limit;
SELECT count(*), sum(v), sum(length(w)) :join;
SELECT sum(fails(n)) :join;
BEGIN;
SAVEPOINT s;
DECLARE c CURSOR FOR SELECT fails(n), v :join;
MOVE 5000 FROM c;
FETCH 2 FROM c;
MOVE ALL FROM c;
ROLLBACK TO s;
SELECT count(*), sum(v), sum(length(w)) :join;
COMMIT;
SELECT count(*) FROM pg_ls_tmpdir();
:vacuum t;

DROP SCHEMA lookup_order CASCADE;
