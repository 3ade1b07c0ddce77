# Debian packages: what is in them, and that the extension runs from them.

use strict;
use warnings;

use Test::More;
use FreshRoot;

my $trouble = FreshRoot::trouble();
plan skip_all => $trouble if defined $trouble;

my $root = FreshRoot->new('bookworm', 'packages');
my ($status, $output) = $root->command('tools/setup.sh package && dpkg-buildpackage -b -us -uc');
is($status, 0, 'packages are built') or diag(FreshRoot::last_lines($output, 30));

(undef, $output) = $root->run('dpkg -c /postgresql-15-harmonia_*.deb');
like($output, qr{ \./usr/\S*/$_$}m, $_)
  for qw(lib/harmonia.so harmonia.control README.md doc/ARCHITECTURE.md);
like($output, qr{lib/harmonia_gpud -> \S+/harmonia/harmonia_gpud$}m, "the daemon's place");

($status, $output) = $root->run(
	'apt-get install -q -y /postgresql-15-harmonia_*.deb && pg_ctlcluster 15 main restart && cd / && '
	  . "runuser -u postgres -- psql -X -v ON_ERROR_STOP=1 -c 'CREATE EXTENSION harmonia' "
	  . "-c 'CREATE TABLE t AS SELECT generate_series(1, 1000) AS i' -c 'CREATE INDEX ON t USING harmonia (i)'");
is($status, 0, 'the extension runs') or diag(FreshRoot::last_lines($output, 30));
like($output, qr/^CREATE INDEX$/m, 'an index is made');

done_testing();
