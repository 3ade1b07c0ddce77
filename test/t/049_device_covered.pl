# Joins and sums that an index's included columns answer are searched on the device, too: it returns the
# key of each hit.  Where the key tells nothing that is asked for, it returns less.
use strict;
use warnings;

use Harmonia;
use HarmoniaDevice;
use Test::More;
use Time::HiRes qw(usleep);

my $node = new_device_node('device_covered', conf => "autovacuum = off\n");

# Keys of 128 bits with a bit for NULL, of 64 bits, where the included column's NULL shares its value with -11895787, and of 32 bits.
# Some keys have no row, most three, one has thousands.
$node->safe_psql('postgres', <<'END');
CREATE TABLE wide (k bigint, v int, x int) WITH (autovacuum_enabled = off);
INSERT INTO wide SELECT hashint4(i / 3), CASE WHEN i % 7 > 0 THEN hashint4(i) END, i FROM generate_series(1, 40000) i;
INSERT INTO wide SELECT k, v, 0 FROM unnest('{NULL,-9223372036854775808,0,9223372036854775807}'::bigint[]) k,
	unnest('{NULL,-2147483648,-11895787,2147483647}'::int[]) v;
INSERT INTO wide SELECT 12345678901, i, i FROM generate_series(1, 1000) i;
CREATE INDEX wide_k ON wide USING harmonia (k) INCLUDE (v);
CREATE TABLE narrow (d date, b int, x int) WITH (autovacuum_enabled = off);
INSERT INTO narrow SELECT date '2000-01-01' + i % 5000, CASE WHEN i % 11 > 0 THEN nullif(i % 1000, 17) ELSE -11895787 END, i FROM generate_series(1, 20000) i;
INSERT INTO narrow SELECT d, b, 0 FROM unnest('{NULL,-infinity,infinity,2000-01-08}'::date[]) d, unnest('{NULL,-2147483648,-11895787,8}'::int[]) b;
CREATE INDEX narrow_d ON narrow USING harmonia (d) INCLUDE (b);
CREATE TABLE second (a smallint, b int) WITH (autovacuum_enabled = off);
INSERT INTO second SELECT i % 5000, CASE WHEN i % 11 > 0 THEN i % 1000 END FROM generate_series(1, 20000) i;
INSERT INTO second SELECT a, b FROM unnest('{NULL,-32768,7}'::smallint[]) a, unnest('{NULL,-2147483648,-11895787,8}'::int[]) b;
CREATE INDEX second_a_b ON second USING harmonia (a, b);
CREATE TABLE single (k int) WITH (autovacuum_enabled = off);
INSERT INTO single SELECT i % 15000 FROM generate_series(1, 20000) i;
INSERT INTO single SELECT unnest('{-2147483648,-1,2147483647,NULL}'::int[]);
CREATE INDEX single_k ON single USING harmonia (k);
CREATE TABLE o AS SELECT i AS p, CASE WHEN i % 50 > 0 THEN hashint4(i * 3 % 16000) ELSE 12345678901 END AS k,
	i * 7919 % 6000 AS a, CASE WHEN i % 40 > 0 THEN date '2000-01-01' + i * 7919 % 6000 ELSE '-infinity' END AS d FROM generate_series(1, 2000) i;
INSERT INTO o VALUES (0, NULL, NULL, NULL), (0, -9223372036854775808, -2147483648, '-infinity'), (0, 9223372036854775807, 7, 'infinity'), (0, 0, 0, '2000-01-01');
-- Without lookups, a join by ranges compares each of these with each row.
CREATE TABLE fifth AS SELECT * FROM o WHERE p % 5 = 0;
VACUUM ANALYZE wide, narrow, second, single, o, fifth;
CREATE FUNCTION lookups() RETURNS void LANGUAGE sql AS $$
	SELECT set_config('enable_seqscan', 'off', false), set_config('enable_hashjoin', 'off', false),
		set_config('enable_mergejoin', 'off', false), set_config('enable_nestloop', 'off', false),
		set_config('enable_indexscan', 'off', false),
		set_config('enable_bitmapscan', 'off', false), set_config('max_parallel_workers_per_gather', '0', false) $$;
END
my $lookups = 'DO $$ BEGIN PERFORM lookups(); END $$';
my $no_lookups = 'SET harmonia.enable_lookup_join = off; SET harmonia.enable_lookup_scan = off;'
  . ' SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_bitmapscan = off';

