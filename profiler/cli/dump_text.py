"""Stacks, variables and tasks as lines for people. Pure; ``streams`` makes them printable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..model import Frame, FrameKind, Function
from ..tree.labels import label
from .thread_stack import ThreadStack

if TYPE_CHECKING:
    from ..symbols.interpreters.python.task_look import LoopLook, TaskLook
    from ..symbols.interpreters.python.thread_look import FrameLook

_INDENT = "    "
_MAX_TASKS = 100  # of a loop, unless all are asked for
_MAX_NAMES = 5  # of tasks that one waits for


def as_lines(pid: int, command: str, stacks: Sequence[ThreadStack]) -> list[str]:
    """Format the stacks of a native program."""
    lines = [f"process {pid}: {command}"]
    for stack in stacks:
        does = f"waits in {stack.waits_in_call}" if stack.waits_in_call else "runs"
        if stack.waits_in and not stack.waits_in_call:
            does = f"is {stack.state}"
        if stack.runs_in:
            does = f"runs in {stack.runs_in}"
        if stack.held_by:
            does += f", {stack.held_by}"
        if not stack.frames:
            does = f"was not seen: {stack.unseen_because}"
        lines += ["", f'thread {stack.tid} "{stack.name}" {does}', *_frame_lines(stack)]
    return lines


def as_python_lines(
    pid: int, command: str, stacks: Sequence[ThreadStack], *, full_filenames: bool = False
) -> list[str]:
    """Format the stacks of a Python process, as py-spy does."""
    lines = [f"process {pid}: {command}"]
    for stack in stacks:
        does = stack.state
        if stack.runs_in or stack.waits_in_call:
            does += f" in {stack.runs_in or stack.waits_in_call}"
        if stack.held_by:
            does += f", {stack.held_by}"
        if not stack.frames:
            does = f"not seen: {stack.unseen_because}"
        lines += ["", f'Thread {stack.tid} ({does}): "{stack.name}"']
        lines += _frame_lines(stack, full_filenames=full_filenames)
        if stack.later:
            lines.append(f"{_INDENT}… a moment later, when its variables were read:")
            for each in stack.later:
                lines.append(_INDENT * 2 + _python_text(each, full_filenames))
                lines += [_INDENT + line for line in _variable_lines(each)]
        if stack.unread_because:
            lines.append(f"{_INDENT}… variables are not shown: {stack.unread_because}")
    return lines


def deadlock_lines(stacks: Sequence[ThreadStack]) -> list[str]:
    """Return a line for each circle of threads that wait for each other's locks."""
    waits = {
        stack.tid: stack.waits_for[0] for stack in stacks if stack.waits_for and stack.is_stuck
    }
    lines, done = [], set[int]()
    for start in waits:
        circle, tid = [], start
        while tid in waits and tid not in done:
            done.add(tid)
            circle.append(tid)
            tid = waits[tid]
        if tid in circle:
            circle = circle[circle.index(tid) :]
            named = ", ".join(f"{each}" for each in circle)
            lines += ["", f"deadlock: threads {named} wait for each other's locks"]
    return lines


def _frame_lines(stack: ThreadStack, *, full_filenames: bool = False) -> list[str]:
    lines = []
    for index, frame in enumerate(stack.frames):
        lines.append(_INDENT + _frame_text(frame, full_filenames))
        if index in stack.seen:
            lines += _variable_lines(stack.seen[index])
    if stack.frames and not stack.is_complete:
        lines.append(f"{_INDENT}… the rest could not be unwound")
    return lines


def _frame_text(frame: Frame, full_filenames: bool = False) -> str:
    function = frame.function
    if function.kind is FrameKind.PYTHON:
        return label(function, frame.line, full_filenames=full_filenames)
    place = f" at {frame.file}:{frame.line}" if frame.file and frame.line else ""
    module = f" ({function.module})" if function.module else ""
    if function.kind is FrameKind.UNKNOWN:
        module = ""  # the name contains it already
    marked = function.kind in (FrameKind.INLINED, FrameKind.TAIL_CALL)
    mark = f" [{function.kind.value}]" if marked else ""
    return f"{function.name}{module}{place}{mark}"


def _variable_lines(frame: FrameLook) -> list[str]:
    lines = []
    for title, is_argument in (("Arguments:", True), ("Locals:", False)):
        own = [each for each in frame.variables if each.is_argument == is_argument]
        if own:
            lines.append(_INDENT * 2 + title)
            lines += [f"{_INDENT * 3}{each.name}: {each.text}" for each in own]
    if frame.problem:
        lines.append(f"{_INDENT * 2}… variables are missing: {frame.problem}")
    return lines


def task_lines(
    loops: Sequence[LoopLook], *, every: bool = False, full_filenames: bool = False
) -> list[str]:
    """Format event loops with their tasks.

    Args:
        loops: in the order in which they are shown.
        every: show all tasks, not only the first ones of a loop.
        full_filenames: the whole paths of files.
    """
    lines = []
    for loop in loops:
        whose = f"of thread {loop.tid}" if loop.tid else f"({loop.kind}) of an unknown thread"
        n_tasks = len(loop.tasks) + loop.changed
        count = f"{n_tasks:,}" + (" or more" if loop.is_cut else "")
        lines += ["", f"Event loop {whose}: {count} {'task' if n_tasks == 1 else 'tasks'}"]
        shown = loop.tasks if every else loop.tasks[:_MAX_TASKS]
        for task in shown:
            lines.append(f'{_INDENT}Task "{task.name}" ({_task_state(task)})')
            lines += (_INDENT * 2 + _python_text(frame, full_filenames) for frame in task.frames)
            if task.is_cut:
                lines.append(f"{_INDENT * 2}… the rest could not be read")
        if len(shown) < len(loop.tasks):
            left_out = len(loop.tasks) - len(shown)
            lines.append(f"{_INDENT}… {left_out:,} more (--all-tasks shows them)")
        if loop.changed:
            lines.append(f"{_INDENT}… {loop.changed:,} changed while they were read")
    return lines


def _task_state(task: TaskLook) -> str:
    text = {"running": "running", "ready": "ready to run"}.get(task.state, "waiting")
    if task.waits_for_tasks:
        text += f" for {_names(task.waits_for_tasks)}"
    if task.awaited_by:
        text += f"; awaited by {_names(task.awaited_by)}"
    return text


def _names(names: Sequence[str]) -> str:
    shown = ", ".join(f'"{name}"' for name in names[:_MAX_NAMES])
    left_out = len(names) - _MAX_NAMES
    return f"{shown} and {left_out:,} more" if left_out > 0 else shown


def _python_text(frame: FrameLook, full_filenames: bool) -> str:
    function = Function(frame.name, frame.short_file, frame.file, FrameKind.PYTHON)
    return label(function, frame.line, full_filenames=full_filenames)
