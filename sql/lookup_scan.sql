--
-- Lookup scans: one table, many keys or ranges of an index
--
SET client_min_messages = warning;
SET timezone = 'UTC';
SET jit = off;
SET max_parallel_workers_per_gather = 0;
SET harmonia.enable_lookup_aggregate = off;
CREATE SCHEMA lookup_scan;
SET search_path = lookup_scan, public;
\getenv srcdir PG_ABS_SRCDIR
\set compare :srcdir '/sql/include/compare.sql'
\i :compare
\set lookup :srcdir '/sql/include/lookup.sql'
\i :lookup

-- Keys 0 to 9999 in two rows each, NULLs, one key in 5000 rows, and extreme values.
CREATE TABLE t (k int, id int GENERATED ALWAYS AS IDENTITY, v text) WITH (autovacuum_enabled = off);
INSERT INTO t (k, v) SELECT shuffle(i) % 10000, 'v' || i FROM generate_series(1, 20000) i;
INSERT INTO t (k, v) SELECT NULL, i FROM generate_series(1, 100) i;
INSERT INTO t (k, v) SELECT 77777, i FROM generate_series(1, 5000) i;
INSERT INTO t (k, v) VALUES (-2147483648, 'min'), (2147483647, 'max');
CREATE INDEX t_k ON t USING harmonia (k);
:vacuum ANALYZE t;
-- Some pages are not all-visible.
UPDATE t SET v = 'new' WHERE id % 500 = 3;
DELETE FROM t WHERE id % 700 = 5;
CALL settle();
-- (It runs no query: 16 and later could start parallel workers for it in each row.)
CREATE FUNCTION stable_array(int) RETURNS int[] STABLE LANGUAGE plpgsql AS
	'BEGIN RETURN (ARRAY[37, 74, 111, 148, 185, 222, 259, 296, 333, 370])[1:$1]; END';
CREATE FUNCTION volatile_array(int) RETURNS int[] VOLATILE LANGUAGE plpgsql AS
	'BEGIN RETURN ARRAY(SELECT i * 37 FROM generate_series(1, $1) i); END';

--
-- Plans
--
-- A lookup scan pays
CREATE TABLE u WITH (autovacuum_enabled = off) AS SELECT shuffle(i) % 30000 AS k, i AS id FROM generate_series(1, 30000) i;
CREATE INDEX u_k ON u USING harmonia (k);
:vacuum ANALYZE u;
SELECT * FROM plan('SELECT * FROM u WHERE k = ANY (ARRAY(SELECT generate_series(1, 500)))');
SELECT lookup_nodes('SELECT * FROM u WHERE k IN (' || string_agg(i::text, ',') || ')') FROM generate_series(1, 200) i;
SELECT lookup_nodes('SELECT * FROM u WHERE k < 10 OR k > 1'), lookup_nodes('SELECT * FROM u WHERE k IN (1, 2) OR k > 29990');
-- Arrays of unknown length, also where the table has the order of the key.  There
-- PostgreSQL assumes that the rows of any keys are neighbours.
CREATE TABLE s WITH (autovacuum_enabled = off) AS SELECT i AS k, i AS id FROM generate_series(1, 30000) i;
CREATE INDEX s_k ON s USING harmonia (k);
:vacuum ANALYZE s;
CREATE FUNCTION unknown_arrays() RETURNS TABLE (cost text, query text, ordered text, scattered text) LANGUAGE plpgsql AS $$
BEGIN
	FOREACH cost IN ARRAY '{1.1,4}'::text[] LOOP
		PERFORM set_config('random_page_cost', cost, true);
		FOREACH query IN ARRAY ARRAY[
			'SELECT * FROM s WHERE k = ANY (ARRAY(SELECT id FROM t))', 'SELECT count(id) FROM s WHERE k = ANY ((SELECT array_agg(id) FROM t)::int[])',
			'SELECT count(*) FROM s WHERE k = ANY (stable_array(3))', 'EXECUTE by_s(''{1,2,3}'')',
			'SELECT * FROM s WHERE k = ANY (stable_array(3)) LIMIT 1', 'SELECT * FROM s WHERE k = ANY (stable_array(3)) ORDER BY k',
			'SELECT * FROM s WHERE k = ANY (stable_array(3)) ORDER BY id LIMIT 10',
			-- A plain scan does not have to look up all keys.
			'SELECT * FROM s WHERE k = ANY (stable_array(3)) ORDER BY k LIMIT 10', 'SELECT * FROM s WHERE k = ANY (stable_array(3)) ORDER BY k DESC LIMIT 10',
			'SELECT max(k) FROM s WHERE k = ANY (stable_array(3))',
			-- Known lengths
			'SELECT * FROM s WHERE k = ANY (''{1}'')', 'SELECT k FROM s WHERE k = ANY (''{1}'')',
			'SELECT * FROM s WHERE k IN (37, 74, 111, 148, 185, 222, 259, 296, 333, 370, 407, 444, 481, 518, 555, 592, 629, 666, 703, 740, 777, 814, 851, 888, 925, 962, 999, 1036, 1073, 1110, 1147, 1184, 1221, 1258, 1295, 1332, 1369, 1406, 1443, 1480, 1517, 1554, 1591, 1628, 1665, 1702, 1739, 1776, 1813, 1850, 1887, 1924, 1961, 1998, 2035, 2072, 2109, 2146, 2183, 2220, 2257, 2294, 2331, 2368, 2405, 2442, 2479, 2516, 2553, 2590, 2627, 2664, 2701, 2738, 2775, 2812, 2849, 2886, 2923, 2960, 2997, 3034, 3071, 3108, 3145, 3182, 3219, 3256, 3293, 3330, 3367, 3404, 3441, 3478, 3515, 3552, 3589, 3626, 3663, 3700)']
		LOOP
			ordered := lookup_nodes(query);
			scattered := lookup_nodes(regexp_replace(query, '\ms\M|by_s', CASE WHEN query LIKE 'EXECUTE%' THEN 'by_u' ELSE 'u' END));
			RETURN NEXT;
		END LOOP;
	END LOOP;
