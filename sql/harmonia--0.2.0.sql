/* sql/harmonia--0.2.0.sql */

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION harmonia" to load this file. \quit

-- ----------------------------------------------------------------
-- Access method
-- ----------------------------------------------------------------

CREATE FUNCTION harmonia_handler(internal)
RETURNS index_am_handler
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT;

COMMENT ON FUNCTION harmonia_handler(internal)
IS 'harmonia index access method handler';

CREATE ACCESS METHOD harmonia TYPE INDEX HANDLER harmonia_handler;

COMMENT ON ACCESS METHOD harmonia
IS 'ordered index in the layout of a Harmonia tree, for lookups of many keys at once';

-- ----------------------------------------------------------------
-- Operator families and classes, with btree's names and operators
--
-- The access method orders keys by their type and never calls an operator. So only
-- btree's operators may be added to these families (amvalidate checks that).
-- ----------------------------------------------------------------

CREATE OPERATOR FAMILY integer_ops USING harmonia;
CREATE OPERATOR FAMILY float_ops USING harmonia;
CREATE OPERATOR FAMILY datetime_ops USING harmonia;
CREATE OPERATOR FAMILY oid_ops USING harmonia;
CREATE OPERATOR FAMILY time_ops USING harmonia;
CREATE OPERATOR FAMILY money_ops USING harmonia;
CREATE OPERATOR FAMILY char_ops USING harmonia;
CREATE OPERATOR FAMILY bool_ops USING harmonia;

CREATE OPERATOR CLASS int2_ops
	DEFAULT FOR TYPE pg_catalog.int2 USING harmonia FAMILY integer_ops AS
	OPERATOR 1 pg_catalog.<,
	OPERATOR 2 pg_catalog.<=,
	OPERATOR 3 pg_catalog.=,
	OPERATOR 4 pg_catalog.>=,
	OPERATOR 5 pg_catalog.>;

CREATE OPERATOR CLASS int4_ops
	DEFAULT FOR TYPE pg_catalog.int4 USING harmonia FAMILY integer_ops AS
	OPERATOR 1 pg_catalog.<,
	OPERATOR 2 pg_catalog.<=,
	OPERATOR 3 pg_catalog.=,
	OPERATOR 4 pg_catalog.>=,
	OPERATOR 5 pg_catalog.>;

CREATE OPERATOR CLASS int8_ops
	DEFAULT FOR TYPE pg_catalog.int8 USING harmonia FAMILY integer_ops AS
	OPERATOR 1 pg_catalog.<,
	OPERATOR 2 pg_catalog.<=,
	OPERATOR 3 pg_catalog.=,
	OPERATOR 4 pg_catalog.>=,
	OPERATOR 5 pg_catalog.>;

