--
-- Indexes of several columns
--
SET client_min_messages = warning;
SET jit = off;
CREATE SCHEMA columns;
SET search_path = columns, public;
\getenv srcdir PG_ABS_SRCDIR
\set compare :srcdir '/sql/include/compare.sql'
\i :compare

-- Run a query by a sequential scan, a plain scan, an index-only scan where there is one, and a bitmap
-- scan. Says how many rows it has, and whether the plans used the index, and had the same answers.
CREATE FUNCTION answers(tab regclass, VARIADIC conditions text[])
	RETURNS TABLE (condition text, n bigint, index text, "only" text, bitmap text) LANGUAGE plpgsql
AS $$
DECLARE
	query text;
	wanted record;
BEGIN
	PERFORM set_config('harmonia.enable_lookup_scan', 'off', true);
	FOREACH condition IN ARRAY conditions LOOP
		query := format('SELECT * FROM %s WHERE %s', tab, condition);
		CALL use('seq');
		wanted := digest(query, false);
		n := wanted.n;
		index := compare_scan('index', query, false, wanted);
		"only" := compare_scan('only', query, false, wanted);
		bitmap := compare_scan('bitmap', query, false, wanted);
		RETURN NEXT;
	END LOOP;
END $$;

--
-- Keys that are hashed in part: two bigints have more than 64 bits
--
CREATE TABLE tenants (tenant bigint, id bigint, v int) WITH (autovacuum_enabled = off);
INSERT INTO tenants SELECT i % 40, i, i FROM generate_series(1, 20000) i;
INSERT INTO tenants SELECT t, i, 0 FROM
	unnest('{-9223372036854775808,-4294967297,-4294967296,-1,0,1,4294967295,4294967296,9223372036854775807,NULL}'::bigint[]) t,
	unnest('{-9223372036854775808,-4294967297,-4294967296,-1,0,1,4294967295,4294967296,9223372036854775807,NULL}'::bigint[]) i;
CREATE INDEX tenants_key ON tenants USING harmonia (tenant, id);
:vacuum ANALYZE tenants;
SELECT harmonia_check('tenants_key', true);
SELECT * FROM answers('tenants',
	'tenant = 7 AND id = 47',
	'tenant = 7 AND id = 48',
	'tenant = 7',
	'tenant = 7 AND id BETWEEN 1000 AND 2000',
	'tenant = 7 AND id > 1000',
	'tenant = 7 AND id IN (47, 87, 88, 4294967296, NULL)',
	'tenant IN (6, 7) AND id IN (46, 47)',
	'tenant IN (6, 7) AND id BETWEEN 40 AND 50',
	'tenant BETWEEN 5 AND 7 AND id = 47',
	'tenant BETWEEN 5 AND 7 AND id BETWEEN 40 AND 50',
	'tenant BETWEEN -4294967297 AND 2 AND id < 0',
	'tenant BETWEEN 4294967295 AND 4294967296',
	'tenant > 39',
	'tenant >= -1 AND tenant < 1 AND id = 0',
	'tenant = -4294967297 AND id = 9223372036854775807',
	'tenant IS NULL',
	'tenant IS NULL AND id = 1',
	'tenant IS NULL AND id IS NULL',
	'tenant IS NULL AND id IS NOT NULL',
	'tenant = 1 AND id IS NULL',
	'tenant = 1 AND id IS NOT NULL AND v = 0',
	'id = 47',
	'id IS NULL',
	'tenant = 7 AND id BETWEEN 48 AND 47',
	'tenant = 7 AND id = 47 AND id IN (48, 49)',
	'tenant = 7::smallint AND id = 47::int',
	'tenant = 7 AND id < ANY (ARRAY[30, 90])');

-- Tenants' ids are neighbours, and most leaves store them in few bits
CREATE TABLE few AS SELECT i % 2 AS tenant, i::bigint AS id FROM generate_series(1, 20000) i;
CREATE INDEX few_key ON few USING harmonia (tenant, id);
SELECT count(*) FILTER (WHERE key_bits = 16) > count(*) / 2 AS most FROM harmonia_segments('few_key') s,
	harmonia_leaves('few_key', s.block);

--
-- Keys that fit, with a bit for NULL: rows need no recheck
--
CREATE TABLE narrow (flag boolean, n smallint, c "char", d date) WITH (autovacuum_enabled = off);
INSERT INTO narrow SELECT CASE WHEN i % 5 > 0 THEN i % 5 > 2 END, CASE WHEN i % 7 > 0 THEN i % 300 - 150 END,
	CASE WHEN i % 11 > 0 THEN chr(40 + i % 60)::"char" END, CASE WHEN i % 13 > 0 THEN date '2024-01-01' + i % 200 END
	FROM generate_series(1, 5000) i;
