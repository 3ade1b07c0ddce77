# Lookups in a btree stop on their way to a leaf, or when they have read one, while others split the leaf,
# empty it, delete it and fill its neighbours; or while VACUUM removes the rows of its entries.
#
# A lookup knows the leaves that its next probes begin on, up to 256 of them, before it visits the first one.
# It passes lookup_planned once for each of these that it does not come to as a right sibling, because a probe
# goes on there; that is when it passes lookup_going_right.  If it reads the index alone, it keeps leaves
# pinned, for which VACUUM waits.
#
# The cases fail if a lookup does not move right from a leaf that has been split (it goes round in circles), does
# not step over a deleted one, does not keep its pins until it has read the visibility map, or believes the map
# about hits that it has read from a leaf before it pinned others.
#
# The library is built with FAULT_POINTS (src/am/fault.h) and SMALL_LIMITS.
use strict;
use warnings;

use FaultSessions;
use Harmonia;
use Test::More;

my $node = new_node('btree', conf => "shared_buffers = 32MB\n");
my $settings = 'SET enable_indexscan = off; SET enable_bitmapscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off;'
  . ' SET enable_nestloop = off; SET enable_material = off;';
my $plain = 'SET LOCAL harmonia.enable_btree_lookup = off; SET LOCAL enable_indexonlyscan = off; SET LOCAL enable_seqscan = on;';

sub sql { return $node->safe_psql('postgres', $_[0]); }

# Reads of a table t, whose probes begin on many leaves, by keys or by values.
my $probes = 'generate_series(3, 20000, 60)';
my %reads = (
	scan => "SELECT count(*), sum(v), sum(hashtext(k::text)::bigint) FROM t WHERE k = ANY (ARRAY(SELECT KEY(n) FROM $probes n))",
	'index-only scan' => "SELECT count(*), sum(hashtext(k::text)::bigint) FROM (SELECT k FROM t WHERE k = ANY (ARRAY(SELECT KEY(n) FROM $probes n)) OFFSET 0) s",
	ranges => "SELECT count(*), sum(v) FROM (SELECT n FROM $probes n OFFSET 0) s JOIN t ON k BETWEEN n AND n + 20",
	'overlapping ranges' => "SELECT count(*), sum(v) FROM (SELECT n FROM $probes n OFFSET 0) s JOIN t ON k BETWEEN n AND n + 70",
	antijoin => "SELECT count(*), sum(n) FROM (SELECT n, KEY(n) AS key FROM $probes n OFFSET 0) s WHERE NOT EXISTS (SELECT FROM t WHERE k = key)");
my %types = (bigint => 'KEY', text => q{'key ' || lpad(KEY::text, 9, '0')});

sub key { my ($type, $of) = @_; return $types{$type} =~ s/KEY/($of)/r; }

sub read_of
{
	my ($read, $type) = @_;
	return $reads{$read} =~ s/KEY\((\w+)\)/key($type, $1)/ger;
}

# Two rows of each of 20000 keys, in another order than that of the keys.  A third of the leaves can be
# emptied, and some keys have several leaves.
sub make_table
{
	my ($type, $option) = @_;

	sql(<<"END");
SET client_min_messages = warning;
DROP TABLE IF EXISTS t;
CREATE TABLE t (k $type, v int) WITH (autovacuum_enabled = off, vacuum_truncate = off);
INSERT INTO t SELECT @{[key($type, 'i * 7919 % 20011')]}, i % 7 FROM generate_series(1, 40000) i;
INSERT INTO t SELECT @{[key($type, '60 * (i % 3) + 9003')]}, 8 FROM generate_series(1, 3000) i;
CREATE INDEX t_k ON t (k$option) WITH (fillfactor = 100, deduplicate_items = off);
VACUUM ANALYZE t;
DELETE FROM t WHERE k BETWEEN @{[key($type, 4000)]} AND @{[key($type, 12000)]} AND v < 8;
END
	return;
}

sub empty_pages { return sql(q{SELECT deleted_pages FROM pgstatindex('t_k')}); }

my $vacuum = 'VACUUM (INDEX_CLEANUP on) t';
my %motion = (
	split => sub { sql("INSERT INTO t SELECT @{[key($_[0], 'i % 20000')]}, 9 FROM generate_series(1, 25000) i") },
	deleted => sub {
		sql('DELETE FROM t WHERE v = 8');
		sql($vacuum);
		cmp_ok(empty_pages(), '>', 20, 'leaves are deleted');
	},
	'deleted, and others split' => sub {
		sql($vacuum);
		cmp_ok(empty_pages(), '>', 20, 'leaves are deleted');
		sql('SELECT txid_current()') for 1 .. 3;
		sql($vacuum);
		sql("INSERT INTO t SELECT @{[key($_[0], '6000 + i % 9000')]}, 9 FROM generate_series(1, 25000) i");
	});

