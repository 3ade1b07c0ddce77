--
-- Latest joins: the last or first rows of each key, by LATERAL and LIMIT
--
LOAD 'harmonia';
SET client_min_messages = warning;
SET timezone = 'UTC';
SET jit = off;
SET max_parallel_workers_per_gather = 0;
SET enable_memoize = off;
SET harmonia.enable_btree_lookup = on;
CREATE SCHEMA latest_join;
SET search_path = latest_join, public;
\getenv srcdir PG_ABS_SRCDIR
\set compare :srcdir '/sql/include/compare.sql'
\i :compare
\set lookup :srcdir '/sql/include/lookup.sql'
\i :lookup

-- Readings, some at the same time, some without one, some deleted or changed
CREATE TABLE t (id int, k int, b bigint, name text, at timestamptz, seq int, v int) WITH (autovacuum_enabled = off);
INSERT INTO t SELECT i, k, k, 'n' || k, CASE WHEN i % 97 > 0 THEN '2026-01-01'::timestamptz + shuffle(i) % 900 * interval '1 hour' END, i % 50, i % 100
	FROM (SELECT i, nullif(shuffle(i * 7) % 300, 7) AS k FROM generate_series(1, 12000) i) s;
CREATE INDEX t_k_at ON t (k, at);
CREATE INDEX t_b_seq ON t (b, seq DESC);
CREATE INDEX t_name ON t (name, at);
DELETE FROM t WHERE k % 5 = 0 AND at > '2026-01-20';
UPDATE t SET v = v + 1 WHERE k % 7 = 0;
CREATE TABLE o (n int, k int, b bigint, name text, at timestamptz, s int) WITH (autovacuum_enabled = off);
INSERT INTO o SELECT i, nullif(k, 9), k, 'n' || k, CASE WHEN i % 31 > 0 THEN '2026-01-01'::timestamptz + shuffle(i) % 1000 * interval '1 hour' END, i % 60
	FROM (SELECT i, shuffle(i) % 330 AS k FROM generate_series(1, 800) i) s;
CREATE TABLE few AS SELECT * FROM o LIMIT 5;
:vacuum ANALYZE t, o, few;

SELECT * FROM plan('SELECT o.n, s.* FROM o JOIN LATERAL (SELECT at, v FROM t WHERE t.k = o.k ORDER BY at DESC LIMIT 1) s ON true');

-- Whether a query is planned so, and has the same rows in the same order as PostgreSQL's loop
CREATE FUNCTION ask(VARIADIC queries text[]) RETURNS TABLE (latest bool, "same rows" bool, n bigint, query text) LANGUAGE plpgsql AS $$
DECLARE
	plan json;
	answer record;
BEGIN
	FOREACH query IN ARRAY queries LOOP
		EXECUTE 'EXPLAIN (FORMAT JSON) ' || query INTO plan;
		latest := plan::text ~ 'HarmoniaLatestJoin';
		answer := digest(query, true);
		n := answer.n;
		SET LOCAL harmonia.enable_lookup_join = off;
		"same rows" := answer = digest(query, true);
		SET LOCAL harmonia.enable_lookup_join = on;
		RETURN NEXT;
	END LOOP;
