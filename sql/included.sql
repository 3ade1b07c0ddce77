--
-- Included columns
--
SET client_min_messages = warning;
SET jit = off;
SET max_parallel_workers_per_gather = 0;
CREATE SCHEMA included;
SET search_path = included, public;
\getenv srcdir PG_ABS_SRCDIR
\set compare :srcdir '/sql/include/compare.sql'
\i :compare
\set lookup :srcdir '/sql/include/lookup.sql'
\i :lookup

-- Keys and included values, NULL, least and greatest ones among them. Each key has three rows.
CREATE TABLE t (a bigint, b int, c smallint, d date, e int, s text, n numeric) WITH (autovacuum_enabled = off);
INSERT INTO t SELECT shuffle(i / 3), CASE WHEN i % 7 = 0 THEN NULL ELSE shuffle(i) END, i % 100, date '2026-01-01' + i % 500,
	i % 1000, 's' || i / 3, i / 3
FROM generate_series(1, 6000) i;
INSERT INTO t SELECT a, b, c, date '2000-01-01', 0, 'x', 0
FROM unnest('{NULL,-9223372036854775808,-1,0,1,9223372036854775807}'::bigint[]) a,
	unnest('{NULL,-2147483648,-1,0,1,2147483647}'::int[]) b, unnest('{NULL,-32768,0,32767}'::smallint[]) c;
CREATE TABLE p AS SELECT i AS p, CASE WHEN i % 11 = 0 THEN NULL WHEN i % 5 = 0 THEN -shuffle(i) ELSE shuffle(i) END::bigint AS a,
	's' || i AS s, i % 1000 AS e FROM generate_series(1, 3000) i;
INSERT INTO p SELECT -i, a, 'x', 0 FROM unnest('{-9223372036854775808,-1,0,1,9223372036854775807}'::bigint[]) WITH ORDINALITY u (a, i);

CREATE INDEX t_a ON t USING harmonia (a) INCLUDE (b, c);
CREATE INDEX t_e ON t USING harmonia (e) INCLUDE (b);
CREATE INDEX t_sum ON t USING harmonia ((e + c)) INCLUDE (c, d);
CREATE INDEX t_de ON t USING harmonia (d, e) INCLUDE (b);
CREATE INDEX t_s ON t USING harmonia (s) INCLUDE (b);
CREATE INDEX t_part ON t USING harmonia (e) INCLUDE (a) WHERE c > 50;
:vacuum ANALYZE t, p;
SELECT indexrelid::regclass AS index, indnatts, indnkeyatts, pg_get_indexdef(indexrelid) FROM pg_index WHERE indrelid = 't'::regclass ORDER BY 1;

-- Nodes of PostgreSQL and ours return included columns.
BEGIN;
CALL use('only');
SELECT plan('SELECT b, c FROM t WHERE a = 5');
CALL use_lookups(true);
SELECT explained('SELECT p.p, t.b FROM p JOIN t USING (a)');
SELECT explained('SELECT sum(b), max(c) FROM t WHERE a = ANY (ARRAY(SELECT a FROM p))');
COMMIT;

