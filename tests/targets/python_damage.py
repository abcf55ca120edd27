"""A Python whose own objects are damaged, in every way that a reader of its memory should survive.

    python3.N python_damage.py

A thread waits with damaged objects in its variables: ``good`` and ``last`` are whole. Its name is
damaged, too, and so are the tasks of an event loop. Prints "ready"; ends at once with its standard
input, as nothing in it can be cleaned up. Runs on CPython 3.8 to 3.15, with a global lock.
"""

import asyncio
import ctypes
import gc
import os
import sys
import threading
import time

NOWHERE = 0x7FFF_FFFF_F008  # the last page of user space, which is never mapped
END = threading.Event()
KEPT: list = []


def kept(value):
    """Keep an object for ever: it must not be freed."""
    KEPT.append(value)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))
    return value


def word(addr):
    return ctypes.c_uint64.from_address(addr)


def with_word(value, offset, number):
    word(id(kept(value)) + offset).value = number
    return value


def with_keys(offset, size, number):
    """A dictionary whose table of keys says something else."""
    value = kept({f"key {i}": i for i in range(3)})
    keys = word(id(value) + 32).value
    (ctypes.c_uint8 if size == 1 else ctypes.c_uint64).from_address(keys + offset).value = number
    return value


def nested(depth):
    value: list = []
    for _ in range(depth):
        value = [value]
    return kept(value)


def looped_tuple():
    value = kept((1, 2))
    item = 32 if sys.version_info >= (3, 14) else 24
    word(id(value) + item).value = id(value)
    return value


class Thing:
    pass


def thing_without_class(number):
    value = kept(Thing())
    word(id(value) + 8).value = number
    return value


def waits():
    good = ["whole", 1]
    endless_list = with_word([1, 2], 16, 1 << 62)
    negative_list = with_word([1, 2], 16, (1 << 64) - 5)
    long_list = with_word([1, 2], 16, 1 << 40)
    list_nowhere = with_word([1, 2], 24, NOWHERE)
    list_of_itself = with_word([1, 2], 24, id(KEPT[-1]) + 24)
    endless_text = with_word("some text"[:4] + str(time.time()), 16, 1 << 60)
    odd_text = with_word(str(time.time()) + "!", 32, (1 << 64) - 1)
    endless_bytes = with_word(bytes(bytearray(b"some bytes")), 16, 1 << 61)
    endless_int = with_word(int(str(10**30)), 16, 1 << 50)
    dict_nowhere = with_word({"a": 1}, 32, NOWHERE)
    dict_odd = with_word({"b": 1}, 32, 3)
    values_nowhere = with_word({"c": 1}, 40, NOWHERE)
    used_dict = with_word({"d": 1}, 16, 1 << 59)
    keys_of_all = with_keys(8, 1 if sys.version_info >= (3, 11) else 8, 255)
    keys_long = with_keys(24 if sys.version_info >= (3, 11) else 32, 8, 1 << 55)
    keys_wide = with_keys(9, 1, 200)
    set_mask = with_word({1, 2}, 32, (1 << 63) - 1)
    set_nowhere = with_word({3, 4}, 40, NOWHERE)
    deep, loop = nested(100_000), looped_tuple()
    no_class, odd_class = thing_without_class(NOWHERE), thing_without_class(id(good))
    own_class = thing_without_class(id(kept(Thing())))
    last = {"whole": (2,)}
    END.wait()
    return locals()


async def tasks():
    loop = asyncio.get_running_loop()
    made = [asyncio.ensure_future(asyncio.sleep(10_000)) for _ in range(3)]
    await asyncio.sleep(0.01)
    task = kept(made[0])
    fields = [o for o in range(16, type(task).__basicsize__, 8) if word(id(task) + o).value]
    coroutine = next(o for o in fields if word(id(task) + o).value == id(task.get_coro()))
    word(id(task) + coroutine).value = NOWHERE
    word(id(kept(made[1])) + 8).value = NOWHERE
    loop.call_later(0.01, END_OF_SETUP.set)
    while True:
        time.sleep(1000)


END_OF_SETUP = threading.Event()


def program():
    gc.disable()
    thread = threading.Thread(target=waits, daemon=True, name="damaged thread")
    thread.start()
    threading.Thread(target=asyncio.run, args=(tasks(),), daemon=True, name="loop").start()
    time.sleep(1)
    with_word(thread.name, 16, 1 << 60)
    os.write(1, b"ready\n")
    os.read(0, 1)
    os._exit(0)


program()
