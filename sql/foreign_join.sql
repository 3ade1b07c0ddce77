--
-- Foreign joins: rows looked up in foreign tables, by one remote query for each batch
--
SET client_min_messages = warning;
SELECT NOT EXISTS (SELECT FROM pg_available_extensions WHERE name = 'postgres_fdw') AS skip \gset
\if :skip
\quit
\endif
LOAD 'harmonia';
SET jit = off;
SET max_parallel_workers_per_gather = 0;
CREATE SCHEMA foreign_join;
SET search_path = foreign_join, public;
\getenv srcdir PG_ABS_SRCDIR
\set compare :srcdir '/sql/include/compare.sql'
\i :compare
\set lookup :srcdir '/sql/include/lookup.sql'
\i :lookup
CREATE EXTENSION postgres_fdw;
DO $$
BEGIN
	EXECUTE format('CREATE SERVER loopback FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host %L, port %L, dbname %L, fetch_size ''10000'')',
		trim(split_part(current_setting('unix_socket_directories'), ',', 1)), current_setting('port'), current_database());
END $$;
CREATE USER MAPPING FOR CURRENT_USER SERVER loopback;

-- Remote tables: several rows of a key, NULLs
CREATE TABLE r (k int, id int, v text, b bigint, t text, n numeric) WITH (autovacuum_enabled = off);
INSERT INTO r SELECT CASE WHEN i % 19 > 0 THEN shuffle(i) % 2000 END, i, 'v' || i % 7, shuffle(i) % 2000, 't' || shuffle(i) % 300, (i % 500) / 10.0
	FROM generate_series(1, 6000) i;
CREATE FOREIGN TABLE f (k int, id int, v text, b bigint, t text, n numeric) SERVER loopback OPTIONS (table_name 'r', schema_name 'foreign_join');
CREATE FOREIGN TABLE f_estimated (k int, id int, v text, b bigint, t text, n numeric) SERVER loopback
	OPTIONS (table_name 'r', schema_name 'foreign_join', use_remote_estimate 'true');

-- Outer rows: repeated keys, keys that are not found, NULLs
CREATE TABLE o (k int, b bigint, t text, n numeric, i int GENERATED ALWAYS AS IDENTITY) WITH (autovacuum_enabled = off);
INSERT INTO o SELECT CASE WHEN i % 17 > 0 THEN shuffle(i * 3) % 3000 - 100 END, shuffle(i) % 2500, 't' || shuffle(i) % 400, (i % 600) / 10.00
	FROM generate_series(1, 3000) i;
:vacuum ANALYZE r, o;
ANALYZE f, f_estimated;

-- Plans, chosen by cost for few keys, and where PostgreSQL's own are switched off
SELECT * FROM plan('SELECT o.i, f.v FROM o JOIN f USING (k) WHERE o.i < 20');
SELECT lookup_nodes('SELECT o.i, f.v FROM o CROSS JOIN generate_series(1, 200) JOIN f USING (k)') AS too_many;
BEGIN;
CALL use_lookups(false);
SELECT * FROM plan('SELECT o.i, f.v FROM o JOIN f USING (k)', 'VERBOSE');
SELECT * FROM plan('SELECT i FROM o WHERE EXISTS (SELECT FROM f WHERE f.b = o.k AND f.id > o.i)', 'VERBOSE');
SELECT * FROM plan('SELECT o.i, f.v FROM o LEFT JOIN f ON f.t = o.t AND f.id % 3 = 0 AND o.i > 5', 'VERBOSE');
SELECT * FROM explained('SELECT o.i, f.v FROM o JOIN f USING (k)');
SET LOCAL work_mem = '64kB';
SET LOCAL harmonia.batch_size = 1000;
SELECT explained FROM explained('SELECT o.i, f.v FROM o JOIN f USING (k)') WHERE explained ~ 'Batches';
ROLLBACK;

