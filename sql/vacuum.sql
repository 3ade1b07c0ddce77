--
-- VACUUM removes entries, rows are still found, and space is reused
--
CREATE SCHEMA vacuum_test;
SET search_path = vacuum_test, public;
\getenv srcdir PG_ABS_SRCDIR
\set compare :srcdir '/sql/include/compare.sql'
\i :compare

-- How many entries belong to no row.
CREATE FUNCTION superfluous(tab regclass, index regclass) RETURNS bigint LANGUAGE plpgsql
AS $$
DECLARE
	n bigint;
BEGIN
	EXECUTE format('SELECT entries - (SELECT count(*) FROM %s) FROM harmonia_index_info(%L)', tab, index) INTO n;
	RETURN n;
END $$;

--
-- Patterns of deletion, in indexes of different shapes
--
CREATE TABLE t (k int, id int) WITH (autovacuum_enabled = off);
CREATE PROCEDURE refill(fill text) LANGUAGE plpgsql
AS $$
BEGIN
	TRUNCATE t;
	EXECUTE 'INSERT INTO t SELECT ' || fill || ', i FROM generate_series(1, 20000) i';
	REINDEX INDEX t_k;
	-- Split leaves, too.
	EXECUTE 'INSERT INTO t SELECT ' || fill || ', i FROM generate_series(20001, 26000) i';
END $$;
CREATE INDEX t_k ON t USING harmonia (k) WITH (fanout = 8, fillfactor = 30);

-- Unique keys in order
CALL refill('i');
DELETE FROM t WHERE k % 10 = 0;
:vacuum t;
SELECT superfluous('t', 't_k'), verify('t_k');
DELETE FROM t WHERE k BETWEEN 5000 AND 15000;
:vacuum t;
SELECT superfluous('t', 't_k'), verify('t_k');
DELETE FROM t WHERE k < 2000;
:vacuum t;
SELECT superfluous('t', 't_k'), verify('t_k');
DELETE FROM t WHERE k > 17000;
:vacuum t;
SELECT superfluous('t', 't_k'), verify('t_k');
SELECT leaf_pages AS before FROM harmonia_index_info('t_k') \gset
DELETE FROM t WHERE k % 100 <> 1;
:vacuum t;
SELECT superfluous('t', 't_k'), verify('t_k');
-- What is left of the leaves is put together
SELECT leaf_pages < :before / 5 AS fewer_leaves FROM harmonia_index_info('t_k');
DELETE FROM t;
:vacuum t;
SELECT superfluous('t', 't_k'), verify('t_k');
INSERT INTO t SELECT shuffle(i), i FROM generate_series(1, 5000) i;
SELECT superfluous('t', 't_k'), verify('t_k');

-- Keys without order
CALL refill('shuffle(i)');
DELETE FROM t WHERE id % 2 = 0;
:vacuum t;
SELECT superfluous('t', 't_k'), verify('t_k');
DELETE FROM t WHERE k < 1000000000;
:vacuum t;
SELECT superfluous('t', 't_k'), verify('t_k');

-- Many rows with the same key, so that entries differ only in their TIDs
CALL refill('i % 3');
DELETE FROM t WHERE k = 1;
:vacuum t;
SELECT superfluous('t', 't_k'), verify('t_k');
DELETE FROM t WHERE id % 7 <> 0;
:vacuum t;
SELECT superfluous('t', 't_k'), verify('t_k');

-- NULLs
CALL refill('CASE WHEN i % 2 = 0 THEN i END');
DELETE FROM t WHERE k IS NULL AND id % 3 = 0;
:vacuum t;
SELECT superfluous('t', 't_k'), verify('t_k');
DELETE FROM t WHERE k IS NULL;
:vacuum t;
SELECT superfluous('t', 't_k'), verify('t_k');
INSERT INTO t SELECT NULL, i FROM generate_series(1, 3000) i;
DELETE FROM t WHERE k IS NOT NULL;
:vacuum t;
SELECT superfluous('t', 't_k'), verify('t_k');

-- New rows with the TIDs of removed ones
CALL refill('i');
DELETE FROM t WHERE k % 2 = 0;
:vacuum t;
INSERT INTO t SELECT -i, i FROM generate_series(1, 13000) i;
SELECT superfluous('t', 't_k'), verify('t_k');
UPDATE t SET k = k + 1;
:vacuum t;
UPDATE t SET k = k - 1 WHERE k % 3 = 0;
:vacuum t;
SELECT superfluous('t', 't_k'), verify('t_k');

