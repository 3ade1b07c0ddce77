--
-- Exclusion constraints: EXCLUDE USING harmonia (k WITH =)
--
CREATE SCHEMA exclusion_test;
SET search_path = exclusion_test, public;
\getenv srcdir PG_ABS_SRCDIR
\set settle :srcdir '/sql/include/settle.sql'
\i :settle
\pset format unaligned

-- What an error says, or what becomes of a command.
CREATE FUNCTION outcome(command text) RETURNS text LANGUAGE plpgsql
AS $$
DECLARE
	detail text;
	name text;
	n bigint;
BEGIN
	EXECUTE command;
	GET DIAGNOSTICS n = ROW_COUNT;
	RETURN n || ' rows';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL, name = CONSTRAINT_NAME;
	RETURN concat_ws(' | ', SQLSTATE, SQLERRM, nullif(detail, ''), nullif(name, ''));
END $$;

CREATE TABLE t (k int, v int, EXCLUDE USING harmonia (k WITH =));
SELECT pg_get_constraintdef(x.oid), condeferrable, amname FROM pg_constraint x
	JOIN pg_class c ON c.oid = conindid JOIN pg_am a ON a.oid = relam WHERE conrelid = 't'::regclass AND contype = 'x';

--
-- Rows that conflict, by any statement
--
INSERT INTO t VALUES (1, 1), (2, 2), (NULL, 3), (NULL, 4);
INSERT INTO t VALUES (1, 5);
SELECT outcome(command) FROM unnest(ARRAY[
	'INSERT INTO t VALUES (3, 5), (3, 6)',
	'INSERT INTO t SELECT i % 500 FROM generate_series(10, 1009) i',
	'INSERT INTO t SELECT i FROM generate_series(10, 509) i',
	'UPDATE t SET k = 2 WHERE k = 1',
	'UPDATE t SET k = 1 WHERE k IS NULL',
	'UPDATE t SET k = NULL WHERE k = 1',
	'INSERT INTO t VALUES (1, 7)',
	'UPDATE t SET k = k WHERE k < 100',
	'UPDATE t SET v = 8 WHERE k < 100',
	'UPDATE t SET k = k + 1000',
	'UPDATE t SET k = k + 1 WHERE k > 1400',
	'DELETE FROM t WHERE k = 1002',
	'INSERT INTO t VALUES (1002, 9)',
	'MERGE INTO t USING generate_series(1001, 1003) s (k) ON t.k = s.k
		WHEN MATCHED AND t.k = 1001 THEN DELETE WHEN MATCHED THEN UPDATE SET v = 10',
	'MERGE INTO t USING generate_series(1001, 1003) s (k) ON t.k = s.k AND t.v = 9
		WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT VALUES (s.k, 11)']) command;
\copy t FROM PROGRAM 'printf "5000\t1\n5001\t2\n5000\t3\n"'
SELECT count(*), count(k), count(DISTINCT k) FROM t;
SELECT harmonia_check('t_k_excl', true);

-- Entries are not queued
SET client_min_messages = debug1;
INSERT INTO t SELECT i FROM generate_series(10001, 10200) i;
INSERT INTO t SELECT NULL FROM generate_series(1, 200) i;
RESET client_min_messages;

-- A row of the transaction itself, of a subtransaction that has rolled back, of a transaction that has
BEGIN;
INSERT INTO t VALUES (20001, 1);
SELECT outcome('INSERT INTO t VALUES (20001, 2)');
SAVEPOINT s;
INSERT INTO t VALUES (20002, 1);
ROLLBACK TO s;
INSERT INTO t VALUES (20002, 2);
DELETE FROM t WHERE k = 20001;
INSERT INTO t VALUES (20001, 3);
ROLLBACK;
INSERT INTO t VALUES (20001, 4), (20002, 5);
SELECT outcome('INSERT INTO t VALUES (20001, 2)'), outcome('INSERT INTO t VALUES (20002, 2)');

-- The statement's rows meet one another before it has ended, and the error leaves nothing
TRUNCATE t;
SELECT outcome('INSERT INTO t SELECT i FROM generate_series(1, 3000) i UNION ALL SELECT 1700');
SELECT count(*) FROM t;
SELECT outcome('INSERT INTO t SELECT i FROM generate_series(1, 3000) i');

-- A row that is dead for all, with a hint or removed, and one that moves within its page
CREATE TABLE moving (k int, v int, EXCLUDE USING harmonia (k WITH =)) WITH (fillfactor = 40);
INSERT INTO moving SELECT i, 0 FROM generate_series(1, 200) i;
UPDATE moving SET v = v + 1;
UPDATE moving SET v = v + 1 WHERE k % 2 = 0;
SELECT outcome('INSERT INTO moving VALUES (17, 1)'), outcome('INSERT INTO moving VALUES (18, 1)');
DELETE FROM moving WHERE k <= 100;
SET enable_seqscan = off;
SELECT count(*) FROM moving WHERE k BETWEEN 1 AND 100;
RESET enable_seqscan;
SELECT outcome('INSERT INTO moving SELECT i FROM generate_series(1, 50) i');
SELECT outcome('INSERT INTO moving SELECT i FROM generate_series(50, 60) i');
:vacuum moving;
SELECT outcome('INSERT INTO moving SELECT i FROM generate_series(51, 100) i');
SELECT outcome('INSERT INTO moving VALUES (' || k || ', 1)') FROM unnest('{1, 50, 51, 100, 101, 200, 201}'::int[]) k;

--
-- Builds
--
CREATE TABLE built (k int, v int);
INSERT INTO built VALUES (1, 1), (2, 2), (2, 3), (NULL, 4), (NULL, 5);
ALTER TABLE built ADD CONSTRAINT built_x EXCLUDE USING harmonia (k WITH =);
DELETE FROM built WHERE v = 3;
ALTER TABLE built ADD CONSTRAINT built_x EXCLUDE USING harmonia (k WITH =);
SELECT outcome('INSERT INTO built VALUES (2, 6)');
REINDEX INDEX built_x;
REINDEX TABLE built;
SELECT outcome('INSERT INTO built VALUES (2, 6)');
REINDEX INDEX CONCURRENTLY built_x;
REINDEX TABLE CONCURRENTLY built;
VACUUM FULL built;
CLUSTER built USING built_x;
SELECT outcome('INSERT INTO built VALUES (1, 6)');
ALTER TABLE built ALTER k TYPE bigint;
SELECT outcome('INSERT INTO built VALUES (1, 6)');
-- Two keys become one
ALTER TABLE built ALTER k TYPE bigint USING k / 3;
CREATE TABLE liked (LIKE built INCLUDING ALL);
INSERT INTO liked VALUES (1), (1);
-- A transaction that has changed the table before
BEGIN;
INSERT INTO built VALUES (7, 7), (8, 8);
ALTER TABLE built ADD CONSTRAINT built_v EXCLUDE USING harmonia (v WITH =);
SELECT outcome('INSERT INTO built VALUES (9, 8)');
SELECT outcome('INSERT INTO built VALUES (8, 9)');
COMMIT;
SELECT harmonia_check('built_x', true), harmonia_check('built_v', true);

--
-- What PostgreSQL refuses
--
SELECT outcome(command) FROM unnest(ARRAY[
	'INSERT INTO built VALUES (1, 6) ON CONFLICT (k) DO NOTHING',
	'INSERT INTO built VALUES (1, 6) ON CONFLICT ON CONSTRAINT built_x DO UPDATE SET v = 6',
	'CREATE TABLE refers (k bigint REFERENCES built (k))',
	'ALTER TABLE built REPLICA IDENTITY USING INDEX built_x',
	'ALTER TABLE built ADD UNIQUE USING INDEX built_x',
	'DROP INDEX built_x']) command;

--
-- ON CONFLICT DO NOTHING
--
INSERT INTO built VALUES (1, 100), (100, 1), (100, 100), (100, 101) ON CONFLICT DO NOTHING;
INSERT INTO built VALUES (1, 102) ON CONFLICT ON CONSTRAINT built_x DO NOTHING;
SELECT outcome('INSERT INTO built VALUES (102, 1) ON CONFLICT ON CONSTRAINT built_x DO NOTHING');
INSERT INTO built SELECT i, 1000 + i FROM generate_series(1, 300) i ON CONFLICT DO NOTHING;
SELECT count(*), count(DISTINCT k), count(DISTINCT v), sum(k), sum(v) FROM built WHERE k IS NOT NULL;
SELECT harmonia_check('built_x', true), harmonia_check('built_v', true);

--
-- Deferred checks
--
CREATE TABLE later (k int, v int,
	CONSTRAINT later_k EXCLUDE USING harmonia (k WITH =) DEFERRABLE,
	CONSTRAINT later_v EXCLUDE USING harmonia (v WITH =) DEFERRABLE INITIALLY DEFERRED);
INSERT INTO later SELECT i, i FROM generate_series(1, 100) i;
-- At the end of the statement
UPDATE later SET k = k + 1;
SELECT outcome('INSERT INTO later VALUES (50, 1001)');
-- At commit
BEGIN;
UPDATE later SET v = 101 - v;
INSERT INTO later VALUES (1001, 1);
SELECT count(*) - count(DISTINCT v) AS twice FROM later;
SELECT outcome('SET CONSTRAINTS later_v IMMEDIATE');
UPDATE later SET v = 1001 WHERE k = 1001;
COMMIT;
BEGIN;
SET CONSTRAINTS ALL DEFERRED;
INSERT INTO later VALUES (2, 2001), (3, 2), (1002, 3);
DELETE FROM later WHERE v IN (2, 3) AND k < 1000;
COMMIT;
BEGIN;
SET CONSTRAINTS ALL DEFERRED;
INSERT INTO later VALUES (2, 2001);
UPDATE later SET v = 2002 WHERE v = 2001;
DELETE FROM later WHERE v = 2002;
COMMIT;
-- A row that a HOT update has moved since
BEGIN;
CREATE TABLE later_hot (k int, w int, EXCLUDE USING harmonia (k WITH =) DEFERRABLE INITIALLY DEFERRED);
INSERT INTO later_hot VALUES (1, 1), (1, 2);
UPDATE later_hot SET w = w + 10;
SELECT outcome('SET CONSTRAINTS ALL IMMEDIATE');
UPDATE later_hot SET w = w + 10;
DELETE FROM later_hot WHERE w = 22;
COMMIT;
TABLE later_hot;
SELECT outcome('INSERT INTO later VALUES (7, 7) ON CONFLICT DO NOTHING');
SELECT outcome('INSERT INTO later VALUES (7, 7) ON CONFLICT ON CONSTRAINT later_k DO NOTHING');
SELECT count(*), count(DISTINCT k), count(DISTINCT v) FROM later;

--
-- Types: what is equal conflicts and nothing else does, though hashes and beginnings are shared
--
CREATE DOMAIN positive AS numeric CHECK (VALUE > 0);
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
-- In each list, the first two are equal and the last two are not
CREATE TABLE samples (type text, vals text[]);
INSERT INTO samples VALUES
	('boolean', '{true, yes, true, false}'), ('"char"', '{a, a, a, b}'), ('int2', '{7, 07, -7, 7}'),
	('int4', '{7, 07, 0, -1}'), ('int8', '{9223372036854775807, 9223372036854775807, 9223372036854775807, -9223372036854775808}'),
	('oid', '{4294967295, 4294967295, 4294967295, 0}'), ('float4', '{0, -0, 1, 1.0000001}'),
	('float8', '{NaN, NaN, NaN, Infinity}'), ('money', '{1.00, 1, 1, 1.01}'),
	('date', '{2026-01-02, "2 Jan 2026", infinity, -infinity}'), ('time', '{"10:00", "10:00:00.000", "10:00", "10:00:00.000001"}'),
	('timestamp', '{2026-01-02, "2026-01-02 00:00", 2026-01-02, 2026-01-03}'),
	('timestamptz', '{"2026-01-02 10:00+01", "2026-01-02 09:00+00", "2026-01-02 10:00+00", "2026-01-02 10:00+01"}'),
	('timetz', '{"10:00+01", "10:00+01", "10:00+01", "09:00+00"}'),
	('uuid', '{00000000-0000-0000-0000-00000000000a, 00000000-0000-0000-0000-00000000000A, 00000000-0000-0000-0000-00000000000a, 00000000-0000-0000-0000-00000000000b}'),
	('macaddr', '{08:00:2b:01:02:03, 08002b010203, 08:00:2b:01:02:03, 08:00:2b:01:02:04}'),
	('macaddr8', '{08:00:2b:01:02:03:04:05, 08002b0102030405, 08:00:2b:01:02:03:04:05, 08:00:2b:01:02:03:04:06}'),
	('text', '{the same beginning of a text 1, the same beginning of a text 1, the same beginning of a text 1, the same beginning of a text 2}'),
	('varchar(40)', '{a, a, a, "a "}'), ('char(5)', '{a, "a ", a, b}'), ('name', '{a, a, a, b}'),
	('bytea', '{"\\x00", "\\x00", "\\x00", "\\x0000"}'), ('numeric', '{1, 1.000, 1, 1.00000000000000000000000001}'),
	('numeric', '{NaN, NaN, NaN, Infinity}'), ('positive', '{2, 2.0, 2, 2.1}'),
	('interval', '{1 month, 30 days, 1 month, 31 days}'), ('inet', '{10.0.0.1, 10.0.0.1/32, 10.0.0.1, 10.0.0.1/8}'),
	('cidr', '{10.0.0.0/8, 10.0.0.0/8, 10.0.0.0/8, 10.0.0.0/9}'), ('bit(3)', '{101, 101, 101, 100}'),
	('varbit', '{101, 101, 101, 1010}'), ('mood', '{ok, ok, sad, happy}');
CREATE FUNCTION try(type text, vals text[], other text, OUT equal text, OUT differ text, OUT composite text) LANGUAGE plpgsql
AS $$
BEGIN
	EXECUTE format('CREATE TABLE typed (k %s, EXCLUDE USING harmonia (k WITH =))', type);
	EXECUTE format('CREATE TABLE pair (k %s, o %s, EXCLUDE USING harmonia (o WITH =, k WITH =))', type, other);
	equal := left(outcome(format('INSERT INTO typed VALUES (%L), (%L)', vals[1], vals[2])), 6);
	differ := outcome(format('INSERT INTO typed VALUES (%L), (%L)', vals[3], vals[4]));
	composite := left(outcome(format('INSERT INTO pair VALUES (%L, ''1''), (%L, ''1'')', vals[1], vals[2])), 6)
		|| ', ' || outcome(format('INSERT INTO pair VALUES (%L, ''1''), (%L, ''1''), (%L, ''0''), (%1$L, NULL), (%1$L, NULL)',
			vals[3], vals[4], vals[1]));
	DROP TABLE typed, pair;
END $$;
SELECT type, tried.* FROM samples, try(type, vals, 'int') tried ORDER BY type, vals;
SELECT bool_and(equal = '23P01 ' AND differ = '2 rows' AND composite = '23P01 , 5 rows') AS all_as_with_int
	FROM samples, unnest('{text, numeric, int8}'::text[]) other, try(type, vals, other);
-- Another operator class, and an expression under a collation
CREATE TABLE chosen (k text COLLATE "C", l text, EXCLUDE USING harmonia (k text_c_ops WITH =), EXCLUDE USING harmonia (lower(l) WITH =));
SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 'chosen'::regclass AND contype = 'x' ORDER BY conname;
SELECT outcome(command) FROM unnest(ARRAY[
	$$INSERT INTO chosen SELECT 'a long common beginning, then ' || i, 'Name ' || i FROM generate_series(1, 500) i$$,
	$$INSERT INTO chosen VALUES ('a long common beginning, then 77', 'x')$$,
	$$INSERT INTO chosen VALUES ('a long common beginning, then 501', 'nAME 77')$$]) command;
-- Eight columns have 16 bits each
CREATE TABLE eight (a text, b text, c text, d text, e text, f text, g text, h text, EXCLUDE USING harmonia
	(a WITH =, b WITH =, c WITH =, d WITH =, e WITH =, f WITH =, g WITH =, h WITH =));
SELECT outcome(format('INSERT INTO eight SELECT 1, 2, 3, 4, 5, 6, i, 8 FROM generate_series(%s, 3000) i', low))
	FROM unnest('{1, 3000}'::int[]) low;

--
-- Several columns, included ones, conditions
--
CREATE TABLE booked (room smallint, day date, part text, note text, cancelled boolean DEFAULT false,
	CONSTRAINT booked_x EXCLUDE USING harmonia (room WITH =, day WITH =, part WITH =) INCLUDE (cancelled) WHERE (NOT cancelled));
INSERT INTO booked SELECT i % 10, date '2026-01-01' + i / 10 % 10, 'part ' || i / 100 FROM generate_series(0, 999) i;
SELECT outcome(command) FROM unnest(ARRAY[
	$$INSERT INTO booked VALUES (3, '2026-01-05', 'part 7')$$,
	$$INSERT INTO booked VALUES (3, '2026-01-05', NULL), (3, NULL, 'part 7'), (NULL, '2026-01-05', 'part 7')$$,
	$$INSERT INTO booked VALUES (3, '2026-01-05', NULL), (3, NULL, 'part 7'), (NULL, '2026-01-05', 'part 7')$$,
	$$INSERT INTO booked VALUES (3, '2026-01-05', 'part 7', 'other', true)$$,
	$$UPDATE booked SET cancelled = false WHERE note = 'other'$$,
	$$UPDATE booked SET cancelled = true WHERE (room, day, part) = (3, '2026-01-05', 'part 7')$$,
	$$UPDATE booked SET cancelled = false WHERE note = 'other'$$,
	$$UPDATE booked SET day = day + 1 WHERE note = 'other'$$,
	$$UPDATE booked SET part = upper(part)$$]) command;
SELECT harmonia_check('booked_x', true);

--
-- Unlogged and temporary tables
--
CREATE UNLOGGED TABLE unlogged (k int, EXCLUDE USING harmonia (k WITH =));
CREATE TEMP TABLE temporary (k int, EXCLUDE USING harmonia (k WITH =)) ON COMMIT DELETE ROWS;
SELECT outcome(format('INSERT INTO %s SELECT i %% 1000 FROM generate_series(1, %s) i', name, n))
	FROM unnest('{unlogged, temporary}'::text[]) name, unnest('{1000, 1001}'::int[]) n ORDER BY name DESC, n DESC;
SELECT outcome('INSERT INTO temporary SELECT generate_series(1, 1000)');

--
-- Partitions: their own constraints, and from PostgreSQL 17 on those of the partitioned table
--
CREATE TABLE parted (p int, k int) PARTITION BY LIST (p);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES IN (1);
CREATE TABLE parted_2 PARTITION OF parted FOR VALUES IN (2);
DO $$
BEGIN
	IF current_setting('server_version_num')::int >= 170000 THEN
		ALTER TABLE parted ADD CONSTRAINT parted_x EXCLUDE USING harmonia (p WITH =, k WITH =);
	ELSE
		ALTER TABLE parted_1 ADD CONSTRAINT parted_1_p_k_excl EXCLUDE USING harmonia (p WITH =, k WITH =);
		ALTER TABLE parted_2 ADD CONSTRAINT parted_2_p_k_excl EXCLUDE USING harmonia (p WITH =, k WITH =);
	END IF;
END $$;
SELECT outcome('ALTER TABLE parted ADD EXCLUDE USING harmonia (k WITH =)') ~ '^0A000' AS refused;
SELECT outcome(command) FROM unnest(ARRAY[
	'INSERT INTO parted SELECT 1 + i % 2, i / 2 FROM generate_series(0, 999) i',
	'INSERT INTO parted VALUES (1, 77)',
	'UPDATE parted SET p = 2 WHERE (p, k) = (1, 77)',
	'DELETE FROM parted WHERE (p, k) = (2, 77)',
	'UPDATE parted SET p = 2 WHERE (p, k) = (1, 77)',
	'INSERT INTO parted SELECT 1 + i % 2, 77 FROM generate_series(0, 9) i ON CONFLICT DO NOTHING']) command;
SELECT p, count(*), count(DISTINCT k) FROM parted GROUP BY p ORDER BY p;

SET client_min_messages = error;
DROP SCHEMA exclusion_test CASCADE;
