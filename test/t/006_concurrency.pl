# While many sessions write, vacuum and rebuild, each snapshot sees the same rows through
# harmonia, through btree and in the heap.
use strict;
use warnings;

use Harmonia;
use Test::More;

my $node = new_node('concurrency', conf => 'shared_buffers = 16MB');
my @time = ('-T', $ENV{HARMONIA_SECONDS} // 12);

make_pairs($node);

like($node->safe_psql('postgres', <<'END'), qr/Parallel Index Only Scan using pairs_k/, 'several processes can read the index');
SET enable_seqscan = off; SET enable_bitmapscan = off; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_index_scan_size = 0;
EXPLAIN SELECT (count(*), count(k), sum(k))::text FROM pairs;
END

my $writers = write_pairs($node, '-c', 5, @time);
my $readers = read_pairs($node, '-c', 4, @time);
my $vacuum = start_pgbench(
	$node,
	{
		'vacuum@20' => "VACUUM pairs;\n",
		'concurrently@1' => "REINDEX INDEX CONCURRENTLY pairs_k;\n",
		'columns@1' => "REINDEX INDEX CONCURRENTLY pairs_two;\n",
		'check@1' => "SELECT harmonia_check('pairs_k');\nSELECT harmonia_check('pairs_two');\n"
	},
	'-c', 1, @time);

no_errors($writers, 'writers');
no_errors($readers, 'readers');
no_errors($vacuum, 'vacuum');
check_all_indexes($node, 'afterwards');

# Insertions alone, until segments have moved.
$writers = start_pgbench($node, {
		'batch' => <<'END' }, '-c', 4, '-t', 60);
\set from random(1, 10000000)
INSERT INTO pairs (k, k2) SELECT x, x FROM
	(SELECT 500000 + hashint4(i) % 1000 x FROM generate_series(:from, :from + 3000) i) s;
END
$readers = read_pairs($node, '-c', 2, '-t', 20);
no_errors($writers, 'writers');
no_errors($readers, 'readers');
cmp_ok($node->safe_psql('postgres', q{SELECT retired FROM harmonia_metapage('pairs_k')}),
	'>', 0, 'segments moved');
check_all_indexes($node, 'afterwards');

$node->stop;
done_testing();
