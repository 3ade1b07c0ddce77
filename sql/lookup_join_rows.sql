--
-- Lookup joins: one-time filters; expressions and whole rows of the inner side
--
SET client_min_messages = warning;
SET timezone = 'UTC';
SET jit = off;
SET max_parallel_workers_per_gather = 0;
SET harmonia.enable_lookup_aggregate = off;
CREATE SCHEMA lookup_join_rows;
SET search_path = lookup_join_rows, public;
\getenv srcdir PG_ABS_SRCDIR
\set compare :srcdir '/sql/include/compare.sql'
\i :compare
\set lookup :srcdir '/sql/include/lookup.sql'
\i :lookup

-- Some keys in two rows, NULLs, a column that was dropped, and one that old rows lack
CREATE TABLE dim (id bigint NOT NULL, name text, n int, gone int) WITH (autovacuum_enabled = off);
INSERT INTO dim SELECT i, CASE WHEN i % 11 <> 0 THEN 'n' || i END, nullif(i % 7, 0), i FROM generate_series(1, 3000) i;
ALTER TABLE dim DROP COLUMN gone;
ALTER TABLE dim ADD COLUMN late int DEFAULT 42;
INSERT INTO dim SELECT i, 'again', 5, 7 FROM generate_series(1, 300) i;
CREATE INDEX ON dim USING harmonia (id);
-- Partitions that have the columns in other places
CREATE TABLE parted (id bigint, name text, n int) PARTITION BY RANGE (id);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (1000) WITH (autovacuum_enabled = off);
CREATE TABLE parted_2 (gone int, n int, name text, id bigint) WITH (autovacuum_enabled = off);
ALTER TABLE parted_2 DROP COLUMN gone;
ALTER TABLE parted ATTACH PARTITION parted_2 FOR VALUES FROM (1000) TO (2000);
CREATE TABLE parted_3 PARTITION OF parted DEFAULT WITH (autovacuum_enabled = off);
INSERT INTO parted SELECT i, CASE WHEN i % 11 <> 0 THEN 'n' || i END, i % 7 FROM generate_series(1, 3000) i;
CREATE INDEX ON parted USING harmonia (id);
-- Outer rows: keys that are not found, NULLs
CREATE TABLE w (id bigint, x int, name text) WITH (autovacuum_enabled = off);
INSERT INTO w SELECT shuffle(i) % 4000, i, CASE WHEN i % 9 <> 0 THEN 'n' || i % 50 END FROM generate_series(1, 1500) i;
INSERT INTO w VALUES (NULL, 1, 'a'), (NULL, 2, NULL);
CREATE TABLE other (id bigint, y int) WITH (autovacuum_enabled = off);
INSERT INTO other SELECT i * 3, i FROM generate_series(1, 500) i;
:vacuum ANALYZE dim, parted, w, other;

