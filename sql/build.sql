--
-- Building an index, and commands that rebuild one
--
CREATE SCHEMA build_test;
SET search_path = build_test, public;
\getenv srcdir PG_ABS_SRCDIR
\set compare :srcdir '/sql/include/compare.sql'
\i :compare

-- Build an index in different ways and verify each.  Returns the results, each with
-- the number of ways that gave it.
CREATE FUNCTION build(tab regclass, VARIADIC definitions text[])
	RETURNS TABLE (result text, ways bigint) LANGUAGE plpgsql
AS $$
DECLARE
	definition text;
	results text[];
BEGIN
	FOREACH definition IN ARRAY definitions LOOP
		EXECUTE format('CREATE INDEX built ON %s USING harmonia %s', tab, definition);
		results := results || verify('built');
		DROP INDEX built;
	END LOOP;
	RETURN QUERY SELECT r, count(*) FROM unnest(results) r GROUP BY r ORDER BY r;
END $$;

CREATE TABLE t (k int, big bigint, real real, id int) WITH (autovacuum_enabled = off);
INSERT INTO t SELECT CASE WHEN i % 10 <> 0 THEN shuffle(i) % 50000 END, shuffle(i) * 1000000000::bigint, shuffle(i) / 7.0, i
	FROM generate_series(1, 20000) i;
ANALYZE t;

--
-- Options
--
SELECT * FROM build('t',
	'(k)', '(k) WITH (fanout = 8)', '(k) WITH (fanout = 64)', '(k) WITH (fanout = 128)',
	'(k) WITH (fillfactor = 10)', '(k) WITH (fillfactor = 100)', '(k) WITH (fanout = 8, fillfactor = 10)',
	'(k DESC)', '(k NULLS FIRST)', '(k DESC NULLS LAST)', '(k DESC NULLS FIRST) WITH (fanout = 8, fillfactor = 10)');
SELECT * FROM build('t', '(big)', '(big DESC) WITH (fanout = 8, fillfactor = 10)', '(real)', '(real NULLS FIRST)');

-- Options have an effect
CREATE INDEX t_k ON t USING harmonia (k) WITH (fanout = 8, fillfactor = 10);
CREATE INDEX t_big ON t USING harmonia (big) WITH (fanout = 128, fillfactor = 100);
SELECT a.entries = b.entries AS same_entries, a.height > b.height AS higher, a.leaf_pages > 4 * b.leaf_pages AS more_leaves,
		a.shadowed_segments + b.shadowed_segments AS shadowed, a.leaf_fill < 15 AS sparse, b.leaf_fill > 90 AS full
	FROM harmonia_index_info('t_k') a, harmonia_index_info('t_big') b;
SELECT fanout, nulls FROM harmonia_metapage('t_k');
-- Options that are set later have an effect on the next build
ALTER INDEX t_k SET (fanout = 16, fillfactor = 100);
SELECT fanout, (SELECT leaf_fill > 90 FROM harmonia_index_info('t_k')) AS full FROM harmonia_metapage('t_k');
REINDEX INDEX t_k;
SELECT fanout, (SELECT leaf_fill > 90 FROM harmonia_index_info('t_k')) AS full FROM harmonia_metapage('t_k');
SELECT verify('t_k'), verify('t_big');
SELECT relname, reltuples FROM pg_class WHERE oid IN ('t'::regclass, 't_k'::regclass, 't_big'::regclass) ORDER BY 1;
DROP INDEX t_k, t_big;

--
-- Orders of the input
--
CREATE TABLE o (k int, id int) WITH (autovacuum_enabled = off);
CREATE FUNCTION build_from(query text) RETURNS TABLE (result text, ways bigint) LANGUAGE plpgsql
AS $$
BEGIN
	TRUNCATE o;
	EXECUTE 'INSERT INTO o SELECT ' || query;
	RETURN QUERY SELECT * FROM build('o', '(k)', '(k DESC) WITH (fanout = 8, fillfactor = 10)');
