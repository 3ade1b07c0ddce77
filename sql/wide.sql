--
-- Keys of 128 bits
--
\set VERBOSITY terse
SET client_min_messages = warning;
SET jit = off;
-- Plain scans alone; lookup_wide.sql is about lookup nodes
SET harmonia.enable_lookup_scan = off;
SET harmonia.enable_lookup_join = off;
CREATE SCHEMA wide;
SET search_path = wide, public;
\getenv srcdir PG_ABS_SRCDIR
\set compare :srcdir '/sql/include/compare.sql'
\i :compare

-- The leaves of an index by their class, after it was verified
CREATE FUNCTION classes(i regclass) RETURNS TABLE (key_bits int, leaves bigint, entries numeric) LANGUAGE sql
AS $$
	SELECT harmonia_check(i, true);
	SELECT l.key_bits, count(*), round(avg(l.entries))
	FROM harmonia_segments(i) s, harmonia_leaves(i, s.block) l GROUP BY 1 ORDER BY 1
$$;

-- How many comparisons of a column with values of an array an index gets wrong, by any operator
CREATE FUNCTION wrong(tab regclass, k text, type text, bounds text[]) RETURNS TABLE (plan text, compared bigint, wrong bigint)
	LANGUAGE plpgsql
AS $$
DECLARE
	query text := format($q$SELECT array_agg((SELECT (count(*), sum(n)) FROM %1$s WHERE %2$s < b)::text ||
		(SELECT (count(*), sum(n)) FROM %1$s WHERE %2$s <= b)::text || (SELECT (count(*), sum(n)) FROM %1$s WHERE %2$s = b)::text ||
		(SELECT (count(*), sum(n)) FROM %1$s WHERE %2$s >= b)::text || (SELECT (count(*), sum(n)) FROM %1$s WHERE %2$s > b)::text ||
		(SELECT (count(*), sum(n)) FROM %1$s WHERE %2$s > b AND %2$s <= c)::text)
		FROM (SELECT b, lead(b) OVER (ORDER BY b) AS c FROM unnest(%3$L::%4$s[]) b ORDER BY b) x$q$, tab, k, bounds, type);
	wanted text[];
	found text[];
BEGIN
	CALL use('seq');
	EXECUTE query INTO wanted;
	FOREACH plan IN ARRAY '{index,bitmap}'::text[] LOOP
		CALL use(plan);
		EXECUTE query INTO found;
		compared := cardinality(wanted);
		wrong := (SELECT count(*) FROM unnest(wanted, found) x (w, f) WHERE w IS DISTINCT FROM f);
		RETURN NEXT;
	END LOOP;
END $$;

--
-- uuid: both ends, powers of two and their neighbours, equal first words, and any
--
CREATE TABLE u (k uuid, n int GENERATED ALWAYS AS IDENTITY) WITH (autovacuum_enabled = off);
INSERT INTO u (k) SELECT lpad(substr('1248', i % 4 + 1, 1) || repeat('0', i / 4), 32, '0')::uuid FROM generate_series(0, 127) i;
INSERT INTO u (k) SELECT lpad(substr('0137', i % 4 + 1, 1) || repeat('f', i / 4), 32, '0')::uuid FROM generate_series(0, 127) i;
INSERT INTO u (k) SELECT translate(k::text, '0123456789abcdef', 'fedcba9876543210')::uuid FROM u;
INSERT INTO u (k) SELECT ('01890a5dac96774b' || substr(md5(i::text), 1, 16))::uuid FROM generate_series(1, 1500) i;
INSERT INTO u (k) SELECT (substr(md5(i::text), 1, 16) || '8000000000000000')::uuid FROM generate_series(1, 2000) i;
INSERT INTO u (k) SELECT md5((i % 9000)::text)::uuid FROM generate_series(1, 10000) i;
INSERT INTO u (k) SELECT NULL FROM generate_series(1, 50);
CREATE INDEX u_k ON u USING harmonia (k);
SELECT key_type, key_bits FROM harmonia_metapage('u_k');
SELECT verify('u_k');
VACUUM ANALYZE u;
SELECT * FROM wrong('u', 'k', 'uuid', ARRAY(SELECT k::text FROM u WHERE n <= 512 AND n % 5 = 0 OR n % 200 = 0));
SELECT * FROM compare_queries('SELECT k FROM u ORDER BY k', 'SELECT k FROM u ORDER BY k DESC', 'SELECT k FROM u ORDER BY k DESC LIMIT 500',
	'SELECT k FROM u WHERE k >= ''7fffffffffffffffffffffffffffffff'' ORDER BY k LIMIT 3', 'SELECT min(k::text), max(k::text) FROM u',
	'SELECT k FROM u WHERE k IS NULL', 'SELECT k FROM u WHERE k BETWEEN ''01890a5dac96774b0000000000000000'' AND ''01890a5dac96774bffffffffffffffff'' ORDER BY k',
	'SELECT k FROM u WHERE k IN (''00000000-0000-0000-0000-000000000000'', ''ffffffff-ffff-ffff-ffff-ffffffffffff'', md5(''7'')::uuid, NULL) ORDER BY k',
	'SELECT k FROM u WHERE k > ANY (ARRAY[md5(''7'')::uuid, md5(''8'')::uuid]) ORDER BY k');
