# A leaf stays locked from before the table is asked which of its entries are dead until they are
# gone.  Otherwise VACUUM could free a line pointer meanwhile, a new row with the same key could
# get it, and the entry of that row would be removed.
#
# The library is built with FAULT_POINTS (src/am/fault.h) and SMALL_LIMITS.  A session that waits
# at a fault point with a buffer locked says that it sleeps, not that it waits for the advisory lock.
use strict;
use warnings;

use FaultSessions;
use Harmonia;
use Test::More;

my $node = new_node('dead');

for my $batches ('on', 'off')
{
	for my $point ('dead_found', 'dead_conflict_logged')
	{
		my $session = open_session($node);
		my $name = "$point, batches $batches";

		ask($session, <<"END");
DROP TABLE IF EXISTS t;
CREATE TABLE t (k int);
CREATE INDEX t_k ON t USING harmonia (k);
INSERT INTO t SELECT generate_series(1, 400);
DELETE FROM t;
SET harmonia.batch_inserts = $batches;
SET harmonia.fault = '$point:wait'
END
		hold($node, $point);
		send_sql($session, 'INSERT INTO t SELECT 1 + i % 400 FROM generate_series(1, 1000) i');
		ok(blocked_on($node, 'PgSleep', '^INSERT INTO t SELECT 1'), "$name: the leaf is locked");
		release($point);
		is(answer($session), '', "$name: rows in place of the dead ones");
		is(ask($session, 'INSERT INTO t SELECT 1 + i % 400 FROM generate_series(1, 1000) i'), '', "$name: rows");
		is(ask($session, "SELECT harmonia_check('t_k', true)"), '', "$name: the index is whole");
		close_session($session);
	}
}

# ----------------------------------------------------------------
# A batch that has found a leaf full waits for it, while the table is read, without its segment's header
#
# Other leaves of the segment are read and written meanwhile.
# ----------------------------------------------------------------
{
	my ($batch, $asking, $other) = map { open_session($node) } 1 .. 3;
	my $rows = 'INSERT INTO t SELECT 1 + i % 10 FROM generate_series(1, 600) i';

	ask($batch, <<'END');
DROP TABLE IF EXISTS t;
CREATE TABLE t (k int) WITH (autovacuum_enabled = off);
INSERT INTO t SELECT generate_series(1, 4000);
CREATE INDEX t_k ON t USING harmonia (k)
END
	is(ask($other, "SELECT count(*) FROM harmonia_segments('t_k') WHERE leaves > 2"), '1', 'leaves of one segment');
	hold($node, 'insert_leaf_full');
	hold($node, 'dead_found');
	ask($batch, "SET harmonia.fault = 'insert_leaf_full:wait'");
	send_sql($batch, $rows);
	stopped_at($node, 'insert_leaf_full');
	ask($asking, "SET harmonia.fault = 'dead_found:wait'");
	send_sql($asking, $rows =~ s/1 \+ i/1 + (i + 1)/r);
	ok(blocked_on($node, 'PgSleep', '1 . .i . 1'), 'the leaf is locked, and the table asked');
	release('insert_leaf_full');
	ok(blocked_on($node, 'BufferContent|BufferExclusive', '1 . i %'), 'the batch waits for the leaf');
	send_sql($other, 'INSERT INTO t VALUES (4000); SELECT count(*) FROM t WHERE k = 4000');
	ok(ends_without_wait($node, $other, '^SELECT count'), 'another session does not wait');
	release('dead_found');
	is(answer($_), '', 'rows') for ($batch, $asking);
	is(answer($other), '2', 'rows of another leaf');
	is(ask($other, "SELECT harmonia_check('t_k', true)"), '', 'the index is whole');
	close_session($_) for ($batch, $asking, $other);
}

$node->stop;
done_testing();