END $$;
SELECT * FROM build_from('i, i FROM generate_series(1, 10000) i');
SELECT * FROM build_from('-i, i FROM generate_series(1, 10000) i');
SELECT * FROM build_from('shuffle(i), i FROM generate_series(1, 10000) i');
SELECT * FROM build_from('i % 7, i FROM generate_series(1, 10000) i');
SELECT * FROM build_from('i / 1000, i FROM generate_series(1, 10000) i');
SELECT * FROM build_from('CASE WHEN i > 5000 THEN i END, i FROM generate_series(1, 10000) i');
SELECT * FROM build_from('NULL, i FROM generate_series(1, 10000) i');
SELECT * FROM build_from('CASE WHEN i % 2 = 0 THEN -2147483648 ELSE 2147483647 END, i FROM generate_series(1, 10000) i');

-- One key 200000 times: several segments
TRUNCATE o;
INSERT INTO o SELECT 7, i FROM generate_series(1, 200000) i;
CREATE INDEX o_k ON o USING harmonia (k) WITH (fillfactor = 10);
SELECT verify('o_k');
SELECT segments > 1 AS several_segments FROM harmonia_index_info('o_k');
DROP INDEX o_k;

-- Numbers of entries near those that need one more leaf, node or level
TRUNCATE o;
INSERT INTO o SELECT i, i FROM generate_series(1, 5000) i;
CREATE FUNCTION build_sizes() RETURNS TABLE (multiple int, difference int, result text) LANGUAGE plpgsql
AS $$
DECLARE
	leaf bigint;
	rows bigint;
BEGIN
	CREATE INDEX o_k ON o USING harmonia (k) WITH (fanout = 8, fillfactor = 10);
	leaf := (SELECT max(count) FROM generate_series(2, pg_relation_size('o_k') / 8192 - 1) block, harmonia_page('o_k', block)
		WHERE kind = 'leaf');
	DROP INDEX o_k;
	FOREACH multiple IN ARRAY ARRAY[0, 1, 2, 7, 8, 9, 64, 65] LOOP
		FOR difference IN -1..1 LOOP
			rows := multiple * leaf + difference;
			CONTINUE WHEN rows < 0;
			TRUNCATE o;
			INSERT INTO o SELECT i, i FROM generate_series(1, rows) i;
			CREATE INDEX o_k ON o USING harmonia (k) WITH (fanout = 8, fillfactor = 10);
			result := verify('o_k');
			DROP INDEX o_k;
			CONTINUE WHEN result = rows || ' rows, 0 NULL';
			RETURN NEXT;
		END LOOP;
	END LOOP;
END $$;
SELECT * FROM build_sizes();

--
-- An empty table
--
CREATE TABLE e (k int);
CREATE INDEX e_k ON e USING harmonia (k);
SELECT verify('e_k'), entries, segments FROM harmonia_index_info('e_k');
REINDEX INDEX e_k;
INSERT INTO e VALUES (1), (NULL), (2);
SELECT verify('e_k');
DELETE FROM e;
:vacuum e;
SELECT verify('e_k');
REINDEX INDEX e_k;
SELECT verify('e_k'), entries, segments FROM harmonia_index_info('e_k');

--
-- Memory and processes
--
SET maintenance_work_mem = '1MB';
INSERT INTO t SELECT CASE WHEN i % 10 <> 0 THEN shuffle(i) % 50000 END, -i, shuffle(i) / 7.0, i
	FROM generate_series(20001, 80000) i;
SELECT * FROM build('t', '(k)', '(big)', '(big DESC)', '(k NULLS FIRST) WITH (fanout = 8, fillfactor = 10)');

