--
-- Lookup aggregates: aggregates of what lookup joins and lookup scans find
--
SET client_min_messages = warning;
SET timezone = 'UTC';
SET jit = off;
SET max_parallel_workers_per_gather = 0;
-- What joins and disabled scans cost would hide what aggregates cost.
SET cpu_operator_cost = 0.1;
SET lookup.seqscan = on;
CREATE SCHEMA lookup_aggregate;
SET search_path = lookup_aggregate, public;
\getenv srcdir PG_ABS_SRCDIR
\set compare :srcdir '/sql/include/compare.sql'
\i :compare
\set lookup :srcdir '/sql/include/lookup.sql'
\i :lookup

-- Outer rows with all types that have supported aggregates, and NULLs
CREATE TYPE color AS ENUM ('red', 'green', 'blue');
CREATE TABLE o (n int, k int, i2 int2, i4 int4, i8 int8, f4 float4, f8 float8, d date, ts timestamp, tz timestamptz,
	tm time, q oid, m money, yes bool, c "char", e color, w text, num numeric) WITH (autovacuum_enabled = off);
INSERT INTO o SELECT i, CASE WHEN i % 17 <> 0 THEN shuffle(i) % 1700 END, x % 30000, x, x::int8 * 4000000000, x / 7.0, x / 3.0,
		date '2000-01-01' + x % 5000, timestamp '2000-01-01' + x * interval '1 second', timestamptz '2000-01-01' + x * interval '1 minute',
		time '00:00' + x * interval '1 second', x % 5000, (x / 100.0)::numeric::money, x % 3 = 0, (65 + i % 5)::"char",
		(enum_range(NULL::color))[1 + i % 3], 'w' || i % 9, x / 8.0
	FROM (SELECT i, CASE WHEN i % 13 <> 0 THEN shuffle(i * 3) - 1000000000 END AS x FROM generate_series(1, 1500) i) s;
CREATE TABLE t (k int, id int GENERATED ALWAYS AS IDENTITY, v int, big int8, f8 float8, txt text) WITH (autovacuum_enabled = off);
INSERT INTO t (k, v, big, f8, txt) SELECT shuffle(i) % 1500, CASE WHEN i % 11 <> 0 THEN shuffle(i * 7) END, 9e18::int8 - i, i / 3.0,
	CASE WHEN i % 5 > 0 THEN 'v' || i % 9 END FROM generate_series(1, 3000) i;
INSERT INTO t (k, v) SELECT NULL, i FROM generate_series(1, 50) i;
CREATE INDEX t_k ON t USING harmonia (k);
:vacuum ANALYZE o, t;
-- Some pages are not all-visible.
UPDATE t SET txt = 'new' WHERE id % 500 = 3;
DELETE FROM t WHERE id % 300 = 5;

