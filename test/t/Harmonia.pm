# What the TAP tests share: servers that are crashed and restarted, sessions in
# the background, and comparisons of what a harmonia index answers with what the
# table holds.
package Harmonia;

use strict;
use warnings;

use Exporter 'import';
use File::Basename qw(basename);
use File::Copy qw(copy);
use IPC::Run ();
use Time::HiRes qw(usleep);

use HarmoniaRandom;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = qw(
  new_node crash_node crash_after crash_rounds
  start_psql start_pgbench finish wait_for_work
  check_index check_all_indexes index_problem
  make_pairs write_pairs read_pairs make_load start_load no_errors
  test_seed compare_at_random
);

# Settings of all servers.  Few buffers, so that pages get written and read back
# in all orders.
my $settings = <<'END';
fsync = off
log_statement = none
log_min_messages = warning
autovacuum = off
shared_buffers = 4MB
max_connections = 20
max_wal_size = 256MB
END

# Numbers the files that psql reads.
my $sessions = 0;

# ----------------------------------------------------------------
# Servers and sessions
# ----------------------------------------------------------------

# A running server with the extension and the functions below.  Parameters:
# what init() takes, and conf, more settings.
sub new_node
{
	my ($name, %params) = @_;
	my $conf = delete $params{conf} // '';
	my $node = PostgreSQL::Test::Cluster->new($name);

	$node->init(%params);
	$node->append_conf('postgresql.conf', $settings . $conf);
	$node->start;
	prepare_database($node, 'postgres');
	return $node;
}

sub prepare_database
{
	my ($node, $database) = @_;

	$node->safe_psql($database, 'CREATE EXTENSION harmonia');
	$node->safe_psql($database, check_functions());
	return;
}

