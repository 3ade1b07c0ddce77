# Many sessions bring copies on the device up to date while others split leaves, move
# segments, delete and vacuum.  Each lookup batch finds the rows of its snapshot.
use strict;
use warnings;

use Harmonia;
use HarmoniaDevice;
use Test::More;

my $seconds = 25;
my $node = new_device_node('device_concurrency', conf => <<'END');
max_connections = 30
autovacuum = off
END

create_compare_queries($node);
$node->safe_psql('postgres', <<'END');
CREATE SEQUENCE ids;
CREATE TABLE t (id bigint DEFAULT nextval('ids'), k bigint, v int) WITH (autovacuum_enabled = off);
INSERT INTO t (k, v) SELECT hashint4(i), i FROM generate_series(1, 60000) i;
CREATE INDEX t_k ON t USING harmonia (k) WITH (fillfactor = 70);
CREATE TABLE u (k int) WITH (autovacuum_enabled = off);
INSERT INTO u SELECT hashint4(i) % 20000 FROM generate_series(1, 40000) i;
CREATE INDEX u_k ON u USING harmonia (k);

-- A few leaves that all sessions change
CREATE TABLE s (k int) WITH (autovacuum_enabled = off);
INSERT INTO s SELECT abs(hashint4(i)) % 3000 FROM generate_series(1, 500) i;
CREATE INDEX s_k ON s USING harmonia (k);

-- An index with an included column
CREATE TABLE c (k bigint, v int) WITH (autovacuum_enabled = off);
INSERT INTO c SELECT hashint4(i / 3), i FROM generate_series(1, 60000) i;
CREATE INDEX c_k ON c USING harmonia (k) INCLUDE (v);
VACUUM ANALYZE t, u, s, c;

-- Compare, in one snapshot, what the device and a sequential scan find for random keys of t.
CREATE FUNCTION compare(seed int, keys int) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	probes bigint[] := ARRAY(SELECT k FROM t WHERE id % 17 = seed % 17 ORDER BY hashint8(id + seed) LIMIT keys);
	queries text[] := ARRAY[
		'SELECT count(*), sum(t.id), sum(t.v) FROM unnest($1) p(k) JOIN t ON t.k = p.k',
		'SELECT count(*), sum(t.k), NULL FROM unnest($1) p(k) JOIN t ON t.k = p.k',
		'SELECT count(*), sum(t.id), sum(t.v) FROM unnest($1[1:200]) p(k) JOIN t ON t.k BETWEEN p.k AND p.k + 300000',
		'SELECT count(*), sum(id), sum(v) FROM t WHERE k = ANY ($1 || $1)',
		'SELECT count(*), sum(k), NULL FROM t WHERE k = ANY ($1 || $1)',
		'SELECT count(*) FROM t WHERE k = ANY ($1 || $1)',
		'SELECT count(*) FROM t WHERE k BETWEEN $1[1] AND $1[1] + 400000000 OR k BETWEEN $1[2] AND $1[2] + 400000000',
		'SELECT count(*), sum(u.k), NULL FROM unnest($1) p(k) JOIN u ON u.k = (p.k % 20000)::int',
		'SELECT count(*), sum(c.v), sum(c.v % 10) FROM unnest($1) p(k) JOIN c ON c.k = hashint4((p.k % 30000)::int)',
		'SELECT count(*), sum(c.k), NULL FROM unnest($1) p(k) JOIN c ON c.k = hashint4((p.k % 30000)::int)',
		'SELECT count(*), sum(v), NULL FROM c WHERE k = ANY (ARRAY(SELECT hashint4(g)::bigint FROM generate_series(0, cardinality($1)) g))',
		'SELECT count(*), sum(s.k), NULL FROM generate_series(0, 3000) p(k) JOIN s ON s.k = p.k WHERE $1 IS NOT NULL',
		'SELECT count(*), sum(s.k), NULL FROM generate_series(0, 3000) p(k) JOIN s ON s.k = p.k WHERE $1 IS NOT NULL'];
BEGIN
	PERFORM compare_queries(queries, probes);
END $$;
END

my $readers = start_pgbench($node, {
		'compare' => "\\set seed random(1, 1000000)\n\\set keys random(1, 3000)\n"
		  . "BEGIN ISOLATION LEVEL REPEATABLE READ;\nSELECT compare(:seed, :keys);\nCOMMIT;\n" },
	'-c', 4, '-T', $seconds);
my $writers = start_pgbench($node, {
		'insert@6' => "\\set i random(1, 100000000)\nINSERT INTO t (k, v) SELECT hashint4(i), i FROM generate_series(:i, :i + 400) i;\n",
		'ascend@1' => "INSERT INTO t (k, v) SELECT 3000000000 + nextval('ids'), i FROM generate_series(1, 500) i;\n",
		'single@6' => "\\set i random(1, 100000000)\nINSERT INTO t (k, v) VALUES (hashint4(:i), :i);\nINSERT INTO u VALUES (:i % 20000);\n",
		'small@6' => "\\set i random(1, 100000000)\nINSERT INTO s VALUES (abs(hashint4(:i)) % 3000);\n" x 10
		  . "DELETE FROM s WHERE k % 100 = :i % 100;\n",
		'delete@3' => "\\set i random(1, 1000)\nDELETE FROM t WHERE id % 1000 = :i;\nDELETE FROM u WHERE k % 1000 = :i;\n",
		'included@4' => "\\set i random(1, 30000)\nUPDATE c SET v = v + 1 WHERE k BETWEEN hashint4(:i) AND hashint4(:i) + 20000000::bigint;\n"
		  . "DELETE FROM c WHERE k = hashint4(:i / 3 * 3);\nINSERT INTO c SELECT hashint4(g), g FROM generate_series(:i, :i + 5) g;\n",
		'update@2' => "\\set i random(1, 1000)\nUPDATE t SET k = k + 1 WHERE id % 1000 = :i;\n",
		'rollback@1' => "\\set i random(1, 1000)\nBEGIN;\nUPDATE t SET k = -k WHERE id % 1000 = :i;\nROLLBACK;\n" },
	'-c', 3, '-T', $seconds, '--max-tries=100');
my $maintenance = start_pgbench($node, {
		'vacuum@3' => "VACUUM t;\nVACUUM u;\nVACUUM s;\nVACUUM c;\n",
		'reorganize@1' => "SELECT harmonia_reorganize('t_k');\n",
		'unload@1' => "SELECT harmonia_unload('t_k');\n",
		'load@1' => "SELECT harmonia_load('u_k');\n",
		'reindex@1' => "REINDEX INDEX CONCURRENTLY u_k;\n" },
	'-c', 1, '-T', $seconds);

for my $session ([ readers => $readers ], [ writers => $writers ], [ maintenance => $maintenance ])
{
	my $errors = finish($session->[1]);
	unlike($errors, qr/ERROR|abort|FATAL|PANIC/, "$session->[0]: no errors") or diag substr $errors, 0, 2000;
}

is(index_problem($node, $_), '', "the index $_ is in order") for ('t_k', 'c_k');
my ($batches, $synced, $loads, $fallbacks) = split /\|/, $node->safe_psql('postgres',
	"SELECT sum(device_batches), sum(synced_blocks), sum(loads), sum(fallbacks) FROM harmonia_stat_indexes()");
cmp_ok($batches, '>', 50, "$batches batches on the device, $loads whole copies");
cmp_ok($synced, '>', 500, "$synced blocks had changed before");
cmp_ok($fallbacks, '<', $batches / 10, "$fallbacks of these fell back to the CPU");

$node->stop;
done_testing();
