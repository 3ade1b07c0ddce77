--
-- Lookup nodes with keys of 128 bits: uuids, and columns that need more than 64 bits together
--
SET client_min_messages = warning;
SET jit = off;
SET timezone = 'UTC';
SET max_parallel_workers_per_gather = 0;
-- Versions differ in when they choose it
SET harmonia.enable_lookup_aggregate = off;
CREATE SCHEMA lookup_wide;
SET search_path = lookup_wide, public;
\getenv srcdir PG_ABS_SRCDIR
\set compare :srcdir '/sql/include/compare.sql'
\i :compare
\set lookup :srcdir '/sql/include/lookup.sql'
\i :lookup

-- A uuid whose two words are these numbers
CREATE FUNCTION words(high bigint, low bigint) RETURNS uuid LANGUAGE sql IMMUTABLE PARALLEL SAFE
	AS $$SELECT (lpad(to_hex(high), 16, '0') || lpad(to_hex(low), 16, '0'))::uuid$$;

-- Random uuids, uuids with equal first words, with words that end with zeros or ones, one that has many rows, and NULLs
CREATE TABLE u (k uuid, id int GENERATED ALWAYS AS IDENTITY, v int) WITH (autovacuum_enabled = off);
INSERT INTO u (k, v) SELECT md5(shuffle(i)::text)::uuid, i % 100 FROM generate_series(1, 8000) i;
INSERT INTO u (k, v) SELECT words(i / 500, i), i % 100 FROM generate_series(0, 4999) i;
INSERT INTO u (k, v) SELECT words(h, l), 7 FROM unnest('{0,1,-1,-9223372036854775808,9223372036854775807}'::bigint[]) h,
	unnest('{0,1,-1,-2,-9223372036854775808,9223372036854775807}'::bigint[]) l, generate_series(1, 2);
INSERT INTO u (k, v) SELECT words(4, 4), i % 100 FROM generate_series(1, 400) i;
INSERT INTO u (v) SELECT i FROM generate_series(1, 50) i;
CREATE INDEX u_k ON u USING harmonia (k);
CREATE TABLE pairs (a bigint, b bigint, v int) WITH (autovacuum_enabled = off);
INSERT INTO pairs SELECT i % 50, i / 50, i % 100 FROM generate_series(1, 10000) i;
INSERT INTO pairs SELECT a, b, -1 FROM unnest('{-1,0,4294967296,-9223372036854775808,9223372036854775807,NULL}'::bigint[]) a,
	unnest('{-1,0,4294967296,-9223372036854775808,9223372036854775807,NULL}'::bigint[]) b;
CREATE INDEX pairs_key ON pairs USING harmonia (a, b);
CREATE TABLE times (tenant int, at timestamptz, kind smallint, v int) WITH (autovacuum_enabled = off);
INSERT INTO times SELECT i % 40, timestamptz '2024-01-01' + i / 40 * interval '1 hour', i % 3, i FROM generate_series(1, 6000) i;
INSERT INTO times VALUES (NULL, '2024-01-01', 0, 0), (1, NULL, 0, 0), (NULL, NULL, NULL, 0), (1, 'infinity', 1, 0), (1, '-infinity', NULL, 0);
CREATE INDEX times_key ON times USING harmonia (tenant, at, kind);
CREATE TABLE o (n int, k uuid, high uuid, a bigint, b bigint, at timestamptz, v int) WITH (autovacuum_enabled = off);
INSERT INTO o SELECT i, CASE i % 4 WHEN 0 THEN md5(shuffle(i * 3)::text)::uuid WHEN 1 THEN words(i / 500, i) WHEN 2 THEN md5(i::text)::uuid ELSE words(i % 9, 4) END,
	words(i / 500, i + i % 20), i % 60, i % 210, timestamptz '2024-01-01' + i % 120 * interval '1 hour', i % 50 FROM generate_series(1, 2000) i;
