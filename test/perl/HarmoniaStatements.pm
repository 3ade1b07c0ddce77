# Random statements over a table t (id, k, v): queries and changes.
#
# What a statement prints must not depend on the order in which a plan meets rows.  So
# rows are sorted or aggregated, or only the key is shown, in the order of the key.
#
# A subclass sets "type" (of the key k), "width" (of the range of keys), "hot" (keys that
# come often) and "next_id"; see HarmoniaScripts.
package HarmoniaStatements;

use strict;
use warnings;

use parent 'HarmoniaRandom';
use POSIX qw(strftime);

# For each type of key: how to write key number x (a positive or negative integer) as
# text, how to make a key from an SQL expression, difficult values, and types to
# compare with.
my $epoch_2000 = 946684800;

my %types = (
	int2 => {
		text => sub { $_[0] % 32000 },
		sql => sub { "(($_[0]) % 32000)::int2" },
		extremes => [ -32768, 32767, 0 ],
		others => [ 'int4', 'int8' ]
	},
	int4 => {
		text => sub { $_[0] },
		sql => sub { "($_[0])::int4" },
		extremes => [ -2147483648, 2147483647, 0, -1 ],
		others => ['int8']
	},
	int8 => {
		text => sub { $_[0] * 3000000019 },
		sql => sub { "($_[0])::int8 * 3000000019" },
		extremes => [ '-9223372036854775808', '9223372036854775807', 0, -1 ],
		others => ['int8']
	},
	date => {
		text => sub { strftime('%Y-%m-%d', gmtime($epoch_2000 + $_[0] * 86400)) },
		sql => sub { "date '2000-01-01' + ($_[0])::int4" },
		extremes => [ 'infinity', '-infinity', '2000-01-01' ],
		others => [ 'timestamp', 'timestamptz' ]
	},
	timestamptz => {
		text => sub { strftime('%Y-%m-%d %H:%M:%S+00', gmtime($epoch_2000 + $_[0] * 100)) },
		sql => sub {
			"timestamptz '2000-01-01 00:00:00+00' + ($_[0]) * interval '100 seconds'";
		},
		extremes => [ 'infinity', '-infinity', '2000-01-01 00:00:00+00' ],
		others => [ 'timestamp', 'date' ]
	},
	float8 => {
		text => sub { $_[0] / 4 },
		sql => sub { "($_[0])::float8 / 4" },
		extremes => [ 'NaN', 'Infinity', '-Infinity', '-0', '0' ],
		others => ['real']
	},
	# A domain over text, with collation C.  16 neighbours begin alike, further than keys tell them apart but by a hash.
	word => {
		text => sub { my $number = $_[0] + 1_000_000_000; sprintf('%010d, and so on, %02d', $number >> 4, $number & 15) },
		sql => sub { "lpad(((($_[0])::int8 + 1000000000) >> 4)::text, 10, '0') || ', and so on, ' || lpad(((($_[0])::int8 + 1000000000) & 15)::text, 2, '0')" },
		extremes => [ '0', '0062500000, and so on', 'ä€ä€ä€ä€', "\x7f" ],
		class => ' text_c_ops',
		others => ['name']
	},
	# Neighbours differ in the lowest byte or, every 256, in the highest ones.
	uuid => {
		text => sub { my $number = $_[0] + 1_000_000_000; sprintf('%08x%022x%02x', $number >> 8, 0, $number & 255) },
		sql => sub { "(lpad(to_hex((($_[0])::int8 + 1000000000) >> 8), 8, '0') || lpad(to_hex((($_[0])::int8 + 1000000000) & 255), 24, '0'))::uuid" },
		extremes => [
			'ffffffff-ffff-ffff-ffff-ffffffffffff', '00000000-0000-0000-0000-000000000000', '3b9aca00-0000-0001-0000-000000000000',
			'003b9aca-0000-0000-ffff-ffffffffffff'
		],
		others => ['uuid']
	});

# A chunk of statements begins with at most so many rows.
sub table_limit { return 20_000; }

sub type_names { return sort keys %types; }

