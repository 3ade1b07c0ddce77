# Statements that change or lock rows by a join, while another session changes the same rows: with
# lookup joins, their results, their errors and what the tables have in the end must be those of
# PostgreSQL's own plans.
#
# One session changes rows in a transaction.  Another one runs the statement, and waits.  The first one
# commits, so that the second one has to join the rows again as they are now (EvalPlanQual), or fails.
#
# All statements run beside all changes with harmonia indexes, in READ COMMITTED.  Of the other cases, the
# seed takes a share; the suite "slow" runs them all.
use strict;
use warnings;

use Harmonia;
use Test::More;

my $seed = test_seed();
my %size = test_length(short => { tables => 3, one_of => 3 }, long => { tables => 3, one_of => 1 });
my $node = new_node('changing_joins', conf => "session_preload_libraries = 'harmonia'\nmax_connections = 30\n");

plan skip_all => 'there is no dblink'
  if $node->safe_psql('postgres', q{SELECT count(*) FROM pg_available_extensions WHERE name = 'dblink'}) eq '0';

# What the other session does.
my %changes = (
	nothing => 'SET jit = off',
	value => 'UPDATE t SET v = v + 100 WHERE id IN (2, 5)',
	indexed => 'UPDATE t SET other = other + 1000 WHERE id IN (2, 5)',
	'key away' => 'UPDATE t SET id = id + 500 WHERE id = 5',
	'key to another' => 'UPDATE t SET id = 8 WHERE id = 5',
	'condition fails' => 'UPDATE t SET v = -1 WHERE id IN (2, 5)',
	delete => 'DELETE FROM t WHERE id IN (2, 5)',
	twice => 'UPDATE t SET v = v + 100 WHERE id = 5; UPDATE t SET id = 8, v = v + 1 WHERE id = 5',
	insert => "INSERT INTO t VALUES (3, 30, 3), (5, 51, 51)",
	'other value' => 'UPDATE s SET n = n + 10 WHERE k IN (2, 5)',
	'other key' => 'UPDATE s SET k = 8 WHERE k = 5',
	'other delete' => 'DELETE FROM s WHERE k IN (2, 5)',
	both => 'UPDATE t SET v = v + 100 WHERE id = 5; UPDATE s SET n = n + 10 WHERE k = 5',
	'locked only' => 'DO $$ BEGIN PERFORM FROM t WHERE id = 5 FOR UPDATE; END $$');

