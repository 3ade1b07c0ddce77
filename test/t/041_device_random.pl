# Random queries get the same answers from lookups on the device as from other plans, while
# the table is changed and vacuumed.  The long run of this is in test/t-slow.
use strict;
use warnings;

use Harmonia;
use HarmoniaDevice;
use HarmoniaLookups;
use Test::More;

my $seed = test_seed();
my $node = new_device_node('device_random');
my ($compared, $used, $problem) = compare_lookups_at_random($node, $seed, rounds => 3, queries => 15);

is($problem, '', 'same answers');
is($compared, 45, 'no query was left out');
cmp_ok($used, '>', 30, "$used of them by lookups");

my ($batches, $synced, $fallbacks) = split /\|/, $node->safe_psql('postgres',
	"SELECT sum(device_batches), sum(synced_blocks), sum(fallbacks) FROM harmonia_stat_indexes()");
cmp_ok($batches, '>', 100, "$batches batches on the device");
cmp_ok($synced, '>', 10, "$synced blocks had changed before");
is($fallbacks, 0, 'the device answered them');

$node->stop;
done_testing();
