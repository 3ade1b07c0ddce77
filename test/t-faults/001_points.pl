# An error or a crash at any step of a change leaves the index whole.  It answers like a
# btree, can be written to and vacuumed, and lost blocks are found again.
#
# The library is built with FAULT_POINTS (src/am/fault.h) and SMALL_LIMITS.
# POINTS='^move' limits the test to points whose names match.
use strict;
use warnings;

use Harmonia;
use HarmoniaDevice;
use PostgreSQL::Test::Utils;
use Test::More;

# An empty pattern would be the last one that matched.
my $only = $ENV{POINTS} // '.';

# ----------------------------------------------------------------
# Loads: how table t is prepared, and the statement that has to fail
# ----------------------------------------------------------------

# Ascending keys make more segments than the metapage or a directory page can list.
my $ascending = 'INSERT INTO t SELECT i, i FROM generate_series(30000, 97000) i;';

# Many keys between others: leaves are split, bottom nodes shadowed and segments moved.
my $dense = 'INSERT INTO t SELECT x, x FROM'
  . ' (SELECT 3000 + i * 7919 % 1000 x FROM generate_series(1, 16000) i) s;';

my %loads = (
	ascending => { load => $ascending },
	dense => { load => $dense },
	one_by_one => { load => "SET harmonia.batch_inserts = off; $dense" },
	# A few keys for each of many leaves.
	sparse => {
		load => 'INSERT INTO t SELECT x, x FROM'
		  . ' (SELECT 1 + i * 7 x FROM generate_series(1, 1700) i) s;'
	},
	# The first NULL.
	null => { load => 'INSERT INTO t SELECT NULL FROM generate_series(1, 10) i;' },
	# Rows are dead when their leaves are full.
	dead => {
		prepare => "$dense DELETE FROM t WHERE k BETWEEN 3000 AND 4000;",
		load => $dense
	},
	# Some segments are sparse, and some have been retired since the last VACUUM.
	vacuum => {
		prepare => "$dense DELETE FROM t WHERE k % 10 <> 0;",
		load => 'VACUUM (INDEX_CLEANUP on) t;'
	},
	# Blocks at the end of the file become free.
	truncate => {
		prepare => 'INSERT INTO t SELECT i, i FROM generate_series(30000, 37000) i;'
		  . ' DELETE FROM t WHERE k > 9000;',
		load => 'VACUUM (INDEX_CLEANUP on) t;'
	},
	reorganize => { load => "SELECT harmonia_reorganize('t_k');" },
	build => { load => 'REINDEX INDEX t_k;' },
	lookup => {
		load => 'SET enable_seqscan = off; SET enable_indexscan = off; SET enable_bitmapscan = off;'
		  . ' SELECT count(k) FROM t WHERE k = ANY (ARRAY(SELECT generate_series(1, 9000)));'
	},
	shared_rows => {
		load => 'SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_nestloop = off; SET min_parallel_table_scan_size = 0;'
		  . ' SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SELECT count(*) FROM t a JOIN t b ON b.k = a.k;'
	},
	# A lookup finds dead rows.
	hints => {
		prepare => "DELETE FROM t WHERE k % 5 = 0;",
		load => 'SET enable_seqscan = off; SET enable_indexscan = off; SET enable_bitmapscan = off;'
		  . ' SELECT count(c) FROM t WHERE k = ANY (ARRAY(SELECT generate_series(1, 9000)));'
	},
	btree_lookup => {
		load => 'SET enable_seqscan = off; SET enable_indexscan = off; SET enable_bitmapscan = off;'
		  . ' SELECT count(c) FROM t WHERE k2 BETWEEN 1 AND 6000 OR k2 BETWEEN 6001 AND 9000;'
	},
	device => {
		prepare => $dense,
		load => 'SET harmonia.force_device = on; SET enable_seqscan = off; SET enable_indexscan = off; SET enable_bitmapscan = off;'
		  . ' SELECT count(k) FROM t WHERE k = ANY (ARRAY(SELECT generate_series(1, 9000)));'
	},
	scan => { load => 'SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT count(k) FROM t WHERE k < 5000;' },
	# A movement repairs what a failed one has left.
	after_move => {
		prepare => "SET harmonia.fault = 'move_complete:error'; $dense",
		load => $dense
	});

