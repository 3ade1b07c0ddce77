# Set-up on newly installed systems: Debian 12 and 13 with nothing but make, with a server that
# has no headers, and with other servers beside.  STATES="trixie nothing" takes those whose names
# match, and COMMAND="make check" another command than the quick ones.

use strict;
use warnings;

use Test::More;
use FreshRoot;

my $trouble = FreshRoot::trouble();
plan skip_all => $trouble if defined $trouble;

# Each state: release, name, how it comes about, the major that is to be taken, the package that
# "make" is to name before, and what more is to be said.
my @states = (
	{
		release => 'bookworm',
		name => 'nothing',
		major => 15,
	},
	{
		release => 'trixie',
		name => 'nothing',
		major => 17,
	},
	{
		release => 'bookworm',
		name => 'server alone',
		install => 'gcc libc6-dev postgresql-15',
		major => 15,
		package => 'postgresql-server-dev-15',
	},
	{
		release => 'trixie',
		name => 'server alone',
		install => 'gcc libc6-dev postgresql-17',
		major => 17,
		package => 'postgresql-server-dev-17',
	},
	{
		release => 'bookworm',
		name => 'server and libpq-dev',
		install => 'gcc libc6-dev postgresql-15 libpq-dev',
		major => 15,
		package => 'postgresql-server-dev-15',
	},
	{
		release => 'bookworm',
		name => '13 beside, which is not supported',
		install => 'gcc libc6-dev postgresql-15',
		other => [ 'bullseye', 'postgresql-13' ],
		major => 15,
		package => 'postgresql-server-dev-15',
	},
	{
		release => 'trixie',
		name => '15 beside',
		install => 'gcc libc6-dev postgresql-17',
		other => [ 'bookworm', 'postgresql-15' ],
		major => 17,
		package => 'postgresql-server-dev-17',
	},
	{
		release => 'trixie',
		name => '15 alone, without its headers to be had',
		install => 'libpq-dev',
		other => [ 'bookworm', 'postgresql-15' ],
		major => 17,
		package => 'postgresql-17',
		says => qr/Taking PostgreSQL 17: apt has no headers for the server of PostgreSQL 15/,
	},
	{
		release => 'trixie',
		name => '15 alone, clients of 17',
		install => 'gcc libc6-dev libpq-dev postgresql-client-17',
		other => [ 'bookworm', 'postgresql-15', 'keep' ],
		major => 15,
		package => 'postgresql-server-dev-15',
		says => qr/Taking PostgreSQL 15: pg_config is of PostgreSQL 17, whose server is not installed/,
	},
	{
		release => 'trixie',
		name => '17 complete, 15 asked for',
		install => 'gcc libc6-dev postgresql-17 postgresql-server-dev-17',
		other => [ 'bookworm', 'libpq-dev', 'keep' ],
		variables => 'PG_CONFIG=/usr/lib/postgresql/15/bin/pg_config',
		major => 15,
		package => 'postgresql-server-dev-15',
	},);

sub prepare
{
	my ($state) = @_;
	my $root = FreshRoot->new($state->{release}, $state->{name});
	if ($state->{install})
	{
		$root->prepare('apt-get update -q',
			"apt-get install -q -y --no-install-recommends $state->{install}");
	}
	$root->prepare_from(@{ $state->{other} }) if $state->{other};
	# New images come without lists.
	$root->prepare('rm -rf /var/lib/apt/lists/*') if !$state->{install};
	return $root;
}

# "make" says in one line what is missing; "make demo" and "make check" install it.
sub try_commands
{
	my ($root, $state) = @_;
	my $variables = $state->{variables} // '';
	my ($status, $output);
	if ($state->{package})
	{
		($status, $output) = $root->command("make $variables");
		isnt($status, 0, 'make fails');
		like($output, qr/\A[^\n]*\b\Q$state->{package}\E\b[^\n]*\n\z/, 'in one line, which names the package');
	}
	($status, $output) = $root->command("$variables SCALE=1 CLIENTS=1 SECONDS_A_RUN=1 make demo");
	is($status, 0, 'make demo') or diag(FreshRoot::last_lines($output, 15));
	like($output, $state->{says}, 'what is taken, and why') if $state->{says};
	unlike($output, qr/ no  /i, 'all answers agree');
	($status, $output) =
	  $root->command("$variables REGRESS='build scan' tools/check.sh packaging unit regress");
	is($status, 0, 'tools/check.sh') or diag(FreshRoot::last_lines($output, 30));
	like($output, qr/^==> PostgreSQL $state->{major}\./m, "with PostgreSQL $state->{major}");
	return;
}

my $wanted = $ENV{STATES} // '';
for my $state (grep { "$_->{release} $_->{name}" =~ /$wanted/ } @states)
{
	subtest "$state->{release}, $state->{name}" => sub {
		my $root = prepare($state);
		if ($ENV{COMMAND})
		{
			my ($status, $output) = $root->command($ENV{COMMAND});
			is($status, 0, $ENV{COMMAND}) or diag(FreshRoot::last_lines($output, 30));
			return;
		}
		try_commands($root, $state);
	};
}

done_testing();