-- All kinds of joins, types, expressions and conditions
SELECT * FROM compare_lookups(
	'SELECT o.i, f.id, f.v FROM o JOIN f USING (k)',
	'SELECT o.i, f.id, f.v FROM o LEFT JOIN f USING (k)',
	'SELECT o.i, f.id, f.v FROM o LEFT JOIN f USING (k) WHERE f.id IS NULL',
	'SELECT o.i, f.id, f.v FROM o LEFT JOIN f ON o.k = f.k AND f.id > o.i AND o.i % 3 = 0 WHERE f.v IS DISTINCT FROM ''v1''',
	'SELECT i FROM o WHERE k IN (SELECT k FROM f)',
	'SELECT i FROM o WHERE EXISTS (SELECT FROM f WHERE f.k = o.k AND f.id > o.i)',
	'SELECT i FROM o WHERE NOT EXISTS (SELECT FROM f WHERE f.k = o.k)',
	'SELECT i FROM o WHERE NOT EXISTS (SELECT FROM f WHERE f.k = o.k AND f.id > o.i)',
	'SELECT count(*) FROM o JOIN f USING (k)',
	'SELECT o.i, f.id FROM o JOIN f ON o.k = f.b',
	'SELECT o.i, f.id FROM o JOIN f ON f.k = o.b',
	'SELECT o.i, f.id FROM o JOIN f ON f.t = o.t WHERE f.id < 2000',
	'SELECT o.i, f.id FROM o JOIN f ON f.n = o.n AND f.k = o.k',
	'SELECT o.i, f.id FROM o JOIN f ON f.k = o.k + 1 WHERE f.v LIKE ''v%3''',
	'SELECT o.i, f.id FROM o JOIN f ON f.k + 1 = o.k WHERE random() >= 0',
	'SELECT o.i, f.id FROM o JOIN f ON abs(f.k) = o.k',
	'SELECT o.i, a.id, b.id FROM o JOIN f a USING (k) JOIN f_estimated b ON b.b = a.b',
	'SELECT o.i, f.id, f.tableoid::regclass FROM o JOIN f_estimated f USING (k)',
	'SELECT DISTINCT f.id FROM f WHERE k IN (SELECT k FROM o WHERE i % 2 = 0)',
	'SELECT f.id, o.i FROM (SELECT k, max(i) AS i FROM o GROUP BY k) o JOIN f USING (k)',
	'SELECT o.i, (SELECT count(*) FROM o p JOIN f ON f.k = p.k WHERE p.i % 100 = o.i) FROM o WHERE i < 20',
	'SELECT o.i, (SELECT count(*) FROM o p JOIN f ON f.k = p.k WHERE p.i < 50 AND f.id % 20 = o.i) FROM o WHERE i < 20',
	'SELECT o.i, x.n FROM o, LATERAL (SELECT count(*) AS n FROM o p JOIN f ON f.b = p.k AND f.id > o.i WHERE p.i < 30 OFFSET 0) x WHERE o.i < 10',
	'SELECT 1 FROM o JOIN f USING (k) WHERE o.k IS NULL',
	'SELECT o.i, f.id FROM (SELECT * FROM o WHERE k IS NULL) o LEFT JOIN f USING (k)',
	'SELECT o.i, f.id FROM (SELECT * FROM o WHERE i < 0) o LEFT JOIN f USING (k)');

-- Random queries, with the join and without
CREATE FUNCTION random_query() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	cond text = (ARRAY['f.k = o.k', 'f.b = o.b', 'f.b = o.k', 'f.t = o.t', 'f.n = o.n', 'o.k = f.k AND f.b = o.b'])[1 + floor(random() * 6)::int];
	more text = (ARRAY['', ' AND f.id > o.i', ' AND o.i % 2 = 0', ' AND f.v = ''v2''', ' AND (f.v = ''v2'' OR o.i % 3 = 1)'])[1 + floor(random() * 5)::int];
	base text = (ARRAY['o', '(SELECT * FROM o WHERE i % 3 = 1) o', '(SELECT * FROM o ORDER BY b LIMIT 300) o'])[1 + floor(random() * 3)::int];
	filter text = (ARRAY['true', 'o.i < 500', 'o.k IS NOT NULL', 'o.t LIKE ''t1%'''])[1 + floor(random() * 4)::int];
	inner_side text = (ARRAY['f', 'f_estimated f', '(SELECT * FROM f WHERE id % 4 > 0) f', 'parts f', 'lists f'])[1 + floor(random() * 5)::int];