END $$;
PREPARE by_s(int[]) AS SELECT * FROM s WHERE k = ANY ($1);
PREPARE by_u(int[]) AS SELECT * FROM u WHERE k = ANY ($1);
BEGIN;
SET LOCAL plan_cache_mode = force_generic_plan;
SELECT * FROM unknown_arrays();
ROLLBACK;
-- A bitmap scan would have to find all rows, too
CREATE TABLE scattered AS SELECT hashint4(i) AS k, i AS id FROM generate_series(1, 60000) i;
CREATE INDEX scattered_k ON scattered USING harmonia (k);
VACUUM ANALYZE scattered;
EXPLAIN (COSTS OFF) SELECT * FROM scattered WHERE k = ANY (stable_array(3)) ORDER BY k LIMIT 10;
EXPLAIN (COSTS OFF) SELECT * FROM scattered WHERE k = ANY (stable_array(3)) LIMIT 10;
DROP TABLE scattered;
BEGIN;
CALL use_lookups(true);
SELECT * FROM plan('SELECT * FROM t WHERE k IN (1, 2, 3)');
SELECT * FROM plan('SELECT k FROM t WHERE k IN (1, 2, 3)');
SELECT * FROM plan('SELECT id FROM t WHERE k = ANY (''{1,2,3}'') AND k > 1 AND v < ''v3'' AND 5 > k');
SELECT * FROM plan('SELECT id FROM t WHERE k BETWEEN 1 AND 5 OR k IN (7, 9) OR (k = 11 AND v = ''v3'')');
SELECT * FROM plan('SELECT id FROM t WHERE k = ANY (stable_array(3))', 'VERBOSE');
SELECT * FROM plan('SELECT k FROM t WHERE k IN (1, 2, 3)', 'FORMAT JSON');
SELECT * FROM explained('SELECT id FROM t WHERE k IN (17, 18, 17, NULL, -3)');
SELECT * FROM explained('SELECT id FROM t WHERE k IN (17, 18)', 'FORMAT YAML');
-- All pages are all-visible: no heap fetches.
SELECT (regexp_match(string_agg(line, ' '), 'Hits: (\d+)'))[1]::int AS hits, (regexp_match(string_agg(line, ' '), 'Heap Fetches: (\d+)'))[1]::int AS fetches
	FROM explained('SELECT count(*) FROM u WHERE k = ANY (ARRAY(SELECT generate_series(1, 5000)))') line;
-- Conditions that are no lookup scans
SELECT query, lookup_nodes(query) FROM unnest(ARRAY['SELECT * FROM t WHERE k = 5', 'SELECT * FROM t WHERE k BETWEEN 1 AND 5',
	'SELECT * FROM t WHERE k = ALL (''{1,2}'')', 'SELECT * FROM t WHERE k <> ANY (''{1,2}'')', 'SELECT * FROM t WHERE k = ANY (volatile_array(3))',
	'SELECT * FROM t WHERE k = ANY (''{1,2}''::numeric[])', 'SELECT * FROM t WHERE k = 1 OR v = ''v3''', 'SELECT * FROM t WHERE k + 1 = ANY (''{1,2}'')',
	'SELECT * FROM t WHERE k IN (1, 2, id)', 'SELECT * FROM t TABLESAMPLE SYSTEM (100) WHERE k IN (1, 2)', 'SELECT * FROM t WHERE k IS NULL OR k IN (1, 2)']) query;
ROLLBACK;
-- Lookup scans are off
SET harmonia.enable_lookup_scan = off;
SELECT lookup_nodes('SELECT * FROM u WHERE k = ANY (ARRAY(SELECT generate_series(1, 500)))');
RESET harmonia.enable_lookup_scan;
SELECT lookup_nodes('SELECT * FROM u WHERE k = ANY (ARRAY(SELECT generate_series(1, 500)))');
SET harmonia.batch_size = 999;
SET harmonia.batch_size = 1000;
RESET harmonia.batch_size;

--
-- Answers
--
SELECT * FROM compare_lookups(
	'SELECT * FROM t WHERE k IN (1, 2, 3)',
	'SELECT k FROM t WHERE k IN (1, 2, 3)',
	'SELECT count(*) FROM t WHERE k IN (3, 2, 1, 1, 2, NULL)',
	'SELECT * FROM t WHERE k IN (-5, 10000, 20000)',
	'SELECT * FROM t WHERE k = ANY (''{}'')',
	'SELECT * FROM t WHERE k = ANY (''{NULL,NULL}'')',
	'SELECT * FROM t WHERE k = ANY (NULL::int[])',
	'SELECT * FROM t WHERE k = ANY (ARRAY(SELECT 1 WHERE false))',
	'SELECT * FROM t WHERE k = ANY ((SELECT NULL::int[])::int[])',
	'SELECT * FROM t WHERE k = ANY (''{{1,2},{3,NULL}}'')',
	'SELECT * FROM t WHERE k IN (-2147483648, 2147483647, 0)',
	'SELECT * FROM t WHERE k = ANY (ARRAY(SELECT generate_series(-100, 12000, 7)))',
	'SELECT k FROM t WHERE k = ANY (ARRAY(SELECT generate_series(-100, 12000, 7)))',
	'SELECT k, id FROM t WHERE k IN (77777, 5, 77777)',
	'SELECT k FROM t WHERE k IN (77777, 5, 77777)',
	'SELECT * FROM t WHERE k = ANY (stable_array(10))',
	'SELECT * FROM t WHERE k = ANY (''{1,2,3}'') AND k = ANY (''{3,4}'')',
	'SELECT * FROM t WHERE k = ANY (''{1,2,3}'') AND k > 2 AND v LIKE ''v1%''',
	'SELECT * FROM t WHERE k = ANY (''{1,2,3}'') AND k > NULL',
	'SELECT * FROM t WHERE k < ANY (''{3,NULL,8}'')',
	'SELECT k FROM t WHERE k <= ANY (''{3,8}'') AND k >= ANY (''{1,2}'')',
	'SELECT * FROM t WHERE k > ANY (''{}'')',
	'SELECT k, v FROM t WHERE k = ANY (ARRAY(SELECT generate_series(1, 3000, 2))) ORDER BY k, id',
	'SELECT DISTINCT k FROM t WHERE k = ANY (ARRAY(SELECT generate_series(1, 3000, 2))) ORDER BY k DESC',
	'SELECT k, id FROM t WHERE k = ANY (ARRAY(SELECT generate_series(1, 3000, 2))) ORDER BY id LIMIT 20 OFFSET 10');

