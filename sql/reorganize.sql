-- Movement on demand: harmonia_reorganize()
-- Free blocks at the end of the file are given back to the file system.

\getenv srcdir PG_ABS_SRCDIR
\set settle :srcdir '/sql/include/settle.sql'
\i :settle

CREATE TABLE moved (k int, v int);
INSERT INTO moved SELECT (i * 7919) % 100003, i FROM generate_series(1, 100000) i;
CREATE INDEX moved_k ON moved USING harmonia (k) WITH (fillfactor = 100);
CREATE INDEX moved_bt ON moved (k);

-- nothing to do right after a build
SELECT harmonia_reorganize('moved_k');
SELECT movements, last_movement FROM harmonia_index_info('moved_k');

CREATE FUNCTION moved_since(before timestamptz) RETURNS boolean LANGUAGE sql
AS $$SELECT last_movement BETWEEN before AND clock_timestamp() FROM harmonia_index_info('moved_k')$$;

-- splits shadow segments, movement makes them pure again
INSERT INTO moved SELECT (i * 7919) % 100003, -i FROM generate_series(1, 30000) i;
SELECT shadowed_segments > 0 AS shadowed, auxiliary_pages > 0 AS auxiliary
FROM harmonia_index_info('moved_k');
SELECT clock_timestamp() AS before \gset
SELECT harmonia_reorganize('moved_k') > 0 AS moved, moved_since(:'before');
SELECT shadowed_segments, auxiliary_pages, entries, lost_pages
FROM harmonia_index_info('moved_k');
SELECT harmonia_reorganize('moved_k');
SELECT harmonia_check('moved_k', true);

-- the answers are the same, forwards and backwards
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET enable_sort = off;
BEGIN;
CREATE TEMP TABLE by_btree AS SELECT row_number() OVER (ORDER BY k, v) n, k, v FROM moved;
DROP INDEX moved_bt;
EXPLAIN (COSTS OFF) SELECT k FROM moved ORDER BY k DESC;
CREATE TEMP TABLE by_harmonia AS SELECT k FROM moved ORDER BY k DESC;
SELECT count(*) FROM (SELECT k, count(*) FROM by_btree GROUP BY k
	EXCEPT SELECT k, count(*) FROM by_harmonia GROUP BY k) difference;
ROLLBACK;

-- a cursor that is open meanwhile goes on from its position
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT k FROM moved WHERE k >= 500 ORDER BY k;
FETCH 3 FROM c;
INSERT INTO moved SELECT (i * 7919) % 100003, 0 FROM generate_series(1, 40000) i;
SELECT harmonia_reorganize('moved_k') > 0 AS moved;
MOVE 40 FROM c;
FETCH 3 FROM c;
FETCH BACKWARD 3 FROM c;
CLOSE c;
ROLLBACK;
SELECT harmonia_check('moved_k', true);

-- space that becomes free at the end of the file is given back
CREATE TEMP TABLE size_before AS SELECT pg_relation_size('moved_k') AS bytes;
DELETE FROM moved WHERE k > 1000;
SELECT clock_timestamp() AS before \gset
SET datestyle = 'SQL, DMY';		-- times are shown the same in each style
SELECT moved_since(:'before');
:vacuum moved;
SELECT moved_since(:'before');
RESET datestyle;
SELECT harmonia_reorganize('moved_k') >= 0 AS done;
SELECT bytes > 4 * pg_relation_size('moved_k') AS smaller FROM size_before;
SELECT harmonia_check('moved_k', true);
INSERT INTO moved SELECT i, i FROM generate_series(1, 50000) i;
SELECT harmonia_check('moved_k', true);
RESET enable_seqscan;
RESET enable_bitmapscan;
RESET enable_sort;

-- an empty table
TRUNCATE moved;
SELECT harmonia_reorganize('moved_k');
SELECT movements, last_movement FROM harmonia_index_info('moved_k');

-- a table filled at one end and emptied at the other stays small
CREATE TABLE sliding (k bigint);
CREATE INDEX sliding_k ON sliding USING harmonia (k);
INSERT INTO sliding SELECT i FROM generate_series(1, 20000) i;
INSERT INTO sliding SELECT 20000 + i FROM generate_series(1, 20000) i;
DELETE FROM sliding WHERE k <= 20000;
:vacuum sliding;
INSERT INTO sliding SELECT 40000 + i FROM generate_series(1, 20000) i;
DELETE FROM sliding WHERE k <= 40000;
:vacuum sliding;
INSERT INTO sliding SELECT 60000 + i FROM generate_series(1, 20000) i;
DELETE FROM sliding WHERE k <= 60000;
:vacuum sliding;
INSERT INTO sliding SELECT 80000 + i FROM generate_series(1, 20000) i;
DELETE FROM sliding WHERE k <= 80000;
:vacuum sliding;
SELECT entries, pages < 200 AS few_pages, segments < 4 AS few_segments
FROM harmonia_index_info('sliding_k');
SELECT harmonia_check('sliding_k', true);

-- what is refused
CREATE TABLE parted (k int) PARTITION BY RANGE (k);
CREATE INDEX parted_k ON parted USING harmonia (k);
SELECT harmonia_reorganize('moved');
SELECT harmonia_reorganize('moved_bt');
SELECT harmonia_reorganize('parted_k');

-- roles that may not call it
CREATE ROLE regress_harmonia_reader;
SET ROLE regress_harmonia_reader;
SELECT harmonia_reorganize('moved_k');
RESET ROLE;
DROP ROLE regress_harmonia_reader;
DROP TABLE moved, sliding, parted;
DROP FUNCTION moved_since;
DROP PROCEDURE settle;