ALTER OPERATOR FAMILY integer_ops USING harmonia ADD
	OPERATOR 1 pg_catalog.< (pg_catalog.int2, pg_catalog.int4),
	OPERATOR 2 pg_catalog.<= (pg_catalog.int2, pg_catalog.int4),
	OPERATOR 3 pg_catalog.= (pg_catalog.int2, pg_catalog.int4),
	OPERATOR 4 pg_catalog.>= (pg_catalog.int2, pg_catalog.int4),
	OPERATOR 5 pg_catalog.> (pg_catalog.int2, pg_catalog.int4),
	OPERATOR 1 pg_catalog.< (pg_catalog.int2, pg_catalog.int8),
	OPERATOR 2 pg_catalog.<= (pg_catalog.int2, pg_catalog.int8),
	OPERATOR 3 pg_catalog.= (pg_catalog.int2, pg_catalog.int8),
	OPERATOR 4 pg_catalog.>= (pg_catalog.int2, pg_catalog.int8),
	OPERATOR 5 pg_catalog.> (pg_catalog.int2, pg_catalog.int8),
	OPERATOR 1 pg_catalog.< (pg_catalog.int4, pg_catalog.int2),
	OPERATOR 2 pg_catalog.<= (pg_catalog.int4, pg_catalog.int2),
	OPERATOR 3 pg_catalog.= (pg_catalog.int4, pg_catalog.int2),
	OPERATOR 4 pg_catalog.>= (pg_catalog.int4, pg_catalog.int2),
	OPERATOR 5 pg_catalog.> (pg_catalog.int4, pg_catalog.int2),
	OPERATOR 1 pg_catalog.< (pg_catalog.int4, pg_catalog.int8),
	OPERATOR 2 pg_catalog.<= (pg_catalog.int4, pg_catalog.int8),
	OPERATOR 3 pg_catalog.= (pg_catalog.int4, pg_catalog.int8),
	OPERATOR 4 pg_catalog.>= (pg_catalog.int4, pg_catalog.int8),
	OPERATOR 5 pg_catalog.> (pg_catalog.int4, pg_catalog.int8),
	OPERATOR 1 pg_catalog.< (pg_catalog.int8, pg_catalog.int2),
	OPERATOR 2 pg_catalog.<= (pg_catalog.int8, pg_catalog.int2),
	OPERATOR 3 pg_catalog.= (pg_catalog.int8, pg_catalog.int2),
	OPERATOR 4 pg_catalog.>= (pg_catalog.int8, pg_catalog.int2),
	OPERATOR 5 pg_catalog.> (pg_catalog.int8, pg_catalog.int2),
	OPERATOR 1 pg_catalog.< (pg_catalog.int8, pg_catalog.int4),
	OPERATOR 2 pg_catalog.<= (pg_catalog.int8, pg_catalog.int4),
	OPERATOR 3 pg_catalog.= (pg_catalog.int8, pg_catalog.int4),
	OPERATOR 4 pg_catalog.>= (pg_catalog.int8, pg_catalog.int4),
	OPERATOR 5 pg_catalog.> (pg_catalog.int8, pg_catalog.int4);

CREATE OPERATOR CLASS float4_ops
	DEFAULT FOR TYPE pg_catalog.float4 USING harmonia FAMILY float_ops AS
	OPERATOR 1 pg_catalog.<,
	OPERATOR 2 pg_catalog.<=,
	OPERATOR 3 pg_catalog.=,
	OPERATOR 4 pg_catalog.>=,
	OPERATOR 5 pg_catalog.>;

CREATE OPERATOR CLASS float8_ops
	DEFAULT FOR TYPE pg_catalog.float8 USING harmonia FAMILY float_ops AS
	OPERATOR 1 pg_catalog.<,
	OPERATOR 2 pg_catalog.<=,
	OPERATOR 3 pg_catalog.=,
	OPERATOR 4 pg_catalog.>=,
	OPERATOR 5 pg_catalog.>;

ALTER OPERATOR FAMILY float_ops USING harmonia ADD
	OPERATOR 1 pg_catalog.< (pg_catalog.float4, pg_catalog.float8),
	OPERATOR 2 pg_catalog.<= (pg_catalog.float4, pg_catalog.float8),
	OPERATOR 3 pg_catalog.= (pg_catalog.float4, pg_catalog.float8),
	OPERATOR 4 pg_catalog.>= (pg_catalog.float4, pg_catalog.float8),
	OPERATOR 5 pg_catalog.> (pg_catalog.float4, pg_catalog.float8),
	OPERATOR 1 pg_catalog.< (pg_catalog.float8, pg_catalog.float4),
	OPERATOR 2 pg_catalog.<= (pg_catalog.float8, pg_catalog.float4),
	OPERATOR 3 pg_catalog.= (pg_catalog.float8, pg_catalog.float4),
	OPERATOR 4 pg_catalog.>= (pg_catalog.float8, pg_catalog.float4),
	OPERATOR 5 pg_catalog.> (pg_catalog.float8, pg_catalog.float4);

CREATE OPERATOR CLASS date_ops
	DEFAULT FOR TYPE pg_catalog.date USING harmonia FAMILY datetime_ops AS
	OPERATOR 1 pg_catalog.<,
	OPERATOR 2 pg_catalog.<=,
	OPERATOR 3 pg_catalog.=,
	OPERATOR 4 pg_catalog.>=,
	OPERATOR 5 pg_catalog.>;

