# A standby does not know which pages replay changes.  So it does not use its device until
# it is promoted.
use strict;
use warnings;

use Harmonia;
use HarmoniaDevice;
use PostgreSQL::Test::Cluster;
use Test::More;

my $primary = new_device_node('primary', allows_streaming => 1);
$primary->safe_psql('postgres', <<'END');
CREATE TABLE t (k int);
INSERT INTO t SELECT generate_series(1, 20000);
CREATE INDEX t_k ON t USING harmonia (k);
VACUUM ANALYZE t;
END
my $lookups = join ' ', map { "SET enable_$_ = off;" } qw(seqscan indexscan bitmapscan);
my $query = 'SELECT count(*), sum(k) FROM t WHERE k = ANY (ARRAY(SELECT generate_series(1, 30000, 3)))';
is($primary->safe_psql('postgres', "$lookups $query"), '6667|66670000', 'the primary');

# The daemon's socket is not in a backup.
$primary->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'backup', has_streaming => 1);
ok(!-e socket_path($standby), 'a backup has no socket');
$standby->start;
wait_for_device($standby);
isnt(daemon_pid($standby), daemon_pid($primary), 'the standby has a device of its own');

like(nodes_of($standby, $query, $lookups), qr/Device: CPU\n\s+CPU Reason: recovery is in progress/, 'the standby does not use it');
$primary->safe_psql('postgres', 'DELETE FROM t WHERE k <= 1000; INSERT INTO t SELECT generate_series(20001, 20003)');
$primary->wait_for_catchup($standby);
is($standby->safe_psql('postgres', "$lookups $query"), '6334|66522835', 'it follows the primary');
my ($result, $out, $err) = $standby->psql('postgres', "\\set VERBOSITY verbose\nSELECT harmonia_load('t_k')");
like($err, qr/55000: recovery is in progress/, 'it refuses to load an index');

$standby->promote;
like(nodes_of($standby, $query, $lookups), qr/Device: GPU/, 'once promoted it uses it');
$standby->safe_psql('postgres', 'INSERT INTO t SELECT generate_series(20004, 20010)');
is($standby->safe_psql('postgres', "$lookups $query"), '6336|66562848', 'it notices changes');
is($primary->safe_psql('postgres', "$lookups $query"), '6334|66522835', 'the primary does not see them');

$standby->stop;
$primary->stop;
done_testing();
