# Exclusion constraints: no two rows with one key, whatever many sessions do at once, after a crash, with
# prepared transactions, on a replica that is promoted, and in a copy made by pg_dump.
use strict;
use warnings;

use Harmonia;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $seed = test_seed();
my $primary = new_node('primary', allows_streaming => 1, conf => <<'END');
max_prepared_transactions = 20
deadlock_timeout = 10ms
wal_keep_size = 4GB
max_wal_size = 4GB
lock_timeout = 60s
END

sub sql { return $primary->safe_psql('postgres', $_[0]); }

# A random key is one of ten, or one of the many that make leaves split and segments move.
sql(<<'END');
CREATE TABLE few_1 (k int, v int, EXCLUDE USING harmonia (k WITH =)) WITH (fillfactor = 50);
CREATE TABLE few_2 (k text, v int, EXCLUDE USING harmonia (k WITH =));
CREATE INDEX ON few_2 (v);
CREATE TABLE few_3 (k numeric, v int, one smallint DEFAULT 1, EXCLUDE USING harmonia (one WITH =, k WITH =) INCLUDE (v));
CREATE TABLE few_4 (k bigint, v int, EXCLUDE USING harmonia (k WITH =) DEFERRABLE INITIALLY DEFERRED);
CREATE INDEX ON few_4 (v);