--
-- Plans
--
BEGIN;
CALL use_lookups(true);
SELECT * FROM plan('SELECT count(*), sum(t.v), avg(i8) + 1 FROM o JOIN t USING (k)', 'VERBOSE');
SELECT * FROM plan('SELECT e, yes AND n > 5, max(d) FILTER (WHERE w > ''w2''), count(txt) FROM o JOIN t USING (k) GROUP BY 1, 2 HAVING count(*) > 5 AND sum(v) > 7', 'VERBOSE');
SELECT * FROM plan('SELECT sum(n) FROM o WHERE EXISTS (SELECT FROM t WHERE t.k = o.k)', 'FORMAT JSON');
SELECT line FROM explained('SELECT e, count(*) FROM o JOIN t ON t.k = n WHERE n < 1000 GROUP BY e HAVING count(*) > 664') line WHERE line ~ 'Aggregate|Join\)|Filter|Group';
-- Above scans. To count alone is less to do.
SET LOCAL enable_seqscan = off;
SET LOCAL enable_sort = off;
SELECT * FROM plan('SELECT k, bool_and(v > 5) FROM t WHERE k IN (1, 2, 3) GROUP BY k');
SELECT lookup_nodes('SELECT count(*) FROM t WHERE k IN (1, 2, 3)');
-- Left to Agg
SELECT lookup_nodes(query), query FROM unnest(ARRAY[
	'SELECT count(DISTINCT v) FROM o JOIN t USING (k)', 'SELECT array_agg(v ORDER BY v) FROM o JOIN t USING (k)',
	'SELECT sum(f4) FROM o JOIN t USING (k)', 'SELECT avg(o.f8) FROM o JOIN t USING (k)', 'SELECT sum(num) FROM o JOIN t USING (k)',
	'SELECT max(w) FROM o JOIN t USING (k)', 'SELECT sum(i4), string_agg(w, '','') FROM o JOIN t USING (k)',
	'SELECT sum(v + (random() * 0)::int) FROM o JOIN t USING (k)', 'SELECT count(*) FILTER (WHERE random() < 2) FROM o JOIN t USING (k)',
	'SELECT w, count(*) FROM o JOIN t USING (k) GROUP BY w', 'SELECT o.f8, count(*) FROM o JOIN t USING (k) GROUP BY 1',
	'SELECT e, count(*) FROM o JOIN t USING (k) GROUP BY GROUPING SETS ((e), ())', 'SELECT e, grouping(e), count(*) FROM o JOIN t USING (k) GROUP BY e',
	'SELECT sum((SELECT max(b.n) FROM o b WHERE b.n < t.v)) FROM o JOIN t USING (k)', 'SELECT count(*) FILTER (WHERE v IN (SELECT n FROM o)) FROM o JOIN t USING (k)', 'SELECT e FROM o JOIN t USING (k) GROUP BY e',
	'SELECT generate_series(1, count(*)) FROM o JOIN t USING (k)', 'SELECT count(*) FROM o']) query;
SET LOCAL harmonia.enable_lookup_aggregate = off;
SELECT lookup_nodes('SELECT sum(v) FROM o JOIN t USING (k)');
ROLLBACK;
-- Groups that do not fit into memory are set aside, and charged for that.
BEGIN;
CALL use_lookups(true);
SELECT lookup_nodes('SELECT t.id, count(*) FROM o JOIN t USING (k) GROUP BY t.id');
SET LOCAL work_mem = '64kB';
SET LOCAL hash_mem_multiplier = 1;
SELECT lookup_nodes('SELECT t.id, count(*) FROM o JOIN t USING (k) GROUP BY t.id');
ROLLBACK;

--
-- Results
--
\set all 'count(*), count(n), count(v), count(w), count(num), sum(i2), sum(i4), sum(i8), sum(v), sum(big), avg(i2), avg(i4), avg(i8), avg(v), avg(big), min(i2), max(i2), min(i4), max(i4), min(i8), max(i8), min(f4), max(f4), min(o.f8), max(o.f8), min(d), max(d), min(ts), max(ts), min(tz), max(tz), min(tm), max(tm), min(q), max(q), min(m)::numeric, max(m)::numeric, bool_and(yes), bool_or(yes), every(yes), bool_and(v > 0), bool_or(v < 0), sum(v % 1000 + n)'
\set filtered 'count(*) FILTER (WHERE v > 0), count(v) FILTER (WHERE yes), sum(i4) FILTER (WHERE w > ''w3''), avg(i8) FILTER (WHERE txt LIKE ''v%''), min(o.f8) FILTER (WHERE NULL), max(d) FILTER (WHERE n + 0 < 0), sum(100 / nullif(v % 3, 0)) FILTER (WHERE v % 3 <> 0), sum(100 / (v % 3)) FILTER (WHERE v % 3 <> 0), bool_or(yes) FILTER (WHERE i2 > 5)'
SELECT n, result, nodes FROM compare_lookups(
	'SELECT ' || :'all' || ' FROM o JOIN t USING (k)', 'SELECT ' || :'all' || ' FROM o LEFT JOIN t USING (k)',
	'SELECT ' || :'all' || ' FROM o JOIN t USING (k) WHERE n + 0 < 0', 'SELECT ' || :'all' || ' FROM o JOIN t ON t.k = o.k AND v IS NULL WHERE i4 IS NULL',
	'SELECT ' || :'filtered' || ' FROM o JOIN t USING (k)', 'SELECT ' || :'filtered' || ' FROM o JOIN t USING (k) WHERE n + 0 < 0',
	'SELECT e, ' || :'all' || ' FROM o LEFT JOIN t USING (k) GROUP BY e', 'SELECT e, yes, c, ' || :'filtered' || ' FROM o JOIN t USING (k) GROUP BY e, yes, c',
	'SELECT n, ' || :'all' || ' FROM o JOIN t USING (k) GROUP BY n', 'SELECT o.k, ' || :'all' || ' FROM o JOIN t USING (k) WHERE n + 0 < 0 GROUP BY o.k');