INSERT INTO o SELECT -1, NULL, NULL, a, b, '-infinity', 1 FROM pairs WHERE v = -1;
INSERT INTO o SELECT 0, k, k, NULL, 1, NULL, 2 FROM u WHERE v = 7 AND id > 12900;
-- More keys than fit in the smallest memory
CREATE TABLE many WITH (autovacuum_enabled = off) AS SELECT md5(shuffle(i % 15000)::text)::uuid AS k, i % 300 AS a, i % 77 AS b FROM generate_series(1, 30000) i;
:vacuum ANALYZE u, pairs, times, o, many;
-- Some pages are not all-visible.
UPDATE u SET v = v + 1 WHERE id % 900 = 3;
DELETE FROM u WHERE id % 700 = 5;
DELETE FROM pairs WHERE a = 3 AND b % 10 = 1;
CALL settle();

--
-- Scans
--
SELECT * FROM compare_lookups(
	'SELECT * FROM u WHERE k = ANY (ARRAY(SELECT k FROM o))', 'SELECT k FROM u WHERE k = ANY (ARRAY(SELECT k FROM o))', 'SELECT count(*) FROM u WHERE k = ANY (ARRAY(SELECT k FROM o))',
	'SELECT count(k) FROM u WHERE k = ANY ((SELECT array_agg(k) FROM o WHERE n % 2 = 0)::uuid[])', 'SELECT count(*) FROM u WHERE k = ANY (ARRAY(SELECT k FROM many))',
	'SELECT id, k FROM u WHERE k IN (''00000000-0000-0004-0000-000000000004'', ''ffffffff-ffff-ffff-ffff-ffffffffffff'', ''00000000-0000-0000-0000-000000000000'', NULL)',
	'SELECT id FROM u WHERE k IN (words(0, 17), words(0, 18), words(3, 1999)) AND v > 10', 'SELECT k FROM u WHERE k = ANY (''{}''::uuid[])', 'SELECT k FROM u WHERE k = ANY (NULL::uuid[])',
	'SELECT * FROM u WHERE k < words(0, 100) OR k > words(-1, -2) OR k = words(4, 4)', 'SELECT k FROM u WHERE k BETWEEN words(0, 400) AND words(1, 600) OR k BETWEEN words(1, 590) AND words(2, 1100)',
	'SELECT count(*) FROM u WHERE k < words(3, 0) OR k >= words(9223372036854775807, -1)', 'SELECT count(*) FROM u WHERE k <= ANY (ARRAY[words(0, 5), words(2, 5)]) OR k = words(7, 7)',
	'SELECT k FROM u WHERE k = ANY (ARRAY(SELECT k FROM o)) AND k > words(2, 0)', 'SELECT id FROM u WHERE k = ANY (ARRAY(SELECT k FROM o)) AND k = ANY (ARRAY(SELECT high FROM o))',
	'SELECT x.n, (SELECT count(*) FROM u WHERE u.k = ANY (ARRAY[x.k, x.high, NULL])) FROM o x WHERE x.n < 40 ORDER BY 1, 2');
SELECT * FROM compare_lookups(
	'SELECT * FROM pairs WHERE (a, b) IN ((1, 2), (3, 4), (-1, -1), (4294967296, 9223372036854775807), (49, 151))', 'SELECT a, b FROM pairs WHERE a = 7 AND b = ANY (ARRAY(SELECT i FROM generate_series(1, 300, 3) i))',
	'SELECT a, b FROM pairs WHERE a IN (7, -1, 4294967296)', 'SELECT count(*) FROM pairs WHERE a IN (7, 8) AND b BETWEEN 10 AND 20', 'SELECT * FROM pairs WHERE a IN (-9223372036854775808, 9223372036854775807)',
	'SELECT b FROM pairs WHERE a IN (7, 8) AND b > 190', 'SELECT * FROM pairs WHERE a = 7 AND (b = 3 OR b BETWEEN 9 AND 11 OR b IS NULL)', 'SELECT count(*) FROM pairs WHERE a IN (7, 9223372036854775807) AND b IN (1, 2, 9223372036854775807)',
	'SELECT * FROM pairs WHERE (a = 7 AND b < 30) OR (a = 8 AND b > 100) OR (a = -1 AND b IN (0, -1))', 'SELECT count(*) FROM pairs WHERE a = ANY (ARRAY(SELECT a FROM o)) AND b = ANY (ARRAY(SELECT b FROM o))',
	'SELECT * FROM times WHERE tenant IN (1, 2) AND at IN (''2024-01-02'', ''infinity'', ''-infinity'')', 'SELECT tenant, at, kind FROM times WHERE tenant IN (1, 2) AND at >= ''2024-01-05''',
	'SELECT count(*) FROM times WHERE tenant = 3 AND at < ''2024-01-03'' AND kind IN (0, 2)', 'SELECT tenant, kind FROM times WHERE tenant IN (1, 2, 40000) AND at = ANY (ARRAY(SELECT at FROM o))');
