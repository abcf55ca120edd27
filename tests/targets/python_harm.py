"""Work of all kinds that a profiler could harm, with known results.

    python3.N python_harm.py

Threads wait in system calls that a signal would end, and compute; the main thread sends itself
signals and makes children; until the standard input ends. Then prints a JSON object:

waits      name of a call → {"returns", "eintr", "early"}: EINTR are those of the C function, which
           Python would hide; early are those that returned before their time
rounds     computed, and how many of them had a wrong result: [rounds, wrong]
children   made, and how many found something wrong with themselves: [children, bad]
signals    sent, and how many its handler got: [sent, got]

Runs on Python 3.8 to 3.15.
"""

import ctypes
import errno
import json
import os
import signal
import sys
import threading
import time

LIBC = ctypes.CDLL(None, use_errno=True)  # releases the GIL
END = threading.Event()
WAIT_MS = 20
RESULT = 6765 + 190
WAITS: dict = {}
ROUNDS = [0, 0]
CHILDREN = [0, 0]
SIGNALS = [0, 0]


class Timespec(ctypes.Structure):
    _fields_ = (("s", ctypes.c_long), ("ns", ctypes.c_long))


def poll():
    return LIBC.poll(None, 0, WAIT_MS)


def epoll():
    return LIBC.epoll_wait(EPOLL, ctypes.create_string_buffer(12), 1, WAIT_MS)


def nanosleep():
    return LIBC.nanosleep(ctypes.byref(Timespec(0, WAIT_MS * 1_000_000)), None)


def semaphore():
    at_ns = time.time_ns() + WAIT_MS * 1_000_000
    until = Timespec(*divmod(at_ns, 1_000_000_000))
    result = LIBC.sem_timedwait(SEMAPHORE, ctypes.byref(until))
    return 0 if result == -1 and ctypes.get_errno() == errno.ETIMEDOUT else result


def wait(call):
    book = WAITS[call.__name__] = {"returns": 0, "eintr": 0, "early": 0}
    while not END.is_set():
        begin_ns = time.monotonic_ns()
        result = call()
        if result == -1 and ctypes.get_errno() == errno.EINTR:
            book["eintr"] += 1
        elif time.monotonic_ns() - begin_ns < WAIT_MS * 1_000_000 - 2_000_000:
            book["early"] += 1
        book["returns"] += 1


def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


def numbers(n):
    for number in range(n):
        try:
            raise ValueError(number)
        except ValueError as error:
            yield error.args[0]


def compute():
    return fibonacci(20) + sum(sorted(numbers(20), key=lambda n: -n))


def work():
    while not END.is_set():
        ROUNDS[0] += 1
        ROUNDS[1] += compute() != RESULT


def is_child_healthy():
    return (
        len(os.listdir("/proc/self/task")) == 1
        and signal.getsignal(signal.SIGUSR1) is on_signal
        and LIBC.poll(None, 0, 1) == 0
        and compute() == RESULT
    )


def make_child():
    child = os.fork()
    if not child:
        os._exit(0 if is_child_healthy() else 1)
    CHILDREN[0] += 1
    CHILDREN[1] += os.waitpid(child, 0)[1] != 0


def await_end():
    sys.stdin.read()
    END.set()


def on_signal(number, frame):
    SIGNALS[1] += 1


def main():
    threads = [threading.Thread(target=wait, args=[call]) for call in CALLS]
    threads += [threading.Thread(target=run) for run in (work, await_end)]
    # The system calls of the waits see no signal but those of others.
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    for thread in threads:
        thread.start()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGUSR1])
    while not all(call.__name__ in WAITS for call in CALLS):
        time.sleep(0.01)
    print("ready", flush=True)
    while not END.is_set():
        SIGNALS[0] += 1
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)
        ROUNDS[1] += compute() != RESULT
        make_child()
        time.sleep(0.02)
    for thread in threads:
        thread.join()
    print(
        json.dumps({"waits": WAITS, "rounds": ROUNDS, "children": CHILDREN, "signals": SIGNALS}),
        flush=True,
    )


EPOLL = LIBC.epoll_create1(0)
SEMAPHORE = ctypes.create_string_buffer(64)
LIBC.sem_init(SEMAPHORE, 0, 0)
CALLS = (poll, epoll, nanosleep, semaphore)
signal.signal(signal.SIGUSR1, on_signal)
main()
