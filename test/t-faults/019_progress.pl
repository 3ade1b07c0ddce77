# What harmonia_reorganize() and harmonia_load() report while they run, to whom, and that VACUUM,
# which moves segments too, reports its own progress alone.
#
# The library is built with FAULT_POINTS (src/am/fault.h) and SMALL_LIMITS.
use strict;
use warnings;

use FaultSessions;
use Harmonia;
use HarmoniaDevice;
use Test::More;

my $node = new_device_node('progress');
my $progress = 'SELECT indexrelid::regclass, command, phase, segments_total > 0, segments_done'
  . ' FROM pg_stat_progress_harmonia';

sub sql { return $node->safe_psql('postgres', $_[0]); }

sub make_table
{
	sql(<<'END');
SET client_min_messages = warning;
DROP TABLE IF EXISTS t;
CREATE TABLE t (k int) WITH (autovacuum_enabled = off);
INSERT INTO t SELECT i FROM generate_series(1, 6000) i;
CREATE INDEX t_k ON t USING harmonia (k) WITH (fillfactor = 100);
INSERT INTO t SELECT i FROM generate_series(1, 6000, 10) i;
END
	return;
}

sub stop_at
{
	my ($session, $point, $statement) = @_;

	hold($node, $point);
	ask($session, "SET harmonia.fault = '$point:wait'");
	send_sql($session, $statement);
	stopped_at($node, $point);
	return;
}

sql('CREATE ROLE other');
my $session = open_session($node);

make_table();
stop_at($session, 'move_flagged', "SELECT harmonia_reorganize('t_k')");
is(sql($progress), 't_k|harmonia_reorganize|moving segments|t|0', 'a movement is reported');
is(sql('SET ROLE other; SELECT pid IS NOT NULL, datname, command, phase, segments_total FROM pg_stat_progress_harmonia'),
	't|postgres|||', 'others learn that something runs, but not what');
is(sql('SELECT count(*) FROM pg_stat_progress_vacuum'), '0', 'no other view shows it');
release('move_flagged');
cmp_ok(answer($session), '>', 1, 'segments are moved');
is(sql($progress), '', 'nothing is left');

make_table();
stop_at($session, 'move_flagged', "SELECT harmonia_reorganize('t_k')");
sql("SELECT pg_cancel_backend($session->{pid})");
release('move_flagged');
like(answer($session), qr/canceling statement/, 'reorganization is cancelled');
is(sql($progress), '', 'nothing is left after an error');

sql('DELETE FROM t WHERE k % 50 > 0');
stop_at($session, 'move_flagged', 'VACUUM t');
is(sql($progress), '', 'VACUUM is not reported as ours');
is(sql('SELECT relid::regclass, phase FROM pg_stat_progress_vacuum'), 't|vacuuming indexes', 'but as it is');
release('move_flagged');
answer($session);

make_table();
stop_at($session, 'sync_copied', "SELECT harmonia_load('t_k')");
is(sql('SELECT command, phase, segments_total, blocks_total > 1, blocks_done < blocks_total FROM pg_stat_progress_harmonia'),
	'harmonia_load|copying pages|0|t|t', 'a load is reported');
release('sync_copied');
answer($session);

stop_at($session, 'sync_copied', 'INSERT INTO t SELECT generate_series(1, 20000); '
	  . 'SET harmonia.force_device = on; SELECT count(*) FROM t WHERE k = ANY (ARRAY(SELECT generate_series(1, 3000)))');
is(sql($progress), '', 'a re-sync is not');
release('sync_copied');
answer($session);

close_session($session);
$node->stop;
done_testing();
