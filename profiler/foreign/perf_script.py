"""Read the text of ``perf script``.

The weights of cpu-clock and task-clock are time, each until its sample was taken. Those of files of
our own begin at the time of the sample; they have two clocks more. Of other events
it is how often they happened, if the file says that; otherwise each sample counts once. Events
cannot be added up: the first one is taken. ``perf report`` and stackcollapse-perf.pl do the same.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from ..model import Clock
from ..recording.figures import counted
from ..recording.recording import Recording
from .builder import Builder, Known
from .inlined_frames import Inlinable, InlinedFrames
from .perf_lines import Head, PerfFrame, head_of, is_frame, is_record, n_lost, perf_frame
from .stack_sums import StackSums
from .unpacked import N_FIRST_LINES, first_lines

_CLOCKS = {  # their periods are nanoseconds
    "cpu-clock": Clock.CPU,
    "task-clock": Clock.CPU,
    "wall-clock": Clock.WALL,
    "off-cpu": Clock.OFF_CPU,
}
_OWN = "# flametap "
# Behind the name of an event: of the user's code, of the kernel's, precise …
_MODIFIERS = re.compile(r"(?<=.):[ukhpPGHSDIWeb]+$")
_DIGIT_AND_LETTER = re.compile(r"(?=[a-f]*\d)\d*[a-f]")  # no number, and no word
_MAX_DISTANCE_NS = 1 << 60
_FEW = 5  # one line in so many may be something else: a warning, say
_SHORT = 6  # digits: fewer are no address for sure
_MAX_DEPTH = 1 << 20  # frames of a sample; far fewer are shown
_MAX_FRAMES = 1 << 19
_MAX_MOMENTS = 1 << 22  # samples; of more, the moments are left out
_MAX_EVENTS = 100
_MAX_CHARACTERS = 1 << 27  # of the lines that are known
_MAX_NUMBERS = 1 << 23  # of the stacks that are known


def matches(head: bytes) -> bool:
    """Tell by the start of a file whether it is of this format."""
    heads, frames, n_others = [], [], 0
    lines = [each for each in first_lines(head) if each.strip() and each[0] != "#"]
    lines = [each for each in lines if not is_record(each)][:N_FIRST_LINES]
    for line in lines:
        found = None if line[0] == "\t" else head_of(line)
        if found:
            heads.append(found)
            if is_frame(found.rest):  # there are no call chains
                frames.append(found.rest)
            elif found.rest.strip() and found.time_ns is None:
                n_others += 1
        elif is_frame(line):
            frames.append(line)
        elif line[:2] != "  " or not frames:  # a place in a source file
            n_others += 1
    if n_others > len(lines) // _FEW:
        return False
    # Any text has names, numbers, and words with a colon; few have times with an event, or
    # addresses below such a head.
    if any(each.event and each.time_ns is not None for each in heads):
        return True
    if not any(map(_has_address, frames)):
        return False
    if all(each[0] == "\t" for each in frames):
        return True
    is_known = any(each.event or each.time_ns is not None for each in heads)
    return is_known and head_of(lines[0]) is not None


def _has_address(frame: str) -> bool:
    address = frame.split()[0]
    return len(address) >= _SHORT and _DIGIT_AND_LETTER.match(address) is not None


def read(lines: Iterable[str], builder: Builder, source: str = "perf script") -> Recording:
    """Return the recording of the lines of a file. Raises InputError."""
    samples = _Samples(builder)
    known, stack = samples.known, samples.stack
    for number, line in enumerate(lines, 1):
        if line[:1] == "\t":  # nearly all
            frame = known.get(line)
            if frame is None:
                frame = samples.frame(line, number)
            stack.append(frame)
            samples.last = line
        elif not line.strip():
            samples.end()
        elif line[0] != "#":
            samples.other(line, number)
        elif line.startswith(_OWN):
            samples.is_own = True
        if len(stack) > _MAX_DEPTH:
            del stack[_MAX_DEPTH:]
    samples.end()
    return samples.finish(source)


class _Samples:
    """Collects the samples of a file.

    Attributes:
        known: line → number of what it stands for. It is emptied when it becomes too large.
        stack: such numbers of the sample that is being read, innermost first.
        last: the line of the innermost.
        is_own: written by us.
    """

    def __init__(self, builder: Builder) -> None:
        self._builder = builder
        self.known: dict[str, int] = {}
        self.stack: list[int] = []
        self.last = ""
        self.is_own = False
        self._n_characters = self._n_numbers = 0
        self._stacks = InlinedFrames(builder)
        self._numbers: dict[PerfFrame, int] = {}
        self._frames = [Inlinable(())]  # by number; 0 makes no sense
        self._nodes: dict[tuple[int, ...], int] = {}
        self._head: Head | None = None
        self._event: str | None = None
        self._by_period = False
        self._clock: Clock | None = None
        self._other_events: Counter[str] = Counter()
        self._sums = StackSums(builder)
        self._moments: dict[int, tuple[array[int], array[int], array[int]]] = defaultdict(
            lambda: (array("q"), array("q"), array("q"))  # nodes, starts and weights of a thread
        )
        self._n_moments = self._start_ns = self._number = 0
        self._has_moments = False
        self._programs: dict[int, str] = {}
        self._n_lost = self._n_unknown = self._first_unknown = 0

    def frame(self, line: str, number: int, source: str = "") -> int:
        """Return the number of what a line stands for; 0 if it makes no sense."""
        found = perf_frame(self._builder, line, source)
        if found is None:
            self._is_unknown(number)
            return 0
        frame = self._numbers.setdefault(found, len(self._frames))
        if frame == len(self._frames):
            if frame > _MAX_FRAMES:
                raise self._builder.too_many("functions")
            self._frames.append(Inlinable(found.frames, is_inlined=found.is_inlined))
        text = f"{line}\n{source}" if source else line
        self._n_characters += len(text)
        if self._n_characters > _MAX_CHARACTERS:
            self.known.clear()
            self._n_characters = len(text)
        self.known[text] = frame
        return frame

    def other(self, line: str, number: int) -> None:
        """Read a line that does not begin like a frame."""
        if is_record(line):
            self._n_lost += n_lost(line)
            return
        head, may_be_frame = head_of(line), is_frame(line)
        if head and not (may_be_frame and line[0].isspace() and head.time_ns is None):
            self.end()
            self._head, self._number = head, number
            if is_frame(head.rest):
                self._push(head.rest, number)
        elif may_be_frame:
            self._push(line, number)
        elif line[0].isspace() and self.stack:  # a place in a source file
            found = self.known.get(f"{self.last}\n{line}")
            self.stack[-1] = found or self.frame(self.last, number, line)
        else:
            self._is_unknown(number)

    def _push(self, line: str, number: int) -> None:
        self.stack.append(self.known.get(line) or self.frame(line, number))
        self.last = line

    def _is_unknown(self, number: int) -> None:
        self._n_unknown += 1
        self._first_unknown = self._first_unknown or number

    def end(self) -> None:
        """End the sample, if there is one."""
        if self._head is None and not self.stack:
            return
        head, self._head = self._head or Head(), None
        key = tuple(self.stack)
        self.stack.clear()
        if self._event is None:
            self._event, self._by_period = head.event, head.period is not None
            if self._by_period:
                self._clock = _CLOCKS.get(_without_modifiers(head.event))
            self._start_ns = head.time_ns or 0
            self._has_moments = bool(self._clock) and head.time_ns is not None
        elif head.event != self._event:
            if len(self._other_events) < _MAX_EVENTS or head.event in self._other_events:
                self._other_events[head.event] += 1
            return
        if head.tid and head.pid == head.tid:
            self._programs.setdefault(head.pid, head.comm)
        elif head.pid:
            self._programs.setdefault(head.pid, "")
        thread = self._builder.thread((head.pid, head.tid, head.comm), head.comm, head.tid)
        weight = head.period if self._by_period and head.period is not None else 1
        self._add(thread, self._node(key), weight, head.time_ns)

    def _add(self, thread: int, node: int, weight: int, time_ns: int | None) -> None:
        if self._has_moments:
            start_ns = (self._start_ns if time_ns is None else time_ns) - self._start_ns
            if not self.is_own:
                start_ns -= weight
            if abs(start_ns) >= _MAX_DISTANCE_NS:
                raise self._builder.damaged(f"line {self._number:,}: its time makes no sense")
            nodes, starts, weights = self._moments[thread]
            nodes.append(node)
            starts.append(start_ns)
            weights.append(weight)
            self._n_moments += 1
            if self._n_moments > _MAX_MOMENTS:
                self._leave_out_moments()
        else:
            place = self._sums.place(thread, node)
            self._sums.weight[place] += weight
            self._sums.samples[place] += 1

    def _leave_out_moments(self) -> None:
        self._has_moments = False
        for thread, (nodes, _, weights) in self._moments.items():
            for node, weight in zip(nodes, weights, strict=True):
                self._add(thread, node, weight, None)
        self._moments.clear()

    def _node(self, key: tuple[int, ...]) -> int:
        """Return the number of a stack, innermost first."""
        found = self._nodes.get(key)
        if found is not None:
            return found
        stack = [self._frames[each] for each in reversed(key) if each]
        node = self._stacks.stack(stack)
        self._n_numbers += len(key) + 8
        if self._n_numbers > _MAX_NUMBERS:
            self._nodes.clear()
            self._n_numbers = len(key) + 8
        self._nodes[key] = node
        return node

    def finish(self, source: str) -> Recording:
        """Return the recording."""
        builder = self._builder
        if self._event is None and self._n_unknown:
            raise builder.damaged(f"line {self._first_unknown:,}: no line of perf script")
        for thread, (nodes, starts, weights) in self._moments.items():
            builder.add(thread, nodes, weights, t0=starts)  # the only clock is all clocks
        self._sums.finish()
        unit = _without_modifiers(self._event or "") if self._by_period else ""
        known = Known(source, weights=unit or "samples", has_moments=self._has_moments)
        if self._clock and (self._has_moments or self._clock is not Clock.OFF_CPU):
            known.clocks, known.weights = (self._clock,), ""
        if len(self._programs) == 1:
            known.pid, known.program = next(iter(self._programs.items()))
        known.notes = list(self._notes())
        return builder.finish(known)

    def _notes(self) -> Iterator[str]:
        if self._other_events:
            left = counted(sum(self._other_events.values()), "sample")
            names = ", ".join(sorted(each or "no event" for each in self._other_events))
            yield f"only {self._event or 'samples without an event'}; {left} of {names} left out"
        if self._n_moments and not self._has_moments:
            yield f"more than {_MAX_MOMENTS:,} samples: their moments are left out"
        if self._n_lost:
            yield f"perf lost {counted(self._n_lost, 'sample')}"
        if self._n_unknown:
            lines = counted(self._n_unknown, "line")
            yield f"{lines} of no known kind left out, the first is line {self._first_unknown:,}"


def _without_modifiers(event: str) -> str:
    return _MODIFIERS.sub("", event)
