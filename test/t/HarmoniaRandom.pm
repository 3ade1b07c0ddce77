# Random statements over one table, for comparing two databases that differ in
# the access method of one index only.
#
# A generator with the same seed makes the same statements, on every machine and
# with every Perl.  What a statement prints must not depend on the order in which
# a plan meets rows: it is sorted, aggregated, or shows nothing but the key in
# the key's order.
package HarmoniaRandom;

use strict;
use warnings;

use POSIX qw(strftime);

# The types of keys: how to write key number x (an integer of either sign) as a
# literal, how to make a key from an SQL expression, and values at the ends.
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
	});

# Kinds of plans that the planner is pushed to, in turn.
my @plans = (
	'enable_bitmapscan=off enable_indexonlyscan=off',
	'enable_bitmapscan=off enable_sort=off',
	'enable_indexscan=off',
	'enable_sort=off enable_hashjoin=off enable_nestloop=off',
	'enable_hashjoin=off enable_mergejoin=off enable_bitmapscan=off',
	'enable_seqscan=on',
	'');
my @plan_settings = map { "enable_$_" }
  qw(indexscan bitmapscan indexonlyscan sort hashjoin mergejoin nestloop);

# Rows that a chunk of statements begins with, at most.
my $table_limit = 20_000;

sub type_names { return sort keys %types; }

# A generator with a table of its own.
sub new
{
	my ($class, $seed) = @_;
	my $self = bless { seed => $seed, next_id => 1 }, $class;

	$self->{state} = ($seed * 2654435761 + 97) & 0xFFFFFFFF || 1;
	$self->below(2) for 1 .. 8;
	return $self;
}

# ----------------------------------------------------------------
# Chance
# ----------------------------------------------------------------

# An integer from 0 to n - 1 (Marsaglia's xorshift, 32 bits).
sub below
{
	my ($self, $n) = @_;
	my $x = $self->{state};

	$x ^= ($x << 13) & 0xFFFFFFFF;
	$x ^= $x >> 17;
	$x ^= ($x << 5) & 0xFFFFFFFF;
	$self->{state} = $x;
	return int($x / 4294967296 * $n);
}

sub pick
{
	my ($self, @list) = @_;
	return $list[ $self->below(scalar @list) ];
}

# True in so many of 1000 cases.
sub chance
{
	my ($self, $per_mille) = @_;
	return $self->below(1000) < $per_mille;
}

# Call one of several methods: weight => name pairs.
sub pick_weighted
{
	my ($self, @pairs) = @_;
	my $total = 0;

	for (my $i = 0; $i < @pairs; $i += 2) { $total += $pairs[$i]; }
	my $at = $self->below($total);
	while ($at >= $pairs[0])
	{
		$at -= shift @pairs;
		shift @pairs;
	}
	return $pairs[1];
}

# ----------------------------------------------------------------
# Keys
# ----------------------------------------------------------------

# The number of a key: uniform, one of a few hot ones, towards one end, rising.
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

# A key's text, as COPY and array literals want it.
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

# Two keys that are near each other, most of the time.
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

# A key made from SQL, for row i of a series.
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
	my $key = $types{ $self->{type} }{sql}->($number);

	return $self->chance(300) ? "CASE WHEN i % 11 <> 3 THEN $key END" : $key;
}

# What is printed of a key: -0 and 0 are equal, so either may come first.
sub shown
{
	my ($self, $column) = @_;
	return $self->{type} eq 'float8' ? "$column + 0" : $column;
}

# ----------------------------------------------------------------
# Conditions
# ----------------------------------------------------------------

# One that few rows pass.
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

# One that many rows pass.
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

# Nothing but the key: an index-only scan.
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

# Keys of the narrow range joined with themselves: marks and restores.
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

