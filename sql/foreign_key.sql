--
-- ADD FOREIGN KEY and VALIDATE CONSTRAINT look for rows without a referenced one by a query, an antijoin of both tables.
-- With an index on the referenced columns it is a lookup join where that is cheapest.
--
CREATE SCHEMA foreign_key_test;
SET search_path = foreign_key_test, public;
\pset format unaligned
-- Keys are numbers without order
\getenv srcdir PG_ABS_SRCDIR
\set compare :srcdir '/sql/include/compare.sql'
\i :compare

-- What becomes of a command, and whether it has looked keys up in an index: few scans return many entries.  (A nested loop
-- makes a scan for each row; from PostgreSQL 18 on the planner makes two, which look for the first and the last key.)
CREATE FUNCTION checked(index regclass, command text, OUT looked_up boolean, OUT outcome text) LANGUAGE plpgsql
AS $$
DECLARE
	detail text := '';
	scans bigint := -pg_stat_get_xact_numscans(index);
	entries bigint := -pg_stat_get_xact_tuples_returned(index);
BEGIN
	BEGIN
		EXECUTE command;
		outcome := 'ok';
	EXCEPTION WHEN OTHERS THEN
		GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
		outcome := concat_ws(' | ', SQLSTATE, SQLERRM, detail);
	END;
	scans := scans + pg_stat_get_xact_numscans(index);
	entries := entries + pg_stat_get_xact_tuples_returned(index);
	looked_up := scans BETWEEN 1 AND 10 AND entries > 1000;
END $$;

CREATE TABLE parent (k int PRIMARY KEY, v int);
INSERT INTO parent SELECT shuffle(i), i FROM generate_series(1, 40000) i;
CREATE TABLE child (k int, note text);
INSERT INTO child SELECT shuffle(i), 'child ' || i FROM generate_series(1, 40000) i WHERE i % 2 = 0;
INSERT INTO child SELECT NULL, 'null' FROM generate_series(1, 100);
VACUUM ANALYZE parent, child;

