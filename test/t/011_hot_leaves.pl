# Many sessions insert single rows into the same few leaves, while rows are deleted, and segments
# vacuumed, moved and joined.  Each snapshot sees the same rows through harmonia, through btree and
# in the heap, on a replica too.
use strict;
use warnings;

use Harmonia;
use PostgreSQL::Test::Cluster;
use Test::More;

my $primary = new_node('primary', allows_streaming => 1, conf => "shared_buffers = 32MB\nwal_keep_size = 4GB\n");
my @time = ('-T', $ENV{HARMONIA_SECONDS} // 10);

# Few entries fit a leaf with fillfactor 10, so that leaves are split often.
$primary->safe_psql('postgres', <<'END');
CREATE SEQUENCE ascending;
CREATE TABLE hot (k bigint, k2 bigint);
CREATE INDEX hot_k ON hot USING harmonia (k) WITH (fillfactor = 10);
CREATE INDEX hot_k2 ON hot (k2);
CREATE TABLE full_leaves (k int);
CREATE INDEX full_leaves_k ON full_leaves USING harmonia (k) WITH (fillfactor = 100);

-- Compare the last rows, in one snapshot.
CREATE FUNCTION compare_end(rows int) RETURNS void LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off AS $$
BEGIN
	PERFORM check_index.compare('the end',
		ARRAY(SELECT k2 FROM hot WHERE k2 IS NOT NULL ORDER BY k2 DESC LIMIT rows)::text,
		ARRAY(SELECT k FROM hot WHERE k IS NOT NULL ORDER BY k DESC LIMIT rows)::text);
END $$;
END
$primary->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'backup', has_streaming => 1);
$standby->append_conf('postgresql.conf', "hot_standby_feedback = on\nmax_standby_streaming_delay = 600s\n");
$standby->start;

sub insertion
{
	my ($key) = @_;

	return "\\set r random(1, 1000000000)\nINSERT INTO hot SELECT x, x FROM (SELECT $key x OFFSET 0) s;\n" x 20;
}

my $writers = start_pgbench($primary, {
		'ascending@20' => insertion("nextval('ascending')"),
		'nearly@10' => insertion("nextval('ascending') - :r::bigint % 100"),
		'sequences@10' => insertion("(:r::bigint % 8 - 4) * 1000000000 + nextval('ascending')"),
		'jumps@1' => insertion("(1::bigint << (:r::bigint % 62)::int) + nextval('ascending')"),
		'duplicates@10' => insertion(':r::bigint % 3 - 5'),
		'nulls@1' => insertion('NULL::bigint'),
		'full@5' => "INSERT INTO full_leaves VALUES (nextval('ascending'));\n" x 20,
		'delete@1' => "DELETE FROM hot WHERE k < (SELECT last_value FROM ascending) - 5000;\n" },
	'-c', 9, @time);
my $vacuum = start_pgbench($primary, {
		'vacuum@3' => "VACUUM hot;\n",
		'move@3' => "SELECT harmonia_reorganize('hot_k');\nSELECT harmonia_reorganize('full_leaves_k');\n",
		'reindex@1' => "REINDEX INDEX hot_k;\n",
		'check@2' => "SELECT harmonia_check('hot_k');\nSELECT harmonia_check('full_leaves_k');\n" },
	'-c', 1, @time);
my %readers = map {
	$_->name => start_pgbench($_, { 'end' => "\\set n random(1, 2000)\nSELECT compare_end(:n);\n" }, '-c', 1, @time)
} ($primary, $standby);

no_errors($writers, 'writers');
no_errors($vacuum, 'VACUUM and movement');
no_errors($readers{ $_->name }, 'readers on the ' . $_->name) for ($primary, $standby);
check_index($primary, $_) for ('hot_k', 'full_leaves_k');
$primary->wait_for_catchup($standby);
is(index_problem($standby, $_), '', "$_ on the replica") for ('hot_k', 'full_leaves_k');

# Clients that append leave few leaves half full: 1239 entries of this kind fit a leaf, and one that
# comes late, when its leaf is full, splits it.
$primary->safe_psql('postgres', 'TRUNCATE full_leaves');
no_errors(start_pgbench($primary, {
			'ascending' => "INSERT INTO full_leaves VALUES (nextval('ascending'));\n" }, '-c', 8, '-t', 4000),
	'clients that append');
cmp_ok($primary->safe_psql('postgres', <<'END'), '>', 900, 'leaves are mostly full');
SELECT avg(entries) FROM (
	SELECT *, lead(l.block) OVER (ORDER BY s.low_key, l.low_key) AS next
	FROM harmonia_segments('full_leaves_k') s, harmonia_leaves('full_leaves_k', s.block) l) l
WHERE next IS NOT NULL
END
check_index($primary, 'full_leaves_k');

$_->stop for ($standby, $primary);
done_testing();