# Each point and the load that reaches it.  "lost": a fault there must lose at least one
# block.  "crash": an error there is a crash.
my @points = (
	[ insert_leaf_known => 'sparse' ],
	[ insert_leaf_found => 'sparse' ],
	[ insert_changed => 'sparse', crash => 1 ],
	[ insert_logged => 'sparse', crash => 1 ],
	[ insert_merging => 'dense' ],
	[ insert_merged => 'dense' ],
	[ insert_leaf_full => 'dense' ],
	[ split_planned => 'one_by_one' ],
	[ split_blank_changed => 'dense', crash => 1 ],
	[ split_blank_logged => 'dense', crash => 1 ],
	[ split_in_order_changed => 'ascending' ],
	[ split_in_order_logged => 'ascending' ],
	[ split_shadow_changed => 'dense' ],
	[ split_shadow_logged => 'dense' ],
	[ dead_found => 'dead' ],
	[ dead_conflict_logged => 'dead' ],
	[ remove_changed => 'dead', crash => 1 ],
	[ remove_logged => 'vacuum', crash => 1 ],
	[ hint_begun => 'hints' ],
	[ hint_leaf_read => 'hints' ],
	[ hint_rows_asked => 'hints' ],
	[ hint_noted => 'hints' ],
	[ spare_allocated => 'dense', lost => 1 ],
	[ spare_changed => 'dense', lost => 1 ],
	[ spare_logged => 'dense' ],
	[ last_segment_allocated => 'ascending', lost => 1 ],
	[ first_segment_written => 'null', lost => 1 ],
	[ first_segment_changed => 'null', lost => 1 ],
	[ first_segment_logged => 'null' ],
	[ append_written => 'ascending', lost => 1 ],
	[ append_changed => 'ascending', lost => 1 ],
	[ append_logged => 'ascending' ],
	[ move_locked => 'dense' ],
	[ move_read => 'dense' ],
	[ move_allocated => 'dense', lost => 1 ],
	[ move_written => 'dense', lost => 1 ],
	[ move_copied => 'dense', lost => 1 ],
	[ move_following => 'dense', lost => 1 ],
	[ move_leaf_checked => 'dense', lost => 1 ],
	[ move_followed => 'dense', lost => 1 ],
	[ move_flagging => 'vacuum', lost => 1 ],
	[ move_flagged => 'dense', lost => 1 ],
	[ move_complete => 'dense', lost => 1 ],
	[ move_flip_marked => 'dense', lost => 1 ],
	[ move_flip_changed => 'dense', lost => 1 ],
	[ move_flip_logged => 'dense', lost => 1 ],
	[ move_flipped => 'vacuum', lost => 1 ],
	[ move_freed => 'dense' ],
	[ move_flag_removed => 'after_move' ],
	[ segment_page_begun => 'dense', lost => 1 ],
	[ segment_page_changed => 'dense', crash => 1, lost => 1 ],
	[ segment_page_blank => 'dense', crash => 1, lost => 1 ],
	[ segment_page_logged => 'dense', crash => 1, lost => 1 ],
	[ directory_root_searched => 'ascending' ],
	[ directory_allocated => 'ascending', lost => 1 ],
	[ directory_deepen_changed => 'ascending', lost => 1 ],
	[ directory_deepen_logged => 'ascending' ],
	[ directory_split_changed => 'ascending', lost => 1 ],
	[ directory_split_logged => 'ascending' ],
	[ extent_take_changed => 'vacuum' ],
	[ extent_take_logged => 'vacuum', lost => 1 ],
	[ extent_extend_begun => 'dense' ],
	[ extent_extended => 'dense', lost => 1 ],
	[ extent_extend_logged => 'dense', lost => 1 ],
	[ extent_free_changed => 'dense', lost => 1 ],
	[ extent_free_logged => 'dense' ],
	[ candidate_read => 'reorganize' ],
	[ sweep_entered => 'vacuum' ],
	[ sweep_changed => 'vacuum' ],
	[ sweep_logged => 'vacuum' ],
	[ truncate_locked => 'truncate' ],
	[ truncate_changed => 'truncate' ],
	[ truncate_logged => 'truncate', lost => 1 ],
	[ truncate_done => 'truncate' ],
	[ truncate_between => 'truncate' ],
	[ build_begun => 'build' ],
	[ build_pages_extended => 'build' ],
	[ build_segment_written => 'build' ],
	[ build_pages_written => 'build' ],
	[ build_metapage_changed => 'build' ],
	[ build_metapage_logged => 'build' ],
	[ build_done => 'build' ],
	[ vacuum_leaf_cleaned => 'vacuum' ],
	[ vacuum_walked => 'vacuum' ],
	[ vacuum_others_drained => 'vacuum' ],
	[ vacuum_drained_logged => 'vacuum' ],
	[ vacuum_reorganized => 'vacuum' ],
	[ vacuum_compacted => 'vacuum' ],
	[ batch_begun => 'dense' ],
	[ batch_leaf_done => 'dense' ],
	[ batch_inserted => 'dense' ],
	[ batch_emptied => 'dense' ],
	[ scan_descended => 'scan' ],
	[ scan_leaf_read => 'scan' ],
	[ scan_leaf_left => 'scan' ],
	[ shared_rows_read => 'shared_rows' ],
	[ shared_rows_dividing => 'shared_rows' ],
	[ shared_rows_copying => 'shared_rows' ],
	[ lookup_planned => 'lookup' ],
	[ lookup_going_right => 'btree_lookup' ],
	[ visibility_gate_entered => 'lookup' ],
	[ lookup_read => 'lookup' ],
	[ lookup_portion => 'lookup' ],
	[ lookup_prepared => 'lookup' ]);
