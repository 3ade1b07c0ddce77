# Damage of every kind to an index, called plants: what to change in the file of one of
# HarmoniaDamage's tables, and what harmonia_check() reports.
package HarmoniaPlants;

use strict;
use warnings;

use Exporter 'import';
use HarmoniaDamage;

our @EXPORT = qw(plants);

# Offsets on pages, as in src/am and src/tree/tree.h
my %meta = (
	magic => 64, version => 68, endian => 70, block_size => 72, key_type => 76, width => 80, fanout => 82, flags => 86,
	nulls_low => 84, depth => 85, next_stamp => 96, retired => 104, drained => 112,
	root_count => 120, free_count => 124, root => 128, free => 128 + 192 * 24, key_columns => 6672,
	columns => 6680);	# of 16 bytes
my %header = (
	stamp => 64, state => 71, low_key => 72, low_tid => 80, high_key => 88, high_tid => 96, fanout => 104,
	levels => 106, nodes => 112, bottom_start => 116, leaf_room => 120, pure_leaves => 124,
	tail_used => 128, leaves => 132, auxiliaries => 136, key_base => 140, leaf_base => 144,
	key_region_at => 148, nodes_here => 152, nodes_per_page => 156, extent_count => 160,
	spare_used => 164, extents => 168, child_region => 168 + 24 * 8);
my %special = (
	stamp => 8144, low_key => 8152, high_key => 8160, right => 8180, segment => 8184,
	part_and_flags => 8188, kind => 8189, page_id => 8190);	# flags are the higher half
my %auxiliary = (count => 64, node => 68, keys => 72, children => 72 + 440 * 8);
# of a leaf of class 64 with TIDs of 4 bytes
my %leaf = (
	class => 64, tid_bytes => 65, base => 72, pivots => 72, separators => 128, blocks => 640, block => 128,
	tids => 80, count => 126);
my %narrow = (blocks => 512, tids => 42);	# of class 16
# of class 96; and the words of a header's bounds
my %wide = (base => 96, separators => 128, blocks => 640, block => 256, tails => 120, count => 254, low_word => 8064, high_word => 8088);

sub add
{
	my ($data, $block, $offset, $template, $difference) = @_;
	put($data, $block, $offset, $template, get($data, $block, $offset, $template) + $difference);
	return;
}

sub swap
{
	my ($data, $block, $offset, $length, $other) = @_;
	my $at = $block * 8192;
	my $bytes = substr $$data, $at + $offset, $length;
	substr($$data, $at + $offset, $length) = substr $$data, $at + $other, $length;
	substr($$data, $at + $other, $length) = $bytes;
	return;
}

# The offset of the first block of a leaf of class 96 that has an entry.
sub wide_block
{
	my ($data, $page) = @_;
	my ($found) = grep { get($data, $page, $_ + $wide{count}, 'C') > 0 } map { $wide{blocks} + $_ * $wide{block} } 0 .. 28;
	return $found // die 'no entries';
}

