# Random conditions on one to eight columns get the same answers from an index on these columns
# as from a sequential scan, and rows in the same order.  Some tables are partitioned, or have children.
# This is so on a server, with a btree index in its place, on a replica, and on a server whose lookups go to
# the device.
#
# The suite "slow" runs this with HARMONIA_LENGTH=long: a hundred thousand queries.
# HARMONIA_VARIANTS names the only servers.
use strict;
use warnings;

use Harmonia;
use HarmoniaColumns;
use HarmoniaDevice;
use PostgreSQL::Test::Cluster;
use Test::More;

my $seed = test_seed();
my $settings = "shared_buffers = 32MB\nautovacuum = off\n";
my %length = (
	server => { short => { tables => 16, rounds => 2, queries => 60 }, long => { tables => 200, rounds => 5, queries => 100 } },
	btree => { short => { tables => 6, rounds => 2, queries => 60 }, long => { tables => 200, rounds => 5, queries => 100 } },
	replica => { short => { tables => 3, rounds => 2, queries => 60 }, long => { tables => 40, rounds => 5, queries => 100 } },
	device => { short => { tables => 3, rounds => 2, queries => 60 }, long => { tables => 40, rounds => 5, queries => 100 } });

sub start_server { return new_node('columns_random', conf => $settings); }
sub start_btree { return new_node('columns_btree', conf => "${settings}session_preload_libraries = 'harmonia'\n"); }
sub start_device { return new_device_node('columns_device', conf => $settings); }

# A server and its replica, on which nothing conflicts with a query.
sub start_replica
{
	my $primary = new_node('columns_primary', allows_streaming => 1, conf => $settings);
	my $replica = PostgreSQL::Test::Cluster->new('columns_replica');

	$primary->backup('backup');
	$replica->init_from_backup($primary, 'backup', has_streaming => 1);
	$replica->append_conf('postgresql.conf', "max_standby_streaming_delay = 600s\n");
	$replica->start;
	return ($primary, replica => $replica);
}

my %start = (server => \&start_server, btree => \&start_btree, replica => \&start_replica, device => \&start_device);

for my $variant (split ' ', $ENV{HARMONIA_VARIANTS} // 'server btree replica device')
{
	next if $variant eq 'device' && !has_daemon();

	my %size = test_length(%{ $length{$variant} });
	my ($node, %reader) = $start{$variant}->();
	my ($compared, $problem, %used) = compare_columns_at_random($node, $seed, %size, %reader, method => $variant eq 'btree' ? 'btree' : 'harmonia');

	is($problem, '', "$variant: same answers");
	is($compared, $size{tables} * $size{rounds} * $size{queries}, "$variant: no query was left out");
	diag("$variant: $compared queries, $used{statements} statements; plans: " . join ', ', map { "$_ $used{$_}" } grep { $_ ne 'statements' } sort keys %used);

	cmp_ok($used{$_} // 0, '>', 0, "$variant: " . ($used{$_} // 0) . " queries by plans: $_")
	  for $variant eq 'btree' ? ('lookup', 'lookup-only', 'lookup-aggregate') : ();

	# A replica's and a device's tables are too few for some plans.
	next if $variant ne 'server';
	cmp_ok($used{$_} // 0, '>', $compared / 5, ($used{$_} // 0) . " of $compared queries used the index by $_ scans")
	  for ('index', 'bitmap', 'lookup');
	cmp_ok($used{$_} // 0, '>', 0, ($used{$_} // 0) . " of $compared queries read the index alone or in order, or by other plans: $_")
	  for ('only', 'lookup-only', 'lookup-aggregate', 'ordered-index', 'ordered-only', 'ordered-merge', 'cursor', 'processes',
		'generic-index', 'generic-lookup');
	$node->stop;
}

done_testing();
