# Crashes at random moments under a mixed load.  Many crashes hit the same cluster, so
# that damage would add up.
#
# CRASHES=n crashes n times; HARMONIA_SEED=n repeats the load of a run.
use strict;
use warnings;

use Harmonia;
use Test::More;

my $seed = test_seed();
my $rounds = $ENV{CRASHES} // 100;

for my $level ('minimal', 'replica')
{
	my $node = new_node("crash_$level",
		conf => "max_wal_size = 64MB\nwal_level = $level\nmax_wal_senders = 0\n");

	crash_rounds($node, $seed, int(($rounds + 1) / 2));
	$node->stop;
}
done_testing();
