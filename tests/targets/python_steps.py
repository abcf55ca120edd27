"""Call all kinds of Python functions while the agent's walk is tried at each machine instruction.

Usage: python_steps.py LIBRARY STEPS OUT [greenlets | unlist | withdraw]. LIBRARY is
tests/agent_c/python_step.c. Prints ready, and reads the recipe of its own interpreter: a line of
numbers in decimal. Writes the stacks to OUT, and then to stdout one JSON object: the number of
steps, the address of each code object → the name of its function. Runs on CPython from 3.8 on.

With "greenlets" it does nothing but switch between them; that needs the package greenlet. With
"unlist" the agent's list of thread states is empty, and this thread always holds the GIL. With
"withdraw" the host has taken the recipe back, too.
"""

import ctypes
import functools
import importlib
import json
import sys
from typing import Any

GREENLETS: Any = importlib.import_module("greenlet") if "greenlets" in sys.argv[4:] else None


def leaf(x):
    return x + 1


def mid(x):
    return leaf(x) + leaf(x)


def key(x):
    return leaf(x)


def counted(k):
    for i in range(k):
        yield leaf(i)


def loop_over_generator(k):
    total = 0
    for value in counted(k):
        total += value
    return total


def sum_of_generator(k):
    return sum(counted(k))


def sorting(values):
    return sorted(values, key=key)


def delegating(k):
    yield from counted(k)


def list_of_delegating(k):
    return list(delegating(k))


def raising(x):
    raise ValueError(x)


def catching(x):
    try:
        raising(x)
    except ValueError:
        return leaf(x)


class Thing:
    def __init__(self, value):
        self.value = value

    def __del__(self):
        leaf(1)

    def __lt__(self, other):
        return self.value < leaf(other.value)

    @property
    def prop(self):
        return leaf(self.value)


def making():
    return Thing(3).prop


def comparing():
    return sorted([Thing(2), Thing(1)])


async def awaited():
    return leaf(1)


async def awaiting():
    return await awaited()


def running_coroutine():
    coroutine = awaiting()
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value


def closing():
    generator = counted(3)
    next(generator)
    generator.close()


def comprehending(k):
    return [leaf(i) for i in range(k)]


def reducing():
    return functools.reduce(lambda a, b: leaf(a), [1, 2, 3])


def drive():
    mid(1)
    loop_over_generator(3)
    sum_of_generator(3)
    sorting([3, 1, 2])
    list_of_delegating(2)
    catching(1)
    making()
    comparing()
    running_coroutine()
    closing()
    comprehending(3)
    reducing()


def switching():
    """Two greenlets that begin at the same depth, and one that begins deeper."""
    main = GREENLETS.getcurrent()
    right = GREENLETS.greenlet(right_first)
    right.switch(main)
    GREENLETS.greenlet(left_first).switch(right, 3)
    right.switch(None)


def left_first(right, rounds):
    for i in range(rounds):
        left_second(right, i)
    sorted([2, 1], key=left_key)


def left_second(right, i):
    right.switch(GREENLETS.getcurrent())
    leaf(i)


def left_key(x):
    return GREENLETS.greenlet(inner_first).switch(x)


def inner_first(x):
    return leaf(x)


def right_first(back):
    right_second(back)


def right_second(back):
    while back is not None:
        back = right_third(back)


def right_third(back):
    back = back.switch()
    leaf(1)
    return back


CALLS = {
    "<module>": ["main"],
    "main": ["drive", "switching"],
    "drive": [
        *("mid", "loop_over_generator", "sum_of_generator", "sorting", "list_of_delegating"),
        *("catching", "making", "comparing", "running_coroutine", "closing", "comprehending"),
        *("reducing", "__del__"),
    ],
    "mid": ["leaf"],
    "key": ["leaf"],
    "counted": ["leaf"],
    "loop_over_generator": ["counted"],
    "sum_of_generator": ["counted"],
    "sorting": ["key"],
    "delegating": ["counted"],
    "list_of_delegating": ["delegating"],
    "catching": ["raising", "leaf"],
    "__del__": ["leaf"],
    "__lt__": ["leaf"],
    "prop": ["leaf"],
    "making": ["__init__", "prop", "__del__"],
    "comparing": ["__init__", "__lt__", "__del__"],
    "awaited": ["leaf"],
    "awaiting": ["awaited"],
    "running_coroutine": ["awaiting"],
    "closing": ["counted"],
    "comprehending": ["leaf", "<listcomp>"],
    "<listcomp>": ["leaf"],
    "reducing": ["<lambda>"],
    "<lambda>": ["leaf"],
    "left_first": ["left_second", "left_key"],
    "left_second": ["leaf"],
    "inner_first": ["leaf"],
    "right_first": ["right_second"],
    "right_second": ["right_third"],
    "right_third": ["leaf"],
}


def codes(code):
    yield code
    for constant in code.co_consts:
        if isinstance(constant, type(code)):
            yield from codes(constant)


def main():
    library, steps, out = sys.argv[1:4]
    run = switching if GREENLETS else drive
    print("ready", flush=True)
    words = [int(word) for word in sys.stdin.readline().split()]
    empties = [f"step_{name}" for name in sys.argv[4:] if name != "greenlets"]
    agent = (ctypes.PyDLL if empties else ctypes.CDLL)(library)
    agent.step_begin.argtypes = [ctypes.c_void_p, ctypes.c_long]
    agent.step_end.argtypes = [ctypes.c_char_p]
    agent.step_end.restype = ctypes.c_long
    # ctypes looks names up in Python.
    is_on, end = agent.step_is_on, agent.step_end
    empty = [getattr(agent, name) for name in empties]
    for _ in range(40):  # the interpreter specialises what runs often
        run()
    array = (ctypes.c_uint64 * len(words))(*words)
    error = agent.step_begin(array, int(steps))
    if error:
        sys.exit(f"step_begin failed: {error}")
    for each in empty:
        each()
    for _ in range(1000):
        run()
        if not is_on():
            break
    done = end(out.encode())
    names = {id(each): each.co_name for each in codes(sys._getframe(1).f_code)}
    print(json.dumps({"steps": done, "names": names}), flush=True)


main()
