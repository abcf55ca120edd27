"""CPython and PyPy: threads with a global lock, generators, exceptions, a collector of cycles, and
PyPy's JIT. See zoo.h for what a round is."""

import os
import sys
import threading


class Tree:
    def __init__(self, depth):
        self.me = self  # a cycle
        self.left = Tree(depth - 1) if depth else None
        self.right = Tree(depth - 1) if depth else None

    def nodes(self):
        return 1 + sum(tree.nodes() for tree in (self.left, self.right) if tree)


def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


def steps(i):
    for k in range(20):
        yield i * k


def worker(i):
    total = 0
    for value in steps(i):
        try:
            raise ValueError(value)
        except ValueError as step:
            total += step.args[0]
    return total


def is_right():
    sums = []
    thread = threading.Thread(target=lambda: sums.append(sum(map(worker, range(25)))))
    thread.start()
    own = Tree(12).nodes() + fib(20) + sum(map(worker, range(25, 50)))
    thread.join()
    words = {f"word{i}": i for i in range(500)}
    return own + sums[0] == 247706 and words["word499"] == 499


if not is_right():
    sys.exit(1)
print("ready")
sys.stdout.flush()
rounds = wrong = 0
while os.path.exists("keep"):
    rounds += 1
    wrong += not is_right()
print(f"rounds {rounds} wrong {wrong}")