END $$;
SELECT * FROM ask(
	'SELECT o.n, s.* FROM o JOIN LATERAL (SELECT at, v, id FROM t WHERE t.k = o.k ORDER BY at DESC LIMIT 1) s ON true',
	'SELECT o.n, s.* FROM o LEFT JOIN LATERAL (SELECT at, v, id FROM t WHERE t.k = o.k ORDER BY at DESC LIMIT 1) s ON true',
	'SELECT o.n, s.* FROM o LEFT JOIN LATERAL (SELECT at, v, id FROM t WHERE t.k = o.k ORDER BY at LIMIT 1) s ON true',
	'SELECT o.n, s.* FROM o LEFT JOIN LATERAL (SELECT at, v, id FROM t WHERE t.k = o.k ORDER BY at DESC LIMIT 4) s ON true',
	'SELECT o.n, s.* FROM o LEFT JOIN LATERAL (SELECT k, at FROM t WHERE t.k = o.k ORDER BY at DESC LIMIT 1) s ON true',
	'SELECT o.n, s.* FROM o LEFT JOIN LATERAL (SELECT v + o.s AS w FROM t WHERE t.k = o.k ORDER BY at DESC LIMIT 1) s ON true',
	'SELECT o.n, s.* FROM o LEFT JOIN LATERAL (SELECT at, v FROM t WHERE t.k = o.k AND t.at <= o.at ORDER BY at DESC LIMIT 1) s ON true',
	'SELECT o.n, s.* FROM o LEFT JOIN LATERAL (SELECT at, v FROM t WHERE t.k = o.k AND t.at < o.at ORDER BY at DESC LIMIT 2) s ON true',
	'SELECT o.n, s.* FROM o LEFT JOIN LATERAL (SELECT at, v FROM t WHERE t.k = o.k AND t.at >= o.at ORDER BY at LIMIT 1) s ON true',
	'SELECT o.n, s.* FROM o LEFT JOIN LATERAL (SELECT at, v FROM t WHERE t.k = o.k AND t.at > o.at ORDER BY at DESC LIMIT 1) s ON true',
	'SELECT o.n, s.* FROM o LEFT JOIN LATERAL (SELECT seq, v FROM t WHERE t.b = o.b ORDER BY seq DESC LIMIT 1) s ON true',
	'SELECT o.n, s.* FROM o LEFT JOIN LATERAL (SELECT seq, v FROM t WHERE t.b = o.b ORDER BY seq LIMIT 1) s ON true',
	'SELECT o.n, s.* FROM o LEFT JOIN LATERAL (SELECT seq, v FROM t WHERE t.b = o.b AND t.seq <= o.s ORDER BY seq DESC LIMIT 3) s ON true',
	'SELECT o.n, s.* FROM o LEFT JOIN LATERAL (SELECT seq, v FROM t WHERE t.b = o.b AND t.seq < o.s ORDER BY seq LIMIT 3) s ON true',
	'SELECT o.n, s.* FROM o JOIN LATERAL (SELECT at, v FROM t WHERE t.k = o.k ORDER BY at DESC LIMIT 1) s ON s.v > o.s',
	'SELECT o.n, s.* FROM o LEFT JOIN LATERAL (SELECT at, v FROM t WHERE t.k = o.k ORDER BY at DESC LIMIT 1) s ON s.v > 50 WHERE o.s < 30',
	'SELECT o.n, s.*, r.* FROM o LEFT JOIN LATERAL (SELECT at, v FROM t WHERE t.k = o.k ORDER BY at DESC LIMIT 1) s ON true LEFT JOIN LATERAL (SELECT at FROM t WHERE t.k = o.k ORDER BY at LIMIT 1) r ON true',
	'SELECT count(*), sum(v) FROM o CROSS JOIN LATERAL (SELECT v FROM t WHERE t.k = o.k ORDER BY at DESC LIMIT 1) s',
	'SELECT o.n, s.* FROM o LEFT JOIN LATERAL (SELECT at, v FROM t WHERE t.k = o.k ORDER BY at DESC LIMIT 1) s ON true LIMIT 100',
	'SELECT f.n, s.* FROM few f CROSS JOIN LATERAL (SELECT o.n, r.v FROM o LEFT JOIN LATERAL (SELECT v FROM t WHERE t.k = o.k ORDER BY at DESC LIMIT 1) r ON true WHERE o.s > f.s OFFSET 0) s',
	'SELECT u.n, s.v FROM (SELECT n, k FROM o UNION ALL SELECT n, k + 1 FROM o) u LEFT JOIN LATERAL (SELECT v FROM t WHERE t.k = u.k ORDER BY at DESC LIMIT 1) s ON true');
