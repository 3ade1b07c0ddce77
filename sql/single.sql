-- Leaves of one key store TIDs alone.
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE SCHEMA single;
SET search_path = single, public;

-- The leaves of an index by how wide they are, after it was verified
CREATE FUNCTION classes(i regclass) RETURNS TABLE (key_bits int, leaves bigint, entries numeric)
LANGUAGE sql AS $$
	SELECT harmonia_check(i, true);
	SELECT l.key_bits, count(*), round(avg(l.entries))
	FROM harmonia_segments(i) s, harmonia_leaves(i, s.block) l GROUP BY 1 ORDER BY 1
$$;

-- Rows of each key that a kind of plan finds: with or without the index, one by one or all at once
CREATE FUNCTION counts(tab regclass, keys bigint[], kind text) RETURNS text LANGUAGE plpgsql
AS $$
DECLARE
	key bigint;
	n bigint;
	result text := '';
	plan json;
BEGIN
	-- An index-only scan needs both settings.
	PERFORM set_config('enable_' || name, (name = kind OR kind = 'indexonlyscan' AND name = 'indexscan')::text, true),
		set_config('harmonia.enable_lookup_scan', (kind = 'lookup')::text, true)
	FROM unnest('{seqscan,indexscan,indexonlyscan,bitmapscan}'::text[]) name;
	EXECUTE format('EXPLAIN (FORMAT JSON) SELECT count(*) FROM %s WHERE k = %s', tab,
		CASE WHEN kind = 'lookup' THEN format('ANY (%L)', keys) ELSE keys[1]::text END) INTO plan;
	IF NOT plan::jsonb @? format('$.**."Node Type" ? (@ == "%s")', CASE kind WHEN 'seqscan' THEN 'Seq Scan'
		WHEN 'indexscan' THEN 'Index Scan' WHEN 'indexonlyscan' THEN 'Index Only Scan'
		WHEN 'bitmapscan' THEN 'Bitmap Index Scan' ELSE 'Custom Scan' END)::jsonpath THEN
		RAISE EXCEPTION 'no % in %', kind, plan;
	END IF;
	FOREACH key IN ARRAY keys LOOP
		EXECUTE format('SELECT count(*) FROM %s WHERE k = $1', tab) INTO n USING key;
		result := result || n || ' ';
		EXECUTE format('SELECT count(*) FROM %s WHERE k < $1', tab) INTO n USING key;
		result := result || n || ' ';
		EXECUTE format('SELECT count(*) FROM %s WHERE k > $1', tab) INTO n USING key;
		result := result || n || ', ';
	END LOOP;
	EXECUTE format('SELECT count(*), sum(hashtid(ctid)) FROM %s WHERE k = ANY ($1)', tab) INTO n, key USING keys;
	RETURN result || n || ' ' || key;
END $$;

-- Whether all kinds of plans find the same
CREATE FUNCTION same(tab regclass, keys bigint[]) RETURNS boolean LANGUAGE sql
AS $$
	SELECT count(DISTINCT counts(tab, keys, kind)) = 1
	FROM unnest('{seqscan,indexscan,indexonlyscan,bitmapscan,lookup}'::text[]) kind
$$;

-- A build: one key, several, and NULLs
CREATE TABLE b (k bigint, few int, nothing int);
INSERT INTO b SELECT 77, g % 4, NULL FROM generate_series(1, 20000) g;
CREATE INDEX b_k ON b USING harmonia (k);
CREATE INDEX b_few ON b USING harmonia (few);
CREATE INDEX b_nothing ON b USING harmonia (nothing);
SELECT * FROM classes('b_k');
SELECT * FROM classes('b_few');
SELECT * FROM classes('b_nothing');
SELECT same('b', '{76, 77, 78}');

-- The pages show it
SELECT key_bits, tid_bytes, entries, max(slot) + 1 AS slots, max(leaf_block) + 1 AS blocks
FROM harmonia_segments('b_k') s, harmonia_leaves('b_k', s.block) l, harmonia_leaf_items('b_k', l.block)
WHERE leaf = 2 GROUP BY 1, 2, 3;
SELECT count(DISTINCT key), min(value), count(DISTINCT tid)
FROM harmonia_segments('b_k') s, harmonia_leaves('b_k', s.block) l, harmonia_leaf_items('b_k', l.block);

-- Other keys come between: only a last leaf can become wider, the others' bounds keep them away
INSERT INTO b SELECT g, g, g FROM generate_series(70, 84) g;
SELECT same('b', '{69, 70, 76, 77, 78, 84, 85}');
SELECT key_bits > 0 AS wider, sum(leaves) FROM classes('b_k') GROUP BY 1 ORDER BY 1;

-- Row by row, in the order of the heap: leaves get full, wherever the key is
CREATE TABLE g (k bigint);
CREATE INDEX g_k ON g USING harmonia (k);
SET harmonia.batch_inserts = off;
INSERT INTO g SELECT i % 5 FROM generate_series(1, 40000) i;
SELECT * FROM classes('g_k');
SELECT same('g', '{-1, 0, 1, 2, 3, 4, 5}');
-- then keys between and beside them
INSERT INTO g SELECT i % 7 - 1 FROM generate_series(1, 7000) i;
SELECT same('g', '{-2, -1, 0, 1, 2, 3, 4, 5, 6}');
SELECT key_bits = 0 AS single, sum(leaves) > 20 AS most FROM classes('g_k') GROUP BY 1 ORDER BY 1;

