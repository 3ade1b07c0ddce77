--
-- Joins by an index of several columns, with a range of the column after those that are compared for
-- equality
--
SET client_min_messages = warning;
SET jit = off;
SET max_parallel_workers_per_gather = 0;
SET harmonia.enable_lookup_aggregate = off;
SET timezone = 'Europe/Berlin';
CREATE SCHEMA lookup_between;
SET search_path = lookup_between, public;
\getenv srcdir PG_ABS_SRCDIR
\set compare :srcdir '/sql/include/compare.sql'
\i :compare
\set lookup :srcdir '/sql/include/lookup.sql'
\i :lookup

-- A frequent key, and what is at its end
CREATE TABLE events (a int, at int, pad text) WITH (autovacuum_enabled = off);
INSERT INTO events SELECT i % 20, i, repeat('x', 50) FROM generate_series(1, 40000) i;
CREATE INDEX events_a_at ON events USING harmonia (a, at);
CREATE TABLE marks AS SELECT i % 20 AS a, 39000 + i * 3 AS at FROM generate_series(1, 300) i;
:vacuum ANALYZE events;
:vacuum ANALYZE marks;
BEGIN;
CALL use_lookups(true);
SELECT * FROM explained('SELECT count(*) FROM marks m WHERE EXISTS (SELECT FROM events e WHERE e.a = m.a AND e.at > m.at)');
SELECT * FROM explained('SELECT m.at, e.at, e.pad FROM marks m JOIN events e ON e.a = m.a AND e.at BETWEEN m.at AND m.at + 20');
SELECT * FROM explained('SELECT m.at, e.at, e.pad FROM marks m JOIN events e USING (a) WHERE e.at > 39900');
-- A restriction that rules out few rows stays a filter.
SELECT * FROM explained('SELECT m.at, e.at FROM marks m JOIN events e USING (a) WHERE e.at > 200');
COMMIT;

-- Types and their ends, NULLs, directions; fields that NULL shares, gaps, and cut ones
CREATE TABLE t (a int, s smallint, i int, b bigint, d date, ts timestamp, tz timestamptz, f float8, u uuid, x text, n int)
	WITH (autovacuum_enabled = off);
INSERT INTO t SELECT k % 8, k - 50, k - 50, k - 50, '2024-03-28'::date + k / 10, '2024-03-30'::timestamp + k * interval '30 min',
	'2024-03-30'::timestamptz + k * interval '30 min', k / 4.0, md5(k::text)::uuid, k, j
	FROM (SELECT j, shuffle(j) % 100 AS k FROM generate_series(1, 700) j) q;
INSERT INTO t SELECT a, 32767, 2147483647, 9223372036854775807, 'infinity', 'infinity', 'infinity', 'NaN', NULL, NULL, 1000 FROM generate_series(0, 7) a;
INSERT INTO t SELECT a, -32768, -2147483648, -9223372036854775808, '-infinity', '-infinity', '-infinity', '-0', NULL, NULL, 1001 FROM generate_series(0, 7) a;
INSERT INTO t SELECT a, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1002 FROM generate_series(0, 7) a;
INSERT INTO t SELECT NULL, i, i, i, NULL, NULL, NULL, NULL, NULL, NULL, 1003 FROM generate_series(0, 7) i;
CREATE TABLE o WITH (autovacuum_enabled = off) AS SELECT * FROM t WHERE n % 10 = 0 OR n > 990;
:vacuum ANALYZE t;
:vacuum ANALYZE o;
CREATE FUNCTION compare_column(key text, types text[], indexes text[] DEFAULT '{"(a, %I)","(a, %I DESC)","(a DESC, %I NULLS FIRST, n)","(a, %I, b, ts)","(a) INCLUDE (%I)","(a, %I) INCLUDE (n)"}')
	RETURNS TABLE (columns text, result text, by_lookup bigint, queries bigint) LANGUAGE plpgsql AS $$