--
-- INDEX_CLEANUP
--
DELETE FROM t WHERE k % 5 = 0;
:vacuum (INDEX_CLEANUP off) t;
SELECT superfluous('t', 't_k') > 0 AS still_there, verify('t_k');
INSERT INTO t SELECT i, i FROM generate_series(1, 1000) i;
SELECT verify('t_k');
:vacuum (INDEX_CLEANUP on) t;
SELECT superfluous('t', 't_k'), verify('t_k');
-- Too few dead rows for index cleanup
DELETE FROM t WHERE ctid IN (SELECT ctid FROM t ORDER BY ctid LIMIT 3);
:vacuum (INDEX_CLEANUP auto) t;
SELECT superfluous('t', 't_k') > 0 AS still_there, verify('t_k');
:vacuum (INDEX_CLEANUP on) t;
SELECT superfluous('t', 't_k'), verify('t_k');
-- Nothing to do
:vacuum t;
:vacuum (FREEZE) t;
:vacuum (DISABLE_PAGE_SKIPPING, INDEX_CLEANUP on) t;
SELECT superfluous('t', 't_k'), verify('t_k');
SELECT reltuples = (SELECT count(*) FROM t) AS counted FROM pg_class WHERE oid = 't_k'::regclass;

-- Several passes, because there is little memory
CREATE TABLE many (k int) WITH (autovacuum_enabled = off);
INSERT INTO many SELECT i % 1000 FROM generate_series(1, 200000) i;
CREATE INDEX many_k ON many USING harmonia (k);
DELETE FROM many WHERE k % 10 <> 0;
SET maintenance_work_mem = '1MB';
:vacuum many;
SELECT superfluous('many', 'many_k'), verify('many_k');
RESET maintenance_work_mem;
DROP TABLE many;

-- Several indexes in parallel
CALL refill('shuffle(i)');
CREATE INDEX t_id ON t USING harmonia (id);
CREATE INDEX t_sum ON t USING harmonia ((k / 2 + id)) WHERE id > 100;
SET min_parallel_index_scan_size = 0;
DELETE FROM t WHERE id % 3 = 0;
:vacuum (PARALLEL 2) t;
SELECT superfluous('t', 't_k'), superfluous('t', 't_id'), verify('t_k'), verify('t_id'), verify('t_sum');
-- They are truncated, too
SELECT pg_relation_size('t_k') AS before_k, pg_relation_size('t_id') AS before_id \gset
DELETE FROM t WHERE id % 30 <> 1;
:vacuum (PARALLEL 2) t;
SELECT pg_relation_size('t_k') < :before_k / 2 AS k_is_smaller, pg_relation_size('t_id') < :before_id / 2 AS id_is_smaller;
SELECT relname, relpages = pg_relation_size(oid) / current_setting('block_size')::int AS pages_are_right
	FROM pg_class WHERE oid IN ('t_k'::regclass, 't_id'::regclass) ORDER BY relname;
RESET min_parallel_index_scan_size;
DROP INDEX t_id, t_sum;
CALL refill('shuffle(i)');
DELETE FROM t WHERE id % 3 = 0;

--
-- VACUUM FULL
--
SELECT pg_relation_size('t_k') AS before \gset
DELETE FROM t WHERE id % 5 <> 0;
:vacuum FULL t;
SELECT superfluous('t', 't_k'), verify('t_k'), pg_relation_size('t_k') < :before / 2 AS smaller;
BEGIN;
DELETE FROM t WHERE id % 2 = 0;
INSERT INTO t SELECT i, i FROM generate_series(1, 1000) i;
ROLLBACK;
:vacuum (FULL, FREEZE, ANALYZE) t;
SELECT superfluous('t', 't_k'), verify('t_k'), shadowed_segments FROM harmonia_index_info('t_k');

-- Other kinds of tables
CREATE TEMP TABLE temporary (k int);
CREATE INDEX temporary_k ON temporary USING harmonia (k);
INSERT INTO temporary SELECT shuffle(i) FROM generate_series(1, 10000) i;
DELETE FROM temporary WHERE k % 3 = 0;
:vacuum temporary;
SELECT superfluous('temporary', 'temporary_k'), verify('temporary_k');
CREATE UNLOGGED TABLE unlogged (k int);
CREATE INDEX unlogged_k ON unlogged USING harmonia (k DESC NULLS LAST);
INSERT INTO unlogged SELECT shuffle(i) FROM generate_series(1, 10000) i;
DELETE FROM unlogged WHERE k % 3 = 0;
:vacuum unlogged;
SELECT superfluous('unlogged', 'unlogged_k'), verify('unlogged_k');

