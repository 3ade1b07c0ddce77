--
-- The order of indexes on several columns
--
SET client_min_messages = warning;
SET jit = off;
CREATE SCHEMA order_columns;
SET search_path = order_columns, public;
\getenv srcdir PG_ABS_SRCDIR
\set compare :srcdir '/sql/include/compare.sql'
\i :compare

-- Create an index, and say for each ORDER BY whether plans need a sort beside it, and have the answer of a
-- sequential scan and a sort: of all rows, and of a few.
CREATE FUNCTION in_order(tab regclass, columns text, VARIADIC orders text[])
	RETURNS TABLE ("order" text, result text, plan text) LANGUAGE plpgsql
AS $$
DECLARE
	query text;
BEGIN
	EXECUTE format('CREATE INDEX tried ON %s USING harmonia %s', tab, columns);
	FOREACH "order" IN ARRAY orders LOOP
		query := format('SELECT %s FROM %s ORDER BY %s', regexp_replace("order", ' (DESC|NULLS FIRST|NULLS LAST)', '', 'g'), tab, "order");
		SELECT string_agg(DISTINCT q.result, ', '), string_agg(DISTINCT q.plan, '; ') INTO result, plan
			FROM compare_queries(query, query || ' OFFSET 3 LIMIT 40') q;
		RETURN NEXT;
	END LOOP;
	DROP INDEX tried;
END $$;

--
-- Whole fields: NULL has a value of its own, above all keys
--
CREATE TABLE whole (a int, b bigint) WITH (autovacuum_enabled = off);
INSERT INTO whole SELECT nullif(shuffle(i) % 20, 7), nullif(shuffle(i * 3) % 100, 50) FROM generate_series(1, 3000) i;
INSERT INTO whole SELECT a, b FROM unnest('{-2147483648,-11895787,-1,2147483647,NULL}'::int[]) a,
	unnest('{-9223372036854775808,2177342782468422677,-1,9223372036854775807,NULL}'::bigint[]) b;
VACUUM ANALYZE whole;
SELECT * FROM in_order('whole', '(a, b)', 'a, b', 'a DESC, b DESC', 'a', 'a DESC',
	'a NULLS FIRST, b NULLS FIRST', 'a, b DESC', 'b, a');
SELECT * FROM in_order('whole', '(a DESC, b DESC)', 'a, b', 'a DESC, b DESC');
-- Each column has its direction, and its side for NULLs; sql/order_options.sql tries all
SELECT * FROM in_order('whole', '(a NULLS FIRST, b NULLS FIRST)', 'a NULLS FIRST, b NULLS FIRST', 'a DESC NULLS LAST, b DESC NULLS LAST');
SELECT * FROM in_order('whole', '(a, b NULLS FIRST)', 'a, b NULLS FIRST');
SELECT * FROM in_order('whole', '(a DESC NULLS LAST, b DESC NULLS LAST)', 'a DESC NULLS LAST, b DESC NULLS LAST');
SELECT * FROM in_order('whole', '(a, b DESC)', 'a, b DESC', 'a DESC, b', 'a', 'a, b', 'a, b DESC NULLS LAST');
SELECT * FROM in_order('whole', '(a DESC, b)', 'a DESC, b');

CREATE TABLE small (a smallint, b "char", c bool);
INSERT INTO small SELECT nullif(shuffle(i) % 50 - 25, 7), nullif(chr(40 + shuffle(i * 3) % 60), 'A')::"char", nullif(shuffle(i * 5) % 3, 2)::bool FROM generate_series(1, 2000) i;
INSERT INTO small SELECT a, b, c FROM unnest('{-32768,0,32767,NULL}'::smallint[]) a, unnest('{"",A,NULL}'::"char"[]) b, unnest('{false,true,NULL}'::bool[]) c;
ANALYZE small;
SELECT * FROM in_order('small', '(a, b, c)', 'a, b, c', 'a DESC, b DESC, c DESC', 'a, b');
SELECT * FROM in_order('small', '(c DESC, b DESC, a DESC)', 'c, b, a', 'c DESC, b DESC, a DESC', 'c NULLS FIRST, b, a');

