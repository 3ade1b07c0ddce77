# Sessions stop in the middle of a change or of a read while others work on the index.
#
# The library is built with FAULT_POINTS (src/am/fault.h) and SMALL_LIMITS.
# RACES='index-only.*leaf_left' limits the test to races whose names match.
use strict;
use warnings;

use FaultSessions;
use Harmonia;
use HarmoniaDevice;
use Test::More;

# An empty pattern would be the last one that matched.
my $only = $ENV{RACES} // '.';

# The functions that check the index need plain plans.
my $node = new_node('races', conf => (has_daemon() ? device_settings() : '') . <<'END');
harmonia.enable_lookup_scan = off
harmonia.enable_lookup_join = off
END
wait_for_device($node) if has_daemon();

# A table with two segments, in which some leaves have been split, and with all rows
# all-visible.
sub make_table
{
	$node->safe_psql('postgres', <<'END');
SET client_min_messages = warning;
DROP TABLE IF EXISTS t;
CREATE TABLE t (k int, n int);
INSERT INTO t SELECT 10 * i, i FROM generate_series(1, 12000) i;
CREATE INDEX t_k ON t USING harmonia (k) WITH (fillfactor = 100);
INSERT INTO t SELECT 40 * i + 5, i FROM generate_series(1, 3000) i;
END
	$node->safe_psql('postgres', 'VACUUM (ANALYZE) t');
	return;
}

# Make most rows dead to all sessions; their entries stay.
sub delete_most
{
	$node->safe_psql('postgres', 'DELETE FROM t WHERE k % 100 <> 0');
	return;
}

# A column of harmonia_index_info().
sub info
{
	my ($what) = @_;

	return $node->safe_psql('postgres', "SELECT $what FROM harmonia_index_info('t_k')");
}

# Ways to read: what the plan must show, which plans are off, the query.  Lookups are of
# keys on both sides of the boundary between the segments.
my $keys = 'ARRAY(SELECT generate_series(50005, 120005, 5))';
my %reads = (
	'index scan' =>
	  [ 'Index Scan using', 'bitmapscan indexonlyscan', 'SELECT k, n FROM t WHERE k > 0 ORDER BY k' ],
	'backward index scan' => [
		'Index Scan Backward', 'bitmapscan indexonlyscan', 'SELECT k, n FROM t WHERE k > 0 ORDER BY k DESC'
	],
	'index-only scan' =>
	  [ 'Index Only Scan using', 'bitmapscan', 'SELECT k, 0 n FROM t WHERE k > 0 ORDER BY k' ],
	'backward index-only scan' =>
	  [ 'Index Only Scan Backward', 'bitmapscan', 'SELECT k, 0 n FROM t WHERE k > 0 ORDER BY k DESC' ],
	'bitmap scan' =>
	  [ 'Bitmap Index Scan', 'indexscan indexonlyscan', 'SELECT k, n FROM t WHERE k > 0' ],
	'lookup scan' => [ 'LookupScan', 'bitmapscan indexscan', "SELECT k, n FROM t WHERE k = ANY ($keys)" ],
	'index-only lookup scan' =>
	  [ 'Index Only: true', 'bitmapscan indexscan', "SELECT k, 0 n FROM t WHERE k = ANY ($keys)" ],
	'index-only lookup count' =>
	  [ 'LookupAggregate', 'bitmapscan indexscan', "SELECT count(*) k, 0 n FROM t WHERE k = ANY ($keys)" ]);
if (has_daemon())
{
	$reads{"$_ on the device"} = $reads{$_} for grep { /lookup/ } keys %reads;
}

# Settings for a way to read.
sub forbid
{
	my ($read) = @_;

	# With little memory, batches and portions are small and there are several.
	return 'SET harmonia.enable_lookup_scan = ' . ($read =~ /lookup/ ? "on; SET work_mem = '64kB'" : 'off')
	  . '; SET enable_sort = off;'
	  . (has_daemon() ? ' SET harmonia.enable_device = ' . ($read =~ /device/ ? 'on;' : 'off;') : '')
	  . join('', map { " SET enable_$_ = off;" } split / /, $reads{$read}[1]);
}

# A query that sums up what a read returns, with the keys in the order in which they come.
# Lookups have no order.
sub summary
{
	my ($read) = @_;
	my $order = $reads{$read}[2] =~ /ORDER/ ? '' : ' ORDER BY k';

	return "SELECT count(*), sum(k), sum(n), md5(string_agg(k::text, ' '$order)) FROM ($reads{$read}[2]) s;";
}

