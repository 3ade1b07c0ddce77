# A re-sync of a device's copy sends what is new in the list of leaves, and looks only where marks may be.
# Whatever happens to leaves before or during a re-sync, the device finds all rows afterwards: in an index with
# keys of 32 bits, and in one on two columns, with keys of 128 bits, in which a key is a range.
#
# The library is built with FAULT_POINTS (src/am/fault.h) and SMALL_LIMITS: segments have a few leaves.
use strict;
use warnings;

use FaultSessions;
use Harmonia;
use HarmoniaDevice;
use Test::More;

my $node = new_device_node('device_leaves', conf => "autovacuum = off\n");
my $count = 20000;
my $lookups = 'SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_indexscan = off; SET enable_indexonlyscan = off';
my $what = 'SELECT count(*), sum(k::bigint), count(DISTINCT k) FROM t WHERE';
my $query = "$what k = ANY (ARRAY(SELECT generate_series(0, 400000)))";
my %types = ('k' => 'int', 'k, w' => 'bigint');
my $columns;

sub sql { return $node->safe_psql('postgres', $_[0]); }

# Keys 10, 20, 30 ... on leaves that are as full as this, and a copy of the index.
sub make_table
{
	my ($fillfactor) = @_;

	$fillfactor //= 95;
	sql(<<"END");
SET client_min_messages = warning;
DROP TABLE IF EXISTS t;
CREATE TABLE t (k $types{$columns}, w boolean DEFAULT true) WITH (autovacuum_enabled = off);
INSERT INTO t SELECT 10 * i FROM generate_series(1, $count) i;
CREATE INDEX t_k ON t USING harmonia ($columns) WITH (fillfactor = $fillfactor);
SELECT harmonia_load('t_k');
SELECT harmonia_stat_reset('t_k');
END
	return;
}

# Single rows, so that leaves are split one by one.
sub insert_rows
{
	my ($from, $step, $rows) = @_;

	return "DO \$\$ BEGIN FOR i IN 1 .. $rows LOOP INSERT INTO t VALUES ($from + $step * i); END LOOP; END \$\$";
}

sub structure { return sql("SELECT leaf_pages || ' ' || movements FROM harmonia_index_info('t_k')"); }
sub answer_of_table { return sql("SET enable_indexscan = off; SET enable_bitmapscan = off; $what k + 0 BETWEEN 0 AND 400000"); }

# The device finds what is in the table, and its copy was not made again.
sub check_copy
{
	my ($name) = @_;
	my $loads = stat_of($node, 't_k', 'loads');
	my $batches = stat_of($node, 't_k', 'device_batches');

	is(sql("$lookups; $query"), answer_of_table(), "($columns), $name: the device finds all rows");
	is(stat_of($node, 't_k', "loads = $loads AND device_batches > $batches"), 't', "($columns), $name: in the same copy");
	return;
}

# Between re-syncs
my @steps = (
	[ 'a split in the middle', insert_rows(101000, 1, 1500) ],
	[ 'splits of the first leaf', insert_rows(0, 1, 3000) ],
	[ 'splits at the end', insert_rows(200000, 5, 1500) ],
	[ 'new segments at the end', insert_rows(210000, 3, 15000) ],
	[ 'splits everywhere', insert_rows(0, 61, 5000) ],
	[ 'equal keys', insert_rows(77777, 0, 6000) ],
	[ 'a batch that writes leaves again', 'INSERT INTO t SELECT 9 + i * 20 FROM generate_series(1, 10000) i' ],
	[ 'rows with NULL', 'INSERT INTO t SELECT NULL FROM generate_series(1, 3000)' ],
	[ 'movement', "SELECT harmonia_reorganize('t_k')" ],
	[ 'splits after movement', insert_rows(3, 97, 3500) ],
	[ 'deletion', 'DELETE FROM t WHERE k % 7 <> 0' ],
	[ 'VACUUM', 'VACUUM t' ],
	[ 'blocks that are used again', insert_rows(50000, 2, 5000) ],
	[ 'another movement', "SELECT harmonia_reorganize('t_k')" ],
	[ 'a movement without changes', "SELECT harmonia_reorganize('t_k')" ]);
