--
-- Insert batches: the index entries of a large statement are queued and applied
-- later.  No query may notice.  Most cases compare with the table itself or with a
-- btree index.
--

-- Compare an index on column k with its table: both must have the same rows
-- under the same keys.
CREATE FUNCTION rows_by_table(t regclass) RETURNS TABLE (k int, tab oid, id tid)
	LANGUAGE plpgsql
	SET enable_indexscan = off SET enable_indexonlyscan = off SET enable_bitmapscan = off
AS $$
BEGIN
	RETURN QUERY EXECUTE format('SELECT k, tableoid, ctid FROM %s', t);
END $$;

CREATE FUNCTION rows_by_index(t regclass) RETURNS TABLE (k int, tab oid, id tid)
	LANGUAGE plpgsql SET enable_seqscan = off
AS $$
DECLARE
	key int;
BEGIN
	FOR key IN SELECT DISTINCT r.k FROM rows_by_table(t) r WHERE r.k IS NOT NULL LOOP
		RETURN QUERY EXECUTE format('SELECT $1, tableoid, ctid FROM %s WHERE k = $1', t) USING key;
	END LOOP;
	RETURN QUERY EXECUTE format('SELECT k, tableoid, ctid FROM %s WHERE k IS NULL', t);
END $$;

CREATE FUNCTION check_index(t regclass) RETURNS text
	LANGUAGE plpgsql
AS $$
DECLARE
	n bigint;
	missing bigint;
	extra bigint;
BEGIN
	CREATE TEMP TABLE tab ON COMMIT DROP AS SELECT * FROM rows_by_table(t);
	CREATE TEMP TABLE idx ON COMMIT DROP AS SELECT * FROM rows_by_index(t);
	n := (SELECT count(*) FROM tab);
	missing := (SELECT count(*) FROM (TABLE tab EXCEPT ALL TABLE idx) _);
	extra := (SELECT count(*) FROM (TABLE idx EXCEPT ALL TABLE tab) _);
	DROP TABLE tab, idx;
	IF missing = 0 AND extra = 0 THEN
		RETURN n || ' rows, index is right';
	END IF;
	RETURN format('%s rows, index lacks %s and has %s too many', n, missing, extra);
END $$;

-- How many keys a reader finds by the index.
CREATE FUNCTION seen(t text, low int DEFAULT 0, high int DEFAULT 2147483647) RETURNS bigint
	LANGUAGE plpgsql VOLATILE SET enable_seqscan = off
AS $$
DECLARE
	n bigint;
BEGIN
	EXECUTE format('SELECT count(*) FROM %I WHERE k BETWEEN $1 AND $2', t) INTO n USING low, high;
	RETURN n;
END $$;

CREATE TABLE bulk (k int, note bigint);
CREATE INDEX bulk_k ON bulk USING harmonia (k);

--
-- What is queued, and when
--

-- After its first 8 insertions a statement queues
SET client_min_messages = debug1;
INSERT INTO bulk SELECT i * 7919 % 1000 FROM generate_series(1, 1000) i;
INSERT INTO bulk SELECT i FROM generate_series(1, 64) i;
RESET client_min_messages;
SELECT seen('bulk', 500, 509), check_index('bulk');

-- Equal keys and NULLs
INSERT INTO bulk SELECT nullif(i % 3, 0) FROM generate_series(1, 300) i;
SELECT check_index('bulk');

-- A full queue is applied and filled again
TRUNCATE bulk;
SET harmonia.insert_batch_memory = '64kB';
SET client_min_messages = debug1;
INSERT INTO bulk SELECT i % 1000 FROM generate_series(1, 5000) i;
RESET client_min_messages;
RESET harmonia.insert_batch_memory;
SELECT check_index('bulk');

-- UPDATE of the key and of another column
TRUNCATE bulk;
INSERT INTO bulk SELECT i FROM generate_series(1, 500) i;
SET client_min_messages = debug1;
UPDATE bulk SET k = k + 250;
UPDATE bulk SET k = k + 1 WHERE k BETWEEN 300 AND 310;
RESET client_min_messages;
SELECT seen('bulk', 1, 250) AS old, seen('bulk', 251, 750) AS new, check_index('bulk');

