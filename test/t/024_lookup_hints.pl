# Lookup nodes hint that entries are dead, and leave out entries that have hints.
#
# 023_hints.pl has what replicas believe, t-faults/024_lookup_hints.pl what VACUUM does meanwhile.
use strict;
use warnings;

use FaultSessions;
use Harmonia;
use Test::More;

my $node = new_node('hints', conf => "synchronous_commit = on\nautovacuum = off\n");
my $settings = 'SET enable_seqscan = off; SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_bitmapscan = off;'
  . ' SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_nestloop = off; SET enable_material = off;'
  . ' SET max_parallel_workers_per_gather = 0; SET client_min_messages = warning;';

sub sql { return $node->safe_psql('postgres', $_[0]); }

# The hits of a query, and what it returns.
sub hits
{
	my ($session, $query) = @_;
	my $plan = ask($session, "EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off) $query");

	return $plan =~ /Hits: (\d+)/ ? $1 : "no lookup: $plan";
}

# ----------------------------------------------------------------
# All kinds of indexes and nodes: the first lookup finds dead rows, the second one does not
#
# What VACUUM or LSNs could tell depends on the kind.  A hint is set whatever has changed since.
# ----------------------------------------------------------------
my %columns = (
	int => 'i::int',
	bigint => 'i::bigint << 20',
	uuid => q[md5(i::text)::uuid],
	text => q[md5(i::text)]);
my %queries = (
	scan => 'SELECT count(v) FROM t WHERE k = ANY (ARRAY(SELECT k FROM keys))',
	join => 'SELECT count(v) FROM keys JOIN t USING (k)',
	semijoin => 'SELECT count(*) FROM keys WHERE EXISTS (SELECT FROM t WHERE t.k = keys.k AND v >= 0)',
	antijoin => 'SELECT count(*) FROM keys WHERE NOT EXISTS (SELECT FROM t WHERE t.k = keys.k AND v >= 0)',
	aggregate => 'SELECT v, count(*) FROM keys JOIN t USING (k) GROUP BY v',
	count => 'SELECT count(*) FROM t WHERE k = ANY (ARRAY(SELECT k FROM keys))',
	'ranges of a join' => 'SELECT count(v) FROM keys JOIN t ON t.k >= keys.k AND t.k <= keys.k');

for my $kind ('', 'UNLOGGED', 'TEMPORARY', 'new', 'btree')
{
	my $method = $kind eq 'btree' ? 'btree' : 'harmonia';

	for my $type (sort keys %columns)
	{
		my $session = open_session($node, $settings);
		my $persistence = $kind =~ /^(?:new|btree)$/ ? '' : $kind;
		my $make = <<"END";
DROP TABLE IF EXISTS t, keys;
CREATE $persistence TABLE t (k $type, v int);
CREATE INDEX t_k ON t USING $method (k);
CREATE $persistence TABLE keys (k $type);
INSERT INTO keys SELECT $columns{$type} FROM generate_series(1, 900) i;
INSERT INTO t SELECT $columns{$type}, i % 3 FROM generate_series(1, 900) i;
ANALYZE t, keys;
END
		for my $name (sort keys %queries)
		{
			my $query = $queries{$name};

			next if $type eq 'text' && $name =~ /ranges/;
			my $title = join ', ', grep { $_ ne '' } $kind, $type, $name;

			# Nothing can be dead to all whose transaction goes on, but rows of a subtransaction that was rolled back.
			# Semijoins and antijoins have done with a key before they come to these.
			if ($kind eq 'new')
			{
				next if $name =~ /semijoin|antijoin/;
				ask($session, "BEGIN; $make; SAVEPOINT s; INSERT INTO t SELECT k, 7 FROM keys; ROLLBACK TO s");
				is(hits($session, $query), 1800, "$title: rows and dead rows");
				is(hits($session, $query), 900, "$title: rows");
				ask($session, 'COMMIT');
				next;
			}
			ask($session, "$make; DELETE FROM t WHERE v = 1");
			is(hits($session, $query), 900, "$title: rows and dead rows");
			is(hits($session, $query), 600, "$title: rows");

			# The entries of rows that come later have no hints.  Hints of leaves that are split go.
			ask($session, "INSERT INTO t SELECT k, v FROM t");
			cmp_ok(hits($session, $query), '>=', 1200, "$title: rows, and new ones");
		}
		close_session($session);
	}
}

# ----------------------------------------------------------------
# A range that reaches over many leaves
# ----------------------------------------------------------------
sql(<<'END');
CREATE TABLE r (k int, v int);
CREATE INDEX r_k ON r USING harmonia (k);
INSERT INTO r SELECT i, i FROM generate_series(1, 100000) i;
ANALYZE r;
DELETE FROM r WHERE k % 2 = 0;
END
my $session = open_session($node, $settings);
my $ranges = 'SELECT count(v) FROM r WHERE k BETWEEN 1 AND 60000 OR k BETWEEN 60002 AND 100000';
is(hits($session, $ranges), 99999, 'ranges: rows and dead rows');

