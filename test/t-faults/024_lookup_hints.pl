# A lookup gives hints for entries of rows that it has found dead some time before.  Meanwhile VACUUM may free
# their line pointers, and a new row with the same key may get one of them, and an equal entry.
#
# The cases fail if the lookup believes what the table has said before, if it does not keep the leaf pinned from
# before it asks again, if VACUUM does not wait for pins on leaves of segments that have been replaced, or if an
# entry of a btree is marked in the place of one that has moved.
#
# The library is built with FAULT_POINTS (src/am/fault.h) and SMALL_LIMITS.
use strict;
use warnings;

use FaultSessions;
use Harmonia;
use Test::More;

my $node = new_node('hints', conf => "shared_buffers = 32MB\nharmonia.background_movement = off\n");

sub sql { return $node->safe_psql('postgres', $_[0]); }

my %queries = (
	points => 'SELECT count(v) FROM t WHERE k = ANY (ARRAY(SELECT generate_series(1, 4000)))',
	ranges => 'SELECT count(v) FROM t WHERE k BETWEEN 1 AND 3000 OR k BETWEEN 3001 AND 4000',
	join => 'SELECT count(v) FROM (SELECT k FROM generate_series(1, 4000) k OFFSET 0) s JOIN t USING (k)');
my $settings = 'SET enable_indexscan = off; SET enable_bitmapscan = off; SET enable_hashjoin = off;'
  . ' SET enable_mergejoin = off; SET enable_nestloop = off;';
my $plain = 'SET enable_seqscan = off; SET enable_bitmapscan = off; SET harmonia.enable_lookup_scan = off;';

sub make_table
{
	my ($method, $persistence) = @_;

	sql(<<"END");
SET client_min_messages = warning;
DROP TABLE IF EXISTS t;
CREATE $persistence TABLE t (k int, v int) WITH (autovacuum_enabled = off);
INSERT INTO t SELECT i, 0 FROM generate_series(1, 4000) i;
CREATE INDEX t_k ON t USING $method (k) WITH (fillfactor = 100);
INSERT INTO t SELECT i, 0 FROM generate_series(1, 4000) i;
ANALYZE t;
DELETE FROM t WHERE k % 3 = 0;
END
	return;
}

for my $case (
	[ harmonia => hint_begun => '', 'ends' ],
	[ harmonia => hint_leaf_read => '', 'waits' ],
	[ harmonia => hint_rows_asked => '', 'waits' ],
	[ harmonia => hint_rows_asked => 'moved', 'waits' ],
	[ btree => hint_begun => '', 'ends' ],
	[ btree => hint_leaf_read => '', 'waits' ],
	[ btree => hint_rows_asked => '', 'waits' ])
{
	my ($method, $point, $moved, $vacuum) = @$case;

	for my $persistence ('', 'UNLOGGED')
	{
		for my $query (sort keys %queries)
		{
			my $name = join ', ', grep { $_ ne '' } $method, $point, $moved, $persistence, $query;

			make_table($method, $persistence);
			my $reader = open_session($node, $settings);
			like(ask($reader, "EXPLAIN $queries{$query}"), qr/HarmoniaLookup/, "$name: a lookup");
			ask($reader, "SET harmonia.fault = '$point:wait'");
			hold($node, $point);
			send_sql($reader, $queries{$query});
			stopped_at($node, $point);
			cmp_ok(sql("SELECT harmonia_reorganize('t_k')"), '>', 0, "$name: segments are moved") if $moved;

			# If VACUUM ends, new rows get the line pointers of those that are gone.
			my $other = open_session($node);
			send_sql($other, 'VACUUM (INDEX_CLEANUP on, TRUNCATE off) t');
			wait_until($node, "SELECT FROM pg_stat_activity WHERE pid = $other->{pid}"
				  . " AND (state = 'idle' OR wait_event_type = 'BufferPin')") || die 'VACUUM neither ends nor waits';
			is(sql("SELECT CASE state WHEN 'idle' THEN 'ends' ELSE 'waits' END FROM pg_stat_activity WHERE pid = $other->{pid}"),
				$vacuum, "$name: VACUUM $vacuum");
			sql('INSERT INTO t SELECT 3 * i, 1 FROM generate_series(1, 1300) i');
			release($point);
			is(answer($reader), 5334, "$name: the reader's rows");
			answer($other);
			is(sql("$plain SELECT count(*) FROM t WHERE k > 0 AND v >= 0"),
				sql('SET enable_indexscan = off; SET enable_bitmapscan = off; SELECT count(*) FROM t'),
				"$name: no hint hides a row");
			close_session($reader);
			close_session($other);
		}
	}
}

$node->stop;
done_testing();
