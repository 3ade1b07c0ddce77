--
-- Functions that show the pages of an index
--
SET client_min_messages = warning;
CREATE SCHEMA inspect;
SET search_path = inspect, public;

-- Three levels: 70 leaves of 72 entries under nodes with 8 children.
CREATE TABLE t (k int);
INSERT INTO t SELECT g * 10 FROM generate_series(1, 70 * 72) g;
CREATE INDEX i ON t USING harmonia (k) WITH (fanout = 8, fillfactor = 10);

SELECT version, block_size, key_type, key_bits, fanout, nulls, directory_depth,
	root_entries, free_extents, next_stamp, retired, drained, build_id ~ '^[0-9A-F]{16}$' AS build_id
FROM harmonia_metapage('i');

\x on
SELECT * FROM harmonia_segments('i');
SELECT * FROM harmonia_index_info('i');
\x off

-- Nodes in breadth-first order, with prefix sums, and keys as values of the type
SELECT node, level, first_child,
	ARRAY(SELECT key - 2147483648 FROM unnest(keys) key) AS keys, tids[1] AS first_tid, auxiliary
FROM harmonia_nodes('i', 1);

SELECT block, leaf, auxiliary, entries, low_key - 2147483648 AS low, low_tid,
	high_key - 2147483648 AS high, high_tid, right_link
FROM harmonia_leaves('i', 1) WHERE leaf < 3 OR leaf > 39;

SELECT leaf_block, slot, key, value, tid FROM harmonia_leaf_items('i', 5) LIMIT 5;

-- Pages by kind
SELECT block, kind, stamp, segment, part, count, low_key, low_tid, high_key, high_tid, right_link
FROM generate_series(0, 5) block, harmonia_page('i', block);
SELECT kind, count(*), min(block), max(block)
FROM generate_series(0, pg_relation_size('i') / 8192 - 1) block, harmonia_page('i', block)
GROUP BY kind ORDER BY min(block);

-- Equation 1: child i of a node is number first_child + i.  It leads from the root
-- to the leaf of a key.
CREATE FUNCTION find_leaf(i regclass, segment bigint, wanted numeric) RETURNS bigint
LANGUAGE sql AS $$
	WITH RECURSIVE nodes AS MATERIALIZED (
		SELECT * FROM harmonia_nodes(i, segment)),
	path(child) AS (
		SELECT 0::bigint
		UNION ALL
		SELECT first_child + (SELECT count(*) FROM unnest(keys) key WHERE key <= wanted)
		FROM path JOIN nodes ON node = child)
	SELECT max(child) - (SELECT count(*) FROM nodes) FROM path
$$;
SELECT leaf, count(*), count(*) FILTER (WHERE found = leaf) AS found
FROM harmonia_leaves('i', 1) l, harmonia_leaf_items('i', l.block) e,
	find_leaf('i', 1, e.key) found
WHERE leaf IN (0, 1, 7, 8, 9, 39, 40, 41) GROUP BY leaf ORDER BY leaf;

-- Leaf by leaf the entries are the table's rows, in order.
SELECT count(*), count(*) FILTER (WHERE value = k::text) AS right
FROM (SELECT value, row_number() OVER (ORDER BY ordinality, leaf_block, e.key, e.tid) AS n, e.tid
	FROM harmonia_leaves('i', 1) WITH ORDINALITY l, harmonia_leaf_items('i', l.block) e) items
	JOIN (SELECT k, row_number() OVER (ORDER BY k) AS n, ctid FROM t) r USING (n)
WHERE tid = ctid;

-- Entries are shown in order, although blocks do not keep them in order.
CREATE TABLE o (k bigint);
CREATE INDEX oi ON o USING harmonia (k);
INSERT INTO o VALUES (20);
INSERT INTO o VALUES (30);
INSERT INTO o VALUES (10);
SELECT leaf_block, slot, value
FROM harmonia_segments('oi') s, harmonia_leaves('oi', s.block) l, harmonia_leaf_items('oi', l.block);

-- Splits shadow a bottom node: an auxiliary node then leads to its leaves.
CREATE TABLE s (k bigint);
-- Keys so far apart that leaves store 64 bits of each
INSERT INTO s SELECT (g * 10) << 32 FROM generate_series(1::bigint, 580 * 20) g;
CREATE INDEX si ON s USING harmonia (k) WITH (fanout = 8, fillfactor = 100);
INSERT INTO s SELECT (580 * 10 * 3 + 5)::bigint << 32;
INSERT INTO s SELECT (580 * 10 * 12 + 5)::bigint << 32;
SELECT leaves, pure_leaves, auxiliaries, nodes, extents, state FROM harmonia_segments('si');
SELECT node, level, first_child,
	ARRAY(SELECT (key - 9223372036854775808) / 2^32 FROM unnest(keys) key) AS keys, auxiliary
