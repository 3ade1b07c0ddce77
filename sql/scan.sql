--
-- Scans: each answer is compared with a sequential scan's
--
CREATE SCHEMA scan_test;
SET search_path = scan_test, public;
\getenv srcdir PG_ABS_SRCDIR
\set compare :srcdir '/sql/include/compare.sql'
\i :compare
-- Plain scans only; lookup_scan and lookup_join test the lookup nodes
SET harmonia.enable_lookup_scan = off;
SET harmonia.enable_lookup_join = off;

-- Small leaves and nodes, so that there are many. Rows that are inserted later
-- split some of them.
CREATE TABLE t (k int, id int) WITH (autovacuum_enabled = off);
INSERT INTO t SELECT shuffle(i) % 1000, i FROM generate_series(1, 5000) i;
INSERT INTO t SELECT NULL, i FROM generate_series(5001, 5300) i;
INSERT INTO t VALUES (-2147483648, 5301), (2147483647, 5302), (2147483647, 5303);
CREATE INDEX t_k ON t USING harmonia (k) WITH (fanout = 8, fillfactor = 10);
INSERT INTO t SELECT 500, i FROM generate_series(6001, 7000) i;
:vacuum ANALYZE t;

--
-- Operators
--
SELECT * FROM compare('t',
	'k = 7', 'k = 500', 'k = 1000', 'k = -2147483648', 'k = 2147483647',
	'k < 20', 'k < -2147483648', 'k < 0', 'k < 2147483647', 'k <= -2147483648', 'k <= 19',
	'k > 980', 'k > 2147483647', 'k > 999', 'k >= 2147483647', 'k >= 981', 'k >= -2147483648',
	'k BETWEEN 400 AND 410', 'k BETWEEN 490 AND 510', 'k BETWEEN SYMMETRIC 410 AND 400',
	'k NOT BETWEEN 3 AND 996', 'k > 499 AND k < 501');

-- Arguments of other types
SELECT * FROM compare('t',
	'k = 7::int2', 'k = 7::int8', 'k < 20::int2', 'k >= 981::int8',
	'k = 3000000000', 'k < 3000000000', 'k > -3000000000', 'k > 3000000000', 'k <= -3000000000',
	'k BETWEEN -3000000000 AND 5::int2');

-- The argument on the left, and arguments that are known only at run time
SELECT * FROM compare('t',
	'7 = k', '20 > k', '20::int8 > k',
	'k = (SELECT 7)', 'k < (SELECT 20)', 'k >= (SELECT 981::int8)',
	'k = length(current_user) - length(current_user) + 7');

-- Row comparison
SELECT query, n, result FROM compare_queries(
	'SELECT * FROM t WHERE (k, id) > (998, 2000)',
	'SELECT * FROM t WHERE (k, id) <= (1, 2000)');

--
-- Qualifications that contradict or repeat each other
--
SELECT * FROM compare('t',
	'k > 10 AND k < 10', 'k > 10 AND k < 11', 'k >= 10 AND k <= 10', 'k >= 11 AND k <= 10',
	'k = 10 AND k = (SELECT 11)', 'k = 10 AND k = (SELECT 10)', 'k = 10 AND k > 10', 'k = 10 AND k >= 10',
	'k > 5 AND k > 7 AND k >= 7 AND k < 20 AND k <= 12 AND k < 15',
	'k > 5 AND k > 7::int8 AND k < 3000000000 AND k < 12::int2',
	'k = 10 AND k IS NULL', 'k IS NULL AND k IS NOT NULL', 'k > 5 AND k IS NULL',
	'k IS NOT NULL AND k < 7', 'k IS NOT NULL AND k IS NOT NULL', 'k IS NULL AND k IS NULL',
	'k > 2147483647 AND k < -2147483648');

--
-- NULL arguments
--
SELECT * FROM compare('t',
	'k = (SELECT NULL::int)', 'k < (SELECT NULL::int)', 'k <= (SELECT NULL::int)',
	'k >= (SELECT NULL::int)', 'k > (SELECT NULL::int8)',
	'k > 5 AND k < (SELECT NULL::int)', 'k = ANY ((SELECT NULL::int[])::int[])',
	'k = 7 AND k = ANY ((SELECT NULL::int[])::int[])', 'k IS NULL AND k = (SELECT NULL::int)');