BEGIN
	FOREACH columns IN ARRAY indexes LOOP
		IF NOT columns ~ 'b, ts' OR key NOT IN ('b', 'ts') THEN
			EXECUTE 'CREATE INDEX t_a ON t USING harmonia ' || format(columns, key);
			RETURN QUERY SELECT format(columns, key), c.result, count(c.nodes), count(*)
				FROM (SELECT array_agg(format(q, key, type)) AS all FROM unnest(types) type, unnest(ARRAY[
						'SELECT o.n, t.n FROM o JOIN t ON t.a = o.a AND t.%1$I > o.%2$I',
						'SELECT o.n, t.%1$I FROM o JOIN t ON t.a = o.a AND o.%2$I >= t.%1$I',
						'SELECT o.n, t.%1$I FROM o LEFT JOIN t ON t.a = o.a AND t.%1$I >= o.%2$I AND t.%1$I < o.%2$I',
						'SELECT o.n, t.n FROM o LEFT JOIN t ON t.a = o.a AND t.%1$I >= o.%2$I AND t.%1$I <= o.%2$I AND t.n > 3',
						'SELECT o.n FROM o WHERE EXISTS (SELECT FROM t WHERE t.a = o.a AND t.%1$I < o.%2$I)',
						'SELECT o.n FROM o WHERE NOT EXISTS (SELECT FROM t WHERE t.a = o.a AND t.%1$I > o.%2$I AND t.n <> o.n)',
						'SELECT o.n, t.n FROM o JOIN t ON t.a = o.a WHERE t.%1$I < (SELECT %2$I FROM o WHERE n = 20)',
						'SELECT o.n, t.n FROM o JOIN t ON t.a = o.a AND t.%1$I BETWEEN o.%2$I AND (SELECT %2$I FROM o WHERE n = 10)']) q) made,
					LATERAL compare_lookups(VARIADIC made.all) c
				GROUP BY 2;
			DROP INDEX t_a;
		END IF;
	END LOOP;
END $$;
SELECT * FROM compare_column('i', '{s,i,b}');
SELECT * FROM compare_column('b', '{s,i,b}');
SELECT * FROM compare_column('s', '{s,b}');
SELECT * FROM compare_column('d', '{d,ts,tz}');
SELECT * FROM compare_column('ts', '{d,ts,tz}');
SELECT * FROM compare_column('tz', '{d,ts,tz}');
SELECT * FROM compare_column('f', '{f}', '{"(a, %I)","(a, %I DESC)","(a DESC, %I NULLS FIRST, n)"}');
SELECT * FROM compare_column('u', '{u}', '{"(a, %I)","(a, %I DESC)","(a DESC, %I NULLS FIRST, n)"}');
SELECT * FROM compare_column('x', '{x}', '{"(a, %I)","(a, %I DESC)","(a DESC, %I NULLS FIRST, n)"}');

-- The first column has one value.
CREATE INDEX t_a ON t USING harmonia (a, i);
SELECT * FROM compare_lookups(
	'SELECT o.n, t.n FROM o JOIN t ON t.a = 2 AND t.i BETWEEN o.i AND o.i + 7::bigint',
	'SELECT o.n, t.n FROM o LEFT JOIN t ON t.a = 2 AND t.i < o.i AND t.i > o.s',
	'SELECT o.n FROM o WHERE NOT EXISTS (SELECT FROM t WHERE t.a = 2 AND t.i >= o.i AND t.i < 3)');

-- Partitions have no ranges.
CREATE TABLE p (a int, at int, n int) PARTITION BY LIST (a);
CREATE TABLE p_0 PARTITION OF p FOR VALUES IN (0, 1, 2, 3);
CREATE TABLE p_1 PARTITION OF p DEFAULT;
INSERT INTO p SELECT a, i, n FROM t;
CREATE INDEX ON p USING harmonia (a, at);
:vacuum ANALYZE p;
SELECT * FROM compare_lookups(
	'SELECT o.n, p.n FROM o JOIN p ON p.a = o.a AND p.at > o.i',
	'SELECT o.n, p.n FROM o JOIN p ON p.a = o.a AND p.at BETWEEN o.i AND o.i + 7::bigint WHERE p.a = 2');

DROP SCHEMA lookup_between CASCADE;
