--
-- Errors: SQLSTATE, message, detail and hint of everything that is refused
--
CREATE SCHEMA errors_test;
SET search_path = errors_test, public;

-- The result of each command.
CREATE FUNCTION outcome(VARIADIC commands text[]) RETURNS SETOF text LANGUAGE plpgsql
AS $$
DECLARE
	command text;
	message text;
	detail text;
	hint text;
BEGIN
	FOREACH command IN ARRAY commands LOOP
		RETURN NEXT command;
		BEGIN
			EXECUTE command;
			RETURN NEXT '  ok';
		EXCEPTION WHEN OTHERS THEN
			GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL,
				hint = PG_EXCEPTION_HINT;
			-- 17 does not search our schema.
			RETURN NEXT '  ' || SQLSTATE || ': ' || replace(message, 'public.int4_ops', 'int4_ops');
			IF detail <> '' THEN
				RETURN NEXT '  DETAIL: ' || detail;
			END IF;
			IF hint <> '' THEN
				RETURN NEXT '  HINT: ' || hint;
			END IF;
		END;
	END LOOP;
END $$;
\pset format unaligned
\pset tuples_only on

CREATE TABLE t (k int, l int, big bigint, word text, doc jsonb, ids tid, list int[], search tsvector,
	span int4range, snap pg_snapshot, pair point);
INSERT INTO t (k, l, big) SELECT i, i, i FROM generate_series(1, 100) i;

--
-- Kinds of index that harmonia does not offer
--
SELECT * FROM outcome(
	'CREATE INDEX ON t USING harmonia (k, k, k, k, k, k, k, k, l)',
	'CREATE INDEX ON t USING harmonia (k, doc)',
	'CREATE INDEX ON t USING harmonia (k) INCLUDE (doc)',
	'CREATE UNIQUE INDEX ON t USING harmonia (k)',
	'ALTER TABLE t ADD EXCLUDE USING harmonia (k WITH <)',
	'ALTER TABLE t ADD EXCLUDE USING harmonia (k WITH =, l WITH <>)');
-- Constraints and replica identity need a unique index
CREATE INDEX t_k ON t USING harmonia (k);
SELECT * FROM outcome(
	'ALTER TABLE t ADD UNIQUE USING INDEX t_k',
	'ALTER TABLE t ADD PRIMARY KEY USING INDEX t_k',
	'ALTER TABLE t REPLICA IDENTITY USING INDEX t_k',
	'CREATE TABLE u (k int REFERENCES t (k))',
	'INSERT INTO t (k) VALUES (1) ON CONFLICT (k) DO NOTHING',
	'INSERT INTO t (k) VALUES (1) ON CONFLICT DO NOTHING');

--
-- Types
--
SELECT * FROM outcome(
	'CREATE INDEX ON t USING harmonia (doc)',
	'CREATE INDEX ON t USING harmonia (ids)',
	'CREATE INDEX ON t USING harmonia (list)',
	'CREATE INDEX ON t USING harmonia (search)',
	'CREATE INDEX ON t USING harmonia (span)',
	'CREATE INDEX ON t USING harmonia (snap)',
	'CREATE INDEX ON t USING harmonia (pair)',
	'CREATE INDEX ON t USING harmonia ((ARRAY[k]))',
	'CREATE INDEX ON t USING harmonia (word int4_ops)',
	'CREATE INDEX ON t USING harmonia (k int8_ops)',
	'CREATE INDEX ON t USING harmonia (k text_ops)',
	'CREATE INDEX ON t USING harmonia (ctid)',
	'ALTER TABLE t ALTER k TYPE jsonb USING to_jsonb(k)',
	'ALTER TABLE t ALTER k TYPE int[] USING ARRAY[k]');

