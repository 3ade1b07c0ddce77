-- harmonia 0.1.0 to 0.2.0
\echo Use "ALTER EXTENSION harmonia UPDATE TO '0.2.0'" to load this file. \quit

-- Indexes built by 0.1.0 have another on-disk format: REINDEX them.

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

-- It also says how wide a leaf stores keys and TIDs.
DROP FUNCTION harmonia_leaves(regclass, bigint);

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

-- ----------------------------------------------------------------
-- Progress
-- ----------------------------------------------------------------

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

-- ----------------------------------------------------------------
-- Statistics: where copies are
-- ----------------------------------------------------------------

DROP VIEW pg_stat_harmonia;
DROP FUNCTION harmonia_stat_indexes();

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
