# Runs all blocks of README.md and of the manual, in order, as a reader would from the top.
# Each must succeed, and print what the block after it shows:
#
#   ```sql      one psql session a page, one server and one database for all pages
#   ```sh       a shell of its own in the checkout, where sudo does nothing, DESTDIR is set, and
#               clients find that server
#   ```conf     goes into postgresql.conf; the server is restarted
#   ```python   ```java and ```javascript run if what they import is installed (tools/setup.sh drivers)
#   ```text     what the block before it prints: only widths may be others, and a line "..." stands
#               for any lines
#   ```text varies    the same where numbers and units depend on the machine, the time or the version
#
# A block of another kind, or one that neither runs nor is listed here, fails the test.

use strict;
use warnings;

use File::Path qw(make_path);
use File::Temp qw(tempdir);
use FindBin;
use IO::Socket::INET;
use IPC::Run ();
use Test::More;
use Time::HiRes qw(sleep);

use lib $FindBin::Bin;
use Pages;

# In the order in which they run; later pages use the tables of earlier ones.
my @pages = qw(README.md doc/MANUAL.md doc/CLIENTS.md doc/GPU.md doc/CITUS.md doc/PERFORMANCE.md CONTRIBUTING.md
  SECURITY.md packaging/README.md);

# First lines of the blocks of sh that cannot run here, and why.
my %not_run = (
	'sudo apt-get' => 'installs packages',
	'docker build' => 'needs Docker',
	'make check' => 'runs all this, too',
	'mkdir -p ~/rpmbuild' => 'needs a repository and rpmbuild',
	'java -cp' => 'names files of the reader; the program itself runs');

# Blocks that build take minutes on a busy machine.
my $seconds_a_block = $ENV{SECONDS_A_BLOCK} // 180;
my $readme_lines = 350;

# ----------------------------------------------------------------
# A place for all this
# ----------------------------------------------------------------
my $dir = tempdir('harmonia-docs.XXXXXX', TMPDIR => 1, CLEANUP => 1);
my $server = "$dir/server";
chomp(my $bindir = `pg_config --bindir`);
chomp(my $libdir = `pg_config --pkglibdir`);
my $has_daemon = -x "$libdir/harmonia_gpud";
my $driver = jdbc_driver();
my $python = $ENV{PYTHON} // 'python3';
my $psql;

mkdir $server or die "could not make $server: $!";
make_path("$dir/bin");
write_file("$dir/bin/sudo", "#!/bin/sh\nexec \"\$@\"\n");
chmod 0755, "$dir/bin/sudo";

delete @ENV{qw(MAKEFLAGS MAKELEVEL MFLAGS), grep { /^PG/ && $_ ne 'PG_CONFIG' } keys %ENV};
# make demo shall be quick, and make cuda do without CUDA.
@ENV{qw(SCALE CLIENTS SECONDS_A_RUN NVCC DESTDIR)} = (1, 1, 1, '', "$dir/installed");
# The server's own programs may lack the headers that builds need.
$ENV{PG_CONFIG} //= "$bindir/pg_config";
$ENV{PATH} = "$dir/bin:$bindir:$ENV{PATH}";

# Where clients find the server.  JDBC knows no sockets in the file system.
my %connection = (PGHOST => $server, PGPORT => free_port(), PGUSER => 'postgres', PGDATABASE => 'postgres');
my @server_settings = ('fsync=off', "port=$connection{PGPORT}");
push @server_settings, 'listen_addresses=127.0.0.1' if $driver;

sub write_file
{
	my ($file, $text) = @_;

	open my $out, '>', $file or die "could not write $file: $!";
	print $out $text;
	close $out or die "could not write $file: $!";
	return;
}

sub free_port
{
	my $socket = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 1) or die "no free port: $!";

	return $socket->sockport;
}

