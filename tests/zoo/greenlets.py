"""gevent on greenlet: pieces of the C stack are copied to the heap and back at each switch, under a
libev loop. See zoo.h for what a round is."""

import os
import sys

import gevent
from gevent.queue import Queue


def tree(depth):
    return (tree(depth - 1), tree(depth - 1)) if depth >= 0 else None


def nodes(tree):
    return 1 + nodes(tree[0]) + nodes(tree[1]) if tree else 0


def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


def worker(i, results):
    for k in range(20):
        try:
            raise ValueError(i * k)
        except ValueError as step:
            gevent.sleep(0)
            results.put(step.args[0])


def deep(n, i, results):
    """A switch in the middle of a recursion has more of the stack to copy."""
    return deep(n - 1, i, results) if n else worker(i, results)


def is_right():
    results = Queue()
    gevent.joinall([gevent.spawn(deep, i % 25, i, results) for i in range(50)])
    total = sum(results.get() for _ in range(50 * 20))
    return total + nodes(tree(12)) + fib(20) == 247706


if not is_right():
    sys.exit(1)
print("ready", flush=True)
rounds = wrong = 0
while os.path.exists("keep"):
    rounds += 1
    wrong += not is_right()
print(f"rounds {rounds} wrong {wrong}")
