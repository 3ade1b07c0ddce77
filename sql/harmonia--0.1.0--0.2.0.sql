-- harmonia 0.1.0 to 0.2.0
\echo Use "ALTER EXTENSION harmonia UPDATE TO '0.2.0'" to load this file. \quit

-- Indexes built by 0.1.0 have another on-disk format: REINDEX them.

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
