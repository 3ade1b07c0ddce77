# Scripts of random statements over one table: transactions, cursors, maintenance and
# settings around the statements of HarmoniaStatements.
package HarmoniaScripts;

use strict;
use warnings;

use parent 'HarmoniaStatements';

# Settings that lead the planner to different kinds of plans.
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

# ----------------------------------------------------------------
# Parts of a script
# ----------------------------------------------------------------

# Add a statement that counts as compared.
sub say_compared { my ($self, $sql) = @_; $self->{compared}++; $self->say_also($sql); return; }

# Add one that does not count, because its output tells nothing.
sub say_also
{
	my ($self, $sql) = @_;
	push @{ $self->{script} }, $sql =~ /^\\|\\\.$/ ? $sql : "$sql;";
	return;
}

# Add a random query or change.
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

# Add a statement that fails.  A savepoint keeps it from aborting the transaction.
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

# Perhaps begin or end a transaction or a subtransaction.
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

# Add a cursor that moves back and forth while the table changes.
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

# Add a maintenance command.
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

# Add random settings.
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

# ----------------------------------------------------------------
# Whole scripts
# ----------------------------------------------------------------

# Begin a script: settings that keep output and plans the same in both databases, the
# table p, whose keys joins look up, and prepared statements.
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

# End a script with queries for all rows: in both orders of the key, and from the heap.
# Returns the script and how many of its statements are compared.
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

# Begin a new table.  Returns a hash: "table" is SQL that creates the table, "btree" and
# "harmonia" what follows the access method's name in CREATE INDEX.
sub new_table
{
	my ($self) = @_;
	my @names = $self->type_names;

	# Types come in turn; the seed decides which is first.
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
		btree => "(k$order) WITH ($options)",
		harmonia => '(k' . $self->operator_class . "$order) WITH ($options, fanout = $fanout)"
	};
}

# A script that fills the table.  One table in three gets so many rows that segments
# move; most of these rows are then deleted.
sub load_script
{
	my ($self) = @_;

	$self->open_script;
	if ($self->chance(330))
	{
		my $key = $self->sql_key("hashint4(i) % $self->{width}");

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

# A script with the next statements over the current table, at least so many.
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
	$self->say_compared('DELETE FROM t WHERE id <= (SELECT max(id) FROM t) - ' . $self->table_limit);
	$self->say_also('VACUUM t') if $self->chance(500);
	return $self->close_script;
}

1;
