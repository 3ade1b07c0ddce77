# Batch lookups on a primary and on a standby, while other sessions insert, delete, vacuum
# and move segments: each finds the rows of its snapshot once.
use strict;
use warnings;

use Harmonia;
use PostgreSQL::Test::Cluster;
use Test::More;

my $seed = test_seed();
my $primary = new_node('primary', allows_streaming => 1, conf => 'autovacuum = off');

$primary->safe_psql('postgres', <<'SQL');
CREATE EXTENSION harmonia_engine;
CREATE TABLE t (k int, filler text DEFAULT repeat('x', 30));
INSERT INTO t SELECT hashint4(i) % 20000 FROM generate_series(1, 30000) i;
INSERT INTO t SELECT 7 FROM generate_series(1, 3000) i;
CREATE INDEX t_k ON t USING harmonia (k) WITH (fanout = 8);

-- What is wrong with the hits of a lookup batch, or ''.  It is called in a transaction with
-- one snapshot.  Rows that the snapshot does not see may be found or not.
CREATE FUNCTION problem(seed int, is_range boolean, portion int, between_portions text) RETURNS text
LANGUAGE plpgsql
AS $$
DECLARE
	lows int[];
	highs int[];
	result text;
BEGIN
	SELECT array_agg(low), array_agg(low + CASE WHEN is_range THEN abs(hashint4(low)) % 50 ELSE 0 END)
		INTO lows, highs
		FROM (SELECT CASE WHEN i % 2500 = 1 THEN 7 ELSE hashint4(seed + i) % 21000 END AS low
			FROM generate_series(1, CASE WHEN is_range THEN 300 ELSE 5000 END) i) s;
	WITH found AS MATERIALIZED (
		SELECT * FROM harmonia_engine_lookup('t_k', lows, CASE WHEN is_range THEN highs END,
			portion, between_portions)),
	expected AS MATERIALIZED (
		SELECT ordinality::int AS probe, t.ctid AS tid
		FROM unnest(lows, highs) WITH ORDINALITY AS p(low, high, ordinality)
			JOIN t ON k = low WHERE NOT is_range
		UNION ALL
		SELECT ordinality::int, t.ctid
		FROM unnest(lows, highs) WITH ORDINALITY AS p(low, high, ordinality)
			JOIN t ON k BETWEEN low AND high WHERE is_range),
	seen AS MATERIALIZED (
		SELECT probe, tid FROM found JOIN t ON t.ctid = tid)
	SELECT concat_ws(', ',
		(SELECT nullif(count(*), 0) || ' missing' FROM (TABLE expected EXCEPT TABLE seen) s),
		(SELECT nullif(count(*), 0) || ' wrong' FROM (TABLE seen EXCEPT TABLE expected) s),
		(SELECT nullif(count(*), 0) || ' twice' FROM (SELECT FROM found GROUP BY probe, tid, key HAVING count(*) > 1) s),
		CASE WHEN NOT EXISTS (TABLE expected) THEN 'nothing to find' END)
		INTO result;
	RETURN result;
END
$$;
SQL

$primary->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'backup', has_streaming => 1);
# Replay waits for queries.
$standby->append_conf('postgresql.conf', 'max_standby_streaming_delay = -1');
$standby->start;

# Compare the hits of some batches on a node; returns the problems.
sub problems
{
	my ($node, $rounds, $between) = @_;
	my $sql = '';

	for my $round (1 .. $rounds)
	{
		my $is_range = $round % 2 ? 'true' : 'false';
		my $portion = (200, 777, 2000)[ $round % 3 ];
		my $number = ($seed * 1000 + $round * 7919) % 2**30;

		$sql .= "BEGIN ISOLATION LEVEL REPEATABLE READ;\n"
		  . "SELECT problem($number, $is_range, $portion, $between);\nCOMMIT;\n";
	}
	my $result = $node->safe_psql('postgres', $sql);
	$result =~ s/^\n+|\n+$//g;
	return $result =~ s/\n+/\n/gr;
}

is(problems($primary, 4, 'NULL'), '', 'at rest');

my $changes = start_pgbench(
	$primary,
	{
		'insert@6' => <<'END',
\set low random(1, 20000)
INSERT INTO t SELECT :low + i / 10 FROM generate_series(1, 100) i;
END
		'duplicates@1' => "INSERT INTO t SELECT 7 FROM generate_series(1, 50);\n",
		'delete@4' => <<'END',
\set low random(1, 20000)
DELETE FROM t WHERE k BETWEEN :low AND :low + 60;
END
		'vacuum@2' => "VACUUM t;\n",
		'move@2' => "SELECT harmonia_engine_move('t_k');\n",
	},
	'-c', 3, '-t', 200);

# Between portions other sessions can work.
is(problems($primary, 12, q('SELECT count(*) FROM t')), '', 'while the index changes');
is(problems($standby, 6, 'NULL'), '', 'on a standby, while it replays changes');
is(finish($changes), '', 'changes went on without errors');

is(problems($primary, 4, 'NULL'), '', 'after the changes');
$primary->wait_for_catchup($standby, 'replay', $primary->lsn('insert'));
is(problems($standby, 4, 'NULL'), '', 'on the standby, after the changes');
$primary->safe_psql('postgres', "SELECT harmonia_check('t_k', heapallindexed => true)");

$standby->stop;
$primary->stop;
done_testing();
