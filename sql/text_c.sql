--
-- Texts in the order of collation C: text_c_ops
--
-- Keys have no order among texts that begin alike, but restrict ranges. Queries run by sequential scans, by
-- scans of the index and by lookup nodes, and their answers must be the same.
--
SET client_min_messages = warning;
CREATE SCHEMA text_c;
SET search_path = text_c, public;
\getenv srcdir PG_ABS_SRCDIR
\set compare :srcdir '/sql/include/compare.sql'
\i :compare
\set lookup :srcdir '/sql/include/lookup.sql'
\i :lookup

-- Texts that end where others go on, those that differ only behind what the key has of them, letters that are cut
-- in the middle, bytes whose codes have each length, and texts of 100 kB.
CREATE TABLE word (id int GENERATED ALWAYS AS IDENTITY, k text COLLATE "C");
INSERT INTO word (k)
	SELECT '' UNION ALL SELECT repeat('a', n) FROM generate_series(1, 20) n UNION ALL SELECT repeat('5', n) FROM generate_series(14, 20) n
	UNION ALL SELECT repeat('ä', n) || 'a' FROM generate_series(1, 8) n UNION ALL SELECT repeat('€', n) FROM generate_series(1, 5) n UNION ALL SELECT 'xx' || repeat('𝄞', n) FROM generate_series(1, 4) n
	UNION ALL SELECT chr(n) FROM generate_series(1, 127) n UNION ALL SELECT 'a' || chr(n) FROM generate_series(1, 127) n UNION ALL SELECT chr(n) FROM unnest('{128,255,256,2047,2048,65535,65536,1114111}'::int[]) n
	UNION ALL SELECT 'https://www.example.com/a/b/' || n FROM generate_series(1, 200) n UNION ALL SELECT to_char(date '2024-01-01' + n, 'YYYY-MM-DD') FROM generate_series(1, 200) n
	UNION ALL SELECT repeat('long ', 20000) || n FROM generate_series(1, 3) n;
CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY, k text COLLATE "C");
INSERT INTO t (k) SELECT k FROM word WHERE id % 7 > 0 ORDER BY hashtext(k);
CREATE INDEX t_k ON t USING harmonia (k text_c_ops);
INSERT INTO t (k) SELECT k FROM word WHERE id % 3 > 0 ORDER BY hashtext(k || 1);
INSERT INTO t (k) SELECT NULL FROM generate_series(1, 5);
DELETE FROM t WHERE id % 50 = 7;
VACUUM ANALYZE t;
SELECT verify('t_k');

-- Each operator with each value, but for most of the long series, and each kind of scan, compared with what the table has. Returns
-- how often the answers differed, and in how many cases the plan used no index.
CREATE FUNCTION compare_operators(kind text, templates text[], OUT cases int, OUT differing int, OUT not_used int) LANGUAGE plpgsql
AS $$
DECLARE
	word record;
	query text;
	template text;
	wanted text;
	got text;
BEGIN
	cases := 0; differing := 0; not_used := 0;
	FOR word IN SELECT k AS one, coalesce(lead(k) OVER (ORDER BY hashtext(k)), '') AS two FROM word WHERE k !~ '^(https|2024)' OR id % 8 = 0 LOOP
		FOREACH template IN ARRAY templates LOOP
			query := format('SELECT count(*) || '' '' || coalesce(sum(id), 0) FROM t WHERE ' || template, word.one, word.two);
			CALL use_no_lookups('seq');
			EXECUTE query INTO wanted;
			CALL use_no_lookups(kind);
			EXECUTE query INTO got;
			cases := cases + 1;
			differing := differing + (got <> wanted)::int;
			not_used := not_used + (plan_nodes(query) IS NULL)::int;
		END LOOP;
	END LOOP;
END $$;
SELECT kind, c.* FROM unnest('{index,bitmap}'::text[]) kind, LATERAL compare_operators(kind,
	'{k < %1$L,k <= %1$L,k = %1$L,k >= %1$L,k > %1$L,%1$L < k,k BETWEEN %1$L AND %2$L,k > %1$L AND k < %2$L}') c;
SELECT kind, c.* FROM unnest('{index,bitmap}'::text[]) kind, LATERAL compare_operators(kind,
	ARRAY['k = ANY (ARRAY[%1$L, NULL, %2$L])', 'k < ANY (ARRAY[%1$L, %2$L])', 'k >= %1$L AND k = ANY (ARRAY[%1$L, %2$L])', 'k > %1$L::name', 'k <= %1$L::name AND k >= %2$L::name',
		'k >= %1$L AND k <> %2$L']) c;