-- COPY
TRUNCATE bulk;
SET client_min_messages = debug1;
\copy bulk (k) FROM PROGRAM 'seq 1 1000'
RESET client_min_messages;
SELECT check_index('bulk');

-- MERGE
SET client_min_messages = debug1;
MERGE INTO bulk USING generate_series(501, 1500) s (k) ON bulk.k = s.k
	WHEN MATCHED THEN UPDATE SET k = bulk.k + 5000
	WHEN NOT MATCHED THEN INSERT VALUES (s.k);
RESET client_min_messages;
SELECT seen('bulk', 501, 1000) AS moved, seen('bulk', 1001, 1500) AS added, check_index('bulk');

-- UPDATE by a join: the entries of all indexes
CREATE TABLE joined (id int, k int) WITH (autovacuum_enabled = off);
CREATE INDEX joined_k ON joined USING harmonia (k);
CREATE TABLE new_keys WITH (autovacuum_enabled = off) AS SELECT i AS id, i * 7919 % 1000 AS k FROM generate_series(1, 400) i;
INSERT INTO joined SELECT i, i FROM generate_series(1, 1000) i;
SET client_min_messages = debug1;
UPDATE joined SET k = new_keys.k + 1000 FROM new_keys WHERE joined.id = new_keys.id;
RESET client_min_messages;
SELECT seen('joined', 1000), check_index('joined');

-- If the join reads an index that the statement writes, row by row, entries of this index are
-- inserted at once, most of the time.  Those of other indexes are queued nevertheless.
CREATE INDEX joined_id ON joined USING harmonia (id);
SET enable_seqscan = off;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET harmonia.enable_lookup_join = off;
SET jit = off;
SET client_min_messages = debug1;
UPDATE joined SET k = new_keys.k + 3000 FROM new_keys WHERE joined.id = new_keys.id;
RESET client_min_messages;
RESET harmonia.enable_lookup_join;
RESET jit;
RESET enable_seqscan;
RESET enable_hashjoin;
RESET enable_mergejoin;
SELECT seen('joined', 3000), check_index('joined');

-- Statements of functions that a query calls, EXECUTE, and lists of rows
CREATE FUNCTION insert_many(low int, high int) RETURNS void LANGUAGE sql
AS 'INSERT INTO bulk SELECT i FROM generate_series(low, high) i';
PREPARE insert_some AS INSERT INTO bulk SELECT i FROM generate_series(1, 100) i;
SELECT string_agg(format('(%s)', i), ', ') AS list FROM generate_series(1, 80) i \gset
SET client_min_messages = debug1;
SELECT insert_many(2001, 2200);
EXECUTE insert_some;
INSERT INTO bulk VALUES :list;
RESET client_min_messages;
SELECT check_index('bulk');

-- With batches off, entries are inserted at once
TRUNCATE bulk;
SET harmonia.batch_inserts = off;
SET client_min_messages = debug1;
INSERT INTO bulk SELECT i * 7919 % 1000 FROM generate_series(1, 1000) i;
RESET client_min_messages;
RESET harmonia.batch_inserts;
SELECT check_index('bulk');

-- ON CONFLICT is never queued: its tuples can be removed before the transaction ends
CREATE TABLE conflicting (id int PRIMARY KEY, k int);
CREATE INDEX conflicting_k ON conflicting USING harmonia (k);
SET client_min_messages = debug1;
INSERT INTO conflicting SELECT i, i FROM generate_series(1, 200) i ON CONFLICT DO NOTHING;
INSERT INTO conflicting SELECT i, i FROM generate_series(101, 300) i
	ON CONFLICT (id) DO UPDATE SET k = excluded.k + 1000;
WITH quiet AS (
	INSERT INTO conflicting SELECT i, i FROM generate_series(1, 400) i ON CONFLICT DO NOTHING
	RETURNING k)
INSERT INTO bulk SELECT k FROM quiet;
RESET client_min_messages;
SELECT check_index('conflicting'), check_index('bulk');

