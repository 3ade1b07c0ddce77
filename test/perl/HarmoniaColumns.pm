# Random conditions on one to eight columns of all types, answered by an index on these columns in all ways
# and by a sequential scan; rows in the order of such an index.  Some tables are partitioned, or have children.
#
# The same seed gives the same tables and queries.
package HarmoniaColumns;

use strict;
use warnings;

use Exporter 'import';
use Harmonia;
use HarmoniaRandom;

our @EXPORT = qw(compare_columns_at_random);

# For each type, how to make a value from a number, types to compare with, extremes, and what a plan may choose
# among equal values: "forms" is an expression that is the same for all of them.
my %types = (
	bool => { value => '((%s) %% 2 = 0)', order => 1, extremes => ['true'] },
	'"char"' => { value => 'chr(40 + (%s) %% 60)::"char"', order => 1, extremes => ["''"] },
	int2 => { value => '((%s) %% 30000)::int2', order => 1, others => [ 'int4', 'int8' ], wider => 'int8', extremes => [ '-32768', '32767', '-1' ] },
	int4 => { value => '(%s)::int4', order => 1, others => [ 'int2', 'int8' ], wider => 'int8', extremes => [ '-2147483648', '2147483647', '-1' ] },
	int8 => {
		value => '(%s)::int8', order => 1, others => ['int4'],
		extremes => [ '-9223372036854775808', '9223372036854775807', '4294967295', '4294967296', '-1', '-4294967297' ] },
	wide => { type => 'int8', value => '(%s)::int8 * 3000000019', order => 1, extremes => [ '9223372036854775807', '-3000000019' ] },
	oid => { value => '(%s)::oid', order => 1, extremes => ['4294967295'] },
	money => { value => '(%s)::int4::money', order => 1, no_hash => 1, extremes => [ "'-1'", "'0.01'" ] },
	date => { value => "(date '2000-01-01' + (%s)::int4)", order => 1, others => ['timestamp'], wider => 'timestamp', extremes => [ "'infinity'", "'-infinity'" ] },
	time => { value => "((%s) * interval '3 seconds')::time", order => 1, extremes => [ "'24:00'", "'00:00'" ] },
	timetz => {
		value => "(((%1\$s) * interval '7 seconds')::time::text || CASE (%1\$s) %% 3 WHEN 0 THEN '+02' WHEN 1 THEN '-03:30' ELSE '' END)::timetz",
		order => 1, extremes => [ "'24:00-15'", "'00:00+15'", "'00:00+02'" ] },
	timestamp => {
		value => "(timestamp '2000-01-01' + (%s) * interval '1 hour')", order => 1, others => ['date'],
		extremes => [ "'infinity'", "'-infinity'" ] },
	timestamptz => {
		value => "(timestamptz '2000-01-01 00:00Z' + (%s) * interval '100 seconds')", order => 1, others => ['timestamp'],
		extremes => [ "'infinity'", "'-infinity'" ] },
	float4 => { value => '((%s) / 4.0)::float4', order => 1, others => ['float8'], wider => 'float8', forms => '%s + 0', extremes => [ "'NaN'", "'Infinity'", "'-0'" ] },
	float8 => { value => '((%s) / 4.0)::float8', order => 1, others => ['float4'], forms => '%s + 0', extremes => [ "'NaN'", "'-Infinity'", "'-0'" ] },
	macaddr => { value => "lpad(to_hex(%s), 12, '0')::macaddr", order => 1, extremes => [ "'ff:ff:ff:ff:ff:ff'", "'80:00:00:00:00:00'" ] },
	macaddr8 => { value => "lpad(to_hex(%s), 16, '0')::macaddr8", order => 1, extremes => ["'ff:ff:ff:ff:ff:ff:ff:ff'"] },
	mood => { value => "(array['sad','meh','ok','fine','glad','wild']::mood[])[1 + (%s) %% 6]", extremes => ["'so so'"] },
	text => { value => "lpad(((%s) + 100000)::text, 8, '0')", wider => 'name', prefix => 1, extremes => [ "''", "'00100001'" ] },
	word => {
		value => "lpad(((%s) + 100000)::text, 12, '0')", class => ' text_c_ops', prefix => 1,
		extremes => [ "''", "'000000100001'", "'0000001'", "'0000001' || chr(1114111)", "'0000001\xc3\xa4'" ] },
	path => {
		type => 'word', value => "('/usr/share/doc/' || lpad(((%s) + 100000)::text, 12, '0'))", class => ' text_c_ops', prefix => 1,
		extremes => [ "'/usr/share/doc/'", "'/usr/share/doc/000'", "'/usr'" ] },
	varchar => { value => "('v' || (%s))::varchar", prefix => 1, extremes => [ "''", "'v'", "'v '" ] },
	name => { value => "('n' || lpad((%s)::text, 6, '0'))::name", wider => 'text', others => ['text'], prefix => 1, extremes => [ "''", "'n'" ] },
	cname => {
		type => 'name', value => "('n' || lpad((%s)::text, 6, '0'))::name", class => ' name_c_ops', wider => 'text', others => ['text'],
		prefix => 1, extremes => [ "''", "'n'" ] },
	'char(8)' => { value => "(%s)::text::char(8)", extremes => [ "''", "'0 '" ] },
	bytea => { value => "decode(lpad(to_hex(%s), 8, '0'), 'hex')", extremes => [ "''", "'\\x00'", "'\\xff'", "'\\x0000000000'" ] },
	'bit(12)' => { value => '((%s)::int4 %% 4096)::bit(12)', no_hash => 1, extremes => ["B'000000000000'"] },
	varbit => { value => '(%s)::int4::bit(20)::varbit', no_hash => 1, extremes => [ "B''", "B'0'", "B'00'" ] },
	numeric => { value => '((%s) / 4.0)::numeric', forms => 'trim_scale(%s)', extremes => [ "'NaN'", '0.000' ] },
	interval => { value => "((%s) * interval '4 hours')", forms => 'extract(epoch FROM %s)', extremes => [ "'1 mon'", "'30 days'", "'720:00'", "'-1 mon 30 days'" ] },
	inet => { value => "(inet '10.0.0.0' + (%s))", extremes => [ "'::1'", "'2001:db8::1'", "'10.0.0.1/8'", "'10.0.0.1/24'" ] },
	cidr => { value => "set_masklen(inet '10.0.0.0' + (%s) * 256, 24)::cidr", extremes => [ "'::/0'", "'0.0.0.0/0'", "'10.0.0.0/8'", "'10.0.0.0/32'" ] },
	uuid => { value => "lpad(to_hex((%s) + 100000), 32, '0')::uuid", order => 1, extremes => ["'ffffffff-ffff-ffff-ffff-ffffffffffff'"] });