SELECT * FROM compare_lookups(
	'SELECT count(*), sum(n) FROM o WHERE EXISTS (SELECT FROM t WHERE t.k = o.k)', 'SELECT yes, count(*), sum(n) FROM o WHERE NOT EXISTS (SELECT FROM t WHERE t.k = o.k) GROUP BY yes',
	'SELECT sum(t.k), min(t.k), avg(t.k) FROM o JOIN t USING (k)', 'SELECT t.k, count(*) FROM o JOIN t USING (k) GROUP BY t.k',
	'SELECT i2, i4, d, ts, tz, tm, q, m::numeric, count(*) FROM o JOIN t USING (k) GROUP BY i2, i4, d, ts, tz, tm, q, m', 'SELECT i8 % 5, count(*) FROM o JOIN t USING (k) GROUP BY 1',
	'SELECT v / 1000000, sum(i4) FROM o LEFT JOIN t USING (k) GROUP BY 1', 'SELECT sum(n) + 1, -max(v) FROM o JOIN t USING (k)', 'SELECT count(*) FROM o JOIN t USING (k) HAVING count(*) < 0',
	'SELECT e, sum(v) / count(v) FROM o JOIN t USING (k) GROUP BY e HAVING sum(v) > 0 ORDER BY e', 'SELECT e FROM o JOIN t USING (k) GROUP BY e HAVING max(n) > 1490',
	'SELECT e, count(*), rank() OVER (ORDER BY sum(v)) FROM o JOIN t USING (k) GROUP BY e', 'SELECT DISTINCT count(*) FROM o JOIN t USING (k) GROUP BY n',
	'SELECT e, count(*) FROM o JOIN t USING (k) WHERE yes AND e = ''red'' GROUP BY e, yes', 'SELECT e, count(*) FROM o JOIN t USING (k) WHERE e = ''red'' AND n + 0 < 0 GROUP BY e', 'SELECT n + 1, n + 2, count(*) FROM o JOIN t USING (k) GROUP BY n + 1, n',
	'SELECT s.e, x.n FROM (SELECT e, count(*) AS n FROM o JOIN t USING (k) GROUP BY e) s JOIN o x ON x.n = s.n',
	'SELECT count(o), count(ROW(o.n, v)), sum(length(txt)) FROM o JOIN t USING (k)',
	'SELECT CASE WHEN false THEN count(*) END FROM o JOIN t USING (k)', 'SELECT e, CASE WHEN false THEN count(*) END FROM o JOIN t USING (k) GROUP BY e',
	'SELECT x.n, s.* FROM o x, LATERAL (SELECT sum(t.id), count(*) FILTER (WHERE t.v > x.i4) FROM o JOIN t USING (k) WHERE o.e = x.e AND t.id > x.n) s WHERE x.n < 20',
	'SELECT x.n, s.* FROM o x, LATERAL (SELECT o.e, sum(t.id + x.n) FROM o JOIN t USING (k) WHERE o.yes = x.yes GROUP BY o.e) s WHERE x.n < 20');