--
-- Columns that have a bit for NULL in wider keys alone, and types that have room for it in their keys
--
CREATE TABLE pairs (a int, b int, c smallint, d date, e date, at timestamptz, t time, f float8, r real, k bigint) WITH (autovacuum_enabled = off);
INSERT INTO pairs SELECT
	CASE i % 19 WHEN 1 THEN -2147483648 WHEN 2 THEN -2147483647 WHEN 3 THEN 2147483647 ELSE nullif(shuffle(i) % 7, 4) END, nullif(i % 11 - 3, 2), nullif(i % 13, 3),
	CASE i % 9 WHEN 0 THEN '-infinity' WHEN 1 THEN 'infinity' WHEN 2 THEN '4713-01-01 BC' WHEN 3 THEN NULL ELSE date '2026-01-01' + i % 4 END,
	CASE i % 7 WHEN 0 THEN '-infinity' WHEN 1 THEN 'infinity' WHEN 3 THEN NULL ELSE date '2026-01-01' + i % 6 END,
	CASE i % 8 WHEN 0 THEN '-infinity' WHEN 1 THEN 'infinity' WHEN 2 THEN '4713-01-01 00:00Z BC' WHEN 3 THEN NULL ELSE timestamptz '2026-01-01Z' + i % 5 * interval '1 day' END,
	CASE i % 5 WHEN 0 THEN '00:00' WHEN 1 THEN '24:00' WHEN 3 THEN NULL ELSE time '01:00' + i % 6 * interval '1 hour' END,
	CASE i % 10 WHEN 0 THEN float8 '-infinity' WHEN 1 THEN 'infinity' WHEN 2 THEN 'NaN' WHEN 3 THEN NULL ELSE i % 6 - 2 END,
	CASE i % 12 WHEN 0 THEN real '-infinity' WHEN 1 THEN 'infinity' WHEN 2 THEN 'NaN' WHEN 3 THEN NULL ELSE i % 6 - 2 END, nullif(shuffle(i * 7) % 20, 3)
	FROM generate_series(1, 3000) i;
VACUUM ANALYZE pairs;
SELECT * FROM in_order('pairs', '(a, b)', 'a, b', 'a DESC, b DESC', 'a');
SELECT * FROM in_order('pairs', '(a DESC, b NULLS FIRST)', 'a DESC, b NULLS FIRST', 'a, b DESC NULLS LAST');
SELECT * FROM in_order('pairs', '(a, c, c)', 'a, c', 'a DESC, c DESC');
SELECT * FROM in_order('pairs', '(a, d)', 'a, d');
SELECT * FROM in_order('pairs', '(a) INCLUDE (b)', 'a', 'a DESC');
SELECT * FROM in_order('pairs', '(a NULLS FIRST, b) INCLUDE (a)', 'a NULLS FIRST, b', 'a DESC NULLS LAST, b DESC');
SELECT * FROM in_order('pairs', '(d, e)', 'd, e', 'd DESC, e DESC', 'd');
SELECT * FROM in_order('pairs', '(d DESC, e)', 'd DESC, e', 'd, e DESC');
SELECT * FROM in_order('pairs', '(d NULLS FIRST, e DESC NULLS LAST)', 'd NULLS FIRST, e DESC NULLS LAST', 'd DESC NULLS LAST, e NULLS FIRST');
SELECT * FROM in_order('pairs', '(at, t)', 'at, t', 'at DESC, t DESC');
SELECT * FROM in_order('pairs', '(at DESC NULLS LAST, f NULLS FIRST)', 'at DESC NULLS LAST, f NULLS FIRST', 'at NULLS FIRST, f DESC NULLS LAST');
SELECT * FROM in_order('pairs', '(f, at DESC)', 'f, at DESC', 'f DESC, at');
SELECT * FROM in_order('pairs', '(r, e, f)', 'r, e, f', 'r DESC, e DESC, f DESC');
SELECT * FROM in_order('pairs', '(k, at)', 'k, at');
CREATE INDEX pairs_k_at ON pairs USING harmonia (k, at);
CREATE INDEX pairs_d_e ON pairs USING harmonia (d DESC, e NULLS FIRST);
SELECT * FROM compare_queries(
	'SELECT at FROM pairs WHERE k = 5 ORDER BY at DESC LIMIT 9',
	'SELECT at FROM pairs WHERE k = 5 ORDER BY at',
	'SELECT k, at FROM pairs WHERE k = 5 AND at > ''-infinity'' ORDER BY at',
	'SELECT k, at FROM pairs WHERE k = 5 AND at <= ''-infinity''',
	'SELECT k, at FROM pairs WHERE k = 5 AND at IS NULL',
	'SELECT k, at FROM pairs WHERE k > 7 AND at >= ''infinity'' ORDER BY k, at',
	'SELECT d, e FROM pairs WHERE d > ''-infinity'' ORDER BY d DESC, e NULLS FIRST',
	'SELECT d, e FROM pairs WHERE d <= ''4713-01-01 BC'' ORDER BY d, e DESC NULLS LAST',
	'SELECT d, e FROM pairs WHERE d IS NULL AND e < ''infinity'' ORDER BY e NULLS FIRST',
	'SELECT d, e FROM pairs WHERE d = ''infinity'' AND e IS NOT NULL ORDER BY e NULLS FIRST',
	'SELECT min(d), max(d) FROM pairs',
	'SELECT d, min(e), count(*) FROM pairs GROUP BY d ORDER BY d DESC');