# Hints are given bit by bit.
my $lookups = 0;
$lookups++ while $lookups < 60 && hits($session, $ranges) > 49999;
cmp_ok($lookups, '>', 1, "many dead rows: not all get hints at once");
cmp_ok($lookups, '<', 60, "but after $lookups lookups they have them");

# Single rows that die get hints, wherever they are, after a few lookups.
sql('DELETE FROM r WHERE k % 1000 = 501');
$lookups = 0;
$lookups++ while $lookups < 20 && hits($session, $ranges) > 49899;
cmp_ok($lookups, '<', 20, "few dead rows: $lookups lookups");

# ----------------------------------------------------------------
# Entries without a row
#
# Damage leaves them behind.  Their line pointers are unused, or beyond those that the page has.  That is no
# reason for a hint: a new row with the same key may get the line pointer, and its entry is there already.
# ----------------------------------------------------------------
sql(<<'END');
CREATE TABLE wanted (k int);
INSERT INTO wanted SELECT generate_series(1, 900);
CREATE TABLE gone (k int, v int);
INSERT INTO gone SELECT i, 0 FROM generate_series(1, 900) i;
CREATE INDEX gone_k ON gone USING harmonia (k);
ANALYZE wanted, gone;
DELETE FROM gone WHERE k % 3 = 1 OR k > 850;
UPDATE pg_index SET indisready = false WHERE indexrelid = 'gone_k'::regclass;
VACUUM (TRUNCATE off) gone;
UPDATE pg_index SET indisready = true WHERE indexrelid = 'gone_k'::regclass;
UPDATE pg_class SET relhasindex = true WHERE relname = 'gone';
END
my $all = 'SELECT count(v) FROM gone WHERE k = ANY (ARRAY(SELECT k FROM wanted))';
my $looks = open_session($node, $settings);
is(hits($looks, $all), 900, 'entries without a row are found') for 1, 2;
sql('INSERT INTO gone SELECT i, 1 FROM generate_series(1, 900) i WHERE i % 3 = 1 OR i > 850');
is(ask($looks, $all), 900, 'new rows in their place are not hidden');
close_session($looks);
is(sql("SELECT harmonia_check('gone_k', true)"), '', 'and all have their entries');

# ----------------------------------------------------------------
# A row that some snapshot needs
# ----------------------------------------------------------------
sql('TRUNCATE r; INSERT INTO r SELECT i, i FROM generate_series(1, 1000) i');
for my $level ('REPEATABLE READ', 'SERIALIZABLE')
{
	my $old = open_session($node, $settings);
	my $query = 'SELECT count(v) FROM r WHERE k = ANY (ARRAY(SELECT generate_series(1, 1000)))';

	ask($old, "BEGIN ISOLATION LEVEL $level");
	my $rows = ask($old, $query);
	sql("DELETE FROM r WHERE k IN (SELECT k FROM r LIMIT 100)");
	is(hits($session, $query), $rows, "$level: the rows are there") for 1, 2;
	is(ask($old, $query), $rows, "$level: the snapshot sees them");
	ask($old, 'COMMIT');
	sql('SELECT txid_current()');	# the server looks again which snapshots there are
	is(hits($session, $query), $rows, "$level: now they can get hints");
	is(hits($session, $query), $rows - 100, "$level: and have them");
	close_session($old);
}

# ----------------------------------------------------------------
# Hints of plain scans count, and theirs count for plain scans
# ----------------------------------------------------------------
my $plain = 'SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off; SET harmonia.enable_lookup_scan = off;';
sql('TRUNCATE r; INSERT INTO r SELECT i, i FROM generate_series(1, 1000) i; DELETE FROM r WHERE k > 600');
is(sql("$plain SELECT count(*) FROM r WHERE k > 0"), 600, 'a plain scan');
is(hits($session, 'SELECT count(v) FROM r WHERE k = ANY (ARRAY(SELECT generate_series(1, 1000)))'), 600, 'then a lookup');
sql('DELETE FROM r WHERE k > 400');
is(hits($session, 'SELECT count(v) FROM r WHERE k = ANY (ARRAY(SELECT generate_series(1, 1000)))'), 600, 'a lookup');
my $other = open_session($node, $plain);
ask($other, 'BEGIN; SELECT count(*) FROM r WHERE k > 0');
is(ask($other, "SELECT pg_stat_get_xact_tuples_returned('r_k'::regclass)"), 400, 'then a plain scan');
close_session($other);

close_session($session);
$node->stop;
done_testing();
