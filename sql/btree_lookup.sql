--
-- Lookups in btree indexes
--
SET client_min_messages = warning;
SET timezone = 'UTC';
SET jit = off;
SET max_parallel_workers_per_gather = 0;
SET harmonia.enable_btree_lookup = on;
SET harmonia.enable_lookup_aggregate = off;
LOAD 'harmonia';
CREATE SCHEMA btree_lookup;
SET search_path = btree_lookup, public;
\getenv srcdir PG_ABS_SRCDIR
\set compare :srcdir '/sql/include/compare.sql'
\i :compare
\set lookup :srcdir '/sql/include/lookup.sql'
\i :lookup

-- A primary key, and rows that are missing
CREATE TABLE t (id bigint PRIMARY KEY, k int, v text, w int DEFAULT 7) WITH (autovacuum_enabled = off);
INSERT INTO t SELECT i * 3, CASE WHEN i % 31 <> 5 THEN shuffle(i) % 400 END, 'v' || i % 100 FROM generate_series(1, 8000) i;
-- Equal keys over several leaves, in posting lists, and NULLs
CREATE INDEX t_k ON t (k);
CREATE INDEX t_k_desc ON t (k DESC) WHERE v > 'v2';
CREATE TABLE o (n int GENERATED ALWAYS AS IDENTITY, k int, big bigint, small smallint, word text) WITH (autovacuum_enabled = off);
INSERT INTO o (k, big, small, word) SELECT CASE WHEN i % 17 <> 0 THEN shuffle(i) % 500 END, shuffle(i) % 30000, i % 300, 'v' || i % 130
	FROM generate_series(1, 900) i;
:vacuum ANALYZE t, o;
UPDATE t SET w = 8 WHERE id % 500 = 3;
DELETE FROM t WHERE id % 300 = 6;

--
-- Plans
--
BEGIN;
CALL use_lookups(true);
SELECT * FROM explained('SELECT count(*) FROM o JOIN t ON t.id = o.big');
SELECT * FROM plan('SELECT count(*) FROM o JOIN t ON t.id = o.big', 'FORMAT JSON');
SELECT * FROM plan('SELECT * FROM t WHERE id = ANY (ARRAY(SELECT big FROM o))');
SELECT * FROM plan('SELECT n FROM o WHERE EXISTS (SELECT FROM t WHERE t.k = o.k)');
SET LOCAL harmonia.enable_btree_lookup = off;
SELECT lookup_nodes('SELECT count(*) FROM o JOIN t ON t.id = o.big');
ROLLBACK;
-- A harmonia index takes precedence, as it is cheaper.
BEGIN;
CREATE INDEX t_hm ON t USING harmonia (id);
SELECT line FROM plan('SELECT count(*) FROM o JOIN t ON t.id = o.big') AS line WHERE line::text ~ 'Index Name';
ROLLBACK;

--
-- Answers
--
SELECT * FROM compare_lookups(
	'SELECT count(*) FROM o JOIN t ON t.id = o.big',
	'SELECT o.n, t.* FROM o JOIN t ON t.id = o.big',
	'SELECT o.n, t.v FROM o LEFT JOIN t ON t.id = o.big AND t.v > o.word',
	'SELECT n FROM o WHERE EXISTS (SELECT FROM t WHERE t.k = o.k)',
	'SELECT n FROM o WHERE NOT EXISTS (SELECT FROM t WHERE t.id = o.big)',
	'SELECT n FROM o WHERE NOT EXISTS (SELECT FROM t WHERE t.k = o.k AND t.v = o.word)',
	'SELECT id FROM t WHERE k IN (SELECT k FROM o)',
	'SELECT o.n, t.id FROM o JOIN t USING (k)',
	'SELECT o.n, t.id FROM o JOIN t ON t.k = o.small',
	'SELECT o.n, t.id FROM o JOIN t ON t.k = o.big',
	'SELECT o.n, t.id FROM o JOIN t ON t.k BETWEEN o.k AND o.k + 3',
	'SELECT o.n, t.id FROM o JOIN t ON t.k = o.k WHERE t.v > ''v2'' AND o.n < 90',
	'SELECT k, id FROM t WHERE k = ANY (ARRAY(SELECT k FROM o))',
	'SELECT k FROM t WHERE k = ANY (ARRAY(SELECT big FROM o))',
	'SELECT k FROM t WHERE k IN (1, 5, 399, NULL, -3, 2000000000)',
	'SELECT id FROM t WHERE k < 3 OR k BETWEEN 100 AND 110 OR k > 395',
	'SELECT id, v FROM t WHERE k IN (5, 6, 7) AND id > 3000');

