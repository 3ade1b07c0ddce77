# Random queries for lookup nodes.  Each is run by several plans in one snapshot, and the
# answers are compared, while other sessions change and vacuum the table.
#
# The same seed gives the same tables and queries.
package HarmoniaLookups;

use strict;
use warnings;

use Exporter 'import';
use Harmonia;
use HarmoniaRandom;

our @EXPORT = qw(compare_lookups_at_random make_lookup_functions lookup_tables lookup_queries lookup_script);

# For each type, how to make a key from an integer; and families of types that can be
# compared with each other.  Of numeric and bpchar, equal values have several images.
my %keys = (
	int2 => '((%s) %% 30000)::int2',
	int4 => '(%s)::int4',
	int8 => '(%s)::int8',
	date => "date '2000-01-01' + ((%s) / 4)::int4",
	timestamp => "timestamp '2000-01-01' + (%s) * interval '6 hours'",
	timestamptz => "timestamptz '2000-01-01 00:00+00' + (%s) * interval '6 hours'",
	float4 => '(trunc((%s) / 2.0::float8) / 2 + 0)::float4',
	float8 => '(trunc((%s) / 2.0::float8) / 2 + 0)',
	text => "lpad(((%s) + 100000)::text, 8, '0')",
	word => q{(lpad((((%1$s) + 100000) / 16)::text, 8, '0') || ', and so on, ' || lpad((((%1$s) + 100000) %% 16)::text, 2, '0'))::word},
	uuid => q{(lpad(to_hex(((%1$s) + 100000) / 64), 16, '0') || lpad(to_hex(((%1$s) + 100000) %% 3000), 16, '0'))::uuid},
	numeric => 'round(div(%1$s, 4) / 2.0, (abs(%1$s) %% 4 + 1)::int4)',
	bpchar => q{rpad(lpad((((%1$s) + 100000) / 4)::text, 8, '0'), (9 + abs(%1$s) %% 3)::int4)::bpchar},
	mood => '(enum_range(NULL::mood))[abs(%s) %% 30 + 1]',
	interval => "(%s) * interval '6 hours'",
	inet => "inet '10.0.0.0' + (%s)::int8",
	jsonb => "jsonb_build_object('k', (%1\$s)::int8)",
	int4range => 'int4range((%1$s)::int4, (%1$s)::int4 + 3)',
	pair => '((%1$s) / 10, (%1$s)::text)::pair',
	citext => q{(CASE WHEN (%1$s) %% 3 = 0 THEN 'Key ' ELSE 'kEy ' END || lpad((((%1$s) + 100000) / 2)::text, 8, '0'))::citext},
	caseless => q{(CASE WHEN (%1$s) %% 3 = 0 THEN 'Key ' ELSE 'kEy ' END || lpad((((%1$s) + 100000) / 2)::text, 8, '0'))::caseless});
my @families = ([qw(int2 int4 int8)], [qw(date timestamp timestamptz)], [qw(float4 float8)], [qw(uuid)], [qw(word)]);
# Types whose keys are not exact, and have no order.  A word is a text whose index has keys for ranges.
my @equality_families = ([qw(text)], [qw(numeric)], [qw(interval)], [qw(inet)], [qw(bpchar)], [qw(mood)]);
# Types that only btrees have.  The server may lack the last two.
my @btree_families = ([qw(jsonb)], [qw(int4range)], [qw(pair)], [qw(citext)], [qw(caseless)]);
my %extremes = (
	int2 => '-32768', int4 => '2147483647', int8 => '-9223372036854775808', date => 'infinity', timestamp => '-infinity',
	timestamptz => 'infinity', float4 => 'NaN', float8 => '-Infinity',
	text => '', word => '', uuid => 'ffffffff-ffff-ffff-ffff-ffffffffffff', numeric => 'NaN', interval => '178000000 years', inet => '::1/64',
	bpchar => '', mood => 'first',
	jsonb => 'null', int4range => 'empty', pair => '(,)', citext => '', caseless => '');
my %no_max = map { $_ => 1 } qw(uuid jsonb int4range pair);
my %setup = (
	pair => 'DROP TYPE IF EXISTS pair; CREATE TYPE pair AS (a int8, b text);',
	citext => 'CREATE EXTENSION IF NOT EXISTS citext;',
	caseless => "DROP DOMAIN IF EXISTS caseless; CREATE COLLATION IF NOT EXISTS folded (provider = icu, locale = 'und-u-ks-level2', deterministic = false); "
	  . 'CREATE DOMAIN caseless AS text COLLATE folded;');

# ----------------------------------------------------------------
# Queries
# ----------------------------------------------------------------

sub key
{
	my ($r, $type, $number) = @_;
	return "NULL::$type" if $r->chance(20);
	return "'$extremes{$type}'::$type" if $r->chance(20);
	return sprintf $keys{$type}, $number // $r->{look_width} - $r->below(2 * $r->{look_width});
}

# A type that can be compared with t's key.
sub other_type { my ($r) = @_; return $r->chance(600) ? $r->{t_type} : $r->pick(@{ $r->{family} }); }