my @device_points = ((map { [ $_ => 'device' ] } qw(sync_granted sync_begun sync_listed sync_copied remote_synced remote_map_read remote_searched)),
	[ sync_page_pinned => 'resident' ]);

# The same with a copy on the device, of an index that has changed little since.
$loads{resident} = {
	prepare => "$dense SELECT harmonia_load('t_k'); INSERT INTO t VALUES (3001, 3001);",
	load => $loads{device}{load}
};

my $node = new_node('points', conf => (has_daemon() ? device_settings() : '') . <<'END');
restart_after_crash = on
wal_consistency_checking = generic
harmonia.force_device = off
harmonia.background_movement = off
END

# Both indexes return the same rows and keys in the same order, as far as they have one: forward, backward and in
# ranges.  An index of two columns needs a condition.
$node->safe_psql('postgres', <<'END');
CREATE FUNCTION same_as_btree(condition text) RETURNS void LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off AS $$
DECLARE
	query text;
BEGIN
	FOREACH query IN ARRAY ARRAY[
		'SELECT %1$I k, ctid FROM t WHERE ' || condition || ' ORDER BY %1$I',
		'SELECT %1$I k, ctid FROM t WHERE ' || condition || ' ORDER BY %1$I DESC',
		'SELECT %1$I k, ctid FROM t WHERE %1$I BETWEEN 3100 AND 3600 ORDER BY %1$I',
		'SELECT %1$I k, NULL ctid FROM t WHERE %1$I < 5000 ORDER BY %1$I'] LOOP
		query := 'SELECT (count(*), md5(string_agg(k::text, '' '')), sum(hashtext(concat(k, ctid))))::text'
			' FROM (' || query || ') s';
		PERFORM check_index.compare(query,
			check_index.result(format(query, 'k2'), 'using t_k2'),
			check_index.result(format(query, 'k'), 'using t_k '));
	END LOOP;
END $$;
END