-- The same with NULLS FIRST and DESC, which changes no answer
DROP INDEX t_k;
CREATE INDEX t_k ON t USING harmonia (k text_c_ops DESC NULLS LAST);
SELECT c.* FROM compare_operators('index', '{k < %1$L,k <= %1$L,k = %1$L,k >= %1$L,k > %1$L,k BETWEEN %1$L AND %2$L}') c;
SELECT * FROM compare('t', 'k IS NULL', 'k IS NOT NULL', 'k < NULL', 'k < ''b'' OR k IS NULL', 'k > ''a'' AND k IS NOT NULL');
DROP INDEX t_k;
CREATE INDEX t_k ON t USING harmonia (k text_c_ops);

--
-- Lookup nodes
--
SET lookup.seqscan = on;
CREATE TABLE o AS SELECT row_number() OVER (ORDER BY hashtext(k)) AS n, k AS low, lead(k) OVER (ORDER BY k) AS high FROM word WHERE length(k) < 100 AND id % 2 = 0;
ANALYZE o;
SELECT * FROM compare_lookups(
	'SELECT n, t.id FROM o JOIN t ON t.k >= o.low AND t.k < o.high', 'SELECT n, t.id FROM o JOIN t ON t.k > o.low AND t.k <= o.high', 'SELECT n, t.id FROM o LEFT JOIN t ON t.k = o.low',
	'SELECT n, t.id FROM o JOIN t ON t.k > o.low AND t.k < o.low || ''b''', 'SELECT count(*) FROM o JOIN t ON t.k BETWEEN o.low AND o.high', 'SELECT n FROM o WHERE EXISTS (SELECT FROM t WHERE t.k > o.low AND t.k < o.high)',
	'SELECT n FROM o WHERE NOT EXISTS (SELECT FROM t WHERE t.k >= o.low AND t.k < o.high)', 'SELECT n, sum(t.id) FROM o JOIN t ON t.k = o.low GROUP BY n', 'SELECT id FROM t WHERE k IN (SELECT low FROM o)',
	'SELECT id FROM t WHERE k = ANY (ARRAY(SELECT low FROM o))', 'SELECT id FROM t WHERE k = ANY (ARRAY(SELECT low FROM o)) AND k > ''b''', 'SELECT id FROM t WHERE k = ''a'' OR k BETWEEN ''https://www.example.com/a/b/1'' AND ''https://www.example.com/a/b/2'' OR k > ''ä''',
	'SELECT count(*) FROM t WHERE k = ''a'' OR k < ''0''', 'SELECT n, t.id FROM o JOIN t ON t.k = o.low::name', 'SELECT n FROM o WHERE low NOT IN (SELECT k FROM t WHERE k IS NOT NULL AND id < 200)',
	'SELECT n, t.id FROM o JOIN t ON t.k >= o.low AND t.k < o.high AND t.id % 2 = 0', 'SELECT count(DISTINCT t.k) FROM o JOIN t ON t.k = o.low');
BEGIN;
CALL use_lookups(true);
SELECT * FROM explained('SELECT count(*) FROM t WHERE k = ANY (ARRAY(SELECT low FROM o))');
SELECT * FROM explained('SELECT count(*) FROM o JOIN t ON t.k >= o.low AND t.k < o.high');
COMMIT;

--
-- No order is claimed
--
BEGIN;
CALL use_no_lookups('only');
SELECT * FROM plan('SELECT k FROM t ORDER BY k LIMIT 1');
SELECT * FROM plan('SELECT k FROM t WHERE k > ''b'' ORDER BY k LIMIT 1');
SELECT * FROM plan('SELECT max(k) FROM t WHERE k < ''b''');
SELECT * FROM plan('SELECT id FROM t WHERE k = ANY (''{b,a}'') ORDER BY k');
SET LOCAL enable_hashjoin = off;
SET LOCAL enable_nestloop = off;
SELECT * FROM plan('SELECT a.id FROM t a JOIN t b USING (k)');
COMMIT;
SELECT query, result FROM compare_queries('SELECT k FROM t ORDER BY k', 'SELECT k FROM t ORDER BY k DESC NULLS LAST LIMIT 50', 'SELECT min(k), max(k) FROM t', 'SELECT DISTINCT k FROM t ORDER BY k',
	'SELECT k FROM t WHERE k = ANY (''{aaa,a,b,aa}'') ORDER BY k', 'SELECT k FROM t WHERE k = ANY (''{aaa,a,b,aa}'') ORDER BY k DESC', 'SELECT k FROM t WHERE k > ''https'' ORDER BY k LIMIT 20');
