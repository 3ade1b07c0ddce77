# Texts and names in the order of collation C (text_c_ops, name_c_ops): in encodings of single bytes, after
# crashes, on a replica and after its promotion, after dumps, beside REINDEX CONCURRENTLY, and on a subscriber
# that looks rows up by such an index.
use strict;
use warnings;

use Harmonia;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $seed = test_seed();

# compared(query): how often a query's answer by the index, in three ways, is not that of a sequential scan;
# and how many of these plans used the index.  Strings end, or are cut by the key, in the middle of characters.
my $functions = <<'END';
CREATE FUNCTION compared(query text, OUT wrong int, OUT used int) LANGUAGE plpgsql AS $$
DECLARE
	kind text;
	plan json;
	got text;
	wanted text;
BEGIN
	wrong := 0; used := 0;
	FOREACH kind IN ARRAY '{seq,index,bitmap,lookup}'::text[] LOOP
		PERFORM set_config('jit', 'off', true), set_config('enable_seqscan', (kind = 'seq')::text, true),
			set_config('enable_indexscan', (kind = 'index')::text, true), set_config('enable_bitmapscan', (kind = 'bitmap')::text, true),
			set_config('harmonia.enable_lookup_scan', (kind = 'lookup')::text, true);
		EXECUTE 'EXPLAIN (FORMAT JSON) ' || query INTO plan;
		used := used + (plan::text ~ '"Index Name": "t_|HarmoniaLookup')::int;
		EXECUTE format('SELECT (count(*), sum(hashtextextended(q::text, 0))) FROM (%s) q', query) INTO got;
		wanted := coalesce(wanted, got);
		wrong := wrong + (got <> wanted)::int;
	END LOOP;
END $$;

CREATE FUNCTION string(characters int[], length int) RETURNS text LANGUAGE sql VOLATILE AS $$
SELECT coalesce(string_agg(chr(characters[1 + trunc(random() * cardinality(characters))::int]), ''), '')
	FROM generate_series(1, trunc(random() * length)::int);
$$;

-- Random conditions, of all that is made into ranges; those that do not answer right.
CREATE FUNCTION wrong_conditions(characters int[], rounds int, OUT wrong text[], OUT used int) LANGUAGE plpgsql AS $$
DECLARE
	a text;
	b text;
	c text;
	list text[];
	query text;
	result record;
