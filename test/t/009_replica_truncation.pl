# A replica keeps the locks for truncations until VACUUM has ended.  A query that has
# locked the table must still get the lock of the index.
use strict;
use warnings;

use Harmonia;
use PostgreSQL::Test::Cluster;
use Test::More;

my $primary = new_node('primary', allows_streaming => 1, conf => "shared_buffers = 16MB\nwal_keep_size = 1GB\n");

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

$standby->stop;
$primary->stop;
done_testing();
