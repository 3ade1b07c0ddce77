--
-- Types whose keys are not exact, or have no order
--
-- Each type has a table t of generated values, with rows for each of the type's difficult
-- values, and NULLs; and a table o of values to look for. Queries run by sequential scans,
-- and by each node that uses the index. Their answers must be the same.
--
SET client_min_messages = warning;
CREATE SCHEMA equality;
SET search_path = equality, public;
\getenv srcdir PG_ABS_SRCDIR
\set compare :srcdir '/sql/include/compare.sql'
\i :compare
\set lookup :srcdir '/sql/include/lookup.sql'
\i :lookup
SET lookup.seqscan = on;
SET timezone = 'UTC';

CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
ALTER TYPE mood ADD VALUE 'so so' BEFORE 'ok';
CREATE TYPE planet AS ENUM ('mercury', 'venus', 'earth', 'mars', 'jupiter', 'saturn', 'uranus', 'neptune');
CREATE DOMAIN url AS text CHECK (value <> 'gopher');

-- An expression that fills a column; g counts from 0.
CREATE TABLE generator (n int GENERATED ALWAYS AS IDENTITY, name text, type text, opclass text, expression text, difficult text[]);
INSERT INTO generator (name, type, opclass, expression, difficult) VALUES
	('uuid', 'uuid', '', $$md5((g % 300)::text)::uuid$$,
		'{00000000-0000-0000-0000-000000000000,00000000-0000-0000-0000-000000000001,ffffffff-ffff-ffff-ffff-ffffffffffff,
		ffffffff-ffff-ffff-ffff-fffffffffffe,01890a5d-ac96-774b-bcce-b302099a8057,01890a5d-ac96-774b-bcce-b302099a8058}'),
	('text', 'text', '', $$'https://example.com/a/long/path/' || g % 300$$,
		'{"",a,aa,aaa,aaaa,aaaaa," ","a ","A",ä,äää,ää€,€,"a\\b",0,00}'),
	('text C', 'text COLLATE "C"', '', $$repeat(chr(97 + g % 26), g % 40)$$, '{"",a,"a ",ä,äää}'),
	('text, ranges', 'text COLLATE "C"', 'text_c_ops', $$'https://example.com/a/long/path/' || g % 300$$,
		'{"",a,aa,aaa,aaaa,aaaaa," ","a ","A",ä,äää,ää€,€,"a\\b",0,00,01234567890123456,012345678901234567,0123456789012345678}'),
	('varchar', 'varchar(60)', 'varchar_ops', $$'user' || g % 300 || '@example.com'$$, '{"",a,"a ",ä}'),
	('domain', 'url', '', $$'/' || g % 300$$, '{"",a,/7}'),
	('name', 'name', '', $$('relation_' || g % 300)::name$$,
		'{"",a,aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa}'),
	('name, ranges', 'name', 'name_c_ops', $$('relation_' || g % 300)::name$$,
		'{"",a,aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa}'),
	('bpchar', 'char(12)', '', $$'row ' || g % 300$$, '{"",a,"a  ","  a","row 7       "}'),
	('bytea', 'bytea', '', $$decode(md5((g % 300)::text), 'hex')$$, '{"\\x","\\x00","\\x0000","\\x00000000","\\xff","\\x000000ff"}'),
	('numeric', 'numeric', '', $$(g % 300)::numeric / CASE g % 3 WHEN 0 THEN 1 WHEN 1 THEN 10 ELSE 1.000 END$$,
		'{0,-0.00,1,1.0,1.0000,-1,NaN,Infinity,-Infinity,1e100,1e-100,10000,10000.0000,99999999999999999999.5}'),
	('interval', 'interval', '', $$(g % 300) * interval '1 hour'$$,
		'{0,24 hours,1 day,30 days,1 mon,720:00,-1 mon,-30 days,1 year,360 days,213503982 days 08:01:49.551616,
		-178000000 years,178000000 years}'),
	('inet', 'inet', '', $$inet '10.0.0.0' + g % 300$$,
		'{0.0.0.0,0.0.0.0/0,255.255.255.255,10.0.0.1/8,10.0.0.0/8,"::",::1,::/0,::ffff:10.0.0.1,fe80::1,fe80::1/64,fe80::/64}'),
	('cidr', 'cidr', 'cidr_ops', $$network(set_masklen(inet '10.0.0.0' + g % 300, 30))$$, '{0.0.0.0/0,10.0.0.0/8,fe80::/64,::/0}'),
	('bit', 'bit(9)', '', $$(g % 300)::bit(9)$$, '{000000000,111111111}'),
	('varbit', 'bit varying', '', $$(g % 300)::bit(12)::bit varying$$, '{"",0,00,00000000,000000000,1,10,100000000,11111111}'),
	('mood', 'mood', '', $$(enum_range(NULL::mood))[g % 4 + 1]$$, '{sad,so so,ok,happy}'),
	('planet', 'planet', '', $$(enum_range(NULL::planet))[g % 8 + 1]$$, '{earth,mars}'),
	('timetz', 'timetz', '', $$timetz '00:00+00' + g % 300 * interval '5 minutes'$$,
		'{00:00+00,24:00+00,00:00+15:59,24:00-15:59,00:00-15:59,12:00+01,11:00+00,12:00:00.000001+01}'),
	('macaddr', 'macaddr', '', $$('08:00:2b:01:02:' || lpad(to_hex(g % 256), 2, '0'))::macaddr$$,
		'{00:00:00:00:00:00,ff:ff:ff:ff:ff:ff,80:00:00:00:00:00,7f:ff:ff:ff:ff:ff}'),
	('macaddr8', 'macaddr8', '', $$('08:00:2b:01:02:03:04:' || lpad(to_hex(g % 256), 2, '0'))::macaddr8$$,
		'{00:00:00:00:00:00:00:00,ff:ff:ff:ff:ff:ff:ff:ff,80:00:00:00:00:00:00:00,7f:ff:ff:ff:ff:ff:ff:ff}');

