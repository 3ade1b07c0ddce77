# A copy of the root can be older than two movements.  A third movement writes a header to
# the block of an earlier segment's header.  The copy must not lead there.
#
# The library is built with FAULT_POINTS (src/am/fault.h) and SMALL_LIMITS.
use strict;
use warnings;

use Harmonia;
use Test::More;

my $node = new_node('stale_root');
my $header = "SELECT string_agg(block::text, ' ') FROM harmonia_segments('t_k')";

sub sql { return $node->safe_psql('postgres', $_[0]); }

sql(<<'END');
CREATE TABLE t (k int, session int);
INSERT INTO t SELECT i * 10 FROM generate_series(1, 600) i;
CREATE INDEX t_k ON t USING harmonia (k);
END

# Split a leaf, so that there is something to move.
sub shadow { return sql('INSERT INTO t SELECT 3000 FROM generate_series(1, 300)'); }

# For each block that the only segment has had, a session with a copy of the root from
# that time.  Movement alone does not make sessions renew their copy.
my @blocks;
my @sessions;
for my $i (0 .. 5)
{
	if ($i > 0)
	{
		shadow();
		sql("SELECT harmonia_reorganize('t_k')");
	}
	push @blocks, sql($header);
	push @sessions, $node->background_psql('postgres');
	$sessions[$i]->query_safe("SET application_name = 'writer'; INSERT INTO t VALUES (3000, 0)");
}

# Movement stops when the new segment is complete, but not yet in the directory.
my $lock = $node->background_psql('postgres');

$lock->query_safe("SELECT pg_advisory_lock(hashtext('move_complete'))");
shadow();
my $mover = start_psql($node,
	"LOAD 'harmonia'; SET harmonia.fault = 'move_complete:wait'; SELECT harmonia_reorganize('t_k');");
$node->poll_query_until('postgres',
	"SELECT count(*) = 1 FROM pg_stat_activity WHERE application_name = 'work' AND wait_event = 'advisory'")
  or die 'the movement does not wait';

# Writers have to wait for its end.
for my $i (0 .. $#sessions)
{
	$sessions[$i]->query_until(qr//, "INSERT INTO t SELECT 3005, $i + 1 FROM generate_series(1, 10);\n");
}
my $writers = "FROM pg_stat_activity WHERE application_name = 'writer'";
$node->poll_query_until('postgres',
	"SELECT bool_and(query LIKE '%3005%' AND (state = 'idle' OR wait_event_type = 'Extension')) $writers")
  or die 'the writers neither wait nor end';
is(sql("SELECT count(*) $writers AND state = 'active'"), scalar(@sessions), 'writers wait');

$lock->quit;
finish($mover);
$_->quit for @sessions;

my $block = sql($header);
ok(scalar(grep { $_ eq $block } @blocks), "the segment is where an earlier one was: $block of @blocks");
is( sql("SET enable_seqscan = off; SELECT session, count(*) FROM t WHERE k = 3005 GROUP BY 1 ORDER BY 1"),
	join("\n", map { $_ + 1 . '|10' } (0 .. $#sessions)),
	'nothing is lost');
check_all_indexes($node, 'afterwards');

$node->stop;
done_testing();
