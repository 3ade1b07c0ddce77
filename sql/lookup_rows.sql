--
-- What a lookup join keeps of its outer rows: values of all kinds, NULLs, many columns,
-- wide rows, rows without a key
--
SET client_min_messages = warning;
SET jit = off;
SET max_parallel_workers_per_gather = 0;
SET harmonia.enable_lookup_aggregate = off;
CREATE SCHEMA lookup_rows;
SET search_path = lookup_rows, public;
\getenv srcdir PG_ABS_SRCDIR
\set compare :srcdir '/sql/include/compare.sql'
\i :compare
\set lookup :srcdir '/sql/include/lookup.sql'
\i :lookup

-- Inner rows: one for most keys, many for a few, with columns behind a NULL and behind text
CREATE TABLE t (k int, a text, b int, c bigint, d numeric, e int) WITH (autovacuum_enabled = off);
INSERT INTO t SELECT shuffle(i) % 3000, CASE WHEN i % 7 > 0 THEN repeat('a', i % 90) END,
	CASE WHEN i % 5 > 0 THEN i END, i, i / 3.0, CASE WHEN i % 11 > 0 THEN -i END
	FROM generate_series(1, 4000) i;
INSERT INTO t SELECT 7, 'many', i, i, i, i FROM generate_series(1, 600) i;
CREATE INDEX t_k ON t USING harmonia (k);
-- Chains of heap-only tuples, rows that died, pages that are not all-visible
UPDATE t SET c = c + 1 WHERE k % 10 = 3;
DELETE FROM t WHERE k % 10 = 4;
VACUUM ANALYZE t;
UPDATE t SET c = c + 1 WHERE k % 50 = 6;
DELETE FROM t WHERE k % 50 = 8;

-- Outer rows: the first NULLs come late; values that are passed by reference, of fixed and of
-- variable width, short and long, stored out of line, or in an expanded form
CREATE TABLE o (n int, k int, f float8, s text, x text, u uuid, nm name, arr int[], ip inet, ch "char", iv interval)
	WITH (autovacuum_enabled = off);
ALTER TABLE o ALTER x SET STORAGE EXTERNAL;
INSERT INTO o SELECT i, CASE WHEN i < 1500 OR i % 13 > 0 THEN shuffle(i * 3) % 6000 END, i / 7.0,
	CASE WHEN i < 1000 OR i % 3 > 0 THEN 's' || i END, repeat('x', CASE WHEN i % 100 = 0 THEN 5000 ELSE i % 300 END),
	md5(i::text)::uuid, 'name' || i, ARRAY[i, NULL, -i], ('10.0.0.' || i % 256)::inet,
	chr(65 + i % 26)::"char", i * interval '1 hour' FROM generate_series(1, 3000) i;
INSERT INTO o SELECT i, 7 FROM generate_series(3001, 3020) i;
VACUUM ANALYZE o;

SELECT * FROM compare_lookups(
	'SELECT count(*) FROM o JOIN t USING (k)',
	'SELECT 1 FROM o JOIN t USING (k)',
	'SELECT o.n FROM o JOIN t USING (k)',
	'SELECT o.k, o.n FROM o JOIN t USING (k)',
	'SELECT o.* FROM o JOIN t USING (k)',
	'SELECT o, t.c FROM o JOIN t USING (k)',
	'SELECT o.s, o.x, t.* FROM o JOIN t USING (k)',
	'SELECT t.e, o.u FROM o JOIN t USING (k)',
	'SELECT t.d, t.e FROM o JOIN t USING (k)',
	'SELECT t.ctid, t.tableoid, t.k, o.ctid FROM o JOIN t USING (k)',
	'SELECT t.xmin::text IS NULL, o.nm, o.ch FROM o JOIN t USING (k)',
	'SELECT length(o.x) + t.c, o.arr[1] FROM o JOIN t USING (k)',
	'SELECT o.x, o.ip, o.iv FROM o JOIN t ON t.k = o.k AND t.b < o.n',
	'SELECT o.f, o.s FROM o JOIN t ON t.k = o.k WHERE o.s || t.a > ''s2''',
	'SELECT o.n, o.s, t.a, t.e FROM o LEFT JOIN t USING (k)',
	'SELECT o.n, o.s, t.a FROM o LEFT JOIN t ON t.k = o.k AND t.e < -20',
	'SELECT o.x, t.c FROM o LEFT JOIN t USING (k) WHERE t.c IS NULL OR t.c > 30',
	'SELECT o.* FROM o WHERE EXISTS (SELECT FROM t WHERE t.k = o.k)',
	'SELECT o.x FROM o WHERE EXISTS (SELECT FROM t WHERE t.k = o.k AND t.a <> o.s)',
	'SELECT o.* FROM o WHERE NOT EXISTS (SELECT FROM t WHERE t.k = o.k)',
	'SELECT o.s, o.arr FROM o WHERE NOT EXISTS (SELECT FROM t WHERE t.k = o.k AND t.a <> o.s)',
	'SELECT count(*) FROM o WHERE NOT EXISTS (SELECT FROM t WHERE t.k = o.k)',
	'SELECT count(*) FROM o WHERE EXISTS (SELECT FROM t WHERE t.k = o.k)',
	'SELECT o.k + 1, o.s FROM o JOIN t ON t.k = o.k + 1',
	'SELECT p.n, p.x, t.e FROM (SELECT n, k * 2 AS k, x || ''y'' AS x FROM o OFFSET 0) p LEFT JOIN t USING (k)');

