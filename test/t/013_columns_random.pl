# Random conditions on several columns get the same answers from an index on these columns
# as from a sequential scan, and rows in the same order.  Some tables are partitioned.
#
# The suite "slow" runs this with HARMONIA_LENGTH=long: a hundred thousand queries.
use strict;
use warnings;

use Harmonia;
use HarmoniaColumns;
use Test::More;

my $seed = test_seed();
my %size = test_length(
	short => { tables => 8, rounds => 3, queries => 40 },
	long => { tables => 100, rounds => 10, queries => 100 });
my $node = new_node('columns_random', conf => "shared_buffers = 32MB\nautovacuum = off");
my ($compared, $problem, %used) = compare_columns_at_random($node, $seed, %size);

is($problem, '', 'same answers');
is($compared, $size{tables} * $size{rounds} * $size{queries}, 'no query was left out');
cmp_ok($used{$_} // 0, '>', $compared / 5, ($used{$_} // 0) . " of $compared queries used the index by $_ scans")
  for ('index', 'bitmap', 'lookup');
cmp_ok($used{$_} // 0, '>', 0, ($used{$_} // 0) . " of $compared queries read the index alone by $_ scans")
  for ('only', 'lookup-only', 'ordered-index', 'ordered-only', 'ordered-merge', 'cursor');

$node->stop;
done_testing();
