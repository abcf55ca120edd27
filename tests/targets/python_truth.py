"""Call functions of all kinds, and note when each begins and ends.

    python_truth.py LIBRARY FOLDER

LIBRARY is truth_marks.c, FOLDER gets the books and functions.json: number → name, as Python
qualifies it. Prints "ready" and goes on until its standard input ends, or a book is full. What a
function calls stands on the line of the call, or in a comment there: "# calls NAME". Runs on Python
3.8 to 3.15.
"""

import contextlib
import ctypes
import functools
import hashlib
import json
import os
import re
import sys
import threading
import time

# Those that are suspended together, and go on together.
TOGETHER = (8, 9, 17, 18, 19)
LIBRARY = ctypes.PyDLL(sys.argv[1])
mark = LIBRARY.truth_mark
CALLBACK = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int)
NAMES = {}
END = threading.Event()
MARKS, MARKS_BRIEF, MARKS_LEFT = 40_000_000, 20_000, 1_000
DATA = b"x" * 500_000


def numbered(number):
    def note(function):
        NAMES[number] = function.__qualname__
        return function

    return note


@numbered(1)
def plain(depth):
    mark(1)
    total = 0
    for i in range(25):
        total += i
    if depth > 0:
        total += plain(depth - 1)
        total += other(depth - 2)
    mark(-1)
    return total


@numbered(2)
def other(depth, *values, **more):
    mark(2)
    total = len(values) + len(more)
    for i in range(15):
        total ^= i
    if depth > 0:
        total += other(0, *range(depth), more=0) if depth & 1 else plain(depth=depth - 2)
    mark(-2)
    return total


@numbered(3)
def key_of(value):
    mark(3)
    total = value
    for i in range(10):
        total += i
    mark(-3)
    return total


@numbered(4)
def add(left, right):
    mark(4)
    total = plain(0) + left + right
    mark(-4)
    return total


@numbered(5)
def replaced(match):
    mark(5)
    text = match.group(0) * 2
    for _ in range(10):
        text = text[::-1]
    mark(-5)
    return text


@numbered(6)
def from_c(value):
    mark(6)
    total = other(value & 1)
    mark(-6)
    return total & 1


FROM_C = CALLBACK(from_c)


@numbered(7)
def numbers(count):
    mark(7)
    for value in range(count):
        for i in range(15):
            value += i
        mark(-7)
        yield value
        mark(7)
    mark(-7)


@numbered(8)
def inner(count):
    mark(8)
    for value in range(count):
        total = plain(0) + value
        mark(-8)
        mark(-9)
        yield total
        mark(9)
        mark(8)
    mark(-8)


@numbered(9)
def outer(count):
    mark(9)
    yield from inner(count)
    mark(-9)


class Thing:
    @numbered(10)
    def __init__(self, value):
        mark(10)
        self.value = value
        for i in range(10):
            value += i
        mark(-10)

    @property
    @numbered(11)
    def doubled(self):
        mark(11)
        total = self.value
        for i in range(10):
            total += i
        mark(-11)
        return total

    @numbered(12)
    def __lt__(self, than):
        mark(12)
        is_less = self.doubled < than.doubled
        mark(-12)
        return is_less

    @numbered(13)
    def __del__(self):
        mark(13)
        total = 0
        for i in range(15):
            total += i
        mark(-13)

    @numbered(14)
    def __enter__(self):
        mark(14)
        plain(0)
        mark(-14)

    @numbered(15)
    def __exit__(self, *error):
        mark(15)
        plain(0)
        mark(-15)

    @numbered(16)
    def __getattr__(self, name):
        mark(16)
        length = len(name)
        for i in range(10):
            length += i
        mark(-16)
        return length


class Later:
    @numbered(17)
    def __await__(self):
        mark(17)
        plain(0)
        mark(-17)
        mark(-18)
        mark(-19)
        yield
        mark(19)
        mark(18)
        mark(17)
        plain(1)
        mark(-17)


@numbered(18)
async def awaited():
    mark(18)
    await Later()  # calls __await__
    plain(1)
    mark(-18)


@numbered(19)
async def awaiting():
    mark(19)
    await awaited()
    mark(-19)


@numbered(20)
def raising(depth):
    mark(20)
    try:
        if depth:
            return raising(depth - 1)
        for i in range(15):
            depth -= i
        raise KeyError(depth)
    finally:
        plain(0)
        mark(-20)


@numbered(21)
def catching(depth):
    mark(21)
    try:
        raising(depth)
    except KeyError as error:
        str(error)
    mark(-21)


