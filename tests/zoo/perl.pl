# Perl: closures, regular expressions that recurse, sort with a callback, die and eval, and now and then a thread, which
# is a copy of the interpreter. See zoo.h for what a round is.
use strict;
use warnings;
use threads;

sub tree { my $depth = shift; return $depth < 0 ? undef : [tree($depth - 1), tree($depth - 1)] }
sub nodes { my $tree = shift; return $tree ? 1 + nodes($tree->[0]) + nodes($tree->[1]) : 0 }
sub fib { my $n = shift; return $n < 2 ? $n : fib($n - 1) + fib($n - 2) }

sub worker {
    my $i = shift;
    my $sum = 0;
    for my $k (0 .. 19) {
        eval { die {value => $i * $k} };
        $sum += $@->{value};
    }
    return $sum;
}

sub workers {
    my ($first, $last) = @_;
    my $sum = 0;
    $sum += worker($_) for $first .. $last;
    return $sum;
}

sub texts_are_right {
    my %words = map { ("word$_" => $_) } 1 .. 500;
    my @sorted = sort { $words{$a} <=> $words{$b} } keys %words;
    my $nested = '(' x 50 . ')' x 50;
    return $sorted[499] eq 'word500' && $nested =~ /^(\((?1)*\))$/;
}

sub is_right {
    my $round = shift;
    my $half = $round % 20 ? workers(0, 24) : threads->create(\&workers, 0, 24)->join;
    return $half + workers(25, 49) + nodes(tree(12)) + fib(20) == 247706 && texts_are_right();
}

$| = 1;
is_right(0) or exit 1;
print "ready\n";
my ($rounds, $wrong) = (0, 0);
$wrong += !is_right(++$rounds) while -e 'keep';
print "rounds $rounds wrong $wrong\n";