--
-- Space is reused: after a few rounds the index does not grow
--
CREATE FUNCTION pages(index regclass) RETURNS bigint LANGUAGE sql AS 'SELECT pages FROM harmonia_index_info(index)';
CREATE TABLE cycle (k int, id int) WITH (autovacuum_enabled = off);
CREATE INDEX cycle_k ON cycle USING harmonia (k) WITH (fanout = 8);
CREATE TABLE sizes (kind text, cycle int, pages bigint);

CREATE FUNCTION rounds(kind text, n int, VARIADIC commands text[]) RETURNS SETOF text LANGUAGE sql
AS $$
	SELECT replace(command, '$', round::text) FROM generate_series(1, n) round,
		unnest(commands || ARRAY['CALL settle()', 'VACUUM cycle', format('INSERT INTO sizes VALUES (%L, $, pages(''cycle_k''))', kind)])
			WITH ORDINALITY u (command, i) ORDER BY round, i
$$;
\set ECHO none
SELECT rounds('window', 12, 'INSERT INTO cycle SELECT $ * 5000 + i, i FROM generate_series(1, 5000) i',
	'DELETE FROM cycle WHERE k <= ($ - 1) * 5000') \gexec
TRUNCATE cycle;
SELECT rounds('all', 8, 'INSERT INTO cycle SELECT shuffle(i), i FROM generate_series(1, 10000) i', 'DELETE FROM cycle') \gexec
TRUNCATE cycle;
SELECT rounds('some', 20, 'INSERT INTO cycle SELECT shuffle($ * 4000 + i), i FROM generate_series(1, 4000) i',
	'DELETE FROM cycle WHERE (id + $) % 3 = 0') \gexec
TRUNCATE cycle;
INSERT INTO cycle SELECT i, i FROM generate_series(1, 10000) i;
SELECT rounds('update', 8, 'UPDATE cycle SET k = k + 1000') \gexec
TRUNCATE cycle;
SELECT rounds('same', 8, 'INSERT INTO cycle SELECT 7, i FROM generate_series(1, 10000) i', 'DELETE FROM cycle WHERE id % 10 <> $ % 10') \gexec
\set ECHO all
SELECT kind, max(pages) FILTER (WHERE cycle > n / 2) <= max(pages) FILTER (WHERE cycle <= n / 2) * 1.25 AS bounded
	FROM (SELECT *, count(*) OVER (PARTITION BY kind) AS n FROM sizes) s GROUP BY kind ORDER BY kind;
SELECT verify('cycle_k'), lost_pages FROM harmonia_index_info('cycle_k');

--
-- A table with vacuum_truncate = off keeps the free blocks at the end of its indexes
--
CREATE TABLE kept (k int) WITH (autovacuum_enabled = off, vacuum_truncate = off);
CREATE INDEX kept_k ON kept USING harmonia (k);
INSERT INTO kept SELECT i FROM generate_series(1, 100000) i;
SELECT pg_relation_size('kept_k') AS before \gset
DELETE FROM kept;
:vacuum kept;
SELECT pg_relation_size('kept_k') >= :before AS kept_blocks;
ALTER TABLE kept RESET (vacuum_truncate);
:vacuum kept;
SELECT pg_relation_size('kept_k') < :before AS kept_blocks_no_longer, verify('kept_k');
-- What VACUUM is told comes before that
INSERT INTO kept SELECT i FROM generate_series(1, 100000) i;
SELECT pg_relation_size('kept_k') AS before \gset
DELETE FROM kept;
VACUUM (INDEX_CLEANUP on, TRUNCATE on, TRUNCATE off) kept;
SELECT pg_relation_size('kept_k') >= :before AS kept_blocks;
ALTER TABLE kept SET (vacuum_truncate = off);
VACUUM (INDEX_CLEANUP on, TRUNCATE) kept;
SELECT pg_relation_size('kept_k') < :before AS kept_blocks_no_longer, verify('kept_k');

--
-- Leaves that hold one key each have more slots than others.  A movement that keeps room does not make more leaves of
-- them than there were
--
CREATE TABLE few (k int) WITH (autovacuum_enabled = off);
CREATE INDEX few_k ON few USING harmonia (k);
SET harmonia.batch_inserts = off;
INSERT INTO few SELECT 1 + (i * 7919) % 60 FROM generate_series(1, 60000) i;
RESET harmonia.batch_inserts;
SELECT leaf_pages AS before FROM harmonia_index_info('few_k') \gset
DELETE FROM few WHERE ctid = '(0,1)';
:vacuum (INDEX_CLEANUP on) few;
SELECT movements, leaf_pages <= :before + :before / 16 AS no_more_leaves, leaf_fill < 89 AS room FROM harmonia_index_info('few_k');
SELECT harmonia_check('few_k', true);
DROP TABLE few;