-- Make the tables of a type.
CREATE PROCEDURE make_tables(g generator) LANGUAGE plpgsql
AS $$
DECLARE
	type text = split_part(g.type, ' COLLATE', 1);
BEGIN
	DROP TABLE IF EXISTS t, o;
	EXECUTE format('CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY, k %s)', g.type);
	EXECUTE format('CREATE TABLE o (n int GENERATED ALWAYS AS IDENTITY, k %s, w int)', g.type);
	EXECUTE format('INSERT INTO t (k) SELECT %s FROM generate_series(0, 999) g', g.expression);
	EXECUTE format('CREATE INDEX t_k ON t USING harmonia (k %s)', g.opclass);
	EXECUTE format('INSERT INTO t (k) SELECT v.v::%s FROM unnest($1) v(v), generate_series(1, 3)', type) USING g.difficult;
	INSERT INTO t (k) SELECT NULL FROM generate_series(1, 5);
	EXECUTE format('INSERT INTO o (k, w) SELECT %s, g FROM generate_series(250, 330) g', g.expression);
	EXECUTE format('INSERT INTO o (k, w) SELECT v.v::%s, 7 FROM unnest($1) v(v), generate_series(1, 2)', type) USING g.difficult;
	INSERT INTO o (k, w) VALUES (NULL, 1);
	DELETE FROM t WHERE id % 50 = 7;
	ANALYZE t, o;
END $$;

-- Queries that plain scans and bitmap scans answer, for one value and the next.
CREATE FUNCTION plain_queries(type text, one text, two text) RETURNS SETOF text LANGUAGE sql
AS $$
	SELECT format(query, format('%L::%s', one, type), format('%L::%s', two, type)) FROM unnest(ARRAY[
		'SELECT id FROM t WHERE k = %1$s', 'SELECT count(*) FROM t WHERE k = %1$s', 'SELECT id, k::text FROM t WHERE %2$s = k',
		'SELECT id FROM t WHERE k = ANY (ARRAY[%1$s, NULL, %2$s, %1$s])', 'SELECT id FROM t WHERE k = %1$s AND k = %2$s',
		'SELECT id FROM t WHERE k = %1$s AND k IS NOT NULL', 'SELECT id FROM t WHERE k IS NULL', 'SELECT count(*) FROM t WHERE k IS NOT NULL',
		'SELECT id FROM t WHERE k = ANY (ARRAY[%1$s, %2$s]) AND k = ANY (ARRAY[%2$s, NULL])']) query $$;

