-- The batch lookup engine, compared with plain queries: each (probe, TID) pair once.

SET client_min_messages = warning;
CREATE EXTENSION harmonia_engine;

-- How the hits of the engine for arrays of keys differ from those of a sequential
-- scan.  Options are further arguments of harmonia_engine_lookup().
CREATE FUNCTION differences(tab regclass, lows anyarray, highs anyarray, options text DEFAULT '',
	OUT missing bigint, OUT wrong bigint, OUT twice bigint, OUT key_wrong bigint)
LANGUAGE plpgsql
SET enable_indexscan = off SET enable_bitmapscan = off SET enable_indexonlyscan = off
AS $$
BEGIN
	EXECUTE format($sql$
		CREATE TEMP TABLE found AS
		SELECT probe, tid, key FROM harmonia_engine_lookup('%1$s_k', $1, $2 %2$s)
		$sql$, tab, options) USING lows, highs;
	EXECUTE format($sql$
		CREATE TEMP TABLE expected AS
		SELECT ordinality::int AS probe, t.ctid AS tid
		FROM unnest($1, $2) WITH ORDINALITY AS p(low, high, ordinality)
			JOIN %s t ON %s
		$sql$, tab, CASE WHEN highs IS NULL THEN 't.k = low' ELSE 't.k BETWEEN low AND high' END)
		USING lows, highs;
	SELECT count(*) INTO missing FROM (SELECT probe, tid FROM expected EXCEPT SELECT probe, tid FROM found) s;
	SELECT count(*) INTO wrong FROM (SELECT probe, tid FROM found EXCEPT SELECT probe, tid FROM expected) s;
	SELECT count(*) - count(DISTINCT (probe, tid)) INTO twice FROM found;
	-- Equal keys have equal values.
	EXECUTE format($sql$
		SELECT count(*) FROM (SELECT count(DISTINCT found.key) > 1 AS bad
			FROM found JOIN %s t ON t.ctid = found.tid GROUP BY t.k) s WHERE bad
		$sql$, tab) INTO key_wrong;
	DROP TABLE found, expected;
END
$$;

-- Every type
CREATE FUNCTION try_type(type text, expression text) RETURNS text
LANGUAGE plpgsql
AS $$
DECLARE
	result text;
BEGIN
	EXECUTE format('CREATE TABLE typed AS SELECT (%s)::%s AS k FROM generate_series(1, 6000) i',
		expression, type);
	INSERT INTO typed SELECT NULL FROM generate_series(1, 50);
	CREATE INDEX typed_k ON typed USING harmonia (k);
	EXECUTE format($sql$
		SELECT string_agg(d::text, ' ') FROM
			(SELECT array_agg(k) AS l FROM (SELECT k FROM typed WHERE k IS NOT NULL LIMIT 40) s) a,
			(SELECT array_agg(k ORDER BY k) AS h FROM (SELECT k FROM typed WHERE k IS NOT NULL ORDER BY md5(k::text) LIMIT 40) s) b,
			LATERAL (SELECT differences('typed', l, NULL::%1$s[]) AS d
				UNION ALL SELECT differences('typed', l, h, ', 501')) c
		$sql$, type) INTO result;
	DROP TABLE typed;
	RETURN result;
END
$$;

