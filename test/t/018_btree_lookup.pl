# Lookups over PostgreSQL's btrees: leaves that are split, emptied, deleted and used again while a lookup
# is under way, on a primary and on a replica; crashes; promotion; damaged pages.
#
# The suite "slow" runs this with HARMONIA_LENGTH=long: more random queries.
use strict;
use warnings;

use FaultSessions;
use Harmonia;
use HarmoniaDamage;
use HarmoniaLookups;
use HarmoniaRandom;
use PostgreSQL::Test::Cluster;
use Test::More;

my $seed = test_seed();
my %size = test_length(
	short => { tables => 1, queries => [ 5, 6, 3, 4, 3 ] },
	long => { tables => 1, queries => [ 40, 40, 10, 20, 20 ] });
my $r = HarmoniaRandom->new($seed);
my ($version) = `initdb --version` =~ /(\d+)/;
my $primary = new_node('btree_lookup', allows_streaming => 1,
	$version >= 18 ? (extra => ['--no-data-checksums']) : (),
	conf => "shared_buffers = 16MB\nwal_keep_size = 4GB\nsession_preload_libraries = 'harmonia'\n");

sub sql { return $primary->safe_psql('postgres', $_[0]); }

# ----------------------------------------------------------------
# Random comparison
# ----------------------------------------------------------------

# Some texts are so long that few have room on a page, and some keys are NULL.
sub text
{
	my ($k) = @_;
	return "'key ' || lpad(($k)::text, 8, '0') || CASE WHEN ($k) % 150 = 1 THEN (SELECT string_agg(md5($k || '.' || j), '') FROM generate_series(1, 80) j) ELSE '' END";
}

sub rows
{
	my ($series) = @_;
	return 'i % 60000, i % 200, CASE WHEN i % 7 > 0 THEN i / 200 % 300 END, ' . text('i % 60000') . ", i % 100 FROM generate_series($series) i";
}

make_lookup_functions($primary);
sql(<<"END");
CREATE TABLE m (k bigint, a int, b bigint, s text, v int) WITH (autovacuum_enabled = off, vacuum_truncate = off);
INSERT INTO m SELECT @{[rows('1, 60000, 2')]};
CREATE INDEX m_k ON m (k);
CREATE INDEX m_a_b ON m (a DESC, b);
CREATE INDEX m_s ON m (s);
CREATE TABLE o (n int, k bigint, a int, b bigint, s text) WITH (autovacuum_enabled = off);
INSERT INTO o SELECT i, k, k % 210, nullif(k / 200, 9), @{[text('k')]} FROM (SELECT i, CASE WHEN i % 19 <> 0 THEN abs(hashint4(i)) % 61000 END AS k FROM generate_series(1, 500) i) x;
VACUUM ANALYZE m, o;
END
my $writers = {
	'fill@4' => "\\set i random(1, 60000)\nINSERT INTO m SELECT @{[rows(':i, :i + 1500')]};\n",
	'empty@3' => "\\set i random(1, 60000)\nDELETE FROM m WHERE k BETWEEN :i AND :i + 2500;\n",
	'update@2' => "\\set i random(1, 60000)\nUPDATE m SET v = v + 1, b = b + 1 WHERE k BETWEEN :i AND :i + 200;\n",
	'vacuum@3' => "SELECT pg_try_advisory_lock(1) AS alone \\gset\n\\if :alone\nVACUUM (INDEX_CLEANUP on) m;\nSELECT pg_advisory_unlock(1);\n\\endif\n" };

