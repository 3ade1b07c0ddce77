--
-- Lookup nodes with indexes of several columns
--
SET client_min_messages = warning;
SET jit = off;
-- Versions differ in when they choose it
SET harmonia.enable_lookup_aggregate = off;
CREATE SCHEMA lookup_columns;
SET search_path = lookup_columns, public;
\getenv srcdir PG_ABS_SRCDIR
\set compare :srcdir '/sql/include/compare.sql'
\i :compare
\set lookup :srcdir '/sql/include/lookup.sql'
\i :lookup

CREATE TABLE t (a bigint, b bigint, c text, v int) WITH (autovacuum_enabled = off);
INSERT INTO t SELECT i % 50, i / 50, 'c' || i % 7, i FROM generate_series(1, 10000) i;
INSERT INTO t SELECT a, b, NULL, -1 FROM unnest('{-1,4294967295,4294967296,-9223372036854775808,NULL}'::bigint[]) a,
	unnest('{-1,4294967295,4294967296,9223372036854775807,NULL}'::bigint[]) b;
CREATE INDEX t_key ON t USING harmonia (a, b, c);
CREATE TABLE pairs (a int, b int, v int) WITH (autovacuum_enabled = off);
INSERT INTO pairs SELECT i % 50, i / 50, i FROM generate_series(1, 10000) i;
INSERT INTO pairs SELECT a, b, -1 FROM unnest('{-2147483648,-11895787,NULL}'::int[]) a, unnest('{-2147483648,-11895787,NULL}'::int[]) b;
CREATE INDEX pairs_key ON pairs USING harmonia (a, b);
CREATE TABLE narrow (a smallint, d date, v int) WITH (autovacuum_enabled = off);
INSERT INTO narrow SELECT i % 50, date '2024-01-01' + i / 50, i FROM generate_series(1, 5000) i;
INSERT INTO narrow VALUES (NULL, '2024-01-01', 0), (1, NULL, 0), (NULL, NULL, 0), (1, 'infinity', 0);
CREATE INDEX narrow_key ON narrow USING harmonia (a, d);
CREATE TABLE o (a bigint, b bigint, c text, d timestamptz, n int) WITH (autovacuum_enabled = off);
INSERT INTO o SELECT i % 60, i % 210, 'c' || i % 8, timestamptz '2024-01-01 00:00' + i % 120 * interval '12 hours', i FROM generate_series(1, 1500) i;
INSERT INTO o SELECT a, b, c, '-infinity', -1 FROM t WHERE v = -1;
:vacuum ANALYZE t, pairs, narrow, o;

--
-- Scans: constants and arrays, and lists of rows
--
SELECT * FROM compare_lookups(
	'SELECT * FROM t WHERE a = 7 AND b = ANY (ARRAY(SELECT i FROM generate_series(1, 300, 3) i))',
	'SELECT * FROM t WHERE a = ANY (ARRAY[7, 8, NULL]) AND b IN (3, 5, 4294967295)',
	'SELECT * FROM t WHERE a IN (7, -1, 4294967296)',
	'SELECT * FROM t WHERE a IN (7, 8) AND b BETWEEN 10 AND 20',
	'SELECT * FROM t WHERE a IN (7, 8) AND b > 190 AND c = ''c3''',
	'SELECT * FROM t WHERE a IN (7, 8) AND c IN (''c3'', ''c4'') AND v % 2 = 0',
	'SELECT * FROM t WHERE (a, b) IN ((1, 2), (3, 4), (-1, -1), (4294967296, 9223372036854775807))',
	'SELECT * FROM t WHERE (a, b, c) IN ((1, 2, ''c3''), (3, 4, ''c0''), (3, 4, ''c1''))',
	'SELECT * FROM t WHERE a = 7 AND (b = 3 OR b BETWEEN 9 AND 11 OR b IS NULL)',
	'SELECT * FROM t WHERE a = 7 AND (b = 3 OR c = ''c5'')',
	'SELECT * FROM t WHERE a = 7 OR b = 3',
	'SELECT count(*) FROM t WHERE a = 7 AND b IN (1, 2, 3)',
	'SELECT * FROM pairs WHERE a IN (7, -11895787) AND b IN (-11895787, 4)',
	'SELECT count(*) FROM narrow WHERE a IN (1, 2) AND d = ''infinity''',
	'SELECT count(d) FROM narrow WHERE a = 1 AND d IN (''2024-01-05'', ''2024-01-06'')',
	'SELECT * FROM narrow WHERE a IN (1, 2, 40000) AND d >= ''2024-03-01''');
