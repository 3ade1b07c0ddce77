--
-- Statements that change or lock rows by lookup joins.  What other sessions change meanwhile is in
-- test/t/019_changing_joins.pl.
--
SET client_min_messages = warning;
SET jit = off;
SET max_parallel_workers_per_gather = 0;
SET harmonia.enable_btree_lookup = on;
CREATE SCHEMA lookup_change;
SET search_path = lookup_change, public;
\getenv srcdir PG_ABS_SRCDIR
\set compare :srcdir '/sql/include/compare.sql'
\i :compare
\set lookup :srcdir '/sql/include/lookup.sql'
\i :lookup

-- Run a statement with lookup joins, and without.  Each time, what it has done is undone.  Returns its
-- rows, and what the tables have then, or its error.
CREATE FUNCTION outcome(statement text, tables text[]) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
	rows bigint;
	part text;
BEGIN
	EXECUTE statement;
	GET DIAGNOSTICS rows = ROW_COUNT;
	result := rows;
	FOR i IN 1 .. cardinality(tables) LOOP
		EXECUTE format('SELECT concat(count(*), '' '', sum(hash_record_extended(x, 0))) FROM %s x', tables[i]) INTO part;
		result := concat(result, ' ', part);
	END LOOP;
	RAISE EXCEPTION USING ERRCODE = 'HM001', MESSAGE = result;
EXCEPTION
	WHEN SQLSTATE 'HM001' THEN RETURN SQLERRM;
	WHEN OTHERS THEN RETURN SQLSTATE || ' ' || SQLERRM;
END $$;
CREATE FUNCTION compare_changes(tables text[], VARIADIC statements text[]) RETURNS TABLE (result text, nodes text, statement text) LANGUAGE plpgsql AS $$
DECLARE
	wanted text;
	got text;
BEGIN
	FOREACH statement IN ARRAY statements LOOP
		CALL use_no_lookups('seq');
		wanted := outcome(statement, tables);
		CALL use_lookups(false);
		nodes := lookup_nodes(statement);
		got := outcome(statement, tables);
		result := CASE WHEN got <> wanted THEN format('DIFFERS: %s, not %s', got, wanted) WHEN wanted ~ '^[0-9A-Z]{5} ' THEN wanted ELSE 'same, ' || split_part(wanted, ' ', 1) || ' rows' END;
		RETURN NEXT;
	END LOOP;
END $$;

CREATE TABLE t (id int, v int, w text) WITH (autovacuum_enabled = off);
INSERT INTO t SELECT i, i % 50, 'w' || i FROM generate_series(1, 4000) i;
INSERT INTO t SELECT NULL, i, 'null' FROM generate_series(1, 5) i;
CREATE INDEX t_id ON t USING harmonia (id);
CREATE TABLE s (k int, n int, PRIMARY KEY (n));
INSERT INTO s SELECT shuffle(i) % 5000, i FROM generate_series(1, 1000) i;
INSERT INTO s VALUES (NULL, 0);
CREATE TABLE pairs (a int, b int, v int);
INSERT INTO pairs SELECT i % 60, i, 0 FROM generate_series(1, 3000) i;
CREATE INDEX pairs_ab ON pairs USING harmonia (a, b);
CREATE TABLE log (line text);
ANALYZE t, s, pairs;

-- EXPLAIN shows no more than the join
BEGIN;
CALL use_lookups(true);
SELECT * FROM plan('UPDATE t SET v = n FROM s WHERE t.id = s.k');
SELECT * FROM plan('DELETE FROM s WHERE NOT EXISTS (SELECT FROM t WHERE t.id = s.k)');
SELECT * FROM plan('SELECT * FROM s JOIN t ON t.id = s.k FOR UPDATE OF t');
SELECT * FROM plan('MERGE INTO t USING s ON t.id = s.k WHEN MATCHED THEN UPDATE SET v = n WHEN NOT MATCHED THEN INSERT VALUES (k, n)');
ROLLBACK;

