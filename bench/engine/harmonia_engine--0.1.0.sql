\echo Use "CREATE EXTENSION harmonia_engine" to load this file. \quit

-- Look up ranges lows[i]..highs[i], or points lows[i] if highs is NULL, in one batch.  Hits are asked
-- for in portions of so many; "between" is run between portions, while there are
-- more.  With first_only, probes are done after their first hit.
CREATE FUNCTION harmonia_engine_lookup(index regclass, lows anyarray, highs anyarray,
	portion int DEFAULT 1000, "between" text DEFAULT NULL, first_only boolean DEFAULT false,
	OUT probe int, OUT tid tid, OUT key numeric)
RETURNS SETOF record
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE;

-- Rewrite every segment of an index; returns how many were.
CREATE FUNCTION harmonia_engine_move(index regclass)
RETURNS int
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT VOLATILE;
