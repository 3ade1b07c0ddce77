# What is queued and what is not, where it takes several sessions or says more than it can in a regression
# test: COPY by several clients at once, what logical replication applies, REFRESH.
use strict;
use warnings;

use Harmonia;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $table = 'CREATE TABLE loaded (id int PRIMARY KEY, k int); CREATE INDEX loaded_k ON loaded USING harmonia (k);';
my $publisher = new_node('publisher', allows_streaming => 'logical', conf => "log_min_messages = debug1\n");
my $subscriber = new_node('subscriber', conf => "log_min_messages = debug1\n");

# The sizes of the batches that a server has applied to an index.
sub batches
{
	my ($node, $index) = @_;
	my @sizes = slurp_file($node->logfile) =~ /applied (\d+) queued entries to index "$index"/g;

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
is(batches($publisher, 'loaded_k'), '992 992 992 992', 'COPY by four clients: each queues its entries');
check_index($publisher, 'loaded_k', 'the index is as its table');

$publisher->wait_for_catchup('s');
is($subscriber->safe_psql('postgres', 'SELECT count(*) FROM loaded'), 4000, 'the subscriber has all rows');
is(batches($subscriber, 'loaded_k'), '', 'it has queued no entries');
check_index($subscriber, 'loaded_k', "the subscriber's index is as its table");

# Each leaf that a batch fills is written once, however full a build would make it.
$publisher->safe_psql('postgres', <<'END');
CREATE TABLE sparse (k bigint);
INSERT INTO sparse SELECT (g * 10) << 32 FROM generate_series(1::bigint, 5568) g;
CREATE INDEX sparse_k ON sparse USING harmonia (k) WITH (fillfactor = 10);
END
my $start = $publisher->lsn('insert');
$publisher->safe_psql('postgres', 'INSERT INTO sparse SELECT g * 13 % 60000 FROM generate_series(1, 3000) g');
cmp_ok($publisher->safe_psql('postgres', "SELECT pg_current_wal_insert_lsn() - '$start'"),
	'<', 1_000_000, 'bytes of WAL for 3,000 rows that all come to one sparse leaf');
check_index($publisher, 'sparse_k', 'the index after a batch into one leaf');

# The first copy of a table
$subscriber->safe_psql('postgres', 'DROP SUBSCRIPTION s; TRUNCATE loaded');
$subscriber->safe_psql('postgres',
	sprintf(q(CREATE SUBSCRIPTION s CONNECTION '%s dbname=postgres' PUBLICATION p), $publisher->connstr));
$subscriber->poll_query_until('postgres', 'SELECT count(*) = 4000 FROM loaded') || die 'the table is not copied';
is(batches($subscriber, 'loaded_k'), '', 'the first copy of a table is not queued either');
check_index($subscriber, 'loaded_k', 'the index after the first copy');

# REFRESH changes the rows that differ by statements of its own, or builds the indexes again
$publisher->safe_psql('postgres', <<'END');
CREATE MATERIALIZED VIEW summary AS SELECT id, k FROM loaded;
CREATE UNIQUE INDEX summary_id ON summary (id);
CREATE INDEX summary_k ON summary USING harmonia (k);
UPDATE loaded SET k = -k WHERE id <= 1000;
REFRESH MATERIALIZED VIEW CONCURRENTLY summary;
REFRESH MATERIALIZED VIEW summary;
END
is(batches($publisher, 'summary_k'), '992', 'REFRESH CONCURRENTLY queues the entries of rows that differ');
check_index($publisher, 'summary_k', 'the index of a materialized view');

done_testing();
