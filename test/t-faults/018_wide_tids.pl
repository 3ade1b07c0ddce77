# TIDs of 4, 5 and 6 bytes in leaves of all classes: as a table grows, leaves are split, rewritten
# with wider TIDs, emptied and moved.
#
# The library is built with SMALL_LIMITS, so TIDs of heap blocks from 64 on take 5 bytes, and from
# 256 on 6.
use strict;
use warnings;

use Harmonia;
use Test::More;

my $node = new_node('wide_tids', conf => 'shared_buffers = 32MB');

sub sql { return $node->safe_psql('postgres', $_[0]); }

# Some 60 rows a block.
sql(<<'END');
CREATE TABLE t (one int, few int, serial bigint, any8 bigint, filler text DEFAULT repeat('x', 60))
	WITH (autovacuum_enabled = off);
CREATE INDEX t_one ON t USING harmonia (one);
CREATE INDEX t_few ON t USING harmonia (few);
CREATE INDEX t_serial ON t USING harmonia (serial);
CREATE INDEX t_any8 ON t USING harmonia (any8);
END

sub insert
{
	my ($from, $to, $batches) = @_;
	sql(<<"END");
SET harmonia.batch_inserts = $batches;
INSERT INTO t SELECT CASE WHEN i % 50 = 0 THEN NULL ELSE 7 END, i % 3, i, hashint8extended(i, 0)
FROM generate_series($from, $to) i;
END
	return;
}

# The widths of TIDs in leaves, for each index, or those of leaves of one key.
sub widths
{
	my ($condition) = @_;
	return sql(<<"END");
SELECT string_agg(DISTINCT tid_bytes::text, ' ' ORDER BY tid_bytes::text)
FROM unnest('{t_one,t_few,t_serial,t_any8}'::regclass[]) i, harmonia_segments(i) s, harmonia_leaves(i, s.block) l
WHERE $condition
END
}

# Row by row, so that a leaf meets the first TID that is too wide for it; then in batches.
insert(1, 24000, 'off');
is(widths('true'), '4 5 6', 'leaves with TIDs of each width');
is(widths('key_bits = 0'), '4 5 6', 'those of one key, too');
check_all_indexes($node, 'grown row by row');
insert(24001, 36000, 'on');
check_all_indexes($node, 'grown in batches');

# Wide TIDs come between narrow ones, and leave again.
for my $round (1 .. 4)
{
	sql("DELETE FROM t WHERE hashint8(serial) % 4 = $round - 1");
	sql('VACUUM (INDEX_CLEANUP on) t');
	insert(36000 + 3000 * $round, 38999 + 3000 * $round, $round % 2 ? 'off' : 'on');
	sql("UPDATE t SET few = few + 1, serial = serial + 1 WHERE hashint8(serial) % 10 = $round");
	check_all_indexes($node, "round $round");
}
sql("SELECT harmonia_reorganize(i) FROM unnest('{t_one,t_few,t_serial,t_any8}'::regclass[]) i");
check_all_indexes($node, 'moved');

# Built indexes
sql("REINDEX TABLE t");
check_all_indexes($node, 'built');
sql("DELETE FROM t WHERE ctid >= '(60,1)'; VACUUM (INDEX_CLEANUP on, TRUNCATE off) t");
sql("REINDEX TABLE t");
is(widths('true'), '5', 'with room for a table that grows');
insert(60001, 66000, 'off');
check_all_indexes($node, 'after more rows');

# A leaf's TIDs take 4 bytes, but its halves would get 5, with room for a table that grows: the leaf has rows of blocks
# from 52 on.  Many rows with low TIDs, of blocks that became free, must not be more than the halves have slots for.
sql(<<'END');
CREATE TABLE w (k bigint) WITH (autovacuum_enabled = off);
INSERT INTO w SELECT 1000000 + g FROM generate_series(1, 4520) g;
INSERT INTO w SELECT 20 * g FROM generate_series(1, 6780) g;
CREATE INDEX w_k ON w USING harmonia (k) WHERE k < 1000000;
INSERT INTO w SELECT 2000000 + g FROM generate_series(1, 904) g;
INSERT INTO w SELECT 1000 * g + 10 FROM generate_series(1, 20) g;
INSERT INTO w SELECT 3000000 + g FROM generate_series(1, 206) g;
DELETE FROM w WHERE k BETWEEN 1000001 AND 1004520;
VACUUM (INDEX_CLEANUP on) w;
END
is(sql(<<'END'), '4', 'a leaf with narrow TIDs');
SELECT DISTINCT tid_bytes FROM harmonia_segments('w_k') s, harmonia_leaves('w_k', s.block) l WHERE 10010 BETWEEN l.low_key AND l.high_key
END
is(sql('SELECT max(ctid) FROM w WHERE k < 1000000'), '(54,20)', 'and one for which a new leaf has wider ones');
sql('INSERT INTO w SELECT 6 * g + 1 FROM generate_series(1, 3000) g');
is(sql('SELECT min(ctid) < $$(20,0)$$ FROM w WHERE k % 2 = 1 AND k < 1000000'), 't', 'rows in blocks that were free');
check_all_indexes($node, 'many rows with low TIDs');

$node->stop;
done_testing();
