-- Functions that run queries with lookup nodes and without, and say whether the
-- answers are the same. Needs compare.sql, and is included like it.
\set ECHO none

-- Have the planner use lookup nodes wherever it can, until the transaction ends. They
-- read the table, or where possible the index alone. With lookup.seqscan sequential
-- scans of other tables are allowed, which parallel plans need.
CREATE PROCEDURE use_lookups(index_only boolean) LANGUAGE sql
AS $$
	CALL use('none');
	SELECT set_config('enable_indexonlyscan', index_only::text, true),
		set_config('enable_seqscan', coalesce(current_setting('lookup.seqscan', true), 'off'), true),
		set_config('harmonia.enable_lookup_scan', 'on', true),
		set_config('harmonia.enable_lookup_join', 'on', true),
		set_config('harmonia.enable_foreign_join', 'on', true),
		set_config(name, 'off', true) FROM unnest('{enable_hashjoin,enable_mergejoin,enable_nestloop}'::text[]) name;
$$;

-- Have it use PostgreSQL's own nodes; kinds are those of use().
CREATE PROCEDURE use_no_lookups(kind text) LANGUAGE sql
AS $$
	CALL use(kind);
	SELECT set_config('harmonia.enable_lookup_scan', 'off', true),
		set_config('harmonia.enable_lookup_join', 'off', true),
		set_config('harmonia.enable_foreign_join', 'off', true),
		set_config(name, 'on', true) FROM unnest('{enable_hashjoin,enable_mergejoin,enable_nestloop}'::text[]) name;
$$;

-- The lookup nodes in a query's plan.
CREATE FUNCTION lookup_nodes(query text) RETURNS text LANGUAGE plpgsql
AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (FORMAT JSON) ' || query INTO plan;
	RETURN (SELECT string_agg(name, ', ' ORDER BY name)
		FROM (SELECT concat_ws(' ', regexp_replace(node ->> 'Custom Plan Provider', 'Harmonia(Lookup)?', ''), node ->> 'Join Type') AS name
			FROM jsonb_path_query(plan::jsonb, 'strict $.**') node
			WHERE node ->> 'Custom Plan Provider' LIKE 'Harmonia%') names);
END $$;

-- The output of EXPLAIN ANALYZE without what depends on times or on how full leaves are.
CREATE FUNCTION explained(query text, options text DEFAULT 'FORMAT TEXT') RETURNS SETOF text LANGUAGE plpgsql
AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE format('EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF, %s) %s', options, query) LOOP
		line := regexp_replace(old_line(line), 'Leaf Pages: \d+', 'Leaf Pages: n');
		IF line IS NOT NULL THEN
			RETURN NEXT line;
		END IF;
	END LOOP;
END $$;

-- Fetch the rest of a cursor, or so many rows. Returns their number and the sum of
-- their only column.
CREATE FUNCTION rest(cursor refcursor, most bigint DEFAULT NULL, OUT n bigint, OUT sum bigint) LANGUAGE plpgsql
AS $$
DECLARE
	value bigint;
BEGIN
	n := 0;
	sum := 0;
	WHILE n IS DISTINCT FROM most LOOP
		FETCH cursor INTO value;
		EXIT WHEN NOT FOUND;
		n := n + 1;
		sum := sum + value;
	END LOOP;
END $$;

-- Compare queries by lookups with sequential and index scans. Lookups read the table, or
-- the index alone, or have the smallest batches. With ORDER BY the order of rows counts.
-- Where a test has turned lookup aggregates off, they count as well. Prints the nodes that
-- were in the plan.
CREATE FUNCTION compare_lookups(VARIADIC queries text[])
	RETURNS TABLE (n bigint, result text, nodes text, query text) LANGUAGE plpgsql
AS $$
DECLARE
	aggregates text := current_setting('harmonia.enable_lookup_aggregate');
	ordered boolean;
	wanted record;
	differing text;
BEGIN
	FOREACH query IN ARRAY queries LOOP
		ordered := query ~ 'ORDER BY';
		CALL use_no_lookups('seq');
		wanted := digest(query, ordered);
		n := wanted.n;
		differing := CASE WHEN lookup_nodes(query) IS NOT NULL THEN ' lookups are not off' END;
		CALL use_no_lookups('only');
		IF digest(query, ordered) <> wanted THEN
			differing := concat(differing, ' index scan');
		END IF;
		CALL use_lookups(false);
		IF digest(query, ordered) <> wanted THEN
			differing := concat(differing, ' lookup');
		END IF;
		CALL use_lookups(true);
		nodes := lookup_nodes(query);
		IF digest(query, ordered) <> wanted THEN
			differing := concat(differing, ' index-only lookup');
		END IF;
		PERFORM set_config('work_mem', '64kB', true), set_config('harmonia.batch_size', '1000', true);
		IF digest(query, ordered) <> wanted THEN
			differing := concat(differing, ' small batches');
		END IF;
		IF aggregates = 'off' AND query LIKE '%count(%' THEN
			PERFORM set_config('harmonia.enable_lookup_aggregate', 'on', true);
			IF digest(query, ordered) <> wanted THEN
				differing := concat(differing, ' lookup aggregate');
			END IF;
			PERFORM set_config('harmonia.enable_lookup_aggregate', 'off', true);
		END IF;
		PERFORM set_config('work_mem', '4MB', true), set_config('harmonia.batch_size', '1000000', true);
		result := coalesce('DIFFERS:' || differing, 'same');
		RETURN NEXT;
	END LOOP;
END $$;

-- 16 renamed it.
SELECT CASE WHEN current_setting('server_version_num')::int < 160000
	THEN 'force_parallel_mode' ELSE 'debug_parallel_query' END AS force_parallel \gset
\pset format unaligned
\set ECHO all
