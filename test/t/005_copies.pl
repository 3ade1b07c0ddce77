# Copies of a cluster or a database have indexes that answer right: a base backup under
# load, databases copied from a template, dump and restore, pg_upgrade.  All have page
# checksums.
use strict;
use warnings;

use Harmonia;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $seed = test_seed();
my $node = new_node('original', allows_streaming => 1, extra => ['--data-checksums'],
	conf => "wal_keep_size = 4GB\n");
my $directory = $node->basedir;
my @random = "--random-seed=$seed";

make_load($node);
make_pairs($node);

# ----------------------------------------------------------------
# Base backup
# ----------------------------------------------------------------

my $load = start_load($node, '-c', 3, '-T', 600, @random);
my $writers = write_pairs($node, '-c', 2, '-T', 600, @random);

# pg_basebackup verifies the checksums of pages that it reads.
wait_for_work($node);
$node->backup('backup');
$_->{run}->signal('TERM') for ($load, $writers);
finish($_) for ($load, $writers);

my $copy = PostgreSQL::Test::Cluster->new('copy');

$copy->init_from_backup($node, 'backup');
$copy->start;
check_all_indexes($copy, 'of the backup');
no_errors(start_load($copy, '-c', 2, '-t', 50, @random), 'load on it');
check_all_indexes($copy, 'of the backup, written to');
$copy->stop;
command_ok([ 'pg_checksums', '--check', '-D', $copy->data_dir ], 'checksums of the backup');

# ----------------------------------------------------------------
# Databases
# ----------------------------------------------------------------

for my $strategy ('wal_log', 'file_copy')
{
	$node->safe_psql('template1', "CREATE DATABASE $strategy TEMPLATE postgres STRATEGY $strategy");
	$node->safe_psql($strategy, 'UPDATE load SET k = k - 1 WHERE k < 100');
}
crash_node($node);
$node->start;
for my $database ('wal_log', 'file_copy')
{
	is(index_problem($node, $_, $database), '', "$_ of a database made by $database")
	  for ('load_k', 'load_w', 'load_f', 'load_tenant', 'load_text', 'pairs_k', 'pairs_two', 'pairs_g');
}

# Another tablespace: the file is copied block by block.
my $tablespace = "$directory/tablespace";

mkdir $tablespace or die "could not create $tablespace: $!";
$node->safe_psql('postgres', "CREATE TABLESPACE elsewhere LOCATION '$tablespace'");
$node->safe_psql('postgres', "ALTER INDEX $_ SET TABLESPACE elsewhere") for ('load_k', 'load_w', 'load_tenant', 'pairs_k');
crash_node($node);
$node->start;
check_all_indexes($node, 'in another tablespace');
$node->safe_psql('postgres', "ALTER INDEX $_ SET TABLESPACE pg_default") for ('load_k', 'load_w', 'load_tenant', 'pairs_k');
$node->safe_psql('postgres', 'DROP TABLESPACE elsewhere');

# ----------------------------------------------------------------
# Dump
# ----------------------------------------------------------------

$node->safe_psql('template1', 'CREATE DATABASE restored');
$node->command_ok([ 'pg_dump', '-Fc', '-f', "$directory/dump", '-d', 'postgres' ], 'pg_dump');
$node->command_ok([ 'pg_restore', '-j', 2, '-d', 'restored', "$directory/dump" ], 'pg_restore');
is(index_problem($node, $_, 'restored'), '', "$_ restored")
  for ('load_k', 'load_w', 'load_f', 'load_tenant', 'load_text', 'pairs_k', 'pairs_two');

my $definitions = "SELECT string_agg(pg_get_indexdef(indexrelid), E'\\n' ORDER BY indexrelid::regclass::text) FROM pg_index"
  . " WHERE indrelid IN ('load'::regclass, 'pairs'::regclass)";
is( $node->safe_psql('restored', $definitions),
	$node->safe_psql('postgres', $definitions), 'definitions of restored indexes');
$node->safe_psql('template1', "DROP DATABASE $_") for ('restored', 'wal_log', 'file_copy');

# ----------------------------------------------------------------
# pg_upgrade, to the same version
# ----------------------------------------------------------------

my $new = PostgreSQL::Test::Cluster->new('upgraded');
my $programs = $node->config_data('--bindir');

$new->init(extra => ['--data-checksums']);
$node->stop;
command_ok([ 'pg_checksums', '--check', '-D', $node->data_dir ], 'checksums of the original');
chdir $directory;
command_ok(
	[
		'pg_upgrade', '--no-sync', '-d', $node->data_dir, '-D', $new->data_dir,
		'-b', $programs, '-B', $programs, '-s', $node->host, '-p', $node->port, '-P', $new->port
	],
	'pg_upgrade');
$new->start;
check_all_indexes($new, 'after pg_upgrade');
no_errors(write_pairs($new, '-c', 2, '-t', 50, @random), 'writers on it');
check_all_indexes($new, 'written to after pg_upgrade');

$new->stop;
done_testing();
