--
-- Lookup joins: the rows of a plan are looked up in an index
--
SET client_min_messages = warning;
SET timezone = 'UTC';
SET jit = off;
SET max_parallel_workers_per_gather = 0;
SET harmonia.enable_lookup_aggregate = off;
CREATE SCHEMA lookup_join;
SET search_path = lookup_join, public;
\getenv srcdir PG_ABS_SRCDIR
\set compare :srcdir '/sql/include/compare.sql'
\i :compare
\set lookup :srcdir '/sql/include/lookup.sql'
\i :lookup

-- Each key in two rows, and NULLs
CREATE TABLE t (k int, id int GENERATED ALWAYS AS IDENTITY, v text) WITH (autovacuum_enabled = off);
INSERT INTO t (k, v) SELECT shuffle(i) % 1500, 'v' || i FROM generate_series(1, 3000) i;
INSERT INTO t (k, v) SELECT NULL, i FROM generate_series(1, 50) i;
CREATE INDEX t_k ON t USING harmonia (k);
-- Outer rows: repeated keys, keys that are not found, NULLs
CREATE TABLE o (k int, n int GENERATED ALWAYS AS IDENTITY, w text) WITH (autovacuum_enabled = off);
INSERT INTO o (k, w) SELECT CASE WHEN i % 17 <> 0 THEN shuffle(i) % 1700 END, i % 7 FROM generate_series(1, 1200) i;
INSERT INTO o (k, w) SELECT 5, i FROM generate_series(1, 20) i;
CREATE TABLE empty (k int, n int);
CREATE INDEX empty_k ON empty USING harmonia (k);
-- Unique keys
CREATE TABLE once (k int PRIMARY KEY, v int) WITH (autovacuum_enabled = off);
INSERT INTO once SELECT i * 3, i FROM generate_series(1, 900) i;
CREATE INDEX once_k ON once USING harmonia (k);
CREATE TABLE bounds (low int, high int, n int) WITH (autovacuum_enabled = off);
INSERT INTO bounds SELECT i * 16, i * 16 + i % 5, i FROM generate_series(1, 90) i;
INSERT INTO bounds VALUES (10, 5, 100), (NULL, 5, 101), (5, NULL, 102), (-2147483648, -5, 103), (1490, 2147483647, 104), (7, 7, 105), (-5, 40, 106), (20, 60, 107);
:vacuum ANALYZE t, o, empty, once, bounds;
-- Some pages are not all-visible.
UPDATE t SET v = 'new' WHERE id % 500 = 3;
DELETE FROM t WHERE id % 300 = 5;

--
-- Plans
--
-- A lookup join pays: few pages, with many wanted rows each
SELECT * FROM plan('SELECT * FROM o JOIN t USING (k) WHERE n < 300');
BEGIN;
CALL use_lookups(true);
SELECT * FROM plan('SELECT o.n, t.id FROM o JOIN t USING (k) WHERE t.v > ''v2'' AND o.w > t.v');
SELECT * FROM plan('SELECT n FROM o LEFT JOIN t ON t.k = o.k + 1 AND t.id > 5 WHERE t.v IS NULL OR o.n = t.id');
SELECT * FROM plan('SELECT n FROM o WHERE EXISTS (SELECT FROM t WHERE t.k = o.k)');
SELECT * FROM plan('SELECT n FROM o WHERE NOT EXISTS (SELECT FROM t WHERE t.k = o.k AND t.v > o.w)');
SELECT * FROM plan('SELECT id FROM t WHERE k IN (SELECT k FROM o)');
SELECT * FROM plan('SELECT t.k, n FROM bounds JOIN t ON t.k BETWEEN low AND high');
SELECT * FROM plan('SELECT o.n + 1, t.* FROM o JOIN t ON t.k = o.n', 'VERBOSE');
SELECT * FROM plan('SELECT n FROM o WHERE EXISTS (SELECT FROM t WHERE t.k = o.k)', 'FORMAT JSON');
SELECT * FROM explained('SELECT o.n FROM once JOIN o USING (k) JOIN t ON t.k = o.n WHERE o.n < 200 AND t.v <> ''v100''');
SELECT * FROM explained('SELECT n, v FROM bounds JOIN once ON k >= low AND k < high', 'FORMAT YAML');
-- Joins that are no lookup joins
SELECT query, lookup_nodes(query) FROM unnest(ARRAY['SELECT * FROM o JOIN t ON t.k < o.k', 'SELECT * FROM o JOIN t ON t.k <> o.k',
	'SELECT * FROM o JOIN t ON t.k = o.k::numeric', 'SELECT * FROM o JOIN t ON t.k = o.k + (random() * 0)::int', 'SELECT * FROM o JOIN t ON t.id = o.k',
	'SELECT * FROM o RIGHT JOIN empty USING (n)', 'SELECT * FROM o FULL JOIN t USING (k)', 'SELECT n FROM o WHERE k NOT IN (SELECT k FROM t)']) query;
ROLLBACK;
-- Lookup joins are off
SET harmonia.enable_lookup_join = off;
SELECT lookup_nodes('SELECT * FROM o JOIN t USING (k) WHERE n < 300');
RESET harmonia.enable_lookup_join;
SELECT lookup_nodes('SELECT * FROM o JOIN t USING (k) WHERE n < 300');