SET max_parallel_maintenance_workers = 2;
SET min_parallel_table_scan_size = 0;
ALTER TABLE t SET (parallel_workers = 2);
SELECT * FROM build('t', '(k)', '(big)', '(k NULLS FIRST) WITH (fanout = 8, fillfactor = 10)');
SET maintenance_work_mem = '64MB';
SELECT * FROM build('t', '(k)', '(big DESC)');
-- The leader leaves the scan to workers, where that is possible
SET parallel_leader_participation = off;
SELECT * FROM build('t', '(k)');
RESET parallel_leader_participation;
-- Expressions and conditions, some of which workers must not evaluate
CREATE FUNCTION half(i int) RETURNS int LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS 'BEGIN RETURN i / 2; END';
CREATE FUNCTION double(i int) RETURNS int LANGUAGE plpgsql IMMUTABLE PARALLEL UNSAFE AS 'BEGIN RETURN i * 2; END';
CREATE TABLE p WITH (parallel_workers = 2) AS SELECT k, id FROM t WHERE id <= 10000;
SELECT * FROM build('p', '(half(k))', '(double(k))', '((-k))', '(k) WHERE id % 2 = 0', '(k) WHERE double(k) > 50000', '(k) WHERE id < 0');
-- An empty table that asks for workers; one row; a temporary table
ALTER TABLE e SET (parallel_workers = 4);
REINDEX INDEX e_k;
INSERT INTO e VALUES (1);
REINDEX INDEX e_k;
SELECT verify('e_k');
CREATE TEMP TABLE temporary WITH (parallel_workers = 2) AS TABLE p;
SELECT * FROM build('temporary', '(k)');
-- An error in a worker
CREATE FUNCTION reciprocal(i int) RETURNS int LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS 'BEGIN RETURN 1 / i; END';
CREATE TABLE z WITH (parallel_workers = 2) AS SELECT i AS k FROM generate_series(-5000, 5000) i;
\set VERBOSITY sqlstate
CREATE INDEX z_k ON z USING harmonia (reciprocal(k));
\set VERBOSITY default
RESET max_parallel_maintenance_workers;
RESET min_parallel_table_scan_size;
RESET maintenance_work_mem;

--
-- Expressions, conditions, other kinds of tables
--
CREATE DOMAIN even AS int CHECK (VALUE % 2 = 0);
CREATE TABLE x (k even, at timestamptz, word text, made int GENERATED ALWAYS AS (length(word)) STORED, flag bool);
INSERT INTO x (k, at, word, flag)
	SELECT 2 * (i % 500), '2000-01-01 00:00+00'::timestamptz + i * interval '1 hour', nullif(repeat('x', i % 50), ''), i % 3 = 0
	FROM generate_series(1, 3000) i;
SELECT * FROM build('x', '(k)', '((k + 1))', '(at)', '(made)', '(flag)', '(length(word))', '((at AT TIME ZONE ''UTC''))',
	'((extract(hour FROM at AT TIME ZONE ''UTC'')::int))', '(k) WHERE flag', '(k) WHERE word IS NULL', '((CASE WHEN flag THEN k END))', '((k % 5)) WHERE made > 10');

CREATE UNLOGGED TABLE unlogged AS TABLE p;
CREATE INDEX unlogged_k ON unlogged USING harmonia (k);
SELECT verify('unlogged_k'), pg_relation_size('unlogged_k', 'init') > 0 AS init_fork;
ALTER TABLE unlogged SET LOGGED;
SELECT verify('unlogged_k'), pg_relation_size('unlogged_k', 'init') > 0 AS init_fork;
INSERT INTO unlogged SELECT i, i FROM generate_series(1, 1000) i;
ALTER TABLE unlogged SET UNLOGGED;
SELECT verify('unlogged_k'), pg_relation_size('unlogged_k', 'init') > 0 AS init_fork;
DROP TABLE unlogged;

CREATE TEMP TABLE short (k int) ON COMMIT DELETE ROWS;
CREATE INDEX short_k ON short USING harmonia (k);
BEGIN;
INSERT INTO short SELECT i FROM generate_series(1, 10000) i;
SELECT verify('short_k');
COMMIT;
SELECT verify('short_k');
BEGIN;
CREATE TEMP TABLE shorter (k int) ON COMMIT DROP;
CREATE INDEX ON shorter USING harmonia (k);
INSERT INTO shorter SELECT i FROM generate_series(1, 1000) i;
COMMIT;

TRUNCATE o;
INSERT INTO o SELECT shuffle(i), i FROM generate_series(1, 5000) i;
CREATE MATERIALIZED VIEW m AS SELECT k, id FROM o;
CREATE INDEX m_k ON m USING harmonia (k);
CREATE UNIQUE INDEX ON m (id);
INSERT INTO o SELECT i, i + 10000 FROM generate_series(1, 3000) i;
REFRESH MATERIALIZED VIEW m;
SELECT verify('m_k');
UPDATE o SET k = -k WHERE id % 3 = 0;
REFRESH MATERIALIZED VIEW CONCURRENTLY m;
SELECT verify('m_k');
DROP MATERIALIZED VIEW m;

