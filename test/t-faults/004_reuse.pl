# A session stops, and meanwhile a block or a directory entry gets another owner.  When
# the session goes on it must notice that.
#
# Each case fails without the check that it names.
#
# The library is built with FAULT_POINTS (src/am/fault.h) and SMALL_LIMITS.
use strict;
use warnings;

use FaultSessions;
use Harmonia;
use Test::More;

my $node = new_node('reuse', conf => <<'END');
shared_buffers = 32MB
harmonia.enable_lookup_scan = off
harmonia.enable_lookup_join = off
END

sub sql { return $node->safe_psql('postgres', $_[0]); }

sub check
{
	my ($name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return is(sql("SELECT harmonia_check('t_k', true)"), '', "$name: the index is whole");
}

# Keys as they are stored.
sub stored { return 2**31 + $_[0]; }

# The block of the leaf that a key is on.
sub leaf_of
{
	my $key = stored(@_);

	return sql(<<"END");
SELECT l.block FROM harmonia_segments('t_k') s, harmonia_leaves('t_k', s.block) l
WHERE s.part = 'keys' AND s.low_key <= $key AND l.low_key <= $key
ORDER BY s.low_key DESC, l.low_key DESC LIMIT 1
END
}

# Insert a key again and again until a condition holds.
sub insert_until
{
	my ($key, $condition) = @_;

	for (1 .. 150)
	{
		return if $condition->();
		sql("INSERT INTO t SELECT $key FROM generate_series(1, 300)");
	}
	die "keys $key did not do what they should";
}

# The event that a session waits for, or ''.
sub waits_for
{
	my ($session) = @_;

	settled($node, $session) || die 'the session neither ends nor waits';
	return sql("SELECT wait_event FROM pg_stat_activity WHERE pid = $session->{pid} AND state = 'active'");
}

# ----------------------------------------------------------------
# VACUUM waits for pins on blocks that got another owner while it walked
#
# VACUUM's walk passes the blocks of the first segment, which is then moved.  The second
# segment takes one of these blocks, an index-only scan stops there, and the second segment
# is moved on.  VACUUM meets the second segment's entries elsewhere.  The scan holds dead
# entries.  Their heap pages must not become all-visible before it has checked the
# visibility map.
# ----------------------------------------------------------------
{
	my $name = 'VACUUM and a block with another owner';
	my ($reader, $vacuum) = map { open_session($node) } 1 .. 2;
	my $point = 'vacuum_leaf_cleaned';
	my $plan = 'SET enable_bitmapscan = off; SET enable_sort = off; ';

	sql(<<'END');
CREATE TABLE t (k int) WITH (autovacuum_enabled = off);
INSERT INTO t SELECT i FROM generate_series(1, 12000) i;
CREATE INDEX t_k ON t USING harmonia (k) WITH (fillfactor = 58);
END
	sql('VACUUM ANALYZE t');
	sql('DELETE FROM t WHERE k % 100 <> 0');
	my ($first, $leaves) = split /\|/, sql(<<'END');
SELECT min(block), min(leaves) FROM harmonia_segments('t_k')
END

	hold($node, $point);
	ask($vacuum, "SET harmonia.fault = '$point:wait:" . ($leaves - 1) . "'");
	send_sql($vacuum, 'VACUUM (INDEX_CLEANUP on, TRUNCATE off) t');
	stopped_at($node, $point);

	insert_until(3000, sub { sql("SELECT count(*) FROM harmonia_segments('t_k') WHERE block = $first") == 0 });
	insert_until(11400, sub { leaf_of(11500) <= $first + $leaves });
	my $block = leaf_of(11500);
	cmp_ok($block, '>', $first, "$name: the reader is where the walk has been");
	ask($reader, "$plan BEGIN; DECLARE c CURSOR FOR SELECT k FROM t WHERE k >= 11500 ORDER BY k; MOVE 1 IN c");
	my $uses = "SELECT count(*) FROM harmonia_segments('t_k') s, harmonia_leaves('t_k', s.block) l WHERE l.block = $block";
	insert_until(11450, sub { sql($uses) == 0 });
	is(sql($uses), '0', "$name: the block is not in use any more");

	release($point);
	is(waits_for($vacuum), 'BufferPin', "$name: VACUUM waits");
	is(ask($reader, 'FETCH ALL FROM c'), "11600\n11700\n11800\n11900\n12000", "$name: what the cursor has left");
	is(answer($vacuum), '', "$name: VACUUM ends");
	close_session($_) for ($reader, $vacuum);
	check($name);
	sql('DROP TABLE t');
}

# ----------------------------------------------------------------
# The stamp shows that a block is not the leaf to the right any more
#
# A scan remembers the block of the next leaf.  A movement writes new leaves there.  The
# first of them is as good as the old one.  But the leaf to its right is not written yet:
# that block still holds a leaf of an earlier segment.
# ----------------------------------------------------------------
{
	my $name = "a leaf's stamp";
	my ($keeper, $reader, $mover) = map { open_session($node) } 1 .. 3;

	sql(<<'END');
CREATE TABLE t (k int) WITH (autovacuum_enabled = off);
INSERT INTO t SELECT 1000 * i FROM generate_series(1, 4862) i;
CREATE INDEX t_k ON t USING harmonia (k) WITH (fillfactor = 50);
END
	# The file must not get shorter.
	ask($keeper, 'BEGIN; SELECT FROM t WHERE k = 1');

	# Eleven leaves from block 2 on become six.  Splits take the next four blocks, so
	# that the last of the old leaves stays in block 12.
	sql('ALTER INDEX t_k SET (fillfactor = 100)');
	sql("SELECT harmonia_reorganize('t_k')");
	sql('INSERT INTO t SELECT (4000 + i) * 1000 + 5 FROM generate_series(1, 300) i');
	is(sql("SELECT block, pure_leaves, extents FROM harmonia_segments('t_k')"), '1|6|{[1,12)}', "$name: fewer leaves");
	my $expected = sql("SET enable_indexscan = off; SET enable_bitmapscan = off; SELECT count(*), sum(k) FROM t");

	hold($node, 'scan_leaf_left');
	ask($reader, 'BEGIN; SET enable_bitmapscan = off; SET enable_indexonlyscan = off; SET enable_sort = off');
	ask($reader, "SET harmonia.fault = 'scan_leaf_left:wait:1'");
	send_sql($reader, 'SELECT count(*), sum(k) FROM (SELECT k FROM t WHERE k > 0 ORDER BY k) s');
	stopped_at($node, 'scan_leaf_left');

	# After a movement to the end of the file there are eleven leaves from block 2 on
	# again, of which the last is not written yet.
	hold($node, 'segment_page_begun');
	sql('ALTER INDEX t_k SET (fillfactor = 55)');
	ask($mover, "SET harmonia.fault = 'segment_page_begun:wait:23'");
	send_sql($mover, "SELECT harmonia_reorganize('t_k')");
	stopped_at($node, 'segment_page_begun');
	is(sql(<<'END'), '12', "$name: a new leaf leads to an old one that covers its end");
SELECT new.right_link FROM harmonia_page('t_k', 11) new, harmonia_page('t_k', 12) old
WHERE new.kind = 'leaf' AND old.kind = 'leaf' AND new.stamp > old.stamp AND old.low_key <= new.high_key
END
	release('scan_leaf_left');
	is(answer($reader), $expected, "$name: what the scan finds");
	release('segment_page_begun');
	like(answer($mover), qr/^\d+$/, "$name: movement ends");
	close_session($_) for ($keeper, $reader, $mover);
	check($name);
	sql('DROP TABLE t');
}

# ----------------------------------------------------------------
# A directory page is split under a search
#
# A search has renewed its copy of the root, and goes to the directory page that lists the
# NULL part.  Before it gets there, a split moves this entry to another page.
# ----------------------------------------------------------------
{
	my $name = 'a directory page that is split';
	my ($reader, $appender) = map { open_session($node) } 1 .. 2;
	my $nulls = 'SELECT count(*) FROM t WHERE k IS NULL';
	my $pages = "SELECT root_entries FROM harmonia_metapage('t_k') WHERE directory_depth = 1";

	sql(<<'END');
CREATE TABLE t (k int) WITH (autovacuum_enabled = off);
INSERT INTO t SELECT NULL FROM generate_series(1, 500) i;
INSERT INTO t SELECT i FROM generate_series(1, 2000) i;
CREATE INDEX t_k ON t USING harmonia (k) WITH (fillfactor = 10);
CREATE PROCEDURE append_until_pages(n int) LANGUAGE plpgsql AS $$
BEGIN
	WHILE (SELECT directory_depth = 0 OR root_entries < n FROM harmonia_metapage('t_k')) LOOP
		INSERT INTO t SELECT m + i FROM generate_series(1, 100) i, (SELECT max(k) m FROM t) s;
		COMMIT;
	END LOOP;
END $$;
END
	# A copy of the root from when the root was the whole directory
	ask($reader, 'SET enable_bitmapscan = off');
	is(ask($reader, $nulls), 500, "$name: NULLs");
	is(ask($appender, 'CALL append_until_pages(1)'), '', "$name: appending");
	# An entry in that copy that is not valid any more
	sql('INSERT INTO t SELECT NULL FROM generate_series(1, 1000)');
	sql("SELECT harmonia_reorganize('t_k')");

	hold($node, 'directory_root_searched');
	ask($reader, "SET harmonia.fault = 'directory_root_searched:wait'");
	send_sql($reader, $nulls);
	stopped_at($node, 'directory_root_searched');
	is(sql($pages), 1, "$name: one page");
	is(ask($appender, 'CALL append_until_pages(2)'), '', "$name: appending");
	is(sql($pages), 2, "$name: another page");
	release('directory_root_searched');
	is(answer($reader), 1500, "$name: NULLs are found");
	close_session($_) for ($reader, $appender);
	check($name);
}

$node->stop;
done_testing();
