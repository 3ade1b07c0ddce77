# What the environment may have for private servers: variables of libpq, CDPATH, umask, folders for
# temporary files, checkouts that cannot be written to. Each works, or is complained of in one
# line before anything is built.

use strict;
use warnings;

use Cwd qw(getcwd);
use File::Temp qw(tempdir);
use Test::More;

my $is_root = $> == 0;
my $checkout = getcwd();
# Open to all, as folders for temporary files are.
my $folder = tempdir('setupXXXX', DIR => '/tmp', CLEANUP => 1);
chmod 01777, $folder;

# Runs a command of the shell in the checkout; returns its status and output.
sub run
{
	my ($command) = @_;
	my $output = `cd '$checkout' && { $command\n} 2>&1 </dev/null`;
	return ($? >> 8, $output);
}

# Prints the folder that scripts make for their servers, and what stands before that.
my $make_folder = "bash -c '. tools/common.sh; check_environment; make_private_dir'";

# Starts a server, with what a command prints as its programs, and asks it something.
sub ask
{
	my ($programs, @statements) = @_;
	my $statements = join ' ', map { qq(-c "$_") } @statements;
	return <<"END";
bash -c '. tools/common.sh; check_environment; dir=\$(make_private_dir)
	settings=\$(tools/private-server.sh start "\$dir" $programs)
	eval "\$settings"
	psql -X -At $statements
	tools/private-server.sh stop "\$dir" && rm -rf "\$dir"'
END
}
my $ask_server = ask('', 'SELECT 1 + 41, current_user');
my $ask_extension = ask('$(tools/private-install.sh "$dir/install")',
	'CREATE EXTENSION harmonia', 'SELECT amname FROM pg_am WHERE oid > 16000');

# Whether a command in an environment works; what it says is to match all patterns.
sub works
{
	my ($name, $command, @patterns) = @_;
	my ($status, $output) = run($command);
	my $ok = $status == 0 && !grep { $output !~ $_ } @patterns;
	ok($ok, $name) or diag("exit status $status, output:\n$output");
	return;
}

sub complains
{
	my ($name, $command, $pattern) = @_;
	my ($status, $output) = run($command);
	ok($status != 0 && $output =~ /\A[^\n]*\n\z/ && $output =~ $pattern, $name)
	  or diag("exit status $status, output:\n$output");
	return;
}

# A folder for temporary files is passed over, in a line that says why.
sub passed_over
{
	my ($name, $tmpdir, $why, $in) = @_;
	my ($status, $output) = run(($in // '') . "env TMPDIR='$tmpdir' $make_folder");
	ok( $status == 0
		  && $output =~ m{\ATemporary files go to /tmp: \Q$tmpdir\E $why\n(/tmp/harmonia\.\w+)\n\z},
		"TMPDIR $name") or diag("exit status $status, output:\n$output");
	rmdir $1 if defined $1;
	return;
}

# A command with a prefix that mounts, which its own process alone sees.
sub with_mounts
{
	my (@mounts) = @_;
	return "unshare --mount sh -c '" . join('', map { "$_ && " } @mounts) . 'exec "$@"\' sh ';
}

sub remount
{
	my ($dir, $option) = @_;
	return ("mount --bind $dir $dir", "mount -o remount,bind,$option $dir");
}

my $answer = qr/^42\|postgres$/m;
works('nothing odd', $ask_server, $answer);

# libpq knows of these, and some of them would be obeyed by servers and tests, too.
works(
	'variables of libpq',
	'env PGHOST=nowhere PGHOSTADDR=127.0.0.1 PGPORT=1 PGUSER=nobody PGDATABASE=none PGDATA=/none'
	  . ' PGOPTIONS="-c none=1" PGSERVICE=none PGTARGETSESSIONATTRS=read-only PGSSLMODE=require'
	  . ' PGREQUIREPEER=nobody PGCHANNELBINDING=require PGCTLTIMEOUT=0 PGCLIENTENCODING=none '
	  . $ask_server,
	$answer);
works('languages', 'env LC_ALL=tr_TR.UTF-8 LC_MESSAGES=de_DE.UTF-8 LANGUAGE=de ' . $ask_server, $answer);
works('PG_CONFIG stays', "env PG_CONFIG=/none bash -c '. tools/common.sh; echo \$PG_CONFIG'", qr{^/none$});
works('CDPATH', "env CDPATH='$checkout' bash -c '. tools/common.sh && echo \"\$root\"'", qr{\A\Q$checkout\E\n\z});
works("umask $_", "umask $_; $ask_extension", qr/^harmonia$/m) for qw(027 077);
works(
	'the shell that asks for a server is led to no other',
	'export PGTARGETSESSIONATTRS=read-only; export PGPORT=1; ' . <<'END', qr/^\|5432$/m);
bash -c '. tools/common.sh; make_private_dir' >"${folder:=$(mktemp)}"; dir=$(cat "$folder")
	eval "$(tools/private-server.sh start "$dir")"; echo "${PGTARGETSESSIONATTRS:-}|$PGPORT"
	tools/private-server.sh stop "$dir"; rm -rf "$dir" "$folder"
END

passed_over('missing', "$folder/none", 'is not there');
passed_over('relative', 'tmp', 'is not an absolute path');
my $long = "$folder/" . 'x' x 60;
my $spaced = "$folder/with space";
mkdir $_, 01777 for $long, $spaced;
passed_over('too long', $long, 'is too long for paths of sockets');
passed_over('with a space', $spaced, 'has a space .*');

SKIP:
{
	skip 'these need root', 7 if !$is_root;

	mkdir "$folder/closed", 0700;
	mkdir "$folder/closed/tmp", 01777;
	chmod 01777, "$folder/closed/tmp";
	passed_over('under a closed folder', "$folder/closed/tmp", 'cannot be written to by \w+, the user of the server');

	mkdir "$folder/noexec", 01777;
	chmod 01777, "$folder/noexec";
	passed_over('noexec', "$folder/noexec", 'does not let programs run.*',
		with_mounts(remount("$folder/noexec", 'noexec')));
	complains(
		'no folder of use',
		with_mounts(map { remount($_, 'noexec') } qw(/tmp /var/tmp)) . $make_folder,
		qr{^error: /tmp does not let programs run .* as TMPDIR$});

	my $closed = qr/^error: \Q$checkout\E\S* cannot be written to by \w+: copy the checkout/;
	my $read_only = with_mounts(remount($checkout, 'ro'), "cd $checkout");
	complains("read-only checkout, $_", "$read_only $_", $closed) for "tools/check.sh unit", "tools/demo.sh";
	complains('read-only checkout, make',
		"$read_only make -s COPT=-DNONE 2>&1 | grep -v ^make; false", qr/Read-only file system$/);

	skip 'the checkout is closed to others', 1
	  if system("runuser -u nobody -- test -r $checkout/tools/check.sh") != 0;
	complains("another user's checkout", 'runuser -u nobody -- tools/check.sh unit', $closed);
}

works('nothing is left in the root folder', 'test ! -e /install');

done_testing();
