"""What dump prints of Python's variables, locks and tasks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest

from flametap.capture.python_look import PythonLook
from flametap.cli.commands.dump import with_look
from flametap.cli.dump_json import as_object
from flametap.cli.dump_text import as_python_lines, deadlock_lines, task_lines
from flametap.cli.thread_stack import ThreadStack
from flametap.model import Frame, Function
from flametap.symbols.interpreters.python.task_look import (
    READY,
    RUNNING,
    WAITING,
    LoopLook,
    TaskLook,
)
from flametap.symbols.interpreters.python.thread_look import RUNS, FrameLook, Local, ThreadLook
from python_profiles import HANDLE, SERVE

VARIABLES = (
    Local("self", "<Handler object at 0x7f00>", is_argument=True),
    Local("key", "'a'", is_argument=True),
    Local("rows", "[1, 2, …]", is_argument=False),
)
GET = FrameLook("Handler.get", "/srv/app/views.py", 14, VARIABLES)
ROOT = FrameLook("serve", "/srv/app/main.py", 40, problem="they cannot be read")
SORT = Frame(Function("list_sort", "libpython3.12.so"))
STACK = ThreadStack(
    7, "MainThread", "", True, [SORT, Frame(HANDLE, 14), Frame(SERVE, 40)], comm="python3.12"
)


def looked(
    *threads: ThreadLook, stacks: Sequence[ThreadStack] = (STACK,), with_locals: bool = True
) -> list[ThreadStack]:
    look = PythonLook(threads={7: list(threads)} if threads else {})
    return with_look(stacks, look, with_locals=with_locals)


def test_variables_stand_below_their_frames_as_in_py_spy() -> None:
    stacks = looked(ThreadLook(7, (GET, ROOT), True))
    assert (
        "\n".join(as_python_lines(7, "python app.py", stacks))
        == """\
process 7: python app.py

Thread 7 (active): "MainThread"
    list_sort (libpython3.12.so)
    Handler.get (app/views.py:14)
        Arguments:
            self: <Handler object at 0x7f00>
            key: 'a'
        Locals:
            rows: [1, 2, …]
    serve (app/main.py:40)
        … variables are missing: they cannot be read"""
    )


def test_variables_of_a_thread_that_runs_are_not_shown() -> None:
    (stack,) = looked(ThreadLook(7, (), True, RUNS))
    assert not stack.seen
    lines = as_python_lines(7, "", [stack])
    assert lines[-1] == "    … variables are not shown: it runs"


def test_thread_that_has_moved_is_shown_twice() -> None:
    elsewhere = replace(GET, line=15)
    (stack,) = looked(ThreadLook(7, (elsewhere, ROOT), True))
    assert (stack.seen, stack.unread_because) == ({}, "")
    assert as_python_lines(7, "", [stack])[3:] == [
        "    list_sort (libpython3.12.so)",
        "    Handler.get (app/views.py:14)",
        "    serve (app/main.py:40)",
        "    … a moment later, when its variables were read:",
        "        Handler.get (app/views.py:15)",
        "            Arguments:",
        "                self: <Handler object at 0x7f00>",
        "                key: 'a'",
        "            Locals:",
        "                rows: [1, 2, …]",
        "        serve (app/main.py:40)",
        "            … variables are missing: they cannot be read",
    ]
    (thread,) = as_object(7, "", [stack])["threads"]
    assert not any("locals" in frame for frame in thread["frames_leaf_first"])
    get, root = thread["later_frames_leaf_first"]
    assert (get["name"], get["line"], len(get["locals"])) == ("Handler.get", 15, 3)
    assert root["locals_missing_because"] == "they cannot be read"


def test_variables_are_not_shown_unless_they_are_wanted() -> None:
    (stack,) = looked(ThreadLook(7, (GET, ROOT), True), with_locals=False)
    assert (stack.seen, stack.unread_because) == ({}, "")


def test_thread_without_python_needs_no_excuse() -> None:
    native = replace(STACK, frames=[SORT])
    for stack in (*looked(), *looked(ThreadLook(7, (), False, RUNS), stacks=[native])):
        assert not stack.unread_because


LOOP = LoopLook(
    7,
    "_UnixSelectorEventLoop",
    (
        TaskLook("main", RUNNING, (GET, ROOT), False, "", (), ()),
        TaskLook("Task-2", WAITING, (GET,), False, "", ("a", "b"), ()),
        TaskLook("a", WAITING, (), True, "_asyncio.Future", (), ("Task-2",)),
        TaskLook("b", READY, (ROOT,), False, "", (), tuple("abcdefg")),
    ),
    changed=2,
)


def test_tasks_are_listed_by_loop() -> None:
    assert (
        "\n".join(task_lines([LOOP]))
        == """