SET harmonia.enable_lookup_aggregate = on;
SELECT * FROM explained('SELECT count(*) FROM u WHERE k IN (words(0, 17), words(4, 4))');
BEGIN;
CALL use_lookups(true);
SELECT * FROM explained('SELECT k FROM u WHERE k < words(0, 100) OR k > words(-1, -3)');
SELECT * FROM explained('SELECT a, b FROM pairs WHERE (a, b) IN ((7, 8), (9, 10), (-1, 0))');
SELECT * FROM explained('SELECT count(*) FROM u WHERE k = ANY (ARRAY(SELECT k FROM o))');
ROLLBACK;
SET harmonia.enable_lookup_aggregate = off;

--
-- Joins
--
SELECT * FROM compare_lookups(
	'SELECT o.n, u.* FROM o JOIN u ON u.k = o.k', 'SELECT o.n, u.k FROM o JOIN u ON u.k = o.k', 'SELECT count(*) FROM o JOIN u ON u.k = o.k', 'SELECT o.n, u.id FROM o JOIN u ON u.k = o.k AND u.v > o.v',
	'SELECT o.n, u.k FROM o LEFT JOIN u ON u.k = o.k', 'SELECT o.n, u.id FROM o LEFT JOIN u ON u.k = o.k AND u.v % 3 = 0', 'SELECT n, k FROM o WHERE EXISTS (SELECT FROM u WHERE u.k = o.k)',
	'SELECT n, k FROM o WHERE NOT EXISTS (SELECT FROM u WHERE u.k = o.k)', 'SELECT n FROM o WHERE NOT EXISTS (SELECT FROM u WHERE u.k = o.k AND u.v % 2 = 0)',
	'SELECT id FROM u WHERE k IN (SELECT k FROM o)', 'SELECT k FROM u WHERE k IN (SELECT k FROM many)', 'SELECT d.k, u.id FROM (SELECT DISTINCT k FROM many) d JOIN u ON u.k = d.k',
	'SELECT n FROM o WHERE k IS NOT NULL AND k NOT IN (SELECT k FROM u WHERE k IS NOT NULL AND v < 50)', 'SELECT o.n, u.id FROM o JOIN u ON u.k BETWEEN o.k AND o.high WHERE o.n % 4 = 1 AND o.n > 100',
	'SELECT o.n, u.k FROM o JOIN u ON u.k > o.k AND u.k < o.high WHERE o.n % 4 = 1', 'SELECT count(*) FROM o JOIN u ON u.k >= o.k AND u.k <= o.high WHERE o.n % 4 = 3', 'SELECT o.v, count(*), sum(u.id) FROM o JOIN u USING (k) GROUP BY o.v ORDER BY 1',
	'SELECT o.n, u.id FROM o JOIN u ON u.k = CASE WHEN o.n % 2 = 0 THEN o.k ELSE o.high END', 'SELECT o.n, u.k, w.k FROM o JOIN u ON u.k = o.k JOIN u w ON w.k = o.high WHERE o.n BETWEEN 1 AND 300');