CLUSTER t USING t_k;
SELECT pg_index_column_has_property('t_k', 1, 'returnable') AS returnable;

--
-- LIKE with a prefix, which PostgreSQL turns into a range
--
BEGIN;
CALL use_no_lookups('index');
SELECT * FROM plan('SELECT id FROM t WHERE k LIKE ''2024-03-%''');
SELECT * FROM compare('t', 'k LIKE ''2024-03-%''', 'k LIKE ''aaa''', 'k LIKE ''aaa%''', 'k LIKE ''%aaa''', 'k LIKE ''https://www.example.com/a/b/1_''', 'k LIKE ''ä%''', 'k ~ ''^2024-0[12]''', 'starts_with(k, ''2024-02'')');
COMMIT;

--
-- What the keys tell: one entry for a URL, and few others for a range of codes
--
CREATE TABLE code AS SELECT i AS id, substr(md5(i::text), 1, 20) COLLATE "C" AS k, ('https://www.example.com/articles/' || i) COLLATE "C" AS url FROM generate_series(1, 20000) i;
CREATE INDEX code_k ON code USING harmonia (k text_c_ops);
CREATE INDEX code_url ON code USING harmonia (url text_c_ops);
ANALYZE code;
SELECT index, count(*) AS entries, count(DISTINCT key) AS keys, count(value) AS values FROM unnest('{code_k,code_url}'::regclass[]) index, harmonia_segments(index) s, harmonia_leaves(index, s.block) l, harmonia_leaf_items(index, l.block) GROUP BY index ORDER BY index;
BEGIN;
CALL use_no_lookups('bitmap');
SELECT * FROM explained('SELECT id FROM code WHERE k BETWEEN ''1'' AND ''11''') e WHERE e ~ 'Scan|Removed';
SELECT * FROM explained('SELECT id FROM code WHERE url = ''https://www.example.com/articles/77''') e WHERE e ~ 'Scan|Removed';
COMMIT;
-- Estimates are those of the operators
BEGIN;
CALL use_no_lookups('index');
SELECT abs((plan -> 0 -> 'Plan' ->> 'Plan Rows')::int - 1250) < 250 AS estimate FROM (SELECT string_agg("QUERY PLAN", '')::json AS plan FROM plan('SELECT * FROM code WHERE k < ''1''', 'FORMAT JSON, COSTS ON')) s;
ROLLBACK;

--
-- varchar, names, expressions, domains, partitions, several columns
--
CREATE DOMAIN slug AS text COLLATE "C";
CREATE TABLE other (id int GENERATED ALWAYS AS IDENTITY, v varchar(40) COLLATE "C", n name, s slug, e text);
INSERT INTO other (v, n, s, e) SELECT left(k, 40), k, k, k FROM word WHERE length(k) < 60;
CREATE INDEX other_v ON other USING harmonia (v text_c_ops);
CREATE INDEX other_n ON other USING harmonia (n name_c_ops);
CREATE INDEX other_s ON other USING harmonia (s text_c_ops);
CREATE INDEX other_e ON other USING harmonia (upper(e) COLLATE "POSIX" text_c_ops) WHERE e <> '';
CREATE INDEX other_pair ON other USING harmonia (v text_c_ops, id);
CREATE INDEX other_included ON other USING harmonia (s text_c_ops) INCLUDE (id);
ANALYZE other;
SELECT harmonia_check(index, true) FROM unnest('{other_v,other_n,other_s,other_e,other_pair,other_included}'::regclass[]) index;
SELECT * FROM compare_lookups('SELECT id FROM other WHERE v < ''b'' AND v > ''5''', 'SELECT id FROM other WHERE n >= ''b''', 'SELECT id FROM other WHERE n >= ''b''::text', 'SELECT id FROM other WHERE n = ''a'' OR n > ''zz''',
	'SELECT id FROM other WHERE s BETWEEN ''a'' AND ''b''', 'SELECT id FROM other WHERE e <> '''' AND upper(e) COLLATE "POSIX" > ''B''', 'SELECT id FROM other WHERE v = ''a'' AND id < 100', 'SELECT id FROM other WHERE v IN (''a'', ''aa'', ''aaa'')',
	'SELECT a.id, b.id FROM other a JOIN other b ON b.v = a.n AND b.id = a.id', 'SELECT a.id, b.id FROM other a JOIN other b ON b.n < a.v AND b.n > a.s', 'SELECT id FROM other WHERE v > ''a'' AND id = 7',
	'SELECT a.id, b.id FROM other a JOIN other b ON b.s = a.v', 'SELECT b.id FROM o JOIN other b ON b.s = o.low');
