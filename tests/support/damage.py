"""Damaged object files: cut, flipped, spliced and with lies in their headers.

python tests/support/damage.py [--rounds 200] [--seed 1] FILE…

Each round damages one of the files (which have to be ELF) and gives it to a whole ``Symbolizer``,
in a process of its own that may not crash, hang, take much memory, or name anything by a file of
another build-id. ``tests/unit/symbols/test_damage.py`` does a moment of it in every test run.
"""

from __future__ import annotations

import argparse
import json
import random
import struct
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from flametap.symbols.object.elf import from_bytes

MAX_MEMORY_BYTES = 3 << 30  # of address space: numpy and its threads alone take half of one
BATCH = 12
BATCH_TIMEOUT_S = 120.0  # the symbolizer gives up much earlier; this finds out when it does not
WORKER_CPU_S = 2  # instead of 20
# What lies in wait for code that multiplies, adds and allocates before it looks.
EXTREMES: tuple[int, ...] = (
    0,
    1,
    2,
    7,
    0x7F,
    0x80,
    0xFF,
    0xFFFF,
    0x7FFFFFFF,
    0x80000000,
    0xFFFFFFFF,
)
EXTREMES += (1 << 40, (1 << 63) - 1, 1 << 63, (1 << 64) - 16, (1 << 64) - 1)
_SECTION_HEADER = struct.Struct("<IIQQQQIIQQ")
_COMPRESSED = 0x800  # SHF_COMPRESSED

CHILD = """
import json, resource, sys, time
from pathlib import Path
from flametap.model import Module, RawFrame
from flametap.recording.names.table import SymbolTable
from flametap.symbols.symbolizer import Symbolizer
from flametap.symbols.debuginfo import worker_client
limit, worker_client.MIN_CPU_S = int(sys.argv[2]), int(sys.argv[3])
worker_client._memory_bytes = lambda: 1 << 30
resource.setrlimit(resource.RLIMIT_AS, (limit, resource.getrlimit(resource.RLIMIT_AS)[1]))
table = SymbolTable()
one = Symbolizer(table, None, cache_dir=Path(sys.argv[1]))
cases = json.load(sys.stdin)
answers = []
number = 0
for i, case in enumerate(cases, 1):
    one.add_module(Module(i, case["path"], 0, 0, 1 << 40, case["build_id"]))
    for addr in case["addrs"]:
        one.submit_many([(number, RawFrame(i, addr))])
        number += 1
started = time.monotonic()
idle = one.wait_idle(90)
seconds = time.monotonic() - started
number = 0
notes = {source.module_id: source for source in one.sources()}
for i, case in enumerate(cases, 1):
    names = []
    for addr in case["addrs"]:
        frames = table.frames(number)
        names.append([[f.function.name, f.function.kind.name, f.line] for f in frames])
        number += 1
    answers.append({"source": notes[i].source, "note": notes[i].note, "names": names})
one.close()
# Not getrusage: its maximum is inherited from the process that started this one.
status = open("/proc/self/status").read()
peak = int(status.partition("VmHWM:")[2].split()[0]) << 10
json.dump({"idle": idle, "seconds": seconds, "peak_bytes": peak, "answers": answers}, sys.stdout)
"""


@dataclass(frozen=True)
class Case:
    """One damaged file, and what the symbolizer is told about it."""

    path: str
    build_id: str
    addrs: list[int]
    what: str  # the damage, to be made again
    is_other_build: bool  # the build-id is not that of the file


@dataclass(frozen=True)
class Answer:
    """What the symbolizer made of a case."""

    source: str
    note: str
    names: list[list[list[str | int]]]  # per address, per frame: name, kind, line


@dataclass(frozen=True)
class Outcome:
    """What a batch of cases came to."""

    idle: bool
    seconds: float
    peak_bytes: int
    answers: list[Answer]