SELECT key, value FROM harmonia_leaf_items('u_k', (SELECT max(l.block) FROM harmonia_segments('u_k') s, harmonia_leaves('u_k', s.block) l WHERE s.part = 'keys'))
	ORDER BY key DESC LIMIT 3;

-- Indexes in other orders; merge joins with a btree
CREATE INDEX u_desc ON u USING harmonia (k DESC NULLS LAST);
DROP INDEX u_k;
SELECT * FROM compare_queries('SELECT k FROM u ORDER BY k DESC NULLS LAST', 'SELECT k FROM u ORDER BY k NULLS FIRST');
CREATE TABLE b AS SELECT k, n AS m FROM u WHERE n % 3 = 0;
CREATE INDEX b_k ON b (k);
VACUUM ANALYZE b;
BEGIN;
SET LOCAL enable_hashjoin = off; SET LOCAL enable_nestloop = off; SET LOCAL enable_sort = off; SET LOCAL enable_seqscan = off;
SELECT plan_nodes('SELECT count(*), sum(n), sum(m) FROM u JOIN b USING (k)', 'Merge|Index');
SELECT count(*), sum(n), sum(m) FROM u JOIN b USING (k);
SET LOCAL enable_hashjoin = on; SET LOCAL enable_mergejoin = off; SET LOCAL enable_indexscan = off; SET LOCAL enable_bitmapscan = off;
SELECT count(*), sum(n), sum(m) FROM u JOIN b USING (k);
ROLLBACK;

-- Changes: rows one by one, in order and not, deletion, movement
TRUNCATE u;
CREATE INDEX u_k ON u USING harmonia (k) WITH (fanout = 8);
SET harmonia.batch_inserts = off;
INSERT INTO u (k) SELECT (lpad(to_hex(i), 12, '0') || '7' || substr(md5(i::text), 1, 19))::uuid FROM generate_series(1, 4000) i;
INSERT INTO u (k) SELECT (lpad(to_hex(9000 - i), 12, '0') || '7' || substr(md5(i::text), 1, 19))::uuid FROM generate_series(1, 4000) i;
INSERT INTO u (k) SELECT md5(i::text)::uuid FROM generate_series(1, 8000) i;
RESET harmonia.batch_inserts;
SELECT verify('u_k'), verify('u_desc');
INSERT INTO u (k) SELECT md5(i::text)::uuid FROM generate_series(5000, 40000) i;
UPDATE u SET k = md5(k::text)::uuid WHERE n % 7 = 0;
SELECT verify('u_k'), verify('u_desc');
DELETE FROM u WHERE n % 3 > 0;
:vacuum u;
SELECT verify('u_k'), harmonia_reorganize('u_k') > 0 AS moved, verify('u_k'), verify('u_desc');
SELECT * FROM wrong('u', 'k', 'uuid', ARRAY(SELECT k::text FROM u WHERE n % 500 = 0));
REINDEX TABLE u;
SELECT verify('u_k'), verify('u_desc');

