--
-- Lookup joins that leave partitions out by what is known only when they run
--
SET client_min_messages = warning;
SET timezone = 'UTC';
SET jit = off;
SET enable_memoize = off;
SET max_parallel_workers_per_gather = 0;
SET harmonia.enable_lookup_aggregate = off;
CREATE SCHEMA lookup_prune;
SET search_path = lookup_prune, public;
\getenv srcdir PG_ABS_SRCDIR
\set compare :srcdir '/sql/include/compare.sql'
\i :compare
\set lookup :srcdir '/sql/include/lookup.sql'
\i :lookup

-- What is looked up, and days that queries ask for
CREATE TABLE o (k int, n int GENERATED ALWAYS AS IDENTITY) WITH (autovacuum_enabled = off);
INSERT INTO o (k) SELECT CASE WHEN i % 17 <> 0 THEN shuffle(i) % 700 END FROM generate_series(1, 300) i;
CREATE TABLE days (n int, day int, region text) WITH (autovacuum_enabled = off);
INSERT INTO days VALUES (1, 5, 'a'), (2, 25, 'b'), (3, NULL, 'c'), (4, 15, NULL), (5, 1000, 'a'), (6, 25, 'x');

-- By ranges of another column than the key: parts whose columns are in another order, one
-- that has parts itself, by a list, and one for the rest
CREATE TABLE r (day int, k int, region text, id int) PARTITION BY RANGE (day);
CREATE TABLE r_1 PARTITION OF r FOR VALUES FROM (MINVALUE) TO (10);
CREATE TABLE r_2 (gone int, id int, region text, k int, day int);
ALTER TABLE r_2 DROP gone;
ALTER TABLE r ATTACH PARTITION r_2 FOR VALUES FROM (10) TO (20);
CREATE TABLE r_3 (region text, day int, id int, k int) PARTITION BY LIST (region);
ALTER TABLE r ATTACH PARTITION r_3 FOR VALUES FROM (20) TO (30);
CREATE TABLE r_3_ab PARTITION OF r_3 FOR VALUES IN ('a', 'b');
CREATE TABLE r_3_c (k int, region text, day int, id int);
ALTER TABLE r_3 ATTACH PARTITION r_3_c FOR VALUES IN ('c');
CREATE TABLE r_3_d PARTITION OF r_3 DEFAULT;
CREATE TABLE r_rest PARTITION OF r DEFAULT;
INSERT INTO r SELECT i % 40, shuffle(i) % 800, chr(97 + shuffle(i * 7) % 5), i FROM generate_series(1, 2000) i;
INSERT INTO r SELECT NULL, i, NULL, 3000 + i FROM generate_series(1, 100) i;
CREATE INDEX r_k ON r USING harmonia (k);
-- By lists with NULL, by hash, by two columns, and by the key
CREATE TABLE l (k int, id int) PARTITION BY LIST (id);
CREATE TABLE l_1 PARTITION OF l FOR VALUES IN (1, 5);
CREATE TABLE l_2 PARTITION OF l FOR VALUES IN (2, NULL);
CREATE TABLE l_3 PARTITION OF l FOR VALUES IN (3);
INSERT INTO l SELECT i, (ARRAY[1, 2, 3, 5, NULL])[shuffle(i) % 5 + 1] FROM generate_series(1, 800) i;
CREATE INDEX ON l USING harmonia (k);
CREATE TABLE h (k int, id int) PARTITION BY HASH (id);
CREATE TABLE h_0 PARTITION OF h FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE h_1 PARTITION OF h FOR VALUES WITH (MODULUS 4, REMAINDER 1);
CREATE TABLE h_3 PARTITION OF h FOR VALUES WITH (MODULUS 4, REMAINDER 3);
INSERT INTO h SELECT i, i / 100 FROM generate_series(1, 800) i;
CREATE INDEX ON h USING harmonia (k);
CREATE TABLE d (k int, day int, hour int) PARTITION BY RANGE (day, hour);
CREATE TABLE d_1 PARTITION OF d FOR VALUES FROM (1, 0) TO (1, 12);
CREATE TABLE d_2 PARTITION OF d FOR VALUES FROM (1, 12) TO (2, 12);
CREATE TABLE d_3 PARTITION OF d FOR VALUES FROM (2, 12) TO (4, 0);
INSERT INTO d SELECT i, 1 + i % 3, i % 24 FROM generate_series(1, 800) i;
CREATE INDEX ON d USING harmonia (k);
CREATE TABLE b (k int, id int) PARTITION BY RANGE (k);
CREATE TABLE b_1 PARTITION OF b FOR VALUES FROM (0) TO (200);
CREATE TABLE b_2 PARTITION OF b FOR VALUES FROM (200) TO (400);
CREATE TABLE b_3 PARTITION OF b FOR VALUES FROM (400) TO (1000);
INSERT INTO b SELECT i % 900, i FROM generate_series(1, 1800) i;
CREATE INDEX ON b USING harmonia (k);
-- Children, which have no bounds
CREATE TABLE parent (k int, id int);
CREATE TABLE child () INHERITS (parent);
INSERT INTO parent SELECT i, i FROM generate_series(1, 300) i;
INSERT INTO child SELECT i, i FROM generate_series(200, 700) i;
CREATE INDEX ON parent USING harmonia (k);
CREATE INDEX ON child USING harmonia (k);
:vacuum ANALYZE o, days, r, l, h, d, b, parent, child;

