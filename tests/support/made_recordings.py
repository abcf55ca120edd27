"""Recordings of made-up programs with every kind of time, on machines and at times of choice."""

from __future__ import annotations

import dataclasses
import random
from collections import Counter
from pathlib import Path
from typing import Any

import wire
from flametap.model import Clock, Frame, Function, Status, SymbolSource, Verdict
from flametap.recording.chunks import Chunk
from flametap.recording.names.table import SymbolTable
from flametap.recording.profile.store import Profile
from flametap.recording.recording import Recording
from flametap.recording.writer import RecordingWriter
from flametap.wire import abi
from profiles import EPOLL_WAIT, apply

SECOND = 10**9
NOON_S = 1_700_000_000.0
JIT = wire.runtime_frame(0x7F00_0000_1000)
PLACES = [wire.frame(1, 0x1000 + 0x10 * at) for at in range(5)]
STATES = [(wire.RUNNING, -1), (wire.PARKED, EPOLL_WAIT), (wire.BLOCKED, -1), (wire.QUEUED, -1)]


@dataclasses.dataclass
class Made:
    """A recording that is made up, and where and when that was."""

    pid: int = 41
    command: str = "/opt/prog --all"
    host: str = "here"
    started_s: float = NOON_S
    start_ns: int = 5 * SECOND
    seed: int = 1
    load_bias: int = 0x5000_0000
    tids: tuple[int, ...] = (41, 42)
    exited: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()
    counters: dict[str, int] = dataclasses.field(default_factory=dict)
    more: tuple[Chunk, ...] = ()
    has_gil: bool = False

    def write(self, path: Path) -> str:
        """Write it to a file of three steps, with waits that are still open at the end."""
        chance = random.Random(self.seed)
        profile = Profile()
        profile.keep_new()
        table = SymbolTable(profile.locate)
        status = Status(
            self.pid,
            self.command,
            "ended",
            program="prog",
            started_s=self.started_s,
            rate_hz=100.0,
            counters=self.counters,
            symbols=[SymbolSource(1, "prog", "symtab")],
            notes=list(self.notes),
            has_gil=self.has_gil,
        )
        meta = {"flametap": "1", "host": self.host, "system": "Linux", "machine": "x86_64"}
        recording = Recording(profile, table, lambda: status, meta=meta)
        with path.open("wb") as file:
            writer = RecordingWriter(file, recording)
            for step in range(3):
                self._grow(profile, step, chance)
                self._name(profile, table)
                writer.step()
            status.duration_ns, status.samples = profile.duration_ns, profile.samples
            status.verdict_cpu_ns = profile.verdicts().native
            writer.finish(self.more)
        return str(path)

    def _grow(self, profile: Profile, step: int, chance: random.Random) -> None:
        at_ns = self.start_ns + step * SECOND
        # The last one is not the program's.
        numbers = range(1, len(self.tids) + 1)
        hidden = len(self.tids) + 1
        threads = [
            wire.thread(
                number,
                tid,
                f"worker {tid}",
                first_seen_ns=self.start_ns + number,
                flags=abi.THREAD_EXITED if step == 2 and tid in self.exited else 0,
            )
            for number, tid in zip(numbers, self.tids, strict=True)
        ]
        if step == 2:
            threads.append(wire.thread(hidden, 99, "ours", flags=abi.THREAD_HIDDEN))
        intervals = []
        for number in (*numbers, *([hidden] if step < 2 else [])):
            t0_ns = at_ns
            for _ in range(20):
                state, sysno = chance.choice(STATES)
                wall_ns = chance.randrange(1, SECOND // 25)
                cpu_ns = chance.randrange(wall_ns) if state == wire.RUNNING else 0
                intervals.append(
                    wire.interval(
                        number,
                        chance.randrange(1, 8),
                        t0_ns,
                        wall_ns,
                        cpu_ns,
                        state,
                        sysno=sysno,
                        samples=chance.randrange(3),
                        holder_id=chance.choice((0, 1)) if sysno >= 0 else 0,
                        awaited_lock=chance.choice((0, 7)) if sysno >= 0 else 0,
                        held_lock=chance.choice((0, 7)),
                    )
                )
                t0_ns += wall_ns
            if step == 2:
                intervals.append(
                    wire.interval(number, 1, t0_ns, 0, 0, 2, sysno=EPOLL_WAIT, is_open=True)
                )
        apply(
            profile,
            at_ns + SECOND,
            modules=[
                wire.module(1, "/opt/prog", load_bias=self.load_bias, build_id=b""),
                wire.module(2, "/lib/libc.so.6", load_bias=self.load_bias + self.seed),
            ]
            if not step
            else [],
            threads=threads,
            traces=[
                wire.trace(
                    number,
                    [JIT, *(chance.choice(PLACES) for _ in range(chance.randrange(1, 6)))],
                    chance.choice((Verdict.COMPLETE, Verdict.BAD_MEMORY)),
                    fault_module=1,
                )
                for number in range(1, 8)
            ]
            if not step
            else [],
            intervals=intervals,
        )

    def _name(self, profile: Profile, table: SymbolTable) -> None:
        names = {
            place: [
                Frame(Function(f"f{at}", "prog", "/src/f.c"), at + 1),
                Frame(Function("inlined", "prog", "/src/f.c"), 3, "/src/f.h"),
            ]
            for at, place in enumerate(PLACES)
        }
        names[JIT] = [Frame(Function(f"made by {self.pid}", "[jit]"), 1, tier="optimized")]
        for address_id, raw in profile.news().addresses:
            encoded = (
                wire.frame(raw.module_id, raw.addr)
                if raw.module_id
                else wire.runtime_frame(raw.addr)
            )
            if encoded in names:
                table.set(address_id, names[encoded])


def sums(recording: Recording, label: str = "") -> Counter[tuple[Any, ...]]:
    """The time and the samples of each clock, thread, wait and stack of named frames."""
    profile, table = recording.profile, recording.names
    trie, threads = profile.trie(), profile.threads
    found: Counter[tuple[Any, ...]] = Counter()
    for clock in Clock:
        for kind, leaves in (
            ("ns", profile.leaf_weights(clock)),
            ("samples", profile.leaf_samples(clock)),
        ):
            columns = (leaves.thread_id, leaves.node, leaves.sysno, leaves.weight)
            for number, node, sysno, weight in zip(*(c.tolist() for c in columns), strict=True):
                stack: list[Any] = []
                while node > 3:
                    stack.append(tuple(table.frames(int(trie.address[node]))))
                    node = int(trie.parent[node])
                thread = threads[number]
                key = (kind, clock, thread.tid, label + thread.name, sysno, tuple(stack), node)
                found[key] += weight
    return found
