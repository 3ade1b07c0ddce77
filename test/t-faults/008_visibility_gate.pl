# Lookup batches read the index alone, or only count, while VACUUM removes dead entries and
# then marks heap pages as all-visible.  A reader of such an entry must check the visibility
# map before VACUUM changes it.
#
# Each case fails without the visibility gate, or without the code that makes up for entries
# that were read before the gate was entered.
#
# The library is built with FAULT_POINTS (src/am/fault.h) and SMALL_LIMITS.
use strict;
use warnings;

use FaultSessions;
use Harmonia;
use HarmoniaDevice;
use Test::More;

my $node = new_node('gate', conf => (has_daemon() ? device_settings() : '') . <<'END');
shared_buffers = 32MB
enable_indexscan = off
enable_bitmapscan = off
enable_hashjoin = off
enable_mergejoin = off
enable_nestloop = off
END
wait_for_device($node) if has_daemon();

sub sql { return $node->safe_psql('postgres', $_[0]); }

# Ways to read: the node of the plan, and a query.  Where ranges overlap, the first leaf has
# more hits than fit in a portion.  Then the second portion begins with entries that were
# read for the first.
my $keys = 'generate_series(90000, 120000, 10)';
my $ranges = 'k BETWEEN 90000 AND 105000 OR k BETWEEN 110000 AND 130000';
my %reads = (
	scan => [ 'LookupScan', "SELECT count(*), sum(s.k) FROM (SELECT k FROM t WHERE k = ANY (ARRAY(SELECT $keys)) OFFSET 0) s" ],
	ranges => [ 'LookupScan', "SELECT count(*), sum(s.k) FROM (SELECT k FROM t WHERE $ranges OFFSET 0) s" ],
	join => [ 'LookupJoin', "SELECT count(*), sum(t.k) FROM (SELECT k FROM $keys k OFFSET 0) s JOIN t USING (k)" ],
	'join of ranges' => [ 'LookupJoin', "SELECT count(*), sum(t.k) FROM (SELECT k FROM generate_series(91001, 91200) k OFFSET 0) s JOIN t ON t.k BETWEEN s.k AND s.k + 10000" ],
	count => [ 'LookupAggregate', "SELECT count(*) FROM t WHERE k = ANY (ARRAY(SELECT $keys))" ],
	'count of ranges' => [ 'LookupAggregate', "SELECT count(*) FROM t WHERE $ranges" ]);

# Where a reader stops: a point, how often the reader passes it before, and whether VACUUM
# waits at the gate.  It does not wait between portions.
my @stops = ([ 'lookup_read', 0, 1 ], [ 'lookup_portion', 1, 0 ]);
my @device_stops = ([ 'lookup_prepared', 0, 0 ], [ 'remote_searched', 0, 1 ], [ 'lookup_read', 0, 1 ], [ 'lookup_portion', 1, 0 ]);

sub make_table
{
	sql(<<'END');
SET client_min_messages = warning;
DROP TABLE IF EXISTS t;
CREATE TABLE t (k int) WITH (autovacuum_enabled = off);
INSERT INTO t SELECT 10 * i FROM generate_series(1, 12000) i;
CREATE INDEX t_k ON t USING harmonia (k) WITH (fillfactor = 100);
INSERT INTO t SELECT 40 * i + 5 FROM generate_series(1, 3000) i;
END
	sql('VACUUM (ANALYZE) t');
	return;
}

# What a query finds without us.
sub expected
{
	my ($query) = @_;

	return sql("SET harmonia.enable_lookup_scan = off; SET harmonia.enable_lookup_join = off; $query");
}

# The process that a session's statement queues behind, '' if it has ended.
sub waits_for
{
	my ($session) = @_;

	settled($node, $session) || die 'a statement neither ends nor waits';
	return sql("SELECT array_to_string(pg_blocking_pids(pid), ' ') FROM pg_stat_activity"
		  . " WHERE pid = $session->{pid} AND state = 'active'");
}

# A session with the device or without.
sub open_reader
{
	my ($on_device) = @_;

	return open_session($node, has_daemon() ? 'SET harmonia.enable_device = ' . ($on_device ? 'on' : 'off') : '');
}

