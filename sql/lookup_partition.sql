--
-- Lookup joins with partitioned tables and inheritance parents
--
SET client_min_messages = warning;
SET timezone = 'UTC';
SET jit = off;
SET max_parallel_workers_per_gather = 0;
SET harmonia.enable_lookup_aggregate = off;
CREATE SCHEMA lookup_partition;
SET search_path = lookup_partition, public;
\getenv srcdir PG_ABS_SRCDIR
\set compare :srcdir '/sql/include/compare.sql'
\i :compare
\set lookup :srcdir '/sql/include/lookup.sql'
\i :lookup

-- Outer rows: repeated keys, keys that are not found, NULLs
CREATE TABLE o (k int, n int GENERATED ALWAYS AS IDENTITY, w text) WITH (autovacuum_enabled = off);
INSERT INTO o (k, w) SELECT CASE WHEN i % 17 <> 0 THEN shuffle(i) % 1700 - 100 END, i % 7 FROM generate_series(1, 1000) i;
CREATE TABLE bounds (low int, high int, n int) WITH (autovacuum_enabled = off);
INSERT INTO bounds SELECT i * 16 - 50, i * 16 + i % 50 - 50, i FROM generate_series(1, 90) i;
INSERT INTO bounds VALUES (10, 5, 100), (NULL, 5, 101), (-2147483648, -5, 103), (1390, 2147483647, 104), (499, 500, 105), (380, 820, 106);

-- Partitioned by ranges of the key.  Some partitions have columns in another order or
-- dropped columns, one has partitions by another column, and one is the default.
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
:vacuum ANALYZE r, o, bounds;
UPDATE r SET v = 'v1' WHERE id % 100 = 3;
DELETE FROM r WHERE id % 90 = 5;

--
-- Plans
--
BEGIN;
CALL use_lookups(true);
SELECT * FROM plan('SELECT o.n, r.id FROM o JOIN r USING (k) WHERE r.v > ''v0''');
SELECT * FROM plan('SELECT o.n FROM o WHERE NOT EXISTS (SELECT FROM r x WHERE x.k = o.k)');
SELECT * FROM plan('SELECT r.tableoid::regclass, r.id FROM o JOIN r USING (k) WHERE r.k > 600 AND r.v IN (''v0'', ''v1'')', 'VERBOSE');
SELECT * FROM plan('SELECT r.k FROM bounds JOIN r ON r.k BETWEEN low AND high WHERE r.k < 450', 'FORMAT JSON');
-- A probe goes to partitions whose bounds allow it: r_rest has no bounds, both in r_3 have r_3's.
SELECT * FROM explained('SELECT o.n, r.id FROM o JOIN r USING (k) WHERE o.k BETWEEN 450 AND 460');
SELECT * FROM explained('SELECT s.k, r.id FROM generate_series(390, 410) s (k) JOIN r USING (k)');
ROLLBACK;
CREATE FUNCTION keys_looked_up(query text) RETURNS bigint LANGUAGE plpgsql
AS $$
DECLARE
	plan json;
