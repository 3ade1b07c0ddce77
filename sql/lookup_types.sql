--
-- Arrays of another type than the column's: they cost what those of its own type cost, and find the
-- same rows as a sequential scan
--
SET client_min_messages = warning;
SET jit = off;
SET max_parallel_workers_per_gather = 0;
SET harmonia.enable_lookup_aggregate = off;
CREATE SCHEMA lookup_types;
SET search_path = lookup_types, public;
\getenv srcdir PG_ABS_SRCDIR
\set compare :srcdir '/sql/include/compare.sql'
\i :compare
\set lookup :srcdir '/sql/include/lookup.sql'
\i :lookup

CREATE TABLE t WITH (autovacuum_enabled = off) AS
	SELECT k, k::smallint AS "smallint", k::int AS "int", k::bigint AS "bigint",
		k::real AS "real", k::float8 AS "float8", '2000-01-01'::date + k AS "date",
		'2000-01-01'::timestamp + k * interval '1 day' AS "timestamp",
		'2000-01-01'::timestamptz + k * interval '1 day' AS "timestamptz",
		'text' || k AS "text", ('text' || k)::name AS "name", k::bigint * 3 AS v, k::bigint * 5 AS w
	FROM (SELECT shuffle(i) % 20000 AS k FROM generate_series(1, 40000) i) s;
:vacuum ANALYZE t;

-- The cost of a query by lookups, with 2,000 elements of a type.
CREATE FUNCTION array_cost(key text, type text, query text) RETURNS numeric LANGUAGE plpgsql AS $$
DECLARE
	elements text;
	plan json;
BEGIN
	EXECUTE format('SELECT array_agg(DISTINCT %I)::text FROM t WHERE k < 2000', type) INTO elements;
	EXECUTE 'EXPLAIN (FORMAT json) ' || format(query, format('%I = ANY (%L::%s[])', key, elements, type)) INTO plan;
	IF plan::text !~ 'HarmoniaLookup' THEN
		RETURN NULL;
	END IF;
	RETURN plan->0->'Plan'->>'Total Cost';
END $$;

-- Costs that are more than a tenth above those of an array of the column's own type.  There are some for
-- dates and times, which cannot be cast: an array of timestamptz, whose local times may be
-- ambiguous, or any where the fields of three columns do not fit into a key.
CREATE FUNCTION dear(families text[][]) RETURNS TABLE (key text, type text, columns text, query text, times numeric)
LANGUAGE plpgsql AS $$
DECLARE
	types text;
	own numeric;
	other numeric;
BEGIN
	FOREACH types IN ARRAY families LOOP
		FOREACH key IN ARRAY string_to_array(types, ' ') LOOP
			FOREACH columns IN ARRAY '{(%I),"(%I, v)","(%I, v, w)","(%I) INCLUDE (v)","(v, %I)"}'::text[] LOOP
				EXECUTE 'CREATE INDEX t_k ON t USING harmonia ' || format(columns, key);
				FOREACH query IN ARRAY ARRAY[
						'SELECT sum(w) FROM t WHERE %s',
						'SELECT sum(t.w) FROM t JOIN few ON few.v > t.v WHERE %s',
						'SELECT sum(t.w) FROM t JOIN many ON many.m = t.w WHERE %s'] LOOP
					IF columns ~ '\(v' THEN
						query := query || ' AND t.v = 15';
					END IF;
					own := array_cost(key, key, query);
					FOREACH type IN ARRAY string_to_array(types, ' ') LOOP
						other := array_cost(key, type, query);
						times := round(other / own, 1);
						IF own IS NULL OR other IS NULL OR other > own * 1.1 THEN
							RETURN NEXT;
						END IF;
					END LOOP;
				END LOOP;
				DROP INDEX t_k;
			END LOOP;
		END LOOP;
	END LOOP;
END $$;
CREATE TABLE few AS SELECT 30 AS v;
CREATE TABLE many AS SELECT generate_series(1, 1000) AS m;
ANALYZE few, many;
BEGIN;
CALL use_lookups(false);
SET LOCAL enable_nestloop = on;
SET LOCAL enable_hashjoin = on;
SELECT key, type, string_agg(DISTINCT columns, '; ') AS columns
	FROM dear('{smallint int bigint,real float8,date timestamp timestamptz}') GROUP BY key, type ORDER BY key, type;
