# Random queries for the latest rows of keys get the same answers from latest joins as from other
# plans, while other sessions insert newer rows, change and delete the latest ones, and roll back.
use strict;
use warnings;

use Harmonia;
use HarmoniaRandom;
use Test::More;

my $seed = test_seed();
my %size = test_length(
	short => { tables => 2, queries => 30 },
	long => { tables => 60, queries => 200 });
my $r = HarmoniaRandom->new($seed);
my $node = new_node('latest_random', conf => "shared_buffers = 32MB\nsession_preload_libraries = 'harmonia'\n");

# How to make keys and times of integers.
my %values = (int2 => '((%s) %% 30000)::int2', int4 => '(%s)::int4', int8 => '(%s)::int8', date => "date '2000-01-01' + (%s)::int4",
	timestamptz => "timestamptz '2000-01-01 00:00+00' + (%s) * interval '6 hours'");

$node->safe_psql('postgres', <<'END');
-- Run a query by PostgreSQL's plan and by others in one snapshot.  Says whether it is a latest join.
CREATE FUNCTION compare_latest(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	kind text;
	plan json;
	used boolean := false;
	wanted text;
	got text;
BEGIN
	PERFORM set_config('enable_bitmapscan', 'off', true), set_config('enable_sort', 'off', true), set_config('jit', 'off', true),
		set_config('max_parallel_workers_per_gather', '0', true), set_config('enable_memoize', 'off', true);
	FOREACH kind IN ARRAY '{core,latest,small}'::text[] LOOP
		PERFORM set_config('harmonia.enable_lookup_join', (kind <> 'core')::text, true),
			set_config('work_mem', CASE kind WHEN 'small' THEN '64kB' ELSE '4MB' END, true);
		EXECUTE 'EXPLAIN (FORMAT JSON) ' || query INTO plan;
		used := used OR plan::text LIKE '%HarmoniaLatestJoin%';
		EXECUTE format('SELECT (count(*), sum(hash_record_extended(q, 0))) FROM (%s) q', query) INTO got;
		wanted := coalesce(wanted, got);
		IF got <> wanted THEN
			RAISE 'wrong answer' USING DETAIL = format('%s: %s, not %s, from %s%s%s', kind, got, wanted, query, chr(10), plan);
		END IF;
	END LOOP;
	RETURN CASE WHEN used THEN 'latest' ELSE 'other' END;
END $$;
END

# SQL that creates the tables, and scripts that change them.
sub make_tables
{
	my $key = $values{ my $key_type = $r->pick(qw(int2 int4 int8 date)) };
	my $time = $values{ my $time_type = $r->pick(qw(int4 int8 date timestamptz)) };
	my $keys = $r->pick(150, 300, 1000);
	my $times = $r->pick(30, 500, 20000);
	my ($order, $nulls) = ($r->pick('', ' DESC'), $r->pick('', '', ' NULLS FIRST', ' NULLS LAST'));
	my $columns = $r->pick("k, at$order$nulls", "k, at$order$nulls", "k, at$order$nulls, v", "g, k, at$order$nulls") . $r->pick(')', ') INCLUDE (id)');
	my $make = sub {
		my ($i) = @_;
		return sprintf "CASE WHEN %s %% 41 <> 3 THEN $key END, %s %% 3, CASE WHEN hashint4(%s) %% 29 <> 3 THEN $time END, %s %% 100",
			$i, "abs(hashint4($i)) % $keys", $i, $i, "abs(hashint4($i + 7)) % $times", $i;
	};

	$r->{groups} = $columns =~ /^g/;
	$r->{times} = $times;
	$r->{time} = $time;
	$r->{orders} = [ map { my $down = ($order ne '') != $_; my $first = ($nulls eq '' ? $order ne '' : $nulls =~ /FIRST/) != $_;
			($down ? 'DESC' : 'ASC') . ' NULLS ' . ($first ? 'FIRST' : 'LAST') } 0, 1 ];
	return (<<"END", {
DROP TABLE IF EXISTS t, o;
CREATE TABLE t (id bigserial, k $key_type, g int, at $time_type, v int) WITH (autovacuum_enabled = off, fillfactor = 80);
CREATE TABLE o (n int, k $key_type, g int, at $time_type, upto $time_type, v int);
CREATE INDEX t_k_at ON t ($columns;
INSERT INTO t (k, g, at, v) SELECT @{[$make->('i')]} FROM generate_series(1, 9000) i;
INSERT INTO o SELECT i, k, g, at, at + @{[$time_type eq 'timestamptz' ? "interval '90 days'" : 50]}, v FROM
	(SELECT i, @{[$make->('i')]} FROM generate_series(20001, 20900) i) s (i, k, g, at, v);
@{[$r->pick('VACUUM ANALYZE t, o;', 'ANALYZE t, o;')]}
END
			'vacuum@1' => "VACUUM t;\n",
			'update@4' => "\\set i random(1, 100000)\nUPDATE t SET v = (v + 1) % 100 WHERE id % 50 = :i % 50;\n",
			'move@4' => "\\set i random(1, 100000)\nUPDATE t SET at = @{[sprintf $time, ':i']} WHERE id % 70 = :i % 70;\n",
			'newer@4' => "\\set i random(1, 100000)\nBEGIN;\nDELETE FROM t WHERE id % 40 = :i % 40;\n"
				. "INSERT INTO t (k, g, at, v) SELECT @{[$make->('i')]} FROM generate_series(:i, :i + 200) i;\nCOMMIT;\n",
			'dead@2' => "\\set i random(1, 100000)\nBEGIN;\nINSERT INTO t (k, g, at, v) SELECT k, g, @{[sprintf $time, '20000 + i']}, 1 FROM o, generate_series(1, 2000) i"
				. " WHERE n = 20001 + :i % 900;\nROLLBACK;\n" });
}

# What is wanted of t for a row of o.
sub conditions
{
	my $key = 't.k = o.k' . ($r->{groups} ? ' AND t.g = o.g' : '');
	my $time = $r->pick('', '', map { " AND t.at $_ o.at" } '<=', '<', '>=', '>');
	$time = ' AND t.at > o.at AND t.at <= o.upto' if $r->chance(100);
	return $key . $time . $r->pick('', '', '', ' AND t.v > 40', ' AND t.v % 4 = o.v % 4', ' AND t.at IS NOT NULL', ' AND t.v < 5');
}

sub query
{
	my $conditions = conditions();
	my $order = $r->pick(@{ $r->{orders} });
	my $extreme = $r->pick('min', 'max');
	my $lateral = sprintf '%s JOIN LATERAL (SELECT t.at%s FROM t WHERE %s ORDER BY t.at %s LIMIT %d) s ON %s', $r->pick('', 'LEFT'),
		$r->pick('', ', t.k', ', o.n AS m'), $conditions, $order, $r->pick(1, 1, 1, 2, 5, 30, 200), $r->pick('true', 'true', 's.at > o.at');
	return $r->pick_weighted(
		6 => "SELECT o.n, s.* FROM o $lateral",
		1 => "SELECT count(*), max(s.at) FROM o $lateral",
		1 => "SELECT u.n, s.n AS m, s.at FROM (SELECT n FROM o WHERE n % 300 = 7) u CROSS JOIN LATERAL (SELECT o.n, s.at FROM o $lateral WHERE o.n > u.n OFFSET 0) s",
		2 => "SELECT o.n, (SELECT $extreme(t.at) FROM t WHERE $conditions) FROM o",
		1 => "SELECT o.n FROM o WHERE (SELECT $extreme(t.at) FROM t WHERE $conditions) < o.upto",
		1 => "SELECT o.n, (SELECT t.at FROM t WHERE $conditions ORDER BY t.at $order LIMIT 1) FROM o");
}

my ($compared, $used) = (0, 0);
for my $table (1 .. $size{tables})
{
	my ($tables, $writers) = make_tables();

	$node->safe_psql('postgres', $tables);
	my $load = start_pgbench($node, $writers, '-c', 2, '-T', 600, '-R', 60, "--random-seed=$seed", '--max-tries=100');
	my $script = join '', map { "BEGIN ISOLATION LEVEL REPEATABLE READ;\nSELECT compare_latest(\$q\$" . query() . "\$q\$);\nCOMMIT;\n" } 1 .. $size{queries};
	my ($result, $out, $err) = $node->psql('postgres', $script, on_error_stop => 1);

	$load->{run}->kill_kill;
	$node->poll_query_until('postgres', "SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'client backend'")
	  or die 'the writers do not end';
	$used += () = $out =~ /^latest$/mg;
	$compared += () = $out =~ /^(?:latest|other)$/mg;
	is($err, '', "seed $seed, table $table: same answers") or diag($tables);
	unlike($load->{err} // '', qr/ERROR|abort/, "table $table: the writers go on");
}
is($compared, $size{tables} * $size{queries}, 'no query was left out');
cmp_ok($used, '>', $compared * 0.3, "$used of $compared queries were latest joins");
$node->stop;
done_testing();
