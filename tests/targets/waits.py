"""Threads that wait in many ways, called in many ways, for some milliseconds each.

Runs on every Python from 3.6 on. Ends when its standard input does.
"""

import contextlib
import functools
import queue
import random
import re
import select
import socket
import sys
import threading
import time
from typing import Any

stop = threading.Event()
never = threading.Event()
taken = threading.Lock()
taken.acquire()
empty: queue.Queue = queue.Queue()
nobody, somebody = socket.socketpair()


def by_receive(seconds):
    mine, other = socket.socketpair()
    mine.settimeout(seconds)
    with contextlib.suppress(OSError):  # it has timed out
        mine.recv(1)
    mine.close()
    other.close()


def by_queue(seconds):
    with contextlib.suppress(queue.Empty):
        empty.get(timeout=seconds)


def by_poll(seconds):
    poll = select.poll()
    poll.register(nobody, select.POLLIN)
    poll.poll(int(seconds * 1000))


def by_condition(seconds):
    condition = threading.Condition()
    with condition:
        condition.wait(seconds)


WAITS: Any = [
    time.sleep,
    never.wait,
    lambda seconds: taken.acquire(timeout=seconds),
    lambda seconds: select.select([nobody], [], [], seconds),
    by_receive,
    by_queue,
    by_poll,
    by_condition,
]


class Waiter:
    def __init__(self, depth):
        self.depth = depth

    def __call__(self, *ignored):
        return self.down(self.depth)

    def __lt__(self, other):
        self()
        return False

    def __getattr__(self, name):
        return self.down(self.depth)

    def down(self, depth):
        if depth > 0:
            random.choice(CALLS)(Waiter(depth - 1))
        else:
            random.choice(WAITS)(random.uniform(0.005, 0.05))
        return 0


def by_generator(waiter):
    return sum(waiter() for _ in range(1))


def by_with(waiter):
    class Manager:
        def __enter__(self):
            waiter()

        def __exit__(self, *ignored):
            pass

    with Manager():
        pass


CALLS: Any = [
    lambda waiter: waiter(),
    lambda waiter: sorted([1], key=waiter),
    lambda waiter: list(map(waiter, [1])),
    lambda waiter: functools.reduce(waiter, [1, 2]),
    lambda waiter: re.sub("a", lambda match: str(waiter()), "a"),
    lambda waiter: max(waiter, waiter),
    lambda waiter: waiter.missing,
    lambda waiter: functools.partial(waiter, 1)(),
    lambda waiter: eval("waiter()", {"waiter": waiter}),
    by_generator,
    by_with,
]


def run():
    while not stop.is_set():
        Waiter(random.randrange(6))()


threads = [threading.Thread(target=run) for _ in range(8)]
for thread in threads:
    thread.start()
sys.stdout.write("ready \n")
sys.stdout.flush()
sys.stdin.read()
stop.set()
for thread in threads:
    thread.join()
sys.stdout.write("done\n")
