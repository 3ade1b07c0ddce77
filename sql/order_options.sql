--
-- The order of indexes on several columns with DESC, NULLS FIRST and NULLS LAST, each on its own
--
SET client_min_messages = warning;
SET jit = off;
CREATE SCHEMA order_options;
SET search_path = order_options, public;
\getenv srcdir PG_ABS_SRCDIR
\set compare :srcdir '/sql/include/compare.sql'
\i :compare

-- Create an index with each combination of options that columns can have, and run each query by each kind of plan.
-- *order* stands for the index's order, *turned* for the opposite one.
CREATE FUNCTION in_all_orders(tab regclass, columns text[], included text, VARIADIC queries text[])
	RETURNS TABLE (indexes bigint, answers bigint, wrong bigint, sorted bigint, "index" bigint, "only" bigint, bitmap bigint, lookup bigint)
	LANGUAGE plpgsql
AS $$
DECLARE
	options text[] = ARRAY['ASC NULLS LAST', 'DESC NULLS FIRST', 'ASC NULLS FIRST', 'DESC NULLS LAST'];
	query text;
	kind text;
	declared text;
	turned text;
	wanted record;
	found record;
	nodes text;
BEGIN
	indexes := 0; answers := 0; wrong := 0; sorted := 0; "index" := 0; "only" := 0; bitmap := 0; lookup := 0;
	FOR combination IN 0 .. (4 ^ cardinality(columns))::int - 1 LOOP
		SELECT string_agg(c || ' ' || options[o + 1], ', ' ORDER BY i), string_agg(c || ' ' || options[(o # 1) + 1], ', ' ORDER BY i) INTO declared, turned
			FROM unnest(columns) WITH ORDINALITY u (c, i), LATERAL (SELECT combination / (4 ^ (i - 1))::int % 4 AS o) v;
		EXECUTE format('CREATE INDEX tried ON %s USING harmonia (%s) %s', tab, declared, included);
		PERFORM harmonia_check('tried', true);
		indexes := indexes + 1;
		FOREACH query IN ARRAY queries LOOP
			query := replace(replace(query, '*order*', declared), '*turned*', turned);
			FOREACH kind IN ARRAY '{seq,index,only,bitmap,lookup}'::text[] LOOP
				CALL use(kind);
				PERFORM set_config('enable_sort', (kind IN ('seq', 'bitmap', 'lookup'))::text, true),
					set_config('enable_hashjoin', (kind = 'seq')::text, true), set_config('enable_mergejoin', 'off', true),
					set_config('enable_nestloop', (kind <> 'lookup')::text, true),
					set_config('harmonia.enable_lookup_scan', (kind = 'lookup')::text, true),
					set_config('harmonia.enable_lookup_join', (kind = 'lookup')::text, true);
				found := digest(query, query ~ 'ORDER BY');
				IF kind = 'seq' THEN
					wanted := found;
					CONTINUE;
				END IF;
				answers := answers + 1;
				IF wanted IS DISTINCT FROM found THEN
					wrong := wrong + 1;
					RAISE WARNING '(%) %: % by %', declared, included, query, kind;
				END IF;
				nodes := plan_nodes(query, 'Sort|Scan');
				sorted := sorted + (kind IN ('index', 'only') AND nodes ~ 'Sort')::int;
				"index" := "index" + (kind = 'index' AND nodes ~ 'Index Scan')::int;
				"only" := "only" + (kind = 'only' AND nodes ~ 'Index Only Scan')::int;
				bitmap := bitmap + (kind = 'bitmap' AND nodes ~ 'Bitmap Index Scan')::int;
				lookup := lookup + (kind = 'lookup' AND nodes ~ 'Custom Scan')::int;
			END LOOP;
		END LOOP;
		DROP INDEX tried;
	END LOOP;
	RETURN NEXT;
END $$;

--
-- Whole fields: NULL stands where the column wants it
--
CREATE TABLE whole (a int, b bigint) WITH (autovacuum_enabled = off);
INSERT INTO whole SELECT nullif(shuffle(i) % 20, 7), nullif(shuffle(i * 3) % 100, 50) FROM generate_series(1, 1000) i;
INSERT INTO whole SELECT a, b FROM unnest('{-2147483648,-11895787,11895786,-1,2147483647,NULL}'::int[]) a,
	unnest('{-9223372036854775808,2177342782468422677,-1,9223372036854775807,NULL}'::bigint[]) b;
VACUUM ANALYZE whole;
-- All rows in order, some, and ranges of any column
SELECT * FROM in_all_orders('whole', '{a,b}', '',
	'SELECT a, b FROM whole ORDER BY *order*',
	'SELECT a, b FROM whole ORDER BY *turned* OFFSET 5 LIMIT 50',
	'SELECT a, b FROM whole WHERE a > 3 AND b < 60 ORDER BY *order*',
	'SELECT a, b FROM whole WHERE a = 5 AND b > 5 ORDER BY *turned*',
	'SELECT a, b FROM whole WHERE a <= 2 AND b IS NOT NULL ORDER BY *order*',
	'SELECT a, b FROM whole WHERE (a, b) >= (5, 50) AND a < 8 ORDER BY *order*',
	'SELECT a, b FROM whole WHERE (a, b) < (5, 50) AND b > 20 ORDER BY *turned*',
	'SELECT a, b FROM whole WHERE a IS NULL AND b BETWEEN -5 AND 9223372036854775807 ORDER BY *order*');
-- Keys, lists, joins
SELECT * FROM in_all_orders('whole', '{a,b}', '',
	'SELECT * FROM whole WHERE a = 5 AND b IS NULL',
	'SELECT * FROM whole WHERE a IN (5, 6, NULL, -2147483648) AND b IN (3, 4, -1)',
	'SELECT * FROM whole WHERE a IN (2, 3) AND b > 96',
	'SELECT * FROM whole WHERE a = ANY (''{2,3,-1}'')',
	'SELECT * FROM whole WHERE (a = 5 AND b = 49) OR (a = 6 AND b >= 90) OR (a = 2147483647 AND b < 0)',
	'SELECT x.a, y.b FROM whole x JOIN whole y ON y.a = x.a AND y.b = x.b WHERE x.b > 97',
	'SELECT x.a, y.b FROM whole x JOIN whole y ON y.a = x.a AND y.b > x.b WHERE x.b > 97',
	'SELECT x.a, y.b FROM whole x LEFT JOIN whole y ON y.a = x.a AND y.b = -1 WHERE x.b < 2');
CREATE TABLE small (a smallint, b "char", c bool) WITH (autovacuum_enabled = off);
INSERT INTO small SELECT nullif(shuffle(i) % 50 - 25, 7), nullif(chr(40 + shuffle(i * 3) % 60), 'A')::"char", nullif(shuffle(i * 5) % 3, 2)::bool FROM generate_series(1, 500) i;
INSERT INTO small SELECT a, b, c FROM unnest('{-32768,0,32767,NULL}'::smallint[]) a, unnest('{"",A,NULL}'::"char"[]) b, unnest('{false,true,NULL}'::bool[]) c;
VACUUM ANALYZE small;
SELECT * FROM in_all_orders('small', '{a,b,c}', '',
	'SELECT a, b, c FROM small ORDER BY *order*',
	'SELECT a, b, c FROM small WHERE b > ''D'' AND NOT c ORDER BY *turned*',
	'SELECT a, b, c FROM small WHERE a = 5 AND b >= ''L'' ORDER BY *order* LIMIT 20');
-- With included columns, one key column has a field, too
SELECT * FROM in_all_orders('small', '{c,b}', 'INCLUDE (a)',
	'SELECT c, b FROM small ORDER BY *order*',
	'SELECT c, b FROM small WHERE c AND b < ''p'' ORDER BY *turned*',
	'SELECT a, b, c FROM small WHERE b = ANY (''{A,C,X}'') AND c',
	'SELECT x.a, y.a AS ya, y.b FROM small x JOIN small y ON y.b = x.b AND y.c = x.c WHERE x.a > 20');
SELECT * FROM in_all_orders('small', '{b}', 'INCLUDE (a, c)',
	'SELECT b FROM small ORDER BY *order*',
	'SELECT b FROM small WHERE b < ''p'' ORDER BY *turned*',
	'SELECT a, b, c FROM small WHERE b = ANY (''{A,C,X}'')');

--
-- NULL shares its value with a key, in a descending field with another one than in an ascending field
--
CREATE TABLE shares (a int, b int, c bigint, d bigint);
INSERT INTO shares SELECT a, b, c, d FROM unnest('{-11895787,11895785,11895786,11895787,NULL}'::int[]) a, unnest('{-11895787,11895786,3,NULL}'::int[]) b,
	unnest('{2177342782468422677,-2177342782468422678,NULL}'::bigint[]) c, unnest('{-2177342782468422677,-2177342782468422678,-2177342782468422679,NULL}'::bigint[]) d;
VACUUM ANALYZE shares;
SELECT * FROM in_all_orders('shares', '{a,b}', '',
	'SELECT a, b FROM shares',
	'SELECT a, b FROM shares WHERE a = 11895786 AND b = 11895786',
	'SELECT a, b FROM shares WHERE b = 11895786',
	'SELECT a, b FROM shares WHERE a = 11895785 AND b IS NULL',
	'SELECT a, b FROM shares WHERE a = ANY (''{11895786,-11895787}'')',
	'SELECT a, b FROM shares WHERE a IN (11895786, -11895787) AND b IN (11895786, -11895787)',
	'SELECT count(*) FROM shares x JOIN shares y ON y.a = x.a AND y.b = x.b WHERE x.c IS NULL AND x.d IS NULL');
SELECT * FROM in_all_orders('shares', '{c,d}', '',
	'SELECT c, d FROM shares',
	'SELECT c, d FROM shares WHERE c = -2177342782468422678 AND d = -2177342782468422678',
	'SELECT c, d FROM shares WHERE d = -2177342782468422678',
	'SELECT c, d FROM shares WHERE c = -2177342782468422678 AND d IS NULL',
	'SELECT count(*) FROM shares x JOIN shares y ON y.c = x.c AND y.d = x.d WHERE x.a IS NULL AND x.b IS NULL');
-- Where conditions or constraints exclude NULLs there is an order
SELECT * FROM in_all_orders('shares', '{a,b}', '',
	'SELECT a, b FROM shares WHERE a >= 11895786 AND b < 11895787 ORDER BY *order*',
	'SELECT a, b FROM shares WHERE a <> 3 AND b IS NOT NULL ORDER BY *turned*');
DELETE FROM shares WHERE c IS NULL OR d IS NULL;
ALTER TABLE shares ALTER c SET NOT NULL, ALTER d SET NOT NULL;
VACUUM ANALYZE shares;
SELECT * FROM in_all_orders('shares', '{c,d}', '',
	'SELECT c, d FROM shares ORDER BY *order*',
	'SELECT c, d FROM shares WHERE c > -5 AND d <= -2177342782468422678 ORDER BY *turned*');

--
-- Directions change nothing where there is no order: cut fields, and types that have none
--
CREATE TYPE mood AS ENUM ('happy', 'sad');
ALTER TYPE mood ADD VALUE 'angry' BEFORE 'happy';
CREATE TABLE cut (a smallint NOT NULL, b date NOT NULL, d bigint NOT NULL, e uuid NOT NULL, f mood NOT NULL, g text NOT NULL);
INSERT INTO cut SELECT shuffle(i) % 10, date '2000-01-01' + shuffle(i * 3) % 2000, shuffle(i * 5)::bigint << i % 20, md5(i::text)::uuid,
	(ARRAY['happy', 'sad', 'angry'])[1 + i % 3]::mood, i % 7 FROM generate_series(1, 500) i;
VACUUM ANALYZE cut;
SELECT * FROM in_all_orders('cut', '{e,d}', '',
	'SELECT e, d FROM cut WHERE e = md5(''5'')::uuid',
	'SELECT e, d FROM cut WHERE e > ''88888888-8888-8888-8888-888888888888'' AND d > 100000',
	'SELECT y.e, y.d FROM cut x JOIN cut y ON y.e = x.e AND y.d = x.d WHERE x.a > 7');
SELECT * FROM in_all_orders('cut', '{a,g}', '',
	'SELECT a, g FROM cut WHERE a = 5 AND g = ''5''',
	'SELECT a, g FROM cut WHERE a < 3 AND g = ''5''',
	'SELECT y.a, y.g FROM cut x JOIN cut y ON y.a = x.a AND y.g = x.g WHERE x.d < 1000000');
SELECT * FROM in_all_orders('cut', '{f,b}', '',
	'SELECT f, b FROM cut WHERE f = ''sad'' AND b > date ''2004-01-01''',
	'SELECT f, b FROM cut WHERE f = ''sad'' AND b = ANY (''{2001-05-05,2002-02-02}'')');
CREATE INDEX cut_g ON cut USING harmonia (a, g DESC);
CLUSTER cut USING cut_g;
DROP INDEX cut_g;

--
-- What order is good for
--
CREATE TABLE tenants (tenant bigint NOT NULL, id bigint NOT NULL, flag bool, at timestamptz) WITH (autovacuum_enabled = off);
INSERT INTO tenants SELECT shuffle(i) % 40, i, nullif(i % 5, 4)::bool, timestamptz '2024-01-01Z' + shuffle(i * 7) % 1000 * interval '1 minute' FROM generate_series(1, 10000) i;
CREATE INDEX tenants_latest ON tenants USING harmonia (tenant, id DESC);
CREATE INDEX tenants_first ON tenants USING harmonia (flag DESC NULLS LAST, at NULLS FIRST);
VACUUM ANALYZE tenants;
SELECT * FROM compare_queries(
	'SELECT tenant, id FROM tenants WHERE tenant = 5 AND id > 5000 ORDER BY id DESC LIMIT 10',
	'SELECT tenant, id FROM tenants WHERE tenant = 5 AND id > 5000 ORDER BY id LIMIT 10',
	'SELECT tenant, id FROM tenants WHERE tenant BETWEEN 3 AND 7 AND id < 500 ORDER BY tenant, id DESC',
	'SELECT tenant, id FROM tenants ORDER BY tenant DESC, id LIMIT 400',
	'SELECT tenant, id FROM tenants ORDER BY tenant, id LIMIT 400',
	'SELECT tenant, id FROM tenants WHERE (tenant, id) > (5, 5000) ORDER BY tenant, id DESC LIMIT 300',
	'SELECT tenant, id FROM tenants WHERE (tenant, id) <= (5, 5000) ORDER BY tenant DESC, id LIMIT 300',
	'SELECT flag, at FROM tenants ORDER BY flag DESC NULLS LAST, at NULLS FIRST LIMIT 5000',
	'SELECT flag, at FROM tenants WHERE flag ORDER BY at DESC LIMIT 50',
	'SELECT min(id), max(id) FROM tenants WHERE tenant = 5',
	'SELECT min(tenant), max(tenant) FROM tenants',
	'SELECT DISTINCT ON (tenant) tenant, id FROM tenants ORDER BY tenant, id DESC',
	'SELECT tenant, id, rank() OVER (PARTITION BY tenant ORDER BY id DESC) FROM tenants ORDER BY tenant, id DESC LIMIT 100',
	'SELECT x.tenant, y.id FROM generate_series(1, 50) x (tenant) CROSS JOIN LATERAL (SELECT id FROM tenants t WHERE t.tenant = x.tenant ORDER BY id DESC LIMIT 2) y ORDER BY x.tenant, y.id');
-- Arrays on any column: each row once. Up to 16, their index has no order for PostgreSQL
SELECT query, n, result FROM compare_queries(
	'SELECT tenant, id FROM tenants WHERE tenant IN (7, 3, 5, 3, NULL) ORDER BY tenant, id DESC',
	'SELECT tenant, id FROM tenants WHERE id IN (900, 50, 1, 900, 4000, NULL) ORDER BY tenant, id DESC',
	'SELECT tenant, id FROM tenants WHERE id = ANY (ARRAY(SELECT i FROM generate_series(1, 3000) i)) ORDER BY tenant DESC, id LIMIT 500',
	'SELECT tenant, id FROM tenants WHERE tenant IN (5, 3, 9) AND id IN (1, 2, 3, 4, 5, 6, 7) ORDER BY tenant, id DESC',
	'SELECT tenant, id FROM tenants WHERE tenant = 5 AND id > ANY (''{5000,100}'') ORDER BY id DESC LIMIT 50');
-- Merge joins with an index that has the same directions
CREATE TABLE others (tenant bigint, id bigint);
INSERT INTO others SELECT i % 50, i FROM generate_series(1, 600) i, generate_series(1, 3);
INSERT INTO others VALUES (NULL, 5), (5, NULL), (NULL, NULL);
CREATE INDEX ON others (tenant, id DESC);
ANALYZE others;
SET enable_hashjoin = off;
SET enable_nestloop = off;
SET harmonia.enable_lookup_join = off;
SELECT * FROM compare_queries(
	'SELECT t.tenant, t.id FROM tenants t JOIN others o ON t.tenant = o.tenant AND t.id = o.id ORDER BY t.tenant, t.id DESC',
	'SELECT o.tenant, o.id, t.id AS t FROM others o LEFT JOIN tenants t ON t.tenant = o.tenant AND t.id = o.id ORDER BY o.tenant, o.id DESC',
	'SELECT a.tenant, count(*), sum(a.id * b.id) FROM tenants a JOIN tenants b ON a.tenant = b.tenant WHERE a.id < 1000 AND b.id < 1000 GROUP BY a.tenant ORDER BY a.tenant');
RESET enable_hashjoin;
RESET enable_nestloop;
RESET harmonia.enable_lookup_join;
-- Cursors turn round
BEGIN;
CALL use('only');
SET LOCAL enable_sort = off;
DECLARE c SCROLL CURSOR FOR SELECT tenant, id FROM tenants WHERE tenant IN (3, 5) AND id < 500 ORDER BY tenant, id DESC;
FETCH 4 FROM c;
FETCH BACKWARD 2 FROM c;
FETCH LAST FROM c;
FETCH BACKWARD 3 FROM c;
FETCH FORWARD ALL FROM c;
FETCH FIRST FROM c;
COMMIT;
-- CLUSTER asks for the order of all rows
CREATE FUNCTION disorder(tab regclass, by text) RETURNS bigint LANGUAGE plpgsql
AS $$
DECLARE
	n bigint;
BEGIN
	EXECUTE format('SELECT count(*) FROM (SELECT row_number() OVER (ORDER BY ctid) AS n, row_number() OVER (ORDER BY %s, ctid) AS m FROM %s) q WHERE n <> m', by, tab) INTO n;
	RETURN n;
END $$;
CLUSTER tenants USING tenants_latest;
SELECT disorder('tenants', 'tenant, id DESC');
CREATE INDEX whole_mixed ON whole USING harmonia (a DESC NULLS LAST, b NULLS FIRST);
CLUSTER whole USING whole_mixed;
SELECT disorder('whole', 'a DESC NULLS LAST, b NULLS FIRST');
DROP INDEX whole_mixed;
-- Rows that come later, and go
INSERT INTO tenants SELECT i % 40, 10000 + i, true, NULL FROM generate_series(1, 10000) i;
DELETE FROM tenants WHERE id % 3 = 0;
UPDATE tenants SET id = -id WHERE id % 7 = 0;
:vacuum tenants;
SELECT harmonia_check('tenants_latest', true), verify('tenants_first');
SELECT * FROM compare_queries('SELECT tenant, id FROM tenants ORDER BY tenant, id DESC', 'SELECT flag, at FROM tenants WHERE at IS NULL ORDER BY flag');

-- Ascending ids come below others of their tenant, and still fill leaves
CREATE FUNCTION entries_a_leaf(index regclass) RETURNS numeric LANGUAGE sql
	AS 'SELECT avg(entries) FROM harmonia_segments(index) s, harmonia_leaves(index, s.block) l';
CREATE TABLE grown (tenant int, id bigint);
CREATE INDEX grown_latest ON grown USING harmonia (tenant, id DESC);
DO $$ BEGIN FOR i IN 1..30000 LOOP INSERT INTO grown VALUES (7, i); END LOOP; END $$;
SELECT entries_a_leaf('grown_latest') > 800 AS full, verify('grown_latest');
TRUNCATE grown;
DO $$ BEGIN FOR i IN 1..40000 LOOP INSERT INTO grown VALUES (i % 20, i); END LOOP; END $$;
SELECT entries_a_leaf('grown_latest') > 450 AS full, verify('grown_latest');
SELECT * FROM compare_queries('SELECT tenant, id FROM grown ORDER BY tenant, id DESC', 'SELECT tenant, id FROM grown WHERE tenant > 5 AND id < 20000 ORDER BY tenant DESC, id');
-- From a built index on, too, and in large statements
REINDEX INDEX grown_latest;
INSERT INTO grown SELECT i % 20, i FROM generate_series(40001, 60000) i;
DO $$ BEGIN FOR i IN 60001..80000 LOOP INSERT INTO grown VALUES (i % 20, i); END LOOP; END $$;
SELECT entries_a_leaf('grown_latest') > 450 AS full, verify('grown_latest');

--
-- Partitions: one may have been attached with an index that has other options
--
CREATE TABLE turned (a int NOT NULL, b bigint) PARTITION BY RANGE (a);
CREATE TABLE turned_1 PARTITION OF turned FOR VALUES FROM (MINVALUE) TO (10);
CREATE TABLE turned_2 PARTITION OF turned FOR VALUES FROM (10) TO (20);
CREATE TABLE turned_3 PARTITION OF turned DEFAULT;
INSERT INTO turned SELECT shuffle(i) % 30, nullif(shuffle(i * 3) % 1000, 5) FROM generate_series(1, 3000) i;
CREATE INDEX turned_2_other ON turned_2 USING harmonia (a DESC, b DESC NULLS LAST);
CREATE INDEX turned_a_b ON turned USING harmonia (a, b DESC);
SELECT relid, pg_get_indexdef(relid) FROM pg_partition_tree('turned_a_b') WHERE isleaf ORDER BY relid::text;
VACUUM ANALYZE turned;
SELECT * FROM compare_queries('SELECT a, b FROM turned ORDER BY a, b DESC', 'SELECT a, b FROM turned ORDER BY a DESC, b', 'SELECT a, b FROM turned WHERE a = 5 AND b > 5 ORDER BY b DESC LIMIT 3',
	'SELECT a, b FROM turned WHERE a > 5 AND b < 500 ORDER BY a, b DESC LIMIT 1000', 'SELECT min(b), max(b) FROM turned WHERE a = 5');
BEGIN;
CALL use('only');
-- From 19 on, only the partition with the other index is sorted
SELECT btrim("QUERY PLAN", ' ->') AS part FROM plan('SELECT a, b FROM turned WHERE b > 500 ORDER BY a, b DESC LIMIT 10')
	WHERE "QUERY PLAN" ~ 'Scan|Sort$|Merge' ORDER BY part;
COMMIT;
-- Each index makes its own keys of a lookup's
PREPARE join_all AS SELECT count(*), sum(t.b) FROM whole w JOIN turned t ON t.a = w.a AND t.b = w.b;
PREPARE list_all AS SELECT count(*), sum(b) FROM turned WHERE (a = 5 AND b = 500) OR (a = 15 AND b > 500) OR (a = 25 AND b < 100);
BEGIN;
CALL use('only');
SET LOCAL enable_hashjoin = off;
SET LOCAL enable_mergejoin = off;
SET LOCAL enable_nestloop = off;
SELECT * FROM plan('SELECT t.a, t.b FROM whole w JOIN turned t ON t.a = w.a AND t.b = w.b');
EXECUTE join_all;
EXECUTE list_all;
CALL use('seq');
SET LOCAL harmonia.enable_lookup_join = off;
SET LOCAL harmonia.enable_lookup_scan = off;
SET LOCAL enable_hashjoin = on;
DEALLOCATE ALL;
PREPARE join_all AS SELECT count(*), sum(t.b) FROM whole w JOIN turned t ON t.a = w.a AND t.b = w.b;
PREPARE list_all AS SELECT count(*), sum(b) FROM turned WHERE (a = 5 AND b = 500) OR (a = 15 AND b > 500) OR (a = 25 AND b < 100);
EXECUTE join_all;
EXECUTE list_all;
COMMIT;

DROP SCHEMA order_options CASCADE;