-- The tables that the lookup joins of a plan look in, how many they leave out from the start,
-- and how many keys they look up.
CREATE FUNCTION looked_in(statement text, OUT tables text, OUT removed bigint, OUT keys bigint) LANGUAGE plpgsql
AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) ' || statement INTO plan;
	SELECT string_agg(coalesce((SELECT string_agg(i ->> 'Relation Name', ' ') FROM jsonb_array_elements(node -> 'Indexes') i WHERE NOT i ? 'Never Executed'), '-'), '; '),
			sum((node ->> 'Subplans Removed')::bigint), sum((node ->> 'Keys')::bigint) INTO tables, removed, keys
		FROM jsonb_path_query(plan::jsonb, 'strict $.** ? (@."Custom Plan Provider" == "HarmoniaLookupJoin")') node;
END $$;

-- Prepare a query with parameters of these types, and compare what its generic plan with lookup
-- joins returns for each list of arguments with what PostgreSQL's own plan for these does.
CREATE FUNCTION compare_generic(types text, query text, VARIADIC lists text[])
	RETURNS TABLE (arguments text, n bigint, result text, tables text, removed bigint, keys bigint) LANGUAGE plpgsql
AS $$
DECLARE
	wanted record;
	got record;
	list text;
BEGIN
	EXECUTE format('PREPARE generic(%s) AS SELECT count(*) AS n, sum(hash_record_extended(t, 0)) FROM (%s) t', types, query);
	FOREACH list IN ARRAY lists LOOP
		CALL use_no_lookups('seq');
		PERFORM set_config('plan_cache_mode', 'force_custom_plan', true);
		EXECUTE format('EXECUTE generic(%s)', list) INTO wanted;
		CALL use_lookups(true);
		PERFORM set_config('plan_cache_mode', 'force_generic_plan', true);
		EXECUTE format('EXECUTE generic(%s)', list) INTO got;
		arguments := list;
		n := wanted.n;
		result := CASE WHEN got = wanted THEN 'same' ELSE format('%s rows', got.n) END;
		SELECT * INTO tables, removed, keys FROM looked_in(format('EXECUTE generic(%s)', list));
		RETURN NEXT;
	END LOOP;
	DEALLOCATE generic;
END $$;

--
-- Plans
--
BEGIN;
CALL use_lookups(true);
SET LOCAL plan_cache_mode = force_generic_plan;
PREPARE since(int) AS SELECT count(*) FROM o JOIN r USING (k) WHERE r.day >= $1;
SELECT * FROM plan('EXECUTE since(20)');
SELECT * FROM plan('EXECUTE since(NULL)');
SELECT * FROM plan('EXECUTE since(NULL)', 'FORMAT JSON');
-- Nothing is read of the outer side where no partition is left.
SELECT * FROM explained('EXECUTE since(15)');
SELECT * FROM explained('EXECUTE since(NULL)');
-- What else computes is not known at the start.
SELECT * FROM explained('SELECT count(*) FROM o JOIN r USING (k) WHERE r.day = (SELECT max(day) - 10 FROM r_2)');
DEALLOCATE since;
ROLLBACK;

