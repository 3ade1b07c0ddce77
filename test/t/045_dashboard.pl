# The queries of the dashboard, on a server with an index that was used, as a role that monitors.
use strict;
use warnings;

use Harmonia;
use JSON::PP;
use Test::More;

open my $file, '<', 'packaging/grafana.json' or die "could not read the dashboard: $!";
my $dashboard = decode_json(do { local $/; <$file> });
close $file;

my $node = new_node('dashboard', conf => "shared_preload_libraries = 'harmonia'\n");
$node->safe_psql('postgres', <<'END');
CREATE ROLE monitor IN ROLE pg_monitor;
CREATE TABLE t AS SELECT i AS k FROM generate_series(1, 10000) i;
CREATE INDEX t_k ON t USING harmonia (k);
VACUUM ANALYZE t;
SET enable_seqscan = off;
SET harmonia.enable_lookup_scan = on;
SELECT count(*) FROM t WHERE k = ANY (ARRAY(SELECT generate_series(1, 2000)));
END

my (%ids, %answers);
for my $panel (@{ $dashboard->{panels} })
{
	my $title = $panel->{title};

	is(++$ids{ $panel->{id} }, 1, "$title: its number");
	for my $target (@{ $panel->{targets} })
	{
		my ($result, $out, $err) = $node->psql('postgres', "SET ROLE monitor; $target->{rawSql}");

		is($result, 0, "$title: its query runs") or diag($err);
		$answers{$title} = $out;
	}
	for my $override (@{ $panel->{fieldConfig}{overrides} })
	{
		my $column = $override->{matcher}{options};

		like($panel->{targets}[0]{rawSql}, qr/\b\Q$column\E\b/, "$title: column $column");
	}
}
like($answers{'Batches by index'}, qr/^public\|t_k\|\d+\|2000\|2000\|0\.0\|/m, 'batches are shown');
is($answers{'Keys looked up'}, '2000|0', 'and their keys');
like($answers{'Indexes'}, qr/^public\|t\|t_k\|.*\|t$/m, 'so is the index');

$node->stop;
done_testing();
