<?php
// PHP: fibers on stacks from mmap, generators, exceptions, and garbage in cycles. See zoo.h for what a round is.
class Tree
{
    public ?Tree $left = null, $right = null, $self;

    function __construct(int $depth)
    {
        $this->self = $this; // a cycle: only the collector frees it
        if ($depth > 0) {
            $this->left = new Tree($depth - 1);
            $this->right = new Tree($depth - 1);
        }
    }

    function nodes(): int
    {
        return 1 + ($this->left?->nodes() ?? 0) + ($this->right?->nodes() ?? 0);
    }
}

function fib(int $n): int { return $n < 2 ? $n : fib($n - 1) + fib($n - 2); }

function steps(int $i): Generator { for ($k = 0; $k < 20; $k++) yield $i * $k; }

function worker(int $i): void
{
    foreach (steps($i) as $value) {
        try {
            throw new Exception((string) $value);
        } catch (Exception $step) {
            Fiber::suspend((int) $step->getMessage());
        }
    }
}

function workers(): int
{
    $sum = 0;
    $alive = [];
    for ($i = 0; $i < 50; $i++) {
        $alive[] = $fiber = new Fiber('worker');
        $sum += $fiber->start($i);
    }
    while ($alive) {
        foreach ($alive as $key => $fiber) {
            $sum += $fiber->resume();
            if ($fiber->isTerminated()) unset($alive[$key]);
        }
    }
    return $sum;
}

function is_right(): bool { return (new Tree(12))->nodes() + fib(20) + workers() === 247706; }

if (!is_right()) exit(1);
echo "ready\n";
$rounds = $wrong = 0;
while (true) {
    clearstatcache();
    if (!file_exists('keep')) break;
    $rounds++;
    if (!is_right()) $wrong++;
}
echo "rounds $rounds wrong $wrong\n";
