# Entries of dead rows leave the index before VACUUM comes, when their leaf is full.  No
# snapshot misses a row by that, here or on a replica.
use strict;
use warnings;

use FaultSessions;
use Harmonia;
use PostgreSQL::Test::Cluster;
use Test::More;

# With checksums, hints are full images in WAL.
my $primary = new_node('primary', allows_streaming => 1, extra => ['--data-checksums'],
	conf => "wal_keep_size = 1GB\nwal_consistency_checking = generic\n");

sub sql { return $primary->safe_psql('postgres', $_[0]); }

sub entries { return sql("SELECT entries FROM harmonia_index_info('$_[0]')"); }

# ----------------------------------------------------------------
# What comes and goes does not make the index grow
# ----------------------------------------------------------------
sql(<<'END');
CREATE PROCEDURE queue(tab regclass, rounds int) LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1..rounds LOOP
		EXECUTE format('INSERT INTO %s SELECT $1', tab) USING i;
		EXECUTE format('DELETE FROM %1$s WHERE ctid = (SELECT ctid FROM %1$s ORDER BY k LIMIT 1 FOR UPDATE SKIP LOCKED)', tab);
		COMMIT;
	END LOOP;
END $$;
CREATE PROCEDURE rolled_back(tab regclass, rounds int) LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1..rounds LOOP
		BEGIN
			EXECUTE format('INSERT INTO %s SELECT generate_series(1, 100)', tab);
			RAISE 'undo' USING ERRCODE = 'U0001';
		EXCEPTION WHEN SQLSTATE 'U0001' THEN
		END;
	END LOOP;
END $$;
CREATE PROCEDURE flips(tab regclass, rounds int) LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('INSERT INTO %s SELECT i %% 3 FROM generate_series(1, 50) i', tab);
	COMMIT;
	FOR i IN 1..rounds LOOP
		EXECUTE format('UPDATE %s SET k = (k + 1) %% 3', tab);
		COMMIT;
	END LOOP;
END $$;
END

my %changes = (
	queue => 'CALL queue(%s, 5000)',
	rolled_back => 'CALL rolled_back(%s, 100)',
	flips => 'CALL flips(%s, 200)');

for my $kind ('', 'UNLOGGED')
{
	for my $change (sort keys %changes)
	{
		my $table = lc "$change$kind";
		my $name = "$change, " . ($kind || 'logged');

		sql(<<"END");
CREATE $kind TABLE $table (k int);
CREATE INDEX ${table}_k ON $table USING harmonia (k);
INSERT INTO $table VALUES (0);
END
		sql(sprintf($changes{$change}, "'$table'"));
		my $pages = sql("SELECT leaf_pages FROM harmonia_index_info('${table}_k')");
		cmp_ok($pages, '<=', 3, "$name: few leaves ($pages)");
		check_index($primary, "${table}_k", "$name: the index is as its table");
	}
}

# Updates leave the key as it is, and the former versions are on many pages of the table.  A full leaf asks
# about more of these than one question has; otherwise leaves of the past stay behind, full of dead entries.
sql(<<'END');
CREATE TABLE stay (id int, k int, n int);
CREATE INDEX stay_k ON stay USING harmonia (k);
CREATE INDEX ON stay (n);
INSERT INTO stay SELECT i, i % 10, 0 FROM generate_series(1, 1000) i;
CREATE PROCEDURE update_n(rounds int) LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1..rounds LOOP
		UPDATE stay SET n = n + 1 WHERE id * 7919 % 97 = i * 31 % 97;
		COMMIT;
	END LOOP;
END $$;
END
sql('SET harmonia.batch_inserts = off; CALL update_n(6000)');
cmp_ok(sql("SELECT leaf_pages FROM harmonia_index_info('stay_k')"), '<=', 4, 'values that stay: few leaves');
check_index($primary, 'stay_k', 'values that stay: the index is as its table');

# A statement's rows need more room than the dead rows leave that scans have found.  The others of the leaf are asked
# about, too; the first heap pages are those of the statement itself.
sql(<<'END');
CREATE TABLE wide_rows (k int, filler text);
CREATE INDEX wide_rows_k ON wide_rows USING harmonia (k);
INSERT INTO wide_rows SELECT 1000 + i FROM generate_series(1, 2000) i;
CREATE PROCEDURE insert_in_vain(rounds int) LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off AS $$
BEGIN
	FOR i IN 1..rounds LOOP
		BEGIN
			INSERT INTO wide_rows SELECT j, repeat('x', 480) FROM generate_series(1, 100) j;
			RAISE 'undo' USING ERRCODE = 'U0001';
		EXCEPTION WHEN SQLSTATE 'U0001' THEN
		END;
		PERFORM FROM wide_rows WHERE k = i % 100;
	END LOOP;
