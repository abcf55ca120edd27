"""Read pprof: of Go programs, Pyroscope, Parca, perf_to_profile, and our own.

A profile has several values for each stack. Names tell which of them are our clocks. Of other
values, the one is shown that viewers show first, and a note names the rest. Labels name the thread.
What a thread did is known only of our own files (the label ``state``), whose clocks are exact.

Source: google/pprof, proto/profile.proto.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

from ..model import Clock, Frame, FrameKind, ThreadState
from ..recording.recording import Recording
from .builder import NS_OF, Builder, Known
from .columns import tid_of
from .protobuf import fields, numbers, signed

# Fields of Profile.
_SAMPLE_TYPE, _SAMPLE, _MAPPING, _LOCATION, _FUNCTION, _STRING = 1, 2, 3, 4, 5, 6
_TIME_NS, _COMMENT, _DEFAULT_TYPE = 9, 13, 14
_NUMBERS = frozenset((7, 8, 9, 10, 12, 14, 15))  # whose values are numbers
_FIRST_FIELDS, _LAST_FIELD = 16, 15

_CLOCKS = {"cpu": Clock.CPU, "wall": Clock.WALL, "off_cpu": Clock.OFF_CPU}
_STATES = {
    "running": ThreadState.RUNNING,
    "asleep": ThreadState.BLOCKED,
    "waiting for a CPU": ThreadState.BLOCKED,  # its stack says so already
}
_THREAD_NAMES = "thread", "thread_name", "thread name"
_THREAD_IDS = "tid", "thread_id", "thread id", "thread"
_SAMPLES = "samples"
_MAX_LINES = 1_000  # of a location: those inlined deeper are left out


class _ValueType(NamedTuple):
    name: str
    unit: str


@dataclass
class _Profile:
    """A file's messages that refer to each other by numbers."""

    types: list[_ValueType] = field(default_factory=list)
    samples: list[bytes] = field(default_factory=list)
    strings: list[str] = field(default_factory=list)
    mappings: dict[int, str] = field(default_factory=dict)  # file names
    functions: dict[int, tuple[str, str]] = field(default_factory=dict)  # name, file
    locations: dict[int, bytes] = field(default_factory=dict)
    comments: list[str] = field(default_factory=list)
    time_ns: int = 0
    default: str = ""


def matches(head: bytes) -> bool:
    """Tell whether a file begins with fields of a profile, with a type of values among them."""
    try:
        for number, value in islice(fields(head), _FIRST_FIELDS):
            is_odd = number != _COMMENT and isinstance(value, int) != (number in _NUMBERS)
            if is_odd or not 1 <= number <= _LAST_FIELD:
                return False
            if number == _SAMPLE_TYPE:
                return _is_type(value)
    except ValueError:
        pass
    return False


def _is_type(value: int | bytes) -> bool:
    found = dict(fields(value)) if isinstance(value, bytes) else {}
    numbers_only = all(isinstance(each, int) for each in found.values())
    return bool(found) and found.keys() <= {1, 2} and numbers_only


def read(data: bytes, builder: Builder) -> Recording:
    """Return the recording of a file. Raises InputError, or whatever impossible contents raise."""
    profile = _parsed(data)
    shown = _shown(profile)
    known = Known("pprof", notes=[*profile.comments])
    known.started_s = profile.time_ns / 1e9
    names = [each.name for each in profile.types]
    by_clock = {
        _CLOCKS[names[at]]: at
        for at in shown
        if names[at] in _CLOCKS and profile.types[at].unit in NS_OF
    }
    if by_clock:
        known.clocks = [clock for clock in Clock if clock in by_clock]
    else:
        unit = profile.types[shown[0]].unit
        known.weights = "time" if unit in NS_OF else _noun(profile.types[shown[0]])
    left = [each.name for at, each in enumerate(profile.types) if at not in shown]
    if left and left != [_SAMPLES]:
        known.notes.append(f"the file also has values that are not shown: {', '.join(left)}")
    _add_samples(builder, profile, shown, by_clock, known)
    return builder.finish(known)


def _noun(of: _ValueType) -> str:
    """Return what is counted: the unit, or the type of a mere count."""
    name = of.name.replace("_", " ") if of.unit in ("count", "") else of.unit
    return name or "samples"


def _shown(profile: _Profile) -> list[int]:
    """Return which values are shown: those of our clocks, or the one that is shown first."""
    types = profile.types
    clocks = [at for at, each in enumerate(types) if each.name in _CLOCKS and each.unit in NS_OF]
    is_ours = {types[at].name for at in clocks} == _CLOCKS.keys()
    at = [at for at, each in enumerate(types) if each.name == profile.default]
    first = at[0] if at else len(types) - 1
    return clocks if is_ours and (first in clocks or types[first].name == _SAMPLES) else [first]


def _add_samples(
    builder: Builder,
    profile: _Profile,
    shown: Sequence[int],
    by_clock: Mapping[Clock, int],
    known: Known,
) -> None:
    names = [each.name for each in profile.types]
    factor = [NS_OF.get(each.unit, 1) for each in profile.types]
    counted_at = names.index(_SAMPLES) if _SAMPLES in names else None
    stacks = _Stacks(builder, profile)
    columns: dict[tuple[int, ThreadState], _Columns] = defaultdict(_Columns)
    for sample in profile.samples:
        locations, values, labels = _sample(sample, profile.strings)
        if len(values) != len(names):
            raise ValueError("a sample has another number of values than the file has types")
        values = [signed(value) * factor[at] for at, value in enumerate(values)]
        samples = values[counted_at] if counted_at is not None else 0
        state = _STATES.get(labels.get("state", ""), ThreadState.RUNNING)
        known.program = known.program or labels.get("process", "")
        rows = columns[_thread(builder, labels), state]
        node = stacks.node(locations)
        if len(by_clock) < len(Clock):
            rows.add(node, values[shown[0]], values[shown[0]], samples)
            continue
        cpu, wall, off_cpu = (values[by_clock[clock]] for clock in _CLOCKS.values())
        # The waits of many intervals may be longer than what their sums tell.
        if state is ThreadState.RUNNING and max(wall - cpu, 0) < off_cpu <= wall:
            rows.add(node, off_cpu, 0, 0)
            wall -= off_cpu
        rows.add(node, wall, cpu, samples)
    for (thread, state), each in columns.items():
        builder.add(thread, each.node, each.wall, cpu=each.cpu, samples=each.samples, state=state)