--
-- Answers of each type of join
--
SELECT * FROM compare_lookups(
	'SELECT o.*, t.* FROM o JOIN t USING (k)',
	'SELECT count(*) FROM o JOIN t USING (k)',
	'SELECT t.k FROM o JOIN t USING (k)',
	'SELECT o.k + 1, t.id * 2 FROM o JOIN t USING (k) WHERE o.n % 3 = 0 AND t.v < ''v3''',
	'SELECT n FROM o JOIN t ON t.k = o.k AND t.id < o.n',
	'SELECT n, t.id FROM o JOIN t ON t.k = o.k + 1 AND o.w <> left(t.v, 1)',
	'SELECT n, t.id FROM o JOIN t ON t.k = o.k AND t.k = o.n',
	'SELECT n, t.id FROM o JOIN t ON t.k = o.k AND t.k > o.n AND t.k < o.n + 500',
	'SELECT n, t.id FROM o LEFT JOIN t USING (k)',
	'SELECT n, t.* FROM o LEFT JOIN t ON t.k = o.k AND t.v > ''v5''',
	'SELECT n, t.id FROM o LEFT JOIN t ON t.k = o.k AND o.n % 2 = 0',
	'SELECT n, t.id FROM o LEFT JOIN t ON t.id = o.n AND t.k = o.k WHERE o.n = 5',
	'SELECT n, t.id FROM o LEFT JOIN t ON t.k = o.k AND t.id > o.n WHERE t.id IS NULL OR t.id % 2 = 0',
	'SELECT n, coalesce(t.k, -1) FROM o LEFT JOIN t ON t.k = o.k WHERE coalesce(t.k, -1) < 100',
	'SELECT n FROM o LEFT JOIN t ON t.k = o.k WHERE t.k IS NULL',
	'SELECT n, t.id FROM t RIGHT JOIN o USING (k)',
	'SELECT n FROM o WHERE EXISTS (SELECT FROM t WHERE t.k = o.k)',
	'SELECT n FROM o WHERE EXISTS (SELECT FROM t WHERE t.k = o.k AND t.id > o.n + 1500)',
	'SELECT n FROM o WHERE k IN (SELECT k FROM t WHERE v > ''v3'')',
	'SELECT n FROM o WHERE NOT EXISTS (SELECT FROM t WHERE t.k = o.k)',
	'SELECT n FROM o WHERE NOT EXISTS (SELECT FROM t WHERE t.k = o.k AND t.id > o.n + 1500)',
	'SELECT n FROM o WHERE NOT EXISTS (SELECT FROM t WHERE t.k = o.k AND o.w > ''3'')',
	'SELECT id FROM t WHERE k IN (SELECT k FROM o)',
	'SELECT k FROM t WHERE k IN (SELECT k FROM o WHERE w < ''2'')',
	'SELECT id FROM t WHERE k IN (SELECT n * 2 FROM o WHERE o.w = t.v OFFSET 0)',
	'SELECT n FROM o WHERE (k, n) IN (SELECT k, id FROM t)',
	'SELECT o.n, once.v FROM o JOIN once USING (k)',
	'SELECT o.n, once.v FROM o LEFT JOIN once USING (k)',
	'SELECT n FROM o WHERE k = ANY (SELECT k FROM once)');

-- Ranges
SELECT * FROM compare_lookups(
	'SELECT t.*, n FROM bounds JOIN t ON t.k BETWEEN low AND high',
	'SELECT t.k FROM bounds JOIN t ON t.k BETWEEN low AND high',
	'SELECT t.k, n FROM bounds JOIN t ON t.k > low AND t.k < high AND t.k <> n',
	'SELECT t.k, n FROM bounds JOIN t ON low < t.k AND high >= t.k AND t.k >= n AND t.k <= n * 30',
	'SELECT t.k, n FROM bounds LEFT JOIN t ON t.k >= low AND t.k < high',
	'SELECT n, t.id FROM bounds LEFT JOIN t ON t.k > low AND t.k < high AND t.v > ''v3''',
	'SELECT n FROM bounds WHERE EXISTS (SELECT FROM t WHERE t.k BETWEEN low AND high)',
	'SELECT n FROM bounds WHERE EXISTS (SELECT FROM t WHERE t.k BETWEEN low AND high AND t.id % 50 = n % 50)',
	'SELECT n FROM bounds WHERE NOT EXISTS (SELECT FROM t WHERE t.k > low AND t.k < high)',
	'SELECT n FROM bounds JOIN t ON t.k = low AND t.k <= high',
	'SELECT n, k FROM bounds JOIN t ON t.k >= low AND t.k <= high::bigint + 4294967296 AND t.k < 50');

-- Empty sides, one row, nothing found
SELECT * FROM compare_lookups(
	'SELECT * FROM empty JOIN t USING (k)', 'SELECT * FROM o JOIN empty USING (k)', 'SELECT * FROM o LEFT JOIN empty USING (k)', 'SELECT o.n FROM o WHERE NOT EXISTS (SELECT FROM empty WHERE k = o.k)',
	'SELECT * FROM (SELECT 7 AS k OFFSET 0) s JOIN t USING (k)', 'SELECT * FROM (SELECT -7 AS k OFFSET 0) s LEFT JOIN t USING (k)', 'SELECT * FROM (SELECT NULL::int AS k OFFSET 0) s LEFT JOIN t USING (k)',
	'SELECT * FROM generate_series(-1000, -1) k JOIN t USING (k)', 'SELECT * FROM generate_series(-5, 5) k LEFT JOIN t USING (k)',
	'SELECT * FROM (VALUES (1), (2), (NULL), (2)) s (k) LEFT JOIN t USING (k)',
	'SELECT * FROM o JOIN t USING (k) WHERE false', 'SELECT * FROM o LEFT JOIN t ON t.k = o.k AND false', 'SELECT n FROM o LEFT JOIN t ON t.k = o.k AND (SELECT count(*) FROM empty) > 0');

-- One key in 50000 rows, for several probes
CREATE TABLE hot (k int, id int) WITH (autovacuum_enabled = off);
INSERT INTO hot SELECT 7, i FROM generate_series(1, 50000) i;
INSERT INTO hot SELECT i % 100, i FROM generate_series(1, 1000) i;
CREATE INDEX ON hot USING harmonia (k);
:vacuum ANALYZE hot;
CREATE TABLE sevens AS SELECT 7 AS k, i AS n FROM generate_series(1, 3) i UNION ALL SELECT i, i FROM generate_series(90, 110) i;
ANALYZE sevens;
SELECT * FROM compare_lookups(
	'SELECT n, count(*), sum(id) FROM sevens JOIN hot USING (k) GROUP BY n', 'SELECT n, count(hot.k) FROM sevens LEFT JOIN hot USING (k) GROUP BY n',
	'SELECT n FROM sevens WHERE EXISTS (SELECT FROM hot WHERE hot.k = sevens.k AND id > 49990)', 'SELECT n FROM sevens WHERE NOT EXISTS (SELECT FROM hot WHERE hot.k = sevens.k)',
	'SELECT n, count(*) FROM sevens JOIN hot ON hot.k BETWEEN n AND n + 10 GROUP BY n', 'SELECT n FROM sevens WHERE EXISTS (SELECT FROM hot WHERE hot.k BETWEEN sevens.k AND n + 5)');