-- Made like another table
CREATE TABLE alike (LIKE x INCLUDING ALL);
CREATE INDEX x_part ON x USING harmonia ((k + 1) DESC NULLS LAST) WITH (fanout = 32) WHERE flag;
CREATE TABLE alike_2 (LIKE x INCLUDING INDEXES);
SELECT pg_get_indexdef(indexrelid) FROM pg_index WHERE indrelid = 'alike_2'::regclass;
DROP INDEX x_part;

--
-- CONCURRENTLY
--
TRUNCATE t;
INSERT INTO t SELECT k, id, k, id FROM p;
CREATE INDEX CONCURRENTLY t_k ON t USING harmonia (k);
SELECT verify('t_k'), indisvalid FROM pg_index WHERE indexrelid = 't_k'::regclass;
REINDEX INDEX CONCURRENTLY t_k;
SELECT verify('t_k'), indisvalid FROM pg_index WHERE indexrelid = 't_k'::regclass;
CREATE INDEX CONCURRENTLY t_part ON t USING harmonia (half(k)) WHERE id % 3 = 0;
SELECT verify('t_part');
REINDEX TABLE CONCURRENTLY t;
SELECT verify('t_k'), verify('t_part');
DROP INDEX CONCURRENTLY t_part;
SET max_parallel_maintenance_workers = 2;
SET min_parallel_table_scan_size = 0;
REINDEX INDEX CONCURRENTLY t_k;
SELECT verify('t_k');
RESET max_parallel_maintenance_workers;
RESET min_parallel_table_scan_size;
-- A failed build leaves an invalid index
\set VERBOSITY sqlstate
CREATE INDEX CONCURRENTLY z_k ON z USING harmonia (reciprocal(k));
\set VERBOSITY default
SELECT indisvalid FROM pg_index WHERE indexrelid = 'z_k'::regclass;
INSERT INTO z VALUES (7);
DELETE FROM z WHERE k = 0;
REINDEX INDEX CONCURRENTLY z_k;
SELECT verify('z_k'), indisvalid FROM pg_index WHERE indexrelid = 'z_k'::regclass;

--
-- In a transaction that has changed the table
--
BEGIN;
INSERT INTO o SELECT i, i FROM generate_series(1, 1000) i;
SAVEPOINT s;
INSERT INTO o SELECT i, i FROM generate_series(1, 1000) i;
ROLLBACK TO s;
DELETE FROM o WHERE id % 10 = 0;
UPDATE o SET k = k + 1 WHERE id % 7 = 0;
CREATE INDEX o_k ON o USING harmonia (k);
SELECT harmonia_check('o_k', true);
COMMIT;
-- HOT chains whose rows differ in the column: the index is not for older snapshots
SELECT indcheckxmin FROM pg_index WHERE indexrelid = 'o_k'::regclass;
SELECT verify('o_k');
BEGIN;
DROP INDEX o_k;
CREATE INDEX o_k ON o USING harmonia (k DESC);
SAVEPOINT s;
REINDEX INDEX o_k;
ROLLBACK TO s;
INSERT INTO o SELECT i, i FROM generate_series(1, 1000) i;
SELECT harmonia_check('o_k', true);
ROLLBACK;
SELECT verify('o_k'), pg_get_indexdef('o_k'::regclass);

--
-- TRUNCATE
--
TRUNCATE o;
SELECT verify('o_k');
INSERT INTO o SELECT i, i FROM generate_series(1, 3000) i;
BEGIN;
TRUNCATE o;
INSERT INTO o SELECT i, i FROM generate_series(1, 10) i;
SELECT verify('o_k');
ROLLBACK;
SELECT verify('o_k');
BEGIN;
INSERT INTO o SELECT i, i FROM generate_series(1, 500) i;
TRUNCATE o;
SAVEPOINT s;
INSERT INTO o SELECT i, i FROM generate_series(1, 700) i;
TRUNCATE o;
ROLLBACK TO s;
INSERT INTO o SELECT i, i FROM generate_series(1, 300) i;
COMMIT;
SELECT verify('o_k');
BEGIN;
CREATE TABLE fresh (k int);
CREATE INDEX fresh_k ON fresh USING harmonia (k);
INSERT INTO fresh SELECT i FROM generate_series(1, 1000) i;
TRUNCATE fresh;
INSERT INTO fresh SELECT i FROM generate_series(1, 100) i;
SELECT verify('fresh_k');
COMMIT;
SELECT verify('fresh_k');

