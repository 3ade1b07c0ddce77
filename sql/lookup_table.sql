--
-- Rows that lookup nodes take from the pages of a table themselves: outer rows of a join, and
-- those of a sub-select of an array
--
SET client_min_messages = warning;
SET jit = off;
SET max_parallel_workers_per_gather = 0;
CREATE SCHEMA lookup_table;
SET search_path = lookup_table, public;
\getenv srcdir PG_ABS_SRCDIR
\set compare :srcdir '/sql/include/compare.sql'
\i :compare
\set lookup :srcdir '/sql/include/lookup.sql'
\i :lookup
SET lookup.seqscan = on;

CREATE TABLE t (k int, c int) WITH (autovacuum_enabled = off);
INSERT INTO t SELECT shuffle(i) % 3000, i FROM generate_series(1, 4000) i;
CREATE INDEX t_k ON t USING harmonia (k);
:vacuum ANALYZE t;

CREATE TABLE w (u uuid, c int) WITH (autovacuum_enabled = off);
INSERT INTO w SELECT md5(i::text)::uuid, i FROM generate_series(1, 4000, 3) i;
CREATE INDEX w_u ON w USING harmonia (u);
CREATE TABLE x (s smallint, c int) WITH (autovacuum_enabled = off);
INSERT INTO x SELECT i, i FROM generate_series(1, 1000, 3) i;
CREATE INDEX x_s ON x USING harmonia (s);
:vacuum ANALYZE w, x;

-- All columns of o are at fixed offsets. Old rows have neither "late" nor "number". There are NULLs
-- in front of what is wanted, in it, and behind it; and pages with rows that died, rows that were
-- updated, and nothing else.
CREATE TABLE o (c "char", k int, s smallint, u uuid, f float8, n int, nm name, b boolean) WITH (autovacuum_enabled = off);
INSERT INTO o SELECT chr(65 + i % 26)::"char", shuffle(i * 3) % 6000, i % 1000, md5(i::text)::uuid, i / 7.0, i, 'name' || i, i % 3 = 0
	FROM generate_series(1, 1500) i;
ALTER TABLE o ADD late int, ADD number int DEFAULT 42;
INSERT INTO o SELECT CASE WHEN i % 5 > 0 THEN chr(65 + i % 26)::"char" END, CASE WHEN i % 7 > 0 THEN shuffle(i * 3) % 6000 END,
		i % 1000, CASE WHEN i % 3 > 0 THEN md5(i::text)::uuid END, i / 7.0, i, 'name' || i, NULL, CASE WHEN i % 2 > 0 THEN i % 3000 END, i
	FROM generate_series(1501, 3000) i;
UPDATE o SET n = -n WHERE n % 10 = 3;
DELETE FROM o WHERE n % 10 = 4 OR n BETWEEN 700 AND 1000;
:vacuum o;
UPDATE o SET s = s + 1 WHERE n % 50 = 6;
DELETE FROM o WHERE n % 50 = 8;
ANALYZE o;

-- A column was dropped. Only rows from before have a value there.
CREATE TABLE d (c "char", gone bigint, k int, n int) WITH (autovacuum_enabled = off);
INSERT INTO d SELECT 'c', i, shuffle(i * 3) % 6000, i FROM generate_series(1, 1000) i;
ALTER TABLE d DROP gone;
INSERT INTO d SELECT 'd', shuffle(i * 3) % 6000, i FROM generate_series(1001, 2000) i;
ANALYZE d;

-- A column of variable width stands in front.
CREATE TABLE v (x text, k int, n int) WITH (autovacuum_enabled = off);
INSERT INTO v SELECT repeat('x', i % 50), shuffle(i * 3) % 6000, i FROM generate_series(1, 1000) i;
ANALYZE v;

-- Partitions have their columns in another order; the first and the last one are empty.
CREATE TABLE p (n int, k int) PARTITION BY RANGE (n);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (1);
CREATE TABLE p2 (k int, x text, n int);
ALTER TABLE p2 DROP x;
ALTER TABLE p ATTACH PARTITION p2 FOR VALUES FROM (1) TO (1000);
CREATE TABLE p3 PARTITION OF p FOR VALUES FROM (1000) TO (2000);
CREATE TABLE p4 PARTITION OF p FOR VALUES FROM (2000) TO (3000);
INSERT INTO p SELECT i, CASE WHEN i % 7 > 0 THEN shuffle(i * 3) % 6000 END FROM generate_series(1, 1999) i;
ANALYZE p;