-- With conditions on other columns, dead rows, and many rows of a key
SELECT * FROM ask(
	'SELECT o.n, s.* FROM o LEFT JOIN LATERAL (SELECT at, v FROM t WHERE t.k = o.k AND t.v > 50 ORDER BY at DESC LIMIT 1) s ON true',
	'SELECT o.n, s.* FROM o LEFT JOIN LATERAL (SELECT at, v FROM t WHERE t.k = o.k AND t.v > o.s ORDER BY at DESC LIMIT 3) s ON true',
	'SELECT o.n, s.* FROM o LEFT JOIN LATERAL (SELECT at, v FROM t WHERE t.k = o.k AND t.v % 100 = 77 ORDER BY at LIMIT 2) s ON true',
	'SELECT o.n, s.* FROM o LEFT JOIN LATERAL (SELECT at, v FROM t WHERE t.k = o.k AND t.at < o.at + interval ''1 day'' ORDER BY at DESC LIMIT 1) s ON true',
	'SELECT o.n, s.* FROM o LEFT JOIN LATERAL (SELECT at, v FROM t WHERE t.k = o.k AND t.at > o.at AND t.at <= o.at + interval ''10 days'' ORDER BY at DESC LIMIT 1) s ON true',
	'SELECT o.n, s.* FROM o LEFT JOIN LATERAL (SELECT seq, v FROM t WHERE t.b = o.b AND t.seq >= o.s AND t.seq < o.n ORDER BY seq LIMIT 1) s ON true',
	'SELECT o.n, s.* FROM o LEFT JOIN LATERAL (SELECT at, v FROM t WHERE t.k = o.k AND t.at IS NOT NULL ORDER BY at DESC LIMIT 1) s ON true',
	'SELECT o.n, s.at FROM o LEFT JOIN LATERAL (SELECT at, v FROM t WHERE t.k = o.k ORDER BY at DESC LIMIT 50) s ON true',
	'SELECT o.n, s.at FROM o LEFT JOIN LATERAL (SELECT at, v FROM t WHERE t.k = o.k ORDER BY at LIMIT 20) s ON s.v > o.s');
-- Scalar sub-selects
SELECT * FROM plan('SELECT o.n, (SELECT max(at) FROM t WHERE t.k = o.k) FROM o');
SELECT * FROM ask(
	'SELECT o.n, (SELECT max(at) FROM t WHERE t.k = o.k) FROM o',
	'SELECT o.n, (SELECT min(at) FROM t WHERE t.k = o.k) FROM o',
	'SELECT o.n, (SELECT max(seq) FROM t WHERE t.b = o.b), (SELECT min(seq) FROM t WHERE t.b = o.b AND seq > o.s) FROM o',
	'SELECT o.n, (SELECT max(at) FROM t WHERE t.k = o.k AND t.at < o.at) FROM o',
	'SELECT o.n, (SELECT max(at) FROM t WHERE t.k = o.k AND t.v > 90) FROM o',
	'SELECT o.n, (SELECT id FROM t WHERE t.k = o.k ORDER BY at DESC LIMIT 1) FROM o',
	'SELECT o.n, (SELECT at FROM t WHERE t.k = o.k ORDER BY at LIMIT 1) FROM o',
	'SELECT o.n FROM o WHERE (SELECT max(at) FROM t WHERE t.k = o.k) > ''2026-01-25''',
	'SELECT count(*), (SELECT max(at) FROM t WHERE t.k = o.k) AS m FROM o GROUP BY 2 ORDER BY 2',
	'SELECT sum((SELECT max(seq) FROM t WHERE t.b = o.b)) FROM o',
	'SELECT o.n, coalesce((SELECT max(at) FROM t WHERE t.k = o.k), o.at) FROM o ORDER BY 2, 1',
	'SELECT s.n, s.m FROM (SELECT n, (SELECT max(at) FROM t WHERE t.k = o.k) AS m FROM o) s WHERE s.m IS NOT NULL');