SELECT * FROM compare_lookups(
	'SELECT a, b, c FROM t WHERE a = ANY (ARRAY(SELECT a FROM p))',
	'SELECT b, c FROM t WHERE a = ANY (ARRAY(SELECT a FROM p)) AND c > 10',
	'SELECT b, c FROM t WHERE a IN (-9223372036854775808, -1, 0, 1, 9223372036854775807)',
	'SELECT sum(b), max(c), count(b), count(*) FROM t WHERE a = ANY (ARRAY(SELECT a FROM p))',
	'SELECT b, sum(c) FROM t WHERE a = ANY (ARRAY(SELECT a FROM p)) GROUP BY b',
	'SELECT p.p, t.b, t.c FROM p JOIN t USING (a)',
	'SELECT sum(t.b), avg(t.c) FROM p JOIN t USING (a)',
	'SELECT p.p, t.b FROM p LEFT JOIN t ON t.a = p.a AND t.b > 0',
	'SELECT p.p FROM p WHERE EXISTS (SELECT FROM t WHERE t.a = p.a AND t.b < 0)',
	'SELECT p.p FROM p WHERE NOT EXISTS (SELECT FROM t WHERE t.a = p.a AND t.c = 7)',
	'SELECT b, c FROM t WHERE a IN (SELECT a FROM p)',
	'SELECT p.p, t.b FROM p JOIN t USING (e) WHERE p.p < 300',
	'SELECT p.p, t.a FROM p JOIN t ON t.e = p.e AND t.c > 50 WHERE p.p < 300',
	'SELECT p.p, t.d FROM p JOIN t ON t.e + t.c = p.e WHERE p.p < 300',
	'SELECT p.p, t.b FROM p JOIN t ON t.e = p.e AND t.d = ''2026-03-01''',
	'SELECT d, e, b FROM t WHERE d = ''2026-03-01'' AND e = ANY (ARRAY(SELECT e FROM p))',
	'SELECT p.p, t.b FROM p JOIN t USING (s)',
	'SELECT b FROM t WHERE s = ANY (ARRAY(SELECT s FROM p))');

-- Plain scans, with conditions on included columns, which no range expresses
SELECT * FROM compare_queries(
	'SELECT a, b, c FROM t WHERE a = 5 OR a = 0',
	'SELECT a, b, c FROM t WHERE a BETWEEN -1 AND 1000000000 AND b > 0',
	'SELECT a, b, c FROM t WHERE a IS NULL',
	'SELECT a, b, c FROM t WHERE a IS NULL AND b IS NULL',
	'SELECT a, b, c FROM t WHERE a IS NOT NULL AND c IS NULL',
	'SELECT b, c FROM t WHERE a = ''-9223372036854775808'' AND b = 2147483647',
	'SELECT a, b FROM t ORDER BY a, b, c',
	'SELECT e, b FROM t WHERE e < 10 ORDER BY e DESC, b, a, c',
	'SELECT b FROM t WHERE s = ''s17''');

-- An update of an included column alone makes an entry; changes and VACUUM
UPDATE t SET b = b + 1 WHERE e % 10 = 3 AND b < 2147483647;
DELETE FROM t WHERE e % 10 = 4;
INSERT INTO t SELECT * FROM t WHERE e % 10 = 5;
SELECT * FROM compare_lookups('SELECT p.p, t.b, t.c FROM p JOIN t USING (a)', 'SELECT p.p, t.b FROM p JOIN t USING (s)');
VACUUM t;
SELECT * FROM compare_lookups('SELECT p.p, t.b, t.c FROM p JOIN t USING (a)', 'SELECT p.p, t.b FROM p JOIN t USING (s)');
SELECT harmonia_check(i, true) FROM unnest('{t_a,t_e,t_sum,t_de,t_s,t_part}'::regclass[]) i;
SELECT harmonia_reorganize('t_a') >= 0;
REINDEX INDEX CONCURRENTLY t_a;
SELECT harmonia_check('t_a', true);

-- Enums, and domains of them
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE DOMAIN frame AS mood;
CREATE TABLE m (e int, mood mood, frame frame) WITH (autovacuum_enabled = off);
INSERT INTO m SELECT i % 1000, (enum_range(NULL::mood))[i % 4], (enum_range(NULL::mood))[1 + i % 3] FROM generate_series(1, 3000) i;
CREATE INDEX m_e ON m USING harmonia (e) INCLUDE (mood, frame);
CREATE INDEX m_mood ON m USING harmonia (mood) INCLUDE (frame, e);
VACUUM ANALYZE m;
SELECT * FROM compare_lookups(
	'SELECT e, mood, frame FROM m WHERE e = ANY (ARRAY(SELECT e FROM p))',
	'SELECT p.p, m.mood, m.frame FROM p JOIN m USING (e)',
	'SELECT frame, e FROM m WHERE mood = ANY (''{sad, happy}'')');