--
-- One-time filters
--
SET my.flag = 'on';
BEGIN;
CALL use_lookups(false);
SELECT * FROM plan('SELECT w.x, d.name FROM w JOIN dim d USING (id) WHERE current_setting(''my.flag'') = ''on''');
SELECT * FROM plan('SELECT w.x, d.name FROM w LEFT JOIN (SELECT * FROM dim WHERE current_setting(''my.flag'') = ''off'') d USING (id) WHERE current_setting(''my.flag'') = ''on''');
-- Nothing is read
SELECT * FROM explained('SELECT w.x, d.name FROM w JOIN dim d USING (id) WHERE current_setting(''my.flag'') = ''off''');
SELECT * FROM explained('SELECT count(*) FROM w LEFT JOIN (SELECT * FROM dim WHERE current_setting(''my.flag'') = ''off'') d USING (id)');
COMMIT;
SELECT * FROM compare_lookups(
	'SELECT w.x, d.name FROM w JOIN dim d USING (id) WHERE current_setting(''my.flag'') = ''on''',
	'SELECT w.x, d.name FROM w JOIN dim d USING (id) WHERE current_setting(''my.flag'') = ''off''',
	'SELECT w.x, d.name FROM w JOIN dim d USING (id) WHERE current_setting(''my.none'', true) IS NULL AND d.n > w.x % 7',
	'SELECT w.x, d.name FROM w LEFT JOIN dim d USING (id) WHERE current_setting(''my.flag'') = ''on'' AND (d.n > 2 OR d.n IS NULL)',
	'SELECT w.x, d.name FROM w LEFT JOIN dim d USING (id) WHERE current_setting(''my.flag'') = ''off''',
	'SELECT w.x, d.name FROM w LEFT JOIN dim d ON d.id = w.id AND current_setting(''my.flag'') = ''on''',
	'SELECT w.x, d.name FROM w LEFT JOIN dim d ON d.id = w.id AND current_setting(''my.flag'') = ''off''',
	'SELECT w.x, d.name FROM w LEFT JOIN (SELECT * FROM dim WHERE current_setting(''my.flag'') = ''on'') d USING (id)',
	'SELECT w.x, d.name FROM w LEFT JOIN (SELECT * FROM dim WHERE current_setting(''my.flag'') = ''off'') d USING (id)',
	'SELECT w.x, d.name FROM w LEFT JOIN (SELECT * FROM parted WHERE current_setting(''my.flag'') = ''off'') d USING (id)',
	'SELECT w.x, d.name FROM w LEFT JOIN (SELECT * FROM parted WHERE current_setting(''my.flag'') = ''on'') d USING (id) WHERE current_setting(''my.flag'') = ''on''',
	'SELECT x FROM w WHERE EXISTS (SELECT FROM dim d WHERE d.id = w.id AND current_setting(''my.flag'') = ''on'')',
	'SELECT x FROM w WHERE EXISTS (SELECT FROM dim d WHERE d.id = w.id AND current_setting(''my.flag'') = ''off'')',
	'SELECT x FROM w WHERE NOT EXISTS (SELECT FROM dim d WHERE d.id = w.id AND current_setting(''my.flag'') = ''on'')',
	'SELECT x FROM w WHERE NOT EXISTS (SELECT FROM dim d WHERE d.id = w.id AND current_setting(''my.flag'') = ''off'')',
	'SELECT x FROM w WHERE NOT EXISTS (SELECT FROM dim d WHERE d.id = w.id) AND current_setting(''my.flag'') = ''on''',
	'SELECT x FROM w WHERE NOT EXISTS (SELECT FROM dim d WHERE d.id = w.id) AND current_setting(''my.flag'') = ''off''',
	'SELECT d.name FROM dim d WHERE d.id IN (SELECT id FROM w) AND current_setting(''my.flag'') = ''on''',
	'SELECT d.name FROM dim d WHERE d.id IN (SELECT id FROM w) AND current_setting(''my.flag'') = ''off''',
	'SELECT w.x, d.name, p.name FROM w JOIN dim d USING (id) JOIN parted p USING (id) WHERE current_setting(''my.flag'') = ''on''',
	'SELECT w.x, d.name, p.name FROM w JOIN dim d USING (id) LEFT JOIN (SELECT * FROM parted WHERE current_setting(''my.flag'') = ''off'') p USING (id) WHERE current_setting(''my.flag'') = ''on''',
	'SELECT count(*) FROM w JOIN dim d USING (id) WHERE current_setting(''my.flag'') = ''off''',
	'SELECT count(*) FROM w LEFT JOIN (SELECT * FROM dim WHERE current_setting(''my.flag'') = ''off'') d USING (id)',
	'SELECT count(*), sum(d.n) FROM w LEFT JOIN (SELECT * FROM dim WHERE current_setting(''my.flag'') = ''on'') d USING (id) WHERE current_setting(''my.flag'') = ''on''',
	-- The filter changes from one rescan to the next.
	'SELECT y, s FROM other, LATERAL (SELECT count(*) AS s FROM w JOIN dim d ON d.id = w.id WHERE y % 2 = 0 AND w.x < 50 OFFSET 0) l WHERE y < 9',
	'SELECT y, s FROM other, LATERAL (SELECT count(d.n) AS s FROM w LEFT JOIN (SELECT * FROM dim WHERE y % 2 = 0) d ON d.id = w.id WHERE w.x < 50 OFFSET 0) l WHERE y < 9',
	'SELECT y, (SELECT count(*) FROM w JOIN dim d ON d.id = w.id WHERE y % 2 = 0 AND w.x < 50) FROM other WHERE y < 9');
