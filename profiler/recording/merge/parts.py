"""Tell how the recordings that are merged belong together: of one program or several, by one clock.

Two recordings are of one process if host, pid and command are the same, and what both have loaded
lies at the same addresses (a later process of the same pid has others: the kernel draws them).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...errors import InputError
from ...model import Module, Process, Status, Thread
from ..chunks import ChunkReader
from ..contents import Loaded

MERGED = "merged"
"""The fact of ``META`` that lists what a recording was merged from."""

NS_PER_S = 1_000_000_000
# Of the time of day while a machine runs: it is set by small steps. A restart changes more.
CLOCK_SLACK_NS = 2 * NS_PER_S
_MAX_S = 1 << 32  # of a time of day: the year 2106


@dataclass
class Part:
    """One of the recordings that are merged.

    Attributes:
        path: of its file.
        end: how far the file is read.
        meta: where and by what it was made.
        status: its state at the end.
        start_ns: start of its first interval, by its own clock.
        now_ns: its end, by its own clock.
        threads: all, without hidden ones.
        processes: all, by their numbers here.
        biases: where the files that it has loaded lie, by path.
        process: the number of its process; the same as that of another part if that is the same.
        shift_ns: what is added to its times.
        label: names its process; "" if it is one of several programs already.
        thread_ids: its threads → those of the whole.
        first_cell: the number of its first cell in the whole.
        hidden_cells: numbers of its cells that do not count.
    """

    path: str
    end: int
    meta: Mapping[str, Any]
    status: Status
    start_ns: int
    now_ns: int
    threads: Mapping[int, Thread]
    biases: Mapping[str, int]
    processes: Mapping[int, Process]
    process: int = 0
    shift_ns: int = 0
    label: str = ""
    thread_ids: dict[int, int] = field(default_factory=dict)
    first_cell: int = 0
    hidden_cells: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, path: str, loaded: Loaded) -> Part:
        """Take what is needed of a recording, without its stacks and intervals."""
        profile = loaded.profile
        return cls(
            path,
            loaded.end,
            loaded.meta,
            loaded.status,
            profile.start_ns,
            profile.now_ns,
            profile.plain_threads,
            _biases(profile.modules),
            profile.processes or {0: _only_process(loaded)},
        )

    @property
    def host(self) -> str:
        """The name of the machine."""
        return str(self.meta.get("host", ""))

    @property
    def begun_s(self) -> float:
        """The time of day at which its first interval began; 0 if that is not known."""
        return begun_s(self.meta, self.status.started_s)

    @property
    def is_several(self) -> bool:
        """True if it is of several programs: it was merged itself."""
        return not self.status.pid and MERGED in self.meta

    @property
    def offset_ns(self) -> int:
        """The time of day at which its clock was 0."""
        whole_s = int(self.begun_s)
        return whole_s * NS_PER_S + round((self.begun_s - whole_s) * NS_PER_S) - self.start_ns

    @property
    def between_ns(self) -> tuple[int, int]:
        """Its beginning and its end in the whole."""
        return self.start_ns + self.shift_ns, self.now_ns + self.shift_ns

    def is_of_process_of(self, other: Part) -> bool:
        """Return True if another recording is of the same process."""
        mine, its = self.status, other.status
        if not mine.pid or (self.host, mine.pid) != (other.host, its.pid):
            return False
        # Without arguments, a command is the program only (``RecordingWriter``).
        if mine.command != its.command and not (
            mine.program == its.program and {mine.command, its.command} & {mine.program}
        ):
            return False
        both = self.biases.keys() & other.biases.keys()
        return not both or any(self.biases[path] == other.biases[path] for path in both)

    def has_clock_of(self, other: Part) -> bool:
        """Return True if the times of both are of one clock."""
        if self.process == other.process:
            return True
        is_known = bool(self.begun_s and other.begun_s) and self.host == other.host
        return is_known and abs(self.offset_ns - other.offset_ns) < CLOCK_SLACK_NS


def begun_s(meta: Mapping[str, Any], started_s: Any) -> float:
    """Return when a recording began, by the time of day; 0 if that is not known."""
    for each in (started_s, meta.get("made_s")):
        if isinstance(each, (int, float)) and 0 < each < _MAX_S:
            return float(each)
    return 0.0


def in_order(paths: Sequence[str]) -> list[tuple[str, dict[str, Any]]]:
    """Return the files and where they were made, the earliest first.

    Those of which the time is not known come last.

    Raises:
        InputError: one cannot be read, or is no recording.
    """
    found = []
    for at, path in enumerate(paths):
        meta: dict[str, Any] = {}
        started_s: Any = 0.0
        try:
            with open(path, "rb") as file:
                for chunk in ChunkReader(file, path, lambda kind, _: kind in ("META", "STAT")):
                    if chunk.kind == "META":
                        meta |= chunk.facts
                    else:
                        started_s = chunk.facts.get("started_s")
        except OSError as error:
            raise unreadable(path, error) from error
        seconds = begun_s(meta, started_s)
        found.append((not seconds, seconds, at, path, meta))
    return [(path, meta) for *_, path, meta in sorted(found, key=lambda each: each[:3])]


def unreadable(path: str, error: OSError) -> InputError:
    """Return the error for a file that cannot be read."""
    return InputError(
        f"cannot read {path}: {error.strerror or error}",
        "name recordings that 'flametap record -o NAME.flametap' has made",
    )


def name(parts: Sequence[Part]) -> None:
    """Set the labels: program and pid, and the machine where these do not tell processes apart."""
    first = {part.process: part for part in reversed(parts)}.values()
    times = Counter(_short(each) for each in first)
    for part in parts:
        if part.is_several:
            continue
        part.label = _short(part)
        if times[part.label] > 1:
            part.label += f" on {part.host} [{part.process + 1}]"


def n_processes(parts: Sequence[Part]) -> int:
    """Return the number of different processes; one of several counts as two."""
    return len({part.process for part in parts}) + any(part.is_several for part in parts)


def _short(part: Part) -> str:
    status = part.status
    program = status.program or status.command.partition(" ")[0]
    return f"{program.rpartition('/')[2] or 'process'} {status.pid}"


def _only_process(loaded: Loaded) -> Process:
    """Return the process of a recording that says nothing of processes."""
    status, profile = loaded.status, loaded.profile
    return Process(
        *(0, status.pid, status.program, status.command),
        first_seen_ns=profile.start_ns,
        ended_ns=profile.now_ns,
        reason=status.reason,
    )


def _biases(modules: Mapping[int, Module]) -> dict[str, int]:
    return {each.path: each.load_bias for each in modules.values() if each.load_bias}
