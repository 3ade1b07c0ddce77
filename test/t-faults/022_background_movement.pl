# Segments that inserts have made grow are moved by a background worker.  Inserts go on meanwhile; only at
# a segment's limit one moves it.
#
# The library is built with FAULT_POINTS (src/am/fault.h) and SMALL_LIMITS.
use strict;
use warnings;

use FaultSessions;
use Harmonia;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('background_movement', conf => <<'END');
harmonia.background_movement = on
shared_buffers = 32MB
autovacuum = off
wal_consistency_checking = generic
END

sub sql { return $node->safe_psql('postgres', $_[0]); }

sub make_table
{
	my ($kind) = @_;

	sql(<<"END");
SET client_min_messages = warning;
DROP TABLE IF EXISTS t;
CREATE $kind TABLE t (k int);
CREATE INDEX t_k ON t USING harmonia (k) WITH (fanout = 8);
INSERT INTO t SELECT 10 * i FROM generate_series(1, 3000) i;
END
	return;
}

# Single inserts of keys all over the index, which make its segments grow.
sub grow
{
	my ($rows, $from) = (@_, 1);
	my $to = $from + $rows - 1;

	return "SET harmonia.batch_inserts = off; INSERT INTO t SELECT 10 * (i * 7919 % 3000) + i % 10 FROM generate_series($from, $to) i";
}

# A few of them, other ones in each round.
sub grow_little
{
	my ($round) = @_;

	return grow(100, 1 + 100 * ($round % 4));
}

sub retired { return sql("SELECT retired FROM harmonia_metapage('t_k')"); }

my $workers = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'harmonia movement'";

sub worker_ends
{
	return $node->poll_query_until('postgres', "SELECT NOT EXISTS ($workers)") || die 'the worker does not end';
}

# ----------------------------------------------------------------
# The worker moves, until nothing wants to be moved
#
# No insert moves a segment: that would be an error.  There are few splits between two waits for the worker.
# ----------------------------------------------------------------
my $never = "SET harmonia.background_movement = on; SET harmonia.fault = 'move_locked:error';";

for my $kind ('', 'UNLOGGED')
{
	my $name = lc("$kind table") =~ s/^ //r;

	make_table($kind);
	for my $round (1 .. 400)
	{
		sql($never . grow_little($round));
		worker_ends();
	}
	cmp_ok(retired(), '>', 0, "$name: segments are moved");
	check_index($node, 't_k', "$name: the index is as the table");
	is(sql("SELECT count(*) FROM harmonia_segments('t_k') WHERE leaves >= 26"), '0', "$name: no segment has outgrown its size");
}

# ----------------------------------------------------------------
# The insert moves where no worker can
# ----------------------------------------------------------------
make_table('');
sql('SET harmonia.background_movement = off;' . grow(20000));
cmp_ok(retired(), '>', 0, 'without background movement the insert moves');

sql(<<"END" . grow(20000) . '; COMMIT');
DROP TABLE t;
BEGIN;
CREATE TABLE t (k int);
CREATE INDEX t_k ON t USING harmonia (k) WITH (fanout = 8);
INSERT INTO t SELECT 10 * i FROM generate_series(1, 3000) i;
END
cmp_ok(retired(), '>', 0, 'an index that only its transaction sees is moved by it');
check_index($node, 't_k', 'that index is as its table');

is(sql(<<"END" . grow(20000) . "; SELECT retired > 0 FROM harmonia_metapage('t_k')"), 't', 'a temporary index is moved by its session');
SET client_min_messages = warning;
CREATE TEMP TABLE t (k int);
CREATE INDEX t_k ON t USING harmonia (k) WITH (fanout = 8);
INSERT INTO t SELECT 10 * i FROM generate_series(1, 3000) i;
END