-- Nor is it queued inside another statement, where nothing else is either
CREATE FUNCTION insert_twice(i int) RETURNS int LANGUAGE plpgsql
AS $$
BEGIN
	INSERT INTO conflicting VALUES (i, i) ON CONFLICT DO NOTHING;
	INSERT INTO bulk VALUES (i);
	RETURN i;
END $$;
CREATE TABLE plain (k int);
SET client_min_messages = debug1;
INSERT INTO plain SELECT insert_twice(i) FROM generate_series(301, 600) i;
RESET client_min_messages;
SELECT check_index('conflicting'), check_index('bulk');

-- Several indexes, one of them partial
CREATE TABLE several (k int, other int);
CREATE INDEX several_k ON several USING harmonia (k);
CREATE INDEX several_other ON several USING harmonia (other);
CREATE INDEX several_even ON several USING harmonia (k) WHERE k % 2 = 0;
INSERT INTO several SELECT i, -i FROM generate_series(1, 200) i;
SET enable_seqscan = off;
SELECT count(*) FROM several WHERE k > 100;
SELECT count(*) FROM several WHERE other < -100;
SELECT count(*) FROM several WHERE k > 100 AND k % 2 = 0;
RESET enable_seqscan;

-- Partitions, and rows that move between them
CREATE TABLE parts (k int) PARTITION BY RANGE (k);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (500);
CREATE TABLE parts_2 PARTITION OF parts FOR VALUES FROM (500) TO (1000);
CREATE TABLE parts_rest PARTITION OF parts DEFAULT;
CREATE INDEX parts_k ON parts USING harmonia (k);
SET client_min_messages = debug1;
INSERT INTO parts SELECT i * 7919 % 500 FROM generate_series(1, 500) i;
\copy parts FROM PROGRAM 'seq 500 999'
RESET client_min_messages;
INSERT INTO parts VALUES (NULL), (-1);
SELECT check_index('parts');
UPDATE parts SET k = k + 100;
SELECT check_index('parts'), check_index('parts_1'), check_index('parts_2'), check_index('parts_rest');

-- Statements that other statements bring about: those of BEFORE triggers, and all triggers of COPY, are
-- inside the statement, and their entries are inserted at once.  Those of other AFTER triggers, and of foreign
-- keys, come when it has ended, and are queued for themselves.
CREATE TABLE base (id int PRIMARY KEY, k int);
CREATE INDEX base_k ON base USING harmonia (k);
CREATE TABLE referring (k int REFERENCES base ON UPDATE CASCADE);
CREATE INDEX referring_k ON referring USING harmonia (k);
CREATE TABLE log (k int);
CREATE INDEX log_k ON log USING harmonia (k);
CREATE FUNCTION log_many() RETURNS trigger LANGUAGE plpgsql
AS $$
BEGIN
	INSERT INTO log SELECT i FROM generate_series(1, 200) i;
	RETURN new;
END $$;
CREATE TRIGGER many BEFORE INSERT ON base FOR EACH STATEMENT EXECUTE FUNCTION log_many();
SET client_min_messages = debug1;
INSERT INTO base SELECT i, i FROM generate_series(1, 100) i;
RESET client_min_messages;
DROP TRIGGER many ON base;
CREATE TRIGGER many AFTER INSERT ON base FOR EACH STATEMENT EXECUTE FUNCTION log_many();
SET client_min_messages = debug1;
INSERT INTO base SELECT i, i FROM generate_series(101, 200) i;
\copy base FROM PROGRAM 'seq 201 300 | sed "s/.*/&,&/"' WITH (FORMAT csv)
RESET client_min_messages;
INSERT INTO referring SELECT 1 FROM generate_series(1, 200) i;
SET client_min_messages = debug1;
UPDATE base SET id = 1000 WHERE id = 1;
RESET client_min_messages;
SELECT check_index('base'), check_index('referring'), check_index('log');

--
-- Readers inside the statement
--

-- A volatile function reads the index: it sees all rows but the current one
TRUNCATE bulk;
INSERT INTO bulk SELECT i, seen('bulk') FROM generate_series(1, 300) i;
SELECT count(*) FROM bulk WHERE note <> k - 1;

