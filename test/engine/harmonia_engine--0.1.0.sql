\echo Use "CREATE EXTENSION harmonia_engine" to load this file. \quit

-- Look up the ranges lows[i]..highs[i] in one batch, or the keys lows[i] if highs is NULL.
-- A portion has at most so many hits.  The statement "between" is run after each portion.
-- With first_only each probe ends with its first hit.
CREATE FUNCTION harmonia_engine_lookup(index regclass, lows anyarray, highs anyarray,
	portion int DEFAULT 1000, "between" text DEFAULT NULL, first_only boolean DEFAULT false,
	variant text DEFAULT NULL,
	OUT probe int, OUT tid tid, OUT key numeric)
RETURNS SETOF record
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE;

-- Move every segment of an index; returns how many were moved.
CREATE FUNCTION harmonia_engine_move(index regclass)
RETURNS int
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT VOLATILE;

-- Measure lookups of keys that the index holds.  A distribution chooses them: uniform,
-- normal, gamma, zipf, serial or clustered.  With a span, look up ranges that begin with
-- these keys and have about so many entries.
--
-- best, median, mean: millions of probes per second of CPU time, over the rounds
-- sort_ns, search_ns: nanoseconds a probe in the best round
-- hits, leaves, segments, restarts: averages per batch; leaves and segments are those locked
CREATE FUNCTION harmonia_bench_lookup(index regclass, batch int, rounds int,
	distribution text DEFAULT 'uniform', seed bigint DEFAULT 1, variant text DEFAULT 'best',
	span int DEFAULT 1,
	OUT best float8, OUT median float8, OUT mean float8, OUT sort_ns float8, OUT search_ns float8,
	OUT hits bigint, OUT leaves bigint, OUT segments bigint, OUT restarts bigint)
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT VOLATILE;
