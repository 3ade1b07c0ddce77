# Random numbers and random choices.
#
# A generator with the same seed makes the same choices, on every machine and
# with every Perl.
package HarmoniaRandom;

use strict;
use warnings;

sub new
{
	my ($class, $seed) = @_;
	my $self = bless { seed => $seed }, $class;

	$self->{state} = ($seed * 2654435761 + 97) & 0xFFFFFFFF || 1;

	# The first numbers of neighbouring seeds are alike: skip some.
	$self->below(2) for 1 .. 8;
	return $self;
}

# An integer from 0 to n - 1 (Marsaglia's xorshift, 32 bits).
sub below
{
	my ($self, $n) = @_;
	my $x = $self->{state};

	$x ^= ($x << 13) & 0xFFFFFFFF;
	$x ^= $x >> 17;
	$x ^= ($x << 5) & 0xFFFFFFFF;
	$self->{state} = $x;
	return int($x / 4294967296 * $n);
}

# One element of a list.
sub pick
{
	my ($self, @list) = @_;
	return $list[ $self->below(scalar @list) ];
}

# True in so many of 1000 cases.
sub chance
{
	my ($self, $per_mille) = @_;
	return $self->below(1000) < $per_mille;
}

# One value of a list of weight => value pairs.
sub pick_weighted
{
	my ($self, @pairs) = @_;
	my $total = 0;

	for (my $i = 0; $i < @pairs; $i += 2) { $total += $pairs[$i]; }
	my $at = $self->below($total);
	while ($at >= $pairs[0])
	{
		$at -= shift @pairs;
		shift @pairs;
	}
	return $pairs[1];
}

1;