-- Queries for lookup nodes.
CREATE FUNCTION lookup_queries(type text) RETURNS SETOF text LANGUAGE sql
AS $$
	SELECT format(query, type) FROM unnest(ARRAY[
		'SELECT id FROM t WHERE k = ANY (ARRAY(SELECT k FROM o))', 'SELECT count(*) FROM t WHERE k = ANY (ARRAY(SELECT k FROM o))',
		'SELECT count(k), sum(id) FROM t WHERE k = ANY ((SELECT array_agg(k) FROM o)::%1$s[])',
		'SELECT id FROM t WHERE k = ANY (ARRAY(SELECT k FROM o)) AND id > 500',
		'SELECT id FROM t WHERE k = ANY (ARRAY(SELECT k FROM o WHERE w > 7)) AND k = ANY (ARRAY(SELECT k FROM o WHERE n %% 3 = 0))',
		'SELECT id FROM t WHERE k = (SELECT k FROM o WHERE n = 9) OR k = (SELECT k FROM o WHERE n = 85)',
		'SELECT id FROM t WHERE k = ANY (''{}''::%1$s[])', 'SELECT id FROM t WHERE k = ANY (NULL::%1$s[])',
		'SELECT n, id FROM o JOIN t ON t.k = o.k', 'SELECT count(*) FROM o JOIN t ON t.k = o.k',
		'SELECT n, id FROM o JOIN t ON t.k = o.k AND t.id > o.w', 'SELECT n, id, o.k::text, t.k::text FROM o LEFT JOIN t ON t.k = o.k',
		'SELECT n, id FROM o LEFT JOIN t ON t.k = o.k WHERE w = 7', 'SELECT n FROM o WHERE EXISTS (SELECT FROM t WHERE t.k = o.k)',
		'SELECT n FROM o WHERE NOT EXISTS (SELECT FROM t WHERE t.k = o.k)', 'SELECT n FROM o WHERE NOT EXISTS (SELECT FROM t WHERE t.k = o.k AND t.id %% 2 = 0)',
		'SELECT n FROM o WHERE k NOT IN (SELECT k FROM t WHERE k IS NOT NULL AND id < 200) AND k IS NOT NULL',
		'SELECT id FROM t WHERE k IN (SELECT k FROM o)', 'SELECT id FROM t WHERE k IN (SELECT k FROM o WHERE w < 260)',
		'SELECT w, count(*), sum(id) FROM o JOIN t ON t.k = o.k GROUP BY w', 'SELECT count(*), min(t.id), max(o.n) FROM o LEFT JOIN t ON t.k = o.k',
		'SELECT n, s.c FROM o, LATERAL (SELECT count(*) AS c FROM t WHERE t.k = ANY (ARRAY[o.k, NULL])) s WHERE n < 5',
		'SELECT a.id, b.id FROM t a JOIN t b ON a.k = b.k WHERE a.id < 60']) query $$;

-- Compare all plain queries for pairs of values by these kinds of scans, and count the answers
-- that are the same and whose plan uses the index.
CREATE FUNCTION compare_plain(g generator, OUT queries int, OUT same int) LANGUAGE plpgsql
AS $$
DECLARE
	type text = split_part(g.type, ' COLLATE', 1);
	all_values text[] = g.difficult || (SELECT array_agg(k) FROM (SELECT k::text FROM t WHERE k IS NOT NULL ORDER BY id LIMIT 5) s);
	query text;
	kind text;
	wanted text;
	got text;