BEGIN
	CALL use_lookups(true);
	EXECUTE 'EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) ' || query INTO plan;
	RETURN (SELECT sum((node #>> '{}')::bigint) FROM jsonb_path_query(plan::jsonb, 'strict $.**."Keys"') node);
END $$;

--
-- Answers of each type of join
--
SELECT * FROM compare_lookups(
	'SELECT o.*, r.* FROM o JOIN r USING (k)', 'SELECT count(*) FROM o JOIN r USING (k)', 'SELECT r.k FROM o JOIN r USING (k)',
	'SELECT r.id * 2 FROM o JOIN r USING (k) WHERE r.v < ''v3'' AND o.w > ''2''', 'SELECT n, id FROM o JOIN r ON r.k = o.k + 1 AND o.n < r.id',
	'SELECT n, id FROM o LEFT JOIN r USING (k)', 'SELECT n, r.* FROM o LEFT JOIN r ON r.k = o.k AND r.v = ''v1''', 'SELECT n, r.k FROM o LEFT JOIN r ON r.k = o.k AND o.n % 2 = 0',
	'SELECT n, r.id FROM o LEFT JOIN r ON r.k = o.k WHERE r.id IS NULL OR r.id % 2 = 0', 'SELECT n, coalesce(r.v, ''-'') FROM r RIGHT JOIN o USING (k)',
	'SELECT n FROM o WHERE EXISTS (SELECT FROM r WHERE r.k = o.k)', 'SELECT n FROM o WHERE EXISTS (SELECT FROM r WHERE r.k = o.k AND r.id > 1500)',
	'SELECT n FROM o WHERE NOT EXISTS (SELECT FROM r WHERE r.k = o.k)', 'SELECT n FROM o WHERE NOT EXISTS (SELECT FROM r WHERE r.k = o.k AND r.id > o.n)',
	'SELECT id FROM r WHERE k IN (SELECT k FROM o)', 'SELECT k FROM r WHERE k IN (SELECT k FROM o WHERE w < ''2'')',
	'SELECT r.k, n FROM bounds JOIN r ON r.k BETWEEN low AND high', 'SELECT n, r.id FROM bounds LEFT JOIN r ON r.k > low AND r.k < high AND r.v > ''v3''',
	'SELECT n FROM bounds WHERE EXISTS (SELECT FROM r WHERE r.k BETWEEN low AND high AND r.id % 50 = n % 50)', 'SELECT n FROM bounds WHERE NOT EXISTS (SELECT FROM r WHERE r.k >= low AND r.k < high)',
	'SELECT n, r.id FROM o JOIN r ON r.k = o.k::bigint', 'SELECT n, r.id FROM (SELECT n, k::smallint AS k FROM o) o JOIN r USING (k)',
	'SELECT n, id FROM o JOIN r USING (k) ORDER BY n, id LIMIT 9 OFFSET 2', 'SELECT * FROM o JOIN r USING (k) WHERE r.k = 5', 'SELECT a.id, b.id FROM r a JOIN r b ON b.k = a.id WHERE a.k < 200');
-- System columns; a whole row is looked up by no lookup join
SELECT * FROM compare_lookups(
	'SELECT n, r.tableoid FROM o JOIN r USING (k)', 'SELECT r.tableoid, r.ctid, r.xmin, r.id FROM o JOIN r USING (k)', 'SELECT n, r.tableoid FROM o LEFT JOIN r USING (k)',
	'SELECT n, id FROM o JOIN r ON r.k = o.k AND r.tableoid = ''r_2''::regclass', 'SELECT n FROM o WHERE NOT EXISTS (SELECT FROM r WHERE r.k = o.k AND r.ctid > ''(1,1)'')',
	'SELECT r FROM o JOIN r USING (k)');
-- Some partitions, one, and none
SELECT * FROM compare_lookups(
	'SELECT n, id FROM o JOIN r USING (k) WHERE r.k < 450', 'SELECT n, id FROM o JOIN r ON r.k = o.k AND r.k > 500 AND r.v = ''v1''', 'SELECT n, r.k FROM o JOIN r USING (k) WHERE r.k BETWEEN 410 AND 490',
	'SELECT n, id FROM o LEFT JOIN r ON r.k = o.k AND r.k BETWEEN 450 AND 600', 'SELECT n, id FROM o LEFT JOIN r ON r.k = o.k AND r.k IS NULL', 'SELECT n, id FROM o JOIN r_3 USING (k)',
	'SELECT n FROM o WHERE NOT EXISTS (SELECT FROM r WHERE r.k = o.k AND r.k BETWEEN 450 AND 600)');
-- Rescanned for each outer row, below another join, in a target list, in views; wide rows
CREATE VIEW joined_view AS SELECT o.n, r.id, r.v FROM o JOIN r USING (k);
SELECT * FROM compare_lookups(
	'SELECT n, (SELECT count(*) FROM o JOIN r USING (k) WHERE o.n < bounds.n) FROM bounds WHERE n < 12',
	'SELECT n, s.* FROM bounds, LATERAL (SELECT o.k, r.id FROM o JOIN r ON r.k = o.k + bounds.n WHERE o.n < bounds.n ORDER BY r.id LIMIT 3) s WHERE n < 20',
	'SELECT n, s.* FROM bounds, LATERAL (SELECT count(r.id), sum(o.n) FROM o LEFT JOIN r ON r.k BETWEEN o.k AND o.k + bounds.n AND r.id > bounds.low WHERE o.n < 40) s WHERE n < 20',
	'SELECT * FROM joined_view WHERE n % 3 = 0', 'WITH x AS MATERIALIZED (SELECT * FROM joined_view) SELECT x.n, r.v FROM x JOIN r ON r.k = x.id',
	'SELECT length(big), r.id FROM (SELECT k, repeat(w, 3000) AS big FROM o OFFSET 0) s JOIN r USING (k)',
	'SELECT a.n, r.id, s.id FROM o a JOIN r USING (k) LEFT JOIN r s ON s.k = r.id', 'SELECT s.c, r.id FROM (SELECT a.n, coalesce(b.k, -1) AS c FROM o a LEFT JOIN r b USING (k)) s JOIN r ON r.k = s.c');

--
-- By lists, by hash, by other columns
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
INSERT INTO f SELECT i / 4.0, i FROM generate_series(-200, 200) i;
INSERT INTO f VALUES ('-0', 0), ('NaN', 1), ('-NaN', 2), ('inf', 3);
CREATE TABLE fo AS SELECT k FROM f WHERE id % 3 = 0 UNION ALL VALUES ('NaN'::float8), ('0'), ('-inf');
CREATE TABLE d (k date, id int) PARTITION BY RANGE (k, id);
CREATE TABLE d_1 PARTITION OF d FOR VALUES FROM (MINVALUE, MINVALUE) TO ('2000-02-01', 10);
CREATE TABLE d_2 PARTITION OF d FOR VALUES FROM ('2000-02-01', 10) TO ('2000-02-01', 20);
CREATE TABLE d_3 PARTITION OF d FOR VALUES FROM ('2000-02-01', 20) TO ('2000-05-05', MAXVALUE);
CREATE TABLE d_4 PARTITION OF d FOR VALUES FROM ('2000-05-06', MINVALUE) TO (MAXVALUE, MAXVALUE);
CREATE INDEX ON d USING harmonia (k);
INSERT INTO d SELECT date '2000-02-01' + i % 60 - 20, i FROM generate_series(1, 1000) i;
INSERT INTO d SELECT '2000-02-01', i FROM generate_series(1, 40) i;
INSERT INTO d VALUES ('infinity', 1), ('-infinity', 2), ('2000-05-05', 3);
CREATE TABLE od (k date, at timestamp, n int);
INSERT INTO od SELECT date '2000-02-01' + i % 70 - 30, timestamp '2000-02-01' + (i % 70 - 30) * interval '6 hours', i FROM generate_series(1, 150) i;
INSERT INTO od VALUES ('infinity', '-infinity', 200), ('-infinity', 'infinity', 201);
-- An operator class with another order
CREATE FUNCTION compare_backwards(int, int) RETURNS int LANGUAGE sql IMMUTABLE STRICT AS 'SELECT btint4cmp($2, $1)';
CREATE OPERATOR CLASS backwards FOR TYPE int USING btree AS
	OPERATOR 1 >, OPERATOR 2 >=, OPERATOR 3 =, OPERATOR 4 <=, OPERATOR 5 <, FUNCTION 1 compare_backwards(int, int);
CREATE TABLE b (k int, id int) PARTITION BY RANGE (k backwards);
CREATE TABLE b_1 PARTITION OF b FOR VALUES FROM (MINVALUE) TO (500);
CREATE TABLE b_2 PARTITION OF b FOR VALUES FROM (500) TO (0);
CREATE INDEX ON b USING harmonia (k);
INSERT INTO b SELECT i % 1000 + 1, i FROM generate_series(1, 2000) i;
-- By another column, or by an expression that is the key
CREATE TABLE e (id int, k int) PARTITION BY RANGE ((k / 10));
CREATE TABLE e_1 PARTITION OF e FOR VALUES FROM (MINVALUE) TO (20);
CREATE TABLE e_2 PARTITION OF e FOR VALUES FROM (20) TO (MAXVALUE);
CREATE INDEX ON e USING harmonia (k);
CREATE INDEX ON e USING harmonia ((k / 10));
CREATE INDEX ON e USING harmonia (id) WHERE k % 2 = 0;
INSERT INTO e SELECT i, i * 7 % 500 FROM generate_series(1, 1500) i;
CREATE DOMAIN positive AS int CHECK (VALUE > 0);
CREATE TABLE p (k positive, id int) PARTITION BY RANGE (k);
CREATE TABLE p_1 PARTITION OF p FOR VALUES FROM (1) TO (300);
CREATE TABLE p_2 PARTITION OF p FOR VALUES FROM (300) TO (1000);
CREATE INDEX ON p USING harmonia (k);
INSERT INTO p SELECT i, i FROM generate_series(1, 999) i;
:vacuum ANALYZE l, h, f, fo, d, od, b, e, p;
SELECT * FROM compare_lookups(
	'SELECT n, id FROM o JOIN l USING (k)', 'SELECT n, id FROM o LEFT JOIN l USING (k)', 'SELECT n, id FROM bounds JOIN l ON k BETWEEN low AND high', 'SELECT n FROM o WHERE NOT EXISTS (SELECT FROM l WHERE l.k = o.k)',
	'SELECT n, h.* FROM o JOIN h USING (k)', 'SELECT n, h.k FROM o LEFT JOIN h USING (k)', 'SELECT n, id FROM bounds JOIN h ON k BETWEEN low AND high WHERE n % 5 = 0', 'SELECT n, id FROM o JOIN h ON h.k = o.k::bigint',
	'SELECT n FROM o WHERE EXISTS (SELECT FROM h WHERE h.k = o.k AND id > 1000)', 'SELECT n FROM o WHERE NOT EXISTS (SELECT FROM h WHERE h.k = o.k)', 'SELECT n, id FROM bounds JOIN h ON k >= low AND k <= high AND high < low + 3',
	'SELECT fo.k, id FROM fo JOIN f USING (k)', 'SELECT fo.k, id FROM fo LEFT JOIN f ON f.k BETWEEN fo.k AND fo.k + 1', 'SELECT fo.k FROM fo WHERE NOT EXISTS (SELECT FROM f WHERE f.k = fo.k::real)',
	'SELECT n, id FROM od JOIN d USING (k)', 'SELECT n, id FROM od LEFT JOIN d ON d.k = od.at', 'SELECT n, id FROM od JOIN d ON d.k > od.k AND d.k <= od.at', 'SELECT n FROM od WHERE NOT EXISTS (SELECT FROM d WHERE d.k = od.at::timestamptz)',
	'SELECT n, id FROM o JOIN b USING (k)', 'SELECT n, id FROM bounds LEFT JOIN b ON b.k >= low AND b.k < high',
	'SELECT n, id FROM o JOIN e USING (k)', 'SELECT n, id FROM o JOIN e ON e.k / 10 = o.k', 'SELECT n, e.k FROM o JOIN e ON e.id = o.k AND e.k % 2 = 0', 'SELECT n, e.k FROM o JOIN e ON e.id = o.k',
	'SELECT n, id FROM o JOIN p USING (k)', 'SELECT n, p.k FROM o LEFT JOIN p ON p.k = o.k');
-- How many keys are looked up in all partitions together
SELECT keys_looked_up('SELECT FROM generate_series(1, 700) s (k) JOIN l USING (k)') AS lists, keys_looked_up('SELECT FROM generate_series(1, 1000) s (k) JOIN h USING (k)') AS hashes,
	keys_looked_up('SELECT FROM o JOIN f ON f.k = o.n') / count(*) AS floats, keys_looked_up('SELECT FROM od JOIN d USING (k)') AS dates,
	keys_looked_up('SELECT FROM generate_series(1, 1000) s (k) JOIN b USING (k)') AS backwards, keys_looked_up('SELECT FROM generate_series(1, 999) s (k) JOIN p USING (k)') AS domains,
	keys_looked_up('SELECT FROM generate_series(1, 100) s (k) JOIN e USING (k)') AS others, keys_looked_up('SELECT FROM generate_series(1, 100) s (k) JOIN e ON e.k / 10 = s.k') AS expressions FROM o;

-- Each type of key as a partition key
CREATE FUNCTION compare_key(type text, key text, bound text) RETURNS text LANGUAGE plpgsql
AS $$
DECLARE
	results text;
BEGIN
	EXECUTE format('CREATE TABLE k (id int, k %s) PARTITION BY RANGE (k)', type);
	EXECUTE format('CREATE TABLE k_1 PARTITION OF k FOR VALUES FROM (MINVALUE) TO (%L)', bound);
	EXECUTE format('CREATE TABLE k_2 (k %s, id int)', type);
	EXECUTE format('ALTER TABLE k ATTACH PARTITION k_2 FOR VALUES FROM (%L) TO (MAXVALUE)', bound);
	CREATE INDEX ON k USING harmonia (k);
	EXECUTE format('INSERT INTO k SELECT i, %s FROM generate_series(1, 100) i', key);
	EXECUTE format('CREATE TABLE ok AS SELECT i AS n, %s AS k FROM generate_series(1, 120, 3) i', key);
	ANALYZE k, ok;
	SELECT string_agg(result || coalesce(' ' || nodes, ' without'), '; ') INTO results FROM compare_lookups(
		'SELECT n, id FROM ok JOIN k USING (k)', 'SELECT n, k.k IS NULL FROM ok LEFT JOIN k ON k.k <= ok.k AND k.k >= ok.k', 'SELECT n FROM ok WHERE NOT EXISTS (SELECT FROM k WHERE k.k = ok.k)');
	results := results || format(', %s of %s keys', keys_looked_up('SELECT id FROM ok JOIN k USING (k)'), (SELECT count(*) FROM ok));
	DROP TABLE k, ok;
	RETURN results;
END $$;
SELECT type, compare_key(type, key, bound) FROM (VALUES ('bool', 'i % 2 = 0', 'true'), ('"char"', '(i::int)::"char"', 'm'), ('int2', 'i::int2', '50'), ('int8', 'i::int8 - 60', '-5'), ('oid', 'i::oid', '50'),
	('date', 'date ''2000-01-01'' + i', '2000-02-01'), ('time', 'time ''00:00'' + i * interval ''13 minutes''', '12:00'), ('timestamp', 'timestamp ''2000-01-01'' + i * interval ''1 day''', '2000-02-01'),
	('timestamptz', 'timestamptz ''2000-01-01'' + i * interval ''1 day''', '2000-02-01'), ('float4', 'i::float4 - 50', '0'), ('float8', 'i::float8 / 3 - 7', '-0'), ('money', 'i::numeric::money', '50')) types (type, key, bound);

--
-- Inheritance
--
CREATE TABLE parent (k int, v text);
CREATE TABLE child (x int) INHERITS (parent);
CREATE TABLE other (v text, y int, k int);
ALTER TABLE other INHERIT parent;
CREATE TABLE grandchild () INHERITS (child, other);
CREATE INDEX ON parent USING harmonia (k);
CREATE INDEX ON child USING harmonia (k);
CREATE INDEX ON other USING harmonia (k);
CREATE INDEX ON grandchild USING harmonia (k);
INSERT INTO parent SELECT i, 'parent' FROM generate_series(1, 400) i;
INSERT INTO child SELECT i, 'child', i FROM generate_series(200, 600) i;
INSERT INTO other SELECT 'other', i, i FROM generate_series(500, 800) i;
INSERT INTO grandchild SELECT i, 'grandchild', i, i FROM generate_series(5, 900, 5) i;
:vacuum ANALYZE parent, child, other, grandchild;
BEGIN;
CALL use_lookups(true);
SELECT * FROM plan('SELECT parent.k FROM o JOIN parent USING (k)');
ROLLBACK;
SELECT * FROM compare_lookups(
	'SELECT n, parent.* FROM o JOIN parent USING (k)', 'SELECT n, parent.k, parent.tableoid FROM o LEFT JOIN parent USING (k)', 'SELECT n, k, x FROM o JOIN child USING (k)', 'SELECT n, parent.k FROM o JOIN ONLY parent USING (k)',
	'SELECT n FROM o WHERE EXISTS (SELECT FROM parent WHERE parent.k = o.k AND v <> ''parent'')', 'SELECT n FROM o WHERE NOT EXISTS (SELECT FROM parent WHERE parent.k = o.k)', 'SELECT n, k FROM bounds JOIN parent ON k BETWEEN low AND high');

--
-- Joins that are no lookup joins
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
SELECT query, lookup_nodes(query) FROM unnest(ARRAY['SELECT n, id FROM o JOIN x USING (k)', 'SELECT n, id FROM o JOIN x USING (k) WHERE x.k < 500', 'SELECT * FROM o JOIN r USING (k) FOR UPDATE OF o', 'SELECT * FROM o JOIN r TABLESAMPLE SYSTEM (100) USING (k)',
	'UPDATE r SET id = n FROM o WHERE o.k = r.k', 'DELETE FROM o USING r WHERE o.k = r.k']) query;
ROLLBACK;

--
-- Prepared statements: a plan notices when partitions are added or removed
--
CREATE TABLE c (k int, id int) PARTITION BY RANGE (k);
CREATE TABLE c_1 PARTITION OF c FOR VALUES FROM (0) TO (500);
CREATE TABLE c_2 PARTITION OF c FOR VALUES FROM (500) TO (1000);
CREATE INDEX c_k ON c USING harmonia (k);
INSERT INTO c SELECT i, i FROM generate_series(0, 999) i;
ANALYZE c;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_nestloop = off;
SET plan_cache_mode = force_generic_plan;
PREPARE joined(int) AS SELECT count(*), sum(c.id)::bigint FROM o JOIN c USING (k) WHERE c.id > $1;
SELECT * FROM plan('EXECUTE joined(-1)');
EXECUTE joined(-1);
CREATE TABLE c_3 (id int, k int);
INSERT INTO c_3 SELECT i, i FROM generate_series(1000, 1599) i;
ALTER TABLE c ATTACH PARTITION c_3 FOR VALUES FROM (1000) TO (1600);
SELECT * FROM plan('EXECUTE joined(-1)');
EXECUTE joined(-1);
ALTER TABLE c DETACH PARTITION c_1;
EXECUTE joined(-1);
ALTER TABLE c ATTACH PARTITION c_1 FOR VALUES FROM (-100) TO (500);
INSERT INTO c_1 SELECT -i, i FROM generate_series(1, 100) i;
EXECUTE joined(-1);
ALTER TABLE c DROP id, ADD id bigint DEFAULT 7;
EXECUTE joined(-1);
DROP INDEX c_k;
EXECUTE joined(-1);
CREATE INDEX c_k ON c USING harmonia (k);
EXECUTE joined(-1);
SELECT * FROM plan('EXECUTE joined(-1)');
DROP TABLE c_2;
EXECUTE joined(-1);
-- It locks all tables that it reads.
BEGIN;
EXECUTE joined(-1);
SELECT relation::regclass, mode FROM pg_locks WHERE pid = pg_backend_pid() AND relation::regclass::text LIKE 'c%' ORDER BY relation::regclass::text, mode;
COMMIT;
DEALLOCATE ALL;
RESET plan_cache_mode;

--
-- Cursors
--
BEGIN;
CALL use_lookups(true);
DECLARE c SCROLL CURSOR FOR SELECT 1 FROM o JOIN r USING (k);
SELECT count(*) FROM o JOIN r USING (k);
MOVE LAST c;
FETCH PRIOR c;
MOVE FIRST c;
SELECT * FROM rest('c');
SELECT count(*), sum(r.id) FROM o JOIN r USING (k);
DECLARE open CURSOR FOR SELECT r.id FROM o JOIN r USING (k);
SELECT sum AS first FROM rest('open', 300) \gset
DELETE FROM r;
INSERT INTO r SELECT i, i FROM generate_series(0, 1499) i;
SELECT n + 300 AS n, sum + :first AS sum FROM rest('open');
SELECT count(*), sum(r.id) FROM o JOIN r USING (k);
ROLLBACK;

-- A query ends before its last row; many batches in many partitions take no more memory
CREATE FUNCTION fail_at(i int, at int) RETURNS int LANGUAGE plpgsql AS
	'BEGIN IF i = at THEN RAISE ''failed''; END IF; RETURN i; END';
CREATE FUNCTION executor_memory() RETURNS numeric LANGUAGE sql AS
$$
	-- 18 has paths for parents.
	WITH contexts AS MATERIALIZED (SELECT name, total_bytes, to_jsonb(c) AS c FROM pg_backend_memory_contexts c)
	SELECT sum(total_bytes) FROM contexts WHERE name = 'ExecutorState' OR c ->> 'parent' = 'ExecutorState'
		OR c -> 'path' -> -2 IN (SELECT c -> 'path' -> -1 FROM contexts WHERE name = 'ExecutorState')
$$;
BEGIN;
CALL use_lookups(true);
SAVEPOINT a;
SELECT count(fail_at(r.k % 10, 5)) FROM o JOIN r USING (k);
ROLLBACK TO a;
SET LOCAL statement_timeout = '200ms';
SELECT pg_sleep(100), r.k FROM o JOIN r USING (k);
ROLLBACK TO a;
SET LOCAL statement_timeout = 0;
SELECT 1 FROM o JOIN r USING (k) LIMIT 1;
SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'page';
SET LOCAL work_mem = '64kB';
SELECT i % 1500 AS k INTO TEMP many FROM generate_series(1, 60000) i;
SELECT * FROM plan('SELECT count(*), max(CASE WHEN r.id = 77 THEN executor_memory() END) < 3000000 AS small FROM many JOIN r USING (k)');
SELECT count(*), max(CASE WHEN r.id = 77 THEN executor_memory() END) < 3000000 AS small FROM many JOIN r USING (k);
ROLLBACK;

--
-- Rights, row security and security barriers: the parent's count, not the partitions'
--
CREATE FUNCTION leak(v text) RETURNS boolean COST 0.0001 LANGUAGE plpgsql AS
	'BEGIN IF v ~ ''[13579]$'' THEN RAISE NOTICE ''leaked %'', v; END IF; RETURN true; END';
CREATE TABLE secret (k int, owner text, v text) PARTITION BY RANGE (k);
CREATE TABLE secret_1 PARTITION OF secret FOR VALUES FROM (0) TO (250);
CREATE TABLE secret_2 PARTITION OF secret FOR VALUES FROM (250) TO (1000);
INSERT INTO secret SELECT i / 2, CASE i % 2 WHEN 0 THEN 'regress_lookup_user' ELSE 'other' END, i FROM generate_series(2, 1000) i;
CREATE INDEX ON secret USING harmonia (k);
CREATE TABLE asked AS SELECT unnest('{1,2,300,301,2000}'::int[]) AS k;
ANALYZE secret, asked;
CREATE ROLE regress_lookup_user;
GRANT USAGE ON SCHEMA lookup_partition TO regress_lookup_user;
GRANT SELECT ON secret, asked TO regress_lookup_user;
GRANT SELECT (k, id) ON r TO regress_lookup_user;
ALTER TABLE secret ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON secret USING (owner = current_user);
ALTER TABLE secret_1 ENABLE ROW LEVEL SECURITY;
BEGIN;
CALL use_lookups(false);
SET LOCAL client_min_messages = notice;
SET LOCAL ROLE regress_lookup_user;
SELECT * FROM plan('SELECT * FROM asked JOIN secret s USING (k) WHERE leak(s.v)');
SELECT * FROM asked JOIN secret s USING (k) WHERE leak(s.v) ORDER BY k;
SELECT * FROM asked WHERE NOT EXISTS (SELECT FROM secret s WHERE s.k = asked.k AND leak(s.v)) ORDER BY k;
SELECT count(id) FROM asked JOIN r USING (k);
SAVEPOINT a;
SELECT count(*) FROM asked JOIN secret_1 USING (k);
ROLLBACK TO a;
SELECT count(v) FROM asked JOIN r USING (k);
ROLLBACK;

--
-- Parallel plans, and partitionwise joins
--
ALTER TABLE o SET (parallel_workers = 2);
SET max_parallel_workers_per_gather = 2;
SET parallel_setup_cost = 0;
SET lookup.seqscan = on;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
BEGIN;
CALL use_lookups(true);
SELECT * FROM plan('SELECT count(*) FROM o JOIN r USING (k)');
ROLLBACK;
SELECT * FROM compare_lookups(
	'SELECT o.*, r.* FROM o JOIN r USING (k)', 'SELECT n, r.id FROM o LEFT JOIN r ON r.k = o.k AND r.v > ''v3''', 'SELECT n FROM o WHERE NOT EXISTS (SELECT FROM r WHERE r.k = o.k)', 'SELECT n, h.id FROM o JOIN h USING (k)');
SET :force_parallel = on;
SET parallel_leader_participation = off;
SELECT * FROM compare_lookups('SELECT o.*, r.* FROM o JOIN r USING (k)', 'SELECT n, h.k FROM o JOIN h USING (k)', 'SELECT n, id FROM bounds JOIN r ON r.k BETWEEN low AND high');
RESET :force_parallel;
SET max_parallel_workers_per_gather = 0;
CREATE TABLE q (k int, n int) PARTITION BY RANGE (k);
CREATE TABLE q_1 PARTITION OF q FOR VALUES FROM (MINVALUE) TO (400);
CREATE TABLE q_2 PARTITION OF q FOR VALUES FROM (400) TO (500);
CREATE TABLE q_3 PARTITION OF q FOR VALUES FROM (500) TO (1000);
CREATE TABLE q_rest PARTITION OF q DEFAULT;
INSERT INTO q SELECT k, n FROM o;
ANALYZE q;
SET enable_partitionwise_join = on;
BEGIN;
CALL use_lookups(true);
SELECT * FROM plan('SELECT q.n, r.id FROM q JOIN r USING (k)');
ROLLBACK;
SELECT * FROM compare_lookups('SELECT q.n, r.id FROM q JOIN r USING (k)', 'SELECT q.n, r.k, r.tableoid FROM q LEFT JOIN r USING (k)', 'SELECT q.n FROM q WHERE NOT EXISTS (SELECT FROM r WHERE r.k = q.k AND r.id <> q.n)');
RESET enable_partitionwise_join;
SELECT * FROM compare_lookups('SELECT q.n, r.id FROM q JOIN r USING (k)');

RESET client_min_messages;
DROP OWNED BY regress_lookup_user;
DROP ROLE regress_lookup_user;
SET client_min_messages = warning;
DROP SCHEMA lookup_partition CASCADE;