--
-- Arrays
--
SELECT * FROM compare('t',
	'k = ANY (''{7}'')', 'k = ANY (''{7,9,500}'')', 'k = ANY (''{9,7,7,9,7}'')',
	'k = ANY (''{}'')', 'k = ANY (''{NULL}'')', 'k = ANY (''{NULL,7,NULL}'')',
	'k = ANY (''{{1,2},{3,NULL}}'')', 'k = ANY (''[5:7]={1,2,3}'')',
	'k IN (1, 2, 3)', 'k IN (1, NULL)', 'k NOT IN (1, 2, 3)',
	'k = ANY (ARRAY(SELECT generate_series(-100, 2000, 7)))',
	'k = ANY (ARRAY(SELECT generate_series(0, 1000)))',
	'k = ANY (''{-1,-2,-2147483648,2147483647}'')');

-- Arrays of other types, with values that the column cannot have
SELECT * FROM compare('t',
	'k = ANY (''{7,9}''::int2[])', 'k = ANY (''{7,9,3000000000,-3000000000,NULL}''::int8[])',
	'k = ANY (''{3000000000}''::int8[])', 'k IN (7, 3000000000)',
	'k < ANY (''{3000000000,5}''::int8[])', 'k < ALL (''{3000000000,5}''::int8[])');

-- Inequalities
SELECT * FROM compare('t',
	'k < ANY (''{5,3}'')', 'k < ALL (''{5,3}'')', 'k >= ANY (''{990,995,NULL}'')',
	'k > ALL (''{990,NULL}'')', 'k <= ANY (''{}'')', 'k <= ALL (''{}'')', 'k > ANY (''{NULL}'')');

-- Several arrays
SELECT * FROM compare('t',
	'k = ANY (''{1,2,3}'') AND k = ANY (''{2,3,4}'')', 'k = ANY (''{1,2}'') AND k = ANY (''{3,4}'')',
	'k = ANY (''{1,2,3}'') AND k = ANY (''{2,3,4}'') AND k = ANY (''{3,5}'')',
	'k = ANY (''{1,2,3}'') AND k > 1', 'k = ANY (''{1,2,3}'') AND k BETWEEN 2 AND 900',
	'k = ANY (''{1,2,3}'') AND k = 2', 'k = ANY (''{1,2,3}'') AND k = 4',
	'k = ANY (''{1,2,3}'') AND k < ANY (''{2,3}'')', 'k = ANY (''{1,2,3}'') AND k IS NOT NULL',
	'k = ANY (''{1,2,3}'') AND k IS NULL');

--
-- NULLs
--
SELECT * FROM compare('t',
	'k IS NULL', 'k IS NOT NULL', 'NOT k IS NULL', 'k IS NULL OR k = 7', 'k IS DISTINCT FROM 7',
	'k IS NOT DISTINCT FROM 7', 'k IS NULL AND id < 5010', 'k IS NOT NULL AND id < 10');

--
-- ORDER BY, on each of the four kinds of index
--
CREATE FUNCTION compare_orders() RETURNS TABLE (options text, query text, n bigint, result text, plan text)
	LANGUAGE plpgsql
AS $$
DECLARE
	query text;
BEGIN
	FOREACH options IN ARRAY ARRAY['ASC NULLS LAST', 'ASC NULLS FIRST', 'DESC NULLS FIRST', 'DESC NULLS LAST'] LOOP
		DROP INDEX t_k;
		EXECUTE format('CREATE INDEX t_k ON t USING harmonia (k %s) WITH (fanout = 8, fillfactor = 10)', options);
		RETURN QUERY SELECT options, q.query, q.n, q.result, q.plan FROM compare_queries(
			'SELECT k FROM t ORDER BY k', 'SELECT k FROM t ORDER BY k NULLS FIRST',
			'SELECT k FROM t ORDER BY k DESC', 'SELECT k FROM t ORDER BY k DESC NULLS LAST',
			'SELECT k FROM t WHERE k BETWEEN 400 AND 600 ORDER BY k',
			'SELECT k FROM t WHERE k BETWEEN 400 AND 600 ORDER BY k DESC NULLS LAST',
			'SELECT k FROM t WHERE k IN (500, 7, 900) ORDER BY k DESC',
			'SELECT k FROM t WHERE k IN (500, 7, 900) ORDER BY k NULLS FIRST',
			'SELECT k FROM t WHERE k IS NULL ORDER BY k',
			'SELECT min(k), max(k), min(k) FILTER (WHERE k > 5) FROM t',
			'SELECT min(k) FROM t WHERE k > 500', 'SELECT max(k) FROM t WHERE k < 500',
			'SELECT min(k) FROM t WHERE k > 2147483647') q;
	END LOOP;
