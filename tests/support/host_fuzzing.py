"""Fuzz the parsers of flametap's own process: damage inputs, and judge what becomes of them.

An input follows from the reader, a seed and a number, so that each can be made again. Findings are:
an exception that the reader does not document, more than a second of CPU time, more memory than the
reader may take, and the death of the process (``run`` works in a child for that).
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import random
import resource
import signal
import struct
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

MAX_CPU_S = 1.0
MAX_MEMORY_BYTES = 256 << 20  # above what the process had before the first input
# Of address space: what asks for more gets a MemoryError, which no reader documents.
MAX_ASKED_BYTES = 1 << 30
MAX_INPUT_BYTES = 1 << 16
MAX_FINDINGS = 5
_EXTREMES: tuple[int, ...] = (0, 1, 2, 7, 0x7F, 0x80, 0xFF, 0xFFFF)
_EXTREMES += (0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)
_EXTREMES += (1 << 40, (1 << 61) - 1, (1 << 63) - 1, 1 << 63, (1 << 64) - 16, (1 << 64) - 1)


@dataclass(frozen=True)
class Reader:
    """A parser of bytes that the target can choose.

    Args:
        seeds: makes valid inputs, in a folder of its own.
        read: gives an input to the parser, and asks for all that it offers.
        errors: what the parser raises for damaged input.
        words: pieces of text that mean something to the parser.
        make: makes an input of the seeds, if bytes alone seldom come far.
        max_cpu_s: what an input may take.
        cost: how many inputs of another reader one takes as long as, roughly: it gets fewer.
    """

    seeds: Callable[[Path], Sequence[bytes]]
    read: Callable[[bytes], object]
    errors: tuple[type[BaseException], ...] = ()
    words: tuple[bytes, ...] = ()
    make: Callable[[random.Random, Sequence[bytes]], bytes] | None = None
    max_cpu_s: float = MAX_CPU_S
    cost: int = 1


@dataclass
class Result:
    """What a run came to."""

    executions: int = 0
    refused: int = 0  # inputs that the parser answered with a documented error
    slowest_s: float = 0.0  # of CPU time
    memory_bytes: int = 0  # most that the process had, above what it had at the start
    findings: list[str] = field(default_factory=list)


class TooSlow(BaseException):
    """An input took too long. Not an ``Exception``, so that no reader catches it."""


def make_input(name: str, reader: Reader, seeds: Sequence[bytes], seed: int, number: int) -> bytes:
    """Return the input of a number, the same each time."""
    choose = random.Random(f"{name} {seed} {number}")
    if reader.make is not None:
        return reader.make(choose, seeds)
    data = bytearray(choose.choice(seeds))
    for _ in range(choose.choice((0, 1, 1, 1, 2, 3, 5, 9))):
        _DAMAGE[int(choose.random() * len(_DAMAGE))](data, choose, seeds, reader.words)
    return bytes(data[:MAX_INPUT_BYTES])


def run(
    name: str, reader: Reader, folder: Path, seed: int, numbers: range, *, limit: bool = True
) -> Result:
    """Give a reader the inputs of some numbers, in a child process.

    Args:
        folder: for the seeds.
        limit: whether memory is limited; not where sanitizers or other tests share the machine.
    """
    shared = mmap.mmap(-1, 8)
    results, answer = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.close(results)
            ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
            found = _run_here(name, reader, folder, seed, numbers, shared, limit=limit)
            with os.fdopen(answer, "wb") as pipe:
                pipe.write(_packed(found))
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    os.close(answer)
    with os.fdopen(results, "rb") as pipe:
        packed = pipe.read()
    _, status = os.waitpid(pid, 0)
    if status == 0:
        return _unpacked(packed)
    number = struct.unpack("<Q", shared)[0]
    done = max(number - numbers.start, 0)
    end = f"died with wait status {status:#x} at number {number}"
    return Result(done, findings=[end])


def _run_here(
    name: str,
    reader: Reader,
    folder: Path,
    seed: int,
    numbers: range,
    shared: mmap.mmap,
    *,
    limit: bool,
) -> Result:
    seeds = reader.seeds(folder)
    found = Result()
    for each in seeds:
        with contextlib.suppress(*reader.errors):
            reader.read(each)  # imports what it needs, before memory is measured
    before = _memory_bytes("VmRSS")
    if limit:
        most = _memory_bytes("VmSize") + MAX_ASKED_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    Path("/proc/self/clear_refs").write_text("5")  # VmHWM from now on, proc(5)
    signal.signal(signal.SIGPROF, _too_slow)
    for number in numbers:
        data = make_input(name, reader, seeds, seed, number)
        struct.pack_into("<Q", shared, 0, number)
        started = time.process_time()
        problem = ""
        signal.setitimer(signal.ITIMER_PROF, reader.max_cpu_s)
        try:
            reader.read(data)
        except reader.errors:
            found.refused += 1
        except TooSlow:
            problem = f"over {reader.max_cpu_s:g} s"
        except BaseException as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            problem = f"{type(error).__name__}: {error} ({place.filename}:{place.lineno})"
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        taken = time.process_time() - started
        found.slowest_s = max(found.slowest_s, taken)
        if taken > reader.max_cpu_s:
            problem = problem or f"{taken:.1f} s"
        found.executions += 1
        if problem:
            found.findings.append(f"{name}, seed {seed}, number {number}: {problem}")
            if len(found.findings) == MAX_FINDINGS:
                break
    found.memory_bytes = max(_memory_bytes("VmHWM") - before, 0)
    if found.memory_bytes > MAX_MEMORY_BYTES:
        found.findings.append(f"{name}: {found.memory_bytes >> 20} MB of memory")
    return found


def _too_slow(_: int, frame: FrameType | None) -> None:
    raise TooSlow


def _memory_bytes(which: str) -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.partition(f"{which}:")[2].split()[0]) << 10


def _packed(found: Result) -> bytes:
    head = f"{found.executions} {found.refused} {found.slowest_s} {found.memory_bytes}"
    return "\0".join([head, *found.findings]).encode("utf-8", "replace")


def _unpacked(packed: bytes) -> Result:
    head, *findings = packed.decode().split("\0")
    executions, refused, slowest_s, memory_bytes = head.split()
    return Result(int(executions), int(refused), float(slowest_s), int(memory_bytes), findings)


# ---- damage: each changes ``data`` in place

Words = Sequence[bytes]


def _flip(data: bytearray, choose: random.Random, *_: object) -> None:
    for place in _places(data, choose, (1, 1, 4, 30)):
        data[place] ^= 1 << choose.randrange(8)


def _set(data: bytearray, choose: random.Random, *_: object) -> None:
    for place in _places(data, choose, (1, 2, 8)):
        data[place] = choose.randrange(256)


def _extreme(data: bytearray, choose: random.Random, *_: object) -> None:
    size = choose.choice((1, 2, 4, 4, 8, 8))
    for place in _places(data, choose, (1, 1, 3)):
        place = place // size * size if choose.random() < 0.8 else place
        value = choose.choice(_EXTREMES)
        if choose.random() < 0.3:
            value = int.from_bytes(data[place : place + size], "little") + choose.randrange(-9, 10)
        part = (value & ((1 << 8 * size) - 1)).to_bytes(size, choose.choice(("little", "big")))
        data[place : place + size] = part[: len(data) - place]


def _cut(data: bytearray, choose: random.Random, *_: object) -> None:
    for place in _places(data, choose, (1,)):
        if choose.random() < 0.5:
            del data[place:]
        else:
            del data[place : place + choose.choice((1, 2, 4, 8, 60, 1000))]


def _repeat(data: bytearray, choose: random.Random, *_: object) -> None:
    for place in _places(data, choose, (1,)):
        part = data[place : place + choose.choice((1, 3, 8, 40, 400))]
        data[place:place] = part * choose.choice((1, 1, 3, 50))


def _fill(data: bytearray, choose: random.Random, *_: object) -> None:
    for place in _places(data, choose, (1,)):
        end = min(len(data), place + choose.choice((2, 8, 16, 100, 4000)))
        data[place:end] = bytes([choose.choice((0, 0xFF, 0x80, 0x7F, 0x20))]) * (end - place)


def _splice(data: bytearray, choose: random.Random, seeds: Sequence[bytes], _: Words) -> None:
    other = choose.choice(seeds)
    for place in _places(data, choose, (1,)):
        start = choose.randrange(len(other) + 1)
        part = other[start : start + choose.choice((4, 16, 64, 500))]
        end = place + len(part) if choose.random() < 0.7 else place
        data[place:end] = part


def _move(data: bytearray, choose: random.Random, *_: object) -> None:
    for place in _places(data, choose, (1,)):
        size = choose.choice((4, 8, 24, 64))
        start = choose.randrange(len(data))
        part = data[start : start + size]
        data[place : place + len(part)] = part


def _word(data: bytearray, choose: random.Random, _: Sequence[bytes], words: Words) -> None:
    if words:
        for place in _places(data, choose, (1, 2, 6)):
            word = choose.choice(words)
            end = place + len(word) if choose.random() < 0.3 else place
            data[place:end] = word


def _places(data: bytearray, choose: random.Random, counts: Sequence[int]) -> Iterator[int]:
    for _ in range(choose.choice(counts)):
        if data:
            # Headers come first, and decide most.
            end = len(data) if choose.random() < 0.7 else min(len(data), 128)
            yield choose.randrange(end)


_DAMAGE = (_flip, _set, _extreme, _extreme, _cut, _repeat, _fill, _splice, _move, _word, _word)
