--
-- Lookup joins where an outer row has several keys: t.k = o.a OR t.k = o.b
--
SET client_min_messages = warning;
SET jit = off;
SET max_parallel_workers_per_gather = 0;
SET harmonia.enable_btree_lookup = on;
CREATE SCHEMA lookup_any;
SET search_path = lookup_any, public;
\getenv srcdir PG_ABS_SRCDIR
\set compare :srcdir '/sql/include/compare.sql'
\i :compare
\set lookup :srcdir '/sql/include/lookup.sql'
\i :lookup

-- h has a harmonia index, t has btrees, each with several rows of a key.
CREATE TABLE t (k int, s text, v int) WITH (autovacuum_enabled = off);
INSERT INTO t SELECT nullif(i % 600, 7), 's' || i % 600, i % 50 FROM generate_series(1, 1600) i;
CREATE INDEX t_k ON t (k);
CREATE INDEX t_s ON t (s);
CREATE TABLE h AS SELECT * FROM t;
CREATE INDEX h_k ON h USING harmonia (k);
CREATE TABLE two (k int, v int);
INSERT INTO two SELECT k, v FROM t;
CREATE INDEX ON two USING harmonia (k, v);
CREATE TABLE p (k int, v int) PARTITION BY RANGE (k);
CREATE TABLE p_low PARTITION OF p FOR VALUES FROM (MINVALUE) TO (200);
CREATE TABLE p_high PARTITION OF p FOR VALUES FROM (200) TO (MAXVALUE);
INSERT INTO p SELECT k, v FROM t WHERE k IS NOT NULL;
CREATE INDEX p_k ON p USING harmonia (k);
-- Some keys of a row are equal, or NULL, or not there.
CREATE TABLE o (n int, a int, b int, c bigint, s text);
INSERT INTO o SELECT i, nullif(shuffle(i) % 800, 9), CASE WHEN i % 3 > 0 THEN shuffle(i + i % 3 - 1) % 800 END, i, 's' || i FROM generate_series(1, 500) i;
:vacuum ANALYZE t, h, two, p, o;

SELECT * FROM plan('SELECT o.n, h.v FROM o JOIN h ON h.k = o.a OR o.b = h.k');
CREATE FUNCTION ask(VARIADIC queries text[]) RETURNS TABLE (nodes text, rows bigint, "same rows" bool, query text) LANGUAGE plpgsql AS $$
DECLARE
	wanted text;
	got text;
BEGIN
	FOREACH query IN ARRAY queries LOOP
		CALL use_no_lookups('seq');
		SELECT n, digest::text INTO rows, wanted FROM digest(query, false);
		CALL use_lookups(false);
		nodes := lookup_nodes(query);
		got := digest(query, false)::text;
		CALL use_lookups(true);
		"same rows" := got = wanted AND digest(query, false)::text = wanted;
		RETURN NEXT;
	END LOOP;
END $$;

SELECT * FROM ask(
	'SELECT o.n, h.v FROM o JOIN h ON h.k = o.a OR o.b = h.k',
	'SELECT o.n, t.v FROM o JOIN t ON t.k = o.a OR o.b = t.k',
	'SELECT o.n, h.v FROM o JOIN h ON h.k IN (o.a, o.b)',
	'SELECT o.n, t.v FROM o JOIN t ON t.k = ANY (ARRAY[o.b, o.a, NULL, o.b, o.a + 1])',
	'SELECT o.n, t.k FROM o JOIN t ON t.k IN (o.a, o.b)',
	'SELECT o.n, t.v FROM o JOIN t ON t.k IN (o.a, o.b, 5) AND t.v > o.n % 40',
	'SELECT o.n, t.v FROM o JOIN t ON t.k IN (o.a, o.b) WHERE t.v < 9 AND o.n > 300',
	'SELECT o.n, t.v FROM o LEFT JOIN t ON t.k = o.a OR t.k = o.b',
	'SELECT o.n, h.v FROM o LEFT JOIN h ON h.k IN (o.a, o.b) AND h.v < 20',
	'SELECT o.n FROM o WHERE EXISTS (SELECT FROM t WHERE t.k IN (o.a, o.b))',
	'SELECT o.n FROM o WHERE EXISTS (SELECT FROM h WHERE h.k IN (o.a, o.b) AND h.v = o.n % 50)',
	'SELECT o.n FROM o WHERE NOT EXISTS (SELECT FROM t WHERE t.k IN (o.a, o.b))',
	'SELECT o.n FROM o WHERE NOT EXISTS (SELECT FROM h WHERE h.k = ANY (ARRAY[o.a, o.b]) AND h.v > 25)',
	'SELECT count(*), sum(v) FROM o JOIN t ON t.k IN (o.a, o.b)',
	'SELECT sum(t.v), count(o.n) FROM o LEFT JOIN t ON t.k IN (o.a, o.b)',
	'SELECT t.v FROM t WHERE EXISTS (SELECT FROM o WHERE t.k IN (o.a, o.b))',
	'SELECT x.n, y.n FROM o x JOIN t ON t.k IN (x.a, x.b) JOIN o y ON y.n = t.v',
	'SELECT o.n, two.v FROM o JOIN two ON two.k = o.a AND (two.v = o.a OR two.v = o.b)');