-- As one of several columns a uuid has a key that is not exact
CREATE TABLE several (k uuid, n int) WITH (autovacuum_enabled = off);
INSERT INTO several SELECT md5((i % 100)::text)::uuid, i FROM generate_series(1, 4000) i;
INSERT INTO several SELECT (p || substr(md5((i % 20)::text), 1, 24))::uuid, i FROM unnest('{00000000,ffffffff}'::text[]) p, generate_series(1, 500) i;
CREATE INDEX several_k ON several USING harmonia (k, n);
SELECT key_bits FROM harmonia_metapage('several_k');
SELECT * FROM wrong('several', 'k', 'uuid', ARRAY(SELECT DISTINCT k::text FROM several));

--
-- Several columns that need more than 64 bits
--
CREATE TABLE two (a bigint, b bigint, n int GENERATED ALWAYS AS IDENTITY) WITH (autovacuum_enabled = off);
INSERT INTO two SELECT a, b FROM
	unnest('{-9223372036854775808,-4294967297,-1,0,1,4294967295,4294967296,9223372036854775807,7046029254386353131,2177342782468422677,NULL}'::bigint[]) a,
	unnest('{-9223372036854775808,-4294967297,-1,0,1,4294967295,4294967296,9223372036854775807,7046029254386353131,2177342782468422677,NULL}'::bigint[]) b;
INSERT INTO two SELECT 1::bigint << i % 63, -(1::bigint << i / 63) FROM generate_series(0, 3900) i;
INSERT INTO two SELECT i % 100, i FROM generate_series(1, 10000) i;
CREATE INDEX two_key ON two USING harmonia (a, b);
VACUUM ANALYZE two;
SELECT key_bits FROM harmonia_metapage('two_key');
SELECT verify('two_key');
SELECT * FROM wrong('two', 'a', 'bigint', ARRAY(SELECT DISTINCT a::text FROM two WHERE a NOT BETWEEN 3 AND 97));
SELECT * FROM wrong('two', 'a = 7 AND b', 'bigint', ARRAY(SELECT DISTINCT b::text FROM two WHERE a = 0 OR a = 7 AND b % 3 = 0));
SELECT * FROM wrong('two', 'a = 9223372036854775807 AND b', 'bigint', ARRAY(SELECT DISTINCT b::text FROM two WHERE a = 0));
SELECT * FROM compare_queries('SELECT a, b FROM two WHERE a IS NULL', 'SELECT a, b FROM two WHERE a IS NULL AND b IS NULL',
	'SELECT a, b FROM two WHERE a = 2177342782468422677', 'SELECT a, b FROM two WHERE a = 7046029254386353131',
	'SELECT a, b FROM two WHERE a = 7046029254386353131 AND b IS NULL', 'SELECT a, b FROM two WHERE a IN (1, 7, NULL) AND b IN (7, 107, -1)',
	'SELECT a, b FROM two WHERE b = 47', 'SELECT a, b FROM two WHERE a BETWEEN 5 AND 7 AND b BETWEEN 100 AND 300',
	'SELECT a, b FROM two WHERE a = 3 ORDER BY b DESC', 'SELECT a, b FROM two ORDER BY a, b');

-- Leaves of one tenant are as narrow as those of an index on the id: a leaf that ends with a tenant, too.
CREATE TABLE tenants (tenant int, id bigint) WITH (autovacuum_enabled = off);
INSERT INTO tenants SELECT i / 1000, i FROM generate_series(0, 99999) i;
CREATE INDEX tenants_key ON tenants USING harmonia (tenant, id);
CREATE INDEX tenants_btree ON tenants (tenant, id);
SELECT sum(leaves) < 110 AS few, sum(leaves) FILTER (WHERE key_bits <= 16) * 100 / sum(leaves) AS narrow FROM classes('tenants_key');
SELECT pg_relation_size('tenants_key') * 2 < pg_relation_size('tenants_btree') AS "less than half of btree";

