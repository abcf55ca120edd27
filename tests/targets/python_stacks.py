"""Threads that wait at known places of Python's, and say where.

    python3.N python_stacks.py FILE

Writes a JSON object to FILE: for each waiting thread its number (pthread_self) and its frames, leaf
first, as the interpreter itself sees them: [name, qualified name or null, file, line, first line].
Then prints "ready", and ends with its standard input. Runs on Python 3.8 to 3.15.
"""

import contextlib
import functools
import json
import os
import sys
import threading
import time

END = threading.Event()
WAITING: list = []


def wait():
    WAITING.append(threading.get_ident())
    END.wait()


class Base:
    def __init__(self):
        self.value = 1
        self.method()

    def method(self):
        wait()

    class Inner:
        @staticmethod
        def static(depth):
            if depth:
                return Base.Inner.static(depth - 1)
            return [x for x in map(lambda _: wait(), range(1))]

        @classmethod
        @functools.wraps(len)
        def klass(cls):
            return sorted([1, 2], key=lambda x: wait() or x)


def made():
    for _ in range(3):
        Base()


def generator():
    yield 1
    wait()
    yield 2


def generates():
    return sum(generator())


async def deepest():
    wait()


async def coroutine():
    await deepest()


def runs_coroutine():
    with contextlib.suppress(StopIteration):
        coroutine().send(None)


def execs():
    text = "\n\ndef of_text(x):\n    return x()\n\nof_text(wait)\n"
    exec(compile(text, "<a text>", "exec"), {"wait": wait})


def imports():
    folder = os.path.dirname(sys.argv[1])
    with open(os.path.join(folder, "waits_while_imported.py"), "w") as file:
        file.write("import __main__\n\n\nclass Body:\n    __main__.wait()\n")
    sys.path.insert(0, folder)
    __import__("waits_while_imported")


def многоязычная():
    functools.reduce(lambda a, b: wait() or a, [1, 2])


class Finalized:
    def __del__(self):
        wait()


def finalizes():
    thing = Finalized()
    del thing


def multi_line():
    return dict(
        one=1,
        two=wait(),
        three=3,
    )


def recursive(depth):
    if depth == 0:
        wait()
    else:
        recursive(depth - 1)


TARGETS: list = [
    made,
    lambda: Base.Inner.static(3),
    Base.Inner.klass,
    generates,
    runs_coroutine,
    execs,
    imports,
    многоязычная,
    finalizes,
    multi_line,
    lambda: recursive(200),
]


def frames_of(frame):
    found = []
    while frame is not None:
        code = frame.f_code
        qualified = getattr(code, "co_qualname", None)
        line = frame.f_lineno
        found.append([code.co_name, qualified, code.co_filename, line, code.co_firstlineno])
        frame = frame.f_back
    return found


def main():
    for target in TARGETS:
        threading.Thread(target=target, daemon=True).start()
        deadline = time.time() + 30
        while len(WAITING) == TARGETS.index(target):
            if time.time() > deadline:
                sys.exit("a thread does not wait")
            time.sleep(0.01)
    before: dict = {}
    while True:  # until none of them moves any more
        time.sleep(0.05)
        now = {i: frames_of(f) for i, f in sys._current_frames().items() if i in WAITING}
        if now == before:
            break
        before = now
    with open(sys.argv[1], "w") as file:
        json.dump({str(ident): frames for ident, frames in now.items()}, file)
    print("ready", flush=True)
    sys.stdin.read()


main()