# An id that is likely to exist.
sub some_id
{
	my ($self) = @_;
	my $id = $self->{next_id} - 1 - $self->below($self->pick(100, 5000, $table_limit));
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

# Reads from the index that it inserts into.
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
	my $key = $types{ $self->{type} }{sql}->('id % ' . $self->{width});
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

# Rows move from one statement of a query to the other.
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

# ----------------------------------------------------------------
# Scripts
# ----------------------------------------------------------------

# Add a statement whose result is compared, or one that only sets the scene.
sub say_compared { my ($self, $sql) = @_; $self->{compared}++; $self->say_also($sql); return; }

sub say_also
{
	my ($self, $sql) = @_;
	push @{ $self->{script} }, $sql =~ /^\\|\\\.$/ ? $sql : "$sql;";
	return;
}

sub statement
{
	my ($self) = @_;
	my $method = $self->pick_weighted(
		120 => 'query_aggregate',
		70 => 'query_key_only',
		90 => 'query_rows',
		110 => 'query_ordered',
		50 => 'query_ends',
		6 => 'query_wide',
		25 => 'query_groups',
		50 => 'query_join',
		10 => 'query_self_join',
		60 => 'query_prepared',
		110 => 'change_insert',
		25 => 'change_insert_rows',
		12 => 'change_insert_series',
		10 => 'change_insert_self',
		12 => 'change_copy',
		40 => 'change_on_conflict',
		100 => 'change_update',
		10 => 'change_update_join',
		90 => 'change_delete',
		8 => 'change_merge',
		8 => 'change_cte');
	return $self->say_compared($self->$method);
}

# One that fails must not take a transaction with it.
sub failure
{
	my ($self) = @_;
	my $open = $self->{transaction};

	$self->say_also('SAVEPOINT failure') if $open;
	$self->say_compared($self->change_failing);
	$self->say_also('ROLLBACK TO failure') if $open;
	return;
}

sub begin
{
	my ($self) = @_;
	$self->say_also('BEGIN'
		  . $self->pick('', '', ' ISOLATION LEVEL REPEATABLE READ', ' ISOLATION LEVEL SERIALIZABLE'));
	$self->{transaction} = 1;
	$self->{savepoints} = 0;
	return;
}

sub end
{
	my ($self) = @_;
	$self->say_also($self->chance(600) ? 'COMMIT' : 'ROLLBACK');
	$self->{transaction} = 0;
	return;
}

sub transaction_step
{
	my ($self) = @_;

	if (!$self->{transaction})
	{
		$self->begin if $self->chance(40);
	}
	elsif ($self->chance(60))
	{
		$self->end;
	}
	elsif ($self->chance(60))
	{
		$self->say_also('SAVEPOINT s' . ++$self->{savepoints});
	}
	elsif ($self->{savepoints} > 0 && $self->chance(150))
	{
		my $name = 's' . $self->{savepoints}--;
		$self->say_also($self->pick("ROLLBACK TO $name", "RELEASE $name"));
	}
	return;
}

# A cursor goes to and fro while the table changes.
sub cursor
{
	my ($self) = @_;
	my $open = $self->{transaction};
	my $where = $self->pick($self->narrow('k'), $self->wide('k'));

	$self->begin unless $open;
	$self->say_also('DECLARE c SCROLL CURSOR FOR SELECT '
		  . $self->shown('k')
		  . " FROM t WHERE $where "
		  . $self->order('k'));
	for (0 .. 3 + $self->below(10))
	{
		if ($self->chance(250))
		{
			$self->say_compared($self->change_insert_rows);
			$self->say_compared($self->change_delete);
		}
		$self->say_compared(
			$self->pick(
				'FETCH ' . (1 + $self->below(12)) . ' c',
				'FETCH BACKWARD ' . (1 + $self->below(12)) . ' c',
				'MOVE ' . $self->below(800) . ' c',
				'MOVE BACKWARD ' . $self->below(800) . ' c',
				'FETCH FIRST c', 'FETCH LAST c', 'FETCH PRIOR c', 'FETCH RELATIVE 0 c'));
	}
	$self->say_also('CLOSE c');
	$self->end unless $open;
	return;
}

sub maintenance
{
	my ($self) = @_;
	$self->say_also(
		$self->pick_weighted(
			10 => 'VACUUM t',
			2 => 'VACUUM (FREEZE) t',
			2 => 'VACUUM (INDEX_CLEANUP on, TRUNCATE off) t',
			1 => 'VACUUM (INDEX_CLEANUP off) t',
			3 => 'ANALYZE t',
			1 => 'REINDEX INDEX t_k',
			1 => 'REINDEX INDEX CONCURRENTLY t_k',
			1 => 'VACUUM FULL t',
			1 => 'CHECKPOINT',
			1 => 'ALTER INDEX t_k SET (fillfactor = ' . $self->pick(50, 70, 90, 100) . ')'));
	return;
}

sub settings
{
	my ($self) = @_;
	my %plan = map { split /=/ } split / /, $self->pick(@plans);

	$self->say_also('SET enable_seqscan = ' . ($plan{enable_seqscan} // 'off'));
	$self->say_also("SET $_ = " . ($plan{$_} // 'on')) for @plan_settings;
	$self->say_also('SET harmonia.batch_inserts = ' . $self->pick('on', 'on', 'off'));
	$self->say_also("SET harmonia.insert_batch_memory = '" . $self->pick('16MB', '64kB') . "'");
	$self->say_also('SET plan_cache_mode = '
		  . $self->pick('auto', 'force_generic_plan', 'force_custom_plan'));
	return;
}

# What stands at the beginning of each script: the table that joins probe,
# prepared statements, and settings that make output and plans steady.
sub open_script
{
	my ($self) = @_;
	my $k = $self->shown('k');

	$self->{script} = [];
	$self->{compared} = 0;
	$self->{transaction} = 0;
	$self->say_also($_)
	  for (
		"SET TIME ZONE 'UTC'",
		'SET jit = off',
		'DROP TABLE IF EXISTS p',
		"CREATE TABLE p (n int, k $self->{type})",
		'INSERT INTO p VALUES ' . join(', ', map { "($_, " . $self->key_or_null . ')' } 1 .. 100),
		'ANALYZE p',
		"PREPARE equal($self->{type}) AS SELECT count(*), sum(id) FROM t WHERE k = \$1",
		"PREPARE between_($self->{type}, $self->{type}) AS"
		. " SELECT $k FROM t WHERE k BETWEEN \$1 AND \$2 ORDER BY k LIMIT 20",
		"PREPARE any_($self->{type}\[]) AS SELECT count(*), sum(id) FROM t WHERE k = ANY (\$1)");
	$self->settings;
	return;
}

# Everything in the table, by way of both orders and of the heap.
sub close_script
{
	my ($self) = @_;
	my $k = $self->shown('k');

	$self->end if $self->{transaction};
	$self->settings;
	for my $order ('ORDER BY k', 'ORDER BY k DESC')
	{
		$self->say_compared(
			"SELECT md5(string_agg(s::text, ',')) FROM (SELECT $k FROM t $order) s");
	}
	$self->say_compared(
		"SELECT count(*), md5(string_agg((id, $k, v)::text, ',' ORDER BY id)) FROM t");
	return (join("\n", @{ $self->{script} }) . "\n", $self->{compared});
}

# A new table: returns SQL that creates it, but for the index, and the index's
# definition behind the name of the access method, with options for either.
sub new_table
{
	my ($self) = @_;
	my @names = $self->type_names;

	# All types in turn, in an order that depends on the seed.
	$self->{tables}++;
	$self->{type} = $names[ ($self->{tables} + $self->{seed}) % @names ];
	$self->{width} = $self->pick(100, 5000, 30_000, 1_000_000);
	$self->{width} = 30_000 if $self->{width} > 30_000 && $self->{type} eq 'int2';
	$self->{hot} = [ map { $self->below($self->{width}) } 1 .. 12 ];
	$self->{next_id} = 1;

	my $order = $self->pick('', '', ' NULLS FIRST', ' DESC', ' DESC NULLS LAST');
	my $options = 'fillfactor = ' . $self->pick(50, 90, 90, 100);
	my $fanout = $self->pick(8, 16, 64, 64, 128);
	return {
		table => 'DROP TABLE IF EXISTS t;'
		  . " CREATE TABLE t (id int8 PRIMARY KEY, k $self->{type}, v int NOT NULL);",
		index => "(k$order)",
		btree => "WITH ($options)",
		harmonia => "WITH ($options, fanout = $fanout)"
	};
}

# What the table holds before statements begin.  Every third time so much that
# segments move, most of which is then deleted.
sub load_script
{
	my ($self) = @_;

	$self->open_script;
	if ($self->chance(330))
	{
		my $key = $types{ $self->{type} }{sql}->("hashint4(i) % $self->{width}");

		for (1 .. 3)
		{
			my $first = $self->take_ids(60_000);
			$self->say_compared("INSERT INTO t SELECT i, $key, i % 100 FROM generate_series($first, "
				  . ($first + 59_999) . ') i');
		}
		$self->say_compared('DELETE FROM t WHERE id % 10 <> 0');
	}
	else
	{
		$self->say_compared($self->change_insert_series) for 1 .. $self->below(30);
	}
	$self->say_also('VACUUM ANALYZE t');
	return $self->close_script;
}

# The next statements over the current table: about so many.
sub chunk_script
{
	my ($self, $statements) = @_;

	$self->open_script;
	while ($self->{compared} < $statements)
	{
		$self->transaction_step;
		$self->settings if $self->chance(15);
		$self->maintenance if $self->chance(5) && !$self->{transaction};
		if ($self->chance(10)) { $self->cursor; }
		elsif ($self->chance(10)) { $self->failure; }
		else { $self->statement; }
	}
	$self->end if $self->{transaction};
	$self->say_compared('DELETE FROM t WHERE id <= (SELECT max(id) FROM t) - ' . $table_limit);
	$self->say_also('VACUUM t') if $self->chance(500);
	return $self->close_script;
}

1;