-- Generic plans
SET plan_cache_mode = force_generic_plan;
PREPARE q(text) AS SELECT count(*), sum(d.n) FROM w JOIN dim d USING (id) WHERE $1 IS NULL;
BEGIN;
CALL use_lookups(false);
SELECT lookup_nodes('EXECUTE q(NULL)');
EXECUTE q(NULL);
EXECUTE q('x');
CALL use_no_lookups('seq');
DEALLOCATE q;
PREPARE q(text) AS SELECT count(*), sum(d.n) FROM w JOIN dim d USING (id) WHERE $1 IS NULL;
EXECUTE q(NULL);
EXECUTE q('x');
COMMIT;
RESET plan_cache_mode;
-- Row-level security that does not look at rows
CREATE ROLE lookup_join_rows_reader;
CREATE TABLE secured (id bigint, name text) WITH (autovacuum_enabled = off);
INSERT INTO secured SELECT id, name FROM dim;
CREATE INDEX ON secured USING harmonia (id);
:vacuum ANALYZE secured;
ALTER TABLE secured ENABLE ROW LEVEL SECURITY;
CREATE POLICY flag ON secured USING (current_setting('my.flag') = 'on');
GRANT USAGE, CREATE ON SCHEMA lookup_join_rows TO lookup_join_rows_reader;
GRANT SELECT ON ALL TABLES IN SCHEMA lookup_join_rows TO lookup_join_rows_reader;
SET ROLE lookup_join_rows_reader;
\set queries '''SELECT w.x, s.name FROM w JOIN secured s USING (id)'', ''SELECT w.x, s.name FROM w LEFT JOIN secured s USING (id)'', ''SELECT x FROM w WHERE NOT EXISTS (SELECT FROM secured s WHERE s.id = w.id)'''
SELECT * FROM compare_lookups(:queries);
SET my.flag = 'off';
SELECT * FROM compare_lookups(:queries);
SET my.flag = 'on';
RESET ROLE;
-- Parallel workers
SET lookup.seqscan = on;
SET min_parallel_table_scan_size = 0;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET max_parallel_workers_per_gather = 2;
BEGIN;
CALL use_lookups(false);
SELECT * FROM plan('SELECT w.x, d.name FROM w JOIN dim d USING (id) WHERE current_setting(''my.flag'') = ''on''');
COMMIT;
SELECT * FROM compare_lookups(
	'SELECT w.x, d.name FROM w JOIN dim d USING (id) WHERE current_setting(''my.flag'') = ''on''',
	'SELECT w.x, d.name FROM w JOIN dim d USING (id) WHERE current_setting(''my.flag'') = ''off''',
	'SELECT w.x, d.name FROM w LEFT JOIN (SELECT * FROM dim WHERE current_setting(''my.flag'') = ''off'') d USING (id)',
	'SELECT count(*), sum(d.n) FROM w JOIN dim d USING (id) WHERE current_setting(''my.flag'') = ''on''');
SET max_parallel_workers_per_gather = 0;
SET lookup.seqscan = off;