-- Long arrays with repeated elements, in one batch and in several
SELECT * FROM compare_lookups(
	'SELECT count(*), sum(id) FROM t WHERE k = ANY (ARRAY(SELECT shuffle(i) % 12000 FROM generate_series(1, 20000) i))',
	'SELECT k FROM t WHERE k = ANY (ARRAY(SELECT shuffle(i) % 12000 FROM generate_series(1, 20000) i))');
SET harmonia.batch_size = 10000;
SELECT * FROM compare_lookups(
	'SELECT count(*), sum(id) FROM t WHERE k = ANY (ARRAY(SELECT shuffle(i) % 12000 FROM generate_series(1, 20000) i))',
	'SELECT k FROM t WHERE k = ANY (ARRAY(SELECT shuffle(i) % 12000 FROM generate_series(1, 20000) i))');
SET harmonia.batch_size = 1000;
SELECT * FROM compare_lookups(
	'SELECT count(*), sum(id) FROM t WHERE k = ANY (ARRAY(SELECT shuffle(i) % 12000 FROM generate_series(1, 20000) i))',
	'SELECT k FROM t WHERE k = ANY (ARRAY(SELECT shuffle(i) % 12000 FROM generate_series(1, 20000) i))');
RESET harmonia.batch_size;

-- With a LIMIT the first rows are wanted soon, so the first batches of an array are
-- small.  No two batches have the same key.
SELECT * FROM compare_lookups(
	'SELECT id FROM t WHERE k = ANY (ARRAY(SELECT shuffle(i) % 12000 FROM generate_series(1, 40000) i)) LIMIT 1000000',
	'SELECT id FROM t WHERE k = ANY (ARRAY(SELECT generate_series(3000, 1, -1))) LIMIT 1000000',
	'SELECT id FROM t WHERE k = ANY (ARRAY(SELECT i % 2 FROM generate_series(1, 5000) i)) LIMIT 1000000',
	'SELECT id FROM t WHERE k = ANY (ARRAY(SELECT CASE i WHEN 3000 THEN 5 ELSE -2147483648 END FROM generate_series(1, 5000) i)) LIMIT 1000000',
	'SELECT k FROM t WHERE k = ANY (ARRAY(SELECT 2147483647 FROM generate_series(1, 2000) i)) LIMIT 1000000',
	'SELECT id FROM t WHERE k BETWEEN 100 AND 900 OR k BETWEEN 5000 AND 7000 OR k IN (1, 3, 5) LIMIT 1000000');
BEGIN;
CALL use_lookups(false);
SELECT regexp_replace(line, 'Keys: \d+', 'Keys: ' || CASE WHEN (regexp_match(line, 'Keys: (\d+)'))[1]::int <= 100 THEN 'few' ELSE 'many' END) AS line
	FROM explained('SELECT id FROM t WHERE k = ANY (ARRAY(SELECT i * 7 % 12007 FROM generate_series(1, 12006) i)) LIMIT 1') line
	WHERE line ~ 'Batches';
SELECT line FROM explained('SELECT max(id) FROM t WHERE k = ANY (ARRAY(SELECT i * 7 % 12007 FROM generate_series(1, 12006) i)) LIMIT 1') line
	WHERE line ~ 'Batches';
ROLLBACK;

-- Queries that only count rows
SET harmonia.enable_lookup_aggregate = on;
BEGIN;
CALL use_lookups(true);
SELECT * FROM plan('SELECT count(*) + 1, count(k), max(1) IS NULL FROM t WHERE k IN (1, 2)', 'VERBOSE');
SELECT * FROM plan('SELECT count(*) + 1 AS n, -count(k), now() IS NULL FROM t WHERE k IN (1, 2) AND k > 1', 'VERBOSE');
SELECT * FROM explained('SELECT count(*) FROM t WHERE k = ANY (ARRAY(SELECT generate_series(1, 5000)))');
SELECT query, lookup_nodes(query) FROM unnest(ARRAY['SELECT count(v) FROM t WHERE k IN (1, 2)', 'SELECT count(DISTINCT k) FROM t WHERE k IN (1, 2)',
	'SELECT count(*) FILTER (WHERE k > 1) FROM t WHERE k IN (1, 2)', 'SELECT count(k ORDER BY k) FROM t WHERE k IN (1, 2)', 'SELECT count(k + 1) FROM t WHERE k IN (1, 2)',
	'SELECT count(*) FROM t WHERE k IN (1, 2) HAVING count(*) > 5', 'SELECT count(*) FROM t WHERE k IN (1, 2) GROUP BY k', 'SELECT count(*) FROM t WHERE k IN (1, 2) GROUP BY ()',
	'SELECT count(*), sum(k) FROM t WHERE k IN (1, 2)', 'SELECT count(*) FROM t WHERE k IN (1, 2) AND v > ''v1''', 'SELECT count(*) FROM t WHERE k IN (1, 2) AND random() < 2',
	'SELECT count(*) FROM t WHERE k = 1 OR k IN (2, 3)', 'SELECT count(*) FROM t WHERE k IN (1, 2) AND now() > ''2000-01-01''',
	'SELECT generate_series(1, count(*)) FROM t WHERE k IN (1, 2)', 'SELECT count(*) FROM t, u WHERE t.k IN (1, 2) AND u.k IN (3, 4)']) query;
