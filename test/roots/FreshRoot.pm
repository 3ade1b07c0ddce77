# Roots of newly installed Debian systems to try set-up in.
#
#	my $root = FreshRoot->new('trixie', 'postgresql-17 alone');
#	$root->run('apt-get install -y postgresql-17');
#	my ($status, $output) = $root->make('demo', SCALE => 1);
#
# Each is an overlay over a base that debootstrap makes once, and is removed with the object.
# Commands run in namespaces of their own, so that no server outlives them.  ROOTS names a folder
# where bases and packages are kept for the next time; LOGS one for the output of all commands.

package FreshRoot;

use strict;
use warnings;

use File::Path qw(make_path);
use File::Temp qw(tempdir);
use Test::More;

my $folder;
my %bases;
my $number = 0;

# Debian's mirror by apt's configuration, or undef.
sub mirror
{
	my ($uri) = grep { defined } map { /^(\S+) Debian Debian$/ ? $1 : undef }
	  `apt-get indextargets --format '\$(REPO_URI) \$(ORIGIN) \$(LABEL)' 'Created-By: Packages' 2>&1`;
	return $uri;
}

# Why there can be no roots here, or undef.
sub trouble
{
	return 'only root can make roots of systems' if $> != 0;
	return 'there is no debootstrap' if system('command -v debootstrap >/dev/null') != 0;
	return "apt's configuration names no mirror of Debian" if !defined mirror();
	my $trial = tempdir(CLEANUP => 1);
	mkdir "$trial/$_" for qw(lower upper work merged);
	return 'overlays cannot be mounted'
	  if system("unshare --mount --pid --fork mount -t overlay overlay -o "
		  . "lowerdir=$trial/lower,upperdir=$trial/upper,workdir=$trial/work $trial/merged") != 0;
	return;
}

# The base of a release, with the packages that tests want in all of its roots; dies if it
# cannot be had.
sub base
{
	my ($release) = @_;
	return $bases{$release} if $bases{$release};
	$folder //= $ENV{ROOTS} // tempdir(CLEANUP => 1, DIR => '/var/tmp');
	my $base = "$folder/$release";
	make_path("$folder/packages-$release/partial");
	if (!-e "$base.made")
	{
		system('rm', '-rf', $base);
		system("debootstrap --variant=minbase --include=make $release $base "
			  . mirror() . " >$base.log 2>&1") == 0
		  or die "debootstrap failed; its end:\n" . `tail -n 3 $base.log`;
		system("apt-config dump | grep -i '^Acquire::.*Proxy' >$base/etc/apt/apt.conf.d/99proxy");
		system("echo force-unsafe-io >$base/etc/dpkg/dpkg.cfg.d/unsafe-io");
		# Roots share the folder of packages; one lock there is enough to stop another test.
		system("echo 'Debug::NoLocking true;' >$base/etc/apt/apt.conf.d/99no-locking");
		system("touch $base.made");
	}
	return $bases{$release} = $base;
}

sub new
{
	my ($class, $release, $name) = @_;
	my $base = base($release);
	my $self = bless { release => $release, name => $name }, $class;
	$self->{dir} = tempdir(DIR => $folder, CLEANUP => 0);
	mkdir "$self->{dir}/$_" for qw(upper work merged);
	$self->{overlay} = "lowerdir=$base,upperdir=$self->{dir}/upper,workdir=$self->{dir}/work";
	if ($ENV{LOGS})
	{
		make_path($ENV{LOGS});
		($self->{log} = "$release $name") =~ s/[^A-Za-z0-9.+]+/-/g;
		$self->{log} = "$ENV{LOGS}/$self->{log}.log";
		unlink $self->{log};
	}
	$self->run('true');    # makes the folders that follow
	my $checkout = "$self->{dir}/upper/harmonia";
	make_path($checkout);
	system("tar -C . --exclude-vcs --exclude=.private --exclude='*.[od]' --exclude='*.bc' "
		  . "--exclude='*.so' --exclude=./cuda/build --exclude=.build-flags "
		  . "--exclude=./test/unit/test_tree -cf - . | tar -C $checkout --no-same-owner -xf -") == 0
	  or die 'could not copy the checkout';
	return $self;
}

# Runs a command of the shell in the root; returns its status and output.
sub run
{
	my ($self, $command) = @_;
	my $merged = "$self->{dir}/merged";
	$number++;
	my $script = "$self->{dir}/script";
	open my $out, '>', $script or die "could not write $script: $!";
	print $out <<"END";
set -e
mount -t overlay overlay -o $self->{overlay} $merged
mount --rbind /dev $merged/dev
mount -t proc proc $merged/proc
mount --bind $folder/packages-$self->{release} $merged/var/cache/apt/archives
cp -L /etc/resolv.conf $merged/etc/resolv.conf
exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \\
	HOME=/root DEBIAN_FRONTEND=noninteractive chroot $merged sh -c "\$COMMAND"
END
	close $out;
	local $ENV{COMMAND} = $command;
	my $output =
	  `unshare --mount --pid --fork --kill-child --mount-proc sh $script 2>&1 </dev/null`;
	my $status = $? >> 8;
	if ($self->{log})
	{
		open my $log, '>>', $self->{log} or die "could not write $self->{log}: $!";
		print $log "\$ $command\n$output(exit status $status)\n";
		close $log;
	}
	return ($status, $output);
}

# Runs what must not fail, to prepare a state.
sub prepare
{
	my ($self, @commands) = @_;
	for my $command (@commands)
	{
		my ($status, $output) = $self->run($command);
		die "in $self->{release}, $self->{name}: $command failed:\n" . last_lines($output, 15)
		  if $status != 0;
	}
	return;
}

# A server of another release, whose packages stay known to apt if that is wanted.
sub prepare_from
{
	my ($self, $release, $packages, $keep) = @_;
	my $list = '/etc/apt/sources.list.d/other.list';
	$self->prepare('echo deb ' . mirror() . " $release main >$list",
		'apt-get update -q', "apt-get install -q -y --no-install-recommends $packages");
	$self->prepare("rm $list", 'apt-get update -q') if !$keep;
	return;
}

# What users say in the checkout; variables stand before the command.
sub command
{
	my ($self, $command) = @_;
	return $self->run("cd /harmonia && $command");
}

sub last_lines
{
	my ($text, $count) = @_;
	my @lines = split /^/, $text;
	splice @lines, 0, @lines - $count if @lines > $count;
	return join '', @lines;
}

sub DESTROY
{
	my ($self) = @_;
	system('rm', '-rf', $self->{dir}) if $self->{dir};
	return;
}

1;