END $$;
SELECT query, n, result, string_agg(options, ', ') FILTER (WHERE plan ~ 'Sort') AS sorted_on,
		count(*) FILTER (WHERE plan ~ 'Seq') AS seq
	FROM compare_orders() GROUP BY 1, 2, 3 ORDER BY 1, 2, 3;
DROP INDEX t_k;
CREATE INDEX t_k ON t USING harmonia (k) WITH (fanout = 8, fillfactor = 10);

-- LIMIT and OFFSET
SELECT * FROM compare_queries(
	'SELECT k FROM t ORDER BY k LIMIT 10', 'SELECT k FROM t ORDER BY k OFFSET 5990 LIMIT 20',
	'SELECT k FROM t ORDER BY k OFFSET 6300', 'SELECT k FROM t ORDER BY k OFFSET 7000',
	'SELECT k FROM t ORDER BY k DESC LIMIT 310', 'SELECT k FROM t ORDER BY k DESC OFFSET 3000 LIMIT 1000',
	'SELECT k FROM t ORDER BY k LIMIT 0', 'SELECT k FROM t WHERE k > 990 ORDER BY k DESC LIMIT 3',
	'SELECT k FROM t WHERE k < 500 ORDER BY k DESC FETCH FIRST 3 ROWS WITH TIES',
	'SELECT DISTINCT k FROM t ORDER BY k', 'SELECT k, count(*) FROM t GROUP BY k ORDER BY k',
	'SELECT k, lag(k) OVER (ORDER BY k) FROM t ORDER BY k');

--
-- Merge joins, which go back to the first of equal keys
--
CREATE TABLE u (k int, id int);
INSERT INTO u SELECT shuffle(i) % 2000, i FROM generate_series(1, 1000) i;
INSERT INTO u SELECT 500, i FROM generate_series(1001, 1003) i;
INSERT INTO u VALUES (NULL, 1004), (2147483647, 1005), (2147483647, 1006);
CREATE INDEX u_k ON u USING harmonia (k) WITH (fanout = 8, fillfactor = 10);
:vacuum ANALYZE u;
BEGIN;
SET LOCAL enable_hashjoin = off;
SET LOCAL enable_nestloop = off;
SET LOCAL enable_material = off;
SET LOCAL enable_seqscan = off;
SET LOCAL enable_sort = off;
SELECT * FROM plan('SELECT t.k, u.k FROM t JOIN u USING (k)');
SELECT query, n, result FROM compare_queries(
	'SELECT t.k, t.id, u.k, u.id FROM t JOIN u USING (k)',
	'SELECT t.k, t.id, u.k, u.id FROM u LEFT JOIN t USING (k)',
	'SELECT t.k, t.id, u.k, u.id FROM t FULL JOIN u ON t.k = u.k',
	'SELECT a.id, b.id FROM u a JOIN u b USING (k)',
	'SELECT t.k FROM t JOIN u USING (k) ORDER BY k DESC',
	'SELECT t.k FROM t WHERE EXISTS (SELECT FROM u WHERE u.k = t.k)',
	'SELECT t.k FROM t WHERE NOT EXISTS (SELECT FROM u WHERE u.k = t.k)',
	'SELECT count(*) FROM t JOIN u USING (k) WHERE t.k BETWEEN 300 AND 700');
COMMIT;

--
-- Bitmaps
--
CREATE TABLE b (k int, id int, other bigint);
INSERT INTO b SELECT shuffle(i) % 1000, i, shuffle(i + 5000) % 100 FROM generate_series(1, 20000) i;
CREATE INDEX b_k ON b USING harmonia (k);
CREATE INDEX b_other ON b USING harmonia (other);
CREATE INDEX b_id ON b USING btree (id);
:vacuum ANALYZE b;
BEGIN;
CALL use('bitmap');
SELECT * FROM plan('SELECT count(*) FROM b WHERE k < 20 AND other = 3');
SELECT * FROM plan('SELECT count(*) FROM b WHERE k < 5 OR other = 3 OR id < 50');
COMMIT;
SELECT * FROM compare('b',
	'k < 20 AND other = 3', 'k < 5 OR other = 3', 'k < 5 OR k > 990', 'k < 5 OR other = 3 OR id < 50',
	'(k < 5 OR other = 3) AND (k < 10 OR other = 4)', 'k = ANY (''{1,2}'') OR other = ANY (''{1,2}'')');

