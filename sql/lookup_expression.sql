--
-- Lookups by an index on an expression: how often it is evaluated
--
SET client_min_messages = warning;
SET jit = off;
CREATE SCHEMA lookup_expression;
SET search_path = lookup_expression, public;
-- What a device has found is compared with the rows.
DO $$
BEGIN
	IF EXISTS (SELECT FROM pg_settings WHERE name = 'harmonia.enable_device') THEN
		SET harmonia.enable_device = off;
	END IF;
END $$;

-- An expression that counts its evaluations, which one must not do
CREATE SEQUENCE evaluations;
CREATE FUNCTION counted(k anyelement) RETURNS anyelement IMMUTABLE LANGUAGE plpgsql AS $$
BEGIN
	PERFORM nextval('lookup_expression.evaluations');
	RETURN k;
END $$;

-- Keys 1 to 500 in four rows each; some were updated, a few of them to another key
CREATE TABLE t (k int, f float8, v int) WITH (autovacuum_enabled = off, fillfactor = 50);
INSERT INTO t SELECT i % 500 + 1, i % 500 + 1, i FROM generate_series(1, 2000) i;
INSERT INTO t VALUES (NULL, NULL, 0), (1001, 'NaN', 0), (1002, '-0.0', 0), (1003, 'Infinity', 0);
CREATE INDEX t_k ON t USING harmonia (counted(k));
CREATE INDEX t_f ON t USING harmonia (counted(f));
VACUUM ANALYZE t;
UPDATE t SET v = v + 10000 WHERE v % 10 = 3;
UPDATE t SET k = k + 1, f = f + 1 WHERE v % 50 = 7;
DELETE FROM t WHERE v % 70 = 8;