# ----------------------------------------------------------------
# Each kind of batch
# ----------------------------------------------------------------
my %covered = (
	'a join' => 'SELECT count(*), sum(p), sum(w.v), min(w.v), count(w.v) FROM o JOIN wide w USING (k)',
	'a join, row by row' => 'SELECT count(s.*), sum(p), sum(hashint8(v)) FROM (SELECT o.p, w.v FROM o JOIN wide w USING (k) OFFSET 0) s',
	'a join that returns the key, too' => 'SELECT count(*), sum(hashint8(k)), sum(v) FROM (SELECT w.k, w.v FROM o JOIN wide w ON w.k = o.k OFFSET 0) s',
	'a join with a condition on an included column' => 'SELECT count(*), sum(p) FROM o JOIN wide w ON w.k = o.k AND w.v % 3 = o.p % 3',
	'a left join' => 'SELECT count(*), sum(p), count(w.v), sum(w.v) FROM o LEFT JOIN wide w USING (k)',
	'groups' => 'SELECT sum(n * g), count(*), sum(s) FROM (SELECT p % 7 AS g, count(*) AS n, sum(w.v) AS s FROM o JOIN wide w USING (k) GROUP BY 1) s',
	'groups by an included column' => 'SELECT count(*), sum(n * b) FROM (SELECT b, count(*) AS n FROM o JOIN narrow n USING (d) GROUP BY b) s',
	'a semijoin' => 'SELECT count(*), sum(p) FROM o WHERE EXISTS (SELECT FROM wide w WHERE w.k = o.k AND w.v > 0)',
	'an antijoin' => 'SELECT count(*), sum(p) FROM o WHERE NOT EXISTS (SELECT FROM wide w WHERE w.k = o.k AND w.v > 0)',
	'a sum' => 'SELECT count(*), sum(v), max(v), count(v) FROM wide WHERE k = ANY (ARRAY(SELECT k FROM o))',
	'a sum of rows' => 'SELECT count(s.*), sum(hashint4(v)) FROM (SELECT v FROM wide WHERE k = ANY (ARRAY(SELECT k FROM o)) OFFSET 0) s',
	'64 bits' => 'SELECT count(*), sum(p), sum(n.b), count(n.b) FROM o JOIN narrow n USING (d)',
	'64 bits, a sum' => 'SELECT count(*), sum(b), max(d) FROM narrow WHERE d = ANY (ARRAY(SELECT d FROM o))',
	'ranges of the second column' => 'SELECT count(*), sum(s.b) FROM o JOIN second s ON s.a = o.a AND s.b BETWEEN o.p % 500 AND o.p % 500 + 400',
	'32 bits' => 'SELECT count(*), sum(s.k), sum(p) FROM fifth o JOIN single s ON s.k BETWEEN o.p AND o.p + 7',
	'ranges of several lengths' => 'SELECT count(*), sum(s.k), sum(p) FROM fifth o JOIN single s ON s.k BETWEEN o.p AND o.p + o.p % 9 - 1',
	'ranges of one table' => 'SELECT count(*), sum(k) FROM single WHERE k < 500 OR k BETWEEN 700 AND 900 OR k > 14000');
for my $case (sort keys %covered)
{
	my $expected = $node->safe_psql('postgres', "$no_lookups; $covered{$case}");

	like(nodes_of($node, $covered{$case}, $lookups), qr/Index Only: true.*Device: GPU( \(host device\))?\n.*Fallbacks: 0/s, "$case: the device searches");
	is($node->safe_psql('postgres', "$lookups; $covered{$case}"), $expected, $case);
	is($node->safe_psql('postgres', "SET work_mem = '64kB'; $lookups; $covered{$case}"), $expected, "$case, in several batches and portions");
	is($node->safe_psql('postgres', "SET default_transaction_isolation = 'serializable'; $lookups; $covered{$case}"),
		$expected, "$case, in a serializable transaction");
}

