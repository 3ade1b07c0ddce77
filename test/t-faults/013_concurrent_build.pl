# Anybody may read the file of an index while CREATE INDEX CONCURRENTLY writes it, as
# pg_prewarm does: what shared buffers then have of it must not stay.
#
# The library is built with FAULT_POINTS (src/am/fault.h) and SMALL_LIMITS.
use strict;
use warnings;

use FaultSessions;
use Harmonia;
use Test::More;

my $node = new_node('building');

sub sql { return $node->safe_psql('postgres', $_[0]); }

plan skip_all => 'pg_prewarm is not installed'
  if sql("SELECT count(*) FROM pg_available_extensions WHERE name = 'pg_prewarm'") eq '0';
sql(<<'END');
CREATE EXTENSION pg_prewarm;
CREATE TABLE t (k int) WITH (autovacuum_enabled = off);
INSERT INTO t SELECT i FROM generate_series(1, 20000) i;
END

for my $point ('build_begun', 'build_pages_extended', 'build_segment_written', 'build_pages_written')
{
	for my $command ('CREATE INDEX CONCURRENTLY t_k ON t USING harmonia (k)', 'REINDEX INDEX CONCURRENTLY t_k')
	{
		my $name = ($command =~ /^(\w+)/)[0] . " at $point";
		my $builder = open_session($node);

		hold($node, $point);
		ask($builder, "SET harmonia.fault = '$point:wait'");
		send_sql($builder, $command);
		stopped_at($node, $point);
		cmp_ok(sql("SELECT pg_prewarm(indexrelid) FROM pg_index WHERE indrelid = 't'::regclass AND NOT indisvalid"),
			'>', 0, "$name: blocks are read");
		release($point);
		is(answer($builder), '', "$name: the build ends");
		sql('INSERT INTO t VALUES (1)');
		check_index($node, 't_k', "$name: the index is as the table");
		close_session($builder);
	}
	sql('DROP INDEX t_k');
}

$node->stop;
done_testing();
