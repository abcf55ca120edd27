"""Keep the table of names: address id → its functions. Filled in the background and read meanwhile.

Functions get dense ids in the order in which they first occur, and keep them. So an id stays valid
in every tree built later. The frames of all addresses are in one pool; an address has the index of
its first frame and their number. An address without names so far has one stand-in function, for
example ``libfoo.so+0x1234``.

Pairs of addresses, caller and callee, have frames in the pool, too: functions that left no frame
between them. The table also knows addresses at which a thread is in a system call.

Any thread may call any method.
"""

from __future__ import annotations

import contextlib
import threading
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ...model import GUESSED_CALLER, KERNEL_FRAME, NO_MODULE, Frame, FrameKind, Function, RawFrame
from .frame_pool import FramePool, NameGains, NameMark, check
from .given import Given
from .packed_frames import PackedFrames

JIT_MODULE = "[jit]"  # module name of code outside any file
COLLECTION = Function("[garbage collection]", "", kind=FrameKind.SYNTHETIC)
"""What an interpreter does while it collects garbage; the function that made it do so calls it."""

KERNEL_THREAD = Function("[kernel thread]", "", kind=FrameKind.SYNTHETIC)
"""What a thread of the kernel does that works for the process: io_uring's, vhost's."""

GUESS = Function("[guessed]", "", kind=FrameKind.SYNTHETIC)
"""Stands between a function and a caller that may be another one."""


def unnamed_function(frame: RawFrame, module_name: str) -> Function:
    """Return the stand-in for code without a name: ``libfoo.so+0x1234`` or ``[jit]``.

    The stand-in for JIT code has no address: one function would have hundreds of them.
    """
    if frame == KERNEL_FRAME:
        return KERNEL_THREAD
    if frame == GUESSED_CALLER:
        return GUESS
    if frame.module_id == NO_MODULE:
        return Function(JIT_MODULE, JIT_MODULE, kind=FrameKind.UNKNOWN)
    module_name = module_name or f"[module {frame.module_id}]"
    return Function(f"{module_name}+{frame.addr:#x}", module_name, kind=FrameKind.UNKNOWN)


def _nowhere(address_id: int) -> tuple[RawFrame, str]:
    return RawFrame(0, address_id), ""


