--
-- Lookup scans with conditions on columns after a gap, or after a range: hits are filtered by their keys,
-- before rows are read
--
SET client_min_messages = warning;
SET jit = off;
SET max_parallel_workers_per_gather = 0;
SET harmonia.enable_lookup_aggregate = off;
CREATE SCHEMA lookup_filter;
SET search_path = lookup_filter, public;
\getenv srcdir PG_ABS_SRCDIR
\set compare :srcdir '/sql/include/compare.sql'
\i :compare
\set lookup :srcdir '/sql/include/lookup.sql'
\i :lookup

CREATE TABLE t (a int, b int, c smallint, d date, l bigint, m bigint, x text, n int) WITH (autovacuum_enabled = off);
INSERT INTO t SELECT CASE WHEN k % 23 > 0 THEN k % 50 END, CASE WHEN i % 19 > 0 THEN i % 90 END, CASE WHEN i % 17 > 0 THEN k % 30 END,
	'2024-01-01'::date + k % 60, CASE WHEN k % 29 > 0 THEN k % 70 - 35 END, CASE WHEN i % 13 > 0 THEN i % 40 - 20 END, i % 25, i
	FROM (SELECT i, shuffle(i) AS k FROM generate_series(1, 12000) i) q;
INSERT INTO t VALUES (1, 2147483647, 32767, 'infinity', 9223372036854775807, -9223372036854775808, NULL, 0), (1, -2147483648, -32768, NULL, -9223372036854775808, 9223372036854775807, '', 0);
CREATE INDEX t_c ON t USING harmonia (a, b, c);
:vacuum ANALYZE t;

-- Rows are read that satisfy the condition on the last column.
BEGIN;
CALL use_lookups(false);
SELECT * FROM explained('SELECT n FROM t WHERE a IN (3, 13, 23) AND c = 3');
SELECT * FROM explained('SELECT n FROM t WHERE a IN (3, 13, 23) AND b > 30 AND c < 4 AND n > 100');
SELECT * FROM explained('SELECT count(*) FROM t WHERE a IN (3, 13, 23) AND c IN (1, 3, 7)');
COMMIT;
UPDATE t SET c = c + 1 WHERE n % 11 = 3;
DELETE FROM t WHERE n % 11 = 4;

CREATE FUNCTION compare_index(columns text, VARIADIC conditions text[]) RETURNS TABLE (result text, by_lookup bigint, queries bigint) LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE 'DROP INDEX IF EXISTS t_i; CREATE INDEX t_i ON t USING harmonia ' || columns;
	RETURN QUERY SELECT c.result, count(c.nodes), count(*) FROM unnest(conditions) condition, unnest(ARRAY[
			'SELECT * FROM t WHERE ', 'SELECT count(*) FROM t WHERE ', 'SELECT a, b, c FROM t WHERE ', 'SELECT count(x) FROM t WHERE n > 9 AND ']) query,
		LATERAL compare_lookups(query || condition) c GROUP BY 1;
END $$;
SELECT * FROM compare_index('(a, b, c)', 'a IN (1, 2, 3) AND c = 5', 'a = ANY (ARRAY(SELECT generate_series(0, 49, 3))) AND c BETWEEN 3 AND 9',
	'a IN (1, 2, 3) AND b > 40 AND c < 7', 'a IN (1, 2) AND b <> 3 AND c >= 32767::int', 'a IN (1, 7, 9) AND c < -5::bigint',
	'a IN (1, NULL) AND c IN (1, 2, NULL)', 'a IN (1, 2) AND c > 99999', 'a < 10 AND c IN (3, 4, 5)', '(a = 3 OR a = 4 AND b < 50) AND c = 6');
SELECT * FROM compare_index('(a DESC, d NULLS FIRST, c)', 'a IN (1, 2, 3) AND c = 5', 'a = ANY (ARRAY(SELECT generate_series(0, 49, 3))) AND d > ''2024-02-01'' AND c < 9',
	'a IN (1, 2, 3) AND d < timestamptz ''2024-02-01 12:00'' AND c < 7', 'a IN (1, 2) AND c > 20');
SELECT * FROM compare_index('(l, a, b)', 'l IN (-3, 1, 2, 9223372036854775807) AND b = 5', 'l IN (1, 2, 3) AND a > 20 AND b IN (4, 5, 6)', 'l IN (1, 2, 3) AND b > 40');
SELECT * FROM compare_index('(l, m, a)', 'l IN (-3, 1, 2, 9223372036854775807) AND a = 5', 'l IN (1, 2, 3) AND m < 3 AND a IN (4, 5, 6)', 'l IN (1, 2, 3) AND m > -4 AND a > 40');
SELECT * FROM compare_index('(a, l, m)', 'a IN (1, 2, 3) AND m = 5', 'a IN (1, 2, 3) AND l > 0 AND m < 7::smallint', 'a IN (1, 2) AND m IN (-9223372036854775808, 9223372036854775807)');
SELECT * FROM compare_index('(x, a, c)', 'x IN (''1'', ''2'') AND c = 5', 'x IN (''1'', ''2'', '''') AND a > 9 AND c < 7');
SELECT * FROM compare_index('(a, x, c)', 'a IN (1, 2, 3) AND c = 5', 'a IN (1, 2, 3) AND c < 7');

-- In rescans, and by workers
SELECT * FROM compare_lookups('SELECT o.i, (SELECT sum(n) FROM t WHERE a IN (o.i, o.i + 1) AND c = o.i % 7) FROM generate_series(1, 40) o (i)');
SET min_parallel_table_scan_size = 0;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET max_parallel_workers_per_gather = 2;
SELECT * FROM compare_lookups('SELECT n FROM t WHERE a = ANY (ARRAY(SELECT generate_series(0, 49, 3))) AND c BETWEEN 3 AND 9',
	'SELECT n FROM t WHERE a BETWEEN 3 AND 40 AND a IN (1, 3, 5, 7, 9, 22) AND c IN (4, 8)');

DROP SCHEMA lookup_filter CASCADE;
