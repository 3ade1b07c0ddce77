--
-- Every operator of every type, compared with a sequential scan
--
-- Each type has a table with generated values, three rows for each of the type's
-- difficult values, and NULLs.  For each pair of types with common operators there
-- are conditions made of the argument type's difficult values.  Prints how many
-- queries were right, and names those that were wrong or whose plans do not use
-- the index.
--
SET client_min_messages = warning;
SET timezone = 'America/New_York';
SET lc_monetary = 'C';
-- Disabled plans would be compiled, because they look expensive.
SET jit = off;
-- Joins must use the index.
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_material = off;
-- Lookup nodes have their own tests.
SET harmonia.enable_lookup_scan = off;
SET harmonia.enable_lookup_join = off;

CREATE SCHEMA types;
SET search_path = types, public;

-- An expression that fills a column; g counts from 0.
CREATE TABLE generator (type regtype PRIMARY KEY, expression text);
INSERT INTO generator VALUES
	('bool', 'g % 3 = 0'),
	('"char"', 'chr(32 + g * 7 % 95)'),
	('int2', 'g * 7919 % 400 - 200'),
	('int4', 'g * 7919 % 400 - 200'),
	('int8', 'g::int8 * 7919 % 400 - 200'),
	('oid', 'g * 7919 % 400 + 16384'),
	('date', 'date ''2021-03-14'' + g * 7919 % 60 - 30'),
	('time', 'time ''12:00'' + g * 7919 % 400 * interval ''1 minute'''),
	('timetz', 'timetz ''12:00+00'' + g * 7919 % 400 * interval ''1 minute'''),
	('macaddr', '(''08:00:2b:01:02:'' || lpad(to_hex(g * 7919 % 256), 2, ''0''))::macaddr'),
	('macaddr8', '(''08:00:2b:01:02:03:04:'' || lpad(to_hex(g * 7919 % 256), 2, ''0''))::macaddr8'),
	('timestamp', 'timestamp ''2021-03-14 02:30'' + (g * 7919 % 400 - 200) * interval ''15 minutes'''),
	('timestamptz', 'timestamptz ''2021-11-07 05:30Z'' + (g * 7919 % 400 - 200) * interval ''15 minutes'''),
	('float4', '(g * 7919 % 400 - 200) / 10.0'),
	('float8', '(g * 7919 % 400 - 200) / 10.0'),
	('money', '(g * 7919 % 400 - 200)::numeric / 100');

