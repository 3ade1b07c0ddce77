# A stranger's first hour: a newly installed Debian 13 that gets the packages and nothing else of ours.
# Does what the installed README and manual say, in their order, and tells how long each part takes.

use strict;
use warnings;

use FindBin;
use Test::More;
use Time::HiRes qw(time);
use FreshRoot;

use lib "$FindBin::Bin/../docs";
use Pages;

my $trouble = FreshRoot::trouble();
plan skip_all => $trouble if defined $trouble;

my $major = 17;
my $documents = "/usr/share/doc/postgresql-$major-harmonia";
my ($root, $start);

# A test that a step succeeds, with the time it took.
sub step
{
	my ($name, @commands) = @_;
	my $before = time;
	my ($status, $output) = $root->run(join ' && ', @commands);

	is($status, 0, sprintf '%s: %.0f s', $name, time - $before) or diag(FreshRoot::last_lines($output, 30));
	return $output;
}

# Runs a command as the server's user, beside a running server that is stopped afterwards.
sub with_server
{
	my ($command) = @_;
	return ("pg_ctlcluster $major main start", 'cd /tmp', "runuser -u postgres -- $command", "pg_ctlcluster $major main stop");
}

# All blocks of a page in these languages, as one file in the root.
sub write_blocks
{
	my ($page, $file, $language, $wanted) = @_;
	my $text = join "\n", map { $_->{text} } grep { $_->{language} eq $language && $_->{text} =~ /$wanted/ } blocks_of($page);

	open my $out, '>', "$root->{dir}/upper$file" or die "could not write $file: $!";
	print $out $text;
	close $out;
	return;
}

# The packages are built on another system than the stranger's.
$root = FreshRoot->new('trixie', 'packages for an hour');
step('packages are built, with what that needs', 'cd /harmonia', 'tools/setup.sh package', 'pg_buildext updatecontrol',
	'dpkg-buildpackage -b -us -uc', 'mv /*.deb /var/cache/apt/archives/');
my ($deb) = $root->run("ls /var/cache/apt/archives/postgresql-$major-harmonia_*.deb") =~ /(\S+_\w+\.deb)/;

$root = FreshRoot->new('trixie', 'an hour');
$root->prepare('rm -rf /harmonia');
$start = time;
step('lists of packages', 'apt-get update -q');
step('server and extension', "apt-get install -q -y $deb");
step('documents are there', "test -e $documents/README.md && test -e $documents/doc/MANUAL.md");

write_blocks('README.md', '/readme.sql', 'sql', qr/./);
write_blocks('doc/MANUAL.md', '/manual.sql', 'sql', qr/./);
write_blocks('doc/CLIENTS.md', '/client.py', 'python', qr/import psycopg\n/);
step('blocks of the README', with_server('psql -X -v ON_ERROR_STOP=1 -f /readme.sql'));
step('blocks of the manual', with_server('psql -X -v ON_ERROR_STOP=1 -f /manual.sql'));
step('psycopg', 'apt-get install -q -y python3-psycopg');
step('its example', with_server('python3 /client.py'));
step('the packages are removed and purged',
	with_server("psql -X -c 'DROP EXTENSION harmonia CASCADE'"), "apt-get purge -q -y postgresql-$major-harmonia",
	"test ! -e /usr/lib/postgresql/$major/lib/harmonia.so");
cmp_ok(time - $start, '<', 3600, sprintf 'an hour is enough: %.0f s', time - $start);

done_testing();