BEGIN
	RETURN format((ARRAY['SELECT o.i, f.id, f.v FROM %1$s JOIN %5$s ON %2$s%3$s WHERE %4$s',
		'SELECT o.i, f.id, f.v FROM %1$s LEFT JOIN %5$s ON %2$s%3$s WHERE %4$s',
		'SELECT o.i FROM %1$s WHERE EXISTS (SELECT FROM %5$s WHERE %2$s%3$s) AND %4$s',
		'SELECT o.i FROM %1$s WHERE NOT EXISTS (SELECT FROM %5$s WHERE %2$s%3$s) AND %4$s'])[1 + floor(random() * 4)::int],
		base, cond, more, filter, inner_side);
END $$;

-- Partitioned tables with foreign partitions, and local ones.  Each is asked for those keys only
-- that it can have.
CREATE TABLE parts (k int, id int, v text, b bigint, t text, n numeric) PARTITION BY HASH (k);
CREATE TABLE r_0 (LIKE r);
CREATE TABLE r_1 (LIKE r);
CREATE FOREIGN TABLE parts_0 PARTITION OF parts FOR VALUES WITH (MODULUS 3, REMAINDER 0) SERVER loopback OPTIONS (table_name 'r_0', schema_name 'foreign_join');
CREATE FOREIGN TABLE parts_1 (n numeric, v text, k int, id int, t text, b bigint) SERVER loopback OPTIONS (table_name 'r_1', schema_name 'foreign_join');
ALTER TABLE parts ATTACH PARTITION parts_1 FOR VALUES WITH (MODULUS 3, REMAINDER 1);
CREATE TABLE parts_2 PARTITION OF parts FOR VALUES WITH (MODULUS 3, REMAINDER 2);
INSERT INTO parts SELECT * FROM r;
CREATE INDEX ON parts_2 USING harmonia (k);
CREATE INDEX ON parts_2 USING harmonia (b);
CREATE INDEX ON parts_2 USING harmonia (t);
CREATE INDEX ON parts_2 USING harmonia (id);
CREATE TABLE lists (k int, id int, v text, b bigint, t text, n numeric) PARTITION BY RANGE (b);
CREATE TABLE r_low (LIKE r);
CREATE TABLE r_rest (LIKE r);
CREATE FOREIGN TABLE lists_low PARTITION OF lists FOR VALUES FROM (MINVALUE) TO (300) SERVER loopback OPTIONS (table_name 'r_low', schema_name 'foreign_join');
CREATE TABLE lists_mid PARTITION OF lists FOR VALUES FROM (300) TO (900) PARTITION BY LIST (b);
CREATE TABLE lists_mid_default PARTITION OF lists_mid DEFAULT;
CREATE TABLE lists_mid_some PARTITION OF lists_mid FOR VALUES IN (301, 400, 500, 650);
CREATE FOREIGN TABLE lists_rest PARTITION OF lists DEFAULT SERVER loopback OPTIONS (table_name 'r_rest', schema_name 'foreign_join');
INSERT INTO lists SELECT * FROM r;
CREATE INDEX ON lists_mid USING harmonia (b);
:vacuum ANALYZE r_0, r_1, r_low, r_rest;
ANALYZE parts, lists, parts_0, parts_1, lists_low, lists_rest;
BEGIN;
CALL use_lookups(false);
SELECT * FROM plan('SELECT o.i, f.v FROM o JOIN parts f USING (k)', 'VERBOSE');
-- From 17 on, EXPLAIN says where a parameter comes from, and insists on that where there are assertions.
DO $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) SELECT o.i, f.v FROM o JOIN parts f USING (k)' LOOP
		IF line ~ '\$0' AND current_setting('server_version_num')::int >= 170000 THEN
			RAISE EXCEPTION '%', line;
		END IF;
	END LOOP;
