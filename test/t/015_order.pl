# Whether an index on several columns keeps their order, its own metapage says, not what a new
# index would have.  If the index is damaged, nobody knows, and its table can be read for all that.
use strict;
use warnings;

use Harmonia;
use HarmoniaDamage;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# Where the bits of the first column are in the metapage, the flags of the second one, and the fanout.
my $bits = 6692;
my $flags = 6710;
my $fanout = 82;

# What is done to the metapage of an index; and what scans say of it, if that is an error.
my %damage = (
	sound => [ sub { } ],
	older => [ sub { put($_[0], 0, $bits, 'v', 6) } ],
	# as if built before fields had directions; and one that its column has not
	undirected => [ sub { put($_[0], 0, $flags, 'v', 0) } ],
	turned => [ sub { put($_[0], 0, $flags, 'v', 1) } ],
	turned_nulls => [ sub { put($_[0], 0, $flags, 'v', 2) } ],
	unknown_flag => [ sub { put($_[0], 0, $flags, 'v', 4) }, qr/damaged metapage/ ],
	cut_flag => [ sub { put($_[0], 0, $flags - 2, 'vv', 6, 1) }, qr/damaged metapage/ ],
	full_flag => [ sub { put($_[0], 0, $flags - 2, 'vv', 16, 2) }, qr/damaged metapage/ ],
	included_flag => [ sub { put($_[0], 0, $flags + 16, 'v', 1) }, qr/damaged metapage/ ],
	fanout => [ sub { put($_[0], 0, $fanout, 'v', 0) }, qr/damaged metapage/ ],
	zeroed => [ sub { put($_[0], 0, 0, 'a8192', '') }, qr/has an unexpected page/ ],
	garbage => [ sub { put($_[0], 0, 0, 'a8192', 'x' x 8192) }, qr/invalid page in block 0/ ],
	empty => [ sub { ${ $_[0] } = '' }, qr/could not read block/ ]);

# Without checksums, so that changed pages can be read.  18 has them by default.
my ($version) = `initdb --version` =~ /(\d+)/;
my $node = new_node('order', conf => "autovacuum = off\n",
	$version >= 18 ? (extra => ['--no-data-checksums']) : ());
my %files;

# The order of the indexes.  Those whose names end with "nulls" have no column that is NOT NULL.
my %order = (undirected => 'a, b DESC');

sub order_of
{
	my ($table) = @_;
	return $order{$table} // 'a, b';
}

# The plan of a query that wants rows in the index's order.
sub ordered_plan
{
	my ($table) = @_;
	return $node->psql('postgres', "SET enable_seqscan = off; SET enable_sort = off; SET enable_bitmapscan = off;"
		  . "EXPLAIN (COSTS OFF) SELECT a, b FROM $table WHERE c IS NULL ORDER BY " . order_of($table));
}

# The rows of a table, sorted, as one value.
sub sorted_rows
{
	my ($table) = @_;
	my $order = order_of($table);
	return "SELECT md5(string_agg(format('%s %s', a, b), ',' ORDER BY n)) FROM (SELECT a, b, row_number() OVER () AS n FROM (SELECT a, b FROM $table ORDER BY $order) p) q";
}

# Change the files of indexes while the server is down.
sub change
{
	my (%changes) = @_;

	$node->stop;
	while (my ($table, $change) = each %changes)
	{
		my $data = read_index($files{$table});
		$change->(\$data);
		write_index($files{$table}, $data);
	}
	$node->start;
	return;
}

foreach my $table ('checksum', keys %damage)
{
	my $constraint = $table =~ /nulls$/ ? '' : 'NOT NULL';
	my $included = $table =~ /^included/ ? 'INCLUDE (d)' : '';

	$node->safe_psql('postgres', "CREATE TABLE $table (a int $constraint, b smallint $constraint, c int, d smallint);"
		  . "CREATE INDEX ${table}_i ON $table USING harmonia (" . order_of($table) . ") $included");
	$files{$table} = $node->data_dir . '/' . $node->safe_psql('postgres', "SELECT pg_relation_filepath('${table}_i')");
}
change(map { $_ => $damage{$_}[0] } keys %damage);

foreach my $table (sort keys %damage)
{
	my $error = $damage{$table}[1];
	my ($result, $plan, $message) = ordered_plan($table);

	is($message, '', "$table: a plan is made");
	if ($table eq 'sound')
	{
		like($plan, qr/Index Scan/, "$table: the order is used");
		unlike($plan, qr/Sort/, "$table: nothing is sorted");
	}
	else
	{
		like($plan, qr/Sort/, "$table: rows are sorted");
	}
	is($node->safe_psql('postgres', "SELECT sum(c) FROM $table"), '', "$table: the table can be read");
	next if !$error;
	($result, $plan, $message) = $node->psql('postgres', "SET enable_seqscan = off; SELECT * FROM $table WHERE a = 1");
	like($message, $error, "$table: what a scan says");
}

# Rows of indexes with cut fields or other directions are found, and sorted
foreach my $table ('older', 'undirected', 'turned', 'turned_nulls')
{
	my $rows = sorted_rows($table);

	$node->safe_psql('postgres', "INSERT INTO $table SELECT i * 7919 % 5000, i % 10 FROM generate_series(1, 3000) i; VACUUM ANALYZE $table");
	$node->safe_psql('postgres', "INSERT INTO $table VALUES (NULL, 1), (1, NULL), (NULL, NULL)") if $table =~ /nulls$/;
	is($node->safe_psql('postgres', "SET enable_seqscan = off; $rows"),
		$node->safe_psql('postgres', "SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_bitmapscan = off; $rows"),
		"$table: rows are sorted");
	is($node->safe_psql('postgres', "SET enable_seqscan = off; SELECT count(*) FROM $table WHERE a BETWEEN 1000 AND 1999 AND b > 4"),
		$node->safe_psql('postgres', "SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_bitmapscan = off;"
			  . "SELECT count(*) FROM $table WHERE a BETWEEN 1000 AND 1999 AND b > 4"), "$table: rows are found");
	$node->safe_psql('postgres', "SELECT harmonia_check('${table}_i', true)");
	my ($result, $out, $message) = $node->psql('postgres', "CLUSTER $table USING ${table}_i");
	like($message, qr/it does not keep the order of its columns/, "CLUSTER refuses an index that is $table");
	$node->safe_psql('postgres', "REINDEX INDEX ${table}_i");
	($result, $out, $message) = ordered_plan($table);
	unlike($out, qr/Sort/, "$table: REINDEX gives it an order");
	$node->safe_psql('postgres', "CLUSTER $table USING ${table}_i");
	is($node->safe_psql('postgres', "SET enable_seqscan = off; $rows"),
		$node->safe_psql('postgres', "SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_bitmapscan = off; $rows"),
		"$table: rows after REINDEX");
}
my ($result, $out, $message);

# A page that its checksum does not fit
$node->stop;
system_or_bail('pg_checksums', '--enable', '-D', $node->data_dir);
$node->start;
($result, $out, $message) = ordered_plan('checksum');
unlike($out, qr/Sort/, 'the order is used with checksums');
change(checksum => sub { put($_[0], 0, 4000, 'V', 7) });
($result, $out, $message) = ordered_plan('checksum');
is($message, '', 'wrong checksum: a plan is made');
like($out, qr/Sort/, 'wrong checksum: rows are sorted');
($result, $out, $message) = $node->psql('postgres', 'SET enable_seqscan = off; SELECT * FROM checksum WHERE a = 1');
like($message, qr/invalid page in block 0/, 'wrong checksum: what a scan says');

$node->stop;
done_testing();