--
-- Expressions and constants of the inner side
--
BEGIN;
CALL use_lookups(false);
SELECT * FROM plan('SELECT w.id, d.name, d.found FROM w LEFT JOIN (SELECT id, name, true AS found FROM dim) d ON d.id = w.id', 'VERBOSE');
SELECT * FROM plan('SELECT w.id, d.c FROM w LEFT JOIN (SELECT id, coalesce(name, ''?'') AS c FROM dim) d ON d.id = w.id WHERE d.c IS DISTINCT FROM ''n5''');
COMMIT;
SELECT * FROM compare_lookups(
	'SELECT w.id, d.name, d.found FROM w LEFT JOIN (SELECT id, name, true AS found FROM dim) d ON d.id = w.id',
	'SELECT w.id, d.c FROM w LEFT JOIN (SELECT id, coalesce(name, ''?'') AS c FROM dim) d ON d.id = w.id',
	'SELECT w.id, d.c FROM w LEFT JOIN (SELECT id, coalesce(name, ''?'') AS c FROM dim) d ON d.id = w.id WHERE d.c IS DISTINCT FROM ''n5''',
	'SELECT w.id, d.c || d.id FROM w LEFT JOIN (SELECT id, coalesce(name, ''?'') AS c FROM dim) d ON d.id = w.id WHERE d.c IS NULL OR d.c > w.name',
	'SELECT w.id FROM w LEFT JOIN (SELECT id, true AS found FROM dim) d ON d.id = w.id WHERE d.found IS NULL',
	'SELECT count(d.found), count(*) FROM w LEFT JOIN (SELECT id, true AS found FROM dim) d ON d.id = w.id',
	'SELECT count(*), sum(d.m) FROM w LEFT JOIN (SELECT id, coalesce(n, -1) AS m FROM dim) d ON d.id = w.id WHERE d.m <> 3',
	'SELECT d.c, count(*) FROM w LEFT JOIN (SELECT id, coalesce(n, -1) AS c FROM dim) d ON d.id = w.id GROUP BY d.c',
	'SELECT d.c, count(d.c), sum(w.x) FROM w LEFT JOIN (SELECT id, coalesce(name, ''?'') AS c FROM dim) d ON d.id = w.id GROUP BY d.c',
	'SELECT w.id, d.name, d.found FROM w LEFT JOIN (SELECT id, name, true AS found FROM parted) d ON d.id = w.id',
	'SELECT w.id, d.c FROM w LEFT JOIN (SELECT id, coalesce(name, ''?'') || coalesce(n, -1) AS c FROM parted) d ON d.id = w.id AND d.c > ''n'' WHERE d.c IS DISTINCT FROM ''n5''',
	-- Conditions on them, and an expression as the key
	'SELECT w.id, d.c FROM w LEFT JOIN (SELECT id, coalesce(name, ''?'') AS c, 7 AS s FROM dim WHERE n > 2) d ON d.id = w.id AND d.c > w.name AND d.s > w.x',
	'SELECT w.id, d.s FROM w LEFT JOIN (SELECT id, id + 1 AS s FROM dim) d ON d.id = w.id AND d.s > w.x',
	-- One above the other
	'SELECT w.id, d.f, e.f FROM w LEFT JOIN (SELECT id, true AS f FROM dim) d ON d.id = w.id LEFT JOIN (SELECT id, n, coalesce(name, ''?'') AS f FROM parted) e ON e.id = w.id + 1',
	'SELECT w.id, d.f, e.f FROM w LEFT JOIN (SELECT id, n, true AS f FROM dim) d ON d.id = w.id LEFT JOIN (SELECT id, n, coalesce(name, ''?'') AS f FROM parted) e ON e.id = d.n AND d.f',
	'SELECT y, s.x, s.f, s.g FROM other LEFT JOIN (SELECT w.x, w.id, d.f, coalesce(d.f, ''-'') || w.x AS g FROM w LEFT JOIN (SELECT id, coalesce(name, ''?'') AS f FROM dim) d ON d.id = w.id) s ON s.id = other.id',
	'SELECT y, s.x, s.f, s.g FROM other LEFT JOIN (SELECT w.x, w.id, d.f, coalesce(d.f, ''-'') || w.x AS g FROM w JOIN (SELECT id, coalesce(name, ''?'') AS f FROM dim) d ON d.id = w.id) s ON s.id = other.id',
	'SELECT y, s.g FROM other LEFT JOIN (SELECT w.id, coalesce(d.name, w.name, ''-'') AS g, 1 AS one FROM w LEFT JOIN dim d ON d.id = w.id) s ON s.id = other.id WHERE s.one IS NULL OR s.g > ''n4''',
	'SELECT y, s.g, s.one FROM other LEFT JOIN (SELECT w.id, w.x, 1 AS one FROM w) t ON t.id = other.id LEFT JOIN (SELECT id, coalesce(name, ''-'') AS g, 2 AS one FROM dim) s ON s.id = t.x AND t.one = 1',
	'SELECT x, (SELECT count(d.f) FROM other LEFT JOIN (SELECT id, true AS f, n FROM dim) d ON d.id = other.id WHERE y < w.x) FROM w WHERE x < 9',
	'SELECT x, l.c FROM w, LATERAL (SELECT count(d.f) AS c FROM other LEFT JOIN (SELECT id, name || w.x AS f, n FROM dim) d ON d.id = other.id WHERE y < w.x AND d.f IS DISTINCT FROM w.name) l WHERE x < 9',
	-- Sub-selects, semijoins and antijoins
	'SELECT w.id, d.s FROM w LEFT JOIN (SELECT id, (SELECT max(y) FROM other WHERE other.id = dim.id) AS s FROM dim) d ON d.id = w.id WHERE w.x < 40',
	'SELECT w.id, d.s FROM w LEFT JOIN (SELECT id, (SELECT max(y) FROM other) AS s FROM dim) d ON d.id = w.id',
	'SELECT w.id, d.f FROM w LEFT JOIN (SELECT id, true AS f FROM dim) d ON d.id = w.id WHERE EXISTS (SELECT FROM parted p WHERE p.id = w.x AND coalesce(p.n, 0) < 5)',
	'SELECT w.id, d.f FROM w LEFT JOIN (SELECT id, coalesce(n, 0) AS f FROM dim) d ON d.id = w.id WHERE NOT EXISTS (SELECT FROM parted p WHERE p.id = d.f)');