SELECT type, try_type(type, expression)
FROM (VALUES
	('smallint', 'hashint4(i) % 3000'), ('integer', 'hashint4(i)'), ('bigint', 'hashint8extended(i, 0)'),
	('oid', 'abs(hashint4(i)::bigint)'), ('date', '''2026-01-01''::date + i % 700'),
	('time', '''00:00''::time + i * ''7 seconds''::interval'),
	('timestamp', '''2026-01-01''::timestamp + hashint4(i) * ''1 second''::interval'),
	('timestamptz', '''2026-01-01 UTC''::timestamptz + hashint4(i) * ''1 second''::interval'),
	('real', 'CASE i % 50 WHEN 0 THEN ''NaN'' WHEN 1 THEN ''-Infinity'' WHEN 2 THEN -0.0 ELSE hashint4(i) / 7.0 END'),
	('double precision', 'CASE i % 50 WHEN 0 THEN ''NaN'' WHEN 1 THEN ''Infinity'' WHEN 2 THEN -0.0 ELSE hashint4(i) / 7.0 END'),
	('uuid', 'md5((i % 5500)::text)'),
	('uuid', 'lpad(to_hex(i / 700), 16, ''0'') || lpad(to_hex(i % 1300), 16, ''f'')'), ('money', 'hashint4(i)'), ('"char"', 'chr(33 + i % 90)'), ('boolean', 'i % 3 = 0')) AS v(type, expression);

-- Larger indexes: with few and with many duplicates, and runs over many leaves
CREATE TABLE uniform AS SELECT hashint8extended(i, 0) AS k FROM generate_series(1, 60000) i;
CREATE TABLE dense AS SELECT (hashint4(i) % 20000)::bigint AS k FROM generate_series(1, 60000) i;
CREATE TABLE runs AS SELECT (i % 7)::int AS k FROM generate_series(1, 30000) i;
INSERT INTO runs SELECT 100 + i FROM generate_series(1, 30000) i;
CREATE TABLE wide AS SELECT (CASE i % 3 WHEN 0 THEN md5(i::text) ELSE lpad(to_hex(i / 9000), 16, '0') || lpad(to_hex(i / 3), 16, '0') END)::uuid AS k
	FROM generate_series(1, 60000) i;
INSERT INTO wide SELECT '00000000-0000-0003-0000-000000002710' FROM generate_series(1, 3000);
CREATE INDEX wide_k ON wide USING harmonia (k);
CREATE INDEX uniform_k ON uniform USING harmonia (k) WITH (fillfactor = 50);
CREATE INDEX dense_k ON dense USING harmonia (k) WITH (fanout = 8);
CREATE INDEX runs_k ON runs USING harmonia (k);
-- Splits, in the middle and at the end
INSERT INTO uniform SELECT hashint8extended(i, 1) FROM generate_series(1, 60000) i;
INSERT INTO dense SELECT hashint4extended(i, 1) % 20000 FROM generate_series(1, 60000) i;
INSERT INTO dense SELECT 20000 + i FROM generate_series(1, 10000) i;
INSERT INTO runs SELECT 3 FROM generate_series(1, 3000);
ANALYZE uniform, dense, runs, wide;

-- Probes: existing keys and others, some repeated
CREATE TABLE probes AS
SELECT
	(SELECT array_agg(k) FROM (SELECT k FROM uniform WHERE k % 7 = 0
		UNION ALL SELECT k + 1 FROM uniform WHERE k % 50 = 0
		UNION ALL SELECT k FROM uniform WHERE k % 1000 = 0) s) AS uniform,
	(SELECT array_agg(k) FROM (SELECT k FROM dense WHERE k % 11 = 0
		UNION ALL SELECT generate_series(-25000, 35000, 77)) s) AS dense,
	ARRAY[3, 101, 3, 6, 0, -1, 7, 15000, 30100, 2147483647, -2147483648] AS runs,
	(SELECT array_agg(k) FROM (SELECT k FROM wide WHERE hashtext(k::text) % 7 = 0 UNION ALL SELECT md5(k::text)::uuid FROM wide WHERE hashtext(k::text) % 50 = 0
		UNION ALL SELECT unnest('{00000000-0000-0000-0000-000000000000,ffffffff-ffff-ffff-ffff-ffffffffffff,00000000-0000-0003-0000-000000002710}'::uuid[])) s) AS wide;

SELECT d.* FROM probes, differences('uniform', uniform, NULL::bigint[]) d;
SELECT d.* FROM probes, differences('dense', dense, NULL::bigint[]) d;
SELECT d.* FROM probes, differences('runs', runs, NULL::int[]) d;
SELECT d.* FROM probes, differences('wide', wide, NULL::uuid[]) d;

-- Portions of any size, down to one hit
SELECT portion, d.*
FROM unnest(ARRAY[1, 2, 8, 9, 11, 12, 13, 100, 719, 5000]) portion,
	differences('runs', ARRAY[3, 101, 3, 6], NULL::int[], ', ' || portion) d;
SELECT portion, d.*
FROM probes, unnest(ARRAY[1, 10, 500]) portion,
	differences('dense', dense[1:400], NULL::bigint[], ', ' || portion) d;

-- Ranges: short, long, overlapping, nested, empty, from end to end
SELECT d.*
FROM (SELECT array_agg(k) AS l, array_agg(k + (2 ^ 52)::bigint * (k % 5)) AS h
		FROM uniform WHERE k % 400 = 0 AND abs(k) < 2 ^ 62) s,
	differences('uniform', l, h) d;
SELECT portion, d.*
FROM unnest(ARRAY[1, 77, 10000]) portion, differences('dense',
	ARRAY[-20000, -5, 100, 100, 150, 19990, 19999, 5, 40000, -40000, 29990, 300, -9223372036854775808],
	ARRAY[-19990, 5, 300, 200, 160, 20003, 25000, 4, 50000, -30000, 30100, 300, 9223372036854775807],
	', ' || portion) d;
SELECT * FROM differences('runs', ARRAY[2, 0, 6, 3, -2147483648], ARRAY[3, 6, 101, 2, 2147483647], ', 333');
SELECT portion, d.*
FROM unnest(ARRAY[77, 10000]) portion, differences('wide',
	'{00000000-0000-0003-0000-000000002710,00000000-0000-0002-0000-000000000000,00000000-0000-0000-0000-000000000000,00000000-0000-0003-0000-000000002600,50000000-0000-0000-0000-000000000000,ffffffff-ffff-ffff-ffff-ffffffffffff}'::uuid[],
	'{00000000-0000-0003-0000-000000002710,00000000-0000-0002-ffff-ffffffffffff,ffffffff-ffff-ffff-ffff-ffffffffffff,00000000-0000-0003-0000-000000002800,50ffffff-0000-0000-0000-000000000000,00000000-0000-0000-0000-000000000000}'::uuid[],
	', ' || portion) d;

-- Ranges of one length, which are searched together: shorter than gaps between keys, within a leaf, and
-- over many leaves
SELECT v.*, d.*
FROM unnest(ARRAY[1, 40, 1500], ARRAY[7, 500, 10000]) AS v(length, portion),
	(SELECT array_agg(k) AS l FROM probes, unnest(dense[1:60] || dense[1:3]) k) s,
	differences('dense', l, (SELECT array_agg(k + v.length) FROM unnest(l) k), ', ' || portion) d;
SELECT v.*, d.*
FROM unnest(ARRAY[1, 2 ^ 40, 2 ^ 52]::bigint[]) AS v(length), LATERAL
	(SELECT array_agg(k) AS l FROM (SELECT k - v.length / 3 AS k FROM uniform WHERE k % 1000 = 0 AND abs(k) < 2 ^ 62) s) s,
	differences('uniform', l, (SELECT array_agg(k + v.length) FROM unnest(l) k)) d;
SELECT * FROM differences('runs', ARRAY[0, 2, 3, 3, 5, 98, 30099], ARRAY[2, 4, 5, 5, 7, 100, 30101], ', 333');
SELECT d.*
FROM (SELECT array_agg(k) AS l, array_agg(translate(k::text, '-', '')) AS texts FROM
		(SELECT overlay(k::text PLACING '000' FROM 34)::uuid AS k FROM wide WHERE hashtext(k::text) % 300 = 0) s) s,
	differences('wide', l, (SELECT array_agg(overlay(k PLACING 'fff' FROM 30)::uuid) FROM unnest(texts) k)) d;

-- Every instruction set that this machine has
CREATE FUNCTION try_variant(variant text) RETURNS boolean
LANGUAGE plpgsql
AS $$
BEGIN
	RETURN (SELECT d.missing + d.wrong + d.twice + d.key_wrong = 0 FROM probes,
			differences('uniform', uniform, NULL::bigint[], format(', variant => %L', variant)) d)
		AND (SELECT d.missing + d.wrong + d.twice + d.key_wrong = 0 FROM probes,
			differences('runs', runs, array_fill(110, ARRAY[11]), format(', variant => %L', variant)) d)
		AND (SELECT d.missing + d.wrong + d.twice + d.key_wrong = 0
			FROM (SELECT array_agg(k) AS l, array_agg(k + 2::bigint ^ 50) AS h FROM uniform WHERE k % 1000 = 0 AND abs(k) < 2 ^ 62) s,
			differences('uniform', l, h::bigint[], format(', variant => %L', variant)) d)
		AND (SELECT d.missing + d.wrong + d.twice + d.key_wrong = 0 FROM probes,
			differences('wide', wide, NULL::uuid[], format(', variant => %L', variant)) d);
EXCEPTION
	WHEN feature_not_supported THEN RETURN true;
END
$$;
SELECT variant, try_variant(variant) FROM unnest(ARRAY['portable', 'avx2', 'avx512']) variant;

-- No entries, and no probes
CREATE TABLE empty (k bigint);
CREATE INDEX empty_k ON empty USING harmonia (k);
SELECT * FROM differences('empty', ARRAY[1, 2, 3]::bigint[], NULL::bigint[]);
INSERT INTO empty SELECT NULL FROM generate_series(1, 10);
SELECT * FROM differences('empty', ARRAY[1, 2, 3]::bigint[], ARRAY[5, 0, 9223372036854775807]);
SELECT count(*) FROM harmonia_engine_lookup('dense_k', '{}'::bigint[], NULL::bigint[]);

-- Probes that are done after their first hit have one hit
SELECT count(*), count(DISTINCT probe) AS probes, count(*) FILTER (WHERE key IS NULL)
FROM harmonia_engine_lookup('runs_k', ARRAY[3, 3, 101, 5, -5], NULL::int[], 10, first_only => true);
SELECT count(*), count(DISTINCT probe) AS probes
FROM harmonia_engine_lookup('runs_k', ARRAY[0, 1, 101, -5], ARRAY[200, 5, 200, -1], 10, first_only => true);
SELECT count(*), count(DISTINCT probe) AS probes
FROM harmonia_engine_lookup('runs_k', ARRAY[0, 2, 3, 101, -5], ARRAY[4, 6, 7, 105, -1], 10, first_only => true);

-- The index changes between portions: each entry that was there is returned once, and
-- besides these only added ones.
CREATE TABLE changing (k int, added boolean DEFAULT false);
CREATE FUNCTION change(statement text, lows int[], highs int[], portion int,
	OUT missing bigint, OUT wrong bigint, OUT twice bigint)
LANGUAGE plpgsql
AS $$
BEGIN
	TRUNCATE changing;
	DROP INDEX IF EXISTS changing_k;
	INSERT INTO changing SELECT i FROM generate_series(1, 20000) i;
	INSERT INTO changing SELECT 5000 FROM generate_series(1, 5000) i;
	CREATE INDEX changing_k ON changing USING harmonia (k);
	CREATE TEMP TABLE before AS SELECT ordinality::int AS probe, t.ctid AS tid
		FROM unnest(lows, highs) WITH ORDINALITY AS p(low, high, ordinality)
			JOIN changing t ON (highs IS NULL AND t.k = low) OR t.k BETWEEN low AND high;
	CREATE TEMP TABLE found AS
		SELECT probe, tid FROM harmonia_engine_lookup('changing_k', lows, highs, portion, statement);
	SELECT count(*) INTO missing FROM (SELECT * FROM before EXCEPT SELECT * FROM found) s;
	SELECT count(*) INTO wrong FROM (SELECT * FROM found EXCEPT SELECT * FROM before) s
		WHERE NOT EXISTS (SELECT FROM changing WHERE ctid = s.tid AND added
			AND k BETWEEN lows[probe] AND coalesce(highs[probe], lows[probe]));
	SELECT count(*) - count(DISTINCT (probe, tid)) INTO twice FROM found;
	DROP TABLE before, found;
END
$$;

CREATE TABLE asked AS SELECT
	(SELECT array_agg(i) FROM generate_series(1, 20000, 3) i) || array_fill(5000, ARRAY[3]) AS points,
	(SELECT array_agg(i) FROM generate_series(-5, 20000, 50) i) || array_fill(4999, ARRAY[3]) AS firsts,
	ARRAY[1, 4990, 5000, 100, 15000, 7] AS lows,
	ARRAY[20000, 5010, 5000, 9000, 15001, 6000] AS highs;

-- Splits everywhere
SELECT c.* FROM asked, change('INSERT INTO changing SELECT (random() * 20000)::int, true FROM generate_series(1, 300)',
	points, NULL, 700) c;
SELECT c.* FROM asked, change('INSERT INTO changing SELECT (random() * 20000)::int, true FROM generate_series(1, 300)',
	lows, highs, 3000) c;
SELECT c.* FROM asked, change('INSERT INTO changing SELECT (random() * 20000)::int, true FROM generate_series(1, 300)',
	firsts, (SELECT array_agg(i + 60) FROM unnest(firsts) i), 700) c;
-- Splits in the middle of a run of duplicates
SELECT * FROM change('INSERT INTO changing SELECT 5000, true FROM generate_series(1, 50)',
	ARRAY[4999, 5000, 5001, 5000], NULL, 400);
-- Segments that are moved once and several times; their blocks are reused
SELECT c.* FROM asked, change('SELECT harmonia_engine_move(''changing_k'')', points, NULL, 700) c;
SELECT c.* FROM asked, change('SELECT harmonia_engine_move(''changing_k''), harmonia_engine_move(''changing_k'')', lows, highs, 3000) c;
SELECT * FROM change('SELECT harmonia_engine_move(''changing_k'')', ARRAY[5000, 5000, 1], NULL, 97);
-- All of these
SELECT c.* FROM asked, change('INSERT INTO changing SELECT (random() * 20000)::int, true FROM generate_series(1, 300);
	SELECT harmonia_engine_move(''changing_k'');
	INSERT INTO changing SELECT 5000, true FROM generate_series(1, 100)', points, NULL, 700) c;
SELECT c.* FROM asked, change('INSERT INTO changing SELECT (random() * 20000)::int, true FROM generate_series(1, 300);
	SELECT harmonia_engine_move(''changing_k'');
	INSERT INTO changing SELECT 5000, true FROM generate_series(1, 100)', lows, highs, 3000) c;
SELECT c.* FROM asked, change('INSERT INTO changing SELECT (random() * 20000)::int, true FROM generate_series(1, 300);
	SELECT harmonia_engine_move(''changing_k'');
	INSERT INTO changing SELECT 5000, true FROM generate_series(1, 100)',
	firsts, (SELECT array_agg(i + 40) FROM unnest(firsts) i), 2000) c;

-- What is refused
SELECT harmonia_engine_lookup('dense_k', ARRAY[1], NULL::int[]);
SELECT harmonia_engine_lookup('dense_k', ARRAY[NULL]::bigint[], NULL::bigint[]);

-- The benchmark works
SELECT distribution, best > 0, median > 0, hits > 0, leaves > 0
FROM unnest(ARRAY['uniform', 'normal', 'gamma', 'zipf', 'serial', 'clustered']) distribution,
	harmonia_bench_lookup('dense_k', 1000, 2, distribution);
CREATE TABLE spaced AS SELECT 10 * i AS k FROM generate_series(1, 20000) i;
CREATE INDEX spaced_k ON spaced USING harmonia (k);
SELECT span, round(hits / 1000.0) AS hits FROM unnest(ARRAY[1, 2, 10, 100]) span,
	harmonia_bench_lookup('spaced_k', 1000, 2, span => span);

DROP EXTENSION harmonia_engine;
