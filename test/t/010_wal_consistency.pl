# Replay arrives at the pages that were there before, byte by byte.
#
# Records of leaf changes are put together by harmonia, not by GenericXLog.  With
# wal_consistency_checking each record carries images of its pages, and recovery
# ends with an error where replay makes something else of them.
use strict;
use warnings;

use Harmonia;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('primary',
	conf => "wal_consistency_checking = generic\nmax_wal_size = 4GB\ncheckpoint_timeout = 1h\n");

$node->safe_psql('postgres', <<'END');
CREATE TABLE t (k8 int8, k4 int4, id int, few int GENERATED ALWAYS AS (id % 3) STORED);
INSERT INTO t SELECT hashint8extended(i, 0), hashint4(i), i FROM generate_series(1, 5000) i;
CREATE INDEX t_k8 ON t USING harmonia (k8);
CREATE INDEX t_k4 ON t USING harmonia (k4) WITH (fanout = 8);
CREATE INDEX t_id ON t USING harmonia (id) WITH (fillfactor = 100);
CREATE INDEX t_few ON t USING harmonia (few);
CHECKPOINT;

-- One by one: new slots, full blocks, pages laid out anew, splits.
DO $$
BEGIN
	FOR i IN 5001..7000 LOOP
		INSERT INTO t VALUES (hashint8extended(i, 0), hashint4(i), i);
		INSERT INTO t VALUES (NULL, hashint4(i) / 1000, -i);
	END LOOP;
END $$;

-- Many at once: splits with what comes, auxiliary nodes, appended leaves,
-- movement.
INSERT INTO t SELECT hashint8extended(i, 0), hashint4(i), i FROM generate_series(7001, 20000) i;
INSERT INTO t SELECT i % 100, hashint4(i), 10000 FROM generate_series(1, 20000) i;

-- Holes, and what comes into them.
DELETE FROM t WHERE hashint4(id) % 3 = 0;
VACUUM t;
INSERT INTO t SELECT hashint8extended(i, 1), hashint4(i + 1), i FROM generate_series(1, 5000) i;
DELETE FROM t WHERE k4 > 0;
VACUUM t;
END

my $log = -s $node->logfile;
crash_node($node);
ok($node->start(fail_ok => 1), 'recovery replays everything')
  or diag(slurp_file($node->logfile, $log));
check_all_indexes($node, 'afterwards');

$node->stop;
done_testing();