ROLLBACK;
SELECT * FROM compare_lookups(
	'SELECT count(*) FROM t WHERE k = ANY (ARRAY(SELECT generate_series(-100, 12000, 7)))',
	'SELECT count(k) FROM t WHERE k = ANY (ARRAY(SELECT generate_series(-100, 12000, 7)))',
	'SELECT count(*) * 2, -count(k), count(*) FROM t WHERE k = ANY (ARRAY(SELECT shuffle(i) % 12000 FROM generate_series(1, 40000) i))',
	'SELECT count(*) FROM t WHERE k IN (77777, 5, 77777, NULL)',
	'SELECT count(*) FROM t WHERE k = ANY (''{}'')',
	'SELECT count(*) FROM t WHERE k = ANY (NULL::int[])',
	'SELECT count(*) FROM t WHERE k < ANY (''{3,NULL,8}'')',
	'SELECT count(k) FROM t WHERE k = ANY (''{1,2,3}'') AND k > 2',
	'SELECT count(*) FROM t WHERE k BETWEEN 1 AND 5 OR k IN (3, 4, 77777) OR k > 9000',
	'SELECT count(*) OVER (), count(*) FROM t WHERE k IN (1, 2)',
	'SELECT DISTINCT count(*) FROM t WHERE k IN (1, 2) ORDER BY count(*) LIMIT 1',
	'SELECT n, g.c FROM generate_series(1, 3) n, LATERAL (SELECT count(*) AS c FROM t WHERE k = ANY (ARRAY[n, n + 1, 77777 + n - 1])) g',
	'SELECT count(*) FROM (SELECT k FROM t WHERE k IN (1, 2, 3) OFFSET 1) s',
	'SELECT k FROM t WHERE k = (SELECT count(*) FROM t WHERE k IN (1, 2, 3, 4))');
SET harmonia.enable_lookup_aggregate = off;

-- OR lists
SELECT * FROM compare_lookups(
	'SELECT * FROM t WHERE k = 1 OR k = 3 OR k = 77777',
	'SELECT k FROM t WHERE k = 1 OR k BETWEEN 0 AND 5',
	'SELECT * FROM t WHERE k BETWEEN 10 AND 50 OR k BETWEEN 40 AND 60 OR k BETWEEN 61 AND 70 OR k BETWEEN 9000 AND 100',
	'SELECT k FROM t WHERE k < -100 OR k > 77777 OR k = 77777',
	'SELECT * FROM t WHERE k <= 5 OR k >= 9990',
	'SELECT * FROM t WHERE k <= 20000 OR k >= 3',
	'SELECT * FROM t WHERE k = 1 OR k = NULL OR k IN (NULL, 4)',
	'SELECT * FROM t WHERE (k = 1 OR k = 2) AND (k = 2 OR k = 3)',
	'SELECT * FROM t WHERE (k = 1 OR k > 9000) AND k < 9010 AND k = ANY (ARRAY(SELECT generate_series(8000, 9005)))',
	'SELECT * FROM t WHERE (k = 1 AND v > ''v2'') OR (k < 10 AND id % 2 = 0)',
	'SELECT * FROM t WHERE (k = 1 AND k = 2) OR k = 3',
	'SELECT * FROM t WHERE k = 5 OR k = ANY (stable_array(10))');

-- Arguments of each type that the key can be compared with
CREATE TABLE keys (i8 int8, i4 int4, i2 int2, f8 float8, f4 float4, d date, ts timestamp, tz timestamptz, num numeric)
	WITH (autovacuum_enabled = off);
INSERT INTO keys SELECT x, x, x, x / 4.0, x / 4.0, date '2000-01-01' + x, timestamp '2000-01-01' + x * interval '6 hours',
		timestamptz '2000-01-01' + x * interval '6 hours', x
	FROM (SELECT shuffle(i) % 600 - 300 AS x FROM generate_series(1, 5000) i) s;
INSERT INTO keys (i8, i4, f8, f4) VALUES (9223372036854775807, 2147483647, 'NaN', 'NaN'), (2147483648, -2147483648, 'inf', '-inf'), (-9223372036854775808, NULL, '-0', '-0');
INSERT INTO keys (d, ts, tz) VALUES ('infinity', '-infinity', 'infinity'), ('-infinity', 'infinity', '-infinity');
CREATE INDEX ON keys USING harmonia (i8);
CREATE INDEX ON keys USING harmonia (i4 DESC NULLS LAST);
CREATE INDEX ON keys USING harmonia (i2 NULLS FIRST);
CREATE INDEX ON keys USING harmonia (f8);
CREATE INDEX ON keys USING harmonia (f4);
CREATE INDEX ON keys USING harmonia (d);
CREATE INDEX ON keys USING harmonia (ts);
CREATE INDEX ON keys USING harmonia (tz);
:vacuum ANALYZE keys;
SELECT * FROM compare_lookups(
	'SELECT i8 FROM keys WHERE i8 = ANY (''{1,2,3,2147483647,-2147483648}''::int4[])',
	'SELECT i8 FROM keys WHERE i8 = ANY (''{1,-1,32767}''::int2[])',
	'SELECT i8 FROM keys WHERE i8 = ANY (''{9223372036854775807,-9223372036854775808,2147483648}'')',
	'SELECT * FROM keys WHERE i4 = ANY (''{1,4294967297,2147483647,-2147483648,-9223372036854775808}''::int8[])',
	'SELECT i4 FROM keys WHERE i4 < ANY (''{-4294967296}''::int8[]) OR i4 >= 2147483647::int8',
	'SELECT i2 FROM keys WHERE i2 = ANY (''{1,65537,-299}''::int4[]) OR i2 > 295::int8',
	'SELECT f8 + 0 FROM keys WHERE f8 = ANY (''{0.25,-0,NaN,-Infinity}'')',
	'SELECT f8 + 0 FROM keys WHERE f8 = ANY (''{0.25,0,0.1,NaN,Infinity}''::float4[])',
	'SELECT f4 + 0 FROM keys WHERE f4 = ANY (''{0.25,0,0.1,NaN,Infinity}''::float8[])',
	'SELECT f4 + 0 FROM keys WHERE f4 > 74::float8 OR f4 = ''-0''',
	'SELECT d FROM keys WHERE d = ANY (''{2000-01-01,infinity,1999-12-01}'')',
	'SELECT d FROM keys WHERE d = ANY (''{2000-01-01 00:00,2000-01-02 00:01,infinity}''::timestamp[])',
	'SELECT d FROM keys WHERE d = ANY (''{2000-01-01 00:00+00,2000-01-02 00:00+01,-infinity}''::timestamptz[])',
	'SELECT ts FROM keys WHERE ts = ANY (''{2000-01-01,2000-01-03,infinity}''::date[])',
	'SELECT ts FROM keys WHERE ts = ANY (''{2000-01-01 06:00+00,2000-01-03 12:00+01,infinity}''::timestamptz[])',
	'SELECT tz FROM keys WHERE tz = ANY (''{2000-01-01,2000-01-03,infinity}''::date[])',
	'SELECT tz FROM keys WHERE tz = ANY (''{2000-01-01 06:00,2000-01-03 12:00,-infinity}''::timestamp[])',
	'SELECT * FROM keys WHERE d > timestamp ''2000-10-20 12:00'' OR d < timestamptz ''1999-03-10 12:00+00''');
