# Which PostgreSQL tools/postgres.sh chooses, on made-up systems: programs that say what PostgreSQL's
# and apt's would.  test/roots tries some of these on real ones.

use strict;
use warnings;

use File::Path qw(make_path remove_tree);
use File::Temp qw(tempdir);
use Test::More;

my $folder = tempdir(CLEANUP => 1);

sub write_program
{
	my ($path, $text) = @_;
	make_path($path =~ s{/[^/]*$}{}r);
	open my $out, '>', $path or die "could not write $path: $!";
	print $out "#!/bin/sh\n$text";
	close $out;
	chmod 0755, $path;
	return;
}

sub write_pg_config
{
	my ($path, $major) = @_;
	write_program($path, <<"END");
case \$1 in
	--version) echo "PostgreSQL $major.1 (Debian)" ;;
	--bindir) echo $folder/home/$major/bin ;;
	--includedir-server) echo $folder/include/$major ;;
	*) echo $folder/none/none/none ;;
esac
END
	return;
}

# A system: majors of servers, those with headers, that of pg_config, and those that apt has.
sub make_system
{
	my (%system) = @_;
	remove_tree("$folder/$_") for qw(home include bin);
	for my $major (@{ $system{servers} // [] }, @{ $system{headers} // [] })
	{
		write_pg_config("$folder/home/$major/bin/pg_config", $major);
	}
	write_program("$folder/home/$_/bin/postgres", '') for @{ $system{servers} // [] };
	write_program("$folder/include/$_/postgres.h", '') for @{ $system{headers} // [] };
	write_pg_config("$folder/bin/pg_config", $system{pg_config}) if $system{pg_config};
	my $known = join '|', map { ("postgresql-$_", "postgresql-server-dev-$_") } @{ $system{apt} // [] };
	write_program("$folder/bin/apt-cache", <<"END");
case \$2 in
	${\($known || 'none')}) echo '  Candidate: 1.0' ;;
	*) echo '  Candidate: (none)' ;;
esac
END
	return;
}

# What is chosen there, and why.
sub choice
{
	my (%system) = @_;
	make_system(%system);
	my $lists = $system{no_lists} ? 'false' : 'true';
	local $ENV{PG_CONFIG} = $system{PG_CONFIG} // '';
	local $ENV{PATH} = "$folder/bin:/usr/bin:/bin";
	# The system's own pg_config is not to be found.
	my $without = $system{pg_config} ? '' : 'command() { [ "$2" != pg_config ] && builtin command "$@"; };';
	my $output = `bash -c '. tools/common.sh; debian_home=$folder/home; apt_has_lists() { $lists; }; $without
		find_pg_config; echo "\$major \$PG_CONFIG \$choice_note"' 2>&1`;
	return $output =~ s{\Q$folder\E/}{}gr;
}

sub chooses
{
	my ($name, $expected, %system) = @_;
	like(choice(%system), qr/\A$expected\n\z/, $name);
	return;
}

chooses('nothing installed: the newest that apt has', '17 home/17/bin/pg_config ', apt => [ 15, 17 ]);
chooses('nothing installed, no lists', '19 home/19/bin/pg_config ', no_lists => 1);
chooses('nothing at all', 'error: neither is a PostgreSQL installed .*', apt => [14]);
chooses('all is there', '15 bin/pg_config ', servers => [15], headers => [15], pg_config => 15, apt => [15]);
chooses('a server alone', '15 home/15/bin/pg_config ', servers => [15], apt => [ 15, 17 ]);
chooses('a server alone, no lists', '15 home/15/bin/pg_config ', servers => [15], no_lists => 1);
chooses('a server, and pg_config without headers',
	'15 bin/pg_config ', servers => [15], pg_config => 15, apt => [ 15, 17 ]);
chooses('two servers, the older with headers',
	'15 bin/pg_config ', servers => [ 15, 17 ], headers => [15], pg_config => 15, apt => [ 15, 17 ]);
chooses('two servers, the older with headers, and no pg_config',
	'15 home/15/bin/pg_config ', servers => [ 15, 17 ], headers => [15], apt => [ 15, 17 ]);
chooses('two servers without headers, none of them is that of pg_config',
	'17 home/17/bin/pg_config Taking PostgreSQL 17: pg_config is of PostgreSQL 18, whose server is not installed .*',
	servers => [ 15, 17 ], pg_config => 18, apt => [ 15, 17, 18 ]);
chooses('headers of another major than the server',
	'15 home/15/bin/pg_config Taking PostgreSQL 15: pg_config is of PostgreSQL 17, whose server is not installed .*',
	servers => [15], headers => [ 15, 17 ], pg_config => 17, apt => [ 15, 17 ]);
chooses('a newer server without headers',
	'15 home/15/bin/pg_config Taking PostgreSQL 15: pg_config is of PostgreSQL 17, whose headers are not installed .*',
	servers => [ 15, 17 ], headers => [15], pg_config => 17, apt => [ 15, 17 ]);
chooses('headers alone', '17 bin/pg_config ', headers => [17], pg_config => 17, apt => [17]);
chooses('libpq-dev alone', '17 home/17/bin/pg_config ', pg_config => 17, apt => [17]);
chooses('a server whose headers are not to be had',
	'17 home/17/bin/pg_config Taking PostgreSQL 17: apt has no headers for the server of PostgreSQL 15 .*',
	servers => [15], pg_config => 15, apt => [17]);
chooses('a server that is not supported', '17 home/17/bin/pg_config ', servers => [13], pg_config => 13, apt => [17]);
chooses('a package that is named', '16 home/16/bin/pg_config ',
	PG_CONFIG => "$folder/home/16/bin/pg_config", servers => [15], headers => [15], pg_config => 15);
chooses('an installation that is named', '15 home/15/bin/pg_config ',
	PG_CONFIG => "$folder/home/15/bin/pg_config", servers => [ 15, 17 ], headers => [ 15, 17 ], pg_config => 17);
chooses('one that is not supported', 'error: PG_CONFIG=\S+ is of PostgreSQL 14.1 .* 15 to 19',
	PG_CONFIG => "$folder/home/14/bin/pg_config", servers => [14]);
chooses('one that is not there', 'error: PG_CONFIG=/none/pg_config does not run; .*', PG_CONFIG => '/none/pg_config');

done_testing();
