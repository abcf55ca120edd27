# Perl's Coro: C stacks switched by hand under the interpreter, each with a Perl stack of its own.
# See zoo.h for what a round is.
use strict;
use warnings;
use Coro;
use Coro::Channel;

sub tree { my $depth = shift; return $depth < 0 ? undef : [tree($depth - 1), tree($depth - 1)] }
sub nodes { my $tree = shift; return $tree ? 1 + nodes($tree->[0]) + nodes($tree->[1]) : 0 }
sub fib { my $n = shift; return $n < 2 ? $n : fib($n - 1) + fib($n - 2) }

# A tied scalar is fetched by C code that calls Perl: to switch in there needs a C stack for each of them.
sub TIESCALAR { my ($class, $value) = @_; return bless \$value, $class }
sub FETCH { my $self = shift; cede; return $$self }

sub worker {
    my ($i, $results) = @_;
    tie my $factor, 'main', $i;
    my $sum = 0;
    for my $k (0 .. 19) {
        eval { die {value => $k == 10 ? $factor * $k : $i * $k} };
        $sum += $@->{value};
        cede if $k % 5 == 0;
    }
    $results->put($sum);
}

sub is_right {
    my $results = Coro::Channel->new;
    async { worker(@_) } $_, $results for 0 .. 49;
    my $sum = 0;
    $sum += $results->get for 0 .. 49;
    return $sum + nodes(tree(12)) + fib(20) == 247706;
}

$| = 1;
is_right() or exit 1;
print "ready\n";
my ($rounds, $wrong) = (0, 0);
while (-e 'keep') {
    $rounds++;
    $wrong += !is_right();
}
print "rounds $rounds wrong $wrong\n";