CREATE FUNCTION answer(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	EXECUTE format('SELECT count(*) || '' '' || coalesce(sum(hash_record_extended(q, 0)), 0) FROM (%s) q', query) INTO result;
	RETURN result;
END $$;
-- The node that a query is answered by, how often that evaluates the index's expression, and
-- whether a sequential scan finds the same.
CREATE FUNCTION check_queries(VARIADIC queries text[])
	RETURNS TABLE (node text, evaluated bigint, same bool, query text) LANGUAGE plpgsql AS $$
DECLARE
	line text;
	wanted text;
	found text;
BEGIN
	FOREACH query IN ARRAY queries LOOP
		PERFORM set_config('harmonia.enable_lookup_scan', 'off', true), set_config('harmonia.enable_lookup_join', 'off', true),
			set_config('enable_seqscan', 'on', true), set_config('enable_nestloop', 'on', true), set_config('enable_hashjoin', 'on', true);
		wanted := answer(query);
		PERFORM set_config('harmonia.enable_lookup_scan', 'on', true), set_config('harmonia.enable_lookup_join', 'on', true),
			set_config('enable_seqscan', 'off', true), set_config('enable_nestloop', 'off', true), set_config('enable_hashjoin', 'off', true);
		node := NULL;
		FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
			node := coalesce(node, substring(line FROM 'Harmonia(Lookup\w+)'));
		END LOOP;
		PERFORM setval('evaluations', 1, false);
		found := answer(query);
		SELECT CASE WHEN is_called THEN last_value ELSE 0 END INTO evaluated FROM evaluations;
		same := found = wanted;
		RETURN NEXT;
	END LOOP;
END $$;
SET enable_indexscan = off;
SET enable_bitmapscan = off;
SET enable_hashjoin = off;
SET enable_mergejoin = off;

-- An entry of the index says what the row's key is.
SELECT * FROM check_queries(
	'SELECT * FROM t WHERE counted(k) = ANY (ARRAY(SELECT generate_series(1, 600)))',
	'SELECT * FROM t WHERE counted(k) < 10 OR counted(k) BETWEEN 100 AND 200 OR counted(k) IN (300, 1001)',
	'SELECT count(*) FROM t WHERE counted(k) = ANY (ARRAY(SELECT generate_series(1, 600)))',
	'SELECT * FROM t WHERE counted(f) IN (0, 7, ''NaN'', ''Infinity'')',
	'SELECT s.i, t.v FROM (SELECT i FROM generate_series(1, 600) i OFFSET 0) s JOIN t ON counted(t.k) = s.i',
	'SELECT s.i, t.v FROM (SELECT i FROM generate_series(1, 600) i OFFSET 0) s LEFT JOIN t ON counted(t.k) = s.i',
	'SELECT s.i FROM (SELECT i FROM generate_series(1, 600) i OFFSET 0) s WHERE EXISTS (SELECT FROM t WHERE counted(t.k) = s.i)',
	'SELECT s.i FROM (SELECT i FROM generate_series(1, 600) i OFFSET 0) s WHERE NOT EXISTS (SELECT FROM t WHERE counted(t.k) = s.i)',
	'SELECT s.i, t.v FROM (SELECT i FROM generate_series(1, 600, 60) i OFFSET 0) s JOIN t ON counted(t.k) BETWEEN s.i AND s.i + 3',
	'SELECT s.f, t.v FROM (VALUES (0.0::float8), (''-0.0''), (''NaN''), (12)) s (f) JOIN t ON counted(t.f) = s.f');

-- Where a range may hold other keys than were asked for, the row has the last word.
SET timezone = 'Europe/Berlin';
CREATE TABLE d (t timestamp, v int) WITH (autovacuum_enabled = off);
INSERT INTO d SELECT '2026-10-24'::timestamp + i * interval '10 minutes', i FROM generate_series(1, 500) i;
CREATE INDEX d_t ON d USING harmonia (counted(t));
VACUUM ANALYZE d;
SELECT node, evaluated > 0 AS evaluated, same FROM check_queries(
	'SELECT * FROM d WHERE counted(t) < timestamptz ''2026-10-25 02:30+02'' OR counted(t) > timestamptz ''2026-10-25 02:20+01''');

-- An expression that takes a column for another type as it is
CREATE TABLE numbers (n oid, v int) PARTITION BY LIST (v);
CREATE TABLE numbers_0 PARTITION OF numbers FOR VALUES IN (0);
CREATE TABLE numbers_1 (v int, n oid);
ALTER TABLE numbers ATTACH PARTITION numbers_1 FOR VALUES IN (1);
INSERT INTO numbers SELECT i, i % 2 FROM generate_series(1, 20000) i;
CREATE INDEX ON numbers USING harmonia ((n::int));
ANALYZE numbers;
SELECT node, same FROM check_queries('SELECT i, v FROM generate_series(1, 100) i JOIN numbers_0 ON n::int = i');
SELECT node, same FROM check_queries('SELECT i, v FROM generate_series(1, 100) i JOIN numbers ON n::int = i');

-- What is not evaluated is not charged for.
CREATE FUNCTION cost_of(query text) RETURNS numeric LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (FORMAT JSON) ' || query INTO plan;
	RETURN jsonb_path_query_first(plan::jsonb, 'strict $.** ? (@."Custom Plan Provider" like_regex "Harmonia")."Total Cost"');
END $$;
CREATE TABLE costs AS SELECT query, NULL::numeric AS cheap, NULL::numeric AS expensive FROM unnest(ARRAY[
	'SELECT * FROM t WHERE counted(k) = ANY (ARRAY(SELECT generate_series(1, 600)))',
	'SELECT i FROM generate_series(1, 600) i JOIN t ON counted(t.k) = i',
	'SELECT i FROM generate_series(1, 600) i JOIN t ON counted(i) = counted(t.k)',
	'SELECT * FROM d WHERE counted(t) < timestamptz ''2026-10-25 02:30+02'' OR counted(t) > timestamptz ''2026-10-25 02:20+01''']) query;
SET enable_seqscan = off;
SET enable_nestloop = off;
UPDATE costs SET cheap = cost_of(query);
ALTER FUNCTION counted COST 10100;
UPDATE costs SET expensive = cost_of(query);
-- Each evaluation costs 25 more.
SELECT least(round((expensive - cheap) / 25), 600) AS evaluations, query FROM costs;

DROP SCHEMA lookup_expression CASCADE;
