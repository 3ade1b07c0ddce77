# What all TAP tests use: servers and sessions, checks of an index, loads, and the
# seed and length of random tests.  The functions are in the modules named below.
package Harmonia;

use strict;
use warnings;

use Exporter 'import';
use HarmoniaCheck;
use HarmoniaCompare;
use HarmoniaLoad;
use HarmoniaServer;
use Test::More;

our @EXPORT = (
	@HarmoniaCheck::EXPORT, @HarmoniaCompare::EXPORT,
	@HarmoniaLoad::EXPORT, @HarmoniaServer::EXPORT,
	qw(test_seed test_length));

# The seed of all that is random in a test: HARMONIA_SEED or a new one.
sub test_seed
{
	my $seed = $ENV{HARMONIA_SEED} // int(rand(1_000_000_000));

	diag("HARMONIA_SEED=$seed");
	return $seed;
}

# The size of a random test: that of HARMONIA_LENGTH, which is "short" or "long".
# Parameters: for each length a hash, in which "tables" is the number of tables.
# HARMONIA_TABLES replaces that number.
sub test_length
{
	my (%sizes) = @_;
	my $length = $ENV{HARMONIA_LENGTH} // 'short';
	my $size = $sizes{$length} // die "HARMONIA_LENGTH must be one of: @{[ sort keys %sizes ]}";
	my %size = (%$size, tables => $ENV{HARMONIA_TABLES} // $size->{tables});

	diag("HARMONIA_LENGTH=$length HARMONIA_TABLES=$size{tables}");
	return %size;
}

1;