--
-- Whole rows of the inner side
--
BEGIN;
CALL use_lookups(false);
SELECT * FROM plan('SELECT w.id, d FROM w LEFT JOIN dim d ON d.id = w.id', 'VERBOSE');
SELECT * FROM plan('SELECT w.id, to_jsonb(d) FROM w JOIN parted d ON d.id = w.id WHERE d IS NOT NULL');
SELECT d, to_jsonb(d), w.x FROM w LEFT JOIN dim d ON d.id = w.id WHERE w.x IN (1, 11, 12, 19, 22) ORDER BY w.x, d;
COMMIT;
SELECT * FROM compare_lookups(
	'SELECT w.id, d FROM w JOIN dim d ON d.id = w.id',
	'SELECT w.id, d FROM w LEFT JOIN dim d ON d.id = w.id',
	'SELECT w.id, to_jsonb(d)::text, d.name FROM w JOIN dim d ON d.id = w.id',
	'SELECT w.id, to_jsonb(d)::text, d IS NULL, d.* FROM w LEFT JOIN dim d ON d.id = w.id',
	'SELECT w.id FROM w LEFT JOIN dim d ON d.id = w.id WHERE d IS NULL',
	'SELECT w.id FROM w LEFT JOIN dim d ON d.id = w.id WHERE NOT (d IS NOT NULL)',
	'SELECT w.id, d.name FROM w LEFT JOIN dim d ON d.id = w.id AND d IS NOT NULL',
	'SELECT w.id, d FROM w JOIN dim d ON d.id = w.id AND to_jsonb(d) ->> ''name'' > w.name',
	'SELECT w.id, d FROM w JOIN dim d ON d.id = w.id WHERE (to_jsonb(d) ->> ''late'')::int = 7',
	'SELECT x FROM w WHERE EXISTS (SELECT FROM dim d WHERE d.id = w.id AND d IS NOT NULL)',
	'SELECT x FROM w WHERE NOT EXISTS (SELECT FROM dim d WHERE d.id = w.id AND d IS NOT NULL)',
	'SELECT count(d) FROM w LEFT JOIN dim d ON d.id = w.id',
	'SELECT w.id, d, d.tableoid::regclass FROM w JOIN parted d ON d.id = w.id',
	'SELECT w.id, to_jsonb(d)::text FROM w LEFT JOIN parted d ON d.id = w.id AND d IS NOT NULL',
	'SELECT w.id, d.r FROM w LEFT JOIN (SELECT id, coalesce(to_jsonb(parted)::text, ''-'') AS r FROM parted) d ON d.id = w.id',
	'SELECT y, s.x, s.d, s.p FROM other LEFT JOIN (SELECT w.x, w.id, d, p FROM w LEFT JOIN dim d ON d.id = w.id LEFT JOIN parted p ON p.id = w.id) s ON s.id = other.id',
	'SELECT array_agg(d ORDER BY d) FROM w JOIN dim d ON d.id = w.id WHERE w.x < 30');