-- The function reads it only sometimes
TRUNCATE bulk;
INSERT INTO bulk
	SELECT i, CASE WHEN i % 100 = 0 THEN seen('bulk') END FROM generate_series(1, 1000) i;
SELECT k, note FROM bulk WHERE note IS NOT NULL ORDER BY k;
SELECT check_index('bulk');

-- RETURNING sees the current row too
TRUNCATE bulk;
WITH new AS (
	INSERT INTO bulk SELECT i FROM generate_series(1, 300) i RETURNING k, seen('bulk') AS n)
SELECT count(*) FROM new WHERE n <> k;

-- The statement's own plan reads the index and does not see the new rows
TRUNCATE bulk;
INSERT INTO bulk SELECT i FROM generate_series(2, 100, 2) i;
SET enable_seqscan = off;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
INSERT INTO bulk SELECT i % 200 FROM generate_series(1, 400) i
	WHERE NOT EXISTS (SELECT FROM bulk b WHERE b.k = i % 200);
RESET enable_seqscan;
RESET enable_hashjoin;
RESET enable_mergejoin;
SELECT count(*), count(DISTINCT k), check_index('bulk') FROM bulk;

-- A query in a set-returning function stops after each row, and then sees the rows
-- that were added meanwhile
CREATE FUNCTION predecessors() RETURNS SETOF bigint LANGUAGE sql VOLATILE
AS 'SELECT (SELECT count(*) FROM bulk WHERE k = i - 1) FROM generate_series(1, 300) i';
TRUNCATE bulk;
SET enable_seqscan = off;
INSERT INTO bulk SELECT generate_series(1, 300), predecessors();
RESET enable_seqscan;
SELECT note, count(*), min(k) FROM bulk GROUP BY note ORDER BY note;

-- The same with a cursor that a function moves
CREATE FUNCTION next_of(c refcursor) RETURNS bigint LANGUAGE plpgsql
AS $$
DECLARE
	n bigint;
BEGIN
	FETCH c INTO n;
	RETURN n;
END $$;
TRUNCATE bulk;
BEGIN;
DECLARE c CURSOR FOR SELECT (SELECT count(*) FROM bulk WHERE k = i - 1) FROM generate_series(1, 300) i;
INSERT INTO bulk SELECT i, next_of('c') FROM generate_series(1, 300) i;
COMMIT;
SELECT note, count(*) FROM bulk GROUP BY note;
SELECT check_index('bulk');

-- Parallel workers do not see the queue, so it is applied before they start
CREATE TABLE probes (k int) WITH (parallel_workers = 2);
INSERT INTO probes SELECT generate_series(1, 1000);
CREATE FUNCTION seen_by_workers() RETURNS bigint LANGUAGE plpgsql
	SET enable_hashjoin = off SET enable_mergejoin = off SET enable_material = off
	SET random_page_cost = 0 SET parallel_setup_cost = 0 SET parallel_tuple_cost = 0
	SET parallel_leader_participation = off SET max_parallel_workers_per_gather = 2
AS $$
DECLARE
	n bigint;
BEGIN
	EXECUTE 'SELECT count(*) FROM probes JOIN bulk USING (k)' INTO n;
	RETURN n;
END $$;
TRUNCATE bulk;
INSERT INTO bulk
	SELECT i, CASE WHEN i % 100 = 0 THEN seen_by_workers() END FROM generate_series(1, 300) i;
SELECT k, note FROM bulk WHERE note IS NOT NULL ORDER BY k;

-- Triggers of every kind; a twin with a btree index shows what they must see
CREATE TABLE twin_harmonia (k int, note bigint);
CREATE INDEX ON twin_harmonia USING harmonia (k);
CREATE TABLE twin_btree (k int, note bigint);
CREATE INDEX ON twin_btree USING btree (k);
CREATE TABLE witnessed (tab text, kind text, n bigint);
CREATE FUNCTION witness() RETURNS trigger LANGUAGE plpgsql
AS $$
BEGIN
	INSERT INTO witnessed
		VALUES (TG_TABLE_NAME, concat_ws(' ', TG_OP, TG_WHEN, TG_LEVEL), seen(TG_TABLE_NAME));
	IF TG_WHEN = 'BEFORE' AND TG_LEVEL = 'ROW' THEN
		NEW.note = seen(TG_TABLE_NAME, 0, NEW.k);
		IF NEW.k % 10 = 9 THEN
			RETURN NULL;
		END IF;
	END IF;
	RETURN NEW;