# The statements, each of which has one column of text.
my %statements = (
	update => q{UPDATE t SET v = t.v * 2 + s.n FROM s WHERE t.id = s.k AND t.v >= 0 RETURNING concat_ws(' ', t.id, t.v, t.other, s.n)},
	'update key' => q{UPDATE t SET id = t.id + 1000 FROM s WHERE t.id = s.k RETURNING concat_ws(' ', t.id, t.v, s.n)},
	'update other' => q{UPDATE s SET n = t.v FROM t WHERE t.id = s.k AND t.v >= 0 RETURNING concat_ws(' ', s.k, s.n, t.v)},
	'update left' => q{UPDATE s SET n = coalesce(t.v, -7) FROM s AS o LEFT JOIN t ON t.id = o.k AND t.v >= 0 WHERE o.ctid = s.ctid RETURNING concat_ws(' ', s.k, s.n, t.v)},
	delete => q{DELETE FROM t USING s WHERE t.id = s.k AND t.v + s.n > 20 RETURNING concat_ws(' ', t.id, t.v, s.n)},
	'delete in' => q{DELETE FROM t WHERE id IN (SELECT k FROM s WHERE n > 2) RETURNING concat_ws(' ', id, v)},
	'delete exists' => q{DELETE FROM s WHERE EXISTS (SELECT FROM t WHERE t.id = s.k AND t.v >= 0) RETURNING concat_ws(' ', k, n)},
	'delete not exists' => q{DELETE FROM s WHERE NOT EXISTS (SELECT FROM t WHERE t.id = s.k AND t.v >= 0) RETURNING concat_ws(' ', k, n)},
	'for update' => q{SELECT concat_ws(' ', t.id, t.v, s.n) FROM s JOIN t ON t.id = s.k WHERE t.v >= 0 FOR UPDATE},
	'for update of t' => q{SELECT concat_ws(' ', t.id, t.v, s.n) FROM s JOIN t ON t.id = s.k FOR UPDATE OF t},
	'for share of s' => q{SELECT concat_ws(' ', t.id, t.v, s.n) FROM s LEFT JOIN t ON t.id = s.k FOR SHARE OF s},
	nowait => q{SELECT concat_ws(' ', t.id, t.v, s.n) FROM s JOIN t ON t.id = s.k FOR NO KEY UPDATE OF t NOWAIT},
	'skip locked' => q{SELECT concat_ws(' ', t.id, t.v, s.n) FROM s JOIN t ON t.id = s.k FOR UPDATE OF t SKIP LOCKED},
	'in a CTE' => q{WITH d AS (DELETE FROM t USING s WHERE t.id = s.k RETURNING t.*, s.n), i AS (INSERT INTO s SELECT id + 1, v FROM d RETURNING *) SELECT concat_ws(' ', id, v, d.n, (SELECT sum(i.n) FROM i)) FROM d},
	merge => q{MERGE INTO t USING s ON t.id = s.k WHEN MATCHED AND t.v < 0 THEN DELETE WHEN MATCHED THEN UPDATE SET v = t.v * 2 + s.n WHEN NOT MATCHED THEN INSERT VALUES (s.k, s.n, 0)},
	'whole row' => q{UPDATE t SET v = (o).n FROM (SELECT s AS o, k FROM s) x WHERE t.id = x.k RETURNING concat_ws(' ', t, o)});

$node->safe_psql('postgres', <<'END');
CREATE EXTENSION dblink;
CREATE TABLE s (k int, n int);

-- Settings that have a statement's joins made by lookups, or by PostgreSQL.
CREATE FUNCTION settings(lookups boolean, level text) RETURNS text LANGUAGE sql AS $$
SELECT format('SET enable_hashjoin = %1$s; SET enable_mergejoin = %1$s; SET enable_nestloop = %1$s; SET harmonia.enable_lookup_join = %2$s; '
	'SET harmonia.enable_lookup_scan = off; SET default_transaction_isolation = %3$L', NOT lookups, lookups, level);
$$;

-- Run a statement beside a change.  Returns what came of it, and of the tables.  This session itself
-- locks none of them.
CREATE FUNCTION run(statement text, change text, lookups boolean, level text, OUT outcome text, OUT waited boolean) LANGUAGE plpgsql AS $$
DECLARE
	pid int;
	rows text[];
BEGIN
	PERFORM dblink_exec('one', 'TRUNCATE t, s; INSERT INTO t SELECT i, i * 10, i FROM generate_series(1, 12) i; INSERT INTO s VALUES (2, 1), (5, 2), (8, 3), (20, 4)');
	PERFORM dblink_exec('two', settings(lookups, level));
	PERFORM dblink_exec('one', 'BEGIN; ' || change);
	SELECT p INTO pid FROM dblink('two', 'SELECT pg_backend_pid()') AS x (p int);
	PERFORM dblink_send_query('two', statement);
	WHILE dblink_is_busy('two') = 1 AND pg_blocking_pids(pid) = '{}' LOOP
		PERFORM pg_sleep(0.001);
	END LOOP;
	waited := dblink_is_busy('two') = 1;
	PERFORM dblink_exec('one', 'COMMIT');
	SELECT array_agg(r ORDER BY r) INTO rows FROM dblink_get_result('two', false) AS x (r text);
	outcome := concat(rows, ' ', CASE WHEN dblink_error_message('two') <> 'OK' THEN dblink_error_message('two') END);
	PERFORM * FROM dblink_get_result('two', false) AS x (r text);
	PERFORM dblink_exec('two', 'RESET ALL');
	SELECT concat(outcome, E'\n', r) INTO outcome
		FROM dblink('one', $q$SELECT concat((SELECT string_agg(t::text, ' ' ORDER BY t) FROM t), E'\n', (SELECT string_agg(s::text, ' ' ORDER BY s) FROM s))$q$) AS x (r text);
