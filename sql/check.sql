--
-- harmonia_check(): every kind of index passes, and some calls are refused
--
-- test/t/*_corruption.pl shows that it finds damage.
--
SET client_min_messages = warning;
CREATE SCHEMA checks;
SET search_path = checks, public;

-- Numbers without order, the same each time.
CREATE FUNCTION scatter(g int) RETURNS int IMMUTABLE LANGUAGE sql
AS 'SELECT (g::bigint * 7919 % 1000003)::int';

-- Build an index and check it, then change its table in many ways and check again.
CREATE FUNCTION passes(type text, expression text, rows int, options text,
	definition text DEFAULT '(k)', clause text DEFAULT '') RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY, k %s)', type);
	EXECUTE format('INSERT INTO t (k) SELECT (%s)::%s FROM generate_series(1, %s) g',
		expression, type, rows);
	EXECUTE format('CREATE INDEX i ON t USING harmonia %s WITH (%s) %s', definition, options, clause);
	PERFORM harmonia_check('i', true);
	DELETE FROM t WHERE id % 3 = 0;
	PERFORM harmonia_check('i', true);
	INSERT INTO t (k) SELECT k FROM t;
	PERFORM harmonia_check('i', true);
	UPDATE t SET k = NULL WHERE id % 100 = 1;
	PERFORM harmonia_check('i', true);
	REINDEX INDEX i;
	PERFORM harmonia_check('i', true);
	DROP TABLE t;
	RETURN 'passes';
END $$;

SELECT name, type, options, passes(type, expression, rows, options)
FROM (VALUES
		(1, 'empty', 'g', 0),
		(2, 'one row', 'g', 1),
		(3, 'ascending', 'g', 10000),
		(4, 'scattered', 'scatter(g)', 10000),
		(5, 'some values', 'g % 7', 10000),
		(6, 'one value', '42', 5000),
		(7, 'all NULL', 'NULL', 5000),
		(8, 'some NULL', 'nullif(g % 10, 0)', 10000)) c (n, name, expression, rows),
	unnest('{int4,int8}'::text[]) type,
	unnest('{"fanout = 8, fillfactor = 10","fanout = 128, fillfactor = 100"}'::text[]) options
ORDER BY n, type, options DESC;

SELECT type, passes(type, expression, 3000, 'fillfactor = 50')
FROM (VALUES
	('bool', 'g % 3 = 0'),
	('"char"', 'chr(32 + g % 95)'),
	('int2', 'g % 400 - 200'),
	('oid', 'g'),
	('date', 'date ''2021-03-14'' + g % 60'),
	('time', 'time ''12:00'' + g % 400 * interval ''1 minute'''),
	('timestamp', 'timestamp ''2021-03-14'' - g * interval ''1 minute'''),
	('timestamptz', 'timestamptz ''2021-03-14'' - g * interval ''1 minute'''),
	('float4', 'g / 10.0'),
	('float8', '-g / 10.0'),
	('money', 'g')) v (type, expression);

SELECT definition, clause, passes('int4', 'nullif(scatter(g), 7919)', 10000, 'fanout = 8', definition, clause)
FROM (VALUES
	('(k DESC)', ''),
	('(k NULLS FIRST)', ''),
	('(k DESC NULLS LAST)', ''),
	('(k)', 'WHERE k > 500000'),
	('(k)', 'WHERE k IS NULL'),
	('((k / 2))', ''),
	('(scatter(k))', 'WHERE k IS NOT NULL AND k % 2 = 0')) v (definition, clause);

-- Shadowed segments: the leaves are full, so that insertions split them.
CREATE TABLE shadowed (id int, k int8);
INSERT INTO shadowed SELECT g, scatter(g) FROM generate_series(1, 30000) g;
CREATE INDEX shadowed_8 ON shadowed USING harmonia (k) WITH (fillfactor = 100, fanout = 8);
CREATE INDEX shadowed_128 ON shadowed USING harmonia (k) WITH (fillfactor = 100, fanout = 128);
DO $$
BEGIN
	FOR i IN 1..6 LOOP
		INSERT INTO shadowed SELECT g, scatter(g) FROM generate_series(30000 + i * 500, 30499 + i * 500) g;
		PERFORM harmonia_check('shadowed_8', true), harmonia_check('shadowed_128', true);
	END LOOP;
END $$;

-- Enough insertions in one place to move segments.
DO $$
BEGIN
	FOR i IN 1..6 LOOP
		INSERT INTO shadowed SELECT -g, 500000 FROM generate_series(i * 120000, i * 120000 + 119999) g;
		PERFORM harmonia_check('shadowed_8', true), harmonia_check('shadowed_128', true);
	END LOOP;
END $$;
SELECT i, movements > 0 AS moved
FROM unnest('{shadowed_8,shadowed_128}'::regclass[]) i, harmonia_index_info(i);

-- Rows and entries are removed, extents become free, and new rows are inserted.
DELETE FROM shadowed WHERE id % 2 = 0;
VACUUM shadowed;
SELECT harmonia_check('shadowed_8', true), harmonia_check('shadowed_128', true);
INSERT INTO shadowed SELECT g, scatter(g) FROM generate_series(1, 20000) g;
DELETE FROM shadowed WHERE k < 500000;
VACUUM shadowed;
SELECT harmonia_check('shadowed_8', true), harmonia_check('shadowed_128', true);
TRUNCATE shadowed;
SELECT harmonia_check('shadowed_8', true), harmonia_check('shadowed_128', true);
DROP TABLE shadowed;

-- Several segments
CREATE TABLE large (k int4);
INSERT INTO large SELECT scatter(g) FROM generate_series(1, 100000) g;
CREATE INDEX large_index ON large USING harmonia (k) WITH (fillfactor = 10);
SELECT harmonia_check('large_index', true);

-- Rows of an open transaction, rolled back rows, and rows that the snapshot does not see
BEGIN;
INSERT INTO large SELECT generate_series(1, 5000);
SELECT harmonia_check('large_index', true);
ROLLBACK;
SELECT harmonia_check('large_index', true);
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT harmonia_check('large_index', true);
COMMIT;

-- Temporary and unlogged tables
CREATE TEMP TABLE temporary AS SELECT generate_series(1, 3000) AS k;
CREATE INDEX temporary_index ON temporary USING harmonia (k);
INSERT INTO temporary SELECT generate_series(1, 3000);
SELECT harmonia_check('temporary_index', true);
CREATE UNLOGGED TABLE unlogged AS SELECT generate_series(1, 3000) AS k;
CREATE INDEX unlogged_index ON unlogged USING harmonia (k);
INSERT INTO unlogged SELECT generate_series(1, 3000);
SELECT harmonia_check('unlogged_index', true);

-- Calls that are refused
CREATE INDEX other_index ON large USING btree (k);
CREATE TABLE parted (k int) PARTITION BY RANGE (k);
CREATE INDEX parted_index ON parted USING harmonia (k);
SELECT harmonia_check('large');
SELECT harmonia_check('other_index');
SELECT harmonia_check('parted_index');
SELECT harmonia_check(0);
SELECT harmonia_check(NULL);
CREATE INDEX invalid_index ON large USING harmonia (k);
UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'invalid_index'::regclass;
SELECT harmonia_check('invalid_index');
CREATE ROLE regress_harmonia_reader;
GRANT USAGE ON SCHEMA checks TO regress_harmonia_reader;
SET ROLE regress_harmonia_reader;
SELECT harmonia_check('large_index');
RESET ROLE;
GRANT EXECUTE ON FUNCTION harmonia_check TO regress_harmonia_reader;
SET ROLE regress_harmonia_reader;
SELECT harmonia_check('large_index', true);
RESET ROLE;
REVOKE EXECUTE ON FUNCTION harmonia_check FROM regress_harmonia_reader;

SET client_min_messages = error;
DROP SCHEMA checks CASCADE;
DROP ROLE regress_harmonia_reader;