END $$;
DO $$
DECLARE
	tab text;
BEGIN
	FOREACH tab IN ARRAY ARRAY['twin_harmonia', 'twin_btree'] LOOP
		EXECUTE format('CREATE TRIGGER a BEFORE INSERT OR UPDATE ON %I FOR EACH STATEMENT EXECUTE FUNCTION witness()', tab);
		EXECUTE format('CREATE TRIGGER b BEFORE INSERT OR UPDATE ON %I FOR EACH ROW EXECUTE FUNCTION witness()', tab);
		EXECUTE format('CREATE TRIGGER c AFTER INSERT OR UPDATE ON %I FOR EACH ROW EXECUTE FUNCTION witness()', tab);
		EXECUTE format('CREATE TRIGGER d AFTER INSERT OR UPDATE ON %I FOR EACH STATEMENT EXECUTE FUNCTION witness()', tab);
	END LOOP;
END $$;
INSERT INTO twin_harmonia SELECT i FROM generate_series(1, 200) i;
INSERT INTO twin_btree SELECT i FROM generate_series(1, 200) i;
UPDATE twin_harmonia SET k = k + 100;
UPDATE twin_btree SET k = k + 100;
\copy twin_harmonia (k) FROM PROGRAM 'seq 1001 1200'
\copy twin_btree (k) FROM PROGRAM 'seq 1001 1200'
SELECT kind, count(*), sum(n) FILTER (WHERE tab = 'twin_btree') AS btree,
		sum(n) FILTER (WHERE tab = 'twin_harmonia') AS harmonia
	FROM witnessed GROUP BY kind ORDER BY kind;
SELECT count(*) FROM (TABLE twin_harmonia EXCEPT ALL TABLE twin_btree) _;
SELECT check_index('twin_harmonia');

-- An AFTER trigger that inserts into its own table, in bulk
CREATE TABLE doubled (k int);
CREATE INDEX doubled_k ON doubled USING harmonia (k);
CREATE FUNCTION double() RETURNS trigger LANGUAGE plpgsql
AS $$
BEGIN
	IF pg_trigger_depth() = 1 THEN
		INSERT INTO doubled SELECT k + 1000 FROM new;
	END IF;
	RETURN NULL;
END $$;
CREATE TRIGGER double AFTER INSERT ON doubled REFERENCING NEW TABLE AS new
	FOR EACH STATEMENT EXECUTE FUNCTION double();
INSERT INTO doubled SELECT i FROM generate_series(1, 300) i;
SELECT seen('doubled', 1, 300), seen('doubled', 1001, 1300), check_index('doubled');

-- Deferred constraint triggers
CREATE TABLE deferring (k int);
CREATE INDEX deferring_k ON deferring USING harmonia (k);
CREATE FUNCTION no_twins() RETURNS trigger LANGUAGE plpgsql
AS $$
BEGIN
	IF seen('deferring', NEW.k, NEW.k) <> 1 THEN
		RAISE EXCEPTION 'there are % rows with k = %', seen('deferring', NEW.k, NEW.k), NEW.k;
	END IF;
	RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER no_twins AFTER INSERT ON deferring
	DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION no_twins();
INSERT INTO deferring SELECT i FROM generate_series(1, 200) i;
BEGIN;
INSERT INTO deferring SELECT i FROM generate_series(200, 400) i;
DELETE FROM deferring WHERE ctid = (SELECT min(ctid) FROM deferring WHERE k = 200);
COMMIT;
BEGIN;
INSERT INTO deferring SELECT i FROM generate_series(400, 600) i;
SAVEPOINT s;
SET CONSTRAINTS ALL IMMEDIATE;
ROLLBACK TO s;
COMMIT;
SELECT check_index('deferring');