--
-- Parameters, by each type of join
--
SELECT * FROM compare_generic('int', 'SELECT o.n, r.id FROM o JOIN r USING (k) WHERE r.day >= $1', '5', '10', '25', '500', 'NULL');
SELECT * FROM compare_generic('int, int', 'SELECT o.n, r.k FROM o JOIN r USING (k) WHERE r.day BETWEEN $1 AND $2', '3, 7', '12, 22', '22, 12');
SELECT * FROM compare_generic('int, text', 'SELECT o.n, r.* FROM o JOIN r USING (k) WHERE r.day = $1 AND r.region = $2', '22, ''a''', '22, ''c''', '22, ''x''', '12, ''a''');
SELECT * FROM compare_generic('text', 'SELECT o.n, r.region FROM o JOIN r USING (k) WHERE r.region = $1', '''a''', '''e''');
SELECT * FROM compare_generic('int, int', 'SELECT o.n, r.id FROM o JOIN r USING (k) WHERE r.day IN ($1, $2) OR r.day < $1 - 20', '1, 35', '12, 13', '32, NULL');
SELECT * FROM compare_generic('bigint', 'SELECT o.n, r.id FROM o JOIN r USING (k) WHERE r.day < $1', '10', '5000000000');
SELECT * FROM compare_generic('int', 'SELECT o.n, r.id FROM o LEFT JOIN r ON r.k = o.k AND r.day < $1', '10', 'NULL');
SELECT * FROM compare_generic('int', 'SELECT o.n, r.id FROM o LEFT JOIN r USING (k) WHERE r.day < $1', '10', 'NULL');
SELECT * FROM compare_generic('int', 'SELECT o.n, r.id FROM o LEFT JOIN r USING (k) WHERE r.day < $1 OR r.id IS NULL', '10', 'NULL');
SELECT * FROM compare_generic('int', 'SELECT o.n, r.id FROM o LEFT JOIN r ON r.k = o.k AND o.n < $1', '100', 'NULL');
SELECT * FROM compare_generic('int', 'SELECT o.n FROM o WHERE EXISTS (SELECT FROM r WHERE r.k = o.k AND r.day = $1)', '10', '30', 'NULL');
SELECT * FROM compare_generic('int', 'SELECT o.n FROM o WHERE NOT EXISTS (SELECT FROM r WHERE r.k = o.k AND r.day > $1)', '10', '25', 'NULL');
SELECT * FROM compare_generic('int', 'SELECT r.id FROM r WHERE r.k IN (SELECT k FROM o) AND r.day > $1', '10', '25', 'NULL');
SELECT * FROM compare_generic('int', 'SELECT o.n, r.id FROM o JOIN r ON r.k BETWEEN o.k AND o.k + 2 WHERE r.day > $1', '10', '25');
-- By other strategies, and by the key, of which each row has its own besides
SELECT * FROM compare_generic('int', 'SELECT o.n, l.id FROM o JOIN l USING (k) WHERE l.id = $1', '1', '2', '4');
SELECT * FROM compare_generic('int', 'SELECT o.n, l.id FROM o JOIN l USING (k) WHERE l.id <> $1', '3', '2');
SELECT * FROM compare_generic('int', 'SELECT o.n, l.id FROM o JOIN l USING (k) WHERE l.id IS NULL OR l.id = $1', '3');
SELECT * FROM compare_generic('int', 'SELECT o.n, h.id FROM o JOIN h USING (k) WHERE h.id = $1', '0', '1', '2', '3', 'NULL');
SELECT * FROM compare_generic('int, int', 'SELECT o.n, d.hour FROM o JOIN d USING (k) WHERE d.day = $1 AND d.hour < $2', '1, 12', '1, 13', '3, 5', '0, 0');
SELECT * FROM compare_generic('int', 'SELECT o.n, b.id FROM o JOIN b USING (k) WHERE b.k < $1', '100', '200', '300', '0');
SELECT * FROM compare_generic('int', 'SELECT o.n, b.id FROM o LEFT JOIN b ON b.k = o.k AND b.k >= $1', '300', '400', '5000');
SELECT * FROM compare_generic('int', 'SELECT o.n, parent.id FROM o JOIN parent USING (k) WHERE parent.id > $1', '250', '1000');

