# An index that is too large for any device is not sent, and no other copy gives way.
#
# The library is built with SMALL_LIMITS, so that 2000 blocks are the limit.
use strict;
use warnings;

use Harmonia;
use HarmoniaDevice;
use Test::More;

my $node = new_device_node('device_sizes', conf => "enable_seqscan = off\nenable_indexscan = off\nenable_bitmapscan = off\n");
$node->safe_psql('postgres', <<'END');
CREATE TABLE small (k int);
INSERT INTO small SELECT generate_series(1, 1000);
CREATE INDEX small_k ON small USING harmonia (k);
CREATE TABLE large (k int);
INSERT INTO large SELECT generate_series(1, 1500000);
CREATE INDEX large_k ON large USING harmonia (k) WITH (fillfactor = 20);
ANALYZE small, large;
SELECT harmonia_load('small_k');
END
cmp_ok($node->safe_psql('postgres', "SELECT pg_relation_size('large_k') / 8192"), '>', 2000, 'blocks');
my ($result, $out, $err) = $node->psql('postgres', "\\set VERBOSITY verbose\nSELECT harmonia_load('large_k')");
like($err, qr/54000: index "large_k" is too large for a device/, 'it cannot be loaded');
my $query = 'SELECT count(*) FROM large WHERE k = ANY (ARRAY(SELECT generate_series(1, 2000)))';
is($node->safe_psql('postgres', $query), '2000', 'the CPU answers');
like(nodes_of($node, $query), qr/CPU Reason: index is too large for devices/, 'EXPLAIN says why');
is(stat_of($node, 'large_k', 'loads, bytes_to_device, resident'), '0|0|f', 'nothing was sent');
is(stat_of($node, 'small_k', 'loads, evictions, resident'), '1|0|t', 'the other copy stays');

# It grows beyond the limit while it has a copy.
$node->safe_psql('postgres', <<'END');
CREATE TABLE grows (k int) WITH (autovacuum_enabled = off);
INSERT INTO grows SELECT generate_series(1, 100000);
CREATE INDEX grows_k ON grows USING harmonia (k) WITH (fillfactor = 20);
ANALYZE grows;
SELECT harmonia_load('grows_k');
INSERT INTO grows SELECT 100000 + generate_series(1, 400000);
END
$query =~ s/large/grows/;
cmp_ok($node->safe_psql('postgres', "SELECT pg_relation_size('grows_k') / 8192"), '>', 2000, 'blocks');
is($node->safe_psql('postgres', $query), '2000', 'the CPU answers');
like(nodes_of($node, $query), qr/CPU Reason: index is too large for devices/, 'EXPLAIN says why');

$node->stop;
done_testing();