class Damager:
    """Make cases of one file.

    Args:
        data: the file.
        generator: decides; the same seed makes the same cases.
    """

    def __init__(self, data: bytes, generator: random.Random) -> None:
        self._data = data
        self._random = generator
        self._elf = from_bytes(data)
        self.build_id = self._elf.build_id
        self._headers = struct.unpack_from("<Q", data, 40)[0]  # e_shoff
        self._sections = [s for s in self._elf.sections if s.size and s.kind != 8]

    def addrs(self, count: int) -> list[int]:
        """Places in the code, and some that no code is at."""
        code = [s for s in self._elf.sections if s.flags & 4 and s.size]
        chosen = self._random.choices(code, [s.size for s in code], k=count)
        found = [s.addr + self._random.randrange(s.size) for s in chosen]
        return [*found, 0, (1 << 64) - 1, self._random.getrandbits(40)]

    def damaged(self) -> tuple[bytes, str]:
        """The file with one to three kinds of damage, and their names."""
        data = bytearray(self._data)
        done = []
        for _ in range(self._random.choice((1, 1, 2, 3))):
            kind = self._random.choice(
                (self._cut, self._flip, self._fill, self._extreme, self._header, self._splice)
            )
            done.append(f"{kind.__name__[1:]} {kind(data)}")
        return bytes(data), ", ".join(done)

    def _cut(self, data: bytearray) -> str:
        section = self._random.choice(self._sections)
        place = self._random.choice(
            (
                self._random.randrange(len(data)),
                section.offset + self._random.randrange(section.size),
                self._headers + self._random.randrange(1, 200),
            )
        )
        del data[max(64, place) :]
        return f"at {place:#x}"

    def _flip(self, data: bytearray) -> str:
        name, start, end = self._part(data)
        for _ in range(self._random.choice((1, 8, 100))):
            data[self._random.randrange(start, end)] ^= 1 << self._random.randrange(8)
        return name

    def _fill(self, data: bytearray) -> str:
        name, start, end = self._part(data)
        low = self._random.randrange(start, end)
        high = min(end, low + self._random.choice((16, 400, 1 << 30)))
        byte = self._random.choice((0, 0xFF, 0x80, 1, self._random.randrange(256)))
        data[low:high] = bytes([byte]) * (high - low)
        return f"{name} with {byte:#x}"

    def _extreme(self, data: bytearray) -> str:
        name, start, end = self._part(data)
        for _ in range(self._random.choice((1, 1, 20))):
            size = self._random.choice((1, 2, 4, 8))
            place = self._random.randrange(start, end) // size * size
            value = self._random.choice(EXTREMES) & ((1 << 8 * size) - 1)
            if place + size <= len(data):
                data[place : place + size] = value.to_bytes(size, "little")
        return name

    def _header(self, data: bytearray) -> str:
        """One field of one section header, or of the file's."""
        if self._random.random() < 0.3:
            place = self._random.randrange(16, 62)
            data[place : place + 2] = self._random.choice((b"\0\0", b"\xff\xff", b"\x01\0"))
            return "of the file"
        index = self._random.randrange(len(self._elf.sections))
        place = self._headers + index * _SECTION_HEADER.size
        if place + _SECTION_HEADER.size > len(data):
            return "gone"
        fields = list(_SECTION_HEADER.unpack_from(data, place))
        field = self._random.randrange(len(fields))
        limit = 1 << (64 if field in (2, 3, 4, 5, 8, 9) else 32)
        near = (fields[field] + self._random.choice((-8, -1, 1, 8))) % limit
        other = self._random.choice(self._elf.sections)
        fields[field] = (
            self._random.choice(
                (near, other.size, other.offset, other.addr, *EXTREMES, fields[field] ^ _COMPRESSED)
            )
            % limit
        )
        _SECTION_HEADER.pack_into(data, place, *fields)
        return f"{self._elf.sections[index].name}, field {field}"

    def _splice(self, data: bytearray) -> str:
        """Bytes of one section in place of another's."""
        from_name, start, end = self._part(data)
        to_name, low, high = self._part(data)
        size = min(end - start, high - low, self._random.choice((8, 64, 4096, 1 << 30)))
        data[low : low + size] = data[start : start + size]
        return f"{from_name} over {to_name}"

    def _part(self, data: bytearray) -> tuple[str, int, int]:
        """A section, mostly one that names come from, or the headers: name, start, end."""
        telling = [s for s in self._sections if not s.flags & 4]
        section = self._random.choice(telling)
        start, end = section.offset, min(section.offset + section.size, len(data))
        if start >= end or self._random.random() < 0.1:
            return "headers", 0, min(len(data), 64 + 56 * 10)
        if section.name == ".note.gnu.build-id":
            return "all", 64, len(data)
        return section.name, start, end