Event loop of thread 7: 6 tasks
    Task "main" (running)
        Handler.get (app/views.py:14)
        serve (app/main.py:40)
    Task "Task-2" (waiting for "a", "b")
        Handler.get (app/views.py:14)
    Task "a" (waiting; awaited by "Task-2")
        … the rest could not be read
    Task "b" (ready to run; awaited by "a", "b", "c", "d", "e" and 2 more)
        serve (app/main.py:40)
    … 2 changed while they were read"""
    )
    full = task_lines([LOOP], full_filenames=True)
    assert "        serve (/srv/app/main.py:40)" in full


def test_number_of_tasks_that_are_listed_has_a_limit() -> None:
    many = replace(LOOP, tid=0, tasks=LOOP.tasks[:1] * 250, changed=0, is_cut=True)
    lines = task_lines([many])
    assert lines[1] == (
        "Event loop (_UnixSelectorEventLoop) of an unknown thread: 250 or more tasks"
    )
    assert sum("Task" in line for line in lines) == 100
    assert lines[-1] == "    … 150 more (--all-tasks shows them)"
    assert sum("Task" in line for line in task_lines([many], every=True)) == 250


def test_json_has_variables_locks_and_tasks() -> None:
    stacks = looked(ThreadLook(7, (GET, ROOT), True))
    text = json.dumps(as_object(7, "app", stacks, ["CPython 3.12.1"], [LOOP], ["a note"]))
    document = json.loads(text)
    assert (document["interpreters"], document["notes"]) == (["CPython 3.12.1"], ["a note"])
    (thread,) = document["threads"]
    assert (thread["name"], thread["comm"]) == ("MainThread", "python3.12")
    assert (thread["state"], thread["gil"]) == ("active", "holds")
    assert thread["locals_missing_because"] is None
    sort, get, root = thread["frames_leaf_first"]
    assert "locals" not in sort
    assert get["locals"][1] == {"name": "key", "value": "'a'", "argument": True}
    assert (root["locals"], root["locals_missing_because"]) == ([], "they cannot be read")
    (loop,) = document["event_loops"]
    assert (loop["tid"], loop["changed"], loop["complete"]) == (7, 2, True)
    assert loop["tasks"][2] == {
        "name": "a",
        "state": "waiting",
        "waits_for": "_asyncio.Future",
        "waits_for_tasks": [],
        "awaited_by": ["Task-2"],
        "complete": False,
        "frames_leaf_first": [],
    }


@pytest.mark.parametrize(
    ("locks", "gil"),
    [([True], "holds"), ([False], "none"), ([None], None), ([False, True], "holds")],
)
def test_json_says_who_holds_the_lock(locks: list[bool | None], gil: str | None) -> None:
    stacks = looked(*(ThreadLook(7, (), lock) for lock in locks), with_locals=False)
    assert as_object(7, "", stacks)["threads"][0]["gil"] == gil


def test_threads_that_wait_for_each_other_are_a_deadlock() -> None:
    waits = {1: 2, 2: 3, 3: 2, 4: 1, 5: 6, 6: 7, 8: 9, 9: 8, 10: 11, 11: 10}
    stacks = [
        replace(STACK, tid=tid, waits_for=(other, "x"), is_stuck=tid < 10)
        for tid, other in waits.items()
    ]
    assert deadlock_lines([*stacks, replace(STACK, tid=7)]) == [
        "",
        "deadlock: threads 2, 3 wait for each other's locks",
        "",
        "deadlock: threads 8, 9 wait for each other's locks",
    ]
    lines = as_python_lines(7, "python", stacks[:1])
    assert 'Thread 1 (active, for a lock that thread 2 "x" holds): "MainThread"' in lines