# Try one fault, in an index on these columns; returns what is wrong afterwards, or ''.
sub try_point
{
	my ($columns, $point, $action, $load, %expected) = @_;
	my $condition = $columns eq 'k' ? 'true' : '%1$I IS NOT NULL';

	$node->safe_psql('postgres', <<"END");
SET client_min_messages = warning;
DROP TABLE IF EXISTS t;
CREATE TABLE t (k int, k2 int, c bigint DEFAULT 1);
INSERT INTO t SELECT 6 * i, 6 * i FROM generate_series(1, 2100) i;
CREATE INDEX t_k ON t USING harmonia ($columns) WITH (fillfactor = 10);
CREATE INDEX t_k2 ON t (k2);
CHECKPOINT;
END
	my ($result, $out, $err) = $node->psql('postgres',
		"LOAD 'harmonia'; " . ($load->{prepare} // ''), on_error_stop => 0);
	my $log_offset = -s $node->logfile;

	($result, $out, $err) = $node->psql('postgres',
		"LOAD 'harmonia'; SET harmonia.fault = '$point:$action'; $load->{load}", on_error_stop => 0);
	return "not reached: $err" if $err !~ /fault point "$point"/;
	if ($action eq 'panic' || $expected{crash})
	{
		return "no crash: $err" if $err !~ /PANIC/;
		wait_for_restart($node, $log_offset);
	}

	if ($load == $loads{device} || $load == $loads{resident})
	{
		# A half-made copy is made again.
		wait_for_device($node);
		my $wanted = $node->safe_psql('postgres', 'SELECT count(k), sum(k) FROM t WHERE k <= 9000');
		my $got = $node->safe_psql('postgres', $load->{load} =~ s/count\(k\)/count(k), sum(k)/r);
		return "the device found $got, not $wanted" if $got ne $wanted;
		my $plan = $node->safe_psql('postgres',
			$load->{load} =~ s/(?=SELECT count)/EXPLAIN (ANALYZE, TIMING off) /r);
		return "not found on the device: $plan" if $plan !~ /Device: GPU.*Fallbacks: 0 /s;
	}
	($result, $out, $err) = $node->psql('postgres', <<"END");
SELECT harmonia_check('t_k', true);
SELECT same_as_btree('$condition');
SELECT 'lost', lost_pages FROM harmonia_index_info('t_k');
DELETE FROM t WHERE k % 4 = 0;
INSERT INTO t SELECT x, x FROM (SELECT i * 13 % 20000 x FROM generate_series(1, 3000) i) s;
INSERT INTO t SELECT i, i FROM generate_series(99001, 99500) i;
SET harmonia.batch_inserts = off;
INSERT INTO t SELECT x, x FROM (SELECT 3000 + i % 37 x FROM generate_series(1, 1000) i) s;
UPDATE t SET k = k + 1, k2 = k2 + 1 WHERE k > 18000;
VACUUM (INDEX_CLEANUP on) t;
SELECT harmonia_check('t_k', true);
SELECT same_as_btree('$condition');
VACUUM t;		-- the first one moved segments after its search for lost blocks
VACUUM t;
SELECT 'unreachable', lost_pages FROM harmonia_index_info('t_k')
WHERE lost_pages > 20;	-- the list holds only the 5 longest extents
END
	return $err if $result != 0;
	return 'lost nothing' if $expected{lost} && $out =~ /^lost\|0$/m;
	return "still lost: $out" if $out =~ /^unreachable\|[^0]/m;
	return '';
}

my %listed = map { $_->[0] => 1 } @points, @device_points;
my $all = $node->safe_psql('postgres', "LOAD 'harmonia'; SHOW harmonia.fault_points");
is(join(' ', sort keys %listed), join(' ', sort split ' ', $all), 'all points are tried');

for my $entry (@points, has_daemon() ? @device_points : ())
{
	my ($point, $load, %expected) = @$entry;

	for my $action ('error', 'panic')
	{
		next if ($expected{crash} && $action eq 'error') || $point !~ $only;
		wait_for_device($node) if $load =~ /device|resident/;
		is(try_point('k', $point, $action, $loads{$load}, %expected), '', "$point: $action");
	}
	# An index on an integer and a bigint has keys of 128 bits, and no NULL part.
	is(try_point('k, c', $point, 'panic', $loads{$load}, %expected), '', "$point: panic, keys of 128 bits")
	  if $load =~ /^(?:ascending|dense|one_by_one|sparse|dead|hints|vacuum|truncate|build|after_move)$/ && $point =~ $only;
}

$node->stop;
done_testing();
