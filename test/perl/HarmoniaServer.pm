# Servers that tests start, crash and restart, and programs that run against them in
# the background.
package HarmoniaServer;

use strict;
use warnings;

use Exporter 'import';
use HarmoniaCheck;
use IPC::Run ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

our @EXPORT = qw(
  new_node prepare_database process_state crash_node crash_after write_file
  wait_for_restart start_psql start_pgbench finish no_errors wait_for_work
  early_removals
);

# Settings of all servers.  There are few buffers, so that pages are written and read
# back in all orders.  Plans that tests force cost so much that each of their statements would be compiled.
my $settings = <<'END';
fsync = off
jit = off
log_statement = none
log_min_messages = warning
autovacuum = off
shared_buffers = 4MB
max_connections = 20
max_wal_size = 256MB
END

# Numbers the files that psql reads.
my $sessions = 0;

# ----------------------------------------------------------------
# Servers
# ----------------------------------------------------------------

# A running server with the extension and the functions of HarmoniaCheck.
# Parameters: those of init(), and "conf" with more settings.
sub new_node
{
	my ($name, %params) = @_;
	my $conf = delete $params{conf} // '';
	my $node = PostgreSQL::Test::Cluster->new($name);

	# Where sessions are stopped in the middle of a step, a worker moves nothing beside them.
	my $alone = $INC{'FaultSessions.pm'} ? "harmonia.background_movement = off\n" : '';

	$node->init(%params);
	$node->append_conf('postgresql.conf', $settings . $alone . $conf);
	$node->start;
	prepare_database($node, 'postgres');
	return $node;
}

# Give a database the extension and these functions.
sub prepare_database
{
	my ($node, $database) = @_;

	$node->safe_psql($database, 'CREATE EXTENSION harmonia');
	$node->safe_psql($database, check_functions());
	return;
}

# How often entries of dead rows have left a harmonia index before VACUUM came, as far as the WAL that
# a server still has tells: their removal begins with a record of btree's, which says that a page is used again.
sub early_removals
{
	my ($node) = @_;
	my $wal = $node->data_dir . '/pg_wal';
	my ($first) = sort grep { /^[0-9A-F]{24}$/ } map { (split m{/})[-1] } glob "$wal/*";
	my %btree = map { $_ => 1 } split /\n/, $node->safe_psql('postgres',
		"SELECT pg_relation_filenode(c.oid) FROM pg_class c JOIN pg_am a ON a.oid = c.relam WHERE amname = 'btree'");
	my ($records) = run_command([ 'pg_waldump', '-p', $wal, '-r', 'Btree', $first,
			$node->safe_psql('postgres', 'SELECT pg_walfile_name(pg_current_wal_lsn())') ]);

	return scalar grep { !$btree{$_} } $records =~ m{REUSE_PAGE rel:? \d+/\d+/(\d+)}g;
}

# The process ids of a process's children that have not ended.
sub children_of
{
	my ($parent) = @_;
	my @children;

	for my $file (glob '/proc/[0-9]*/stat')
	{
		open my $stat, '<', $file or next;
		# The file has: pid (name) state ppid.  The name can hold any character.
		my ($pid, $state, $ppid) = (<$stat> // '') =~ /^(\d+) \(.*\) (\S) (\d+)/s or next;
		close $stat;
		push @children, $pid if $ppid == $parent && $state ne 'Z';
	}
	return @children;
}

# A process's state, as ps shows it; X if there is no such process.
sub process_state
{
	my ($pid) = @_;

	open my $stat, '<', "/proc/$pid/stat" or return 'X';
	return (<$stat> // '') =~ /\) (\S)/ ? $1 : 'X';
}

# Kill a server and all its processes at once, like a power failure.
sub crash_node
{
	my ($node) = @_;
	my $postmaster = (split /\n/, slurp_file($node->data_dir . '/postmaster.pid'))[0];

	# Stop the postmaster first, so that it starts no more children.  A child that
	# survives would go on writing: without postmaster.pid the next server does not
	# notice it.
	kill STOP => $postmaster;
	usleep(1000) until process_state($postmaster) =~ /[TZX]/;

	# Kill the postmaster last, so that no child sees it die and exits in order.
	my @processes = (children_of($postmaster), $postmaster);
	kill KILL => @processes;
	for my $pid (@processes)
	{
		usleep(1000) until process_state($pid) =~ /[ZX]/;
	}

	# Until init has reaped the postmaster it seems to run.
	unlink $node->data_dir . '/postmaster.pid', $node->host . '/.s.PGSQL.' . $node->port . '.lock';

	# Older versions of the class have no method for this: forget the process.
	delete $node->{_pid};
	return;
}

# Wait until a server is up again after a backend's crash.  Its log was so long before that.
sub wait_for_restart
{
	my ($node, $log_offset) = @_;
	my $deadline = time + $PostgreSQL::Test::Utils::timeout_default;

	until (slurp_file($node->logfile, $log_offset) =~ /ready to accept connections/)
	{
		die 'the server did not come back' if time > $deadline;
		usleep(20_000);
	}
	return;
}

# Crash after some seconds.
sub crash_after
{
	my ($node, $seconds) = @_;

	usleep($seconds * 1_000_000);
	return crash_node($node);
}

# ----------------------------------------------------------------
# Programs in the background
# ----------------------------------------------------------------

# Write a file into the node's directory; returns its path.
sub write_file
{
	my ($node, $name, $content) = @_;
	my $path = $node->basedir . "/$name";

	open my $file, '>', $path or die "could not create $path: $!";
	print $file $content;
	close $file;
	return $path;
}

# Start a program in the background.  Its sessions have the application name "work".
sub start_program
{
	my ($node, @command) = @_;
	my $session = { out => '', err => '' };
	local $ENV{PGAPPNAME} = 'work';

	$session->{run} = IPC::Run::start(
		\@command, '<', \undef, '>', \$session->{out}, '2>', \$session->{err},
		IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default * 5));
	return $session;
}

# Start psql in the background with SQL from a string; it goes on after errors.
sub start_psql
{
	my ($node, $sql, $database) = @_;
	my $file = write_file($node, 'psql' . $sessions++ . '.sql', $sql);

	return start_program($node, 'psql', '-XAtq', '-d', $node->connstr($database // 'postgres'),
		'-f', $file);
}

# Start pgbench with scripts of our own: name => SQL; a name can end in @weight.
sub start_pgbench
{
	my ($node, $scripts, @options) = @_;
	my @files;

	for my $name (sort keys %$scripts)
	{
		my ($base, $weight) = split /@/, $name;
		push @files, '-f',
		  write_file($node, "pgbench_$base.sql", $scripts->{$name}) . '@' . ($weight // 1);
	}
	return start_program($node, 'pgbench', '-n', @options, @files, $node->connstr('postgres'));
}

# Wait until such a program ends; returns what it wrote to stderr.
sub finish
{
	my ($session) = @_;

	# The program may have lost its server, so its exit status does not matter.
	eval { $session->{run}->finish; 1 } or do {
		die $@ if $@ =~ /timeout/;
	};
	return $session->{err};
}

# Wait until the server works for such a program.
sub wait_for_work
{
	my ($node) = @_;

	return $node->poll_query_until('postgres',
		"SELECT count(*) > 0 FROM pg_stat_activity WHERE application_name = 'work' AND state = 'active'");
}

# A test: wait for a program in the background, which must have met no error.
sub no_errors
{
	my ($session, $name) = @_;
	my $errors = join "\n", grep { /ERROR|FATAL|PANIC|abort/ } split /\n/, finish($session);
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return is($errors, '', $name);
}

1;