COMMIT;

-- The rows where keys have to be compared: cut fields, texts, floats; NULLs, values at the ends of types
CREATE TABLE c (s smallint, i int, b bigint, r real, f float8, x text, n name) WITH (autovacuum_enabled = off);
INSERT INTO c SELECT CASE WHEN k % 7 > 0 THEN k END, CASE WHEN k % 11 > 0 THEN k END, CASE WHEN k % 13 > 0 THEN k END, k / 4.0, k / 4.0, k, k
	FROM (SELECT shuffle(j) % 300 AS k FROM generate_series(1, 2000) j) q;
INSERT INTO c VALUES (32767, 2147483647, 9223372036854775807, 'NaN', 'NaN', '', ''), (-32768, -2147483648, -9223372036854775808, '-0', '-0', 'x', 'x'),
	(-1, -1, -1, 'Infinity', 'Infinity', NULL, NULL), (NULL, NULL, NULL, '3.4e38', '3.4e38', 'a', 'a');
CREATE INDEX ON c USING harmonia (b, i, f);
CREATE INDEX ON c USING harmonia (s, b, f);
CREATE INDEX ON c USING harmonia (i, b, f);
CREATE INDEX ON c USING harmonia (r, b, f);
CREATE INDEX ON c USING harmonia (f, b, i);
CREATE INDEX ON c USING harmonia (x, b);
CREATE INDEX ON c USING harmonia (n, b);
:vacuum ANALYZE c;
SELECT * FROM compare_lookups(
	'SELECT * FROM c WHERE b = ANY (''{1,2,3,4,5,6,7,8,9,32767,-1,-2,NULL}''::smallint[])',
	'SELECT * FROM c WHERE b = ANY (''{1,2,3,4,5,6,7,8,9,2147483647,-2147483648,-1}''::int[])',
	'SELECT * FROM c WHERE i = ANY (''{1,2,3,4,5,6,7,8,9,2147483647,-2147483648,4294967295,-1,9223372036854775807}''::bigint[])',
	'SELECT * FROM c WHERE i = ANY (''{1,2,3,4,5,6,7,8,9,32767,-1}''::smallint[])',
	'SELECT * FROM c WHERE s = ANY (''{1,2,3,4,5,6,7,8,9,32767,65535,65537,-1}''::int[])',
	'SELECT * FROM c WHERE s = ANY (''{1,2,3,4,5,6,7,8,9,4294967297,-1}''::bigint[]) AND b = ANY (''{1,2,3,4,5,6,7,8,9,10}''::int[])',
	'SELECT * FROM c WHERE s = ANY (''{{1,2,3},{4,5,6},{7,8,9},{10,11,12}}''::int[])',
	'SELECT * FROM c WHERE b = ANY (''{1,2,3,4,5,6,7,8,9,10}''::int[]) OR b = ANY (''{51,52,53,54,55,56,57,58,59,60}''::smallint[]) AND i > 3',
	'SELECT * FROM c WHERE b = ANY (NULL::int[])',
	'SELECT * FROM c WHERE r = ANY (''{1,2,3,4,0.1,5,6,7,8,0,NaN,Infinity,3.4e38,1e300}''::float8[])',
	'SELECT * FROM c WHERE f = ANY (''{1,2,3,4,0.1,5,6,7,8,0,NaN,Infinity,3.4e38}''::real[])',
	'SELECT * FROM c WHERE n = ANY (''{1,2,3,4,5,6,7,8,9,10,x,NULL}''::text[])',
	'SELECT * FROM c WHERE x = ANY (''{1,2,3,4,5,6,7,8,9,10,x,NULL}''::name[])',
	'SELECT * FROM c WHERE x = ANY (''{1,2,3,4,5,6,7,8,9,10,x,NULL}''::varchar[])');

DROP SCHEMA lookup_types CASCADE;