# A condition on t's key that names other tables only in sub-queries.
sub key_condition
{
	my ($r, $k) = @_;
	my $v = $k =~ s/k$/v/r;
	my $type = other_type($r);
	my $low = $r->below($r->{look_width});
	my $list = join ', ', map { key($r, $type, $r->chance(500) ? $r->below($r->{look_width}) : undef) } 0 .. $r->below(6);
	my $series = sprintf "ARRAY(SELECT %s FROM generate_series(%d, %d, %d) i)", sprintf($keys{$type}, 'i'), $low, $low + 1 + $r->below(3000), 1 + $r->below(3);
	my $mixed = "ARRAY(SELECT k FROM o, generate_series(1, 3) j WHERE v % 7 = " . $r->below(7) . ' ORDER BY hashint4(n + j))';
	my $range = sprintf '%s %s %s AND %s %s %s', $k, $r->pick('>', '>='), key($r, $type, $low), $k, $r->pick('<', '<='), key($r, $type, $low + $r->below(50));

	return $r->pick(
		"$k IN ($list)", "$k = ANY (ARRAY[$list])", "$k = ANY ($series)", "$k = ANY ($series) AND $range", "$k = ANY ($mixed)", "($k IN ($list) OR $k = " . key($r, $type) . ')',
		"$k = ANY (ARRAY(SELECT k FROM o WHERE n < " . $r->below(1000) . '))', "$k = ANY ($series) AND $k = ANY (ARRAY(SELECT high FROM o))",
		"$k = ANY ((SELECT array_agg(k) FROM o WHERE n < " . $r->below(1000) . ")::$r->{o_type}\[])", "(($k IN ($list) AND $v > 30) OR ($k = ANY ($series) AND $v < 9))")
	  if $r->{equality};
	return $r->pick(
		"$k IN ($list)", "$k = ANY (ARRAY[$list])", "$k = ANY ($series)", "$k = ANY ($series)", "$k = ANY ($mixed)",
		"($range OR $k IN ($list))", "($k < " . key($r, $type, 5) . " OR $range)", "($range OR $range OR $k = " . key($r, $type) . ')',
		"$k = ANY (ARRAY(SELECT k FROM o WHERE n < " . $r->below(1000) . '))',
		"$k = ANY ((SELECT array_agg(k) FROM o WHERE n < " . $r->below(1000) . ")::$r->{o_type}\[])", "$k = ANY ($series) AND $range", "$k <= ANY (ARRAY[$list])",
		"(($k IN ($list) AND $v > 30) OR $range)");
}

sub columns
{
	my ($r, @columns) = @_;
	return $r->pick('count(*)', @columns, join(', ', @columns));
}

# A restriction of t by a column that it can be partitioned by.  Its value is a parameter, or
# another part of the plan computes it.
sub restriction
{
	my ($r) = @_;
	my $compares = $r->pick('<', '<=', '=', '>=', '>');
	my $max = $no_max{ $r->{t_type} } ? "max(k::text)::$r->{t_type}" : 'max(k)';
	return $r->pick(
		"t.id $compares \$1", 't.id BETWEEN $1 AND $1 + 700', "t.k $compares \$2", "t.k $compares \$2", '(t.k < $2 OR t.id = $1)', 't.k IN ($2, $3)',
		"t.id $compares (SELECT \$1 + count(*) FROM o WHERE v < 10)", "t.k $compares (SELECT $max FROM o WHERE n < \$1)");
}

sub scan_query
{
	my ($r) = @_;
	my $more = $r->pick('', '', ' AND v % 3 = 0', ' AND id > 2000', ' AND k IS NOT NULL', ' AND v = ' . $r->below(100), ' AND ' . restriction($r));
	return 'SELECT ' . columns($r, 't.k', 't.k', 't.id', 't.v', 't', 't.ctid') . ' FROM t WHERE ' . key_condition($r, 'k') . $more;
}

# A join condition for t and o.
sub join_condition
{
	my ($r, $t, $o) = @_;
	return $r->pick("($t.k = $o.k OR $t.k = $o.high)", "$t.k IN ($o.high, $o.k, $o.k)", "$t.k = ANY (ARRAY[$o.k, NULL, $o.high])", "($o.high = $t.k OR $t.k = $o.k) AND $t.v > $o.v")
	  if $r->chance($r->{equality} ? 20 : 100);
	return $r->pick("$t.k = $o.k", "$t.k = $o.k", "$o.k = $t.k AND $t.v > $o.v", "$t.k = $o.high AND $t.k >= $o.k", "$t.k = $o.k AND $o.n % 2 = 0",
		"$t.k = $o.k AND $t.k = $o.high", "$t.k = CASE WHEN $o.n % 2 = 0 THEN $o.k ELSE $o.high END")
	  if $r->{equality};
	return $r->pick("$t.k = $o.k", "$t.k = $o.k", "$t.k = $o.k", "$o.k = $t.k AND $t.v > $o.v", "$t.k BETWEEN $o.k AND $o.high", "$t.k > $o.k AND $t.k < $o.high",
		"$o.k <= $t.k AND $o.high > $t.k AND $t.id % 4 > 0", "$t.k = $o.high AND $t.k >= $o.k", "$t.k = $o.k AND $o.n % 2 = 0");
}