SELECT * FROM explained('SELECT * FROM t WHERE a = 7 AND b IN (1, 2, 3)');

--
-- Joins on several columns, or with values for some
--
SELECT * FROM compare_lookups(
	'SELECT * FROM o JOIN t ON t.a = o.a AND t.b = o.b',
	'SELECT * FROM o JOIN t ON t.a = o.a AND t.b = o.b AND t.c = o.c',
	'SELECT * FROM o JOIN t USING (a, b) WHERE t.v % 3 = 0 AND o.n < 900',
	'SELECT * FROM o LEFT JOIN t ON t.a = o.a AND t.b = o.b AND t.v > 100',
	'SELECT * FROM o WHERE EXISTS (SELECT FROM t WHERE t.a = o.a AND t.b = o.b)',
	'SELECT * FROM o WHERE NOT EXISTS (SELECT FROM t WHERE t.a = o.a AND t.b = o.b)',
	'SELECT * FROM o WHERE (a, b) IN (SELECT a, b FROM t WHERE v < 5000)',
	'SELECT t.* FROM t WHERE (a, b) IN (SELECT a, b FROM o WHERE n < 500)',
	'SELECT * FROM o JOIN t ON t.a = 7 AND t.b = o.b',
	'SELECT * FROM o JOIN t ON t.a = o.a AND t.b = 7',
	'SELECT * FROM o JOIN t ON t.a = o.a AND t.b = 7 AND t.c = o.c',
	'SELECT * FROM o JOIN t ON t.a = o.a WHERE o.n < 20',
	'SELECT * FROM o JOIN t ON t.a = o.a AND t.c = o.c WHERE o.n < 200',
	'SELECT * FROM o JOIN t ON t.a = (o.n + 1) % 50 AND t.b = CASE WHEN o.n % 2 = 0 THEN o.b ELSE o.n END',
	'SELECT * FROM o JOIN t ON t.a = o.a AND t.b <> 7 WHERE o.n < 20',
	'SELECT * FROM o JOIN t ON t.a = o.a AND t.b < 7 AND t.c = o.c WHERE o.n < 200',
	'SELECT * FROM o JOIN pairs p ON p.a = o.a AND p.b = o.b',
	'SELECT * FROM o JOIN pairs p ON p.a = o.a AND p.b = o.n % 200 AND p.v <> o.n',
	'SELECT * FROM o JOIN narrow n ON n.a = o.a AND n.d = o.d',
	'SELECT * FROM o JOIN narrow n ON n.a = o.a AND n.d = o.d::date',
	'SELECT count(*) FROM o JOIN narrow n ON n.a = o.a AND n.d = o.d::date',
	'SELECT o.n % 5, count(*), sum(t.v) FROM o JOIN t USING (a, b) GROUP BY 1 ORDER BY 1',
	'SELECT x.n, (SELECT sum(t.v) FROM o JOIN t ON t.a = x.a AND t.b = o.b WHERE o.n < 30) FROM o x WHERE x.n < 20 ORDER BY 1');
BEGIN;
CALL use_lookups(false);
SELECT * FROM explained('SELECT t.v FROM o JOIN t ON t.a = 7 AND t.b = o.b WHERE o.n < 10');
COMMIT;

