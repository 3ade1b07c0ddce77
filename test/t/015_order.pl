# Whether an index on several columns keeps their order, its own metapage says, not what a new
# index would have.  If the index is damaged, nobody knows, and its table can be read for all that.
use strict;
use warnings;

use Harmonia;
use HarmoniaDamage;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# Where the bits of the first column are in the metapage, and the fanout.
my $bits = 6692;
my $fanout = 82;

# What is done to the metapage of an index; and what scans say of it, if that is an error.
my %damage = (
	sound => [ sub { } ],
	older => [ sub { put($_[0], 0, $bits, 'v', 6) } ],
	fanout => [ sub { put($_[0], 0, $fanout, 'v', 0) }, qr/damaged metapage/ ],
	zeroed => [ sub { put($_[0], 0, 0, 'a8192', '') }, qr/has an unexpected page/ ],
	garbage => [ sub { put($_[0], 0, 0, 'a8192', 'x' x 8192) }, qr/invalid page in block 0/ ],
	empty => [ sub { ${ $_[0] } = '' }, qr/could not read block/ ]);

# Without checksums, so that changed pages can be read.  18 has them by default.
my ($version) = `initdb --version` =~ /(\d+)/;
my $node = new_node('order', conf => "autovacuum = off\n",
	$version >= 18 ? (extra => ['--no-data-checksums']) : ());
my %files;

# The plan of a query that wants rows in the index's order.
sub ordered_plan
{
	my ($table) = @_;
	return $node->psql('postgres', "SET enable_seqscan = off; SET enable_sort = off; SET enable_bitmapscan = off;"
		  . "EXPLAIN (COSTS OFF) SELECT a, b FROM $table WHERE c IS NULL ORDER BY a, b");
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
	$node->safe_psql('postgres', "CREATE TABLE $table (a int NOT NULL, b smallint NOT NULL, c int);"
		  . "CREATE INDEX ON $table USING harmonia (a, b)");
	$files{$table} = $node->data_dir . '/' . $node->safe_psql('postgres', "SELECT pg_relation_filepath('${table}_a_b_idx')");
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

# Rows of the index with cut fields, sorted
$node->safe_psql('postgres', "INSERT INTO older SELECT i * 7919 % 5000, i % 10 FROM generate_series(1, 3000) i; ANALYZE older");
my $rows = "SELECT md5(string_agg(format('%s %s', a, b), ',')) FROM (SELECT a, b FROM older ORDER BY a, b) q";
is($node->safe_psql('postgres', "SET enable_seqscan = off; $rows"),
	$node->safe_psql('postgres', "SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_bitmapscan = off; $rows"),
	'rows of an index with cut fields are sorted');
my ($result, $out, $message) = $node->psql('postgres', 'CLUSTER older USING older_a_b_idx');
like($message, qr/it does not keep the order of its columns/, 'CLUSTER refuses an index with cut fields');
$node->safe_psql('postgres', 'REINDEX INDEX older_a_b_idx');
($result, $out, $message) = ordered_plan('older');
unlike($out, qr/Sort/, 'REINDEX gives it an order');
$node->safe_psql('postgres', 'CLUSTER older USING older_a_b_idx');

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