# What comes back: a probe's number, a TID and the key for each hit.  No row is fetched whose key tells all.
my ($from, $hits, $fetched) = nodes_of($node, $covered{'a join'}, $lookups) =~ /Bytes: \d+ \+ (\d+)\n.*Hits: (\d+) .*Heap Fetches: (\d+)/s;
cmp_ok($hits, '>', 40_000, "$hits hits");
is($from, (4 + 8 + 16) * $hits, 'the device returns keys of 128 bits');
is($fetched, 0, 'and no row is fetched');
($from, $hits, $fetched) = nodes_of($node, $covered{'64 bits'}, $lookups) =~ /Bytes: \d+ \+ (\d+)\n.*Hits: (\d+) .*Heap Fetches: (\d+)/s;
is($from, (4 + 8 + 8) * $hits, 'the device returns keys of 64 bits');
cmp_ok($fetched, '>', 200, 'rows are fetched whose key may be NULL');
cmp_ok($fetched, '<', $hits / 3, 'and no others');
($from, $hits) = nodes_of($node, $covered{'32 bits'}, $lookups) =~ /Bytes: \d+ \+ (\d+)\n.*Hits: (\d+) /s;
is($from, (4 + 8 + 4) * $hits, 'the device returns keys of 32 bits');

# Where nothing is asked for that the probe does not tell, hits on all-visible pages are only counted.
my %told = (
	'a count' => 'SELECT count(*), sum(p) FROM o JOIN wide w USING (k)',
	'the key alone' => 'SELECT count(*), sum(w.k) FROM o JOIN wide w ON w.k = o.k',
	'rows of the key alone' => 'SELECT count(*), sum(hashint8(k)) FROM (SELECT w.k FROM o JOIN wide w ON w.k = o.k OFFSET 0) s',
	'whether there is one' => 'SELECT count(*), sum(p) FROM o WHERE EXISTS (SELECT FROM wide w WHERE w.k = o.k)',
	'a count of ranges' => 'SELECT count(*), sum(p) FROM fifth o JOIN single s ON s.k BETWEEN o.p AND o.p + o.p % 9 - 1');
for my $case (sort keys %told)
{
	my $expected = $node->safe_psql('postgres', "$no_lookups; $told{$case}");

	like(nodes_of($node, $told{$case}, $lookups), qr/Device: GPU.*Fallbacks: 0.*Bytes: \d+ \+ 0\n.*Heap Fetches: 0/s, "$case: the device counts");
	is($node->safe_psql('postgres', "$lookups; $told{$case}"), $expected, $case);
	is($node->safe_psql('postgres', "SET work_mem = '64kB'; $lookups; $told{$case}"), $expected, "$case, in several batches");
	is($node->safe_psql('postgres', "SET default_transaction_isolation = 'serializable'; $lookups; $told{$case}"),
		$expected, "$case, in a serializable transaction");
}

# A serializable transaction locks the pages whose rows it takes at the map's word.
is($node->safe_psql('postgres', <<"END"), 't', 'a serializable transaction locks pages');
$lookups;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT sum(w.v) FROM o JOIN wide w USING (k) WHERE o.p < 20 \\g /dev/null
SELECT count(*) > 0 FROM pg_locks WHERE mode = 'SIReadLock' AND relation = 'wide'::regclass AND page IS NOT NULL;
ROLLBACK;
END

# ----------------------------------------------------------------
# Changed rows
# ----------------------------------------------------------------
# An update of an included column makes an entry beside the old one.  Most pages are not all-visible any more.
sub check_all
{
	my ($name) = @_;

	for my $case (sort keys %covered, sort keys %told)
	{
		my $query = $covered{$case} // $told{$case};

		is($node->safe_psql('postgres', "$lookups; $query"), $node->safe_psql('postgres', "$no_lookups; $query"), "$name: $case");
	}
	return;
}
$node->safe_psql('postgres', <<'END');
UPDATE wide SET v = v - 1 WHERE x % 10 = 3;
DELETE FROM wide WHERE x % 10 = 4;
UPDATE narrow SET b = b + 1 WHERE x % 300 = 0;
DELETE FROM narrow WHERE x BETWEEN 5000 AND 6000;
INSERT INTO narrow VALUES ('2000-01-08', NULL), ('-infinity', NULL), ('2000-01-09', -11895787);
UPDATE second SET b = b + 1 WHERE a % 300 = 0;
DELETE FROM single WHERE k % 100 = 1;
END
check_all('changed rows');
my $changed = nodes_of($node, $covered{'64 bits'}, $lookups);
($hits, $fetched) = $changed =~ /Device: GPU.*Hits: (\d+) .*Heap Fetches: (\d+)/s;
cmp_ok($fetched, '<', $hits * 9 / 10, "$fetched of $hits hits are fetched");
is($node->safe_psql('postgres', "BEGIN; INSERT INTO wide VALUES (0, 5, 0); UPDATE wide SET v = 6 WHERE k = 9223372036854775807; $lookups; $covered{'a join'}; ROLLBACK"),
	$node->safe_psql('postgres', "BEGIN; INSERT INTO wide VALUES (0, 5, 0); UPDATE wide SET v = 6 WHERE k = 9223372036854775807; $no_lookups; $covered{'a join'}; ROLLBACK"),
	'a transaction sees its own changes');
