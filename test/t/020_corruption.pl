# harmonia_check() finds damage of every kind and names it.  A damaged index does not take
# the server down.
#
# Each kind of damage, called a plant, has its own table.  All plants are written while
# the server is down.
use strict;
use warnings;

use Harmonia;
use HarmoniaDamage;
use HarmoniaPlants;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# Without checksums, so that damaged pages reach the extension.  18 has them by default.
my ($version) = `initdb --version` =~ /(\d+)/;
my $node = new_node('corruption', conf => "shared_buffers = 32MB\n",
	$version >= 18 ? (extra => ['--no-data-checksums']) : ());
my @plants = plants();

$node->safe_psql('postgres', create_damage_functions());
$node->safe_psql('postgres', join '', map { create_base($plants[$_][1], "p$_") . ";\n" } 0 .. $#plants);
my @indexes = map { $node->data_dir . "/$_" } split /\n/, $node->safe_psql('postgres',
	"SELECT pg_relation_filepath(format('p%s_i', n)::regclass) FROM generate_series(0, $#plants) n ORDER BY n");
is($node->safe_psql('postgres',
		"SELECT DISTINCT check_result(i::regclass, true) FROM generate_series(0, $#plants) n, format('p%s_i', n) i"),
	'ok', 'all indexes are in order before');

$node->stop;
for my $i (0 .. $#plants)
{
	my ($name, $base, $plant) = @{ $plants[$i] };
	my $before = read_index($indexes[$i]);
	my $after = $before;
	$plant->(\$after);
	die "plant $name changes nothing" if $after eq $before;
	write_index($indexes[$i], $after);
}
$node->start;

for my $i (0 .. $#plants)
{
	my ($name, $base, $plant, $expected, $heapallindexed) = @{ $plants[$i] };
	$heapallindexed = 'true' if 'ok' =~ $expected;
	is(check_result($node, "p${i}_i", 'false'), 'ok', "$name: nothing wrong with the index alone")
	  if ($heapallindexed // '') eq 'true';
	like(check_result($node, "p${i}_i", $heapallindexed // 'false'), $expected, "$name: is reported");
}

# No plan looks for a row where none can be, or counts it.
my $keys = 'ARRAY(SELECT g << 32 FROM generate_series(10000::bigint, 11100) g)';
my @ways = (
	[ 'Index Scan', 'indexscan', 'count(ctid)', 'k BETWEEN 10000::bigint << 32 AND 11100::bigint << 32' ],
	[ 'Index Only Scan', 'indexonlyscan', 'count(k)', 'k BETWEEN 10000::bigint << 32 AND 11100::bigint << 32' ],
	[ 'Bitmap Index Scan', 'bitmapscan', 'count(ctid)', 'k BETWEEN 10000::bigint << 32 AND 11100::bigint << 32' ],
	[ 'HarmoniaLookup', '', 'count(ctid)', "k = ANY ($keys)" ],
	[ 'HarmoniaLookup', '', 'count(k)', "k = ANY ($keys)" ]);
for my $i (grep { $plants[$_][0] =~ /^offset 0$/ } 0 .. $#plants)
{
	my $size = $node->safe_psql('postgres', "VACUUM (INDEX_CLEANUP off) p$i; SELECT pg_relation_size('p$i')");

	for my $way (@ways)
	{
		my ($scan, $enabled, $what, $condition) = @$way;
		my $query = "SELECT $what FROM p$i WHERE $condition";
		my $settings = join '', map { "SET enable_$_ = " . ($_ eq $enabled ? 'on;' : 'off;') }
		  qw(seqscan indexscan indexonlyscan bitmapscan);
		$settings =~ s/enable_indexscan = off/enable_indexscan = on/ if $enabled eq 'indexonlyscan';

		like($node->safe_psql('postgres', "$settings EXPLAIN $query"), qr/$scan.* p${i}(_i)?\b/,
			"$plants[$i][0]: $scan for $what");
		my ($result, $out, $err) = $node->psql('postgres', "\\set VERBOSITY verbose\n$settings $query");
		like($err, qr/^.*ERROR:  XX002: an entry of index "p${i}_i" refers to row/,
			"$plants[$i][0]: reported by $scan for $what");
	}
	is($node->safe_psql('postgres', "SELECT pg_relation_size('p$i')"), $size,
		"$plants[$i][0]: the table has not grown");
	my ($result, $out, $err) = $node->psql('postgres',
		"\\set VERBOSITY verbose\nDELETE FROM p$i WHERE k < 100::bigint << 32;\nVACUUM (INDEX_CLEANUP on) p$i;");
	like($err, qr/^.*ERROR:  XX002: an entry of index "p${i}_i" refers to row/,
		"$plants[$i][0]: reported by VACUUM");
}

# Entries of a damaged leaf are not copied to others, neither by a split, of a statement or row by row, nor by a movement.
# (Another leaf is split before, so that there is something to move.)
for my $i (grep { $plants[$_][0] eq 'leaf pivot' } 0 .. $#plants)
{
	my $rows = 'SELECT (10500::bigint << 32) + g FROM generate_series(1, 600) g';
	my %ways = (
		'a statement' => "INSERT INTO p$i $rows",
		'single rows' => "DO 'DECLARE k bigint; BEGIN FOR k IN $rows LOOP INSERT INTO p$i VALUES (k); END LOOP; END'",
		'a movement' => "SELECT harmonia_reorganize('p${i}_i')");
	my $leaves = "SELECT sum(leaves) FROM harmonia_segments('p${i}_i')";
	my $before;

	$node->safe_psql('postgres', "INSERT INTO p$i SELECT (200::bigint << 32) + g FROM generate_series(1, 600) g");
	$before = $node->safe_psql('postgres', $leaves);
	for my $way (sort keys %ways)
	{
		my ($result, $out, $err) = $node->psql('postgres', "\\set VERBOSITY verbose\n$ways{$way}");
		like($err, qr/ERROR:  XX002: index "p${i}_i" has a damaged leaf at block 20/, "a damaged leaf is reported by $way");
		is($node->safe_psql('postgres', $leaves), $before, "$way makes no leaf of it");
	}
}

# The server survives reads and changes of the index.
for my $i (0 .. $#plants)
{
	my ($name, $base, $plant, $expected) = @{ $plants[$i] };
	is(survives($node, "p$i"), '', "$name: does no harm to the server");
	is(check_result($node, "p${i}_i", 'true'), 'ok', "$name: does no harm to the index")
	  if 'ok' =~ $expected;
}
is($node->safe_psql('postgres', "SELECT pg_postmaster_start_time() < now()"), 't', 'the server is up');
unlike(slurp_file($node->logfile), qr/PANIC|TRAP|terminated by signal/, 'no process crashed');

# REINDEX repairs the index, as the hint says.
$node->safe_psql('postgres', join '', map { "REINDEX INDEX p${_}_i;\n" } 0 .. $#plants);
is($node->safe_psql('postgres',
		"SELECT n FROM generate_series(0, $#plants) n WHERE check_result(format('p%s_i', n)::regclass, true) <> 'ok'"),
	'', 'REINDEX helps in all cases');

$node->stop;
done_testing();