-- Rows that begin another tenant between two, and rows of all tenants in turn, one by one
SET harmonia.batch_inserts = off;
TRUNCATE tenants;
INSERT INTO tenants SELECT i / 1000 * 10, i FROM generate_series(0, 29999) i;
INSERT INTO tenants SELECT i % 290 + 3, i * 7 FROM generate_series(0, 9999) i;
SELECT verify('tenants_key');
-- A leaf of two tenants is cut between them. (The first leaf of an index begins at 0, so it is wide.)
TRUNCATE tenants;
INSERT INTO tenants SELECT CASE WHEN i % 5 < 3 THEN 1 ELSE 2 END, i FROM generate_series(1, 3000) i;
SELECT verify('tenants_key');
SELECT count(*) AS wide_leaves FROM harmonia_segments('tenants_key') s, harmonia_leaves('tenants_key', s.block) l WHERE l.low_key > 0 AND key_bits > 16;
TRUNCATE tenants;
INSERT INTO tenants SELECT i % 50, i FROM generate_series(0, 39999) i;
SELECT verify('tenants_key');
SELECT sum(leaves) FILTER (WHERE key_bits = 16) > sum(leaves) / 2 AS narrow FROM classes('tenants_key');
RESET harmonia.batch_inserts;
INSERT INTO tenants SELECT i % 70, -i FROM generate_series(0, 39999) i;
INSERT INTO tenants SELECT i % 3 * 1000000, i * 1000003::bigint FROM generate_series(0, 9999) i;
DELETE FROM tenants WHERE id % 3 = 0;
SELECT verify('tenants_key'), harmonia_reorganize('tenants_key') > 0 AS moved, verify('tenants_key');
:vacuum tenants;
SELECT verify('tenants_key');

-- A leaf of one key's rows gets other keys, for which it has to be wide: the last leaf, and one in the middle
CREATE TABLE lone (u uuid, a bigint, b bigint) WITH (autovacuum_enabled = off);
CREATE INDEX lone_key ON lone USING harmonia (u);
CREATE INDEX lone_pair ON lone USING harmonia (a, b);
CREATE FUNCTION lone(n int, others int[]) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	wide bigint = 1::bigint << 60;
BEGIN
	TRUNCATE lone;
	INSERT INTO lone SELECT rpad((i % 2 * 4 + 1)::text, 32, '0')::uuid, (i % 2 * 4 + 1) * wide, wide FROM generate_series(1, 2 * n) i;
	REINDEX TABLE lone;
	INSERT INTO lone SELECT rpad(i::text, 32, '0')::uuid, i * wide, wide - i FROM unnest(others) i;
	PERFORM harmonia_check('lone_key', true), harmonia_check('lone_pair', true);
	RETURN (SELECT count(*) FROM unnest(others) i JOIN lone ON u = rpad(i::text, 32, '0')::uuid) + (SELECT count(*) FROM unnest(others) i JOIN lone ON a = i * wide AND b = wide - i);
END $$;
SELECT others, min(lone(n, others)), max(lone(n, others)) FROM generate_series(600, 860, 20) n, (VALUES ('{7}'::int[]), ('{3}'), ('{2,3,4,6,7}')) o (others) GROUP BY 1 ORDER BY 1;

-- All columns have a bit for NULL, or share it: which widths there are
CREATE TABLE w (i2 smallint, i4 int, i8 bigint, d date, ts timestamptz, f float8, b boolean, t text, m macaddr);
DO $$
BEGIN
	FOR i IN 1..8 LOOP
		EXECUTE format('CREATE INDEX w_%s ON w USING harmonia (%s)', i,
			('{"i4, d","b, i8","i4, i8","i8, ts","d, ts","m, f","i4, i4, i8","i8, i4, i8"}'::text[])[i]);
	END LOOP;
	CREATE INDEX w_9 ON w USING harmonia (i4, t);
END $$;
SELECT substring(pg_get_indexdef(indexrelid), '\((.*)\)') AS columns, key_bits
	FROM pg_index, LATERAL harmonia_metapage(indexrelid) WHERE indrelid = 'w'::regclass ORDER BY indexrelid;
DROP SCHEMA wide CASCADE;
