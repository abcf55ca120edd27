"""List the tasks of asyncio's event loops: by name, with what each waits for.

Up to 3.13 they are in the sets of the module ``asyncio.tasks``, and who awaits whom is found by
what each waits for: another task, ``gather``, or a task group. Since 3.14 they are in lists of the
threads, and say themselves who awaits them.

Reads once. A program that runs meanwhile may give wrong answers: callers read again, and compare.

Source: Lib/asyncio/tasks.py, taskgroups.py; Modules/_asynciomodule.c.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ....linux.process_memory import MemoryReadError
from . import object_layout as at
from .asyncio_debug import AsyncioDebug
from .bounded_memory import LimitReached
from .chains import NO_POINTER
from .coroutines import Chain, Coroutines
from .frames import Frames, StateAt
from .objects import Objects
from .strings import ObjectError
from .thread_names import module

MAX_TASKS = 10_000
_MAX_CHILDREN = 1000
_MAX_CALLBACKS = 4
_MAX_NAME = 256
_PENDING = 0
_RUNNING_LOOP = "__asyncio_running_event_loop__"


@dataclass
class TaskAt:
    """A task that is not done."""

    addr: int
    name: str
    loop: int
    waits_for: int  # a future or another task; 0 if it can run
    chain: Chain
    awaited_by: set[int] = field(default_factory=set)  # tasks


@dataclass
class LoopAt:
    """An event loop that has tasks, or runs one."""

    addr: int
    name: str  # of its class
    pointer: int = 0  # pthread_self() of its thread; 0 if unknown
    running: int = 0  # the task that runs now
    tasks: list[TaskAt] = field(default_factory=list)


class Tasks:
    """Reads the tasks of one interpreter.

    Args:
        frames, objects: its readers.
        debug: what its asyncio says of itself; None before 3.14.
    """

    def __init__(self, frames: Frames, objects: Objects, debug: AsyncioDebug | None) -> None:
        self._frames = frames
        self._objects = objects
        self._debug = debug
        self._coroutines = Coroutines(frames, objects)
        self._loops: dict[int, LoopAt] = {}
        self._tasks: dict[int, TaskAt] = {}
        self.is_cut = False  # there are more than were read

    def loops(self) -> list[LoopAt]:
        """Return the event loops with their tasks.

        Raises:
            MemoryReadError: a list of tasks cannot be read.
        """
        layout = self._objects.layout
        if layout.version >= (3, 14) and (self._debug is None or not self._debug.fits(layout.task)):
            return []
        try:
            for addr in self._found():
                self._add(addr)
            self._find_awaiters()
            if self._debug is None:
                self._find_threads()
        except LimitReached:
            self.is_cut = True
        return list(self._loops.values())

    def _found(self) -> Iterator[int]:
        """Yield the addresses of all tasks, and note which run."""
        states = self._frames.states()
        for interpreter in dict.fromkeys(state.interpreter for state in states):
            if self._debug is None:
                yield from self._in_module(interpreter)
            else:
                own = [state for state in states if state.interpreter == interpreter]
                yield from self._in_lists(interpreter, own, self._debug)

    # ------------------------------------------------------------------ up to 3.13

    def _in_module(self, interpreter: int) -> Iterator[int]:
        objects = self._objects
        names = dict.fromkeys(
            ("_all_tasks", "_scheduled_tasks", "_eager_tasks", "_current_tasks"), 0
        )
        tasks = module(objects, interpreter, "asyncio.tasks")
        if not tasks:
            return
        for key, value in objects.pairs(tasks, 1 << 12)[0]:
            name = objects.key(key)
            if name in names:
                names[name] = value
        current = names.pop("_current_tasks")
        for loop, task in objects.pairs(current, _MAX_CHILDREN)[0] if current else ():
            self._loop(loop).running = task
        for each in names.values():
            if each:
                yield from self._in_set(each)

    def _in_set(self, addr: int) -> Iterator[int]:
        """Yield the members of a set, or of a WeakSet."""
        objects = self._objects
        if objects.type_of(addr).name == "WeakSet":
            addr = objects.attribute(addr, "data")
        if not addr or objects.type_of(addr).name != "set":
            raise ObjectError("the set of tasks is another object")
        members, length = objects.members(addr, MAX_TASKS)
        self.is_cut |= length > len(members)
        for member in members:
            if "task" in objects.type_of(member).name.lower():
                yield member
                continue
            referent = objects.memory.word(member + at.REFERENCE_OBJECT)
            if referent >= NO_POINTER:
                yield referent

    def _find_threads(self) -> None:
        """Find the threads of loops that do not say it themselves: those written in C."""
        for state in self._frames.states() if self._loops else ():
            try:
                for addr in self._running_loops(state):
                    loop = self._loops.get(addr)
                    if loop is not None and not loop.pointer:
                        loop.pointer = state.pointer
            except LimitReached:
                raise
            except MemoryReadError:
                continue

    def _running_loops(self, state: StateAt) -> tuple[int, ...]:
        """Return what may be the loop that a thread runs."""
        objects, memory = self._objects, self._objects.memory
        found = memory.word(state.addr + objects.layout.thread_loop)
        if objects.layout.version >= (3, 13) or not found:
            return (found,)
        holder = objects.lookup(found, _RUNNING_LOOP)
        if not holder or not objects.type_of(holder).name.endswith("RunningLoopHolder"):
            return (holder,)  # 3.12: no holder, but the loop
        return memory.word(holder + 16), memory.word(holder + 24)  # one of them is a pid

    # ------------------------------------------------------------------ since 3.14

    def _in_lists(
        self, interpreter: int, states: list[StateAt], debug: AsyncioDebug
    ) -> Iterator[int]:
        memory = self._objects.memory
        heads = [interpreter + debug.interpreter_tasks]
        for state in states:
            heads.append(state.addr + debug.thread_tasks)
            loop = memory.word(state.addr + debug.running_loop)
            if loop >= NO_POINTER:
                found = self._loop(loop)
                found.pointer = state.pointer
                found.running = memory.word(state.addr + debug.running_task)
        count = 0
        for head in heads:
            node = memory.word(head)
            while node != head and node >= NO_POINTER:
                if count >= MAX_TASKS:
                    self.is_cut = True
                    return
                count += 1
                yield node - debug.task_node
                node = memory.word(node)

    # ------------------------------------------------------------------ one task

    def _loop(self, addr: int) -> LoopAt:
        found = self._loops.get(addr)
        if found is None:
            found = self._loops[addr] = LoopAt(addr, self._objects.type_of(addr).name)
            try:
                pointer = self._objects.attribute(addr, "_thread_id")
                found.pointer = self._objects.integer(pointer) or 0 if pointer else 0
            except LimitReached:
                raise
            except MemoryReadError:
                pass  # a loop in C, or one that does not run
        return found

    def _add(self, addr: int) -> None:
        if addr in self._tasks:
            return
        if len(self._tasks) >= MAX_TASKS:
            self.is_cut = True
            return
        try:
            task = self._read(addr)
        except LimitReached:
            raise
        except MemoryReadError:
            return  # it has ended meanwhile, or is no task of _asyncio
        if task is not None:
            self._tasks[addr] = task
            self._loop(task.loop).tasks.append(task)

    def _read(self, addr: int) -> TaskAt | None:
        objects, layout = self._objects, self._objects.layout.task
        memory = objects.memory
        if not self._is_task(addr):
            return None
        whole = memory.read(addr, layout.size)
        if int.from_bytes(whole[layout.state :][:4], "little") != _PENDING:
            return None
        fields = at.FUTURE_LOOP, layout.waits_for, layout.coroutine, layout.name
        loop, waits_for, coroutine, name = (
            int.from_bytes(whole[offset : offset + 8], "little") for offset in fields
        )
        if waits_for and objects.type_of(waits_for).name == "NoneType":
            waits_for = 0
        return TaskAt(addr, self._name(name), loop, waits_for, self._coroutines.chain(coroutine))

    def _is_task(self, addr: int) -> bool:
        """Return whether it is a task of ``_asyncio``, or of a class that is derived from it."""
        kind = self._objects.type_of(addr)
        is_own = kind.name == "_asyncio.Task" and kind.size == self._objects.layout.task.size
        return is_own or (kind.size > self._objects.layout.task.size and "Task" in kind.name)

    def _name(self, addr: int) -> str:
        objects = self._objects
        kind = objects.type_of(addr)
        if kind.has(at.IS_INT):
            return f"Task-{objects.integer(addr)}"
        return objects.name(addr, _MAX_NAME) if kind.has(at.IS_STRING) else ""

    # ------------------------------------------------------------------ who awaits whom

    def _find_awaiters(self) -> None:
        for task in self._tasks.values():
            try:
                if self._debug is not None:
                    task.awaited_by |= self._awaited_by(task.addr, self._debug)
                    continue
                for child in self._children(task.waits_for):
                    if child in self._tasks:
                        self._tasks[child].awaited_by.add(task.addr)
                parent = self._parent(task.addr)
                if parent in self._tasks:
                    task.awaited_by.add(parent)
            except LimitReached:
                raise
            except MemoryReadError:
                continue

    def _awaited_by(self, addr: int, debug: AsyncioDebug) -> set[int]:
        memory = self._objects.memory
        found = memory.word(addr + debug.task_awaited_by)
        if found < NO_POINTER:
            return set()
        if not memory.integer(addr + debug.task_awaited_by_is_set, 1):
            return {found}
        if self._objects.type_of(found).name != "set":
            raise ObjectError("the awaiters are another object")
        return set(self._objects.members(found, _MAX_CHILDREN)[0])

    def _children(self, future: int) -> list[int]:
        """Return the tasks that stand behind a future that a task waits for."""
        if not future:
            return []
        if future in self._tasks:
            return [future]
        if self._objects.type_of(future).name != "_GatheringFuture":
            return []
        children = self._objects.attribute(future, "_children")
        return self._objects.items(children, _MAX_CHILDREN)[0] if children else []

    def _parent(self, addr: int) -> int:
        """Return the task whose task group waits for a task; 0 if there is none."""
        objects, memory = self._objects, self._objects.memory
        callbacks = [memory.word(addr + at.FUTURE_CALLBACK)]
        more = memory.word(addr + at.FUTURE_CALLBACKS)
        if more >= NO_POINTER and objects.type_of(more).has(at.IS_LIST):
            for pair in objects.items(more, _MAX_CALLBACKS)[0]:
                callbacks += objects.items(pair, 1)[0]
        for callback in callbacks:
            if callback < NO_POINTER or objects.type_of(callback).name != "method":
                continue
            group = memory.word(callback + at.METHOD_SELF)
            if objects.type_of(group).name == "TaskGroup":
                return objects.attribute(group, "_parent_task")
        return 0