FROM harmonia_nodes('si', 1);
SELECT block, leaf, auxiliary, entries, round((low_key - 9223372036854775808) / 2^32) AS low, right_link
FROM harmonia_leaves('si', 1);
SELECT kind, count(*)
FROM generate_series(0, pg_relation_size('si') / 8192 - 1) block, harmonia_page('si', block)
GROUP BY kind ORDER BY kind;
SELECT entries, segments, shadowed_segments, height, leaf_fill, pages, auxiliary_pages, leaf_pages,
	spare_pages, free_pages, movements
FROM harmonia_index_info('si');

-- NULLs have a part of their own.
CREATE TABLE n (k real);
INSERT INTO n SELECT nullif(g % 4, 0) FROM generate_series(1, 1000) g;
CREATE INDEX n_last ON n USING harmonia (k);
CREATE INDEX n_first ON n USING harmonia (k NULLS FIRST);
SELECT nulls, key_type FROM harmonia_metapage('n_last');
SELECT segment, block, part, low_key, low_tid, leaves FROM harmonia_segments('n_last');
SELECT nulls, key_type FROM harmonia_metapage('n_first');
SELECT segment, block, part, low_key, low_tid, leaves FROM harmonia_segments('n_first');
SELECT * FROM harmonia_leaf_items('n_last', 2) LIMIT 2;
SELECT * FROM harmonia_leaf_items('n_first', 2) LIMIT 2;

-- Many entries in one place fill an auxiliary node: the segment is moved.
CREATE TABLE m (k int);
INSERT INTO m SELECT g % 2 FROM generate_series(1, 20000) g;
CREATE INDEX mi ON m USING harmonia (k) WITH (fanout = 128);
SET harmonia.background_movement = off;	-- it would go on while we look
INSERT INTO m SELECT 0 FROM generate_series(1, 900000);
RESET harmonia.background_movement;
SELECT entries, segments > 1 AS several, movements > 0 AS moved, free_pages > 0 AS free
FROM harmonia_index_info('mi');
SELECT count(*) > 0 AS moved, min(low_key) - 2147483648 AS low, bool_and(state = 'live') AS live,
	count(*) FILTER (WHERE stamp = 1) AS built
FROM harmonia_segments('mi');
VACUUM m;
SELECT lost_pages, pages = 1 + directory_pages + header_pages + key_pages + auxiliary_pages +
	leaf_pages + spare_pages + free_pages AS adds_up
FROM harmonia_index_info('mi');

-- An index without entries
CREATE TABLE e (k int);
CREATE INDEX ei ON e USING harmonia (k);
SELECT count(*) FROM harmonia_segments('ei');
SELECT entries, segments, height, leaf_fill, pages, bytes FROM harmonia_index_info('ei');
SELECT kind, count FROM harmonia_page('ei', 0);

-- Errors
CREATE INDEX other ON t USING btree (k);
SELECT * FROM harmonia_metapage('other');
SELECT * FROM harmonia_segments('t');
SELECT * FROM harmonia_index_info('pg_class');
SELECT * FROM harmonia_page('i', -1);
SELECT kind FROM harmonia_page('i', 100);
SELECT kind FROM harmonia_page('i', 5000000000);
SELECT * FROM harmonia_nodes('i', 0);
SELECT * FROM harmonia_nodes('i', 2);
SELECT * FROM harmonia_leaves('i', 3);
SELECT * FROM harmonia_leaf_items('i', 1);
SELECT * FROM harmonia_leaf_items('i', NULL);

-- An index whose concurrent build has failed has no pages yet
CREATE TABLE zero (k int);
INSERT INTO zero VALUES (1), (0);
CREATE INDEX CONCURRENTLY zero_k ON zero USING harmonia ((1 / k));
SELECT * FROM harmonia_metapage('zero_k');
SELECT * FROM harmonia_segments('zero_k');
SELECT * FROM harmonia_nodes('zero_k', 1);
SELECT * FROM harmonia_leaves('zero_k', 1);
SELECT * FROM harmonia_leaf_items('zero_k', 2);
SELECT * FROM harmonia_page('zero_k', 0);
SELECT * FROM harmonia_index_info('zero_k');
SELECT harmonia_reorganize('zero_k');

CREATE ROLE regress_harmonia_reader;
GRANT USAGE ON SCHEMA inspect TO regress_harmonia_reader;
SET ROLE regress_harmonia_reader;
SELECT * FROM harmonia_metapage('i');
SELECT * FROM harmonia_segments('i');
SELECT * FROM harmonia_nodes('i', 1);
SELECT * FROM harmonia_leaves('i', 1);
SELECT * FROM harmonia_leaf_items('i', 3);
SELECT * FROM harmonia_page('i', 0);
SELECT * FROM harmonia_index_info('i');
RESET ROLE;

SET client_min_messages = error;
DROP SCHEMA inspect CASCADE;
DROP ROLE regress_harmonia_reader;
