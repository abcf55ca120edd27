"""Decode what a device sends: looks at all threads, and modules. Nothing of it is believed."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..errors import InputError

HEADER_WORDS, THREAD_WORDS = 2, 3
MAX_FRAMES = 512
MAX_THREADS = 1 << 14
MAX_MODULES = 1 << 14
MAX_NAME = 1 << 12
_ADDR_LIMIT = 1 << 56
_MAX_US = 1 << 52


class ThreadLook(NamedTuple):
    """A thread at one moment."""

    tid: int
    state: int  # of ``agent.js``
    is_whole: bool  # the chain of its frames came to its end
    frames: npt.NDArray[np.uint64]  # runtime_addr, innermost first; none if it was not seen


class Look(NamedTuple):
    """All threads at one moment."""

    time_us: int  # of the device's clock
    lost: int  # looks that were not sent, so far
    threads: list[ThreadLook]


class LoadedModule(NamedTuple):
    """A file that is loaded."""

    base: int
    size: int
    path: str


class DeviceLies(InputError):
    """A device sends what makes no sense."""

    def __init__(self, why: str) -> None:
        super().__init__(f"the device sends {why}", "is it flametap's own agent that runs there?")


def look_of(data: bytes) -> Look:
    """Decode a look. Raises DeviceLies."""
    if len(data) % 8 or len(data) < 8 * HEADER_WORDS:
        raise DeviceLies("a look that is cut off")
    words = np.frombuffer(data, "<u8")
    time_us, lost = int(words[0]), int(words[1])
    if time_us > _MAX_US or lost > _MAX_US:
        raise DeviceLies("an impossible time")
    threads: list[ThreadLook] = []
    at = HEADER_WORDS
    while at < len(words):
        if at + THREAD_WORDS > len(words) or len(threads) == MAX_THREADS:
            raise DeviceLies("a look that is cut off")
        tid, state, count = (int(each) for each in words[at : at + THREAD_WORDS])
        at += THREAD_WORDS
        if not 0 <= count <= MAX_FRAMES or at + count > len(words):
            raise DeviceLies("a stack that is cut off")
        frames = words[at : at + count]
        at += count
        if count and int(frames.max()) >= _ADDR_LIMIT:
            frames = frames % np.uint64(_ADDR_LIMIT)
        threads.append(ThreadLook(tid, state & 0xFF, bool(state >> 8 & 1), frames))
    return Look(time_us, lost, threads)


def modules_of(found: Any) -> list[LoadedModule]:
    """Decode a list of modules; what makes no sense is left out. Raises DeviceLies."""
    if not isinstance(found, list) or len(found) > MAX_MODULES:
        raise DeviceLies("no list of modules")
    modules = []
    for each in found:
        if not isinstance(each, dict):
            raise DeviceLies("no list of modules")
        base, size, path = address_of(each.get("base")), each.get("size"), each.get("path")
        if isinstance(size, int) and 0 < size < 1 << 40 and isinstance(path, str):
            modules.append(LoadedModule(base, size, path[:MAX_NAME]))
    return modules


def names_of(found: Any) -> dict[int, str]:
    """Decode the names of threads. Raises DeviceLies."""
    if not isinstance(found, list) or len(found) > MAX_THREADS:
        raise DeviceLies("no list of threads")
    pairs = [each for each in found if isinstance(each, list) and len(each) == 2]
    return {tid: str(name)[:MAX_NAME] for tid, name in pairs if isinstance(tid, int) and tid >= 0}


def address_of(text: Any) -> int:
    """Return an address that is written as hexadecimal digits. Raises DeviceLies."""
    try:
        address = int(text, 16)
    except (TypeError, ValueError):
        raise DeviceLies("an address that is none") from None
    if not 0 <= address < _ADDR_LIMIT:
        raise DeviceLies("an address that is none")
    return address