-- Heap pages are read ahead, where the system can: for rows that are not wanted any
-- more, without order, and for a join that is not read to its end
DO $$
BEGIN
	PERFORM set_config('effective_io_concurrency', '8', false);
EXCEPTION WHEN invalid_parameter_value THEN NULL;
END $$;
SELECT * FROM compare_lookups(
	'SELECT o.*, t.* FROM o JOIN t USING (k)', 'SELECT t.k, n FROM bounds JOIN t ON t.k BETWEEN low AND high',
	'SELECT n FROM sevens WHERE EXISTS (SELECT FROM hot WHERE hot.k = sevens.k AND id > 49990)',
	'SELECT n FROM o WHERE NOT EXISTS (SELECT FROM t WHERE t.k = o.k AND t.v > ''v2'')',
	'SELECT s.n, (SELECT sum(t.id) FROM o JOIN t USING (k) WHERE o.n BETWEEN s.n AND s.n + 40) FROM sevens s WHERE n % 5 = 0');
BEGIN;
CALL use_lookups(false);
DECLARE c CURSOR FOR SELECT t.id FROM o JOIN t USING (k);
SELECT n FROM rest('c', 300);
CLOSE c;
ROLLBACK;
RESET effective_io_concurrency;

--
-- Types
--
CREATE TABLE keys (i8 int8, i4 int4, i2 int2, f8 float8, f4 float4, d date, ts timestamp, tz timestamptz, num numeric, n int)
	WITH (autovacuum_enabled = off);
INSERT INTO keys SELECT x, x, x, x / 4.0, x / 4.0, date '2000-01-01' + x, timestamp '2000-01-01' + x * interval '6 hours',
		timestamptz '2000-01-01' + x * interval '6 hours', x, i
	FROM (SELECT i, shuffle(i) % 600 - 300 AS x FROM generate_series(1, 900) i) s;
INSERT INTO keys (i8, i4, f8, f4, num) VALUES (9223372036854775807, 2147483647, 'NaN', 'NaN', 'NaN'), (2147483648, -2147483648, 'inf', '-inf', 0), (-9223372036854775808, NULL, '-0', '-0', 1e30);
INSERT INTO keys (d, ts, tz) VALUES ('infinity', '-infinity', 'infinity'), ('-infinity', 'infinity', '-infinity'), ('294276-12-31', '294276-12-31', '4714-11-24 BC'), ('5874897-12-31', '294276-12-31 23:59:59.999999', NULL);
UPDATE keys SET n = 900 + abs(hashtext(keys::text)) % 5 WHERE n IS NULL;
CREATE TABLE args AS SELECT * FROM keys;
CREATE INDEX ON keys USING harmonia (i8);
CREATE INDEX ON keys USING harmonia (i4 DESC NULLS LAST);
CREATE INDEX ON keys USING harmonia (i2 NULLS FIRST);
CREATE INDEX ON keys USING harmonia (f8);
CREATE INDEX ON keys USING harmonia (f4);
CREATE INDEX ON keys USING harmonia (d);
CREATE INDEX ON keys USING harmonia (ts);
CREATE INDEX ON keys USING harmonia (tz);
:vacuum ANALYZE keys, args;
-- Each pair of types, by equality and by a range; numeric cannot use an index
CREATE FUNCTION compare_types(zone text) RETURNS TABLE (key text, arguments text) LANGUAGE plpgsql
AS $$
DECLARE
	groups text[] := '{"i8 i4 i2","f8 f4","d ts tz"}';
	argument text;
	results text;
BEGIN
	PERFORM set_config('timezone', zone, true);
	FOR i IN 1..3 LOOP
		FOREACH key IN ARRAY string_to_array(groups[i], ' ') LOOP
			arguments := '';
			FOREACH argument IN ARRAY string_to_array(groups[i] || ' num', ' ') LOOP
				CONTINUE WHEN i = 3 AND argument = 'num';
				SELECT string_agg(c.result || coalesce(' ' || c.nodes, ' without'), '; ') INTO results FROM compare_lookups(
					format('SELECT args.n, keys.n FROM args JOIN keys ON keys.%I = args.%I', key, argument),
					format('SELECT args.n, keys.%1$I FROM (SELECT a.%2$I AS low, b.%2$I AS high, a.n FROM args a JOIN args b ON b.n = a.n + 1 WHERE a.n %% 20 = 0 OR a.n > 898) args'
						' LEFT JOIN keys ON keys.%1$I > low AND keys.%1$I <= high', key, argument)) c;
				arguments := arguments || format('%s: %s. ', argument, results);
			END LOOP;
			RETURN NEXT;
		END LOOP;
	END LOOP;
END $$;
SELECT * FROM compare_types('UTC');
SELECT * FROM compare_types('America/New_York') WHERE key IN ('d', 'ts', 'tz');
-- When clocks are set back, several local times stand for one moment
SET timezone = 'America/New_York';
CREATE TABLE clock AS SELECT i AS n, timestamp '1999-10-31' + i * interval '10 minutes' AS local FROM generate_series(0, 30) i;
CREATE INDEX ON clock USING harmonia (local);
CREATE TABLE moments AS SELECT i AS n, timestamptz '1999-10-31' + i * interval '10 minutes' AS moment FROM generate_series(0, 30) i;
:vacuum ANALYZE clock, moments;
SELECT * FROM compare_lookups(
	'SELECT moments.n, clock.n FROM moments JOIN clock ON local = moment',
	'SELECT moments.n, clock.n FROM moments LEFT JOIN clock ON local >= moment AND local < moment + interval ''20 minutes''',
	'SELECT n FROM moments WHERE NOT EXISTS (SELECT FROM clock WHERE local = moment)');
