# A mover that fails leaves a copy in the file to which nothing leads.  Its first block can be one to which the directory
# led when another session read it.  That session must not take the copy for the segment that was there: if it moved
# the copy, the directory would lead to that, in place of the segment that the copy was made of.
#
# The library is built with FAULT_POINTS (src/am/fault.h) and SMALL_LIMITS.
use strict;
use warnings;

use FaultSessions;
use Harmonia;
use Test::More;

my $node = new_node('unlisted');

sub sql { return $node->safe_psql('postgres', $_[0]); }

sql(<<'END');
CREATE TABLE t (k int) WITH (autovacuum_enabled = off);
INSERT INTO t SELECT 10 * i FROM generate_series(1, 65500) i;
CREATE INDEX t_k ON t USING harmonia (k);
SELECT harmonia_reorganize('t_k');
END
my @segments = map { [ split /\|/ ] } split /\n/, sql(<<'END');
SELECT block, low_key - 2147483648, coalesce(high_key - 2147483648, 1000000) FROM harmonia_segments('t_k')
ORDER BY low_key
END
cmp_ok(scalar @segments, '>=', 5, 'there are some segments');
my ($front, $copied, $end) = @segments[ 0, -2, -1 ];

# Rows between the bounds of a segment, one by one, until one moves it.  The movement ends at a fault point.
sub fill_up_to
{
	my ($point, $segment) = @_;

	return <<"END";
SET harmonia.fault = '$point:error';
DO \$\$ DECLARE key int;
BEGIN
	FOR key IN SELECT k + i FROM t, generate_series(1, 9) i
		WHERE k >= $segment->[1] AND k < $segment->[2] AND k % 10 = 0 ORDER BY hashint4(k + i)
	LOOP
		BEGIN
			INSERT INTO t VALUES (key);
		EXCEPTION
			WHEN OTHERS THEN EXIT;
		END;
	END LOOP;
END \$\$
END
}

sub is_listed { return sql("SELECT count(*) FROM harmonia_segments('t_k') WHERE block = $_[0]"); }

my ($reader, $mover) = map { open_session($node) } 1 .. 2;

# The session has read the directory, and stops before it reads the segment at the end.
hold($node, 'candidate_read');
ask($reader, "SET harmonia.fault = 'candidate_read:wait:$#segments'");
send_sql($reader, "SELECT harmonia_reorganize('t_k')");
stopped_at($node, 'candidate_read');

is(ask($mover, fill_up_to('move_locked', $copied)), '', 'another one is nearly moved');
is(ask($mover, fill_up_to('move_freed', $end)), '', 'a movement');
is(is_listed($end->[0]), '0', 'the segment at the end is moved');
is(ask($mover, fill_up_to('move_copied', $copied)), '', 'another one, which fails');
is(sql("SELECT kind FROM harmonia_page('t_k', $end->[0])"), 'header', 'its copy begins where that segment was');
is(is_listed($end->[0]), '0', 'nothing leads to it');
# There is room for it before it.
is(ask($mover, fill_up_to('move_freed', $front)), '', 'one more movement');
is(is_listed($front->[0]), '0', 'a segment at the front is moved');
# The copy does not have these rows.
sql("INSERT INTO t SELECT k FROM t WHERE k >= $copied->[1] AND k < $copied->[2] ORDER BY hashint4(k) LIMIT 5");

release('candidate_read');
like(answer($reader), qr/^\d+$/, 'the session goes on');
check_index($node, 't_k', 'the index has all rows');

close_session($_) for ($reader, $mover);
$node->stop;
done_testing();