END $$;
SELECT * FROM plan('SELECT o.i, f.v FROM o JOIN lists f USING (b)', 'VERBOSE');
SELECT * FROM explained('SELECT o.i, f.v FROM o JOIN parts f USING (k)');
SELECT * FROM explained('SELECT o.i, f.v FROM o JOIN lists f USING (b)');
SELECT * FROM explained('SELECT o.i, f.v FROM o JOIN lists f USING (b) WHERE o.b < 250');
SELECT * FROM explained('SELECT o.i, f.v FROM o JOIN lists f USING (b) WHERE f.b BETWEEN 350 AND 1000');
ROLLBACK;
SELECT * FROM compare_lookups(
	'SELECT o.i, f.id, f.v FROM o JOIN parts f USING (k)',
	'SELECT o.i, f.id, f.v FROM o LEFT JOIN parts f USING (k)',
	'SELECT o.i, f.id, f.v FROM o LEFT JOIN parts f ON f.k = o.b',
	'SELECT o.i FROM o WHERE NOT EXISTS (SELECT FROM parts f WHERE f.k = o.k AND f.id > 100)',
	'SELECT o.i, f.id, f.v FROM o JOIN parts f ON f.b = o.b',
	-- a column that partitions are not made by, of the same type
	'SELECT o.i, f.id, f.v FROM o JOIN parts f ON f.id = o.i',
	'SELECT o.i, f.id, f.v, f.tableoid::regclass FROM o JOIN lists f USING (b)',
	'SELECT o.i, f.id, f.v FROM o JOIN lists f ON f.b = o.k',
	'SELECT o.i FROM o WHERE b IN (SELECT b FROM lists)',
	'SELECT o.i, f.id FROM o JOIN lists f USING (b) WHERE f.b BETWEEN 350 AND 1000',
	-- no index on the local partition
	'SELECT o.i, f.id FROM o JOIN lists f USING (k)');

CREATE FUNCTION compare_random(seed float, queries int, OUT differing text[], OUT foreign_joins bool, OUT kinds int) LANGUAGE plpgsql AS $$
DECLARE
	query text;
	wanted record;
	nodes text;
	used text[];
BEGIN
	PERFORM setseed(seed);
	FOR i IN 1..queries LOOP
		query := random_query();
		CALL use_no_lookups('seq');
		wanted := digest(query, false);
		CALL use_lookups(false);
		PERFORM set_config('work_mem', (ARRAY['64kB', '200kB', '4MB'])[1 + i % 3], true);
		PERFORM set_config('harmonia.batch_size', (ARRAY['1000', '1000000'])[1 + i % 2], true);
		nodes := lookup_nodes(query);
		IF nodes ~ 'ForeignJoin' THEN
			used := used || nodes;
		END IF;
		IF digest(query, false) <> wanted THEN
			differing := differing || query;
		END IF;
	END LOOP;
	foreign_joins := cardinality(used) > queries / 2;
	kinds := (SELECT count(DISTINCT u) FROM unnest(used) u WHERE u !~ ',');
END $$;
SELECT * FROM compare_random(0.25, 60);

-- Only so much as is wanted: the batches start small
BEGIN;
CALL use_lookups(false);
SELECT * FROM explained('SELECT o.i, f.v FROM o JOIN f USING (k) LIMIT 10');
DECLARE c CURSOR FOR SELECT f.id FROM o JOIN f USING (k);
SELECT * FROM rest('c', 5000);
SELECT * FROM rest('c');
DECLARE d SCROLL CURSOR FOR SELECT o.i FROM o JOIN f USING (k) WHERE o.i < 3;
FETCH ALL d;
FETCH BACKWARD ALL d;
ROLLBACK;