SET timezone = 'UTC';
-- A domain, and a type that the index stores alike
CREATE DOMAIN positive AS int CHECK (VALUE > 0);
CREATE TABLE d (k positive, v int);
INSERT INTO d SELECT i % 500 + 1, i FROM generate_series(1, 2000) i;
CREATE INDEX ON d USING harmonia (k);
CREATE INDEX ON d USING harmonia ((v / 2));
CREATE INDEX ON d USING harmonia (v) WHERE v % 2 = 0;
CREATE TABLE kinds (r regclass, id oid);
INSERT INTO kinds SELECT i::oid, i FROM generate_series(4294967000, 4294967295) i;
CREATE TABLE oids AS SELECT i::oid AS oid FROM generate_series(4294966900, 4294967200, 2) i;
CREATE INDEX ON kinds USING harmonia (r);
ANALYZE d, kinds;
SELECT * FROM compare_lookups(
	'SELECT n, v FROM o JOIN d ON d.k = o.k', 'SELECT d.k FROM o JOIN d ON d.k = o.n', 'SELECT a.v, t.id FROM d a JOIN t USING (k)',
	'SELECT n, v FROM o JOIN d ON d.v / 2 = o.k', 'SELECT n, v FROM o JOIN d ON d.v = o.k AND d.v % 2 = 0', 'SELECT n, v FROM o JOIN d ON d.v = o.k',
	'SELECT oids.oid FROM oids JOIN kinds ON r = oids.oid', 'SELECT oids.oid, kinds.id FROM oids LEFT JOIN kinds ON r = oids.oid::regclass');

--
-- Places of the join in the plan
--
-- Above and below other joins, lookup joins and others
SELECT * FROM compare_lookups(
	'SELECT o.n, t.id, once.v FROM o JOIN t USING (k) JOIN once ON once.k = t.id', 'SELECT o.n, t.id, once.v FROM o LEFT JOIN t USING (k) LEFT JOIN once ON once.k = t.id',
	'SELECT a.id, b.id FROM t a JOIN t b ON b.k = a.id WHERE a.k IN (1, 2, 3, 4)', 'SELECT o.n, t.id FROM o JOIN (SELECT DISTINCT k, id FROM t) t USING (k)',
	'SELECT o.n, s.c FROM o LEFT JOIN (SELECT k, coalesce(v, ''x'') AS c FROM t) s ON s.k = o.k', 'SELECT o.n, s.c FROM o LEFT JOIN (SELECT k, 5 AS c FROM t WHERE id % 2 = 0) s ON s.k = o.k',
	'SELECT s.c, t.id FROM (SELECT a.n, coalesce(b.k, -1) AS c FROM o a LEFT JOIN once b USING (k)) s JOIN t ON t.k = s.c',
	'SELECT o.n FROM o LEFT JOIN (once JOIN t ON t.k = once.v) ON once.k = o.k WHERE o.n < 300',
	'SELECT o.k, count(*), max(t.id) FROM o JOIN t USING (k) GROUP BY o.k HAVING count(*) > 2 ORDER BY o.k',
	'SELECT o.n, t.id, row_number() OVER (PARTITION BY t.k ORDER BY t.id, o.n) FROM o JOIN t USING (k)',
	'SELECT n, t.id FROM o JOIN t USING (k) ORDER BY n, t.id LIMIT 7 OFFSET 3', 'SELECT n FROM o JOIN t USING (k) UNION SELECT id FROM t JOIN once USING (k)',
	'SELECT o.tableoid, o.ctid, t.id FROM o JOIN t USING (k)', 'SELECT t.tableoid, t.ctid, t.xmin, n FROM o LEFT JOIN t USING (k)', 'SELECT o, t.id FROM o JOIN t USING (k)', 'SELECT n, to_jsonb(o), t.k FROM o LEFT JOIN t USING (k)',
	'WITH x AS MATERIALIZED (SELECT k, n FROM o WHERE n < 700) SELECT n, id FROM x JOIN t USING (k)', 'WITH x AS NOT MATERIALIZED (SELECT k, n FROM o WHERE n < 700) SELECT n, id FROM x JOIN t USING (k)',
	'WITH x AS MATERIALIZED (SELECT n, id FROM o JOIN t USING (k)) SELECT a.n, b.id FROM x a JOIN t b ON b.k = a.id UNION ALL SELECT n, -1 FROM x',
	'WITH RECURSIVE r (k, depth) AS (SELECT 1, 0 UNION SELECT t.id, depth + 1 FROM r JOIN t ON t.k = r.k WHERE depth < 6) SELECT * FROM r');

-- In sub-queries that run for each row, and in target lists
SELECT * FROM compare_lookups(
	'SELECT n, (SELECT count(*) FROM o JOIN t USING (k) WHERE o.n < bounds.n) FROM bounds WHERE n < 12',
	'SELECT n, s.* FROM bounds, LATERAL (SELECT o.k, t.id FROM o JOIN t ON t.k = o.k + bounds.n WHERE o.n < bounds.n ORDER BY t.id LIMIT 3) s WHERE n < 20',
	'SELECT n, s.* FROM bounds, LATERAL (SELECT count(t.id), sum(o.n) FROM o LEFT JOIN t ON t.k BETWEEN o.k AND o.k + bounds.n AND t.id > bounds.low WHERE o.n < 40) s WHERE n < 20',
	'SELECT n, s.* FROM bounds, LATERAL (SELECT count(*) FROM o WHERE o.n < 40 AND NOT EXISTS (SELECT FROM t WHERE t.k = o.k + bounds.low)) s WHERE n < 20',
	'SELECT n, EXISTS (SELECT FROM t WHERE t.k = o.k) FROM o WHERE n < 300', 'SELECT n, EXISTS (SELECT FROM o JOIN t USING (k) WHERE o.n = bounds.n) FROM bounds WHERE n < 30',
	'SELECT n FROM o WHERE EXISTS (SELECT FROM t WHERE t.k = o.k) OR n % 100 = 0', 'SELECT n, k IN (SELECT k FROM t) FROM o WHERE n < 100',
	'SELECT n, ARRAY(SELECT t.id FROM once JOIN t USING (k) WHERE once.v < bounds.n ORDER BY t.id) FROM bounds WHERE n < 15');