CREATE FUNCTION same() RETURNS SETOF record LANGUAGE sql
AS $$
	SELECT * FROM compare_lookups(
		'SELECT count(*) FROM o JOIN t USING (k)',
		'SELECT count(*), sum(o.n) FROM o JOIN t USING (k)',
		'SELECT o.n, o.k, t.c FROM o JOIN t USING (k)',
		'SELECT o.* FROM o JOIN t USING (k)',
		'SELECT o.u, o.b, o.nm, t.c FROM o JOIN t USING (k)',
		'SELECT o.c, o.f, t.c FROM o LEFT JOIN t USING (k)',
		'SELECT o.s, o.b, o.c, o.n, t.c FROM o JOIN t USING (k)',
		'SELECT o.n, o.s, w.c FROM o JOIN w USING (u)',
		'SELECT o.n, o.b, x.c FROM o JOIN x USING (s)',
		'SELECT c FROM w WHERE u = ANY (ARRAY(SELECT u FROM o))',
		'SELECT c FROM x WHERE s = ANY (ARRAY(SELECT s FROM o))',
		'SELECT c FROM t WHERE k = ANY (ARRAY(SELECT s FROM o))',
		'SELECT o.late, o.number FROM o JOIN t ON t.k = o.late',
		'SELECT o.number FROM o JOIN t USING (k)',
		'SELECT o.n FROM o JOIN t ON t.k = o.number',
		'SELECT o.n, t.c FROM o JOIN t ON t.k = o.s + 1 AND t.c > o.n',
		'SELECT o.ctid, o.n, t.c FROM o JOIN t USING (k)',
		'SELECT o, t.c FROM o JOIN t USING (k)',
		'SELECT n, k FROM o WHERE EXISTS (SELECT FROM t WHERE t.k = o.k)',
		'SELECT n, late FROM o WHERE NOT EXISTS (SELECT FROM t WHERE t.k = o.k)',
		'SELECT c FROM t WHERE k IN (SELECT k FROM o)',
		'SELECT c FROM t WHERE k IN (SELECT late FROM o)',
		'SELECT c FROM t WHERE k = ANY (ARRAY(SELECT k FROM o))',
		'SELECT c FROM t WHERE k = ANY (ARRAY(SELECT late FROM o))',
		'SELECT c FROM t WHERE k = ANY (ARRAY(SELECT number FROM o))',
		'SELECT c FROM t WHERE k = ANY (ARRAY(SELECT s FROM o)::int[])',
		'SELECT c FROM t WHERE k = ANY ((SELECT array_agg(k) FROM o)::int[])',
		'SELECT c FROM t WHERE k = ANY ((SELECT array_agg(s + n) FROM o)::int[])',
		'SELECT d.c, d.n, t.c FROM d JOIN t USING (k)',
		'SELECT c FROM t WHERE k = ANY (ARRAY(SELECT k FROM d))',
		'SELECT v.x, v.n, t.c FROM v JOIN t USING (k)',
		'SELECT count(*) FROM p JOIN t USING (k)',
		'SELECT p.n, t.c FROM p JOIN t USING (k)',
		'SELECT p.n, t.c FROM p LEFT JOIN t USING (k)',
		'SELECT p, p.tableoid, t.c FROM p JOIN t USING (k)',
		'SELECT sum(n), count(*) FROM p WHERE EXISTS (SELECT FROM t WHERE t.k = p.k)',
		'SELECT n FROM p WHERE NOT EXISTS (SELECT FROM t WHERE t.k = p.k)',
		'SELECT c FROM t WHERE k = ANY (ARRAY(SELECT k FROM p))',
		'SELECT c FROM t WHERE k = ANY ((SELECT array_agg(k + n) FROM p)::int[])',
		'SELECT q.n, t.c FROM (SELECT n, k FROM v WHERE n % 3 > 0 UNION ALL SELECT n + 1, k FROM d UNION ALL SELECT n, k FROM o) q JOIN t USING (k)',
		'SELECT c FROM t WHERE k = ANY (ARRAY(SELECT k FROM v))')
$$;
SELECT * FROM same() AS (n bigint, result text, nodes text, query text);
-- A batch ends within a page.
SET harmonia.batch_size = 1000;
SELECT DISTINCT result FROM same() AS (n bigint, result text, nodes text, query text);
RESET harmonia.batch_size;

