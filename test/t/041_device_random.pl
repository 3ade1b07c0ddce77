# Random queries get the same answers from lookups on the device as from other plans,
# while other sessions change and vacuum the table: keys of any type, then uuids, whose keys have
# 128 bits; then indexes on several columns, most of which have such keys, too.
#
# The suite "slow" runs this with HARMONIA_LENGTH=long: twenty thousand queries.
use strict;
use warnings;

use Harmonia;
use HarmoniaColumns;
use HarmoniaDevice;
use HarmoniaLookups;
use Test::More;

my $seed = test_seed();
my %size = test_length(
	short => { tables => 3, queries => 15 },
	long => { tables => 50, queries => 200 });

sub check_device
{
	my ($node, $name) = @_;
	my ($batches, $synced, $fallbacks) = split /\|/, $node->safe_psql('postgres',
		'SELECT sum(device_batches), sum(synced_blocks), sum(fallbacks) FROM harmonia_stat_indexes()');

	cmp_ok($batches, '>', 100, "$name: $batches batches on the device");
	cmp_ok($synced, '>', 0, "$name: $synced blocks had changed before");
	is($fallbacks, 0, "$name: the device answered all of them");
	return;
}

for my $family (undef, 'uuid', 'word')
{
	my $name = $family // 'any type';
	my $node = new_device_node('device_random_' . ($family // 'any'));
	my ($compared, $used, $problem) = compare_lookups_at_random($node, $seed, %size, family => $family);

	is($problem, '', "$name: same answers");
	is($compared, $size{tables} * $size{queries}, "$name: no query was left out");
	cmp_ok($used, '>', $compared * 0.5, "$name: $used of $compared queries used lookups");
	check_device($node, $name);
	$node->stop;
}

my %columns_size = test_length(
	short => { tables => 6, rounds => 2, queries => 25 },
	long => { tables => 100, rounds => 5, queries => 40 });
my $node = new_device_node('device_columns', conf => "autovacuum = off\n");
my ($compared, $problem, %used) = compare_columns_at_random($node, $seed, %columns_size, kinds => [qw(int2 int4 int4 int8 wide date)],
	first => [qw(int8 wide)]);

is($problem, '', 'several columns: same answers');
is($compared, $columns_size{tables} * $columns_size{rounds} * $columns_size{queries}, 'several columns: no query was left out');
cmp_ok($used{$_} // 0, '>', $compared / 40, "several columns: $_ in " . ($used{$_} // 0) . " of $compared queries")
  for ('lookup', 'lookup-only', 'wide');
check_device($node, 'several columns');

$node->stop;
done_testing();
