# From 0.1.0 with data: the new library is put under a server whose indexes the old one has built.
# Both are built here, the old one from the repository's history.

use strict;
use warnings;

use Cwd qw(getcwd);
use File::Temp qw(tempdir);
use Test::More;

# The last commit of version 0.1.0, which never was released and so has no tag.
my $old = 'cbdc243ecab5dc5b1c676608ef471bb927f5ee17';
my $new = getcwd();

plan skip_all => 'no history'
  if system("git cat-file -e $old 2>/dev/null") != 0;

my $folder = tempdir(CLEANUP => 1);
my $server = "$folder/server";
chmod 0755, $folder;
mkdir "$folder/$_" for qw(old server);

# What a command prints.
sub output_of
{
	my ($command) = @_;
	my $output = qx{$command};
	die "failed: $command" if $? != 0;
	chomp $output;
	return $output;
}

sub start
{
	my ($bindir) = @_;
	return output_of("$new/tools/private-server.sh start $server $bindir");
}

sub stop
{
	output_of("$new/tools/private-server.sh stop $server");
	return;
}

# What statements print, errors included.
sub psql
{
	my ($settings, $statements) = @_;
	open my $file, '>', "$folder/statements.sql" or die "could not write statements: $!";
	print $file $statements;
	close $file;
	my $output = qx{$settings; psql -X -q -t -A -f $folder/statements.sql 2>&1};
	$output =~ s/^psql:\S+ //gm;
	return $output;
}

output_of("git archive $old | tar -C $folder/old -xf -");
my $old_bindir = output_of("$folder/old/tools/private-install.sh $folder/old-install");
my $new_bindir = output_of("$new/tools/private-install.sh $folder/new-install");

my $settings = start($old_bindir);
is(psql($settings, <<'END_OF_STATEMENTS'), '', 'tables and indexes are made by 0.1.0');
CREATE EXTENSION harmonia;
CREATE TABLE t (k bigint, at timestamptz, v int);
INSERT INTO t SELECT i * 7919 % 100003, timestamptz '2026-01-01' + i * interval '1 second', i FROM generate_series(1, 100000) i;
CREATE INDEX t_k ON t USING harmonia (k);
CREATE INDEX t_at ON t USING harmonia (at);
CREATE UNLOGGED TABLE u (k int);
CREATE INDEX u_k ON u USING harmonia (k);
INSERT INTO u VALUES (1), (2), (NULL);
END_OF_STATEMENTS
stop();

$settings = start($new_bindir);
my $refused = qr/^ERROR:  index "t_k" .*\n(?:DETAIL: .*\n)?HINT:  .*REINDEX/m;
like(psql($settings, "SET enable_seqscan = off;\nSELECT count(*) FROM t WHERE k = 5;\n"), $refused, 'queries are refused');
like(psql($settings, "INSERT INTO t VALUES (1);\n"), $refused, 'so are insertions');
is(psql($settings, "SET enable_indexscan = off; SET enable_bitmapscan = off;\nSELECT count(*) FROM t;\n"),
	"100000\n", 'the table can be read without the index');
is(psql($settings, "ALTER EXTENSION harmonia UPDATE;\nSELECT extversion FROM pg_extension WHERE extname = 'harmonia';\n"),
	output_of("sed -n \"s/^default_version = '\\(.*\\)'/\\1/p\" $new/harmonia.control") . "\n", 'the extension is updated');
is(psql($settings, "REINDEX INDEX CONCURRENTLY t_k;\nREINDEX TABLE t;\nREINDEX TABLE u;\n"), '', 'indexes are made again');
is(psql($settings, <<'END_OF_STATEMENTS'), "t\nt\nt\n1\n1\n0\n", 'and hold what they did');
SELECT harmonia_check(i, true) IS NOT NULL FROM unnest('{t_k,t_at,u_k}'::regclass[]) i;
SET enable_seqscan = off;
SELECT count(*) FROM t WHERE k = 5;
SELECT count(*) FROM t WHERE at = '2026-01-01 00:00:05+00';
SELECT count(*) FROM pg_opclass WHERE opcname = 'text_ops' AND opcmethod = (SELECT oid FROM pg_am WHERE amname = 'harmonia')
	AND NOT EXISTS (SELECT FROM pg_depend WHERE objid = pg_opclass.oid AND deptype = 'e');
END_OF_STATEMENTS
is(psql($settings, <<'END_OF_STATEMENTS'), "1\n", 'what 0.2.0 has added is there');
CREATE TABLE names (name text);
INSERT INTO names SELECT 'n' || i FROM generate_series(1, 1000) i;
CREATE INDEX ON names USING harmonia (name);
SET enable_seqscan = off;
SELECT count(*) FROM names WHERE name = 'n77';
END_OF_STATEMENTS
stop();

done_testing();