$node->append_conf('postgresql.conf', 'max_worker_processes = 0');
$node->restart;
make_table('');
sql('SET harmonia.background_movement = on;' . grow(20000));
cmp_ok(retired(), '>', 0, 'without a free worker the insert moves');
check_index($node, 't_k', 'without workers the index is as its table');
$node->append_conf('postgresql.conf', 'max_worker_processes = 8');
$node->restart;

# ----------------------------------------------------------------
# At a segment's limit an insert moves it
# ----------------------------------------------------------------
sub set_for_workers
{
	my ($fault) = @_;

	sql("LOAD 'harmonia'; ALTER SYSTEM SET harmonia.fault = '$fault'");
	sql('SELECT pg_reload_conf()');
	return;
}

my $writer = open_session($node, "SET harmonia.fault = ''; SET harmonia.background_movement = on; SET statement_timeout = '60s';");
my $log_end = -s $node->logfile;

make_table('');
set_for_workers('move_locked:error');
for my $round (1 .. 400)
{
	ask($writer, grow_little($round));
	worker_ends();
	last if slurp_file($node->logfile, $log_end) =~ /fault point "?move_locked/;
}
$node->wait_for_log(qr/fault point "?move_locked/, $log_end);
is(ask($writer, grow(20000)), '', 'inserts go on where the worker fails');
cmp_ok(retired(), '>', 0, 'a segment that has grown to its limit is moved by an insert');
check_index($node, 't_k', 'the index is as the table');

# A worker that has been asked for by inserts is stopped when it has copied a segment.
sub stop_worker
{
	make_table('');
	hold($node, 'move_copied');
	set_for_workers('move_copied:wait');
	for my $round (1 .. 400)
	{
		ask($writer, grow_little($round));
		last if sql("SELECT count(*) FROM ($workers) w") > 0;
	}
	stopped_at($node, 'move_copied');
	set_for_workers('');
	return;
}

# ----------------------------------------------------------------
# Inserts go on while the worker copies
# ----------------------------------------------------------------
stop_worker();
is(ask($writer, 'INSERT INTO t SELECT generate_series(1, 30000, 750)'), '', 'inserts go on while the worker copies');
is(retired(), '0', 'nothing is moved yet');
release('move_copied');
worker_ends();
cmp_ok(retired(), '>', 0, 'the worker moves');
check_index($node, 't_k', 'the index is as the table after it');

# ----------------------------------------------------------------
# REINDEX CONCURRENTLY waits for the worker, as it does for an insert
#
# It drops the old index when those have gone that have locked the table; it takes no lock of the index that keeps
# writers out.
# ----------------------------------------------------------------
my $reindexer = open_session($node);

stop_worker();
is(sql("SELECT count(*) FROM pg_locks l, ($workers) w WHERE l.pid = w.pid AND relation = 't'::regclass AND mode = 'RowExclusiveLock'"),
	'1', 'the worker has locked the table as an insert does');
send_sql($reindexer, 'REINDEX INDEX CONCURRENTLY t_k');
ok($node->poll_query_until('postgres',
		"SELECT EXISTS (SELECT FROM pg_stat_activity a, ($workers) w WHERE a.pid = $reindexer->{pid}"
	  . " AND w.pid = ANY (pg_blocking_pids(a.pid)))"),
	'REINDEX CONCURRENTLY waits for the worker');
release('move_copied');
is(answer($reindexer), '', 'the index is built again');
worker_ends();
sql('CHECKPOINT');
check_index($node, 't_k', 'the new index is as the table');
close_session($reindexer);

# ----------------------------------------------------------------
# The index can be dropped while the worker is there
# ----------------------------------------------------------------
make_table('');
ask($writer, grow(6000));
is(ask($writer, 'DROP INDEX t_k'), '', 'the index is dropped');
worker_ends();
unlike(PostgreSQL::Test::Utils::slurp_file($node->logfile, $log_end), qr/terminated by signal|PANIC|TRAP/, 'nothing has crashed');

close_session($writer);
$node->stop;
done_testing();