SET timezone = 'America/New_York';
SELECT * FROM compare_lookups(
	'SELECT d FROM keys WHERE d = ANY (''{2000-01-01 05:00+00,2000-01-02 00:00+00,-infinity}''::timestamptz[])',
	'SELECT ts FROM keys WHERE ts = ANY (''{2000-01-01 05:00+00,2000-04-02 07:00+00,1999-10-31 06:00+00}''::timestamptz[])',
	'SELECT tz FROM keys WHERE tz = ANY (''{2000-01-01,2000-04-02 02:00,1999-12-31 19:00}''::timestamp[])',
	'SELECT count(*), count(tz) FROM keys WHERE tz = ANY (''{2000-01-01,2000-04-02 02:00,1999-12-31 19:00}''::timestamp[])',
	'SELECT tz FROM keys WHERE tz > date ''2000-03-01'' OR tz < timestamp ''1999-11-01 01:00''');
SET timezone = 'UTC';
-- Numeric arguments, which the index does not know
SELECT * FROM compare_lookups('SELECT * FROM keys WHERE i8 = ANY (''{1,2.5}''::numeric[])', 'SELECT * FROM keys WHERE f8 IN (1, 2::numeric)', 'SELECT * FROM keys WHERE num IN (1, 2)');

--
-- Parameters
--
-- Arrays from outer rows: a rescan for each
CREATE TABLE few (n int, a int[], x int);
INSERT INTO few VALUES (1, '{1,2,3}', 1), (2, '{}', 2), (3, NULL, NULL), (4, '{77777,NULL}', 77777), (5, '{3,3,12000}', 12000);
ANALYZE few;
SELECT * FROM compare_lookups(
	'SELECT n, s.* FROM few, LATERAL (SELECT count(*), sum(id) FROM t WHERE k = ANY (a)) s',
	'SELECT n, s.* FROM few, LATERAL (SELECT id FROM t WHERE k = ANY (a) ORDER BY id LIMIT 2) s ORDER BY n, id',
	'SELECT n, (SELECT sum(k) FROM t WHERE k = ANY (a)) FROM few',
	'SELECT n, (SELECT count(*) FROM t WHERE k IN (x, x + 1, n)) FROM few',
	'SELECT n, (SELECT count(k) FROM t WHERE k < x - 77775 OR k BETWEEN n AND x AND k < 1000) FROM few',
	'SELECT n, EXISTS (SELECT FROM t WHERE k = ANY (a)) FROM few',
	'SELECT n FROM few WHERE NOT EXISTS (SELECT FROM t WHERE k = ANY (a) OFFSET 0)',
	'SELECT n, ARRAY(SELECT id FROM t WHERE k = ANY (a || few.x) ORDER BY id LIMIT 3) FROM few',
	'SELECT count(*) FROM few f, t WHERE t.k = ANY (f.a)');
-- A sub-query that is read twice, at first by half
SELECT n, s.* FROM few, LATERAL (SELECT k FROM t WHERE k = ANY (a) LIMIT 1) s ORDER BY n, k;

-- Prepared statements with custom and generic plans
PREPARE listed(int[]) AS SELECT count(*), sum(id) FROM t WHERE k = ANY ($1);
PREPARE keys_of(int, int) AS SELECT count(k), sum(k) FROM t WHERE k IN ($1, $2, $1 + 1) OR k > $2;
BEGIN;
CALL use_lookups(true);
SET LOCAL plan_cache_mode = force_generic_plan;
SELECT * FROM plan('EXECUTE listed(''{1,2,3}'')');
SELECT * FROM plan('EXECUTE keys_of(1, 9000)');
EXECUTE listed('{1,2,3}');
EXECUTE listed('{3,2,3,NULL,9999}');
EXECUTE listed('{}');
EXECUTE listed(NULL);
EXECUTE keys_of(1, 9000);
EXECUTE keys_of(NULL, 9000);
SET LOCAL plan_cache_mode = force_custom_plan;
SELECT * FROM plan('EXECUTE listed(''{1,2,3}'')');
EXECUTE listed('{1,2,3}');
EXECUTE listed('{3,2,3,NULL,9999}');
EXECUTE listed('{}');
EXECUTE listed(NULL);
EXECUTE keys_of(1, 9000);
EXECUTE keys_of(NULL, 9000);
ROLLBACK;
BEGIN;
CALL use_no_lookups('seq');
DEALLOCATE ALL;
PREPARE listed(int[]) AS SELECT count(*), sum(id) FROM t WHERE k = ANY ($1);
PREPARE keys_of(int, int) AS SELECT count(k), sum(k) FROM t WHERE k IN ($1, $2, $1 + 1) OR k > $2;
EXECUTE listed('{1,2,3}');
EXECUTE listed('{3,2,3,NULL,9999}');
EXECUTE listed('{}');
EXECUTE keys_of(1, 9000);
EXECUTE keys_of(NULL, 9000);
ROLLBACK;