--
-- Index-only: all columns that are read can be returned.
--
SELECT * FROM compare_lookups(
	'SELECT a, b FROM pairs WHERE a IN (7, -11895787) AND b IN (-11895787, 4)', 'SELECT a, b FROM pairs WHERE a IN (7, -11895787)', 'SELECT count(*) FROM pairs WHERE a IN (7, -11895787)',
	'SELECT b FROM pairs WHERE (a, b) IN ((7, 4), (-11895787, -11895787))', 'SELECT count(b) FROM pairs WHERE a IN (7, 8, -2147483648)', 'SELECT a FROM narrow WHERE a IN (1, 2, 3) AND d IN (''2024-01-05'', ''2024-01-06'', ''infinity'')',
	'SELECT a, d FROM narrow WHERE a IN (1, 2, 3)', 'SELECT count(*) FROM narrow WHERE a IN (1, 2, 3)', 'SELECT count(d), max(d) FROM narrow WHERE a IN (1, 2, 3)');
SELECT * FROM compare_lookups(
	'SELECT o.n, p.a, p.b FROM o JOIN pairs p ON p.a = o.a AND p.b = o.b', 'SELECT o.n, p.a, p.b FROM o JOIN pairs p ON p.a = o.a WHERE o.n < 20', 'SELECT o.n, p.b FROM o LEFT JOIN pairs p ON p.a = o.a AND p.b = o.b',
	'SELECT count(*) FROM o JOIN pairs p ON p.a = o.a AND p.b = o.b', 'SELECT count(*) FROM o JOIN pairs p ON p.a = o.a WHERE o.n < 20', 'SELECT o.n, count(*), sum(p.b) FROM o JOIN pairs p ON p.a = o.a WHERE o.n < 20 GROUP BY o.n ORDER BY o.n',
	'SELECT * FROM o WHERE EXISTS (SELECT FROM pairs p WHERE p.a = o.a AND p.b = o.b)', 'SELECT * FROM o WHERE NOT EXISTS (SELECT FROM pairs p WHERE p.a = o.a AND p.b = o.b)', 'SELECT * FROM o WHERE EXISTS (SELECT FROM pairs p WHERE p.a = o.a)',
	'SELECT o.n, p.b FROM o JOIN pairs p ON p.a = o.a AND p.b % 2 = o.n % 2 WHERE o.n < 100', 'SELECT o.n, p.b FROM o JOIN pairs p ON p.a = o.a AND p.b IS NULL', 'SELECT count(*) FROM o JOIN pairs p ON p.a = -11895787 AND p.b = o.b',
	'SELECT o.n, p.a FROM (SELECT n, b, nullif(-11895787 + n % 3, -11895786)::int AS a FROM o) o JOIN pairs p ON p.a = o.a', 'SELECT count(*) FROM (SELECT n, -11895787 + n % 3 AS a FROM o) o JOIN pairs p ON p.a = o.a AND p.b = o.a',
	'SELECT o.n, x.a, x.d FROM o JOIN narrow x ON x.a = o.a AND x.d = o.d', 'SELECT o.n, x.d FROM o JOIN narrow x ON x.a = o.a WHERE o.n < 20', 'SELECT count(*) FROM o JOIN narrow x ON x.a = o.a AND x.d = o.d::date',
	'SELECT * FROM o WHERE NOT EXISTS (SELECT FROM narrow x WHERE x.a = o.a AND x.d = o.d::date)');
