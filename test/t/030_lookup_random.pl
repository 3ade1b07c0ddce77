# Random queries get the same answers from lookup nodes as from others, while the table
# is changed and vacuumed.  The long run of this is in test/t-slow.
use strict;
use warnings;

use Harmonia;
use HarmoniaLookups;
use Test::More;

my $seed = test_seed();
my $node = new_node('lookup_random', conf => 'shared_buffers = 32MB');
my ($compared, $used, $problem) = compare_lookups_at_random($node, $seed, rounds => 3, queries => 20);

is($problem, '', 'same answers');
is($compared, 60, 'no query was left out');
cmp_ok($used, '>', 45, "$used of them by lookups");

$node->stop;
done_testing();