# What names a type's operator class that is not the default one, in harmonia indexes.
sub operator_class { my ($self) = @_; return $types{ $self->{type} }{class} // ''; }

# ----------------------------------------------------------------
# Keys
# ----------------------------------------------------------------

# The number of a key: uniform, one of a few that come often, near one end of the range,
# or near the newest id.
sub number
{
	my ($self) = @_;
	my $width = $self->{width};
	my $kind = $self->below(10);

	return $self->below($width) - ($width >> 2) if $kind < 4;
	return $self->{hot}[ int(@{ $self->{hot} } * ($self->below(1000) / 1000)**3) ]
	  if $kind < 7;
	return int($width * ($self->below(10_000) / 10_000)**4) if $kind < 9;
	return $self->{next_id} - $self->below(100);
}

# A key's text, as in COPY and in array literals.
sub key_text
{
	my ($self) = @_;
	my $type = $types{ $self->{type} };

	return $self->pick(@{ $type->{extremes} }) if $self->chance(15);
	return $type->{text}->($self->number);
}

sub quoted { return "'$_[1]'::$_[0]{type}"; }

sub key { my ($self) = @_; return $self->quoted($self->key_text); }

sub key_or_null
{
	my ($self) = @_;
	return $self->chance(50) ? 'NULL' : $self->key;
}

# Two keys that are mostly near each other.
sub near_keys
{
	my ($self) = @_;
	my $text = $types{ $self->{type} }{text};
	my $number = $self->number;
	my $span = $self->pick(0, 1, 5, 1 + ($self->{width} >> 9), 1 + ($self->{width} >> 5));

	return ($self->key, $self->key) if $self->chance(30);
	return map { $self->quoted($text->($_)) } ($number, $number + $span);
}

sub array
{
	my ($self) = @_;
	my $length = $self->chance(30) ? 300 : $self->below(12);
	my @keys = map { $self->chance(20) ? 'NULL' : $self->key_text } 1 .. $length;

	# Quotes for the spaces in timestamps.
	@keys = map { $_ eq 'NULL' ? $_ : "\"$_\"" } @keys;
	return "'{" . join(',', @keys) . "}'::$self->{type}\[]";
}

# An SQL expression that makes a key from an expression for its number.
sub sql_key
{
	my ($self, $number) = @_;
	return $types{ $self->{type} }{sql}->($number);
}

# An SQL expression for the key of row i of a series.
sub series_key
{
	my ($self) = @_;
	my $width = $self->{width};
	my $number = $self->pick(
		sprintf('abs(hashint4(i + %d) %% %d)', $self->below(1000), $width),
		sprintf('abs(hashint4(i + %d) %% %d)', $self->below(1000), $width),
		'i',
		'-i',
		$self->number,
		'(i % 13) * (i % 17)',
		sprintf('%d + hashint4(i) %% 50', $self->number));
	my $key = $self->sql_key($number);

	return $self->chance(300) ? "CASE WHEN i % 11 <> 3 THEN $key END" : $key;
}

# The expression that shows a key: it shows -0 as 0, because equal keys have no order.
sub shown
{
	my ($self, $column) = @_;
	return $self->{type} eq 'float8' ? "$column + 0" : $column;
}

# ----------------------------------------------------------------
# Conditions
# ----------------------------------------------------------------

# A condition that few rows meet.
sub narrow
{
	my ($self, $k) = @_;
	my ($low, $high) = $self->near_keys;

	return $self->pick_weighted(
		8 => sub { "$k = " . $self->key },
		6 => sub { "$k BETWEEN $low AND $high" },
		2 => sub { "$k >= $low AND $k < $high" },
		2 => sub { "$k > $low AND $k <= $high" },
		2 => sub { "$k > $low AND $k < $high AND $k >= $low AND $k <> " . $self->key },
		5 => sub { "$k = ANY (" . $self->array . ')' },
		3 => sub { "$k IN (" . join(', ', map { $self->key } 0 .. $self->below(5)) . ')' },
		1 => sub { "$k IN (" . $self->key . ", NULL) AND $k >= $low" },
		1 => sub { "$k IS NULL" },
		1 => sub { "($k = $low OR $k = " . $self->key . ')' },
		1 => sub { "($k = $low OR $k IS NULL)" },
		1 => sub { "$k = ANY (" . $self->array . ") AND $k > $low" },
		1 => sub { "$k > $high AND $k < $low" },
		1 => sub { "$k = NULL" },
		1 => sub { "$k IS NULL AND $k > $low" },
		2 => sub { $self->other_type($k) })->();
}

# A comparison with a key of another type.
sub other_type
{
	my ($self, $k) = @_;
	my $other = $self->pick(@{ $types{ $self->{type} }{others} });
	my $low = $types{ $self->{type} }{text}->($self->number);
	my $limit = $other eq 'int8' ? "'4000000000'::int8" : "'$low'::$other";

	return $self->pick("$k = '$low'::$other",
		"$k BETWEEN '$low'::$other AND " . $self->key,
		"$k >= '$low'::$other AND $k <= $limit AND $k <= " . ($self->near_keys)[1],
		"$k > $limit AND $k < " . $self->key);
}

# A condition that many rows meet.
sub wide
{
	my ($self, $k) = @_;
	my $operator = $self->pick('<', '<=', '>', '>=');

	return $self->pick("$k $operator " . $self->key,
		"$k $operator ANY (" . $self->array . ')',
		"$k IS NOT NULL", 'true', "$k <> " . $self->key);
}

# ----------------------------------------------------------------
# Queries
# ----------------------------------------------------------------

sub order
{
	my ($self, $k) = @_;
	return "ORDER BY $k" . $self->pick('', '', ' DESC', ' NULLS FIRST', ' DESC NULLS LAST');
}

sub limit
{
	my ($self) = @_;
	return 'LIMIT ' . (1 + $self->below(20))
	  . ($self->chance(300) ? ' OFFSET ' . $self->below($self->pick(10, 100, 5000)) : '');
}

sub query_aggregate
{
	my ($self) = @_;
	return 'SELECT count(*), sum(id), sum(v) FROM t WHERE ' . $self->narrow('k');
}

# A query for the key alone, which an index-only scan can answer.
sub query_key_only
{
	my ($self) = @_;
	my $k = $self->shown('k');
	return "SELECT count(*), count(k), min($k), max($k), sum(hashtext(($k)::text)) FROM t WHERE "
	  . $self->narrow('k');
}

sub query_rows
{
	my ($self) = @_;
	return
		'SELECT id, '
	  . $self->shown('k')
	  . ', v FROM t WHERE '
	  . $self->narrow('k')
	  . ' ORDER BY id LIMIT 20'
	  . $self->pick('', '', '', ' FOR UPDATE');
}

sub query_ordered
{
	my ($self) = @_;
	my $where = $self->pick($self->narrow('k'), $self->wide('k'));
	return
		'SELECT '
	  . $self->shown('k')
	  . $self->pick('', ', v - v')
	  . " FROM t WHERE $where "
	  . $self->order('k') . ' '
	  . $self->limit;
}

sub query_ends
{
	my ($self) = @_;
	my ($min, $max) = map { $self->shown($_) } ('min(k)', 'max(k)');
	return 'SELECT ' . $self->pick($min, $max, "$min, $max") . ' FROM t'
	  . ($self->chance(500) ? '' : ' WHERE ' . $self->pick($self->wide('k'), $self->narrow('k')));
}

sub query_wide
{
	my ($self) = @_;
	return 'SELECT count(*), count(k), sum(id) FROM t WHERE ' . $self->wide('k');
}

sub query_groups
{
	my ($self) = @_;
	my $k = $self->shown('k');
	return "SELECT $k, count(*) FROM t WHERE "
	  . $self->narrow('k')
	  . ' GROUP BY k '
	  . $self->order('k')
	  . ' LIMIT 20';
}

sub query_join
{
	my ($self) = @_;
	my $few = 'n < ' . $self->pick(3, 20, 100);
	my $where = $self->narrow('a.k');

	return $self->pick(
		"SELECT count(*), sum(t.id) FROM p JOIN t USING (k) WHERE $few",
		"SELECT count(*), count(t.id), sum(n) FROM p LEFT JOIN t ON t.k = p.k AND t.v < 50 WHERE $few",
		"SELECT count(*), sum(n) FROM p WHERE $few AND EXISTS (SELECT FROM t WHERE t.k = p.k)",
		"SELECT count(*), sum(n) FROM p WHERE $few AND NOT EXISTS (SELECT FROM t WHERE t.k = p.k)",
		"SELECT count(*), sum(id) FROM t WHERE k IN (SELECT k FROM p WHERE $few)",
		"SELECT count(*), sum(id) FROM t WHERE k = ANY (ARRAY(SELECT k FROM p WHERE $few))",
		"SELECT n, " . $self->shown('x.k') . " FROM p, LATERAL (SELECT k FROM t WHERE t.k >= p.k"
		  . " ORDER BY t.k LIMIT 2) x WHERE n < 8 ORDER BY n, x.k",
		"SELECT n, " . $self->shown('x.k') . " FROM p, LATERAL (SELECT k FROM t WHERE t.k < p.k"
		  . " ORDER BY t.k DESC LIMIT 2) x WHERE n < 8 ORDER BY n, x.k",
		"SELECT count(*), sum(a.id), sum(n) FROM (SELECT * FROM t a WHERE $where) a"
		  . " FULL JOIN (SELECT * FROM p WHERE $few) b ON a.k = b.k",
		"SELECT count(*), sum(a.n) FROM p a JOIN (SELECT k FROM t WHERE k IS NOT NULL ORDER BY k) b"
		  . ' ON a.k = b.k');
}

# A join of a narrow range of keys with the table itself: merge joins mark and restore
# positions in it.
sub query_self_join
{
	my ($self) = @_;
	my ($low, $high) = $self->near_keys;
	return 'SELECT count(*) FROM (SELECT k FROM t WHERE k BETWEEN ' . "$low AND $high"
	  . ' ORDER BY k LIMIT 200) a JOIN t b ON a.k = b.k AND b.id % 3 = 0';
}

sub query_prepared
{
	my ($self) = @_;
	my ($low, $high) = $self->near_keys;
	return $self->pick(
		'EXECUTE equal(' . $self->key_or_null . ')',
		"EXECUTE between_($low, $high)",
		'EXECUTE any_(' . $self->array . ')');
}

# ----------------------------------------------------------------
# Changes
# ----------------------------------------------------------------

# Reserve so many ids; returns the first.
sub take_ids
{
	my ($self, $n) = @_;
	my $first = $self->{next_id};

	$self->{next_id} += $n;
	return $first;
}

# An id that probably exists.
sub some_id
{
	my ($self) = @_;
	my $id = $self->{next_id} - 1 - $self->below($self->pick(100, 5000, $self->table_limit));
	return $id < 1 ? 1 : $id;
}

sub row
{
	my ($self, $id) = @_;
	return "($id, " . $self->key_or_null . ', ' . $self->below(100) . ')';
}

sub change_insert
{
	my ($self) = @_;
	return 'INSERT INTO t VALUES ' . $self->row($self->take_ids(1));
}

sub change_insert_rows
{
	my ($self) = @_;
	my $n = 2 + $self->below(40);
	my $first = $self->take_ids($n);
	return 'INSERT INTO t VALUES ' . join(', ', map { $self->row($first + $_) } 0 .. $n - 1);
}

sub change_insert_series
{
	my ($self) = @_;
	my $n = $self->chance(40) ? 5000 : $self->pick(10, 100, 400);
	my $first = $self->take_ids($n);
	return
		"INSERT INTO t SELECT i, "
	  . $self->series_key
	  . ", i % 100 FROM generate_series($first, "
	  . ($first + $n - 1) . ') i';
}

# An insertion that reads from the index that it changes.
sub change_insert_self
{
	my ($self) = @_;
	my $first = $self->take_ids(200);
	return "INSERT INTO t SELECT $first + row_number() OVER (ORDER BY id) - 1, k, v FROM"
	  . ' (SELECT * FROM t WHERE ' . $self->narrow('k') . ' ORDER BY id LIMIT 200) s';
}

sub change_copy
{
	my ($self) = @_;
	my $n = 1 + $self->below(60);
	my $first = $self->take_ids($n);
	my @rows = map {
		join("\t", $first + $_, ($self->chance(50) ? '\N' : $self->key_text), $self->below(100))
	} 0 .. $n - 1;
	return join("\n", 'COPY t FROM stdin;', @rows, '\.');
}

sub change_on_conflict
{
	my ($self) = @_;
	my $id = $self->some_id;
	my @ids = map { $id + $_ } 0 .. $self->below(8);
	push @ids, $self->take_ids(1);
	my %seen;
	@ids = grep { !$seen{$_}++ } @ids;
	$self->{next_id} = $ids[-1] + 1 if $ids[-1] >= $self->{next_id};
	return 'INSERT INTO t VALUES '
	  . join(', ', map { $self->row($_) } @ids)
	  . ' ON CONFLICT (id) DO '
	  . $self->pick('NOTHING', 'UPDATE SET k = excluded.k',
		'UPDATE SET k = excluded.k, v = t.v + 1 WHERE t.v < 60');
}

sub change_update
{
	my ($self) = @_;
	my $key = $self->sql_key('id % ' . $self->{width});
	my $set = $self->pick('k = ' . $self->key_or_null, "k = $key", 'v = v % 100 + 1', 'k = k',
		'k = NULL');
	my $from = $self->some_id;
	my $rows = $self->pick(0, 0, 5, 50);
	return "UPDATE t SET $set WHERE "
	  . $self->pick(
		$self->narrow('k') . ' AND id % 4 = ' . $self->below(4),
		"id BETWEEN $from AND " . ($from + $rows),
		"id = $from");
}

sub change_update_join
{
	my ($self) = @_;
	return $self->pick(
		'UPDATE t SET k = ' . $self->key . ' FROM p WHERE t.k = p.k AND p.n < 4',
		'DELETE FROM t USING p WHERE t.k = p.k AND p.n < 4 AND t.v % 2 = 0');
}

sub change_delete
{
	my ($self) = @_;
	my $from = $self->some_id;
	return 'DELETE FROM t WHERE '
	  . $self->pick_weighted(
		8 => "id = $from",
		4 => "id BETWEEN $from AND " . ($from + $self->below(200)),
		8 => $self->narrow('k') . ' AND v % 3 = ' . $self->below(3),
		1 => $self->wide('k') . ' AND id % 5 = ' . $self->below(5));
}

sub change_merge
{
	my ($self) = @_;
	my $first = $self->{next_id} - 10 > 0 ? $self->{next_id} - 10 : 1;
	my $last = $self->{next_id} + 10;

	$self->{next_id} = $last + 1;
	return "MERGE INTO t USING (SELECT i, " . $self->series_key
	  . " FROM generate_series($first, $last) i) s (id, k) ON t.id = s.id"
	  . ' WHEN MATCHED AND t.v < 10 THEN DELETE WHEN MATCHED THEN UPDATE SET k = s.k'
	  . ' WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.k, 1)';
}

# A query whose one part deletes rows and whose other part inserts them again.
sub change_cte
{
	my ($self) = @_;
	my $from = $self->some_id;
	my $first = $self->take_ids(20);
	return "WITH d AS (DELETE FROM t WHERE id BETWEEN $from AND " . ($from + 19)
	  . " RETURNING *) INSERT INTO t SELECT $first + row_number() OVER (ORDER BY id) - 1,"
	  . ' k, v FROM d';
}

# A statement that fails after it has inserted rows.
sub change_failing
{
	my ($self) = @_;
	my $n = $self->pick(3, 200);
	my $first = $self->take_ids($n);
	return "INSERT INTO t SELECT i, " . $self->series_key
	  . ", 1 / ($n - 1 - (i - $first)) FROM generate_series($first, " . ($first + $n - 1) . ') i';
}

1;