sub expected_rows
{
	my ($read) = @_;

	return $node->safe_psql('postgres',
		'SET enable_indexscan = off; SET enable_bitmapscan = off; ' . summary($read));
}

# The same, read from the index.
sub read_all
{
	my ($session, $read) = @_;

	return ask($session, 'BEGIN; ' . forbid($read) . summary($read) . ' ROLLBACK');
}

sub check_problem
{
	my ($result, $out, $err) = $node->psql('postgres', "SELECT harmonia_check('t_k', true)");

	return $err;
}

# Tests: the index is in order, and no block stays lost.  VACUUM first looks for lost
# blocks, then moves segments to the front of the file; so it takes several.  The list of
# free extents holds the 5 longest, some of which may have been used since.
sub check_all
{
	my ($name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	is(check_problem(), '', "$name: the index is whole");
	$node->safe_psql('postgres', 'VACUUM (INDEX_CLEANUP on) t');
	is(check_problem(), '', "$name: and after VACUUM");
	$node->safe_psql('postgres', 'VACUUM t') for 1 .. 2;
	is($node->safe_psql('postgres', <<'END'), 't', "$name: no block stays lost");
SELECT lost_pages <= 20 OR free_extents >= 4 FROM harmonia_index_info('t_k'), harmonia_metapage('t_k')
END
	for my $read ('index scan', 'backward index-only scan')
	{
		my $session = open_session($node);

		is(read_all($session, $read), expected_rows($read), "$name: $read afterwards");
		close_session($session);
	}
	return;
}

# ----------------------------------------------------------------
# Movement stops while others read and write
# ----------------------------------------------------------------

# The rows of 119017 belong in the second segment, which is not the one that is moved first.
make_table();
is($node->safe_psql('postgres', "SELECT count(*) FROM harmonia_segments('t_k') WHERE low_key - 2147483648 < 119017"),
	'2', 'there are two segments');

# How a movement that has stopped at a point ends.
my %ends = (
	'goes on' => sub { release($_[0]); },
	'is cancelled' => sub {
		$node->safe_psql('postgres',
			"SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query ~ '^SELECT harmonia_reorg'");
	},
	'is terminated' => sub {
		$node->safe_psql('postgres',
			"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query ~ '^SELECT harmonia_reorg'");
	});

for my $point ('move_read', 'move_copied', 'move_followed', 'move_flagged', 'move_complete', 'move_flipped')
{
	for my $end (sort keys %ends)
	{
		my $name = "movement $end at $point";
		next if $name !~ $only;
		make_table();
		my $movements = info('movements');
		my ($mover, $writer, $other) = map { open_session($node) } 1 .. 3;

		hold($node, $point);
		ask($mover, "SET harmonia.fault = '$point:wait'");
		send_sql($mover, "SELECT harmonia_reorganize('t_k');");
		stopped_at($node, $point);

		for my $read (sort keys %reads)
		{
			is(read_all($other, $read), expected_rows($read), "$name: $read");
		}
		send_sql($writer, 'INSERT INTO t SELECT 17, 17 FROM generate_series(1, 1000);');
		my $waits = $point =~ /marked|complete/;
		if (!$waits)
		{
			is(answer($writer), '', "$name: a writer does not wait");
		}
		else
		{
			ok(blocked_on($node, pausing($node, 'Movement'), '^INSERT INTO t SELECT 17'), "$name: a writer waits");
			is(ask($other, 'INSERT INTO t SELECT 119017, 17 FROM generate_series(1, 1000);'),
				'', "$name: a writer elsewhere does not wait");
		}
		$ends{$end}->($point);
		is(answer($writer), '', "$name: a writer goes on") if $waits;
		if ($end eq 'goes on')
		{
			like(answer($mover), qr/^\d+$/, $name);
			cmp_ok(info('movements'), '>', $movements, "$name: movements are counted");
		}
		release($point) if $end ne 'goes on';
		close_session($_) for ($mover, $writer, $other);
		check_all($name);
	}
}

# ----------------------------------------------------------------
# Readers stop while segments are moved and dead entries removed
# ----------------------------------------------------------------

make_table();
for my $read (sort keys %reads)
{
	like($node->safe_psql('postgres',
			'SET enable_seqscan = off; ' . forbid($read) . " EXPLAIN (COSTS OFF) $reads{$read}[2]"),
		qr/$reads{$read}[0]/, "there is a plan with $read");
}

# Where readers stop: a point, and how often the reader passes it before.  Movement reuses
# the blocks of the first segment, but not those of the last, which has the last leaf.
my $leaves = $node->safe_psql('postgres', "SELECT sum(leaves) FROM harmonia_segments('t_k')");
my %reader_stops = (
	'index scan' => [ ['scan_descended'], [ 'scan_leaf_left', 3 ] ],
	'backward index scan' => [ [ 'scan_descended', 7 ], [ 'scan_leaf_left', 3 ] ],
	'index-only scan' => [ ['scan_descended'], [ 'scan_leaf_read', 7 ], [ 'scan_leaf_left', 3 ], [ 'scan_leaf_left', $leaves - 1 ] ],
	'backward index-only scan' => [ [ 'scan_descended', 7 ], [ 'scan_leaf_read', 0 ], [ 'scan_leaf_read', 7 ], [ 'scan_leaf_left', 3 ] ],
	'bitmap scan' => [ ['scan_descended'], [ 'scan_leaf_left', 3 ] ],
	'lookup scan' => [ [ 'lookup_planned', 11 ], ['lookup_read'], [ 'lookup_portion', 1 ], [ 'lookup_portion', 3 ] ],
	'index-only lookup scan' => [ [ 'lookup_planned', 11 ], ['lookup_read'], [ 'lookup_portion', 1 ], [ 'lookup_portion', 3 ] ],
	'index-only lookup count' => [ ['lookup_read'], [ 'lookup_portion', 1 ] ]);
if (has_daemon())
{
	$reader_stops{"$_ on the device"} = [
		[ 'lookup_portion', 1 ], [ 'lookup_portion', 3 ],
		map { [$_] } qw(sync_begun sync_listed sync_copied remote_synced remote_searched) ]
	  for ('lookup scan', 'index-only lookup scan');
	push @{ $reader_stops{'index-only lookup scan on the device'} }, ['lookup_prepared'];
	$reader_stops{'index-only lookup count on the device'} = [ map { [$_] } qw(lookup_prepared remote_searched lookup_read) ];
}

# What VACUUM waits for if a reader has stopped at a point: the pin on the leaf, the
# visibility gate, or nothing.
sub vacuum_waits_for
{
	my ($read, $point) = @_;

	# VACUUM may come to the pinned blocks only after the gate.
	return 'BufferPin|page' if $read eq 'index-only lookup scan' && $point eq 'lookup_planned';
	return 'BufferPin' if $point =~ /descended|leaf_read|planned/;
	return '' if $point =~ /lookup_portion|lookup_prepared/;

	# A reader makes a copy, or brings it up to date, before it enters the gate.
	return '' if $point =~ /^sync_|remote_synced/;
	return 'page' if $read =~ /^index-only lookup/;
	return '';
}

# Start to read, and wait until the reader stops.
sub start_reader
{
	my ($reader, $read, $point, $skip) = @_;

	hold($node, $point);
	ask($reader, 'BEGIN; ' . forbid($read));
	ask($reader, "SET harmonia.fault = '$point:wait:" . ($skip // 0) . "'");
	send_sql($reader, summary($read));
	return stopped_at($node, $point);
}

for my $read (sort keys %reader_stops)
{
	for my $stop (@{ $reader_stops{$read} })
	{
		my ($point, $skip) = @$stop;
		my $wait = vacuum_waits_for($read, $point);
		my $name = "$read at $point:" . ($skip // 0);
		next if $name !~ $only;
		my ($reader, $vacuum) = map { open_session($node) } 1 .. 2;

		# Split all leaves, move the segments and reuse their blocks.
		make_table();
		my $expected = expected_rows($read);
		my $movements = info('movements');
		start_reader($reader, $read, $point, $skip);
		$node->safe_psql('postgres', "SELECT harmonia_reorganize('t_k')");
		$node->safe_psql('postgres',
			'INSERT INTO t SELECT i * 7 % 120000, -i FROM generate_series(1, 30000) i');
		cmp_ok(info('movements'), '>', $movements, "$name: segments have been moved");
		release($point);
		is(answer($reader), $expected, "$name: movement");
		ask($reader, 'ROLLBACK');
		check_all("$name: movement");

		# VACUUM removes dead entries, but does not mark pages all-visible too early.
		make_table();
		delete_most();
		$expected = expected_rows($read);
		start_reader($reader, $read, $point, $skip);
		send_sql($vacuum, 'VACUUM (INDEX_CLEANUP on, TRUNCATE off) t');
		if ($wait eq '')
		{
			is(answer($vacuum), '', "$name: VACUUM need not wait");
		}
		else
		{
			ok(blocked_on($node, $wait, '^VACUUM'), "$name: VACUUM waits");
		}
		release($point);
		is(answer($reader), $expected, "$name: VACUUM");
		is(answer($vacuum), '', "$name: VACUUM ends") if $wait ne '';
		ask($reader, 'ROLLBACK');
		check_all("$name: VACUUM");

		# Both, so that the reader is in a segment that VACUUM's walk skips.
		make_table();
		delete_most();
		$expected = expected_rows($read);
		start_reader($reader, $read, $point, $skip);
		$node->safe_psql('postgres', "SELECT harmonia_reorganize('t_k')");
		send_sql($vacuum, 'VACUUM (INDEX_CLEANUP on, TRUNCATE off) t');
		if ($wait eq '')
		{
			is(answer($vacuum), '', "$name: VACUUM need not wait");
		}
		else
		{
			ok(blocked_on($node, $wait, '^VACUUM'), "$name: VACUUM waits");
		}
		release($point);
		is(answer($reader), $expected, "$name: movement and VACUUM");
		is(answer($vacuum), '', "$name: VACUUM ends") if $wait ne '';
		ask($reader, 'ROLLBACK');
		close_session($_) for ($reader, $vacuum);
		check_all("$name: movement and VACUUM");
	}
}

# ----------------------------------------------------------------
# A page is about to be sent to the device
#
# Some of its lines have changed.  Before they are sent, entries move from one line to
# others.
# ----------------------------------------------------------------

if (has_daemon() && "lines change while they are sent" =~ $only)
{
	my $read = 'lookup scan on the device';
	my ($reader, $writer) = map { open_session($node) } 1 .. 2;

	$node->safe_psql('postgres', <<'END');
DROP TABLE t;
CREATE TABLE t (k int, n int);
INSERT INTO t SELECT 10 * i, i FROM generate_series(1, 6000) i;
CREATE INDEX t_k ON t USING harmonia (k) WITH (fillfactor = 90);
SELECT harmonia_load('t_k');
END
	for my $round (1 .. 5)
	{
		my $at = 1000 * $round;

		$node->safe_psql('postgres', "INSERT INTO t VALUES ($at + 1, 0)");
		hold($node, 'sync_page_pinned');
		ask($reader, 'BEGIN; ' . forbid($read) . " SET harmonia.fault = 'sync_page_pinned:wait'");
		send_sql($reader, 'SELECT count(*), sum(k), sum(n) FROM t WHERE k = ANY (ARRAY(SELECT generate_series(10, 60000, 10)));');
		stopped_at($node, 'sync_page_pinned');
		ask($writer, "INSERT INTO t SELECT $at + i % 40, i FROM generate_series(1, 39) i WHERE i % 10 > 1;");
		release('sync_page_pinned');
		is(answer($reader), '6000|180030000|18003000', "lines change while they are sent: $round");
		ask($reader, 'ROLLBACK');
	}
	close_session($_) for ($reader, $writer);
	check_all('lines change while they are sent');
}

# ----------------------------------------------------------------
# A cursor stops on a leaf
#
# It has read entries of dead rows.  When it goes on, it checks the visibility map for
# them.  So VACUUM must wait before it marks their pages all-visible.
# ----------------------------------------------------------------

for my $direction ('', 'DESC')
{
	for my $moves (0, 1)
	{
		my $name = "index-only cursor $direction" . ($moves ? ', movement' : '');
		next if $name !~ $only;
		my ($reader, $vacuum) = map { open_session($node) } 1 .. 2;

		make_table();
		delete_most();
		my $rest = $node->safe_psql('postgres',
			"SET enable_indexscan = off; SET enable_bitmapscan = off; SELECT k FROM t ORDER BY k $direction OFFSET 2");
		ask($reader, 'SET enable_bitmapscan = off; SET enable_sort = off; BEGIN');
		ask($reader, "DECLARE c CURSOR FOR SELECT k FROM t ORDER BY k $direction; MOVE 2 IN c");
		$node->safe_psql('postgres', "SELECT harmonia_reorganize('t_k')") if $moves;
		send_sql($vacuum, 'VACUUM (INDEX_CLEANUP on, TRUNCATE off) t');
		ok(blocked_on($node, 'BufferPin', '^VACUUM'), "$name: VACUUM waits");
		is(ask($reader, 'FETCH ALL FROM c'), $rest, "$name: what the cursor has left");
		is(answer($vacuum), '', "$name: VACUUM ends");
		close_session($_) for ($reader, $vacuum);
		check_all($name);
	}
}

# ----------------------------------------------------------------
# Writers stop while others do the same and VACUUM runs
# ----------------------------------------------------------------

# Many keys for a few leaves; keys above all others; NULLs.
my $dense = 'INSERT INTO t SELECT 3000 + i * 7919 % 1000, i FROM generate_series(1, 12000) i';
my $above = 'INSERT INTO t SELECT 130000 + i, i FROM generate_series(1, 12000) i';
my $nulls = 'INSERT INTO t SELECT NULL, i FROM generate_series(1, 100) i';

for my $case (
	[ insert_leaf_known => 30, $dense ],
	[ insert_leaf_found => 1, $dense ],
	[ insert_leaf_found => 3, $above ],
	[ insert_leaf_full => 0, $dense ],
	[ insert_leaf_full => 3, $above ],
	[ batch_leaf_done => 2, $dense ],
	[ spare_allocated => 0, $dense ],
	[ spare_allocated => 2, $dense ],
	[ append_written => 0, $above ],
	[ append_written => 1, $above ],
	[ first_segment_written => 0, $nulls ],
	[ move_locked => 0, $dense ],
	[ move_copied => 0, $dense ],
	[ move_followed => 0, $dense ],
	[ move_flagged => 0, $dense ],
	[ move_complete => 0, $dense ],
	[ move_flipped => 0, $dense ],
	[ move_freed => 0, $dense ])
{
	my ($point, $skip, $load) = @$case;
	my $name = "writer at $point:$skip";
	next if $name !~ $only;
	my ($writer, $other, $single, $vacuum) = map { open_session($node) } 1 .. 4;

	make_table();
	delete_most();
	hold($node, $point);

	# A batch comes to a remembered leaf only after a split.
	ask($writer, 'SET harmonia.batch_inserts = off') if $point eq 'insert_leaf_known';
	ask($writer, "SET harmonia.fault = '$point:wait:$skip'");
	send_sql($writer, $load);
	stopped_at($node, $point);

	send_sql($other, $load);
	settled($node, $other);
	ask($single, 'SET harmonia.batch_inserts = off');
	send_sql($single, $load);
	settled($node, $single);
	send_sql($vacuum, 'VACUUM (INDEX_CLEANUP on, TRUNCATE off) t');
	settled($node, $vacuum);

	release($point);
	is(answer($_), '', $name) for ($writer, $other, $single, $vacuum);
	close_session($_) for ($writer, $other, $single, $vacuum);
	check_all($name);

	# The stopped writer is cancelled; others finish what it has begun.
	make_table();
	($writer, $other) = map { open_session($node) } 1 .. 2;
	hold($node, $point);

	# A batch comes to a remembered leaf only after a split.
	ask($writer, 'SET harmonia.batch_inserts = off') if $point eq 'insert_leaf_known';
	ask($writer, "SET harmonia.fault = '$point:wait:$skip'");
	send_sql($writer, $load);
	stopped_at($node, $point);
	send_sql($other, $load);
	settled($node, $other);
	$node->safe_psql('postgres', "SELECT pg_cancel_backend($writer->{pid})");
	like(answer($writer), qr/canceling/, "$name is cancelled");
	is(answer($other), '', "$name, cancelled: another goes on");
	release($point);
	close_session($_) for ($writer, $other);
	check_all("$name, cancelled");
}

# ----------------------------------------------------------------
# VACUUM stops while others read and write
# ----------------------------------------------------------------

for my $case (
	[ vacuum_leaf_cleaned => 0 ],
	[ vacuum_leaf_cleaned => 5 ],
	[ vacuum_walked => 0 ],
	[ vacuum_reorganized => 0 ],
	[ move_copied => 0 ],
	[ move_flipped => 0 ],
	[ sweep_entered => 0 ])
{
	my ($point, $skip) = @$case;
	my $name = "VACUUM at $point:$skip";
	next if $name !~ $only;
	my ($vacuum, $writer, $reader) = map { open_session($node) } 1 .. 3;

	make_table();
	delete_most();
	hold($node, $point);
	ask($vacuum, "SET harmonia.fault = '$point:wait:$skip'");
	send_sql($vacuum, 'VACUUM (INDEX_CLEANUP on, TRUNCATE off) t');
	stopped_at($node, $point);

	for my $read (sort keys %reads)
	{
		is(read_all($reader, $read), expected_rows($read), "$name: $read");
	}
	send_sql($writer, $dense);
	settled($node, $writer);
	release($point);
	is(answer($writer), '', "$name: a writer");
	is(answer($vacuum), '', $name);
	close_session($_) for ($vacuum, $writer, $reader);
	check_all($name);
}

$node->stop;
done_testing();
