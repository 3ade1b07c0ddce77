# Random queries get the same answers from lookup nodes as from other plans, while other
# sessions change and vacuum the table.
#
# The suite "slow" runs this with HARMONIA_LENGTH=long: ten thousand queries.
use strict;
use warnings;

use Harmonia;
use HarmoniaLookups;
use Test::More;

my $seed = test_seed();
my %size = test_length(
	short => { tables => 3, queries => 20 },
	long => { tables => 50, queries => 200 });
my $node = new_node('lookup_random', conf => "shared_buffers = 32MB\nsession_preload_libraries = 'harmonia'\n");

for my $method ('harmonia', 'btree')
{
	my ($compared, $used, $problem) = compare_lookups_at_random($node, $seed, %size, method => $method);

	is($problem, '', "$method: same answers");
	is($compared, $size{tables} * $size{queries}, "$method: no query was left out");
	cmp_ok($used, '>', $compared * 0.3, "$method: $used of $compared queries used lookups");
}

$node->stop;
done_testing();