CREATE OPERATOR CLASS timestamp_ops
	DEFAULT FOR TYPE pg_catalog.timestamp USING harmonia FAMILY datetime_ops AS
	OPERATOR 1 pg_catalog.<,
	OPERATOR 2 pg_catalog.<=,
	OPERATOR 3 pg_catalog.=,
	OPERATOR 4 pg_catalog.>=,
	OPERATOR 5 pg_catalog.>;

CREATE OPERATOR CLASS timestamptz_ops
	DEFAULT FOR TYPE pg_catalog.timestamptz USING harmonia FAMILY datetime_ops AS
	OPERATOR 1 pg_catalog.<,
	OPERATOR 2 pg_catalog.<=,
	OPERATOR 3 pg_catalog.=,
	OPERATOR 4 pg_catalog.>=,
	OPERATOR 5 pg_catalog.>;

ALTER OPERATOR FAMILY datetime_ops USING harmonia ADD
	OPERATOR 1 pg_catalog.< (pg_catalog.date, pg_catalog.timestamp),
	OPERATOR 2 pg_catalog.<= (pg_catalog.date, pg_catalog.timestamp),
	OPERATOR 3 pg_catalog.= (pg_catalog.date, pg_catalog.timestamp),
	OPERATOR 4 pg_catalog.>= (pg_catalog.date, pg_catalog.timestamp),
	OPERATOR 5 pg_catalog.> (pg_catalog.date, pg_catalog.timestamp),
	OPERATOR 1 pg_catalog.< (pg_catalog.date, pg_catalog.timestamptz),
	OPERATOR 2 pg_catalog.<= (pg_catalog.date, pg_catalog.timestamptz),
	OPERATOR 3 pg_catalog.= (pg_catalog.date, pg_catalog.timestamptz),
	OPERATOR 4 pg_catalog.>= (pg_catalog.date, pg_catalog.timestamptz),
	OPERATOR 5 pg_catalog.> (pg_catalog.date, pg_catalog.timestamptz),
	OPERATOR 1 pg_catalog.< (pg_catalog.timestamp, pg_catalog.date),
	OPERATOR 2 pg_catalog.<= (pg_catalog.timestamp, pg_catalog.date),
	OPERATOR 3 pg_catalog.= (pg_catalog.timestamp, pg_catalog.date),
	OPERATOR 4 pg_catalog.>= (pg_catalog.timestamp, pg_catalog.date),
	OPERATOR 5 pg_catalog.> (pg_catalog.timestamp, pg_catalog.date),
	OPERATOR 1 pg_catalog.< (pg_catalog.timestamp, pg_catalog.timestamptz),
	OPERATOR 2 pg_catalog.<= (pg_catalog.timestamp, pg_catalog.timestamptz),
	OPERATOR 3 pg_catalog.= (pg_catalog.timestamp, pg_catalog.timestamptz),
	OPERATOR 4 pg_catalog.>= (pg_catalog.timestamp, pg_catalog.timestamptz),
	OPERATOR 5 pg_catalog.> (pg_catalog.timestamp, pg_catalog.timestamptz),
	OPERATOR 1 pg_catalog.< (pg_catalog.timestamptz, pg_catalog.date),
	OPERATOR 2 pg_catalog.<= (pg_catalog.timestamptz, pg_catalog.date),
	OPERATOR 3 pg_catalog.= (pg_catalog.timestamptz, pg_catalog.date),
	OPERATOR 4 pg_catalog.>= (pg_catalog.timestamptz, pg_catalog.date),
	OPERATOR 5 pg_catalog.> (pg_catalog.timestamptz, pg_catalog.date),
	OPERATOR 1 pg_catalog.< (pg_catalog.timestamptz, pg_catalog.timestamp),
	OPERATOR 2 pg_catalog.<= (pg_catalog.timestamptz, pg_catalog.timestamp),
	OPERATOR 3 pg_catalog.= (pg_catalog.timestamptz, pg_catalog.timestamp),
	OPERATOR 4 pg_catalog.>= (pg_catalog.timestamptz, pg_catalog.timestamp),
	OPERATOR 5 pg_catalog.> (pg_catalog.timestamptz, pg_catalog.timestamp);

