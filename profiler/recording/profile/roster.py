"""Keep a recording's processes, threads and modules, as many as the budget allows.

A thread that finds no room is counted: its intervals go to the thread ``MORE_THREADS``. A module
that finds none is counted, too: frames in it have no names. Threads of a process that finds none
are those of the first one.

Not thread-safe; ``Profile`` holds the lock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from ...model import Module, Process, Thread
from ...wire.abi import INTERVAL_OPEN
from ...wire.events import ModuleUpdate, ThreadUpdate
from .budget import HIDDEN_THREAD_BYTES, MODULE_BYTES, PROCESS_BYTES, THREAD_BYTES, Budget

# Stands for all threads that found no room; the wire has no such id.
MORE_THREADS = Thread(0, 0, "[more threads]")

_MAX_COMM = 15  # bytes: TASK_COMM_LEN - 1

Records = npt.NDArray[np.void]  # of decoder.INTERVAL_DTYPE


class Roster:
    """The threads and modules of a profile; see the module docstring.

    Args:
        budget: what they may take.

    Attributes:
        processes: by number; empty if nothing is known of the only one.
        threads: by ``thread_id``, without hidden ones.
        hidden: ids of threads that are not the target's.
        modules: by ``module_id``, including unmapped ones.
        threads_full: the number of intervals whose thread found no room.
        modules_full: the number of modules that found none.
    """

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self.processes: dict[int, Process] = {}
        self.threads: dict[int, Thread] = {}
        self.hidden: set[int] = set()
        self.modules: dict[int, Module] = {}
        self.threads_full = 0
        self.modules_full = 0
        self._given: dict[int, str] = {}  # by thread_id: what the program calls it
        self._defaults: dict[int, frozenset[str]] = {}  # by process

    def add_process(self, process: Process) -> None:
        """Add a process, or replace what is known of it."""
        if process.number in self.processes or self._budget.take(PROCESS_BYTES):
            self.processes[process.number] = process

    def titled(self) -> dict[int, Thread]:
        """Return all threads; where there are several processes, their names say of which each is.

        ``redis-server 812: bio_close_file``, or ``redis-server 812`` for the first thread.
        """
        if len(self.processes) < 2:
            return dict(self.threads)
        titles = self.titles()
        return {key: _titled(each, titles, self.processes) for key, each in self.threads.items()}

    def titles(self) -> dict[int, str]:
        """Return what tells each process from all others."""
        several_hosts = len({each.host for each in self.processes.values()}) > 1
        found = {number: each.title for number, each in self.processes.items()}
        for more, always in ((_on_host, several_hosts), (_numbered, False)):
            times = Counter(found.values())
            for number, each in self.processes.items():
                if always or times[found[number]] > 1:
                    found[number] += more(each)
        return found

    def add_module(self, update: ModuleUpdate) -> None:
        """Add a module, or replace what is known of it."""
        module = update.module
        if module.module_id in self.modules or self._budget.take(MODULE_BYTES):
            self.modules[module.module_id] = module
        else:
            self.modules_full += 1

    def add_threads(
        self, updates: Sequence[ThreadUpdate], process: int = 0
    ) -> tuple[set[int], set[int]]:
        """Add threads, or replace what is known of them.

        Args:
            updates: their states.
            process: the number of their process.

        Returns:
            The ids of those that have exited, and of those that are hidden from now on.
        """
        exited: set[int] = set()
        hidden: set[int] = set()
        for update in updates:
            thread_id = update.thread_id
            if update.hidden:
                if thread_id in self.hidden or self._budget.take(HIDDEN_THREAD_BYTES):
                    hidden.add(thread_id)
            elif thread_id in self.threads or self._budget.take(THREAD_BYTES):
                thread = Thread(
                    thread_id,
                    update.tid,
                    update.name,
                    update.first_seen_ns,
                    update.exited,
                    update.signals_blocked,
                    process=process if process in self.processes else 0,
                )
                self.threads[thread_id] = self._named(thread)
                if update.exited:
                    exited.add(thread_id)
        self.hide(hidden)
        return exited, hidden

    def end_threads(self, process: int) -> list[int]:
        """Note that all threads of a process have exited; return their ids."""
        own = [each for each in self.threads.values() if each.process == process]
        for each in own:
            self.threads[each.thread_id] = replace(each, exited=True)
        return [each.thread_id for each in own]

    def restore(
        self, processes: Sequence[Process], threads: Sequence[Thread], modules: Sequence[Module]
    ) -> None:
        """Add what a file gives, or replace what is known of it.

        Raises:
            ValueError: the budget does not suffice, or a thread is of a process that is not there.
        """
        for process in processes:
            self.add_process(process)
            if process.number not in self.processes:
                raise ValueError("it has more processes than fit into memory")
        for thread in threads:
            if thread.process and thread.process not in self.processes:
                raise ValueError("a thread is of a process that is not there")
        for thread in threads:
            if thread.thread_id not in self.threads and not self._budget.take(THREAD_BYTES):
                raise ValueError("it has more threads than fit into memory")
            self.threads[thread.thread_id] = thread
        for module in modules:
            if module.module_id not in self.modules and not self._budget.take(MODULE_BYTES):
                raise ValueError("it has more modules than fit into memory")
            self.modules[module.module_id] = module

    def meet(self, thread_ids: Collection[int]) -> None:
        """Add those threads of which nothing is known but that they have intervals.

        Raises:
            ValueError: the budget does not suffice.
        """
        for thread_id in thread_ids:
            is_known = thread_id in self.threads or thread_id in self.hidden
            if not is_known and not self._add_nameless(thread_id):
                raise ValueError("it has more threads than fit into memory")

    def hide(self, thread_ids: Collection[int]) -> None:
        """Remove threads that are not the target's."""
        self.hidden |= set(thread_ids)
        for thread_id in thread_ids:
            self.threads.pop(thread_id, None)

    def set_names(self, names: Mapping[int, str], defaults: frozenset[str], process: int) -> bool:
        """Set how a program calls its threads; return whether a name has changed.

        Args:
            names: by tid.
            defaults: see ``Profile.set_thread_names``.
            process: the number of its process.
        """
        self._defaults[process] = defaults
        has_changed = False
        for thread_id, thread in list(self.threads.items()):
            if thread.process == process and not thread.exited and thread.tid in names:
                self._given[thread_id] = names[thread.tid]
                named = self._named(replace(thread, name=thread.comm or thread.name, comm=""))
                has_changed |= named != thread
                self.threads[thread_id] = named
        return has_changed

    def _named(self, thread: Thread) -> Thread:
        """Return a thread with the program's name for it, if that says more than the kernel's."""
        comm, given = thread.name, self._given.get(thread.thread_id, "")
        is_cut = len(comm) == _MAX_COMM and given.startswith(comm)
        defaults = self._defaults.get(thread.process, ())
        if not given or given == comm or not (comm in defaults or is_cut):
            return thread
        return replace(thread, name=given, comm=comm)

    def seat(self, records: Records, process: int = 0) -> Records:
        """Return the intervals of threads that are not hidden, each with a thread that has room.

        Args:
            records: the intervals.
            process: the number of their process.
        """
        if self.hidden and len(records):
            hidden = np.fromiter(self.hidden, np.uint32)
            records = records[~np.isin(records["thread_id"], hidden)]
        refused = [
            thread_id
            for thread_id in np.unique(records["thread_id"]).tolist()
            if thread_id not in self.threads and not self._add_nameless(thread_id, process)
        ]
        if not refused:
            return records
        is_refused = np.isin(records["thread_id"], np.array(refused, np.uint32))
        # An open interval comes again when it has ended, and counts then.
        is_open = records["flags"] & INTERVAL_OPEN != 0
        records, is_refused = records[~(is_refused & is_open)], is_refused[~(is_refused & is_open)]
        records["thread_id"][is_refused] = MORE_THREADS.thread_id
        self.threads[MORE_THREADS.thread_id] = MORE_THREADS
        self.threads_full += int(np.count_nonzero(is_refused))
        return records

    def _add_nameless(self, thread_id: int, process: int = 0) -> bool:
        """Add a thread whose record was dropped; the next batch repeats it."""
        if not self._budget.take(THREAD_BYTES):
            return False
        process = process if process in self.processes else 0
        self.threads[thread_id] = Thread(thread_id, 0, "?", process=process)
        return True


def owner_name(
    thread: Thread, processes: Mapping[int, Process], titles: Mapping[int, str] | None = None
) -> str:
    """Return the name of a thread's program; with ``Roster.titles``, that of its process."""
    process = processes.get(thread.process)
    is_counted = process is None or not process.pid  # by name: "cc1 × 41"
    if titles is None:
        name, _, _ = thread.name.partition(" × ")
        return name if process is None or is_counted else process.program.rpartition("/")[2]
    return thread.name if is_counted else titles[thread.process]


def _on_host(process: Process) -> str:
    return f" on {process.host}" if process.host else ""


def _numbered(process: Process) -> str:
    return f" [{process.number + 1}]"


def _titled(thread: Thread, titles: Mapping[int, str], processes: Mapping[int, Process]) -> Thread:
    process = processes.get(thread.process)
    if process is None or process.pid == 0:  # of those that were counted, the name says all
        return thread
    title = titles[process.number]
    is_first = thread.tid == process.pid and process.program.startswith(thread.name)
    return replace(thread, name=title if is_first else f"{title}: {thread.name}")
