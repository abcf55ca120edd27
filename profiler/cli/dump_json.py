"""Stacks, variables and tasks as one JSON object; ``docs/dump.md`` describes it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..model import Frame
from .thread_stack import FOR_THE_LOCK, ThreadStack

if TYPE_CHECKING:
    from ..symbols.interpreters.python.task_look import LoopLook
    from ..symbols.interpreters.python.thread_look import FrameLook


def as_object(
    pid: int,
    command: str,
    stacks: Sequence[ThreadStack],
    interpreters: Sequence[str] = (),
    loops: Sequence[LoopLook] = (),
    notes: Sequence[str] = (),
) -> dict[str, Any]:
    """Return the JSON object.

    Args:
        pid, command: of the process.
        stacks: of its threads.
        interpreters: their names and versions.
        loops: event loops of asyncio.
        notes: what could not be read.
    """
    return {
        "pid": pid,
        "command": command,
        "interpreters": list(interpreters),
        "threads": [_thread(stack) for stack in stacks],
        "event_loops": [_loop(loop) for loop in loops],
        "notes": list(notes),
    }


def _thread(stack: ThreadStack) -> dict[str, Any]:
    gil = None
    if stack.waits_in == FOR_THE_LOCK:
        gil = "waits"
    elif stack.has_lock is not None:
        gil = "holds" if stack.has_lock else "none"
    return {
        "tid": stack.tid,
        "name": stack.name,
        "comm": stack.comm or stack.name,
        "state": stack.state,
        "gil": gil,
        "waits_in": stack.waits_in_call or None,
        "runs_in": stack.runs_in or None,
        "waits_for_tid": stack.waits_for[0] if stack.waits_for else None,
        "unseen_because": stack.unseen_because or None,
        "locals_missing_because": stack.unread_because or None,
        "complete": stack.is_complete,
        "frames_leaf_first": [
            _frame(frame, stack.seen.get(index)) for index, frame in enumerate(stack.frames)
        ],
        "later_frames_leaf_first": [
            {"name": each.name, "file": each.file, "line": each.line} | _locals(each)
            for each in stack.later
        ],
    }


def _frame(frame: Frame, seen: FrameLook | None) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": frame.function.name,
        "module": frame.function.module,
        "file": frame.file,
        "line": frame.line,
        "function_file": frame.function.file,
        "kind": frame.function.kind.value,
    }
    return found if seen is None else found | _locals(seen)


def _locals(seen: FrameLook) -> dict[str, Any]:
    found: dict[str, Any] = {
        "locals": [
            {"name": each.name, "value": each.text, "argument": each.is_argument}
            for each in seen.variables
        ]
    }
    if seen.problem:
        found["locals_missing_because"] = seen.problem
    return found


def _loop(loop: LoopLook) -> dict[str, Any]:
    return {
        "tid": loop.tid or None,
        "class": loop.kind,
        "tasks": [
            {
                "name": task.name,
                "state": task.state,
                "waits_for": task.waits_for or None,
                "waits_for_tasks": list(task.waits_for_tasks),
                "awaited_by": list(task.awaited_by),
                "complete": not task.is_cut,
                "frames_leaf_first": [
                    {"name": frame.name, "file": frame.file, "line": frame.line}
                    for frame in task.frames
                ],
            }
            for task in loop.tasks
        ],
        "changed": loop.changed,
        "complete": not loop.is_cut,
    }