INSERT INTO narrow SELECT f, n, c, d FROM unnest('{f,t,NULL}'::boolean[]) f, unnest('{-32768,-1,0,32767,NULL}'::smallint[]) n,
	unnest('{"",A,NULL}'::"char"[]) c, unnest('{-infinity,2024-01-01,infinity,NULL}'::date[]) d;
CREATE INDEX narrow_key ON narrow USING harmonia (flag, n DESC, c NULLS FIRST, d);
:vacuum ANALYZE narrow;
SELECT harmonia_check('narrow_key', true);
SELECT * FROM answers('narrow',
	'flag AND n = 5 AND c = ''A'' AND d = ''2024-03-01''',
	'flag AND n = -1',
	'NOT flag AND n BETWEEN -10 AND 5',
	'flag AND n > 100 AND c = ''C''',
	'flag AND n IN (-32768, 32767) AND c IS NULL AND d >= ''2024-01-01''',
	'flag IS NULL',
	'flag IS NULL AND n IS NULL AND c IS NULL AND d IS NULL',
	'flag IS NOT NULL AND n = 0',
	'n = 0 AND d = ''infinity''',
	'd = timestamp ''2024-03-01 00:00''',
	'flag AND n = 40000',
	'flag AND n = 0 AND c < ''B''',
	'flag AND n = 0 AND c IS NOT NULL');

--
-- Keys that fit, without a bit for NULL: it shares the field of one value
--
CREATE TABLE pairs (a bigint, b bigint) WITH (autovacuum_enabled = off);
INSERT INTO pairs SELECT i % 50, i FROM generate_series(1, 3000) i;
INSERT INTO pairs SELECT a, b FROM unnest('{-9223372036854775808,2177342782468422677,9223372036854775807,NULL}'::bigint[]) a, unnest('{-9223372036854775808,2177342782468422677,9223372036854775807,NULL}'::bigint[]) b;
CREATE INDEX pairs_key ON pairs USING harmonia (a, b);
:vacuum ANALYZE pairs;
SELECT harmonia_check('pairs_key', true);
SELECT * FROM answers('pairs',
	'a = 2177342782468422677',
	'a = 2177342782468422677 AND b = 2177342782468422677',
	'a IS NULL',
	'a IS NULL AND b IS NULL',
	'a = 7 AND b > 2000',
	'a < 3 AND b = 52',
	'a >= 2177342782468422677 AND a < 9223372036854775807 AND b IS NOT NULL',
	'b = 2177342782468422677');
-- Pages that are not all-visible, and rows that are gone or not there yet
BEGIN;
UPDATE pairs SET b = b # 1 WHERE a = 2177342782468422677 OR b % 7 = 0;
DELETE FROM pairs WHERE a IS NULL AND b IS NULL;
SELECT * FROM answers('pairs', 'a = 2177342782468422677', 'a IS NULL', 'a = 7 AND b > 2000', 'a > 100');
ROLLBACK;
SELECT * FROM answers('pairs', 'a = 2177342782468422677', 'a IS NULL');
-- An expression is not returned, but its column is.
CREATE TABLE sums (a bigint) WITH (autovacuum_enabled = off);
INSERT INTO sums SELECT nullif(i % 100, 13) FROM generate_series(1, 2000) i;
INSERT INTO sums VALUES (2177342782468422677), (2177342782468422678);
CREATE INDEX sums_key ON sums USING harmonia ((a + 0), a);
VACUUM ANALYZE sums;
SELECT * FROM answers('sums', 'a + 0 = 2177342782468422677', 'a + 0 = 2177342782468422678', 'a + 0 IS NULL', 'a + 0 IN (7, 13, 14)');
-- What each index can return
SELECT c.relname, string_agg(pg_index_column_has_property(c.oid, n, 'returnable')::text, ', ' ORDER BY n)
	FROM pg_class c, generate_series(1, c.relnatts) n WHERE relname ~ '_key$' AND relkind = 'i' GROUP BY c.relname ORDER BY c.relname;

