# Thousands of random queries get the same answers from lookups on the device as from other
# plans.
#
# HARMONIA_SEED=n repeats a run, HARMONIA_TABLES=n changes its length: there are
# 200 queries a table.
use strict;
use warnings;

use Harmonia;
use HarmoniaDevice;
use HarmoniaLookups;
use Test::More;

my $seed = test_seed();
my $tables = $ENV{HARMONIA_TABLES} // 50;
my $node = new_device_node('device_random', conf => "max_wal_size = 1GB\n");
my ($compared, $used, $problem) = compare_lookups_at_random($node, $seed, rounds => $tables, queries => 200);

is($problem, '', 'same answers');
is($compared, 200 * $tables, "$compared queries were compared");
cmp_ok($used, '>', $compared * 0.8, "$used of them by lookups");

$node->stop;
done_testing();