SELECT * FROM compare_queries('SELECT mood, frame, e FROM m WHERE mood IS NULL', 'SELECT mood, frame FROM m WHERE e = 7');
SELECT harmonia_check(i, true) FROM unnest('{m_e,m_mood}'::regclass[]) i;

-- Partitions, whose columns have other numbers
CREATE TABLE parted (a int, x text, v int) PARTITION BY LIST (a);
CREATE TABLE parted_0 (v int, a int, x text);
ALTER TABLE parted ATTACH PARTITION parted_0 FOR VALUES IN (0, 2, 4, 6, 8);
CREATE TABLE parted_1 PARTITION OF parted DEFAULT;
CREATE INDEX parted_a ON parted USING harmonia (a) INCLUDE (v);
INSERT INTO parted SELECT i % 20, 'x', i FROM generate_series(1, 3000) i;
VACUUM ANALYZE parted;
SELECT * FROM compare_lookups(
	'SELECT sum(v) FROM parted WHERE a = ANY (ARRAY(SELECT e FROM p))',
	'SELECT p.p, parted.v FROM p JOIN parted ON parted.a = p.e');

-- Rows that the table has to be asked about are read page by page, though keys are returned for the other ones.
CREATE TABLE spread (a int, v int) WITH (autovacuum_enabled = off);
INSERT INTO spread SELECT i % 100, i FROM generate_series(1, 2000) i;
:vacuum spread;
CREATE INDEX ON spread USING harmonia (a) INCLUDE (v);
UPDATE spread SET v = v + 1 WHERE v % 250 = 0;
ANALYZE spread;
BEGIN;
CALL use_lookups(true);
SELECT * FROM explained('SELECT sum(v) FROM generate_series(0, 120) g JOIN spread ON a = g');
ROLLBACK;
SELECT * FROM compare_lookups(
	'SELECT g, v FROM generate_series(0, 120) g JOIN spread ON a = g',
	'SELECT v FROM spread WHERE a IN (3, 4, 77)',
	'SELECT a FROM spread WHERE a IN (3, 4, 77) AND v > 500',
	'SELECT count(*) FROM spread WHERE a BETWEEN 3 AND 4 OR a = 77',
	'SELECT count(*) FROM spread WHERE a IN (3, 4, 77)');

-- A column that changes its type
ALTER TABLE t ALTER c TYPE int;
SELECT * FROM compare_lookups('SELECT p.p, t.b, t.c FROM p JOIN t USING (a)');

-- New types that store the same values, for which PostgreSQL keeps the index
SET timezone = 'UTC';
CREATE DOMAIN ident AS oid;
CREATE DOMAIN checked_ident AS ident CHECK (value >= 0);
CREATE TABLE altered (a int, stamp timestamp, n int, o oid) WITH (autovacuum_enabled = off);
CREATE PROCEDURE add_rows() LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO altered SELECT i % 500, timestamp '2026-01-01' + i * interval '1 hour', n, n
	FROM generate_series(1, 1000) i, LATERAL (SELECT CASE WHEN i % 7 > 0 THEN shuffle(i) * (1 - i % 3) END) s (n);
	INSERT INTO altered SELECT 0, stamp, n, n
	FROM unnest('{NULL,-infinity,2000-01-01,infinity}'::timestamp[]) stamp, unnest('{-2147483648,-1,1,2147483647}'::int[]) n;
END $$;
CREATE VIEW altered_indexes AS SELECT indexrelid AS i, pg_relation_filenode(indexrelid) AS file
	FROM pg_index WHERE indrelid = 'altered'::regclass;