-- Outer rows with columns of the same types: those of a page without NULLs are taken together.
CREATE TABLE page (n int NOT NULL, b int, a int) WITH (autovacuum_enabled = off);
INSERT INTO page SELECT i, b, a FROM generate_series(1, 3) i, pairs WHERE v % 3 = 0 OR v = -1 AND a IS NOT NULL AND b IS NOT NULL;
INSERT INTO page SELECT 0, b, a FROM pairs WHERE v = -1;
INSERT INTO page SELECT 4, -11895787, i FROM generate_series(0, 99) i;
:vacuum ANALYZE page;
SELECT * FROM compare_lookups(
	'SELECT count(*) FROM page o JOIN pairs p USING (a, b)', 'SELECT o.n, p.a, p.b FROM page o JOIN pairs p ON p.a = o.a AND p.b = o.b', 'SELECT o.n, p.b FROM page o LEFT JOIN pairs p ON p.a = o.a AND p.b = o.b',
	'SELECT o.n, p.v FROM page o JOIN pairs p ON p.b = o.a AND p.a = o.b', 'SELECT count(*) FROM page o JOIN pairs p ON p.a = o.a WHERE o.n = 0', 'SELECT count(*) FROM page o JOIN pairs p USING (a, b) WHERE o.n IN (1, 4)',
	'SELECT * FROM page o WHERE EXISTS (SELECT FROM pairs p WHERE p.a = o.a AND p.b = o.b)', 'SELECT * FROM page o WHERE NOT EXISTS (SELECT FROM pairs p WHERE p.a = o.a AND p.b = o.b)');
BEGIN;
CALL use_lookups(true);
SELECT * FROM explained('SELECT x.d FROM o JOIN narrow x ON x.a = o.a AND x.d = o.d::date WHERE o.n < 10');
-- Pages that are not all-visible
UPDATE pairs SET v = v + 1 WHERE a < 10 OR a IS NULL;
DELETE FROM pairs WHERE b IS NULL AND a = -11895787;
SELECT * FROM compare_lookups(
	'SELECT o.n, p.a, p.b FROM o JOIN pairs p ON p.a = o.a', 'SELECT count(*) FROM o JOIN pairs p ON p.a = o.a AND p.b = o.b', 'SELECT a, b FROM pairs WHERE a IN (7, -11895787)',
	'SELECT o.n, p.a, p.b FROM (SELECT n, -11895787 + n % 3 AS a FROM o) o JOIN pairs p ON p.a = o.a');
ROLLBACK;

--
-- In an index of two bigints NULL shares its value with 2177342782468422677
--
CREATE TABLE bigs (a bigint, b bigint, v int) WITH (autovacuum_enabled = off);
INSERT INTO bigs SELECT a, b, v FROM pairs WHERE v >= 0;
INSERT INTO bigs SELECT a, b, -1 FROM unnest('{-9223372036854775808,2177342782468422677,2177342782468422678,NULL}'::bigint[]) a,
	unnest('{-9223372036854775808,2177342782468422677,2177342782468422678,NULL}'::bigint[]) b;
CREATE INDEX bigs_key ON bigs USING harmonia (a, b);
CREATE TABLE big_page (n int NOT NULL, b bigint, a bigint) WITH (autovacuum_enabled = off);
INSERT INTO big_page SELECT 1, b, a FROM bigs WHERE v % 3 = 0 OR v = -1 AND a IS NOT NULL AND b IS NOT NULL;
INSERT INTO big_page SELECT 0, b, a FROM bigs WHERE v = -1;
INSERT INTO big_page SELECT 4, 2177342782468422677, i FROM generate_series(0, 99) i;
:vacuum ANALYZE bigs, big_page;
SELECT * FROM compare_lookups(
	'SELECT a, b FROM bigs WHERE a IN (7, 2177342782468422677) AND b IN (2177342782468422677, 4)', 'SELECT count(*) FROM bigs WHERE a IN (7, 2177342782468422677)',
	'SELECT b FROM bigs WHERE (a, b) IN ((7, 4), (2177342782468422677, 2177342782468422677))', 'SELECT count(b) FROM bigs WHERE a IN (7, 8, -9223372036854775808)');
