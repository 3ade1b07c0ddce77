# Files must agree on the extension's version and on the PostgreSQL versions that it
# supports.  META.json follows PGXN's rules.  Sources can be built with what packages have.

use strict;
use warnings;

use JSON::PP;
use Test::More;

my $version = qr/\d+\.\d+\.\d+/;

sub slurp
{
	my ($file) = @_;
	open my $in, '<', $file or die "could not open $file: $!";
	local $/;
	return scalar <$in>;
}

# All matches of a pattern in a file.
sub found
{
	my ($file, $pattern) = @_;
	my @found = slurp($file) =~ /$pattern/g;
	return @found;
}

my ($control) = found('harmonia.control', qr/^default_version = '($version)'$/m);
ok(defined $control, 'harmonia.control has a version');
ok(-s "sql/harmonia--$control.sql", 'there is an install script of that version');

# PGXN Meta Spec 1.0.0: required keys and allowed values.
my $meta = decode_json(slurp('META.json'));
my %is_a_license = map { $_ => 1 } qw(
  agpl_3 apache_1_1 apache_2_0 artistic_1 artistic_2 bsd freebsd gfdl_1_2 gfdl_1_3 gpl_1
  gpl_2 gpl_3 lgpl_2_1 lgpl_3_0 mit mozilla_1_0 mozilla_1_1 openssl perl_5 postgresql qpl_1_0
  ssleay sun zlib open_source restricted unrestricted unknown);
my %is_a_key = map { $_ => 1 } qw(
  abstract license maintainer meta-spec name provides version description generated_by no_index
  prereqs release_status resources tags);

for my $key (qw(abstract license maintainer meta-spec name provides version))
{
	ok(defined $meta->{$key}, "META.json has $key");
}
is_deeply([ grep { !$is_a_key{$_} && !/^x_/i } sort keys %$meta ],
	[], 'META.json has no key that PGXN does not know');
is($meta->{'meta-spec'}{version}, '1.0.0', 'version of the specification');
ok($is_a_license{ $meta->{license} }, 'license');
like($meta->{release_status}, qr/^(?:stable|testing|unstable)$/, 'release status');
like($meta->{name}, qr{^[^\s/\\[:cntrl:]]{2,}$}, 'name');
is_deeply([ grep { length == 0 || length > 255 || m{[/\\[:cntrl:]]} } @{ $meta->{tags} } ],
	[], 'tags');
is($meta->{version}, $control, "META.json's version");

my $provided = $meta->{provides}{harmonia};
is($provided->{version}, $control, 'version of the extension that META.json provides');
is($provided->{file}, "sql/harmonia--$control.sql", 'its install script');
ok(-s $provided->{docfile}, 'its documentation');

is((found('CHANGELOG.md', qr/^## \[($version)\]/m))[0], $control, "CHANGELOG's newest version");
is((found('debian/changelog', qr/^harmonia \(($version)(?:-[^)]*)?\)/m))[0],
	$control, "debian/changelog's newest version");
is((found('packaging/harmonia.spec', qr/^Version: +($version)$/m))[0], $control, 'version of the RPM');
is((found('packaging/harmonia.spec', qr/^\* .* - ($version)-\d+$/m))[0], $control, "the RPM's changelog");

# Nothing is called released in one place and not in another.
my ($state) = found('CHANGELOG.md', qr/^## \[$version\] - (.*)$/m);
my ($distribution) = found('debian/changelog', qr/^harmonia \(\S+\) (\w+);/m);
like($state, qr/^(?:unreleased|\d{4}-\d\d-\d\d)$/, "CHANGELOG's newest version has a date, or is not released");
is($distribution eq 'UNRELEASED', $state eq 'unreleased', 'debian/changelog says the same');
my ($mail) = found('debian/control', qr/^Maintainer: .* <(\S+)>$/m);
is_deeply([ grep { $_ ne $mail } found('debian/changelog', qr/^ -- .* <(\S+)>/m), found('packaging/harmonia.spec', qr/^\* .* <(\S+)>/m) ],
	[], 'there is one maintainer');

# PostgreSQL versions: src/compat.h decides.
my ($first, $after) =
  found('src/compat.h', qr/PG_VERSION_NUM < (\d+)0000 \|\| PG_VERSION_NUM >= (\d+)0000$/m);
my @supported = ($first .. $after - 1);
cmp_ok(scalar @supported, '>', 1, "compat.h supports PostgreSQL @supported");
is_deeply([ found('debian/pgversions', qr/^(\d+)$/m) ], \@supported, 'debian/pgversions');
is_deeply([ split /, /, (found('.github/workflows/ci.yml', qr/^ +postgres: \[(.*)\]$/m))[0] ],
	\@supported, 'workflow');
is_deeply(
	[ map { $meta->{prereqs}{$_}{requires}{PostgreSQL} } qw(build runtime) ],
	[ ("$first.0.0") x 2 ],
	"META.json's prerequisites");
is((found('README.md', qr/^Works with PostgreSQL (\d+ to \d+)\./m))[0],
	"$first to $supported[-1]", 'README');

# When packages are built their names are made from those versions.
my $packages = slurp('debian/control.in');
$packages =~ s/PGVERSION/$first/g;
is(slurp('debian/control'), $packages, 'debian/control is made from control.in');

# What installs packages in another way than users do hides what is missing for these.
unlike(slurp($_), qr/apt-get\s+(?:\S+\s+)*install/, "$_ leaves packages to tools/setup.sh")
  for '.ci/run', '.github/workflows/ci.yml', 'Dockerfile';

# Some headers of the server include those of libraries whose development packages need not be there.
is_deeply([ map { chomp; $_ } `grep -lrE 'include "(utils/pg_locale|libpq/libpq-be|jit/llvmjit|utils/xml)[.]h"' --include=*.[ch] src` ],
	['src/compat.h'], 'sources need no headers but the server\'s');

done_testing();
