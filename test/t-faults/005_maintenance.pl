# VACUUM leaves no file that is mostly free, however many gaps there are, and no work that
# the next VACUUM does again in vain.
#
# The library is built with SMALL_LIMITS.
use strict;
use warnings;

use Harmonia;
use Test::More;

my $node = new_node('maintenance', conf => 'shared_buffers = 32MB');

sub sql { return $node->safe_psql('postgres', $_[0]); }

# ----------------------------------------------------------------
# More gaps than fit in the list of free extents
# ----------------------------------------------------------------
sql(<<'END');
CREATE TABLE t (k int) WITH (autovacuum_enabled = off);
CREATE INDEX t_k ON t USING harmonia (k);
INSERT INTO t SELECT hashint4(i) % 1000000 FROM generate_series(1, 100000) i;
END
for my $round (1 .. 6)
{
	# Some segments grow, then all shrink.
	sql("INSERT INTO t SELECT hashint4(i % 7 + $round) % 1000000 + i % 2000 FROM generate_series(1, 40000) i");
	sql("DELETE FROM t WHERE hashint4(k + $round) % 10 > 3");
	sql('VACUUM (INDEX_CLEANUP on) t');
	my ($pages, $free) = split /\|/, sql(<<'END');
SELECT pages, free_pages + lost_pages FROM harmonia_index_info('t_k')
END
	cmp_ok($free, '<=', $pages / 2, "round $round: half of the file is in use");
	is(sql("SELECT harmonia_check('t_k', true)"), '', "round $round: the index is whole");
}
sql('DROP TABLE t');

# ----------------------------------------------------------------
# A fifth of the table gets other keys between one VACUUM and the next
#
# If movement packed the leaves, they would be split at once and moved again.
# ----------------------------------------------------------------
sql(<<'END');
CREATE TABLE t (k int, i int) WITH (autovacuum_enabled = off);
INSERT INTO t SELECT hashint4(i), i FROM generate_series(1, 20000) i;
CREATE INDEX t_k ON t USING harmonia (k);
END
my @movements;
for my $round (1 .. 12)
{
	sql("UPDATE t SET k = hashint4(i + 100000 * $round) WHERE i % 5 = $round % 5");
	sql('VACUUM (INDEX_CLEANUP on) t');
	push @movements, sql("SELECT movements FROM harmonia_index_info('t_k')");
}
cmp_ok($movements[-1] - $movements[5], '<=', 2, 'movement comes to rest');
is(sql("SELECT harmonia_check('t_k', true)"), '', 'the index is whole');
sql('DROP TABLE t');

# ----------------------------------------------------------------
# Small neighbours on two directory pages are not joined
# ----------------------------------------------------------------
sql(<<'END');
CREATE TABLE t (k int) WITH (autovacuum_enabled = off);
CREATE INDEX t_k ON t USING harmonia (k) WITH (fillfactor = 10);
INSERT INTO t SELECT i FROM generate_series(1, 77000) i;
END
my ($pages, $entries) = split /\|/, sql(<<'END');
SELECT count(*), (array_agg(p.count ORDER BY b))[1] FROM generate_series(0, pg_relation_size('t_k') / 8192 - 1) b, harmonia_page('t_k', b) p
WHERE kind = 'directory'
END
is($pages, 2, 'two directory pages');
is(sql("SELECT lost_pages FROM harmonia_index_info('t_k')"), 0, 'which took no block that they do not use');

# Delete most of the last segment on the first page, and of the first segment on the second page, which was
# written later.
my ($low, $high) = split /\|/, sql(<<"END");
SELECT min(low_key) - 2147483648, max(high_key) - 2147483648
FROM harmonia_segments('t_k') WHERE segment IN ($entries - 1, $entries)
END
sql("DELETE FROM t WHERE k >= $low AND k < $high AND k % 100 <> 0");
sql('VACUUM (INDEX_CLEANUP on) t');
is(sql(<<"END"), "$low|1|1", 'small neighbours');
SELECT min(low_key) - 2147483648, min(leaves), max(leaves)
FROM harmonia_segments('t_k') WHERE segment IN ($entries - 1, $entries)
END
my $stamp = sql("SELECT next_stamp FROM harmonia_metapage('t_k')");
for my $round (1 .. 3)
{
	sql("DELETE FROM t WHERE k = $round");
	sql('VACUUM (INDEX_CLEANUP on) t');
}
is(sql("SELECT next_stamp FROM harmonia_metapage('t_k')"), $stamp, 'VACUUM writes no segment in vain');
is(sql("SELECT harmonia_check('t_k', true)"), '', 'the index is whole');

$node->stop;
done_testing();