-- Foreign keys: cascades find the referencing rows by the index
CREATE TABLE parent (id int PRIMARY KEY);
CREATE TABLE child (k int REFERENCES parent ON DELETE CASCADE ON UPDATE CASCADE);
CREATE INDEX child_k ON child USING harmonia (k);
INSERT INTO parent SELECT generate_series(1, 100);
SET enable_seqscan = off;
BEGIN;
INSERT INTO child SELECT 1 + i % 100 FROM generate_series(1, 1000) i;
DELETE FROM parent WHERE id <= 50;
UPDATE parent SET id = id + 1000;
COMMIT;
RESET enable_seqscan;
SELECT count(*), min(k), max(k), check_index('child') FROM child;
INSERT INTO child SELECT 1051 + i FROM generate_series(1, 100) i;
SELECT check_index('child');

-- A view's INSTEAD OF trigger
CREATE VIEW over AS SELECT k FROM bulk;
CREATE FUNCTION under() RETURNS trigger LANGUAGE plpgsql
AS $$
BEGIN
	INSERT INTO bulk VALUES (NEW.k, seen('bulk'));
	RETURN NEW;
END $$;
CREATE TRIGGER under INSTEAD OF INSERT ON over FOR EACH ROW EXECUTE FUNCTION under();
TRUNCATE bulk;
INSERT INTO over SELECT i FROM generate_series(1, 200) i;
SELECT count(*) FROM bulk WHERE note <> k - 1;
SELECT check_index('bulk');
DROP VIEW over;

--
-- Data-modifying WITH
--
TRUNCATE bulk;
CREATE TABLE source (k int);
INSERT INTO source SELECT generate_series(1, 500);
WITH moved AS (DELETE FROM source RETURNING k)
INSERT INTO bulk SELECT k FROM moved;
SELECT check_index('bulk');

-- What WITH inserts is invisible to the rest of the statement
SET enable_seqscan = off;
WITH new AS (INSERT INTO bulk SELECT i FROM generate_series(501, 1000) i RETURNING k)
SELECT count(*) AS new, count(old.k) AS visible FROM new LEFT JOIN bulk old ON old.k = new.k;
RESET enable_seqscan;
SELECT check_index('bulk');

-- A WITH query that is not read runs at the end
WITH unread AS (INSERT INTO bulk SELECT i FROM generate_series(1001, 1500) i RETURNING k)
SELECT 1 AS one;
SELECT check_index('bulk');

-- Both parts write
WITH first AS (INSERT INTO bulk SELECT i FROM generate_series(1, 200) i RETURNING k),
	second AS (UPDATE bulk SET k = k + 5000 WHERE k > 1000 RETURNING k)
INSERT INTO several SELECT k, seen('bulk', k, k) FROM first UNION ALL SELECT k, 2 FROM second;
SELECT count(*) FROM several WHERE other NOT IN (1, 2) AND other >= 0;
SELECT check_index('bulk'), check_index('several');

--
-- Rollback and errors
--

-- A savepoint
TRUNCATE bulk;
BEGIN;
INSERT INTO bulk SELECT i FROM generate_series(1, 300) i;
SAVEPOINT s;
INSERT INTO bulk SELECT i FROM generate_series(301, 600) i;
ROLLBACK TO s;
SELECT check_index('bulk');
INSERT INTO bulk SELECT i FROM generate_series(301, 500) i;
COMMIT;
SELECT check_index('bulk');

-- A bulk statement fails after it has queued entries
TRUNCATE bulk;
INSERT INTO bulk SELECT i, 1 / (250 - i) FROM generate_series(1, 500) i;
VACUUM bulk;
INSERT INTO bulk SELECT -i FROM generate_series(1, 300) i;
SELECT seen('bulk'), check_index('bulk');

-- The same, with the error caught
TRUNCATE bulk;
DO $$
BEGIN
	INSERT INTO bulk SELECT i FROM generate_series(1, 200) i;
	BEGIN
		INSERT INTO bulk SELECT 1000 + i, 1 / (250 - i) FROM generate_series(1, 500) i;
	EXCEPTION WHEN division_by_zero THEN
		RAISE NOTICE 'seen then: % and %', seen('bulk'), seen('bulk', 1000);
	END;
	INSERT INTO bulk SELECT 2000 + i FROM generate_series(1, 200) i;