$node->safe_psql('postgres', 'VACUUM wide, narrow, second, single');
check_all('after VACUUM');
$node->safe_psql('postgres', "SELECT harmonia_reorganize(i) FROM unnest('{wide_k,narrow_d,second_a_b,single_k}'::regclass[]) i");
check_all('after a movement');

# ----------------------------------------------------------------
# Several lookups
# ----------------------------------------------------------------
# Two lookups that take hits in turn, so that hits with their keys have to leave staging memory
my $both = q{SELECT count(*), sum(w.v), sum(n.b) FROM o JOIN wide w USING (k) JOIN narrow n ON n.d = date '2000-01-01' + w.v %% 5000 %s};
like(nodes_of($node, sprintf($both, ''), $lookups), qr/LookupJoin.*LookupJoin/s, 'two joins');
is($node->safe_psql('postgres', "SET work_mem = '64kB'; $lookups; " . sprintf($both, '')),
	$node->safe_psql('postgres', "$no_lookups; " . sprintf($both, '')), 'two joins share staging memory');

# A cursor and other queries take turns.
$node->safe_psql('postgres', <<'END');
CREATE FUNCTION alternate() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	r record;
	rows bigint := 0;
	own bigint := 0;
	others bigint := 0;
BEGIN
	FOR r IN SELECT w.v, o.p FROM o JOIN wide w USING (k) WHERE o.p < 300 LOOP
		rows := rows + 1;
		own := own + coalesce(r.v, 1);
		IF rows % 50 = 0 THEN
			others := others + (SELECT coalesce(sum(b), 0) FROM narrow WHERE d = ANY (ARRAY[date '2000-01-01' + r.p, date '2000-01-02' + r.p]));
		END IF;
	END LOOP;
	RETURN concat_ws(' ', rows, own, others > 0);
END $$;
END
is($node->safe_psql('postgres', "$lookups; SELECT alternate()"), $node->safe_psql('postgres', "$no_lookups; SELECT alternate()"), 'a cursor');

# ----------------------------------------------------------------
# Daemons that are killed
# ----------------------------------------------------------------
$node->safe_psql('postgres', <<'END');
INSERT INTO wide SELECT hashint4(i / 3), hashint4(i), i FROM generate_series(40001, 150000) i;
INSERT INTO o SELECT i, hashint4(i * 7 % 52000), i FROM generate_series(2001, 8000) i;
VACUUM ANALYZE wide, o;
END
my $wanted = $node->safe_psql('postgres', "$no_lookups; SELECT count(*), sum(v) FROM o JOIN wide w USING (k)") =~ tr/|/,/r;
my $readers = start_pgbench($node, {
		'join' => join('', map { "SET $_ = off;\n" } qw(enable_seqscan enable_hashjoin enable_mergejoin enable_nestloop enable_indexscan)) . "SET work_mem = '256kB';\n"
		  . "SELECT 1 / ((count(*), sum(v))::text = '($wanted)')::int FROM o JOIN wide w USING (k);\n" },
	'-c', 2, '-T', 8);
my $kills = 0;
for (1 .. 10)
{
	usleep(700_000);
	my $victim = $node->safe_psql('postgres', 'SELECT pid FROM harmonia_device()');
	$kills += kill 'KILL', $victim if $victim ne '';
	$node->append_conf('postgresql.conf', "harmonia.device_memory = " . (1 + $kills % 2 * 100));
	$node->reload;
}
unlike(finish($readers), qr/ERROR|FATAL|abort/, 'all answers are right');
cmp_ok($kills, '>', 2, "while $kills daemons are killed");

$node->stop;
done_testing();
