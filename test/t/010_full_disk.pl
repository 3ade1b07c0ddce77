# The disk is full: what could not be written must not be needed by recovery.
#
# The server runs with a limit for the size of files, which it takes for a full disk.  Each case
# fills an index until it meets the limit, in the last block that a step writes, and crashes:
# under the same limit the server must start again.
use strict;
use warnings;

use Harmonia;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

plan skip_all => 'prlimit is not installed' if system('prlimit --version >/dev/null 2>&1') != 0;

# WAL, too, is in files, and so are the table and all else: the index is the largest.
my $node = new_node('full', extra => [ '--wal-segsize=1' ], conf => "shared_buffers = 8MB\nmin_wal_size = 2MB\nwal_level = replica\n");
$node->stop;

# Start, with a limit in bytes for what the server writes, or without one.
sub start_limited
{
	my ($limit) = @_;

	system_or_bail('prlimit', "--pid=$$", "--fsize=$limit:unlimited");
	my $started = $node->start(fail_ok => 1);
	system_or_bail('prlimit', "--pid=$$", '--fsize=unlimited:unlimited');
	return $started;
}

sub sql { return $node->safe_psql('postgres', $_[0]); }
my $size = "SELECT pg_relation_size('t_k')";

# What is done before, and what makes the index longer.
my $index = 'CREATE INDEX t_k ON t USING harmonia (k) WITH (fillfactor = 10)';
my %cases = (
	move => [ "$index; ALTER INDEX t_k SET (fillfactor = 90)", "SELECT harmonia_reorganize('t_k')" ],
	insert => [ $index, 'INSERT INTO t SELECT i % 1000 FROM generate_series(1, 30000) i' ],
	append => [ $index, 'INSERT INTO t SELECT 3000000000 + i FROM generate_series(1, 30000) i' ],
	build => [ '', $index ]);

$node->start;
for my $name (sort keys %cases)
{
	my ($before, $load) = @{ $cases{$name} };
	my $prepare = "DROP TABLE IF EXISTS t; CREATE TABLE t (k bigint);"
	  . " INSERT INTO t SELECT hashint4(i) FROM generate_series(1, 50000) i; $before";

	# How far does it come with room enough?
	sql($prepare);
	my $blocks = $name eq 'build' ? 0 : sql($size) / 8192;
	sql($load);

	# A movement makes the file longer by more than that, before it makes it shorter.
	$blocks = $name eq 'move' ? $blocks + 30 : sql($size) / 8192;

	for my $missing (1, 30)
	{
		sql($prepare);
		sql('CHECKPOINT');
		$node->stop;
		start_limited(($blocks - $missing) * 8192) or BAIL_OUT('no start');
		my ($result, $out, $err) = $node->psql('postgres', $load);
		like($err, qr/could not extend file/, "$name: the disk is full, $missing blocks too early");

		# This commit writes out what was logged before.
		sql('DROP TABLE IF EXISTS flushed; CREATE TABLE flushed ()');
		crash_node($node);
		ok(start_limited(($blocks - $missing) * 8192), "$name: the server starts again");
		BAIL_OUT('no start') unless $node->{_pid};
		$node->stop;

		$node->start;
		sql($name eq 'build' ? $index : $load);
		check_index($node, 't_k', "$name: with room again the index is as the table");
		sql('VACUUM t');
		is(sql("SELECT lost_pages FROM harmonia_index_info('t_k')"), '0', "$name: no block is lost");
	}
}
$node->stop;
done_testing();