--
-- Fields that share NULL's value with a key: the columns have to be NOT NULL
--
CREATE TABLE ints (a bigint, b bigint) WITH (autovacuum_enabled = off);
INSERT INTO ints SELECT shuffle(i) % 20, shuffle(i * 3) % 1000 FROM generate_series(1, 3000) i;
INSERT INTO ints SELECT a, b FROM unnest('{-9223372036854775808,2177342782468422677,2177342782468422678,9223372036854775807}'::bigint[]) a, unnest('{-9223372036854775808,2177342782468422677,9223372036854775807}'::bigint[]) b;
ANALYZE ints;
CREATE TABLE bigints AS SELECT a::bigint << 32 AS a, b::bigint << 20 AS b FROM ints;
INSERT INTO bigints SELECT a, b FROM unnest('{-9223372036854775808,2177342782468422677,9223372036854775807}'::bigint[]) a,
	unnest('{-9223372036854775808,2177342782468422677,2177342782468422678,9223372036854775807}'::bigint[]) b;
ANALYZE bigints;
SELECT * FROM in_order('ints', '(a, b)', 'a, b');
SELECT * FROM in_order('bigints', '(a, b)', 'a, b');
ALTER TABLE ints ALTER a SET NOT NULL;
ALTER TABLE bigints ALTER b SET NOT NULL;
SELECT * FROM in_order('ints', '(a, b)', 'a, b', 'a');
SELECT * FROM in_order('bigints', '(a, b)', 'a, b');
ALTER TABLE ints ALTER b SET NOT NULL;
ALTER TABLE bigints ALTER a SET NOT NULL;
SELECT * FROM in_order('ints', '(a, b)', 'a, b', 'a DESC, b DESC');
SELECT * FROM in_order('bigints', '(a, b)', 'a, b', 'a DESC, b DESC');
-- Any NULLS FIRST or LAST will do, and any directions
SELECT * FROM in_order('ints', '(a NULLS FIRST, b)', 'a NULLS FIRST, b', 'a DESC NULLS LAST, b DESC', 'a, b');
SELECT * FROM in_order('bigints', '(a DESC, b DESC NULLS LAST)', 'a DESC, b DESC NULLS LAST', 'a, b NULLS FIRST');
SELECT * FROM in_order('ints', '(a, b DESC)', 'a, b DESC', 'a DESC NULLS LAST, b', 'a, b');
SELECT * FROM in_order('bigints', '(a DESC, b NULLS FIRST)', 'a DESC, b', 'a, b DESC', 'a, b');
-- Plans are made again when NULLs may come
CREATE INDEX ints_a_b ON ints USING harmonia (a, b);
PREPARE first_ints AS SELECT * FROM ints WHERE b < 5 ORDER BY a, b OFFSET 1 LIMIT 4;
SET plan_cache_mode = force_generic_plan;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET harmonia.enable_lookup_scan = off;
SELECT * FROM plan('EXECUTE first_ints');
EXECUTE first_ints;
ALTER TABLE ints ALTER a DROP NOT NULL;
INSERT INTO ints VALUES (NULL, 1), (NULL, -9223372036854775808);
SELECT * FROM plan('EXECUTE first_ints');
EXECUTE first_ints;
DELETE FROM ints WHERE a IS NULL;
ALTER TABLE ints ALTER a SET NOT NULL;
SELECT * FROM plan('EXECUTE first_ints');
RESET plan_cache_mode;
RESET enable_seqscan;
RESET enable_bitmapscan;
RESET harmonia.enable_lookup_scan;
DROP INDEX ints_a_b;
-- Of expressions nobody knows
SELECT * FROM in_order('ints', '((a / 2), b)', 'a / 2, b');
SELECT * FROM in_order('ints', '(((b % 100)::smallint), ((a % 10)::smallint))', '(b % 100)::smallint, (a % 10)::smallint', '(b % 100)::smallint DESC, (a % 10)::smallint DESC');

