--
-- Long lists of rows, (a, b) IN ((1, 2), ...), and ORs that say the same: they are joined with VALUES
--
LOAD 'harmonia';
SET client_min_messages = warning;
SET jit = off;
SET max_parallel_workers_per_gather = 0;
SET harmonia.enable_lookup_aggregate = off;
CREATE SCHEMA lookup_pairs;
SET search_path = lookup_pairs, public;
\getenv srcdir PG_ABS_SRCDIR
\set compare :srcdir '/sql/include/compare.sql'
\i :compare
\set lookup :srcdir '/sql/include/lookup.sql'
\i :lookup

CREATE TABLE t (a int, b bigint, c smallint, d date, x text, v varchar, n int) WITH (autovacuum_enabled = off);
INSERT INTO t SELECT CASE WHEN i % 17 > 0 THEN i % 40 END, CASE WHEN i % 19 > 0 THEN shuffle(i) % 50 END, i % 3,
	'2024-01-01'::date + shuffle(i) % 400, shuffle(i) % 50, shuffle(i) % 50, i FROM generate_series(1, 8000) i;
INSERT INTO t VALUES (1, 3000000000, 1, 'infinity', '', '', 0), (2147483647, 9223372036854775807, 32767, NULL, NULL, NULL, -1);
CREATE INDEX ON t USING harmonia (a, b, c);
CREATE INDEX ON t USING harmonia (b, a);
CREATE INDEX ON t USING harmonia (x, a);
CREATE INDEX ON t USING harmonia (d, a);
CREATE INDEX ON t USING harmonia (v, c);
CREATE TABLE plain WITH (autovacuum_enabled = off) AS SELECT * FROM t;
CREATE VIEW seen AS SELECT a, b AS e, n FROM t WHERE n % 2 = 0;
CREATE VIEW barred WITH (security_barrier) AS SELECT * FROM seen;
CREATE TABLE partly WITH (autovacuum_enabled = off) AS SELECT * FROM t;
CREATE INDEX ON partly USING harmonia (a, b) WHERE n > 1000;
CREATE TABLE parts (a int, b bigint, n int) PARTITION BY LIST (a);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES IN (1, 2, 3, 4, 5);
CREATE TABLE parts_2 PARTITION OF parts DEFAULT;
INSERT INTO parts SELECT a, b, n FROM t;
CREATE INDEX ON parts USING harmonia (a, b);
:vacuum ANALYZE t;
:vacuum ANALYZE plain;
:vacuum ANALYZE partly;
:vacuum ANALYZE parts;

-- A list of n rows in a form with %1$s and so on for numbers; "%%" comes before a form's quotes.
CREATE FUNCTION list(n int, form text, separator text DEFAULT ', ', extra text DEFAULT '') RETURNS text LANGUAGE sql
	AS $$ SELECT string_agg(format(form, i % 37, i % 47, i % 3), separator ORDER BY i) || extra FROM generate_series(1, n) i $$;

-- Compare with sequential scans; is the query's list joined?
CREATE FUNCTION compare_lists(VARIADIC queries text[]) RETURNS TABLE (query text, n bigint, result text, joined boolean) LANGUAGE plpgsql AS $$
BEGIN
	FOREACH query IN ARRAY queries LOOP
		SELECT c.n, c.result INTO n, result FROM compare_lookups(query) c;
		SELECT coalesce(bool_or(p ~ 'VALUES'), false) INTO joined FROM plan(query) p;
		query := regexp_replace(query, '(.{100}).*(.{20})', '\1 ... \2');
		RETURN NEXT;
	END LOOP;