-- Partitionwise joins
CREATE TABLE parted_w (id bigint, x int) PARTITION BY RANGE (id);
CREATE TABLE parted_w_1 PARTITION OF parted_w FOR VALUES FROM (0) TO (1000) WITH (autovacuum_enabled = off);
CREATE TABLE parted_w_2 (x int, id bigint) WITH (autovacuum_enabled = off);
ALTER TABLE parted_w ATTACH PARTITION parted_w_2 FOR VALUES FROM (1000) TO (2000);
CREATE TABLE parted_w_3 PARTITION OF parted_w DEFAULT WITH (autovacuum_enabled = off);
INSERT INTO parted_w SELECT id, x FROM w;
:vacuum ANALYZE parted_w;
SET enable_partitionwise_join = on;
SELECT * FROM compare_lookups(
	'SELECT w.x, w, d FROM parted_w w JOIN parted d ON d.id = w.id',
	'SELECT w.x, w, d, to_jsonb(d)::text FROM parted_w w LEFT JOIN parted d ON d.id = w.id AND d IS NOT NULL',
	'SELECT w.x, d.f FROM parted_w w LEFT JOIN (SELECT id, coalesce(name, ''?'') AS f FROM parted) d ON d.id = w.id WHERE d.f IS DISTINCT FROM ''n5''');
RESET enable_partitionwise_join;
-- Scans of a partitioned table
SELECT n, result, query FROM compare_lookups(
	'SELECT d FROM parted d WHERE id = ANY (ARRAY(SELECT id FROM w))',
	'SELECT to_jsonb(d)::text FROM parted d WHERE id = ANY (ARRAY(SELECT id FROM w)) AND d IS NOT NULL');
-- Values that are stored elsewhere, and values that are passed by reference
CREATE TABLE wide (id bigint, big text, n numeric) WITH (autovacuum_enabled = off);
ALTER TABLE wide ALTER big SET STORAGE external;
INSERT INTO wide SELECT i, repeat(i::text, 1000), i / 7.0 FROM generate_series(1, 200) i;
CREATE INDEX ON wide USING harmonia (id);
:vacuum ANALYZE wide;
SELECT * FROM compare_lookups(
	'SELECT w.x, d FROM w LEFT JOIN wide d ON d.id = w.id',
	'SELECT w.x, d.big FROM w LEFT JOIN (SELECT id, big || ''x'' AS big, n + 1 AS n FROM wide) d ON d.id = w.x WHERE d.n > 2');