class SymbolTable:
    """The table of names; see the module docstring.

    Args:
        locate: address id → (raw frame, name of its module), for stand-ins; called while the table
            is locked. ``Profile.locate`` is meant for this.
        on_change: called after ``revision`` has grown, without a lock held.
    """

    def __init__(
        self,
        locate: Callable[[int], tuple[RawFrame, str]] = _nowhere,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self._locate = locate
        self._on_change = on_change
        self._lock = threading.Lock()
        self._functions: list[Function] = []
        self._ids: dict[Function, int] = {}
        # id() of a function → its id here, and the function, to keep it alive. Hashing the function
        # takes ten times as long, and a resolver returns the same objects many times.
        self._by_object: dict[int, tuple[int, Function]] = {}
        self._pool_functions = array("i")
        self._pool_lines = array("i")
        self._pool_files = array("i")
        self._line_files, self._line_tiers, self._file_numbers = [""], [""], array("i", [0])
        self._line_file_ids = {("", ""): 0}
        # Per address: position in the pool, number of frames, and 1 if they are not a stand-in.
        self._first = array("i")
        self._count = array("i")
        self._named = bytearray()
        self._lost: dict[int, tuple[int, int]] = {}  # pair → position in the pool, count
        self._kernel: dict[int, int] = {}  # address → system call
        self._revision = 0
        self._by_name: list[int] = []
        self._labels: dict[Callable[[Function], int], bytearray] = {}

    @property
    def functions(self) -> Sequence[Function]:
        """All functions by id. It only grows at its end."""
        return self._functions

    @property
    def line_files(self) -> Sequence[str]:
        """Source files of lines, by number; "" for the function's own file. The first is ""."""
        return self._line_files

    @property
    def line_tiers(self) -> Sequence[str]:
        """How the functions of the same numbers run (``Frame.tier``). The first is ""."""
        return self._line_tiers

    @property
    def revision(self) -> int:
        """A number that grows whenever an address gets names."""
        return self._revision

    @contextlib.contextmanager
    def _change(self) -> Iterator[None]:
        """Hold the lock for a change, count the change, and report it."""
        with self._lock:
            yield
            self._revision += 1
        self._on_change()

    def function_id(self, function: Function) -> int:
        """Return the id of ``function``; a new function gets a new id."""
        with self._lock:
            return self._function_id(function)

    def set(self, address_id: int, frames: Sequence[Frame]) -> None:
        """Set the names of an address; see :meth:`set_many`."""
        self.set_many([address_id], [frames])

    def set_many(self, address_ids: Sequence[int], frames: Sequence[Sequence[Frame]]) -> None:
        """Set the names of addresses.

        Args:
            address_ids: address ids from ``Profile.news``.
            frames: the frames of each address, outermost first, at least one; each was inlined into
                the one before it. Addresses with the same object share their entry.
        """
        if not all(frames):
            raise ValueError("an address needs at least one frame")
        if not address_ids:
            return
        with self._change():
            self._reach(max(address_ids) + 1)
            stored: dict[int, int] = {}  # id of a sequence → its place in the pool
            for address_id, sequence in zip(address_ids, frames, strict=True):
                place = stored.get(id(sequence))
                if place is None:
                    place = stored[id(sequence)] = self._store(sequence)
                self._first[address_id] = place
                self._count[address_id] = len(sequence)
                self._named[address_id] = 1

    def set_lost(self, between: Iterable[tuple[int, int, Sequence[Frame]]]) -> None:
        """Add functions that left no frame.

        Args:
            between: ids of the caller's and of the callee's address, and the frames between them,
                outermost first.
        """
        with self._change():
            stored: dict[int, int] = {}
            for caller, callee, frames in between:
                pair = caller << 32 | callee
                if pair in self._lost:
                    continue
                if id(frames) not in stored:
                    stored[id(frames)] = self._store(frames)
                self._lost[pair] = stored[id(frames)], len(frames)

    def set_kernel(self, calls: Iterable[tuple[int, int]]) -> None:
        """Add addresses at which a thread is in a system call.

        Args:
            calls: address ids and system call numbers.
        """
        with self._change():
            self._kernel.update(calls)

    def kernel(self) -> dict[int, int]:
        """Return the system call number of each address that is in a system call; a copy."""
        with self._lock:
            return dict(self._kernel)

    def set_packed(self, address_ids: Sequence[int], packed: PackedFrames) -> None:
        """Set the names of addresses, given in columns."""
        if not address_ids:
            return
        with self._change():
            self._reach(max(address_ids) + 1)
            ids = np.array([self._id_of(function) for function in packed.functions], np.int32)
            files = np.array([self._file_id(file, "") for file in packed.files], np.int32)
            place = len(self._pool_functions)
            self._pool_functions.frombytes(ids[packed.function].tobytes())
            self._pool_lines.frombytes(packed.line.astype(np.int32).tobytes())
            self._pool_files.frombytes(files[packed.file].tobytes())
            # An array cannot grow while a view of it exists; these views are dropped at once.
            where = np.array(address_ids, np.int64)
            np.frombuffer(self._first, np.int32)[where] = packed.first + place
            np.frombuffer(self._count, np.int32)[where] = packed.count
            np.frombuffer(self._named, np.uint8)[where] = 1

    def named(self, address_id: int) -> bool:
        """Return True if the names of this address were set."""
        with self._lock:
            return address_id < len(self._named) and self._named[address_id] == 1

    def frames(self, address_id: int) -> list[Frame]:
        """Return the frames of an address, outermost first; a stand-in if it has no names yet."""
        with self._lock:
            self._stand_in(range(address_id, address_id + 1))
            return self._frames(self._first[address_id], self._count[address_id])

    def lost(self, caller: int, callee: int) -> list[Frame]:
        """Return the frames between two addresses, outermost first; mostly none."""
        with self._lock:
            return self._frames(*self._lost.get(caller << 32 | callee, (0, 0)))

    def pool(self, n_addresses: int) -> FramePool:
        """Return the frames of addresses 0 … ``n_addresses`` - 1; a copy."""
        with self._lock:
            self._reach(n_addresses)
            if self._count.count(0):
                self._stand_in(range(n_addresses))
            pairs = sorted(self._lost)
            return FramePool(
                self._first[:n_addresses],
                self._count[:n_addresses],
                self._pool_functions[:],
                self._pool_lines[:],
                self._pool_files[:],
                self._file_numbers[:],
                array("q", pairs),
                array("i", (self._lost[pair][0] for pair in pairs)),
                array("i", (self._lost[pair][1] for pair in pairs)),
            )

    def gains(self, since: NameMark, n_addresses: int) -> NameGains:
        """Return what has been added or changed after ``since``.

        Args:
            since: what is known; ``NameMark()`` for nothing.
            n_addresses: the number of addresses to be told of.
        """
        with self._lock:
            self._reach(n_addresses)
            n = min(n_addresses, len(self._first))
            places = np.array(
                (self._first[:n], self._count[:n], np.frombuffer(self._named, np.uint8)[:n]),
                np.int32,
            )
            known = np.zeros_like(places)
            known[:, : since.places.shape[1]] = since.places
            changed = np.flatnonzero((places != known).any(axis=0))
            lost = list(self._lost.items())[since.n_lost :]
            kernel = list(self._kernel.items())[since.n_kernel :]
            return NameGains(
                functions=self._functions[since.n_functions :],
                files=[*zip(self._line_files, self._line_tiers, strict=True)][since.n_files :],
                file_number=_int32s(self._file_numbers[since.n_files :]),
                function=_int32s(self._pool_functions[since.n_frames :]),
                line=_int32s(self._pool_lines[since.n_frames :]),
                file=_int32s(self._pool_files[since.n_frames :]),
                address=_int32s(changed),
                first=places[0, changed],
                count=places[1, changed],
                is_named=places[2, changed],
                lost=np.array([pair for pair, _ in lost], np.int64),
                lost_first=_int32s([first for _, (first, _) in lost]),
                lost_count=_int32s([count for _, (_, count) in lost]),
                kernel=_int32s([address for address, _ in kernel]),
                call=_int32s([call for _, call in kernel]),
                mark=NameMark(
                    *(len(self._functions), len(self._pool_functions), len(self._line_files)),
                    *(len(self._lost), len(self._kernel)),
                    places,
                ),
            )

    def extend(self, gains: NameGains, n_addresses: int, given: Given | None = None) -> None:
        """Add what ``gains`` has returned, of another table.

        Args:
            gains: it.
            n_addresses: the number of addresses of that table.
            given: what its numbers are here; without it, both had the same before.

        Raises:
            ValueError: something in it makes no sense.
        """
        with self._change():
            numbers = len(self._functions), len(self._pool_functions), len(self._line_files)
            check(gains, given.mark if given else NameMark(*numbers), n_addresses)
            if given is not None:
                place = len(self._pool_functions)
                gains = given.take(gains, self._function_id, self._file_id, place)
            else:
                self._add_texts(gains)
            self._reach(int(gains.address.max(initial=-1)) + 1)
            self._pool_functions.frombytes(gains.function.tobytes())
            self._pool_lines.frombytes(gains.line.tobytes())
            self._pool_files.frombytes(gains.file.tobytes())
            np.frombuffer(self._first, np.int32)[gains.address] = gains.first
            np.frombuffer(self._count, np.int32)[gains.address] = gains.count
            np.frombuffer(self._named, np.uint8)[gains.address] = gains.is_named
            places = zip(gains.lost_first.tolist(), gains.lost_count.tolist(), strict=True)
            self._lost.update(zip(gains.lost.tolist(), places, strict=True))
            self._kernel.update(zip(gains.kernel.tolist(), gains.call.tolist(), strict=True))

    def _add_texts(self, gains: NameGains) -> None:
        for function in gains.functions:
            self._ids.setdefault(function, len(self._functions))
            self._functions.append(function)
        for file, tier in gains.files:
            self._line_file_ids.setdefault((file, tier), len(self._line_files))
            self._line_files.append(file)
            self._line_tiers.append(tier)
        self._file_numbers.frombytes(gains.file_number.tobytes())

    def by_name(self) -> array[int]:
        """Return all function ids, ordered by name, then module, file and id; a copy."""
        with self._lock:
            functions = self._functions
            if len(self._by_name) < len(functions):
                # The old ids are already sorted, which makes sort() fast.
                self._by_name += range(len(self._by_name), len(functions))
                self._by_name.sort(
                    key=lambda i: (functions[i].name, functions[i].module, functions[i].file, i)
                )
            return array("i", self._by_name)

    def labels(self, label: Callable[[Function], int]) -> bytes:
        """Return ``label`` (0 to 255) of every function by id; computed once for each function."""
        with self._lock:
            known = self._labels.setdefault(label, bytearray())
            known += bytes(map(label, self._functions[len(known) :]))
            return bytes(known)

    def _function_id(self, function: Function) -> int:
        function_id = self._ids.setdefault(function, len(self._functions))
        if function_id == len(self._functions):
            self._functions.append(function)
        return function_id

    def _store(self, frames: Sequence[Frame]) -> int:
        # Frames that an address had before stay in the pool unused. They are few: an address gets
        # names once or twice.
        place = len(self._pool_functions)
        for frame in frames:
            self._pool_functions.append(self._id_of(frame.function))
            self._pool_lines.append(frame.line if frame.line < 1 << 31 else 0)
            self._pool_files.append(self._file_id(frame.other_file, frame.tier))
        return place

    def _frames(self, first: int, count: int) -> list[Frame]:
        return [
            Frame(
                self._functions[self._pool_functions[i]],
                self._pool_lines[i],
                self._line_files[self._pool_files[i]],
                self._line_tiers[self._pool_files[i]],
            )
            for i in range(first, first + count)
        ]

    def _file_id(self, file: str, tier: str) -> int:
        number = self._line_file_ids.get((file, tier))
        if number is None:
            # Without a tier, so that each file has one number that stands for it.
            same = self._file_id(file, "") if tier else len(self._line_files)
            number = self._line_file_ids[file, tier] = len(self._line_files)
            self._line_files.append(file)
            self._line_tiers.append(tier)
            self._file_numbers.append(same)
        return number

    def _id_of(self, function: Function) -> int:
        known = self._by_object.get(id(function))
        if known is None:
            known = self._by_object[id(function)] = (self._function_id(function), function)
        return known[0]

    def _reach(self, n_addresses: int) -> None:
        """Extend the columns to ``n_addresses``; new entries are empty."""
        more = n_addresses - len(self._count)
        if more > 0:
            zeros = array("i", bytes(more * self._first.itemsize))
            self._first += zeros
            self._count += zeros
            self._named += bytes(more)

    def _stand_in(self, address_ids: range) -> None:
        """Give a stand-in to each of these addresses that has no frames."""
        self._reach(address_ids.stop)
        for address_id in address_ids:
            if not self._count[address_id]:
                frame = Frame(unnamed_function(*self._locate(address_id)))
                self._first[address_id] = self._store([frame])
                self._count[address_id] = 1


def _int32s(numbers: Any) -> npt.NDArray[np.int32]:
    return np.array(numbers, np.int32)