@contextlib.contextmanager
@numbered(22)
def managed():
    mark(22)
    plain(0)
    mark(-22)
    yield
    mark(22)
    plain(0)
    mark(-22)


MADE = """
def made(value):
    mark(23)
    for i in range(20):
        value += i
    mark(-23)
    return value
"""
NAMES[23] = "made"


@numbered(24)
def sleeping():
    mark(24)
    time.sleep(0.002)
    mark(-24)


@numbered(25)
def hashing():
    mark(25)
    hashlib.sha256(DATA).hexdigest()
    mark(-25)


@numbered(26)
def sorting(count):
    mark(26)
    sorted(range(count), key=key_of)
    mark(-26)


@numbered(27)
def reducing(count):
    mark(27)
    functools.reduce(add, range(count))
    mark(-27)


@numbered(28)
def substituting():
    mark(28)
    re.sub(r"[a-e]", replaced, "an early bird catches")
    mark(-28)


@numbered(29)
def summing(count):
    mark(29)
    sum(numbers(count))
    mark(-29)


@numbered(30)
def through_c(value):
    mark(30)
    LIBRARY.truth_call(FROM_C, value)  # calls from_c
    mark(-30)


@numbered(31)
def delegating(count):
    mark(31)
    for _ in outer(count):
        plain(0)
    mark(-31)


@numbered(32)
def using_things(count):
    mark(32)
    things = [Thing(i * 7 % count) for i in range(count)]  # calls __init__
    things.sort()  # calls __lt__
    with things[0]:  # calls __enter__ __exit__
        things[0].absent  # noqa: B018 calls __getattr__; __exit__ up to 3.9
    del things  # calls __del__
    mark(-32)


@numbered(33)
def running_coroutines():
    mark(33)
    coroutine = awaiting()
    with contextlib.suppress(StopIteration):
        coroutine.send(None)  # calls awaiting
        plain(0)
        coroutine.send(None)  # calls awaiting
    mark(-33)


@numbered(34)
def making(value):
    mark(34)
    scope: dict = {"mark": mark, "range": range}
    exec(compile(MADE, "<made>", "exec"), scope)  # calls made
    made = scope["made"]
    made(value)
    mark(-34)


@numbered(35)
def mapping(count):
    mark(35)
    list(map(key_of, range(count)))
    mark(-35)


@numbered(36)
def in_context():
    mark(36)
    with managed():
        plain(0)
    mark(-36)


ALL = [
    lambda n: plain(n % 7),
    lambda n: other(n % 9),
    lambda n: sorting(n % 20),
    lambda n: reducing(n % 10 + 1),
    lambda n: substituting(),
    lambda n: summing(n % 10),
    lambda n: through_c(n % 5),
    lambda n: delegating(n % 6),
    lambda n: using_things(n % 6 + 1),
    lambda n: running_coroutines(),
    lambda n: making(n),
    lambda n: mapping(n % 10),
    lambda n: in_context(),
    lambda n: catching(n % 6),
    lambda n: hashing() if n % 8 == 0 else None,
    lambda n: sleeping() if n % 32 == 0 else None,
]


@numbered(37)
def one_round(state):
    mark(37)
    ALL[state >> 8 & 15](state >> 16 & 0xFFF)
    return mark(-37)


def run(marks, seed, rounds):
    """Make random calls; the numbers are those of a linear congruential generator."""
    if not LIBRARY.truth_begin(marks):
        os._exit(3)
    while not END.is_set() and rounds:
        seed = (seed * 1103515245 + 12345) & 0x7FFFFFFF
        rounds -= 1
        if one_round(seed) < MARKS_LEFT:
            break
    if not LIBRARY.truth_end(os.fsencode(sys.argv[2])):
        os._exit(3)


def await_end():
    sys.stdin.read()
    END.set()


def main():
    LIBRARY.truth_begin.argtypes = [ctypes.c_long]
    mark.restype = ctypes.c_long
    mark.argtypes = [ctypes.c_int]
    with open(os.path.join(sys.argv[2], "functions.json"), "w") as file:
        json.dump({"names": NAMES, "together": TOGETHER}, file)
    threads = [threading.Thread(target=run, args=(MARKS, seed, -1)) for seed in (1, 2)]
    for thread in threads:
        thread.start()
    reader = threading.Thread(target=await_end, daemon=True)
    reader.start()
    print("ready", flush=True)
    seed = 3
    while all(thread.is_alive() for thread in threads):
        brief = threading.Thread(target=run, args=(MARKS_BRIEF, seed, 500))
        brief.start()
        brief.join()
        seed += 1
        END.wait(0.2)
    END.set()
    for thread in threads:
        thread.join()


main()