-- Unique rows are counted from the visibility map alone.
:vacuum t;
SELECT * FROM explained('SELECT n FROM o WHERE EXISTS (SELECT FROM t WHERE t.id = o.big)');

--
-- Several columns: NULLs at both ends, both directions, columns that do not fit
--
CREATE TABLE c (a int, b bigint, d date, v text) WITH (autovacuum_enabled = off);
INSERT INTO c SELECT nullif(i % 40, 7), nullif(shuffle(i) % 50, 9), CASE WHEN i % 13 <> 2 THEN date '2026-01-01' + i % 60 END, 'v' || i % 9 FROM generate_series(1, 1500) i;
INSERT INTO c SELECT i, 9223372036854775807, 'infinity' FROM generate_series(1, 30) i;
INSERT INTO c SELECT i, -9223372036854775808, '-infinity' FROM generate_series(1, 30) i;
CREATE TABLE p AS SELECT DISTINCT a, b, d FROM c WHERE hashint8(a + b % 1000) % 7 = 0 UNION ALL SELECT 5, 9223372036854775807, 'infinity' UNION ALL SELECT 6, NULL, NULL;
CREATE TABLE indexes (definition text);
INSERT INTO indexes VALUES ('(a, b)'), ('(a DESC, b)'), ('(b NULLS FIRST, b)'), ('(b DESC NULLS LAST, a)'), ('(a, d DESC, b)'), ('(d NULLS FIRST, a DESC NULLS LAST)'),
	('(a, v, b)'), ('(b, a, d)'), ('(b) INCLUDE (v, a)'), ('(a, b) WHERE v > ''v3'''), ('((a + 1), b)');
:vacuum ANALYZE c, p;
CREATE FUNCTION differing(queries text[]) RETURNS TABLE (definition text, different text) LANGUAGE plpgsql AS $$
BEGIN
	FOR definition IN SELECT i.definition FROM indexes i LOOP
		EXECUTE 'CREATE INDEX c_i ON c ' || definition;
		SELECT string_agg(concat_ws(': ', query, coalesce(nodes, 'none'), nullif(result, 'same')), E'\n' ORDER BY query)
			FROM compare_lookups(VARIADIC queries) WHERE result <> 'same' INTO different;
		RETURN NEXT;
		DROP INDEX c_i;
	END LOOP;
END $$;
SELECT * FROM differing(ARRAY['SELECT p.a, p.b, c.v FROM p JOIN c ON c.a = p.a AND c.b = p.b', 'SELECT p.a, c.b, c.v FROM p LEFT JOIN c ON c.a = p.a',
	'SELECT p.b, c.a, c.d FROM p JOIN c ON c.b = p.b', 'SELECT p.b, c.a FROM p JOIN c ON c.d = p.d AND c.a = p.a', 'SELECT b FROM p WHERE NOT EXISTS (SELECT FROM c WHERE c.b = p.b AND c.a = p.a)',
	'SELECT a, b FROM c WHERE a IN (3, 4, 39) AND b > 10', 'SELECT a, b FROM c WHERE a = ANY (ARRAY(SELECT a FROM p)) AND b = ANY (ARRAY(SELECT b FROM p))',
	'SELECT a, d FROM c WHERE d = ANY (ARRAY(SELECT d FROM p)) AND a < 5', 'SELECT p.b, c.a FROM p JOIN c ON c.a + 1 = p.a AND c.b = p.b', 'SELECT b, v FROM c WHERE b IN (1, 2, 3, 9223372036854775807)', 'SELECT b FROM c WHERE b IN (1, 2, 3, 9223372036854775807)',
	'SELECT p.a, c.v FROM p JOIN c ON c.a = p.a AND c.b = p.b AND c.v > ''v3''']);