--
-- Cut fields, and types without order
--
CREATE TYPE mood AS ENUM ('happy', 'sad');
ALTER TYPE mood ADD VALUE 'angry' BEFORE 'happy';
CREATE TABLE cut (a smallint NOT NULL, b date NOT NULL, c smallint NOT NULL, d bigint NOT NULL, e uuid NOT NULL, f mood NOT NULL, g text NOT NULL, h timetz NOT NULL);
INSERT INTO cut SELECT shuffle(i) % 10, date '2000-01-01' + shuffle(i * 3) % 2000, i, shuffle(i * 5)::bigint << i % 20, md5(i::text)::uuid,
	(ARRAY['happy', 'sad', 'angry'])[1 + i % 3]::mood, i % 7, timetz '10:00+00' + i % 17 * interval '1 hour' FROM generate_series(1, 500) i;
ANALYZE cut;
SELECT * FROM in_order('cut', '(a, b)', 'a, b', 'a DESC, b DESC');
SELECT * FROM in_order('cut', '(a, b, c)', 'a, b, c');
SELECT * FROM in_order('cut', '(a, b, d)', 'a, b, d', 'a, b');
SELECT * FROM in_order('cut', '(d, h)', 'd, h', 'd DESC, h DESC');
SELECT * FROM in_order('cut', '(a, b, d, h)', 'a, b, d, h');
SELECT * FROM in_order('cut', '(e, a)', 'e, a');
SELECT * FROM in_order('cut', '(a, e)', 'a, e', 'a');
SELECT * FROM in_order('cut', '(a, f)', 'a, f');
SELECT * FROM in_order('cut', '(a, g)', 'a, g');
-- Included columns do not matter, but for the room that they take
SELECT * FROM in_order('cut', '(b) INCLUDE (d)', 'b', 'b DESC', 'b, d');
SELECT * FROM in_order('cut', '(a, b) INCLUDE (d)', 'a, b', 'a DESC, b DESC');
SELECT * FROM in_order('cut', '(a) INCLUDE (f, b)', 'a');
SELECT * FROM in_order('cut', '(e) INCLUDE (b)', 'e');
SELECT * FROM in_order('cut', '(a, e) INCLUDE (c)', 'a, e');
SELECT * FROM in_order('ints', '(b) INCLUDE (a)', 'b', 'b DESC');
SELECT * FROM in_order('whole', '(a DESC) INCLUDE (b)', 'a', 'a DESC', 'a DESC, b');
ALTER TABLE ints ALTER b DROP NOT NULL;
SELECT * FROM in_order('ints', '(b) INCLUDE (a)', 'b');
ALTER TABLE ints ALTER b SET NOT NULL;

