--
-- How many different values a column has: an index that begins with it knows better than ANALYZE, which takes equal values that
-- are neighbours for fewer than they are
--
CREATE SCHEMA distinct_stats;
SET search_path = distinct_stats, public;

-- The number of groups that the planner expects, beside the true number: as many, give or take a twentieth?
CREATE FUNCTION expects(wanted text, source text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE plan json; expected float8; actual float8;
BEGIN
	EXECUTE format('EXPLAIN (FORMAT json) SELECT %s FROM %s GROUP BY 1', wanted, source) INTO plan;
	expected := plan -> 0 -> 'Plan' ->> 'Plan Rows';
	EXECUTE format('SELECT count(DISTINCT %s) FROM %s', wanted, source) INTO actual;
	RETURN CASE WHEN expected BETWEEN actual * 0.95 AND actual * 1.05 THEN 'the true number' ELSE expected::text END;
END $$;

CREATE TABLE lines AS SELECT i / 4 AS id, (i / 4)::bigint << 33 AS big, i % 4 AS n, md5((i / 4)::text) AS name,
	md5((i / 4)::text)::uuid AS u FROM generate_series(0, 39999) i;
VACUUM ANALYZE lines;
-- What ANALYZE says of larger tables.
UPDATE pg_statistic SET stadistinct = 500 WHERE starelid = 'lines'::regclass AND staattnum <> 3;
SELECT column_name, expects(column_name, 'lines') FROM unnest(ARRAY['id', 'big', 'name', 'u']) column_name;
CREATE INDEX lines_id ON lines USING harmonia (id);
CREATE INDEX lines_big_n ON lines USING harmonia (big DESC, n);
CREATE INDEX lines_name ON lines USING harmonia (name);
CREATE INDEX lines_u ON lines USING harmonia (u) INCLUDE (n);
SELECT column_name, expects(column_name, 'lines') FROM unnest(ARRAY['id', 'big', 'name', 'u']) column_name;

-- Not if there are fewer, if the user has said how many, or if the index has not all rows
CREATE INDEX lines_n ON lines USING harmonia (n);
SELECT expects('n', 'lines');
ALTER TABLE lines ALTER id SET (n_distinct = 500);
SELECT expects('id', 'lines');
ALTER TABLE lines ALTER id RESET (n_distinct);
SELECT expects('id', 'lines');
DROP INDEX lines_id;
CREATE INDEX lines_id ON lines USING harmonia (id) WHERE n = 1;
SELECT expects('id', 'lines');

-- An index that changes is looked at again
CREATE TABLE grows (k int, v int);
CREATE INDEX ON grows USING harmonia (k);
INSERT INTO grows SELECT i / 100, i FROM generate_series(0, 39999) i;
VACUUM ANALYZE grows;
UPDATE pg_statistic SET stadistinct = 50 WHERE starelid = 'grows'::regclass AND staattnum = 1;
SELECT expects('k', 'grows');
DELETE FROM grows;
VACUUM grows;
INSERT INTO grows SELECT i / 10, i FROM generate_series(0, 39999) i;
VACUUM ANALYZE grows;
UPDATE pg_statistic SET stadistinct = 50 WHERE starelid = 'grows'::regclass AND staattnum = 1;
SELECT expects('k', 'grows');

-- Who may not read a table learns no more by the planner's estimates than before
CREATE FUNCTION leak(int, int) RETURNS boolean LANGUAGE plpgsql COST 0.0001 AS $$ BEGIN RAISE NOTICE 'leaked %', $1; RETURN $1 < $2; END $$;
CREATE OPERATOR <<< (FUNCTION = leak, LEFTARG = int, RIGHTARG = int, RESTRICT = scalarltsel);
ALTER TABLE grows ENABLE ROW LEVEL SECURITY;
CREATE POLICY none ON grows USING (v < 0);
CREATE ROLE distinct_stats_reader;
GRANT USAGE ON SCHEMA distinct_stats TO distinct_stats_reader;
GRANT SELECT ON grows TO distinct_stats_reader;
SET ROLE distinct_stats_reader;
SELECT count(*) FROM grows WHERE k <<< 5;
RESET ROLE;
DROP SCHEMA distinct_stats CASCADE;
DROP ROLE distinct_stats_reader;