CREATE TABLE difficult (type regtype, n int GENERATED ALWAYS AS IDENTITY, value text);
INSERT INTO difficult (type, value)
SELECT type::regtype, unnest(v::text[]) FROM (VALUES
	('bool', '{f,t}'),
	('"char"', '{-128,-127,-1,0,1,65,97,126,127}'),
	('int2', '{-32768,-32767,-1,0,1,42,32766,32767}'),
	('int4', '{-2147483648,-32769,-32768,-1,0,42,32767,32768,2147483646,2147483647}'),
	('int8', '{-9223372036854775808,-2147483649,-2147483648,-32769,-1,0,42,32768,
		2147483647,2147483648,3000000000,9223372036854775806,9223372036854775807}'),
	('oid', '{0,1,16400,2147483647,2147483648,4294967294,4294967295}'),
	('date', '{-infinity,4714-11-24 BC,1999-12-31,2000-01-01,2021-03-13,2021-03-14,
		2021-03-15,2021-11-07,294276-12-31,294277-01-01,5874897-12-31,infinity}'),
	('time', '{00:00,00:00:00.000001,12:00,13:00,23:59:59.999999,24:00}'),
	('timetz', '{00:00+00,24:00+00,00:00+15:59,24:00-15:59,00:00-15:59,24:00+15:59,12:00+01,11:00+00,12:00:00.000001+01}'),
	('macaddr', '{00:00:00:00:00:00,00:00:00:00:00:01,7f:ff:ff:ff:ff:ff,80:00:00:00:00:00,ff:ff:ff:ff:ff:ff}'),
	('macaddr8', '{00:00:00:00:00:00:00:00,00:00:00:00:00:00:00:01,7f:ff:ff:ff:ff:ff:ff:ff,80:00:00:00:00:00:00:00,ff:ff:ff:ff:ff:ff:ff:ff}'),
	('timestamp', '{-infinity,4714-11-24 00:00 BC,4714-11-24 00:00:00.000001 BC,
		1999-12-31 23:59:59.999999,2000-01-01,2021-03-14,2021-03-14 01:59:59.999999,
		2021-03-14 02:00,2021-03-14 02:30,2021-03-14 03:00,2021-11-07 01:30,
		294276-12-31,294276-12-31 23:59:59.999999,infinity}'),
	('timestamptz', '{-infinity,4714-11-24 00:00Z BC,4714-11-26 00:00Z BC,
		1999-12-31 23:59:59.999999Z,2021-03-14 00:00Z,2021-03-14 06:59:59.999999Z,
		2021-03-14 07:00Z,2021-03-14 07:30Z,2021-11-07 05:00Z,2021-11-07 05:30Z,
		2021-11-07 06:30Z,294276-12-31 00:00Z,294276-12-31 23:59:59.999999Z,infinity}'),
	('float4', '{-infinity,-3.4028235e38,-1,-0.1,-1e-45,-0,0,1e-45,0.1,0.5,
		16777216,3.4028235e38,infinity,nan}'),
	('float8', '{-infinity,-1e300,-3.4028234663852886e38,-1,-0.1,-1e-46,-5e-324,-0,0,
		5e-324,7.0e-46,1e-45,0.1,0.10000000149011612,0.5,16777217,3.4028234663852886e38,
		3.4028235e38,3.5e38,1e300,infinity,nan}'),
	('money', '{-92233720368547758.08,-0.01,0,0.01,1,92233720368547758.07}')
) AS x(type, v);

-- Cast text to a type.  "char" is cast from a number, because text has not all values.
CREATE FUNCTION cast_to(type regtype, expression text) RETURNS text
LANGUAGE sql AS $$
	SELECT format(CASE WHEN type = '"char"'::regtype THEN '(%s)::int::%s' ELSE '(%s)::%s' END,
				  expression, type) $$;

-- A table and an index for each type.  "rank" is the order of the keys.
CREATE FUNCTION table_of(type regtype) RETURNS text
LANGUAGE sql AS $$ SELECT 'column_' || translate(type::text, ' "', '_') $$;

CREATE PROCEDURE make_index(type regtype, direction text)
LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('DROP INDEX IF EXISTS %I', table_of(type) || '_k');
	EXECUTE format('CREATE INDEX %I ON %I USING harmonia (k %s)',
				   table_of(type) || '_k', table_of(type), direction);
END $$;

CREATE PROCEDURE make_table(type regtype, expression text)
LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('CREATE TABLE %I AS SELECT row_number() OVER () AS id, k, dense_rank() OVER (ORDER BY k) AS rank FROM (
						SELECT (%s)::%s FROM generate_series(0, 399) g
						UNION ALL
						SELECT %s FROM difficult, generate_series(1, 3) WHERE type = %L::regtype
						UNION ALL
						SELECT NULL FROM generate_series(1, 20)
					) AS v(k) ORDER BY hashtext(k::text)',
				   table_of(type), expression, type, cast_to(type, 'value'), type);
	CALL make_index(type, '');
END $$;

DO $$
DECLARE
	g generator;
BEGIN
	FOR g IN SELECT * FROM generator LOOP
		CALL make_table(g.type, g.expression);
	END LOOP;
END $$;

-- Make all pages all-visible for index-only scans.
VACUUM ANALYZE;