CREATE OPERATOR CLASS oid_ops
	DEFAULT FOR TYPE pg_catalog.oid USING harmonia FAMILY oid_ops AS
	OPERATOR 1 pg_catalog.<,
	OPERATOR 2 pg_catalog.<=,
	OPERATOR 3 pg_catalog.=,
	OPERATOR 4 pg_catalog.>=,
	OPERATOR 5 pg_catalog.>;

CREATE OPERATOR CLASS time_ops
	DEFAULT FOR TYPE pg_catalog.time USING harmonia FAMILY time_ops AS
	OPERATOR 1 pg_catalog.<,
	OPERATOR 2 pg_catalog.<=,
	OPERATOR 3 pg_catalog.=,
	OPERATOR 4 pg_catalog.>=,
	OPERATOR 5 pg_catalog.>;

CREATE OPERATOR CLASS money_ops
	DEFAULT FOR TYPE pg_catalog.money USING harmonia FAMILY money_ops AS
	OPERATOR 1 pg_catalog.<,
	OPERATOR 2 pg_catalog.<=,
	OPERATOR 3 pg_catalog.=,
	OPERATOR 4 pg_catalog.>=,
	OPERATOR 5 pg_catalog.>;

CREATE OPERATOR CLASS char_ops
	DEFAULT FOR TYPE pg_catalog."char" USING harmonia FAMILY char_ops AS
	OPERATOR 1 pg_catalog.<,
	OPERATOR 2 pg_catalog.<=,
	OPERATOR 3 pg_catalog.=,
	OPERATOR 4 pg_catalog.>=,
	OPERATOR 5 pg_catalog.>;

CREATE OPERATOR CLASS bool_ops
	DEFAULT FOR TYPE pg_catalog.bool USING harmonia FAMILY bool_ops AS
	OPERATOR 1 pg_catalog.<,
	OPERATOR 2 pg_catalog.<=,
	OPERATOR 3 pg_catalog.=,
	OPERATOR 4 pg_catalog.>=,
	OPERATOR 5 pg_catalog.>;

-- ----------------------------------------------------------------
-- More types whose keys keep the order of values
-- ----------------------------------------------------------------

CREATE OPERATOR FAMILY timetz_ops USING harmonia;
CREATE OPERATOR FAMILY macaddr_ops USING harmonia;
CREATE OPERATOR FAMILY macaddr8_ops USING harmonia;
CREATE OPERATOR FAMILY uuid_ops USING harmonia;

CREATE OPERATOR CLASS timetz_ops
	DEFAULT FOR TYPE pg_catalog.timetz USING harmonia FAMILY timetz_ops AS
	OPERATOR 1 pg_catalog.<,
	OPERATOR 2 pg_catalog.<=,
	OPERATOR 3 pg_catalog.=,
	OPERATOR 4 pg_catalog.>=,
	OPERATOR 5 pg_catalog.>;

CREATE OPERATOR CLASS macaddr_ops
	DEFAULT FOR TYPE pg_catalog.macaddr USING harmonia FAMILY macaddr_ops AS
	OPERATOR 1 pg_catalog.<,
	OPERATOR 2 pg_catalog.<=,
	OPERATOR 3 pg_catalog.=,
	OPERATOR 4 pg_catalog.>=,
	OPERATOR 5 pg_catalog.>;

CREATE OPERATOR CLASS macaddr8_ops
	DEFAULT FOR TYPE pg_catalog.macaddr8 USING harmonia FAMILY macaddr8_ops AS
	OPERATOR 1 pg_catalog.<,
	OPERATOR 2 pg_catalog.<=,
	OPERATOR 3 pg_catalog.=,
	OPERATOR 4 pg_catalog.>=,
	OPERATOR 5 pg_catalog.>;