-- One-time conditions, and parameters everywhere
PREPARE joined(int, text) AS SELECT count(*), sum(t.id), sum(n) FROM o JOIN t ON t.k = o.k + $1 WHERE t.v > $2 AND $1 < 10;
PREPARE left_joined(int, int[]) AS SELECT count(*), sum(t.id), sum(n) FROM o LEFT JOIN t ON t.k = o.k AND t.id > $1 AND $1 <> 7 WHERE o.n = ANY ($2);
BEGIN;
CALL use_lookups(false);
SET LOCAL plan_cache_mode = force_generic_plan;
SELECT lookup_nodes('EXECUTE joined(0, ''v3'')');
SELECT * FROM plan('EXECUTE left_joined(0, ''{1,2,3}'')');
EXECUTE joined(0, 'v3');
EXECUTE joined(1, '');
EXECUTE joined(10, '');
EXECUTE left_joined(0, '{1,2,3,500}');
EXECUTE left_joined(7, '{1,2,3,500}');
EXECUTE left_joined(NULL, '{1,2,3,500}');
SET LOCAL plan_cache_mode = force_custom_plan;
EXECUTE joined(0, 'v3');
EXECUTE joined(1, '');
EXECUTE joined(10, '');
EXECUTE left_joined(0, '{1,2,3,500}');
EXECUTE left_joined(7, '{1,2,3,500}');
EXECUTE left_joined(NULL, '{1,2,3,500}');
CALL use_no_lookups('seq');
SELECT * FROM plan('EXECUTE joined(0, ''v3'')');
EXECUTE joined(0, 'v3');
EXECUTE joined(1, '');
EXECUTE joined(10, '');
EXECUTE left_joined(0, '{1,2,3,500}');
EXECUTE left_joined(7, '{1,2,3,500}');
EXECUTE left_joined(NULL, '{1,2,3,500}');
ROLLBACK;

-- Volatile functions are called once for each row
CREATE SEQUENCE calls;
BEGIN;
CALL use_lookups(false);
SELECT count(*), max(c) FROM (SELECT nextval('calls') AS c FROM o JOIN t USING (k)) s;
SELECT setval('calls', 1, false);
SELECT * FROM plan('SELECT count(*) FROM o JOIN t USING (k) WHERE nextval(''calls'') + t.id > 0');
SELECT count(*) FROM o LEFT JOIN t ON t.k = o.k WHERE nextval('calls') > 100;
SELECT currval('calls');
ROLLBACK;

--
-- Wide rows, and tables of all kinds
--
CREATE TABLE wide (k int, gone int, w text, x text) WITH (autovacuum_enabled = off);
INSERT INTO wide SELECT i % 400, 1, repeat(md5(i::text), 100), md5(i::text) FROM generate_series(1, 800) i;
ALTER TABLE wide ALTER w SET STORAGE external, DROP gone, ADD added int DEFAULT 42;
UPDATE wide SET w = w || '.' WHERE k < 300;
CREATE INDEX ON wide USING harmonia (k);
CREATE TABLE p (k int, n int) PARTITION BY RANGE (k);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (MINVALUE) TO (700);
CREATE TABLE p2 (n int, k int);
ALTER TABLE p ATTACH PARTITION p2 FOR VALUES FROM (700) TO (MAXVALUE);
CREATE INDEX ON p USING harmonia (k);
INSERT INTO p SELECT k, n FROM o WHERE k IS NOT NULL;
CREATE TABLE q (k int, n int) PARTITION BY RANGE (k);
CREATE TABLE q1 PARTITION OF q FOR VALUES FROM (MINVALUE) TO (700);
CREATE TABLE q2 PARTITION OF q FOR VALUES FROM (700) TO (MAXVALUE);
INSERT INTO q SELECT k, n FROM p WHERE n % 2 = 0;
CREATE MATERIALIZED VIEW mv AS SELECT k, id FROM t WHERE k < 1000;
CREATE INDEX ON mv USING harmonia (k);
CREATE TEMP TABLE tmp AS SELECT k, id FROM t WHERE k < 1000;
CREATE INDEX ON tmp USING harmonia (k);
:vacuum ANALYZE wide, p, q, mv, tmp;
SELECT * FROM compare_lookups(
	'SELECT wide.*, t.id FROM wide JOIN t USING (k)', 'SELECT o.n, wide.* FROM o JOIN wide USING (k)', 'SELECT x, added, o.n FROM o LEFT JOIN wide USING (k)', 'SELECT length(w), t.k FROM wide LEFT JOIN t USING (k)',
	'SELECT md5(s.big), t.id FROM (SELECT k, repeat(x, 300) AS big FROM wide OFFSET 0) s JOIN t USING (k)',
	'SELECT p.n, t.id FROM p JOIN t USING (k)', 'SELECT p.n, t.id, p.tableoid FROM p LEFT JOIN t USING (k) WHERE p.k > 600', 'SELECT o.n, p.n FROM o JOIN p USING (k)',
	'SELECT o.n, id FROM o JOIN mv USING (k)', 'SELECT o.n, id FROM o JOIN tmp USING (k)', 'SELECT tmp.k FROM tmp WHERE EXISTS (SELECT FROM t WHERE t.k = tmp.k + 1)');