sub join_query
{
	my ($r) = @_;
	my $on = join_condition($r, 't', 'o');
	my $where = $r->pick('true', 'true', 'o.n < ' . $r->below(700), 'o.v % 2 = 0');
	my $inner = $r->pick('', '', ' AND t.v > 20', ' AND t.v = o.v', ' AND t.v = 7', ' AND t.id % 5 <> o.n % 5', ' AND ' . restriction($r), ' AND ' . restriction($r));
	my $both = columns($r, 'o.n', 't.k', 't.k', 't.id', 't.v + o.v', 'o');
	my $outer = columns($r, 'o.n', 'o.k', 'o.v', 'o.ctid');
	my $few = 'o.n < ' . $r->below(40);

	return $r->pick_weighted(
		6 => "SELECT $both FROM o JOIN t ON $on$inner WHERE $where",
		6 => "SELECT $both FROM o LEFT JOIN t ON $on$inner WHERE $where",
		2 => "SELECT $both FROM o LEFT JOIN t ON $on WHERE $where AND (t.id IS NULL OR " . $r->pick('t.v < 50', restriction($r)) . ')',
		6 => "SELECT $outer FROM o WHERE $where AND EXISTS (SELECT FROM t WHERE $on$inner)",
		6 => "SELECT $outer FROM o WHERE $where AND NOT EXISTS (SELECT FROM t WHERE $on$inner)",
		2 => "SELECT $outer FROM o WHERE $where AND o.k IN (SELECT k FROM t WHERE v < 80)",
		3 => 'SELECT ' . columns($r, 't.k', 't.id') . " FROM t WHERE t.k IN (SELECT k FROM o WHERE $where)",
		2 => 'SELECT ' . columns($r, 'd.k', 't.k', 't.id') . " FROM (SELECT DISTINCT k FROM o WHERE $where) d JOIN t ON t.k = d.k",
		2 => "SELECT $outer FROM o WHERE $where AND o.k IS NOT NULL AND o.k NOT IN (SELECT k FROM t WHERE k IS NOT NULL AND v < 50)",
		2 => "SELECT o.n, s.* FROM o, LATERAL (SELECT count(*), sum(t.id) FROM t WHERE t.k = ANY (ARRAY[o.k, o.high])) s WHERE $few",
		2 => "SELECT x.n, s.* FROM o x, LATERAL (SELECT count(*), sum(t.id) FROM t WHERE t.k = ANY (ARRAY(SELECT o.k FROM o WHERE o.v = x.v))) s WHERE x.n < " . $r->below(15),
		2 => "SELECT x.n, s.* FROM o x, LATERAL (SELECT count(t.id), sum(o.n) FROM o LEFT JOIN t ON $on AND " . $r->pick('t.id > x.n', 't.id < x.n * 200', 't.k >= x.k', 't.k = x.k') . ' WHERE o.v = x.v) s WHERE x.n < ' . $r->below(15),
		2 => 'SELECT o.n, t.id, u.id FROM o JOIN t ON t.k = o.k ' . $r->pick('', 'LEFT ') . "JOIN t u ON u.k = o.high WHERE $where",
		1 => 'SELECT t.id, u.id FROM t JOIN t u ON u.k = t.k WHERE t.id % 7 = 0 AND ' . key_condition($r, 't.k'));
}

# Sub-selects in expressions: of d by its primary key, and of t, whose key may be unique.
sub subselect
{
	my ($r) = @_;
	my $id = $r->pick('o.n', 'o.n', 'o.v', 'o.n + 0', 'o.v * 3');
	my $more = $r->pick('', '', ' AND d.v > 20', ' AND d.v <> o.v', ' AND d.k = o.k');
	return $r->pick_weighted(
		4 => "(SELECT d.v FROM d WHERE d.id = $id$more)",
		2 => "(SELECT coalesce(d.v, -1) FROM d WHERE d.id = $id$more)",
		6 => "EXISTS (SELECT FROM d WHERE d.id = $id$more)",
		1 => "NOT EXISTS (SELECT FROM d WHERE d.id = $id$more)",
		3 => "$id IN (SELECT d.id FROM d" . $r->pick('', ' WHERE d.v < 70') . ')',
		1 => "$id NOT IN (SELECT d.id FROM d WHERE d.v < 70)",
		3 => 'EXISTS (SELECT FROM t WHERE t.k = o.k' . $r->pick('', ' AND t.v > 30') . ')',
		2 => 'o.k IN (SELECT t.k FROM t' . $r->pick('', ' WHERE t.v > 30') . ')',
		$r->{unique} ? (4 => '(SELECT t.v FROM t WHERE t.k = o.k' . $r->pick('', ' AND t.v > 30') . ')') : ());
}