-- Parallel workers
SET lookup.seqscan = on;
SET max_parallel_workers_per_gather = 2;
SELECT * FROM compare_lookups(
	'SELECT w.id, d.name, d.found FROM w LEFT JOIN (SELECT id, name, true AS found FROM dim) d ON d.id = w.id',
	'SELECT w.id, d.c FROM w LEFT JOIN (SELECT id, coalesce(name, ''?'') AS c FROM parted) d ON d.id = w.id WHERE d.c IS DISTINCT FROM ''n5''',
	'SELECT w.id, d, to_jsonb(d)::text FROM w LEFT JOIN dim d ON d.id = w.id',
	'SELECT count(*), sum(d.m) FROM w LEFT JOIN (SELECT id, coalesce(n, -1) AS m FROM dim) d ON d.id = w.id');
SET max_parallel_workers_per_gather = 0;
SET lookup.seqscan = off;

--
-- UNION ALL as the inner side
--
CREATE TABLE dim_2 (gone int, n int, name text, id bigint) WITH (autovacuum_enabled = off);
ALTER TABLE dim_2 DROP COLUMN gone;
INSERT INTO dim_2 SELECT i % 9, 'm' || i, i FROM generate_series(2500, 3500) i;
CREATE INDEX ON dim_2 USING harmonia (id);
CREATE TABLE short (id int, name text, n int) WITH (autovacuum_enabled = off);
INSERT INTO short SELECT i, 's' || i, i FROM generate_series(1, 500) i;
CREATE INDEX ON short USING harmonia (id);
:vacuum ANALYZE dim_2, short;
CREATE VIEW both_dims AS SELECT id, name, n FROM dim UNION ALL SELECT id, name, n FROM dim_2;
CREATE VIEW three AS SELECT id, name, n FROM both_dims UNION ALL SELECT id, name, n FROM parted;
BEGIN;
CALL use_lookups(false);
SELECT * FROM plan('SELECT w.x, d.name FROM w JOIN both_dims d USING (id)');
SELECT * FROM plan('SELECT w.x, d.name FROM w LEFT JOIN three d ON d.id = w.id AND d.n > 3 AND d.name > w.name', 'VERBOSE');
SELECT lookup_nodes('SELECT w.x, d.name FROM w JOIN both_dims d USING (id)'), jsonb_path_query_array(plan::jsonb, 'strict $.**."Alias"') FROM plan('SELECT w.x, d.name FROM w JOIN both_dims d USING (id)', 'FORMAT JSON') p(plan);
COMMIT;
SELECT * FROM compare_lookups(
	'SELECT w.x, d.name FROM w JOIN both_dims d USING (id)',
	'SELECT w.x, d FROM w LEFT JOIN both_dims d USING (id)',
	'SELECT w.x, d.name, d.n FROM w LEFT JOIN both_dims d ON d.id = w.id AND d.n > 3',
	'SELECT w.x, d.name, d.n FROM w JOIN three d ON d.id = w.id AND d.n > 3 AND d.name > w.name',
	'SELECT w.x, d.name, d.n FROM w LEFT JOIN three d ON d.id = w.id AND d.name > w.name',
	'SELECT x FROM w WHERE EXISTS (SELECT FROM three d WHERE d.id = w.id AND d.n > 3)',
	'SELECT x FROM w WHERE NOT EXISTS (SELECT FROM three d WHERE d.id = w.id AND d.n > 3)',
	'SELECT count(*), sum(d.n) FROM w JOIN three d USING (id)',
	'SELECT d.n, count(*) FROM w JOIN both_dims d USING (id) GROUP BY d.n',
	'SELECT d.name FROM both_dims d WHERE d.id IN (SELECT id FROM w)',
	'SELECT w.x, d.name, d.f FROM w LEFT JOIN (SELECT *, true AS f FROM both_dims) d USING (id)',
	'SELECT w.x, d.name FROM w LEFT JOIN (SELECT * FROM both_dims WHERE current_setting(''my.flag'') = ''off'') d USING (id)',
	'SELECT y, (SELECT count(d.n) FROM w LEFT JOIN three d ON d.id = w.id AND d.n > y % 5 WHERE w.x < 50) FROM other WHERE y < 9');
