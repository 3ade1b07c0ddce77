# Loads for pgbench: writers and readers whose answers are compared, and a mixed
# load for crashes.
package HarmoniaLoad;

use strict;
use warnings;

use Exporter 'import';
use HarmoniaCheck;
use HarmoniaServer;
use Test::More;

our @EXPORT = qw(make_pairs write_pairs come_and_go read_pairs make_load start_load crash_rounds);

# ----------------------------------------------------------------
# Pairs: the same key twice
#
# The table "pairs" has each key in two columns, one with a harmonia index and one with
# a btree.  Readers compare the answers of both in one snapshot, while writers write.
# ----------------------------------------------------------------

sub make_pairs
{
	my ($node) = @_;

	$node->safe_psql('postgres', <<'END');
CREATE TABLE pairs (id bigserial PRIMARY KEY, k int, k2 int, g smallint GENERATED ALWAYS AS ((k / 1000)::smallint) STORED, h int GENERATED ALWAYS AS (k) STORED);
INSERT INTO pairs (k, k2) SELECT x, x FROM (SELECT nullif(hashint4(i) % 1000000, 7) x FROM generate_series(1, 60000) i) s;
CREATE INDEX pairs_k ON pairs USING harmonia (k) WITH (fillfactor = 100);
CREATE INDEX pairs_k2 ON pairs (k2);
CREATE INDEX pairs_two ON pairs USING harmonia ((k / 1000), (id + 0));
CREATE INDEX pairs_g ON pairs USING harmonia (g, h);
VACUUM ANALYZE pairs;

-- Compare ranges and arrays.  STABLE, so that all queries have the caller's snapshot.
CREATE FUNCTION check_index.pairs_range(low int, high int) RETURNS void
LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off AS $$
DECLARE
	a text;
	b text;
	keys int[] := ARRAY(SELECT low + i * 37 FROM generate_series(0, 100) i);
	groups int[] := ARRAY[low / 1000, Least(high, low + 1000) / 1000];
	ids bigint[] := ARRAY(SELECT id FROM pairs WHERE k2 BETWEEN low AND high LIMIT 200);
BEGIN
	SELECT (count(*), sum(id), md5(string_agg(k::text, ',')))::text INTO a
		FROM (SELECT id, k FROM pairs WHERE k BETWEEN low AND high ORDER BY k) s;
	SELECT (count(*), sum(id), md5(string_agg(k2::text, ',')))::text INTO b
		FROM (SELECT id, k2 FROM pairs WHERE k2 BETWEEN low AND high ORDER BY k2) s;
	PERFORM check_index.compare(format('%s to %s', low, high), b, a);

	a := ARRAY(SELECT k FROM pairs WHERE k <= high ORDER BY k DESC LIMIT 500)::text;
	b := ARRAY(SELECT k2 FROM pairs WHERE k2 <= high ORDER BY k2 DESC LIMIT 500)::text;
	PERFORM check_index.compare(format('downward from %s', high), b, a);

	SELECT (count(*), sum(k))::text INTO a FROM pairs WHERE k BETWEEN low AND high;
	SELECT (count(*), sum(k2))::text INTO b FROM pairs WHERE k2 BETWEEN low AND high;
	PERFORM check_index.compare(format('keys alone, %s to %s', low, high), b, a);

	SELECT (count(*), sum(id))::text INTO a FROM pairs WHERE k = ANY (keys);
	SELECT (count(*), sum(id))::text INTO b FROM pairs WHERE k2 = ANY (keys);
	PERFORM check_index.compare(format('= ANY (%s)', keys), b, a);

	SELECT (count(*), sum(id))::text INTO a FROM pairs WHERE k / 1000 = ANY (groups) AND id + 0 > 30000;
	SELECT (count(*), sum(id))::text INTO b FROM pairs
		WHERE k2 BETWEEN low - 2000 AND Least(high, low + 1000) + 2000 AND k2 / 1000 = ANY (groups) AND id > 30000;
	PERFORM check_index.compare(format('two columns, %s', groups), b, a);
	SELECT (count(*), sum(h), sum(g))::text INTO a FROM pairs WHERE g = ANY (groups::smallint[]);
	SELECT (count(*), sum(k2), sum(k2 / 1000))::text INTO b FROM pairs
		WHERE k2 BETWEEN low - 2000 AND Least(high, low + 1000) + 2000 AND k2 / 1000 = ANY (groups);
	PERFORM check_index.compare(format('two columns alone, %s', groups), b, a);
	SELECT (count(*), sum(id))::text INTO a FROM pairs WHERE k / 1000 = low / 1000 AND id + 0 = ANY (ids);
	SELECT (count(*), sum(id))::text INTO b FROM pairs WHERE id = ANY (ids) AND k2 / 1000 = low / 1000;
	PERFORM check_index.compare(format('rows, %s to %s', low, high), b, a);
EXCEPTION WHEN serialization_failure THEN
	-- Replay on a standby cancels queries that hold what it needs.
	RETURN;
END $$;

-- Compare the whole index, read by index-only scans of one process and of several, and by a bitmap scan, with the heap.
CREATE FUNCTION check_index.pairs_all() RETURNS void LANGUAGE plpgsql STABLE AS $$
DECLARE
	expected text;
	got text;
BEGIN
	PERFORM check_index.set_plans('seqscan');
	SELECT (count(*), count(k), sum(k))::text INTO expected FROM pairs;
	PERFORM check_index.set_plans('indexscan', 'indexonlyscan');
	SELECT (count(*), count(k), sum(k))::text INTO got FROM pairs;
	PERFORM check_index.compare('all keys', expected, got);
	PERFORM set_config(name, setting, true) FROM (VALUES ('max_parallel_workers_per_gather', '3'), ('min_parallel_index_scan_size', '0'),
		('parallel_setup_cost', '0'), ('parallel_tuple_cost', '0'), ('cpu_tuple_cost', '1')) s(name, setting);
	-- A SELECT ... INTO has no workers.
	EXECUTE 'SELECT (count(*), count(k), sum(k))::text FROM pairs' INTO got;
	PERFORM check_index.compare('all keys, by several processes', expected, got);
	PERFORM set_config('max_parallel_workers_per_gather', '0', true);
	PERFORM check_index.set_plans('seqscan');
	SELECT (count(*), sum(id))::text INTO expected FROM pairs WHERE k >= 0;
	PERFORM check_index.set_plans('bitmapscan');
	SELECT (count(*), sum(id))::text INTO got FROM pairs WHERE k >= 0;
	PERFORM check_index.compare('bitmap', expected, got);
	PERFORM check_index.set_plans('seqscan');
	SELECT (count(*), sum(id))::text INTO expected FROM pairs WHERE k / 1000 IS NULL AND id + 0 > 1000;
	PERFORM check_index.set_plans('bitmapscan');
	SELECT (count(*), sum(id))::text INTO got FROM pairs WHERE k / 1000 IS NULL AND id + 0 > 1000;
	PERFORM check_index.compare('NULL in the first column', expected, got);
EXCEPTION WHEN serialization_failure THEN
	RETURN;
END $$;
END
	return;
}