--
-- Options
--
SELECT * FROM outcome(
	'CREATE INDEX ON t USING harmonia (k) WITH (fanout = 7)',
	'CREATE INDEX ON t USING harmonia (k) WITH (fanout = 129)',
	'CREATE INDEX ON t USING harmonia (k) WITH (fanout = 8.5)',
	'CREATE INDEX ON t USING harmonia (k) WITH (fanout = many)',
	'CREATE INDEX ON t USING harmonia (k) WITH (fanout = -1)',
	'CREATE INDEX ON t USING harmonia (k) WITH (fanout = 9999999999)',
	'CREATE INDEX ON t USING harmonia (k) WITH (fanout)',
	'CREATE INDEX ON t USING harmonia (k) WITH (fillfactor = 9)',
	'CREATE INDEX ON t USING harmonia (k) WITH (fillfactor = 101)',
	'CREATE INDEX ON t USING harmonia (k) WITH (fillfactor = full)',
	'CREATE INDEX ON t USING harmonia (k) WITH (fanout = 8, fanout = 16)',
	'CREATE INDEX ON t USING harmonia (k) WITH (deduplicate_items = off)',
	'CREATE INDEX ON t USING harmonia (k) WITH (segments = 8)',
	'CREATE INDEX ON t USING harmonia (k int4_ops (fanout = 8))',
	'CREATE INDEX ON t USING btree (k) WITH (fanout = 8)',
	'CREATE TABLE u (k int) WITH (fanout = 8)',
	'ALTER INDEX t_k SET (fanout = 200)',
	'ALTER INDEX t_k SET (fillfactor = 0)',
	'ALTER INDEX t_k SET (buffering = on)',
	'ALTER INDEX t_k RESET (fanout, fillfactor)',
	'ALTER INDEX t_k SET (fanout = 8, fillfactor = 100)');
-- PostgreSQL makes the rest of the message
SELECT regexp_replace(line, ':.*', '') FROM outcome(
	'SET harmonia.batch_inserts = perhaps',
	'SET harmonia.insert_batch_memory = 0',
	'SET harmonia.insert_batch_memory = ''1kB''',
	'SET harmonia.insert_batch_memory = ''4TB''',
	'SET harmonia.insert_batch_memory = plenty') line WHERE line !~ 'HINT';

--
-- Functions of the extension, called for what is not a harmonia index
--
CREATE INDEX t_btree ON t USING btree (l);
CREATE TABLE parted (k int) PARTITION BY RANGE (k);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (10);
CREATE INDEX parted_k ON parted USING harmonia (k);
CREATE VIEW v AS SELECT k FROM t;
CREATE SEQUENCE s;
CREATE MATERIALIZED VIEW m AS SELECT k FROM t;
CREATE FUNCTION calls(index text) RETURNS text[] LANGUAGE sql
AS $$
	SELECT array_agg(format('SELECT * FROM %s', format(f, index)) ORDER BY i)
	FROM unnest(ARRAY['harmonia_check(%s)', 'harmonia_check(%s, true)', 'harmonia_index_info(%s)',
		'harmonia_metapage(%s)', 'harmonia_segments(%s)', 'harmonia_nodes(%s, 1)',
		'harmonia_leaves(%s, 1)', 'harmonia_leaf_items(%s, 2)', 'harmonia_page(%s, 0)',
		'harmonia_reorganize(%s)']) WITH ORDINALITY u (f, i)
$$;
SELECT line, count(*) FROM outcome(VARIADIC calls('''t_k''')) line WHERE line ~ '^  ' GROUP BY 1 ORDER BY 1;
SELECT line, count(*) FROM outcome(VARIADIC calls('''t_btree''')) line WHERE line ~ '^  ' GROUP BY 1 ORDER BY 1;
SELECT line, count(*) FROM outcome(VARIADIC calls('''parted_k''')) line WHERE line ~ '^  ' GROUP BY 1 ORDER BY 1;
SELECT line, count(*) FROM outcome(VARIADIC calls('''t''')) line WHERE line ~ '^  ' GROUP BY 1 ORDER BY 1;
SELECT * FROM outcome(
	'SELECT harmonia_check(''parted'')', 'SELECT harmonia_check(''v'')', 'SELECT harmonia_check(''s'')',
	'SELECT harmonia_check(''m'')', 'SELECT harmonia_check(''pg_class_oid_index'')',
	'SELECT harmonia_check(''pg_toast.pg_toast_1255_index'')', 'SELECT harmonia_check(''pg_authid'')',
	'SELECT harmonia_check(''nowhere'')', 'SELECT harmonia_check(4294967295)', 'SELECT harmonia_check(0)',
	'SELECT harmonia_index_info(''nowhere'')', 'SELECT harmonia_index_info(0)');

