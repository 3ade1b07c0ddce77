# Debian packages: what is in them, and that extension and daemon run from them.  There is no nvcc, so
# the daemon has the host device alone; all else of its package is the same.

use strict;
use warnings;

use Test::More;
use FreshRoot;

my $trouble = FreshRoot::trouble();
plan skip_all => $trouble if defined $trouble;

my $root = FreshRoot->new('bookworm', 'packages');
my ($status, $output) = $root->command('tools/setup.sh package && NVCC= dpkg-buildpackage -b -us -uc -d -Ppkg.harmonia.cuda');
is($status, 0, 'packages are built') or diag(FreshRoot::last_lines($output, 30));

(undef, $output) = $root->run('dpkg -c /postgresql-15-harmonia_*.deb');
like($output, qr{ \./usr/\S*/$_$}m, $_)
  for qw(lib/harmonia.so harmonia.control README.md doc/ARCHITECTURE.md);
like($output, qr{lib/harmonia_gpud -> \S+/harmonia/harmonia_gpud$}m, "the daemon's place");
(undef, $output) = $root->run('dpkg -c /harmonia-gpud_*.deb');
like($output, qr{^-rwxr-xr-x \S+ .* \./usr/lib/harmonia/harmonia_gpud$}m, 'the daemon is in a package of its own');
unlike($output, qr{postgresql/}, 'which belongs to no PostgreSQL');

($status, $output) = $root->run(
	'apt-get install -q -y /postgresql-15-harmonia_*.deb && pg_ctlcluster 15 main restart && cd / && '
	  . "runuser -u postgres -- psql -X -v ON_ERROR_STOP=1 -c 'CREATE EXTENSION harmonia' "
	  . "-c 'CREATE TABLE t AS SELECT generate_series(1, 1000) AS i' -c 'CREATE INDEX ON t USING harmonia (i)'");
is($status, 0, 'the extension runs') or diag(FreshRoot::last_lines($output, 30));
like($output, qr/^CREATE INDEX$/m, 'an index is made');

($status, $output) = $root->run(
	'apt-get install -q -y /harmonia-gpud_*.deb && '
	  . "printf \"shared_preload_libraries = 'harmonia'\nharmonia.gpu = host\n\" >/etc/postgresql/15/main/conf.d/harmonia.conf && "
	  . 'pg_ctlcluster 15 main restart && cd / && for i in $(seq 100); do '
	  . "runuser -u postgres -- psql -X -A -t -c 'SELECT state FROM harmonia_device()' | grep up && exit; sleep 0.2; done; exit 1");
is($status, 0, 'the server finds the daemon') or diag(FreshRoot::last_lines($output, 30));

done_testing();