sub queries
{
	my ($count) = @_;

	return map {
		my $where = $r->pick('true', 'o.n < 40', 'o.n > 300');
		my $on = $r->pick('m.k = o.k', 'm.k = o.k', 'm.k BETWEEN o.k AND o.k + 30', 'm.s = o.s', 'm.s = o.s', 'm.a = o.a AND m.b = o.b', 'm.a = o.a AND m.b = o.b', 'm.a = o.a AND o.n < 20');
		my $column = $r->pick('k', 's', 'a', 'b');
		my $query = $r->pick(
			"SELECT m.k, m.a, m.b FROM o JOIN m ON $on WHERE $where", "SELECT count(*) FROM o JOIN m ON $on WHERE $where",
			"SELECT o.n, m.v FROM o LEFT JOIN m ON $on WHERE $where", "SELECT sum(m.v), max(m.b) FROM o JOIN m ON $on WHERE $where",
			"SELECT o.n FROM o WHERE $where AND EXISTS (SELECT FROM m WHERE $on)", "SELECT o.n FROM o WHERE $where AND NOT EXISTS (SELECT FROM m WHERE $on)",
			"SELECT m.$column FROM m WHERE $column = ANY (ARRAY(SELECT $column FROM o WHERE $where))", "SELECT m.v FROM m WHERE $column = ANY (ARRAY(SELECT $column FROM o WHERE $where))",
			'SELECT a, b FROM m WHERE a = ANY (ARRAY(SELECT a FROM o)) AND b = ANY (ARRAY(SELECT b FROM o WHERE n < 90))');
		[ $query, 'int', '1' ]
	} 1 .. $count;
}

sub compare
{
	my ($node, $name) = @_;
	my $count = shift @{ $size{queries} };
	my $script = lookup_script(queries($count)) =~ s/\Q{seq,index,heap,only,small,large,parallel,divided,generic}/{seq,heap,only,small,parallel}/gr;
	my ($result, $out, $err) = $node->psql('postgres', $script, on_error_stop => 1);

	is($err, '', "same answers $name");
	is(scalar(() = $out =~ /^(?:lookup|other|too large)$/mg), $count, "no query was left out $name");
	cmp_ok(scalar(() = $out =~ /^lookup$/mg), '>', $count / 2, "most queries used lookups $name");
	return;
}

sub start_writers
{
	my ($node) = @_;
	my $load = start_pgbench($node, $writers, '-c', 3, '-T', 600, '-R', 40, "--random-seed=$seed", '--max-tries=100');

	wait_for_work($node);
	return $load;
}

$primary->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('btree_standby');
$standby->init_from_backup($primary, 'backup', has_streaming => 1);
$standby->append_conf('postgresql.conf', "hot_standby_feedback = on\nmax_standby_streaming_delay = 600s\n");
$standby->start;
$primary->wait_for_catchup($standby);

my $load = start_writers($primary);
compare($primary, 'beside writers');
compare($standby, 'on a replica');
$primary->stop('immediate');
$load->{run}->kill_kill;
$primary->start;
compare($primary, 'after a crash');
$load = start_writers($primary);
compare($standby, 'on a replica, after a crash of its primary');
$load->{run}->kill_kill;
unlike($load->{err}, qr/ERROR|abort/, 'the writers');
$primary->wait_for_catchup($standby);

# What the primary marks as dead may be seen by an older snapshot of a replica that sends no feedback.  The
# table has one page, which is not so full that scans would prune it; that would end the snapshot.
{
	my $lookup = 'SELECT count(*), sum(v) FROM d WHERE k = ANY (ARRAY(SELECT generate_series(1, 100)))';
	my $dead = "SELECT count(*) FROM bt_page_items('d_k', 1) WHERE dead";

	$standby->append_conf('postgresql.conf', 'hot_standby_feedback = off');
	$standby->reload;
	ok($primary->poll_query_until('postgres', 'SELECT backend_xmin IS NULL FROM pg_stat_replication'), 'no feedback');
	sql('CREATE EXTENSION pageinspect; CREATE TABLE d (k int, v int) WITH (autovacuum_enabled = off); INSERT INTO d SELECT i, i FROM generate_series(1, 100) i; CREATE INDEX d_k ON d (k)');
	$primary->wait_for_catchup($standby);
	my $reader = open_session($standby, q{BEGIN ISOLATION LEVEL REPEATABLE READ; DO 'BEGIN PERFORM plan_settings(''only''); END'});
	is(ask($reader, $lookup), '100|5050', 'an old snapshot of a replica');
	sql('DELETE FROM d WHERE k <= 60');
	sql('SET enable_seqscan = off; SET enable_bitmapscan = off; SET harmonia.enable_btree_lookup = off; SELECT count(v) FROM d WHERE k > 0') for 1 .. 2;
	sql("CHECKPOINT; INSERT INTO d VALUES (200, 200)");
	$primary->wait_for_catchup($standby);
	is($standby->safe_psql('postgres', $dead), 60, 'entries are marked as dead on the replica, too');
	like(ask($reader, "EXPLAIN $lookup"), qr/HarmoniaLookup/, 'a lookup on the replica');
	is(ask($reader, $lookup), '100|5050', 'an old snapshot of a replica, beside marks');
	close_session($reader);
}