sql('CREATE EXTENSION pgstattuple');
for my $motion (sort keys %motion)
{
	for my $case (map { my $type = $_; map { [ $type, $_ ] } '', ' DESC' } sort keys %types)
	{
		my ($type, $option) = @$case;

		for my $read (grep { $type eq 'bigint' || !/ranges/ } sort keys %reads)
		{
			for my $skip ($motion ne 'split' && $read =~ /index-only|anti/ ? 0 : "$type$option" eq 'bigint' ? (0, 25) : 25)
			{
				my $name = "$motion, $type$option, $read, after $skip leaves";
				my $query = read_of($read, $type);
				my $point = $read =~ /overlapping/ ? 'lookup_going_right' : 'lookup_planned';

				make_table($type, $option);
				my $reader = open_session($node, $settings);
				like(ask($reader, "EXPLAIN $query"), qr/HarmoniaLookup/, "$name: the plan");
				my $expected = ask($reader, "BEGIN ISOLATION LEVEL REPEATABLE READ; SAVEPOINT s; $plain $query; ROLLBACK TO s");
				hold($node, $point);
				ask($reader, "SET harmonia.fault = '$point:wait:$skip'");
				send_sql($reader, $query);
				stopped_at($node, $point);
				$motion{$motion}->($type);
				release($point);
				is(answer($reader), $expected, $name);
				is(ask($reader, 'RESET harmonia.fault; COMMIT'), '', "$name: the end");
				close_session($reader);
			}
		}
	}
}

# ----------------------------------------------------------------
# The visibility map
# ----------------------------------------------------------------

# Overlapping ranges have more hits on a leaf than are returned at a time, so that some are returned when its
# pin has been given up.
my %counts = (
	points => 'SELECT count(*) FROM t WHERE k = ANY (ARRAY(SELECT generate_series(3, 20000)))',
	join => 'SELECT count(*), sum(t.k) FROM (SELECT n AS k FROM generate_series(3, 20000) n OFFSET 0) s JOIN t USING (k)',
	ranges => 'SELECT count(*), sum(t.k) FROM (SELECT n FROM generate_series(3000, 3200) n OFFSET 0) s JOIN t ON t.k BETWEEN s.n AND s.n + 9000');

for my $read (sort keys %counts)
{
	my $query = $counts{$read};

	for my $stop ([ 'lookup_read', 0, 'waits' ], ($read eq 'ranges' ? () : [ 'lookup_read', 1, 'waits' ]), [ 'lookup_portion', 1, 'ends' ])
	{
		my ($point, $skip, $vacuum_does) = @$stop;
		my $name = "$read at $point, passed $skip times";

		make_table('bigint', '');
		sql('DELETE FROM t WHERE k % 5 = 0');
		my $reader = open_session($node, $settings);
		my $other = open_session($node);
		like(ask($reader, "EXPLAIN (COSTS off) $query"), qr/HarmoniaLookup.*Index Only: true/s, "$name: the plan");
		# An index scan would mark entries as dead, so that lookups did not find them.
		my $expected = sql("BEGIN; $plain SET LOCAL enable_indexscan = off; SET LOCAL enable_bitmapscan = off; $query");
		hold($node, $point);
		ask($reader, "SET harmonia.fault = '$point:wait:$skip'");
		send_sql($reader, $query);
		stopped_at($node, $point);
		send_sql($other, 'VACUUM (INDEX_CLEANUP on, TRUNCATE off) t');
		wait_until($node, "SELECT FROM pg_stat_activity WHERE pid = $other->{pid} AND (state = 'idle' OR wait_event_type = 'BufferPin')")
		  || die 'VACUUM neither ends nor waits';
		is(sql("SELECT CASE state WHEN 'idle' THEN 'ends' ELSE 'waits' END FROM pg_stat_activity WHERE pid = $other->{pid}"),
			$vacuum_does, "$name: VACUUM $vacuum_does");
		release($point);
		is(answer($reader), $expected, "$name: what is found");
		is(answer($other), '', "$name: VACUUM ends");
		close_session($_) for ($reader, $other);
	}
}

$node->stop;
done_testing();