--
-- Cursors
--
BEGIN;
CALL use_lookups(false);
SELECT * FROM plan('DECLARE c SCROLL CURSOR FOR SELECT k FROM t WHERE k IN (1, 2, 77777)');
DECLARE c SCROLL CURSOR FOR SELECT k FROM t WHERE k IN (1, 2, 77777);
MOVE LAST c;
FETCH NEXT c;
FETCH PRIOR c;
MOVE FIRST c;
FETCH BACKWARD 1 c;
SELECT * FROM rest('c');
MOVE BACKWARD ALL c;
FETCH 1 c;
DECLARE d NO SCROLL CURSOR FOR SELECT k FROM t WHERE k IN (1, 2, 77777);
FETCH 2 d;
FETCH BACKWARD 1 d;
ROLLBACK;
-- A cursor stays open in the middle of its rows and sees its snapshot
BEGIN;
CALL use_lookups(true);
DECLARE open CURSOR FOR SELECT k FROM t WHERE k = ANY (ARRAY(SELECT generate_series(0, 9999)));
SELECT sum AS first FROM rest('open', 3000) \gset
DELETE FROM t WHERE k BETWEEN 0 AND 9999;
INSERT INTO t (k) SELECT generate_series(0, 9999);
SELECT n, sum + :first AS total FROM rest('open');
ROLLBACK;
BEGIN;
CALL use_lookups(true);
DECLARE held CURSOR WITH HOLD FOR SELECT k FROM t WHERE k IN (1, 2, 3);
SELECT sum AS first FROM rest('held', 1) \gset
COMMIT;
SELECT n, sum + :first AS total FROM rest('held');
CLOSE held;
-- WHERE CURRENT OF
CREATE TABLE c (k int, id int);
INSERT INTO c SELECT i, i FROM generate_series(1, 1000) i;
CREATE INDEX ON c USING harmonia (k);
:vacuum ANALYZE c;
BEGIN;
CALL use_lookups(false);
DECLARE cur CURSOR FOR SELECT * FROM c WHERE k IN (5, 6, 7);
FETCH 2 FROM cur;
UPDATE c SET id = -id WHERE CURRENT OF cur RETURNING *;
FETCH 1 FROM cur;
DELETE FROM c WHERE CURRENT OF cur RETURNING *;
FETCH 1 FROM cur;
DELETE FROM c WHERE CURRENT OF cur;
ROLLBACK;
BEGIN;
CALL use_lookups(true);
SELECT * FROM plan('DECLARE cur CURSOR FOR SELECT k FROM c WHERE k IN (5, 6, 7)');
DECLARE cur CURSOR FOR SELECT k FROM c WHERE k IN (5, 6, 7);
FETCH 2 FROM cur;
UPDATE c SET id = -id WHERE CURRENT OF cur RETURNING *;
FETCH 1 FROM cur;
DELETE FROM c WHERE CURRENT OF cur RETURNING *;
ROLLBACK;
BEGIN;
CALL use_lookups(true);
DECLARE cur CURSOR FOR SELECT k FROM c WHERE k IN (5, 6, 7) FOR UPDATE;
FETCH 2 FROM cur;
UPDATE c SET k = -k WHERE CURRENT OF cur RETURNING *;
ROLLBACK;

--
-- Changes
--
BEGIN;
CALL use_lookups(true);
SELECT * FROM plan('UPDATE c SET k = k + 1 WHERE k IN (10, 11, 12)');
SELECT * FROM plan('DELETE FROM c WHERE k = ANY (ARRAY(SELECT generate_series(20, 30)))');
SELECT * FROM plan('SELECT k FROM c WHERE k IN (40, 41) FOR UPDATE');
SELECT lookup_nodes('MERGE INTO c USING (SELECT id AS i FROM few, t WHERE t.k IN (1, 2) AND few.n = 1) s ON c.k = s.i AND c.k IN (50, 51) WHEN MATCHED THEN DELETE');
-- A statement does not see its own new rows
UPDATE c SET k = k + 1 WHERE k IN (10, 11, 12) RETURNING *;
UPDATE c SET k = k + 1 WHERE k IN (10, 11, 12) RETURNING *;
DELETE FROM c WHERE k = ANY (ARRAY(SELECT generate_series(20, 30))) AND id <> 25 RETURNING ctid, k;
INSERT INTO c SELECT k, -id FROM c WHERE k IN (24, 25, 26, 27);
SELECT * FROM c WHERE k IN (24, 25, 26, 27) FOR UPDATE;
SELECT k FROM c WHERE k IN (24, 25, 26, 27) FOR SHARE;
UPDATE c SET id = f.n FROM few f WHERE c.k IN (60, 61, 62) AND c.k = f.n + 59 RETURNING c.*;
WITH d AS (DELETE FROM c USING few f WHERE c.k IN (60, 61, 63) AND c.k = f.n + 59 RETURNING c.*) SELECT * FROM d ORDER BY k;
MERGE INTO c USING few f ON c.k = f.n + 69 AND c.k IN (70, 71, 72) WHEN MATCHED AND f.n = 1 THEN DELETE WHEN MATCHED THEN UPDATE SET k = -c.k WHEN NOT MATCHED THEN INSERT VALUES (1000 + n, 0);
SELECT * FROM c WHERE k IN (70, 71, 72, -70, -71, -72, 1001, 1002, 1003, 1004, 1005);
SELECT count(*), sum(id) FROM c WHERE k = ANY (ARRAY(SELECT generate_series(-100, 2000)));
CALL use_no_lookups('seq');
SELECT count(*), sum(id) FROM c WHERE k = ANY (ARRAY(SELECT generate_series(-100, 2000)));
ROLLBACK;

-- Rows of the same transaction, savepoints that are rolled back, HOT updates
BEGIN;
CALL use_lookups(true);
INSERT INTO c SELECT i, 0 FROM generate_series(2000, 2100) i;
SAVEPOINT a;
INSERT INTO c SELECT i, 1 FROM generate_series(2000, 2100) i;
UPDATE c SET id = id + 10 WHERE k IN (2001, 2002);
UPDATE c SET id = id + 10 WHERE k IN (2001, 2002);
SELECT * FROM c WHERE k IN (2000, 2001, 2002);
ROLLBACK TO a;
SELECT * FROM c WHERE k IN (2000, 2001, 2002);
DELETE FROM c WHERE k IN (2000, 2001);
SELECT k FROM c WHERE k IN (2000, 2001, 2002);
COMMIT;
SELECT * FROM compare_lookups('SELECT * FROM c WHERE k = ANY (ARRAY(SELECT generate_series(1, 2050)))', 'SELECT k FROM c WHERE k = ANY (ARRAY(SELECT generate_series(1, 2050)))');

--
-- Columns of all kinds
--
SELECT * FROM compare_lookups(
	'SELECT ctid, k FROM t WHERE k IN (1, 2)', 'SELECT tableoid, k FROM t WHERE k IN (1, 2)', 'SELECT t FROM t WHERE k IN (1, 2)',
	'SELECT k FROM t WHERE k IN (1, 2) AND ctid > ''(0,5)''', 'SELECT k FROM t WHERE k IN (1, 2) AND t IS NOT NULL',
	'SELECT 1 FROM t WHERE k IN (1, 2)', 'SELECT FROM t WHERE k IN (1, 2)', 'SELECT k + 1, -k FROM t WHERE k IN (1, 2)', 'SELECT xmin = xmin FROM t WHERE k IN (1, 2)');