-- A bitmap that becomes lossy
BEGIN;
SET LOCAL work_mem = '64kB';
SELECT * FROM compare('b', 'k < 700', 'k < 700 AND id > 5000 AND other < 50');
COMMIT;

-- In parallel
BEGIN;
SET LOCAL parallel_setup_cost = 0;
SET LOCAL parallel_tuple_cost = 0;
SET LOCAL min_parallel_table_scan_size = 0;
SET LOCAL max_parallel_workers_per_gather = 2;
CALL use('bitmap');
SELECT * FROM plan('SELECT count(*), sum(id) FROM b WHERE k < 500');
SELECT count(*), sum(id) FROM b WHERE k < 500;
CALL use('seq');
SELECT count(*), sum(id) FROM b WHERE k < 500;
COMMIT;

--
-- Index-only scans
--
BEGIN;
CALL use('only');
SELECT * FROM plan('SELECT k FROM t WHERE k < 5');
SELECT * FROM plan('SELECT k + 1 FROM t WHERE k = ANY (''{1,2}'') ORDER BY k DESC');
SELECT * FROM plan('SELECT count(*) FROM t WHERE k IS NULL');
SELECT * FROM plan('SELECT id FROM t WHERE k < 5');
COMMIT;
-- Floating-point keys cannot be returned
CREATE TABLE f (k float8, id int);
INSERT INTO f SELECT i / 10.0, i FROM generate_series(-100, 100) i;
INSERT INTO f VALUES ('NaN', 201), ('-0', 202), ('Infinity', 203), (NULL, 204);
CREATE INDEX f_k ON f USING harmonia (k);
:vacuum ANALYZE f;
BEGIN;
CALL use('only');
SELECT * FROM plan('SELECT k FROM f WHERE k < 5');
SELECT * FROM plan('SELECT count(*) FROM f WHERE k < 5');
COMMIT;
SELECT condition, n, index, bitmap FROM compare('f',
	'k = 0', 'k < 0', 'k > 5', 'k = ''NaN''', 'k >= ''Infinity''', 'k IS NULL', 'k = 0.1::real', 'k = 0.5::real');
-- An index on an expression, and a query for the column
CREATE INDEX t_even ON t USING harmonia ((k % 2)) WHERE id > 6500;
ANALYZE t;
BEGIN;
CALL use('only');
SELECT * FROM plan('SELECT k % 2 FROM t WHERE k % 2 = 0 AND id > 6500');
COMMIT;
DROP INDEX t_even;

--
-- Rescans
--
CREATE TABLE keys (k int, low int, high int, list int[], big bigint);
INSERT INTO keys SELECT k, k, k + 3, ARRAY[k, k + 1, NULL, k], k * 1000000000::bigint
	FROM generate_series(-5, 1005, 10) k;
INSERT INTO keys VALUES (NULL, NULL, 5, NULL, NULL), (7, 5, NULL, '{}', 7), (7, 7, 7, '{NULL}', 7),
	(7, 9, 7, '{500,7}', 7), (2147483647, -2147483648, -2147483648, '{2147483647}', 2147483647);
ANALYZE keys;
BEGIN;
SET LOCAL enable_hashjoin = off;
SET LOCAL enable_mergejoin = off;
SET LOCAL enable_material = off;
SET LOCAL enable_memoize = off;
SELECT query, n, result, plan ~ 'Index' AS uses_index FROM compare_queries(
	'SELECT keys, t FROM keys JOIN t ON t.k = keys.k',
	'SELECT keys, t FROM keys JOIN t ON t.k = keys.big',
	'SELECT keys, t FROM keys JOIN t ON t.k BETWEEN keys.low AND keys.high',
	'SELECT keys, t FROM keys JOIN t ON t.k = ANY (keys.list)',
	'SELECT keys, t FROM keys JOIN t ON t.k = ANY (keys.list) AND t.k > keys.low',
	'SELECT keys, t FROM keys LEFT JOIN t ON t.k = keys.k',
	'SELECT keys FROM keys WHERE EXISTS (SELECT FROM t WHERE t.k = keys.k)',
	'SELECT keys FROM keys WHERE NOT EXISTS (SELECT FROM t WHERE t.k = keys.k)',
	'SELECT keys, s FROM keys, LATERAL (SELECT k FROM t WHERE t.k > keys.k ORDER BY k LIMIT 1) s',
	'SELECT keys, s FROM keys, LATERAL (SELECT k FROM t WHERE t.k < keys.k ORDER BY k DESC LIMIT 2) s',
	'SELECT keys, (SELECT max(k) FROM t WHERE t.k < keys.big) FROM keys');
