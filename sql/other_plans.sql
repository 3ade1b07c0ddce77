--
-- Plans of queries that have nothing to do with harmonia are the same with the extension
--
-- From 18 on PostgreSQL looks at the operator families of all ordered access methods where it
-- decides which expressions are equivalent, and how sorted rows can be merged.
--
SET client_min_messages = warning;
DROP DATABASE IF EXISTS harmonia_other_plans;
CREATE DATABASE harmonia_other_plans;
\c harmonia_other_plans
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE TABLE a (i2 int2, i4 int4, i8 int8, t text, c text COLLATE "C", v varchar(20), n name, b char(10), u uuid, y bytea, m numeric, s interval, p inet,
	r cidr, x bit(8), w varbit, e mood, z timetz, h macaddr, g macaddr8, d date, ts timestamp, tz timestamptz, f4 float4, f8 float8, o oid);
CREATE TABLE b (LIKE a);
DO $$
DECLARE
	column_name text;
BEGIN
	FOR column_name IN SELECT attname FROM pg_attribute WHERE attrelid = 'a'::regclass AND attnum > 0 LOOP
		EXECUTE format('CREATE INDEX ON a (%1$I); CREATE INDEX ON b (%1$I)', column_name);
	END LOOP;
END $$;
CREATE INDEX ON a (t text_pattern_ops);
CREATE INDEX ON a (b bpchar_pattern_ops);
CREATE INDEX ON a (i4, i8, t);
CREATE UNIQUE INDEX ON b (u, n);

-- Queries that merge, sort, group and make distinct, or that depend on equivalence.
CREATE VIEW query AS
	WITH pair(x, y) AS (
		SELECT attname, attname FROM pg_attribute WHERE attrelid = 'a'::regclass AND attnum > 0
		UNION ALL SELECT * FROM (VALUES ('i2', 'i4'), ('i4', 'i8'), ('i8', 'i2'), ('f4', 'f8'), ('d', 'ts'), ('d', 'tz'), ('ts', 'tz'), ('t', 'v'),
			('v', 't'), ('n', 't'), ('t', 'n'), ('n', 'v'), ('p', 'r'), ('c', 'n'), ('x', 'w')) v)
	SELECT format(template, x, y) AS query
	FROM pair, unnest(ARRAY[
		'SELECT * FROM a JOIN b ON a.%1$s = b.%2$s', 'SELECT * FROM a JOIN b ON a.%1$s = b.%2$s ORDER BY a.%1$s', 'SELECT * FROM a JOIN b ON a.%1$s = b.%2$s ORDER BY b.%2$s DESC',
		'SELECT * FROM a FULL JOIN b ON a.%1$s = b.%2$s', 'SELECT DISTINCT %1$s FROM a', 'SELECT %1$s, count(*) FROM a GROUP BY %1$s ORDER BY %1$s',
		'SELECT min(%1$s::text), max(%1$s::text) FROM a', 'SELECT * FROM a WHERE %1$s = (SELECT %2$s FROM b LIMIT 1) ORDER BY %1$s',
		'SELECT * FROM a JOIN b ON a.%1$s = b.%2$s JOIN a c ON c.%1$s = b.%2$s', 'SELECT * FROM a, b, a c WHERE a.%1$s = b.%2$s AND b.%2$s = c.%1$s AND a.i4 = c.i4 ORDER BY a.%1$s, a.i4',
		'SELECT * FROM a WHERE %1$s IN (SELECT %2$s FROM b)', 'SELECT * FROM a WHERE NOT EXISTS (SELECT FROM b WHERE a.%1$s = b.%2$s)',
		'SELECT * FROM a WHERE (%1$s, i4) = (SELECT %2$s, i4 FROM b LIMIT 1)', 'SELECT row_number() OVER (PARTITION BY %1$s ORDER BY i4) FROM a', 'SELECT * FROM a UNION SELECT * FROM b ORDER BY %1$s',
		'SELECT * FROM a WHERE (%1$s, i8) > (SELECT %2$s, i8 FROM b LIMIT 1)', 'SELECT DISTINCT ON (%1$s) * FROM a ORDER BY %1$s, i4']) template;

CREATE TABLE plans (round int, query text, method text, plan text);
CREATE PROCEDURE keep_plans(number int) LANGUAGE plpgsql
AS $$
DECLARE
	statement text;
	line text;
	lines text;
	methods text;
BEGIN
	FOR statement IN SELECT query FROM query LOOP
		FOREACH methods IN ARRAY '{all,merge,nestloop,hash}'::text[] LOOP
			PERFORM set_config('enable_mergejoin', (methods IN ('all', 'merge'))::text, true), set_config('enable_nestloop', (methods IN ('all', 'nestloop'))::text, true),
				set_config('enable_hashjoin', (methods IN ('all', 'hash'))::text, true), set_config('enable_hashagg', (methods IN ('all', 'hash'))::text, true),
				set_config('enable_seqscan', (methods IN ('all', 'hash'))::text, true);
			lines := '';
			BEGIN
				FOR line IN EXECUTE 'EXPLAIN (VERBOSE) ' || statement LOOP
					lines := lines || line || chr(10);
				END LOOP;
			-- Some types cannot be compared.
			EXCEPTION WHEN OTHERS THEN
				lines := SQLERRM;
			END;
			INSERT INTO plans VALUES (number, statement, methods, lines);
		END LOOP;
	END LOOP;
END $$;

CALL keep_plans(1);
CREATE EXTENSION harmonia;
\c
CALL keep_plans(2);
SELECT count(*) > 1500 AS many, count(*) FILTER (WHERE plan ~ 'Merge Join') > 200 AS merges, count(DISTINCT plan) > 800 AS different FROM plans WHERE round = 1;
SELECT old.query, old.method, old.plan, new.plan FROM plans old JOIN plans new USING (query, method) WHERE old.round = 1 AND new.round = 2 AND old.plan <> new.plan LIMIT 3;

\c regression
DROP DATABASE harmonia_other_plans;