END $$;
CALL insert_in_vain(300);
END
cmp_ok(sql("SELECT leaf_pages FROM harmonia_index_info('wide_rows_k')"), '<=', 7, 'a few hints, many rows: few leaves');
check_index($primary, 'wide_rows_k', 'a few hints, many rows: the index is as its table');

# ----------------------------------------------------------------
# Hints: a scan leaves out what an earlier one has found dead
# ----------------------------------------------------------------

# The number of entries that a query's scans of an index return
sub entries_read
{
	my ($session, $index, $query) = @_;
	my $counter = "SELECT pg_stat_get_xact_tuples_returned('$index'::regclass)";

	ask($session, 'BEGIN');
	my $before = ask($session, $counter);
	ask($session, $query);
	my $after = ask($session, $counter);
	ask($session, 'COMMIT');
	return $after - $before;
}

my $plans = 'SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off;'
  . ' SET harmonia.enable_lookup_scan = off; SET harmonia.enable_lookup_join = off';

for my $kind ('', 'UNLOGGED', 'TEMPORARY')
{
	my $name = 'hints, ' . lc($kind || 'logged');
	my $session = open_session($primary, $plans);
	my $all = 'SELECT count(*), sum(k) FROM hinted WHERE k > 0';

	# Leaves of class 32, and of class 64
	for my $type ('int', 'bigint')
	{
		my $factor = $type eq 'int' ? 1 : 3_000_000_000;

		ask($session, <<"END");
DROP TABLE IF EXISTS hinted;
CREATE $kind TABLE hinted (k $type);
CREATE INDEX hinted_k ON hinted USING harmonia (k);
INSERT INTO hinted SELECT i * $factor FROM generate_series(1, 300) i;
DELETE FROM hinted WHERE k % (10 * $factor) <> 0;
END
		ask($session, "SET enable_indexscan = off; SET enable_seqscan = on");
		my $expected = ask($session, $all);
		ask($session, "SET enable_indexscan = on; SET enable_seqscan = off");
		cmp_ok(entries_read($session, 'hinted_k', $all), '>', 200, "$name: the first scan reads all entries");
		is(entries_read($session, 'hinted_k', $all), 30, "$name: the second one reads those of live rows");
		is(entries_read($session, 'hinted_k', "SELECT k FROM hinted WHERE k > 0 ORDER BY k DESC"), 30, "$name: so does a backward one");
		ask($session, 'SET enable_indexscan = off; SET enable_bitmapscan = on');
		is(entries_read($session, 'hinted_k', $all), 30, "$name: so does one into a bitmap");
		is(ask($session, $all), $expected, "$name: and finds all rows");
		ask($session, 'SET enable_indexscan = on; SET enable_bitmapscan = off');

		# What changes slots clears their hints: few entries, and so many that the leaf is filled again
		ask($session, "INSERT INTO hinted SELECT i * $factor FROM generate_series(1, 200) i");
		ask($session, 'SET enable_indexscan = off; SET enable_seqscan = on');
		$expected = ask($session, $all);
		ask($session, 'SET enable_indexscan = on; SET enable_seqscan = off');
		is(ask($session, $all), $expected, "$name: new rows are found");
		ask($session, "INSERT INTO hinted VALUES (2000000000)");
		ask($session, "INSERT INTO hinted SELECT i * $factor FROM generate_series(1, 600) i");
		ask($session, 'SET enable_indexscan = off; SET enable_seqscan = on');
		$expected = ask($session, $all);
		ask($session, 'SET enable_indexscan = on; SET enable_seqscan = off');
		is(ask($session, $all), $expected, "$name: the rows after more changes");
		ask($session, 'VACUUM hinted');
		is(ask($session, $all), $expected, "$name: the rows after VACUUM");
		is(ask($session, "SELECT harmonia_check('hinted_k', true)"), '', "$name: the index is whole");
	}
	close_session($session);
	sql('DROP TABLE IF EXISTS hinted');
}

