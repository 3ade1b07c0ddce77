# A crash while the file is extended leaves blocks that are in no WAL record.  VACUUM finds
# them.  A replica must have them too before they are used.
use strict;
use warnings;

use Harmonia;
use PostgreSQL::Test::Utils;
use Test::More;

my $primary = new_node('primary', allows_streaming => 1);

$primary->safe_psql('postgres', <<'END');
CREATE TABLE t (k int);
CREATE INDEX t_k ON t USING harmonia (k);
INSERT INTO t SELECT i FROM generate_series(1, 1000) i;
END
$primary->backup('backup');

my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'backup', has_streaming => 1);
$standby->start;

my $size = "SELECT pg_relation_size('t_k') / current_setting('block_size')::int";
my $blocks = $primary->safe_psql('postgres', $size);

# What smgrextend() has done when the server dies before they are logged.
sub extend_half
{
	my $file = $primary->data_dir . '/'
	  . $primary->safe_psql('postgres', "SELECT pg_relation_filepath('t_k')");

	$primary->stop;
	open my $handle, '>>:raw', $file or die "could not open $file: $!";
	print $handle "\0" x (8192 * 20);
	close $handle;
	$primary->start;
	is($primary->safe_psql('postgres', $size), $blocks + 20, 'the file is longer');
	return;
}

# VACUUM gives them back, and logs nothing for which recovery would need them.
extend_half();
my $start = $primary->safe_psql('postgres', 'SELECT pg_current_wal_lsn()');
$primary->safe_psql('postgres', 'VACUUM t');
is($primary->safe_psql('postgres', $size), $blocks, 'VACUUM truncates the file');
my $end = $primary->safe_psql('postgres', 'SELECT pg_current_wal_flush_lsn()');
my ($records, $problem) = run_command(
	[ 'pg_waldump', '-p', $primary->data_dir . '/pg_wal', '-s', $start, '-e', $end ]);
is($problem, '', 'WAL can be read');
like($records, qr/TRUNCATE/, 'the truncation is logged');
my ($file) = $records =~ qr{TRUNCATE base/\d+/(\d+) to $blocks blocks};
my $last = $blocks + 19;
unlike($records, qr{rel \d+/\d+/$file blk $last\b}, 'the last block is not');

extend_half();

# It cannot if somebody has the index locked.
my $reader = start_psql($primary, "BEGIN;\nSELECT FROM t LIMIT 1;\nSELECT pg_sleep(600);");
$primary->poll_query_until('postgres', <<'END') or die 'the index was not locked';
SELECT count(*) > 0 FROM pg_locks WHERE relation = 't_k'::regclass AND granted AND pid <> pg_backend_pid()
END
$primary->safe_psql('postgres', 'VACUUM t');
cmp_ok($primary->safe_psql('postgres', "SELECT free_pages FROM harmonia_index_info('t_k')"),
	'>=', 20, 'VACUUM has found the blocks');
$primary->wait_for_catchup($standby);
my $complete =
  is($standby->safe_psql('postgres', $size), $blocks + 20, 'the replica has them too');

# Use blocks from the list and beyond it, on the promoted replica.  If it lacked them, a
# block would be given away twice, and a backend would wait for itself.
$primary->stop;
finish($reader);
unless ($complete)
{
	$standby->stop;
	done_testing();
	exit;
}
$standby->promote;
$standby->safe_psql('postgres', <<'END');
INSERT INTO t SELECT hashint4(i) FROM generate_series(1, 50000) i;
CHECKPOINT;
INSERT INTO t SELECT hashint4(i) FROM generate_series(50001, 100000) i;
END
check_index($standby, 't_k', 'the replica uses them');

$standby->stop;
done_testing();