BEGIN;
CALL use('index');
SELECT * FROM plan('SELECT v, id FROM other ORDER BY v, id');
COMMIT;
CREATE TABLE parted (k text COLLATE "C", id int) PARTITION BY RANGE (k);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (MINVALUE) TO ('aaaaaaaaaaaaaaaaab');
CREATE TABLE parted_2 PARTITION OF parted FOR VALUES FROM ('aaaaaaaaaaaaaaaaab') TO (MAXVALUE);
CREATE INDEX ON parted USING harmonia (k text_c_ops);
INSERT INTO parted SELECT k, id FROM word;
ANALYZE parted;
SELECT * FROM compare_lookups('SELECT n, id FROM o JOIN parted p ON p.k = o.low', 'SELECT n, id FROM o JOIN parted p ON p.k >= o.low AND p.k < o.high', 'SELECT id FROM parted WHERE k = ANY (ARRAY(SELECT low FROM o))');
-- A bitmap scan of the partition costs about as much as a lookup scan.
SELECT n, result, query FROM compare_lookups('SELECT id FROM parted WHERE k < ''b'' OR k = ''c''');

--
-- An index keeps its keys, so it cannot be used if operators are added to its family
--
CREATE OPERATOR FAMILY grown_ops USING harmonia;
CREATE OPERATOR CLASS grown_ops FOR TYPE text USING harmonia FAMILY grown_ops AS OPERATOR 3 =;
CREATE INDEX other_grown ON other USING harmonia (v grown_ops, id);
CREATE TABLE grown (k text COLLATE "C");
CREATE INDEX grown_k ON grown USING harmonia (k grown_ops);
INSERT INTO grown VALUES ('a'), ('b');
BEGIN;
CALL use_no_lookups('index');
SELECT k FROM grown WHERE k = 'a';
COMMIT;
ALTER OPERATOR FAMILY grown_ops USING harmonia ADD OPERATOR 1 < (text, text), OPERATOR 2 <= (text, text), OPERATOR 4 >= (text, text), OPERATOR 5 > (text, text);
BEGIN;
CALL use_no_lookups('index');
SELECT k FROM grown WHERE k = 'a';
ROLLBACK;
\c
SET search_path = text_c, public;
SET client_min_messages = warning;
BEGIN;
CALL use_no_lookups('index');
SELECT k FROM grown WHERE k = 'a';
ROLLBACK;
REINDEX INDEX grown_k;
BEGIN;
CALL use_no_lookups('index');
SELECT k FROM grown WHERE k < 'b';
COMMIT;
-- Beside other columns keys are the same.
SELECT harmonia_check('other_grown', true);

--
-- Collations; collations.sql has others
--
CREATE FUNCTION outcome(command text) RETURNS text LANGUAGE plpgsql
AS $$
DECLARE
	hint text;
BEGIN
	EXECUTE command;
	RETURN 'ok';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT;
	RETURN SQLSTATE || ': ' || SQLERRM || ' / ' || hint;
END $$;
SELECT command, outcome(command) FROM unnest(ARRAY['CREATE INDEX ON other USING harmonia (e COLLATE "C" text_c_ops)', 'CREATE INDEX ON other USING harmonia (e COLLATE "POSIX" text_c_ops)',
	'CREATE UNIQUE INDEX ON t USING harmonia (k text_c_ops)']) command;
-- 17 and later have collations of their own that sort as C does.
SELECT DISTINCT outcome(format('CREATE INDEX ON other USING harmonia (e COLLATE %I text_c_ops)', collname)) FROM pg_collation WHERE collname IN ('C', 'POSIX', 'ucs_basic', 'pg_c_utf8');
SELECT command, outcome(command) FROM unnest(ARRAY['ALTER TABLE other ALTER v TYPE text COLLATE "C"', 'ALTER TABLE other ALTER n TYPE text']) command;
SELECT harmonia_check(index, true) FROM unnest('{other_v,other_pair}'::regclass[]) index;
SELECT pg_get_indexdef('other_v'::regclass) AS v, pg_get_indexdef('other_e'::regclass) AS e;

\set ECHO none
DROP SCHEMA text_c CASCADE;