# The same as a condition.
sub subselect_condition
{
	my ($r) = @_;
	my $condition = subselect($r);
	return $condition =~ /^\(/ ? "$condition > 40" : $condition;
}

sub subselect_query
{
	my ($r) = @_;
	my $plain = $r->pick('o.v = 7', 'o.v < 10', 'o.n % 3 = 0', 'o.k IS NULL', 'o.v > 45 AND o.n < 500');
	my @conditions = (subselect_condition($r), subselect_condition($r));
	my $or = $r->pick(
		"$plain OR $conditions[0]", "$conditions[0] OR $plain", "o.v <> 5 AND ($plain OR $conditions[0])", "$conditions[0] OR $conditions[1]", "$plain OR NOT ($conditions[0])",
		"($plain AND $conditions[0]) OR $conditions[1]", "($conditions[0]) IS NULL", "CASE WHEN $plain THEN $conditions[0] WHEN o.v = 2 THEN $conditions[1] END", $conditions[0]);
	my $from = $r->pick('o', 'o', 'o', 'o LEFT JOIN d e ON e.id = o.v + 5');

	return $r->pick(
		"SELECT o.n FROM o WHERE EXISTS (SELECT FROM d JOIN t ON t.k = d.k WHERE d.id = o.n" . $r->pick('', ' AND d.v > 20', ' AND t.v > o.v') . ')',
		"SELECT o.n FROM $from WHERE $or", "SELECT count(*) FROM $from WHERE $or", "SELECT o.n, " . subselect($r) . " AS a FROM $from", "SELECT o.n, " . subselect($r) . ' AS a, ' . subselect($r) . " AS b FROM $from WHERE $or",
		"SELECT o.n, CASE WHEN $or THEN 1 ELSE 2 END AS a FROM $from", "SELECT o.v, count(*) FILTER (WHERE $or) FROM $from GROUP BY o.v",
		"SELECT ($or) AS a, count(*) FROM $from GROUP BY 1", 'SELECT o.n, t.id FROM o LEFT JOIN t ON ' . join_condition($r, 't', 'o') . " WHERE $or",
		"SELECT x.n, (SELECT count(*) FROM o WHERE o.v = x.v AND ($or)) FROM o x WHERE x.n < 12", "SELECT o.n, row_number() OVER (ORDER BY ($or), o.n) FROM $from");
}

# Joins whose rows are wanted in the order of the outer side.  What is compared has a total order.
sub ordered_query
{
	my ($r) = @_;
	my $on = join_condition($r, 't', 'o') . $r->pick('', '', ' AND t.v > 20', ' AND ' . restriction($r));
	my $join = 'o ' . $r->pick('', 'LEFT ') . "JOIN t ON $on WHERE " . $r->pick('true', 'true', 'o.n > 200', 'o.v % 2 = 0');
	my $exists = $r->pick('', 'NOT ') . "EXISTS (SELECT FROM t WHERE $on)";
	my $limit = 'LIMIT ' . (1 + $r->below($r->pick(5, 300, 3000))) . $r->pick('', '', ' OFFSET ' . $r->below(50));
	my $order = $r->pick('o.n, t.id', 'o.n, t.id', 'o.n DESC, t.id', 'o.n, t.v, t.id');

	return $r->pick(
		"SELECT o.n, t.id FROM $join ORDER BY $order $limit", "SELECT o.n, t.id, o.k, t.v FROM $join ORDER BY $order $limit",
		"SELECT o.n, t.id, row_number() OVER (ORDER BY o.n, t.id) FROM $join", "SELECT DISTINCT ON (o.n) o.n, t.id, t.v FROM $join ORDER BY o.n, t.id DESC",
		"SELECT o.n, count(*), max(t.id) FROM $join GROUP BY o.n ORDER BY o.n $limit", "SELECT o.n, o.v FROM o WHERE $exists ORDER BY o.n $limit",
		"SELECT o.n, sum(o.v) OVER (ORDER BY o.n) FROM o WHERE $exists", "SELECT s.n, s.id, p.v FROM (SELECT o.n, t.id FROM $join) s JOIN o p ON p.n = s.n",
		"SELECT x.n, s.* FROM o x, LATERAL (SELECT o.n AS m, t.id FROM $join AND o.n > x.n AND o.n < x.n + 40 ORDER BY o.n, t.id LIMIT 3) s WHERE x.n < 5");
}

# Statements that change or lock rows of o: those whose effect does not depend on which match is first.
sub change
{
	my ($r) = @_;
	my $on = join_condition($r, 't', 'o') . $r->pick('', '', ' AND t.v > 20');
	my $returning = 'RETURNING ' . $r->pick('o.n', 'o.n, o.v', 'o.*');
	my $keys = "(SELECT k, min(id) AS id FROM t GROUP BY k) s";

	return $r->pick(
		"UPDATE o SET v = o.v + 1 FROM t WHERE $on $returning", "UPDATE o SET k = o.high FROM t WHERE $on $returning", "DELETE FROM o USING t WHERE $on $returning",
		"DELETE FROM o WHERE o.k IN (SELECT k FROM t WHERE v < 80) $returning", "DELETE FROM o WHERE " . $r->pick('', 'NOT ') . "EXISTS (SELECT FROM t WHERE $on) $returning",
		"UPDATE o SET v = s.id FROM $keys WHERE o.k = s.k $returning", "UPDATE o SET v = coalesce(s.v, -1) FROM o p LEFT JOIN (SELECT DISTINCT ON (id) id, v FROM t) s ON s.id = p.n WHERE p.n = o.n $returning",
		"SELECT o.n, t.id FROM o JOIN t ON $on FOR UPDATE OF o", "SELECT o.n, t.id FROM o LEFT JOIN t ON $on FOR SHARE OF o");
}

# One aggregate of t's and o's columns.
sub aggregate
{
	my ($r) = @_;
	my $aggregate = $r->pick(
		'count(*)', 'count(t.v)', 'count(o.k)', 'count(o)', 'sum(t.v)', 'sum(t.id)', 'avg(o.v)', 'avg(t.id)', 'min(t.k)',
		'max(t.k)', 'min(o.k)', 'max(o.high)', 'bool_and(t.v > 1)', 'bool_or(o.v > 48)', 'sum(t.v - o.v)', 'sum(t.id * 10000000000000)', 'avg(t.id * -10000000000000)',
		'count(DISTINCT t.v)');
	$aggregate =~ s/^(?:min|max)\((.*)\)$/min($1::text)/ if $no_max{ $r->{t_type} };
	return $aggregate . $r->pick('', '', '', ' FILTER (WHERE t.v % 3 = 0)', ' FILTER (WHERE o.v > 20)', ' FILTER (WHERE t.k > o.k)', ' FILTER (WHERE t.id < $1)');
}

# Aggregates of a join, or of a scan.
sub aggregate_query
{
	my ($r) = @_;
	my $group = $r->pick('', '', 'o.v', 't.v', 'o.n', 't.k', 'o.v, t.v', 'o.v % 2 = 0', 't.id % 5, o.v');
	my $aggregates = join ', ', map { aggregate($r) } 0 .. $r->below(4);
	my $from = $r->chance(250)
	  ? '(SELECT k, v, id, v AS n, k AS high FROM t WHERE ' . key_condition($r, 'k') . ') t, LATERAL (SELECT t.k, t.v, t.n, t.high) o WHERE true'
	  : 'o ' . $r->pick('', '', 'LEFT ') . 'JOIN t ON ' . join_condition($r, 't', 'o') . ' WHERE ' . $r->pick('true', 'o.v > 10', 'o.n < 0', 'o.n < ' . $r->below(700));

	return 'SELECT ' . ($group eq '' ? $aggregates : "$group, $aggregates") . " FROM $from" . ($group eq '' ? '' : " GROUP BY $group")
	  . $r->pick('', '', '', ' HAVING count(*) > 2', ' HAVING min(t.v) < 10');
}

# ----------------------------------------------------------------
# Tables
# ----------------------------------------------------------------

# SQL that creates t: as one table, or partitioned by its key or another column.  Some
# partitions have their columns in another order, or partitions of their own.
sub make_t
{
	my ($r, $width) = @_;
	my $columns = "id bigserial, k $r->{t_type}, v int";
	my $quiet = 'WITH (autovacuum_enabled = off)';
	return "CREATE TABLE t ($columns) $quiet;" if $r->{t_type} eq 'mood';
	my ($first, $second, $third) = map { sprintf $keys{ $r->{t_type} }, int($width * $_ / 10) } 1, 5, 8;

	return $r->pick_weighted(
		5 => "CREATE TABLE t ($columns) $quiet;",
		3 => <<"END",
CREATE TABLE t ($columns) PARTITION BY RANGE (k);
CREATE TABLE t_1 PARTITION OF t FOR VALUES FROM (MINVALUE) TO ($first) $quiet;
CREATE TABLE t_2 (gone int, v int, k $r->{t_type}, id bigint NOT NULL) $quiet;
ALTER TABLE t_2 DROP gone;
ALTER TABLE t ATTACH PARTITION t_2 FOR VALUES FROM ($first) TO ($second);
CREATE TABLE t_3 PARTITION OF t FOR VALUES FROM ($second) TO ($third) PARTITION BY HASH (id);
CREATE TABLE t_3_0 PARTITION OF t_3 FOR VALUES WITH (MODULUS 2, REMAINDER 0) $quiet;
CREATE TABLE t_3_1 PARTITION OF t_3 FOR VALUES WITH (MODULUS 2, REMAINDER 1) $quiet;
CREATE TABLE t_rest PARTITION OF t DEFAULT $quiet;
END
		2 => <<"END",
CREATE TABLE t ($columns) PARTITION BY HASH (k);
CREATE TABLE t_0 PARTITION OF t FOR VALUES WITH (MODULUS 2, REMAINDER 0) $quiet;
CREATE TABLE t_1 PARTITION OF t FOR VALUES WITH (MODULUS 4, REMAINDER 1) $quiet;
CREATE TABLE t_3 PARTITION OF t FOR VALUES WITH (MODULUS 4, REMAINDER 3) $quiet;
END
		2 => <<"END");
CREATE TABLE t ($columns) PARTITION BY RANGE (id);
CREATE TABLE t_1 PARTITION OF t FOR VALUES FROM (1) TO (1500) $quiet;
CREATE TABLE t_2 (k $r->{t_type}, v int, id bigint NOT NULL) $quiet;
ALTER TABLE t ATTACH PARTITION t_2 FOR VALUES FROM (1500) TO (MAXVALUE);
END
}

# SQL that creates the index: of t's key, with these options.  A btree may be unique or partial, have more
# columns, or another btree beside it.
sub make_index
{
	my ($r, $options) = @_;
	my $storage = $r->pick('', ' WITH (fillfactor = 50)', ' WITH (fanout = 8)');

	$r->{unique} = $r->{method} eq 'btree' && $r->chance(150);
	return "CREATE INDEX t_k ON t USING harmonia (k$options)$storage;" if $r->{method} ne 'btree';
	$storage = '' if $storage =~ /fanout/;
	return <<"END" if $r->{unique};
DELETE FROM t a USING t b WHERE a.k = b.k AND a.id > b.id;
CREATE UNIQUE INDEX t_k ON t (k$options)$storage;
END
	my $columns = $r->pick('(k)', '(k)', '(k) INCLUDE (v, id)', '(k, v)', '(k, id DESC)', '(k) WHERE k IS NOT NULL') =~ s/\(k/(k$options/r;
	my $place = $columns =~ / WHERE/ ? $-[0] : length $columns;
	substr($columns, $place, 0) = $storage;
	return "CREATE INDEX t_k ON t $columns;" . $r->pick('', '', "\nCREATE INDEX t_v ON t (v, k);");
}

# SQL that creates both tables and the index, and the expression for t's keys.
sub make_tables
{
	my ($r) = @_;

	my @equality = (@equality_families, grep { $r->{method} eq 'btree' && !$r->{lacks}{ $_->[0] } } @btree_families);
	my @choice = $r->{equality_alone} ? @equality : (@families, @equality);
	@choice = grep { $_->[0] eq $r->{one_family} } @families, @equality if $r->{one_family};
	$r->{family} = $choice[ $r->below(scalar @choice) ];
	$r->{equality} = grep { $_ == $r->{family} } @equality;
	$r->{t_type} = $r->pick(@{ $r->{family} });
	my $o_type = $r->{o_type} = $r->pick(@{ $r->{family} });
	$r->{look_width} = $r->pick(60, 60, 800, 800, 4000, 4000, 12);
	my $width = $r->{look_width};
	my $t_key = sprintf $keys{ $r->{t_type} }, sprintf('abs(hashint4(i + %d)) %% %d - %d', $r->below(1000), $width, int($width / 10));
	my $o_key = sprintf 'abs(hashint4(i + %d)) %% %d - %d', $r->below(1000), int($width * 1.2), int($width / 8);
	my $class = $r->{t_type} eq 'word' && $r->{method} eq 'harmonia' ? ' text_c_ops' : '';
	my $index = make_index($r, $class . $r->pick('', ' DESC', ' NULLS FIRST', ' DESC NULLS LAST'));
	my $rows = $r->pick(200, 3000, 5000);
	my $make_t = $r->{unique} ? "CREATE TABLE t (id bigserial, k $r->{t_type}, v int) WITH (autovacuum_enabled = off);" : make_t($r, $width);

	return (<<"END", $t_key);
DROP TABLE IF EXISTS t, o, d;
DROP DOMAIN IF EXISTS word;
DROP TYPE IF EXISTS mood;
CREATE DOMAIN word AS text COLLATE "C";
CREATE TYPE mood AS ENUM ('first', @{[join ', ', map { "'m$_'" } 1 .. 28]});
ALTER TYPE mood ADD VALUE 'another' BEFORE 'm9';
@{[$setup{ $r->{t_type} } // '']}
$make_t
CREATE TABLE o (n int, k $o_type, high $o_type, v int);
INSERT INTO t (k, v) SELECT CASE WHEN i % 29 <> 3 THEN $t_key END, i % 100 FROM generate_series(1, $rows) i;
INSERT INTO t (k, v) SELECT '$extremes{$r->{t_type}}', i FROM generate_series(1, 3) i;
INSERT INTO o SELECT i, CASE WHEN i % 23 <> 5 THEN @{[sprintf $keys{$o_type}, 'x']} END, @{[sprintf $keys{$o_type}, 'x + i % 9 - 2']}, i % 50
	FROM (SELECT i, $o_key AS x FROM generate_series(1, 900) i) s;
INSERT INTO o VALUES (0, '$extremes{$o_type}', '$extremes{$o_type}', 7);
@{[$r->chance(600) ? 'CREATE INDEX o_n ON o (n) INCLUDE (k, high, v);' : '']}
@{[$r->chance(300) ? "CREATE INDEX o_k ON o USING $r->{method} (k" . ($o_type eq 'word' && $r->{method} eq 'harmonia' ? ' text_c_ops' : '') . ');' : '']}
CREATE TABLE d (id int PRIMARY KEY, k $o_type, v int);
INSERT INTO d SELECT n * 3, high, nullif(v * 2, 50) FROM o WHERE n < 600;
$index
@{[$r->chance(500) ? 'VACUUM ANALYZE t, o, d;' : 'ANALYZE t, o, d;']}
END
}

# Scripts for pgbench that change t.  One VACUUM runs at a time: two that shorten partitions
# can hold locks on both until a replica has replayed their commits, and a query there that
# locks the two in another order would be ended as a deadlock, with any index.
sub writers
{
	my ($r, $t_key) = @_;
	my $conflict = $r->{unique} ? ' ON CONFLICT DO NOTHING' : '';
	my $key = $t_key =~ s/\bi\b/:i/gr;

	return {
		'vacuum@3' => "SELECT pg_try_advisory_lock(1) AS alone \\gset\n\\if :alone\nVACUUM t;\nSELECT pg_advisory_unlock(1);\n\\endif\n",
		'update@4' => "\\set i random(1, 100000)\nUPDATE t SET v = (v + 1) % 100 WHERE id % 50 = :i % 50;\n",
		$r->{unique} ? () : ('key@4' => "\\set i random(1, 100000)\nUPDATE t SET k = $key WHERE id % 60 = :i % 60;\n"),
		'replace@4' => "\\set i random(1, 100000)\nBEGIN;\nDELETE FROM t WHERE id % 40 = :i % 40;\n"
		  . "INSERT INTO t (k, v) SELECT $t_key, i % 100 FROM generate_series(:i, :i + 100) i$conflict;\nCOMMIT;\n",
		'rollback@1' => "\\set i random(1, 100000)\nBEGIN;\nINSERT INTO t (k, v) SELECT $t_key, 1 FROM generate_series(:i, :i + 200) i$conflict;\nROLLBACK;\n" };
}

# ----------------------------------------------------------------
# Comparison
# ----------------------------------------------------------------

# Create the functions that compare.  They change settings for the transaction only.
sub make_lookup_functions
{
	my ($node) = @_;

	$node->safe_psql('postgres', <<'END');
CREATE OR REPLACE FUNCTION plan_settings(kind text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	lookup boolean := kind <> 'seq' AND kind <> 'index';
	setting text;
BEGIN
	FOREACH setting IN ARRAY '{enable_hashjoin,enable_mergejoin,enable_nestloop}'::text[] LOOP
		PERFORM set_config(setting, (NOT lookup)::text, true);
	END LOOP;
	FOREACH setting IN ARRAY '{harmonia.enable_lookup_scan,harmonia.enable_lookup_join,harmonia.enable_subselect_join}'::text[] LOOP
		PERFORM set_config(setting, lookup::text, true);
	END LOOP;
	PERFORM set_config('jit', 'off', true),
		set_config('enable_seqscan', (kind IN ('seq', 'parallel'))::text, true),
		set_config('enable_indexscan', (kind IN ('index', 'ordered'))::text, true),
		set_config('enable_bitmapscan', 'off', true),
		set_config('enable_indexonlyscan', (kind NOT IN ('seq', 'heap'))::text, true),
		set_config('plan_cache_mode', CASE kind WHEN 'generic' THEN 'force_generic_plan' ELSE 'force_custom_plan' END, true),
		set_config('harmonia.batch_size', CASE kind WHEN 'small' THEN '1000' WHEN 'large' THEN '100000000' ELSE '1000000' END, true),
		set_config('work_mem', CASE kind WHEN 'small' THEN '64kB' WHEN 'large' THEN '256MB' ELSE '4MB' END, true),
		set_config('max_parallel_workers_per_gather', CASE WHEN kind IN ('parallel', 'divided') THEN '2' ELSE '0' END, true),
		set_config('parallel_leader_participation', (kind <> 'divided')::text, true),
		set_config('parallel_setup_cost', '0', true), set_config('parallel_tuple_cost', '0', true),
		set_config('min_parallel_table_scan_size', '0', true);
END $$;

-- Run a prepared statement.  What it changes is undone.
CREATE OR REPLACE FUNCTION run_compared(arguments text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	BEGIN
		EXECUTE format('EXECUTE compared(%s)', arguments) INTO result;
		RAISE SQLSTATE 'HM001';
	EXCEPTION WHEN SQLSTATE 'HM001' THEN
		RETURN result;
	END;
END $$;

-- Run a query, whose parameters have these types and values, by plans of all these kinds, in
-- a transaction with one snapshot, and raise an error if the answers differ.  Says whether
-- lookups were used.  Joins by many equal keys can have too many rows to be compared in time.
CREATE OR REPLACE FUNCTION compare_lookups(query text, types text, arguments text, kinds text[]) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	kind text;
	plan json;
	used boolean := false;
	changes boolean := query ~ '^(UPDATE|DELETE)';
	wanted text;
	got text;
	n bigint;
BEGIN
	DEALLOCATE ALL;
	PERFORM plan_settings(kinds[1]);
	IF changes THEN
		EXECUTE format('PREPARE compared(%s) AS WITH q AS (%s) SELECT (count(*), sum(hash_record_extended(q, 0))) FROM q', types, query);
	ELSE
		EXECUTE format('PREPARE counted(%s) AS SELECT count(*) FROM (SELECT FROM (%s) q LIMIT 2000001) c', types, query);
		EXECUTE format('PREPARE compared(%s) AS SELECT (count(*), sum(hash_record_extended(q, 0))) FROM (%s) q', types, query);
		EXECUTE format('EXECUTE counted(%s)', arguments) INTO n;
		IF n > 2000000 THEN
			RETURN 'too large';
		END IF;
	END IF;
	FOREACH kind IN ARRAY kinds LOOP
		PERFORM plan_settings(kind);
		EXECUTE format('EXPLAIN (FORMAT JSON) EXECUTE compared(%s)', arguments) INTO plan;
		used := used OR plan::text LIKE '%HarmoniaLookup%';
		IF changes THEN
			got := run_compared(arguments);
		ELSE
			EXECUTE format('EXECUTE compared(%s)', arguments) INTO got;
		END IF;
		wanted := coalesce(wanted, got);
		IF got <> wanted THEN
			RAISE 'wrong answer' USING DETAIL = format('%s: %s, not %s, from %s with %s%s%s', kind, got, wanted, query, arguments, chr(10), plan);
		END IF;
	END LOOP;
	RETURN CASE WHEN used THEN 'lookup' ELSE 'other' END;
END $$;
END
	return;
}

# New tables for a generator: SQL that creates them, and scripts that change them.
sub lookup_tables
{
	my ($r) = @_;
	$r->{method} //= 'harmonia';
	my ($tables, $t_key) = make_tables($r);
	return ($tables, writers($r, $t_key));
}

sub random_query
{
	my ($r) = @_;
	my $kind = $r->pick_weighted(15 => 'aggregate', 25 => 'scan', 36 => 'join', 10 => 'subselect', 9 => 'ordered', 5 => $r->{changes} ? 'change' : 'join');
	return { aggregate => \&aggregate_query, scan => \&scan_query, join => \&join_query, subselect => \&subselect_query, ordered => \&ordered_query, change => \&change }->{$kind}->($r);
}

# So many queries over these tables.  Each is a query, and the types and the values of its
# parameters.
sub lookup_queries
{
	my ($r, $count) = @_;
	my $type = $r->{t_type};
	my $any_key = sub { key($r, $type, $r->chance(700) ? $r->below($r->{look_width}) : undef) };

	return map {
		[ random_query($r), "bigint, $type, $type", join(', ', $r->below(4000), $any_key->(), $any_key->()) ]
	} 1 .. $count;
}

# A script that compares the answers of each query, each in a snapshot of its own.  Where there is an order,
# scans of other indexes are allowed, which have one.
sub lookup_script
{
	my @queries = @_;
	return join '', map {
		my ($query, $types, $arguments) = @$_;
		my $heap = $query =~ /ORDER BY o/ ? 'ordered' : 'heap';
		"BEGIN ISOLATION LEVEL REPEATABLE READ;\n"
		  . "SELECT compare_lookups(\$q\$$query\$q\$, '$types', \$q\$$arguments\$q\$, '{seq,index,$heap,only,small,large,parallel,divided,generic}');\nCOMMIT;\n"
	} @queries;
}

# The first problem of t's index, or of the indexes of t's partitions; '' if none.
sub t_index_problem
{
	my ($node) = @_;
	my @indexes = split /\n/, $node->safe_psql('postgres', <<'END');
SELECT indexrelid::regclass FROM pg_index JOIN pg_class c ON c.oid = indexrelid WHERE c.relname ~ '^t_.*k' AND c.relkind = 'i'
END

	for my $index (@indexes)
	{
		my $problem = index_problem($node, $index);
		return $problem if $problem ne '';
	}
	return @indexes ? '' : 'there is no index';
}

# The types that a server cannot have.
sub lacks
{
	my ($node) = @_;
	my $lacks = $node->safe_psql('postgres', <<'END');
SELECT 'citext' WHERE NOT EXISTS (SELECT FROM pg_available_extensions WHERE name = 'citext')
UNION ALL SELECT 'caseless' WHERE NOT EXISTS (SELECT FROM pg_collation WHERE collprovider = 'i')
END
	return { map { $_ => 1 } split /\n/, $lacks };
}

# Compare random queries: size has the number of tables and of queries for each, and may have
# "equality", for types alone whose keys are not exact, or "family", for one family of types, which is
# named by its first one, or "method", that of t's index.  Returns
# how many queries were run, how many of these used lookups, and the first problem, or ''.
sub compare_lookups_at_random
{
	my ($node, $seed, %size) = @_;
	my $r = HarmoniaRandom->new($seed);
	my ($compared, $used) = (0, 0);
	$r->{equality_alone} = $size{equality};
	$r->{one_family} = $size{family};
	$r->{method} = $size{method} // 'harmonia';
	$r->{changes} = 1;

	$r->{lacks} = lacks($node);
	make_lookup_functions($node);
	for my $table (1 .. $size{tables})
	{
		my ($tables, $writers) = lookup_tables($r);

		$node->safe_psql('postgres', $tables);
		my $load = start_pgbench($node, $writers, '-c', 2, '-T', 600, '-R', 60, "--random-seed=$seed", '--max-tries=100');
		my $script = lookup_script(lookup_queries($r, $size{queries}));
		my ($result, $out, $err) = $node->psql('postgres', $script, on_error_stop => 1);

		# The next tables replace these, so no session may hold a lock on a partition.
		$load->{run}->kill_kill;
		$node->poll_query_until('postgres',
			"SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'client backend'")
		  or die 'the writers do not end';
		$used += () = $out =~ /^lookup$/mg;
		$compared += () = $out =~ /^(?:lookup|other|too large)$/mg;
		my $problem = $result != 0 || $err ne '' ? $err || "psql returned $result" : $r->{method} eq 'harmonia' ? t_index_problem($node) : '';
		return ($compared, $used, "seed $seed, table $table:\n$tables\n$problem") if $problem ne '';
		return ($compared, $used, "seed $seed, table $table: the writers ended: $load->{err}") if $load->{err} =~ /ERROR|abort/;
	}
	return ($compared, $used, '');
}

1;