sub check_between
{
	make_table();
	for my $step (@steps)
	{
		my $structure = structure();

		sql($step->[1]);
		isnt(structure(), $structure, "$step->[0]: other leaves") unless $step->[0] =~ /deletion|without changes/;
		check_copy($step->[0]);
	}

	# Two movements, and a cut of the file, between two re-syncs.
	sql("DELETE FROM t WHERE k > 20000; VACUUM t; " . insert_rows(90000, 7, 3000) . "; SELECT harmonia_reorganize('t_k'); VACUUM t; VACUUM t");
	check_copy('a shorter file');
	sql(insert_rows(0, 31, 8000));
	check_copy('a longer file');
	is(index_problem($node, 't_k'), '', 'the index is in order');

	# The list itself is not sent.
	make_table();
	sql(insert_rows(101000, 1, 300));
	check_copy('few changes');
	cmp_ok(stat_of($node, 't_k', 'bytes_to_device'), '<', $columns eq 'k' ? 5_000_000 : 13_200_000, 'few bytes are sent');
	return;
}

# During a re-sync
my @changes = (
	[ 'splits', insert_rows(2, 65, 3000) ],
	[ 'appends', insert_rows(200001, 3, 9000) ],
	[ 'movement', insert_rows(2, 65, 3000) . "; SELECT harmonia_reorganize('t_k')" ]);
sub check_during
{
	for my $point ('sync_listed', 'sync_copied', $columns eq 'k' ? ('sync_begun', 'sync_page_pinned') : ())
	{
		for my $change (@changes)
		{
			my $name = "$change->[0] at $point";
			make_table();
			sql(insert_rows(101000, 1, 1500));
			my $before = answer_of_table();
			my $reader = open_session($node, $lookups);

			hold($node, $point);
			ask($reader, "SET harmonia.fault = '$point:wait'");
			send_sql($reader, $query);
			stopped_at($node, $point);
			my $structure = structure();
			sql($change->[1]);
			isnt(structure(), $structure, "$name: other leaves");
			release($point);
			is(answer($reader), $before, "$name: the rows of the snapshot");
			close_session($reader);
			check_copy($name);
		}
	}
	return;
}

# A mover has written its new segments, but nothing leads to them yet.
sub check_mover
{
	my $name = 'a movement in the middle';
	make_table();
	sql(insert_rows(2, 65, 3000));
	my $mover = open_session($node);

	hold($node, 'move_copied');
	ask($mover, "SET harmonia.fault = 'move_copied:wait'");
	send_sql($mover, "SELECT harmonia_reorganize('t_k')");
	stopped_at($node, 'move_copied');
	check_copy($name);
	release('move_copied');
	like(answer($mover), qr/^\d+$/, "$name: it ends");
	check_copy("$name, at its end");
	close_session($mover);
	return;
}

for ('k', 'k, w')
{
	$columns = $_;
	check_between();
	check_during();
	check_mover();
}

# ----------------------------------------------------------------
# The summary of marks: a re-sync clears a group's bit before it reads the group's words
# ----------------------------------------------------------------
{
	my $name = 'a mark behind the walk';
	$columns = 'k';
	make_table(50);
	my $blocks = sql("SELECT pg_relation_size('t_k') / 8192");
	my $reader = open_session($node, $lookups);

	# All blocks are of one group.  Many leaves are marked, so that the walk is in the middle of them
	# when it takes the first one.
	cmp_ok($blocks, '<', 64, "$name: $blocks blocks");
	cmp_ok($blocks, '>', 30, "$name: $blocks blocks");
	sql('INSERT INTO t SELECT 40001 + 2000 * i FROM generate_series(0, 79) i');
	hold($node, 'sync_page_pinned');
	ask($reader, "SET harmonia.fault = 'sync_page_pinned:wait'");
	send_sql($reader, $query);
	stopped_at($node, 'sync_page_pinned');
	sql('INSERT INTO t VALUES (5)');
	release('sync_page_pinned');
	answer($reader);
	close_session($reader);
	cmp_ok(stat_of($node, 't_k', 'synced_blocks'), '>', 10, "$name: many blocks were marked");
	check_copy($name);
}

$node->stop;
done_testing();
