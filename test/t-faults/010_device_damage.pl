# If a device returns impossible hits, the CPU searches instead.  If a wrong hit is possible,
# the row's own key shows that it is wrong.
#
# The daemon has such a device in place of a GPU (cuda/test/faulty.cc).
use strict;
use warnings;

use Harmonia;
use HarmoniaDevice;
use Test::More;

plan skip_all => 'there is a GPU' if on_gpu();

# A running server whose device is wrong in one way.
sub damaged_node
{
	my ($name, $fault) = @_;

	local $ENV{$fault} = '1';
	my $node = new_device_node($name, conf => <<'END');
harmonia.gpu = on
enable_indexscan = off
enable_bitmapscan = off
enable_hashjoin = off
enable_mergejoin = off
END
	$node->safe_psql('postgres', <<'END');
CREATE TABLE t (k int, v int);
INSERT INTO t SELECT 10 * i, i FROM generate_series(1, 20000) i;
CREATE INDEX t_k ON t USING harmonia (k);
VACUUM ANALYZE t;
END
	return $node;
}

# The answer of a query without lookups.
sub plain_answer
{
	my ($node, $query) = @_;

	return $node->safe_psql('postgres', 'SET harmonia.enable_lookup_scan = off; SET harmonia.enable_lookup_join = off;'
		  . "SET enable_hashjoin = on; $query");
}

# One hit of each search names a probe that does not exist.
my $node = damaged_node('device_damage', 'FAULT_PROBES');

my $outer = 'FROM (SELECT k FROM generate_series(1, 200000, 7) k OFFSET 0) s';

# Without lookups, a join by ranges compares each of these with each row.
my $few = 'FROM (SELECT k FROM generate_series(1, 200000, 637) k OFFSET 0) s';
my %queries = (
	scan => 'SELECT count(*), sum(k), sum(v) FROM t WHERE k = ANY (ARRAY(SELECT generate_series(5, 200000, 5)))',
	'index-only scan' => 'SELECT count(*), sum(k) FROM t WHERE k = ANY (ARRAY(SELECT generate_series(5, 200000, 5)))',
	join => "SELECT count(*), sum(s.k), sum(v) $outer JOIN t USING (k)",
	'index-only join by ranges' => "SELECT count(*), sum(s.k), sum(t.k) $few JOIN t ON t.k BETWEEN s.k AND s.k + 30",
	'index-only join by ranges of several lengths' => "SELECT count(*), sum(s.k), sum(t.k) $few JOIN t ON t.k BETWEEN s.k AND s.k + s.k % 30",
	'index-only join' => "SELECT count(*), sum(s.k) $outer JOIN t USING (k)",
	'join by ranges' => "SELECT count(*), sum(s.k), sum(v) $few JOIN t ON t.k BETWEEN s.k AND s.k + 30",
	semijoin => "SELECT count(*), sum(k) $few WHERE EXISTS (SELECT FROM t WHERE t.k BETWEEN s.k AND s.k + 30 AND v > 0)",
	antijoin => "SELECT count(*), sum(k) $outer WHERE NOT EXISTS (SELECT FROM t WHERE t.k = s.k)");

for my $name (sort keys %queries)
{
	is($node->safe_psql('postgres', $queries{$name}), plain_answer($node, $queries{$name}), $name);
	like(nodes_of($node, $queries{$name}), qr/Fallbacks: [1-9]/, "$name: the CPU answers");
}

# A count does not ask which probes were hit.
my $count = 'SELECT count(*) FROM t WHERE k = ANY (ARRAY(SELECT generate_series(5, 200000, 5)))';
is($node->safe_psql('postgres', $count), '20000', 'a count');
like(nodes_of($node, $count), qr/LookupAggregate.*Fallbacks: 0/s, 'a count on the device');
$node->safe_psql('postgres', 'UPDATE t SET v = v + 1');
is($node->safe_psql('postgres', $count), '20000', 'a count of rows that are not all-visible');

$node->stop;

# Each search returns one hit too many: a row with another key.
$node = damaged_node('device_hits', 'FAULT_HITS');
$queries{semijoin} =~ s/BETWEEN s\.k AND s\.k \+ 30/= s.k/;
$queries{antijoin} =~ s/t\.k = s\.k/t.k = s.k AND v > 0/;
$queries{'scan by an expression'} = 'SELECT count(*), sum(v) FROM t WHERE k + 1 = ANY (ARRAY(SELECT generate_series(6, 200000, 5)))';
$node->safe_psql('postgres', 'CREATE INDEX t_next ON t USING harmonia ((k + 1)); ANALYZE t');
for my $name ('scan', 'scan by an expression', 'join', 'join by ranges', 'semijoin', 'antijoin')
{
	is($node->safe_psql('postgres', $queries{$name}), plain_answer($node, $queries{$name}), "a hit too many: $name");
	like(nodes_of($node, $queries{$name}), qr/Device Batches: [1-9].*Fallbacks: 0/s, "$name: the device answers");
}

# A key that is none of its probe's shows that the device is wrong.
my @ranges = ('index-only join by ranges', 'index-only join by ranges of several lengths');
for my $name (@ranges)
{
	is($node->safe_psql('postgres', $queries{$name}), plain_answer($node, $queries{$name}), "a hit too many: $name");
	like(nodes_of($node, $queries{$name}), qr/Fallbacks: [1-9]/, "$name: the CPU answers");
}

# The key decides too where the heap has to be asked whether a row is visible.
$node->safe_psql('postgres', 'UPDATE t SET v = v + 1');
for my $name ('index-only scan', 'index-only join')
{
	is($node->safe_psql('postgres', $queries{$name}), plain_answer($node, $queries{$name}), "a hit too many: $name, not all-visible");
}

$node->stop;

# One hit of each search has the greatest key.
$node = damaged_node('device_keys', 'FAULT_KEYS');
for my $name (@ranges)
{
	is($node->safe_psql('postgres', $queries{$name}), plain_answer($node, $queries{$name}), "a wrong key: $name");
	like(nodes_of($node, $queries{$name}), qr/Fallbacks: [1-9]/, "$name: the CPU answers");
}

$node->stop;
done_testing();