SET enable_sort = off;
SET lookup.seqscan = off;
SELECT * FROM compare_lookups(
	'SELECT count(k), sum(k), max(k) FROM t WHERE k = ANY (ARRAY(SELECT k FROM o)) AND v > 5', 'SELECT k, count(*), min(id) FROM t WHERE k < 100 OR k > 900 GROUP BY k',
	'SELECT count(*) FILTER (WHERE t IS NOT NULL) FROM t WHERE k IN (1, 2, 3)', 'SELECT n, (SELECT count(*) + sum(v) FROM t WHERE t.k IN (o.k, o.n)) FROM o WHERE n < 40',
	'SELECT max(k), count(*) FILTER (WHERE id > 5) FROM t WHERE k IN (1, 2) OR k BETWEEN 20 AND 40', 'SELECT sum(id) FROM t WHERE k IN (1, 2, 3) HAVING bool_or(v > 5)',
	-- k is not NULL in rows that a scan finds, but it may be in a join's
	'SELECT count(k), count(v), count(k) FILTER (WHERE v > 0) FROM t WHERE k < 100 OR k > 900', 'SELECT k % 5, count(k), count(k) FILTER (WHERE v > 0) FROM t WHERE k < 100 OR k > 900 GROUP BY 1',
	'SELECT count(k) FROM t WHERE k IN (1, 2, 3) AND v > 5 HAVING count(k) > 0');
SET lookup.seqscan = on;
RESET enable_sort;
-- Columns that depend on those of GROUP BY, also by reference
CREATE TABLE people (id int PRIMARY KEY, name text, born date) WITH (autovacuum_enabled = off);
INSERT INTO people SELECT i, repeat('name ' || i, 20), date '2000-01-01' + i FROM generate_series(1, 1400) i;
:vacuum ANALYZE people;
SELECT * FROM compare_lookups('SELECT p.id, name, born, count(*), sum(v) FROM people p JOIN t ON t.k = p.id GROUP BY p.id',
	'SELECT p.id, upper(name), count(*) FROM people p LEFT JOIN t ON t.k = p.id GROUP BY p.id HAVING name > ''name 20''');
BEGIN;
CALL use_lookups(false);
SELECT * FROM plan('SELECT p.id, upper(name), count(*) FROM people p LEFT JOIN t ON t.k = p.id GROUP BY p.id HAVING count(*) > 1');
ROLLBACK;

-- Sums beyond 64 bits, and the signs of sums
CREATE TABLE large (k int, x int8) WITH (autovacuum_enabled = off);
INSERT INTO large SELECT i, CASE i % 4 WHEN 0 THEN 9223372036854775807 WHEN 1 THEN -9223372036854775808 WHEN 2 THEN 9223372036854775806 END FROM generate_series(1, 400) i;
ANALYZE large;
BEGIN;
CALL use_lookups(true);
SELECT sum(x), avg(x), sum(x) FILTER (WHERE x < 0), avg(x) FILTER (WHERE x < 0), sum(x) FILTER (WHERE x IS NULL), avg(x) FILTER (WHERE x = 0) FROM large JOIN t USING (k);
SELECT sum(1000000000000000000), sum(-1000000000000000000), sum(0::int8) FROM large JOIN t USING (k);
ROLLBACK;
SELECT n, result, nodes FROM compare_lookups('SELECT sum(x), avg(x), sum(x) FILTER (WHERE x < 0), avg(x) FILTER (WHERE x < 0), sum(x) FILTER (WHERE x IS NULL) FROM large JOIN t USING (k)',
	'SELECT large.k % 7, sum(x), avg(x), sum(-(x / 10)) FROM large JOIN t USING (k) GROUP BY 1');
-- Not a number is the greatest; the last of two zeros is kept
CREATE TABLE floats (k int, id int, x float8, y float4) WITH (autovacuum_enabled = off);
INSERT INTO floats VALUES (1, 1, 'NaN', 'NaN'), (2, 2, 'Infinity', '-Infinity'), (3, 3, '-0', '0'), (3, 4, '0', '-0'), (4, 5, NULL, NULL),
	(5, 6, 'NaN', 1), (5, 7, 1, 'NaN');