--
-- ALTER TABLE
--
INSERT INTO fresh VALUES (NULL), (-5);
ALTER TABLE fresh ALTER k TYPE bigint;
SELECT verify('fresh_k'), key_type, key_bits FROM harmonia_metapage('fresh_k');
ALTER TABLE fresh ALTER k TYPE smallint;
SELECT verify('fresh_k'), key_type, key_bits FROM harmonia_metapage('fresh_k');
ALTER TABLE fresh ALTER k TYPE float8 USING -k;
SELECT verify('fresh_k'), key_type, key_bits FROM harmonia_metapage('fresh_k');
ALTER TABLE fresh ALTER k TYPE timestamp USING '2000-01-01'::timestamp + k * interval '1 day';
SELECT verify('fresh_k'), key_type, key_bits FROM harmonia_metapage('fresh_k');
SET timezone = 'UTC';
ALTER TABLE fresh ALTER k TYPE timestamptz;
SELECT verify('fresh_k'), key_type, key_bits FROM harmonia_metapage('fresh_k');
RESET timezone;
ALTER TABLE fresh ALTER k TYPE int USING extract(day FROM k)::int, ADD l int DEFAULT 5;
SELECT verify('fresh_k'), key_type, key_bits FROM harmonia_metapage('fresh_k');
-- To a domain without constraint and back: the index is kept
CREATE DOMAIN number AS int;
SELECT pg_relation_filenode('fresh_k') AS before \gset
ALTER TABLE fresh ALTER k TYPE number;
SELECT pg_relation_filenode('fresh_k') = :before AS kept, verify('fresh_k'), key_type FROM harmonia_metapage('fresh_k');
ALTER TABLE fresh ALTER k TYPE int;
SELECT pg_relation_filenode('fresh_k') = :before AS kept, verify('fresh_k'), key_type FROM harmonia_metapage('fresh_k');
ALTER TABLE fresh ADD CONSTRAINT small CHECK (k < 1000), ALTER k SET STATISTICS 500, DROP l;
SELECT verify('fresh_k');
ALTER TABLE fresh RENAME k TO key;
ALTER INDEX fresh_k RENAME TO fresh_key;
SELECT verify('fresh_key');
ALTER TABLE fresh DROP key;
SELECT to_regclass('fresh_key');

--
-- Tablespaces
--
SET allow_in_place_tablespaces = on;
CREATE TABLESPACE regress_harmonia LOCATION '';
CREATE INDEX o_id ON o USING harmonia (id) TABLESPACE regress_harmonia;
SELECT verify('o_id'), spcname FROM pg_class c JOIN pg_tablespace s ON s.oid = reltablespace WHERE c.oid = 'o_id'::regclass;
ALTER INDEX o_k SET TABLESPACE regress_harmonia;
INSERT INTO o SELECT i, i FROM generate_series(-3000, 0) i;
SELECT verify('o_k'), verify('o_id');
BEGIN;
INSERT INTO o SELECT i, i FROM generate_series(5001, 6000) i;
ALTER INDEX o_k SET TABLESPACE pg_default;
INSERT INTO o SELECT i, i FROM generate_series(6001, 7000) i;
ROLLBACK;
SELECT verify('o_k');
REINDEX (TABLESPACE pg_default) INDEX o_k;
REINDEX (CONCURRENTLY, TABLESPACE pg_default) INDEX o_id;
SELECT verify('o_k'), verify('o_id');
DROP TABLESPACE regress_harmonia;
RESET allow_in_place_tablespaces;

--
-- CLUSTER
--
CREATE FUNCTION disorder(tab regclass, by text) RETURNS bigint LANGUAGE plpgsql
AS $$
DECLARE
	n bigint;