END $$;
SELECT check_index('bulk');

-- A function inside the statement catches its own errors: the entries that the
-- statement has queued stay
CREATE FUNCTION stumble(i int) RETURNS bigint LANGUAGE plpgsql
AS $$
BEGIN
	INSERT INTO bulk VALUES (10000 + i);
	IF i % 3 = 0 THEN
		RAISE EXCEPTION 'stumbled';
	END IF;
	RETURN i;
EXCEPTION WHEN raise_exception THEN
	RETURN seen('bulk', i, i);
END $$;
TRUNCATE bulk;
INSERT INTO bulk
	SELECT i, CASE WHEN i % 50 = 0 THEN stumble(i) END FROM generate_series(1, 600) i;
SELECT k, note FROM bulk WHERE note IS NOT NULL ORDER BY k;
SELECT seen('bulk', 10001), check_index('bulk');

-- The same with an inner bulk statement that fails
CREATE FUNCTION fall() RETURNS bigint LANGUAGE plpgsql
AS $$
BEGIN
	INSERT INTO bulk SELECT 20000 + j, 1 / (150 - j) FROM generate_series(1, 300) j;
	RETURN 0;
EXCEPTION WHEN division_by_zero THEN
	RETURN seen('bulk');
END $$;
TRUNCATE bulk;
INSERT INTO bulk SELECT i, CASE WHEN i % 150 = 0 THEN fall() END FROM generate_series(1, 600) i;
SELECT k, note FROM bulk WHERE note IS NOT NULL ORDER BY k;
SELECT check_index('bulk');

-- A unique violation, found only after the entry was queued
CREATE UNIQUE INDEX several_unique ON several USING btree (k, other);
TRUNCATE several;
INSERT INTO several VALUES (700, 700);
INSERT INTO several SELECT i, i FROM generate_series(501, 1000) i;
SELECT check_index('several');

-- The whole transaction is rolled back
BEGIN;
INSERT INTO bulk SELECT i FROM generate_series(1, 500) i;
ROLLBACK;
SELECT check_index('bulk');

-- A TRUNCATE that is rolled back
BEGIN;
TRUNCATE bulk;
INSERT INTO bulk SELECT i FROM generate_series(1, 300) i;
ROLLBACK;
SELECT check_index('bulk');

--
-- DDL inside the statement
--
CREATE TABLE aside (k int);
CREATE FUNCTION build_aside(i int) RETURNS bigint LANGUAGE plpgsql
AS $$
BEGIN
	DROP INDEX IF EXISTS aside_k;
	TRUNCATE aside;
	INSERT INTO aside SELECT generate_series(1, i);
	CREATE INDEX aside_k ON aside USING harmonia (k);
	INSERT INTO aside SELECT generate_series(i + 1, 2 * i);
	ANALYZE aside;
	RETURN seen('aside') + seen('bulk');
END $$;
SET client_min_messages = warning;
TRUNCATE bulk;
INSERT INTO bulk
	SELECT i, CASE WHEN i % 100 = 0 THEN build_aside(i) END FROM generate_series(1, 300) i;
RESET client_min_messages;
SELECT k, note FROM bulk WHERE note IS NOT NULL ORDER BY k;
SELECT check_index('aside'), check_index('bulk');

-- PostgreSQL protects tables in use
CREATE FUNCTION meddle(command text) RETURNS text LANGUAGE plpgsql
AS $$
BEGIN
	EXECUTE command;
	RETURN 'done';
EXCEPTION WHEN object_in_use THEN
	RETURN sqlerrm;
END $$;
CREATE FUNCTION meddle_at(i int) RETURNS bigint LANGUAGE plpgsql
AS $$
BEGIN
	RAISE NOTICE '%', meddle('TRUNCATE bulk');
	RAISE NOTICE '%', meddle('REINDEX INDEX bulk_k');
	RAISE NOTICE '%', meddle('DROP INDEX bulk_k');
	RETURN seen('bulk');