CREATE INDEX floats_k ON floats USING harmonia (k);
ANALYZE floats;
SET enable_sort = off;
SET lookup.seqscan = off;
SELECT * FROM compare_lookups('SELECT min(x), max(x), min(y), max(y) FROM floats WHERE k IN (1, 2, 3, 4, 5)', 'SELECT k, min(x), max(x), min(y), max(y) FROM floats WHERE k IN (1, 2, 3, 4, 5) GROUP BY k');
BEGIN;
CALL use_lookups(false);
SELECT k, min(x), max(x), min(y), max(y) FROM floats WHERE k IN (1, 2, 3, 4, 5) GROUP BY k;
ROLLBACK;
SET lookup.seqscan = on;
RESET enable_sort;
-- Errors of expressions
BEGIN;
CALL use_lookups(true);
SELECT lookup_nodes('SELECT sum(v + 2147483647) FROM o JOIN t USING (k)');
SELECT sum(v + 2147483647) FROM o JOIN t USING (k);
ROLLBACK;
BEGIN;
CALL use_lookups(true);
SELECT e, count(*) FILTER (WHERE 1 / (n - 700) = 0) FROM o JOIN t USING (k) GROUP BY e;
ROLLBACK;

--
-- More groups than fit into memory are set aside. The planner expects few.
--
CREATE TABLE many (k int, g int, w text, x int8) WITH (autovacuum_enabled = off);
INSERT INTO many SELECT i % 1500, CASE WHEN i % 1000 > 0 THEN shuffle(i) % 9000 END, CASE WHEN i % 4 > 0 THEN repeat('w' || i % 7, i % 50) END, i FROM generate_series(1, 30000) i;
ALTER TABLE many ALTER g SET (n_distinct = 5);
:vacuum ANALYZE many;
\set groups 'SELECT g, count(*), sum(x), count(w), count(txt), max(x) FILTER (WHERE w > ''w3''), sum(v) FROM many JOIN t USING (k) GROUP BY g'
-- compare_lookups() has little work_mem at the end.
SET hash_mem_multiplier = 1;
SELECT n, result, nodes FROM compare_lookups(:'groups', :'groups' || ' HAVING sum(x) % 3 = 1');
BEGIN;
CALL use_lookups(true);
SET LOCAL work_mem = '64kB';
SELECT count(*) FROM explained(:'groups') line WHERE line ~ 'Passes: \d{2,3}$' OR line ~ 'Rows Set Aside: \d{5}$';
-- Rescans, and not all rows wanted
SELECT x.n, s.count, s.sum FROM (VALUES (1), (2), (3)) x (n), LATERAL (SELECT count(*), sum(count) FROM (SELECT g, count(*) FROM many JOIN t USING (k) WHERE x % 3 < x.n GROUP BY g OFFSET 0) q) s;
SELECT x.n, s.* FROM (VALUES (1), (2), (3)) x (n), LATERAL (SELECT count(*), min(count) FROM (SELECT g, count(*) FROM many JOIN t USING (k) WHERE x % 3 < x.n GROUP BY g LIMIT CASE x.n WHEN 1 THEN 2000 ELSE 20000 END) q) s;
ROLLBACK;
RESET hash_mem_multiplier;

--
-- Parallel workers
--
SET max_parallel_workers_per_gather = 2;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET parallel_leader_participation = off;
BEGIN;
CALL use_lookups(true);
SELECT * FROM plan('SELECT count(*), sum(v), avg(i8) FROM o JOIN t USING (k)', 'VERBOSE');
SELECT * FROM plan('SELECT e, count(*), max(v) FROM o JOIN t USING (k) GROUP BY e HAVING avg(v) > 5');
SELECT * FROM plan('SELECT e, count(*) FROM o JOIN t USING (k) WHERE e = ''red'' GROUP BY e') WHERE "QUERY PLAN" ~ 'Gather|Custom';
ROLLBACK;
SELECT n, result, nodes FROM compare_lookups(
	'SELECT ' || :'all' || ' FROM o JOIN t USING (k)', 'SELECT ' || :'all' || ' FROM o JOIN t USING (k) WHERE n + 0 < 0', 'SELECT ' || :'filtered' || ' FROM o JOIN t USING (k)',
	'SELECT e, ' || :'all' || ' FROM o LEFT JOIN t USING (k) GROUP BY e', 'SELECT e, ' || :'all' || ' FROM o JOIN t USING (k) WHERE n + 0 < 0 GROUP BY e',
	'SELECT CASE WHEN false THEN count(*) END FROM o JOIN t USING (k)', 'SELECT e, count(*), sum(v) FROM o JOIN t USING (k) WHERE e = ''red'' GROUP BY e', 'SELECT e, count(*) FROM o JOIN t USING (k) WHERE e = ''red'' AND n + 0 < 0 GROUP BY e',
	'SELECT sum(x), avg(x), sum(x) FILTER (WHERE x < 0), avg(x) FILTER (WHERE x < 0), sum(x) FILTER (WHERE x IS NULL), avg(x) FILTER (WHERE k = 4) FROM large JOIN t USING (k)',
	'SELECT large.k < 200, sum(x), avg(x), sum(x / 1000000000000000), sum(x % 20000), sum(x * 0) FROM large JOIN t USING (k) GROUP BY 1',
	:'groups');