-- Run a query that returns one value, by each kind of scan in the list and by a
-- sequential scan.  Returns how many were right: the same result, from a plan that
-- uses the index.
CREATE FUNCTION compare(query text, scans text[]) RETURNS int
LANGUAGE plpgsql AS $$
DECLARE
	scan text;
	expected text;
	got text;
	plan json;
	good int := 0;
BEGIN
	FOREACH scan IN ARRAY '{none}' || scans LOOP
		PERFORM set_config('enable_seqscan', (scan = 'none')::text, true),
				set_config('enable_sort', (scan = 'none')::text, true),
				set_config('enable_indexscan', (scan IN ('plain', 'only'))::text, true),
				set_config('enable_indexonlyscan', (scan = 'only')::text, true),
				set_config('enable_bitmapscan', (scan = 'bitmap')::text, true);
		EXECUTE query INTO got;
		IF scan = 'none' THEN
			expected := got;
			CONTINUE;
		END IF;
		EXECUTE 'EXPLAIN (COSTS OFF, FORMAT JSON) ' || query INTO plan;
		IF got IS DISTINCT FROM expected THEN
			RAISE WARNING E'% scan: %\nexpected %\n     got %', scan, query, expected, got;
		-- The planner needs no index for a contradiction that it sees.  Before
		-- PostgreSQL 16 it simplified k = true to k, without an operator.
		ELSIF plan::text ~ (CASE scan WHEN 'bitmap' THEN 'Bitmap Index Scan'
									  WHEN 'plain' THEN 'Index Scan'
									  WHEN 'only' THEN 'Index Only Scan'
							END || '|One-Time Filter|"Seq Scan".*"column_boolean"') THEN
			good := good + 1;
		ELSE
			RAISE WARNING '% scan: unexpected plan for %', scan, query;
		END IF;
	END LOOP;
	RETURN good;
END $$;

-- Conditions on k, made of a value, the next one and the third after it; each is made
-- for one in so many values.
CREATE TABLE condition (every int, template text);
INSERT INTO condition VALUES
	(1, 'k < %1$s'), (1, 'k <= %1$s'), (1, 'k = %1$s'), (1, 'k >= %1$s'), (1, 'k > %1$s'),
	(2, 'k BETWEEN %1$s AND %2$s'),
	(2, 'k > %1$s AND k < %2$s'),
	(2, 'k < %1$s AND k > %2$s'),
	(2, 'k >= %2$s AND k <= %2$s AND k > %1$s'),
	(2, 'k = %1$s AND k = %3$s'),
	(2, 'k = %1$s AND k >= %1$s AND k <= %3$s'),
	(2, 'k = ANY (ARRAY[%1$s, %2$s, %3$s, %1$s])'),
	(2, 'k = ANY (ARRAY[%3$s, NULL, %2$s])'),
	(2, 'k = ANY (ARRAY[%1$s, %2$s]) AND k = ANY (ARRAY[%2$s, %3$s])'),
	(2, 'k = ANY (ARRAY[%1$s, %2$s, %3$s]) AND k > %1$s'),
	(2, 'k < ANY (ARRAY[%1$s, NULL, %2$s])'),
	(2, 'k <= ANY (ARRAY[%1$s, %2$s])'),
	(2, 'k >= ANY (ARRAY[%3$s, %2$s])'),
	(2, 'k > ANY (ARRAY[%3$s, %2$s, NULL])'),
	(2, 'k IS NULL AND k = %1$s'),
	(2, 'k IS NOT NULL AND k <= %1$s');

-- Conditions made of the name of a type alone.
CREATE TABLE condition_on_type (template text);
INSERT INTO condition_on_type VALUES
	('k IS NULL'), ('k IS NOT NULL'), ('k IS NULL AND k IS NOT NULL'),
	('k = (SELECT NULL::%1$s)'),
	('k < (SELECT NULL::%1$s)'),
	('k = ANY ((SELECT NULL::%1$s[])::%1$s[])'),
	('k > ANY ((SELECT NULL::%1$s[])::%1$s[])'),
	('k = ANY ((SELECT ''{}''::%1$s[])::%1$s[])'),
	('k < ANY ((SELECT ''{}''::%1$s[])::%1$s[])'),
	('k = ANY ((SELECT ''{NULL}''::%1$s[])::%1$s[])'),
	('k >= ANY ((SELECT ''{NULL,NULL}''::%1$s[])::%1$s[])');