-- Not these: the first rows, no order, an error, no key, an aggregate's own conditions
SELECT * FROM ask(
	'SELECT o.n, (SELECT max(at) FROM t WHERE t.k = o.k) FROM o LIMIT 10',
	'SELECT o.n, (SELECT max(v) FROM t WHERE t.k = o.k) FROM o',
	'SELECT o.n, (SELECT v FROM t WHERE t.k = o.k ORDER BY at DESC NULLS LAST LIMIT 1) FROM o WHERE o.k < 0',
	'SELECT o.n, (SELECT 7 / (v + 1) FROM t WHERE t.k = o.k AND t.v >= 0 ORDER BY at DESC LIMIT 1) FROM o WHERE o.k < 20',
	'SELECT o.n, (SELECT max(at) FROM t WHERE t.k > o.k) FROM o WHERE o.n < 5',
	'SELECT o.n, (SELECT max(at) FILTER (WHERE t.v > 50) FROM t WHERE t.k = o.k) FROM o');
-- Not these
SELECT * FROM ask(
	'SELECT f.n, s.* FROM few f JOIN LATERAL (SELECT at, v FROM t WHERE t.k = f.k ORDER BY at DESC LIMIT 1) s ON true',
	'SELECT o.n, s.* FROM o LEFT JOIN LATERAL (SELECT at, v FROM t WHERE t.k = o.k ORDER BY at DESC LIMIT 1 OFFSET 1) s ON true',
	'SELECT o.n, s.* FROM o JOIN LATERAL (SELECT at, v FROM t WHERE t.k = o.k ORDER BY at DESC LIMIT 1) s ON true WHERE now() > ''2000-01-01''',
	'SELECT o.n, s.* FROM o LEFT JOIN LATERAL (SELECT at, v FROM t WHERE t.k = o.k AND now() > ''2000-01-01'' ORDER BY at DESC LIMIT 1) s ON true',
	'SELECT o.n, s.* FROM o LEFT JOIN LATERAL (SELECT at, v FROM t WHERE t.name = o.name ORDER BY at DESC LIMIT 1) s ON true');

-- Little memory, generic plans, cursors
BEGIN;
SET LOCAL work_mem = '64kB';
SELECT * FROM ask('SELECT o.n, s.* FROM o LEFT JOIN LATERAL (SELECT at, v FROM t WHERE t.k = o.k ORDER BY at DESC LIMIT 2) s ON true');
COMMIT;
PREPARE q AS SELECT count(*), sum(v), min(s.at) FROM o JOIN LATERAL (SELECT v, at FROM t WHERE t.k = o.k ORDER BY at DESC LIMIT 1) s ON true WHERE o.s > $1;
EXECUTE q(10);
EXECUTE q(50);
-- Rows of others that the snapshot does not see, and of the transaction itself
BEGIN;
DECLARE c CURSOR FOR SELECT o.n, s.v FROM o JOIN LATERAL (SELECT v FROM t WHERE t.k = o.k ORDER BY at DESC NULLS FIRST LIMIT 1) s ON true;
FETCH 3 FROM c;
INSERT INTO t SELECT 0, k, k, 'x', NULL, 0, -1 FROM generate_series(0, 299) k, generate_series(1, 3);
SELECT count(*), sum(v) FROM o JOIN LATERAL (SELECT v FROM t WHERE t.k = o.k ORDER BY at DESC LIMIT 1) s ON true;
MOVE 500 FROM c;
FETCH 3 FROM c;
ROLLBACK;
SELECT * FROM ask('SELECT o.n, s.* FROM o LEFT JOIN LATERAL (SELECT at, v FROM t WHERE t.k = o.k ORDER BY at DESC LIMIT 1) s ON true');
-- An empty index
TRUNCATE t;
SELECT * FROM ask('SELECT o.n, s.* FROM o LEFT JOIN LATERAL (SELECT at, v FROM t WHERE t.k = o.k ORDER BY at DESC LIMIT 1) s ON true');
SET client_min_messages = error;
DROP SCHEMA latest_join CASCADE;