-- A dropped column before the key, a column added with a default, a toasted column
CREATE TABLE altered (gone int, k int8, wide text) WITH (autovacuum_enabled = off);
INSERT INTO altered SELECT 1, i % 500, repeat(md5(i::text), 1000) FROM generate_series(1, 1000) i;
ALTER TABLE altered ALTER wide SET STORAGE external, DROP gone, ADD added int DEFAULT 42;
UPDATE altered SET wide = wide || '.' WHERE k < 100;
CREATE INDEX ON altered USING harmonia (k);
SELECT * FROM compare_lookups('SELECT * FROM altered WHERE k IN (1, 99, 499)', 'SELECT added, k FROM altered WHERE k IN (1, 2, 400)', 'SELECT k FROM altered WHERE k IN (1, 2, 400)',
	'SELECT length(wide), count(*) FROM altered WHERE k < 5 OR k > 495 GROUP BY 1');

-- Expressions, conditions, domains, materialised views, temporary and unlogged tables
CREATE DOMAIN positive AS int CHECK (VALUE > 0);
CREATE TABLE d (k positive, v int);
INSERT INTO d SELECT i % 500 + 1, i FROM generate_series(1, 2000) i;
CREATE INDEX d_k ON d USING harmonia (k);
CREATE INDEX d_half ON d USING harmonia ((v / 2));
CREATE INDEX d_part ON d USING harmonia (v) WHERE v % 2 = 0;
CREATE MATERIALIZED VIEW mv AS SELECT k, id FROM t WHERE k < 1000;
CREATE INDEX ON mv USING harmonia (k);
CREATE TEMP TABLE tmp AS SELECT k, id FROM t WHERE k < 1000;
CREATE INDEX ON tmp USING harmonia (k);
CREATE UNLOGGED TABLE ul AS SELECT k, id FROM t WHERE k < 1000;
CREATE INDEX ON ul USING harmonia (k);
CREATE TABLE empty (k int);
CREATE INDEX ON empty USING harmonia (k);
:vacuum ANALYZE d, mv, tmp, ul, empty;
SELECT * FROM compare_lookups(
	'SELECT * FROM d WHERE k IN (1, 2, 3)', 'SELECT k FROM d WHERE k = ANY (''{4,5}''::positive[])', 'SELECT k FROM d WHERE k IN (1::positive, 7::positive)',
	'SELECT * FROM d WHERE v / 2 IN (1, 2, 3)', 'SELECT v / 2 FROM d WHERE v / 2 < 10 OR v / 2 > 900',
	'SELECT * FROM d WHERE v IN (1, 2, 3, 4) AND v % 2 = 0', 'SELECT v FROM d WHERE v IN (1, 2, 3, 4) AND v % 2 = 0', 'SELECT v FROM d WHERE v IN (1, 2, 3, 4)',
	'SELECT * FROM mv WHERE k IN (1, 2, 3)', 'SELECT k FROM tmp WHERE k IN (1, 2, 3)', 'SELECT * FROM tmp WHERE k IN (1, 2, 3)', 'SELECT k FROM ul WHERE k IN (1, 2, 3)',
	'SELECT * FROM empty WHERE k IN (1, 2, 3)', 'SELECT count(*) FROM empty WHERE k IN (1, 2, 3)');

-- Partitions, inheritance and UNION ALL
CREATE TABLE p (k int, id int) PARTITION BY RANGE (k);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (3000);
CREATE TABLE p2 (id int, k int);
ALTER TABLE p ATTACH PARTITION p2 FOR VALUES FROM (3000) TO (100000);
CREATE INDEX ON p USING harmonia (k);
INSERT INTO p SELECT k, id FROM t WHERE k >= 0 AND k < 100000;
CREATE TABLE child (extra int) INHERITS (c);
INSERT INTO child SELECT i, i, i FROM generate_series(1, 500) i;
CREATE INDEX ON child USING harmonia (k);
:vacuum ANALYZE p, c, child;
SELECT * FROM compare_lookups(
	'SELECT * FROM p WHERE k IN (1, 2999, 3000, 77777)', 'SELECT k FROM p WHERE k IN (1, 2999, 3000)', 'SELECT tableoid, k FROM p WHERE k < 2 OR k BETWEEN 2998 AND 3001',
	'SELECT * FROM p WHERE k = ANY (ARRAY(SELECT generate_series(1, 5000, 3)))', 'SELECT * FROM c WHERE k IN (1, 499, 500, 501)',
	'SELECT * FROM (SELECT k, id FROM t UNION ALL SELECT k, id FROM p UNION ALL SELECT id, k FROM u) s WHERE k IN (1, 2, 3)');
BEGIN;
CALL use_lookups(true);
UPDATE p SET k = k + 2998 WHERE k IN (1, 2, 3);
SELECT count(*), sum(id), tableoid::regclass FROM p WHERE k IN (1, 2, 3, 2999, 3000, 3001) GROUP BY tableoid ORDER BY 3;
DELETE FROM c WHERE k IN (499, 500, 501) RETURNING tableoid::regclass, *;
ROLLBACK;

--
-- Rights, row security and security barriers
--
CREATE FUNCTION leak(v text) RETURNS boolean COST 0.0001 LANGUAGE plpgsql AS
	'BEGIN RAISE NOTICE ''%'', v; RETURN true; END';