SELECT * FROM compare_lookups(
	'SELECT o.n, p.* FROM o JOIN pairs p ON p.a = o.a AND p.b = o.b', 'SELECT o.n, p.a, p.b FROM o JOIN pairs p ON p.a = o.a AND p.b = o.b', 'SELECT count(*) FROM o JOIN pairs p ON p.a = o.a AND p.b = o.b',
	'SELECT o.n, p.b FROM o LEFT JOIN pairs p ON p.a = o.a AND p.b = o.b AND p.v > 10', 'SELECT n FROM o WHERE EXISTS (SELECT FROM pairs p WHERE p.a = o.a AND p.b = o.b)', 'SELECT n, a FROM o WHERE NOT EXISTS (SELECT FROM pairs p WHERE p.a = o.a AND p.b = o.b)',
	'SELECT p.* FROM pairs p WHERE (a, b) IN (SELECT a, b FROM many)', 'SELECT o.n, p.b FROM o JOIN pairs p ON p.a = o.a WHERE o.n < 20', 'SELECT o.n, p.a FROM o JOIN pairs p ON p.a = o.a AND p.b = 7', 'SELECT o.n, p.a FROM o JOIN pairs p ON p.a = 9223372036854775807 AND p.b = o.b',
	'SELECT o.n, p.v FROM o JOIN pairs p ON p.a = o.a AND p.b < 7 WHERE o.n < 200', 'SELECT o.n, t.kind FROM o JOIN times t ON t.tenant = o.a AND t.at = o.at', 'SELECT count(*) FROM o JOIN times t ON t.tenant = o.a AND t.at = o.at AND t.kind = 1',
	'SELECT o.n, t.tenant, t.at, t.kind FROM o LEFT JOIN times t ON t.tenant = o.a AND t.at = o.at AND t.kind = o.v % 3', 'SELECT n FROM o WHERE NOT EXISTS (SELECT FROM times t WHERE t.tenant = o.a AND t.at = o.at)', 'SELECT o.n, count(*), max(p.b) FROM o JOIN pairs p ON p.a = o.a WHERE o.n < 20 GROUP BY o.n ORDER BY o.n');
BEGIN;
CALL use_lookups(true);
SELECT * FROM explained('SELECT o.n, u.k FROM o JOIN u ON u.k = o.k WHERE o.n BETWEEN 10 AND 20');
SELECT * FROM explained('SELECT count(*) FROM o JOIN pairs p ON p.a = o.a AND p.b = o.b WHERE o.n BETWEEN 10 AND 20');
SET LOCAL enable_seqscan = on;
SELECT * FROM explained('SELECT count(*) FROM u WHERE k IN (SELECT k FROM many)');
ROLLBACK;