-- Each kind of statement, with the target on either side
SELECT * FROM compare_changes('{t,s,pairs,log}',
	'UPDATE t SET v = n FROM s WHERE t.id = s.k AND n < 700', 'UPDATE t SET id = id + 3 FROM s WHERE t.id = s.k', 'UPDATE s SET k = t.v FROM t WHERE t.id = s.k',
	'UPDATE t SET v = 1 WHERE id IN (SELECT k FROM s)', 'UPDATE t SET v = 1 WHERE EXISTS (SELECT FROM s WHERE s.n = t.id AND s.k > 5)',
	'UPDATE s SET k = 0 WHERE NOT EXISTS (SELECT FROM t WHERE t.id = s.k AND t.v > 3)', 'UPDATE s SET k = x.v FROM s y LEFT JOIN t x ON x.id = y.k WHERE s.n = y.n',
	'DELETE FROM t USING s WHERE t.id = s.k', 'DELETE FROM t WHERE id IN (SELECT k FROM s WHERE n % 3 = 0)', 'DELETE FROM t WHERE id = ANY (ARRAY(SELECT k FROM s))',
	'DELETE FROM s WHERE EXISTS (SELECT FROM t WHERE t.id = s.k AND t.v < 20)', 'DELETE FROM s USING t, t u WHERE t.id = s.k AND u.id = t.id + 1',
	'UPDATE pairs SET v = n FROM s WHERE pairs.a = s.k AND pairs.b = s.n', 'UPDATE pairs SET v = n FROM s WHERE pairs.a = 7 AND pairs.b = s.n',
	'DELETE FROM pairs USING s WHERE a = k', 'UPDATE pairs SET b = b + 1 FROM s WHERE pairs.a = s.n',
	'MERGE INTO s USING t ON s.n = t.id WHEN MATCHED AND v < 10 THEN DELETE WHEN MATCHED THEN UPDATE SET k = v WHEN NOT MATCHED AND t.id IS NOT NULL THEN INSERT VALUES (t.v, t.id)',
	'MERGE INTO t USING (SELECT DISTINCT k FROM s WHERE k IS NOT NULL) x ON t.id = x.k WHEN MATCHED AND v < 10 THEN DELETE WHEN MATCHED THEN DO NOTHING WHEN NOT MATCHED THEN INSERT VALUES (k, 0)',
	'INSERT INTO s SELECT t.v, t.id FROM s JOIN t ON t.id = s.k ON CONFLICT (n) DO UPDATE SET k = excluded.k + 1',
	'WITH gone AS (DELETE FROM t USING s WHERE t.id = s.k RETURNING t.*, n) INSERT INTO log SELECT concat(id, v, w, n) FROM gone',
	'WITH new AS (UPDATE t SET v = v + 1 FROM s WHERE t.id = s.k RETURNING id, t.v) UPDATE s SET k = -new.v FROM new WHERE new.id = s.n',
	'INSERT INTO log SELECT t.w FROM s JOIN t ON t.id = s.k FOR UPDATE', 'INSERT INTO log SELECT t.w FROM s LEFT JOIN t ON t.id = s.k FOR SHARE OF s',
	'INSERT INTO log SELECT q.w FROM (SELECT t.w, t.id FROM s JOIN t ON t.id = s.k FOR UPDATE OF t SKIP LOCKED) q JOIN s ON s.n = q.id',
	'INSERT INTO log SELECT concat(t, s) FROM s JOIN t ON t.id = s.k WHERE s.n IN (SELECT x.n FROM s x JOIN t y ON y.id = x.k FOR UPDATE) FOR UPDATE');

-- A row that the statement has changed is found as it was: keys that grow are not found again, and no row
-- is changed twice, but by MERGE, which refuses that
CREATE UNIQUE INDEX t_unique ON t (id) WHERE id > 100000;
SELECT * FROM compare_changes('{t,s}',
	'UPDATE t SET id = t.id + 1 FROM (SELECT generate_series(1, 4000) AS k) x WHERE t.id = x.k',
	'UPDATE t SET v = v + 1 FROM (SELECT n % 10 AS k FROM s) x WHERE t.id = x.k', 'DELETE FROM t USING (SELECT n % 10 AS k FROM s) x WHERE t.id = x.k',
	'MERGE INTO t USING (SELECT n % 10 AS k FROM s) x ON t.id = x.k WHEN MATCHED THEN UPDATE SET v = 0');

