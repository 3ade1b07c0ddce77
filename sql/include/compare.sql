-- Functions that run queries in several ways and say whether the answers are
-- the same. Included by tests, into the schema that is current.
\set ECHO none

-- Numbers without order, the same each time.
CREATE FUNCTION shuffle(i bigint) RETURNS int LANGUAGE sql IMMUTABLE
	AS 'SELECT (i * 2654435761 % 2147483647)::int';

-- Allow one kind of scan only, until the transaction ends.
CREATE PROCEDURE use(kind text) LANGUAGE sql
AS $$
	SELECT set_config('enable_seqscan', (kind = 'seq')::text, true),
		set_config('enable_indexscan', (kind IN ('index', 'only'))::text, true),
		set_config('enable_indexonlyscan', (kind = 'only')::text, true),
		set_config('enable_bitmapscan', (kind = 'bitmap')::text, true),
		-- Disabled plans would be compiled, because they look expensive.
		set_config('jit', 'off', true);
$$;

-- The number of rows of a query and a hash of them, with or without their order.
CREATE FUNCTION digest(query text, ordered boolean, OUT n bigint, OUT hash text) LANGUAGE plpgsql
AS $$
BEGIN
	EXECUTE format(CASE WHEN ordered THEN 'SELECT count(*), md5(string_agg(t::text, ''|'')) FROM (%s) t'
		ELSE 'SELECT count(*), sum(hash_record_extended(t, 0)) FROM (%s) t' END, query) INTO n, hash;
END $$;

