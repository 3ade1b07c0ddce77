--
-- Collations that do not sort as C does: equality alone, and no dependence on versions
--
SELECT count(*) = 0 AS skip FROM pg_collation WHERE collname = 'de-x-icu' \gset
-- This PostgreSQL has no ICU.
\if :skip
\quit
\endif
SET client_min_messages = warning;
CREATE SCHEMA collations;
SET search_path = collations, public;
\getenv srcdir PG_ABS_SRCDIR
\set compare :srcdir '/sql/include/compare.sql'
\i :compare
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
CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY, k text COLLATE "C");
INSERT INTO t (k) SELECT CASE WHEN i % 3 = 0 THEN 'ä' || i WHEN i % 3 = 1 THEN 'A' || i ELSE repeat('a', i / 10) END FROM generate_series(1, 600) i;
CREATE INDEX t_c ON t USING harmonia (k text_c_ops);

-- What text_c_ops refuses: building the index, and changing the collation below it
CREATE COLLATION loose (provider = icu, locale = 'und', deterministic = false);
SELECT command, outcome(command) FROM unnest(ARRAY['CREATE INDEX ON t USING harmonia ((k COLLATE "en-x-icu") text_c_ops)', 'CREATE INDEX ON t USING harmonia (id, k COLLATE "en-x-icu" text_c_ops)',
	'CREATE INDEX ON t USING harmonia (k COLLATE loose text_c_ops)', 'CREATE INDEX ON t USING harmonia (k COLLATE loose)', 'ALTER TABLE t ALTER k TYPE text COLLATE "en-x-icu"']) command;

-- A query under another collation does not use the index, neither for order nor for equality
BEGIN;
CALL use('index');
SELECT * FROM plan('SELECT id FROM t WHERE k COLLATE "en-x-icu" < ''b''');
SELECT * FROM plan('SELECT id FROM t WHERE k COLLATE "en-x-icu" = ''b''');
COMMIT;

-- Nothing in an index depends on a collation's version: with equality alone, keys are the same under all collations. With
-- ranges they are those of C, which has none.
CREATE FUNCTION items(index regclass) RETURNS TABLE (key text, tid tid) LANGUAGE sql
	AS $$ SELECT i.key::text, i.tid FROM harmonia_segments(index) s, harmonia_leaves(index, s.block) l, harmonia_leaf_items(index, l.block) i $$;
CREATE INDEX t_german ON t USING harmonia (k COLLATE "de-x-icu");
CREATE INDEX t_default ON t USING harmonia (k COLLATE "default");
SELECT count(*) AS items, count(*) FILTER (WHERE a.key IS NULL OR b.key IS NULL) AS different FROM items('t_german') a FULL JOIN items('t_default') b USING (key, tid);
SELECT bool_and(collversion IS NULL) AS without_version FROM pg_collation WHERE collname IN ('C', 'POSIX');
BEGIN;
UPDATE pg_collation SET collversion = 'older' WHERE collname = 'de-x-icu';
CALL use('index');
SET LOCAL client_min_messages = error;
SELECT * FROM plan('SELECT count(*) FROM t WHERE k COLLATE "de-x-icu" = ''aaa''');
SELECT count(*) FROM t WHERE k COLLATE "de-x-icu" = 'aaa';
SELECT harmonia_check('t_german', true);
ROLLBACK;

-- Lookups in a btree compare as its collation has it, which may take different bytes as equal.  Hash partitions are of bytes.
SET harmonia.enable_btree_lookup = on;
SET harmonia.enable_lookup_aggregate = off;
LOAD 'harmonia';
\set lookup :srcdir '/sql/include/lookup.sql'
\i :lookup
CREATE COLLATION caseless (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE TABLE b (k text COLLATE caseless, id int) WITH (autovacuum_enabled = off);
INSERT INTO b SELECT CASE WHEN i % 31 <> 2 THEN CASE i % 3 WHEN 0 THEN 'Word ' WHEN 1 THEN 'wORD ' ELSE 'word ' END || i / 4 END, i FROM generate_series(1, 3000) i;
CREATE TABLE h (k text COLLATE "C", id int) PARTITION BY HASH (k);
CREATE TABLE h_0 PARTITION OF h FOR VALUES WITH (MODULUS 2, REMAINDER 0) WITH (autovacuum_enabled = off);
CREATE TABLE h_1 PARTITION OF h FOR VALUES WITH (MODULUS 2, REMAINDER 1) WITH (autovacuum_enabled = off);
INSERT INTO h SELECT * FROM b;
CREATE TABLE o (k text COLLATE caseless, n int) WITH (autovacuum_enabled = off);
INSERT INTO o SELECT CASE WHEN i % 2 = 0 THEN 'WORD ' ELSE 'word ' END || i, i FROM generate_series(1, 900, 2) i, generate_series(1, i % 2);
INSERT INTO o SELECT upper(k), n + 1 FROM o WHERE n % 3 = 0;
CREATE INDEX b_k ON b (k DESC);
CREATE INDEX h_k ON h (k COLLATE caseless);
ANALYZE b, h, o;
SELECT * FROM compare_lookups('SELECT o.n, b.id FROM o JOIN b USING (k)', 'SELECT n FROM o WHERE EXISTS (SELECT FROM b WHERE b.k = o.k)', 'SELECT n FROM o WHERE NOT EXISTS (SELECT FROM b WHERE b.k = o.k)',
	'SELECT id FROM b WHERE k = ANY (ARRAY(SELECT k FROM o))', 'SELECT id FROM b WHERE k IN (''WORD 1'', ''word 1'', ''Word 7'', NULL)', 'SELECT o.n, count(b.k) FROM o LEFT JOIN b USING (k) GROUP BY o.n',
	'SELECT o.n, h.id FROM o JOIN h ON h.k = o.k COLLATE caseless', 'SELECT id FROM h WHERE k COLLATE caseless = ANY (ARRAY(SELECT k FROM o))', 'SELECT id FROM h WHERE k COLLATE caseless IN (''WORD 1'', ''word 1'', ''Word 7'')');

\set ECHO none
DROP SCHEMA collations CASCADE;