-- Bitmap scans again and again
CALL use('bitmap');
SELECT * FROM plan('SELECT count(*), sum(t.id) FROM keys JOIN t ON t.k = ANY (keys.list)');
SELECT count(*), sum(t.id) FROM keys JOIN t ON t.k = ANY (keys.list);
CALL use('seq');
SELECT count(*), sum(t.id) FROM keys JOIN t ON t.k = ANY (keys.list);
COMMIT;

--
-- Cursors that change direction, compared with one that reads a sorted table
--
CREATE FUNCTION compare_cursors(query text, VARIADIC moves text[]) RETURNS text LANGUAGE plpgsql
AS $$
DECLARE
	move text;
	wanted int;
	got int;
	fetched bigint = 0;
BEGIN
	CALL use('seq');
	PERFORM set_config('enable_sort', 'on', true);
	EXECUTE 'DECLARE a SCROLL CURSOR FOR ' || query;
	CALL use('only');
	PERFORM set_config('enable_sort', 'off', true);
	EXECUTE 'DECLARE b SCROLL CURSOR FOR ' || query;
	FOREACH move IN ARRAY moves LOOP
		DECLARE
			times int = coalesce(substring(move FROM ' x(\d+)$')::int, 1);
			command text = regexp_replace(move, ' x\d+$', '');
		BEGIN
			FOR i IN 1..times LOOP
				EXECUTE format('FETCH %s FROM a', command) INTO wanted;
				EXECUTE format('FETCH %s FROM b', command) INTO got;
				IF got IS DISTINCT FROM wanted THEN
					RETURN format('after %s fetches "FETCH %s" gives %s and not %s', fetched, command, got, wanted);
				END IF;
				fetched := fetched + 1;
			END LOOP;
		END;
	END LOOP;
	EXECUTE 'CLOSE a';
	EXECUTE 'CLOSE b';
	RETURN fetched || ' fetches are the same';
END $$;
SELECT compare_cursors('SELECT k FROM t ORDER BY k',
	'NEXT x100', 'PRIOR x101', 'NEXT', 'LAST', 'NEXT', 'PRIOR x400', 'NEXT x450', 'FIRST', 'PRIOR', 'NEXT x3');
SELECT compare_cursors('SELECT k FROM t ORDER BY k DESC',
	'ABSOLUTE 300', 'NEXT x5', 'RELATIVE -10', 'PRIOR x20', 'ABSOLUTE -1', 'PRIOR x100', 'RELATIVE 50', 'ABSOLUTE 0', 'NEXT');
SELECT compare_cursors('SELECT k FROM t WHERE k BETWEEN 400 AND 600 ORDER BY k',
	'RELATIVE 700', 'RELATIVE -1 x500', 'RELATIVE 7 x150', 'RELATIVE -70 x20', 'LAST', 'FIRST');
SELECT compare_cursors('SELECT k FROM t WHERE k = ANY (''{900,7,8,9,500}'') ORDER BY k',
	'NEXT x20', 'PRIOR x21', 'NEXT x1100', 'PRIOR x1100', 'LAST', 'PRIOR', 'NEXT', 'NEXT', 'NEXT', 'PRIOR');
SELECT compare_cursors('SELECT k FROM t WHERE k > 2000000000 ORDER BY k',
	'PRIOR', 'NEXT', 'PRIOR', 'NEXT', 'NEXT', 'NEXT', 'NEXT', 'PRIOR', 'LAST', 'FIRST');
SELECT compare_cursors('SELECT k FROM t WHERE k = 2000 ORDER BY k', 'NEXT', 'PRIOR', 'LAST', 'FIRST');