-- Triggers and functions that read and write the tables
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO log VALUES (concat(tg_op, old, new, (SELECT v FROM t WHERE id = old.id + 1)));
	IF tg_when = 'BEFORE' AND old.id % 7 = 0 THEN
		UPDATE t SET w = 'by trigger' WHERE id = old.id + 1;
	END IF;
	RETURN CASE WHEN tg_when = 'BEFORE' AND old.id % 5 = 0 THEN NULL WHEN tg_op = 'DELETE' THEN old ELSE new END;
END $$;
CREATE FUNCTION note_rows() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO log SELECT concat(o, n) FROM olds o JOIN news n USING (id);
	RETURN NULL;
END $$;
CREATE TRIGGER after_rows AFTER UPDATE OR DELETE ON t FOR EACH ROW EXECUTE FUNCTION note();
CREATE TRIGGER after_statement AFTER UPDATE ON t REFERENCING OLD TABLE AS olds NEW TABLE AS news FOR EACH STATEMENT EXECUTE FUNCTION note_rows();
SELECT * FROM compare_changes('{t,log}', 'UPDATE t SET v = n FROM s WHERE t.id = s.k AND n < 300', 'DELETE FROM t USING s WHERE t.id = s.k AND n < 300',
	'MERGE INTO t USING (SELECT DISTINCT k FROM s WHERE n < 200) x ON t.id = x.k WHEN MATCHED AND v % 2 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET v = -1');
DROP TRIGGER after_rows ON t;
CREATE TRIGGER before_rows BEFORE UPDATE OR DELETE ON t FOR EACH ROW EXECUTE FUNCTION note();
SELECT * FROM compare_changes('{t}', 'DELETE FROM t USING s WHERE t.id = s.k AND s.k % 7 <> 1 AND s.k % 35 <> 0 AND n < 300');
DROP TRIGGER before_rows ON t;
DROP TRIGGER after_statement ON t;

-- Views, rules, row security
CREATE VIEW checked AS SELECT id, v, w FROM t WHERE v < 40 WITH CHECK OPTION;
CREATE VIEW joined AS SELECT t.id, t.v, s.n FROM t JOIN s ON s.k = t.id;
CREATE FUNCTION instead() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN UPDATE t SET v = new.v WHERE id = old.id; RETURN new; END';
CREATE TRIGGER instead INSTEAD OF UPDATE ON joined FOR EACH ROW EXECUTE FUNCTION instead();
CREATE RULE noted AS ON DELETE TO checked DO ALSO INSERT INTO log VALUES (old.w);
CREATE ROLE regress_harmonia_reader;
GRANT USAGE ON SCHEMA lookup_change TO regress_harmonia_reader;
GRANT SELECT, UPDATE, DELETE, INSERT ON t, s, log TO regress_harmonia_reader;
ALTER TABLE t ENABLE ROW LEVEL SECURITY;
CREATE POLICY some_rows ON t TO regress_harmonia_reader USING (id % 3 <> 0) WITH CHECK (v < 900);
SELECT * FROM compare_changes('{t,log}', 'UPDATE checked SET v = v - 1 FROM s WHERE checked.id = s.k', 'UPDATE checked SET v = n FROM s WHERE checked.id = s.k',
	'DELETE FROM checked USING s WHERE checked.id = s.k');
SELECT result, statement FROM compare_changes('{t,log}', 'UPDATE joined SET v = j.v + 1 FROM s j2, joined j WHERE j2.n = j.n AND joined.id = j2.k');
SET ROLE regress_harmonia_reader;
SELECT result, statement FROM compare_changes('{t,log}', 'UPDATE t SET v = v - 1 FROM s WHERE t.id = s.k', 'DELETE FROM t USING s WHERE t.id = s.k', 'UPDATE t SET v = n FROM s WHERE t.id = s.k',
	'INSERT INTO log SELECT t.w FROM s JOIN t ON t.id = s.k FOR UPDATE OF t');
RESET ROLE;
ALTER TABLE t DISABLE ROW LEVEL SECURITY;
DROP POLICY some_rows ON t;

