# Reads pages of documentation: their blocks of code, their links, and the shape of what a
# block prints.
package Pages;

use strict;
use warnings;

use Exporter 'import';

our @EXPORT = qw(slurp blocks_of links_of anchors_of shape same_shape);

sub slurp
{
	my ($file) = @_;

	open my $in, '<', $file or die "could not open $file: $!";
	local $/;
	return scalar <$in>;
}

# The fenced blocks of a page, in order, as hashes: page, line (of the fence), language, text.
sub blocks_of
{
	my ($page) = @_;
	my (@blocks, $block);
	my $line = 0;

	for my $text (split /^/, slurp($page))
	{
		$line++;
		if ($block)
		{
			if ($text =~ /^```\s*$/)
			{
				push @blocks, $block;
				undef $block;
				next;
			}
			$block->{text} .= $text;
		}
		elsif ($text =~ /^\s*```(.*?)\s*$/)
		{
			$block = { page => $page, line => $line, language => $1, text => '' };
		}
	}
	die "$page: the block at line $block->{line} has no end" if $block;
	return @blocks;
}

# A page's text without its blocks.
sub prose_of
{
	my ($page) = @_;

	return slurp($page) =~ s/^```.*?^```$//gmsr;
}

# Targets of a page's links and pictures.
sub links_of
{
	my ($page) = @_;

	return prose_of($page) =~ /\]\(([^)\s]+)\)/g;
}

# What a link can lead to within a page: its headings, spelt as GitHub does.
sub anchors_of
{
	my ($page) = @_;

	return map { lc($_) =~ s/[^\w\- ]//gr =~ tr/ /-/r } prose_of($page) =~ /^#+ +(.*?)\s*$/mg;
}

# What stays of an output if one does not look at widths of columns, nor at what one version of
# PostgreSQL says in other words than the next, or not at all; with "varies" neither at numbers
# and units.
sub shape
{
	my ($text, $varies) = @_;
	my @lines;

	for my $line (split /\n/, $text)
	{
		next if $line =~ /^\s*$/;
		next if $line =~ /^\s*(?:Planning|Execution) Time: |^\s*Planning:$|^\s*Buffers: |^\s*Index Searches: /;
		# The result of a sub-select: $0 until 16, a name from 17 on.
		$line =~ s/ \(returns \$\d+\)//;
		$line =~ s/\(InitPlan (\d+)\)\.col\d+/'$' . ($1 - 1)/ge;
		$line =~ s/ \(host device\)//;
		$line =~ s/-{2,}/--/g;
		# Rows as 18 counts them, and as others do.
		$line =~ s/(?<= rows=)(\d+)\.00\b/$1/g;
		if ($varies)
		{
			$line =~ s/\b(?:bytes|kB|MB|GB)\b/B/g;
			$line =~ s/-?\d+(?:\.\d+)?/N/g;
		}
		$line =~ s/\s+/ /g;
		$line =~ s/^ | $//g;
		push @lines, $line;
	}
	return @lines;
}

# Whether an output has the shape of what a page shows.  A line "..." in the page stands for
# any lines.
sub same_shape
{
	my ($shown, $got, $varies) = @_;
	my $pattern = join '', map { $_ eq '...' ? '(?:.*\n)*?' : quotemeta("$_\n") } shape($shown, $varies);

	return join('', map { "$_\n" } shape($got, $varies)) =~ /^$pattern\z/;
}

1;
