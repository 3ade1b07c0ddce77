# Random conditions on several columns, answered by an index on these columns in all ways and by a
# sequential scan; rows in the order of such an index.  Some tables are partitioned.
#
# The same seed gives the same tables and queries.
package HarmoniaColumns;

use strict;
use warnings;

use Exporter 'import';
use Harmonia;
use HarmoniaRandom;

our @EXPORT = qw(compare_columns_at_random);

# For each type, how to make a value from a number, types to compare with, and extremes.
my %types = (
	bool => { value => '((%s) %% 2 = 0)', order => 1, extremes => ['true'] },
	'"char"' => { value => 'chr(40 + (%s) %% 60)::"char"', order => 1, extremes => ["''"] },
	int2 => { value => '((%s) %% 30000)::int2', order => 1, others => [ 'int4', 'int8' ], extremes => [ '-32768', '32767', '-1' ] },
	int4 => { value => '(%s)::int4', order => 1, others => [ 'int2', 'int8' ], extremes => [ '-2147483648', '2147483647', '-1' ] },
	int8 => {
		value => '(%s)::int8', order => 1, others => ['int4'],
		extremes => [ '-9223372036854775808', '9223372036854775807', '4294967295', '4294967296', '-1', '-4294967297' ] },
	wide => { type => 'int8', value => '(%s)::int8 * 3000000019', order => 1, extremes => [ '9223372036854775807', '-3000000019' ] },
	oid => { value => '(%s)::oid', order => 1, extremes => ['4294967295'] },
	date => { value => "(date '2000-01-01' + (%s)::int4)", order => 1, others => ['timestamp'], extremes => [ "'infinity'", "'-infinity'" ] },
	timestamptz => {
		value => "(timestamptz '2000-01-01 00:00Z' + (%s) * interval '100 seconds')", order => 1, others => ['timestamp'],
		extremes => [ "'infinity'", "'-infinity'" ] },
	float8 => { value => '((%s) / 4.0)::float8', order => 1, others => ['float4'], extremes => [ "'NaN'", "'-Infinity'", "'-0'" ] },
	text => { value => "lpad(((%s) + 100000)::text, 8, '0')", extremes => [ "''", "'00100001'" ] },
	word => { value => "lpad(((%s) + 100000)::text, 12, '0')", class => ' text_c_ops', extremes => [ "''", "'000000100001'", "'0000001'" ] },
	numeric => { value => '((%s) / 4.0)::numeric', extremes => [ "'NaN'", '0.000' ] },
	uuid => { value => "lpad(to_hex((%s) + 100000), 32, '0')::uuid", order => 1, extremes => ["'ffffffff-ffff-ffff-ffff-ffffffffffff'"] });

# The generator of random numbers, and the kinds of columns that the tables have.
my $r;
my @kinds;

