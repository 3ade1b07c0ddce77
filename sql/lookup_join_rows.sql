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
RESET lookup.seqscan;