CREATE FUNCTION conditions(argument regtype) RETURNS SETOF text
LANGUAGE sql AS $$
	SELECT format(template, one, two, three)
	FROM condition
		JOIN (SELECT row_number() OVER w,
					 cast_to(argument, quote_literal(value)),
					 cast_to(argument, quote_literal(coalesce(lead(value) OVER w, value))),
					 cast_to(argument, quote_literal(coalesce(lead(value, 3) OVER w, value)))
			  FROM difficult WHERE type = argument
			  WINDOW w AS (ORDER BY n)) AS v(n, one, two, three) ON v.n % every = 0
	UNION ALL
	SELECT format(template, argument) FROM condition_on_type $$;

-- Scans of each kind with all conditions, and joins that rescan.
CREATE FUNCTION check_pair(type regtype, argument regtype, OUT scans bigint, OUT good bigint)
LANGUAGE sql AS $$
	WITH query(query, scans) AS (
		SELECT format('SELECT array_agg(id ORDER BY id) FROM %I WHERE %s', table_of(type), c),
			   '{plain,bitmap}'::text[]
		FROM conditions(argument) c
		UNION ALL
		SELECT format('SELECT array_agg(k) FROM (SELECT k FROM %I WHERE %s ORDER BY k) s', table_of(type), c),
			   '{only}'
		FROM conditions(argument) c
		WHERE type NOT IN ('float4'::regtype, 'float8'::regtype, 'timetz'::regtype, 'macaddr'::regtype, 'macaddr8'::regtype)
		UNION ALL
		SELECT format('SELECT count(*) || '' '' || sum(id) FROM (SELECT %s AS v FROM difficult WHERE type = %L::regtype OFFSET 0) d JOIN %I ON k %s v',
					  cast_to(argument, 'value'), argument, table_of(type), operator),
			   '{plain}'
		FROM unnest('{<,<=,=,>=,>}'::text[]) operator
	)
	SELECT sum(cardinality(query.scans)), sum(compare(query, query.scans)) FROM query $$;

CREATE VIEW pair AS
	SELECT DISTINCT amoplefttype::regtype AS type, amoprighttype::regtype AS argument
	FROM pg_amop
	WHERE amopmethod = (SELECT oid FROM pg_am WHERE amname = 'btree')
		AND amoplefttype IN (SELECT type FROM generator)
		AND amoprighttype IN (SELECT type FROM generator);

SELECT type, argument, scans, good
FROM pair, check_pair(type, argument)
ORDER BY type::text COLLATE "C", argument::text COLLATE "C";

-- Comparisons that depend on the time zone, in other zones.  The first zone skips a
-- midnight, the second has offsets that differ by more than a day, the third has the
-- largest offset.
CREATE FUNCTION check_zone(zone text, OUT scans bigint, OUT good bigint)
LANGUAGE sql AS $$
	SELECT set_config('timezone', zone, true);
	SELECT sum(scans), sum(good)
	FROM pair, check_pair(type, argument)
	WHERE type <> argument AND 'timestamptz'::regtype IN (type, argument) $$;

SELECT zone, scans, good
FROM unnest('{America/Havana,"X-12Y-100,J73,J300",<+167>-167}'::text[]) zone, check_zone(zone);