BEGIN
	queries := 0;
	same := 0;
	PERFORM set_config('harmonia.enable_lookup_scan', 'off', true);
	FOR i IN 1..cardinality(all_values) LOOP
		FOR query IN SELECT plain_queries(type, all_values[i], all_values[i % cardinality(all_values) + 1]) LOOP
			query := format('SELECT count(*) || md5(string_agg(q::text, ''|'' ORDER BY q::text)) FROM (%s) q', query);
			CALL use('seq');
			EXECUTE query INTO wanted;
			FOREACH kind IN ARRAY '{index,bitmap,only}'::text[] LOOP
				CALL use(kind);
				queries := queries + 1;
				EXECUTE query INTO got;
				IF got IS DISTINCT FROM wanted THEN
					RAISE WARNING '% scan: % has %, not %', kind, query, got, wanted;
				ELSIF plan_nodes(query) IS NULL AND plan_nodes(query, '.') ~ 'Scan' THEN
					RAISE WARNING '% scan: no index for %', kind, query;
				ELSE
					same := same + 1;
				END IF;
			END LOOP;
		END LOOP;
	END LOOP;
END $$;

-- The same for lookup nodes; says which nodes there were.
CREATE FUNCTION compare_nodes(g generator, OUT queries int, OUT same int, OUT nodes text) LANGUAGE plpgsql
AS $$
DECLARE
	query text;
	wanted text;
	got text;
	setting text;
BEGIN
	queries := 0;
	same := 0;
	FOR query IN SELECT lookup_queries(split_part(g.type, ' COLLATE', 1)) LOOP
		query := format('SELECT count(*) || md5(string_agg(q::text, ''|'' ORDER BY q::text)) FROM (%s) q', query);
		CALL use_no_lookups('seq');
		EXECUTE query INTO wanted;
		queries := queries + 1;
		CALL use_lookups(true);
		nodes := concat_ws(', ', nodes, lookup_nodes(query));
		FOREACH setting IN ARRAY '{1000000,1000,first}'::text[] LOOP
			IF setting = 'first' THEN
				PERFORM set_config('cursor_tuple_fraction', '0.01', true);
			ELSE
				PERFORM set_config('harmonia.batch_size', setting, true);
			END IF;
			EXECUTE query INTO got;
			IF got IS DISTINCT FROM wanted THEN
				RAISE WARNING '%: % has %, not %', setting, query, got, wanted;
				same := same - 1;
				EXIT;
			END IF;
		END LOOP;
		same := same + 1;
	END LOOP;
	nodes := (SELECT string_agg(DISTINCT node, ', ' ORDER BY node) FROM unnest(string_to_array(nodes, ', ')) node);
	PERFORM set_config('harmonia.batch_size', '1000000', true);
END $$;

CREATE FUNCTION compare_type(g generator, OUT plain int, OUT plain_same int, OUT lookups int, OUT lookups_same int, OUT nodes text)
LANGUAGE plpgsql AS $$
BEGIN
	CALL make_tables(g);
	SELECT * INTO plain, plain_same FROM compare_plain(g);
	SELECT * INTO lookups, lookups_same, nodes FROM compare_nodes(g);
	PERFORM harmonia_check('t_k', true);
END $$;
SELECT name, c.plain, c.plain_same, c.lookups, c.lookups_same, c.nodes FROM generator g, LATERAL compare_type(g) c ORDER BY n;

