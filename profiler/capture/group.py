"""The processes of one recording: each is attached to, followed, and detached from.

A ``Capture`` has one. Its pump reads them and calls ``end``; the thread of the family attaches.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..errors import UsageError
from ..inject.nursery import Nursery
from ..inject.process import InjectorProcess
from ..linux.process_clock import cpu_ns
from ..model import Thread
from ..recording.kernel_fill import KernelFill
from ..recording.kernel_samples import NOT_SAMPLED, Sampled
from ..recording.unsampled import Unsampled
from ..safety import preflight
from .attached import REPLACED, Attached
from .births import NoBirths, births
from .capture_options import CaptureOptions
from .end_reasons import STOPPED
from .family import Family
from .shared import Shared

if TYPE_CHECKING:
    # It takes some time to import, so it is imported while the attach is under way.
    from ..perf.sampler import PerfSampler


# The kernel samples a process so long before it is attached to: most of those that a command starts
# have ended by then. An agent costs more.
SAMPLED_S = 1.0
LONG_NS = 4_000_000_000_000  # more than that, and the agents do not tell how much


class _Came(NamedTuple):
    """A process that was attached to while others were recorded."""

    attached: Attached
    former: Attached | None  # the program that it ran before
    before_ns: int
    sampled: Sampled


class Group:
    """See the module.

    Args:
        pid: the process that the recording begins with.
        shared: what all write into.
        options: how they are recorded.
        injector: the process that attaches to the first, if it has been started.
        nursery: starts those that attach to others.

    Attributes:
        pid: see above.
        options: how those are recorded that come.
        all: all that were ever attached to, in order.
        is_paused: whether no samples are taken.
        unsampled: the CPU time that no agent saw.
    """

    def __init__(
        self,
        pid: int,
        shared: Shared,
        options: CaptureOptions,
        injector: InjectorProcess | None = None,
        nursery: Nursery | None = None,
    ) -> None:
        self.pid, self.options = pid, options
        self.is_paused = False
        self._shared, self._nursery = shared, nursery
        self.unsampled = Unsampled(
            *(shared.profile, shared.names, shared.numbers, self._new_number),
            lambda: self.main.symbolizer,
        )
        self.fill = KernelFill(self.unsampled.traces, self._threads, self._sampler)
        shared.fill = self.fill.fill
        self.all: list[Attached] = [Attached(pid, 0, shared, options, injector)]
        self._perf: PerfSampler | None = None
        self._is_perf_tried = False
        self._n_processes = 1
        self._n_ended = 0
        self._is_over = False
        self._closing: list[threading.Thread] = []
        self._family: Family | None = None
        self._ends_with_first = self._follows = False
        self._others: Sequence[int] = ()
        self._held_ns = 0  # what the first one had used when it was let go on
        self._came: list[_Came] = []
        self._untold: dict[int, _Came] = {}  # by pid
        self._over: dict[int, Sampled] = {}  # seen after that, by number
        self._settled: queue.SimpleQueue[tuple[int, int, Sampled]] = queue.SimpleQueue()
        self._lock = threading.Lock()

    @property
    def main(self) -> Attached:
        """The last program of the process that the recording began with."""
        return next(each for each in reversed(self.all) if each.pid == self.pid)

    @property
    def alive(self) -> list[Attached]:
        """Those that are being recorded."""
        with self._lock:
            return [each for each in self.all if each.is_alive]

    @property
    def n_alive(self) -> int:
        """How many those are."""
        return len(self.all) - self._n_ended

    @property
    def expects_more(self) -> bool:
        """Return whether a process is still to be attached to."""
        return self._family is not None and self._family.expects_more

    @property
    def is_done(self) -> bool:
        """Return whether nothing is left that the recording waits for."""
        return not self.expects_more and (self._ends_with_first and not self.main.is_alive)

    def notes(self) -> list[str]:
        """Say which processes could not be recorded, and why."""
        notes = self._family.notes() if self._family else []
        if self._perf is not None and self._perf.lost:
            notes.append(
                f"{self._perf.lost:,} of the kernel's samples of short processes found no room"
            )
        return notes

    def set_paused(self, paused: bool) -> None:
        """Take no samples, or go on; of those that come later, too."""
        self.is_paused = paused
        if self._perf is not None:
            self._perf.is_paused = paused
        for each in self.alive:
            each.set_paused(paused)

    def _sampler(self) -> PerfSampler | None:
        """Return what has the kernel sample; None where that is not allowed."""
        if self._perf is None and not self._is_perf_tried:
            self._is_perf_tried = True
            alive = self.alive
            with contextlib.suppress(OSError):
                self._perf = _sampler([each.pid for each in alive], is_new=False, follows=False)
                self._perf.is_paused = self.is_paused
                for each in alive:
                    self._perf.hand_over(each.pid, 0)
        return self._perf

    def _threads(self) -> dict[int, Thread]:
        """Return the threads whose numbers are those that the kernel tells us."""
        here = {each.number for each in self.all if each.own_pid == each.pid}
        threads = self._shared.profile.plain_threads
        return {number: each for number, each in threads.items() if each.process in here}

    # ------------------------------------------------------------------ those that come

    def follow(
        self, others: Sequence[int] = (), *, children: bool = True, ends_with_first: bool = False
    ) -> None:
        """Record more processes. To be called before ``start``.

        Args:
            others: these.
            children: also those that the processes start, or have started.
            ends_with_first: the recording ends when the first one does, whatever goes on then.
        """
        self._family = Family(self.pid, self, births if children else NoBirths, others)
        self._others, self._follows = others, children
        self._ends_with_first = ends_with_first

    def start(self, on_sampling: Callable[[], None]) -> None:
        """Attach to the first process, and begin to follow; see ``Attached.start``."""
        if self._family is not None and self._follows:
            with contextlib.suppress(OSError):  # where it is not allowed
                pids = [self.pid, *self._others]
                self._perf = _sampler(pids, is_new=self._ends_with_first)
                self._family.sampled_s = SAMPLED_S

        def release() -> None:
            if self._perf is not None:
                self._perf.hand_over(self.pid, 0)
            on_sampling()
            # Until then it has run on the spot.
            self._held_ns = cpu_ns(self.pid) or 0

        self.main.start(release if self._ends_with_first else on_sampling)
        if self._family is not None:
            self._family.start()

    def attach(self, pid: int, parent: int = -1, before_ns: int | None = None) -> int:
        """Attach to one more process. Any thread may call, several at a time.

        Args:
            pid: the process.
            parent: ``Process.parent``.
            before_ns: the CPU time that it had used before this recording began; None if it is
                recorded from now on.

        Returns:
            its ``Process.number``.

        Raises:
            FlametapError: the attach failed; the target keeps running, and so does the recording.
        """
        number = self._new_number()
        preflight.check(pid, force=self.options.force, way=self.options.inject)
        injector = self._nursery.start(pid, self.options.inject) if self._nursery else None
        attached = Attached(pid, number, self._shared, self.options, injector, parent)
        attached.start()
        with self._lock:
            former = [each for each in self.all if each.pid == pid]
            if not self._is_over:
                self.all.append(attached)
        if self._is_over:
            attached.stop()
            attached.close()
            raise UsageError("nothing is being recorded", "the recording has ended")
        if self.is_paused:
            attached.set_paused(True)
        sampled = NOT_SAMPLED
        if self._perf is not None:
            sampled = self._perf.hand_over(pid, attached.process().first_seen_ns)
        if before_ns is not None or former:
            came = _Came(attached, former[-1] if former else None, before_ns or 0, sampled)
            with self._lock:
                self._came.append(came)
        self._shared.wake.set()
        return number

    def count(self, pid: int, name: str, elapsed_ns: int, cpu_ns: int) -> None:
        """Count the CPU time of a process that was not attached to. Any thread may call."""
        sampled = self._perf.take(pid) if self._perf else NOT_SAMPLED
        self.unsampled.add_short(name, elapsed_ns, cpu_ns, sampled)

    def settle(self, pid: int, cpu_ns: int) -> None:
        """Take note of what the first thread of a process has used in all. Any thread may call."""
        sampled = self._perf.take(pid) if self._perf else NOT_SAMPLED
        self._settled.put((pid, cpu_ns, sampled))

    def account(self, *, is_last: bool = False) -> None:
        """Add the CPU time that no agent saw, as far as it is known by now, to the profile.

        Args:
            is_last: nothing more will be known.
        """
        with self._lock:
            came, self._came = self._came, []
        needs_first = is_last or any(each.former for each in came)
        first_ns = self._first_threads() if needs_first else {}
        for each in came:
            before_ns = each.attached.cpu_before_ns()
            if before_ns is not None:
                self._add_early(each, before_ns, first_ns)
            elif each.attached.is_alive and not is_last:
                with self._lock:
                    self._came.append(each)
            elif not each.attached.intake.cpu_before_ns:
                # It ended before its agent has told anything.
                self._untold[each.attached.pid] = each
        while is_last and not self._settled.empty():
            self._add_late(*self._settled.get(), first_ns)
        while is_last and self._untold:
            _, left = self._untold.popitem()
            self.unsampled.add_early(left.attached.process(), left.sampled.cpu_ns, left.sampled)
        for pid, name, sampled in self._perf.ending() if self._perf else ():
            last = self._last(pid)
            self.unsampled.add_ending(last.process() if last else None, name, sampled)
        for name, sampled in self._perf.left() if self._perf else ():
            self.unsampled.add_short(name, 0, sampled.cpu_ns, sampled)
        if is_last:
            self.unsampled.settle()
        self.unsampled.apply()

    def _last(self, pid: int) -> Attached | None:
        return next((each for each in reversed(self.all) if each.pid == pid), None)

    def _add_early(
        self, came: _Came, before_ns: tuple[int, int], first_ns: Mapping[int, int]
    ) -> None:
        if before_ns[0] < LONG_NS:
            used_ns = before_ns[1] - self._before(came, first_ns)
            # Of threads that have ended by then, the samples tell.
            used_ns = min(max(used_ns, came.sampled.cpu_ns), used_ns + came.sampled.others_ns)
            process = came.attached.process()
            self._over[process.number] = self.unsampled.add_early(process, used_ns, came.sampled)

    def _before(self, came: _Came, first_ns: Mapping[int, int]) -> int:
        """Return the CPU time of its first thread that is known otherwise, or not asked for."""
        former = came.former and came.former.cpu_before_ns()
        if came.former and former:  # it goes on with another program
            return former[0] + first_ns.get(came.former.number, 0)
        return came.before_ns

    def _add_late(
        self, pid: int, cpu_ns: int, sampled: Sampled, first_ns: Mapping[int, int]
    ) -> None:
        """Add what the first thread of a process has used that has ended, and nobody has seen."""
        last = self._last(pid)
        if last is None:
            return
        before_ns = last.cpu_before_ns()
        late_ns = sampled.cpu_ns
        untold = self._untold.pop(pid, None)
        if untold is not None:
            sampled = untold.sampled.followed_by(sampled)
            late_ns = cpu_ns - self._before(untold, first_ns) + sampled.others_ns
        elif before_ns is not None:
            sampled = self._over.pop(last.number, NOT_SAMPLED).followed_by(sampled)
            held_ns = self._held_ns if last.number == 0 else 0
            late_ns = cpu_ns - max(before_ns[0], held_ns) - first_ns.get(last.number, 0)
        elif last.number == 0:
            late_ns = cpu_ns - self._held_ns
        self.unsampled.add_late(last.process(), late_ns, sampled)

    def _first_threads(self) -> dict[int, int]:
        """Return the CPU time that was recorded of the first thread of each process, by number."""
        pids = {each.number: each.own_pid for each in self.all}
        return {
            each.process: each.cpu_ns
            for each in self._shared.profile.thread_infos()
            if each.tid and each.tid == pids.get(each.process)
        }

    def _new_number(self) -> int:
        with self._lock:
            self._n_processes += 1
            return self._n_processes - 1

    # ------------------------------------------------------------------ those that go

    def end(self, attached: Attached, reason: str, *, others_go_on: bool) -> None:
        """End the recording of one process; see ``Attached.finish``."""
        attached.finish(reason, others_go_on=others_go_on)
        self._n_ended += 1
        if self._family is not None:
            if attached.reason == REPLACED:
                self._family.replaced(attached.pid)
            else:
                self._family.ended(attached.pid)
        self._close_later(attached)

    def _close_later(self, attached: Attached) -> None:
        """Close what a process needed that has ended: it may take long, and others go on."""
        thread = threading.Thread(target=attached.close, daemon=True, name="flametap-close")
        thread.start()
        self._closing = [*(each for each in self._closing if each.is_alive()), thread]

    def expect_nobody(self) -> None:
        """Attach to nobody any more. Attaches that are under way end before. Idempotent."""
        if self._family is not None:
            self._family.close()
        if self._perf is not None:
            self._perf.close()
            # Where the kernel does not tell what has ended, or what goes on could not be entered.
            for name, sampled in self._perf.rest({each.pid for each in self.all}):
                self.unsampled.add_short(name, 0, sampled.cpu_ns, sampled)

    def stop(self, among: Sequence[Attached]) -> None:
        """Stop sampling; the last of what was sampled can be read then."""
        for each in among:
            each.stop()

    def finish(self, among: Sequence[Attached]) -> None:
        """Read the rest of those that still go on, and detach; nobody comes any more."""
        self._finish(among)
        self.expect_nobody()
        late = self.alive  # attached to meanwhile
        self.stop(late)
        self._finish(late)
        with self._lock:
            self._is_over = True
        self.account(is_last=True)

    def _finish(self, among: Sequence[Attached]) -> None:
        for each in among:
            if each.is_alive:
                each.finish(STOPPED)

    def close(self) -> None:
        """Close the rings and all files."""
        if self._perf is not None:
            self._perf.close()
        for each in self.all:
            each.close()
        for thread in self._closing:
            thread.join()


def _sampler(pids: Sequence[int], *, is_new: bool, follows: bool = True) -> PerfSampler:
    """Have the kernel sample processes. Raises OSError where that is not allowed."""
    from ..perf.sampler import PerfSampler  # it takes some time, and few need it

    return PerfSampler(pids, is_new=is_new, follows=follows)
