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

\set ECHO none
DROP SCHEMA collations CASCADE;
