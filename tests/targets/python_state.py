"""Threads with names, variables and asyncio tasks that stay as they are, and say what they are.

    python3.N python_state.py FILE

Writes a JSON object to FILE:

names      the kernel's number of each thread → the name that the program gave it
variables  the same → its frames, leaf first: [function, {name: text}], null for a module's frame
tasks      name of each task → {"running", "frames": [[function, line], …] from the outermost,
           "awaited_by": names}; the tasks of one event loop

Texts of variables are as ``flametap dump --locals`` shows them, at full length. Then prints
"ready", and ends with its standard input. Runs on Python 3.8 to 3.15.
"""

import asyncio
import collections
import enum
import json
import sys
import threading
import time
import typing

END = threading.Event()
WAITING: dict = {}  # pthread_self → the kernel's number


def wait():
    WAITING[threading.get_ident()] = threading.get_native_id()
    END.wait()


def shown(value):
    """What dump says of a value, without the module of a class."""
    kind = type(value)
    if value is None or kind in (bool, int, float, str, bytes):
        return repr(value)
    if kind is dict:
        return "{" + ", ".join(f"{shown(k)}: {shown(v)}" for k, v in value.items()) + "}"
    if kind is list:
        return "[" + ", ".join("[...]" if v is value else shown(v) for v in value) + "]"
    if kind is tuple:
        return "(" + ", ".join(map(shown, value)) + "," * (len(value) == 1) + ")"
    if kind in (set, frozenset):
        if not value:
            return f"{kind.__name__}()"
        text = "{" + ", ".join(map(shown, value)) + "}"
        return text if kind is set else f"frozenset({text})"
    for base in (int, str, bytes, list, tuple, dict):
        if issubclass(kind, base):
            return f"{kind.__name__}({shown(base(value))})"
    return f"<{kind.__name__} object at {id(value):#x}>"


Point = collections.namedtuple("Point", "x y")


class Color(enum.IntEnum):
    RED = 3


class Text(str):
    pass


class Thing:
    def __init__(self, first):
        self.first = first
        self.second = "two"
        self.third = None

    def method(self, argument=4.5):
        attributes = self.__dict__
        wait()
        return attributes


class Slots:
    __slots__ = ("only",)


def scalars(positional, *rest, keyword=None, **more):
    zero, one, negative, large = 0, 1, -7, 2**29
    two_digits, many_digits, minus = 2**30 + 5, 3**200, -(2**90)
    yes, no, nothing = True, False, None
    floats = [0.5, -0.0, float("inf"), float("nan"), 1e300]
    color, text = Color.RED, Text("derived")
    wait()
    return locals()


def strings():
    empty, ascii_text, latin, cyrillic, emoji = "", "abc", "caf\xe9", "жизнь", "a😀b"
    controls, quotes, surrogate = "\x1b[31m\n\t", 'it\'s "so"', "\ud800x"
    none_of_bytes, some_bytes, long_bytes = b"", b"\x00ab\xff'", bytes(range(256))
    long_text = "0123456789" * 100
    long_controls = "\x00" * 300
    wait()
    return locals()


def containers():
    empties: list = [[], (), {}, set(), frozenset()]
    single, pair, members, frozen = (1,), (1, "b"), {7}, frozenset({("x", 1)})
    nested = [1, [2, [3, [4, {"five": (6,)}]]]]
    itself: list = [1]
    itself.append(itself)
    mapping = {"a": 1, 2: {"b": None}, (1, 2): [3]}
    shrunk = {number: None for number in range(20)}
    for number in range(18):
        del shrunk[number]
    emptied = {1, 2, 3}
    emptied -= {1, 3}
    many = list(range(1000))
    crowd = {f"key {number}": number for number in range(300)}
    point, ordered = Point(1, "y"), collections.OrderedDict(z=1)
    counter, queue = collections.Counter("a"), collections.deque([1])
    thing, slots = Thing(1), Slots()
    wait()
    return locals()


def cells():
    shared, unset = "in a cell", 1
    gone = 2
    del gone

    def inner(own):
        nonlocal unset
        del unset
        wait()
        return shared, own

    inner([shared])
    return unset


def generates():
    def generator(limit):
        for index in range(limit):
            squares = [index * value for value in (1, 2)]
            wait()
            yield squares

    return list(generator(3))


def recursive(depth):
    below = f"level {depth}"
    if depth == 0:
        wait()
    else:
        recursive(depth - 1)
    return below