SET lookup.seqscan = off;
SELECT * FROM compare_lookups('SELECT count(txt), sum(id), avg(big) FROM t WHERE k = ANY (ARRAY(SELECT generate_series(1, 1000)))',
	'SELECT k % 3, count(*), avg(big) FROM t WHERE k < 500 OR k > 900 GROUP BY 1');
SET lookup.seqscan = on;
RESET parallel_leader_participation;
RESET min_parallel_table_scan_size;
RESET parallel_tuple_cost;
RESET parallel_setup_cost;
SET max_parallel_workers_per_gather = 0;

--
-- Scans: of ranges with keys that do not satisfy the conditions, of the index alone, of more columns than go into blocks
--
CREATE INDEX t_txt ON t USING harmonia (txt, big);
SET lookup.seqscan = off;
SELECT * FROM compare_lookups('SELECT sum(id), count(v) FROM t WHERE txt = ANY (''{v1,v2,v7}'') AND big < 9e18::int8 - 1500', 'SELECT max(v), count(id) FROM t WHERE txt = ANY (''{v1,v2,v7}'') AND big < 9e18::int8 - 1500',
	'SELECT sum(id) FROM t WHERE txt = ANY (''{v1,v2,v7}'') AND big < 9e18::int8 - 4000', 'SELECT v % 3, count(*) FROM t WHERE txt IN (''v3'', ''v4'') AND big > 9e18::int8 - 1500 GROUP BY 1',
	'SELECT sum(k), count(*) FILTER (WHERE k % 2 = 1) FROM t WHERE k = ANY (ARRAY(SELECT generate_series(1, 1000)))', 'SELECT sum(k), count(*) FILTER (WHERE k > 5) FROM t WHERE k < 500 OR k > 900',
	'SELECT sum(v), count(txt) FROM t WHERE k = ANY (ARRAY(SELECT generate_series(1, 1000)))', 'SELECT sum(v), count(txt), avg(big), min(id) FROM t WHERE k = ANY (ARRAY(SELECT generate_series(1, 1000)))');
SET lookup.seqscan = on;
DROP INDEX t_txt;

--
-- Partitions, also one by one
--
CREATE TABLE p (k int, n int, x int8) PARTITION BY RANGE (k);
CREATE TABLE p_1 PARTITION OF p FOR VALUES FROM (0) TO (700);
CREATE TABLE p_2 (x int8, gone int, n int, k int);
ALTER TABLE p_2 DROP gone;
ALTER TABLE p ATTACH PARTITION p_2 FOR VALUES FROM (700) TO (2000);
INSERT INTO p SELECT i % 1500, i, i FROM generate_series(1, 2000) i;
CREATE TABLE r (k int, v int) PARTITION BY RANGE (k);
CREATE TABLE r_1 PARTITION OF r FOR VALUES FROM (0) TO (700);
CREATE TABLE r_2 PARTITION OF r FOR VALUES FROM (700) TO (2000);
INSERT INTO r SELECT i % 1300, i FROM generate_series(1, 2000) i;
CREATE INDEX r_k ON r USING harmonia (k);
:vacuum ANALYZE p, r;
SET enable_partitionwise_join = on;
SET enable_partitionwise_aggregate = on;
BEGIN;
CALL use_lookups(true);
SELECT * FROM plan('SELECT p.k, count(*), sum(v) FROM p JOIN r USING (k) GROUP BY p.k HAVING sum(x) > 5');
ROLLBACK;
-- Versions differ in when they join partitions one by one.
SELECT n, result, query FROM compare_lookups('SELECT p.k, count(*), sum(v) FROM p JOIN r USING (k) GROUP BY p.k HAVING sum(x) > 5', 'SELECT p.k, count(*), sum(x + v) FROM p LEFT JOIN r USING (k) GROUP BY p.k',
	'SELECT n % 5, count(*), sum(x) FROM p JOIN r USING (k) GROUP BY 1', 'SELECT count(*), sum(x) FROM p JOIN r USING (k)');
