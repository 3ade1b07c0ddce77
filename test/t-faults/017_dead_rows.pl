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

$node->stop;
done_testing();
