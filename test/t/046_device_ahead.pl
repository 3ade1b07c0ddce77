# While an index is searched and changed, a process of the background brings its copy up to date in steps,
# ahead of the batches.  The device finds all rows, whatever that process has done.
use strict;
use warnings;

use Harmonia;
use HarmoniaDevice;
use Test::More;
use Time::HiRes qw(usleep);

my $node = new_device_node('device_ahead', conf => "autovacuum = off\nsynchronous_commit = off\n");
my $lookups = 'SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_indexscan = off; SET enable_indexonlyscan = off';
my $process = "FROM pg_stat_activity WHERE backend_type = 'harmonia re-sync'";
my $inserted = 100000;

sub sql { return $node->safe_psql('postgres', $_[0]); }

# Rows all over the index: each changes a line or two of its leaf.
sub insert_rows
{
	my ($rows) = @_;

	sql("INSERT INTO t SELECT hashint8extended(i, 0) FROM generate_series($inserted + 1, $inserted + $rows) i");
	$inserted += $rows;
	return;
}

# A batch on the device for each tenth key that was ever inserted.
sub batch
{
	return sql("$lookups; SELECT count(*), sum(k::numeric) FROM t"
		  . " WHERE k = ANY (ARRAY(SELECT hashint8extended(i, 0) FROM generate_series(1, $inserted, 10) i))");
}

sub of_table
{
	return sql("SELECT count(*), sum(k::numeric) FROM"
		  . " (SELECT hashint8extended(i, 0) k FROM generate_series(1, $inserted, 10) i) p WHERE EXISTS"
		  . " (SELECT FROM t WHERE t.k + 0 = p.k)");
}

# Has the process sent anything within a second after rows were inserted?  No batch runs meanwhile.
sub sends_ahead
{
	my ($rows) = @_;
	my $before = stat_of($node, 't_k', 'synced_blocks');

	insert_rows($rows);
	for (1 .. 10)
	{
		return 1 if stat_of($node, 't_k', 'synced_blocks') > $before;
		usleep(100_000);
	}
	return 0;
}

sql(<<"END");
CREATE TABLE t (k bigint);
INSERT INTO t SELECT hashint8extended(i, 0) FROM generate_series(1, $inserted) i;
CREATE INDEX t_k ON t USING harmonia (k) WITH (fillfactor = 70);
SELECT harmonia_load('t_k');
END
is(sql("SELECT count(*) $process"), '0', 'no process before there is anything to do');
is(batch(), of_table(), 'all rows are found');
my $loads = stat_of($node, 't_k', 'loads');
my ($ahead, $wrong) = (0, 0);
for my $round (1 .. 30)
{
	# The batch keeps the process alive, and starts it if there is much to send.
	$ahead++ if sends_ahead(1000 + 500 * ($round % 5));
	$wrong++ if batch() ne of_table();
	last if $ahead >= 3 && $round >= 8;
}
cmp_ok($ahead, '>=', 3, "changes are sent ahead of batches ($ahead times)");
is($wrong, 0, 'all rows are found after each of these');
is(stat_of($node, 't_k', 'loads'), $loads, 'all that in one copy');
ok($node->poll_query_until('postgres', "SELECT NOT EXISTS (SELECT $process)"), 'the process ends if nobody searches');

# It is no obstacle to commands that want the index or the database for themselves.
insert_rows(3000);
is(batch(), of_table(), 'it is started again');
sql('REINDEX INDEX t_k; DROP INDEX t_k');
$node->safe_psql('postgres', 'CREATE DATABASE other');
$node->safe_psql('other', 'CREATE EXTENSION harmonia; CREATE TABLE t AS SELECT hashint8extended(i, 0) AS k FROM generate_series(1, 50000) i;'
	  . ' CREATE INDEX t_k ON t USING harmonia (k)');
for my $n (1 .. 2)
{
	$node->safe_psql('other', "$lookups; INSERT INTO t SELECT hashint8extended(i, $n) FROM generate_series(1, 3000) i;"
		  . ' SELECT count(*) FROM t WHERE k = ANY (ARRAY(SELECT hashint8extended(i, 0) FROM generate_series(1, 3000) i))');
}
is($node->psql('postgres', 'DROP DATABASE other'), 0, 'a database that has just been used is dropped');

# Without it.
$node->append_conf('postgresql.conf', 'harmonia.resync_ahead = off');
$node->restart;
wait_for_device($node);
sql('CREATE INDEX t_k ON t USING harmonia (k)');
batch();
insert_rows(3000);
is(batch(), of_table(), 'switched off, all rows are found');
is(sql("SELECT count(*) $process"), '0', 'and there is no process');

$node->stop;
done_testing();