# The generator of random numbers, the only kinds of columns that tables have, and how many rows come at once.
my $r;
my $method; # of t's index
my @kinds;
my @lengths = (60, 300, 300, 300, 2000);

# Create the functions that compare.
sub make_functions
{
	my ($node) = @_;

	$node->safe_psql('postgres', <<'END');
CREATE DOMAIN word AS text COLLATE "C";
CREATE TYPE mood AS ENUM ('ok', 'fine', 'glad');
ALTER TYPE mood ADD VALUE 'meh' BEFORE 'ok';
ALTER TYPE mood ADD VALUE 'sad' BEFORE 'meh';
ALTER TYPE mood ADD VALUE 'so so' BEFORE 'fine';
ALTER TYPE mood ADD VALUE 'wild';

-- Run a query by a sequential scan and by plans over the index, in one snapshot, and raise an
-- error if the answers differ.  With types of parameters, these plans are generic.  Returns the kinds of plans
-- that used the index.
CREATE FUNCTION compared(query text, kinds text[], types text = '', arguments text = '') RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	kind text;
	statement text := format('SELECT (count(*), sum(hashtextextended(q::text, 0))) FROM (%s) q', query);
	plan json;
	wanted text;
	got text;
	used text := '';
BEGIN
	PERFORM set_config('plan_cache_mode', 'force_generic_plan', true);
	FOREACH kind IN ARRAY kinds LOOP
		PERFORM set_config('jit', 'off', true),
			set_config('enable_seqscan', (kind = 'seq')::text, true),
			set_config('enable_indexscan', (kind IN ('index', 'only', 'processes'))::text, true),
			set_config('enable_indexonlyscan', (kind IN ('only', 'lookup', 'processes'))::text, true),
			set_config('enable_bitmapscan', (kind = 'bitmap')::text, true),
			set_config('enable_hashjoin', (kind = 'seq')::text, true),
			set_config('enable_mergejoin', 'off', true),
			set_config('enable_nestloop', (kind NOT IN ('lookup', 'parallel'))::text, true),
			set_config('harmonia.enable_lookup_scan', (kind IN ('lookup', 'parallel'))::text, true),
			set_config('harmonia.enable_lookup_join', (kind IN ('lookup', 'parallel'))::text, true);
		IF kind IN ('parallel', 'processes') THEN
			PERFORM set_config('parallel_setup_cost', '0', true), set_config('parallel_tuple_cost', '0', true),
				set_config('min_parallel_table_scan_size', '0', true), set_config('min_parallel_index_scan_size', '0', true);
		END IF;
		PERFORM set_config('cpu_tuple_cost', CASE kind WHEN 'processes' THEN '1' ELSE '0.01' END, true);
		IF types <> '' THEN
			EXECUTE format('PREPARE generic (%s) AS %s', types, statement);
			EXECUTE format('EXPLAIN (FORMAT JSON) EXECUTE generic (%s)', arguments) INTO plan;
			EXECUTE format('EXECUTE generic (%s)', arguments) INTO got;
			DEALLOCATE generic;
		ELSE
			EXECUTE 'EXPLAIN (FORMAT JSON) ' || statement INTO plan;
			EXECUTE statement INTO got;
		END IF;
		IF (kind IN ('lookup', 'parallel') AND plan::text ~ 'HarmoniaLookup') OR (kind IN ('index', 'bitmap') AND plan::text ~ '"Index Name": "t_')
			OR (kind = 'only' AND plan::text ~ 'Index Only Scan') THEN
			used := used || kind || ' ';
			IF types <> '' THEN
				used := used || 'generic-' || kind || ' ';
			END IF;
			IF kind = 'parallel' AND plan::text ~ '"Workers Planned": [1-9]' THEN
				used := used || 'workers ';
			END IF;
		END IF;
		IF kind = 'processes' AND plan::text ~ '"Node Type": "Index (Only )?Scan",[^{}]*"Parallel Aware": true' THEN
			used := used || 'processes ';
		END IF;
		IF kind = 'lookup' AND plan::text ~ '"Index Only": true' THEN
			used := used || 'lookup-only ';
		END IF;
		IF kind = 'lookup' AND plan::text ~ 'HarmoniaLookup(Count|Aggregate)' THEN
			used := used || 'lookup-aggregate ';
		END IF;
		wanted := coalesce(wanted, got);
		IF got <> wanted THEN
			RAISE 'wrong answer' USING DETAIL = format('%s: %s, not %s, from %s%s%s', kind, got, wanted, query || ' ' || arguments, chr(10), plan);
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

# An SQL expression for a value of a column.  Marks around it say which type it has (literal() and generic()).
sub value
{
	my ($column, $number, $as) = @_;
	my $type = $types{ $column->{kind} };
	return 'NULL' if $r->chance(30);
	return marked($column->{type}, '(' . $r->pick(@{ $type->{extremes} }) . ")::$column->{type}") if $r->chance(40);
	my $value = sprintf $type->{value}, $number // $r->below($column->{width});
	return marked($as // $column->{type}, $as ? "($value)::$as" : $value);
}

sub marked { my ($type, $value) = @_; return "\x01$type\x02$value\x03"; }

# SQL with its values as they are.
sub literal
{
	my ($sql) = @_;

	$sql =~ s/\x01[^\x02]*\x02([^\x03]*)\x03/$1/g;
	return $sql;
}

# SQL with parameters in place of its values, the parameters' types, and the values.
sub generic
{
	my ($sql) = @_;
	my (@types, @values);

	$sql =~ s/\x01([^\x02]*)\x02([^\x03]*)\x03/push @types, $1; push @values, $2; '$' . @types/ge;
	return ($sql, join(', ', @types), join(', ', @values));
}

# A value that the column takes, as it may be NOT NULL.
sub stored_value
{
	my ($column) = @_;
	my $value = value($column);
	$value = value($column) while $column->{not_null} && $value eq 'NULL';
	return literal($value);
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
	my $often = $type->{order} ? 3 : 1;
	my @conditions = (
		9 => "$name = " . value($column, undef, $as),
		4 => "$name IN ($list)",
		2 => "$name = ANY (ARRAY[$list]::$column->{type}\[])",
		1 => "$name IS NULL",
		1 => "$name IS NOT NULL",
		1 => "($name = " . value($column) . " OR $name = " . value($column) . ')',
		1 => "$name = ANY (ARRAY(SELECT @{[sprintf $type->{value}, 'i']} FROM generate_series($low, $low + 300) i))",
		$often => "$name BETWEEN " . value($column, $low, $as) . ' AND ' . value($column, $low + $r->below(20)),
		$often => "$name " . $r->pick('<', '<=', '>', '>=') . ' ' . value($column, undef, $as));
	push @conditions, 1 => "$name " . $r->pick('<', '<=', '>', '>=') . " ANY (ARRAY[$list]::$column->{type}\[])" if $type->{order};
	if ($type->{prefix})
	{
		my $prefix = 'left(' . sprintf($type->{value}, $low) . '::text, ' . (4 + $r->below(20)) . ')';
		push @conditions, 2 => "$name LIKE ($prefix || '%')", 1 => "$name ^@ $prefix";
	}
	return $r->pick_weighted(@conditions);
}

# A condition on several columns at once.  They may be those of the table or of an alias of it.
sub row_condition
{
	my (@columns) = @_;
	my $row = '(' . join(', ', map { $_->{name} } @columns) . ')';
	my $values = sub { return '(' . join(', ', map { value($_) } @columns) . ')' };
	my $list = join ', ', map { $values->() } 0 .. $r->below(6);
	my $outer = '(SELECT ' . join(', ', map { "o.$_->{name}" =~ s/o\.t\./o./r } @columns) . ' FROM o WHERE n <= ' . $r->pick(2, 10, 100) . ')';

	return $r->pick_weighted(
		4 => "$row IN ($list)",
		1 => "$row NOT IN ($list)",
		2 => "$row " . $r->pick('<', '<=', '>', '>=') . ' ' . $values->(),
		1 => "$row > " . $values->() . " AND $row <= " . $values->(),
		2 => "$row IN $outer",
		1 => "$row NOT IN $outer");
}

# Some of the first columns, or of all columns in another order.
sub some_columns
{
	my (@columns) = @_;

	@columns = sort { $a->{name} cmp $b->{name} } @columns;
	@columns = (@columns[ 1 .. $#columns ], $columns[0]) if $r->chance(150);
	return @columns[ 0 .. $r->below(scalar @columns) ];
}

# Conditions that are joined by AND: mostly one on each of the first columns.
sub conditions
{
	my (@columns) = @_;
	my @list = map { condition($_) } grep { $r->chance(700) } @columns;

	push @list, row_condition(some_columns(@columns)) if $r->chance(150);
	push @list, condition($r->pick(@columns)) if $r->chance(200) || !@list;
	return join ' AND ', @list;
}

# Columns whose equal values look alike, for groups; those of them that have a minimum.
my %no_minimum = map { $_ => 1 } qw(bool "char" macaddr macaddr8 name cname bytea bit(12) varbit uuid);

sub groups { return grep { !$types{ $_->{kind} }{forms} } @_; }

# A query that adds up what a condition on the table finds.
sub aggregate
{
	my ($condition, @columns) = @_;
	my @groups = groups(@columns);
	my @minima = grep { !$no_minimum{ $_->{kind} } } @groups;
	my $list = join ', ', map { "t.$_->{name}" } some_columns(@groups ? @groups : $columns[0]);
	my $what = 'count(*) AS n, count(t.v) AS vs, sum(t.v) AS s';
	my $minima = join '', map { ", min(t.$_->{name}) AS low_$_->{name}, max(t.$_->{name}) AS high_$_->{name}" } $r->chance(500) ? @minima : ();

	return "SELECT count(*), sum(t.v)$minima FROM $condition" if !@groups || $r->chance(400);
	return "SELECT DISTINCT $list FROM $condition" if $r->chance(300);
	return "SELECT $list, $what FROM $condition GROUP BY $list";
}

# A query over the table, or a join with the table o, which has the same columns.
sub query
{
	my (@columns) = @_;
	my @named = map { { %$_, name => "t.$_->{name}" } } @columns;
	my $all = join ' AND ', map { "t.$_->{name} = o.$_->{name}" } @columns;
	my $linked = $r->below(scalar @columns);
	my $some = join ' AND ', map { $_ == $linked || $r->chance(600) ? "t.$columns[$_]{name} = o.$columns[$_]{name}" : condition($named[$_]) } 0 .. $#columns;
	my $arms = join ' OR ', map {
		'(' . join(' AND ', map { "$_->{name} = " . value($_) } @columns) . ')'
	} 0 .. 1 + $r->below(6);
	my $few = 'o.n <= ' . $r->pick(2, 10, 30, 1000);
	my $kept = $r->chance(150) ? row_condition(some_columns(@named)) : $r->chance(300) ? condition($r->pick(@named)) : 'true';

	my $list = join ', ', map { "t.$_->{name}" } grep { $r->chance(800) } @columns;
	$list = 't.c1' if $list eq '';

	# The first column alone: the index tells the others.
	my $last = $columns[-1]{name};
	my $any = $r->pick(@columns)->{name};
	my $totals = $r->pick("count(t.$last), sum(hashtext(t.$last\::text))", "count(*), count(t.$any), min(t.$any\::text)", 'count(*)', "count(t.$last)");
	my $first = "t.c1 = o.c1 AND o.n <= " . (1 + $r->below(40));
	my $group = sprintf($types{ $columns[-1]{kind} }{forms} // '%s', "t.$last");

	return $r->pick_weighted(
		3 => "SELECT $totals FROM o JOIN t ON $first",
		2 => "SELECT $totals FROM t WHERE c1 = ANY (ARRAY(SELECT c1 FROM o WHERE n <= 30))",
		2 => "SELECT o.n, t.$last FROM o " . $r->pick('', 'LEFT ') . "JOIN t ON $first",
		1 => "SELECT $group, $totals, sum(o.n) FROM o JOIN t ON $first GROUP BY $group",
		1 => "SELECT o.n FROM o WHERE " . $r->pick('', 'NOT ') . "EXISTS (SELECT FROM t WHERE $first AND t.$last IS NOT NULL)",
		4 => "SELECT $list FROM t WHERE " . conditions(@columns),
		2 => 'SELECT count(*) FROM t WHERE ' . conditions(@columns),
		3 => aggregate('t WHERE ' . conditions(@named), @columns),
		2 => "SELECT $list, o.n FROM o JOIN t ON $all WHERE $few",
		2 => "SELECT $list, o.n FROM o JOIN t ON $some WHERE $few AND $kept",
		1 => "SELECT $list, o.n FROM o LEFT JOIN t ON $some WHERE $few",
		1 => "SELECT count(*) FROM o JOIN t ON $some WHERE $few",
		2 => aggregate("o JOIN t ON $some WHERE $few", @columns),
		1 => "SELECT o.n, count(*), count(t.v), sum(t.v) FROM o LEFT JOIN t ON $some WHERE $few GROUP BY o.n",
		12 => 'SELECT * FROM t WHERE ' . conditions(@columns),
		4 => 'SELECT * FROM t WHERE ' . row_condition(some_columns(@columns)),
		3 => "SELECT * FROM t WHERE $arms",
		1 => "SELECT * FROM t WHERE ($arms) AND " . conditions(@columns),
		1 => 'SELECT * FROM t WHERE (' . conditions(@columns) . ') OR (' . conditions(@columns) . ')',
		4 => "SELECT t.*, o.n FROM o JOIN t ON $all WHERE $kept",
		4 => "SELECT t.*, o.n FROM o JOIN t ON $some WHERE $few AND $kept",
		2 => "SELECT t.id, o.n FROM o LEFT JOIN t ON $some WHERE $few",
		2 => "SELECT t.* FROM t WHERE EXISTS (SELECT FROM o WHERE $some AND $few) AND $kept",
		2 => "SELECT o.* FROM o WHERE EXISTS (SELECT FROM t WHERE $some)",
		2 => "SELECT o.* FROM o WHERE NOT EXISTS (SELECT FROM t WHERE " . $r->pick($all, $some) . ')');
}

# A query that wants rows in an order: mostly one that the index has, and of its columns alone, so that
# rows that are equal in that order are equal.
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
	my $list = join ', ', map { sprintf($types{ $_->{kind} }{forms} // '%s', "t.$_->{name}") . " AS $_->{name}" } @by;
	my @named = map { { %$_, name => "t.$_->{name}" } } @columns;
	my $all = join ' AND ', map { "t.$_->{name} = o.$_->{name}" } @keys;
	my $from = $r->pick_weighted(
		3 => 't',
		6 => 't WHERE ' . conditions(@named),
		2 => 't WHERE ' . join(' AND ', map { "t.$_->{name} = " . value($_) } @keys[ 0 .. $first ]),
		2 => 't WHERE ' . row_condition(some_columns(@named)),
		1 => 't WHERE ' . join(' AND ', map { "t.$_->{name} IS NOT NULL" } @keys),
		1 => "t LEFT JOIN o ON $all WHERE " . condition($r->pick(@named)),
		1 => "o LEFT JOIN t ON $all AND " . condition($r->pick(@named)),
		1 => "t WHERE EXISTS (SELECT FROM o WHERE $all)",
		1 => "o JOIN t ON $all");

	return "SELECT $list FROM $from ORDER BY " . join(', ', @order) . $r->pick('', '', ' LIMIT 10', ' LIMIT 100', ' OFFSET 30 LIMIT 200');
}

# The bits of the keys of types that are exact.
my %bits = (
	bool => 1, '"char"' => 8, int2 => 16, int4 => 32, oid => 32, date => 32, float4 => 32, macaddr => 48,
	map { $_ => 64 } qw(int8 wide money time timetz timestamp timestamptz float8 macaddr8));

# The types of an index's columns: any, or narrow ones, or those that have room in a key together, with NULLs or without.
# Some have keys of 128 bits that leave none for NULL, or that only an index on one column has.
my @pairs = grep { $bits{$_} == 64 } sort keys %bits;
my @singles = qw(word path cname uuid);

sub kinds_of_columns
{
	if (!@kinds && $r->chance(200))
	{
		return $r->chance(500) ? $r->pick(@singles) : ($r->pick(@pairs), $r->pick(@pairs));
	}

	my $how = $r->pick_weighted(3 => 'any', 1 => 'narrow', 4 => 'exact');
	my $count = @kinds ? 2 + $r->below(3) : $r->pick(1, 2, 2, 3, 3, 4, 4, 5, 6, 7, 8);
	my $room = $r->pick(128, 128 - $count);
	my @of = @kinds ? @kinds : $how eq 'any' ? keys %types : $how eq 'narrow' ? ('bool', '"char"', 'date', 'int2', 'int4', 'oid') : keys %bits;
	my @list;

	while (@list < $count)
	{
		push @list, $r->pick(sort @of);
		next if @kinds || $how ne 'exact';
		$room -= $bits{ $list[-1] };
		@of = grep { $bits{$_} <= $room } @of;
		last if !@of;
	}
	return @list;
}

# How many of the last columns the index includes.
sub included
{
	my (@columns) = @_;
	my $bits = 0;
	my $most = 0;

	$bits += $bits{ $_->{kind} } // 64 foreach @columns;
	for my $column (reverse @columns[ 1 .. $#columns ])
	{
		last if !$types{ $column->{kind} }{order} || $column->{kind} =~ /float|uuid|mac|timetz/;
		$most++;
	}
	return $bits <= 128 && $r->chance(500) ? $r->below($most + 1) : 0;
}

# SQL that creates both tables, with rows, the index's key columns, and all columns.
sub make_tables
{
	my $column = 0;
	my @columns = map {
		{ name => 'c' . ++$column, kind => $_, type => $types{$_}{type} // $_, width => $r->pick(3, 20, 300, 20_000), not_null => $r->chance(500) }
	} kinds_of_columns();
	my $names = join ', ', map { $_->{name} } @columns;
	my $list = join ', ', map { "$_->{name} " . ($types{ $_->{kind} }{wider} && $r->chance(200) ? $types{ $_->{kind} }{wider} : $_->{type}) } @columns;
	my $checked = join ', ', map { declared($_) } @columns;
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
	my $index = join ', ', map { $_->{name} . ($method eq 'btree' ? '' : $types{ $_->{kind} }{class} // '') . ($_->{descending} ? ' DESC' : ' ASC') . ' NULLS ' . ($_->{nulls_first} ? 'FIRST' : 'LAST') } @keys;
	my $options = $included == 0 ? '' : ' INCLUDE (' . join(', ', map { $_->{name} } @columns[ @columns - $included .. $#columns ]) . ')';
	my $storage = $r->pick('', '', ' WITH (fillfactor = 50)', ' WITH (fanout = 8)');
	$options .= $storage unless $method eq 'btree' && $storage =~ /fanout/;
	$options .= ' WHERE ' . $r->pick(@columns)->{name} . ' IS NOT NULL' if $r->chance(120);
	my ($by, $partitions) = $r->chance(300) ? partitions(@columns) : ('', '');
	my $make_index = "CREATE INDEX t_c ON t USING $method ($index)$options;";
	my $children = $by eq '' && $r->chance(100)
	  ? "CREATE TABLE t_kid (extra int) INHERITS (t); CREATE INDEX t_kid_c ON t_kid USING $method ($index)$options;"
	  . "INSERT INTO t_kid ($names, v) SELECT $names, v FROM t WHERE id % 3 = 0; ALTER TABLE t_kid DROP COLUMN extra;"
	  : '';

	return (
		"DROP TABLE IF EXISTS t, o CASCADE; CREATE TABLE t (id bigserial, $checked, v int) $by; $partitions CREATE TABLE o (n serial, $list);"
		  . ($r->chance(500) ? $make_index . rows(@columns) : rows(@columns) . $make_index) . $children
		  . "INSERT INTO o ($names) SELECT $names FROM t WHERE id % 20 = 0 LIMIT 60; INSERT INTO o ($names) VALUES "
		  . literal(join(', ', map { '(' . join(', ', map { value($_) } @columns) . ')' } 1 .. 20)) . '; ' . $r->pick('', 'VACUUM t;') . ' ANALYZE t, o;',
		\@keys, @columns);
}

sub declared { my ($column) = @_; return "$column->{name} $column->{type}" . ($column->{not_null} ? ' NOT NULL' : ''); }

# How the table is partitioned, by one or two of its columns, and SQL that creates the partitions.  Some are
# tables with their columns in another order before.
sub partitions
{
	my (@columns) = @_;
	my $column = $r->pick(@columns);
	my @hashed = grep { !$types{ $_->{kind} }{no_hash} } @columns;

	if ($r->chance(400) || !@hashed)
	{
		my $bound = 'NULL';
		$bound = value($column) while $bound eq 'NULL';
		return ("PARTITION BY RANGE ($column->{name})", partition('low', 'FOR VALUES FROM (MINVALUE) TO (' . literal($bound) . ')', @columns)
			  . partition('rest', 'DEFAULT', @columns));
	}
	my $by = join ', ', map { $_->{name} } @hashed > 1 && $r->chance(300) ? @hashed[ 1, 0 ] : $r->pick(@hashed);
	return ("PARTITION BY HASH ($by)", join '', map { partition($_, "FOR VALUES WITH (MODULUS 3, REMAINDER $_)", @columns) } 0 .. 2);
}

sub partition
{
	my ($name, $values, @columns) = @_;

	return "CREATE TABLE t_$name PARTITION OF t $values;" if $r->chance(600);
	return "CREATE TABLE t_$name (gone int, v int, " . join(', ', map { declared($_) } reverse @columns) . ', id bigint NOT NULL);'
	  . "ALTER TABLE t_$name DROP COLUMN gone; ALTER TABLE t ATTACH PARTITION t_$name $values;";
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

	return "INSERT INTO t ($names, v) SELECT " . join(', ', @values) . ", i % 100 FROM generate_series($first, $first + " . $r->pick(@lengths) . ') i;'
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
		literal('DELETE FROM t WHERE ' . conditions(@columns) . ';'),
		'REINDEX INDEX t_c;', 'VACUUM t;');
}

# SQL that runs a query, and how many statements that is.
sub comparison
{
	my ($keys, @columns) = @_;

	return ('SELECT compared_order($query$' . literal(ordered_query($keys, @columns)) . "\$query\$);\n", 4) if $r->chance(300);

	my ($query, $types, $arguments) = (query(@columns), '', '');
	my @plans = ('seq', 'index', 'only', 'bitmap', 'lookup', $r->chance(30) ? 'parallel' : (), $r->chance(60) ? 'processes' : ());

	if ($r->chance(250)) { ($query, $types, $arguments) = generic($query); }
	else { $query = literal($query); }
	return ('SELECT compared($query$' . $query . "\$query\$, '{" . join(',', @plans) . "}', \$query\$$types\$query\$, \$query\$$arguments\$query\$);\n", scalar @plans);
}

# Compare random queries: size has the number of tables, of rounds of changes for each, and of queries
# for each round.  It may have "kinds", a list of the only types, "first", another list for the first table, "method", that of the
# index, and "replica", a server that the queries are sent to.
# Returns how many queries were run, the first problem, or '', and how often the index was used in which way; "wide" is the
# number of queries of indexes whose keys have 128 bits, "statements" that of statements, one for each plan.
sub compare_columns_at_random
{
	my ($node, $seed, %size) = @_;
	my ($compared, %used) = (0);
	my $reader = $size{replica} // $node;
	my $indexes = "pg_class WHERE relkind = 'i' AND relam = (SELECT oid FROM pg_am WHERE amname = 'harmonia')";

	$r = HarmoniaRandom->new($seed);
	$method = $size{method} // 'harmonia';
	make_functions($node);
	for my $table (1 .. $size{tables})
	{
		@kinds = @{ ($table == 1 ? $size{first} : undef) // $size{kinds} // [] };
		my ($sql, $keys, @columns) = make_tables();
		$node->safe_psql('postgres', $sql);
		for (1 .. $size{rounds})
		{
			$node->safe_psql('postgres', join '', map { change(@columns) . "\n" } 1 .. 2);
			$node->wait_for_catchup($reader) if $reader != $node;

			my $queries = '';
			for (1 .. $size{queries})
			{
				my ($query, $statements) = comparison($keys, @columns);
				$queries .= $query;
				$used{statements} += $statements;
			}
			my ($result, $out, $err) = $reader->psql('postgres', $queries
				  . "SELECT harmonia_check(oid, true) FROM $indexes;\n"
				  . "SELECT 'wide' FROM (SELECT max(key_bits) AS bits FROM (SELECT oid FROM $indexes) i, harmonia_metapage(i.oid)) m WHERE bits = 128;\n");

			return ($compared, "table $table, $sql\n" . ($err || "psql returned $result"), %used) if $result != 0 || $err ne '';
			my @words = map { split } split /\n/, $out;
			$used{$_} += $_ eq 'wide' ? $size{queries} : 1 for @words;
			$compared += $size{queries};
		}
	}
	return ($compared, '', %used);
}

1;
