--
-- Lookups that end, fail or begin again in the middle of a batch, while a heap page is
-- pinned; and the memory that they take
--
SET client_min_messages = warning;
SET jit = off;
SET max_parallel_workers_per_gather = 0;
SET temp_buffers = '800kB';
CREATE SCHEMA lookup_fetch;
SET search_path = lookup_fetch, public;
\getenv srcdir PG_ABS_SRCDIR
\set compare :srcdir '/sql/include/compare.sql'
\i :compare
\set lookup :srcdir '/sql/include/lookup.sql'
\i :lookup

-- Many rows a page, some of them dead, and no page all-visible
CREATE TABLE t (k int, v int) WITH (autovacuum_enabled = off);
INSERT INTO t SELECT i, i FROM generate_series(1, 4000) i;
CREATE INDEX t_k ON t USING harmonia (k);
UPDATE t SET v = v WHERE k % 3 = 0;
DELETE FROM t WHERE k % 10 = 7;
ANALYZE t;
CREATE TABLE o (n int, k int) WITH (autovacuum_enabled = off);
INSERT INTO o SELECT i, i * 7 % 5000 FROM generate_series(1, 3000) i;
VACUUM ANALYZE o;

-- Errors while matches of a run are returned: in the result, in conditions of both sides, in
-- keys, and in an aggregate. Then the same statement without the error.
CREATE FUNCTION fails(query text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE query;
	RETURN 'no error';
EXCEPTION WHEN division_by_zero THEN
	RETURN sqlerrm;
END $$;
CREATE FUNCTION fails_and_goes_on(VARIADIC queries text[])
	RETURNS TABLE (first text, second text, n bigint, nodes text, query text) LANGUAGE plpgsql AS $$
DECLARE
	wanted record;
	found record;
BEGIN
	FOREACH query IN ARRAY queries LOOP
		CALL use_no_lookups('seq');
		wanted := digest(format(query, -1), false);
		CALL use_lookups(false);
		PERFORM set_config('enable_hashagg', 'off', true), set_config('enable_sort', 'off', true);
		nodes := lookup_nodes(format(query, 1701));
		first := fails(format(query, 1701));
		second := fails(format(query, 1708));
		found := digest(format(query, -1), false);
		n := CASE WHEN found = wanted THEN found.n END;
		RETURN NEXT;
	END LOOP;
END $$;
SELECT * FROM fails_and_goes_on(
	'SELECT v / (k - %s) FROM t WHERE k = ANY (ARRAY(SELECT generate_series(1, 4000)))',
	'SELECT v FROM t WHERE k = ANY (ARRAY(SELECT generate_series(1, 4000))) AND v / (k - %s) >= 0',
	'SELECT o.n / (t.v - %s) FROM o JOIN t USING (k)',
	'SELECT o.n, t.v FROM o JOIN t ON t.k = o.k AND o.n / (t.v - %s) >= 0',
	'SELECT o.n, t.v FROM o LEFT JOIN t ON t.k = o.k AND 1 / (t.v - %s) = 0',
	'SELECT o.n FROM o JOIN t ON t.k = o.k + 1 / (o.n - %s)',
	'SELECT o.n FROM o WHERE EXISTS (SELECT FROM t WHERE t.k = o.k AND o.n / (t.v - %s) >= 0)',
	'SELECT o.n FROM o WHERE NOT EXISTS (SELECT FROM t WHERE t.k = o.k AND o.n / (t.v - %s) >= 0)',
	'SELECT sum(o.n / (t.v - %s)), count(t.v) FROM o JOIN t USING (k)',
	'SELECT o.k, max(t.v) FILTER (WHERE 1 / (t.v - %s) >= 0) FROM o JOIN t USING (k) GROUP BY o.k');

-- Statements that are cancelled while a run is returned
CREATE FUNCTION slow(n int) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
	IF n = 1701 THEN
		PERFORM pg_sleep(600);
	END IF;
	RETURN n;
END $$;
CREATE FUNCTION cancelled(VARIADIC queries text[]) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	query text;
BEGIN
	FOREACH query IN ARRAY queries LOOP
		BEGIN
			EXECUTE query;
			RETURN NEXT 'not cancelled: ' || query;
		EXCEPTION WHEN query_canceled THEN
			RETURN NEXT sqlerrm;
		END;
	END LOOP;
END $$;
BEGIN;
CALL use_lookups(false);
SET LOCAL statement_timeout = '1s';
SELECT cancelled('SELECT slow(v) FROM t WHERE k = ANY (ARRAY(SELECT generate_series(1, 4000)))');
SELECT cancelled('SELECT slow(t.v) FROM o JOIN t USING (k)');
SELECT cancelled('SELECT sum(slow(t.v)) FROM o JOIN t USING (k)');
SELECT cancelled('SELECT FROM o WHERE NOT EXISTS (SELECT FROM t WHERE t.k = o.k AND slow(t.v) < 0)');
SET LOCAL statement_timeout = 0;
SELECT count(*), sum(t.v), sum(o.n) FROM o JOIN t USING (k);
COMMIT;
SELECT count(*), sum(t.v), sum(o.n) FROM o JOIN t USING (k);

-- A cursor stops in the middle of a run, and is rewound, read backward, or held. Which rows come
-- first is the same each time.
BEGIN;
CALL use_lookups(false);
SELECT lookup_nodes('SELECT o.n + t.v FROM o JOIN t USING (k) WHERE o.n < 1000'), count(*), sum(o.n + t.v) FROM o JOIN t USING (k) WHERE o.n < 1000;
DECLARE c SCROLL CURSOR FOR SELECT o.n + t.v FROM o JOIN t USING (k) WHERE o.n < 1000;
SELECT sum AS first FROM rest('c', 3) \gset
MOVE 100 IN c;
MOVE BACKWARD 50 IN c;
MOVE ABSOLUTE 0 IN c;
SELECT n, sum = :first AS same FROM rest('c', 3);
SELECT n, sum + :first AS total FROM rest('c');
MOVE FIRST IN c;
MOVE BACKWARD 1 IN c;
SELECT * FROM rest('c');

-- A cursor goes on after another one was dropped in the middle of a run.
DECLARE d NO SCROLL CURSOR FOR SELECT t.v FROM o JOIN t USING (k);
SELECT sum AS first FROM rest('d', 3) \gset
SAVEPOINT s;
DECLARE e CURSOR FOR SELECT v FROM t WHERE k = ANY (ARRAY(SELECT generate_series(1, 4000)));
MOVE 3 IN e;
ROLLBACK TO s;
MOVE 500 IN d;
SELECT count(*) FROM o JOIN t USING (k) WHERE o.n < 10;
MOVE ALL IN d;

-- Rows of a held cursor stay.
DECLARE held CURSOR WITH HOLD FOR SELECT o.n + t.v FROM o JOIN t USING (k) WHERE o.n < 1000;
SELECT sum AS first FROM rest('held', 3) \gset
COMMIT;
DELETE FROM t WHERE k % 2 = 0;
VACUUM t;
SELECT n, sum + :first AS total FROM rest('held');
CLOSE held;

-- A node that is run again for each row of another one starts over in the middle of a run.
SELECT * FROM compare_lookups(
	'SELECT x, (SELECT v FROM (SELECT t.v FROM (SELECT k FROM o WHERE o.n < 300 OFFSET 0) o JOIN t ON t.k = o.k WHERE t.v >= x OFFSET 5) q LIMIT 1) IS NULL FROM generate_series(1, 40) x',
	'SELECT x, EXISTS (SELECT FROM t WHERE k = ANY (ARRAY[x, x + 1, x + 2, x + 500])) FROM generate_series(1, 40) x');

-- A table that is larger than its buffers: pages are read ahead. In semijoins much of what was
-- asked for is not wanted any more; scans end early, fail and begin again.
DO $$
BEGIN
	PERFORM set_config('effective_io_concurrency', '8', false);
EXCEPTION WHEN invalid_parameter_value THEN NULL;
END $$;
-- Ten rows a key, on neighbouring pages
CREATE TEMP TABLE cold (k int, v int, x text);
INSERT INTO cold SELECT i / 330 * 33 + i % 33, i, repeat('x', 200) FROM generate_series(1, 40000) i;
CREATE INDEX cold_k ON cold USING harmonia (k);
ANALYZE cold;
SELECT pg_relation_size('cold') > 10 * 800 * 1024 AS large;
SELECT * FROM compare_lookups(
	'SELECT cold.* FROM cold WHERE k = ANY (ARRAY(SELECT generate_series(1, 3000, 7)))',
	'SELECT o.n, cold.v FROM o JOIN cold USING (k)',
	'SELECT o.n, cold.v FROM o JOIN cold USING (k) WHERE o.n < 20',
	'SELECT o.n, cold.v FROM o LEFT JOIN cold ON cold.k = o.k AND cold.v % 5 = 0',
	'SELECT o.n FROM o WHERE EXISTS (SELECT FROM cold WHERE cold.k = o.k)',
	'SELECT o.n FROM o WHERE EXISTS (SELECT FROM cold WHERE cold.k = o.k AND cold.v % 5 = 0)',
	'SELECT o.n FROM o WHERE NOT EXISTS (SELECT FROM cold WHERE cold.k = o.k AND cold.v > 30000)',
	'SELECT y, (SELECT count(v) FROM (SELECT cold.v FROM o JOIN cold USING (k) WHERE o.n < y * 10 LIMIT 100) q) FROM generate_series(1, 20) y');
BEGIN;
CALL use_lookups(false);
SELECT fails(format('SELECT o.n / (cold.v - %s) FROM o JOIN cold USING (k)', v)) FROM (VALUES (7), (20007)) q (v);
DECLARE c CURSOR FOR SELECT cold.v FROM o JOIN cold USING (k);
MOVE 1000 IN c;
DECLARE d CURSOR FOR SELECT cold.v FROM o JOIN cold USING (k);
MOVE 1000 IN d;
CLOSE c;
SELECT count(*) FROM (SELECT cold.v FROM o JOIN cold USING (k) LIMIT 1000) q;
MOVE ALL IN d;
COMMIT;
RESET effective_io_concurrency;

-- The memory of a join: outer rows of 32 MB, with as little memory as can be, and with much
CREATE TABLE wide (n int, k int, x text) WITH (autovacuum_enabled = off);
ALTER TABLE wide ALTER x SET STORAGE EXTERNAL;
INSERT INTO wide SELECT i, i % 4000, repeat('x', CASE WHEN i % 1000 = 0 THEN 100000 ELSE 1500 END) FROM generate_series(1, 20000) i;
ANALYZE wide;
CREATE FUNCTION memory() RETURNS bigint LANGUAGE sql AS 'SELECT sum(total_bytes)::bigint FROM pg_backend_memory_contexts';
CREATE FUNCTION memory_now(n int) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
	RETURN CASE WHEN n % 997 = 0 THEN memory() END;
END $$;
CREATE FUNCTION grows_by(mem text, query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	before bigint;
	most bigint;
BEGIN
	PERFORM set_config('work_mem', mem, true);
	EXECUTE query INTO most;
	before := memory();
	EXECUTE query INTO most;
	RETURN CASE WHEN most - before < 2000000 THEN 'less than 2 MB' ELSE 'more' END;
END $$;
BEGIN;
CALL use_lookups(false);
SET LOCAL harmonia.enable_lookup_aggregate = off;
SELECT grows_by(mem, query), mem, query FROM unnest(ARRAY[
	'SELECT max(memory_now(w.n)) FROM wide w JOIN t USING (k) WHERE w.x IS NOT NULL',
	'SELECT max(memory_now(n)) FROM (SELECT w.n, w.x, t.v FROM wide w LEFT JOIN t USING (k) OFFSET 0) q WHERE length(x) > 0',
	'SELECT max(memory_now(n)) FROM (SELECT * FROM wide w WHERE EXISTS (SELECT FROM t WHERE t.k = w.k) OFFSET 0) q WHERE length(x) > 0']) query,
	unnest('{64kB,64MB}'::text[]) mem ORDER BY mem DESC, query;
COMMIT;

-- One page after the other that is not all-visible, among hundreds that are. The map of all pages between
-- the first and the last hit is looked at at once.
CREATE TABLE pages (k int, pad text) WITH (autovacuum_enabled = off);
INSERT INTO pages SELECT i, repeat('x', 1000) FROM generate_series(1, 2100) i;
CREATE INDEX pages_k ON pages USING harmonia (k);
:vacuum ANALYZE pages;
CREATE FUNCTION lookups_find_deleted(page int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	query text;
	wanted record;
	found record;
	answers text := '';
BEGIN
	DELETE FROM pages WHERE ctid = format('(%s,3)', page)::tid;
	FOREACH query IN ARRAY ARRAY[
		'SELECT count(*) FROM pages WHERE k = ANY (ARRAY(SELECT generate_series(1, 2100)))',
		'SELECT count(*) FROM pages WHERE k = ANY (ARRAY(SELECT generate_series(20, 2050)))',
		'SELECT count(*) FROM generate_series(1, 2100) i JOIN pages ON k = i'] LOOP
		CALL use_no_lookups('seq');
		wanted := digest(query, false);
		CALL use_lookups(true);
		found := digest(query, false);
		answers := answers || CASE WHEN lookup_nodes(query) IS NULL THEN ' not planned'
			WHEN found = wanted THEN ' right' ELSE ' wrong' END;
	END LOOP;
	RETURN format('page %s:%s', page, answers);
END $$;
SELECT relpages, relallvisible = relpages AS all_visible FROM pg_class WHERE oid = 'pages'::regclass;
SELECT unnest(ARRAY[format('SELECT lookups_find_deleted(%s)', page), 'VACUUM pages'])
	FROM unnest(ARRAY[0, 1, 3, 4, 30, 31, 32, 33, 63, 64, 127, 150, 255, 256, 287, 288, 289, 298, 299]) page \gexec

DROP SCHEMA lookup_fetch CASCADE;
