-- Leaves store keys and TIDs in as few bytes as their bounds allow.
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE SCHEMA narrow;
SET search_path = narrow, public;
\getenv srcdir PG_ABS_SRCDIR
\set settle :srcdir '/sql/include/settle.sql'
\i :settle

-- The leaves of an index by how wide they are, after it was verified
CREATE FUNCTION classes(i regclass) RETURNS TABLE (key_bits int, tid_bytes int, leaves bigint, entries numeric)
LANGUAGE sql AS $$
	SELECT harmonia_check(i, true);
	SELECT l.key_bits, l.tid_bytes, count(*), round(avg(l.entries))
	FROM harmonia_segments(i) s, harmonia_leaves(i, s.block) l GROUP BY 1, 2 ORDER BY 1, 2
$$;

-- Builds: serial keys, keys a second apart, any keys, many rows a key
CREATE TABLE b (serial bigint, second timestamptz, any8 bigint, any4 int, few int);
INSERT INTO b SELECT g, '2026-01-01'::timestamptz + g * interval '1 s', ('x' || substr(md5(g::text), 1, 16))::bit(64)::bigint,
	('x' || substr(md5(g::text), 1, 8))::bit(32)::int, g % 300 FROM generate_series(1, 30000) g;
CREATE INDEX b_serial ON b USING harmonia (serial);
CREATE INDEX b_second ON b USING harmonia (second);
CREATE INDEX b_any8 ON b USING harmonia (any8);
CREATE INDEX b_any4 ON b USING harmonia (any4);
CREATE INDEX b_few ON b USING harmonia (few);
SELECT * FROM classes('b_serial');
SELECT * FROM classes('b_second');
SELECT * FROM classes('b_any8');
SELECT * FROM classes('b_any4');
SELECT * FROM classes('b_few');

-- Keys around powers of two, and both ends
CREATE TABLE p (k bigint);
CREATE INDEX p_k ON p USING harmonia (k);
INSERT INTO p SELECT (1::bigint << e) + d FROM generate_series(0, 62) e, generate_series(-60, 60) d;
INSERT INTO p SELECT -(1::bigint << e) + d FROM generate_series(0, 62) e, generate_series(-60, 60) d;
INSERT INTO p SELECT 9223372036854775807 - d FROM generate_series(0, 2000) d;
INSERT INTO p SELECT -9223372036854775808 + d FROM generate_series(0, 2000) d;
SELECT sum(leaves) > 10 AS leaves, count(*) > 2 AS classes FROM classes('p_k');
REINDEX INDEX p_k;
SELECT count(*) > 2 AS classes FROM classes('p_k');
SET enable_seqscan = off;
SELECT count(*) FROM p WHERE k >= 9223372036854775807 - 100;
SELECT count(*) FROM p WHERE k <= -9223372036854775808 + 100;
SELECT count(*) FROM p WHERE k BETWEEN (1::bigint << 32) - 10 AND (1::bigint << 32) + 10;
SELECT count(*) FROM p WHERE k = ANY (ARRAY(SELECT (1::bigint << e) FROM generate_series(0, 62) e));
RESET enable_seqscan;

-- Ascending inserts, one by one, and keys that jump: the last leaf has a soft upper bound.
CREATE TABLE a (k bigint);
CREATE INDEX a_k ON a USING harmonia (k);
SET harmonia.batch_inserts = off;
INSERT INTO a SELECT g FROM generate_series(1, 20000) g;
SELECT * FROM classes('a_k');
TRUNCATE a;
INSERT INTO a SELECT g * 1000000 FROM generate_series(1::bigint, 20000) g;
SELECT * FROM classes('a_k');
-- now and then
TRUNCATE a;
INSERT INTO a SELECT g / 400 * 100000000 + g FROM generate_series(1::bigint, 20000) g;
SELECT sum(leaves) < 40 AS few_leaves FROM classes('a_k');
-- always farther
TRUNCATE a;
INSERT INTO a SELECT (1.02 ^ g)::bigint + g FROM generate_series(1, 2000) g;
SELECT sum(leaves) < 8 AS few_leaves FROM classes('a_k');
-- The next key is out of the last leaf's reach: that is less than half full, and becomes wider.
TRUNCATE a;
INSERT INTO a SELECT g FROM generate_series(1, 600) g;
INSERT INTO a VALUES (1::bigint << 40);
SELECT * FROM classes('a_k');
-- It is more than half full, and ends.
TRUNCATE a;
INSERT INTO a SELECT g FROM generate_series(1, 1500) g;
INSERT INTO a VALUES (1::bigint << 40);
SELECT * FROM classes('a_k');
-- Descending: the first leaf of an index has no near low bound, so it stays wide.
TRUNCATE a;
INSERT INTO a SELECT -g FROM generate_series(1, 20000) g;
SELECT sum(leaves) < 80 AS few_leaves FROM classes('a_k');
RESET harmonia.batch_inserts;

-- The same in batches
TRUNCATE a;
INSERT INTO a SELECT g FROM generate_series(1, 20000) g;
SELECT * FROM classes('a_k');
INSERT INTO a SELECT g * 100000 FROM generate_series(1::bigint, 20000) g;
SELECT count(*) > 1 AS classes FROM classes('a_k');
INSERT INTO a SELECT ('x' || substr(md5(g::text), 1, 16))::bit(64)::bigint FROM generate_series(1, 20000) g;
SELECT count(*) > 1 AS classes FROM classes('a_k');

-- A split makes both halves narrower; VACUUM and movements choose again.
DELETE FROM a WHERE k NOT BETWEEN 1 AND 1000;
:vacuum (INDEX_CLEANUP on) a;
SELECT sum(leaves) < 10 AS few_leaves FROM classes('a_k');

-- One key many times, over many leaves
CREATE TABLE o (k bigint);
CREATE INDEX o_k ON o USING harmonia (k);
INSERT INTO o SELECT 77 FROM generate_series(1, 30000);
SELECT key_bits, tid_bytes FROM classes('o_k');
DROP SCHEMA narrow CASCADE;