CREATE TABLE secret (k int, owner text, v text);
INSERT INTO secret SELECT i / 2, CASE i % 2 WHEN 0 THEN 'regress_lookup_user' ELSE 'other' END, i FROM generate_series(1, 1000) i;
CREATE INDEX ON secret USING harmonia (k);
ANALYZE secret;
CREATE VIEW barrier WITH (security_barrier) AS SELECT * FROM secret WHERE owner = 'regress_lookup_user';
CREATE VIEW keys_only WITH (security_barrier) AS SELECT k, v FROM secret WHERE k IN (5, 6, 7);
CREATE ROLE regress_lookup_user;
GRANT USAGE ON SCHEMA lookup_scan TO regress_lookup_user;
GRANT ALL ON ALL TABLES IN SCHEMA lookup_scan TO regress_lookup_user;
ALTER TABLE secret ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON secret USING (owner = current_user);
SET client_min_messages = notice;
BEGIN;
CALL use_lookups(false);
SET LOCAL client_min_messages = notice;
SELECT * FROM plan('SELECT * FROM barrier WHERE k IN (1, 2, 3) AND leak(v)');
SELECT * FROM barrier WHERE k IN (1, 2, 3) AND leak(v);
SELECT * FROM keys_only WHERE leak(v);
SET LOCAL ROLE regress_lookup_user;
SELECT * FROM plan('SELECT * FROM secret WHERE k IN (1, 2, 3) AND leak(v)');
SELECT * FROM secret WHERE k IN (1, 2, 3) AND leak(v);
DELETE FROM secret WHERE k IN (1, 2, 3) AND leak(v) RETURNING *;
ROLLBACK;
-- The right to read the key's column is enough for the key, and is needed
REVOKE ALL ON secret, t FROM regress_lookup_user;
GRANT SELECT (k) ON t TO regress_lookup_user;
BEGIN;
CALL use_lookups(true);
SET LOCAL ROLE regress_lookup_user;
SELECT count(k) FROM t WHERE k IN (1, 2, 3);
SELECT id FROM t WHERE k IN (1, 2, 3);
ROLLBACK;

--
-- A query ends before its last row
--
-- A function in the target list fails, a timeout expires, a LIMIT is reached. VACUUM
-- does not have to wait.
CREATE FUNCTION fail_at(i int, at int) RETURNS int LANGUAGE plpgsql AS
	'BEGIN IF i = at THEN RAISE ''failed''; END IF; RETURN i; END';
BEGIN;
CALL use_lookups(true);
SAVEPOINT a;
SELECT sum(fail_at(k, 5000)) FROM t WHERE k = ANY (ARRAY(SELECT generate_series(0, 9999)));
ROLLBACK TO a;
SELECT count(fail_at(k, -5)) FROM t WHERE k = ANY (ARRAY(SELECT generate_series(0, 4999)));
SET LOCAL statement_timeout = '200ms';
SELECT pg_sleep(100) FROM t WHERE k = ANY (ARRAY(SELECT generate_series(0, 9999)));
ROLLBACK TO a;
SET LOCAL statement_timeout = 0;
SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'page';
SELECT k / 100000 FROM t WHERE k IN (1, 2, 3) LIMIT 1;
COMMIT;
:vacuum t;
SELECT verify('t_k');

-- With little memory the keys of a large array are divided again and again. A timeout
-- expires meanwhile.
BEGIN;
CREATE TEMP TABLE arrays ON COMMIT DROP AS SELECT array_agg(shuffle(i) % 1000000) AS keys FROM generate_series(1, 500000) i;
CALL use_lookups(true);
SET LOCAL work_mem = '64kB';
SET LOCAL harmonia.enable_lookup_aggregate = on;
SELECT * FROM plan('SELECT count(*) FROM t WHERE k = ANY ((SELECT keys FROM arrays)::int[])');
SAVEPOINT a;
SET LOCAL statement_timeout = '300ms';
\set VERBOSITY terse
DO 'BEGIN
	LOOP
		PERFORM count(*) FROM t WHERE k = ANY ((SELECT keys FROM arrays)::int[]);
	END LOOP;
END';
\set VERBOSITY default
ROLLBACK TO a;
SELECT count(*) FROM t WHERE k = ANY ((SELECT keys FROM arrays)::int[]);
CALL use_lookups(false);
SELECT count(*) FROM t WHERE k IN (SELECT unnest(keys) FROM arrays);
COMMIT;

--
-- Parallel plans: the scan in each worker, and nodes above it
--
ALTER TABLE t SET (parallel_workers = 2);
SET max_parallel_workers_per_gather = 2;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET :force_parallel = on;
SELECT * FROM compare_lookups(
	'SELECT count(*), sum(id) FROM t WHERE k IN (1, 2, 3, 77777)', 'SELECT count(k) FROM t WHERE k = ANY (ARRAY(SELECT generate_series(1, 3000, 2)))',
	'SELECT * FROM p WHERE k IN (1, 2999, 3000)', 'SELECT k, count(*) FROM t WHERE k < 10 OR k > 9990 GROUP BY k',
	'SELECT * FROM t WHERE k = ANY (stable_array(10))');
BEGIN;
CALL use_lookups(true);
SET LOCAL harmonia.enable_lookup_aggregate = on;
SELECT * FROM plan('SELECT count(k) FROM t WHERE k IN (1, 2, 3)');
SELECT count(k) FROM t WHERE k IN (1, 2, 3);
-- Of a node that runs in a worker, but not as a part of a parallel scan, counts are not known.
ALTER TABLE t SET (parallel_workers = 0);
SELECT * FROM explained('SELECT * FROM t WHERE k IN (1, 2, 3)');
SELECT * FROM explained('SELECT count(k) FROM t WHERE k IN (1, 2, 3)');
SELECT node -> 'Lookups' AS lookups, node -> 'Keys' AS keys
	FROM (SELECT jsonb_path_query(string_agg(line, '')::jsonb, 'strict $.** ? (@."Custom Plan Provider" == "HarmoniaLookupScan")')
		FROM explained('SELECT * FROM t WHERE k IN (1, 2, 3)', 'FORMAT JSON') line) n (node);
ROLLBACK;
RESET :force_parallel;

-- A role that may not call the aggregate is refused
BEGIN;
CALL use_lookups(true);
SET LOCAL harmonia.enable_lookup_aggregate = on;
GRANT USAGE ON SCHEMA lookup_scan TO regress_lookup_user;
GRANT SELECT ON t TO regress_lookup_user;
REVOKE EXECUTE ON FUNCTION pg_catalog.count() FROM PUBLIC;
SET LOCAL ROLE regress_lookup_user;
SELECT count(k) FROM t WHERE k IN (1, 2, 3);
SELECT count(*) FROM t WHERE k IN (1, 2, 3);
ROLLBACK;

RESET client_min_messages;
DROP OWNED BY regress_lookup_user;
DROP ROLE regress_lookup_user;
SET client_min_messages = warning;
DROP SCHEMA lookup_scan CASCADE;