--
-- Types: with keys, and with values
--
CREATE TYPE mood AS ENUM ('bad', 'good');
ALTER TYPE mood ADD VALUE 'middling' BEFORE 'good';
CREATE DOMAIN label AS varchar(20);
CREATE TABLE types (type text, value text);
INSERT INTO types VALUES ('smallint', 'i'), ('bigint', 'i'), ('oid', 'abs(i)'), ('real', 'i / 4.0'), ('float8', 'CASE WHEN i = 3 THEN ''NaN'' WHEN i = 4 THEN -0.0 ELSE i / 4.0 END'),
	('uuid', 'md5(i::text)::uuid'), ('timestamptz', 'timestamptz ''2026-01-01'' + i * interval ''1 min'''), ('time', 'time ''00:00'' + i * interval ''1 min'''),
	('"char"', 'chr(40 + abs(i) % 80)'), ('text', '''Text '' || i'), ('text COLLATE "C"', '''tEXT '' || i || repeat(''x'', abs(i) % 300)'), ('varchar(30)', '''v'' || i'), ('label', '''l'' || i'),
	('char(20)', '''c'' || i'), ('name', '''n'' || i'), ('bytea', 'decode(md5(i::text), ''hex'')'), ('numeric', 'i / 4.0'), ('interval', 'i * interval ''1 hour'''),
	('inet', 'inet ''10.0.0.0'' + abs(i)'), ('mood', '(enum_range(NULL::mood))[abs(i) % 3 + 1]'),
	('bit(9)', 'abs(i)::bit(9)'), ('macaddr', '(''08:00:2b:01:'' || to_char(abs(i) / 100, ''FM00:'') || to_char(abs(i) % 100, ''FM00''))');
-- Types that harmonia does not know: of PostgreSQL, made of others, and one with "=" and an order of its own
CREATE TYPE pair AS (a int, b text);
CREATE DOMAIN pairs AS pair[];
CREATE TYPE folded;
CREATE FUNCTION folded_in(cstring) RETURNS folded LANGUAGE internal IMMUTABLE STRICT AS 'textin';
CREATE FUNCTION folded_out(folded) RETURNS cstring LANGUAGE internal IMMUTABLE STRICT AS 'textout';
CREATE TYPE folded (INPUT = folded_in, OUTPUT = folded_out, LIKE = text);
CREATE FUNCTION folded_compare(folded, folded) RETURNS int LANGUAGE plpgsql IMMUTABLE STRICT AS 'BEGIN RETURN bttextcmp(lower($1::text), lower($2::text)); END';
CREATE FUNCTION folded_equal(folded, folded) RETURNS boolean LANGUAGE plpgsql IMMUTABLE STRICT AS 'BEGIN RETURN lower($1::text) = lower($2::text); END';
CREATE FUNCTION folded_less(folded, folded) RETURNS boolean LANGUAGE plpgsql IMMUTABLE STRICT AS 'BEGIN RETURN lower($1::text) < lower($2::text); END';
CREATE FUNCTION folded_greater(folded, folded) RETURNS boolean LANGUAGE plpgsql IMMUTABLE STRICT AS 'BEGIN RETURN lower($1::text) > lower($2::text); END';
CREATE OPERATOR < (LEFTARG = folded, RIGHTARG = folded, FUNCTION = folded_less);
CREATE OPERATOR > (LEFTARG = folded, RIGHTARG = folded, FUNCTION = folded_greater);
CREATE OPERATOR = (LEFTARG = folded, RIGHTARG = folded, FUNCTION = folded_equal, COMMUTATOR = =, RESTRICT = eqsel, JOIN = eqjoinsel, MERGES);
CREATE OPERATOR CLASS folded_ops DEFAULT FOR TYPE folded USING btree AS OPERATOR 1 <, OPERATOR 3 =, OPERATOR 5 >, FUNCTION 1 folded_compare(folded, folded);
INSERT INTO types VALUES ('pg_lsn', 'pg_lsn ''0/1000'' + abs(i)'), ('int[]', 'ARRAY[i % 50, i]'), ('int4range', 'CASE i WHEN 7 THEN ''empty'' ELSE int4range(i, i + 5) END'),
	('jsonb', 'jsonb_build_object(''a'', i, ''b'', repeat(''x'', abs(i) % 200))'), ('tsvector', '(''word'' || i || '' other'')::tsvector'), ('pair', '(i % 20, ''b'' || i)::pair'), ('pairs', 'ARRAY[(i, ''b'')::pair, (i, NULL)::pair]'),
	('folded', '(CASE WHEN i % 2 = 0 THEN ''Letters'' ELSE ''lETTERs'' END || abs(i) / 3)');
CREATE FUNCTION differing_types() RETURNS TABLE (type text, nodes text, different text) LANGUAGE plpgsql AS $$
DECLARE
	value text;
	option text;
	among text;
BEGIN
	FOR type, value IN SELECT t.type, t.value FROM types t LOOP
		EXECUTE format('CREATE TABLE x (k %s, id int)', type);
		EXECUTE format('CREATE TABLE y (k %s, n int)', type);
		EXECUTE format('INSERT INTO x SELECT CASE WHEN i %% 19 <> 2 THEN (%s)::%s END, i FROM generate_series(-100, 600) i', value, type);
		EXECUTE format('INSERT INTO y SELECT CASE WHEN i %% 23 <> 2 THEN (%s)::%s END, i FROM (SELECT shuffle(n) %% 300 - 150 AS i FROM generate_series(1, 80) n) s', value, type);
		different := '';
		-- An array has no arrays as elements.
		among := 'SELECT id FROM x WHERE k ' || CASE WHEN type IN ('int[]', 'pairs') THEN 'IN (%s)' ELSE '= ANY (ARRAY(%s))' END;
		FOREACH option IN ARRAY '{"", " DESC", " NULLS FIRST"}'::text[] LOOP
			EXECUTE format('CREATE INDEX x_k ON x (k%s)', option);
			ANALYZE x, y;
			SELECT different || coalesce(string_agg(format('%s: %s: %s', option, c.query, c.result), E'\n') FILTER (WHERE c.result <> 'same'), ''),
					string_agg(DISTINCT c.nodes, '; ')
				FROM compare_lookups('SELECT y.n, x.id FROM y JOIN x USING (k)', 'SELECT n FROM y WHERE EXISTS (SELECT FROM x WHERE x.k = y.k)',
					'SELECT n FROM y WHERE NOT EXISTS (SELECT FROM x WHERE x.k = y.k)', format(among, 'SELECT k FROM y'),
					format(among, 'SELECT k FROM y UNION ALL SELECT k FROM y UNION ALL SELECT k FROM y'),
					'SELECT n, id FROM y LEFT JOIN x ON x.k = y.k AND x.id > y.n', 'SELECT n, id FROM y LEFT JOIN x ON x.k = CASE WHEN n % 3 > 0 THEN y.k END',
					'SELECT n FROM y WHERE NOT EXISTS (SELECT FROM x WHERE x.k = CASE WHEN n % 3 > 0 THEN y.k END AND x.id > n)') c INTO different, nodes;
			DROP INDEX x_k;
		END LOOP;
		DROP TABLE x, y;
		RETURN NEXT;
	END LOOP;
END $$;
-- Outer rows may give values by an expression.  Values with one key, as -1 and 1 are, come by turns in an array that has them several times.
SELECT * FROM differing_types();
-- The operator's collation must be the index's.
CREATE TABLE collated (k text COLLATE "C") WITH (autovacuum_enabled = off);
INSERT INTO collated SELECT 'k' || i FROM generate_series(1, 2000) i;
CREATE INDEX collated_k ON collated (k COLLATE "POSIX");
:vacuum ANALYZE collated;
BEGIN;
CALL use_lookups(true);
SELECT lookup_nodes('SELECT FROM o JOIN collated c ON c.k = o.word COLLATE "C"'), lookup_nodes('SELECT FROM o JOIN collated c ON c.k = o.word COLLATE "POSIX"'),
	lookup_nodes('SELECT FROM o JOIN collated c ON c.k = (o.word || o.n) COLLATE "POSIX"');
ROLLBACK;
-- A class of a family that is not the type's default one sorts by values, as it likes.
CREATE FUNCTION compare_backwards(int, int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT btint4cmp($2, $1)';
CREATE OPERATOR CLASS backwards FOR TYPE int USING btree AS OPERATOR 1 >, OPERATOR 2 >=, OPERATOR 3 =, OPERATOR 4 <=, OPERATOR 5 <, FUNCTION 1 compare_backwards(int, int);
DROP INDEX t_k, t_k_desc;
CREATE INDEX t_backwards ON t (k backwards);
:vacuum ANALYZE t;
SELECT * FROM compare_lookups('SELECT o.n, t.id FROM o JOIN t USING (k)', 'SELECT k, id FROM t WHERE k = ANY (ARRAY(SELECT k FROM o))');

--
-- Partitions, workers
--
CREATE TABLE r (id bigint, k int, v int, PRIMARY KEY (id)) PARTITION BY RANGE (id);
CREATE TABLE r_1 PARTITION OF r FOR VALUES FROM (1) TO (3000) WITH (autovacuum_enabled = off);
CREATE TABLE r_2 PARTITION OF r FOR VALUES FROM (3000) TO (20000) PARTITION BY HASH (id);
CREATE TABLE r_2_0 PARTITION OF r_2 FOR VALUES WITH (MODULUS 2, REMAINDER 0) WITH (autovacuum_enabled = off);
CREATE TABLE r_2_1 PARTITION OF r_2 FOR VALUES WITH (MODULUS 2, REMAINDER 1) WITH (autovacuum_enabled = off);
INSERT INTO r SELECT i, i % 99, i FROM generate_series(1, 8000) i;
:vacuum ANALYZE r;
SELECT * FROM compare_lookups('SELECT o.n, r.v FROM o JOIN r ON r.id = o.big', 'SELECT n FROM o WHERE NOT EXISTS (SELECT FROM r WHERE r.id = o.big)',
	'SELECT id, v FROM r WHERE id = ANY (ARRAY(SELECT big FROM o))', 'SELECT id FROM r WHERE id = ANY (ARRAY(SELECT big FROM o WHERE n < 9))');
BEGIN;
SET LOCAL max_parallel_workers_per_gather = 2;
SET LOCAL parallel_setup_cost = 0;
SET LOCAL parallel_tuple_cost = 0;
SET LOCAL min_parallel_table_scan_size = 0;
SET lookup.seqscan = on;
SELECT * FROM compare_lookups('SELECT o.n, t.v FROM o JOIN t ON t.id = o.big', 'SELECT id FROM t WHERE id = ANY (ARRAY(SELECT big FROM o))',
	'SELECT id FROM t WHERE id BETWEEN 100 AND 900 OR id BETWEEN 2000 AND 12000');
COMMIT;
SET lookup.seqscan = off;

--
-- Operator classes of other orders: keys are not in their order, so values are looked up
--
CREATE FUNCTION reverse(int, int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT btint4cmp($2, $1)';
CREATE FUNCTION reverse(float8, float8) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT btfloat8cmp($2, $1)';
CREATE OPERATOR CLASS reversed_int FOR TYPE int USING btree AS OPERATOR 1 >, OPERATOR 2 >=, OPERATOR 3 =, OPERATOR 4 <=, OPERATOR 5 <, FUNCTION 1 reverse(int, int);
CREATE OPERATOR CLASS reversed_float FOR TYPE float8 USING btree AS OPERATOR 1 >, OPERATOR 2 >=, OPERATOR 3 =, OPERATOR 4 <=, OPERATOR 5 <, FUNCTION 1 reverse(float8, float8);
CREATE TABLE v (k int, f float8) WITH (autovacuum_enabled = off);
INSERT INTO v SELECT nullif(i % 900 - 100, 7), i % 900 / 4.0 - 50 FROM generate_series(1, 6000) i;
CREATE INDEX v_k ON v (k reversed_int);
CREATE INDEX v_f ON v (f reversed_float);
:vacuum ANALYZE v;
SELECT * FROM compare_lookups('SELECT o.n, v.k FROM o JOIN v USING (k)', 'SELECT k FROM v WHERE k = ANY (ARRAY(SELECT k FROM o))', 'SELECT n FROM o WHERE NOT EXISTS (SELECT FROM v WHERE v.k = o.k)');
-- Keys of floats do not give them back: -0 has that of 0.
SELECT * FROM compare_lookups('SELECT n, f FROM (SELECT n, k::float8 / 2 AS f FROM o OFFSET 0) o JOIN v USING (f)', 'SELECT f FROM v WHERE f = ANY (ARRAY(SELECT k / 4.0::float8 FROM o))');
-- The "=" of a family may be another one than the type's, by which batches have their distinct keys.
CREATE FUNCTION same_size(int, int) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN abs($1) = abs($2); END';
CREATE FUNCTION smaller(int, int) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT abs($1) < abs($2)';
CREATE FUNCTION compare_size(int, int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT btint4cmp(abs($1), abs($2))';
CREATE OPERATOR |=| (LEFTARG = int, RIGHTARG = int, FUNCTION = same_size, COMMUTATOR = |=|, RESTRICT = eqsel, JOIN = eqjoinsel, MERGES);
CREATE OPERATOR |<| (LEFTARG = int, RIGHTARG = int, FUNCTION = smaller);
CREATE OPERATOR CLASS by_size FOR TYPE int USING btree AS OPERATOR 1 |<|, OPERATOR 3 |=|, FUNCTION 1 compare_size(int, int);
CREATE INDEX v_size ON v (k by_size);
SELECT * FROM compare_lookups('SELECT o.n, v.k FROM o JOIN v ON v.k |=| o.k', 'SELECT k FROM v WHERE k |=| ANY (ARRAY(SELECT k FROM o))', 'SELECT k FROM v WHERE k |=| ANY (''{1, -1, 9, -20}'')');

--
-- Pages that are emptied and deleted; dead entries; other kinds of tables
--
CREATE TABLE e (k int) WITH (autovacuum_enabled = off);
CREATE INDEX e_k ON e (k);
SELECT * FROM compare_lookups('SELECT n FROM o JOIN e USING (k)', 'SELECT n FROM o WHERE NOT EXISTS (SELECT FROM e WHERE e.k = o.k)');
INSERT INTO e SELECT i % 4000 FROM generate_series(1, 40000) i;
DELETE FROM e WHERE k BETWEEN 50 AND 350;
SELECT * FROM compare_lookups('SELECT n FROM o JOIN e USING (k)', 'SELECT k FROM e WHERE k = ANY (ARRAY(SELECT big FROM o))');
:vacuum ANALYZE e;
SELECT * FROM compare_lookups('SELECT n FROM o JOIN e USING (k)', 'SELECT k FROM e WHERE k = ANY (ARRAY(SELECT big FROM o))', 'SELECT o.n FROM o JOIN e ON e.k BETWEEN o.k AND o.k + 20');
INSERT INTO e SELECT 60 FROM generate_series(1, 3000);
SELECT * FROM compare_lookups('SELECT n FROM o JOIN e USING (k)', 'SELECT o.n FROM o WHERE EXISTS (SELECT FROM e WHERE e.k BETWEEN o.k AND o.k + 20)');
CREATE UNLOGGED TABLE u AS SELECT * FROM t;
CREATE INDEX ON u (id);
CREATE TEMPORARY TABLE temporary AS SELECT * FROM t;
CREATE INDEX ON temporary (id);
ANALYZE u, temporary;
SELECT * FROM compare_lookups('SELECT n, u.v FROM o JOIN u ON u.id = o.big', 'SELECT n, x.v FROM o JOIN temporary x ON x.id = o.big');
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT * FROM compare_lookups('SELECT count(*) FROM o JOIN t ON t.id = o.big');
COMMIT;

DROP SCHEMA btree_lookup CASCADE;
