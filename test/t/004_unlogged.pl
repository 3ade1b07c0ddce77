# Indexes of unlogged tables.  A crash empties them, but they work.  A clean shutdown
# keeps them.  Once the table is logged they are like other indexes.
use strict;
use warnings;

use Harmonia;
use PostgreSQL::Test::Cluster;
use Test::More;

my $seed = test_seed();
my $node = new_node('unlogged', allows_streaming => 1);

make_load($node, 'UNLOGGED');
$node->backup('backup');

sub rows { return $_[0]->safe_psql('postgres', 'SELECT count(*) FROM load'); }

sub fill
{
	my ($on, $rows) = @_;

	$on->safe_psql('postgres',
		"INSERT INTO load (k, w, f) SELECT hashint4(i) % 100000, nullif(i % 1000, 7), -i FROM generate_series(1, $rows) i");
	return;
}

fill($node, 30000);
$node->restart;
is(rows($node), 30000, 'a clean shutdown keeps rows');
check_all_indexes($node, 'after a clean shutdown');

# The first round has entries on disk, the second does not.
for my $round (1, 2)
{
	my $load = start_load($node, '-c', 3, '-T', 600, "--random-seed=$seed");

	wait_for_work($node);
	$node->safe_psql('postgres', 'CHECKPOINT') if $round == 1;
	crash_after($node, 0.5);
	finish($load);
	$node->start;
	is(rows($node), 0, 'a crash empties the table');
	check_all_indexes($node, 'of the empty table');
	fill($node, 20000);
	$node->safe_psql('postgres', 'DELETE FROM load WHERE k < 0; VACUUM load');
	check_all_indexes($node, 'of the table filled again');
}

# A new file of the index has its own init fork.
$node->safe_psql('postgres', 'REINDEX TABLE load');
crash_node($node);
$node->start;
is(rows($node), 0, 'a crash after REINDEX empties the table');
fill($node, 1000);
check_all_indexes($node, 'after REINDEX');
$node->safe_psql('postgres', 'TRUNCATE load');
fill($node, 1000);
crash_node($node);
$node->start;
is(rows($node), 0, 'a crash after TRUNCATE empties the table');
fill($node, 1000);
check_all_indexes($node, 'after TRUNCATE');

# From unlogged to logged and back.
fill($node, 30000);
$node->safe_psql('postgres', 'ALTER TABLE load SET LOGGED');
fill($node, 100);
crash_node($node);
$node->start;
is(rows($node), 31100, 'rows of a logged table stay');
check_all_indexes($node, 'of a logged table');
$node->safe_psql('postgres', 'ALTER TABLE load SET UNLOGGED');
check_all_indexes($node, 'of a table unlogged again');
crash_node($node);
$node->start;
is(rows($node), 0, 'rows of a table unlogged again go');
check_all_indexes($node, 'of the empty table');

# A replica has no rows of it, also after promotion.
my $standby = PostgreSQL::Test::Cluster->new('standby');

fill($node, 1000);
$standby->init_from_backup($node, 'backup', has_streaming => 1);
$standby->start;
$node->wait_for_catchup($standby);

# At promotion PostgreSQL 15 reads an unlogged sequence's init fork from the file.  On a
# replica that fork is written only at a checkpoint.
$node->safe_psql('postgres', 'CHECKPOINT');
$node->wait_for_catchup($standby);
$standby->safe_psql('postgres', 'CHECKPOINT');

is($standby->safe_psql('postgres', "SELECT harmonia_check('load_k')"), '', 'a replica has nothing to check');
$standby->promote;
is(rows($standby), 0, 'a promoted replica has an empty table');
fill($standby, 20000);
check_all_indexes($standby, 'filled after the promotion');

$standby->stop;
$node->stop;
done_testing();