SELECT * FROM compare_lookups(
	'SELECT o.n, p.a, p.b FROM o JOIN bigs p ON p.a = o.a AND p.b = o.b', 'SELECT o.n, p.b FROM o JOIN bigs p ON p.a = o.a AND p.b IS NULL', 'SELECT count(*) FROM o JOIN bigs p ON p.a = 2177342782468422677 AND p.b = o.b',
	'SELECT o.n, p.a FROM (SELECT n, b, nullif(2177342782468422677 + n % 3, 2177342782468422678) AS a FROM o) o JOIN bigs p ON p.a = o.a',
	'SELECT count(*) FROM (SELECT n, 2177342782468422677 + n % 3 AS a FROM o) o JOIN bigs p ON p.a = o.a AND p.b = o.a',
	'SELECT * FROM o WHERE NOT EXISTS (SELECT FROM bigs p WHERE p.a = o.a + 2177342782468422670 AND p.b = o.b)',
	'SELECT count(*) FROM big_page o JOIN bigs p USING (a, b)', 'SELECT o.n, p.b FROM big_page o LEFT JOIN bigs p ON p.a = o.a AND p.b = o.b', 'SELECT o.n, p.v FROM big_page o JOIN bigs p ON p.b = o.a AND p.a = o.b',
	'SELECT * FROM big_page o WHERE EXISTS (SELECT FROM bigs p WHERE p.a = o.a AND p.b = o.b)', 'SELECT * FROM big_page o WHERE NOT EXISTS (SELECT FROM bigs p WHERE p.a = o.a AND p.b = o.b)');

--
-- Values that share a field with 7, so that rows with other values are found: of 24 bits and of 20 bits
--
CREATE TABLE twins (a bigint, b bigint, v int, c bigint DEFAULT 1) WITH (autovacuum_enabled = off);
INSERT INTO twins SELECT a, b, g FROM unnest('{7,20788443,-10919296}'::bigint[]) a, unnest('{7,1914075,-815742}'::bigint[]) b, generate_series(1, 3) g;
INSERT INTO twins SELECT i, i, -i FROM generate_series(1, 500) i WHERE i <> 7;
DELETE FROM twins WHERE a = 7 AND b = 7 OR a < 0 AND v % 3 = 0;
CREATE INDEX twins_key ON twins USING harmonia (a, b, c);
CREATE TABLE twin_parts (a bigint, b bigint, v int, c bigint) PARTITION BY HASH (b);
CREATE TABLE twin_parts_0 PARTITION OF twin_parts FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE twin_parts_1 PARTITION OF twin_parts FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO twin_parts SELECT * FROM twins;
CREATE INDEX twin_parts_key ON twin_parts USING harmonia (a, b, c);
CREATE TABLE sought (a bigint, b bigint, n int) WITH (autovacuum_enabled = off);
INSERT INTO sought SELECT a, b, row_number() OVER () FROM unnest('{7,20788443,-10919296,8,NULL}'::bigint[]) a, unnest('{7,1914075,-815742,8,NULL}'::bigint[]) b, generate_series(1, 2);
:vacuum ANALYZE twins, twin_parts, sought;
SELECT * FROM explained('SELECT v FROM twins WHERE (a, b, c) IN ((7, 7, 1), (8, 8, 1))');
SELECT * FROM compare_lookups(
	'SELECT * FROM twins WHERE a IN (7, 8)', 'SELECT * FROM twins WHERE (a, b) IN ((7, 1914075), (-10919296, 7), (8, 8))', 'SELECT count(*) FROM twins WHERE a = 7 AND b IN (7, 1914075)',
	'SELECT * FROM sought s JOIN twins t ON t.a = s.a AND t.b = s.b', 'SELECT count(*) FROM sought s JOIN twins t ON t.a = s.a AND t.b = s.b AND t.c = 1', 'SELECT * FROM sought s JOIN twins t ON t.a = s.a',
	'SELECT * FROM sought s LEFT JOIN twins t ON t.a = s.a AND t.b = s.b AND t.c = 1', 'SELECT * FROM sought s LEFT JOIN twins t ON t.a = s.a AND t.b = s.b AND t.v % 2 = 0',
	'SELECT * FROM sought s WHERE EXISTS (SELECT FROM twins t WHERE t.a = s.a AND t.b = s.b)', 'SELECT * FROM sought s WHERE NOT EXISTS (SELECT FROM twins t WHERE t.a = s.a AND t.b = s.b AND t.c = 1)',
	'SELECT * FROM sought s WHERE NOT EXISTS (SELECT FROM twins t WHERE t.a = s.a AND t.b = s.b AND t.v % 2 = 0)', 'SELECT count(*) FROM sought s WHERE EXISTS (SELECT FROM twins t WHERE t.a = s.a AND t.b = s.b AND t.v > 5)',
	'SELECT * FROM twins WHERE (a, b) IN (SELECT a, b FROM sought)', 'SELECT * FROM sought s JOIN twins t ON t.a = 7 AND t.b = s.b', 'SELECT s.a, count(*), sum(t.v) FROM sought s JOIN twins t USING (a, b) GROUP BY s.a ORDER BY s.a',
	'SELECT * FROM sought s JOIN twin_parts t ON t.a = s.a AND t.b = s.b', 'SELECT * FROM sought s LEFT JOIN twin_parts t ON t.a = s.a AND t.b = s.b', 'SELECT count(*) FROM sought s JOIN twin_parts t ON t.a = s.a AND t.b = s.b AND t.c = 1',
	'SELECT * FROM sought s WHERE EXISTS (SELECT FROM twin_parts t WHERE t.a = s.a AND t.b = s.b)', 'SELECT * FROM sought s WHERE NOT EXISTS (SELECT FROM twin_parts t WHERE t.a = s.a AND t.b = s.b)');