END $$;

-- Whether the statement's plan has a lookup join.
CREATE FUNCTION uses_lookups(statement text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	line text;
	found boolean := false;
BEGIN
	PERFORM dblink_exec('two', settings(true, 'read committed'));
	FOR line IN SELECT l FROM dblink('two', 'EXPLAIN ' || statement) AS x (l text) LOOP
		found := found OR line LIKE '%HarmoniaLookupJoin%';
	END LOOP;
	PERFORM dblink_exec('two', 'RESET ALL');
	RETURN found;
END $$;
CREATE TABLE statements (name text, statement text);
CREATE TABLE changes (name text, change text);
END
for ([ 'statements', \%statements ], [ 'changes', \%changes ])
{
	my ($table, $texts) = @$_;
	$node->safe_psql('postgres', join '', map { "INSERT INTO $table VALUES (\$a\$$_\$a\$, \$a\$$texts->{$_}\$a\$);\n" } sort keys %$texts);
}

my $connections = sprintf q{SELECT dblink_connect(name, 'host=%s port=%d dbname=postgres') FROM unnest('{one,two}'::text[]) name}, $node->host, $node->port;

# The tables, the indexes' method, and the isolation levels.
my @kinds = (
	[ 'harmonia', 'harmonia', 'read committed,repeatable read', 'CREATE TABLE t (id int, v int, other int) WITH (autovacuum_enabled = off)' ],
	[ 'btree', 'btree', 'read committed', 'CREATE TABLE t (id int, v int, other int) WITH (autovacuum_enabled = off)' ],
	[ 'partitions', 'harmonia', 'read committed', <<'END' ]);
CREATE TABLE t (id int, v int, other int) PARTITION BY RANGE (id);
CREATE TABLE t_low (other int, gone int, v int, id int);
ALTER TABLE t_low DROP gone;
ALTER TABLE t ATTACH PARTITION t_low FOR VALUES FROM (MINVALUE) TO (6);
CREATE TABLE t_high PARTITION OF t FOR VALUES FROM (6) TO (MAXVALUE)
END

for my $kind (@kinds)
{
	my ($name, $method, $levels, $table) = @$kind;
	my $unused = $node->safe_psql('postgres', <<END);
SET client_min_messages = error;
DROP TABLE IF EXISTS t;
DROP INDEX IF EXISTS s_k;
$table;
CREATE INDEX t_id ON t USING $method (id);
CREATE INDEX t_other ON t USING $method (other);
CREATE INDEX s_k ON s USING $method (k);
DO \$\$ BEGIN PERFORM * FROM ($connections) c; END \$\$;
SELECT string_agg(name, ', ') FROM statements WHERE NOT uses_lookups(statement);
END
	is($unused, '', "$name: all statements have lookup joins");

	my $result = $node->safe_psql('postgres', <<END);
SET client_min_messages = error;
DO \$\$ BEGIN PERFORM * FROM ($connections) c; END \$\$;
WITH runs AS MATERIALIZED (
	SELECT s.name AS statement, c.name AS change, level, (run(statement, change, true, level)).*, run(statement, change, false, level) AS wanted
	FROM statements s, changes c, unnest('{$levels}'::text[]) level
	WHERE '$name, ' || level = 'harmonia, read committed' OR abs(hashtext(concat('$name', s.name, c.name, level, $seed))) % $size{one_of} = 0)
SELECT count(*), count(*) FILTER (WHERE waited),
	string_agg(format(E'%s beside %s, %s: %s, not %s', statement, change, level, outcome, (wanted).outcome), E'\n') FILTER (WHERE outcome IS DISTINCT FROM (wanted).outcome)
FROM runs;
END
	my ($count, $waited, $different) = split /\|/, $result, 3;
	is($different, '', "$name: same as PostgreSQL's joins in all of $count cases");
	cmp_ok($waited, '>', $count / 5, "$name: the statement waited for the other session in $waited cases");
}

$node->stop;
done_testing();