RESET enable_partitionwise_join;
RESET enable_partitionwise_aggregate;

--
-- Plans that are kept, cursors, settings
--
SET plan_cache_mode = force_generic_plan;
PREPARE kept(int, int) AS SELECT count(*), sum(v + $1), max(n) FILTER (WHERE n < $2) FROM o JOIN t USING (k) WHERE n > $1 HAVING count(*) > $2;
BEGIN;
CALL use_lookups(true);
SELECT * FROM plan('EXECUTE kept(1, 100)');
EXECUTE kept(1, 100);
EXECUTE kept(700, 10);
EXECUTE kept(1, 100000);
COMMIT;
DEALLOCATE kept;
RESET plan_cache_mode;
BEGIN;
CALL use_lookups(true);
DECLARE c SCROLL CURSOR FOR SELECT e, count(*) FROM o JOIN t ON t.k = o.n GROUP BY e;
FETCH 2 FROM c;
FETCH BACKWARD 1 FROM c;
FETCH ALL FROM c;
ROLLBACK;

-- The bits of a Datum that a type does not use: a row read from the heap and one made from the key have different ones, and
-- so have an expression's values
CREATE TABLE high (k oid, v int) WITH (autovacuum_enabled = off);
INSERT INTO high SELECT 4294967295 - i % 5, i FROM generate_series(1, 20000) i;
CREATE INDEX high_k ON high USING harmonia (k);
:vacuum ANALYZE high;
UPDATE high SET v = v + 1 WHERE v % 997 = 0;
SELECT n, result, nodes FROM compare_lookups('SELECT k, count(*) FROM high WHERE k IN (4294967295, 4294967294, 4294967293) GROUP BY k',
	'SELECT CASE WHEN v % 2 = 0 THEN 4294967295::oid ELSE k END, count(*) FROM high WHERE k IN (4294967295, 4294967294, 4294967293) GROUP BY 1');

--
-- Privileges
--
CREATE ROLE harmonia_aggregate_user;
GRANT USAGE ON SCHEMA lookup_aggregate TO harmonia_aggregate_user;
GRANT SELECT ON o, t TO harmonia_aggregate_user;
BEGIN;
CALL use_lookups(true);
REVOKE EXECUTE ON FUNCTION sum(int4) FROM PUBLIC;
SET LOCAL ROLE harmonia_aggregate_user;
SELECT count(*) > 0 FROM o JOIN t USING (k);
SAVEPOINT allowed;
SELECT sum(v) FROM o JOIN t USING (k);
ROLLBACK TO allowed;
EXPLAIN SELECT sum(v) FROM o JOIN t USING (k);
ROLLBACK;
-- The aggregate's owner has to be allowed to call what it consists of.
BEGIN;
CALL use_lookups(true);
REVOKE EXECUTE ON FUNCTION int4_sum(int8, int4) FROM PUBLIC;
UPDATE pg_proc SET proowner = 'harmonia_aggregate_user'::regrole WHERE oid = 'sum(int4)'::regprocedure;
SELECT sum(v) FROM o JOIN t USING (k);
ROLLBACK;
DROP OWNED BY harmonia_aggregate_user;
DROP ROLE harmonia_aggregate_user;

DROP SCHEMA lookup_aggregate CASCADE;
