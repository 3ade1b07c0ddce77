# Damages index files on purpose.  Here are tables with indexes of every shape, functions
# that write to a stopped server's files, and statements that the server must survive
# when their index is damaged.
package HarmoniaDamage;

use strict;
use warnings;

use Exporter 'import';
use Harmonia;
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = qw(
  create_damage_functions create_base
  read_index write_index get put
  check_result survives
);

my $page_size = 8192;

# ----------------------------------------------------------------
# Tables.  Each has a column k with an index TABLE_i.  Keys are so far apart that leaves of bigint
# have class 64 and those of int class 32; TIDs take 4 bytes.
# ----------------------------------------------------------------
my %bases = (
	# three levels of inner nodes, 96 leaves from block 2 on
	tree => sub {
		my ($t) = @_;
		return "CREATE TABLE $t (k bigint);"
		  . "INSERT INTO $t SELECT (g * 10) << 32 FROM generate_series(1::bigint, 5568) g;"
		  . "CREATE INDEX ${t}_i ON $t USING harmonia (k) WITH (fanout = 8, fillfactor = 10);";
	},
	# the same with keys of two columns, which differ as those of "tree" do
	columns => sub {
		my ($t) = @_;
		return "CREATE TABLE $t (k date, c date DEFAULT '2000-03-18');"
		  . "INSERT INTO $t SELECT date '2000-01-01' + g * 10 FROM generate_series(1, 5568) g;"
		  . "CREATE INDEX ${t}_i ON $t USING harmonia (k, c) WITH (fanout = 8, fillfactor = 10);";
	},
	# keys of 128 bits, which differ in the first words; leaves of class 96
	wide => sub {
		my ($t) = @_;
		return "CREATE TABLE $t (k uuid);"
		  . "INSERT INTO $t SELECT (lpad(to_hex(g * 10), 16, '0') || '0000000000000007')::uuid FROM generate_series(1, 5568) g;"
		  . "CREATE INDEX ${t}_i ON $t USING harmonia (k) WITH (fanout = 8, fillfactor = 10);";
	},
	# three levels, 32-bit keys, and a second segment for NULLs, at block 24
	nulls => sub {
		my ($t) = @_;
		return "CREATE TABLE $t (k int);"
		  . "INSERT INTO $t SELECT g * 1000 FROM generate_series(1, 1936) g;"
		  . "INSERT INTO $t SELECT NULL FROM generate_series(1, 500);"
		  . "CREATE INDEX ${t}_i ON $t USING harmonia (k) WITH (fanout = 8, fillfactor = 10);";
	},
	# two auxiliary nodes, at blocks 22 and 24; the first block of those that splits get next is in use, another one is not
	shadowed => sub {
		my ($t) = @_;
		return "CREATE TABLE $t (k bigint);"
		  . "INSERT INTO $t SELECT (g * 10) << 32 FROM generate_series(1::bigint, 580 * 20) g;"
		  . "CREATE INDEX ${t}_i ON $t USING harmonia (k) WITH (fanout = 8, fillfactor = 100);"
		  . "INSERT INTO $t SELECT (580 * 10 * 3 + 5)::bigint << 32;"
		  . "INSERT INTO $t SELECT (580 * 10 * 12 + 5)::bigint << 32;"
		  . "INSERT INTO $t SELECT (580 * 10 * 13 + 5)::bigint << 32;";
	},
	# key pages: block 2
	keys => sub {
		my ($t) = @_;
		return "CREATE TABLE $t (k bigint);"
		  . "INSERT INTO $t SELECT g << 32 FROM generate_series(1::bigint, 30000) g;"
		  . "CREATE INDEX ${t}_i ON $t USING harmonia (k) WITH (fanout = 128, fillfactor = 10);";
	},
	# several segments
	segments => sub {
		my ($t) = @_;
		return "CREATE TABLE $t (k int);"
		  . "INSERT INTO $t SELECT g * 1000 FROM generate_series(1, 100000) g;"
		  . "CREATE INDEX ${t}_i ON $t USING harmonia (k) WITH (fanout = 128, fillfactor = 10);";
	},
	# more than ten segments, most of them of 4 blocks, the first one of 2
	steps => sub {
		my ($t) = @_;
		return "CREATE TABLE $t (k bigint);"
		  . "CREATE INDEX ${t}_i ON $t USING harmonia (k) WITH (fanout = 8, fillfactor = 10);"
		  . "INSERT INTO $t SELECT (g * 10) << 32 FROM generate_series(1::bigint, 58 * 60) g;";
	},
	# a second segment, at block 98, with room for 11 leaves: 4 are in use by
	# number, and a split has taken the last two blocks, for a leaf and an
	# auxiliary node
	tail => sub {
		my ($t) = @_;
		return "CREATE TABLE $t (k bigint);"
		  . "INSERT INTO $t SELECT (g * 10) << 32 FROM generate_series(1::bigint, 5568) g;"
		  . "CREATE INDEX ${t}_i ON $t USING harmonia (k) WITH (fanout = 8, fillfactor = 10);"
		  . "INSERT INTO $t SELECT (g * 10) << 32 FROM generate_series(5569::bigint, 5568 + 4 * 58) g;"
		  . "INSERT INTO $t SELECT 55705::bigint << 32 FROM generate_series(1, 560) g;";
	},
	# a segment has been moved, and free extents are listed
	moved => sub {
		my ($t) = @_;
		return "CREATE TABLE $t (k int);"
		  . "INSERT INTO $t SELECT g % 2 FROM generate_series(1, 20000) g;"
		  . "CREATE INDEX ${t}_i ON $t USING harmonia (k) WITH (fanout = 128, fillfactor = 50);"
		  . "INSERT INTO $t SELECT 0 FROM generate_series(1, 330000);";
	});

