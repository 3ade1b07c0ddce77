# Memory runs out while segments are moved.  Wherever that happens, nothing is lost, writers go on, and a later
# movement works.
#
# A limit for the address space of a session is what it meets.  It grows from try to try, so the movement comes
# farther each time.
use strict;
use warnings;

use FaultSessions;
use Harmonia;
use PostgreSQL::Test::Utils;
use Test::More;

plan skip_all => 'prlimit is not installed' if system('prlimit --version >/dev/null 2>&1') != 0;

my $node = new_node('memory', conf => "shared_buffers = 64MB\n");

sub sql { return $node->safe_psql('postgres', $_[0]); }

# Leaves have been split in all segments.
sql(<<'END');
CREATE TABLE t (k bigint, k2 bigint) WITH (autovacuum_enabled = off);
INSERT INTO t SELECT x, x FROM (SELECT hashint8extended(i, 0) x FROM generate_series(1, 400000) i) s;
CREATE INDEX t_k ON t USING harmonia (k);
CREATE INDEX t_k2 ON t (k2);
INSERT INTO t SELECT x, x FROM (SELECT hashint8extended(i, 1) x FROM generate_series(1, 60000) i) s;
END

my $writers = start_pgbench($node, {
		insert => <<'END' }, '-c', 2, '-T', 600);
\set i random(1, 1000000000)
INSERT INTO t SELECT x, x FROM (SELECT hashint8extended(:i, 2) x) s;
DELETE FROM t WHERE k2 = (SELECT k2 FROM t WHERE k2 > hashint8extended(:i, 3) ORDER BY k2 LIMIT 1);
END
wait_for_work($node);

my $failed = 0;
my $answer = '';
my $megabytes = 0;
for (; $answer !~ /^[1-9]\d*$/ && $megabytes <= 64; $megabytes++)
{
	my $session = open_session($node, 'SET statement_timeout = 0;');
	my ($size) = slurp_file("/proc/$session->{pid}/status") =~ /^VmSize:\s+(\d+) kB/m;
	my $limit = ($size + 1024 * $megabytes) * 1024;

	system_or_bail('prlimit', "--pid=$session->{pid}", "--as=$limit");
	$answer = ask($session, "SELECT harmonia_reorganize('t_k')");
	close_session($session);
	next if $answer =~ /^\d+$/;
	$failed++;
	like($answer, qr/out of memory/, "$megabytes MB are too little") or last;
	sql("SET statement_timeout = '60s'; INSERT INTO t SELECT x, x FROM (SELECT hashint8extended(i, 4 + $megabytes) x FROM generate_series(1, 50) i) s");
}
like($answer, qr/^[1-9]\d*$/, 'segments are moved when there is enough memory');
cmp_ok($failed, '>=', 8, "memory ran out in $failed tries");

# Random keys come to all segments.
is(sql("SELECT count(*) FROM (SELECT pg_sleep(1)) s, harmonia_segments('t_k') WHERE state <> 'live'"), '0', 'no mark is left');
$writers->{run}->signal('TERM');
unlike(finish($writers), qr/ERROR|aborted/, 'writers have gone on');

check_index($node, 't_k', 'the index is as the table');
my @sums = map {
	sql("SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT count(*), sum(hashtid(ctid)::numeric * $_) FROM t WHERE $_ < 9e18")
} ('k', 'k2');
is($sums[0], $sums[1], 'the same rows as with a btree');
sql("SELECT harmonia_reorganize('t_k')");
check_index($node, 't_k', 'and after a later movement');
sql('VACUUM t') for 1 .. 2;
is(sql("SELECT lost_pages FROM harmonia_index_info('t_k')"), '0', 'no block is lost');

$node->stop;
done_testing();