--
-- Partitioned inner tables: by the first column, by the second, by both, by a range of the last one
--
CREATE TABLE parts (a bigint, b bigint, c text, v int) PARTITION BY HASH (a);
CREATE TABLE parts_0 PARTITION OF parts FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE parts_1 (gone int, v int, c text, b bigint, a bigint);
ALTER TABLE parts_1 DROP gone;
ALTER TABLE parts ATTACH PARTITION parts_1 FOR VALUES WITH (MODULUS 2, REMAINDER 1);
CREATE INDEX parts_key ON parts USING harmonia (a, b);
CREATE TABLE ranges (a bigint, b bigint, v int) PARTITION BY RANGE (b);
CREATE TABLE ranges_0 PARTITION OF ranges FOR VALUES FROM (MINVALUE) TO (50);
CREATE TABLE ranges_1 PARTITION OF ranges FOR VALUES FROM (50) TO (4294967296) PARTITION BY LIST (a);
CREATE TABLE ranges_1_0 PARTITION OF ranges_1 FOR VALUES IN (1, 2, 3, 5, 8, 13, 21, 34);
CREATE TABLE ranges_1_1 PARTITION OF ranges_1 DEFAULT;
CREATE TABLE ranges_rest PARTITION OF ranges DEFAULT;
CREATE INDEX ranges_key ON ranges USING harmonia (a, b DESC);
CREATE TABLE both_columns (a bigint, b bigint, v int) PARTITION BY HASH (b, a);
CREATE TABLE both_columns_0 PARTITION OF both_columns FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE both_columns_1 PARTITION OF both_columns FOR VALUES WITH (MODULUS 2, REMAINDER 1);
-- Indexes that divide their keys in different ways
CREATE INDEX both_columns_0_key ON both_columns_0 USING harmonia (a, b);
CREATE INDEX both_columns_1_key ON both_columns_1 USING harmonia (a, b, v);
CREATE TABLE days (a smallint, d date, v int) PARTITION BY RANGE (d);
CREATE TABLE days_0 PARTITION OF days FOR VALUES FROM (MINVALUE) TO ('2024-02-01');
CREATE TABLE days_1 PARTITION OF days FOR VALUES FROM ('2024-02-01') TO ('2024-03-01');
CREATE TABLE days_rest PARTITION OF days DEFAULT;
CREATE INDEX days_key ON days USING harmonia (a, d);
CREATE TABLE parent (a bigint, b bigint, v int);
CREATE TABLE child (v int, b bigint, a bigint);
ALTER TABLE child INHERIT parent;
CREATE INDEX parent_key ON parent USING harmonia ((a + 1), b);
CREATE INDEX child_key ON child USING harmonia ((a + 1), b);
INSERT INTO parts SELECT a, b, c, v FROM t;
INSERT INTO ranges SELECT a, b, v FROM t;
INSERT INTO both_columns SELECT a, b, v FROM t;
INSERT INTO days SELECT * FROM narrow;
INSERT INTO parent SELECT a, b, v FROM t WHERE v % 2 = 0;
INSERT INTO child (a, b, v) SELECT a, b, v FROM t WHERE v % 2 <> 0;
:vacuum ANALYZE parts, ranges, both_columns, days, parent, child;
SELECT * FROM compare_lookups(
	'SELECT * FROM o JOIN parts p ON p.a = o.a AND p.b = o.b', 'SELECT * FROM o JOIN parts p ON p.a = o.a WHERE o.n < 20', 'SELECT * FROM o JOIN parts p ON p.a = 7 AND p.b = o.b',
	'SELECT p.tableoid::regclass, o.n FROM o JOIN parts p ON p.a = o.a AND p.b = 7 WHERE p.c > ''c2''', 'SELECT * FROM o LEFT JOIN parts p ON p.a = o.a AND p.b = o.b AND p.v > 100',
	'SELECT * FROM o WHERE EXISTS (SELECT FROM parts p WHERE p.a = o.a AND p.b = o.b)', 'SELECT * FROM o WHERE NOT EXISTS (SELECT FROM parts p WHERE p.a = o.a AND p.b = o.b)',
	'SELECT count(*) FROM o JOIN parts p USING (a, b)', 'SELECT o.n % 5, count(*), sum(p.v) FROM o JOIN parts p USING (a, b) GROUP BY 1 ORDER BY 1',
	'SELECT * FROM parts WHERE a IN (7, 8) AND b IN (3, 5)');