# A scan stops on a leaf after it has seen a dead row.  Meanwhile VACUUM frees the line pointer, and
# a new row with the same key gets it: the hint would be for the new row's entry.  A logged index
# shows by its LSN that the leaf has changed; with others VACUUM waits for the scan's pin.
for my $kind ('', 'UNLOGGED')
{
	my $name = 'a line pointer used again, ' . lc($kind || 'logged');
	my ($reader, $vacuum) = map { open_session($primary, $plans) } 1 .. 2;

	sql(<<"END");
CREATE $kind TABLE again (k int, filler text);
ALTER TABLE again ALTER filler SET STORAGE PLAIN;
CREATE INDEX again_k ON again USING harmonia (k);
INSERT INTO again SELECT i, repeat('x', 5000) FROM generate_series(1, 10) i;
DELETE FROM again WHERE k = 6;
END
	my $tid = '(5,1)';
	ask($reader, 'BEGIN; DECLARE c CURSOR FOR SELECT k FROM again WHERE k > 0 ORDER BY k; MOVE 6 IN c');
	send_sql($vacuum, 'VACUUM (TRUNCATE off) again');
	settled($primary, $vacuum) || die 'VACUUM neither ends nor waits';
	is(sql("SELECT wait_event FROM pg_stat_activity WHERE pid = $vacuum->{pid} AND state = 'active'"),
		$kind ? 'BufferPin' : '', "$name: VACUUM waits or not");
	sql("INSERT INTO again VALUES (6, repeat('x', 5000))") unless $kind;
	is(ask($reader, 'FETCH ALL FROM c'), "8\n9\n10", "$name: the cursor ends");
	ask($reader, 'COMMIT');
	is(answer($vacuum), '', "$name: VACUUM ends");
	sql("INSERT INTO again VALUES (6, repeat('x', 5000))") if $kind;
	is(sql('SELECT ctid FROM again WHERE k = 6'), $tid, "$name: the new row is where the old one was");
	is(ask($reader, 'SELECT ctid FROM again WHERE k = 6'), $tid, "$name: and is found by the index");
	check_index($primary, 'again_k', "$name: the index is as its table");
	close_session($_) for ($reader, $vacuum);
	sql('DROP TABLE again');
}

# ----------------------------------------------------------------
# Old snapshots, here and on replicas
#
# The rows of a table are deleted, and its heap pages are not pruned: they have free room, and
# nothing reads them.  So no record but that of the index speaks of the rows.
# ----------------------------------------------------------------
sql(<<'END');
CREATE TABLE t (k int) WITH (fillfactor = 50);
CREATE INDEX t_k ON t USING harmonia (k);
INSERT INTO t SELECT i FROM generate_series(1, 1000) i;
END
$primary->backup('backup');

my $by_index = 'SELECT count(*) FROM t WHERE k > 0';
my %standbys;

for my $kind ('waits', 'cancels', 'feedback')
{
	my $node = PostgreSQL::Test::Cluster->new($kind);
	my $delay = { waits => '-1', cancels => '10ms', feedback => '600s' }->{$kind};
	my $feedback = $kind eq 'feedback' ? 'on' : 'off';

	$node->init_from_backup($primary, 'backup', has_streaming => 1);
	$node->append_conf('postgresql.conf', <<"END");
hot_standby_feedback = $feedback
max_standby_streaming_delay = $delay
wal_receiver_status_interval = 1s
END
	$standbys{$kind} = $node;
}

# A session with a snapshot in which the table has all rows
sub old_session
{
	my ($node) = @_;
	my $session = open_session($node, $plans);

	ask($session, 'BEGIN ISOLATION LEVEL REPEATABLE READ');
	is(ask($session, $by_index), 1000, $node->name . ': a snapshot with all rows');
	return $session;
}

# Fill the leaves with rows of the same keys.
sub fill
{
	my ($node) = @_;

	$node->safe_psql('postgres',
		join ';', ('INSERT INTO t SELECT 1 + i * 7 % 1000 FROM generate_series(1, 500) i') x 4);
	return;
}

# A snapshot here keeps the entries.
my $session = old_session($primary);
sql('DELETE FROM t');
fill($primary);
cmp_ok(entries('t_k'), '>=', 3000, 'a snapshot keeps entries');
is(ask($session, $by_index), 1000, 'and finds the rows by them');
ask($session, 'COMMIT');
close_session($session);

# So does one on a replica with feedback.
$standbys{feedback}->start;
sql('TRUNCATE t; INSERT INTO t SELECT i FROM generate_series(1, 1000) i');
$primary->wait_for_catchup($standbys{feedback});
$session = old_session($standbys{feedback});
$primary->poll_query_until('postgres',
	'SELECT backend_xmin IS NOT NULL FROM pg_stat_replication') || die 'no feedback';
sql('DELETE FROM t');
fill($primary);
cmp_ok(entries('t_k'), '>=', 3000, "a replica's snapshot keeps entries");
$primary->wait_for_catchup($standbys{feedback});
is(ask($session, $by_index), 1000, 'and finds the rows by them on the replica');
ask($session, 'COMMIT');
close_session($session);
$standbys{feedback}->stop;