SET enable_partitionwise_join = on;
-- Versions differ in when they do.
SELECT n, result, split_part(nodes, ',', 1) AS node, query FROM compare_lookups('SELECT q.n, p.n FROM q JOIN p USING (k)', 'SELECT q.n, p.k FROM q LEFT JOIN p USING (k)', 'SELECT q.n FROM q WHERE EXISTS (SELECT FROM p WHERE p.k = q.k)',
	'SELECT q.n FROM q WHERE NOT EXISTS (SELECT FROM p WHERE p.k = q.k AND p.n <> q.n)');
RESET enable_partitionwise_join;

--
-- Changes
--
CREATE TABLE target (k int, id int);
CREATE INDEX ON target USING harmonia (k);
INSERT INTO target SELECT i, i FROM generate_series(1, 100) i;
ANALYZE target;
BEGIN;
CALL use_lookups(true);
SELECT * FROM plan('INSERT INTO target SELECT o.n, t.id FROM o JOIN t USING (k) WHERE o.n < 50');
INSERT INTO target SELECT o.n, t.id FROM o JOIN t USING (k) WHERE o.n < 50;
-- An insertion that reads its own table: new rows are not found
INSERT INTO target SELECT target.k, o.n FROM o JOIN target ON target.k = o.n WHERE o.n <= 100;
SELECT count(*), sum(id), max(k) FROM target;
INSERT INTO target SELECT target.k, o.n FROM o JOIN target ON target.k = o.n WHERE o.n <= 100;
SELECT count(*), sum(id), max(k) FROM target;
-- Sub-queries of UPDATE can have lookup joins
SELECT * FROM plan('UPDATE target SET id = (SELECT count(*) FROM o JOIN t USING (k) WHERE o.n = target.k) WHERE k < 5');
UPDATE target SET id = (SELECT count(*) FROM o JOIN t USING (k) WHERE o.n = target.k) WHERE k < 5;
SELECT k, id, count(*) FROM target WHERE k < 5 GROUP BY k, id ORDER BY k;
WITH gone AS (DELETE FROM target WHERE k < 5 RETURNING k, id) SELECT gone.k, count(t.id) FROM gone LEFT JOIN t USING (k) GROUP BY 1 ORDER BY 1;
CREATE TABLE made AS SELECT o.n, t.id FROM o JOIN t USING (k);
SELECT count(*) FROM made;
-- Rows of the same transaction, and savepoints that are rolled back
SAVEPOINT a;
INSERT INTO t (k, v) SELECT i, 'own' FROM generate_series(1500, 1699) i;
UPDATE t SET v = 'hot' WHERE k = 1600;
UPDATE t SET k = k + 1 WHERE k = 1650;
SELECT count(*), sum(t.k) FROM o JOIN t USING (k) WHERE t.v IN ('own', 'hot');
SAVEPOINT b;
DELETE FROM t WHERE v = 'own';
SELECT count(*), sum(t.k) FROM o JOIN t USING (k) WHERE t.v IN ('own', 'hot');
ROLLBACK TO b;
SELECT count(*), sum(t.k) FROM o JOIN t USING (k) WHERE t.v IN ('own', 'hot');
CALL use_no_lookups('seq');
SELECT count(*), sum(t.k) FROM o JOIN t USING (k) WHERE t.v IN ('own', 'hot');
CALL use_lookups(false);
ROLLBACK TO a;
SELECT count(*), sum(t.k) FROM o JOIN t USING (k) WHERE t.k > 1450;
-- A cursor does not see changes that are made while it is open
DECLARE open CURSOR FOR SELECT t.id FROM o JOIN t USING (k);
SELECT sum AS first FROM rest('open', 500) \gset
DELETE FROM t;
INSERT INTO t (k) SELECT generate_series(0, 1499);
SELECT n, sum + :first AS total FROM rest('open');
ROLLBACK;
BEGIN;
CALL use_lookups(false);
SELECT count(*) - 500 AS n, sum(t.id) FROM o JOIN t USING (k);
DECLARE c SCROLL CURSOR FOR SELECT 1 FROM o JOIN t USING (k);
MOVE LAST c;
FETCH PRIOR c;
MOVE FIRST c;
SELECT * FROM rest('c');
DECLARE held CURSOR WITH HOLD FOR SELECT t.id FROM o JOIN t USING (k) WHERE o.n < 100;
FETCH 0 FROM held;
COMMIT;
SELECT * FROM rest('held');
CLOSE held;

--
-- Rights, row security and security barriers
--
-- A cheap function, so that the planner would call it first.  It reports values that it
-- must not see: odd numbers and "a".
CREATE FUNCTION leak(v text) RETURNS boolean COST 0.0001 LANGUAGE plpgsql AS
	'BEGIN IF v ~ ''[13579]$|a'' THEN RAISE NOTICE ''leaked %'', v; END IF; RETURN true; END';