sub try_read
{
	my ($read, $on_device, $point, $skip, $waits) = @_;
	my ($plan, $query) = @{ $reads{$read} };
	my $name = $read . ($on_device ? ' on the device' : '') . " at $point:$skip";

	make_table();
	sql('DELETE FROM t WHERE k % 50 = 0');
	my $expected = expected($query);
	my ($reader, $vacuum) = (open_reader($on_device), open_session($node));

	like(ask($reader, "EXPLAIN (COSTS off) $query"), qr/$plan.*Index Only: true/s, "$name: the plan");
	hold($node, $point);
	ask($reader, "SET harmonia.fault = '$point:wait:$skip'");
	send_sql($reader, $query);
	stopped_at($node, $point);

	# Move the segments that the reader has plans for, so that VACUUM's walk skips them.
	sql("SELECT harmonia_reorganize('t_k')");
	send_sql($vacuum, 'VACUUM (INDEX_CLEANUP on, TRUNCATE off) t');
	is(waits_for($vacuum), $waits ? $reader->{pid} : '', "$name: VACUUM waits, or not");
	release($point);
	is(answer($reader), $expected, "$name: what is found");
	is(answer($vacuum), '', "$name: VACUUM ends");
	close_session($_) for ($reader, $vacuum);
	return;
}

for my $read (sort keys %reads)
{
	try_read($read, 0, @$_) for @stops;

	next if !has_daemon();
	try_read($read, 1, @$_) for @device_stops;
}

# The device counts and tallies with bits of the visibility map, which are read before it
# searches.
if (has_daemon())
{
	try_read($_, 1, 'remote_map_read', 0, 1) for 'count', 'join';
}

# Rows come when these bits have been read, on a page that was all-visible, and another lookup
# brings the copy up to date.  The device finds these rows and takes them for visible.
for my $read (has_daemon() ? ('count', 'join') : ())
{
	my $name = "rows that come after the map was read, $read";
	my $query = $reads{$read}[1] =~ s/count\(\*\), sum\(t.k\)/sum(t.k - t.k + 1)/r;
	my ($reader, $other) = map { open_reader(1) } 1 .. 2;

	make_table();
	my $expected = expected($query);
	hold($node, 'remote_map_read');
	ask($reader, "SET harmonia.fault = 'remote_map_read:wait'");
	send_sql($reader, $query);
	stopped_at($node, 'remote_map_read');
	my $page = '(SELECT max((ctid::text::point)[0]) FROM t)';
	is(sql("SELECT $page"), sql("INSERT INTO t SELECT 90000 + 10 * i FROM generate_series(1, 20) i; SELECT $page"),
		"$name: they need no new page");
	is(ask($other, $query), $expected + 20, "$name: another lookup finds them");
	release('remote_map_read');
	is(answer($reader), $expected, "$name: the first one does not");
	is(ask($reader, "RESET harmonia.fault; $query"), $expected + 20, "$name: its next one does");
	like(ask($reader, "EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off) $query"), qr/Device: GPU.*Fallbacks: 0/s,
		"$name: on the device");
	close_session($_) for ($reader, $other);
}

# Lookups that come while VACUUM waits do not wait.  It does not wait for them, but the
# next one does.
{
	my $name = 'lookups that meet VACUUM';
	my $query = $reads{scan}[1];
	my ($first, $second, $third, $vacuum) = map { open_reader(0) } 1 .. 4;

	make_table();
	sql('DELETE FROM t WHERE k % 50 = 0');
	my $expected = expected($query);

	hold($node, 'visibility_gate_entered');
	ask($first, "SET harmonia.fault = 'visibility_gate_entered:wait'");
	send_sql($first, $query);
	stopped_at($node, 'visibility_gate_entered');
	send_sql($vacuum, 'VACUUM (INDEX_CLEANUP on, TRUNCATE off) t');
	is(waits_for($vacuum), $first->{pid}, "$name: VACUUM waits for the first");
	send_sql($second, $query);
	is(waits_for($second), '', "$name: the second does not wait");

	# The third has read entries of rows that are dead.
	sql('DELETE FROM t WHERE k % 50 = 10');
	my $later = expected($query);
	hold($node, 'lookup_read');
	ask($third, "SET harmonia.fault = 'lookup_read:wait'");
	send_sql($third, $query);
	stopped_at($node, 'lookup_read');

	release('visibility_gate_entered');
	is(answer($first), $expected, "$name: what the first finds");
	is(answer($second), $expected, "$name: what the second finds");
	is(waits_for($vacuum), '', "$name: VACUUM does not wait for the third");
	is(answer($vacuum), '', "$name: VACUUM ends");
	send_sql($vacuum, 'VACUUM (INDEX_CLEANUP on, TRUNCATE off) t');
	is(waits_for($vacuum), $third->{pid}, "$name: the next VACUUM does");
	release('lookup_read');
	is(answer($third), $later, "$name: what the third finds");
	is(answer($vacuum), '', "$name: the next VACUUM ends");
	close_session($_) for ($first, $second, $third, $vacuum);
}

