"""Spend CPU time in two greenlets, in a known ratio, and switch between them thousands of times a
second, once deep in calls and once below a C function.

Prints "ready", and when its standard input ends "name=SECONDS" for each greenlet: the CPU time that
it measured itself. Runs on Python 3.8 to 3.15.
"""

import sys
import threading
import time

from greenlet import getcurrent, greenlet

SPENT = {"left": 0.0, "right": 0.0}
END = threading.Event()


def work(seconds):
    begun = time.thread_time()
    while time.thread_time() - begun < seconds:
        sum(range(20))
    return time.thread_time() - begun


def left(depth):
    if depth:
        left(depth - 1)
    else:
        left_inner()


def left_inner():
    while not END.is_set():
        SPENT["left"] += work(2e-4)
        RIGHT.switch()


def right():
    sorted([1], key=right_inner)


def right_inner(x):
    while not END.is_set():
        SPENT["right"] += work(1e-4)
        LEFT.switch()
    return x


def await_end():
    sys.stdin.read()
    END.set()


print("ready", flush=True)
threading.Thread(target=await_end, daemon=True).start()
LEFT, RIGHT = greenlet(left), greenlet(right, getcurrent())
LEFT.switch(10)
print(*(f"{name}={seconds:.6f}" for name, seconds in SPENT.items()), flush=True)
