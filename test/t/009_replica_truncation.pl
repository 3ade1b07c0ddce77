# A replica keeps the locks for truncations until the transaction has ended.  After VACUUM
# a query that has locked the table must still get the lock of the index.  A transaction that calls
# harmonia_reorganize() takes the locks when it commits.
use strict;
use warnings;

use Harmonia;
use PostgreSQL::Test::Cluster;
use Test::More;

my $primary = new_node('primary', allows_streaming => 1, conf => "shared_buffers = 16MB\nwal_keep_size = 1GB\nmax_prepared_transactions = 1\n");

$primary->safe_psql('postgres', <<'END');
CREATE TABLE t (k int);
INSERT INTO t SELECT generate_series(1, 200000);
CREATE INDEX t_k ON t USING harmonia (k);
VACUUM t;
END
$primary->backup('backup');

my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'backup', has_streaming => 1);
$standby->append_conf('postgresql.conf', "max_standby_streaming_delay = 600s\ndeadlock_timeout = 100ms\n");
$standby->start;

sub sizes
{
	my ($node) = @_;
	return $node->safe_psql('postgres', "SELECT pg_relation_size('t'), pg_relation_size('t_k')");
}

my ($table, $index) = split /\|/, sizes($primary);
$primary->safe_psql('postgres', 'DELETE FROM t WHERE k > 1000');
$primary->wait_for_catchup($standby);

# The reader locks the table before replay wants its locks.
my $reader = start_psql($standby, <<'END');
BEGIN;
LOCK TABLE t IN ACCESS SHARE MODE;
DO $$ BEGIN
	WHILE NOT EXISTS (SELECT FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND NOT granted) LOOP
		PERFORM pg_sleep(0.01);
	END LOOP;
END $$;
SET enable_seqscan = off;
SELECT count(*) FROM t WHERE k > 900;
COMMIT;
END
$standby->poll_query_until('postgres',
	"SELECT EXISTS (SELECT FROM pg_locks WHERE relation = 't'::regclass AND mode = 'AccessShareLock')")
  or die 'the reader has no lock';
$primary->safe_psql('postgres', 'VACUUM t');
is(finish($reader), '', 'the reader ends');
like($reader->{out}, qr/^100$/m, 'the reader has the right answer');

my ($table_left, $index_left) = split /\|/, sizes($primary);
cmp_ok($table_left, '<', $table, 'VACUUM truncates the table');
cmp_ok($index_left, '<', $index, 'VACUUM truncates the index');
$primary->wait_for_catchup($standby);
is(sizes($standby), "$table_left|$index_left", 'the replica truncates both');

# ----------------------------------------------------------------
# In a transaction block
# ----------------------------------------------------------------
$primary->safe_psql('postgres', <<'END');
CREATE TABLE go ();
CREATE FUNCTION wait_for_go() RETURNS void LANGUAGE plpgsql AS $$ BEGIN
	WHILE NOT EXISTS (SELECT FROM go) LOOP
		PERFORM pg_sleep(0.01);
	END LOOP;
END $$;
END

sub size { return $_[0]->safe_psql('postgres', q{SELECT pg_relation_size('r_k')}); }

for my $end ('COMMIT', 'ROLLBACK', q{PREPARE TRANSACTION 'p'})
{
	my $locks = q{SELECT count(*) FROM pg_locks WHERE mode = 'AccessExclusiveLock'};

	# What has been split can be packed.
	$primary->safe_psql('postgres', <<'END');
SET client_min_messages = warning;
DROP TABLE IF EXISTS r;
CREATE TABLE r (k int);
CREATE INDEX r_k ON r USING harmonia (k);
LOAD 'harmonia';
SET harmonia.batch_inserts = off;
INSERT INTO r SELECT hashint4(i) FROM generate_series(1, 50000) i;
TRUNCATE go;
END
	my $before = size($primary);
	my $session = start_psql($primary, <<"END");
BEGIN;
SELECT harmonia_reorganize('r_k') > 0;
SELECT wait_for_go();
$end;
END
	$primary->poll_query_until('postgres', <<'END') or die 'the session does not wait';
SELECT EXISTS (SELECT FROM pg_stat_activity WHERE query ~ '^SELECT wait_for_go' AND state = 'active')
END
	$primary->wait_for_catchup($standby);
	is($standby->safe_psql('postgres', $locks), '0', "before $end the replica has no lock")
	  or die 'queries there would wait';
	is(size($primary), size($standby), 'and its file is as the primary\'s');
	cmp_ok(size($primary), '>=', $before, 'which is as long as before');

	$primary->safe_psql('postgres', 'INSERT INTO go DEFAULT VALUES');
	is(finish($session), '', "$end succeeds");
	like($session->{out}, qr/^t$/m, 'segments were moved');
	$primary->wait_for_catchup($standby);
	is($standby->safe_psql('postgres', $locks), '0', "after $end the replica has no lock");
	if ($end ne 'COMMIT')
	{
		cmp_ok(size($primary), '>=', $before, 'the file is as long as before');
		$primary->safe_psql('postgres', q{ROLLBACK PREPARED 'p'}) if $end ne 'ROLLBACK';
		$primary->safe_psql('postgres', 'VACUUM r');
		$primary->wait_for_catchup($standby);
	}
	cmp_ok(size($primary), '<', $before, 'in the end the file is shorter');
	is(size($primary), size($standby), 'and so is the replica\'s');
	check_index($standby, 'r_k', 'which is as its table');
}

$standby->stop;
$primary->stop;
done_testing();
