"""Spend CPU time in a known ratio, in Python and in C functions called from Python.

Prints "ready", and when its standard input ends "name=SECONDS" for each part: the CPU time that it
measured itself. Runs on Python 3.8 to 3.15.
"""

import functools
import sys
import threading
import time

SPENT = {"in_python": 0.0, "in_sort": 0.0, "in_reduce": 0.0, "in_generator": 0.0}
STEPS = {"in_python": 50, "in_sort": 30, "in_reduce": 15, "in_generator": 5}
END = threading.Event()


def work(n):
    total = 0
    for i in range(n):
        total += i * i
    return total


def key_of(x):
    return work(40) + x


def add(a, b):
    return a + work(40) + b


def values():
    for i in range(20):
        yield work(40) + i


def in_python():
    for _ in range(20):
        work(40)


def in_sort():
    sorted(range(20), key=key_of)


def in_reduce():
    functools.reduce(add, range(20))


def in_generator():
    sum(values())


def spend(function, seconds):
    """Call the function for so long, and note what it took."""
    begun = time.thread_time()
    while time.thread_time() - begun < seconds:
        function()
    SPENT[function.__name__] += time.thread_time() - begun


def await_end():
    sys.stdin.read()
    END.set()


def main():
    print("ready", flush=True)
    threading.Thread(target=await_end, daemon=True).start()
    parts = [in_python, in_sort, in_reduce, in_generator]
    while not END.is_set():
        for part in parts:
            spend(part, STEPS[part.__name__] * 1e-4)
    print(*(f"{name}={seconds:.6f}" for name, seconds in SPENT.items()), flush=True)


main()
