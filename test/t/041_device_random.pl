# Random queries get the same answers from lookups on the device as from other plans,
# while other sessions change and vacuum the table.
#
# The suite "slow" runs this with HARMONIA_LENGTH=long: ten thousand queries.
use strict;
use warnings;

use Harmonia;
use HarmoniaDevice;
use HarmoniaLookups;
use Test::More;

my $seed = test_seed();
my %size = test_length(
	short => { tables => 3, queries => 15 },
	long => { tables => 50, queries => 200 });
my $node = new_device_node('device_random');
my ($compared, $used, $problem) = compare_lookups_at_random($node, $seed, %size);

is($problem, '', 'same answers');
is($compared, $size{tables} * $size{queries}, 'no query was left out');
cmp_ok($used, '>', $compared * 0.67, "$used of $compared queries used lookups");

my ($batches, $synced, $fallbacks) = split /\|/, $node->safe_psql('postgres',
	"SELECT sum(device_batches), sum(synced_blocks), sum(fallbacks) FROM harmonia_stat_indexes()");
cmp_ok($batches, '>', 100, "$batches batches on the device");
cmp_ok($synced, '>', 10, "$synced blocks had changed before");
is($fallbacks, 0, 'the device answered all of them');

$node->stop;
done_testing();
