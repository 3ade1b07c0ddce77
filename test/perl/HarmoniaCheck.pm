# Whether a harmonia index answers what its table holds.
package HarmoniaCheck;

use strict;
use warnings;

use Exporter 'import';
use Test::More;

our @EXPORT = qw(check_functions index_problem check_index check_all_indexes);

# SQL functions that a checked database needs.  check_index.run(index) compares what
# plans over the index return with what a sequential scan finds, and raises an error if
# they differ or if a plan is not the wanted one.  In a REPEATABLE READ transaction all
# of its queries have the same snapshot.
sub check_functions
{
	return <<'END';
CREATE SCHEMA check_index;

-- Allow these kinds of plans and no others.
CREATE FUNCTION check_index.set_plans(VARIADIC wanted text[]) RETURNS void
LANGUAGE sql AS $$
	SELECT set_config('enable_' || name, (name = ANY (wanted))::text, true)
	FROM unnest('{seqscan,indexscan,indexonlyscan,bitmapscan,sort,hashjoin,mergejoin,nestloop}'::text[]) name;
	SELECT set_config('harmonia.enable_' || name, (name = ANY (wanted))::text, true)
	FROM unnest('{lookup_scan,lookup_join}'::text[]) name
$$;

-- The result of a query.  Its plan must match a pattern.
CREATE FUNCTION check_index.result(query text, pattern text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
	line text;
	plan text := '';
	result text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		plan := plan || line || E'\n';
	END LOOP;
	IF plan !~ pattern THEN
		RAISE EXCEPTION 'plan of "%" is not /%/ but: %', query, pattern, plan;
	END IF;
	EXECUTE query INTO result;
	RETURN result;
END $$;

CREATE FUNCTION check_index.compare(what text, expected text, got text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
	IF expected IS DISTINCT FROM got THEN
		RAISE EXCEPTION 'wrong answer: %: the table has %, the index %',
			what, left(expected, 1000), left(got, 1000);
	END IF;
END $$;

-- The same for an index of several columns: arrays of the first ones, NULLs, rows, joins.
CREATE FUNCTION check_index.run_columns(index regclass) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
	tab regclass;
	name text;
	predicate text;
	columns text[];
	types text[];
	samples text[];
	conditions text[];
	condition text;
	returned boolean;			-- there are index-only scans
	expected text;
	keys text;
	alone constant text := 'SELECT (count(*), count(k), count(l), sum(hashtextextended(s::text, 0)))::text'
		' FROM (SELECT %s k, %s l FROM %s WHERE (%s)%s) s';
	few constant text := 'SELECT (count(*), sum(hashtextextended(ctid::text, 0)))::text FROM %s WHERE (%s)%s';
BEGIN
	SELECT indrelid, index::text, coalesce(' AND (' || pg_get_expr(indpred, indrelid) || ')', ''),
			array_agg(pg_get_indexdef(index, attnum, true) ORDER BY attnum),
			array_agg(format_type(atttypid, atttypmod) ORDER BY attnum)
		INTO STRICT tab, name, predicate, columns, types
		FROM pg_index JOIN pg_attribute ON attrelid = indexrelid
		WHERE indexrelid = index GROUP BY indrelid, indpred;

	SELECT bool_and(pg_index_column_has_property(index, n, 'returnable')) INTO returned FROM generate_series(1, cardinality(columns)) n;
	PERFORM check_index.set_plans('seqscan', 'sort');
	EXECUTE format('SELECT ARRAY[%s] FROM (SELECT * FROM %s WHERE true%s ORDER BY hashtextextended(ctid::text, 1) LIMIT 200) s',
		(SELECT string_agg(format('array_agg((%s)::%s)::text', c, t), ', ') FROM unnest(columns, types) u(c, t)), tab, predicate)
		INTO samples;
	IF samples[1] IS NULL THEN
		RETURN;
	END IF;

	-- PostgreSQL 17 does not look for NULLs in a NOT NULL column.
	conditions := ARRAY(SELECT format('(%s) IS NULL', columns[1])
			WHERE NOT EXISTS (SELECT FROM pg_attribute JOIN pg_index ON attrelid = indrelid AND attnum = indkey[0]
				WHERE indexrelid = index AND attnotnull))
		|| (SELECT array_agg(format('(%s) = %L::%s', c, s, t) ORDER BY s) FROM
			(SELECT DISTINCT columns[1] c, s, types[1] t FROM unnest(samples[1]::text[]) s WHERE s IS NOT NULL LIMIT 3) v)
		|| (SELECT array_agg((SELECT string_agg(format('(%s) = ANY (%L::%s[])', c, s, t), ' AND ')
				FROM unnest(columns[:n], samples[:n], types[:n]) u(c, s, t)) ORDER BY n)
			FROM generate_series(1, cardinality(columns)) n);
	FOREACH condition IN ARRAY conditions LOOP
		PERFORM check_index.set_plans('seqscan');
		expected := check_index.result(format(few, tab, condition, predicate), 'Seq Scan');
		PERFORM check_index.set_plans('indexscan');
		PERFORM check_index.compare(left(condition, 1000), expected,
			check_index.result(format(few, tab, condition, predicate), 'Index Scan using ' || name));
		PERFORM check_index.set_plans('bitmapscan');
		PERFORM check_index.compare('bitmap: ' || left(condition, 1000), expected,
			check_index.result(format(few, tab, condition, predicate), 'Bitmap Index Scan on ' || name));
		IF returned AND NOT pg_is_in_recovery() THEN
			PERFORM check_index.set_plans('seqscan');
			keys := check_index.result(format(alone, columns[1], columns[2], tab, condition, predicate), 'Seq Scan');
			PERFORM check_index.set_plans('indexscan', 'indexonlyscan');
			PERFORM check_index.compare('columns alone: ' || left(condition, 1000), keys,
				check_index.result(format(alone, columns[1], columns[2], tab, condition, predicate), 'Index Only Scan using ' || name));
		END IF;
		CONTINUE WHEN condition !~ 'ANY';
		PERFORM check_index.set_plans('lookup_scan');
		PERFORM check_index.compare('lookup: ' || left(condition, 1000), expected,
			check_index.result(format(few, tab, condition, predicate), 'HarmoniaLookupScan'));
		CONTINUE WHEN NOT returned OR pg_is_in_recovery();
		PERFORM check_index.set_plans('lookup_scan', 'indexonlyscan');
		PERFORM check_index.compare('columns alone by lookup: ' || left(condition, 1000), keys,
			check_index.result(format(alone, columns[1], columns[2], tab, condition, predicate), 'HarmoniaLookupScan'));
	END LOOP;

	-- Look each row of the samples up by itself.
	PERFORM check_index.set_plans('seqscan', 'hashjoin');
	condition := format('SELECT (count(*), sum(hashtextextended(t.ctid::text, 0)))::text FROM unnest(%s) u(%s)'
		' JOIN (SELECT *, ctid FROM %s t WHERE true%s) t ON %s',
		(SELECT string_agg(format('%L::%s[]', s, t), ', ' ORDER BY n) FROM unnest(samples, types) WITH ORDINALITY u(s, t, n)),
		(SELECT string_agg('u' || n, ', ' ORDER BY n) FROM generate_series(1, cardinality(columns)) n), tab, predicate,
		(SELECT string_agg(format('(%s) = u.u%s', c, n), ' AND ') FROM unnest(columns) WITH ORDINALITY u(c, n)));
	expected := check_index.result(condition, 'Hash Join');
	PERFORM check_index.set_plans('indexscan', 'nestloop');
	PERFORM check_index.compare('searches', expected, check_index.result(condition, 'Nested Loop[^$]*Index Scan'));
	PERFORM check_index.set_plans('lookup_join');
	PERFORM check_index.compare('lookups', expected, check_index.result(condition, 'HarmoniaLookupJoin'));
END $$;

CREATE FUNCTION check_index.run(index regclass) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
	tab regclass;
	col name;
	unreturnable boolean;
	not_null boolean;
	nulls text;					-- where NULLs are in ascending order
	nulls_descending text;
	ordered boolean;			-- keys are in the order of values
	condition text;
	name text;
	rows constant text := 'SELECT (count(*), md5(string_agg(s.k::text, '','')),'
		' sum(hashtextextended(s::text, 0)))::text FROM (SELECT %1$I k, ctid FROM %2$s %3$s ORDER BY %1$I %4$s) s';
	keys constant text := 'SELECT (count(*), count(k), sum(hashtextextended(k::text, 0)))::text'
		' FROM (SELECT %I k FROM %s %s) s';
	few constant text := 'SELECT (count(*), sum(hashtextextended((%I, ctid)::text, 0)))::text FROM %s WHERE %s';
	samples text;
	expected text;
BEGIN
	IF (SELECT indnkeyatts > 1 FROM pg_index WHERE indexrelid = index) THEN
		PERFORM check_index.run_columns(index);
		RETURN;
	END IF;
	SELECT indrelid, attname, NOT pg_index_column_has_property(index, 1, 'returnable'), attnotnull,
			coalesce(' WHERE ' || pg_get_expr(indpred, indrelid), ''), relname,
			CASE indoption[0] WHEN 0 THEN 'NULLS LAST' WHEN 3 THEN 'NULLS LAST' ELSE 'NULLS FIRST' END,
			CASE indoption[0] WHEN 0 THEN 'NULLS FIRST' WHEN 3 THEN 'NULLS FIRST' ELSE 'NULLS LAST' END,
			EXISTS (SELECT FROM pg_opclass o JOIN pg_amop ON amopfamily = opcfamily WHERE o.oid = indclass[0] AND amopstrategy = 1 AND opcname !~ '_c_ops$')
		INTO STRICT tab, col, unreturnable, not_null, condition, name, nulls, nulls_descending, ordered
		FROM pg_index JOIN pg_attribute ON attrelid = indrelid AND attnum = indkey[0]
			JOIN pg_class c ON c.oid = indexrelid
		WHERE indexrelid = index;

	IF ordered THEN
		PERFORM check_index.set_plans('seqscan', 'sort');
		expected := check_index.result(format(rows, col, tab, condition, nulls), 'Seq Scan');
		PERFORM check_index.set_plans('indexscan');
		PERFORM check_index.compare('ascending', expected,
			check_index.result(format(rows, col, tab, condition, nulls), 'Index Scan (Backward )?using ' || name));

		PERFORM check_index.set_plans('seqscan', 'sort');
		expected := check_index.result(format(rows, col, tab, condition, 'DESC ' || nulls_descending), 'Seq Scan');
		PERFORM check_index.set_plans('indexscan');
		PERFORM check_index.compare('descending', expected,
			check_index.result(format(rows, col, tab, condition, 'DESC ' || nulls_descending), 'Index Scan (Backward )?using ' || name));
	END IF;

	-- Index-only scans: not on a standby, nor where values cannot be given back.
	IF NOT unreturnable AND NOT pg_is_in_recovery() THEN
		PERFORM check_index.set_plans('seqscan');
		expected := check_index.result(format(keys, col, tab, condition), 'Seq Scan');
		PERFORM check_index.set_plans('indexscan', 'indexonlyscan');
		PERFORM check_index.compare('keys alone', expected,
			check_index.result(format(keys, col, tab, condition), 'Index Only Scan using ' || name));
	END IF;
	IF condition <> '' THEN
		RETURN;
	END IF;

	PERFORM check_index.set_plans('seqscan', 'sort');
	EXECUTE format('SELECT array_agg(k) FROM (SELECT %1$I k FROM %2$s WHERE %1$I IS NOT NULL'
		' ORDER BY hashtextextended(ctid::text, 1) LIMIT 300) s', col, tab)
		INTO samples;

	-- Without keys to look for, all plans cost the same.
	IF samples IS NULL THEN
		RETURN;
	END IF;
	FOREACH condition IN ARRAY ARRAY[
		format('%I = ANY (%L)', col, samples),
		format('%I IS NULL', col),
		format('%I >= ANY (%L)', col, samples)] LOOP
		-- PostgreSQL 17 does not look for NULLs in a NOT NULL column.
		CONTINUE WHEN not_null AND condition ~ 'IS NULL$';
		CONTINUE WHEN NOT ordered AND condition ~ '>=';
		PERFORM check_index.set_plans('seqscan');
		expected := check_index.result(format(few, col, tab, condition), 'Seq Scan');
		PERFORM check_index.set_plans('indexscan');
		PERFORM check_index.compare(left(condition, 1000), expected,
			check_index.result(format(few, col, tab, condition), 'Index Scan using ' || name));
		PERFORM check_index.set_plans('bitmapscan');
		PERFORM check_index.compare('bitmap: ' || left(condition, 1000), expected,
			check_index.result(format(few, col, tab, condition), 'Bitmap Index Scan on ' || name));
		CONTINUE WHEN condition !~ 'ANY';
		PERFORM check_index.set_plans('lookup_scan');
		PERFORM check_index.compare('lookup: ' || left(condition, 1000), expected,
			check_index.result(format(few, col, tab, condition), 'HarmoniaLookupScan'));
	END LOOP;

	-- Look each sample up by itself.
	PERFORM check_index.set_plans('seqscan', 'hashjoin');
	name := format('SELECT count(*) FROM unnest(%L::%s[]) u(k) JOIN %s t ON t.%I = u.k',
		samples,
		(SELECT atttypid::regtype FROM pg_attribute WHERE attrelid = tab AND attname = col),
		tab, col);
	expected := check_index.result(name, 'Hash Join');
	PERFORM check_index.set_plans('indexscan', 'nestloop');
	PERFORM check_index.compare('searches', expected,
		check_index.result(name, 'Nested Loop[^$]*Index Scan'));
	PERFORM check_index.set_plans('lookup_join');
	PERFORM check_index.compare('lookups', expected, check_index.result(name, 'HarmoniaLookupJoin'));
END $$;
END
}

# The first error that a check of an index raises; '' if there is none.
sub index_problem
{
	my ($node, $index, $database) = @_;
	my ($result, $out, $err) = $node->psql($database // 'postgres', <<END);
\\set VERBOSITY terse
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT harmonia_check('$index', true);
SELECT check_index.run('$index');
COMMIT;
END
	return $result == 0 ? '' : $err || "psql returned $result";
}

# A test: an index is in order.
sub check_index
{
	my ($node, $index, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return is(index_problem($node, $index), '', $name // "$index is as the table");
}

# Check all valid harmonia indexes of the database but those of temporary tables.  With
# a name this is a test; without one it returns the problems.
sub check_all_indexes
{
	my ($node, $name) = @_;
	my @indexes = split /\n/, $node->safe_psql('postgres', <<'END');
SELECT c.oid::regclass FROM pg_class c JOIN pg_am a ON a.oid = relam JOIN pg_index ON indexrelid = c.oid
WHERE amname = 'harmonia' AND relkind = 'i' AND relpersistence <> 't' AND indisvalid ORDER BY 1
END
	my $problems = join '', map {
		my $problem = index_problem($node, $_);
		$problem eq '' ? '' : "$_: $problem\n"
	} @indexes;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return $problems unless defined $name;
	return is($problems, '', $name . ' (' . scalar(@indexes) . ' indexes)');
}

1;
