# What is queued and what is not, where it takes several sessions: COPY by several clients at once,
# and what logical replication applies.
use strict;
use warnings;

use Harmonia;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $table = 'CREATE TABLE loaded (id int PRIMARY KEY, k int); CREATE INDEX loaded_k ON loaded USING harmonia (k);';
my $publisher = new_node('publisher', allows_streaming => 'logical', conf => "log_min_messages = debug1\n");
my $subscriber = new_node('subscriber', conf => "log_min_messages = debug1\n");

# The sizes of the batches that a server has applied.
sub batches
{
	my ($node) = @_;
	my @sizes = slurp_file($node->logfile) =~ /applied (\d+) queued entries to index "loaded_k"/g;

	return join(' ', @sizes);
}

$_->safe_psql('postgres', $table) for $publisher, $subscriber;
$publisher->safe_psql('postgres', 'CREATE PUBLICATION p FOR TABLE loaded');
$subscriber->safe_psql('postgres',
	sprintf(q(CREATE SUBSCRIPTION s CONNECTION '%s dbname=postgres' PUBLICATION p WITH (copy_data = off)), $publisher->connstr));

my @clients = map {
	my $from = 1000 * $_ + 1;
	my $to = 1000 * ($_ + 1);
	start_psql($publisher, "\\copy loaded FROM PROGRAM 'seq $from $to | sed \"s/.*/&,&/\"' WITH (FORMAT csv)");
} 0 .. 3;
no_errors($_, 'COPY') for @clients;
is(batches($publisher), '936 936 936 936', 'COPY by four clients: each queues its entries');
check_index($publisher, 'loaded_k', 'the index is as its table');

$publisher->wait_for_catchup('s');
is($subscriber->safe_psql('postgres', 'SELECT count(*) FROM loaded'), 4000, 'the subscriber has all rows');
is(batches($subscriber), '', 'it has queued no entries');
check_index($subscriber, 'loaded_k', "the subscriber's index is as its table");

done_testing();