SELECT * FROM compare_lookups(
	'SELECT * FROM o JOIN ranges r ON r.a = o.a AND r.b = o.b', 'SELECT * FROM o LEFT JOIN ranges r ON r.a = o.a AND r.b = o.b WHERE o.n < 900', 'SELECT * FROM o JOIN ranges r ON r.a = o.a WHERE o.n < 20',
	'SELECT * FROM o JOIN ranges r ON r.a = o.a AND r.b = o.b AND r.b < 70', 'SELECT * FROM o JOIN ranges r ON r.a = o.a AND r.b = 51', 'SELECT * FROM o WHERE EXISTS (SELECT FROM ranges r WHERE r.a = o.a AND r.b = o.b)',
	'SELECT * FROM o WHERE NOT EXISTS (SELECT FROM ranges r WHERE r.a = o.a AND r.b = o.b AND r.v >= 0)', 'SELECT r.* FROM ranges r WHERE (a, b) IN (SELECT a, b FROM o WHERE n < 500)',
	'SELECT x.n, (SELECT sum(r.v) FROM o JOIN ranges r ON r.a = x.a AND r.b = o.b WHERE o.n < 30) FROM o x WHERE x.n < 20 ORDER BY 1');
SELECT * FROM compare_lookups(
	'SELECT * FROM o JOIN both_columns r ON r.a = o.a AND r.b = o.b', 'SELECT * FROM o LEFT JOIN both_columns r ON r.a = o.a AND r.b = o.b', 'SELECT * FROM o WHERE NOT EXISTS (SELECT FROM both_columns r WHERE r.a = o.a AND r.b = o.b)',
	'SELECT * FROM o JOIN days r ON r.a = o.a AND r.d = o.d', 'SELECT * FROM o LEFT JOIN days r ON r.a = o.a AND r.d = o.d::date', 'SELECT * FROM o WHERE EXISTS (SELECT FROM days r WHERE r.a = o.a AND r.d = o.d)',
	'SELECT o.n, r.a, r.d FROM o JOIN days r ON r.a = o.a AND r.d = o.d::date', 'SELECT count(*) FROM o JOIN days r ON r.a = o.a AND r.d = o.d::date', 'SELECT * FROM o WHERE NOT EXISTS (SELECT FROM days r WHERE r.a = o.a AND r.d = o.d)',
	'SELECT * FROM o JOIN parent r ON r.a + 1 = o.a AND r.b = o.b', 'SELECT * FROM o WHERE NOT EXISTS (SELECT FROM parent r WHERE r.a + 1 = o.a AND r.b = o.b)');
