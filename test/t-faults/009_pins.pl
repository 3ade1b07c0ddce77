# Lookups that end early keep nothing pinned: no leaves that were pinned ahead, no heap
# pages that were read ahead, no pages of the visibility map.
#
# VACUUM shows whether a transaction keeps pins after one of its statements has failed.  It
# waits for pins on the heap, because it freezes all rows, and on the index, because some
# rows are dead.
#
# The library is built with FAULT_POINTS (src/am/fault.h) and SMALL_LIMITS.
use strict;
use warnings;

use FaultSessions;
use Harmonia;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('pins', conf => <<'END');
shared_buffers = 32MB
effective_io_concurrency = 32
enable_indexscan = off
enable_bitmapscan = off
enable_hashjoin = off
enable_mergejoin = off
enable_nestloop = off
END

sub sql { return $node->safe_psql('postgres', $_[0]); }

# A few rows a page, not in the order of the key.
sub make_table
{
	return sql(<<'END');
SET client_min_messages = warning;
DROP TABLE IF EXISTS t;
CREATE TABLE t (k int, filler text) WITH (autovacuum_enabled = off);
INSERT INTO t SELECT i * 1237 % 4001, repeat('x', 800) FROM generate_series(1, 4000) i;
CREATE INDEX t_k ON t USING harmonia (k) WITH (fillfactor = 50);
VACUUM ANALYZE t;
DELETE FROM t WHERE k % 50 = 0;
END
}

# Queries in which one row, in the middle, can be treated differently.
my $keys = 'generate_series(1, 4000)';
my %reads = (
	scan => "SELECT count(filler), count(%s) FROM t WHERE k = ANY (ARRAY(SELECT $keys))",
	'index-only scan' => "SELECT count(%s) FROM t WHERE k = ANY (ARRAY(SELECT $keys))",
	join => "SELECT count(filler), count(%s) FROM (SELECT k FROM $keys k OFFSET 0) s JOIN t USING (k)",
	'index-only join' => "SELECT count(%s) FROM (SELECT k FROM $keys k OFFSET 0) s JOIN t USING (k)");

# A reader's query with an expression for that row.
sub query
{
	my ($read, $expression) = @_;

	return sprintf($reads{$read}, $expression);
}

sub at_row { return "CASE WHEN t.k = 2001 THEN $_[0] END"; }

# Ways to end a statement: its expression, SQL to run before it, the lock that it waits for
# if another session cancels it, and the error.
my %ends = (
	'an error' => [ '1 / (t.k - 2001)', '', undef, qr/division by zero/ ],
	'a timeout' => [ at_row('pg_sleep(600) IS NULL'), q{SET LOCAL statement_timeout = '50ms'}, undef, qr/due to statement timeout/ ],
	'a cancel' => [ at_row(q{pg_advisory_lock(hashtext('row')) IS NULL}), '', 'row', qr/due to user request/ ],
	'a fault beside leaves' => [ '1', q{SET LOCAL harmonia.fault = 'lookup_planned:error:2'}, undef, qr/fault point/ ],
	'a fault beside hits' => [ '1', q{SET LOCAL harmonia.fault = 'lookup_read:error'}, undef, qr/fault point/ ]);

# Vacuum the table; returns the event that VACUUM waits for, or '' if it ends.
sub vacuum_waits_for
{
	my ($vacuum) = @_;

	send_sql($vacuum, 'VACUUM (FREEZE, INDEX_CLEANUP on, TRUNCATE off) t');
	settled($node, $vacuum) || die 'VACUUM neither ends nor waits';
	return sql("SELECT wait_event FROM pg_stat_activity WHERE pid = $vacuum->{pid} AND state = 'active'");
}

for my $read (sort keys %reads)
{
	my $plain = query($read, '1');

	make_table();
	my $plan = sql("EXPLAIN (COSTS off) $plain");
	like($plan, qr/HarmoniaLookup/, "$read: the plan");
	is($plan =~ /Index Only: true/ ? 1 : 0, $read =~ /index-only/ ? 1 : 0, "$read: index-only or not");
	for my $end (sort keys %ends)
	{
		my ($expression, $settings, $lock, $error) = @{ $ends{$end} };
		my $name = "$read, $end";

		# A cursor's resources belong to the portal.
		for my $cursor (0, 1)
		{
			my $statement = query($read, $expression);
			my ($reader, $vacuum) = map { open_session($node) } 1 .. 2;

			$name .= ', cursor' if $cursor;
			make_table();
			my $expected = sql("SET harmonia.enable_lookup_scan = off; SET harmonia.enable_lookup_join = off; $plain");
			hold($node, $lock) if $lock;
			ask($reader, "BEGIN; DECLARE c CURSOR FOR $statement") if $cursor;
			ask($reader, ($cursor ? '' : 'BEGIN; ') . "SAVEPOINT s; $settings");
			send_sql($reader, $cursor ? 'FETCH ALL FROM c' : $statement);
			if ($lock)
			{
				stopped_at($node, $lock);
				sql("SELECT pg_cancel_backend($reader->{pid})");
			}
			like(answer($reader), $error, "$name: it fails");
			ask($reader, 'ROLLBACK TO s');
			release($lock) if $lock;
			is(vacuum_waits_for($vacuum), '', "$name: nothing is pinned");
			is(ask($reader, $plain), $expected, "$name: the next statement");
			is(ask($reader, 'COMMIT'), '', "$name: the transaction ends");
			is(answer($vacuum), '', "$name: VACUUM ends");
			close_session($_) for ($reader, $vacuum);
		}
	}

	# The test does see pins: an open cursor keeps a page pinned.
	next if $read =~ /index-only/;
	my ($reader, $vacuum) = map { open_session($node) } 1 .. 2;

	make_table();
	ask($reader, 'BEGIN; DECLARE c CURSOR FOR ' . $plain =~ s/SELECT .*? FROM/SELECT filler FROM/r . '; MOVE 100 IN c');
	is(vacuum_waits_for($vacuum), 'BufferPin', "$read: a cursor's pages are pinned");
	is(ask($reader, 'CLOSE c'), '', "$read: the cursor is closed");
	is(answer($vacuum), '', "$read: VACUUM ends");
	is(ask($reader, 'COMMIT'), '', "$read: the transaction ends");
	close_session($_) for ($reader, $vacuum);
}
unlike(slurp_file($node->logfile), qr/leak|not closed/, 'the server reports no leaks');

$node->stop;
done_testing();