BEGIN
	EXECUTE format('SELECT count(*) FROM (SELECT k, row_number() OVER (ORDER BY ctid) AS n FROM %s) a
		JOIN (SELECT k, row_number() OVER (ORDER BY %s) AS n FROM %1$s) b USING (n) WHERE a.k IS DISTINCT FROM b.k', tab, by) INTO n;
	RETURN n;
END $$;
TRUNCATE o;
INSERT INTO o SELECT CASE WHEN i % 10 <> 0 THEN shuffle(i) % 2000 END, i FROM generate_series(1, 5000) i;
CLUSTER o USING o_k;
SELECT verify('o_k'), verify('o_id'), disorder('o', 'k');
DROP INDEX o_k;
CREATE INDEX o_k ON o USING harmonia (k DESC NULLS LAST);
CLUSTER o USING o_k;
SELECT verify('o_k'), disorder('o', 'k DESC NULLS LAST');
-- Again, by the index that CLUSTER has recorded; with dead and recently dead rows
DELETE FROM o WHERE id % 3 = 0;
BEGIN;
UPDATE o SET k = k + 1 WHERE id % 4 = 0;
INSERT INTO o SELECT i, i FROM generate_series(1, 1000) i;
DELETE FROM o WHERE id % 5 = 0;
CLUSTER o;
SELECT verify('o_k'), verify('o_id');
COMMIT;
SELECT verify('o_k'), verify('o_id');
CLUSTER o;
SELECT disorder('o', 'k DESC NULLS LAST');
CREATE INDEX o_part ON o USING harmonia (k) WHERE id > 5;
CLUSTER o USING o_part;
ALTER TABLE o CLUSTER ON o_id;
CLUSTER o;
SELECT disorder('o', 'id'), verify('o_k'), verify('o_part');

--
-- What catalog functions show
--
CREATE TABLE shown (k int, id int);
CREATE INDEX shown_k ON shown USING harmonia (k);
CREATE INDEX shown_options ON shown USING harmonia (k DESC NULLS LAST) WITH (fanout = 32, fillfactor = 70) WHERE id > 0;
CREATE INDEX ON shown USING harmonia ((k % 10) int4_ops NULLS FIRST);
COMMENT ON INDEX shown_k IS 'a comment';
\d shown
\d shown_options
SELECT pg_get_indexdef(indexrelid) FROM pg_index WHERE indrelid = 'shown'::regclass ORDER BY 1;
SELECT property, pg_index_column_has_property('shown_k', 1, property) AS "column", pg_index_has_property('shown_k', property) AS index,
		pg_indexam_has_property(oid, property) AS method
	FROM pg_am, unnest(ARRAY['asc', 'desc', 'nulls_first', 'nulls_last', 'orderable', 'distance_orderable', 'returnable', 'search_array', 'search_nulls',
		'clusterable', 'index_scan', 'bitmap_scan', 'backward_scan', 'can_order', 'can_unique', 'can_multi_col', 'can_exclude', 'can_include']) property
	WHERE amname = 'harmonia';

-- Indexes without order say so: on texts, with a cut field, of NULLs that have no value of their own
CREATE TABLE sorted (i int, b bigint, c bigint NOT NULL, s text COLLATE "C", u uuid);
CREATE INDEX sorted_b ON sorted USING harmonia (b DESC) INCLUDE (i);
CREATE INDEX sorted_ib ON sorted USING harmonia (i, b);
CREATE INDEX unsorted_ib ON sorted USING harmonia (i, b) INCLUDE (i);
CREATE INDEX sorted_cc ON sorted USING harmonia (c, (c));
CREATE INDEX sorted_u ON sorted USING harmonia (u);
CREATE INDEX unsorted_s ON sorted USING harmonia (s);
CREATE INDEX unsorted_c ON sorted USING harmonia (s text_c_ops);
CREATE INDEX unsorted_iu ON sorted USING harmonia (i, u);
CREATE INDEX unsorted_bc ON sorted USING harmonia (b, c);
SELECT c.relname, pg_index_has_property(c.oid, 'clusterable') AS clusterable, n AS "column",
		string_agg(property || '=' || pg_index_column_has_property(c.oid, n, property)::text, ' ' ORDER BY p) AS properties
	FROM pg_index JOIN pg_class c ON c.oid = indexrelid, generate_series(1, indnatts) n,
		unnest(ARRAY['orderable', 'asc', 'desc', 'nulls_first', 'nulls_last', 'returnable']) WITH ORDINALITY properties(property, p)
	WHERE indrelid = 'sorted'::regclass GROUP BY c.oid, relname, n ORDER BY relname, n;
DROP TABLE sorted;
SELECT phase, pg_indexam_progress_phasename(oid, phase) FROM pg_am, generate_series(0, 6) phase WHERE amname = 'harmonia';
