--
-- Comparisons of rows: conditions on their first columns that follow from them
--
SET client_min_messages = warning;
CREATE SCHEMA row_comparisons;
SET search_path = row_comparisons, public;
\getenv srcdir PG_ABS_SRCDIR
\set compare :srcdir '/sql/include/compare.sql'
\i :compare

CREATE TABLE t (k int, id int, at timestamptz, v text COLLATE "C") WITH (autovacuum_enabled = off);
INSERT INTO t SELECT nullif(shuffle(i) % 200, 77), CASE WHEN i % 40 > 0 THEN shuffle(i * 3) % 5000 END, timestamptz '2026-01-01' + (i / 3) * interval '1 hour', 'v' || i % 500
	FROM generate_series(1, 6000) i;
CREATE INDEX t_k_id ON t USING harmonia (k, id);
CREATE INDEX t_at ON t USING harmonia (at);
CREATE INDEX t_v ON t USING harmonia (v text_c_ops);
:vacuum ANALYZE t;

-- All operators, on both sides, with NULLs, other types, and conditions that never hold
SELECT * FROM compare('t', '(k, id) > (50, 2000)', '(k, id) >= (50, 2000)', '(k, id) < (50, 2000)', '(k, id) <= (50, 2000)', '(50, 2000) < (k, id)', '(50, 2000) >= (k, id)',
	'(k, id) > (50, NULL)', '(k, id) > (NULL, 2000)', '(k, id) > (150::bigint, 7::smallint)', '(k, id) < (-1, 5)', '(k, id) > (199, 4990)', '(k, id) > (-1, 0) AND (k, id) < (3, 2500)',
	'(k, id) >= (77, 0) AND (k, id) <= (77, 5000)', 'k = 50 AND (id, v) > (2000, ''v3'')', 'k BETWEEN 20 AND 30 AND (k, id) > (25, 2500)', '(k, id, v) < (3, 2500, ''v4'')',
	'(k + 0, id) > (50, 2000)', '(k, id) > (id, 3)', '(k, id) <> (50, 2000) AND k < 3', '(at, id) < (''2026-01-03 05:00'', 100)', '(v, id) >= (''v498'', 2000)', '((k, id) > (190, 2000) OR k = 3)',
	'NOT (k, id) > (5, 2000)', '(k, id) > (195, 2000) AND (v, id) < (''v3'', 0)');

-- A page of rows behind the last one of the page before
CREATE TABLE u (k int NOT NULL, id int NOT NULL) WITH (autovacuum_enabled = off);
INSERT INTO u SELECT DISTINCT k, id FROM t WHERE k IS NOT NULL AND id IS NOT NULL;
CREATE INDEX u_k_id ON u USING harmonia (k, id);
:vacuum ANALYZE u;
SELECT * FROM plan('SELECT k, id FROM u WHERE (k, id) > (50, 2000) ORDER BY k, id LIMIT 5');
-- The condition excludes few rows: all that come before
SELECT * FROM plan('SELECT k, id FROM u WHERE (k, id) > (3, 2000) ORDER BY k, id LIMIT 5');
SELECT * FROM plan('SELECT k, id FROM u WHERE (195, 2000) >= (k, id) AND k < 198 ORDER BY k DESC, id DESC LIMIT 5');
SELECT * FROM plan('SELECT at, id FROM t WHERE (at, id) < (''2026-02-01'', 100) ORDER BY at DESC LIMIT 4');
-- The condition is no filter of other scans
SELECT * FROM plan('SELECT v FROM t WHERE (k, id) > (50, 2000) AND at = ''2026-02-01''');
CREATE FUNCTION pages(size int) RETURNS TABLE (k int, id int) LANGUAGE plpgsql AS $$
DECLARE
	last_k int = -1;
	last_id int = -1;
	n int;
BEGIN
	LOOP
		n := 0;
		FOR k, id IN SELECT u.k, u.id FROM u WHERE (u.k, u.id) > (last_k, last_id) ORDER BY u.k, u.id LIMIT size LOOP
			n := n + 1;
			last_k := k;
			last_id := id;
			RETURN NEXT;
		END LOOP;
		EXIT WHEN n < size;
	END LOOP;
END $$;
SET plan_cache_mode = force_generic_plan;
SELECT (SELECT array_agg(k || ' ' || id) FROM pages(97)) = (SELECT array_agg(k || ' ' || id ORDER BY k, id) FROM u) AS "pages make the table";
RESET plan_cache_mode;

-- A sample has no index scan
SET enable_seqscan = off;
SELECT * FROM plan('SELECT count(*) FROM u TABLESAMPLE BERNOULLI (0) WHERE (k, id) > (190, 2000)');
SELECT count(*) FROM u TABLESAMPLE BERNOULLI (0) WHERE (k, id) > (190, 2000);
RESET enable_seqscan;

-- Partitions, a partial index, and rows that are changed
CREATE TABLE p (k int, id int) PARTITION BY RANGE (k);
CREATE TABLE p_1 PARTITION OF p FOR VALUES FROM (0) TO (100) WITH (autovacuum_enabled = off);
CREATE TABLE p_2 PARTITION OF p FOR VALUES FROM (100) TO (200) WITH (autovacuum_enabled = off);
INSERT INTO p SELECT k, id FROM t WHERE k IS NOT NULL;
CREATE INDEX p_1_k ON p_1 USING harmonia (k, id);
CREATE INDEX p_2_k ON p_2 USING harmonia (k) WHERE id > 1000;
:vacuum ANALYZE p;
BEGIN;
CALL use('index');
SELECT * FROM plan('SELECT count(*) FROM p WHERE (k, id) > (97, 100) AND (k, id) < (103, 100) AND id > 1000');
SELECT count(*) FROM p WHERE (k, id) > (97, 100) AND (k, id) < (103, 100) AND id > 1000;
SELECT * FROM plan('UPDATE t SET v = ''x'' WHERE (k, id) < (2, 100)');
WITH u AS (UPDATE t SET k = -5 WHERE (k, id) < (2, 100) RETURNING 1) SELECT count(*) FROM u;
WITH d AS (DELETE FROM t WHERE (k, id) < (-5, 100) RETURNING 1) SELECT count(*) FROM d;
CALL use('seq');
SELECT count(*) FROM p WHERE (k, id) > (97, 100) AND (k, id) < (103, 100) AND id > 1000;
ROLLBACK;

-- Where rows are hidden, an operator that may leak values is none of an index
CREATE ROLE regress_row_comparisons_user;
GRANT USAGE ON SCHEMA row_comparisons TO regress_row_comparisons_user;
GRANT SELECT ON t TO regress_row_comparisons_user;
ALTER TABLE t ENABLE ROW LEVEL SECURITY;
CREATE POLICY visible ON t USING (v <> 'v7');
BEGIN;
CALL use('index');
SET LOCAL ROLE regress_row_comparisons_user;
SELECT * FROM plan('SELECT * FROM t WHERE (at, id) > (''2026-12-01'', 100)');
SELECT * FROM plan('SELECT * FROM t WHERE (at, id) > (date ''2026-12-01'', 100)');
ROLLBACK;

DROP SCHEMA row_comparisons CASCADE;
DROP ROLE regress_row_comparisons_user;