# SQL that creates a table of one of these kinds.
sub create_base
{
	my ($base, $table) = @_;
	return $bases{$base}->($table);
}

# SQL functions for check_result().
sub create_damage_functions
{
	return <<'END';
CREATE FUNCTION check_result(i regclass, heapallindexed bool) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	message text;
	detail text;
BEGIN
	PERFORM harmonia_check(i, heapallindexed);
	RETURN 'ok';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL;
	RETURN format('%s: %s: %s', SQLSTATE, message, detail);
END $$;
END
}

# ----------------------------------------------------------------
# Files
# ----------------------------------------------------------------
sub read_index
{
	my ($path) = @_;
	open my $file, '<:raw', $path or die "could not open $path: $!";
	local $/;
	my $data = <$file>;
	close $file;
	return $data;
}

sub write_index
{
	my ($path, $data) = @_;
	open my $file, '+<:raw', $path or die "could not open $path: $!";
	print $file $data;
	truncate $file, length $data;
	close $file or die "could not write $path: $!";
	return;
}

# A number on a page, read by unpack(), and numbers written by pack().
sub get
{
	my ($data, $block, $offset, $template) = @_;
	return unpack $template, substr($$data, $block * $page_size + $offset, 8);
}

sub put
{
	my ($data, $block, $offset, $template, @values) = @_;
	my $bytes = pack $template, @values;
	substr($$data, $block * $page_size + $offset, length $bytes) = $bytes;
	return;
}

# ----------------------------------------------------------------
# Use
# ----------------------------------------------------------------

# What harmonia_check() says of an index: 'ok' or the error.
sub check_result
{
	my ($node, $index, $heapallindexed) = @_;
	return $node->safe_psql('postgres',
		"SET statement_timeout = '60s'; SELECT check_result('$index', $heapallindexed)");
}