--
-- NULLs that conditions exclude
--
CREATE TABLE maybe (a bigint, b bigint) WITH (autovacuum_enabled = off);
INSERT INTO maybe SELECT nullif(shuffle(i) % 20, 7), nullif(shuffle(i * 3) % 1000, 50) FROM generate_series(1, 3000) i;
INSERT INTO maybe SELECT a, b FROM unnest('{2177342782468422676,2177342782468422677,2177342782468422678,5,NULL}'::bigint[]) a, unnest('{2177342782468422676,2177342782468422677,2177342782468422678,5,NULL}'::bigint[]) b;
CREATE INDEX maybe_a_b ON maybe USING harmonia (a, b);
VACUUM ANALYZE maybe;
SELECT * FROM compare_queries(
	'SELECT a, b FROM maybe WHERE a > -11895790 AND b < 500 ORDER BY a, b',
	'SELECT a, b FROM maybe WHERE a > -11895790 AND b < 500 ORDER BY a DESC, b DESC LIMIT 50',
	'SELECT a, b FROM maybe WHERE a = 5 AND b > 2177342782468422677 ORDER BY b LIMIT 10',
	'SELECT a, b FROM maybe WHERE a IS NOT NULL AND b IS NOT NULL ORDER BY a, b',
	'SELECT a, b FROM maybe WHERE a + b < 10 ORDER BY a, b',
	'SELECT min(b), max(b) FROM maybe WHERE a = 5',
	'SELECT a, count(*) FROM (SELECT a, b FROM maybe WHERE a < 3) q WHERE b < 50 GROUP BY a ORDER BY a',
	-- These do not exclude all, or not where rows are read
	'SELECT a, b FROM maybe ORDER BY a, b',
	'SELECT a, b FROM maybe WHERE a = 5 ORDER BY b',
	'SELECT a, b FROM maybe WHERE a > 5 OR b > 5 ORDER BY a, b',
	'SELECT a, b FROM maybe WHERE a > 5 AND (b > 5 OR b IS NULL) ORDER BY a, b',
	'SELECT a, b FROM (SELECT a, b FROM maybe UNION ALL SELECT b, a FROM maybe WHERE false UNION ALL SELECT a, a FROM maybe) q WHERE b < 5 AND a > -11895790 ORDER BY a, b');
SET enable_hashjoin = off;
SET enable_nestloop = off;
SET harmonia.enable_lookup_join = off;
-- PostgreSQL 19 has more uses for it
SET enable_incremental_sort = off;
SELECT * FROM compare_queries(
	'SELECT x.a, x.b FROM maybe x JOIN maybe y ON x.a = y.a AND x.b = y.b ORDER BY x.a, x.b',
	'SELECT x.a, x.b FROM maybe x JOIN maybe y ON x.a = y.a AND x.b = y.b WHERE x.a < 7 AND x.b < 30 AND y.a < 7 AND y.b < 30 ORDER BY x.a, x.b',
	'SELECT x.a, x.b, y.b AS c FROM maybe x LEFT JOIN maybe y ON x.a = y.a AND x.b = y.b AND y.a < 9 AND y.b < 500 ORDER BY x.a, x.b, y.b',
	'SELECT x.a, x.b, y.b AS c FROM maybe x LEFT JOIN maybe y ON x.a = y.a AND x.b = y.b AND x.a < 9 AND x.b < 500 ORDER BY x.a, x.b, y.b',
	'SELECT x.a, x.b, y.b AS c FROM maybe x LEFT JOIN maybe y ON x.a = y.a AND x.b = y.b WHERE x.a < 9 AND y.b < 30 ORDER BY x.a, x.b',
	'SELECT x.a, x.b, y.b AS c FROM maybe x FULL JOIN (SELECT * FROM maybe WHERE a < 9 AND b < 30) y ON x.a = y.a AND x.b = y.b ORDER BY x.a, x.b, y.b');
RESET enable_incremental_sort;
DROP INDEX maybe_a_b;
CREATE INDEX ON ints (a, b);
CREATE INDEX maybe_part ON maybe USING harmonia (a, b) WHERE b IS NOT NULL AND a <> 4;
SELECT * FROM compare_queries(
	'SELECT a, b FROM maybe WHERE b IS NOT NULL AND a <> 4 ORDER BY a, b',
	'SELECT a, b FROM maybe WHERE b > 50 AND a <> 4 ORDER BY a DESC, b DESC LIMIT 100',
	'SELECT x.a, x.b, y.b AS c FROM ints x LEFT JOIN maybe y ON x.a = y.a AND x.b = y.b AND y.b IS NOT NULL AND y.a <> 4 ORDER BY x.a, x.b');
BEGIN;
CALL use('only');
SELECT * FROM plan('SELECT x.a, x.b, y.b AS c FROM ints x LEFT JOIN maybe y ON x.a = y.a AND x.b = y.b AND y.b IS NOT NULL AND y.a <> 4 ORDER BY x.a, x.b');
COMMIT;
DROP INDEX maybe_part;
RESET enable_hashjoin;
RESET enable_nestloop;
RESET harmonia.enable_lookup_join;
CREATE INDEX maybe_nulls ON maybe USING harmonia (a NULLS FIRST, b);
SELECT * FROM compare_queries(
	'SELECT a, b FROM maybe WHERE a < 10 AND b < 100 ORDER BY a NULLS FIRST, b',
	'SELECT a, b FROM maybe WHERE a < 10 ORDER BY a NULLS FIRST, b');