-- Semijoins and antijoins return rows in the order of the outer side.
BEGIN;
CALL use_lookups(true);
SELECT count(*), bool_and(later) FROM (SELECT n > lag(n, 1, 0) OVER () AS later
	FROM (SELECT * FROM o ORDER BY n OFFSET 0) o WHERE EXISTS (SELECT FROM t WHERE t.k = o.k) OFFSET 0) q;
SELECT count(*), bool_and(later) FROM (SELECT n > lag(n, 1, 0) OVER () AS later
	FROM (SELECT * FROM o ORDER BY n OFFSET 0) o WHERE NOT EXISTS (SELECT FROM t WHERE t.k = o.k AND t.a <> o.s) OFFSET 0) q;
COMMIT;

-- More columns than there are bits in a word, with NULLs in each
\set ECHO none
SELECT 'CREATE TABLE wide AS SELECT ' || string_agg(format('CASE WHEN i %% %s > 0 THEN i + %s END AS c%s', j + 1, j, j), ', ' ORDER BY j)
	|| ', i % 3000 AS k FROM generate_series(1, 1200) i' FROM generate_series(1, 140) j \gexec
\set ECHO all
VACUUM ANALYZE wide;
SELECT * FROM compare_lookups(
	'SELECT wide.*, t.c FROM wide JOIN t USING (k)',
	'SELECT c1, c64, c65, c66, c128, c129, c140, t.c FROM wide LEFT JOIN t USING (k)',
	'SELECT wide FROM wide WHERE NOT EXISTS (SELECT FROM t WHERE t.k = wide.k AND t.c > wide.c130)');

-- Values in an expanded form: copies, not pointers to what the next row overwrites
CREATE FUNCTION grown(n int) RETURNS int[] LANGUAGE plpgsql AS $$
DECLARE
	r int[] := '{}';
BEGIN
	FOR i IN 1..n % 5 + 1 LOOP
		r[i] := n;
	END LOOP;
	RETURN r;
END $$;
SELECT * FROM compare_lookups(
	'SELECT p.r, t.c FROM (SELECT k, grown(n) AS r FROM o WHERE n < 400 OFFSET 0) p JOIN t USING (k)',
	'SELECT p.r FROM (SELECT k, grown(n) AS r FROM o WHERE n < 400 OFFSET 0) p WHERE EXISTS (SELECT FROM t WHERE t.k = p.k)');

-- What a row above the join keeps of it stays as it was: sorts, cursors, materialization.
SELECT * FROM compare_lookups(
	'SELECT o.x, t.a, o.n, t.c FROM o JOIN t USING (k) ORDER BY o.n, t.c',
	'WITH m AS MATERIALIZED (SELECT o.s, t.a, o.n FROM o LEFT JOIN t USING (k)) SELECT * FROM m WHERE n % 2 = 0 UNION ALL SELECT * FROM m WHERE n % 3 = 0',
	'SELECT n, max(x), array_agg(a ORDER BY c) FROM (SELECT o.n, o.x, t.a, t.c FROM o JOIN t USING (k)) q GROUP BY n');
BEGIN;
CALL use_lookups(false);
DECLARE c CURSOR FOR SELECT o.n, length(o.x) AS x, t.c FROM o JOIN t USING (k) WHERE o.n % 100 = 1;
FETCH 2 FROM c;
MOVE 5 FROM c;
FETCH 1 FROM c;
COMMIT;

-- The memory for a batch: copies of wide rows fill it early.
SELECT * FROM compare_lookups('SELECT o.*, t.a FROM o JOIN t USING (k) WHERE o.n < 2000');
BEGIN;
CALL use_lookups(false);
SET LOCAL work_mem = '64kB';
SELECT (regexp_match(line, 'Batches: (\d+)'))[1]::int > 5 AS many
	FROM explained('SELECT o.x, t.c FROM o JOIN t USING (k)') line WHERE line ~ '^ *Batches';
SET LOCAL work_mem = '64MB';
SELECT (regexp_match(line, 'Batches: \d+'))[1] AS batches
	FROM explained('SELECT o.x, t.c FROM o JOIN t USING (k)') line WHERE line ~ '^ *Batches';
COMMIT;

-- All matches of a page come under one pin: a page is visited once, whatever the order of keys.
BEGIN;
CALL use_lookups(false);
SET LOCAL work_mem = '64MB';
SELECT (regexp_match(line, 'Heap Blocks: (\d+)'))[1]::int <= pg_relation_size('t') / current_setting('block_size')::int AS once
	FROM explained('SELECT sum(t.c) FROM o JOIN t USING (k) WHERE o.k <> 7') line WHERE line ~ '^ *Batches';
COMMIT;

-- So it is if keys have several rows each, and their number is not known when the batch begins.
CREATE TABLE several (k int, c int, pad text);
INSERT INTO several SELECT i / 6, i, repeat('x', 200) FROM generate_series(0, 11999) i ORDER BY hashint4(i);
CREATE INDEX ON several USING harmonia (k);
CREATE TABLE wanted AS SELECT i * 2 AS k FROM generate_series(0, 999) i;
VACUUM ANALYZE several, wanted;
BEGIN;
CALL use_lookups(false);
SET LOCAL work_mem = '64MB';
SELECT q, (regexp_match(line, 'Heap Blocks: (\d+)'))[1]::int
		= (SELECT count(DISTINCT (ctid::text::point)[0]) FROM several WHERE k IN (SELECT k FROM wanted)) AS once
	FROM unnest(ARRAY[
		'SELECT sum(length(pad)) FROM wanted JOIN several USING (k)',
		'SELECT sum(length(pad)) FROM several WHERE k = ANY (ARRAY(SELECT k FROM wanted))']) q, explained(q) line
	WHERE line ~ '^ *Batches';
COMMIT;

DROP SCHEMA lookup_rows CASCADE;