class _Columns:
    """What one thread did in one state."""

    def __init__(self) -> None:
        self.node: list[int] = []
        self.wall: list[int] = []
        self.cpu: list[int] = []
        self.samples: list[int] = []

    def add(self, node: int, wall: int, cpu: int, samples: int) -> None:
        """Add a row."""
        self.node.append(node)
        self.wall.append(wall)
        self.cpu.append(cpu)
        self.samples.append(samples)


def _thread(builder: Builder, labels: Mapping[str, str]) -> int:
    name = next((labels[key] for key in _THREAD_NAMES if key in labels), "")
    tid = next((labels[key] for key in _THREAD_IDS if labels.get(key, "").isdigit()), "0")
    pid = labels.get("pid", "")
    return builder.thread((pid, tid, name), name, tid_of(tid))


class _Stacks:
    """The stacks of samples in numbers of the builder."""

    def __init__(self, builder: Builder, profile: _Profile) -> None:
        self._builder, self._profile = builder, profile
        self._frames: dict[int, int] = {}  # by location
        self._nodes: dict[tuple[int, ...], int] = {}

    def node(self, locations: tuple[int, ...]) -> int:
        """Return the stack of locations, innermost first."""
        found = self._nodes.get(locations)
        if found is None:
            frames = [self._frame(each) for each in reversed(locations)]
            found = self._nodes[locations] = self._builder.stack(frames)
        return found

    def _frame(self, location: int) -> int:
        found = self._frames.get(location)
        if found is None:
            frames = self._read(self._profile.locations[location])
            found = self._frames[location] = self._builder.frame(*frames)
        return found

    def _read(self, location: bytes) -> list[Frame]:
        """Return the function of a location, and those inlined into it."""
        profile, builder = self._profile, self._builder
        mapping = addr = 0
        lines: deque[tuple[int, int]] = deque(maxlen=_MAX_LINES)  # the outermost come last
        for number, value in fields(location):
            if number == 2 and isinstance(value, int):
                mapping = value
            elif number == 3 and isinstance(value, int):
                addr = value
            elif number == 4 and isinstance(value, bytes):
                at = dict(fields(value))
                lines.append((_int(at.get(1, 0)), _int(at.get(2, 0))))
        module = profile.mappings.get(mapping, "").rpartition("/")[2]
        if not lines:
            name = f"{module or '[unknown]'}+{addr:#x}" if addr else module or "[unknown]"
            return [Frame(builder.function(name, module, kind=FrameKind.UNKNOWN))]
        found: list[Frame] = []
        for function, line in reversed(lines):
            name, file = profile.functions[function]
            kind = FrameKind.INLINED if found and not file.endswith(".py") else None
            line = line if 0 < line < 1 << 31 else 0
            found.append(Frame(builder.function(name or "[unknown]", module, file, kind), line))
        return found


def _int(value: int | bytes) -> int:
    if not isinstance(value, int):
        raise TypeError("bytes where a number should be")
    return value


def _sample(
    data: bytes, strings: Sequence[str]
) -> tuple[tuple[int, ...], list[int], dict[str, str]]:
    """Return locations, values and labels of a sample."""
    locations: list[int] = []
    values: list[int] = []
    labels: dict[str, str] = {}
    for number, value in fields(data):
        if number == 1:
            locations += numbers(value)
        elif number == 2:
            values += numbers(value)
        elif number == 3 and isinstance(value, bytes):
            label = {key: _int(each) for key, each in fields(value)}
            is_text = label.get(2, 0)
            labels[strings[label[1]]] = (
                strings[is_text] if is_text else str(signed(label.get(3, 0)))
            )
    return tuple(locations), values, labels


def _parsed(data: bytes) -> _Profile:
    """Return the messages of a file."""
    found = _Profile()
    raw: dict[int, list[Any]] = defaultdict(list)
    for number, value in fields(data):
        raw[number].append(value)
    found.strings = [value.decode("utf-8", "replace") for value in raw[_STRING]]
    strings, found.samples = found.strings, raw[_SAMPLE]
    for value in raw[_SAMPLE_TYPE]:
        each = dict(fields(value))
        found.types.append(_ValueType(strings[_int(each[1])], strings[_int(each.get(2, 0))]))
    for value in raw[_MAPPING]:
        each = dict(fields(value))
        found.mappings[_int(each[1])] = strings[_int(each.get(5, 0))]
    for value in raw[_FUNCTION]:
        each = dict(fields(value))
        file = strings[_int(each.get(4, 0))]
        found.functions[_int(each[1])] = strings[_int(each.get(2, 0))], file
    for value in raw[_LOCATION]:
        found.locations[_int(dict(fields(value))[1])] = value
    found.comments = [strings[at] for value in raw[_COMMENT] for at in numbers(value)]
    found.time_ns = max(0, min(signed(_int(raw[_TIME_NS][-1])), 1 << 62)) if raw[_TIME_NS] else 0
    found.default = strings[_int(raw[_DEFAULT_TYPE][-1])] if raw[_DEFAULT_TYPE] else ""
    return found