CREATE TABLE secret (k int, owner text, v text);
INSERT INTO secret SELECT i / 2, CASE i % 2 WHEN 0 THEN 'regress_lookup_user' ELSE 'other' END, i FROM generate_series(2, 1000) i;
CREATE INDEX ON secret USING harmonia (k);
CREATE TABLE asked (k int, w text);
INSERT INTO asked VALUES (1, 'a'), (2, 'b'), (2, 'c'), (NULL, 'd'), (2000, 'e');
ANALYZE secret, asked;
CREATE VIEW barrier WITH (security_barrier) AS SELECT * FROM secret WHERE owner = 'regress_lookup_user';
CREATE VIEW asked_barrier WITH (security_barrier) AS SELECT * FROM asked WHERE w <> 'a';
CREATE ROLE regress_lookup_user;
GRANT USAGE ON SCHEMA lookup_join TO regress_lookup_user;
GRANT ALL ON ALL TABLES IN SCHEMA lookup_join TO regress_lookup_user;
ALTER TABLE secret ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON secret USING (owner = current_user);
ALTER TABLE asked ENABLE ROW LEVEL SECURITY;
CREATE POLICY few ON asked USING (w <> 'a');
BEGIN;
CALL use_lookups(false);
SET LOCAL client_min_messages = notice;
SELECT lookup_nodes('SELECT * FROM asked JOIN barrier b USING (k) WHERE leak(b.v)');
SELECT * FROM asked JOIN barrier b USING (k) WHERE leak(b.v);
SELECT * FROM plan('SELECT * FROM asked a JOIN secret b USING (k) WHERE leak(a.w) AND b.v > ''1''');
SELECT * FROM asked_barrier a JOIN secret b USING (k) WHERE leak(b.v) AND a.k > 1;
SELECT * FROM asked_barrier a JOIN barrier b USING (k) WHERE leak(b.v) AND a.k > 1;
SET LOCAL ROLE regress_lookup_user;
SELECT * FROM plan('SELECT * FROM asked JOIN secret s USING (k) WHERE leak(s.v)');
SELECT * FROM asked JOIN secret s USING (k) WHERE leak(s.v);
SELECT * FROM asked LEFT JOIN secret s ON s.k = asked.k AND leak(s.v);
SELECT * FROM asked WHERE EXISTS (SELECT FROM secret s WHERE s.k = asked.k AND leak(asked.w || s.v));
SELECT * FROM asked WHERE NOT EXISTS (SELECT FROM secret s WHERE s.k = asked.k AND leak(asked.w || s.v));
ROLLBACK;
-- Conditions have the same order as in PostgreSQL's own nodes: security barriers first,
-- then by cost; cheap leakproof conditions come before all.
CREATE FUNCTION slow(v text) RETURNS boolean COST 1000 IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN v > ''2''; END';
CREATE FUNCTION sealed(v text) RETURNS boolean COST 500 IMMUTABLE LEAKPROOF LANGUAGE plpgsql AS 'BEGIN RETURN v > ''2''; END';
CREATE TABLE guarded AS SELECT * FROM secret;
CREATE INDEX ON guarded USING harmonia (k);
ANALYZE guarded;
ALTER TABLE guarded ENABLE ROW LEVEL SECURITY;
CREATE POLICY a ON guarded USING (slow(owner) AND v <> '3');
CREATE POLICY b ON guarded AS RESTRICTIVE USING (v > '1');
GRANT SELECT ON guarded TO regress_lookup_user;
CREATE FUNCTION conditions(query text, OUT inner_filter text, OUT join_filter text, OUT same boolean) LANGUAGE plpgsql
AS $$
DECLARE
	plan jsonb;