-- Not these: values of other types and texts, whose probes may find rows of each other; other
-- comparisons; several tables; too many keys
SELECT * FROM ask(
	'SELECT o.n, t.v FROM o JOIN t ON t.k IN (o.a, o.c)',
	'SELECT o.n, t.v FROM o JOIN t ON t.s IN (o.s, o.s || o.n)',
	'SELECT o.n, t.v FROM o JOIN t ON t.k = o.a OR t.k > o.b + 300',
	'SELECT o.n, t.v FROM o JOIN t ON t.k = o.a OR t.v = o.b',
	'SELECT o.n, t.v FROM o JOIN t ON t.k = o.a OR (t.k = o.b AND t.v > 5)',
	'SELECT o.n, t.v FROM o JOIN t ON t.k = ALL (ARRAY[o.a, o.b])',
	'SELECT o.n, t.v FROM o JOIN t ON t.k = o.a OR t.k = t.v',
	'SELECT o.n, p.v FROM o JOIN p ON p.k IN (o.a, o.b)',
	'SELECT o.n, two.v FROM o JOIN two ON two.k IN (o.a, o.b)',
	'SELECT o.n, t.v FROM o JOIN t ON t.k IN (o.a, o.b, 1, 2, 3, 4, 5, 6, o.n)');

-- Several batches; the order of the outer side; rows that are locked and changed
CREATE UNIQUE INDEX o_n ON o (n);
SET harmonia.batch_size = 1000;
SELECT * FROM ask(
	'SELECT o.n, t.v FROM o LEFT JOIN t ON t.k IN (o.a, o.b, o.a + 1, o.b + 1)',
	'SELECT count(*) FROM o x JOIN o y ON x.n < 4 JOIN t ON t.k IN (x.a, y.a)');
RESET harmonia.batch_size;
BEGIN;
CALL use_lookups(false);
SET LOCAL enable_indexscan = on;
SELECT lookup_nodes('SELECT o.n, t.v FROM o LEFT JOIN t ON t.k IN (o.a, o.b) ORDER BY o.n, t.v LIMIT 6');
SELECT o.n, t.v FROM o LEFT JOIN t ON t.k IN (o.a, o.b) ORDER BY o.n, t.v LIMIT 6;
SELECT lookup_nodes('SELECT o.n, t.v FROM o JOIN t ON t.k IN (o.a, o.b) FOR UPDATE OF t');
SELECT count(*), sum(v) FROM (SELECT o.n, t.v FROM o JOIN t ON t.k IN (o.a, o.b) FOR UPDATE OF t) s;
SELECT lookup_nodes('DELETE FROM t USING o WHERE t.k IN (o.a, o.b)');
WITH d AS (DELETE FROM t USING o WHERE t.k IN (o.a, o.b) RETURNING t.v) SELECT count(*), sum(v) FROM d;
ROLLBACK;
BEGIN;
CALL use_no_lookups('seq');
SELECT o.n, t.v FROM o LEFT JOIN t ON t.k IN (o.a, o.b) ORDER BY o.n, t.v LIMIT 6;
SELECT count(*), sum(v) FROM (SELECT o.n, t.v FROM o JOIN t ON t.k IN (o.a, o.b) FOR UPDATE OF t) s;
WITH d AS (DELETE FROM t USING o WHERE t.k IN (o.a, o.b) RETURNING t.v) SELECT count(*), sum(v) FROM d;
ROLLBACK;
SET client_min_messages = error;
DROP SCHEMA lookup_any CASCADE;