# Process ids of a process' children that have not ended.
sub children_of
{
	my ($parent) = @_;
	my @children;

	for my $file (glob '/proc/[0-9]*/stat')
	{
		open my $stat, '<', $file or next;
		# pid (name) state ppid; the name may hold anything.
		my ($pid, $state, $ppid) = (<$stat> // '') =~ /^(\d+) \(.*\) (\S) (\d+)/s or next;
		close $stat;
		push @children, $pid if $ppid == $parent && $state ne 'Z';
	}
	return @children;
}

# A process' state, as ps shows it; X if it is gone.
sub process_state
{
	my ($pid) = @_;

	open my $stat, '<', "/proc/$pid/stat" or return 'X';
	return (<$stat> // '') =~ /\) (\S)/ ? $1 : 'X';
}

# Kill a server and all its processes at once, as a power failure would.
sub crash_node
{
	my ($node) = @_;
	my $postmaster = (split /\n/, slurp_file($node->data_dir . '/postmaster.pid'))[0];

	# Stopped first, so that it starts no more children: one that was missed would
	# go on to write, for with postmaster.pid what could tell the next server goes.
	kill STOP => $postmaster;
	usleep(1000) until process_state($postmaster) =~ /[TZX]/;
	# It dies last, so that nobody notices and exits in an orderly way.
	my @processes = (children_of($postmaster), $postmaster);
	kill KILL => @processes;
	for my $pid (@processes)
	{
		usleep(1000) until process_state($pid) =~ /[ZX]/;
	}

	# Until init has buried it, the postmaster seems to run.
	unlink $node->data_dir . '/postmaster.pid', $node->host . '/.s.PGSQL.' . $node->port . '.lock';
	# All that older versions of the class have for this is to forget the process.
	delete $node->{_pid};
	return;
}

# Crash after a random time, given in seconds.
sub crash_after
{
	my ($node, $seconds) = @_;

	usleep($seconds * 1_000_000);
	return crash_node($node);
}

# Write a file into the node's directory; returns its path.
sub write_file
{
	my ($node, $name, $content) = @_;
	my $path = $node->basedir . "/$name";

	open my $file, '>', $path or die "could not create $path: $!";
	print $file $content;
	close $file;
	return $path;
}

# Start a program in the background, which calls itself "work".
sub start_program
{
	my ($node, @command) = @_;
	my $session = { out => '', err => '' };
	local $ENV{PGAPPNAME} = 'work';

	$session->{run} = IPC::Run::start(
		\@command, '<', \undef, '>', \$session->{out}, '2>', \$session->{err},
		IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default * 5));
	return $session;
}

# Start psql in the background with SQL from a string; errors do not end it.
sub start_psql
{
	my ($node, $sql, $database) = @_;
	my $file = write_file($node, 'psql' . $sessions++ . '.sql', $sql);

	return start_program($node, 'psql', '-XAtq', '-d', $node->connstr($database // 'postgres'),
		'-f', $file);
}

# Start pgbench with custom scripts: name => SQL; a name may end in @weight.
sub start_pgbench
{
	my ($node, $scripts, @options) = @_;
	my @files;

	for my $name (sort keys %$scripts)
	{
		my ($base, $weight) = split /@/, $name;
		push @files, '-f',
		  write_file($node, "pgbench_$base.sql", $scripts->{$name}) . '@' . ($weight // 1);
	}
	return start_program($node, 'pgbench', '-n', @options, @files, $node->connstr('postgres'));
}

# Wait for the end; returns what was written to stderr.
sub finish
{
	my ($session) = @_;

	# It may have lost its server: how it ended does not matter.
	eval { $session->{run}->finish; 1 } or do {
		die $@ if $@ =~ /timeout/;
	};
	return $session->{err};
}

# Wait until such a program has made the server do something.
sub wait_for_work
{
	my ($node) = @_;

	return $node->poll_query_until('postgres',
		"SELECT count(*) > 0 FROM pg_stat_activity WHERE application_name = 'work' AND state = 'active'");
}

# ----------------------------------------------------------------
# Does an index answer what the table holds?
# ----------------------------------------------------------------

# index_problem(index) compares, in the caller's snapshot if it is one for the
# whole transaction, what plans over the index return with what a sequential
# scan finds, and complains if a plan is not the wanted one.
sub check_functions
{
	return <<'END';
CREATE SCHEMA check_index;

CREATE FUNCTION check_index.set_plans(VARIADIC wanted text[]) RETURNS void
LANGUAGE sql AS $$
	SELECT set_config('enable_' || name, (name = ANY (wanted))::text, true)
	FROM unnest('{seqscan,indexscan,indexonlyscan,bitmapscan,sort,hashjoin,mergejoin,nestloop}'::text[]) name;
	SELECT set_config('harmonia.enable_' || name, (name = ANY (wanted))::text, true)
	FROM unnest('{lookup_scan,lookup_join}'::text[]) name
$$;

-- The result of a query by a plan that matches a pattern.
CREATE FUNCTION check_index.result(query text, pattern text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
	line text;
	plan text := '';
	result text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		plan := plan || line || E'\n';
	END LOOP;
	IF plan !~ pattern THEN
		RAISE EXCEPTION 'plan of "%" is not /%/ but: %', query, pattern, plan;
	END IF;
	EXECUTE query INTO result;
	RETURN result;
END $$;

CREATE FUNCTION check_index.compare(what text, expected text, got text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
	IF expected IS DISTINCT FROM got THEN
		RAISE EXCEPTION 'wrong answer: %: the table has %, the index %',
			what, left(expected, 1000), left(got, 1000);
	END IF;
END $$;

CREATE FUNCTION check_index.run(index regclass) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
	tab regclass;
	col name;
	floating boolean;
	not_null boolean;
	nulls text;					-- where they are in ascending order
	nulls_descending text;
	condition text;
	name text;
	rows constant text := 'SELECT (count(*), md5(string_agg(s.k::text, '','')),'
		' sum(hashtextextended(s::text, 0)))::text FROM (SELECT %1$I k, ctid FROM %2$s %3$s ORDER BY %1$I %4$s) s';
	keys constant text := 'SELECT (count(*), count(k), sum(hashtextextended(k::text, 0)))::text'
		' FROM (SELECT %I k FROM %s %s) s';
	few constant text := 'SELECT (count(*), sum(hashtextextended((%I, ctid)::text, 0)))::text FROM %s WHERE %s';
	samples text;
	expected text;
BEGIN
	SELECT indrelid, attname, atttypid IN ('real'::regtype, 'float8'::regtype), attnotnull,
			coalesce(' WHERE ' || pg_get_expr(indpred, indrelid), ''), relname,
			CASE indoption[0] WHEN 0 THEN 'NULLS LAST' WHEN 3 THEN 'NULLS LAST' ELSE 'NULLS FIRST' END,
			CASE indoption[0] WHEN 0 THEN 'NULLS FIRST' WHEN 3 THEN 'NULLS FIRST' ELSE 'NULLS LAST' END
		INTO STRICT tab, col, floating, not_null, condition, name, nulls, nulls_descending
		FROM pg_index JOIN pg_attribute ON attrelid = indrelid AND attnum = indkey[0]
			JOIN pg_class c ON c.oid = indexrelid
		WHERE indexrelid = index;

	PERFORM check_index.set_plans('seqscan', 'sort');
	expected := check_index.result(format(rows, col, tab, condition, nulls), 'Seq Scan');
	PERFORM check_index.set_plans('indexscan');
	PERFORM check_index.compare('ascending', expected,
		check_index.result(format(rows, col, tab, condition, nulls), 'Index Scan (Backward )?using ' || name));

	PERFORM check_index.set_plans('seqscan', 'sort');
	expected := check_index.result(format(rows, col, tab, condition, 'DESC ' || nulls_descending), 'Seq Scan');
	PERFORM check_index.set_plans('indexscan');
	PERFORM check_index.compare('descending', expected,
		check_index.result(format(rows, col, tab, condition, 'DESC ' || nulls_descending), 'Index Scan (Backward )?using ' || name));

	-- A standby scans no index for keys alone.
	IF NOT floating AND NOT pg_is_in_recovery() THEN
		PERFORM check_index.set_plans('seqscan');
		expected := check_index.result(format(keys, col, tab, condition), 'Seq Scan');
		PERFORM check_index.set_plans('indexscan', 'indexonlyscan');
		PERFORM check_index.compare('keys alone', expected,
			check_index.result(format(keys, col, tab, condition), 'Index Only Scan using ' || name));
	END IF;
	IF condition <> '' THEN
		RETURN;
	END IF;

	PERFORM check_index.set_plans('seqscan', 'sort');
	EXECUTE format('SELECT array_agg(k) FROM (SELECT %1$I k FROM %2$s WHERE %1$I IS NOT NULL'
		' ORDER BY hashtextextended(ctid::text, 1) LIMIT 300) s', col, tab)
		INTO samples;

	-- With nothing to look for the planner sees no difference between plans.
	IF samples IS NULL THEN
		RETURN;
	END IF;
	FOREACH condition IN ARRAY ARRAY[
		format('%I = ANY (%L)', col, samples),
		format('%I IS NULL', col),
		format('%I >= ANY (%L)', col, samples)] LOOP
		-- PostgreSQL 17 does not look for NULLs where there cannot be any.
		CONTINUE WHEN not_null AND condition ~ 'IS NULL$';
		PERFORM check_index.set_plans('seqscan');
		expected := check_index.result(format(few, col, tab, condition), 'Seq Scan');
		PERFORM check_index.set_plans('indexscan');
		PERFORM check_index.compare(left(condition, 1000), expected,
			check_index.result(format(few, col, tab, condition), 'Index Scan using ' || name));
		PERFORM check_index.set_plans('bitmapscan');
		PERFORM check_index.compare('bitmap: ' || left(condition, 1000), expected,
			check_index.result(format(few, col, tab, condition), 'Bitmap Index Scan on ' || name));
		CONTINUE WHEN condition !~ 'ANY';
		PERFORM check_index.set_plans('lookup_scan');
		PERFORM check_index.compare('lookup: ' || left(condition, 1000), expected,
			check_index.result(format(few, col, tab, condition), 'HarmoniaLookupScan'));
	END LOOP;

	-- Every sample by a search of its own.
	PERFORM check_index.set_plans('seqscan', 'hashjoin');
	name := format('SELECT count(*) FROM unnest(%L::%s[]) u(k) JOIN %s t ON t.%I = u.k',
		samples,
		(SELECT atttypid::regtype FROM pg_attribute WHERE attrelid = tab AND attname = col),
		tab, col);
	expected := check_index.result(name, 'Hash Join');
	PERFORM check_index.set_plans('indexscan', 'nestloop');
	PERFORM check_index.compare('searches', expected,
		check_index.result(name, 'Nested Loop[^$]*Index Scan'));
	PERFORM check_index.set_plans('lookup_join');
	PERFORM check_index.compare('lookups', expected, check_index.result(name, 'HarmoniaLookupJoin'));
END $$;
END
}

# What is wrong with an index, in the words of the first error; '' if nothing.
sub index_problem
{
	my ($node, $index, $database) = @_;
	my ($result, $out, $err) = $node->psql($database // 'postgres', <<END);
\\set VERBOSITY terse
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT to_regproc('harmonia_check') IS NOT NULL AS can_check \\gset
\\if :can_check
SELECT harmonia_check('$index', true);
\\endif
SELECT check_index.run('$index');
COMMIT;
END
	return $result == 0 ? '' : $err || "psql returned $result";
}

sub check_index
{
	my ($node, $index, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return is(index_problem($node, $index), '', $name // "$index is as the table");
}

# Check all valid harmonia indexes of the database that are not on temporary
# tables; returns the first problem, if it is not asked to be a test of its own.
sub check_all_indexes
{
	my ($node, $name) = @_;
	my @indexes = split /\n/, $node->safe_psql('postgres', <<'END');
SELECT c.oid::regclass FROM pg_class c JOIN pg_am a ON a.oid = relam JOIN pg_index ON indexrelid = c.oid
WHERE amname = 'harmonia' AND relkind = 'i' AND relpersistence <> 't' AND indisvalid ORDER BY 1
END
	my $problems = join '', map {
		my $problem = index_problem($node, $_);
		$problem eq '' ? '' : "$_: $problem\n"
	} @indexes;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return $problems unless defined $name;
	return is($problems, '', $name . ' (' . scalar(@indexes) . ' indexes)');
}

# ----------------------------------------------------------------
# The same key twice
#
# The table "pairs" has each key in a column with a harmonia index and in one
# with a btree.  Readers get both answers from one snapshot while others write.
# ----------------------------------------------------------------

sub make_pairs
{
	my ($node) = @_;

	$node->safe_psql('postgres', <<'END');
CREATE TABLE pairs (id bigserial PRIMARY KEY, k int, k2 int);
INSERT INTO pairs (k, k2) SELECT x, x FROM (SELECT nullif(hashint4(i) % 1000000, 7) x FROM generate_series(1, 60000) i) s;
CREATE INDEX pairs_k ON pairs USING harmonia (k) WITH (fillfactor = 100);
CREATE INDEX pairs_k2 ON pairs (k2);
VACUUM ANALYZE pairs;

-- STABLE, so that all queries have the caller's snapshot.
CREATE FUNCTION check_index.pairs_range(low int, high int) RETURNS void
LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off AS $$
DECLARE
	a text;
	b text;
	keys int[] := ARRAY(SELECT low + i * 37 FROM generate_series(0, 100) i);
BEGIN
	SELECT (count(*), sum(id), md5(string_agg(k::text, ',')))::text INTO a
		FROM (SELECT id, k FROM pairs WHERE k BETWEEN low AND high ORDER BY k) s;
	SELECT (count(*), sum(id), md5(string_agg(k2::text, ',')))::text INTO b
		FROM (SELECT id, k2 FROM pairs WHERE k2 BETWEEN low AND high ORDER BY k2) s;
	PERFORM check_index.compare(format('%s to %s', low, high), b, a);

	a := ARRAY(SELECT k FROM pairs WHERE k <= high ORDER BY k DESC LIMIT 500)::text;
	b := ARRAY(SELECT k2 FROM pairs WHERE k2 <= high ORDER BY k2 DESC LIMIT 500)::text;
	PERFORM check_index.compare(format('downward from %s', high), b, a);

	SELECT (count(*), sum(k))::text INTO a FROM pairs WHERE k BETWEEN low AND high;
	SELECT (count(*), sum(k2))::text INTO b FROM pairs WHERE k2 BETWEEN low AND high;
	PERFORM check_index.compare(format('keys alone, %s to %s', low, high), b, a);

	SELECT (count(*), sum(id))::text INTO a FROM pairs WHERE k = ANY (keys);
	SELECT (count(*), sum(id))::text INTO b FROM pairs WHERE k2 = ANY (keys);
	PERFORM check_index.compare(format('= ANY (%s)', keys), b, a);
EXCEPTION WHEN serialization_failure THEN
	-- On a standby replay may need what the query holds.
	RETURN;
END $$;

-- Everything, by an index-only scan, by bitmaps and from the heap.
CREATE FUNCTION check_index.pairs_all() RETURNS void LANGUAGE plpgsql STABLE AS $$
DECLARE
	expected text;
	got text;
BEGIN
	PERFORM check_index.set_plans('seqscan');
	SELECT (count(*), count(k), sum(k))::text INTO expected FROM pairs;
	PERFORM check_index.set_plans('indexscan', 'indexonlyscan');
	SELECT (count(*), count(k), sum(k))::text INTO got FROM pairs;
	PERFORM check_index.compare('all keys', expected, got);
	PERFORM check_index.set_plans('seqscan');
	SELECT (count(*), sum(id))::text INTO expected FROM pairs WHERE k >= 0;
	PERFORM check_index.set_plans('bitmapscan');
	SELECT (count(*), sum(id))::text INTO got FROM pairs WHERE k >= 0;
	PERFORM check_index.compare('bitmap', expected, got);
EXCEPTION WHEN serialization_failure THEN
	RETURN;
END $$;
END
	return;
}

# Most new keys are near each other, so that leaves split and segments move.
my %pairs_writers = (
	'batch@6' => <<'END',
\set from random(1, 10000000)
INSERT INTO pairs (k, k2) SELECT x, x FROM
	(SELECT 500000 + hashint4(i) % 10000 x FROM generate_series(:from, :from + 1000) i) s;
END
	'single@10' => <<'END',
\set k random_gaussian(1, 1000000, 5)
INSERT INTO pairs (k, k2) VALUES (nullif(:k, 500000), nullif(:k, 500000));
END
	'update@10' => <<'END',
\set k random(480000, 520000)
UPDATE pairs SET k = k + 1000, k2 = k2 + 1000 WHERE k BETWEEN :k AND :k + 20;
END
	'row@10' => <<'END',
\set id random(1, 200000)
\set k random(1, 1000000)
BEGIN;
UPDATE pairs SET k = :k, k2 = :k WHERE id = :id;
UPDATE pairs SET k = NULL, k2 = NULL WHERE id = :id + 1;
COMMIT;
END
	'conflict@5' => <<'END',
\set id random(-20000, 20000)
\set k random(1, 1000000)
INSERT INTO pairs VALUES (:id, :k, :k) ON CONFLICT (id) DO UPDATE SET k = excluded.k, k2 = excluded.k2;
END
	'rollback@5' => <<'END',
\set from random(1, 1000000)
BEGIN;
SAVEPOINT s;
INSERT INTO pairs (k, k2) SELECT i, i FROM generate_series(:from, :from + 300) i;
ROLLBACK TO s;
DELETE FROM pairs WHERE k BETWEEN :from AND :from + 300;
ROLLBACK;
END
	'delete@5' => <<'END',
\set k random(490000, 510000)
DELETE FROM pairs WHERE k BETWEEN :k AND :k + 300;
END
);

my %pairs_readers = (
	'range@10' => <<'END',
\set low random(480000, 520000)
\set high :low + random(1, 3000)
SELECT check_index.pairs_range(:low, :high);
END
	'wide@5' => <<'END',
\set low random(-1000000, 1000000)
\set high :low + random(1, 20000)
SELECT check_index.pairs_range(:low, :high);
END
	'all@1' => "SELECT check_index.pairs_all();\n");

sub write_pairs { my ($node, @options) = @_; return start_pgbench($node, \%pairs_writers, '--max-tries=100', @options); }
sub read_pairs { my ($node, @options) = @_; return start_pgbench($node, \%pairs_readers, @options); }

# A test: what was started in the background has ended without an error.
sub no_errors
{
	my ($session, $name) = @_;
	my $errors = join "\n", grep { /ERROR|FATAL|PANIC|abort/ } split /\n/, finish($session);
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return is($errors, '', $name);
}

# ----------------------------------------------------------------
# Crashes under load
# ----------------------------------------------------------------

# Scripts for pgbench; several clients run them at once.
my %load = (
	'single@20' => <<'END',
\set k random_gaussian(1, 100000, 5)
INSERT INTO load (k, w, f) VALUES (:k, nullif(:k % 100, 0), :k / 8.0);
END
	'batch@8' => <<'END',
\set n random(10, 2000)
\set from random(1, 100000)
INSERT INTO load (k, w, f) SELECT hashint4(i) % 100000, i, i FROM generate_series(:from, :from + :n) i;
END
	'ascending@3' => <<'END',
INSERT INTO load (k, w, f) SELECT 1000000 + id % 1000000, id, -id
	FROM (SELECT nextval('load_id_seq') id FROM generate_series(1, 300)) s;
END
	'rollback@2' => <<'END',
\set from random(1, 100000)
BEGIN;
INSERT INTO load (k, w, f) SELECT i, -i, i FROM generate_series(:from, :from + 500) i;
ROLLBACK;
END
	'update@10' => <<'END',
\set k random(1, 100000)
UPDATE load SET k = k + 17, w = -w WHERE k BETWEEN :k AND :k + 30;
END
	'delete@10' => <<'END',
\set k random(1, 100000)
DELETE FROM load WHERE k BETWEEN :k AND :k + 100;
END
	'trim@2' => <<'END',
DELETE FROM load WHERE id < (SELECT max(id) FROM load) - 40000;
END
	'vacuum@2' => "VACUUM load;\n",
	'checkpoint@1' => "CHECKPOINT;\n",
	'reindex@1' => "REINDEX INDEX load_w;\n");

# The table that they work on.  options: of CREATE, as UNLOGGED.
sub make_load
{
	my ($node, $options) = @_;

	$options //= '';
	$node->safe_psql('postgres', <<"END");
CREATE $options TABLE load (id bigserial PRIMARY KEY, k int, w bigint, f float8);
CREATE INDEX load_k ON load USING harmonia (k);
CREATE INDEX load_w ON load USING harmonia (w NULLS FIRST) WITH (fanout = 8);
CREATE INDEX load_f ON load USING harmonia (f) WHERE k % 2 = 0;
END
	return;
}

sub start_load { my ($node, @options) = @_; return start_pgbench($node, \%load, @options); }

# Crash so many times under load and compare after each; all is one test.
sub crash_rounds
{
	my ($node, $seed, $rounds) = @_;
	my $problem = '';
	my $round;

	make_load($node);
	srand($seed);
	for ($round = 1; $round <= $rounds && $problem eq ''; $round++)
	{
		my $session = start_load($node, '-c', 4, '-T', 600,
			'--random-seed=' . ($seed + $round));

		wait_for_work($node);
		crash_after($node, 0.05 + rand(0.7));
		finish($session);
		$problem = "the load failed: $1" if $session->{err} =~ /(.*(?:XX\d\d\d|corrupt|damage|unexpected page).*)/;
		$node->start;
		$problem .= check_all_indexes($node);
	}
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return is($problem, '', ($round - 1) . ' crashes under load');
}

# ----------------------------------------------------------------
# Random statements
# ----------------------------------------------------------------

# The seed of whatever is random in a test: HARMONIA_SEED or a new one.
sub test_seed
{
	my $seed = $ENV{HARMONIA_SEED} // int(rand(1_000_000_000));

	diag("HARMONIA_SEED=$seed");
	return $seed;
}

# Run a script in both databases at once.  Returns '' or the first difference.
sub compare_script
{
	my ($node, $script, $chunk) = @_;
	my $directory = $node->basedir;
	my $file = write_file($node, 'random.sql', $script);
	my @runs;

	for my $database ('btree', 'harmonia')
	{
		push @runs,
		  IPC::Run::start(
			[ 'psql', '-XAte', '-d', $node->connstr($database), '-f', $file ],
			'<', \undef, '>', "$directory/$database.out", '2>&1',
			IPC::Run::timeout(600));
	}
	$_->finish for @runs;

	my $problem = first_difference(map { "$directory/$_.out" } ('btree', 'harmonia'));
	return '' if $problem eq '';
	copy($_, $PostgreSQL::Test::Utils::log_path) for glob "$directory/{random.sql,*.out}";
	return "$problem\nScript and output of chunk $chunk are in $PostgreSQL::Test::Utils::log_path";
}

# The first lines that differ, with the statement that printed them.
sub first_difference
{
	my @files = @_;
	my $context = '';
	my @handles = map {
		open my $handle, '<', $_ or die "could not open $_: $!";
		$handle
	} @files;

	while (1)
	{
		my ($expected, $got) = map { scalar readline $_ } @handles;

		return '' if !defined $expected && !defined $got;

		# An error in both means that the statement compares nothing.
		if (   !defined $expected
			|| !defined $got
			|| $expected ne $got
			|| $expected =~ /ERROR:  (?!division by zero)/)
		{
			my $both = '';
			for (0, 1)
			{
				my $line = ($expected, $got)[$_] // "(end)\n";
				$both .= basename($files[$_]) . ":\n$line";
				for my $i (1 .. 10) { $both .= readline($handles[$_]) // ''; }
			}
			return "$context$both";
		}
		$context = '' if $expected =~ /;$/;
		$context .= $expected;
	}
}

# Compare so many chunks of statements over each of so many tables.  Returns the
# number of statements compared and the first difference, or ''.
sub compare_at_random
{
	my ($node, $seed, %size) = @_;
	my $generator = HarmoniaRandom->new($seed);
	my $compared = 0;

	$node->safe_psql('postgres', "CREATE DATABASE $_") for ('btree', 'harmonia');
	prepare_database($node, 'harmonia');

	for my $table (1 .. $size{tables})
	{
		my $new = $generator->new_table;

		for my $am ('btree', 'harmonia')
		{
			$node->safe_psql($am,
				"SET client_min_messages = warning; $new->{table} CREATE INDEX t_k ON t USING $am $new->{index} $new->{$am}");
		}
		for my $chunk (0 .. $size{chunks})
		{
			my ($script, $n) =
			  $chunk == 0 ? $generator->load_script : $generator->chunk_script($size{statements});
			my $problem = compare_script($node, $script, "$chunk of table $table");

			$problem = index_check_problem($node) if $problem eq '';
			return ($compared, "seed $seed, table $table ($new->{table}), chunk $chunk:\n$problem")
			  if $problem ne '';
			$compared += $n;
		}
		note "$compared statements, table $table done: $new->{table} $new->{index} $new->{harmonia}";
	}
	return ($compared, '');
}

sub index_check_problem
{
	my ($node) = @_;
	my ($result, $out, $err) = $node->psql('harmonia', <<'END');
SELECT to_regproc('harmonia_check') IS NOT NULL AS can_check \gset
\if :can_check
SELECT harmonia_check('t_k', true);
\endif
END
	return $err;
}

1;
