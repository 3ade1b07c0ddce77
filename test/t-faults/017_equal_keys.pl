# Where keys are not exact, values are compared: random queries get the same answers from lookup
# nodes and plain scans as from sequential scans, although most values share their key with
# others.
#
# The library is built with SMALL_LIMITS, so such keys have four bits.
use strict;
use warnings;

use Harmonia;
use HarmoniaLookups;
use Test::More;

my $seed = test_seed();
my %size = test_length(
	short => { tables => 3, queries => 12 },
	long => { tables => 50, queries => 200 });
my $node = new_node('equal_keys', conf => 'shared_buffers = 32MB');
my ($compared, $used, $problem) = compare_lookups_at_random($node, $seed, %size, equality => 1);

is($problem, '', 'same answers');
is($compared, $size{tables} * $size{queries}, 'no query was left out');
cmp_ok($used, '>', $compared * 0.5, "$used of $compared queries used lookups");

# All rows of a long array of one key are compared with all of its values.
$node->safe_psql('postgres', <<'END');
CREATE TABLE words AS SELECT 'word ' || i AS k FROM generate_series(1, 3000) i;
CREATE INDEX words_k ON words USING harmonia (k);
ANALYZE words;
END
my ($keys, $rows) = split /\|/, $node->safe_psql('postgres', <<'END');
SET enable_seqscan = off;
SELECT (SELECT count(DISTINCT key) FROM harmonia_segments('words_k') s, harmonia_leaves('words_k', s.block) l, harmonia_leaf_items('words_k', l.block)),
	(SELECT count(*) FROM words WHERE k = ANY (ARRAY(SELECT 'word ' || i FROM generate_series(2, 6000, 2) i)));
END
is("$keys $rows", '16 1500', 'there are 16 keys, and the rows are right');
check_index($node, 'words_k');

$node->stop;
done_testing();