END $$;
INSERT INTO bulk
	SELECT 1000 + i, CASE WHEN i = 200 THEN meddle_at(i) END FROM generate_series(1, 300) i;
SELECT check_index('bulk');

-- After a bulk statement, in the same transaction
BEGIN;
INSERT INTO bulk SELECT 2000 + i FROM generate_series(1, 300) i;
REINDEX INDEX bulk_k;
INSERT INTO bulk SELECT 3000 + i FROM generate_series(1, 300) i;
ALTER TABLE bulk ALTER k TYPE bigint;
ALTER TABLE bulk ALTER k TYPE int;
INSERT INTO bulk SELECT 4000 + i FROM generate_series(1, 300) i;
SELECT check_index('bulk');
COMMIT;
SELECT check_index('bulk');

--
-- Sessions and transactions
--

-- Cursors see the rows that were there when they were opened
TRUNCATE bulk;
INSERT INTO bulk SELECT i FROM generate_series(1, 3) i;
SET enable_seqscan = off;
BEGIN;
DECLARE before CURSOR FOR SELECT k FROM bulk WHERE k > 0 ORDER BY k;
FETCH 1 FROM before;
INSERT INTO bulk SELECT i FROM generate_series(4, 300) i;
DECLARE after CURSOR FOR SELECT k FROM bulk WHERE k > 298 ORDER BY k;
FETCH ALL FROM before;
FETCH ALL FROM after;
COMMIT;
RESET enable_seqscan;

-- Prepared statements, functions, EXPLAIN
PREPARE fill(int) AS INSERT INTO bulk SELECT i FROM generate_series(1, $1) i;
CREATE FUNCTION fill(n int) RETURNS void LANGUAGE sql
AS 'INSERT INTO bulk SELECT i FROM generate_series(1, n) i';
SET client_min_messages = debug1;
EXECUTE fill(100);
SELECT fill(100);
DO $$
BEGIN
	EXECUTE 'EXPLAIN ANALYZE INSERT INTO bulk SELECT i FROM generate_series(1, 100) i';
END $$;
RESET client_min_messages;
SELECT check_index('bulk');

-- A procedure that commits between bulk statements
CREATE PROCEDURE fill_twice(n int) LANGUAGE plpgsql
AS $$
BEGIN
	INSERT INTO bulk SELECT i FROM generate_series(1, n) i;
	COMMIT;
	INSERT INTO bulk SELECT i FROM generate_series(1, n) i;
	ROLLBACK;
	INSERT INTO bulk SELECT i FROM generate_series(1, n) i;
END $$;
CALL fill_twice(200);
SELECT check_index('bulk');

-- Prepared transactions, if the server allows them
SELECT current_setting('max_prepared_transactions')::int > 0 AS can_prepare \gset
BEGIN;
INSERT INTO bulk SELECT i FROM generate_series(1, 200) i;
\if :can_prepare
PREPARE TRANSACTION 'harmonia_batch';
COMMIT PREPARED 'harmonia_batch';
\else
COMMIT;
\endif
SELECT check_index('bulk');

-- Temporary tables
CREATE TEMP TABLE brief (k int) ON COMMIT DELETE ROWS;
CREATE INDEX brief_k ON brief USING harmonia (k);
BEGIN;
INSERT INTO brief SELECT i FROM generate_series(1, 200) i;
SELECT check_index('brief');
COMMIT;
BEGIN;
INSERT INTO brief SELECT i FROM generate_series(1, 100) i;
SELECT check_index('brief');
COMMIT;

-- Clean up
DROP TABLE bulk, conflicting, several, parts, twin_harmonia, twin_btree, witnessed, doubled,
	deferring, parent, child, source, aside, brief, plain, probes;
DROP FUNCTION rows_by_table, rows_by_index, check_index, seen, seen_by_workers, predecessors, next_of, witness,
	double, no_twins, under, insert_twice, stumble, fall, build_aside, meddle, meddle_at, fill;
DROP PROCEDURE fill_twice;