--
-- Partitions: by ranges, lists and hash values of the key; indexes that differ in the size of their keys
--
CREATE TABLE ranges (k uuid, id int, v int) PARTITION BY RANGE (k);
CREATE TABLE ranges_0 PARTITION OF ranges FOR VALUES FROM (MINVALUE) TO ('00000000-0000-0004-0000-000000000004');
CREATE TABLE ranges_1 (gone int, v int, k uuid, id int);
ALTER TABLE ranges_1 DROP gone;
ALTER TABLE ranges ATTACH PARTITION ranges_1 FOR VALUES FROM ('00000000-0000-0004-0000-000000000004') TO ('00000000-0000-0004-0000-000000000005');
CREATE TABLE ranges_2 PARTITION OF ranges FOR VALUES FROM ('00000000-0000-0004-0000-000000000005') TO ('8fffffff-ffff-ffff-ffff-ffffffffffff') PARTITION BY HASH (k);
CREATE TABLE ranges_2_0 PARTITION OF ranges_2 FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE ranges_2_1 PARTITION OF ranges_2 FOR VALUES WITH (MODULUS 2, REMAINDER 1);
CREATE TABLE ranges_rest PARTITION OF ranges DEFAULT;
CREATE INDEX ranges_key ON ranges USING harmonia (k);
CREATE TABLE lists (k uuid, id int, v int) PARTITION BY LIST (k);
CREATE TABLE lists_0 PARTITION OF lists FOR VALUES IN ('00000000-0000-0004-0000-000000000004', '00000000-0000-0000-0000-000000000000', NULL);
CREATE TABLE lists_1 PARTITION OF lists FOR VALUES IN ('ffffffff-ffff-ffff-ffff-ffffffffffff');
CREATE TABLE lists_rest PARTITION OF lists DEFAULT;
CREATE INDEX lists_key ON lists USING harmonia (k);
CREATE TABLE sizes (a int, b int, c bigint, v int) PARTITION BY HASH (b);
CREATE TABLE sizes_0 PARTITION OF sizes FOR VALUES WITH (MODULUS 3, REMAINDER 0);
CREATE TABLE sizes_1 PARTITION OF sizes FOR VALUES WITH (MODULUS 3, REMAINDER 1);
CREATE TABLE sizes_2 PARTITION OF sizes FOR VALUES WITH (MODULUS 3, REMAINDER 2);
CREATE INDEX sizes_0_key ON sizes_0 USING harmonia (a, b);
CREATE INDEX sizes_1_key ON sizes_1 USING harmonia (a, b, c);
CREATE INDEX sizes_2_key ON sizes_2 USING harmonia (a, b, v);
CREATE TABLE wide (a bigint, b bigint, v int) PARTITION BY RANGE (b);
CREATE TABLE wide_0 PARTITION OF wide FOR VALUES FROM (MINVALUE) TO (50);
CREATE TABLE wide_1 PARTITION OF wide FOR VALUES FROM (50) TO (4294967296);
CREATE TABLE wide_rest PARTITION OF wide DEFAULT;
CREATE INDEX wide_key ON wide USING harmonia (a, b);
INSERT INTO ranges SELECT * FROM u;
INSERT INTO lists SELECT * FROM u;
INSERT INTO sizes SELECT a, b, a + b, v FROM pairs WHERE a < 1000 AND b < 1000 AND a >= -1 AND b >= -1;
INSERT INTO sizes VALUES (-2147483648, -2147483648, 1, 1), (NULL, 1, 1, 1), (1, NULL, 1, 1), (2147483647, 2147483647, NULL, 1);
INSERT INTO wide SELECT * FROM pairs;
:vacuum ANALYZE ranges, lists, sizes, wide;
SELECT * FROM compare_lookups(
	'SELECT o.n, r.* FROM o JOIN ranges r ON r.k = o.k', 'SELECT o.n, r.k FROM o LEFT JOIN ranges r ON r.k = o.k', 'SELECT count(*) FROM o JOIN ranges r ON r.k = o.k', 'SELECT n FROM o WHERE EXISTS (SELECT FROM ranges r WHERE r.k = o.k)',
	'SELECT n FROM o WHERE NOT EXISTS (SELECT FROM ranges r WHERE r.k = o.k)', 'SELECT r.k FROM ranges r WHERE k IN (SELECT k FROM many)', 'SELECT o.n, r.id FROM o JOIN ranges r ON r.k BETWEEN o.k AND o.high WHERE o.n % 4 = 1', 'SELECT k FROM ranges WHERE k = ANY (ARRAY(SELECT k FROM o))',
	'SELECT count(*) FROM ranges WHERE k < words(0, 40) OR k > words(4, 3)', 'SELECT o.n, r.* FROM o JOIN lists r ON r.k = o.k', 'SELECT n FROM o WHERE NOT EXISTS (SELECT FROM lists r WHERE r.k = o.k)', 'SELECT count(*) FROM lists WHERE k = ANY (ARRAY(SELECT k FROM o))');