CREATE OPERATOR CLASS uuid_ops
	DEFAULT FOR TYPE pg_catalog.uuid USING harmonia FAMILY uuid_ops AS
	OPERATOR 1 pg_catalog.<,
	OPERATOR 2 pg_catalog.<=,
	OPERATOR 3 pg_catalog.=,
	OPERATOR 4 pg_catalog.>=,
	OPERATOR 5 pg_catalog.>;

-- ----------------------------------------------------------------
-- Types whose keys have no order, so that their families have equality alone
--
-- A family has all of btree's equality operators or none: otherwise PostgreSQL 18 would not
-- take expressions as equivalent that it takes as such without this extension.
-- ----------------------------------------------------------------

CREATE OPERATOR FAMILY enum_ops USING harmonia;
CREATE OPERATOR FAMILY text_ops USING harmonia;
CREATE OPERATOR FAMILY bpchar_ops USING harmonia;
CREATE OPERATOR FAMILY bytea_ops USING harmonia;
CREATE OPERATOR FAMILY bit_ops USING harmonia;
CREATE OPERATOR FAMILY varbit_ops USING harmonia;
CREATE OPERATOR FAMILY numeric_ops USING harmonia;
CREATE OPERATOR FAMILY interval_ops USING harmonia;
CREATE OPERATOR FAMILY network_ops USING harmonia;

CREATE OPERATOR CLASS enum_ops
	DEFAULT FOR TYPE pg_catalog.anyenum USING harmonia FAMILY enum_ops AS
	OPERATOR 3 pg_catalog.=;

CREATE OPERATOR CLASS text_ops
	DEFAULT FOR TYPE pg_catalog.text USING harmonia FAMILY text_ops AS
	OPERATOR 3 pg_catalog.=;

CREATE OPERATOR CLASS varchar_ops
	FOR TYPE pg_catalog.text USING harmonia FAMILY text_ops AS
	STORAGE pg_catalog.text;

CREATE OPERATOR CLASS name_ops
	DEFAULT FOR TYPE pg_catalog.name USING harmonia FAMILY text_ops AS
	OPERATOR 3 pg_catalog.=;

ALTER OPERATOR FAMILY text_ops USING harmonia ADD
	OPERATOR 3 pg_catalog.= (pg_catalog.name, pg_catalog.text),
	OPERATOR 3 pg_catalog.= (pg_catalog.text, pg_catalog.name);

CREATE OPERATOR CLASS bpchar_ops
	DEFAULT FOR TYPE pg_catalog.bpchar USING harmonia FAMILY bpchar_ops AS
	OPERATOR 3 pg_catalog.=;

CREATE OPERATOR CLASS bytea_ops
	DEFAULT FOR TYPE pg_catalog.bytea USING harmonia FAMILY bytea_ops AS
	OPERATOR 3 pg_catalog.=;

CREATE OPERATOR CLASS bit_ops
	DEFAULT FOR TYPE pg_catalog.bit USING harmonia FAMILY bit_ops AS
	OPERATOR 3 pg_catalog.=;

CREATE OPERATOR CLASS varbit_ops
	DEFAULT FOR TYPE pg_catalog.varbit USING harmonia FAMILY varbit_ops AS
	OPERATOR 3 pg_catalog.=;

CREATE OPERATOR CLASS numeric_ops
	DEFAULT FOR TYPE pg_catalog.numeric USING harmonia FAMILY numeric_ops AS
	OPERATOR 3 pg_catalog.=;

CREATE OPERATOR CLASS interval_ops
	DEFAULT FOR TYPE pg_catalog.interval USING harmonia FAMILY interval_ops AS
	OPERATOR 3 pg_catalog.=;

CREATE OPERATOR CLASS inet_ops
	DEFAULT FOR TYPE pg_catalog.inet USING harmonia FAMILY network_ops AS
	OPERATOR 3 pg_catalog.=;

