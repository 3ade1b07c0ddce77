# After a crash at a random moment an index answers what its table holds.
# test/t-slow/crash_loop.pl crashes more often.
use strict;
use warnings;

use Harmonia;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

my $seed = test_seed();
my $node = new_node('crash', conf => 'wal_level = replica');

$node->safe_psql('postgres', <<'END');
CREATE TABLE t (id bigserial, k int, w bigint, u uuid GENERATED ALWAYS AS (md5(k::text)::uuid) STORED);
CREATE INDEX t_k ON t USING harmonia (k);
CREATE INDEX t_w ON t USING harmonia (w) WITH (fanout = 8);
CREATE INDEX t_two ON t USING harmonia ((w % 100), (k + 0)) WITH (fanout = 8);
CREATE INDEX t_u ON t USING harmonia (u);
INSERT INTO t (k, w) SELECT hashint4(i) % 50000, nullif(i % 1000, 7) FROM generate_series(1, 20000) i;
CHECKPOINT;
END

# What runs when the server crashes: a name, and SQL that takes a while.
my @work = (
	[ 'single inserts' => join '', map {
		"INSERT INTO t (k, w) VALUES (hashint4($_) % 50000, $_);\n"
	} 1 .. 20_000 ],
	[ 'batches' => 'INSERT INTO t (k, w) SELECT hashint4(i) % 50000, hashint4(i + 1)'
		  . ' FROM generate_series(1, 1000000) i' ],
	[ 'small batches' => "SET harmonia.insert_batch_memory = '64kB';"
		  . ' INSERT INTO t (k, w) SELECT hashint4(i), i FROM generate_series(1, 1000000) i' ],
	[ 'COPY' => "COPY t (k, w) FROM stdin;\n"
		  . join('', map { ($_ * 7919) % 1000003 . "\t" . ($_ % 13 ? $_ : '\N') . "\n" } 1 .. 200_000)
		  . "\\.\n" ],
	[ 'update' => 'UPDATE t SET k = k + 1, w = -w' ],
	# Leaves fill with entries of dead rows, which leave early.
	[ 'rows that come and go' => "DO \$\$ BEGIN LOOP INSERT INTO t (k, w) SELECT 60000 + j % 5, j FROM generate_series(1, 300) j; COMMIT;"
		  . " DELETE FROM t WHERE k BETWEEN 60000 AND 60004; COMMIT; END LOOP; END \$\$" ],
	[ 'vacuum' => 'DELETE FROM t WHERE id % 3 = 0; VACUUM t; VACUUM t; DELETE FROM t WHERE id % 3 = 1; VACUUM t' ],
	[ 'create index' => 'CREATE INDEX t_new ON t USING harmonia (id)' ],
	[ 'create index on two columns' => 'CREATE INDEX t_new ON t USING harmonia ((k % 7), id)' ],
	[ 'create index concurrently' => 'CREATE INDEX CONCURRENTLY t_new ON t USING harmonia (id)' ],
	[ 'reindex' => 'REINDEX TABLE t' ]);

srand($seed);
for my $work (@work)
{
	my ($name, $sql) = @$work;
	my $session = start_psql($node, "$sql;\nSELECT pg_sleep(600);");

	# The moment is random on purpose, between the beginning and the end.
	wait_for_work($node);
	if ($name =~ /go$/)
	{
		my $removals = 0;
		my $end = time() + 3 * $PostgreSQL::Test::Utils::timeout_default;

		sleep(0.1) while ($removals = early_removals($node)) < 5 && time() < $end;
		cmp_ok($removals, '>=', 5, "$name: entries of dead rows have left early");
	}
	crash_after($node, rand(0.6));
	finish($session);
	$node->start;
	check_all_indexes($node, "crash during $name");

	# The index goes on working with what the crash has left behind.
	$node->safe_psql('postgres', 'DROP INDEX IF EXISTS t_new');
	$node->safe_psql('postgres',
		'INSERT INTO t (k, w) SELECT i % 1000, i FROM generate_series(1, 1000) i; DELETE FROM t WHERE id % 10 = 0; VACUUM t');
	check_all_indexes($node, 'changes after it');
	$node->safe_psql('postgres',
		'DELETE FROM t WHERE id < (SELECT max(id) FROM t) - 50000; CHECKPOINT') if rand() < 0.5;
}

# After a checkpoint only later changes are replayed.
$node->safe_psql('postgres', 'CHECKPOINT; INSERT INTO t (k, w) VALUES (1, 1), (NULL, NULL); CHECKPOINT');
crash_node($node);
$node->start;
check_all_indexes($node, 'crash after a checkpoint');

$node->safe_psql('postgres', 'INSERT INTO t (k, w) SELECT i, i FROM generate_series(1, 5000) i');
$node->stop('immediate');
$node->start;
check_all_indexes($node, 'immediate shutdown');

# One backend is killed: the postmaster restarts all.
$node->append_conf('postgresql.conf', 'restart_after_crash = on');
$node->restart;
my $session = start_psql($node, "$work[1][1];\nSELECT pg_sleep(600);");
wait_for_work($node);
kill KILL => $node->safe_psql('postgres',
	"SELECT pid FROM pg_stat_activity WHERE application_name = 'work'");
finish($session);
$node->poll_query_until('postgres', 'SELECT true');
check_all_indexes($node, 'crash of a backend');

crash_rounds($node, $seed, 5);

$node->stop;
done_testing();