sub jdbc_driver
{
	return (grep { -e } $ENV{JDBC_DRIVER} // '/usr/share/java/postgresql.jar')[0];
}

# ----------------------------------------------------------------
# Running
# ----------------------------------------------------------------

# What a command prints, and whether it succeeded.
sub run
{
	my @command = @_;
	my $output = '';
	my $run = IPC::Run::start(\@command, '<', \'', '>&', \$output, IPC::Run::timeout($seconds_a_block));
	my $ok = eval { IPC::Run::finish($run) };

	if ($@)
	{
		$output .= $@;
		IPC::Run::kill_kill($run);
	}
	return ($output, $ok);
}

# The same for a client of the server.
sub run_client
{
	local %ENV = (%ENV, %connection);

	return run(@_);
}

sub start_server
{
	my ($output, $ok) =
	  run('tools/private-server.sh', 'start', $server, $bindir, map { ('-c', $_) } @server_settings);

	BAIL_OUT($output) unless $ok;
	return;
}

sub stop_server
{
	end_session();
	run('tools/private-server.sh', 'stop', $server) if -e "$server/data/postmaster.pid";
	return;
}

END
{
	my $status = $?;
	stop_server() if $server;
	$? = $status;
}

sub start_session
{
	local %ENV = (%ENV, %connection);

	$psql = { in => '', out => '', err => '' };
	$psql->{run} = IPC::Run::start([ 'psql', '-X', '-q' ],
		'<', \$psql->{in}, '>', \$psql->{out}, '2>', \$psql->{err},
		$psql->{timeout} = IPC::Run::timeout($seconds_a_block));
	return;
}

sub end_session
{
	return unless $psql;
	$psql->{in} .= "\\q\n";
	eval { IPC::Run::finish($psql->{run}) };
	undef $psql;
	return;
}

# What statements print, and whether none of them failed or warned.  Notices are welcome.
sub run_sql
{
	my ($text) = @_;
	my $end = 'end of block';
	my ($out, $err);

	start_session() unless $psql;
	$psql->{out} = $psql->{err} = '';
	$psql->{timeout}->start($seconds_a_block);
	# A statement with an open parenthesis would wait for more: \g has the server complain.
	$psql->{in} .= "$text\nSELECT 1 \\g /dev/null\n\\echo $end\n\\warn $end\n";
	eval {
		IPC::Run::pump($psql->{run}) until $psql->{out} =~ /^$end\n/m && $psql->{err} =~ /^$end\n/m;
		1;
	} or return ("$psql->{out}$psql->{err}$@", 0);
	($out, $err) = map { s/^$end\n//mr } @{$psql}{qw(out err)};
	return ("$out$err", $err !~ /^(?:WARNING|ERROR|FATAL|PANIC):/m);
}

# Without a GPU the host device stands in for it, and takes all batches.
sub run_conf
{
	my ($text) = @_;

	stop_server();
	open my $conf, '>>', "$server/data/postgresql.conf" or die "no postgresql.conf: $!";
	print $conf $text;
	close $conf;
	push @server_settings, 'harmonia.gpu=host', 'harmonia.force_device=on' if $text =~ /harmonia/;
	start_server();
	wait_for_device() if $text =~ /harmonia/;
	return ('', 1);
}

sub wait_for_device
{
	for (1 .. 300)
	{
		my ($state) = run_client('psql', '-X', '-A', '-t', '-c', 'SELECT state FROM harmonia_device()');
		return if $state eq "up\n";
		sleep 0.1;
	}
	BAIL_OUT('the device does not come up');
}

# As the others, with a reason if the program was not run.
sub run_python
{
	my ($text) = @_;
	my %modules = map { $_ => 1 } $text =~ /^(?:import|from) (\w+)/mg;

	for my $module (sort keys %modules)
	{
		my ($output, $ok) = run($python, '-c', "import $module");
		return ('', 1, "Python has no $module") unless $ok;
	}
	write_file("$dir/example.py", $text);
	return run_client($python, "$dir/example.py");
}

sub run_javascript
{
	my ($text) = @_;

	for my $module ($text =~ /\brequire\("(\w+)"\)/g)
	{
		my ($output, $ok) = eval { run('node', '-e', "require('$module')") };
		return ('', 1, "node has no $module") unless $ok;
	}
	write_file("$dir/example.js", $text);
	return run_client('node', "$dir/example.js");
}

sub run_java
{
	my ($text) = @_;

	return ('', 1, 'no JDBC driver') unless $driver;
	write_file("$dir/Example.java", $text);
	return run('java', '-cp', $driver, "$dir/Example.java",
		"jdbc:postgresql://127.0.0.1:$connection{PGPORT}/postgres?user=postgres");
}

my %runners = (
	sql => \&run_sql,
	sh => sub { run_client('bash', '-e', '-o', 'pipefail', '-c', $_[0]) },
	conf => \&run_conf,
	python => \&run_python,
	javascript => \&run_javascript,
	java => \&run_java);

# ----------------------------------------------------------------
# Tests
# ----------------------------------------------------------------

sub reason_not_to_run
{
	my ($block) = @_;

	return 'there is no harmonia_gpud: no C++ compiler?' if $block->{page} eq 'doc/GPU.md' && !$has_daemon;
	return 'needs Citus, and runs in test/t/050_citus.pl' if $block->{page} eq 'doc/CITUS.md';
	return 'for a cluster' if $block->{language} eq 'yaml';
	return undef if $block->{language} ne 'sh';
	for my $start (sort keys %not_run)
	{
		next if index($block->{text}, $start) != 0;
		$block->{listed} = $start;
		return $not_run{$start};
	}
	return undef;
}

# A statement without its semicolon would run with the next block.
sub is_complete
{
	my ($block) = @_;

	return 1 if $block->{language} ne 'sql';
	return ($block->{text} =~ s/--.*$//mgr) =~ /(?:;|^\s*\\.*|\\gx?)\s*\z/m;
}

# Runs a block; shown is the block with what the page says that it prints, or undef.
sub test_block
{
	my ($block, $shown) = @_;
	my $name = "$block->{page}:$block->{line}: $block->{language}";
	my $reason = reason_not_to_run($block);
	my ($output, $ok);

  SKIP:
	{
		skip "$name: $reason", 1 if $reason;
		return fail("$name: such blocks are not run") unless $runners{ $block->{language} };
		return fail("$name: a statement has no end") unless is_complete($block);
		($output, $ok, $reason) = $runners{ $block->{language} }->($block->{text});
		skip "$name: $reason", 1 if $reason;
		my $is_as_shown = $shown ? same_shape($shown->{text}, $output, $shown->{language} ne 'text') : $ok;
		ok($is_as_shown, $name) or diag($block->{text}, "printed:\n$output", $shown ? "shown:\n$shown->{text}" : '');
	}
	return;
}

sub test_page
{
	my ($page) = @_;
	my @blocks = blocks_of($page);
	my %listed;

	while (my $block = shift @blocks)
	{
		my $shown = @blocks && $blocks[0]{language} =~ /^text(?: varies)?$/ ? shift @blocks : undef;
		test_block($block, $shown);
		$listed{ $block->{listed} } = 1 if $block->{listed};
	}
	end_session();
	return keys %listed;
}

sub test_links
{
	my ($page) = @_;
	my ($folder) = $page =~ m{^(.*/)}s;
	my @broken;

	for my $link (links_of($page))
	{
		next if $link =~ /^https?:/;
		my ($file, $anchor) = split /#/, $link, 2;
		my $target = $file eq '' ? $page : ($folder // '') . $file;
		1 while $target =~ s{[^/]+/\.\./}{};
		push @broken, $link unless -e $target && (!defined $anchor || grep { $_ eq $anchor } anchors_of($target));
	}
	is_deeply(\@broken, [], "$page: links lead somewhere");
	return;
}

# A picture that no page shows is not kept.
sub test_pictures
{
	my %shown = map { m{(doc/)?(plots/.*)} ? ("doc/$2" => 1) : () } map { links_of($_) } @pages;

	is_deeply([ glob 'doc/plots/*' ], [ sort keys %shown ], 'pages show all pictures');
	return;
}

my $length = () = slurp('README.md') =~ /\n/g;
cmp_ok($length, '<=', $readme_lines, "README.md has at most $readme_lines lines");
test_links($_) for @pages;
test_pictures();

start_server();
my %listed = map { $_ => 1 } map { test_page($_) } @pages;
is_deeply([ sort keys %listed ], [ sort keys %not_run ], 'all that is listed as not run is there');

done_testing();
