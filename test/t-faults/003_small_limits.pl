# With small limits small indexes use directory pages, and move and join segments, all the
# time.  Random statements, concurrent writers and crashes as in test/t.
#
# The library is built with SMALL_LIMITS.
use strict;
use warnings;

use Harmonia;
use HarmoniaDamage;
use Test::More;

my $seed = test_seed();
my ($version) = `initdb --version` =~ /(\d+)/;
my $node = new_node('small', conf => "shared_buffers = 16MB\nmax_wal_size = 64MB\n",
	$version >= 18 ? (extra => ['--no-data-checksums']) : ());
my @time = ('-T', $ENV{HARMONIA_SECONDS} // 8);

my ($compared, $problem) = compare_at_random($node, $seed, tables => 2, chunks => 2, statements => 1000);

is($problem, '', "same answers to $compared random statements");

make_pairs($node);
$node->safe_psql('postgres', 'ALTER INDEX pairs_k SET (fillfactor = 20); REINDEX INDEX pairs_k');
my $writers = write_pairs($node, '-c', 4, "--random-seed=$seed", @time);
my $readers = read_pairs($node, '-c', 2, "--random-seed=$seed", @time);
my $maintenance = start_pgbench(
	$node,
	{
		'vacuum@10' => "VACUUM pairs;\n",
		'reorganize@2' => "SELECT harmonia_reorganize('pairs_k');\n",
		'concurrently@1' => "REINDEX INDEX CONCURRENTLY pairs_k;\n",
		'check@2' => "SELECT harmonia_check('pairs_k');\n"
	},
	'-c', 1, @time);

no_errors($writers, 'writers');
no_errors($readers, 'readers');
no_errors($maintenance, 'maintenance');
check_all_indexes($node, 'afterwards');
cmp_ok($node->safe_psql('postgres', "SELECT directory_depth FROM harmonia_metapage('pairs_k')"),
	'>', 0, 'there are directory pages');

crash_rounds($node, $seed, 5);

# Movements leave no room in leaves with one key alone: its later rows go to the leaf where it ends.
my ($fill, $movements) = split /\|/, $node->safe_psql('postgres', <<'END');
CREATE TEMP TABLE few (k int);
CREATE INDEX few_k ON few USING harmonia (k);
SET harmonia.batch_inserts = off;
INSERT INTO few SELECT i * 7919 % 5 FROM generate_series(1, 200000) i;
SELECT harmonia_check('few_k', true) \gset
SELECT leaf_fill, movements FROM harmonia_index_info('few_k');
END
cmp_ok($movements, '>', 3, 'segments with few keys are moved');
cmp_ok($fill, '>', 78, 'their leaves are nearly full');

# An index that a normal harmonia has built is refused: its pages hold other numbers of things.
my $path = $node->data_dir . '/' . $node->safe_psql('postgres', "SELECT pg_relation_filepath('pairs_k')");

$node->stop;
my $index = read_index($path);
is(get(\$index, 0, 86, 'v'), 1, 'the metapage says which limits the index has');
put(\$index, 0, 86, 'v', 0);
write_index($path, $index);
$node->start;
my ($result, $out, $err) = $node->psql('postgres', 'SET enable_seqscan = off; SELECT count(*) FROM pairs WHERE k = 1');
like($err, qr/index "pairs_k" has flags 0, this harmonia reads flags 1.*HINT: .*REINDEX/s, 'an index with others is refused');
$node->safe_psql('postgres', 'REINDEX INDEX pairs_k');
check_all_indexes($node, 'after REINDEX');

$node->stop;
done_testing();