# A parallel worker that comes while VACUUM waits takes the other door too, even if the lock
# manager would let it overtake VACUUM because another worker of its query is inside.  The
# workers go on from their first row one by one, the second when VACUUM waits.  (A join by equality would share the
# outer rows, so that the first waits for the second.)
{
	my $name = 'workers that meet VACUUM';
	my $query = 'SELECT count(*) FROM probes p JOIN t ON t.k BETWEEN p.k AND p.k + 1 WHERE in_turn(p.k)';
	my $vacuum = open_session($node);
	my $reader = open_session($node, <<'END');
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET parallel_leader_participation = off;
SET enable_seqscan = on;
END

	make_table();
	sql(<<'SQL');
CREATE TABLE probes (k int, filler text) WITH (autovacuum_enabled = off, parallel_workers = 2);
ALTER TABLE probes ALTER filler SET STORAGE plain;
INSERT INTO probes SELECT 100 * i, repeat('x', 1000) FROM generate_series(1, 300) i;
ANALYZE probes;
CREATE TABLE workers ();
CREATE TABLE gone_on ();
CREATE FUNCTION in_turn(k int) RETURNS bool LANGUAGE plpgsql PARALLEL SAFE
AS $$
DECLARE
	pids int[];
BEGIN
	IF EXISTS (SELECT FROM pg_locks WHERE relation = 'gone_on'::regclass AND pid = pg_backend_pid()) THEN
		RETURN true;
	END IF;
	PERFORM FROM workers;
	LOOP
		pids := ARRAY(SELECT DISTINCT pid FROM pg_locks WHERE relation = 'workers'::regclass ORDER BY pid);
		EXIT WHEN cardinality(pids) = 2 AND (pids[1] = pg_backend_pid() OR
			EXISTS (SELECT FROM pg_locks WHERE locktype = 'page' AND NOT granted));
		PERFORM pg_sleep(0.01);
	END LOOP;
	PERFORM FROM gone_on;
	RETURN true;
END
$$;
DELETE FROM t WHERE k % 500 = 0;
SQL
	like(ask($reader, "EXPLAIN (COSTS off) $query"),
		qr/Parallel Custom Scan \(HarmoniaLookupJoin.*Index Only: true/s, "$name: the plan");

	hold($node, 'visibility_gate_entered');
	ask($reader, "SET harmonia.fault = 'visibility_gate_entered:wait'");
	send_sql($reader, $query);
	stopped_at($node, 'visibility_gate_entered');
	send_sql($vacuum, 'VACUUM (INDEX_CLEANUP on, TRUNCATE off) t');
	is(waits_for($vacuum), $reader->{pid}, "$name: VACUUM waits for the first");
	ok(wait_until($node, "SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted HAVING count(*) = 2"),
		"$name: the second is inside");
	is(sql("SELECT count(DISTINCT page) FROM pg_locks WHERE locktype = 'page' AND granted"), 2,
		"$name: by the other door");
	release('visibility_gate_entered');
	is(answer($reader), 240, "$name: what they find");
	is(answer($vacuum), '', "$name: VACUUM ends");
	close_session($_) for ($reader, $vacuum);
}

# If keys of which each counts once may have more hits than that, the engine drops duplicates for the
# device, and names the keys that are left.
if (has_daemon())
{
	my $name = 'distinct keys with many hits';
	my $query = 'SELECT count(*), sum(k) FROM t WHERE k IN (SELECT k / 20 * 10 FROM generate_series(10, 120000, 10) k)';
	my $session = open_reader(1);

	make_table();
	my $expected = expected($query);
	ask($session, 'SET enable_hashagg = off; SET enable_sort = off');
	like(ask($session, "EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off) $query"),
		qr/LookupJoin(?=.*Distinct Keys).*Index Only: true.*Device: GPU/s, "$name: the plan");
	is(ask($session, $query), $expected, "$name: what is found");
	close_session($session);
}

# However many hits a lookup has, it enters the gate again for each few of them, here 2048.
# Having entered, or searched, so often, a lookup fails.
make_table();
for my $case (
	[ 'scan', 0, 'visibility_gate_entered' ],
	[ 'count of ranges', 0, 'visibility_gate_entered' ],
	[ 'count', 1, 'visibility_gate_entered' ],
	[ 'count of ranges', 1, 'visibility_gate_entered' ],
	[ 'scan', 1, 'remote_searched' ])
{
	my ($read, $on_device, $point) = @$case;
	next if $on_device && !has_daemon();
	my $name = "$read with many hits" . ($on_device ? ' on the device' : '');
	my $query = $reads{$read}[1] =~ s/generate_series\(90000/generate_series(10/r =~ s/BETWEEN 90000/BETWEEN 0/r;
	my $session = open_reader($on_device);

	is(ask($session, $query), expected($query), "$name: what is found");
	ask($session, "SET harmonia.fault = '$point:error:3'");
	like(ask($session, $query), qr/fault point "$point"/, "$name: one entry covers some of them");
	close_session($session);
}

$node->stop;
done_testing();
