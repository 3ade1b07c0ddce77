--
-- Lookup scans of partitioned tables by arrays
--
SET client_min_messages = warning;
SET timezone = 'UTC';
SET jit = off;
SET max_parallel_workers_per_gather = 0;
CREATE SCHEMA lookup_array;
SET search_path = lookup_array, public;
\getenv srcdir PG_ABS_SRCDIR
\set compare :srcdir '/sql/include/compare.sql'
\i :compare
\set lookup :srcdir '/sql/include/lookup.sql'
\i :lookup

-- Keys that are looked for: repeated ones, some that are not found, NULLs
CREATE TABLE o (k int, n int GENERATED ALWAYS AS IDENTITY) WITH (autovacuum_enabled = off);
INSERT INTO o (k) SELECT CASE WHEN i % 17 <> 0 THEN shuffle(i) % 1700 - 100 END FROM generate_series(1, 1000) i;
CREATE TABLE arrays AS SELECT array_agg(k) AS keys, array_agg(k::bigint) AS large, array_agg(k::text) AS texts FROM o;

-- Partitioned by ranges of the key.  Some partitions have columns in another order or dropped
-- columns, one has partitions by another column, and one is the default.
CREATE TABLE r (k int, id int, v text) PARTITION BY RANGE (k);
CREATE TABLE r_1 PARTITION OF r FOR VALUES FROM (MINVALUE) TO (400);
CREATE TABLE r_2 (gone int, v text, id int, k int);
ALTER TABLE r_2 DROP gone;
ALTER TABLE r ATTACH PARTITION r_2 FOR VALUES FROM (400) TO (500);
CREATE TABLE r_3 (id int, v text, k int) PARTITION BY LIST (v);
ALTER TABLE r ATTACH PARTITION r_3 FOR VALUES FROM (500) TO (1000);
CREATE TABLE r_3_x (v text, gone int, k int, id int);
ALTER TABLE r_3_x DROP gone;
ALTER TABLE r_3 ATTACH PARTITION r_3_x FOR VALUES IN ('v0', 'v1');
CREATE TABLE r_3_y PARTITION OF r_3 DEFAULT;
CREATE TABLE r_rest PARTITION OF r DEFAULT;
INSERT INTO r SELECT shuffle(i) % 1500, i, 'v' || i % 5 FROM generate_series(1, 3000) i;
INSERT INTO r SELECT -i, i, 'below' FROM generate_series(1, 50) i;
INSERT INTO r VALUES (NULL, 1, 'none'), (NULL, 2, NULL);
CREATE INDEX r_k ON r USING harmonia (k);
:vacuum ANALYZE r, o, arrays;
UPDATE r SET v = 'v1' WHERE id % 100 = 3;
DELETE FROM r WHERE id % 90 = 5;