-- NULL gives NULL, or no row
SELECT line, count(*) FROM outcome(VARIADIC calls('NULL')) line WHERE line ~ '^  ' GROUP BY 1 ORDER BY 1;
\pset null <NULL>
SELECT harmonia_check(NULL) IS NULL, harmonia_check('t_k', NULL) IS NULL;
SELECT count(*) FROM harmonia_segments(NULL);
SELECT entries, movements FROM harmonia_index_info(NULL);
SELECT kind FROM harmonia_page('t_k', NULL);

-- Blocks that do not exist or are of another kind
SELECT * FROM outcome(
	'SELECT harmonia_nodes(''t_k'', 0)', 'SELECT harmonia_nodes(''t_k'', 2)', 'SELECT harmonia_leaves(''t_k'', 2)',
	'SELECT harmonia_leaf_items(''t_k'', 0)', 'SELECT harmonia_leaf_items(''t_k'', 1)',
	'SELECT harmonia_page(''t_k'', -1)', 'SELECT harmonia_page(''t_k'', 3)',
	'SELECT harmonia_page(''t_k'', 4294967295)', 'SELECT harmonia_page(''t_k'', 4294967296)',
	'SELECT harmonia_page(''t_k'', 9223372036854775807)');

--
-- Rights
--
CREATE ROLE regress_harmonia_errors;
GRANT USAGE ON SCHEMA errors_test TO regress_harmonia_errors;
SET ROLE regress_harmonia_errors;
SELECT line, count(*) FROM outcome(VARIADIC calls('''t_k''')) line WHERE line ~ '^  ' GROUP BY 1 ORDER BY 1;
-- Rights are checked before anything else
SELECT * FROM outcome('SELECT harmonia_check(''t_btree'')', 'SELECT harmonia_check(0)', 'SELECT harmonia_check(NULL)');
-- All roles may change settings
SELECT * FROM outcome('SET harmonia.batch_inserts = off', 'SET harmonia.insert_batch_memory = ''1MB''');
RESET harmonia.batch_inserts;
RESET harmonia.insert_batch_memory;
RESET ROLE;
-- A role that may call the functions need not be able to read the table
GRANT EXECUTE ON FUNCTION harmonia_check, harmonia_index_info TO regress_harmonia_errors;
SET ROLE regress_harmonia_errors;
SELECT * FROM outcome('SELECT harmonia_check(''t_k'')', 'SELECT harmonia_check(''t_k'', true)',
	'SELECT harmonia_index_info(''t_k'')', 'SELECT harmonia_segments(''t_k'')', 'SELECT k FROM t');
RESET ROLE;
REVOKE EXECUTE ON FUNCTION harmonia_check, harmonia_index_info FROM regress_harmonia_errors;

--
-- What the extension consists of
--
SELECT * FROM outcome(
	'DROP ACCESS METHOD harmonia',
	'DROP OPERATOR CLASS int4_ops USING harmonia',
	'DROP FUNCTION harmonia_check(regclass, boolean)',
	'CREATE TABLE u (k int) USING harmonia');

-- Read-only transactions may call the functions that change nothing
BEGIN READ ONLY;
SELECT * FROM outcome('SELECT harmonia_check(''t_k'', true)', 'SELECT harmonia_index_info(''t_k'')');
COMMIT;

-- A failed build leaves nothing
CREATE FUNCTION fails_at(k int, n int) RETURNS int LANGUAGE plpgsql IMMUTABLE
	AS 'BEGIN RETURN 1 / (n - k); END';
SELECT * FROM outcome('CREATE INDEX t_fails ON t USING harmonia (fails_at(k, 50))',
	'CREATE INDEX t_fails ON t USING harmonia (fails_at(k, 101))', 'INSERT INTO t (k) VALUES (101)',
	'SELECT harmonia_check(''t_fails'', true)', 'UPDATE t SET k = 101 WHERE k = 7', 'INSERT INTO t (k) VALUES (7)',
	'SELECT harmonia_check(''t_fails'', true)');
SELECT count(*) FROM t;

\pset format aligned
\pset tuples_only off
DROP OWNED BY regress_harmonia_errors;
DROP ROLE regress_harmonia_errors;
SET client_min_messages = warning;
DROP SCHEMA errors_test CASCADE;
