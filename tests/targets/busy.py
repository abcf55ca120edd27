"""A busy main thread (outer → inner → sum of squares), a busy second thread and one that sleeps.

Runs on every Python from 2.7 on. Ends when its standard input does.
"""

import hashlib
import sys
import threading
import time

stop = threading.Event()


def inner(n):
    total = 0
    for i in range(n):
        total += i * i
    return total


def outer():
    return inner(20000)


def hashing():
    block = b"x" * 4096
    while not stop.is_set():
        hashlib.sha256(block).hexdigest()


def sleeping():
    while not stop.is_set():
        time.sleep(0.05)


def wait_for_stop():
    sys.stdin.read()
    stop.set()


threads = [threading.Thread(target=f) for f in (hashing, sleeping, wait_for_stop)]
for thread in threads:
    thread.start()
sys.stdout.write("ready \n")
sys.stdout.flush()
rounds = 0
while not stop.is_set():
    outer()
    rounds += 1
for thread in threads:
    thread.join()
sys.stdout.write("done %s\n" % ("busy" if rounds else "idle"))