-- Cursors
BEGIN;
CALL use_lookups(true);
DECLARE c CURSOR FOR SELECT t.id, n FROM s JOIN t ON t.id = s.k WHERE n < 300 ORDER BY n FOR UPDATE OF t;
SELECT lookup_nodes('SELECT t.id, n FROM s JOIN t ON t.id = s.k WHERE n < 300 ORDER BY n FOR UPDATE OF t');
FETCH 2 FROM c;
UPDATE t SET w = 'current' WHERE CURRENT OF c RETURNING id;
FETCH 1 FROM c;
DELETE FROM t WHERE CURRENT OF c RETURNING id;
ROLLBACK;

-- Partitioned and inherited targets; rows move between partitions
CREATE TABLE p (id int, v int, w text) PARTITION BY RANGE (id);
CREATE TABLE p_low (w text, gone int, v int, id int);
ALTER TABLE p_low DROP gone;
ALTER TABLE p ATTACH PARTITION p_low FOR VALUES FROM (MINVALUE) TO (1500);
CREATE TABLE p_high PARTITION OF p FOR VALUES FROM (1500) TO (MAXVALUE) PARTITION BY HASH (id);
CREATE TABLE p_high_0 PARTITION OF p_high FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE p_high_1 PARTITION OF p_high FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO p SELECT * FROM t WHERE id IS NOT NULL;
CREATE INDEX p_id ON p USING harmonia (id);
CREATE TABLE parent (id int, v int);
CREATE TABLE child (more text) INHERITS (parent);
INSERT INTO parent SELECT i, 0 FROM generate_series(1, 1000) i;
INSERT INTO child SELECT i, 0, 'c' FROM generate_series(500, 2500) i;
CREATE INDEX parent_id ON parent USING harmonia (id);
CREATE INDEX child_id ON child USING harmonia (id);
ANALYZE p, parent, child;
BEGIN;
CALL use_lookups(true);
SELECT * FROM plan('UPDATE p SET v = n FROM s WHERE p.id = s.k');
SELECT * FROM plan('UPDATE p SET v = n FROM s WHERE p.id = s.k AND p.v < 3', 'VERBOSE');
ROLLBACK;
SELECT * FROM compare_changes('{p,parent,s,log}', 'UPDATE p SET v = n FROM s WHERE p.id = s.k', 'UPDATE p SET id = 3000 - p.id FROM s WHERE p.id = s.k', 'DELETE FROM p USING s WHERE p.id = s.k AND n % 2 = 0',
	'DELETE FROM p WHERE id IN (SELECT k FROM s)', 'MERGE INTO p USING (SELECT DISTINCT k FROM s WHERE k IS NOT NULL) x ON p.id = x.k WHEN MATCHED AND v < 20 THEN DELETE WHEN MATCHED THEN UPDATE SET v = 0 WHEN NOT MATCHED THEN INSERT VALUES (k, 1)',
	'UPDATE s SET k = p.v FROM p WHERE p.id = s.k', 'UPDATE p SET v = t.v + 1000 FROM t WHERE t.id = p.id AND p.v < 3', 'UPDATE p_low SET v = n FROM s WHERE p_low.id = s.k',
	'INSERT INTO log SELECT concat(p.tableoid::regclass, p.w) FROM s JOIN p ON p.id = s.k FOR UPDATE OF p', 'UPDATE parent SET v = n FROM s WHERE parent.id = s.k', 'DELETE FROM parent USING s WHERE parent.id = s.k',
	'WITH moved AS (UPDATE p SET id = 3000 - p.id FROM s WHERE p.id = s.k RETURNING p.tableoid::regclass, p.*, n) INSERT INTO log SELECT moved::text FROM moved');

-- Foreign keys that cascade
CREATE TABLE referring (id int REFERENCES s (n) ON DELETE CASCADE);
INSERT INTO referring SELECT n FROM s, generate_series(1, 3);
CREATE INDEX referring_id ON referring USING harmonia (id);
SELECT * FROM compare_changes('{s,referring}', 'DELETE FROM s USING t WHERE t.id = s.n AND t.v < 10');

DROP SCHEMA lookup_change CASCADE;
DROP ROLE regress_harmonia_reader;