-- How many keys a query looks up, in all partitions together, and in how many it looks.
CREATE FUNCTION looked_up(VARIADIC queries text[]) RETURNS TABLE (nodes text, keys bigint, partitions bigint, removed bigint, query text) LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	CALL use_lookups(true);
	FOREACH query IN ARRAY queries LOOP
		nodes := lookup_nodes(query);
		EXECUTE 'EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) ' || query INTO plan;
		SELECT sum((node #>> '{}')::bigint) INTO keys FROM jsonb_path_query(plan::jsonb, 'strict $.**."Keys"') node;
		SELECT count(*) INTO partitions FROM jsonb_path_query(plan::jsonb, 'strict $.**."Indexes"[*] ? (!exists(@."Never Executed"))');
		SELECT sum((node #>> '{}')::bigint) INTO removed FROM jsonb_path_query(plan::jsonb, 'strict $.**."Subplans Removed"') node;
		RETURN NEXT;
	END LOOP;
END $$;

--
-- Plans
--
BEGIN;
CALL use_lookups(true);
SELECT * FROM plan('SELECT id FROM r WHERE k = ANY ((SELECT keys FROM arrays)::int[]) AND v > ''v0''');
SELECT * FROM plan('SELECT sum(id) FROM r x WHERE k = ANY (ARRAY(SELECT k FROM o))');
SELECT * FROM plan('SELECT k FROM r WHERE k IN (5, 450, 451, NULL)', 'FORMAT JSON');
SELECT * FROM explained('SELECT r.tableoid::regclass, id, v FROM r WHERE k IN (5, 405, 450, 700)', 'VERBOSE');
SELECT * FROM explained('SELECT count(*) FROM r WHERE k = ANY (ARRAY(SELECT generate_series(1, 1400, 7))) AND id < 1500');
ROLLBACK;

--
-- Answers
--
SELECT * FROM compare_lookups(
	'SELECT * FROM r WHERE k = ANY ((SELECT keys FROM arrays)::int[])', 'SELECT k FROM r WHERE k = ANY ((SELECT keys FROM arrays)::int[])', 'SELECT * FROM r WHERE k = ANY (ARRAY(SELECT k FROM o))',
	'SELECT count(*) FROM r WHERE k = ANY (ARRAY(SELECT k FROM o))', 'SELECT count(*), sum(id), min(k), max(v) FROM r WHERE k = ANY ((SELECT keys FROM arrays)::int[])', 'SELECT v, count(*) FROM r WHERE k = ANY ((SELECT keys FROM arrays)::int[]) GROUP BY v',
	'SELECT string_agg(v, '''' ORDER BY id, k) FROM r WHERE k = ANY ((SELECT keys FROM arrays)::int[])', 'SELECT DISTINCT v FROM r WHERE k = ANY ((SELECT keys FROM arrays)::int[])', 'SELECT id, rank() OVER (ORDER BY k, id) FROM r WHERE k = ANY ((SELECT keys FROM arrays)::int[])',
	'SELECT k + id, upper(v) FROM r WHERE k = ANY ((SELECT keys FROM arrays)::int[])', 'SELECT id, generate_series(1, 2) FROM r WHERE k = ANY ((SELECT keys FROM arrays)::int[])', 'SELECT k, id FROM r WHERE k = ANY ((SELECT keys FROM arrays)::int[]) ORDER BY k, id LIMIT 20 OFFSET 5',
	'SELECT k FROM r WHERE k = ANY (''{{7, 7, 401}, {NULL, 999, 1200}}'')', 'SELECT id FROM r WHERE k = ANY ((SELECT large FROM arrays)::bigint[])', 'SELECT id FROM r WHERE k = ANY (''{10, 20000000000, 600, 499}''::bigint[])',
	'SELECT id FROM r WHERE k = ANY (''{}''::int[])', 'SELECT id FROM r WHERE k = ANY (NULL::int[])', 'SELECT id FROM r WHERE k = ANY ((SELECT keys FROM arrays WHERE keys IS NULL)::int[])', 'SELECT id FROM r WHERE k = ANY (''{NULL, NULL}''::int[])',
	'SELECT id FROM r WHERE k = ANY ((SELECT keys FROM arrays)::int[]) AND k > 450', 'SELECT id FROM r WHERE k = ANY ((SELECT keys FROM arrays)::int[]) AND v = ''v1'' AND id % 3 = 0', 'SELECT id FROM r WHERE k = ANY ((SELECT keys FROM arrays)::int[]) AND k IN (5, 6, 7, 700, 701)',
	'SELECT id FROM r WHERE k = ANY ((SELECT keys FROM arrays)::int[]) AND random() < 2', 'SELECT id FROM r WHERE k = ANY ((SELECT keys FROM arrays)::int[]) AND current_setting(''jit'') = ''off''', 'SELECT tableoid, ctid, xmin, id FROM r WHERE k IN (1, 2, 405, 410, 777, 1499)',
	'SELECT r FROM r WHERE k IN (1, 2, 405, 410, 777, 1499)', 'SELECT id FROM r WHERE k = ANY ((SELECT keys FROM arrays)::int[]) AND r IS NOT NULL', 'SELECT FROM r WHERE k = ANY ((SELECT keys FROM arrays)::int[])');
-- In joins, below LATERAL, in sub-queries and views, rescanned with other arrays and with the same
CREATE VIEW scanned AS SELECT id, k, v FROM r WHERE k = ANY ((SELECT keys FROM arrays)::int[]);
SELECT * FROM compare_lookups(
	'SELECT o.n, r.id FROM o JOIN r USING (k) WHERE r.k = ANY (ARRAY(SELECT k FROM o WHERE n < 50))', 'SELECT a.id, b.id FROM r a JOIN r b ON b.id = a.id AND b.k < a.k WHERE a.k = ANY (ARRAY(SELECT k FROM o)) AND b.k = ANY ((SELECT keys FROM arrays)::int[])',
	'SELECT o.n, s.* FROM o, LATERAL (SELECT count(*), sum(id) FROM r WHERE r.k = ANY (ARRAY[o.k, o.k + 450, o.n])) s WHERE o.n < 100', 'SELECT o.n, s.* FROM o, LATERAL (SELECT id FROM r WHERE r.k = ANY (ARRAY(SELECT x.k FROM o x WHERE x.n % 20 = o.n)) OFFSET 0) s WHERE o.n < 20',
	'SELECT n, (SELECT count(*) FROM r WHERE r.k = ANY ((SELECT keys FROM arrays)::int[]) AND r.id < o.n) FROM o WHERE n < 20', 'SELECT n, (SELECT max(id) FROM r WHERE r.k = ANY (ARRAY(SELECT k FROM o)) AND r.id < x.n) FROM o x WHERE n < 20',
	'SELECT min(k), max(k) FROM r WHERE k = ANY ((SELECT keys FROM arrays)::int[])', 'SELECT * FROM scanned WHERE v = ''v2''', 'SELECT id FROM r WHERE k IN (1, 401) UNION ALL SELECT id FROM r WHERE k IN (2, 1001)',
	'SELECT id FROM r WHERE k IN (1, 401) EXCEPT SELECT id FROM r WHERE k IN (2, 401)', 'WITH x AS MATERIALIZED (SELECT * FROM scanned) SELECT * FROM x WHERE id < 100', 'SELECT n FROM o WHERE n = ANY (SELECT id FROM r WHERE r.k = ANY (ARRAY[1, 2, 3, 405, 406, 1200]))');

--
-- By lists, by hash, by several columns, in another order, by other columns and expressions
--
CREATE TABLE l (id int, k bigint) PARTITION BY LIST (k);
CREATE TABLE l_1 PARTITION OF l FOR VALUES IN (1, 5, 700);
CREATE TABLE l_2 PARTITION OF l FOR VALUES IN (2, 3, NULL);
CREATE TABLE l_3 PARTITION OF l FOR VALUES IN (650);
CREATE INDEX ON l USING harmonia (k);
INSERT INTO l SELECT i, (ARRAY[1, 2, 3, 5, 650, 700, NULL])[i % 7 + 1] FROM generate_series(1, 200) i;
CREATE TABLE h (id int, k int) PARTITION BY HASH (k);
CREATE TABLE h_0 PARTITION OF h FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE h_1 (k int, id int) PARTITION BY HASH (k);
ALTER TABLE h ATTACH PARTITION h_1 FOR VALUES WITH (MODULUS 4, REMAINDER 1);
CREATE TABLE h_1_0 PARTITION OF h_1 FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE h_1_1 PARTITION OF h_1 FOR VALUES WITH (MODULUS 2, REMAINDER 1);
CREATE TABLE h_3 PARTITION OF h FOR VALUES WITH (MODULUS 4, REMAINDER 3);
CREATE INDEX ON h USING harmonia (k DESC);
INSERT INTO h SELECT i, shuffle(i) % 1200 FROM generate_series(1, 2000) i;
INSERT INTO h VALUES (0, NULL);
CREATE TABLE f (k float8, id int) PARTITION BY HASH (k);
CREATE TABLE f_0 PARTITION OF f FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE f_1 PARTITION OF f FOR VALUES WITH (MODULUS 2, REMAINDER 1);
CREATE INDEX ON f USING harmonia (k);
INSERT INTO f SELECT i / 4.0, i FROM generate_series(-4000, 4000) i;
INSERT INTO f VALUES ('-0', 0), ('NaN', 1), ('-NaN', 2), ('inf', 3);
CREATE TABLE d (k date, id int) PARTITION BY RANGE (k, id);
CREATE TABLE d_1 PARTITION OF d FOR VALUES FROM (MINVALUE, MINVALUE) TO ('2000-02-01', 10);
CREATE TABLE d_2 PARTITION OF d FOR VALUES FROM ('2000-02-01', 10) TO ('2000-02-01', 20);
CREATE TABLE d_3 PARTITION OF d FOR VALUES FROM ('2000-02-01', 20) TO ('2000-05-05', MAXVALUE);
CREATE TABLE d_4 PARTITION OF d FOR VALUES FROM ('2000-05-06', MINVALUE) TO (MAXVALUE, MAXVALUE);
CREATE INDEX ON d USING harmonia (k);
INSERT INTO d SELECT date '2000-02-01' + i % 60 - 20, i FROM generate_series(1, 1000) i;
INSERT INTO d SELECT '2000-02-01', i FROM generate_series(1, 40) i;
INSERT INTO d VALUES ('infinity', 1), ('-infinity', 2), ('2000-05-05', 3);
CREATE FUNCTION compare_backwards(int, int) RETURNS int LANGUAGE sql IMMUTABLE STRICT AS 'SELECT btint4cmp($2, $1)';
CREATE OPERATOR CLASS backwards FOR TYPE int USING btree AS
	OPERATOR 1 >, OPERATOR 2 >=, OPERATOR 3 =, OPERATOR 4 <=, OPERATOR 5 <, FUNCTION 1 compare_backwards(int, int);
CREATE TABLE b (k int, id int) PARTITION BY RANGE (k backwards);
CREATE TABLE b_1 PARTITION OF b FOR VALUES FROM (MINVALUE) TO (500);
CREATE TABLE b_2 PARTITION OF b FOR VALUES FROM (500) TO (0);
CREATE INDEX ON b USING harmonia (k);
INSERT INTO b SELECT i % 1000 + 1, i FROM generate_series(1, 2000) i;
CREATE TABLE e (id int, k int) PARTITION BY RANGE ((k / 10));
CREATE TABLE e_1 PARTITION OF e FOR VALUES FROM (MINVALUE) TO (20);
CREATE TABLE e_2 PARTITION OF e FOR VALUES FROM (20) TO (MAXVALUE);
CREATE INDEX ON e USING harmonia (k);
CREATE INDEX ON e USING harmonia ((k / 10));
CREATE INDEX ON e USING harmonia (id) WHERE k % 2 = 0;
INSERT INTO e SELECT i, i * 7 % 500 FROM generate_series(1, 1500) i;
CREATE TABLE inherited (k int, id int);
CREATE TABLE heir () INHERITS (inherited);
INSERT INTO inherited SELECT i, i FROM generate_series(1, 300) i;
INSERT INTO heir SELECT i, i FROM generate_series(200, 700) i;
CREATE INDEX ON inherited USING harmonia (k);
CREATE INDEX ON heir USING harmonia (k);
:vacuum ANALYZE l, h, f, d, b, e, inherited, heir;
SELECT * FROM compare_lookups(
	'SELECT * FROM l WHERE k = ANY ((SELECT keys FROM arrays)::int[])', 'SELECT * FROM l WHERE k IN (1, 2, 3, 650, 700)', 'SELECT * FROM h WHERE k = ANY ((SELECT keys FROM arrays)::int[])', 'SELECT k FROM h WHERE k = ANY ((SELECT large FROM arrays)::bigint[])',
	'SELECT count(*) FROM h WHERE k = ANY (ARRAY(SELECT k FROM o))', 'SELECT * FROM f WHERE k = ANY (''{0, -0, NaN, 12.25, inf, -inf}'')', 'SELECT * FROM f WHERE k = ANY (''{0, 1.5, NaN}''::real[])', 'SELECT * FROM d WHERE k = ANY (ARRAY(SELECT date ''2000-01-10'' + i FROM generate_series(1, 50) i))',
	'SELECT * FROM d WHERE k IN (''2000-02-01'', ''infinity'', ''2000-05-05'')', 'SELECT * FROM d WHERE k = ANY (ARRAY(SELECT timestamp ''2000-01-10'' + i * interval ''12 hours'' FROM generate_series(1, 50) i))',
	'SELECT * FROM d WHERE k = ANY (ARRAY(SELECT timestamptz ''2000-01-10'' + i * interval ''12 hours'' FROM generate_series(1, 50) i))', 'SELECT * FROM b WHERE k = ANY ((SELECT keys FROM arrays)::int[])', 'SELECT * FROM e WHERE k = ANY ((SELECT keys FROM arrays)::int[])',
	'SELECT * FROM e WHERE k / 10 = ANY ((SELECT keys FROM arrays)::int[])', 'SELECT * FROM e WHERE id = ANY ((SELECT keys FROM arrays)::int[]) AND k % 2 = 0', 'SELECT * FROM inherited WHERE k = ANY ((SELECT keys FROM arrays)::int[])');
-- An element goes to those partitions that can have it: by hash to one, by lists to those whose least and greatest value enclose it
SELECT * FROM looked_up(
	'SELECT id FROM r WHERE k = ANY (ARRAY(SELECT generate_series(1, 1400)))', 'SELECT id FROM h WHERE k = ANY (ARRAY(SELECT generate_series(1, 1000)))', 'SELECT id FROM h WHERE k = ANY (ARRAY(SELECT i % 1000 + 1 FROM generate_series(1, 3000) i))',
	'SELECT id FROM l WHERE k = ANY (ARRAY(SELECT generate_series(1, 700)))', 'SELECT id FROM d WHERE k = ANY (ARRAY(SELECT date ''2000-01-31'' + i FROM generate_series(0, 2) i))', 'SELECT id FROM h WHERE k = ANY (ARRAY(SELECT 77))');

--
-- Keys that are not exact, and several columns
--
CREATE TABLE t (k text, id int) PARTITION BY HASH (k);
CREATE TABLE t_0 PARTITION OF t FOR VALUES WITH (MODULUS 4, REMAINDER 0);
CREATE TABLE t_1 PARTITION OF t FOR VALUES WITH (MODULUS 4, REMAINDER 1);
CREATE TABLE t_2 (id int, k text);
ALTER TABLE t ATTACH PARTITION t_2 FOR VALUES WITH (MODULUS 4, REMAINDER 2);
CREATE TABLE t_3 PARTITION OF t FOR VALUES WITH (MODULUS 4, REMAINDER 3);
CREATE INDEX ON t USING harmonia (k);
INSERT INTO t SELECT i % 13000, i FROM generate_series(1, 20000) i;
CREATE TABLE u (k uuid, id int) PARTITION BY HASH (k);
CREATE TABLE u_0 PARTITION OF u FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE u_1 PARTITION OF u FOR VALUES WITH (MODULUS 4, REMAINDER 1);
CREATE TABLE u_3 PARTITION OF u FOR VALUES WITH (MODULUS 4, REMAINDER 3);
CREATE INDEX ON u USING harmonia (k);
INSERT INTO u SELECT md5((i % 13000)::text)::uuid, i FROM generate_series(1, 20000) i;
CREATE TABLE q (k numeric, id int) PARTITION BY HASH (k);
CREATE TABLE q_0 PARTITION OF q FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE q_1 PARTITION OF q FOR VALUES WITH (MODULUS 2, REMAINDER 1);
CREATE INDEX ON q USING harmonia (k);
INSERT INTO q SELECT i % 400 / 4.0, i FROM generate_series(1, 2000) i;
CREATE TABLE c (a int, k int, w text, id int) PARTITION BY RANGE (k);
CREATE TABLE c_1 PARTITION OF c FOR VALUES FROM (MINVALUE) TO (300);
CREATE TABLE c_2 (id int, w text, k bigint, a int);
ALTER TABLE c_2 ALTER k TYPE int;
ALTER TABLE c ATTACH PARTITION c_2 FOR VALUES FROM (300) TO (700);
CREATE TABLE c_3 PARTITION OF c FOR VALUES FROM (700) TO (MAXVALUE);
CREATE INDEX ON c USING harmonia (a, k);
CREATE INDEX ON c USING harmonia (k, w);
INSERT INTO c SELECT i % 3, shuffle(i) % 1000, 'w' || i % 4, i FROM generate_series(1, 36000) i;
:vacuum ANALYZE t, u, q, c;
CREATE TABLE o_t AS SELECT k::text, n FROM o;
CREATE TABLE o_u AS SELECT md5(k::text)::uuid AS k, n FROM o;
ANALYZE o_t, o_u;
SELECT * FROM compare_lookups(
	'SELECT * FROM t WHERE k = ANY ((SELECT texts FROM arrays)::text[])', 'SELECT count(*) FROM t WHERE k = ANY ((SELECT texts FROM arrays)::text[])', 'SELECT * FROM t WHERE k = ANY (''{1, 1, 77, NULL, none}''::varchar[])', 'SELECT * FROM t WHERE k = ANY (ARRAY(SELECT k FROM o_t)) AND id > 1000',
	'SELECT * FROM u WHERE k = ANY (ARRAY(SELECT k FROM o_u))', 'SELECT count(*), sum(id) FROM u WHERE k = ANY (ARRAY(SELECT k FROM o_u))', 'SELECT id FROM q WHERE k = ANY (''{1, 1.0, 1.00, 2.25, 7.50, NaN, 0}''::numeric[])', 'SELECT o_u.n, u.id FROM o_u JOIN u USING (k)',
	'SELECT o_t.n, t.id FROM o_t JOIN t USING (k)', 'SELECT o_t.n, t.id FROM o_t LEFT JOIN t USING (k)', 'SELECT o_t.n FROM o_t WHERE NOT EXISTS (SELECT FROM t WHERE t.k = o_t.k)', 'SELECT n, id FROM o_t JOIN t ON t.k = o_t.k || ''''',
	'SELECT id FROM c WHERE a = 1 AND k = ANY ((SELECT keys FROM arrays)::int[])', 'SELECT id FROM c WHERE k = ANY ((SELECT keys FROM arrays)::int[])', 'SELECT id FROM c WHERE k = ANY ((SELECT keys FROM arrays)::int[]) AND w = ''w2''', 'SELECT count(*) FROM c WHERE k = ANY ((SELECT large FROM arrays)::bigint[]) AND w = ''w2'' AND id % 2 = 0',
	'SELECT id FROM c WHERE a IN (1, 2) AND k = ANY ((SELECT keys FROM arrays)::int[])', 'SELECT id FROM c WHERE k = ANY ((SELECT keys FROM arrays)::int[]) AND w IN (''w1'', ''w2'')', 'SELECT a, k FROM c WHERE a = 1 AND k = ANY ((SELECT keys FROM arrays)::int[])');
SELECT * FROM looked_up(
	'SELECT id FROM t WHERE k = ANY (ARRAY(SELECT i::text FROM generate_series(1, 1000) i))', 'SELECT id FROM u WHERE k = ANY (ARRAY(SELECT md5((i % 500)::text)::uuid FROM generate_series(1, 1000) i))',
	'SELECT n FROM o_u JOIN u USING (k) WHERE n <= 100', 'SELECT id FROM c WHERE a = 1 AND k = ANY (ARRAY(SELECT generate_series(1, 1000)))');

--
-- Parameters, plans that are kept, and partitions that are pruned when a query runs
--
SET plan_cache_mode = force_generic_plan;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
PREPARE by_array(int[]) AS SELECT count(*), sum(id) FROM r WHERE k = ANY ($1);
SELECT * FROM plan('EXECUTE by_array(''{}'')');
EXECUTE by_array('{1, 401, 401, 999, NULL, 1100}');
EXECUTE by_array(NULL);
PREPARE by_elements(int, int) AS SELECT count(*), sum(id) FROM r WHERE k = ANY (ARRAY[$1, $2]);
SELECT * FROM explained('EXECUTE by_elements(7, 450)');
EXECUTE by_elements(7, NULL);
PREPARE pruned(int[], int) AS SELECT count(*), sum(id) FROM r WHERE k = ANY ($1) AND k < $2;
SELECT * FROM explained('EXECUTE pruned(''{1, 401, 999}'', 450)');
EXECUTE pruned('{1, 401, 999}', 450);
PREPARE of_text(text[]) AS SELECT count(*), sum(id) FROM t WHERE k = ANY ($1);
EXECUTE of_text('{1, 1, 77, NULL, none}');
ALTER TABLE r DETACH PARTITION r_2;
EXECUTE by_array('{1, 401, 401, 999, NULL, 1100}');
ALTER TABLE r ATTACH PARTITION r_2 FOR VALUES FROM (400) TO (500);
EXECUTE by_array('{1, 401, 401, 999, NULL, 1100}');
DEALLOCATE ALL;
RESET plan_cache_mode;
RESET enable_seqscan;
RESET enable_bitmapscan;
-- Parameters of the plan itself
SELECT * FROM compare_lookups(
	'SELECT o.n, (SELECT sum(id) FROM r WHERE r.k = ANY (''{5, 405, 505, 1405}'') AND r.k > o.k) FROM o WHERE n < 60', 'SELECT id FROM r WHERE k = ANY ((SELECT keys FROM arrays)::int[]) AND k > (SELECT max(k) - 300 FROM o)');
-- Cursors: the first rows are wanted soon
BEGIN;
CALL use_lookups(false);
DECLARE early CURSOR FOR SELECT id FROM h WHERE k = ANY ((SELECT keys FROM arrays)::int[]);
SELECT n FROM rest('early', 3);
SELECT n + 3 = (SELECT count(*) FROM h WHERE k = ANY ((SELECT keys FROM arrays)::int[])) AS all FROM rest('early');
ROLLBACK;

--
-- Parallel scans
--
CREATE FUNCTION compare_parallel(VARIADIC queries text[]) RETURNS TABLE (result text, nodes text, query text) LANGUAGE plpgsql AS $$
DECLARE
	wanted record;
	setting text;
BEGIN
	FOREACH query IN ARRAY queries LOOP
		CALL use_no_lookups('seq');
		PERFORM set_config('max_parallel_workers_per_gather', '0', true);
		wanted := digest(query, false);
		CALL use_lookups(true);
		PERFORM set_config(name, value, true) FROM (VALUES ('max_parallel_workers_per_gather', '2'), ('parallel_setup_cost', '0'), ('parallel_tuple_cost', '0'), ('min_parallel_table_scan_size', '0'), ('enable_seqscan', 'on'), ('enable_parallel_append', 'off')) s (name, value);
		nodes := lookup_nodes(query);
		result := CASE WHEN digest(query, false) = wanted THEN 'same' ELSE 'DIFFERS' END || coalesce(', ' || plan_nodes(query, 'Gather'), '');
		RETURN NEXT;
	END LOOP;
END $$;
CREATE FUNCTION stable_keys() RETURNS int[] LANGUAGE sql STABLE PARALLEL SAFE AS 'SELECT array_agg(i % 1500 ORDER BY i) FROM generate_series(1, 3000) i';
SELECT * FROM compare_parallel(
	'SELECT * FROM r WHERE k = ANY (stable_keys())', 'SELECT sum(id), count(*) FROM h WHERE k = ANY (stable_keys())', 'SELECT k, count(*) FROM h WHERE k = ANY (stable_keys()) GROUP BY k');

--
-- Where there is no lookup scan of the whole table
--
CREATE TABLE x (k int, id int) PARTITION BY RANGE (k);
CREATE TABLE x_1 PARTITION OF x FOR VALUES FROM (0) TO (500);
CREATE TABLE x_2 PARTITION OF x FOR VALUES FROM (500) TO (1000);
CREATE INDEX x_1_k ON x_1 USING harmonia (k);
CREATE INDEX x_2_k ON x_2 USING btree (k);
INSERT INTO x SELECT i, i FROM generate_series(0, 999) i;
ANALYZE x;
BEGIN;
CALL use_lookups(true);
SELECT query, lookup_nodes(query) FROM unnest(ARRAY['SELECT id FROM x WHERE k IN (5, 700)', 'SELECT id FROM h WHERE k IN (5, 700) FOR UPDATE', 'UPDATE h SET id = 1 WHERE k IN (5, 6, 700)', 'DELETE FROM h WHERE k IN (5, 6, 700)', 'SELECT id FROM h TABLESAMPLE SYSTEM (100) WHERE k IN (5, 700)',
	'SELECT id FROM h WHERE k IN (5, 6, 700) OR k BETWEEN 7 AND 9', 'SELECT id FROM h WHERE k < ANY (''{5, 700}'')', 'SELECT id FROM h WHERE k = ALL (''{5, 700}'')', 'SELECT id FROM r WHERE k IN (5, 6)']) query;
ROLLBACK;
-- WHERE CURRENT OF a cursor needs a scan of each partition
CREATE TABLE current (k int, id int) PARTITION BY RANGE (k);
CREATE TABLE current_1 PARTITION OF current FOR VALUES FROM (0) TO (2);
CREATE TABLE current_2 PARTITION OF current FOR VALUES FROM (2) TO (4);
CREATE INDEX ON current USING harmonia (k);
INSERT INTO current SELECT i / 5000, i FROM generate_series(0, 19999) i;
ANALYZE current;
BEGIN;
CALL use_lookups(true);
SET LOCAL cursor_tuple_fraction = 1;
SELECT query, lookup_nodes(query) FROM unnest(ARRAY['SELECT id FROM current WHERE k IN (1, 2)', 'DECLARE c CURSOR FOR SELECT id FROM current WHERE k IN (1, 2)',
	'DECLARE c CURSOR FOR SELECT count(*) FROM current WHERE k IN (1, 2)']) query;
DECLARE c CURSOR FOR SELECT k FROM current WHERE k IN (1, 2);
FETCH FROM c;
UPDATE current SET id = -1 WHERE CURRENT OF c RETURNING k, id;
ROLLBACK;
BEGIN;
CALL use_lookups(true);
DECLARE c CURSOR FOR SELECT k FROM current WHERE k IN (1, 2);
MOVE 7500 FROM c;
DELETE FROM current WHERE CURRENT OF c RETURNING k;
ROLLBACK;
-- With aggregation of each partition, its paths compete
BEGIN;
CALL use_lookups(true);
SET LOCAL enable_partitionwise_aggregate = on;
SELECT plan_nodes('SELECT k, count(*) FROM h WHERE k IN (5, 6, 700) GROUP BY k', 'Append');
ROLLBACK;
-- The plan of a min() removes partitions, too
BEGIN;
CREATE TABLE days (day int NOT NULL) PARTITION BY RANGE (day);
SELECT format('CREATE TABLE days_%s PARTITION OF days FOR VALUES FROM (%s) TO (%s)', i, i * 1000, i * 1000 + 1000) FROM generate_series(0, 9) i \gexec
INSERT INTO days SELECT i FROM generate_series(0, 9999) i;
CREATE INDEX ON days USING harmonia (day);
ANALYZE days;
SET LOCAL enable_seqscan = off;
SET LOCAL plan_cache_mode = force_generic_plan;
\set ECHO none
SELECT format('PREPARE least(int) AS SELECT min(day) FROM days WHERE day IN (%s) AND day > $1', string_agg(i::text, ',')) FROM generate_series(1, 9999, 40) i \gexec
\set ECHO all
SELECT line FROM plan('EXECUTE least(8000)') line WHERE line ~ 'Removed';
EXECUTE least(8000);
DEALLOCATE least;
ROLLBACK;
-- Row-level security
CREATE ROLE regress_lookup_array;
GRANT USAGE ON SCHEMA lookup_array TO regress_lookup_array;
GRANT SELECT ON h TO regress_lookup_array;
ALTER TABLE h ENABLE ROW LEVEL SECURITY;
CREATE POLICY few ON h FOR SELECT TO regress_lookup_array USING (id % 4 = 0);
SET ROLE regress_lookup_array;
SELECT count(*), count(*) FILTER (WHERE id % 4 <> 0) AS secret FROM h WHERE k = ANY (ARRAY(SELECT generate_series(0, 1199)));
RESET ROLE;

DROP SCHEMA lookup_array CASCADE;
DROP ROLE regress_lookup_array;