CREATE TABLE outcomes (what text, i int, done boolean);
CREATE FUNCTION tried(what text, i int, command text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	done boolean := true;
BEGIN
	BEGIN
		EXECUTE command;
		SET CONSTRAINTS ALL IMMEDIATE;
	EXCEPTION WHEN exclusion_violation OR deadlock_detected THEN
		done := false;
	END;
	INSERT INTO outcomes VALUES (what, i, done);
END $$;

CREATE FUNCTION check_few(i int) RETURNS void LANGUAGE plpgsql SET enable_indexscan = off SET enable_indexonlyscan = off AS $$
DECLARE
	twice text;
BEGIN
	EXECUTE format('SELECT string_agg(k::text, '' '') FROM (SELECT k FROM few_%s GROUP BY k HAVING count(*) > 1) _', i) INTO twice;
	IF twice IS NOT NULL THEN
		RAISE 'few_% has twice: %', i, twice;
	END IF;
END $$;
END

# Keys are literals, so that they are of each table's type.
my %sessions = (
	'insert@10' => <<'END',
\set i random(1, 4)
\set k random(1, 10)
SELECT tried('insert', :i, $$INSERT INTO few_:i VALUES (':k', :client_id)$$);
END
	'key@5' => <<'END',
\set i random(1, 4)
\set k random(1, 10)
\set k2 random(1, 10)
SELECT tried('update', :i, $$UPDATE few_:i SET k = ':k2' WHERE k = ':k'$$);
END
	'other@5' => <<'END',
\set i random(1, 4)
\set k random(1, 10)
UPDATE few_:i SET v = v + 1 WHERE k = ':k';
END
	'nothing@5' => <<'END',
\set i random(1, 3)
\set k random(1, 10)
INSERT INTO few_:i SELECT k, :client_id FROM generate_series(:k, :k + 3) k ON CONFLICT DO NOTHING;
END
	'swap@3' => <<'END',
\set i random(1, 4)
\set k random(1, 9)
BEGIN;
DELETE FROM few_:i WHERE k = ':k';
SELECT tried('again', :i, $$INSERT INTO few_:i VALUES (':k', :client_id), (10 - :k, :client_id)$$);
END;
END
	'delete@10' => <<'END',
\set i random(1, 4)
\set k random(1, 10)
DELETE FROM few_:i WHERE k = ':k';
END
	'rollback@3' => <<'END',
\set i random(1, 4)
\set k random(1, 10)
BEGIN;
SELECT tried('insert', :i, $$INSERT INTO few_:i VALUES (':k', :client_id)$$);
ROLLBACK;
END
	'prepare@2' => <<'END',
\set i random(1, 4)
\set k random(1, 10)
BEGIN;
SELECT tried('insert', :i, $$INSERT INTO few_:i VALUES (':k', :client_id)$$);
PREPARE TRANSACTION 'client :client_id';
COMMIT PREPARED 'client :client_id';
END
	'many@2' => <<'END',
\set i random(1, 3)
\set low random(11, 30000)
INSERT INTO few_:i SELECT k, :client_id FROM generate_series(:low, :low + 500) k ON CONFLICT DO NOTHING;
END
	'fewer@1' => <<'END',
\set i random(1, 4)
\set r random(0, 9)
DELETE FROM few_:i WHERE k::text::int > 10 AND hashint4(k::text::int) % 10 = :r;
END
	'look@2' => <<'END');
\set i random(1, 4)
SELECT check_few(:i);
END
my %maintenance = (
	'vacuum@5' => "\\set i random(1, 4)\nVACUUM few_:i;\n",
	'reorganize@5' => "SELECT harmonia_reorganize(conindid) FROM pg_constraint WHERE contype = 'x';\n");
my @time = ('-T', $ENV{HARMONIA_SECONDS} // 8);
my @tables = (1 .. 4);

sub start_sessions
{
	my ($node, @options) = @_;

	return start_pgbench($node, \%sessions, '-c', 6, '--max-tries=1000', "--random-seed=$seed", @options);
}

# A test: each constraint holds, and its index is as its table.
sub constraints_hold
{
	my ($node, $name) = @_;
	my $problem = '';
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	for my $i (@tables)
	{
		my (undef, undef, $err) = $node->psql('postgres', "SELECT check_few($i)");
		$problem .= $err;
	}
	is($problem . check_all_indexes($node), '', $name);
	return;
}

# What becomes of a command: its SQLSTATE, or nothing.
sub outcome
{
	my ($node, $command) = @_;
	my (undef, undef, $err) = $node->psql('postgres', "\\set VERBOSITY sqlstate\nSET lock_timeout = '100ms';\n$command");

	return $err =~ /ERROR:\s+(\w+)/ ? $1 : '';
}

#
# Random statements have the same outcome as with a btree index's constraint
#
sql(<<'END');
CREATE FUNCTION outcome_of(command text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	n bigint;
BEGIN
	EXECUTE command;
	GET DIAGNOSTICS n = ROW_COUNT;
	SET CONSTRAINTS ALL IMMEDIATE;
	SET CONSTRAINTS ALL DEFERRED;
	RETURN n;
EXCEPTION WHEN OTHERS THEN
	RETURN SQLSTATE;
END $$;

-- Make both tables and change them; return the outcomes, or raise the first that differ.
CREATE FUNCTION twins(columns text, key text, options text, statements int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	kinds text[] := '{}';
	command text;
	by_harmonia text;
	by_btree text;
	differ bigint;
BEGIN
	EXECUTE format('CREATE TABLE twin_harmonia (%s, v int, EXCLUDE USING harmonia (%s) %s)', columns, key, options);
	EXECUTE format('CREATE TABLE twin_btree (%s, v int, EXCLUDE USING btree (%s) %s)', columns, key, options);
	FOR i IN 1 .. statements LOOP
		command := replace(replace(replace((ARRAY[
			'INSERT INTO %1$s VALUES (''{a}'', ''{b}'', {n})',
			'INSERT INTO %1$s SELECT (''{a}''::int + j)::text::%2$s, ''{b}'', {n} FROM generate_series(0, 4) j',
			'INSERT INTO %1$s SELECT NULL, ''{b}'', {n}',
			'UPDATE %1$s SET a = ''{a}'' WHERE v = {n}',
			'UPDATE %1$s SET b = ''{b}'' WHERE a = ''{a}''',
			'UPDATE %1$s SET v = {n} WHERE a = ''{a}''',
			'DELETE FROM %1$s WHERE a = ''{a}'' AND v <> {n}',
			'DELETE FROM %1$s WHERE b = ''{b}'' AND v = {n}'])[1 + floor(random() * 8)::int],
			'{a}', floor(random() * 60)::text), '{b}', floor(random() * 3)::text), '{n}', floor(random() * 30)::text);
		by_harmonia := outcome_of(format(command, 'twin_harmonia', rtrim(split_part(columns, ' ', 2), ',')));
		by_btree := outcome_of(format(command, 'twin_btree', rtrim(split_part(columns, ' ', 2), ',')));
		IF by_harmonia <> by_btree THEN
			RAISE 'statement %: %: %, by btree %', i, command, by_harmonia, by_btree;
		END IF;
		kinds := kinds || CASE WHEN length(by_btree) < 5 THEN 'done' ELSE by_btree END;
	END LOOP;
	SELECT count(*) INTO differ FROM (TABLE twin_harmonia EXCEPT ALL TABLE twin_btree) _;
	IF differ > 0 THEN
		RAISE 'tables differ in % rows', differ;
	END IF;
	PERFORM harmonia_check(conindid::regclass, true) FROM pg_constraint WHERE conrelid = 'twin_harmonia'::regclass AND contype = 'x';
	DROP TABLE twin_harmonia, twin_btree;
	RETURN (SELECT string_agg(DISTINCT kind, ' ' ORDER BY kind) FROM unnest(kinds) kind);
END $$;
END

my $random = 'SELECT setseed(' . $seed % 1000 / 1000 . ');';
for my $twins (
	[ 'a int, b int', 'a WITH =' ],
	[ 'a bigint, b int', 'a WITH =, b WITH =' ],
	[ 'a text, b text', 'b WITH =, a WITH =' ],
	[ 'a numeric, b text', 'a WITH =, b WITH =', 'DEFERRABLE INITIALLY DEFERRED' ],
	[ 'a smallint, b int', '(a % 20) WITH =, b WITH =', 'WHERE (v < 25)' ])
{
	my ($columns, $key, $options) = @$twins;
	is(sql("$random SELECT twins('$columns', '$key', '" . ($options // '') . "', 1500)"), "\n23P01 done",
		"($key): outcomes are those of a btree index's constraint");
}

#
# Many sessions
#
my $sessions = start_sessions($primary, @time);
my $maintenance = start_pgbench($primary, \%maintenance, '-c', 1, @time);

no_errors($sessions, 'no row is seen twice');
no_errors($maintenance, 'VACUUM and reorganization meanwhile');
constraints_hold($primary, 'the constraints hold');
for my $i (@tables)
{
	my ($done, $refused) = split /\|/,
	  sql("SELECT count(*) FILTER (WHERE done), count(*) FILTER (WHERE NOT done) FROM outcomes WHERE i = $i");
	cmp_ok($done, '>', 10, "few_$i: $done rows were added");
	cmp_ok($refused, '>', 10, "few_$i: $refused were refused");
}

#
# Prepared transactions, which a crash does not end
#
sql('INSERT INTO few_1 VALUES (-1), (-2); INSERT INTO few_4 VALUES (-1), (-2)');
$primary->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'backup', has_streaming => 1);
$standby->start;
sql("BEGIN; INSERT INTO few_$_ VALUES (-3); DELETE FROM few_$_ WHERE k = -2; PREPARE TRANSACTION 'kept $_'") for 1, 4;

# 55P03: the lock was not available, so the session has waited for that transaction.
sub keys_wait
{
	my ($node, $name) = @_;
	my @outcomes;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	for my $i (1, 4)
	{
		push @outcomes, map { outcome($node, "INSERT INTO few_$i VALUES ($_)") } -1, -2, -3;
	}
	is("@outcomes", '23P01 55P03 55P03 23P01 55P03 55P03', "$name: a session waits for prepared transactions");
	is(outcome($node, 'INSERT INTO few_1 VALUES (-3) ON CONFLICT DO NOTHING'), '55P03', "$name: so does ON CONFLICT");
	return;
}

keys_wait($primary, 'before the crash');
$sessions = start_sessions($primary, '-T', 600);
wait_for_work($primary);
crash_after($primary, 2);
like(finish($sessions), qr/backend died|closed the connection/, 'the server crashes while others write');
$primary->start;
sql("ROLLBACK PREPARED '$_'") for split /\n/, sql("SELECT gid FROM pg_prepared_xacts WHERE gid LIKE 'client%'");
constraints_hold($primary, 'the constraints hold after a crash');
keys_wait($primary, 'after the crash');

#
# A replica that is promoted
#
finish(start_sessions($primary, '-T', 2));
$primary->wait_for_catchup($standby);
constraints_hold($standby, 'the constraints hold on a replica');
my $dump = $primary->basedir . '/dump.sql';
$primary->command_ok([ 'pg_dump', '-f', $dump, $primary->connstr('postgres') ], 'the database is dumped');
my $constraints = 'SELECT conrelid::regclass, conname, pg_get_constraintdef(oid) FROM pg_constraint ORDER BY 1, 2';
my $wanted = sql($constraints);
$primary->stop;
$standby->promote;
keys_wait($standby, 'promoted');
$standby->safe_psql('postgres', "COMMIT PREPARED 'kept 1'");
$standby->safe_psql('postgres', "ROLLBACK PREPARED 'kept 4'");
is(join(' ', map { my $i = $_; map { outcome($standby, "INSERT INTO few_$i VALUES ($_)") || 'ok' } -1, -2, -3 } 1, 4),
	'23P01 ok 23P01 23P01 23P01 ok', 'promoted: what had waited conflicts, or does not');
no_errors(start_sessions($standby, '-T', 2), 'promoted: no row is seen twice');
constraints_hold($standby, 'promoted: the constraints hold');

#
# A dump
#
$standby->safe_psql('postgres', 'CREATE DATABASE restored');
$standby->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-f', $dump, $standby->connstr('restored') ], 'and restored');
is($standby->safe_psql('restored', $constraints), $wanted, 'the constraints are there');
is($standby->safe_psql('restored', <<'END'), '', 'and hold');
INSERT INTO few_1 SELECT k FROM few_1 ON CONFLICT DO NOTHING;
SELECT k FROM few_1 GROUP BY k HAVING count(*) > 1;
END

$standby->stop;
done_testing();