# Run statements of all kinds over a table with a damaged index.  Each can fail.  Returns
# what must not happen, or ''.
sub survives
{
	my ($node, $table) = @_;
	my @setup = (
		"SET statement_timeout = '20s'",
		'SET enable_seqscan = off',
		'SET plan_cache_mode = force_custom_plan');
	my $index = "${table}_i";
	my @shown = (
		map { "SELECT count(*) FROM harmonia_$_('$index')" } qw(metapage segments index_info));
	push @shown, map {
		"SELECT count(*) FROM (SELECT block FROM harmonia_segments('$index') LIMIT 5) s,"
		  . " harmonia_$_('$index', s.block)"
	} qw(nodes leaves);
	push @shown, map {
		("SELECT harmonia_page('$index', $_)", "SELECT count(*) FROM harmonia_leaf_items('$index', $_)")
	} 0 .. 26;
	my @single = map { "INSERT INTO $table VALUES ($_)" }
	  (1, 5, 15, 500, 2605, 31325, 49920, 104400, -1, 2000000);
	my @statements = (
		"SELECT count(k) FROM $table WHERE k >= 0",
		"SELECT count(*) FROM (SELECT k FROM $table ORDER BY k) _",
		"SELECT count(*) FROM (SELECT k, ctid FROM $table ORDER BY k) _",
		"SELECT count(*) FROM (SELECT k, ctid FROM $table ORDER BY k DESC) _",
		"SELECT count(*) FROM $table WHERE k IS NULL",
		"SELECT count(ctid) FROM $table WHERE k = ANY (ARRAY(SELECT g * 7 FROM generate_series(1, 8000) g))",
		"SELECT count(ctid) FROM $table WHERE k = ANY (ARRAY(SELECT -g FROM generate_series(1, 10) g)"
		  . " || ARRAY(SELECT g FROM generate_series(1, 3000) g))",
		'SET enable_indexscan = off; SET enable_indexonlyscan = off',
		"SELECT count(ctid) FROM $table WHERE k BETWEEN 5 AND 70000",
		"SELECT count(ctid) FROM $table WHERE k < 700 OR k > 40000 OR k IS NULL",
		'RESET enable_indexscan; RESET enable_indexonlyscan',
		"BEGIN; DECLARE c SCROLL CURSOR FOR SELECT k FROM $table ORDER BY k;"
		  . ' MOVE 1000 IN c; MOVE BACKWARD 700 IN c; MOVE ALL IN c; MOVE BACKWARD ALL IN c; COMMIT',
		@shown,
		# Single insertions and batches, everywhere and at the ends
		@single,
		"INSERT INTO $table SELECT g * 13 % 60000 FROM generate_series(1, 3000) g",
		"INSERT INTO $table SELECT 2605 FROM generate_series(1, 3000) g",
		"INSERT INTO $table SELECT 3000000 + g FROM generate_series(1, 3000) g",
		"INSERT INTO $table SELECT -g FROM generate_series(1, 3000) g",
		"INSERT INTO $table SELECT NULL FROM generate_series(1, 1000) g",
		'SET enable_seqscan = on',
		"DELETE FROM $table WHERE ctid = ANY (ARRAY(SELECT ctid FROM $table LIMIT 100))",
		"DELETE FROM $table WHERE k % 3 = 0",
		"VACUUM $table",
		"SELECT count(k) FROM $table WHERE k >= 0");
	# Each statement has its own transaction; psql goes on after errors.
	my $sql = join '', map { "$_;\nROLLBACK;\n" } @setup, @statements;
	my ($out, $err) = ('', '');
	my $status = $node->psql('postgres', "\\set VERBOSITY verbose\n$sql",
		on_error_stop => 0, stdout => \$out, stderr => \$err,
		timeout => $PostgreSQL::Test::Utils::timeout_default, timed_out => \my $timed_out);

	# A statement that cannot be cancelled keeps the server from stopping in order.
	if ($timed_out)
	{
		crash_node($node);
		BAIL_OUT("a statement over $table cannot be cancelled");
	}
	return "the connection was lost: $err" if $status != 0 || $err =~ /server closed the connection/;
	return "a statement does not end: $err" if $err =~ /ERROR:  57014/;
	# PostgreSQL itself raises "tuple offset out of range", for impossible rows.
	return "internal error: $1" if $err =~ /(ERROR:  XX000(?!.*tuple offset out of range).*)/;
	return '';
}

1;