--
-- Types that are not exact, and have no order
--
CREATE TABLE texts (word text, code uuid, price numeric, n int) WITH (autovacuum_enabled = off);
INSERT INTO texts SELECT CASE WHEN i % 17 > 0 THEN 'word ' || i % 50 END,
	CASE WHEN i % 19 > 0 THEN lpad(to_hex(i % 500), 32, '0')::uuid END, i % 30 / 4.0, i % 100 FROM generate_series(1, 5000) i;
INSERT INTO texts VALUES ('', NULL, 'NaN', -2147483648), ('', NULL, 0.50, 2147483647), (NULL, NULL, NULL, NULL);
CREATE INDEX texts_key ON texts USING harmonia (word, code, price, n);
VACUUM ANALYZE texts;
SELECT harmonia_check('texts_key', true);
SELECT * FROM answers('texts',
	'word = ''word 3''',
	'word = ''word 3'' AND code = ''00000000-0000-0000-0000-000000000067'' AND price = 3.250 AND n = 3',
	'word = ''word 3'' AND code = ''00000000-0000-0000-0000-000000000067'' AND price = 3.2 AND n = 3',
	'word = ''word 3'' AND n BETWEEN 3 AND 10',
	'word = '''' AND price = 0.5',
	'word IN (''word 3'', ''word 4'') AND price IN (0.75, 1.00, ''NaN'')',
	'word IS NULL AND code IS NULL',
	'word = ''word 3''::name AND n = 53');

--
-- NULL shares its value with a key, so plans sort unless conditions exclude NULLs
--
SET enable_seqscan = off;
SELECT * FROM plan('SELECT * FROM tenants WHERE tenant = 3 ORDER BY id LIMIT 3');
SELECT * FROM plan('SELECT min(tenant) FROM tenants');
SELECT * FROM plan('SELECT count(*) FROM tenants WHERE tenant = 3 AND id = 43');
SELECT * FROM plan('SELECT n FROM narrow WHERE flag IS NULL AND n = 3 AND d > ''2024-01-01''');
SELECT * FROM plan('SELECT a, b FROM pairs WHERE a = 3 AND b > 7 ORDER BY b');
SELECT * FROM plan('SELECT tenant FROM tenants WHERE tenant = 3');
-- Forward and backward
BEGIN;
CALL use('only');
DECLARE d SCROLL CURSOR FOR SELECT a, b FROM pairs WHERE a = 2177342782468422677;
MOVE FORWARD ALL IN d;
FETCH BACKWARD ALL IN d;
FETCH FORWARD ALL IN d;
COMMIT;
RESET enable_seqscan;
CLUSTER tenants USING tenants_key;

--
-- Changes
--
UPDATE tenants SET id = NULL WHERE tenant = 7 AND id % 3 = 0;
UPDATE tenants SET tenant = NULL WHERE tenant = 8;
DELETE FROM tenants WHERE tenant = 9;
INSERT INTO tenants SELECT i % 50, i % 1000, i FROM generate_series(1, 3000) i;
VACUUM tenants;
SELECT harmonia_check('tenants_key', true);
SELECT * FROM answers('tenants', 'tenant = 7 AND id IS NULL', 'tenant IS NULL', 'tenant = 9', 'tenant = 9 AND id = 59', 'tenant = 45');
REINDEX INDEX tenants_key;
SELECT harmonia_check('tenants_key', true);
SELECT * FROM answers('tenants', 'tenant = 7 AND id IS NULL', 'tenant = 9 AND id = 59');
-- The index is made again for columns of another type
ALTER TABLE tenants ALTER id TYPE int USING CASE WHEN id BETWEEN -2147483648 AND 2147483647 THEN id::int END;
SELECT harmonia_check('tenants_key', true);
SELECT * FROM answers('tenants', 'tenant = 7 AND id = 47', 'tenant = 7 AND id = 4294967296', 'tenant = 7 AND id > 2147483646');
DELETE FROM tenants WHERE tenant IS NULL;
ALTER TABLE tenants ALTER tenant SET NOT NULL;
SELECT * FROM answers('tenants', 'tenant = 7 AND id = 47', 'id IS NULL');

--
-- Expressions, predicates, partitions, temporary and unlogged tables
--
CREATE INDEX ON texts USING harmonia (lower(word), (n / 10), price) WHERE n > 50;
ANALYZE texts;
SELECT harmonia_check('texts_lower_expr_price_idx', true);
DROP INDEX texts_key;
SELECT * FROM answers('texts', 'lower(word) = ''word 3'' AND n > 50', 'lower(word) = ''word 3'' AND n / 10 = 5 AND n > 60',
	'lower(word) = ''word 3'' AND n / 10 = 5 AND price = 3.25 AND n > 50');
