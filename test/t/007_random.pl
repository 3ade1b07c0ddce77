# Random statements get the same answers from harmonia as from btree.
#
# The suite "slow" runs this with HARMONIA_LENGTH=long: a million statements.
use strict;
use warnings;

use Harmonia;
use Test::More;

my $seed = test_seed();
my %size = test_length(
	short => { tables => 4, chunks => 2, statements => 1700 },
	long => { tables => 50, chunks => 10, statements => 2000 });
my $node = new_node('random', conf => 'shared_buffers = 32MB');
my ($compared, $problem) = compare_at_random($node, $seed, %size);

is($problem, '', 'same answers');
cmp_ok($compared, '>=', $size{tables} * $size{chunks} * $size{statements}, "$compared statements compared");

my $scans = $node->safe_psql('harmonia', "SELECT idx_scan FROM pg_stat_user_indexes WHERE indexrelname = 't_k'");
cmp_ok($scans, '>', 500, "the last table's index was used: $scans scans");

$node->stop;
done_testing();
