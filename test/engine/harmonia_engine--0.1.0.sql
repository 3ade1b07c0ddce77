\echo Use "CREATE EXTENSION harmonia_engine" to load this file. \quit

-- Look up ranges lows[i]..highs[i], or points lows[i] if highs is NULL, in one batch.  Hits are asked
-- for in portions of so many; "between" is run between portions, while there are
-- more.  With first_only, probes are done after their first hit.
CREATE FUNCTION harmonia_engine_lookup(index regclass, lows anyarray, highs anyarray,
	portion int DEFAULT 1000, "between" text DEFAULT NULL, first_only boolean DEFAULT false,
	variant text DEFAULT NULL,
	OUT probe int, OUT tid tid, OUT key numeric)
RETURNS SETOF record
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE;

-- Rewrite every segment of an index; returns how many were.
CREATE FUNCTION harmonia_engine_move(index regclass)
RETURNS int
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT VOLATILE;

-- Look up batches of keys that the index holds, chosen by a distribution (uniform,
-- normal, gamma, zipf, serial, clustered), or, with a span, ranges from them on with
-- about so many entries.  Millions of look-ups a second of CPU time, in the best round, the
-- median and on average; ns a probe in the best round; per batch: hits, leaves and
-- segments locked, restarts.
CREATE FUNCTION harmonia_bench_lookup(index regclass, batch int, rounds int,
	distribution text DEFAULT 'uniform', seed bigint DEFAULT 1, variant text DEFAULT 'best',
	span int DEFAULT 1,
	OUT best float8, OUT median float8, OUT mean float8, OUT sort_ns float8, OUT search_ns float8,
	OUT hits bigint, OUT leaves bigint, OUT segments bigint, OUT restarts bigint)
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT VOLATILE;