# Most new keys are close together, so that leaves split and segments move.
my %pairs_writers = (
	'batch@6' => <<'END',
\set from random(1, 10000000)
INSERT INTO pairs (k, k2) SELECT x, x FROM
	(SELECT 500000 + hashint4(i) % 10000 x FROM generate_series(:from, :from + 1000) i) s;
END
	'single@10' => <<'END',
\set k random_gaussian(1, 1000000, 5)
INSERT INTO pairs (k, k2) VALUES (nullif(:k, 500000), nullif(:k, 500000));
END
	'update@10' => <<'END',
\set k random(480000, 520000)
UPDATE pairs SET k = k + 1000, k2 = k2 + 1000 WHERE k BETWEEN :k AND :k + 20;
END
	'row@10' => <<'END',
\set id random(1, 200000)
\set k random(1, 1000000)
BEGIN;
UPDATE pairs SET k = :k, k2 = :k WHERE id = :id;
UPDATE pairs SET k = NULL, k2 = NULL WHERE id = :id + 1;
COMMIT;
END
	'conflict@5' => <<'END',
\set id random(-20000, 20000)
\set k random(1, 1000000)
INSERT INTO pairs VALUES (:id, :k, :k) ON CONFLICT (id) DO UPDATE SET k = excluded.k, k2 = excluded.k2;
END
	'rollback@5' => <<'END',
\set from random(1, 1000000)
BEGIN;
SAVEPOINT s;
INSERT INTO pairs (k, k2) SELECT i, i FROM generate_series(:from, :from + 300) i;
ROLLBACK TO s;
DELETE FROM pairs WHERE k BETWEEN :from AND :from + 300;
ROLLBACK;
END
	'delete@5' => <<'END',
\set k random(490000, 510000)
DELETE FROM pairs WHERE k BETWEEN :k AND :k + 300;
END
);