CREATE OPERATOR CLASS cidr_ops
	FOR TYPE pg_catalog.inet USING harmonia FAMILY network_ops AS
	STORAGE pg_catalog.inet;

-- ----------------------------------------------------------------
-- Strings in the order of collation "C", for ranges
--
-- Keys begin with the first bytes of strings, so "less than" finds a range of keys.  Among strings that begin
-- alike there is no order, so the planner is told that these indexes have none.
-- ----------------------------------------------------------------

CREATE OPERATOR FAMILY text_c_ops USING harmonia;

CREATE OPERATOR CLASS text_c_ops
	FOR TYPE pg_catalog.text USING harmonia FAMILY text_c_ops AS
	OPERATOR 1 pg_catalog.<,
	OPERATOR 2 pg_catalog.<=,
	OPERATOR 3 pg_catalog.=,
	OPERATOR 4 pg_catalog.>=,
	OPERATOR 5 pg_catalog.>;

CREATE OPERATOR CLASS name_c_ops
	FOR TYPE pg_catalog.name USING harmonia FAMILY text_c_ops AS
	OPERATOR 1 pg_catalog.<,
	OPERATOR 2 pg_catalog.<=,
	OPERATOR 3 pg_catalog.=,
	OPERATOR 4 pg_catalog.>=,
	OPERATOR 5 pg_catalog.>;

ALTER OPERATOR FAMILY text_c_ops USING harmonia ADD
	OPERATOR 1 pg_catalog.< (pg_catalog.name, pg_catalog.text),
	OPERATOR 2 pg_catalog.<= (pg_catalog.name, pg_catalog.text),
	OPERATOR 3 pg_catalog.= (pg_catalog.name, pg_catalog.text),
	OPERATOR 4 pg_catalog.>= (pg_catalog.name, pg_catalog.text),
	OPERATOR 5 pg_catalog.> (pg_catalog.name, pg_catalog.text),
	OPERATOR 1 pg_catalog.< (pg_catalog.text, pg_catalog.name),
	OPERATOR 2 pg_catalog.<= (pg_catalog.text, pg_catalog.name),
	OPERATOR 3 pg_catalog.= (pg_catalog.text, pg_catalog.name),
	OPERATOR 4 pg_catalog.>= (pg_catalog.text, pg_catalog.name),
	OPERATOR 5 pg_catalog.> (pg_catalog.text, pg_catalog.name);

-- ----------------------------------------------------------------
-- Maintenance
-- ----------------------------------------------------------------

CREATE FUNCTION harmonia_reorganize(index regclass)
RETURNS bigint
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT PARALLEL UNSAFE;

COMMENT ON FUNCTION harmonia_reorganize(regclass)
IS 'restore the pure layout of a harmonia index and pack it; returns the number of movements';