CREATE TABLE parts (a int, b timestamptz, c text) PARTITION BY LIST (a);
CREATE INDEX parts_key ON parts USING harmonia (a, b);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES IN (1);
CREATE TABLE parts_rest (c text, b timestamptz, a int);
ALTER TABLE parts ATTACH PARTITION parts_rest DEFAULT;
INSERT INTO parts SELECT i % 4, timestamptz '2024-01-01' + i * interval '1 minute', i FROM generate_series(1, 3000) i;
ANALYZE parts;
SELECT harmonia_check('parts_1_a_b_idx', true), harmonia_check('parts_rest_a_b_idx', true);
SELECT * FROM answers('parts', 'a = 1 AND b = ''2024-01-01 00:05''', 'a IN (1, 2) AND b BETWEEN ''2024-01-01 00:05'' AND ''2024-01-01 01:00''');
CREATE TEMPORARY TABLE temporary AS SELECT i % 10 AS a, i AS b FROM generate_series(1, 1000) i;
CREATE INDEX ON temporary USING harmonia (a, b);
CREATE UNLOGGED TABLE unlogged AS SELECT i % 10 AS a, i AS b FROM generate_series(1, 1000) i;
CREATE INDEX ON unlogged USING harmonia (b, a);
SELECT * FROM answers('temporary', 'a = 3 AND b = 13');
SELECT * FROM answers('unlogged', 'b = 13 AND a = 3');

--
-- A scan that begins with many rows of one key, of which a condition passes few or none
--
CREATE TABLE filtered (a int, b int, id int) WITH (autovacuum_enabled = off);
INSERT INTO filtered SELECT 1, 5, i FROM generate_series(1, 200) i;
INSERT INTO filtered SELECT 1 + i % 3, 5 + i % 7, i FROM generate_series(201, 500) i;
CREATE INDEX filtered_key ON filtered USING harmonia (a, b);
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET harmonia.enable_lookup_scan = off;
EXPLAIN (COSTS OFF) SELECT id FROM filtered WHERE a >= 1 AND b = 6 ORDER BY a LIMIT 1;
SELECT id FROM filtered WHERE a >= 1 AND b = 6 ORDER BY a LIMIT 1;
SELECT count(*), min(id), count(DISTINCT id) FROM filtered WHERE a >= 1 AND b = 5;
SELECT count(*) FROM filtered WHERE a >= 1 AND b = 12;
RESET enable_seqscan;
RESET enable_bitmapscan;
RESET harmonia.enable_lookup_scan;

--
-- At most eight columns; a domain, an enum, and all other types
--
CREATE TYPE mood AS ENUM ('sad', 'happy');
CREATE DOMAIN percent AS int CHECK (value BETWEEN 0 AND 100);
CREATE TABLE eight (a mood, b percent, c varchar(10), d bytea, e inet, f interval, g timetz, h macaddr, i int);
CREATE INDEX eight_key ON eight USING harmonia (a, b, c, d, e, f, g, h);
INSERT INTO eight SELECT CASE WHEN i % 3 > 0 THEN 'sad' ELSE 'happy' END::mood, i % 100, i % 5, int4send(i % 7), inet '10.0.0.0' + i % 11,
	i % 13 * interval '1 day', timetz '10:00+00' + i % 17 * interval '1 minute', '08:00:2b:01:02:03', i FROM generate_series(1, 2000) i;
ANALYZE eight;
SELECT harmonia_check('eight_key', true);
SELECT * FROM answers('eight', 'a = ''sad'' AND b = 7',
	'a = ''sad'' AND b = 7 AND c = ''2'' AND d = int4send(2) AND e = ''10.0.0.8'' AND f = ''9 days'' AND g = ''12:05+02'' AND h = ''08:00:2b:01:02:03''',
	'h = ''08:00:2b:01:02:03'' AND c = ''2'' AND a = ''happy''');
CREATE INDEX ON eight USING harmonia (a, b, c, d, e, f, g, h, i);
CREATE INDEX ON texts USING harmonia (n, word COLLATE "C");
SELECT pg_get_indexdef('narrow_key'::regclass);

-- What inspection shows of composite keys: no values
SELECT count(*) > 0 AS items, count(value) AS values FROM harmonia_segments('narrow_key') s,
	harmonia_leaves('narrow_key', s.block) l, harmonia_leaf_items('narrow_key', l.block);

DROP SCHEMA columns CASCADE;