--
-- What the operator classes say
--
CREATE TABLE one (u uuid, e mood, tz timetz);
CREATE INDEX one_u ON one USING harmonia (u);
CREATE INDEX one_e ON one USING harmonia (e);
CREATE INDEX one_tz ON one USING harmonia (tz);
SELECT name, pg_index_column_has_property(name::regclass, 1, 'returnable') AS returnable
FROM unnest('{one_u,one_e,one_tz}'::text[]) name;
-- Order and MIN come from an index only if its keys have an order
INSERT INTO one SELECT md5(i::text)::uuid, (enum_range(NULL::mood))[i % 4 + 1], timetz '12:00+00' + i * interval '1 minute' FROM generate_series(1, 500) i;
ANALYZE one;
BEGIN;
CALL use('index');
SELECT * FROM plan('SELECT tz FROM one ORDER BY tz LIMIT 1');
SELECT * FROM plan('SELECT tz FROM one WHERE tz > ''13:00+00''');
SELECT * FROM plan('SELECT count(*) FROM one WHERE u = ''00000000-0000-0000-0000-000000000000''');
SET LOCAL enable_seqscan = on;
SELECT * FROM plan('SELECT u FROM one ORDER BY u LIMIT 1');
SELECT * FROM plan('SELECT min(e) FROM one');
SELECT * FROM plan('SELECT u FROM one WHERE u > ''00000000-0000-0000-0000-000000000000''');
COMMIT;

--
-- Keys that are equal although values are not, in each kind of plan
--
CREATE TABLE span (id int GENERATED ALWAYS AS IDENTITY, k interval);
INSERT INTO span (k) SELECT i * interval '1 second' + j * interval '213503982 days 08:01:49.551616' FROM generate_series(1, 300) i, generate_series(0, 2) j;
CREATE INDEX span_k ON span USING harmonia (k);
VACUUM ANALYZE span;
SELECT count(*) AS entries, count(DISTINCT key) AS keys FROM harmonia_segments('span_k') s, harmonia_leaves('span_k', s.block) l, harmonia_leaf_items('span_k', l.block);
BEGIN;
CALL use_no_lookups('index');
SELECT * FROM explained('SELECT id FROM span WHERE k = ''5 seconds''') e WHERE e !~ 'Index Searches';
CALL use_no_lookups('bitmap');
SELECT * FROM explained('SELECT id FROM span WHERE k = ''5 seconds''') e WHERE e ~ 'Recheck|Scan';
CALL use_lookups(true);
SELECT * FROM explained('SELECT id FROM span WHERE k = ANY (ARRAY(SELECT i * interval ''1 second'' FROM generate_series(1, 10) i))');
SELECT * FROM explained('SELECT id FROM span WHERE k = ''5 seconds'' OR k = ANY (''{6 seconds,7 seconds}'')');
SELECT * FROM explained('SELECT count(*) FROM span a JOIN span b ON b.k = a.k');
SELECT * FROM explained('SELECT count(*) FROM span a JOIN span b ON b.k = a.k * 2');
SELECT * FROM explained('SELECT a.id FROM span a WHERE NOT EXISTS (SELECT FROM span b WHERE b.k = a.k AND b.id < 600)');
SELECT count(*) FROM span WHERE k = ANY (ARRAY(SELECT i * interval '1 second' FROM generate_series(1, 10) i));
-- An array may have several values of a key, and the same value more than once
SELECT count(*) FROM span WHERE k = ANY (ARRAY(SELECT k FROM span WHERE id % 3 > 0));
SELECT count(*) FROM span WHERE k = ANY (ARRAY(SELECT b.k FROM span a, span b WHERE b.id % 100 = 5 AND a.id < 300));
SELECT count(*) FROM span a JOIN span b ON b.k = a.k;
SELECT count(*) FROM span a WHERE NOT EXISTS (SELECT FROM span b WHERE b.k = a.k AND b.id < 600);
COMMIT;

-- Several batches, and those that start small
CREATE TABLE many AS SELECT md5(i::text) AS k, i::bigint AS id FROM generate_series(1, 5000) i;
CREATE INDEX many_k ON many USING harmonia (k);
ANALYZE many;
BEGIN;
CALL use_lookups(true);
SET LOCAL harmonia.batch_size = 1000;
SELECT count(*), sum(id) FROM many WHERE k = ANY (ARRAY(SELECT k FROM many WHERE id % 2 = 0));
SELECT count(*), sum(b.id) FROM many a JOIN many b ON b.k = a.k;
SET LOCAL harmonia.batch_size = 1000000;
DECLARE batches CURSOR FOR SELECT id FROM many WHERE k = ANY (ARRAY(SELECT k FROM many WHERE id % 2 = 0));
SELECT * FROM rest('batches', 100) \gset first_
SELECT n + :first_n AS n, sum + :first_sum AS sum FROM rest('batches');
COMMIT;

