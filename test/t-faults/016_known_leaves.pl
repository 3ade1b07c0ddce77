# A backend remembers leaves that it has changed.  Before it changes one again, the leaf is split, its
# segment moves or dies, or its block gets another owner.  It must notice that.
#
# Each case fails without the check that it names.  They are in src/am/target.c, but for the last.
#
# The library is built with FAULT_POINTS (src/am/fault.h) and SMALL_LIMITS.
use strict;
use warnings;

use FaultSessions;
use Harmonia;
use HarmoniaDevice;
use Test::More;

my $node = new_node('known_leaves', conf => (has_daemon() ? device_settings() . "harmonia.enable_device = off\n" : '') . <<'END');
shared_buffers = 32MB
END
wait_for_device($node) if has_daemon();

sub sql { return $node->safe_psql('postgres', $_[0]); }

# Two segments.  Leaves have been split, so that movement pays, and have room, so that single rows do
# not split them again.
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
	return;
}

# A session that remembers the leaves of these keys.  Its next statement stops at a point, if one
# is given.  The same statement with another key shows that the leaf is remembered: it does not
# get to where a leaf is looked for.
sub remembering
{
	my ($stop, @keys) = @_;
	my $session = open_session($node);

	# The first row may split the leaf.
	ask($session, "INSERT INTO t VALUES ($_)") for @keys, @keys;
	ask($session, "SET harmonia.fault = 'insert_leaf_found:error'");
	is(ask($session, 'INSERT INTO t VALUES (' . ($_ + 1) . ')'), '', "the leaf of $_ is remembered") for @keys;
	ask($session, "SET harmonia.fault = '" . ($stop ? "$stop:wait" : '') . "'");
	hold($node, $stop) if $stop;
	return $session;
}

# Move all segments; fails if none is moved.  Backends that remember leaves must not learn of it by
# an invalidation: nothing of the index's definition changes, and a table in use is not truncated.
sub move_all
{
	my $keeper = open_session($node);

	ask($keeper, 'BEGIN; SELECT FROM t LIMIT 0');
	cmp_ok(sql("SELECT harmonia_reorganize('t_k')"), '>', 0, 'segments are moved');
	close_session($keeper);
	return;
}

# A test: the next row goes to a leaf that is remembered, right or wrong.
sub still_remembers
{
	my ($session, $key, $name) = @_;

	ask($session, "SET harmonia.fault = 'insert_leaf_known:error'");
	like(ask($session, "INSERT INTO t VALUES ($key)"), qr/insert_leaf_known/, "$name: the leaf is still remembered");
	return;
}

# Rows that use blocks again which movements have freed.
sub use_blocks
{
	my ($from) = @_;

	sql("INSERT INTO t SELECT $from + i * 7919 % 1000 FROM generate_series(1, 12000) i");
	return;
}

# ----------------------------------------------------------------
# The leaf is split: bounds
# ----------------------------------------------------------------
for my $stop (undef, 'insert_leaf_known')
{
	my $name = 'a leaf that is split' . ($stop ? ' before it is locked' : '');
	make_table();
	my $session = remembering($stop, 60005, 120005);

	if ($stop)
	{
		send_sql($session, 'INSERT INTO t VALUES (60999)');
		stopped_at($node, $stop);
	}
	sql('INSERT INTO t SELECT 60000 + i % 1000 FROM generate_series(1, 4000) i');
	sql('INSERT INTO t SELECT 120010 + i FROM generate_series(1, 9000) i');
	if ($stop)
	{
		release($stop);
		is(answer($session), '', $name);
	}
	is(ask($session, "INSERT INTO t VALUES ($_)"), '', "$name: key $_") for (60998, 60001, 129500, 124000, 120011);
	close_session($session);
	check_index($node, 't_k', "$name: the index is as the table");
}

