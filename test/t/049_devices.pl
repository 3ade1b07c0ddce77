# A server with several devices, here host devices: batches beside writers, kills of the daemon, and its setting.
use strict;
use warnings;

use Harmonia;
use HarmoniaDevice;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

plan skip_all => 'the host device alone has a second one on every machine' if on_gpu();

my $seconds = $ENV{SECS} // 8;
my $node = new_device_node('devices', conf => "autovacuum = off\nharmonia.gpu_devices = '0,1'\n");
$node->safe_psql('postgres', <<'END');
CREATE TABLE t (k int, v int) WITH (autovacuum_enabled = off);
INSERT INTO t SELECT i, i FROM generate_series(1, 100000) i;
CREATE INDEX t_k ON t USING harmonia (k);
CREATE TABLE w (u uuid, v int) WITH (autovacuum_enabled = off);
INSERT INTO w SELECT md5(i::text)::uuid, i FROM generate_series(1, 50000) i;
CREATE INDEX w_u ON w USING harmonia (u);
VACUUM ANALYZE t, w;
ALTER DATABASE postgres SET enable_hashjoin = off;
ALTER DATABASE postgres SET enable_mergejoin = off;
ALTER DATABASE postgres SET enable_nestloop = off;
ALTER DATABASE postgres SET max_parallel_workers_per_gather = 0;
END

sub name
{
	return $node->safe_psql('postgres', 'SELECT name FROM harmonia_device()');
}

is(name(), '2 x host', 'there are two devices');

# ----------------------------------------------------------------
# Each query asks for random keys twice, once without lookups: writers may insert in between only what no query
# asks for, and remove nothing but that.
# ----------------------------------------------------------------
my $keys = "ARRAY(SELECT (:r + g * 37) % 120000 FROM generate_series(1, 3000) g)";
my $uuids = "ARRAY(SELECT md5(((:r + g * 37) % 60000)::text)::uuid FROM generate_series(1, 3000) g)";
my $readers = start_pgbench($node, {
		'keys' => "\\set r random(1, 100000)\nSELECT 1 / (count(*) = (SELECT count(*) FROM generate_series(1, 3000) g "
		  . "WHERE (:r + g * 37) % 120000 BETWEEN 1 AND 100000))::int FROM t WHERE k = ANY ($keys) AND k BETWEEN 1 AND 120000;\n",
		'uuids' => "\\set r random(1, 100000)\nSELECT 1 / (count(*) = (SELECT count(*) FROM generate_series(1, 3000) g "
		  . "WHERE (:r + g * 37) % 60000 BETWEEN 1 AND 50000))::int FROM w WHERE u = ANY ($uuids) AND v > 0;\n",
		# what the session itself has just inserted is found
		'own' => "\\set r random(1000000, 2000000000)\nBEGIN;\nINSERT INTO t SELECT :r + i, 0 FROM generate_series(1, 300) i;\n"
		  . "SELECT 1 / (count(*) >= 300)::int FROM t WHERE k = ANY (ARRAY(SELECT :r + i FROM generate_series(1, 300) i));\nCOMMIT;\n" },
	'-c', 4, '-T', $seconds);
my $writer = start_pgbench($node, {
		'insert' => "\\set i random(1, 100000)\nINSERT INTO t SELECT :i + 600000, i FROM generate_series(1, 50) i;\n"
		  . "INSERT INTO w SELECT md5((:i + 600000 + i)::text)::uuid, -1 FROM generate_series(1, 20) i;\n"
		  . "DELETE FROM t WHERE k = :i + 600000;\n" },
	'-c', 1, '-T', $seconds, '-R', 50);
my $end = time + $seconds - 1;
my $kills = 0;
while (time < $end)
{
	my $pid = daemon_pid($node);

	usleep(int(rand(800_000)));
	$kills += kill KILL => $pid if $pid;

	# A new setting makes the supervisor start the next daemon at once.
	$node->append_conf('postgresql.conf', 'harmonia.gpu_devices = ' . ($kills % 2 == 0 ? "'0,1'" : "'2, 0, 1'"));
	$node->reload;
}
unlike(finish($readers), qr/ERROR|FATAL|abort/, 'all queries got the right answer');
unlike(finish($writer), qr/ERROR|FATAL|abort/, 'all changes were made');
cmp_ok($kills, '>=', 2, "the daemon was killed $kills times");
cmp_ok(stat_of($node, 't_k', 'device_batches'), '>', 0, 'devices took part');
$node->safe_psql('postgres', "SELECT harmonia_check('t_k'), harmonia_check('w_u')");

# ----------------------------------------------------------------
# The setting
# ----------------------------------------------------------------
my %wrong = ('' => 'numbers', '0,' => 'numbers', '1,1' => 'twice', '16' => 'numbers', '-1' => 'numbers', 'two' => 'numbers');
for my $value (sort keys %wrong)
{
	my ($result, $out, $err) = $node->psql('postgres', "ALTER SYSTEM SET harmonia.gpu_devices = '$value'");

	like($err, qr/invalid value for parameter "harmonia.gpu_devices"/, "'$value' is refused");
	like($err, qr/$wrong{$value}/, 'with the reason');
}
for my $case ([ "'0'", 'host' ], [ "'all'", 'host' ], [ "'5, 7,1'", '3 x host' ])
{
	my ($value, $name) = @$case;
	my $pid = daemon_pid($node);

	$node->append_conf('postgresql.conf', "harmonia.gpu_devices = $value");
	$node->reload;
	ok($node->poll_query_until('postgres', "SELECT state = 'up' AND name = '$name' FROM harmonia_device()"), "$value: $name");
}
is($node->safe_psql('postgres', "SELECT count(*) FROM t WHERE k = ANY (ARRAY(SELECT generate_series(1, 5000)))"), '5000',
	'they search');
$node->stop;
done_testing();