-- Orders with NULLs first or last, of all or some rows, from both ends.
CREATE FUNCTION check_order(type regtype, orders text[], OUT scans bigint, OUT good bigint)
LANGUAGE sql AS $$
	SELECT count(*),
		   sum(compare(format('SELECT array_agg(rank) FROM (SELECT rank FROM %I WHERE %s ORDER BY k %s %s) s',
							  table_of(type), condition, "order", part), '{plain}'))
	FROM unnest(orders) "order",
		 unnest('{"",LIMIT 7 OFFSET 15}'::text[]) part,
		 (SELECT unnest('{true,k IS NULL,k IS NOT NULL}'::text[])
		  UNION ALL
		  SELECT format(template, low, high)
		  FROM unnest('{k > %s,k < %2$s,"k = ANY (ARRAY[%2$s,%1$s,%2$s])"}'::text[]) template,
			   (SELECT cast_to($1, quote_literal(min(value))), cast_to($1, quote_literal(max(value)))
				FROM difficult d WHERE d.type = $1) AS v(low, high)) AS c(condition) $$;

CREATE PROCEDURE make_indexes(direction text)
LANGUAGE plpgsql AS $$
DECLARE
	type regtype;
BEGIN
	FOR type IN SELECT g.type FROM generator g LOOP
		CALL make_index(type, direction);
	END LOOP;
END $$;

SELECT sum(scans) AS scans, sum(good) AS good FROM generator, check_order(type, '{ASC,DESC}');
CALL make_indexes('DESC');
SELECT sum(scans) AS scans, sum(good) AS good FROM generator, check_order(type, '{ASC,DESC}');
CALL make_indexes('NULLS FIRST');
SELECT sum(scans) AS scans, sum(good) AS good FROM generator, check_order(type, '{NULLS FIRST,DESC NULLS LAST}');
CALL make_indexes('DESC NULLS LAST');
SELECT sum(scans) AS scans, sum(good) AS good FROM generator, check_order(type, '{NULLS FIRST,DESC NULLS LAST}');

-- Indexes return values as they were, unless the type loses something.
SELECT type, pg_index_column_has_property((table_of(type) || '_k')::regclass, 1, 'returnable') AS returnable
FROM generator
ORDER BY type::text COLLATE "C";

-- Index-only, where no column is read.
CREATE TABLE numbers AS SELECT i::float8 AS k, i::float4 AS l FROM generate_series(1, 500) i;
INSERT INTO numbers VALUES (NULL, NULL);
CREATE INDEX numbers_k ON numbers USING harmonia (k);
CREATE INDEX numbers_l ON numbers USING harmonia (l) WHERE l > 100;
VACUUM ANALYZE numbers;
SELECT compare('SELECT count(*) FROM numbers', '{only}'), compare('SELECT count(*) FROM numbers WHERE l > 100', '{only}');

-- Types that are stored like a supported type, or are domains over one.
CREATE DOMAIN small AS int2 CHECK (value < 100);
CREATE TABLE alike (a regclass, b small);
CREATE INDEX alike_a ON alike USING harmonia (a oid_ops);
CREATE INDEX alike_b ON alike USING harmonia (b);
INSERT INTO alike SELECT c, g FROM unnest('{pg_class,pg_type,pg_proc}'::regclass[]) WITH ORDINALITY AS c(c, g);
SET enable_seqscan = off;
SELECT * FROM alike WHERE a = 'pg_type'::regclass;
SELECT * FROM alike WHERE a = ANY ('{pg_type,pg_proc}'::regclass[]) ORDER BY b;
SELECT * FROM alike WHERE b >= 2::int8 ORDER BY b;

-- Types that are not supported, or not with an order.
CREATE TABLE unsupported (j jsonb, n numeric);
CREATE INDEX ON unsupported USING harmonia (j);
CREATE OPERATOR CLASS any_jsonb_ops FOR TYPE jsonb USING harmonia AS
	OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >;
CREATE INDEX ON unsupported USING harmonia (j any_jsonb_ops);
CREATE OPERATOR CLASS any_numeric_ops FOR TYPE numeric USING harmonia AS
	OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >;
CREATE INDEX ON unsupported USING harmonia (n any_numeric_ops);

DROP SCHEMA types CASCADE;