SELECT * FROM compare_lookups(
	'SELECT o.n, r.* FROM o JOIN sizes r ON r.a = o.a AND r.b = o.b', 'SELECT o.n, r.a, r.b FROM o JOIN sizes r ON r.a = o.a AND r.b = o.b', 'SELECT count(*) FROM o JOIN sizes r ON r.a = o.a AND r.b = o.b', 'SELECT o.n, r.v FROM o LEFT JOIN sizes r ON r.a = o.a AND r.b = o.b',
	'SELECT n FROM o WHERE NOT EXISTS (SELECT FROM sizes r WHERE r.a = o.a AND r.b = o.b)', 'SELECT * FROM sizes WHERE (a, b) IN ((1, 2), (3, 4), (2147483647, 2147483647))', 'SELECT o.n, r.* FROM o JOIN sizes r ON r.a = o.a WHERE o.n < 20',
	'SELECT o.n, r.* FROM o JOIN wide r ON r.a = o.a AND r.b = o.b', 'SELECT count(*) FROM o JOIN wide r ON r.a = o.a AND r.b = o.b', 'SELECT n FROM o WHERE NOT EXISTS (SELECT FROM wide r WHERE r.a = o.a AND r.b = o.b)', 'SELECT o.n, r.b FROM o LEFT JOIN wide r ON r.a = o.a AND r.b = o.b AND r.b < 70');
BEGIN;
CALL use_lookups(false);
-- Probes go to partitions that may have them.
SELECT * FROM explained('SELECT r.v FROM ranges r JOIN o ON r.k = o.k WHERE o.n BETWEEN 10 AND 14');
SELECT * FROM explained('SELECT r.v FROM lists r JOIN o ON r.k = o.k WHERE o.n BETWEEN 11 AND 40 AND o.n % 9 IN (2, 4)');
COMMIT;

--
-- Parallel plans: processes divide the keys
--
CREATE FUNCTION divided(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (FORMAT JSON) ' || query INTO plan;
	RETURN (SELECT string_agg(DISTINCT replace(node ->> 'Custom Plan Provider', 'HarmoniaLookup', ''), ', ')
		FROM jsonb_path_query(plan::jsonb, 'strict $.**') node
		WHERE node ->> 'Custom Plan Provider' LIKE 'Harmonia%' AND (node ->> 'Parallel Aware')::boolean);
END $$;
CREATE FUNCTION compare_parallel(VARIADIC queries text[])
	RETURNS TABLE (n bigint, result text, nodes text, divided text, query text) LANGUAGE plpgsql AS $$
BEGIN
	FOREACH query IN ARRAY queries LOOP
		SELECT c.n, c.result, c.nodes INTO n, result, nodes FROM compare_lookups(query) c;
		divided := divided(query);
		RETURN NEXT;
	END LOOP;
END $$;
CREATE TABLE arrays WITH (autovacuum_enabled = off) AS SELECT array_agg(k) AS keys FROM (SELECT k FROM many UNION ALL SELECT words(i % 10, i) FROM generate_series(1, 6000) i UNION ALL SELECT words(i / 1000, i % 7) FROM generate_series(1, 6000) i) k;
SET max_parallel_workers_per_gather = 2;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
ALTER TABLE u SET (parallel_workers = 2);
ALTER TABLE pairs SET (parallel_workers = 2);
ALTER TABLE o SET (parallel_workers = 2);
SET parallel_leader_participation = off;
SELECT * FROM compare_parallel(
	'SELECT id FROM u WHERE k = ANY ((SELECT keys FROM arrays)::uuid[])', 'SELECT count(*) FROM u WHERE k = ANY ((SELECT keys FROM arrays)::uuid[])', 'SELECT count(*), sum(id) FROM u WHERE k < words(1, 0) OR k > words(2, 1200)', 'SELECT k FROM u WHERE k < words(4, 5) OR k > words(-1, -3)',
	'SELECT a, b FROM pairs WHERE a < 20 OR a > 30', 'SELECT count(*) FROM pairs WHERE (a = 7 AND b < 100) OR (a = 8 AND b > 100)', 'SELECT b FROM pairs WHERE a = ANY (ARRAY(SELECT generate_series(1, 40, 3))) AND b = ANY (ARRAY(SELECT generate_series(-1, 300)))');
SET lookup.seqscan = on;
SELECT * FROM compare_parallel(
	'SELECT o.n, u.k FROM o JOIN u ON u.k = o.k', 'SELECT count(*) FROM o JOIN pairs p ON p.a = o.a AND p.b = o.b', 'SELECT n FROM o WHERE NOT EXISTS (SELECT FROM u WHERE u.k = o.k)');

DROP SCHEMA lookup_wide CASCADE;