-- Generic plans
BEGIN;
CALL use_lookups(false);
PREPARE q (int, text) AS SELECT count(*), sum(f.id) FROM o JOIN f USING (k) WHERE f.id > $1 AND o.t > $2;
SET LOCAL plan_cache_mode = force_generic_plan;
SELECT * FROM plan('EXECUTE q (1, ''a'')', 'VERBOSE');
EXECUTE q (10, 't2');
EXECUTE q (5000, 't3');
CALL use_no_lookups('seq');
DEALLOCATE q;
PREPARE q (int, text) AS SELECT count(*), sum(f.id) FROM o JOIN f USING (k) WHERE f.id > $1 AND o.t > $2;
EXECUTE q (10, 't2');
EXECUTE q (5000, 't3');
ROLLBACK;
DEALLOCATE q;

-- Not where rows may be joined again (EvalPlanQual), nor where the server does not compare.
-- Not every server has ICU
DO $$
BEGIN
	CREATE COLLATION other (provider = icu, locale = 'und', deterministic = false);
	CREATE FOREIGN TABLE f_other (k int, t text COLLATE other) SERVER loopback OPTIONS (table_name 'r', schema_name 'foreign_join');
EXCEPTION WHEN feature_not_supported THEN
END $$;
CREATE FUNCTION same(int, int) RETURNS bool LANGUAGE plpgsql AS 'BEGIN RETURN $1 = $2; END';
BEGIN;
CALL use_lookups(false);
SELECT lookup_nodes(q) AS nodes, q FROM unnest(ARRAY[
	'SELECT o.i FROM o JOIN f USING (k) FOR UPDATE OF o',
	'UPDATE o SET b = f.b FROM f WHERE o.k = f.k',
	'SELECT o.i FROM o JOIN f ON f.t COLLATE "C" = o.t COLLATE "C"',
	'SELECT o.i FROM o JOIN f ON f.k < o.k',
	'SELECT o.i FROM o JOIN f ON same(f.k, o.k)',
	'SELECT f, o.i FROM o JOIN f USING (k)',
	'SELECT o.i FROM o CROSS JOIN LATERAL (SELECT f.id + o.i FROM f WHERE f.k = o.k OFFSET 0) x',
	'SELECT a.id FROM f a JOIN f b USING (k)',
	-- later batches would see what earlier ones wrote
	'INSERT INTO f (k) SELECT f.k FROM o JOIN f USING (k)',
	'WITH w AS (INSERT INTO f (k) VALUES (1)) SELECT o.i FROM o JOIN f USING (k)',
	'INSERT INTO parts (k) SELECT f.k FROM o JOIN f USING (k)',
	'INSERT INTO r (k) SELECT f.k FROM o JOIN f USING (k)',
	'SELECT o.i FROM o JOIN f USING (k)']) q;
SELECT count(lookup_nodes('SELECT o.i FROM o JOIN f_other f ON f.t = o.t COLLATE other')) AS other
	WHERE to_regclass('f_other') IS NOT NULL;
ROLLBACK;

-- Privileges and user mappings are those of the user, or of the owner of a view
CREATE ROLE regress_foreign_join;
GRANT USAGE ON SCHEMA foreign_join TO regress_foreign_join;
GRANT SELECT ON o, f TO regress_foreign_join;
CREATE VIEW w AS SELECT o.i, f.id FROM o JOIN f USING (k);
GRANT SELECT ON w TO regress_foreign_join;
SET ROLE regress_foreign_join;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_nestloop = off;
SELECT lookup_nodes('SELECT count(*) FROM o JOIN f USING (k)') AS nodes;
DO $$
DECLARE
	n bigint;
BEGIN
	SELECT count(*) INTO n FROM o JOIN f USING (k);
	RAISE WARNING '% rows', n;
EXCEPTION WHEN undefined_object THEN
	RAISE WARNING 'no user mapping';
END $$;
SELECT count(*), sum(id) FROM w;
SELECT count(*) FROM o JOIN parts f USING (k);
RESET ROLE;
SELECT count(*), sum(id) FROM w;

