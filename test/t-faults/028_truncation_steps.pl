# A truncation goes by steps, and the index is free in between: others insert, and may take blocks that are listed as
# free at the end of the file.  If they do not let go of it, the rest stays listed for the next VACUUM.
#
# The library is built with FAULT_POINTS (src/am/fault.h) and SMALL_LIMITS.
use strict;
use warnings;

use FaultSessions;
use Harmonia;
use Test::More;

my $node = new_node('steps');

sub sql { return $node->safe_psql('postgres', $_[0]); }

sub blocks { return sql("SELECT pg_relation_size('t_k') / 8192"); }

sub free_blocks { return sql("SELECT free_pages FROM harmonia_index_info('t_k')"); }

# Blocks at the end of the file are free, and a transaction has begun to truncate them.
my $truncator = open_session($node);
sub begin_truncation
{
	sql(<<'END');
DROP TABLE IF EXISTS t;
CREATE TABLE t (k int) WITH (autovacuum_enabled = off);
CREATE INDEX t_k ON t USING harmonia (k);
INSERT INTO t SELECT generate_series(1, 60000);
DELETE FROM t WHERE k > 5000;
END
	hold($node, 'truncate_between');
	ask($truncator, "SET harmonia.fault = 'truncate_between:wait:0:2'");
	send_sql($truncator, 'VACUUM (INDEX_CLEANUP on) t');
	stopped_at($node, 'truncate_between');
	my $blocks = blocks();
	release_once($node, 'truncate_between');
	stopped_at($node, 'truncate_between');
	is(blocks(), $blocks - 16, 'one step');
	return;
}

begin_truncation();
my $writer = open_session($node, 'SET lock_timeout = 1000;');
is(ask($writer, 'INSERT INTO t SELECT generate_series(5001, 5500)'), '', 'others insert in between');
check_index($node, 't_k', 'the index in between');
is(ask($writer, 'SELECT count(*) FROM t WHERE k > 0'), '5500', 'others read in between');
# These take blocks after those of the index.
is(ask($writer, 'INSERT INTO t SELECT generate_series(5501, 15000)'), '', 'others take blocks');
release('truncate_between');
is(answer($truncator), '', 'the truncation ends');
check_index($node, 't_k', 'the index after it');
is(sql('SET enable_seqscan = off; SELECT count(*) FROM t WHERE k > 0'), '15000', 'all rows');

begin_truncation();
is(ask($writer, 'BEGIN; INSERT INTO t VALUES (0)'), '', 'another transaction stays');
my ($left, $free) = (blocks(), free_blocks());
release('truncate_between');
is(answer($truncator), '', 'VACUUM ends nevertheless');
is(blocks(), $left, 'the rest of the blocks stay');
is(free_blocks(), $free, 'and are free');
check_index($node, 't_k', 'the index after half a truncation');
is(ask($writer, 'COMMIT'), '', 'the other transaction ends');
sql("SET harmonia.fault = ''; VACUUM (INDEX_CLEANUP on) t");
cmp_ok(blocks(), '<', $left - 16, 'the next VACUUM truncates the rest, by several steps');
check_index($node, 't_k', 'the index in the end');

close_session($_) for ($truncator, $writer);
$node->stop;
done_testing();
