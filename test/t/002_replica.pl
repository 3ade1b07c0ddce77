# A replica answers right from each of its snapshots while it replays changes, and as a
# primary after its promotion.
use strict;
use warnings;

use Harmonia;
use PostgreSQL::Test::Cluster;
use Test::More;

my $primary = new_node('primary', allows_streaming => 1, conf => "shared_buffers = 16MB\nwal_keep_size = 4GB\n");

make_pairs($primary);
$primary->backup('backup');

# Without feedback, VACUUM's records soon cancel queries.  With it, rows that a replica may need are kept, until it
# says otherwise.
my %standbys;
for my $feedback ('on', 'off')
{
	my $node = PostgreSQL::Test::Cluster->new("standby_$feedback");

	$node->init_from_backup($primary, 'backup', has_streaming => 1);
	$node->append_conf('postgresql.conf', <<END);
hot_standby_feedback = $feedback
wal_receiver_status_interval = 1s
max_standby_streaming_delay = ${\($feedback eq 'on' ? '600s' : '50ms')}
END
	$node->start;
	$standbys{$feedback} = $node;
}

sub plan_of
{
	my ($node, $query) = @_;
	return $node->safe_psql('postgres',
		"SET enable_seqscan = off; SET enable_bitmapscan = off; EXPLAIN (COSTS OFF) $query");
}

like(plan_of($primary, 'SELECT sum(k) FROM pairs WHERE k < 5'),
	qr/Index Only Scan using pairs_k /, 'the primary scans the index alone');
like(plan_of($standbys{on}, 'SELECT sum(k) FROM pairs WHERE k < 5'),
	qr/Index Scan using pairs_k /, 'a replica scans the heap too');
like(plan_of($standbys{on}, 'SELECT k FROM pairs ORDER BY k LIMIT 1'),
	qr/Index Scan using pairs_k /, 'a replica uses the order');

like(plan_of($standbys{on}, 'SELECT sum(id) FROM pairs WHERE k / 1000 = 5 AND id + 0 > 7'),
	qr/Index Scan using pairs_two /, 'a replica scans an index of two columns');

my @time = ('-T', $ENV{HARMONIA_SECONDS} // 8);
my $writers = write_pairs($primary, '-c', 3, @time);
my $queue = come_and_go($primary, '-c', 1, '--max-tries=100', @time);

# No REINDEX CONCURRENTLY: it does not wait for snapshots on a replica.  Older ones there
# miss rows in the new index, with any access method.
my $vacuum = start_pgbench(
	$primary,
	{
		# Meanwhile leaves fill with entries of dead rows.
		'vacuum@20' => "\\sleep 300 ms\nVACUUM pairs;\n",
		'freeze@2' => "VACUUM FREEZE pairs;\n",
		'reindex@1' => "REINDEX INDEX pairs_k;\nREINDEX INDEX pairs_two;\n"
	},
	'-c', 1, @time);
my %readers = map { $_ => read_pairs($standbys{$_}, '-c', 2, @time) } sort keys %standbys;

# Meanwhile, check the whole index again and again.  Such a check may be cancelled.
my @problems;
my $checks = 0;
while ($writers->{run}->pumpable)
{
	for my $node (values %standbys)
	{
		my $problem = index_problem($node, 'pairs_k') . index_problem($node, 'pairs_two');

		$checks++;
		push @problems, $problem
		  if $problem ne '' && $problem !~ /conflict with recovery|recovery is in progress/;
	}
	eval { $writers->{run}->pump_nb };
}
is(join('', @problems), '', 'checks of the whole index');
cmp_ok($checks, '>', 1, "$checks checks");
no_errors($writers, 'writers');
no_errors($queue, 'rows that come and go');
no_errors($vacuum, 'vacuum');

# On a busy machine that may take longer.
my $removals;
for (1 .. 20)
{
	last if ($removals = early_removals($primary)) > 0;
	finish(come_and_go($primary, '-c', 1, '--max-tries=100', '-T', 2));
}
cmp_ok($removals, '>', 0, "entries of dead rows have left early ($removals times)");
no_errors($readers{on}, 'readers, feedback on');
unlike(finish($readers{off}), qr/wrong answer|XX00|unexpected|damage|corrupt/, 'readers, feedback off');

# The file gets shorter while the replicas read it.
%readers = map { $_ => read_pairs($standbys{$_}, '-c', 2, '-T', 600) } sort keys %standbys;
my $size = "SELECT pg_relation_size('pairs_k')";
my $shorter = 0;
for my $round (1 .. 3)
{
	$primary->safe_psql('postgres',
		'INSERT INTO pairs (k, k2) SELECT i, i FROM generate_series(2000000, 2100000) i');
	my $before = $primary->safe_psql('postgres', $size);
	$primary->safe_psql('postgres', 'DELETE FROM pairs WHERE k >= 2000000');

	# A replica's snapshot can keep rows from being removed, and a movement can write to
	# the end of the file.
	for my $try (1 .. 20)
	{
		$primary->safe_psql('postgres', 'VACUUM pairs');
		last if $primary->safe_psql('postgres', $size) < $before * 0.9;
		$primary->safe_psql('postgres', <<'END');
INSERT INTO pairs (k, k2) SELECT 500000, 500000 FROM generate_series(1, 600);
SELECT harmonia_reorganize('pairs_k');
END
		last if $primary->safe_psql('postgres', $size) < $before * 0.9;
	}
	$shorter++ if $primary->safe_psql('postgres', $size) < $before * 0.9;
	$primary->wait_for_catchup($_) for values %standbys;
}
cmp_ok($shorter, '>', 0, 'the file got shorter');
for my $node (sort keys %standbys)
{
	$readers{$node}{run}->signal('TERM');
	unlike(finish($readers{$node}), qr/wrong answer|XX00|unexpected|damage|corrupt|could not read/,
		"readers of a file that gets shorter, feedback $node");
}

my $info = "SELECT i, last_movement IS NOT NULL FROM harmonia_index_info('pairs_k') i";
like($primary->safe_psql('postgres', $info), qr/t$/, 'segments have been moved');
for my $node (values %standbys)
{
	$primary->wait_for_catchup($node);
	is(index_problem($node, 'pairs_k'), '', $node->name . ' has caught up');
	is($node->safe_psql('postgres', $info), $primary->safe_psql('postgres', $info),
		$node->name . ' shows the same numbers');
}

# The primary crashes under load, and the replicas are promoted.
$writers = write_pairs($primary, '-c', 3, '-T', 60);
wait_for_work($primary);
$standbys{off}->poll_query_until('postgres',
	"SELECT pg_last_wal_replay_lsn() > '" . $primary->lsn('insert') . "'");
crash_node($primary);
finish($writers);
for my $node (values %standbys)
{
	$node->promote;
	check_all_indexes($node, $node->name . ' is promoted');
	no_errors(write_pairs($node, '-c', 2, '-t', 100), 'writers on ' . $node->name);
	$node->safe_psql('postgres', 'VACUUM pairs');
	check_all_indexes($node, $node->name . ' has been written to');
	$node->stop;
}
done_testing();