BEGIN;
CALL use_lookups(false);
-- Probes go to partitions that may have the first column's value, or the second one's.
SELECT * FROM explained('SELECT p.v FROM parts p JOIN o ON p.a = o.a AND p.b = o.b WHERE o.n BETWEEN 10 AND 14');
SELECT * FROM explained('SELECT r.v FROM ranges r JOIN o ON r.a = o.a AND r.b = o.b WHERE o.n BETWEEN 45 AND 54');
-- A partition without such an index
DROP INDEX both_columns_1_key;
SELECT lookup_nodes('SELECT * FROM o JOIN both_columns r ON r.a = o.a AND r.b = o.b');
CREATE INDEX ON both_columns_1 USING harmonia (b, a);
SELECT lookup_nodes('SELECT * FROM o JOIN both_columns r ON r.a = o.a AND r.b = o.b');
ROLLBACK;
-- The partition that is left is pruned when the plan runs.
PREPARE pruned (bigint) AS SELECT count(*), sum(r.v) FROM o LEFT JOIN ranges r ON r.a = o.a AND r.b = $1 AND r.b < 50 AND o.n < 100;
PREPARE all_pruned (bigint) AS SELECT count(*) FROM o JOIN ranges r ON r.a = o.a AND r.b = $1 AND r.b < 50;
BEGIN;
CALL use_lookups(false);
SET LOCAL plan_cache_mode = force_generic_plan;
SELECT lookup_nodes('EXECUTE pruned (7)');
EXECUTE pruned (7);
EXECUTE pruned (77);
EXECUTE pruned (NULL);
EXECUTE all_pruned (7);
EXECUTE all_pruned (77);
COMMIT;

-- Prepared statements, whose parameters are a column's value
PREPARE join_with (bigint) AS SELECT count(*), sum(t.v) FROM o JOIN t ON t.a = $1 AND t.b = o.b;
SET plan_cache_mode = force_generic_plan;
CALL use_lookups(false);
EXECUTE join_with (7);
EXECUTE join_with (NULL);
EXECUTE join_with (4294967296);

-- A scan that is exact, then not, then exact again: meanwhile rows are compared by more columns.
CREATE TABLE three (a int, b int, c int);
INSERT INTO three SELECT i % 4, i / 4, i / 4 % 10 FROM generate_series(0, 4000) i;
CREATE INDEX ON three USING harmonia (a, b, c);
VACUUM ANALYZE three;
SET enable_seqscan = off;
SELECT lookup_nodes('SELECT low, (SELECT count(*) FROM three WHERE a = ANY (''{1,2}'') AND b >= low AND b <= high AND c = 7)
	FROM (VALUES (7, 7), (1, 100), (7, 7)) v (low, high)');
SELECT low, (SELECT count(*) FROM three WHERE a = ANY ('{1,2}') AND b >= low AND b <= high AND c = 7)
	FROM (VALUES (7, 7), (1, 100), (7, 7)) v (low, high);

DROP SCHEMA lookup_columns CASCADE;