-- The query, as PostgreSQL writes it
CREATE INDEX parent_k ON parent USING harmonia (k);
SELECT plan_nodes('SELECT fk.k FROM ONLY child fk LEFT OUTER JOIN ONLY parent pk ON (pk.k OPERATOR(pg_catalog.=) fk.k)
	WHERE pk.k IS NULL AND (fk.k IS NOT NULL)', '^(Custom Scan|Hash|Merge|Nest)');

SELECT * FROM checked('parent_k', 'ALTER TABLE child ADD CONSTRAINT child_fk FOREIGN KEY (k) REFERENCES parent');
SELECT * FROM checked('parent_k', 'ALTER TABLE child DROP CONSTRAINT child_fk');
SELECT * FROM checked('parent_k', 'ALTER TABLE child ADD CONSTRAINT child_fk FOREIGN KEY (k) REFERENCES parent NOT VALID');
SELECT * FROM checked('parent_k', 'ALTER TABLE child VALIDATE CONSTRAINT child_fk');
ALTER TABLE child DROP CONSTRAINT child_fk;
-- Not with the setting off
SET harmonia.enable_lookup_join = off;
SELECT * FROM checked('parent_k', 'ALTER TABLE child ADD CONSTRAINT child_fk FOREIGN KEY (k) REFERENCES parent');
RESET harmonia.enable_lookup_join;
ALTER TABLE child DROP CONSTRAINT child_fk;

-- A row that refers to nothing
INSERT INTO child VALUES (-77, 'lost');
SELECT * FROM checked('parent_k', 'ALTER TABLE child ADD CONSTRAINT child_fk FOREIGN KEY (k) REFERENCES parent');
ALTER TABLE child ADD CONSTRAINT child_fk FOREIGN KEY (k) REFERENCES parent NOT VALID;
SELECT * FROM checked('parent_k', 'ALTER TABLE child VALIDATE CONSTRAINT child_fk');
DELETE FROM child WHERE k = -77;
SELECT * FROM checked('parent_k', 'ALTER TABLE child VALIDATE CONSTRAINT child_fk');
ALTER TABLE child DROP CONSTRAINT child_fk;
-- A row that has lost what it refers to
DELETE FROM parent WHERE v = 7000;
SELECT looked_up, replace(outcome, '(' || shuffle(7000) || ')', '(the row)') FROM checked('parent_k', 'ALTER TABLE child ADD FOREIGN KEY (k) REFERENCES parent');
INSERT INTO parent VALUES (shuffle(7000), 7000);
SELECT * FROM checked('parent_k', 'ALTER TABLE child ADD CONSTRAINT child_fk FOREIGN KEY (k) REFERENCES parent');

-- Another type
CREATE TABLE wider AS SELECT k::bigint AS k FROM child;
ANALYZE wider;
SELECT * FROM checked('parent_k', 'ALTER TABLE wider ADD FOREIGN KEY (k) REFERENCES parent');

-- Two columns
CREATE TABLE pairs (a int, b int, PRIMARY KEY (a, b));
INSERT INTO pairs SELECT shuffle(i) % 10000, i FROM generate_series(1, 40000) i;
CREATE INDEX pairs_ab ON pairs USING harmonia (a, b);
CREATE TABLE of_pairs AS SELECT a, b FROM pairs WHERE b % 2 = 0 UNION ALL SELECT NULL, NULL FROM generate_series(1, 100);
VACUUM ANALYZE pairs, of_pairs;
SELECT * FROM checked('pairs_ab', 'ALTER TABLE of_pairs ADD FOREIGN KEY (a, b) REFERENCES pairs MATCH FULL');
ALTER TABLE of_pairs DROP CONSTRAINT of_pairs_a_b_fkey;
INSERT INTO of_pairs VALUES (NULL, 1);
SELECT * FROM checked('pairs_ab', 'ALTER TABLE of_pairs ADD FOREIGN KEY (a, b) REFERENCES pairs');
ALTER TABLE of_pairs DROP CONSTRAINT of_pairs_a_b_fkey;
SELECT * FROM checked('pairs_ab', 'ALTER TABLE of_pairs ADD FOREIGN KEY (a, b) REFERENCES pairs MATCH FULL');
UPDATE of_pairs SET a = -5 WHERE a IS NULL AND b = 1;
SELECT * FROM checked('pairs_ab', 'ALTER TABLE of_pairs ADD FOREIGN KEY (a, b) REFERENCES pairs');

-- A table that refers to itself
CREATE TABLE tree (id int PRIMARY KEY, parent int);
INSERT INTO tree SELECT shuffle(i), shuffle(i / 2) FROM generate_series(2, 40000) i;
CREATE INDEX tree_id ON tree USING harmonia (id);
VACUUM ANALYZE tree;
SELECT * FROM checked('tree_id', 'ALTER TABLE tree ADD FOREIGN KEY (parent) REFERENCES tree');
INSERT INTO tree VALUES (shuffle(1));
SELECT * FROM checked('tree_id', 'ALTER TABLE tree ADD FOREIGN KEY (parent) REFERENCES tree');

-- Partitions
CREATE TABLE parted (k int PRIMARY KEY, v int) PARTITION BY RANGE (k);
CREATE TABLE parted_low PARTITION OF parted FOR VALUES FROM (MINVALUE) TO (1000000000);
CREATE TABLE parted_high PARTITION OF parted FOR VALUES FROM (1000000000) TO (MAXVALUE);
INSERT INTO parted SELECT * FROM parent;
CREATE INDEX parted_k ON parted USING harmonia (k);
VACUUM ANALYZE parted;
CREATE TABLE of_parted (LIKE child);
INSERT INTO of_parted SELECT * FROM child;
ANALYZE of_parted;
SELECT * FROM checked('parted_high_k_idx', 'ALTER TABLE of_parted ADD FOREIGN KEY (k) REFERENCES parted');
ALTER TABLE of_parted DROP CONSTRAINT of_parted_k_fkey;
INSERT INTO of_parted VALUES (-77, 'lost');
SELECT * FROM checked('parted_low_k_idx', 'ALTER TABLE of_parted ADD FOREIGN KEY (k) REFERENCES parted');

-- The referenced key's own btree index
ALTER TABLE child DROP CONSTRAINT child_fk;
DROP INDEX parent_k;
SET harmonia.enable_btree_lookup = on;
SELECT * FROM checked('parent_pkey', 'ALTER TABLE child ADD FOREIGN KEY (k) REFERENCES parent');

-- A few rows: PostgreSQL's plans
CREATE TABLE few (k int REFERENCES parent);
INSERT INTO few SELECT k FROM child LIMIT 3;
ANALYZE few;
ALTER TABLE few DROP CONSTRAINT few_k_fkey;
SELECT outcome FROM checked('parent_pkey', 'ALTER TABLE few ADD FOREIGN KEY (k) REFERENCES parent');

SET client_min_messages = error;
DROP SCHEMA foreign_key_test CASCADE;