-- The kinds of nodes in a plan that use an index, or that match a pattern.
CREATE FUNCTION plan_nodes(query text, pattern text DEFAULT 'Index') RETURNS text LANGUAGE plpgsql
AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (FORMAT JSON) ' || query INTO plan;
	RETURN (SELECT string_agg(DISTINCT node #>> '{}', ', ')
		FROM jsonb_path_query(plan::jsonb, '$.**."Node Type"') node
		WHERE node #>> '{}' ~ pattern);
END $$;

-- A line of EXPLAIN, or all lines in one, in PostgreSQL 15's words; NULL if 15 has no
-- such line. 16 and later number parameters by the plans that they come from, 17 names
-- what gives them, 18 counts fractions of rows and marks disabled nodes, 19 names plans.
CREATE FUNCTION old_line(line text) RETURNS text LANGUAGE plpgsql IMMUTABLE
AS $$
BEGIN
	IF line ~ '^ *Disabled: true$' THEN
		RETURN NULL;
	END IF;
	line := regexp_replace(line, ',\n *"Disabled": (true|false)|\n *Disabled: (true|false)', '', 'g');
	line := regexp_replace(line, '(rows=|Actual Rows"?: )(\d+)\.00', '\1\2', 'g');
	line := regexp_replace(line, 'InitPlan (\d+) \(returns \$\d+\)', 'InitPlan \1');
	line := regexp_replace(line, '(InitPlan|SubPlan) [a-z]+_(\d+)', '\1 \2', 'g');
	RETURN regexp_replace(line, '\((InitPlan 1|keys)\)\.col1', '$0', 'g');
END $$;

-- EXPLAIN of a query, or of an EXECUTE.
CREATE FUNCTION plan(query text, options text DEFAULT 'FORMAT TEXT')
	RETURNS TABLE ("QUERY PLAN" text) LANGUAGE plpgsql
AS $$
BEGIN
	FOR "QUERY PLAN" IN EXECUTE format('EXPLAIN (COSTS OFF, %s) %s', options, query) LOOP
		"QUERY PLAN" := old_line("QUERY PLAN");
		IF "QUERY PLAN" IS NOT NULL THEN
			RETURN NEXT;
		END IF;
	END LOOP;
END $$;

-- Run a query by one kind of scan, and compare its rows with the wanted ones.
CREATE FUNCTION compare_scan(kind text, query text, ordered boolean, wanted record) RETURNS text
	LANGUAGE plpgsql
AS $$
DECLARE
	node text = CASE kind WHEN 'index' THEN 'Index Scan' WHEN 'only' THEN 'Index Only Scan'
		ELSE 'Bitmap Index Scan' END;
	found text;
BEGIN
	CALL use(kind);
	found := plan_nodes(query);
	IF found IS DISTINCT FROM node THEN
		RETURN CASE WHEN found IS NULL THEN 'not used' ELSE 'other plan' END;
	END IF;
	RETURN CASE WHEN digest(query, ordered) = wanted THEN 'same' ELSE 'DIFFERS' END;
END $$;

-- Select from a table with columns k and id, by each condition and each kind of
-- scan, and compare with a sequential scan.
CREATE FUNCTION compare(tab regclass, VARIADIC conditions text[])
	RETURNS TABLE (condition text, n bigint, index text, "only" text, bitmap text) LANGUAGE plpgsql
AS $$
BEGIN
	FOREACH condition IN ARRAY conditions LOOP
		DECLARE
			all_columns text = format('SELECT k, id FROM %s WHERE %s', tab, condition);
			key_column text = format('SELECT k FROM %s WHERE %s', tab, condition);
			all_wanted record;
			key_wanted record;
		BEGIN
			CALL use('seq');
			all_wanted := digest(all_columns, false);
			key_wanted := digest(key_column, false);
			n := all_wanted.n;
			index := compare_scan('index', all_columns, false, all_wanted);
			"only" := compare_scan('only', key_column, false, key_wanted);
			bitmap := compare_scan('bitmap', all_columns, false, all_wanted);
			RETURN NEXT;
		END;
	END LOOP;
END $$;

-- The same for whole queries. With ORDER BY the order of rows counts: rows with equal
-- sort keys must be equal in all columns. Says whether the plan sorts.
CREATE FUNCTION compare_queries(VARIADIC queries text[])
	RETURNS TABLE (query text, n bigint, result text, plan text) LANGUAGE plpgsql
AS $$
DECLARE
	wanted record;
	ordered boolean;
BEGIN
	FOREACH query IN ARRAY queries LOOP
		ordered := query ~ 'ORDER BY';
		CALL use('seq');
		PERFORM set_config('enable_sort', 'on', true);
		wanted := digest(query, ordered);
		n := wanted.n;
		CALL use('only');
		PERFORM set_config('enable_sort', 'off', true);
		plan := plan_nodes(query, 'Index|Sort|Seq');
		result := CASE WHEN digest(query, ordered) = wanted THEN 'same' ELSE 'DIFFERS' END;
		RETURN NEXT;
	END LOOP;
END $$;

-- Check an index's structure, that each row has its entry, and that scans of the
-- whole index return the table's rows. Returns the numbers of rows with and without
-- key, if all is well.
CREATE FUNCTION verify(index regclass) RETURNS text LANGUAGE plpgsql
AS $$
DECLARE
	query text;
	wanted record;
	found record;
	counts bigint[];
BEGIN
	PERFORM harmonia_check(index, true);
	FOR query IN
		SELECT format('SELECT ctid FROM %2$s WHERE %1$s %4$s AND %3$s',
				pg_get_indexdef(indexrelid, 1, true), indrelid::regclass,
				coalesce(pg_get_expr(indpred, indrelid), 'true'), condition)
			FROM pg_index, unnest(ARRAY['IS NOT NULL', 'IS NULL']) condition WHERE indexrelid = index
	LOOP
		CALL use('seq');
		wanted := digest(query, false);
		CALL use('index');
		IF plan_nodes(query) IS DISTINCT FROM 'Index Scan' THEN
			RETURN 'not used: ' || query;
		END IF;
		found := digest(query, false);
		IF found <> wanted THEN
			RETURN format('%s rows by the index, %s in the table: %s', found.n, wanted.n, query);
		END IF;
		counts := counts || wanted.n;
	END LOOP;
	RETURN format('%s rows, %s NULL', counts[1], counts[2]);
END $$;
\ir settle.sql