--
-- Where in a query the join stands
--
SELECT * FROM compare_generic('int', 'SELECT * FROM (SELECT o.n, r.id FROM o JOIN r USING (k) WHERE r.day = $1 OFFSET 0) s JOIN days ON days.n = s.n', '5', '25');
SELECT * FROM compare_generic('int, int', 'SELECT o.n, r.id FROM o JOIN r USING (k) WHERE r.day = $1 UNION ALL SELECT o.n, l.k FROM o JOIN l USING (k) WHERE l.id = $2', '5, 3', '25, 5');
SELECT * FROM compare_generic('int', 'WITH x AS MATERIALIZED (SELECT o.n, r.id FROM o JOIN r USING (k) WHERE r.day > $1) SELECT a.n, b.id FROM x a JOIN x b USING (id)', '25');
SELECT * FROM compare_generic('int', 'SELECT o.n, r.id, x.id AS x FROM o JOIN r USING (k) LEFT JOIN r x ON x.k = r.id AND x.day < $1 WHERE r.day < $1', '10', '15');
SELECT * FROM compare_generic('int', 'SELECT days.n, (SELECT count(*) FROM o JOIN r USING (k) WHERE r.day >= $1) FROM days', '25');
-- Beside nodes of PostgreSQL's that prune as well
SELECT * FROM compare_generic('int, int', 'SELECT a.id, b.id AS b FROM r a JOIN r b ON b.k = a.id WHERE a.day = $1 AND b.day > $2', '5, 25', '25, 5');
SELECT * FROM compare_generic('int, int', 'SELECT o.n, r.id FROM o JOIN r USING (k) WHERE r.day = $1 UNION ALL (SELECT day, id FROM r WHERE day = $2 OFFSET 0)', '5, 25', '25, 5');
-- A stable function, and switched off
SELECT set_config('lookup_prune.day', '12', false);
SELECT * FROM compare_generic('int', 'SELECT o.n, r.id FROM o JOIN r USING (k) WHERE r.day = current_setting(''lookup_prune.day'')::int', '0');
SET enable_partition_pruning = off;
SELECT * FROM compare_generic('int', 'SELECT o.n, r.id FROM o JOIN r USING (k) WHERE r.day = $1', '25');
RESET enable_partition_pruning;

--
-- What other parts of the plan compute: chosen when first rows are wanted, and again
--
SELECT * FROM compare_generic('int', 'SELECT o.n, r.id FROM o JOIN r USING (k) WHERE r.day = (SELECT min(day) + 3 FROM days)', '0');
SELECT * FROM compare_generic('int', 'SELECT o.n, r.id FROM o JOIN r USING (k) WHERE r.day > (SELECT min(day) + 3 FROM days WHERE n > $1)', '0', '4', '6');
SELECT * FROM compare_generic('int', 'SELECT o.n, r.id FROM o LEFT JOIN r ON r.k = o.k AND r.day > (SELECT min(day) + 3 FROM days WHERE n > $1) AND r.day <= $1 + 20', '0', '4', '6');
SELECT * FROM compare_generic('int', 'SELECT n, (SELECT count(*) FROM o JOIN r USING (k) WHERE r.day = days.day) FROM days', '0');
SELECT * FROM compare_generic('int', 'SELECT n, (SELECT count(*) FROM o JOIN r USING (k) WHERE r.day = days.day AND r.region = days.region) FROM days', '0');
SELECT * FROM compare_generic('int', 'SELECT days.n, s.* FROM days, LATERAL (SELECT count(r.id), sum(o.n) FROM o LEFT JOIN r ON r.k = o.k AND r.day >= days.day) s', '0');
SELECT * FROM compare_generic('int', 'SELECT days.n, s.* FROM days, LATERAL (SELECT count(*), sum(o.n) FROM o WHERE NOT EXISTS (SELECT FROM r WHERE r.k = o.k AND r.day < days.day)) s', '0');
SELECT * FROM compare_generic('int', 'SELECT days.n, s.* FROM days, LATERAL (SELECT count(*), sum(o.n) FROM o JOIN r USING (k) WHERE r.day >= days.day AND r.day < $1) s', '0', '12', '30', '100');
SELECT * FROM compare_generic('int', 'SELECT days.n, s.* FROM days, LATERAL (SELECT count(*), sum(o.n) FROM o JOIN h USING (k) WHERE h.id = days.n AND o.n > days.n) s', '0');
SELECT * FROM compare_generic('int', 'SELECT days.n, s.* FROM days, LATERAL (SELECT o.n AS x, r.id FROM o JOIN r USING (k) WHERE r.day = days.day ORDER BY o.n, r.id LIMIT 3) s', '0');