def make_cases(files: Sequence[Path], count: int, seed: int, folder: Path) -> list[Case]:
    """Damaged copies in a folder."""
    generator = random.Random(seed)
    cases = []
    for number in range(count):
        original = generator.choice(files)
        damager = Damager(original.read_bytes(), generator)
        data, what = damager.damaged()
        path = folder / f"{number}-{original.name}"
        path.write_bytes(data)
        is_other_build = generator.random() < 0.15
        build_id = "0123456789abcdef" if is_other_build else damager.build_id
        what = f"seed {seed}, case {number}, {original}: {what}"
        cases.append(Case(str(path), build_id, damager.addrs(40), what, is_other_build))
    return cases


def symbolize(cases: Sequence[Case], cache: Path) -> Outcome:
    """Give the cases to a Symbolizer in a process of its own.

    Raises:
        AssertionError: it crashed, or did not end.
    """
    command = [sys.executable, "-I", "-X", "faulthandler", "-c", CHILD, str(cache)]
    done = subprocess.run(
        [*command, str(MAX_MEMORY_BYTES), str(WORKER_CPU_S)],
        input=json.dumps([asdict(case) for case in cases]),
        capture_output=True,
        text=True,
        timeout=BATCH_TIMEOUT_S,
        check=False,
    )
    listing = "\n".join(case.what for case in cases)
    assert done.returncode == 0, f"{done.returncode}: {done.stderr[-3000:]}\n{listing}"
    said = json.loads(done.stdout)
    answers = [Answer(**answer) for answer in said["answers"]]
    return Outcome(said["idle"], said["seconds"], said["peak_bytes"], answers)


def findings(cases: Sequence[Case], outcome: Outcome) -> list[str]:
    """What must not be, one line each."""
    found = [] if outcome.idle else [f"not ready after {outcome.seconds:.0f} s: {cases}"]
    for case, answer in zip(cases, outcome.answers, strict=True):
        name = Path(case.path).name
        named = [n for n in answer.names if any(kind != "UNKNOWN" for _, kind, _ in n)]
        if case.is_other_build and named:
            found.append(f"named by another build: {case.what}: {named[:3]}")
        if "\n" in answer.note or len(answer.note) > 1200:
            found.append(f"the note is not a line: {case.what}: {answer.note!r}")
        if answer.source == "pending" or any(not frames for frames in answer.names):
            found.append(f"not answered: {case.what}")
        if answer.source == "none" and not answer.note:
            found.append(f"nothing is said: {case.what}")
        if answer.source == "none" and any(
            not str(frames[0][0]).startswith((f"{name}+", "[jit]")) and frames[0][1] == "UNKNOWN"
            for frames in answer.names
        ):
            found.append(f"a name from nowhere: {case.what}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("files", nargs="+", type=Path)
    options = parser.parse_args()
    peak, slowest, all_found = 0, 0.0, 0
    sources: dict[str, int] = {}
    for start in range(0, options.rounds, BATCH):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            cases = make_cases(options.files, BATCH, options.seed * 1_000_000 + start, folder)
            try:
                outcome = symbolize(cases, folder / "cache")
            except (AssertionError, subprocess.TimeoutExpired) as problem:
                print(problem, flush=True)
                all_found += 1
                continue
        for line in findings(cases, outcome):
            print(line, flush=True)
            all_found += 1
        for answer in outcome.answers:
            sources[answer.source] = sources.get(answer.source, 0) + 1
        peak, slowest = max(peak, outcome.peak_bytes), max(slowest, outcome.seconds)
    print(f"{options.rounds} files, {all_found} findings; {sources}")
    print(f"slowest batch of {BATCH}: {slowest:.1f} s; peak of memory {peak >> 20} MB")
    sys.exit(all_found > 0)


if __name__ == "__main__":
    main()