my %pairs_readers = (
	'range@10' => <<'END',
\set low random(480000, 520000)
\set high :low + random(1, 3000)
SELECT check_index.pairs_range(:low, :high);
END
	'wide@5' => <<'END',
\set low random(-1000000, 1000000)
\set high :low + random(1, 20000)
SELECT check_index.pairs_range(:low, :high);
END
	'all@1' => "SELECT check_index.pairs_all();\n");

# Rows that come and go: leaves fill with entries of dead rows.
sub come_and_go
{
	my ($node, @options) = @_;

	return start_pgbench($node, {
			'queue' => <<'END' }, @options);
\set k random(600000, 600003)
INSERT INTO pairs (k, k2) SELECT :k, :k FROM generate_series(1, 200);
DELETE FROM pairs WHERE k2 = :k;
END
}


sub write_pairs { my ($node, @options) = @_; return start_pgbench($node, \%pairs_writers, '--max-tries=100', @options); }
sub read_pairs { my ($node, @options) = @_; return start_pgbench($node, \%pairs_readers, @options); }

# ----------------------------------------------------------------
# A mixed load, and crashes under it
# ----------------------------------------------------------------

# Scripts for pgbench.
my %load = (
	'single@20' => <<'END',
\set k random_gaussian(1, 100000, 5)
INSERT INTO load (k, w, f) VALUES (:k, nullif(:k % 100, 0), :k / 8.0);
END
	'batch@8' => <<'END',
\set n random(10, 2000)
\set from random(1, 100000)
INSERT INTO load (k, w, f) SELECT hashint4(i) % 100000, i, i FROM generate_series(:from, :from + :n) i;
END
	'ascending@3' => <<'END',
INSERT INTO load (k, w, f) SELECT 1000000 + id % 1000000, id, -id
	FROM (SELECT nextval('load_id_seq') id FROM generate_series(1, 300)) s;
END
	'rollback@2' => <<'END',
\set from random(1, 100000)
BEGIN;
INSERT INTO load (k, w, f) SELECT i, -i, i FROM generate_series(:from, :from + 500) i;
ROLLBACK;
END
	'update@10' => <<'END',
\set k random(1, 100000)
UPDATE load SET k = k + 17, w = -w WHERE k BETWEEN :k AND :k + 30;
END
	'delete@10' => <<'END',
\set k random(1, 100000)
DELETE FROM load WHERE k BETWEEN :k AND :k + 100;
END
	'trim@2' => <<'END',
DELETE FROM load WHERE id < (SELECT max(id) FROM load) - 40000;
END
	'vacuum@2' => "VACUUM load;\n",
	'checkpoint@1' => "CHECKPOINT;\n",
	'reindex@1' => "REINDEX INDEX load_w;\nREINDEX INDEX load_tenant;\n");

# The table for these scripts.  Options are those of CREATE, such as UNLOGGED.
sub make_load
{
	my ($node, $options) = @_;

	$options //= '';
	$node->safe_psql('postgres', <<"END");
CREATE $options TABLE load (id bigserial PRIMARY KEY, k int, w bigint, f float8, u uuid GENERATED ALWAYS AS (md5(k::text)::uuid) STORED);
CREATE INDEX load_k ON load USING harmonia (k);
CREATE INDEX load_w ON load USING harmonia (w NULLS FIRST) WITH (fanout = 8);
CREATE INDEX load_f ON load USING harmonia (f) WHERE k % 2 = 0;
CREATE INDEX load_tenant ON load USING harmonia ((w % 100), (id + 0));
CREATE INDEX load_u ON load USING harmonia (u) WITH (fanout = 16);
CREATE INDEX load_text ON load USING harmonia (((k % 500)::text), (f + 0), (k + 0)) WHERE k % 3 = 0;
END
	return;
}

sub start_load { my ($node, @options) = @_; return start_pgbench($node, \%load, @options); }

# A test: crash so many times under load, and check the indexes after each crash.
sub crash_rounds
{
	my ($node, $seed, $rounds) = @_;
	my $problem = '';
	my $round;

	make_load($node);
	srand($seed);
	for ($round = 1; $round <= $rounds && $problem eq ''; $round++)
	{
		my $session = start_load($node, '-c', 4, '-T', 600,
			'--random-seed=' . ($seed + $round));

		wait_for_work($node);
		crash_after($node, 0.05 + rand(0.7));
		finish($session);
		$problem = "the load failed: $1" if $session->{err} =~ /(.*(?:XX\d\d\d|corrupt|damage|unexpected page).*)/;
		$node->start;
		$problem .= check_all_indexes($node);
	}
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return is($problem, '', ($round - 1) . ' crashes under load');
}

1;