--
-- Prepared statements: tables come and go
--
BEGIN;
CALL use_lookups(true);
SET LOCAL plan_cache_mode = force_generic_plan;
PREPARE since(int) AS SELECT count(*), sum(b.id) FROM o JOIN b USING (k) WHERE b.k >= $1;
EXECUTE since(250);
SELECT * FROM looked_in('EXECUTE since(250)');
CREATE TABLE b_4 PARTITION OF b FOR VALUES FROM (1000) TO (2000);
SELECT * FROM looked_in('EXECUTE since(250)');
ALTER TABLE b DETACH PARTITION b_2;
EXECUTE since(250);
SELECT * FROM looked_in('EXECUTE since(250)');
DROP TABLE b_4;
ALTER TABLE b ATTACH PARTITION b_2 FOR VALUES FROM (200) TO (400);
EXECUTE since(250);
SELECT * FROM looked_in('EXECUTE since(250)');
ROLLBACK;
DEALLOCATE since;

--
-- Parallel plans, and joins of one part each
--
ALTER TABLE o SET (parallel_workers = 2);
SET max_parallel_workers_per_gather = 2;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET lookup.seqscan = on;
BEGIN;
CALL use_lookups(true);
SET LOCAL plan_cache_mode = force_generic_plan;
PREPARE since(int) AS SELECT count(*) FROM o JOIN r USING (k) WHERE r.day >= $1;
SELECT * FROM plan('EXECUTE since(25)');
DEALLOCATE since;
ROLLBACK;
SELECT * FROM compare_generic('int', 'SELECT o.n, r.id FROM o JOIN r USING (k) WHERE r.day >= $1', '5', '25', 'NULL');
SELECT * FROM compare_generic('int', 'SELECT o.n, r.id FROM o LEFT JOIN r ON r.k = o.k AND r.day >= $1', '5', 'NULL');
SELECT * FROM compare_generic('int', 'SELECT o.n FROM o WHERE NOT EXISTS (SELECT FROM r WHERE r.k = o.k AND r.day > $1)', '10', '25');
SELECT * FROM compare_generic('int', 'SELECT o.n, r.id FROM o JOIN r USING (k) WHERE r.day > (SELECT min(day) + 3 FROM days WHERE n > $1)', '0', '4');
SET :force_parallel = on;
SET parallel_leader_participation = off;
SELECT * FROM compare_generic('int', 'SELECT o.n, r.id FROM o JOIN r USING (k) WHERE r.day >= $1', '5', '25', 'NULL');
SELECT * FROM compare_generic('int', 'SELECT o.n, r.id FROM o JOIN r USING (k) WHERE r.day > (SELECT min(day) + 3 FROM days WHERE n > $1)', '0', '4');
RESET :force_parallel;
SET max_parallel_workers_per_gather = 0;
CREATE TABLE q (day int, k int, n int) PARTITION BY RANGE (day);
CREATE TABLE q_1 PARTITION OF q FOR VALUES FROM (MINVALUE) TO (10);
CREATE TABLE q_2 PARTITION OF q FOR VALUES FROM (10) TO (20);
CREATE TABLE q_3 PARTITION OF q FOR VALUES FROM (20) TO (30);
CREATE TABLE q_rest PARTITION OF q DEFAULT;
INSERT INTO q SELECT n % 40, k, n FROM o;
ANALYZE q;
SET enable_partitionwise_join = on;
SELECT * FROM compare_generic('text', 'SELECT q.n, r.id FROM q JOIN r USING (k, day) WHERE r.region = $1', '''a''', '''c''', '''x''');
SELECT * FROM compare_generic('text', 'SELECT q.n, r.id FROM q LEFT JOIN r ON r.k = q.k AND r.day = q.day AND r.region = $1', '''a''', '''x''');
RESET enable_partitionwise_join;

DROP SCHEMA lookup_prune CASCADE;
