"""Share the interpreter's lock, or collect garbage, in a known way.

Argument 1 is what to do: "spin", three threads that compute, and one that sleeps; "alone", one that
computes; "collect", garbage collection for half of the time; "finalize", garbage whose finalizers
compute; "embed", threads of C that call Python while another one holds the lock. Prints "ready".
When its standard input ends, "collect" prints "collect=SECONDS compute=SECONDS", the CPU time that
it measured itself. Runs on Python 3.8 to 3.15.
"""

import ctypes
import gc
import sys
import threading
import time

SPENT = {"collect": 0.0, "compute": 0.0}
END = threading.Event()


def parse():
    while not END.is_set():
        work(1000)


def render():
    while not END.is_set():
        work(1000)


def index():
    while not END.is_set():
        work(1000)


def sleep():
    while not END.is_set():
        time.sleep(0.02)


def work(n):
    total = 0
    for i in range(n):
        total += i * i
    return total


class Item:
    """Something that refers to itself."""

    def __init__(self):
        self.own = self


class Final(Item):
    """The same, with a finalizer."""

    def __del__(self):
        finalize()


def finalize():
    work(200)


def drop():
    for _ in range(1000):
        Final()


def collect():
    gc.collect()


def compute(seconds):
    begun = time.thread_time()
    while time.thread_time() - begun < seconds:
        work(1000)


def halves():
    gc.disable()
    kept = [Item() for _ in range(50000)]
    while kept and not END.is_set():
        begun = time.thread_time()
        collect()
        spent = time.thread_time() - begun
        compute(spent)
        SPENT["collect"] += spent
        SPENT["compute"] += time.thread_time() - begun - spent


@ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
def answer(_):
    return None


def embed():
    """Have threads of C call Python, each while this one sleeps with the lock."""
    libc, with_lock = ctypes.CDLL(None), ctypes.PyDLL(None)
    while not END.is_set():
        thread = ctypes.c_ulong()
        libc.pthread_create(ctypes.byref(thread), None, answer, None)
        with_lock.usleep(200_000)
        libc.pthread_join(thread, None)


def await_end():
    sys.stdin.read()
    END.set()


def main():
    threading.Thread(target=await_end, daemon=True).start()
    if sys.argv[1] == "spin":
        threads = [threading.Thread(target=each) for each in (parse, render, index, sleep)]
        for thread in threads:
            thread.start()
        print("ready", flush=True)
        for thread in threads:
            thread.join()
    elif sys.argv[1] == "alone":
        print("ready", flush=True)
        parse()
    elif sys.argv[1] == "embed":
        print("ready", flush=True)
        embed()
    elif sys.argv[1] == "finalize":
        print("ready", flush=True)
        while not END.is_set():
            drop()
            work(1000)
    else:
        print("ready", flush=True)
        halves()
        print(*(f"{name}={seconds:.6f}" for name, seconds in SPENT.items()), flush=True)


main()