--
-- Values that are stored out of line, or compressed
--
CREATE TABLE long (id int, k text, c text, b bytea);
ALTER TABLE long ALTER k SET STORAGE EXTERNAL;
INSERT INTO long SELECT i, repeat('x', 10000) || i, repeat('y', 100000) || i, decode(repeat('00', 5000 + i), 'hex') FROM generate_series(1, 60) i;
CREATE INDEX long_k ON long USING harmonia (k);
CREATE INDEX long_c ON long USING harmonia (c);
CREATE INDEX long_b ON long USING harmonia (b);
INSERT INTO long SELECT id + 60, k, c, b FROM long;
ANALYZE long;
SELECT harmonia_check(index, true) FROM unnest('{long_k,long_c,long_b}'::regclass[]) index;
SET lookup.seqscan = off;
SELECT * FROM compare_lookups(
	'SELECT id FROM long WHERE k = ANY (ARRAY(SELECT k FROM long WHERE id < 9))',
	'SELECT a.id, b.id FROM long a JOIN long b ON a.c = b.c WHERE a.id < 20',
	'SELECT a.id FROM long a WHERE EXISTS (SELECT FROM long b WHERE a.b = b.b AND b.id > a.id)',
	'SELECT id FROM long WHERE c IN (repeat(''y'', 100000) || 3, repeat(''y'', 100000) || 999)');
SET lookup.seqscan = on;

--
-- Texts and names; and what is taken as a text
--
CREATE TABLE words (id int GENERATED ALWAYS AS IDENTITY, t text, v varchar(20), n name, c char(20));
INSERT INTO words (t, v, n, c) SELECT w, w, w, w FROM (SELECT 'word ' || i % 200 FROM generate_series(1, 400) i) s(w);
CREATE INDEX words_t ON words USING harmonia (t);
CREATE INDEX words_v ON words USING harmonia (v);
CREATE INDEX words_n ON words USING harmonia (n);
CREATE INDEX words_c ON words USING harmonia (c);
CREATE INDEX words_lower ON words USING harmonia (lower(t));
ANALYZE words;
SELECT * FROM compare_lookups(
	'SELECT a.id, b.id FROM words a JOIN words b ON b.t = a.v', 'SELECT a.id, b.id FROM words a JOIN words b ON b.v = a.t',
	'SELECT a.id, b.id FROM words a JOIN words b ON b.t COLLATE "C" = a.n', 'SELECT a.id, b.id FROM words a JOIN words b ON b.n = a.n',
	'SELECT a.id, b.id FROM words a JOIN words b ON b.n = a.t COLLATE "C"',
	'SELECT a.id, b.id FROM words a JOIN words b ON b.t = a.c', 'SELECT a.id, b.id FROM words a JOIN words b ON b.c = a.c',
	'SELECT a.id, b.id FROM words a JOIN words b ON b.t = upper(a.t) OR b.t = ''word 7'' WHERE a.id = 5',
	'SELECT a.id, b.id FROM words a JOIN words b ON lower(b.t) = a.t', 'SELECT a.id, b.id FROM words a JOIN words b ON lower(b.t) = lower(a.v)',
	'SELECT id FROM words WHERE n = ANY (ARRAY[''word 1'', ''word 2'']::text[] COLLATE "C")', 'SELECT id FROM words WHERE v = ANY (''{word 1,word 300}'')',
	'SELECT id FROM words WHERE c IN (''word 1'', ''word 2 '')', 'SELECT id FROM words WHERE lower(t) IN (''word 1'', ''word 2'', ''Word 3'')');

-- An index serves operators that are called with its collation
CREATE INDEX words_c_collation ON words USING harmonia (t COLLATE "C");
BEGIN;
CALL use_lookups(true);
SELECT * FROM plan('SELECT id FROM words WHERE t COLLATE "C" IN (''word 1'', ''word 2'')');
SELECT * FROM plan('SELECT id FROM words WHERE t COLLATE "POSIX" IN (''word 1'', ''word 2'')');
COMMIT;

