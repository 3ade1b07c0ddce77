# With small limits small indexes use directory pages, and move and join segments, all the
# time.  Random statements, concurrent writers and crashes as in test/t.
#
# The library is built with SMALL_LIMITS.
use strict;
use warnings;

use Harmonia;
use Test::More;

my $seed = test_seed();
my $node = new_node('small', conf => "shared_buffers = 16MB\nmax_wal_size = 64MB\n");
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

$node->stop;
done_testing();
