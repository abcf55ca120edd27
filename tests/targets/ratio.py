"""cycle → heavy (3 parts of the work) or light (1 part), as ratio.c does.

Ends when its standard input does.
"""

import sys
import threading

stop = threading.Event()


def heavy(n):
    state = 1
    for _ in range(3 * n):
        state = state * 1664525 & 0xFFFFFFFF
    return state


def light(n):
    state = 1
    for _ in range(n):
        state = state * 22695477 & 0xFFFFFFFF
    return state


def cycle():
    return heavy(2000) ^ light(2000)


def wait_for_stop():
    sys.stdin.read()
    stop.set()


def many_functions():
    """So that what the interpreter tells of the first has left its buffer."""
    for i in range(300):
        exec(f"def quiet_{i}(): pass\nquiet_{i}()")


cycle()
many_functions()
threading.Thread(target=wait_for_stop, daemon=True).start()
sys.stdout.write("ready \n")
sys.stdout.flush()
while not stop.is_set():
    cycle()
sys.stdout.write("done\n")