-- Row-level security of the parent: a leaky function must not see other rows
GRANT SELECT ON parts TO regress_foreign_join;
CREATE USER MAPPING FOR regress_foreign_join SERVER loopback OPTIONS (user :'USER', password_required 'false');
ALTER TABLE parts ENABLE ROW LEVEL SECURITY;
CREATE POLICY allowed ON parts USING (v IN ('v1', 'v2'));
SET ROLE regress_foreign_join;
SELECT * FROM plan('SELECT o.i, f.v FROM o JOIN parts f USING (k)');
SELECT f.v, count(*), sum(f.id) FROM o JOIN parts f USING (k) GROUP BY f.v ORDER BY f.v;
SELECT count(*) FROM o WHERE NOT EXISTS (SELECT FROM parts f WHERE f.k = o.k);
SET harmonia.enable_foreign_join = off;
SELECT f.v, count(*), sum(f.id) FROM o JOIN parts f USING (k) GROUP BY f.v ORDER BY f.v;
SELECT count(*) FROM o WHERE NOT EXISTS (SELECT FROM parts f WHERE f.k = o.k);
RESET harmonia.enable_foreign_join;
RESET ROLE;

-- Privileges on columns; and a view's owner, whose privileges, policies and user mapping count, whoever asks
REVOKE SELECT ON parts FROM regress_foreign_join;
GRANT SELECT (k, id) ON parts TO regress_foreign_join;
GRANT CREATE ON SCHEMA foreign_join TO regress_foreign_join;
SET ROLE regress_foreign_join;
SELECT lookup_nodes('SELECT count(*), sum(f.id) FROM o JOIN parts f USING (k)') AS nodes;
SELECT count(*), sum(f.id) FROM o JOIN parts f USING (k);
SELECT count(*), max(f.v) FROM o JOIN parts f USING (k);
CREATE VIEW x AS SELECT o.i, f.id FROM o JOIN parts f USING (k);
RESET ROLE;
SELECT lookup_nodes('SELECT count(*), sum(id) FROM x') AS nodes;
SELECT count(*), sum(id) FROM x;
DROP USER MAPPING FOR regress_foreign_join SERVER loopback;
DO $$
BEGIN
	PERFORM count(*) FROM x;
EXCEPTION WHEN undefined_object THEN
	RAISE WARNING 'no user mapping';
END $$;
CREATE USER MAPPING FOR regress_foreign_join SERVER loopback OPTIONS (user :'USER', password_required 'false');
GRANT SELECT ON parts TO regress_foreign_join;

-- The server must not compare what a policy hides by an operator that may tell
CREATE TABLE secured (k int, v text, n numeric) PARTITION BY LIST (v);
CREATE FOREIGN TABLE secured_all PARTITION OF secured DEFAULT SERVER loopback OPTIONS (table_name 'r', schema_name 'foreign_join');
GRANT SELECT ON secured TO regress_foreign_join;
SELECT lookup_nodes('SELECT o.i FROM o JOIN secured f USING (n)') AS open;
ALTER TABLE secured ENABLE ROW LEVEL SECURITY;
CREATE POLICY allowed ON secured USING (v IN ('v1', 'v2'));
SET ROLE regress_foreign_join;
SELECT lookup_nodes('SELECT o.i FROM o JOIN secured f USING (n)') AS by_numeric,
	lookup_nodes('SELECT o.i FROM o JOIN secured f USING (k)') AS by_int;
SELECT count(*) FROM o JOIN secured f USING (k);
RESET ROLE;
RESET enable_hashjoin;
RESET enable_mergejoin;
RESET enable_nestloop;

-- The remote server sees what the transaction has done there, and errors are its own
BEGIN;
CALL use_lookups(false);
DELETE FROM f WHERE k < 1000;
SELECT count(*) FROM o JOIN f USING (k);
SET LOCAL harmonia.enable_foreign_join = off;
SELECT count(*) FROM o JOIN f USING (k);
ROLLBACK;
BEGIN;
CALL use_lookups(false);
ALTER FOREIGN TABLE f OPTIONS (SET table_name 'gone');
SELECT count(*) FROM o JOIN f USING (k);
ROLLBACK;
-- An error there, in a later batch, ends a subtransaction; then the session goes on
BEGIN;
CALL use_lookups(false);
SET LOCAL work_mem = '64kB';
SET LOCAL harmonia.batch_size = 1000;
DELETE FROM f WHERE k = 7;
DO $$
BEGIN
	PERFORM count(*) FROM o JOIN f USING (k) WHERE 1 / (f.id - 2990) < 2;