# The offset of the first block of a leaf that has so many entries, or of the n-th such
# block after it.
sub leaf_block
{
	my ($data, $page, $entries, $n) = @_;
	my @found = grep { get($data, $page, $_ + $leaf{count}, 'C') >= $entries }
	  map { $leaf{blocks} + $_ * $leaf{block} } 0 .. 57;
	return $found[ $n // 0 ] // die "no block with $entries entries";
}

# Read or write the entry in a slot of a leaf's block: key and TID.
sub get_entry
{
	my ($data, $page, $block, $slot) = @_;
	return (get($data, $page, $block + 8 * $slot, 'Q<'),
		get($data, $page, $block + $leaf{tids} + 4 * $slot, 'V'));
}

sub put_entry
{
	my ($data, $page, $block, $slot, $key, $tid) = @_;
	put($data, $page, $block + 8 * $slot, 'Q<', $key);
	put($data, $page, $block + $leaf{tids} + 4 * $slot, 'V', $tid);
	return;
}

# Make a leaf an empty one: of class 64, or of class 16 with this base.
sub make_wide
{
	my ($data, $page) = @_;
	put($data, $page, 12, 'v2', 8064, 8144);
	put($data, $page, $leaf{class}, 'CC x6', 64, 4);
	put($data, $page, $leaf{pivots}, 'a8072', "\xFF" x 568);
	return;
}

sub make_narrow
{
	my ($data, $page, $base) = @_;
	put($data, $page, 12, 'v2', 256, 512);
	put($data, $page, $leaf{class}, 'CC x6 Q<', 16, 4, $base);
	put($data, $page, 80, 'a8064', "\xFF" x 2 . "\0" x 46 . "\xFF" x 128);
	return;
}

# The same of class 0.
sub make_single
{
	my ($data, $page, $base) = @_;
	put($data, $page, 12, 'v2', 128, 384);
	put($data, $page, $leaf{class}, 'CC x6 Q<', 0, 4, $base);
	put($data, $page, 80, 'a8064', '');
	return;
}

# In a table of kind "shadowed": the child of the auxiliary node that a split made.
sub split_child
{
	my ($data, $page) = @_;
	my ($child) = grep { get($data, $page, $auxiliary{children} + 4 * $_, 'V') > 22 }
	  0 .. get($data, $page, $auxiliary{count}, 'V') - 1;
	return $child;
}

# The offset of node n, in a segment whose nodes are all on the header page.
sub node_at
{
	my ($data, $page, $node, $size) = @_;
	return get($data, $page, $header{key_region_at}, 'V') + $node * $size;
}

# Move the root's entries to directory pages at the end of the file, so many to each.
# Returns the block of the first page.  The server does so once the root is full, in a very
# large index.
sub deepen
{
	my ($data, @counts) = @_;
	my $entries = substr $$data, $meta{root}, 24 * get($data, 0, $meta{root_count}, 'V');
	my $first = length($$data) / 8192;
	my ($block, $done) = ($first, 0);

	die 'the root has too few entries' if length $entries < 24 * eval join '+', @counts;
	for my $count (@counts)
	{
		my $rest = $block == $first + $#counts ? length($entries) / 24 - $done : $count;
		my $mine = substr $entries, 24 * $done, 24 * $rest;

		$$data .= substr($$data, 0, 64) . pack('V2', $rest, 0) . $mine
		  . "\0" x (8064 - 72 - length $mine) . substr($$data, 8064, 128);
		put($data, $block, $special{kind}, 'C', 2);
		put($data, 0, $meta{root} + 24 * ($block - $first), 'a24', $mine);
		put($data, 0, $meta{root} + 24 * ($block - $first) + 16, 'V2', $block, 0);
		$done += $rest;
		$block++;
	}
	put($data, 0, $meta{depth}, 'C', 1);
	put($data, 0, $meta{root_count}, 'V', scalar @counts);
	return $first;
}

# Name, kind of table, damage, what harmonia_check() reports, and 'true' if only a check
# with heapallindexed reports it.
my @plants = (
	# Metapage and directory
	[ 'magic', tree => sub { put($_[0], 0, $meta{magic}, 'V', 0x12345678) },
		qr/^XX002: index "\w+" is not a harmonia index/ ],
	[ 'newer version', tree => sub { put($_[0], 0, $meta{version}, 'v', 9) },
		qr/^0A000: index "\w+" has on-disk version 9/ ],
	[ 'small limits', tree => sub { put($_[0], 0, $meta{flags}, 'v', 1) },
		qr/^0A000: index "\w+" has flags 1, this harmonia reads flags 0/ ],
	[ 'endianness', tree => sub { put($_[0], 0, $meta{endian}, 'n', 0x0102) },
		qr/^XX002: index "\w+" is not a harmonia index/ ],
	[ 'block size', tree => sub { put($_[0], 0, $meta{block_size}, 'V', 32768) },
		qr/^XX002: index "\w+" is not a harmonia index/ ],
	[ 'fanout of the index', tree => sub { put($_[0], 0, $meta{fanout}, 'v', 0) },
		qr/^XX002: .* damaged metapage/ ],
	[ 'zeroed metapage', tree => sub { put($_[0], 0, 0, 'a8192', '') },
		qr/^XX002: .* unexpected page at block 0/ ],
	[ 'torn metapage', tree => sub { put($_[0], 0, 4096, 'a4096', '') },
		qr/^XX002: .* unexpected page at block 0/ ],
	[ 'key type', tree => sub { put($_[0], 0, $meta{key_type}, 'V', 23) },
		qr/^XX002: .* was built for keys of another type/ ],
	[ 'key width', tree => sub { put($_[0], 0, $meta{width}, 'v', 4) },
		qr/^XX002: .* damaged metapage/ ],
	[ 'type of the second column', columns => sub { put($_[0], 0, $meta{columns} + 16, 'V', 20) },
		qr/^XX002: .* has a damaged metapage/ ],
	[ 'number of columns', columns => sub { put($_[0], 0, $meta{key_columns}, 'v', 3) },
		qr/^XX002: .* has a damaged metapage/ ],
	[ 'columns of more than 64 bits', columns => sub { put($_[0], 0, $meta{columns} + 12, 'v', 33) },
		qr/^XX002: .* has a damaged metapage/ ],
	[ 'unknown flag of a column', columns => sub { put($_[0], 0, $meta{columns} + 14, 'v', 12) },
		qr/^XX002: .* has a damaged metapage/ ],
	[ 'NULL in the gap of a column that is cut', columns => sub { put($_[0], 0, $meta{columns} + 28, 'v', 31) },
		qr/^XX002: .* has a damaged metapage/ ],
	[ 'column of no bits', columns => sub { put($_[0], 0, $meta{columns} + 28, 'v', 0) },
		qr/^XX002: .* has a damaged metapage/ ],
	[ 'a column whose gap is not closed', columns => sub { put($_[0], 0, $meta{columns} + 30, 'v', 0) },
		qr/^XX002: .*: Row \(\d+,\d+\) of table "\w+" has no entry in it/, 'true' ],
	[ 'root count', tree => sub { put($_[0], 0, $meta{root_count}, 'V', 1000000) },
		qr/^XX002: .* damaged metapage/ ],
	[ 'free count', tree => sub { put($_[0], 0, $meta{free_count}, 'V', 241) },
		qr/^XX002: .* damaged metapage/ ],
	[ 'depth without directory pages', tree => sub { put($_[0], 0, $meta{depth}, 'C', 1) },
		qr/Block 1: the page is not a directory page/ ],
	[ 'depth', tree => sub { put($_[0], 0, $meta{depth}, 'C', 2) },
		qr/^XX002: .* damaged metapage/ ],
	[ 'NULLs on the wrong side', nulls => sub { put($_[0], 0, $meta{nulls_low}, 'C', 1) },
		qr/Block 0: NULL keys are on the wrong side/ ],
	[ 'directory order', segments => sub { swap($_[0], 0, $meta{root}, 24, $meta{root} + 24) },
		qr/Block 0: the directory begins at|Block 0: directory entry 1, .* is not above/ ],
	[ 'directory low bound', segments => sub { add($_[0], 0, $meta{root} + 24, 'Q<', 1) },
		qr/the segment (ends before|begins at) .*, but the (next one begins|directory has)/ ],
	[ 'first directory entry', tree => sub { put($_[0], 0, $meta{root}, 'Q<', 5) },
		qr/Block 0: the directory begins at \(5, / ],
	[ 'directory entry without block', tree => sub { put($_[0], 0, $meta{root} + 16, 'V', 0xFFFFFFFF) },
		qr/Block 0: it refers to block 4294967295 as segment/ ],
	[ 'directory entry of the metapage', tree => sub { put($_[0], 0, $meta{root} + 16, 'V', 0) },
		qr/Block 0: it refers to block 0 as segment/ ],
	[ 'directory entry of another segment', steps => sub {
			put($_[0], 0, $meta{root} + 24 + 16, 'V', get($_[0], 0, $meta{root} + 16, 'V'));
		},
		qr/Block 1: the segment begins at \(0, \(0,0\)\), but the directory has/ ],
	[ 'directory entry of a leaf', tree => sub { put($_[0], 0, $meta{root} + 16, 'V', 2) },
		qr/Block 2: the page is not a segment header/ ],
	[ 'directory entry missing', segments => sub { put($_[0], 0, $meta{root_count}, 'V', 1) },
		qr/ends before .*, but is the last one of its part/ ],
	[ 'part missing', nulls => sub { put($_[0], 0, $meta{root_count}, 'V', 1) },
		qr/has no entry in it/, 'true' ],
	[ 'two segments at one block', nulls => sub { put($_[0], 0, $meta{root} + 24 + 16, 'V', 1) },
		qr/Block 1: the page is of part 1, its segment of part 2/ ],
	[ 'directory entry of an earlier segment', tree => sub { put($_[0], 0, $meta{root} + 20, 'V', 77) },
		qr/Block 1: the segment has stamp 1, but the directory refers to stamp 77/ ],
	[ 'stamp of a directory page', steps => sub { deepen($_[0], 3, 1); put($_[0], 0, $meta{root} + 20, 'V', 1) },
		qr/Block 0: the directory page at block \d+ has stamp 1/ ],
	[ 'no next stamp', tree => sub { put($_[0], 0, $meta{next_stamp}, 'Q<', 0) },
		qr/Block 0: the next stamp is 0/ ],
	[ 'part that begins late', nulls => sub { put($_[0], 0, $meta{root} + 24 + 8, 'V', 5) },
		qr/Block 0: directory entry 1 begins its part at \(null, \(0,5\)\)/ ],
	[ 'part that begins late on a directory page', nulls => sub {
			my $block = deepen($_[0], 1, 1);
			put($_[0], 0, $meta{root} + 24 + 8, 'V', 5);
			put($_[0], $block + 1, 72 + 8, 'V', 5);
		},
		qr/Block \d+: the directory page begins its part at \(null, \(0,5\)\)/ ],
	[ 'intact directory page', steps => sub { deepen($_[0], 1) }, qr/^ok$/ ],
	[ 'intact directory pages', steps => sub { deepen($_[0], 3, 1, 1) }, qr/^ok$/ ],
	[ 'zeroed directory page', steps => sub { put($_[0], deepen($_[0], 3, 1), 0, 'a8192', '') },
		qr/Block \d+: the page is empty instead of a directory page/ ],
	[ 'torn directory page', steps => sub { put($_[0], deepen($_[0], 3, 1), 4096, 'a4096', '') },
		qr/Block \d+: the page is not a directory page/ ],
	[ 'empty directory page', steps => sub { put($_[0], deepen($_[0], 3, 1), 64, 'V', 0) },
		qr/Block \d+: the directory page has 0 entries/ ],
	[ 'directory page with too many entries', steps => sub { put($_[0], deepen($_[0], 3, 1), 64, 'V', 334) },
		qr/Block \d+: the directory page has 334 entries/ ],
	[ 'directory page with one entry too many', steps => sub { add($_[0], deepen($_[0], 3, 1), 64, 'V', 1) },
		qr/Block \d+: a directory entry is in part 0, which the index does not have/ ],
	[ 'directory page with one entry too few', steps => sub { add($_[0], deepen($_[0], 3, 1), 64, 'V', -1) },
		qr/Block \d+: the segment ends before .*, but the next one begins at/ ],
	[ 'directory page out of order', steps => sub {
			my $block = deepen($_[0], 3, 1);
			swap($_[0], $block, 72 + 24, 24, 72 + 48);
		},
		qr/Block \d+: directory entry 2, .*, is not above the one before/ ],
	[ 'directory page that begins elsewhere', steps => sub {
			deepen($_[0], 3, 1);
			add($_[0], 0, $meta{root} + 24, 'Q<', -1);
		},
		qr/Block \d+: the directory page begins at .*, but the root has/ ],
	[ 'directory pages exchanged', steps => sub {
			my $block = deepen($_[0], 3, 1);
			swap($_[0], $block, 0, 8192, 8192);
		},
		qr/Block \d+: the directory page begins at .*, but the root has/ ],
	[ 'directory page twice', steps => sub {
			put($_[0], 0, $meta{root} + 24 + 16, 'V', deepen($_[0], 3, 1));
		},
		qr/Block \d+: the directory page begins at .*, but the root has/ ],
	[ 'directory pages overlap', steps => sub {
			my $block = deepen($_[0], 3, 3, 1);
			put($_[0], $block, 72 + 48, 'Q<', get($_[0], $block + 1, 72 + 24, 'Q<'));
		},
		qr/Block \d+: the directory page begins at .*, but the one before it ends with/ ],
	[ 'metapage as directory page', steps => sub {
			deepen($_[0], 3, 1);
			put($_[0], 0, $meta{root} + 16, 'V', 0);
		},
		qr/Block 0: it refers to block 0 as directory page/ ],
	[ 'segment as directory page', steps => sub {
			deepen($_[0], 3, 1);
			put($_[0], 0, $meta{root} + 24 + 16, 'V', 1);
		},
		qr/Block 1: the page is not a directory page/ ],
	[ 'free directory page', steps => sub {
			put($_[0], 0, $meta{free}, 'V2', deepen($_[0], 3, 1), 1);
			put($_[0], 0, $meta{free_count}, 'V', 1);
		},
		qr/Block \d+: the block belongs to (.* and to a directory page|a directory page and to .*)/ ],
	[ 'directory page in a segment', steps => sub {
			# Copy it to the last block of the last segment, which is unused.
			my $from = deepen($_[0], 1);
			my $to = $from - 1;
			put($_[0], $to, 0, 'a8192', substr ${ $_[0] }, $from * 8192, 8192);
			put($_[0], 0, $meta{root} + 16, 'V', $to);
		},
		qr/Block \d+: the block belongs to (.* and to a directory page|a directory page and to .*)/ ],
	[ 'next stamp', tree => sub { put($_[0], 0, $meta{next_stamp}, 'Q<', 1) },
		qr/Block 1: the segment has stamp 1, the next one is 1/ ],
	[ 'drained', tree => sub { put($_[0], 0, $meta{drained}, 'Q<', 7) },
		qr/Block 0: 7 segments are drained, but only 0 are retired/ ],
	[ 'free extent beyond the file', moved => sub { put($_[0], 0, $meta{free} + 4, 'V', 1000000) },
		qr/Block 0: free extent 0, 1000000 blocks from \d+, is not within/ ],
	[ 'free extent of the metapage', tree => sub {
			put($_[0], 0, $meta{free_count}, 'V', 1);
			put($_[0], 0, $meta{free}, 'V2', 0, 1);
		},
		qr/Block 0: free extent 0 begins at block 0, before block 1/ ],
	[ 'empty free extent', moved => sub { put($_[0], 0, $meta{free} + 4, 'V', 0) },
		qr/Block 0: free extent 0, 0 blocks from \d+, is not within/ ],
	[ 'free extents that overlap', moved => sub {
			my $start = get($_[0], 0, $meta{free}, 'V');
			put($_[0], 0, $meta{free}, 'V4', $start, 3, $start + 2, 2);
			put($_[0], 0, $meta{free_count}, 'V', 2);
		},
		qr/Block 0: free extent 1 begins at block \d+, before block/ ],
	[ 'free extents that adjoin', moved => sub {
			my $start = get($_[0], 0, $meta{free}, 'V');
			put($_[0], 0, $meta{free}, 'V4', $start, 2, $start + 2, 2);
			put($_[0], 0, $meta{free_count}, 'V', 2);
		},
		qr/Block 0: free extent 1 at block \d+ adjoins/ ],
	[ 'free extent of a segment', tree => sub {
			put($_[0], 0, $meta{free_count}, 'V', 1);
			put($_[0], 0, $meta{free}, 'V2', 10, 5);
		},
		qr/Block 10: the block belongs to the segment at block 1 and to the list of free extents/ ],

	# Segment headers
	[ 'zeroed header', tree => sub { put($_[0], 1, 0, 'a8192', '') },
		qr/Block 1: the page is empty instead of a segment header/ ],
	[ 'dead segment', tree => sub { put($_[0], 1, $header{state}, 'C', 1) },
		qr/Block 1: the directory refers to a segment that has been replaced/ ],
	[ 'torn header', tree => sub { put($_[0], 1, 4096, 'a4096', '') },
		qr/Block 1: the page is not a segment header/ ],
	[ 'unknown state', tree => sub { put($_[0], 1, $header{state}, 'C', 8) },
		qr/Block 1: the segment has unknown state 0x8/ ],
	[ 'segment stamp', tree => sub { put($_[0], 1, $header{stamp}, 'Q<', 77) },
		qr/Block 1: the page has stamp 1, its segment at block 1 has 77/ ],
	[ 'segment low bound', tree => sub { put($_[0], 1, $header{low_key}, 'Q<', 77) },
		qr/Block 1: the segment begins at \(77, / ],
	[ 'segment high bound', segments => sub { add($_[0], 1, $header{high_key}, 'Q<', 1) },
		qr/Block 1: the segment ends before .*, but the next one begins at/ ],
	[ 'segment without high bound', segments => sub { put($_[0], 1, $special{part_and_flags}, 'C', 1) },
		qr/Block 1: the segment has no upper bound, but the next one/ ],
	[ 'leaf count', tree => sub { add($_[0], 1, $header{leaves}, 'V', 1) },
		qr/Block 1: inner nodes lead to 96 leaves, but the header counts 97/ ],
	[ 'leaf count too small', tree => sub { add($_[0], 1, $header{leaves}, 'V', -1) },
		qr/Block 1: the header counts 95 leaves/ ],
	[ 'more leaves than counted', shadowed => sub { add($_[0], 1, $header{leaves}, 'V', -1) },
		qr/Block 1: inner nodes lead to more than the segment's 22 leaves/ ],
	[ 'no leaf room', tree => sub { put($_[0], 1, $header{leaf_room}, 'V', 0) },
		qr/Block 1: the segment has room for 0 leaves/ ],
	[ 'no pure leaves', tree => sub { put($_[0], 1, $header{pure_leaves}, 'V', 0) },
		qr/Block 1: 0 leaves from the front and 0 from the end are in use, but there is room for 96/ ],
	[ 'pure leaves', shadowed => sub { add($_[0], 1, $header{pure_leaves}, 'V', -1) },
		qr/Block 1: separator \d of node \d is .*, but leads to no leaf/ ],
	[ 'fanout', tree => sub { put($_[0], 1, $header{fanout}, 'v', 9) },
		qr/Block 1: the segment has fanout 9, but the index has 8/ ],
	[ 'nodes', tree => sub { put($_[0], 1, $header{nodes}, 'V', 0xFFFFFFF0) },
		qr/Block 1: number of inner nodes is 4294967280, must be 15/ ],
	[ 'bottom start', tree => sub { put($_[0], 1, $header{bottom_start}, 'V', 0) },
		qr/Block 1: first bottom node is 0, must be 3/ ],
	[ 'key region offset', tree => sub { put($_[0], 1, $header{key_region_at}, 'V', 8191) },
		qr/Block 1: offset of the key region is 8191/ ],
	[ 'nodes on a key page', keys => sub { put($_[0], 1, $header{nodes_per_page}, 'V', 0) },
		qr/Block 1: number of nodes on a key page is 0/ ],
	[ 'leaf base', tree => sub { put($_[0], 1, $header{leaf_base}, 'V', 0xFFFFFFFF) },
		qr/Block 1: first leaf is 4294967295, must be 2/ ],
	[ 'leaf base at the header', tree => sub { put($_[0], 1, $header{leaf_base}, 'V', 1) },
		qr/Block 1: first leaf is 1, must be 2/ ],
	[ 'leaf room', tail => sub { add($_[0], 98, $header{leaf_room}, 'V', 1) },
		qr/Block 98: (length of the main extent|first leaf) is/ ],
	[ 'blocks from the end', tail => sub { add($_[0], 98, $header{tail_used}, 'V', 1) },
		qr/Block 98: splits use 2 blocks of extent 0, must be 3/ ],
	[ 'blocks from the end that are used', tail => sub { add($_[0], 98, $header{tail_used}, 'V', -1) },
		qr/Block 98: the (leaf|auxiliary node) at block \d+ is outside the segment's blocks in use/ ],
	[ 'extent count', tree => sub { put($_[0], 1, $header{extent_count}, 'V', 25) },
		qr/Block 1: the segment has 25 extents/ ],
	[ 'main extent', tree => sub { add($_[0], 1, $header{extents} + 4, 'V', 1) },
		qr/Block 1: length of the main extent is 98, must be 97/ ],
	[ 'further extent beyond the file', shadowed => sub { put($_[0], 1, $header{extents} + 12, 'V', 500) },
		qr/Block 1: extent 1, 500 blocks from \d+, is not within/ ],
	[ 'spare blocks used', shadowed => sub { put($_[0], 1, $header{spare_used}, 'V', 1) },
		qr/Block 1: the (leaf|auxiliary node) at block \d+ is outside the segment's blocks in use/ ],
	[ 'spare blocks used beyond', shadowed => sub { put($_[0], 1, $header{spare_used}, 'V', 100) },
		qr/Block 1: 100 blocks of the last extent are in use/ ],
	[ 'spare blocks not used', shadowed => sub { add($_[0], 1, $header{spare_used}, 'V', 1) },
		qr/Block 1: splits use \d+ blocks of extent 1, must be/ ],
	[ 'further extent at the header', shadowed => sub {
			put($_[0], 1, $header{extents} + 8, 'V', 1 - get($_[0], 1, $header{spare_used}, 'V'));
		},
		qr/Block 1: (extent 1, \d+ blocks from \d+, is not within|the leaf at block \d+ is outside)/ ],
	[ 'further extent at the leaves', shadowed => sub { put($_[0], 1, $header{extents} + 8, 'V', 2) },
		qr/Block 1: the (leaf|auxiliary node) at block \d+ is outside/ ],
	[ 'further extent at the metapage', shadowed => sub { put($_[0], 1, $header{extents} + 8, 'V', 0) },
		qr/Block 1: extent 1, \d+ blocks from 0, is not within/ ],
	[ 'further extent that is unused yet', shadowed => sub {
			my $blocks = length(${ $_[0] }) / 8192;
			${ $_[0] } .= "\0" x (3 * 8192);
			put($_[0], 1, $header{extent_count}, 'V', 3);
			put($_[0], 1, $header{extents} + 16, 'V2', $blocks, 3);
			put($_[0], 1, $header{spare_used}, 'V', 0);
		},
		qr/^ok$/ ],
	[ 'extents of two segments overlap', nulls => sub {
			put($_[0], 1, $header{extent_count}, 'V', 2);
			put($_[0], 1, $header{extents} + 8, 'V2', 24, 2);
		},
		qr/Block 24: the block belongs to the segment at block \d+ and to the segment at block/ ],

	# Inner nodes
	[ 'prefix sum', tree => sub { add($_[0], 1, $header{child_region} + 4, 'V', 1) },
		qr/Block 1: prefix sum of node 1 is 4, must be 3/ ],
	[ 'prefix sum of a bottom node', tree => sub { add($_[0], 1, $header{child_region} + 4 * 14, 'V', -8) },
		qr/Block 1: prefix sum of node 14 is 95, must be 103/ ],
	[ 'prefix sum to itself', tree => sub { put($_[0], 1, $header{child_region}, 'V', 0) },
		qr/Block 1: prefix sum of node 0 is 0, must be 1/ ],
	[ 'prefix sum beyond', shadowed => sub { put($_[0], 1, $header{child_region}, 'V', 0xFFFFFF00) },
		qr/Block 1: prefix sum of node 0 is 4294967040, must be 1/ ],
	[ 'separator', tree => sub { my $at = node_at($_[0], 1, 5, 128); add($_[0], 1, $at, 'Q<', 1) },
		qr/Block \d+: the leaf begins at .*, but inner nodes have .* for it|the leaf ends before .*, but inner nodes have/ ],
	[ 'separator of the root', tree => sub { my $at = node_at($_[0], 1, 0, 128); add($_[0], 1, $at, 'Q<', 1) },
		qr/Block 1: the leaf at block \d+ begins|Block \d+: the leaf (begins at|ends before) .*, but inner nodes have/ ],
	[ 'separator beyond the segment', steps => sub {
			# the separator of the second segment's last leaf
			my ($leaf, $at) = (get($_[0], 3, $header{pure_leaves}, 'V') - 1, node_at($_[0], 3, 0, 128));
			put($_[0], 3, $at + 8 * ($leaf - 1), 'Q<', ~0 - 5);
		},
		qr/Block 3: the leaf at block \d+ begins at .*, but its segment ends before/ ],
	[ 'separators out of order', tree => sub { my $at = node_at($_[0], 1, 5, 128); swap($_[0], 1, $at, 8, $at + 8) },
		qr/Block 1: separator 1 of node 5, .*, is not above the one before/ ],
	[ 'separator without leaf', tree => sub { my $at = node_at($_[0], 1, 0, 128); put($_[0], 1, $at + 48, 'Q<', ~0 - 1) },
		qr/Block 1: separator 6 of node 0 is .*, but leads to no leaf/ ],
	[ 'separator on a key page', keys => sub { add($_[0], 2, 64, 'Q<', 3) },
		qr/the leaf (begins at|ends before) .*, but inner nodes have/ ],
	[ 'torn key page', keys => sub { put($_[0], 2, 4096, 'a4096', '') },
		qr/^XX002: .* unexpected page at block 2|Block 2: the page is not a key page/ ],
	[ 'zeroed key page', keys => sub { put($_[0], 2, 0, 'a8192', '') },
		qr/^XX002: .* unexpected page at block 2|Block 2: the page is empty/ ],
	[ 'foreign key page', keys => sub { put($_[0], 2, $special{stamp}, 'Q<', 5) },
		qr/Block 2: the page has stamp 5, its segment at block 1 has 1/ ],

	# Auxiliary nodes
	[ 'auxiliary count', shadowed => sub { add($_[0], 22, $auxiliary{count}, 'V', -1) },
		qr/Block \d+: (the leaf|inner nodes lead to)/ ],
	[ 'auxiliary count beyond', shadowed => sub { put($_[0], 22, $auxiliary{count}, 'V', 0x7FFFFFFF) },
		qr/^XX002: .* damaged page at block 22/ ],
	[ 'auxiliary child', shadowed => sub { put($_[0], 22, $auxiliary{children} + 8, 'V', 21) },
		qr/Block 22: leaf 19 is a child of node 1, but has the number of another/ ],
	[ 'auxiliary child without block', shadowed => sub { put($_[0], 22, $auxiliary{children} + 8, 'V', 0xFFFFFFFF) },
		qr/Block 1: the leaf at block 4294967295 is outside/ ],
	[ 'auxiliary child is a header', shadowed => sub { put($_[0], 22, $auxiliary{children} + 8, 'V', 1) },
		qr/Block 1: the leaf at block 1 is outside/ ],
	[ 'auxiliary child is the metapage', shadowed => sub { put($_[0], 22, $auxiliary{children} + 8, 'V', 0) },
		qr/Block 1: the leaf at block 0 is outside/ ],
	[ 'auxiliary child is the node', shadowed => sub { put($_[0], 22, $auxiliary{children} + 8, 'V', 22) },
		qr/Block 1: two inner nodes refer to block 22/ ],
	[ 'separator of a shadowed node', shadowed => sub {
			add($_[0], 1, node_at($_[0], 1, 1, 128) + 8, 'Q<', 1);
		},
		qr/Block 22: leaf 2 begins at .*, but its separator is/ ],
	[ 'auxiliary child of another node', shadowed => sub {
			put($_[0], 22, $auxiliary{children}, 'V', get($_[0], 24, $auxiliary{children}, 'V'));
		},
		qr/Block 22: leaf 8 is a child of node 1, but has the number of another/ ],
	[ 'auxiliary child instead of a numbered leaf', shadowed => sub {
			# Use the next spare block, and count it as used.
			my $used = get($_[0], 1, $header{spare_used}, 'V');
			put($_[0], 1, $header{spare_used}, 'V', $used + 1);
			put($_[0], 22, $auxiliary{children}, 'V', get($_[0], 1, $header{extents} + 8, 'V') + $used);
		},
		qr/Block 1: inner nodes lead to 19 of 20 numbered leaves/ ],
	[ 'auxiliary node of no leaf', tail => sub {
			my $at = $header{child_region} + 4 * get($_[0], 98, $header{nodes}, 'V');
			put($_[0], 98, $at + 4, 'V', get($_[0], 98, $at, 'V'));
		},
		qr/Block 98: node 2 is shadowed, but has no leaf/ ],
	[ 'auxiliary node elsewhere', shadowed => sub {
			put($_[0], 1, $header{child_region} + 4 * 4, 'V', length(${ $_[0] }) / 8192);
			${ $_[0] } .= substr ${ $_[0] }, 22 * 8192, 8192;
		},
		qr/Block 1: the auxiliary node at block \d+ is outside the segment's blocks in use/ ],
	[ 'torn auxiliary node', shadowed => sub { put($_[0], 22, 4096, 'a4096', '') },
		qr/^XX002: .* unexpected page at block 22/ ],
	[ 'zeroed auxiliary node', shadowed => sub { put($_[0], 22, 0, 'a8192', '') },
		qr/^XX002: .* unexpected page at block 22/ ],
	[ 'auxiliary children swapped', shadowed => sub { swap($_[0], 22, $auxiliary{children}, 4, $auxiliary{children} + 4) },
		qr/Block 22: leaf 1 begins at .*, but its separator is/ ],
	[ 'auxiliary bound', shadowed => sub { add($_[0], 22, $auxiliary{keys} + 8 * split_child($_[0], 22), 'Q<', 1) },
		qr/Block \d+: the leaf (begins at|ends before)/ ],
	[ 'auxiliary bounds out of order', shadowed => sub {
			my $at = $auxiliary{keys} + 8 * split_child($_[0], 22);
			put($_[0], 22, $at, 'Q<', get($_[0], 22, $at - 8, 'Q<') - 1);
		},
		qr/Block 22: the leaf at block \d+ begins at .*, not above/ ],
	[ 'auxiliary node number', shadowed => sub { put($_[0], 22, $auxiliary{node}, 'V', 2) },
		qr/Block 22: the auxiliary node stands in for node 2, not 1/ ],
	[ 'auxiliary node replaced by another', shadowed => sub {
			my $at = $header{child_region} + 4 * 4;
			put($_[0], 1, $at, 'V', get($_[0], 1, $at + 4, 'V'));
		},
		qr/Block 24: the auxiliary node stands in for node 2, not 1/ ],
	[ 'auxiliary node missing', shadowed => sub { put($_[0], 1, $header{child_region} + 4 * 4, 'V', 0xFFFFFFFF) },
		qr/Block 1: inner nodes lead to 22 leaves, but the header counts 23/ ],
	[ 'auxiliary counter', shadowed => sub { add($_[0], 1, $header{auxiliaries}, 'V', 1) },
		qr/Block 1: the segment has 2 auxiliary nodes, but its header counts 3/ ],
	[ 'auxiliary node is a leaf', shadowed => sub { put($_[0], 1, $header{child_region} + 4 * 4, 'V', 3) },
		qr/^XX002: .* unexpected page at block 3/ ],

	# Leaves
	[ 'entries of two blocks swapped', tree => sub {
			swap($_[0], 20, leaf_block($_[0], 20, 1, 0), 8, leaf_block($_[0], 20, 1, 1));
		},
		qr/Block 20: (entries .* out of order|key is above the separator)/ ],
	[ 'entries of distant blocks swapped', shadowed => sub {
			swap($_[0], 10, leaf_block($_[0], 10, 9, 0), 8, leaf_block($_[0], 10, 9, -1) + 64);
		},
		qr/Block 10: (entries .* out of order|key is above the separator)/ ],
	[ 'duplicate entry', shadowed => sub {
			my $at = leaf_block($_[0], 10, 2);
			put_entry($_[0], 10, $at, 1, get_entry($_[0], 10, $at, 0));
		},
		qr/Block 10: entries .* out of order/ ],
	[ 'duplicate entry in another block', shadowed => sub {
			put_entry($_[0], 10, leaf_block($_[0], 10, 1, 1), 0,
				get_entry($_[0], 10, leaf_block($_[0], 10, 1, 0), 0));
		},
		qr/Block 10: (entries .* out of order|key is below the separator)/ ],
	[ 'block count beyond', tree => sub { put($_[0], 20, $leaf{blocks} + $leaf{count}, 'C', 255) },
		qr/Block 20: block count exceeds the slots of a block/ ],
	[ 'all block counts beyond', tree => sub { put($_[0], 20, $leaf{blocks} + $_ * 128 + $leaf{count}, 'C', 255) for 0 .. 57 },
		qr/Block 20: block count exceeds the slots of a block/ ],
	[ 'leaf separator', tree => sub { put($_[0], 20, $leaf{separators} + 8, 'Q<', 0) },
		qr/Block 20: (key is above the separator|separators are out of order)/ ],
	[ 'leaf separator without blocks', tree => sub { put($_[0], 20, $leaf{separators} + 63 * 8, 'Q<', 1) },
		qr/Block 20: separators are out of order/ ],
	[ 'leaf pivot', tree => sub { put($_[0], 20, $leaf{pivots} + 8, 'Q<', 3) },
		qr/Block 20: pivot differs from its separator/ ],
	[ 'leaf pivots all low', tree => sub { put($_[0], 20, $leaf{pivots}, 'Q<7', (0) x 7) },
		qr/Block 20: pivot differs from its separator/ ],
	[ 'pivots and separators all low', tree => sub { put($_[0], 20, $leaf{pivots}, 'Q<71', (0) x 71) },
		qr/Block 20: key is above the separator/ ],
	[ 'entry above its leaf', tree => sub {
			# the last entry of the page: its block's separator is unused
			my $at = $leaf{blocks} + 57 * 128;
			$at -= 128 until get($_[0], 20, $at + $leaf{count}, 'C') > 0;
			put($_[0], 20, $at + 8 * (get($_[0], 20, $at + $leaf{count}, 'C') - 1), 'Q<', ~0 - 5);
		},
		qr/Block 20: entry .* is outside the leaf's bounds/ ],
	[ 'entry below its leaf', tree => sub { my $at = leaf_block($_[0], 20, 1); put($_[0], 20, $at, 'Q<', 1) },
		qr/Block 20: entry \(1, .* is outside the leaf's bounds/ ],
	[ 'offset 0', tree => sub {
			my $at = leaf_block($_[0], 20, 1, 1) + $leaf{tids};
			put($_[0], 20, $at, 'V', get($_[0], 20, $at, 'V') & ~511);
		},
		qr/Block 20: an entry refers to row \(\d+,0\)/ ],
	[ 'row beyond the table', tree => sub { put($_[0], 20, leaf_block($_[0], 20, 1) + $leaf{tids}, 'V', 99999 << 9 | 1) },
		qr/Block 20: an entry refers to row \(99999,\d+\), but the table has \d+ blocks/ ],
	[ 'NULL with a key', nulls => sub {
			make_narrow($_[0], 25, 0);
			put($_[0], 25, $narrow{blocks}, 'v', 1);
			put($_[0], 25, $narrow{blocks} + $narrow{tids}, 'V', 1 << 9 | 1);
			put($_[0], 25, $narrow{blocks} + $leaf{count}, 'C', 1);
		},
		qr/Block 25: an entry for NULL has key 1/ ],
	[ 'NULLs with another key', nulls => sub { put($_[0], 25, $leaf{base}, 'Q<', 1) },
		qr/Block 25: the base of the leaf is not its low bound/ ],
	[ 'right link to itself', tree => sub { put($_[0], 20, $special{right}, 'V', 20) },
		qr/Block 20: the right link is block 20, must be 21/ ],
	[ 'right link back', tree => sub { put($_[0], 20, $special{right}, 'V', 5) },
		qr/Block 20: the right link is block 5, must be 21/ ],
	[ 'right link missing', tree => sub { put($_[0], 20, $special{right}, 'V', 0xFFFFFFFF) },
		qr/Block 20: the right link is block 4294967295, must be 21/ ],
	[ 'right link of the last leaf', tree => sub { put($_[0], 97, $special{right}, 'V', 2) },
		qr/Block 97: the right link is block 2, must be 4294967295/ ],
	[ 'high key', tree => sub { add($_[0], 20, $special{high_key}, 'Q<', 1) },
		qr/Block 20: the leaf ends before .*, but inner nodes have/ ],
	[ 'high key below the low one', tree => sub { put($_[0], 20, $special{high_key}, 'Q<', 0) },
		qr/Block 20: the leaf ends before \(0, / ],
	[ 'no high key', tree => sub { put($_[0], 20, $special{part_and_flags}, 'C', 1) },
		qr/Block 20: the leaf has no upper bound/ ],
	[ 'high key of the last leaf', tree => sub { put($_[0], 97, $special{part_and_flags}, 'C', 0x11) },
		qr/Block 97: the leaf has an upper bound, but is the last one of its part/ ],
	[ 'unknown flag', tree => sub { put($_[0], 20, $special{part_and_flags}, 'C', 0x91) },
		qr/Block 20: the page has unknown flags 0x09/ ],
	[ 'low key', tree => sub { add($_[0], 20, $special{low_key}, 'Q<', -1) },
		qr/Block 20: the leaf begins at .*, but inner nodes have/ ],
	[ 'low key that does not fit', nulls => sub { put($_[0], 5, $special{low_key}, 'Q<', 2**32) },
		qr/Block 5: the leaf begins at \(4294967296, / ],
	[ 'directory key that does not fit', segments => sub { put($_[0], 0, $meta{root} + 24, 'Q<', 2**32) },
		qr/Block 0: a directory entry has key 4294967296, which is out of range/ ],
	[ 'leaf stamp', tree => sub { put($_[0], 20, $special{stamp}, 'Q<', 2) },
		qr/Block 20: the page has stamp 2, its segment at block 1 has 1/ ],
	[ 'leaf of another segment', tree => sub { put($_[0], 20, $special{segment}, 'V', 7) },
		qr/Block 20: the page belongs to the segment at block 7, not 1/ ],
	[ 'leaf of another part', tree => sub { put($_[0], 20, $special{part_and_flags}, 'C', 0x12) },
		qr/Block 20: the page is of part 2, its segment of part 1/ ],
	[ 'leaf of another kind', tree => sub { put($_[0], 20, $special{kind}, 'C', 4) },
		qr/Block 20: the page is not a leaf/ ],
	[ 'foreign page', tree => sub { put($_[0], 20, $special{page_id}, 'v', 0xFF80) },
		qr/Block 20: the page is not a leaf/ ],
	[ 'zeroed leaf', tree => sub { put($_[0], 20, 0, 'a8192', '') },
		qr/Block 20: the page is empty instead of a leaf/ ],
	[ 'torn leaf', tree => sub { put($_[0], 20, 4096, 'a4096', '') },
		qr/Block 20: the page is not a leaf/ ],
	[ 'leaf with a torn beginning', tree => sub { put($_[0], 20, 0, 'a4096', '') },
		qr/Block 20: the page is (empty instead of|not) a leaf|^XX001: invalid page in block 20/ ],
	[ 'leaf with a hole of zeros', tree => sub { put($_[0], 20, 2048, 'a2048', '') },
		qr/^XX002: .*: Row \(\d+,\d+\) of table "\w+" has no entry in it/, 'true' ],
	[ 'leaves exchanged', tree => sub { swap($_[0], 20, 0, 8192, 8192) },
		qr/Block 20: the leaf begins at/ ],
	[ 'hole', tree => sub { put($_[0], 1, 12, 'v', 100) },
		qr/Block 1: the page has a hole from 100 to 8144/ ],
	[ 'hole of a leaf', tree => sub { put($_[0], 20, 12, 'v', 100) },
		qr/Block 20: the hole is not where the leaf has it/ ],
	[ 'class that there is not', tree => sub { put($_[0], 20, $leaf{class}, 'C', 48) },
		qr/Block 20: widths of keys and tids are none that a leaf can have/ ],
	[ 'class wider than the index', nulls => sub { make_wide($_[0], 5) },
		qr/Block 5: the leaf stores wider keys than the index has/ ],
	[ 'class too narrow for the bounds', nulls => sub { make_narrow($_[0], 5, get($_[0], 5, $leaf{base}, 'Q<')) },
		qr/Block 5: the leaf cannot store all keys between its bounds/ ],
	[ 'class 0 where there can be several keys', nulls => sub { make_single($_[0], 5, get($_[0], 5, $leaf{base}, 'Q<')) },
		qr/Block 5: the leaf cannot store all keys between its bounds/ ],
	[ 'width of TIDs that there is not', tree => sub { put($_[0], 20, $leaf{tid_bytes}, 'C', 7) },
		qr/Block 20: widths of keys and tids are none that a leaf can have/ ],
	[ 'width of TIDs of other leaves', tree => sub { put($_[0], 20, $leaf{tid_bytes}, 'C', 6) },
		qr/^XX002: .*Block 20: / ],
	[ 'base', nulls => sub { add($_[0], 5, $leaf{base}, 'Q<', 1) },
		qr/Block 5: the base of the leaf is not its low bound/ ],
	[ 'reserved byte of a leaf', tree => sub { put($_[0], 20, 70, 'C', 1) },
		qr/Block 20: reserved byte is not 0/ ],
	[ 'older version', tree => sub { put($_[0], 0, $meta{version}, 'v', 1) },
		qr/^0A000: index "\w+" has on-disk version 1, this harmonia reads version 2/ ],
	[ 'page of an older version', tree => sub {
			put($_[0], 0, $meta{version}, 'v', 1);
			put($_[0], 0, 12, 'v3', (8064) x 3);	# its special area
		},
		qr/^0A000: index "\w+" has on-disk version 1, this harmonia reads version 2/ ],
	[ 'file cut off', tree => sub { substr(${ $_[0] }, 8192 * 50) = '' },
		qr/^XX002: .*(is not within the 50 blocks|but the index has 50 blocks)/ ],
	[ 'empty file', tree => sub { ${ $_[0] } = '' },
		qr/^XX002: index "\w+" has no metapage/ ],

	# Keys of 128 bits
	[ 'width of wide keys', wide => sub { put($_[0], 0, $meta{width}, 'v', 8) },
		qr/^XX002: .* damaged metapage/ ],
	[ 'first bound of wide keys', wide => sub { add($_[0], 0, $meta{root} + 8, 'Q<', 1) },
		qr/Block 0: the directory begins at \(18446744073709551616, / ],
	[ 'higher word of the low bound', wide => sub { put($_[0], 1, $wide{low_word}, 'Q<', 1) },
		qr/Block 1: the segment begins at \(18446744073709551616, \(0,0\)\), but the directory has \(0, / ],
	[ 'base of a wide leaf', wide => sub { add($_[0], 30, $wide{base} + 8, 'Q<', 1) },
		qr/Block 30: the leaf begins at \(\d{20,}, \(\d+,\d+\)\), but inner nodes have/ ],
	[ 'higher word of the high bound', wide => sub { add($_[0], 30, $special{low_key}, 'Q<', 1) },
		qr/Block 30: the leaf ends before \(\d{20,}, \(\d+,\d+\)\), but inner nodes have/ ],
	[ 'lower word of the high bound', wide => sub { add($_[0], 30, $special{high_key}, 'Q<', 1) },
		qr/Block 30: the leaf ends before \(\d{20,}, \(\d+,\d+\)\), but inner nodes have/ ],
	[ 'class of a wide leaf', wide => sub { put($_[0], 30, $leaf{class}, 'C', 128 + 256 / 8) },
		qr/Block 30: widths of keys and tids are none that a leaf can have/ ],
	[ 'separator of a wide leaf', wide => sub { put($_[0], 30, $wide{separators}, 'Q<', 1 << 40) },
		qr/Block 30: / ],
	[ 'key of a wide leaf', wide => sub { put($_[0], 30, wide_block($_[0], 30), 'Q<', 1 << 40) },
		qr/Block 30: / ],
	[ 'wrong wide key', wide => sub { add($_[0], 30, wide_block($_[0], 30) + $wide{tails}, 'V', 1) },
		qr/^XX002: .*: Row \(\d+,\d+\) of table "\w+" has no entry in it/, 'true' ],

	# Rows without entry
	[ 'entry missing', tree => sub { my $at = leaf_block($_[0], 20, 1); add($_[0], 20, $at + $leaf{count}, 'C', -1) },
		qr/^XX002: .*: Row \(\d+,\d+\) of table "\w+" has no entry in it/, 'true' ],
	[ 'wrong key', tree => sub { my $at = leaf_block($_[0], 20, 1); add($_[0], 20, $at, 'Q<', 1) },
		qr/^XX002: .*: Row \(\d+,\d+\) of table "\w+" has no entry in it/, 'true' ],
	[ 'wrong row', tree => sub { add($_[0], 20, leaf_block($_[0], 20, 1) + $leaf{tids}, 'V', 1) },
		qr/^XX002: .*: Row \(\d+,\d+\) of table "\w+" has no entry in it/, 'true' ],
	[ 'wrong second column', columns => sub { my $at = leaf_block($_[0], 20, 1); add($_[0], 20, $at, 'Q<', 1) },
		qr/^XX002: .*: Row \(\d+,\d+\) of table "\w+" has no entry in it/, 'true' ],
	[ 'wrong null', nulls => sub { put($_[0], 25, 384 + $leaf{count}, 'C', 0) },
		qr/^XX002: .*: Row \(\d+,\d+\) of table "\w+" has no entry in it/, 'true' ]);

sub plants { return @plants; }

1;