# ----------------------------------------------------------------
# The segment has died, and its blocks get other owners: the header's state, stamps
# ----------------------------------------------------------------
for my $stop (undef, 'insert_leaf_known')
{
	for my $again (0, 1)
	{
		my $name = 'a segment that has died'
		  . ($again ? ', and its blocks are used again' : '')
		  . ($stop ? ', before its leaf is locked' : '');
		make_table();
		my %sessions = map { my $key = 15000 * $_ - 15; $key => remembering($stop, $key) } 1 .. 8;

		if ($stop)
		{
			for my $key (sort keys %sessions)
			{
				send_sql($sessions{$key}, "INSERT INTO t VALUES ($key + 2)");
				settled($node, $sessions{$key});
			}
			stopped_at($node, $stop);
		}
		move_all();
		if ($again)
		{
			for my $from (30000, 90000, 15000, 45000, 75000, 105000)
			{
				last if sql("SELECT count(*) FROM harmonia_segments('t_k') WHERE block = 1") > 0;
				use_blocks($from);
			}
			cmp_ok(sql("SELECT count(*) FROM harmonia_segments('t_k') WHERE block = 1"), '>', 0,
				"$name: block 1 is a header again");
		}
		release($stop) if $stop;
		for my $key (sort keys %sessions)
		{
			if ($stop)
			{
				is(answer($sessions{$key}), '', "$name: key $key");
			}
			else
			{
				still_remembers($sessions{$key}, $key + 2, $name);
			}
			is(ask($sessions{$key}, "INSERT INTO t VALUES ($key + 3)"), '', "$name: another row, $key");
			close_session($sessions{$key});
		}
		check_index($node, 't_k', "$name: the index is as the table");
	}
}