END $$;
SELECT * FROM compare_lists(
	'SELECT * FROM t WHERE (a, b) IN (' || list(100, '(%s, %s)') || ')',
	'SELECT * FROM t WHERE (b, a) IN (' || list(100, '(%2$s, %1$s)', extra => ', (1, NULL), (NULL, 1), (NULL, NULL), (1, 1), (3000000000, 1)') || ')',
	'SELECT n FROM t WHERE n % 7 > 2 AND (' || list(64, '(a = %s AND %s = b)', ' OR ', ' OR (b = 3 AND 4::smallint = a)') || ')',
	'SELECT n FROM t WHERE (c, a, b) IN (' || list(100, '(%3$s, %1$s, %2$s)') || ')',
	'SELECT n FROM t WHERE (a, b) IN (' || list(100, '(%s, %s)', extra => ', (3000000000, 9223372036854775807), (1, 3000000000::numeric::bigint)') || ')',
	'SELECT n FROM t WHERE (a, x) IN (' || list(100, '(%s, ''%s'')', extra => ', (1, '''')') || ')',
	'SELECT n FROM t WHERE (v, c) IN (' || list(100, '(''%2$s'', %3$s)') || ')',
	'SELECT n FROM t WHERE (d, a) IN (' || list(100, '(''2024-1%3$s-11'', %1$s)', extra => ', (''infinity'', 1)') || ')',
	'SELECT seen.n, p.n FROM seen JOIN plain p ON p.n = seen.n + 1 WHERE (seen.a, e) IN (' || list(100, '(%s, %s)') || ')',
	'SELECT n FROM parts WHERE (a, b) IN (' || list(100, '(%s, %s)') || ')',
	'WITH w AS MATERIALIZED (SELECT * FROM t WHERE (a, b) IN (' || list(100, '(%s, %s)') || ')) SELECT n FROM w UNION ALL SELECT -n FROM w WHERE a > 3',
	'SELECT n, (SELECT max(c) FROM t WHERE t.d = p.d AND (t.a, t.b) IN (' || list(100, '(%s, %s)') || ')) FROM plain p WHERE n % 100 = 1',
	'SELECT p.n, t.n FROM plain p LEFT JOIN t ON t.n = p.n + 4000 WHERE (t.a, t.b) IN (' || list(100, '(%s, %s)') || ')',
	'SELECT n FROM plain p WHERE EXISTS (SELECT FROM t WHERE t.n = p.n + 1 AND (a, b) IN (' || list(100, '(%s, %s)') || '))',
	'SELECT n FROM t JOIN (SELECT n, v FROM plain) p USING (n) WHERE (a, b) IN (' || list(100, '(%s, %s)') || ')',
	'SELECT p.n FROM t RIGHT JOIN plain p USING (n, a, b) WHERE (a, b) IN (' || list(100, '(%s, %s)') || ')');

-- Other lists stay: short ones, those under NOT and beside OR, those of several tables or of columns
-- that no index begins with, or a partial one, other operators, two values of a column, stable casts,
-- security barriers, and rows that are locked.
SELECT * FROM compare_lists(
	'SELECT n FROM t WHERE (a, b) IN (' || list(63, '(%s, %s)') || ')',
	'SELECT n FROM t WHERE (a, b) NOT IN (' || list(100, '(%s, %s)') || ')',
	'SELECT n FROM t WHERE n < 100 OR (a, b) IN (' || list(100, '(%s, %s)') || ')',
	'SELECT p.n FROM t JOIN plain p USING (n) WHERE (t.a, p.b) IN (' || list(100, '(%s, %s)') || ')',
	'SELECT n FROM t WHERE (a, c) IN (' || list(100, '(%1$s, %3$s)') || ')',
	'SELECT n FROM plain WHERE (a, b) IN (' || list(100, '(%s, %s)') || ')',
	'SELECT n FROM t WHERE a = 3 AND b = 4 OR ' || list(100, '(a = %s AND b >= %s)', ' OR '),
	'SELECT n FROM t WHERE a = 5::bigint AND b = 1 OR ' || list(100, '(a < %s AND b = %s)', ' OR '),
	'SELECT n FROM t WHERE a < 5 AND b = 1 OR ' || list(100, '(a = %s::bigint AND b = %s)', ' OR '),
	'SELECT n FROM t WHERE a = 3 OR ' || list(100, '(a = %s AND b = %s)', ' OR '),
	'SELECT n FROM t WHERE (a, b) IN (' || list(100, '(%s, c + %s)') || ')',
	'SELECT n FROM (SELECT a, b, max(n) AS n FROM t GROUP BY a, b) q WHERE (a, b) IN (' || list(100, '(%s, %s)') || ')',
	'SELECT p.n, t.n FROM plain p LEFT JOIN t ON t.n = p.n AND (t.a, t.b) IN (' || list(100, '(%s, %s)') || ') WHERE p.n < 2000',
	'SELECT n FROM t WHERE (d, a) IN (' || list(100, '(''2024-1%3$s-11'', %1$s)', extra => ', (timestamp ''2024-11-11'', 1)') || ')',
	'SELECT n FROM t WHERE (a, x) IN (' || list(100, '(%s, ''%s'' COLLATE "POSIX")') || ')',
	'SELECT n FROM t WHERE (a, x) IN ((1, ''2'' COLLATE "POSIX"), ' || list(99, '(%s, ''%s'')') || ')',
	'SELECT n FROM t WHERE a = 3 AND b = 4 AND a = 5 OR ' || list(100, '(a = %s AND b = %s)', ' OR '),
	'SELECT n FROM t WHERE ' || list(100, '(a = %s AND b = %s)', ' OR ', ' OR a = 3 AND b = 4 AND c = 1'),
	'SELECT n FROM t WHERE (d, a) IN (' || list(100, '(timestamptz ''2024-1%3$s-11''::date, %1$s)') || ')',
	'SELECT n FROM barred WHERE (a, e) IN (' || list(100, '(%s, %s)') || ')',
	'SELECT n FROM partly WHERE (a, b) IN (' || list(100, '(%s, %s)') || ')');
BEGIN;
CALL use_lookups(false);
SELECT bool_or(p ~ 'VALUES') AS joined FROM plan('SELECT n FROM t WHERE (a, b) IN (' || list(100, '(%s, %s)') || ') FOR UPDATE') p;
SELECT bool_or(p ~ 'VALUES') AS joined FROM plan('DELETE FROM t WHERE (a, b) IN (' || list(100, '(%s, %s)') || ')') p;
SELECT line FROM explained('SELECT n FROM t WHERE (a, b) IN (' || list(100, '(%s, %s)') || ')') line WHERE line !~ 'Memory';

-- A cursor's rows can be changed, so its plan remains a scan
SELECT format('DECLARE c CURSOR FOR SELECT n FROM t WHERE (a, b) IN (%s)', list(100, '(%s, %s)')) AS declare \gset
:declare;
MOVE c;
UPDATE t SET n = n WHERE CURRENT OF c RETURNING 'changed';
SELECT format('DECLARE d CURSOR FOR SELECT count(*) FROM t WHERE (a, b) IN (%s)', list(100, '(%s, %s)')) AS declare \gset
:declare;
FETCH d;
-- The same for NOT IN
CREATE TABLE numbers (n int NOT NULL);
CREATE INDEX ON numbers USING harmonia (n);
DECLARE e CURSOR FOR SELECT n FROM t WHERE a NOT IN (SELECT n FROM numbers);
MOVE e;
UPDATE t SET n = n WHERE CURRENT OF e RETURNING 'changed';

-- Parameters, in a plan of their own and in one for all
SELECT format('PREPARE rows (int, bigint) AS SELECT count(*), sum(n) FROM t WHERE (a, b) IN (%s)', list(100, '(%s, %s)', extra => ', ($1, $2), ($2::int, $1)')) AS prepare \gset
:prepare;
SET LOCAL plan_cache_mode = force_generic_plan;
EXECUTE rows(38, 49);
EXECUTE rows(NULL, 1);
SELECT count(*) FILTER (WHERE p ~ 'Values Scan') AS joined FROM plan('EXECUTE rows(1, 2)') p;
SET LOCAL plan_cache_mode = force_custom_plan;
EXECUTE rows(38, 49);
EXECUTE rows(NULL, 1);
SET LOCAL harmonia.enable_lookup_join = off;
DISCARD PLANS;
EXECUTE rows(38, 49);
EXECUTE rows(NULL, 1);
COMMIT;

DROP SCHEMA lookup_pairs CASCADE;