-- Columns that are expressions, other types, conditions, sub-selects that are no tables, and one without an index are left alone
SELECT * FROM compare_lookups(
	'SELECT w.x, d.name FROM w JOIN (SELECT id, name, 1 AS s FROM dim UNION ALL SELECT id, name, 2 FROM dim_2) d USING (id)',
	'SELECT w.x, d.name, d.s FROM w JOIN (SELECT id, name, 1 AS s FROM dim UNION ALL SELECT id, name, 2 FROM dim_2) d USING (id)',
	'SELECT w.x, d.name FROM w JOIN (SELECT id, name, 1 AS s FROM dim UNION ALL SELECT id, name, 2 FROM dim_2) d USING (id) WHERE d.s = 2',
	'SELECT w.x, d.name FROM w JOIN (SELECT id, name FROM dim UNION ALL SELECT id + 1, name FROM dim_2) d USING (id)',
	'SELECT w.x, d.name FROM w JOIN (SELECT id, name FROM dim UNION ALL SELECT id, name || ''x'' FROM dim_2) d USING (id)',
	'SELECT w.x, d.name FROM w JOIN (SELECT id, name FROM dim UNION ALL SELECT id, name FROM short) d USING (id)',
	'SELECT w.x, d.name FROM w JOIN (SELECT id, name FROM dim WHERE n > 3 UNION ALL SELECT id, name FROM dim_2) d USING (id)',
	'SELECT w.x, d.name FROM w JOIN (SELECT id, name FROM dim UNION ALL SELECT id, name FROM w) d USING (id)',
	'SELECT w.x, d.name FROM w JOIN (SELECT id, name FROM dim UNION ALL SELECT DISTINCT id, name FROM dim_2) d USING (id)',
	'SELECT w.x, d.name FROM w JOIN (SELECT id, name FROM dim UNION ALL VALUES (5, ''five'')) d USING (id)',
	'SELECT w.x, d.r FROM w JOIN (SELECT id, dim_2 AS r FROM dim_2 UNION ALL SELECT id, dim_2 FROM dim_2) d USING (id)',
	'SELECT w.x, d.name, d.y FROM w, LATERAL (SELECT id, name, w.x AS y FROM dim UNION ALL SELECT id, name, w.x FROM dim_2) d WHERE d.id = w.id');
-- A policy of one of the tables
GRANT SELECT ON ALL TABLES IN SCHEMA lookup_join_rows TO lookup_join_rows_reader;
CREATE POLICY even ON secured AS RESTRICTIVE USING (id % 2 = 0);
SET ROLE lookup_join_rows_reader;
SELECT * FROM compare_lookups(
	'SELECT w.x, d.name FROM w JOIN (SELECT id, name FROM dim UNION ALL SELECT id, name FROM secured) d USING (id)',
	'SELECT w.x, d.name FROM w LEFT JOIN (SELECT id, name FROM secured UNION ALL SELECT id, name FROM dim) d USING (id)',
	'SELECT w.x, d.name FROM w JOIN both_dims d USING (id)');
RESET ROLE;
-- A column that the reader must not see
CREATE TABLE hidden (id bigint, name text) WITH (autovacuum_enabled = off);
CREATE INDEX ON hidden USING harmonia (id);
SET ROLE lookup_join_rows_reader;
BEGIN;
CALL use_lookups(false);
SELECT count(d.name) FROM w JOIN (SELECT id, name FROM dim UNION ALL SELECT id, name FROM hidden) d USING (id);
ROLLBACK;
RESET ROLE;
-- Parallel workers
SET lookup.seqscan = on;
SET max_parallel_workers_per_gather = 2;
SELECT * FROM compare_lookups(
	'SELECT w.x, d.name FROM w LEFT JOIN three d USING (id)',
	'SELECT count(*), sum(d.n) FROM w JOIN both_dims d USING (id)');
SET max_parallel_workers_per_gather = 0;
SET lookup.seqscan = off;