--
-- Partitions by such a key
--
CREATE TABLE parted (k text, id int) PARTITION BY HASH (k);
CREATE TABLE parted_0 PARTITION OF parted FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES WITH (MODULUS 2, REMAINDER 1);
CREATE INDEX ON parted USING harmonia (k);
CREATE TABLE listed (k mood, id int) PARTITION BY LIST (k);
CREATE TABLE listed_sad PARTITION OF listed FOR VALUES IN ('sad', 'so so');
CREATE TABLE listed_rest PARTITION OF listed DEFAULT;
CREATE INDEX ON listed USING harmonia (k);
CREATE TABLE ranged (k numeric, id int) PARTITION BY RANGE (k);
CREATE TABLE ranged_1 PARTITION OF ranged FOR VALUES FROM (MINVALUE) TO (50);
CREATE TABLE ranged_2 PARTITION OF ranged FOR VALUES FROM (50) TO (MAXVALUE);
CREATE INDEX ON ranged USING harmonia (k);
INSERT INTO parted SELECT 'word ' || i % 250, i FROM generate_series(1, 500) i;
INSERT INTO listed SELECT (enum_range(NULL::mood))[i % 4 + 1], i FROM generate_series(1, 40) i;
INSERT INTO ranged SELECT i % 100 + 0.00, i FROM generate_series(1, 400) i;
ANALYZE parted, listed, ranged;
SELECT * FROM compare_lookups(
	'SELECT w.id, p.id FROM words w JOIN parted p ON p.k = w.t', 'SELECT w.id FROM words w WHERE NOT EXISTS (SELECT FROM parted p WHERE p.k = w.v AND p.id < 60)',
	'SELECT o.id, p.id FROM listed o JOIN listed p ON p.k = o.k', 'SELECT w.id, p.id FROM words w LEFT JOIN ranged p ON p.k = w.id::numeric');

--
-- What is refused
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
SELECT command, outcome(command) FROM unnest(ARRAY[
	'CLUSTER one USING one_u', 'CLUSTER one USING one_e', 'CLUSTER one USING one_tz',
	'CREATE INDEX ON one USING harmonia (u DESC)']) command;

-- Changes of types and collations that keep or rebuild the index
CREATE FUNCTION same_words(column_name text) RETURNS boolean LANGUAGE plpgsql
AS $$
DECLARE
	n bigint;
BEGIN
	CALL use('index');
	EXECUTE format('SELECT count(*) FROM words a WHERE %1$I = ''word 7''', column_name) INTO n;
	RETURN n = 2;
END $$;
ALTER TABLE words ALTER v TYPE varchar(40);
SELECT same_words('v');
ALTER TABLE words ALTER v TYPE text;
SELECT same_words('v');
ALTER TABLE words ALTER c TYPE text;
SELECT same_words('c');
ALTER TABLE words ALTER t TYPE text COLLATE "POSIX";
SELECT same_words('t');
ALTER TABLE words ALTER n TYPE text;
SELECT same_words('n');
SELECT harmonia_check(c.oid, true) FROM pg_class c WHERE relname ~ '^words_' AND relam = (SELECT oid FROM pg_am WHERE amname = 'harmonia') ORDER BY relname;

-- A value that is added to an enum later
ALTER TYPE mood ADD VALUE 'fine' AFTER 'ok';
INSERT INTO one (e) VALUES ('fine'), ('fine');
SELECT harmonia_check('one_e', true);
SELECT value, count(*) FROM harmonia_segments('one_e') s, harmonia_leaves('one_e', s.block) l, harmonia_leaf_items('one_e', l.block) WHERE s.part = 'keys' GROUP BY value ORDER BY value;
BEGIN;
CALL use('index');
SELECT count(*) FROM one WHERE e = 'fine';
COMMIT;

\set ECHO none
DROP SCHEMA equality CASCADE;
