# What make builds again: with another PostgreSQL, compiler or option everything, else nothing.

use strict;
use warnings;

use File::Temp qw(tempdir);
use Test::More;

my $pg_config = $ENV{PG_CONFIG} // 'pg_config';
my $folder = tempdir(CLEANUP => 1);

# A copy, because objects of the checkout are not to change.
system("tar -C . --exclude-vcs --exclude=.private --exclude='*.[od]' --exclude='*.bc' --exclude='*.so' "
	  . "--exclude=./cuda/build --exclude=.build-flags --exclude=./test/unit/test_tree -cf - . | tar -C $folder -xf -") == 0
  or die 'could not copy the checkout';
delete @ENV{qw(MAKEFLAGS MAKELEVEL MFLAGS WERROR CC CXX CFLAGS CXXFLAGS)};

# How often a call of make compiles, or with -n would compile.
sub compilations
{
	my ($arguments) = @_;
	my $output = `make -C $folder/$arguments 2>&1`;
	$? == 0 or diag("make -C $arguments failed:\n$output");
	# With -n, make also prints how it would note the flags.
	return scalar(() = $output =~ /^(?!printf)\S+ .*(?: -c |-o test_tree)/mg);
}

# Builds with one more argument each time, twice; the last of those for the same variable counts.
sub rebuilds
{
	my ($goal, @more) = @_;
	my $arguments = '';
	for my $more (@more)
	{
		$arguments .= " $more";
		my $name = "$goal$arguments" =~ s/\Q$folder\E\///gr;
		is(compilations("$goal$arguments"), 1, "make -C $name builds again");
		is(compilations("$goal$arguments"), 0, "make -C $name does so once");
	}
	return;
}

# Another PostgreSQL, by what its pg_config says of itself.
sub another_postgres
{
	my $pgxs = `$pg_config --pgxs`;
	my ($from) = $pgxs =~ m{^(.*/pgxs)/} or die "odd pgxs: $pgxs";
	system("cp -R $from $folder/pgxs") == 0 or die 'could not copy PGXS';
	system("sed -i 's/^VERSION = .*/VERSION = 99.1/' $folder/pgxs/src/Makefile.global");
	open my $out, '>', "$folder/pg_config" or die "could not write pg_config: $!";
	print $out <<"END";
#!/bin/sh
case \$1 in
	--pgxs) echo $folder/pgxs/src/makefiles/pgxs.mk ;;
	--version) echo PostgreSQL 99.1 ;;
	*) exec $pg_config "\$@" ;;
esac
END
	close $out;
	chmod 0755, "$folder/pg_config";
	return "$folder/pg_config";
}

my $other = another_postgres();
my @compilers = grep { system("command -v $_ >/dev/null 2>&1") == 0 } qw(clang gcc);

rebuilds(
	'. with_llvm=no src/harmonia.o',
	"PG_CONFIG=$pg_config", "PG_CONFIG=$other", (map { "CC=$_" } @compilers),
	qw(WERROR=1 PROFILE=-g1 SMALL_LIMITS=1 FAULT_POINTS=1));
rebuilds('test/engine harmonia_engine.o', "PG_CONFIG=$pg_config", "PG_CONFIG=$other", 'WERROR=1');
rebuilds('test/unit CFLAGS=-O0', '', "CC=$compilers[0]");
rebuilds('cuda NVCC= build/leaf.o', '', 'CFLAGS=-O1', map { "CC=$_" } @compilers);
rebuilds('cuda NVCC= build/psa.o', 'CXXFLAGS=-O1', 'CXX=c++');

# What is installed into a PostgreSQL has been built for it.  A few of the objects, of each kind, make
# a library, too, if nobody loads it.
my @objects = qw(src/harmonia.o src/am/scan/scan.o src/am/scan/scan_128.o src/tree/leaf.o);
my $install = ". with_llvm=no COPT=-O0 OBJS='@objects' -j2 install DESTDIR=$folder/installed";
is(compilations("$install PG_CONFIG=$pg_config"), scalar @objects, 'make install builds');
is(compilations("$install -n PG_CONFIG=$other"), scalar @objects, 'make install for another PostgreSQL builds all again');

done_testing();