-- From 18 on, NOT NULL may be violated by rows that were there before
DO $$
BEGIN
	IF current_setting('server_version_num')::int >= 180000 THEN
		EXECUTE 'ALTER TABLE maybe ADD CONSTRAINT a_there NOT NULL a NOT VALID, ADD CONSTRAINT b_there NOT NULL b NOT VALID';
	END IF;
END $$;
SELECT * FROM in_order('maybe', '(a, b)', 'a, b');

--
-- What order is good for
--
CREATE TABLE tenants (tenant bigint NOT NULL, id bigint NOT NULL, flag bool, at timestamptz) WITH (autovacuum_enabled = off);
INSERT INTO tenants SELECT shuffle(i) % 40, i, nullif(i % 5, 4)::bool, timestamptz '2024-01-01Z' + shuffle(i * 7) % 1000 * interval '1 minute' FROM generate_series(1, 10000) i;
CREATE INDEX tenants_tenant_id ON tenants USING harmonia (tenant, id);
CREATE INDEX tenants_flag_at ON tenants USING harmonia (flag DESC, at DESC) WHERE tenant > 5;
VACUUM ANALYZE tenants;
-- One value of the first column, several, none
SELECT * FROM compare_queries(
	'SELECT tenant, id FROM tenants WHERE tenant = 5 ORDER BY id LIMIT 10',
	'SELECT tenant, id FROM tenants WHERE tenant = 5 ORDER BY id DESC LIMIT 10',
	'SELECT tenant, id FROM tenants WHERE tenant = 5 AND id BETWEEN 1000 AND 9000 ORDER BY id DESC',
	'SELECT tenant, id FROM tenants WHERE tenant IN (7, 3, 5, 3, NULL) ORDER BY tenant, id',
	'SELECT tenant, id FROM tenants WHERE tenant IN (7, 3, 5, 3, NULL) ORDER BY tenant DESC, id DESC',
	'SELECT tenant, id FROM tenants WHERE tenant BETWEEN 3 AND 7 AND id < 500 ORDER BY tenant, id',
	'SELECT tenant, id FROM tenants WHERE id % 3 = 0 ORDER BY tenant DESC, id DESC LIMIT 100',
	'SELECT tenant, id FROM tenants WHERE tenant = 99 ORDER BY id',
	'SELECT tenant, id, at FROM tenants WHERE tenant = 5 ORDER BY at, id',
	'SELECT tenant, at, id FROM tenants WHERE tenant < 7 ORDER BY tenant, at, id',
	'SELECT flag, at FROM tenants WHERE tenant > 5 ORDER BY flag, at LIMIT 100',
	'SELECT flag, at FROM tenants WHERE tenant > 5 AND flag = ANY (''{true,false,NULL}'') AND at > ''2024-01-01 05:00Z'' ORDER BY flag DESC, at DESC');
-- Arrays on any column: each row once. Up to 16, their index has no order for PostgreSQL
SELECT query, n, result FROM compare_queries(
	'SELECT tenant, id FROM tenants WHERE id IN (900, 50, 1, 900, 4000, NULL) ORDER BY tenant, id',
	'SELECT tenant, id FROM tenants WHERE id = ANY (ARRAY(SELECT i FROM generate_series(1, 3000) i)) ORDER BY tenant DESC, id DESC LIMIT 500',
	'SELECT tenant, id FROM tenants WHERE tenant IN (5, 3, 9) AND id = ANY (ARRAY(SELECT i FROM generate_series(1, 3000) i)) ORDER BY tenant, id',
	'SELECT tenant, id FROM tenants WHERE tenant IN (5, 3, 9) AND id IN (1, 2, 3, 4, 5, 6, 7) ORDER BY tenant DESC, id DESC',
	'SELECT tenant, id FROM tenants WHERE tenant = 5 AND id > ANY (''{5000,100}'') ORDER BY id LIMIT 50',
	'SELECT flag, at FROM tenants WHERE tenant > 5 AND at = ANY (ARRAY(SELECT ''2024-01-01Z''::timestamptz + i % 50 * interval ''1 minute'' FROM generate_series(1, 200) i)) ORDER BY flag, at');
