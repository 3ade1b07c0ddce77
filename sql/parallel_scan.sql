--
-- Parallel index scans and index-only scans
--
SET client_min_messages = warning;
CREATE SCHEMA parallel_scan;
SET search_path = parallel_scan, public;
\getenv srcdir PG_ABS_SRCDIR
\set compare :srcdir '/sql/include/compare.sql'
\i :compare

CREATE TABLE t (k int, id int NOT NULL, d int, u uuid, v text COLLATE "C", at timestamptz) WITH (autovacuum_enabled = off, parallel_workers = 3);
INSERT INTO t SELECT nullif(shuffle(i) % 5000, 77), i, CASE WHEN i % 10 > 0 THEN shuffle(i * 3) % 20 END, md5(i::text)::uuid, 'v' || i % 3000, timestamptz '2026-01-01' + i * interval '1 minute'
	FROM generate_series(1, 20000) i;
INSERT INTO t SELECT 4711, 20000 + i, 5 FROM generate_series(1, 3000) i;
CREATE INDEX t_k ON t USING harmonia (k) WITH (fillfactor = 30);
CREATE INDEX t_d_id ON t USING harmonia (d DESC, id);
CREATE INDEX t_u ON t USING harmonia (u) WITH (fillfactor = 30);
CREATE INDEX t_v ON t USING harmonia (v text_c_ops);
CREATE INDEX t_at ON t USING harmonia (at DESC NULLS LAST) WITH (fillfactor = 30);
-- Leaves that splits have made, dead entries, and pages that are not all-visible
INSERT INTO t SELECT shuffle(i) % 5000, 30000 + i, shuffle(i) % 20, md5((-i)::text)::uuid, 'w' || i, timestamptz '2026-01-05' FROM generate_series(1, 5000) i;
DELETE FROM t WHERE id % 50 = 7;
VACUUM ANALYZE t;
UPDATE t SET d = 19 WHERE id % 100 = 3;
DELETE FROM t WHERE id % 50 = 8;

SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET min_parallel_index_scan_size = 0;
SET max_parallel_workers_per_gather = 3;
SET cpu_tuple_cost = 1;
SET harmonia.enable_lookup_scan = off;
SET harmonia.enable_lookup_join = off;

-- The answer of one process and a sequential scan, compared with that of several processes and each kind of scan; with ORDER BY
-- the order counts.  Says which plans were parallel.
CREATE FUNCTION compare_parallel(VARIADIC queries text[])
	RETURNS TABLE (query text, n bigint, index text, "only" text) LANGUAGE plpgsql AS $$
DECLARE
	wanted record;
	kind text;
	nodes text;
	result text;
BEGIN
	FOR i IN 1 .. cardinality(queries) LOOP
		query := queries[i];
		PERFORM set_config('max_parallel_workers_per_gather', '0', true), set_config('enable_sort', 'on', true);
		CALL use('seq');
		wanted := digest(query, query ~ 'ORDER BY');
		n := wanted.n;
		PERFORM set_config('max_parallel_workers_per_gather', '3', true), set_config('enable_sort', 'off', true),
			set_config('parallel_leader_participation', CASE WHEN i % 2 = 0 THEN 'off' ELSE 'on' END, true);
		FOREACH kind IN ARRAY '{index,only}'::text[] LOOP
			CALL use(kind);
			nodes := parallel_nodes(query);
			result := concat_ws(', ', CASE WHEN digest(query, query ~ 'ORDER BY') = wanted THEN 'same' ELSE 'DIFFERS' END, nodes);
			IF kind = 'index' THEN
				index := result;
			ELSE
				"only" := result;
			END IF;
		END LOOP;
		RETURN NEXT;
	END LOOP;
END $$;
CREATE FUNCTION parallel_nodes(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (FORMAT JSON) ' || query INTO plan;
	RETURN (SELECT string_agg(DISTINCT replace(node ->> 'Node Type', ' Scan', ''), ', ')
		FROM jsonb_path_query(plan::jsonb, 'strict $.**') node
		WHERE node ->> 'Node Type' LIKE 'Index%' AND (node ->> 'Parallel Aware')::boolean);
END $$;
\pset format unaligned
SELECT * FROM compare_parallel('SELECT k, id FROM t WHERE k IS NOT NULL', 'SELECT k FROM t WHERE k BETWEEN 100 AND 4000', 'SELECT count(*), sum(id) FROM t WHERE k > 4000 OR k < 10',
	'SELECT k FROM t WHERE k = 4711', 'SELECT k FROM t WHERE k < -5', 'SELECT k FROM t WHERE k IS NULL', 'SELECT k FROM t WHERE k = ANY (ARRAY(SELECT generate_series(1, 5000, 3)))',
	'SELECT k FROM t WHERE k >= 0 ORDER BY k', 'SELECT k FROM t ORDER BY k DESC', 'SELECT k FROM t WHERE k >= 0 ORDER BY k LIMIT 700', 'SELECT DISTINCT k FROM t', 'SELECT k, count(*) FROM t GROUP BY k',
	'SELECT d, id FROM t ORDER BY d DESC, id', 'SELECT d, id FROM t WHERE d = 5', 'SELECT d, id FROM t WHERE d IN (3, 19) AND id % 7 = 0', 'SELECT d, id FROM t WHERE d > 2 AND id BETWEEN 500 AND 900',
	'SELECT id FROM t WHERE (d, id) > (7, 5000)', 'SELECT u FROM t WHERE u > ''40000000-0000-0000-0000-000000000000''', 'SELECT u FROM t ORDER BY u DESC', 'SELECT id FROM t WHERE v >= ''v2'' AND v < ''v3''',
	'SELECT at FROM t ORDER BY at DESC NULLS LAST', 'SELECT at FROM t ORDER BY at NULLS FIRST', 'SELECT at, k FROM t WHERE at < ''2026-01-04'' AND k % 2 = 0',
	'SELECT a.id, b.id FROM t a JOIN t b ON b.u = a.u WHERE a.k < 900', 'SELECT count(*) FROM t a JOIN t b USING (k) WHERE a.k < 4000');
\pset format aligned

-- One scan for each process, and again for each outer row
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET enable_material = off;
SELECT * FROM plan('SELECT * FROM (VALUES (1), (2), (3)) x(n) LEFT JOIN (SELECT count(k) FROM t WHERE k > 500) s ON true');
SELECT * FROM (VALUES (1), (2), (3)) x(n) LEFT JOIN (SELECT count(k) FROM t WHERE k > 500) s ON true;
RESET enable_material;

-- No entries, and one leaf for all processes
CREATE TABLE few (k bigint) WITH (autovacuum_enabled = off, parallel_workers = 3);
CREATE INDEX few_k ON few USING harmonia (k);
SELECT * FROM plan('SELECT count(k) FROM few WHERE k > 0');
SELECT count(k) FROM few WHERE k > 0;
INSERT INTO few VALUES (1), (2), (NULL);
SELECT count(k), sum(k) FROM few WHERE k > 0;

-- A statement that has queued entries finds them, whichever process looks for them
CREATE FUNCTION seen() RETURNS bigint LANGUAGE sql VOLATILE AS 'SELECT count(k) FROM few WHERE k > 100';
INSERT INTO few SELECT CASE WHEN g % 100 = 0 THEN 100000 + seen() ELSE 100 + g END FROM generate_series(1, 1000) g;
SELECT k - 100000 AS seen FROM few WHERE k >= 100000 ORDER BY k;

DROP SCHEMA parallel_scan CASCADE;