CREATE FUNCTION alter_types(actions text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	files oid[] = ARRAY(SELECT file FROM altered_indexes ORDER BY file);
BEGIN
	EXECUTE 'ALTER TABLE altered ' || actions;
	RETURN CASE WHEN files = ARRAY(SELECT file FROM altered_indexes ORDER BY file) THEN 'kept' ELSE 'built' END;
END $$;
CREATE FUNCTION compare_altered() RETURNS TABLE (n bigint, result text, nodes text, query text) LANGUAGE sql AS $$
	SELECT n, result, plan, query FROM compare_queries(
		'SELECT a, stamp, n FROM altered WHERE a < 100',
		'SELECT a, o, n FROM altered WHERE a >= 0')
	UNION ALL SELECT * FROM compare_lookups(
		'SELECT p.p, stamp, n FROM p JOIN altered ON altered.a = p.e',
		'SELECT n, count(*) FROM altered WHERE a IN (0, 1, 2, 3) GROUP BY n',
		'SELECT max(o), min(n) FROM altered WHERE a = ANY (ARRAY(SELECT e FROM p))',
		'SELECT o, n FROM altered WHERE a IN (0, 1, 2, 3)')
	UNION ALL SELECT count(*), 'passes', NULL, 'harmonia_check()'
	FROM altered_indexes, harmonia_check(i, true)
$$;
CALL add_rows();
CREATE INDEX altered_stamp ON altered USING harmonia (a) INCLUDE (stamp, n);
CREATE INDEX altered_ids ON altered USING harmonia (a) INCLUDE (o, n);
:vacuum ANALYZE altered;
PREPARE counted AS SELECT count(stamp), count(n), count(o) FROM altered WHERE a < 100;
EXECUTE counted;
SELECT alter_types('ALTER stamp TYPE timestamptz, ALTER n TYPE oid, ALTER o TYPE int');
EXECUTE counted;
SELECT * FROM compare_altered();

-- Rows of both types
CALL add_rows();
UPDATE altered SET n = 4294967295, o = -1 WHERE a % 50 = 1;
DELETE FROM altered WHERE a % 50 = 2;
:vacuum ANALYZE altered;
SELECT * FROM compare_altered();
SELECT a, stamp, n, o FROM altered WHERE a = 0 AND o IN (-1, -2147483648) AND n > 0 ORDER BY stamp, o LIMIT 4;

-- Back; domains; and a type without keys of its own
SELECT alter_types('ALTER stamp TYPE timestamp, ALTER n TYPE int, ALTER o TYPE ident');
SELECT alter_types('ALTER n TYPE regclass');
CALL add_rows();
:vacuum ANALYZE altered;
SELECT * FROM compare_altered();
REINDEX TABLE altered;
SELECT * FROM compare_altered();
SELECT alter_types('ALTER n TYPE int');
SELECT * FROM compare_altered();

-- With a constraint to check, the table is rewritten.
SELECT alter_types('ALTER o TYPE checked_ident');
:vacuum ANALYZE altered;
SELECT * FROM compare_altered();

-- Partitions
ALTER TABLE parted ALTER v TYPE oid;
INSERT INTO parted SELECT i, 'x', 4294967295 - i FROM generate_series(1, 20) i;
:vacuum ANALYZE parted;
SELECT * FROM compare_lookups(
	'SELECT max(v) FROM parted WHERE a = ANY (ARRAY(SELECT e FROM p))',
	'SELECT p.p, parted.v FROM p JOIN parted ON parted.a = p.e');

-- What cannot be included
CREATE FUNCTION outcome(command text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	detail text;
	hint text;
BEGIN
	EXECUTE command;
	RETURN 'done';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
	RETURN concat_ws('; ', sqlstate || ' ' || sqlerrm, nullif(detail, ''), nullif(hint, ''));
END $$;
CREATE TABLE ids (a int, u uuid);
SELECT command, outcome(command) FROM unnest(ARRAY[
	'CREATE INDEX ON t USING harmonia (a) INCLUDE (s)',
	'CREATE INDEX ON t USING harmonia (a) INCLUDE (n)',
	'CREATE INDEX ON ids USING harmonia (a) INCLUDE (u)',
	'CREATE INDEX wide ON t USING harmonia (a) INCLUDE (b, d, c)',
	'CREATE INDEX ON t USING harmonia (a) INCLUDE (b, b, b, b, b, b, b, b)',
	'CREATE INDEX ON t USING harmonia (a) INCLUDE ((b + 1))',
	'ALTER TABLE t ALTER b TYPE bigint']) command;

DROP SCHEMA included CASCADE;