$standby->promote;
$load = start_writers($standby);
compare($standby, 'on a promoted replica');
$load->{run}->kill_kill;
$standby->stop('immediate');

# ----------------------------------------------------------------
# Leaves in motion, below a cursor
# ----------------------------------------------------------------

my $lookups = q{DO 'BEGIN PERFORM plan_settings(''only''); END'};

# Rows in another order than their keys: 50 of each key, one key of many, and some without a key, which come
# first.  So the leaves of a cursor's first batch, which has few keys, are several.
sub make_table
{
	sql(<<'END');
DROP TABLE IF EXISTS t;
CREATE TABLE t (k bigint, v int) WITH (autovacuum_enabled = off, vacuum_truncate = off);
INSERT INTO t SELECT i * 7919 % 15013 % 300 + 1, 1 FROM generate_series(1, 15012) i;
INSERT INTO t SELECT 60, 2 FROM generate_series(1, 4000);
INSERT INTO t SELECT NULL, 3 FROM generate_series(1, 1000);
CREATE INDEX t_k ON t (k NULLS FIRST) WITH (fillfactor = 100, deduplicate_items = off);
VACUUM ANALYZE t;
END
	return;
}

my $delete = 'DELETE FROM t WHERE k BETWEEN 3 AND 200 AND v = 1';
my $vacuum = 'VACUUM (INDEX_CLEANUP on) t';
my %motion = (
	split => [ '', 'INSERT INTO t SELECT i % 300, 9 FROM generate_series(1, 30000) i' ],
	deleted => [ $delete, $vacuum, ('SELECT txid_current()') x 3, $vacuum, 'INSERT INTO t SELECT 250 + i % 50, 9 FROM generate_series(1, 15000) i' ],
	'deleted and filled again' => [ $delete, $vacuum, 'INSERT INTO t SELECT i % 200, 9 FROM generate_series(1, 15000) i' ]);
# Probes that are equal to a leaf's end would have all leaves visited as siblings.
my $scan = 't WHERE k = ANY (ARRAY(SELECT generate_series(1, 300, 7)))';
my %reads = (
	scan => "SELECT k, v FROM $scan",
	ranges => 'SELECT n, k, v FROM (SELECT n FROM generate_series(1, 300, 3) n OFFSET 0) s JOIN t ON k BETWEEN n AND n + 20',
	'index-only scan' => "SELECT k FROM $scan");

for my $motion (sort keys %motion)
{
	my ($before, @beside) = @{ $motion{$motion} };

	for my $read (sort keys %reads)
	{
		make_table();
		sql($before) if $before ne '';
		my $expected = sql("BEGIN; DO 'BEGIN PERFORM plan_settings(''seq''); END'; $reads{$read}");
		my $reader = open_session($primary, "BEGIN ISOLATION LEVEL REPEATABLE READ; $lookups");
		like(ask($reader, "EXPLAIN $reads{$read}"), qr/HarmoniaLookup/, "$motion, $read: the plan");
		my $got = ask($reader, "DECLARE c NO SCROLL CURSOR FOR $reads{$read}; FETCH 50 FROM c");
		sql($_) for @beside;
		$got .= "\n" . ask($reader, 'FETCH ALL FROM c; COMMIT');
		close_session($reader);
		my ($want, $have) = map { join "\n", sort split /\n/, $_ } $expected, $got;
		ok($want eq $have, "$motion, $read: same rows")
		  or diag(length($want) . ' and ' . length($have) . ' bytes');
	}
}

