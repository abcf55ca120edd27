"""Recurse DEPTH calls deep, and spend CPU time there. Prints "ready", and ends with its standard
input. Runs on Python 3.8 to 3.15.
"""

import sys
import threading

END = threading.Event()


def bottom():
    while not END.is_set():
        sum(range(100))


def deep(n):
    if n:
        deep(n - 1)
    else:
        bottom()


def await_end():
    sys.stdin.read()
    END.set()


sys.setrecursionlimit(1_000_000)
threading.stack_size(512 << 20)
thread = threading.Thread(target=deep, args=(int(sys.argv[1]),))
print("ready", flush=True)
thread.start()
threading.stack_size(0)
threading.Thread(target=await_end, daemon=True).start()
thread.join()
