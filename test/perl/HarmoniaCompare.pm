# Runs random statements in two databases, which differ in the access method of one
# index, and compares what they print.
package HarmoniaCompare;

use strict;
use warnings;

use Exporter 'import';
use File::Basename qw(basename);
use File::Copy qw(copy);
use HarmoniaScripts;
use HarmoniaServer;
use IPC::Run ();
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = qw(compare_at_random);

# Run a script in both databases at once.  Returns the first difference, or ''.
sub compare_script
{
	my ($node, $script, $chunk) = @_;
	my $directory = $node->basedir;
	my $file = write_file($node, 'random.sql', $script);
	my @runs;

	for my $database ('btree', 'harmonia')
	{
		push @runs,
		  IPC::Run::start(
			[ 'psql', '-XAte', '-d', $node->connstr($database), '-f', $file ],
			'<', \undef, '>', "$directory/$database.out", '2>&1',
			IPC::Run::timeout(600));
	}
	$_->finish for @runs;

	my $problem = first_difference(map { "$directory/$_.out" } ('btree', 'harmonia'));
	return '' if $problem eq '';
	copy($_, $PostgreSQL::Test::Utils::log_path) for glob "$directory/{random.sql,*.out}";
	return "$problem\nScript and output of chunk $chunk are in $PostgreSQL::Test::Utils::log_path";
}

# The first lines that differ, with the statement that printed them.
sub first_difference
{
	my @files = @_;
	my $context = '';
	my @handles = map {
		open my $handle, '<', $_ or die "could not open $_: $!";
		$handle
	} @files;

	while (1)
	{
		my ($expected, $got) = map { scalar readline $_ } @handles;

		return '' if !defined $expected && !defined $got;

		# Where both fail, the statement compares nothing: it counts as a difference.
		if (   !defined $expected
			|| !defined $got
			|| $expected ne $got
			|| $expected =~ /ERROR:  (?!division by zero)/)
		{
			my $both = '';
			for (0, 1)
			{
				my $line = ($expected, $got)[$_] // "(end)\n";
				$both .= basename($files[$_]) . ":\n$line";
				for my $i (1 .. 10) { $both .= readline($handles[$_]) // ''; }
			}
			return "$context$both";
		}
		$context = '' if $expected =~ /;$/;
		$context .= $expected;
	}
}

# Compare the databases: size has the number of tables, of chunks for each table, and
# of statements in a chunk.  Returns how many statements were compared, and the first
# difference, or ''.
sub compare_at_random
{
	my ($node, $seed, %size) = @_;
	my $generator = HarmoniaScripts->new($seed);
	my $compared = 0;

	for my $database ('btree', 'harmonia')
	{
		$node->safe_psql('postgres', "CREATE DATABASE $database");
		$node->safe_psql($database, 'CREATE DOMAIN word AS text COLLATE "C"; ' . aggregates_of_uuid());
	}
	prepare_database($node, 'harmonia');

	for my $table (1 .. $size{tables})
	{
		my $new = $generator->new_table;

		for my $am ('btree', 'harmonia')
		{
			$node->safe_psql($am,
				"SET client_min_messages = warning; $new->{table} CREATE INDEX t_k ON t USING $am $new->{$am}");
		}
		for my $chunk (0 .. $size{chunks})
		{
			my ($script, $n) =
			  $chunk == 0 ? $generator->load_script : $generator->chunk_script($size{statements});
			my $problem = compare_script($node, $script, "$chunk of table $table");

			$problem = index_check_problem($node) if $problem eq '';
			return ($compared, "seed $seed, table $table ($new->{table}), chunk $chunk:\n$problem")
			  if $problem ne '';
			$compared += $n;
		}
		note "$compared statements, table $table done: $new->{table} $new->{harmonia}";
	}
	return ($compared, '');
}

# min() and max() of uuids, which PostgreSQL does not have.
sub aggregates_of_uuid
{
	return join ' ', map {
		my ($name, $operator) = @$_;
		"CREATE FUNCTION uuid_$name(uuid, uuid) RETURNS uuid IMMUTABLE STRICT LANGUAGE sql AS 'SELECT CASE WHEN \$1 $operator \$2 THEN \$1 ELSE \$2 END';"
		  . " CREATE AGGREGATE $name(uuid) (SFUNC = uuid_$name, STYPE = uuid, SORTOP = $operator);"
	} ([ 'min', '<' ], [ 'max', '>' ]);
}

# What harmonia_check() says of the index; '' if it is in order.
sub index_check_problem
{
	my ($node) = @_;
	my ($result, $out, $err) = $node->psql('harmonia', "SELECT harmonia_check('t_k', true)");

	return $err;
}

1;