BEGIN
	wrong := '{}'; used := 0;
	FOR i IN 1..rounds LOOP
		a := string(characters, 1 + i % 16);
		b := string(characters, 1 + i % 16);
		IF i % 2 = 0 THEN
			SELECT coalesce(left(t.k, 1 + i % 17), '') INTO a FROM t WHERE id = 1 + i * 7 % 500 ORDER BY k LIMIT 1;
			a := coalesce(a, '');
		END IF;
		c := (ARRAY['k', 'n'])[1 + i % 2];
		list := ARRAY[
			format('%s LIKE %L', c, replace(a, '\', '\\') || '%'),
			format('%s LIKE %L', c, regexp_replace(a, '([\\%_])', '\\\1', 'g') || '%'),
			format('%s LIKE %L ESCAPE %L', c, regexp_replace(a, '([a%_])', 'a\1', 'g') || '%', 'a'),
			format('%s LIKE %L', c, regexp_replace(a, '([\\%_])', '\\\1', 'g')),
			format('%s ~ %L', c, '^' || regexp_replace(a, '(\W)', '\\\1', 'g')),
			format('%s BETWEEN %L AND %L', c, least(a COLLATE "C", b), greatest(a COLLATE "C", b)),
			format('k ^@ %L', a), format('starts_with(k, %L)', a),
			format('%s %s %L', c, (ARRAY['<', '<=', '=', '>=', '>'])[1 + i % 5], a),
			format('%s IN (%L, %L)', c, a, b)];
		query := 'SELECT id, k, n FROM t WHERE ' || list[1 + i % cardinality(list)];
		result := compared(query);
		used := used + result.used;
		IF result.wrong > 0 THEN
			wrong := wrong || query;
		END IF;
	END LOOP;
END $$;
END

# A table with both kinds of indexes, and strings of these characters, many of which begin alike.
sub make_table
{
	my ($node, $database, $characters) = @_;

	$node->safe_psql($database, $functions . <<"END");
SELECT setseed(@{[($seed % 1000) / 1000]});
CREATE TABLE t (id serial, k text COLLATE "C", n name);
INSERT INTO t (k) SELECT CASE WHEN i % 50 > 0 THEN string('$characters', 1 + i % 16) END FROM generate_series(1, 3000) i;
INSERT INTO t (k) SELECT repeat(chr(('$characters'::int[])[1]), i % 16) || string('$characters', 4) FROM generate_series(1, 300) i;
UPDATE t SET n = k::name;
CREATE INDEX t_k ON t USING harmonia (k text_c_ops);
CREATE INDEX t_n ON t USING harmonia (n name_c_ops);
INSERT INTO t (k, n) SELECT string('$characters', 20), string('$characters', 5)::name FROM generate_series(1, 1000) i;
DELETE FROM t WHERE id % 11 = 0;
VACUUM ANALYZE t;
END
	return;
}

# A test: random conditions get the right answers.
sub answers_right
{
	my ($node, $database, $characters, $name) = @_;
	my ($wrong, $used) = split /\|/, $node->safe_psql($database,
		"SELECT setseed(@{[($seed % 1000) / 1000]}); SELECT * FROM wrong_conditions('$characters', 300)") =~ s/^\s+//r;

	is($wrong, '{}', "$name: same answers");
	return cmp_ok($used, '>', 300, "$name: $used plans used the index");
}

my $node = new_node('text_order', allows_streaming => 'logical', extra => [ '--locale=C', '--encoding=UTF8' ], conf => "shared_buffers = 16MB\n");
my $letters = '{1114111,228,8364,119070,97,98,92,37,95,1,32,65,127}';
my $bytes = '{255,254,240,239,195,128,127,126,97,98,92,37,95,1,32,65}';

# The greatest byte is a character of its own there, so no byte is greater than all that follow a beginning.
for my $encoding ('SQL_ASCII', 'LATIN1')
{
	my $database = lc $encoding;
	$node->safe_psql('postgres', "CREATE DATABASE $database ENCODING '$encoding' LOCALE 'C' TEMPLATE template0");
	$node->safe_psql($database, 'CREATE EXTENSION harmonia');
	make_table($node, $database, $bytes);
	answers_right($node, $database, $bytes, $encoding);
}
make_table($node, 'postgres', $letters);
answers_right($node, 'postgres', $letters, 'UTF8');

# ----------------------------------------------------------------
# A dump, of data and of what pg_upgrade asks for
# ----------------------------------------------------------------
my $dump = $node->basedir . '/dump.sql';
my $classes = "SELECT c.opcname, f.opfname, o.amopstrategy, o.amopopr::regoperator FROM pg_opclass c JOIN pg_opfamily f ON f.oid = c.opcfamily
	JOIN pg_amop o ON o.amopfamily = f.oid WHERE c.opcname ~ '_c_ops' ORDER BY 1, 2, 3, 4::text";
$node->safe_psql('postgres', 'CREATE DATABASE copied LOCALE \'C\' TEMPLATE template0');
$node->command_ok([ 'pg_dump', '-f', $dump, $node->connstr('postgres') ], 'the database is dumped');
$node->command_ok([ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-f', $dump, '-d', $node->connstr('copied') ], 'and restored');
answers_right($node, 'copied', $letters, 'restored');
is($node->safe_psql('copied', $classes), $node->safe_psql('postgres', $classes), 'operator classes are the same');
my ($upgrade) = run_command([ 'pg_dump', '--schema-only', '--binary-upgrade', $node->connstr('postgres') ]);
like($upgrade, qr/CREATE OPERATOR CLASS public\.text_c_ops\s+FOR TYPE text USING harmonia FAMILY public\.text_c_ops/, 'pg_upgrade gets the operator class');

# ----------------------------------------------------------------
# A replica with an old snapshot, writers, crashes, REINDEX CONCURRENTLY, and promotion
# ----------------------------------------------------------------
my $replica = PostgreSQL::Test::Cluster->new('text_order_replica');
$node->backup('backup');
$replica->init_from_backup($node, 'backup', has_streaming => 1);
$replica->append_conf('postgresql.conf', "hot_standby_feedback = on\nmax_standby_streaming_delay = 600s\n");
$replica->start;
$node->wait_for_catchup($replica);
answers_right($replica, 'postgres', $letters, 'replica');

# The old snapshot's answers stay what they were while the primary changes and vacuums.  An index that the primary
# has built concurrently since does not have rows that were deleted before, be it a btree or ours, so that comes later.
my $rows = "SELECT (count(*), sum(hashtextextended(t::text, 0))) FROM t WHERE k >= 'a' AND k < 'b'";
my $old = $replica->background_psql('postgres', on_error_stop => 1);
my $ways = 'SET enable_seqscan = off; SET enable_bitmapscan = off; SET harmonia.enable_lookup_scan = off;';
$old->query_safe("BEGIN ISOLATION LEVEL REPEATABLE READ; $ways");
my $first = $old->query_safe($rows);
my $load = <<"END";
\\set i random(1, 4000)
INSERT INTO t (k, n) SELECT k || :i, left(k, 9)::name FROM t WHERE id = :i;
UPDATE t SET k = string('$letters', 20) WHERE id = :i + 5;
DELETE FROM t WHERE id = :i + 9;
END

# Crash while writers work, and after a statement beside them.
sub crash_beside
{
	my ($statement, $name) = @_;
	my $work = start_pgbench($node, { change => $load }, '-c', 2, '-T', 60);

	wait_for_work($node);
	$node->safe_psql('postgres', $statement);
	crash_after($node, 0.3);
	finish($work);
	$node->start;
	is($node->safe_psql('postgres', "SELECT harmonia_check('t_k', true), harmonia_check('t_n', true)"), '|', "$name: both indexes are sound");
	answers_right($node, 'postgres', $letters, $name);
	return;
}

crash_beside('VACUUM t', 'crash');
is($old->query_safe($rows), $first, 'an old snapshot on the replica sees what it saw');
$old->query_safe('COMMIT');
crash_beside('REINDEX INDEX CONCURRENTLY t_k; REINDEX INDEX CONCURRENTLY t_n; VACUUM t', 'crash after a concurrent build');
$node->wait_for_catchup($replica);
answers_right($replica, 'postgres', $letters, 'replica after crashes');
is($old->query_safe($rows), $node->safe_psql('postgres', "$ways $rows"), 'a new one sees what the primary sees');
$old->quit;

# ----------------------------------------------------------------
# Logical replication: the subscriber finds rows by the index
# ----------------------------------------------------------------
$node->safe_psql('postgres', 'CREATE TABLE sent (k text COLLATE "C", v int); ALTER TABLE sent REPLICA IDENTITY FULL; CREATE PUBLICATION sent FOR TABLE sent');
my $subscriber = new_node('text_order_subscriber', extra => [ '--locale=C', '--encoding=UTF8' ]);
$subscriber->safe_psql('postgres', 'CREATE TABLE sent (k text COLLATE "C", v int); CREATE INDEX sent_k ON sent USING harmonia (k text_c_ops)');
$subscriber->safe_psql('postgres', "CREATE SUBSCRIPTION sent CONNECTION '@{[$node->connstr]} dbname=postgres' PUBLICATION sent");
$subscriber->wait_for_subscription_sync($node, 'sent');
$node->safe_psql('postgres', <<'END');
INSERT INTO sent SELECT 'https://www.example.com/' || i % 100, i FROM generate_series(1, 1000) i;
INSERT INTO sent SELECT repeat('x', i), i FROM generate_series(0, 20) i;
INSERT INTO sent VALUES (NULL, 1), (NULL, 2);
UPDATE sent SET k = k || '/a' WHERE v % 3 = 0;
DELETE FROM sent WHERE v % 7 = 1;
END
$node->wait_for_catchup('sent');
my $sent = 'SELECT count(*), sum(hashtextextended(s::text, 0)) FROM sent s';
is($subscriber->safe_psql('postgres', $sent), $node->safe_psql('postgres', $sent), 'the subscriber has the same rows');
is($subscriber->safe_psql('postgres', "SELECT harmonia_check('sent_k', true)"), '', 'and a sound index');
$subscriber->stop;

$node->stop;
$replica->promote;
answers_right($replica, 'postgres', $letters, 'promoted replica');
$replica->safe_psql('postgres', "INSERT INTO t (k, n) SELECT string('$letters', 20), string('$letters', 5)::name FROM generate_series(1, 1000); DELETE FROM t WHERE id % 5 = 0; VACUUM t");
answers_right($replica, 'postgres', $letters, 'written after its promotion');
$replica->stop;

done_testing();