-- A cursor does not see later changes of its own transaction, and finds its way
-- when leaves are split
BEGIN;
CALL use('only');
CREATE TABLE moving (k int);
CREATE INDEX moving_k ON moving USING harmonia (k) WITH (fanout = 8, fillfactor = 100);
INSERT INTO moving SELECT i * 10 FROM generate_series(1, 3000) i;
DECLARE c SCROLL CURSOR FOR SELECT k FROM moving ORDER BY k;
FETCH 2 FROM c;
INSERT INTO moving SELECT i FROM generate_series(1, 30000) i WHERE i % 10 <> 0;
MOVE 996 FROM c;
FETCH 4 FROM c;
DELETE FROM moving WHERE k BETWEEN 9000 AND 11000;
FETCH BACKWARD 3 FROM c;
MOVE ALL FROM c;
FETCH PRIOR FROM c;
MOVE BACKWARD 3000 FROM c;
FETCH NEXT FROM c;
ROLLBACK;

-- WITH HOLD, WHERE CURRENT OF
BEGIN;
CALL use('index');
DECLARE held SCROLL CURSOR WITH HOLD FOR SELECT k FROM t WHERE k < 30 ORDER BY k;
FETCH 1 FROM held;
DECLARE c CURSOR FOR SELECT k, id FROM t WHERE k = 500 AND id < 6010 FOR UPDATE;
MOVE 3 FROM c;
UPDATE t SET k = 2001 WHERE CURRENT OF c;
MOVE 1 FROM c;
DELETE FROM t WHERE CURRENT OF c;
SELECT count(*) FROM t WHERE k = 500;
SELECT count(*) FROM t WHERE k = 2001;
ROLLBACK;
BEGIN;
CALL use('index');
DECLARE held SCROLL CURSOR WITH HOLD FOR SELECT k FROM t WHERE k < 30 ORDER BY k;
FETCH 1 FROM held;
COMMIT;
FETCH LAST FROM held;
FETCH FIRST FROM held;
CLOSE held;

--
-- Prepared statements
--
PREPARE by_key(int) AS SELECT count(*), min(id), max(id) FROM t WHERE k = $1;
PREPARE by_range(int, bigint) AS SELECT count(*), min(id), max(id) FROM t WHERE k >= $1 AND k < $2;
PREPARE by_array(int[]) AS SELECT count(*), min(id), max(id) FROM t WHERE k = ANY ($1);
CREATE FUNCTION compare_executions() RETURNS TABLE (execution text, n bigint, custom text, generic text)
	LANGUAGE plpgsql
AS $$
DECLARE
	wanted record;
	got record;
BEGIN
	FOREACH execution IN ARRAY ARRAY[
		'by_key(7)', 'by_key(500)', 'by_key(NULL)', 'by_key(1000)',
		'by_range(400, 500)', 'by_range(500, 400)', 'by_range(NULL, 5)', 'by_range(900, 3000000000)',
		'by_array(''{7,7,9}'')', 'by_array(NULL)', 'by_array(''{}'')', 'by_array(''{NULL,500}'')']
	LOOP
		CALL use('seq');
		PERFORM set_config('plan_cache_mode', 'force_custom_plan', true);
		EXECUTE 'EXECUTE ' || execution INTO wanted;
		n := wanted.count;
		CALL use('index');
		EXECUTE 'EXECUTE ' || execution INTO got;
		custom := CASE WHEN got = wanted THEN 'same' ELSE 'DIFFERS' END;
		PERFORM set_config('plan_cache_mode', 'force_generic_plan', true);
		EXECUTE 'EXECUTE ' || execution INTO got;
		generic := CASE WHEN got = wanted THEN 'same' ELSE 'DIFFERS' END;
		RETURN NEXT;
	END LOOP;
END $$;
SELECT * FROM compare_executions();
BEGIN;
CALL use('index');
SET LOCAL plan_cache_mode = force_generic_plan;
SELECT * FROM plan('EXECUTE by_key(7)');
SELECT * FROM plan('EXECUTE by_range(400, 500)');
SELECT * FROM plan('EXECUTE by_array(''{1,2}'')');
COMMIT;
DEALLOCATE ALL;

-- Rows are locked
BEGIN;
CALL use('index');
SELECT k, id FROM t WHERE k = 7 ORDER BY k, id LIMIT 2 FOR UPDATE;
ROLLBACK;