# ----------------------------------------------------------------
# The segment is being moved: the header's mark
#
# The mover has looked at all leaves for the last time.  An entry that a writer added to one of them now
# would be lost.
# ----------------------------------------------------------------
for my $stop (undef, 'insert_leaf_known', 'insert_leaf_found')
{
	my $name = 'a segment that is being moved' . ($stop ? ", after $stop" : '');
	make_table();
	my $found = ($stop // '') eq 'insert_leaf_found';
	my $session = $found ? open_session($node) : remembering($stop, 15005);
	my $mover = open_session($node);

	if ($found)
	{
		hold($node, $stop);
		ask($session, "SET harmonia.fault = '$stop:wait'");
	}
	if ($stop)
	{
		send_sql($session, 'INSERT INTO t VALUES (15007)');
		stopped_at($node, $stop);
	}
	hold($node, 'move_complete');
	ask($mover, "SET harmonia.fault = 'move_complete:wait'");
	send_sql($mover, "SELECT harmonia_reorganize('t_k')");
	stopped_at($node, 'move_complete');
	if ($stop)
	{
		release($stop);
	}
	else
	{
		still_remembers($session, 15007, $name);
		send_sql($session, 'INSERT INTO t VALUES (15007)');
	}
	ok(blocked_on($node, pausing($node, 'Movement'), '^INSERT INTO t VALUES .15007'), "$name: the writer waits");
	release('move_complete');
	is(answer($session), '', "$name: the writer goes on");
	like(answer($mover), qr/^\d+$/, "$name: movement ends");
	close_session($_) for ($session, $mover);
	check_index($node, 't_k', "$name: the index is as the table");
}

# A mover that dies leaves its mark.
{
	my $name = 'a mark that was left';
	make_table();
	my $session = remembering(undef, 15005);

	my ($result, $out, $err) = $node->psql('postgres',
		"LOAD 'harmonia'; SET harmonia.fault = 'move_complete:error'; SELECT harmonia_reorganize('t_k')");
	like($err, qr/move_complete/, "$name: the mover fails");
	still_remembers($session, 15007, $name);
	is(ask($session, "INSERT INTO t VALUES ($_)"), '', "$name: key $_") for (15007, 15008, 15009);
	close_session($session);
	check_index($node, 't_k', "$name: the index is as the table");
}

# ----------------------------------------------------------------
# VACUUM waits for the pins of a writer that has stopped
# ----------------------------------------------------------------
{
	my $name = 'VACUUM';
	make_table();
	sql('DELETE FROM t WHERE k % 100 <> 0');
	my $session = remembering('insert_leaf_known', 15005);
	my $vacuum = open_session($node);

	send_sql($session, 'INSERT INTO t VALUES (15007)');
	stopped_at($node, 'insert_leaf_known');
	send_sql($vacuum, 'VACUUM (INDEX_CLEANUP on, TRUNCATE off) t');
	ok(blocked_on($node, 'BufferPin', '^VACUUM'), "$name waits for a pin");
	release('insert_leaf_known');
	is(answer($session), '', "$name: the writer goes on");
	is(answer($vacuum), '', "$name goes on");
	is(ask($session, 'INSERT INTO t VALUES (15008)'), '', "$name: the next row");
	close_session($_) for ($session, $vacuum);
	check_index($node, 't_k', "$name: the index is as the table");
}

# ----------------------------------------------------------------
# TRUNCATE and REINDEX: another file, in which blocks and stamps are the same
# ----------------------------------------------------------------
{
	my $name = 'another file';
	make_table();
	my $session = remembering(undef, 15005, 120005);

	is(ask($session, "BEGIN; INSERT INTO t VALUES (15009); TRUNCATE t; INSERT INTO t VALUES (15008), (120008); COMMIT"),
		'', "$name: TRUNCATE");
	is(ask($session, 'INSERT INTO t VALUES (15009), (120009)'), '', "$name: a row more");
	check_index($node, 't_k', "$name: the index is as the table");
	is(ask($session, 'BEGIN; TRUNCATE t; INSERT INTO t VALUES (15010); ROLLBACK; INSERT INTO t VALUES (15011)'),
		'', "$name: TRUNCATE is rolled back");
	sql('INSERT INTO t SELECT i FROM generate_series(1, 5000) i');
	sql('REINDEX INDEX t_k');
	is(ask($session, 'INSERT INTO t VALUES (15012)'), '', "$name: REINDEX");
	close_session($session);
	check_index($node, 't_k', "$name: the index is as the table");
}

# The file gets shorter: remembered leaves are beyond its end.
{
	my $name = 'a shorter file';
	make_table();
	sql('INSERT INTO t SELECT 120000 + i FROM generate_series(1, 60000) i');
	my $session = remembering(undef, 15005, 170005);
	my $blocks = sql("SELECT pg_relation_size('t_k')");

	sql('DELETE FROM t WHERE k > 20000');
	sql('VACUUM t') for 1 .. 3;
	cmp_ok(sql("SELECT pg_relation_size('t_k')"), '<', $blocks, "$name: it is shorter");
	is(ask($session, "INSERT INTO t VALUES ($_)"), '', "$name: key $_") for (15008, 170008);
	close_session($session);
	check_index($node, 't_k', "$name: the index is as the table");
}

# ----------------------------------------------------------------
# The device's copy gets what is written to a remembered leaf: the mark in insert_into_leaf()
# ----------------------------------------------------------------
SKIP:
{
	skip 'harmonia_gpud is not installed', 1 unless has_daemon();
	my $name = 'a copy on the device';
	my $lookup = 'SET harmonia.enable_device = on; SET harmonia.force_device = on; SET enable_seqscan = off;'
	  . ' SET enable_indexscan = off; SET enable_bitmapscan = off; '
	  . ' SELECT count(*) FROM t WHERE k = ANY (ARRAY(SELECT generate_series(15000, 16000)));';
	make_table();
	my $session = remembering(undef, 15005);
	my $reader = open_session($node);
	my $rows = sql('SELECT count(*) FROM t WHERE k BETWEEN 15000 AND 16000');

	is(ask($reader, $lookup), $rows, "$name: before");
	for my $key (15007 .. 15016)
	{
		is(ask($session, "INSERT INTO t VALUES ($key)"), '', "$name: key $key");
		is(ask($reader, $lookup), ++$rows, "$name: it has the row");
	}
	cmp_ok(sql("SELECT sum(device_batches) FROM pg_stat_harmonia"), '>', 5, "$name: it was used");
	close_session($_) for ($session, $reader);
}

$node->stop;
done_testing();
