# Segments are added, joined, moved and removed while some sessions append, some insert in
# between and some delete.  Every row keeps its entry, and harmonia_check() does not take
# the changes for damage.
use strict;
use warnings;

use Harmonia;
use Test::More;

my $node = new_node('reorganize', conf => 'shared_buffers = 32MB');
my @time = ('-T', $ENV{HARMONIA_SECONDS} // 15);

$node->safe_psql('postgres', <<'END');
CREATE TABLE t (k bigint);
CREATE SEQUENCE s;
CREATE INDEX t_k ON t USING harmonia (k) WITH (fanout = 8, fillfactor = 20);
INSERT INTO t SELECT hashint4(g) % 1000000 FROM generate_series(1, 20000) g;
END

# Appenders race for the new segment at the end of the index.  The loser gives its blocks
# back; they have the header of a segment that never was in the directory.  Slow appenders
# have old copies of the directory.
my $append = "INSERT INTO t SELECT extract(epoch FROM clock_timestamp())::bigint * 100 + g"
  . " FROM generate_series(1, 300) g;\n";
my @writers = (
	start_pgbench($node, {
		'batch@6' => <<'END',
\set from random(1, 1000000)
INSERT INTO t SELECT CASE WHEN g % 97 = 0 THEN NULL ELSE :from + g * 3 END FROM generate_series(1, 300) g;
END
		'single@10' => "\\set k random(1, 1000000)\nINSERT INTO t VALUES (:k);\n",
		'delete@3' => <<'END' }, '-c', 2, '--max-tries=100', @time),
\set from random(1, 1000000)
DELETE FROM t WHERE k BETWEEN :from AND :from + 100000 OR k > 1000000 OR (:from % 7 = 0 AND k IS NULL);
END
	start_pgbench($node, { append => $append }, '-c', 4, @time),
	start_pgbench($node, { slow => "\\set t random(1, 300)\n\\sleep :t ms\n$append" }, '-c', 8, @time));
my $maintenance = start_pgbench($node, {
		'vacuum@1' => "VACUUM t;\n",
		'reorganize@2' => "SELECT harmonia_reorganize('t_k');\n" }, '-c', 1, @time);
my $checks = start_pgbench($node, {
		'rows' => "SELECT harmonia_check('t_k', true);\n",
		'index' => "SELECT harmonia_check('t_k');\nSELECT count(*) FROM harmonia_index_info('t_k');\n"
		  . "SELECT count(*) FROM harmonia_segments('t_k');\n" }, '-c', 2, @time);

no_errors($_, 'writers') foreach @writers;
no_errors($maintenance, 'maintenance');
no_errors($checks, 'checks');
# How many depends on the machine; that some did is what the test is about.
cmp_ok($node->safe_psql('postgres', q{SELECT retired FROM harmonia_metapage('t_k')}),
	'>', 0, 'segments moved');
check_index($node, 't_k');

# In the end all blocks are accounted for, and all segments can be packed.
$node->safe_psql('postgres', 'VACUUM t');
is($node->safe_psql('postgres', q{
	SELECT pages - 1 - directory_pages - header_pages - key_pages - auxiliary_pages - leaf_pages
		- spare_pages - free_pages, lost_pages
	FROM harmonia_index_info('t_k')}),
	'0|0', 'each block has a use, and none is lost');
# One round can make another possible: two segments that have become one can be joined with a
# third, or fit into a gap nearer to the front.
my $rounds = 0;
$rounds++
  while $rounds < 10 && $node->safe_psql('postgres', q{SELECT harmonia_reorganize('t_k')}) > 0;
cmp_ok($rounds, '<', 10, 'reorganization comes to an end');
is($node->safe_psql('postgres', q{
	SELECT shadowed_segments, auxiliary_pages, lost_pages FROM harmonia_index_info('t_k')}),
	'0|0|0', 'all segments are pure after reorganization');
is($node->safe_psql('postgres', q{
	SELECT count(*) FROM harmonia_segments('t_k') s, LATERAL (SELECT count(*) n, min(l.low_key) low
		FROM harmonia_leaves('t_k', s.block) l) l
	WHERE s.leaves <> l.n}), '0', 'segments have as many leaves as they say');
check_index($node, 't_k', 'the index is as the table after reorganization');

$node->stop;
done_testing();
