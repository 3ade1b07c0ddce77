# A million random statements get the same answers from harmonia as from btree.
#
# HARMONIA_SEED=n repeats a run, HARMONIA_TABLES=n changes its length: there are
# 20,000 statements a table.
use strict;
use warnings;

use Harmonia;
use Test::More;
use Time::HiRes qw(time);

my $seed = test_seed();
my $tables = $ENV{HARMONIA_TABLES} // 50;
my $node = new_node('random', conf => "shared_buffers = 32MB\nmax_wal_size = 1GB");
my $start = time;
my ($compared, $problem) =
  compare_at_random($node, $seed, tables => $tables, chunks => 10, statements => 2000);

is($problem, '', 'same answers');
cmp_ok($compared, '>=', $tables * 20_000, "$compared statements compared");
diag(sprintf '%d statements in %.0f s', $compared, time - $start);

$node->stop;
done_testing();