BEGIN
	CALL use_no_lookups('seq');
	SET LOCAL enable_nestloop = off;
	SET LOCAL enable_mergejoin = off;
	EXECUTE 'EXPLAIN (FORMAT JSON, COSTS OFF) ' || query INTO plan;
	inner_filter := jsonb_path_query_first(plan, 'strict $.** ? (@."Alias" == "s" && exists (@."Filter"))."Filter"') #>> '{}';
	join_filter := jsonb_path_query_first(plan, 'strict $.**."Join Filter"') #>> '{}';
	CALL use_lookups(false);
	EXECUTE 'EXPLAIN (FORMAT JSON, COSTS OFF) ' || query INTO plan;
	same := replace(jsonb_path_query_first(plan, 'strict $.**."Inner Filter"') #>> '{}', 's.', '') IS NOT DISTINCT FROM inner_filter AND
		jsonb_path_query_first(plan, 'strict $.**."Join Filter"') #>> '{}' IS NOT DISTINCT FROM join_filter;
END $$;
BEGIN;
SET LOCAL ROLE regress_lookup_user;
SELECT c.* FROM unnest(ARRAY[
	'SELECT FROM asked JOIN t s USING (k) WHERE slow(s.v) AND s.v <> ''7'' AND s.id > 5', 'SELECT FROM asked JOIN t s ON s.k = asked.k AND slow(s.v || w) AND s.v <> w',
	'SELECT FROM asked JOIN guarded s USING (k) WHERE leak(s.v) AND sealed(s.v)', 'SELECT FROM asked JOIN guarded s USING (k) WHERE slow(s.v) AND s.v > ''7'' AND s.v <> ''8'' AND leak(s.v)',
	'SELECT FROM asked LEFT JOIN guarded s ON s.k = asked.k AND leak(s.v) AND slow(s.v || w) AND s.v <> w AND leak(w || s.v) AND sealed(s.v || w)',
	'SELECT FROM asked WHERE NOT EXISTS (SELECT FROM guarded s WHERE s.k = asked.k AND slow(s.v || w) AND s.v <> w AND sealed(s.v))']) query, conditions(query) c;
ROLLBACK;

--
-- Many outer rows of a key that has many rows: few of these are asked for
--
CREATE TABLE skewed (k int, id int, v int) WITH (autovacuum_enabled = off);
INSERT INTO skewed SELECT CASE WHEN i % 2 = 0 THEN 1 ELSE i END, i, i % 10 FROM generate_series(1, 8000) i;
CREATE INDEX skewed_k ON skewed USING harmonia (k);
CREATE TABLE same AS SELECT CASE WHEN i % 500 = 0 THEN NULL WHEN i % 100 = 0 THEN 2 ELSE 1 END AS k, i AS n FROM generate_series(1, 1200) i;
:vacuum ANALYZE skewed, same;
-- The number of hits of a query's join on the CPU, in tens of thousands
CREATE FUNCTION hits(query text) RETURNS numeric LANGUAGE sql
AS $$
	SELECT set_config(name, 'off', true) FROM pg_settings WHERE name = 'harmonia.enable_device';
	SELECT ceil(substring(string_agg(line, ' ') FROM 'Hits: (\d+)')::numeric / 10000) FROM explained(query) line;
$$;
BEGIN;
CALL use_lookups(true);
SELECT query, lookup_nodes(query), hits(query) FROM unnest(ARRAY['SELECT n FROM same WHERE EXISTS (SELECT FROM skewed t WHERE t.k = same.k)',
	'SELECT n FROM same WHERE NOT EXISTS (SELECT FROM skewed t WHERE t.k = same.k)', 'SELECT n FROM same WHERE EXISTS (SELECT FROM skewed t WHERE t.k = same.k AND t.id <> n)',
	'SELECT n FROM same WHERE NOT EXISTS (SELECT FROM skewed t WHERE t.k = same.k AND t.id <> n)',
	'SELECT n FROM same WHERE EXISTS (SELECT FROM skewed t WHERE t.k BETWEEN same.k AND same.k + n % 3)']) query;
ROLLBACK;
SELECT * FROM compare_lookups(
	'SELECT n FROM same WHERE EXISTS (SELECT FROM skewed t WHERE t.k = same.k)',
	'SELECT count(*) FROM same WHERE NOT EXISTS (SELECT FROM skewed t WHERE t.k = same.k)',
	'SELECT n FROM same WHERE k IN (SELECT k FROM skewed WHERE v > 3)',
	'SELECT n FROM same WHERE n % 20 = 0 AND EXISTS (SELECT FROM skewed t WHERE t.k = same.k AND t.id = n * 6)',
	'SELECT n FROM same WHERE n % 20 = 0 AND NOT EXISTS (SELECT FROM skewed t WHERE t.k = same.k AND t.id = n * 6)',
	'SELECT n FROM same WHERE EXISTS (SELECT FROM skewed t WHERE t.k BETWEEN same.k AND same.k + n % 3 AND t.v = n % 10)',
	'SELECT n FROM same WHERE NOT EXISTS (SELECT FROM skewed t WHERE t.k BETWEEN same.k - n % 50 AND same.k - n % 3 AND t.v = n % 10)');
-- The first rows of the key are dead.
BEGIN;
DELETE FROM skewed WHERE id < 2000;
UPDATE skewed SET v = 3 WHERE id % 4 = 0;
SELECT * FROM compare_lookups('SELECT n FROM same WHERE EXISTS (SELECT FROM skewed t WHERE t.k = same.k)',
	'SELECT n FROM same WHERE EXISTS (SELECT FROM skewed t WHERE t.k = same.k AND t.v = n % 10)',
	'SELECT n FROM same WHERE NOT EXISTS (SELECT FROM skewed t WHERE t.k = same.k AND t.v = n % 10)');
DELETE FROM skewed WHERE k = 1;
SELECT * FROM compare_lookups('SELECT n FROM same WHERE n % 20 = 0 AND EXISTS (SELECT FROM skewed t WHERE t.k = same.k)',
	'SELECT n FROM same WHERE n % 20 = 0 AND NOT EXISTS (SELECT FROM skewed t WHERE t.k = same.k)');
ROLLBACK;

--
-- A query ends before its last row
--
CREATE FUNCTION fail_at(i int, at int) RETURNS int LANGUAGE plpgsql AS
	'BEGIN IF i = at THEN RAISE ''failed''; END IF; RETURN i; END';
BEGIN;
CALL use_lookups(true);
SAVEPOINT a;
SELECT count(fail_at(t.k, 1000)) FROM o JOIN t USING (k);
ROLLBACK TO a;
SELECT count(*) FROM o JOIN t USING (k) WHERE fail_at(o.n, 1000) = t.id;
ROLLBACK TO a;
SET LOCAL statement_timeout = '200ms';
SELECT pg_sleep(100), t.k FROM o JOIN t USING (k);
ROLLBACK TO a;
SET LOCAL statement_timeout = 0;
SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'page';
SELECT 1 FROM o JOIN t USING (k) LIMIT 1;
COMMIT;
:vacuum t;
SELECT verify('t_k');

--
-- Parallel plans
--
ALTER TABLE o SET (parallel_workers = 2);
ALTER TABLE p1 SET (parallel_workers = 2);
SET max_parallel_workers_per_gather = 2;
SET parallel_setup_cost = 0;
SET lookup.seqscan = on;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
BEGIN;
CALL use_lookups(true);
SELECT * FROM plan('SELECT count(*) FROM o JOIN t USING (k)');
SELECT * FROM plan('SELECT n FROM o WHERE NOT EXISTS (SELECT FROM t WHERE t.k = o.k)');
ROLLBACK;
SELECT * FROM compare_lookups(
	'SELECT o.*, t.* FROM o JOIN t USING (k)', 'SELECT count(*) FROM o JOIN t USING (k)', 'SELECT n, t.id FROM o LEFT JOIN t ON t.k = o.k AND t.v > ''v3''', 'SELECT n FROM o WHERE EXISTS (SELECT FROM t WHERE t.k = o.k)',
	'SELECT n FROM o WHERE NOT EXISTS (SELECT FROM t WHERE t.k = o.k)', 'SELECT id FROM t WHERE k IN (SELECT k FROM o)', 'SELECT o.n, t.k FROM o JOIN t ON t.k BETWEEN o.k AND o.k + 3 WHERE o.n % 5 = 0',
	'SELECT p.n, t.id FROM p JOIN t USING (k)', 'SELECT n, t.id, o.k FROM o JOIN t USING (k) ORDER BY n, t.id LIMIT 30');
SET :force_parallel = on;
SET parallel_leader_participation = off;
SELECT * FROM compare_lookups(
	'SELECT o.*, t.* FROM o JOIN t USING (k)', 'SELECT n, t.id FROM o LEFT JOIN t ON t.k = o.k AND t.v > ''v3''', 'SELECT n, t.v FROM bounds JOIN t ON t.k BETWEEN low AND high',
	'SELECT n FROM o WHERE NOT EXISTS (SELECT FROM t WHERE t.k = o.k)', 'SELECT n, (SELECT count(*) FROM once JOIN t USING (k) WHERE once.v < bounds.n) FROM bounds WHERE n < 12');
RESET :force_parallel;

DROP OWNED BY regress_lookup_user;
DROP ROLE regress_lookup_user;
SET client_min_messages = warning;
DROP SCHEMA lookup_join CASCADE;