CREATE FUNCTION harmonia_progress(
	OUT pid int,
	OUT datid oid,
	OUT relid oid,
	OUT command text,
	OUT phase text,
	OUT segments_total bigint,
	OUT segments_done bigint,
	OUT blocks_total bigint,
	OUT blocks_done bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION harmonia_progress()
IS 'progress of functions that take long, of all sessions';

CREATE VIEW pg_stat_progress_harmonia AS
	SELECT p.pid, p.datid, d.datname, p.relid AS indexrelid, p.command, p.phase,
		p.segments_total, p.segments_done, p.blocks_total, p.blocks_done
	FROM harmonia_progress() p
		LEFT JOIN pg_catalog.pg_database d ON d.oid OPERATOR(pg_catalog.=) p.datid;

GRANT SELECT ON pg_stat_progress_harmonia TO PUBLIC;

-- begin device: "make DEVICE=no" leaves out what stands until "end device"
-- ----------------------------------------------------------------
-- The device
-- ----------------------------------------------------------------

CREATE FUNCTION harmonia_load(index regclass)
RETURNS bigint
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT PARALLEL UNSAFE;

COMMENT ON FUNCTION harmonia_load(regclass)
IS 'copy a harmonia index to the device, or bring its copy up to date; returns the size of the copy in bytes';

CREATE FUNCTION harmonia_unload(index regclass)
RETURNS boolean
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT PARALLEL UNSAFE;

COMMENT ON FUNCTION harmonia_unload(regclass)
IS 'drop the copy of a harmonia index on the device; returns whether there may have been one';

CREATE FUNCTION harmonia_device(
	OUT state text,
	OUT is_gpu boolean,
	OUT name text,
	OUT pid int,
	OUT memory bigint,
	OUT starts bigint,
	OUT since timestamptz)
RETURNS record
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT PARALLEL SAFE;

COMMENT ON FUNCTION harmonia_device()
IS 'state of the device and of its daemon';

CREATE FUNCTION harmonia_stat_indexes(
	OUT relid oid,
	OUT batches bigint,
	OUT keys bigint,
	OUT hits bigint,
	OUT device_batches bigint,
	OUT device_keys bigint,
	OUT fallbacks bigint,
	OUT loads bigint,
	OUT evictions bigint,
	OUT synced_blocks bigint,
	OUT bytes_to_device bigint,
	OUT bytes_from_device bigint,
	OUT resident boolean,
	OUT device_bytes bigint,
	OUT stats_reset timestamptz,
	OUT host_bytes bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT PARALLEL SAFE;

COMMENT ON FUNCTION harmonia_stat_indexes()
IS 'statistics of batch lookups in harmonia indexes of this database';

CREATE VIEW pg_stat_harmonia AS
	SELECT s.relid AS indexrelid, n.nspname AS schemaname, c.relname AS indexrelname,
		s.batches, s.keys, s.hits, s.device_batches, s.device_keys, s.fallbacks, s.loads, s.evictions,
		s.synced_blocks, s.bytes_to_device, s.bytes_from_device, s.resident, s.device_bytes,
		s.host_bytes, s.stats_reset
	FROM harmonia_stat_indexes() s
		JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) s.relid
		JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace;

GRANT SELECT ON pg_stat_harmonia TO PUBLIC;

CREATE FUNCTION harmonia_stat_reset(index regclass DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME'
LANGUAGE C PARALLEL SAFE;

COMMENT ON FUNCTION harmonia_stat_reset(regclass)
IS 'reset the counts of pg_stat_harmonia, of one index or, given NULL, of this database';

REVOKE ALL ON FUNCTION harmonia_stat_reset(regclass) FROM PUBLIC;

-- end device

-- ----------------------------------------------------------------
-- Inspection functions
-- ----------------------------------------------------------------

CREATE FUNCTION harmonia_check(index regclass, heapallindexed boolean DEFAULT false)
RETURNS void
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION harmonia_check(regclass, boolean)
IS 'verify a harmonia index and, optionally, that it has an entry for each row of its table';

REVOKE ALL ON FUNCTION harmonia_check(regclass, boolean) FROM PUBLIC;

CREATE FUNCTION harmonia_index_info(index regclass,
	OUT entries bigint,
	OUT segments bigint,
	OUT shadowed_segments bigint,
	OUT height int,
	OUT leaf_fill numeric,
	OUT pages bigint,
	OUT directory_pages bigint,
	OUT header_pages bigint,
	OUT key_pages bigint,
	OUT auxiliary_pages bigint,
	OUT leaf_pages bigint,
	OUT spare_pages bigint,
	OUT free_pages bigint,
	OUT lost_pages bigint,
	OUT bytes bigint,
	OUT free_bytes bigint,
	OUT movements bigint,
	OUT last_movement timestamptz)
RETURNS record
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION harmonia_index_info(regclass)
IS 'sizes and counts of a harmonia index';

REVOKE ALL ON FUNCTION harmonia_index_info(regclass) FROM PUBLIC;

CREATE FUNCTION harmonia_metapage(index regclass,
	OUT version int,
	OUT block_size int,
	OUT key_type regtype,
	OUT key_bits int,
	OUT fanout int,
	OUT nulls text,
	OUT directory_depth int,
	OUT root_entries int,
	OUT free_extents int,
	OUT next_stamp bigint,
	OUT retired bigint,
	OUT drained bigint,
	OUT build_id text)
RETURNS record
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION harmonia_metapage(regclass)
IS 'metapage of a harmonia index';

REVOKE ALL ON FUNCTION harmonia_metapage(regclass) FROM PUBLIC;

CREATE FUNCTION harmonia_segments(index regclass,
	OUT segment int,
	OUT block bigint,
	OUT part text,
	OUT low_key numeric,
	OUT low_tid tid,
	OUT high_key numeric,
	OUT high_tid tid,
	OUT leaves int,
	OUT pure_leaves int,
	OUT leaf_room int,
	OUT auxiliaries int,
	OUT levels int,
	OUT nodes int,
	OUT fanout int,
	OUT extents int8multirange,
	OUT state text,
	OUT stamp bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION harmonia_segments(regclass)
IS 'segments of a harmonia index, in key order';

REVOKE ALL ON FUNCTION harmonia_segments(regclass) FROM PUBLIC;

CREATE FUNCTION harmonia_nodes(index regclass, segment_block bigint,
	OUT node int,
	OUT level int,
	OUT first_child bigint,
	OUT keys numeric[],
	OUT tids tid[],
	OUT auxiliary bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION harmonia_nodes(regclass, bigint)
IS 'inner nodes of a segment, in breadth-first order';

REVOKE ALL ON FUNCTION harmonia_nodes(regclass, bigint) FROM PUBLIC;

CREATE FUNCTION harmonia_leaves(index regclass, segment_block bigint,
	OUT block bigint,
	OUT leaf int,
	OUT auxiliary bigint,
	OUT entries int,
	OUT low_key numeric,
	OUT low_tid tid,
	OUT high_key numeric,
	OUT high_tid tid,
	OUT right_link bigint,
	OUT key_bits int,
	OUT tid_bytes int)
RETURNS SETOF record
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION harmonia_leaves(regclass, bigint)
IS 'leaves of a segment, in key order';

REVOKE ALL ON FUNCTION harmonia_leaves(regclass, bigint) FROM PUBLIC;

CREATE FUNCTION harmonia_leaf_items(index regclass, block bigint,
	OUT leaf_block int,
	OUT slot int,
	OUT key numeric,
	OUT value text,
	OUT tid tid)
RETURNS SETOF record
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION harmonia_leaf_items(regclass, bigint)
IS 'entries of a leaf page, in order';

REVOKE ALL ON FUNCTION harmonia_leaf_items(regclass, bigint) FROM PUBLIC;

CREATE FUNCTION harmonia_page(index regclass, block bigint,
	OUT kind text,
	OUT lsn pg_lsn,
	OUT stamp bigint,
	OUT segment bigint,
	OUT part text,
	OUT count int,
	OUT low_key numeric,
	OUT low_tid tid,
	OUT high_key numeric,
	OUT high_tid tid,
	OUT right_link bigint)
RETURNS record
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION harmonia_page(regclass, bigint)
IS 'header and special area of a page of a harmonia index';

REVOKE ALL ON FUNCTION harmonia_page(regclass, bigint) FROM PUBLIC;

-- ----------------------------------------------------------------
-- Loading
-- ----------------------------------------------------------------

-- Lookups in btree indexes need the library in the session. A script's messages are hidden unless
-- they are warnings; this one is shown if the session shows notices.
DO $$
BEGIN
	IF concat(current_setting('shared_preload_libraries'), current_setting('session_preload_libraries')) !~ 'harmonia' THEN
		PERFORM set_config('client_min_messages', reset_val, true) FROM pg_settings WHERE name = 'client_min_messages';
		RAISE NOTICE 'harmonia is not loaded when a session begins'
			USING DETAIL = 'Joins and arrays are looked up in btree indexes only if it is. Harmonia indexes need nothing.',
				HINT = format('ALTER DATABASE %I SET session_preload_libraries = ''harmonia''; or name it in shared_preload_libraries.', current_database());
	END IF;
END $$;
