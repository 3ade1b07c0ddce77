#!/usr/bin/perl
# Rewrites a file of PostgreSQL's regression tests for run.sh: each CREATE INDEX that btree would serve becomes a
# call of create_index(), and EXPLAIN is left out, because plans differ.
#
# usage: rewrite.pl < FILE > FILE
use strict;
use warnings;

local $/ = undef;
my $text = <STDIN>;

# A quoted thing or a comment, in which a semicolon ends nothing.
my $quoted = qr/'(?:[^']|'')*'|"[^"]*"|\$(\w*)\$.*?\$\g{-1}\$|--[^\n]*/s;
my $rest = qr/(?:$quoted|[^;'"\$-]|[\$-])*?/s;

$text =~ s/^explain\b$rest;[^\S\n]*\n//gimsx;
$text =~ s{^create[ ]index[ ](?!concurrently)((?:if[ ]not[ ]exists[ ])?\w*\s*on\b$rest);}{
	my ($whole, $definition) = ($&, $1);
	$definition =~ /\busing\s+(?!btree)\w/i || $definition =~ /\\|:\w/ ? $whole : "CALL public.create_index(\$create_index\$$definition\$create_index\$);";
}gimsex;
print $text;