-- min, max, DISTINCT, groups, windows
SELECT * FROM compare_queries(
	'SELECT min(id), max(id) FROM tenants WHERE tenant = 5',
	'SELECT min(tenant), max(tenant) FROM tenants',
	'SELECT min(at), max(at) FROM tenants WHERE tenant > 5 AND NOT flag',
	'SELECT DISTINCT tenant FROM tenants ORDER BY tenant',
	'SELECT DISTINCT ON (tenant) tenant, id FROM tenants ORDER BY tenant DESC, id DESC',
	'SELECT tenant, id, count(*) FROM tenants GROUP BY tenant, id ORDER BY tenant, id LIMIT 100',
	'SELECT tenant, id, row_number() OVER (PARTITION BY tenant ORDER BY id) FROM tenants ORDER BY tenant, id LIMIT 100',
	'SELECT x.tenant, y.id FROM generate_series(1, 50) x (tenant) CROSS JOIN LATERAL (SELECT id FROM tenants t WHERE t.tenant = x.tenant ORDER BY id DESC LIMIT 2) y ORDER BY x.tenant, y.id');
-- Merge joins go back to a mark
CREATE TABLE others (tenant bigint, id bigint);
INSERT INTO others SELECT i % 50, i FROM generate_series(1, 600) i, generate_series(1, 3);
INSERT INTO others VALUES (NULL, 5), (5, NULL), (NULL, NULL);
CREATE INDEX ON others (tenant, id);
ANALYZE others;
SET enable_hashjoin = off;
SET enable_nestloop = off;
SET harmonia.enable_lookup_join = off;
SELECT * FROM compare_queries(
	'SELECT t.tenant, t.id FROM tenants t JOIN others o ON t.tenant = o.tenant AND t.id = o.id ORDER BY t.tenant, t.id',
	'SELECT o.tenant, o.id, t.id AS t FROM others o LEFT JOIN tenants t ON t.tenant = o.tenant AND t.id = o.id ORDER BY o.tenant, o.id',
	'SELECT o.tenant, o.id, t.id AS t FROM others o FULL JOIN tenants t ON t.tenant = o.tenant AND t.id = o.id ORDER BY o.tenant, o.id, t.id',
	'SELECT a.tenant, count(*), sum(a.id * b.id) FROM tenants a JOIN tenants b ON a.tenant = b.tenant WHERE a.id < 1000 AND b.id < 1000 GROUP BY a.tenant ORDER BY a.tenant',
	'SELECT a.a, a.b FROM whole a JOIN whole b ON a.a = b.a AND a.b = b.b ORDER BY a.a, a.b');
CREATE INDEX ON whole USING harmonia (a, b);
SELECT * FROM compare_queries(
	'SELECT a.a, a.b FROM whole a JOIN whole b ON a.a = b.a AND a.b = b.b ORDER BY a.a, a.b',
	'SELECT a.a, a.b, b.b AS c FROM whole a FULL JOIN whole b ON a.a = b.a AND a.b = b.b ORDER BY a.a, a.b, b.b');
RESET enable_hashjoin;
RESET enable_nestloop;
RESET harmonia.enable_lookup_join;
-- Cursors turn round
BEGIN;
CALL use('only');
SET LOCAL enable_sort = off;
DECLARE c SCROLL CURSOR FOR SELECT tenant, id FROM tenants WHERE tenant IN (3, 5) AND id < 500 ORDER BY tenant DESC, id DESC;
FETCH 4 FROM c;
FETCH BACKWARD 2 FROM c;
FETCH LAST FROM c;
FETCH BACKWARD 3 FROM c;
FETCH FORWARD ALL FROM c;
FETCH FIRST FROM c;
COMMIT;