# A lookup ignores entries that are marked as dead, and core marks those that it finds.
make_table();
sql('DELETE FROM t WHERE k < 301');
sql('SET enable_seqscan = off; SET enable_bitmapscan = off; SET harmonia.enable_lookup_scan = off; SELECT count(v) FROM t WHERE k > 0');
like(sql("BEGIN; $lookups; EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) $reads{scan}"), qr/Hits: 0\b/, 'entries that are marked as dead');

# A snapshot may be too old for a leaf that has been changed.  Lookups do not look, so there are none then.
if ($version < 17)
{
	make_table();
	$primary->append_conf('postgresql.conf', 'old_snapshot_threshold = 0');
	$primary->restart;
	my $reader = open_session($primary, "BEGIN ISOLATION LEVEL REPEATABLE READ; $lookups");
	# A threshold of 0 is one of five seconds.
	sql('SELECT pg_sleep(5.5)');
	sql('INSERT INTO t SELECT i, 8 FROM generate_series(1, 300) i; DELETE FROM t WHERE v = 8');
	sql($vacuum);
	like(ask($reader, "SELECT count(*) FROM ($reads{scan}) q"), qr/snapshot too old/, 'a snapshot that is too old');
	close_session($reader);
	$primary->append_conf('postgresql.conf', 'old_snapshot_threshold = -1');
	$primary->restart;
}

# ----------------------------------------------------------------
# Damaged pages
# ----------------------------------------------------------------

my $page_size = 8192;
my %damage = (
	'a zeroed leaf' => [ sub { "\0" x $page_size }, qr/XX002: index "t_k" contains unexpected zero page/ ],
	'a page of the table' => [ sub { $_[2] }, qr/XX002: index "t_k" contains corrupted page/ ],
	'the root in place of a leaf' => [ sub { $_[0] }, qr/XX002: index "t_k" contains a page at block \d+ that should be a leaf/ ],
	'a leaf that is its own sibling' => [
		sub { my $page = $_[1]; substr($page, $page_size - 12, 4) = pack 'L', $_[3]; $page }, qr/57014: canceling statement/ ]);

for my $name (sort keys %damage)
{
	my ($plant, $expected) = @{ $damage{$name} };

	make_table();
	my ($index, $table) = map { $primary->data_dir . '/' . sql("SELECT pg_relation_filepath('$_')") } 't_k', 't';
	$primary->stop;
	my $data = read_index($index);
	my $root = get(\$data, 0, 24 + 8, 'L');
	my @leaves = grep { get(\$data, $_, $page_size - 4, 'S') == 1 } 1 .. length($data) / $page_size - 1;
	my ($first, $leaf) = @leaves[ 10, 30 ];
	substr($data, $leaf * $page_size, $page_size) =
	  $plant->((map { substr $data, $_ * $page_size, $page_size } $root, $first), substr(read_index($table), 0, $page_size), $leaf);
	write_index($index, $data);
	$primary->start;
	for my $read (sort keys %reads)
	{
		# Only a search for a sibling's end has no end.
		my $limit = $name =~ /sibling/ ? '1s' : '60s';
		my ($result, $out, $err) = $primary->psql('postgres',
			"\\set VERBOSITY verbose\nBEGIN; $lookups; SET LOCAL statement_timeout = '$limit'; SELECT count(*) FROM ($reads{$read}) q");
		like($err, $expected, "$name: $read");
	}
	is(sql('SELECT count(*) FROM o'), '500', "$name: the server goes on");
}

$primary->stop;
done_testing();