-- The rows that are read are counted, once.
SELECT count(*) AS rows FROM o \gset
BEGIN;
CALL use_lookups(true);
SELECT seq_tup_read AS before FROM pg_stat_xact_user_tables WHERE relid = 'o'::regclass \gset
SELECT count(*) > 0 AS some FROM o JOIN t USING (k);
SELECT seq_tup_read - :before = :rows AS counted FROM pg_stat_xact_user_tables WHERE relid = 'o'::regclass;
SELECT count(*) > 0 AS some FROM t WHERE k = ANY (ARRAY(SELECT k FROM o));
SELECT seq_tup_read - :before = 2 * :rows AS counted FROM pg_stat_xact_user_tables WHERE relid = 'o'::regclass;
COMMIT;

-- A join that is left in the middle of a page, and begun again
SELECT * FROM compare_lookups(
	'SELECT g, (SELECT o.n FROM o JOIN t USING (k) WHERE t.c % 3 = g % 3 LIMIT 1) IS NULL FROM generate_series(1, 20) g',
	'SELECT g, (SELECT count(*) FROM (SELECT FROM o JOIN t USING (k) WHERE t.c > g OFFSET 0 LIMIT 100) q) FROM generate_series(1, 20) g',
	'SELECT g, (SELECT count(n) FROM (SELECT o.n FROM o LEFT JOIN t ON t.k = o.k AND t.c > g OFFSET 0 LIMIT 100) q) FROM generate_series(1, 20) g',
	'SELECT g, (SELECT sum(c) FROM t WHERE k = ANY (ARRAY(SELECT o.k FROM o WHERE g > 0))) FROM generate_series(1, 5) g',
	'SELECT g, (SELECT count(*) FROM (SELECT FROM p JOIN t USING (k) WHERE t.c > g OFFSET 0 LIMIT 1500) q) FROM generate_series(1, 20) g',
	'SELECT g, (SELECT p.n FROM p JOIN t USING (k) WHERE t.c % 3 = g % 3 LIMIT 1) IS NULL FROM generate_series(1, 20) g',
	'SELECT g, (SELECT count(*) FROM (SELECT k FROM v WHERE n > g * 10 UNION ALL SELECT k FROM d) q JOIN t USING (k)) FROM generate_series(1, 20) g');

-- A cursor sees the table as it was, also in pages that it has begun to read, and of an older command.
BEGIN;
CALL use_lookups(true);
SELECT count(*) AS n, sum(o.n) FROM o JOIN t USING (k);
SET LOCAL harmonia.batch_size = 1000;
DECLARE late CURSOR FOR SELECT o.n FROM o JOIN t USING (k);
SELECT n FROM rest('late', 3);
DELETE FROM o WHERE n % 2 = 0;
UPDATE o SET n = 0;
SELECT n + 3 AS n FROM rest('late');
ROLLBACK;

-- A build reads the rows of pages that everybody sees in the same way.
CREATE TABLE b (c "char", gone bigint, k int) WITH (autovacuum_enabled = off);
INSERT INTO b SELECT 'c', i, i FROM generate_series(1, 500) i;
ALTER TABLE b DROP gone, ADD late int, ADD id int DEFAULT 42;
INSERT INTO b SELECT 'd', CASE WHEN i % 7 > 0 THEN i END, CASE WHEN i % 2 > 0 THEN i END, i FROM generate_series(501, 1000) i;
:vacuum b;
CREATE INDEX b_k ON b USING harmonia (k);
CREATE INDEX b_late ON b USING harmonia (late);
CREATE INDEX b_id ON b USING harmonia (id);
CREATE INDEX b_several ON b USING harmonia (c, id, k);
SELECT harmonia_check(index, true) FROM unnest('{b_k,b_late,b_id,b_several}'::regclass[]) index;
SELECT * FROM compare('b', 'id > 0', 'k BETWEEN 100 AND 800', 'late IS NULL', 'late > 500', 'c = ''c'' AND id = 42');

-- What is under way in this transaction
BEGIN;
DELETE FROM o WHERE n % 3 = 0;
UPDATE o SET n = n + 10000 WHERE n % 3 = 1;
INSERT INTO o (k, n) SELECT i, i FROM generate_series(1, 100) i;
SELECT DISTINCT result FROM same() AS (n bigint, result text, nodes text, query text);
ROLLBACK;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT DISTINCT result FROM same() AS (n bigint, result text, nodes text, query text);
COMMIT;

DROP SCHEMA lookup_table CASCADE;