TARGETS: dict = {
    "scalars": lambda: scalars(1, 2, 3, keyword="k", extra=[4]),
    "жизнь": strings,
    "a name that is longer than the kernel keeps": containers,
    "cells": cells,
    "": generates,
    "method": lambda: Thing({"k": b"v"}).method(),
    "recursive": lambda: recursive(30),
}


async def leaf(future):
    await future


async def middle(future):
    await leaf(future)


async def numbers(future):
    yield 1
    await future
    yield 2


async def iterates(future):
    async for _ in numbers(future):
        pass


class Awaitable:
    def __init__(self, future):
        self.future = future

    def __await__(self):
        return (yield from self.future.__await__())


async def awaits_object(future):
    await Awaitable(future)


async def awaits_task(task):
    await task


async def gathers(future):
    children = [asyncio.ensure_future(middle(future)) for _ in range(2)]
    for number, child in enumerate(children):
        child.set_name(f"gathered {number}")
        AWAITED_BY[child.get_name()] = ["gathers"]
    await asyncio.gather(*children)


async def groups(future):
    async with TASK_GROUP() as group:
        group.create_task(leaf(future), name="in a group")
        AWAITED_BY["in a group"] = ["groups"]


async def sleeps():
    await asyncio.sleep(10_000)


AWAITED_BY: dict = {}
TASK_GROUP: typing.Any = vars(asyncio).get("TaskGroup")  # 3.11 and newer
TASKS: dict = {}


def chain(awaited):
    found = []
    while awaited is not None:
        for prefix in ("cr", "gi", "ag"):
            frame = getattr(awaited, f"{prefix}_frame", None)
            if frame is None:
                continue
            code = getattr(awaited, f"{prefix}_code")
            found.append([getattr(code, "co_qualname", code.co_name), frame.f_lineno])
            awaited = getattr(awaited, f"{prefix}_await" if prefix != "gi" else "gi_yieldfrom")
            break
        else:
            # What drives an asynchronous generator does not say which one.
            if type(awaited).__name__ == "async_generator_asend":
                found.append(["numbers", numbers.__code__.co_firstlineno + 2])
            break
    return found


def says_tasks():
    for task in asyncio.all_tasks():
        TASKS[task.get_name()] = {
            "running": task is asyncio.current_task(),
            "frames": chain(task.get_coro()),
            "awaited_by": AWAITED_BY.get(task.get_name(), []),
        }


async def main():
    loop = asyncio.get_running_loop()
    future = loop.create_future()
    made = {
        "sleeps": sleeps(),
        "iterates": iterates(future),
        "awaits an object": awaits_object(future),
        "gathers": gathers(future),
    }
    if sys.version_info >= (3, 11):
        made["groups"] = groups(future)
    tasks = {name: asyncio.ensure_future(coroutine) for name, coroutine in made.items()}
    tasks["awaits"] = asyncio.ensure_future(awaits_task(tasks["sleeps"]))
    AWAITED_BY["sleeps"] = ["awaits"]
    for name, task in tasks.items():
        task.set_name(name)
    own = asyncio.current_task()
    assert own is not None
    own.set_name("main")
    await asyncio.sleep(0.05)
    loop.call_later(0.05, says_tasks)
    WAITING[threading.get_ident()] = threading.get_native_id()
    await future


def frames_of(frame):
    found = []
    while frame is not None:
        code = frame.f_code
        is_function = code.co_flags & 1
        variables = {name: shown(value) for name, value in frame.f_locals.items()}
        found.append([code.co_name, variables if is_function else None])
        frame = frame.f_back
    return found


def program():
    threads = [threading.Thread(target=asyncio.run, args=(main(),), name="loop", daemon=True)]
    for name, target in TARGETS.items():
        threads.append(threading.Thread(target=target, name=name or None, daemon=True))
    for thread in threads:
        thread.start()
    threads[-1].name = "renamed"
    deadline = time.time() + 30
    while len(WAITING) < len(threads) or len(TASKS) < 8:
        if time.time() > deadline:
            sys.exit("a thread does not wait")
        time.sleep(0.01)
    time.sleep(0.2)
    with open(sys.argv[1], "w") as file:
        json.dump(
            {
                "names": {str(each.native_id): each.name for each in threading.enumerate()},
                "variables": {
                    str(WAITING[ident]): frames_of(frame)
                    for ident, frame in sys._current_frames().items()
                    if ident in WAITING and ident != threads[0].ident
                },
                "tasks": TASKS,
            },
            file,
        )
    print("ready", flush=True)
    sys.stdin.read()


program()