# Without feedback replay waits for the snapshot or cancels its query.
$standbys{$_}->start foreach 'waits', 'cancels';
sql('TRUNCATE t; INSERT INTO t SELECT i FROM generate_series(1, 1000) i');
$primary->wait_for_catchup($standbys{$_}) foreach 'waits', 'cancels';
my %sessions = map { $_ => old_session($standbys{$_}) } 'waits', 'cancels';
sql('DELETE FROM t');
fill($primary);
cmp_ok(entries('t_k'), '<', 3000, 'entries have been removed');
my $end = sql('SELECT pg_current_wal_insert_lsn()');

wait_until($standbys{waits},
	"SELECT FROM pg_stat_activity WHERE wait_event = 'RecoveryConflictSnapshot'"
	  . " UNION ALL SELECT FROM (SELECT pg_last_wal_replay_lsn() l) s WHERE l >= '$end'")
  || die 'replay neither waits nor ends';
is(ask($sessions{waits}, $by_index), 1000, 'replay waits for a snapshot that needs removed entries');
ask($sessions{waits}, 'COMMIT');
$primary->wait_for_catchup($standbys{$_}) foreach 'waits', 'cancels';
is(ask($sessions{waits}, $by_index), 2000, 'a new snapshot needs none of them');

# A session that is idle in a transaction is disconnected.
my $answer = eval { ask($sessions{cancels}, $by_index) } // $sessions{cancels}{err};
like($answer, qr/conflict with recovery/, 'or cancels it');
close_session($_) foreach values %sessions;
check_index($standbys{$_}, 't_k', "$_: the replica has the same") foreach 'waits', 'cancels';
$standbys{cancels}->stop;

# A snapshot from before a promotion.
sql('TRUNCATE t; INSERT INTO t SELECT i FROM generate_series(1, 1000) i');
$primary->wait_for_catchup($standbys{waits});
$session = old_session($standbys{waits});
sql('DELETE FROM t');
$primary->wait_for_catchup($standbys{waits});
$standbys{waits}->promote;
fill($standbys{waits});
is(ask($session, $by_index), 1000, 'a snapshot from before a promotion finds all rows');
ask($session, 'COMMIT');
is(ask($session, $by_index), 2000, 'a later one finds the new rows');
close_session($session);
fill($standbys{waits});
check_index($standbys{waits}, 't_k', 'the promoted replica');
$standbys{waits}->stop;

# ----------------------------------------------------------------
# Line pointers that are used again at once
#
# Rows with few keys come and go, and VACUUM frees their line pointers, so that an entry soon
# stands for another row with the same key.
# ----------------------------------------------------------------
for my $kind ('', 'UNLOGGED')
{
	sql(<<"END");
DROP TABLE IF EXISTS few;
DROP FUNCTION IF EXISTS few_problem;
CREATE $kind TABLE few (id serial, k int, k2 int);
CREATE INDEX few_k ON few USING harmonia (k);
CREATE INDEX few_k2 ON few (k2);
CREATE FUNCTION few_problem(key int) RETURNS void LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off AS \$\$
BEGIN
	PERFORM check_index.compare(format('key %s', key),
		(SELECT (count(*), sum(id))::text FROM few WHERE k2 = key),
		(SELECT (count(*), sum(id))::text FROM few WHERE k = key));
END \$\$;
END
	my @time = ('-T', $ENV{HARMONIA_SECONDS} // 4);
	my $load = start_pgbench($primary, {
			'come@5' => "\\set k random(1, 5)\nINSERT INTO few (k, k2) SELECT :k, :k FROM generate_series(1, 5);\n",
			'go@4' => "\\set k random(1, 5)\nDELETE FROM few WHERE ctid = ANY (ARRAY(SELECT ctid FROM few WHERE k = :k LIMIT 6 FOR UPDATE SKIP LOCKED));\n",
			'change@2' => "\\set k random(1, 5)\nUPDATE few SET k = k + 1, k2 = k2 + 1 WHERE k = :k AND id % 7 = 0;\n"
			  . "UPDATE few SET k = 1, k2 = 1 WHERE k > 5;\n",
			'undo@1' => "BEGIN;\nINSERT INTO few (k, k2) SELECT 3, 3 FROM generate_series(1, 20);\nROLLBACK;\n" },
		'-c', 3, '--max-tries=100', @time);
	my $vacuum = start_pgbench($primary, { vacuum => "VACUUM few;\n" }, '-c', 1, @time);
	my $readers = start_pgbench($primary, { read => "\\set k random(1, 6)\nSELECT few_problem(:k);\n" }, '-c', 2, @time);

	no_errors($load, 'rows come and go');
	no_errors($vacuum, 'VACUUM');
	no_errors($readers, 'readers');
	check_index($primary, 'few_k', "few_k, " . lc($kind || 'logged'));
}

$primary->stop;
done_testing();