EXCEPTION WHEN division_by_zero THEN
	RAISE WARNING 'division by zero';
END $$;
SELECT count(*) FROM o JOIN f USING (k);
ROLLBACK;
SELECT count(*) FROM o JOIN f USING (k);

-- The remote server is asked what arrays cost, but not where an array would not pay: for about as many rows as there
-- are tables, if there are paths for single keys, or for many keys of few rows
CREATE TABLE r_lower AS SELECT k, id FROM r WHERE k < 1000;
CREATE TABLE r_upper AS SELECT k, id FROM r WHERE k >= 1000;
CREATE TABLE halves (k int, id int) PARTITION BY RANGE (k);
CREATE FOREIGN TABLE lower_half PARTITION OF halves FOR VALUES FROM (MINVALUE) TO (1000) SERVER loopback
	OPTIONS (table_name 'r_lower', schema_name 'foreign_join', use_remote_estimate 'true');
CREATE FOREIGN TABLE upper_half PARTITION OF halves FOR VALUES FROM (1000) TO (MAXVALUE) SERVER loopback
	OPTIONS (table_name 'r_upper', schema_name 'foreign_join', use_remote_estimate 'true');
CREATE TABLE r_few AS SELECT k, id FROM r WHERE k < 3;
CREATE FOREIGN TABLE few (k int, id int) SERVER loopback
	OPTIONS (table_name 'r_few', schema_name 'foreign_join', use_remote_estimate 'true');
ANALYZE r_lower, r_upper, halves, r_few, few;
CREATE FUNCTION asks_for_arrays(query text) RETURNS bool LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE 'EXPLAIN ' || query;
	PERFORM pg_stat_clear_snapshot();
	RETURN s.query ~ 'ANY' FROM pg_stat_activity s WHERE application_name = 'regress_foreign_join' AND datname = current_database();
END $$;
SET postgres_fdw.application_name = 'regress_foreign_join';
SELECT postgres_fdw_disconnect_all() AS disconnected;
SELECT asks_for_arrays('SELECT f.v FROM o JOIN f_estimated f USING (k) WHERE o.i = 5') AS one,
	asks_for_arrays('SELECT f.v FROM o JOIN f_estimated f USING (k) WHERE o.i IN (5, 6)') AS two,
	asks_for_arrays('SELECT f.id FROM o JOIN few f USING (k)') AS of_few;
SELECT asks_for_arrays('SELECT f.id FROM o JOIN halves f USING (k) WHERE o.i IN (5, 6, 7)') AS three_of_halves,
	asks_for_arrays('SELECT f.id FROM o JOIN halves f USING (k) WHERE o.i IN (5, 6, 7, 8)') AS four_of_halves,
	asks_for_arrays('SELECT f.k FROM o JOIN halves f ON f.id = o.i WHERE o.i IN (5, 6)') AS two_elsewhere;
RESET postgres_fdw.application_name;

-- A change of the partitions makes a new plan
PREPARE p AS SELECT count(*), sum(f.id) FROM o JOIN parts f USING (k);
SET plan_cache_mode = force_generic_plan;
EXECUTE p;
ALTER TABLE parts DETACH PARTITION parts_1;
EXECUTE p;
SELECT count(*), sum(f.id) FROM o JOIN parts f ON f.k = o.k + 0;
ALTER TABLE parts ATTACH PARTITION parts_1 FOR VALUES WITH (MODULUS 3, REMAINDER 1);
EXECUTE p;
DEALLOCATE p;

DROP OWNED BY regress_foreign_join;
DROP ROLE regress_foreign_join;
DROP EXTENSION postgres_fdw CASCADE;
DROP SCHEMA foreign_join CASCADE;