# Create the functions that compare.
sub make_functions
{
	my ($node) = @_;

	$node->safe_psql('postgres', <<'END');
CREATE DOMAIN word AS text COLLATE "C";
-- Run a query by a sequential scan and by plans over the index, in one snapshot, and raise an
-- error if the answers differ.  Returns the kinds of plans that used the index.
CREATE FUNCTION compared(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	kind text;
	plan json;
	wanted text;
	got text;
	used text := '';
BEGIN
	FOREACH kind IN ARRAY '{seq,index,only,bitmap,lookup}'::text[] LOOP
		PERFORM set_config('jit', 'off', true),
			set_config('enable_seqscan', (kind = 'seq')::text, true),
			set_config('enable_indexscan', (kind IN ('index', 'only'))::text, true),
			set_config('enable_indexonlyscan', (kind IN ('only', 'lookup'))::text, true),
			set_config('enable_bitmapscan', (kind = 'bitmap')::text, true),
			set_config('enable_hashjoin', (kind = 'seq')::text, true),
			set_config('enable_mergejoin', 'off', true),
			set_config('enable_nestloop', (kind <> 'lookup')::text, true),
			set_config('harmonia.enable_lookup_scan', (kind = 'lookup')::text, true),
			set_config('harmonia.enable_lookup_join', (kind = 'lookup')::text, true);
		EXECUTE 'EXPLAIN (FORMAT JSON) ' || query INTO plan;
		IF (kind = 'lookup' AND plan::text ~ 'HarmoniaLookup') OR (kind IN ('index', 'bitmap') AND plan::text ~ '"Index Name": "t_')
			OR (kind = 'only' AND plan::text ~ 'Index Only Scan') THEN
			used := used || kind || ' ';
		END IF;
		IF kind = 'lookup' AND plan::text ~ '"Index Only": true' THEN
			used := used || 'lookup-only ';
		END IF;
		EXECUTE format('SELECT (count(*), sum(hash_record_extended(q, 0))) FROM (%s) q', query) INTO got;
		wanted := coalesce(wanted, got);
		IF got <> wanted THEN
			RAISE 'wrong answer' USING DETAIL = format('%s: %s, not %s, from %s%s%s', kind, got, wanted, query, chr(10), plan);
		END IF;
	END LOOP;
	RETURN used;
END $$;

-- The rows of a query, in order.
CREATE FUNCTION sequence(query text) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
	result text[];
BEGIN
	EXECUTE format('SELECT array_agg(q::text) FROM (%s) q', query) INTO result;
	RETURN coalesce(result, '{}');
END $$;

-- Walk over a query's rows with a cursor, in both directions.  Returns where a row is not as wanted.
CREATE FUNCTION lost_cursor(query text, wanted text[]) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	c refcursor;
	got record;
	place int := 0;
	last int := cardinality(wanted);
	step float8;
BEGIN
	PERFORM setseed(hashtext(query) / 2147483648.0);
	OPEN c SCROLL FOR EXECUTE query;
	FOR i IN 1..200 LOOP
		step := random();
		IF step < 0.03 THEN
			FETCH LAST FROM c INTO got;
			place := last;
		ELSIF step < 0.06 THEN
			place := 1 + trunc(random() * last);
			FETCH ABSOLUTE place FROM c INTO got;
		ELSIF step < 0.2 THEN
			place := least(greatest(place - 20, 0), last + 1);
			MOVE BACKWARD 20 FROM c;
			FETCH PRIOR FROM c INTO got;
			place := greatest(place - 1, 0);
		ELSIF step < 0.5 THEN
			FETCH PRIOR FROM c INTO got;
			place := greatest(place - 1, 0);
		ELSE
			FETCH NEXT FROM c INTO got;
			place := least(place + 1, last + 1);
		END IF;
		IF place BETWEEN 1 AND last AND got::text IS DISTINCT FROM wanted[place] THEN
			RETURN format('step %s: %s, not row %s, %s', i, got, place, wanted[place]);
		END IF;
	END LOOP;
	CLOSE c;
	RETURN NULL;
END $$;

-- The same as compared() for a query with ORDER BY: the sequence of rows counts.
CREATE FUNCTION compared_order(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	kind text;
	plan json;
	wanted text[];
	got text[];
	lost text;
	used text := '';
BEGIN
	PERFORM set_config('jit', 'off', true), set_config('harmonia.enable_lookup_join', 'off', true),
		set_config('harmonia.enable_lookup_scan', 'off', true), set_config('enable_bitmapscan', 'off', true),
		set_config('enable_hashjoin', 'off', true);
	FOREACH kind IN ARRAY '{seq,index,only,merge}'::text[] LOOP
		PERFORM set_config('enable_seqscan', (kind = 'seq')::text, true),
			set_config('enable_indexscan', (kind <> 'seq')::text, true),
			set_config('enable_indexonlyscan', (kind IN ('only', 'merge'))::text, true),
			set_config('enable_sort', (kind = 'seq')::text, true),
			set_config('enable_mergejoin', (kind IN ('seq', 'merge'))::text, true),
			set_config('enable_nestloop', (kind IN ('index', 'only'))::text, true);
		got := sequence(query);
		wanted := coalesce(wanted, got);
		EXECUTE 'EXPLAIN (FORMAT JSON) ' || query INTO plan;
		IF got <> wanted THEN
			RAISE 'wrong order' USING DETAIL = format('%s: %s, not %s, from %s%s%s', kind, got, wanted, query, chr(10), plan);
		END IF;
		CONTINUE WHEN kind = 'seq' OR plan::text !~ '"Index Name": "t_' OR plan::text ~ '"Node Type": "(Incremental )?Sort"';
		used := used || 'ordered-' || kind || ' ';
		CONTINUE WHEN cardinality(wanted) > 500 OR query ~ 'JOIN';
		lost := lost_cursor(query, wanted);
		IF lost IS NOT NULL THEN
			RAISE 'wrong row of a cursor' USING DETAIL = format('%s: %s, from %s%s%s', kind, lost, query, chr(10), plan);
		END IF;
		used := used || 'cursor ';
	END LOOP;
	RETURN used;
END $$;
END
	return;
}

# An SQL expression for a value of a column.
sub value
{
	my ($column, $number, $as) = @_;
	my $type = $types{ $column->{kind} };
	return 'NULL' if $r->chance(30);
	return "(" . $r->pick(@{ $type->{extremes} }) . ")::$column->{type}" if $r->chance(40);
	my $value = sprintf $type->{value}, $number // $r->below($column->{width});
	return $as ? "($value)::$as" : $value;
}

# A value that the column takes, as it may be NOT NULL.
sub stored_value
{
	my ($column) = @_;
	my $value = value($column);
	$value = value($column) while $column->{not_null} && $value eq 'NULL';
	return $value;
}

# A condition on a column.
sub condition
{
	my ($column) = @_;
	my $type = $types{ $column->{kind} };
	my $name = $column->{name};
	my $low = $r->below($column->{width});
	my $as = $type->{others} && $column->{width} < 30_000 && $r->chance(200) ? $r->pick(@{ $type->{others} }) : undef;
	my $list = join ', ', map { value($column) } 0 .. $r->below(8);
	my @conditions = (
		9 => "$name = " . value($column, undef, $as),
		4 => "$name IN ($list)",
		2 => "$name = ANY (ARRAY[$list]::$column->{type}\[])",
		1 => "$name IS NULL",
		1 => "$name IS NOT NULL",
		1 => "($name = " . value($column) . " OR $name = " . value($column) . ')',
		1 => "$name = ANY (ARRAY(SELECT @{[sprintf $type->{value}, 'i']} FROM generate_series($low, $low + 300) i))");
	push @conditions, (
		4 => "$name BETWEEN " . value($column, $low, $as) . ' AND ' . value($column, $low + $r->below(20)),
		2 => "$name " . $r->pick('<', '<=', '>', '>=') . ' ' . value($column, undef, $as),
		1 => "$name " . $r->pick('<', '<=', '>', '>=') . " ANY (ARRAY[$list]::$column->{type}\[])")
	  if $type->{order};
	return $r->pick_weighted(@conditions);
}

# Conditions that are joined by AND: mostly one on each of the first columns.
sub conditions
{
	my (@columns) = @_;
	my @list = map { condition($_) } grep { $r->chance(700) } @columns;

	push @list, condition($r->pick(@columns)) if $r->chance(200) || !@list;
	return join ' AND ', @list;
}

# A query over the table, or a join with the table o, which has the same columns.
sub query
{
	my (@columns) = @_;
	my $all = join ' AND ', map { "t.$_->{name} = o.$_->{name}" } @columns;
	my $some = join ' AND ', map { $r->chance(600) ? "t.$_->{name} = o.$_->{name}" : condition({ %$_, name => "t.$_->{name}" }) } @columns;
	my $arms = join ' OR ', map {
		'(' . join(' AND ', map { "$_->{name} = " . value($_) } @columns) . ')'
	} 0 .. 1 + $r->below(6);

	my $list = join ', ', map { "t.$_->{name}" } grep { $r->chance(800) } @columns;
	$list = 't.c1' if $list eq '';

	# The first column alone: the index tells the others.
	my $last = $columns[-1]{name};
	my $any = $r->pick(@columns)->{name};
	my $totals = $r->pick("count(t.$last), sum(hashtext(t.$last\::text))", "count(*), count(t.$any), min(t.$any\::text)", 'count(*)', "count(t.$last)");
	my $first = "t.c1 = o.c1 AND o.n <= " . (1 + $r->below(40));

	return $r->pick_weighted(
		3 => "SELECT $totals FROM o JOIN t ON $first",
		2 => "SELECT $totals FROM t WHERE c1 = ANY (ARRAY(SELECT c1 FROM o WHERE n <= 30))",
		2 => "SELECT o.n, t.$last FROM o " . $r->pick('', 'LEFT ') . "JOIN t ON $first",
		1 => "SELECT t.$last, $totals, sum(o.n) FROM o JOIN t ON $first GROUP BY t.$last",
		1 => "SELECT o.n FROM o WHERE " . $r->pick('', 'NOT ') . "EXISTS (SELECT FROM t WHERE $first AND t.$last IS NOT NULL)",
		4 => "SELECT $list FROM t WHERE " . conditions(@columns),
		2 => 'SELECT count(*) FROM t WHERE ' . conditions(@columns),
		2 => "SELECT $list, o.n FROM o JOIN t ON $all",
		2 => "SELECT $list, o.n FROM o JOIN t ON $some",
		1 => "SELECT $list, o.n FROM o LEFT JOIN t ON $some",
		1 => "SELECT count(*) FROM o JOIN t ON $some",
		12 => 'SELECT * FROM t WHERE ' . conditions(@columns),
		3 => "SELECT * FROM t WHERE $arms",
		1 => "SELECT * FROM t WHERE ($arms) AND " . conditions(@columns),
		1 => 'SELECT * FROM t WHERE (' . conditions(@columns) . ') OR (' . conditions(@columns) . ')',
		4 => "SELECT t.*, o.n FROM o JOIN t ON $all",
		4 => "SELECT t.*, o.n FROM o JOIN t ON $some",
		2 => "SELECT t.id, o.n FROM o LEFT JOIN t ON $some",
		1 => "SELECT o.* FROM o WHERE EXISTS (SELECT FROM t WHERE $some)",
		1 => "SELECT o.* FROM o WHERE NOT EXISTS (SELECT FROM t WHERE $all)");
}

# A query that wants rows in an order: mostly one that the index has, and of its columns alone, so that
# rows that are equal in that order are equal.
my %shown = (float8 => '%s + 0', numeric => 'trim_scale(%s)');

sub ordered_query
{
	my ($keys, @columns) = @_;
	my @keys = @$keys;
	my $first = $r->chance(200) ? $r->below(scalar @keys) : 0;
	my @by = @keys[ $first .. $first + $r->below(@keys - $first) ];
	@by = @keys if $r->chance(500);
	my $turn = $r->chance(500);
	my @order = map {
		my $descending = ($_->{descending} // 0) != $turn;
		my $nulls_first = ($_->{nulls_first} // $_->{descending} // 0) != $turn;
		$nulls_first = !$nulls_first if $r->chance(30);
		"t.$_->{name} " . ($descending ? 'DESC' : 'ASC') . ' NULLS ' . ($nulls_first ? 'FIRST' : 'LAST')
	} @by;
	my $list = join ', ', map { sprintf($shown{ $_->{kind} } // '%s', "t.$_->{name}") . " AS $_->{name}" } @by;
	my $from = $r->pick_weighted(
		3 => 't',
		6 => 't WHERE ' . conditions(map { { %$_, name => "t.$_->{name}" } } @columns),
		2 => 't WHERE ' . join(' AND ', map { "t.$_->{name} = " . value($_) } @keys[ 0 .. $first ]),
		1 => 'o JOIN t ON ' . join(' AND ', map { "t.$_->{name} = o.$_->{name}" } @keys));

	return "SELECT $list FROM $from ORDER BY " . join(', ', @order) . $r->pick('', '', ' LIMIT 10', ' LIMIT 100', ' OFFSET 30 LIMIT 200');
}

# How many of the last columns the index includes.
my %bits = (bool => 1, '"char"' => 8, int2 => 16, int4 => 32, oid => 32, date => 32);

sub included
{
	my (@columns) = @_;
	my $bits = 0;
	my $most = 0;

	$bits += $bits{ $_->{kind} } // 64 foreach @columns;
	for my $column (reverse @columns[ 1 .. $#columns ])
	{
		last if !$types{ $column->{kind} }{order} || $column->{kind} =~ /float8|uuid/;
		$most++;
	}
	return $bits <= 128 && $r->chance(500) ? $r->below($most + 1) : 0;
}

# SQL that creates both tables, with rows, and the columns.
sub make_tables
{
	my $narrow = $r->chance(500);
	my @columns = map {
		my $kind = $r->pick(@kinds ? @kinds : $narrow ? ('bool', '"char"', 'date', 'int2', 'int4', 'oid') : sort keys %types);
		{ name => "c$_", kind => $kind, type => $types{$kind}{type} // $kind, width => $r->pick(3, 20, 300, 20_000), not_null => $r->chance(500) }
	} 1 .. 2 + $r->below(3);
	my $list = join ', ', map { "$_->{name} $_->{type}" } @columns;
	my $checked = join ', ', map { "$_->{name} $_->{type}" . ($_->{not_null} ? ' NOT NULL' : '') } @columns;
	my $included = included(@columns);
	my @keys = @columns[ 0 .. $#columns - $included ];
	my $same = $r->chance(300);
	my $descending = $r->chance(300);
	foreach (@keys)
	{
		$_->{descending} = $same ? $descending : $r->chance(500);
		$_->{nulls_first} = $_->{descending};
		$_->{nulls_first} = !$_->{nulls_first} if $r->chance($same ? 100 : 300);
	}
	my $index = join ', ', map { $_->{name} . ($types{ $_->{kind} }{class} // '') . ($_->{descending} ? ' DESC' : ' ASC') . ' NULLS ' . ($_->{nulls_first} ? 'FIRST' : 'LAST') } @keys;
	my $options = $included == 0 ? '' : ' INCLUDE (' . join(', ', map { $_->{name} } @columns[ @columns - $included .. $#columns ]) . ')';
	$options .= $r->pick('', '', ' WITH (fillfactor = 50)', ' WITH (fanout = 8)');
	my ($by, $partitions) = $r->chance(300) ? partitions(@columns) : ('', '');

	return ("DROP TABLE IF EXISTS t, o; CREATE TABLE t (id bigserial, $checked, v int) $by; $partitions CREATE TABLE o (n serial, $list);"
		  . ($r->chance(500) ? "CREATE INDEX t_c ON t USING harmonia ($index)$options;" . rows(@columns) : rows(@columns) . "CREATE INDEX t_c ON t USING harmonia ($index)$options;")
		  . 'INSERT INTO o (' . join(', ', map { $_->{name} } @columns) . ') SELECT ' . join(', ', map { $_->{name} } @columns)
		  . ' FROM t WHERE id % 20 = 0; INSERT INTO o (' . join(', ', map { $_->{name} } @columns) . ') VALUES '
		  . join(', ', map { '(' . join(', ', map { value($_) } @columns) . ')' } 1 .. 40) . '; ' . $r->pick('', 'VACUUM t;') . ' ANALYZE t, o;', \@keys, @columns);
}

# How the table is partitioned, by one or two of its columns, and SQL that creates the partitions.
sub partitions
{
	my (@columns) = @_;
	my $column = $r->pick(@columns);

	if ($r->chance(400))
	{
		my $bound = 'NULL';
		$bound = value($column) while $bound eq 'NULL';
		return ("PARTITION BY RANGE ($column->{name})", "CREATE TABLE t_low PARTITION OF t FOR VALUES FROM (MINVALUE) TO ($bound);"
			  . ' CREATE TABLE t_rest PARTITION OF t DEFAULT;');
	}
	my $by = $r->chance(300) ? 'c2, c1' : $column->{name};
	return ("PARTITION BY HASH ($by)", join ' ', map { "CREATE TABLE t_$_ PARTITION OF t FOR VALUES WITH (MODULUS 3, REMAINDER $_);" } 0 .. 2);
}

# SQL that inserts rows.
sub rows
{
	my (@columns) = @_;
	my $first = $r->below(10_000);
	my @values = map {
		my $number = $r->pick("abs(hashint4(i + $_->{width})) % $_->{width}", "i % $_->{width}", "i / 7 % $_->{width}");
		my $value = sprintf $types{ $_->{kind} }{value}, $number;
		$_->{not_null} ? $value : 'CASE WHEN i % 31 <> ' . $r->below(31) . " THEN $value END";
	} @columns;
	my $names = join ', ', map { $_->{name} } @columns;

	return "INSERT INTO t ($names, v) SELECT " . join(', ', @values) . ", i % 100 FROM generate_series($first, $first + " . $r->pick(300, 4000) . ') i;'
	  . "INSERT INTO t ($names, v) VALUES " . join(', ', map { '(' . join(', ', map { stored_value($_) } @columns) . ', 1)' } 1 .. 60) . ';';
}

# SQL that changes rows.
sub change
{
	my (@columns) = @_;
	my $column = $r->pick(@columns);

	if ($r->chance(100))
	{
		$column->{not_null} = !$column->{not_null};
		return "DELETE FROM t WHERE $column->{name} IS NULL; ALTER TABLE t ALTER $column->{name} SET NOT NULL;" if $column->{not_null};
		return "ALTER TABLE t ALTER $column->{name} DROP NOT NULL;" . rows(@columns);
	}
	return $r->pick(
		rows(@columns),
		"UPDATE t SET $column->{name} = " . stored_value($column) . ' WHERE id % 7 = ' . $r->below(7) . ';',
		'DELETE FROM t WHERE id % 5 = ' . $r->below(5) . ';',
		'DELETE FROM t WHERE ' . conditions(@columns) . ';',
		'REINDEX INDEX t_c;', 'VACUUM t;');
}

# Compare random queries: size has the number of tables, of rounds of changes for each, and of queries
# for each round.  It may have "kinds", a list of the only types.  Returns how many queries were run,
# the first problem, or '', and how often the index was used in which way; "wide" is the number of
# queries of indexes whose keys have 128 bits.
sub compare_columns_at_random
{
	my ($node, $seed, %size) = @_;
	my ($compared, %used) = (0);
	my $indexes = "pg_class WHERE relkind = 'i' AND relam = (SELECT oid FROM pg_am WHERE amname = 'harmonia')";

	$r = HarmoniaRandom->new($seed);
	@kinds = $size{kinds} ? @{ $size{kinds} } : ();
	make_functions($node);
	for my $table (1 .. $size{tables})
	{
		my ($sql, $keys, @columns) = make_tables();
		$node->safe_psql('postgres', $sql);
		for (1 .. $size{rounds})
		{
			$node->safe_psql('postgres', change(@columns)) for 1 .. 2;

			my @queries = map { $r->chance(300) ? [ 'compared_order', ordered_query($keys, @columns) ] : [ 'compared', query(@columns) ] } 1 .. $size{queries};
			my ($result, $out, $err) = $node->psql('postgres',
				join('', map { "SELECT $_->[0](\$query\$$_->[1]\$query\$);\n" } @queries) . "SELECT harmonia_check(oid, true) FROM $indexes;\n");

			return ($compared, "table $table, $sql\n" . ($err || "psql returned $result"), %used) if $result != 0 || $err ne '';
			$used{$_}++ for map { split } split /\n/, $out;
			$compared += @queries;
			$used{wide} += @queries
			  if $node->safe_psql('postgres', "SELECT max(key_bits) FROM (SELECT oid FROM $indexes) i, harmonia_metapage(i.oid)") == 128;
		}
	}
	return ($compared, '', %used);
}

1;