-- A leaf that has no key behind its own: its right neighbour begins empty
TRUNCATE g;
INSERT INTO g SELECT i / 10001 * 1000 FROM generate_series(1, 20000) i;
INSERT INTO g SELECT 0 FROM generate_series(1, 10000);
SELECT same('g', '{0, 1, 999, 1000, 1001}');
SELECT * FROM classes('g_k');
INSERT INTO g SELECT i FROM generate_series(1, 999) i;
SELECT same('g', '{0, 1, 500, 999, 1000, 1001}');

-- The last leaf of a part has a soft upper bound: the key that it has
TRUNCATE g;
INSERT INTO g SELECT 5 FROM generate_series(1, 20000) i;
SELECT * FROM classes('g_k');
-- a greater key: the leaf is more than half full, and ends
DELETE FROM g WHERE ctid IN (SELECT ctid FROM g OFFSET 19000);
VACUUM (INDEX_CLEANUP on) g;
INSERT INTO g VALUES (6);
SELECT same('g', '{4, 5, 6, 7}');
-- less than half full: it becomes wider
TRUNCATE g;
INSERT INTO g SELECT 5 FROM generate_series(1, 2000) i;
INSERT INTO g VALUES (1::bigint << 40), (6);
SELECT same('g', '{4, 5, 6, 7, 1099511627776}');
SELECT * FROM classes('g_k');

-- TIDs in falling and in any order
TRUNCATE g;
INSERT INTO g SELECT CASE WHEN i > 9000 THEN 3 ELSE 2 END FROM generate_series(1, 18000) i;
DELETE FROM g WHERE (ctid::text::point)[0]::int % 2 = 0;
VACUUM (INDEX_CLEANUP on) g;
INSERT INTO g SELECT 2 + hashint4(i) % 2 FROM generate_series(1, 9000) i;
SELECT same('g', '{0, 1, 2, 3, 4}');
RESET harmonia.batch_inserts;

-- The least and the greatest key, and both sides of powers of two
CREATE TABLE e (k bigint);
CREATE INDEX e_k ON e USING harmonia (k);
CREATE VIEW ends AS SELECT k FROM unnest(ARRAY[-9223372036854775808, -9223372036854775807, -4294967296, -65536, -1, 0,
	65535, 65536, 4294967295, 4294967296, 9223372036854775806, 9223372036854775807]) k;
INSERT INTO e SELECT k FROM generate_series(1, 3000) i, ends;
SELECT same('e', (SELECT array_agg(k) FROM ends));
SELECT sum(leaves) < 40 AS few_leaves FROM classes('e_k');
TRUNCATE e;
SET harmonia.batch_inserts = off;
INSERT INTO e SELECT k FROM generate_series(1, 3000) i, ends;
SELECT same('e', (SELECT array_agg(k) FROM ends));
SELECT key_bits, sum(leaves) > 10 AS leaves FROM classes('e_k') WHERE key_bits = 0 GROUP BY 1;
INSERT INTO e SELECT DISTINCT k + d FROM ends, generate_series(-1, 1) d WHERE k BETWEEN -4294967296 AND 4294967296;
SELECT same('e', (SELECT array_agg(DISTINCT k + d) FROM ends, generate_series(-1, 1) d WHERE k BETWEEN -4294967296 AND 4294967296));
RESET harmonia.batch_inserts;
-- VACUUM and movement
DELETE FROM e WHERE (ctid::text::point)[1]::int % 3 = 0;
VACUUM (INDEX_CLEANUP on) e;
SELECT same('e', (SELECT array_agg(k) FROM ends));
SELECT harmonia_reorganize('e_k') >= 0 AS moved;
SELECT same('e', (SELECT array_agg(k) FROM ends));
REINDEX INDEX e_k;
SELECT same('e', (SELECT array_agg(k) FROM ends));

-- Scans in order, both ways, stop and go on inside a run of one key
BEGIN;
SET LOCAL enable_seqscan = off;
SET LOCAL enable_sort = off;
DECLARE c SCROLL CURSOR FOR SELECT k FROM b WHERE k BETWEEN 70 AND 84 ORDER BY k;
MOVE 10000 IN c;
FETCH 1 FROM c;
MOVE 10006 IN c;
FETCH 2 FROM c;
MOVE BACKWARD 3 IN c;
FETCH BACKWARD 1 FROM c;
MOVE BACKWARD ALL IN c;
FETCH 1 FROM c;
COMMIT;

-- Hints that rows are dead
BEGIN;
SET LOCAL enable_seqscan = off;
SET LOCAL enable_bitmapscan = off;
DELETE FROM b WHERE k = 77;
COMMIT;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET harmonia.enable_lookup_scan = off;
SELECT count(*) FROM b WHERE k = 77;
SELECT count(*) FROM b WHERE k BETWEEN 76 AND 78;
SELECT harmonia_check('b_k', true);
RESET ALL;
DROP SCHEMA single CASCADE;