--
-- Partitions and children have their own columns and indexes
--
CREATE TABLE parted (a bigint, b bigint) PARTITION BY RANGE (a);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (MINVALUE) TO (10);
CREATE TABLE parted_2 PARTITION OF parted FOR VALUES FROM (10) TO (20);
CREATE TABLE parted_3 (c text, b bigint, a bigint);
ALTER TABLE parted_3 DROP c;
ALTER TABLE parted ATTACH PARTITION parted_3 DEFAULT;
CREATE INDEX ON parted USING harmonia (b, a);
INSERT INTO parted SELECT nullif(shuffle(i) % 30, 3), shuffle(i * 3) % 1000 FROM generate_series(1, 3000) i;
INSERT INTO parted VALUES (2177342782468422677, NULL), (5, NULL), (15, NULL), (NULL, NULL), (2177342782468422677, 2177342782468422677), (25, 2177342782468422676), (NULL, 2177342782468422678);
ANALYZE parted;
SELECT * FROM compare_queries('SELECT b, a FROM parted ORDER BY b, a', 'SELECT b, a FROM parted ORDER BY b DESC, a DESC LIMIT 50',
	'SELECT b, a FROM parted WHERE a > -11895790 AND b < 500 ORDER BY b, a', 'SELECT b, a FROM parted WHERE b < 500 ORDER BY b, a');
DELETE FROM parted WHERE a IS NULL OR b IS NULL;
ALTER TABLE parted_2 ALTER a SET NOT NULL, ALTER b SET NOT NULL;
BEGIN;
CALL use('only');
SELECT * FROM plan('SELECT b, a FROM parted ORDER BY b, a LIMIT 10');
COMMIT;
ALTER TABLE parted ALTER a SET NOT NULL, ALTER b SET NOT NULL;
SELECT * FROM compare_queries('SELECT b, a FROM parted ORDER BY b, a', 'SELECT b, a FROM parted ORDER BY b DESC, a DESC LIMIT 50', 'SELECT max(b) FROM parted');
BEGIN;
CALL use('only');
SELECT * FROM plan('SELECT b, a FROM parted ORDER BY b, a LIMIT 10');
COMMIT;
CREATE TABLE parent (a bigint, b bigint);
CREATE TABLE child_1 () INHERITS (parent);
CREATE TABLE child_2 (a bigint NOT NULL, b bigint NOT NULL) INHERITS (parent);
INSERT INTO child_1 SELECT shuffle(i) % 30, shuffle(i * 3) % 1000 FROM generate_series(1, 1000) i;
INSERT INTO child_2 SELECT shuffle(i) % 30, shuffle(i * 3) % 1000 FROM generate_series(1, 1000) i;
INSERT INTO child_1 VALUES (2177342782468422677, NULL), (NULL, NULL), (2177342782468422677, 2177342782468422677), (25, 2177342782468422676), (NULL, 2177342782468422678);
CREATE INDEX ON child_1 USING harmonia (a, b);
CREATE INDEX ON child_2 USING harmonia (a, b);
ANALYZE parent, child_1, child_2;
SELECT * FROM compare_queries('SELECT a, b FROM parent ORDER BY a, b', 'SELECT a, b FROM parent ORDER BY a DESC, b DESC LIMIT 50');
BEGIN;
CALL use('only');
SELECT * FROM plan('SELECT a, b FROM child_1 ORDER BY a, b LIMIT 10');
SELECT * FROM plan('SELECT a, b FROM child_2 ORDER BY a, b LIMIT 10');
COMMIT;

--
-- CLUSTER asks for the order of all rows
--
CREATE FUNCTION disorder(tab regclass, by text) RETURNS bigint LANGUAGE plpgsql
AS $$
DECLARE
	n bigint;
BEGIN
	EXECUTE format('SELECT count(*) FROM (SELECT row_number() OVER (ORDER BY ctid) AS n, row_number() OVER (ORDER BY %s, ctid) AS m FROM %s) q WHERE n <> m', by, tab) INTO n;
	RETURN n;
END $$;
CLUSTER tenants USING tenants_tenant_id;
SELECT disorder('tenants', 'tenant, id');
CREATE INDEX whole_desc ON whole USING harmonia (a DESC, b DESC);
CLUSTER whole USING whole_desc;
SELECT disorder('whole', 'a DESC, b DESC');
CREATE INDEX cut_a_b_d_h ON cut USING harmonia (a, b, d, h);
CLUSTER cut USING cut_a_b_d_h;
CLUSTER child_1 USING child_1_a_b_idx;
CLUSTER child_2 USING child_2_a_b_idx;
SELECT disorder('child_2', 'a, b');

DROP SCHEMA order_columns CASCADE;
