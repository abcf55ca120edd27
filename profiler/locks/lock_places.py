"""Tell where threads wait for locks: the line of the program that takes one, and its kind. Pure.

A stack that waits ends in functions of a runtime (``tree.wait_names``). The first function above
them is the program's own, and its line takes the lock: ``with lock:`` of Python, a ``synchronized``
method of Java, a caller of ``pthread_mutex_lock``. Who holds it meanwhile is known of Python's GIL
(``lock_waits``), of mutexes of the C library, and of Java's monitors (``lock_holders``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from ..linux.syscalls import LOCK
from ..model import MANAGED_KINDS, Clock, Frame, FrameKind
from ..recording.names.table import SymbolTable
from ..recording.profile.activities import LOCK_CALLS
from ..recording.profile.stacks import Trie
from ..recording.profile.store import Profile
from ..tree.selection import Selection
from ..tree.wait_names import WaitName, wait_name
from .held_waits import HeldWaits
from .lock_holders import LockHolders
from .lock_waits import LockWaits

MAX_PLACES = 30
MAX_STACKS = 5_000  # the heaviest; the others together are some thousandths
SILENT_FRAMES = 8  # as ``wait_causes``: so many, at most, before one says what it waits for
_C_LIBRARY = re.compile(r"(libc|libpthread|ld-musl)\b|.*vdso")
GIL = "Python's global interpreter lock (GIL)"
UNKNOWN = "a lock or another thread"
_KINDS = [
    (re.compile(pattern), words)
    for pattern, words in (
        (r"take_gil|drop_gil", GIL),
        (r"PyThread_|_?PyMutex|_PyRWMutex", "a Python lock"),
        (r"ObjectMonitor::|java\.lang\.Object", "a Java monitor (synchronized)"),
        (r"java\.util\.concurrent\.", "a Java lock (java.util.concurrent)"),
        (r"Mutex::|Monitor::|Platform", "a lock of the Java machine's own"),
        (r"runtime\.", "a Go lock"),
        (r"(std::sys|<?parking_lot)::.*rwlock|_*pthread_rwlock|g_rw_lock", "a read-write lock"),
        (r"(uv|apr_thread)_rwlock|PR_RWLock|CRYPTO_THREAD_", "a read-write lock"),
        (r"(uv|apr_thread)_mutex|PR_|sqlite3_|pthreadMutexEnter", "a mutex"),
        (r"_*pthread_mutex|lll_mutex|std::sys::|<?parking_lot|g_(rec_)?mutex", "a mutex"),
        (r"_*lll_lock|__lock|_IO_flockfile|flockfile", "a lock of the C library"),
    )
]
# Functions of Python that take a lock for the one that calls them.
_PYTHON_CARRIERS = ("/threading.py", "/multiprocessing/synchronize.py")


@dataclass(frozen=True)
class LockPlace:
    """A place that waits for a lock.

    Attributes:
        kind: of lock, in plain words.
        frame: the program's own function that takes it, and its line; None if there is none.
        text: of that line; "" if it is not known.
        wait_ns: of all threads together.
        thread_ids: of those that waited.
        held: who held it meanwhile; None if that is not known, or of the GIL.
    """

    kind: str
    frame: Frame | None
    wait_ns: int
    thread_ids: frozenset[int]
    text: str = ""
    held: LockWaits | None = None


@dataclass(frozen=True)
class LockPlaces:
    """Where threads wait for locks, the longest first, and all their waits."""

    total_ns: int
    n_places: int
    places: list[LockPlace]


@dataclass
class _Sum:
    ns: int = 0
    thread_ids: set[int] = field(default_factory=set)
    nodes: list[int] = field(default_factory=list)


def lock_places(profile: Profile, table: SymbolTable, selection: Selection) -> LockPlaces:
    """Return where threads wait for locks.

    Args:
        profile: the recording so far.
        table: the names.
        selection: only waits of these threads in this time; its clock does not matter.
    """
    t0_ns, t1_ns = selection.between(profile.start_ns, profile.now_ns)
    leaves = profile.leaf_weights(Clock.OFF_CPU, selection.thread_ids, t0_ns, t1_ns)
    leaves = leaves.where(np.isin(leaves.sysno, LOCK_CALLS) & (leaves.weight > 0))
    trie = profile.trie()  # read after the leaves, so it has all their nodes
    reader = _Reader(trie, table)
    sums: dict[tuple[str, Frame | None], _Sum] = {}
    total_ns = 0
    for node, is_gil, rows in _by_stack(leaves.node, leaves.sysno, leaves.weight):
        found = reader.place(node, is_gil)
        if found is None:
            continue
        sum_ = sums.setdefault(found, _Sum())
        ns = int(leaves.weight[rows].sum())
        total_ns += ns
        sum_.ns += ns
        sum_.thread_ids.update(leaves.thread_id[rows].tolist())
        sum_.nodes.append(node)
    heaviest = sorted(sums.items(), key=lambda item: -item[1].ns)[:MAX_PLACES]
    waits = HeldWaits(profile.lock_intervals(t0_ns, t1_ns))
    holders = LockHolders(waits, selection.thread_ids, reader.own_function)
    places = [
        LockPlace(
            kind, frame, each.ns, frozenset(each.thread_ids), held=holders.of(np.array(each.nodes))
        )
        for (kind, frame), each in heaviest
    ]
    return LockPlaces(total_ns, len(sums), places)


def _by_stack(
    node: npt.NDArray[np.int32], sysno: npt.NDArray[np.int16], weight: npt.NDArray[np.int64]
) -> Iterator[tuple[int, bool, npt.NDArray[np.intp]]]:
    """Yield each stack that waits, heaviest first: node, whether it is for the GIL, and rows."""
    keys, which = np.unique(node.astype(np.int64) * 2 + (sysno == LOCK), return_inverse=True)
    order = np.argsort(which, kind="stable")
    rows = np.split(order, np.cumsum(np.bincount(which, minlength=len(keys)))[:-1])
    by_key = np.bincount(which, weights=weight, minlength=len(keys))
    for at in np.argsort(-by_key)[:MAX_STACKS].tolist():
        yield int(keys[at]) // 2, bool(keys[at] % 2), rows[at]


class _Reader:
    """Reads stacks from their leaf ends."""

    def __init__(self, trie: Trie, table: SymbolTable) -> None:
        self._trie = trie
        self._table = table
        self._frames: dict[int, list[tuple[Frame, WaitName]]] = {}  # of an address, leaf first

    def place(self, node: int, is_gil: bool) -> tuple[str, Frame | None] | None:
        """Return the kind of a lock and the place that takes it; None if the wait is for work."""
        if is_gil:
            return GIL, None
        said, kind = WaitName.SILENT, UNKNOWN
        first: Frame | None = None  # of the program's own, where nothing says what it waits for
        spare: Frame | None = None  # of a language's own library: a thread that runs nothing else
        is_again = False
        for depth, (frame, word) in enumerate(self._stack(node)):
            if word in (WaitName.LOCK, WaitName.LOCK_AGAIN):
                said, kind = WaitName.LOCK, _kind(frame)
                is_again |= word is WaitName.LOCK_AGAIN
            elif word is WaitName.WORK:
                said = said if is_again else word
            elif word is WaitName.SILENT:
                if said is WaitName.WORK:
                    return None
                if said is WaitName.LOCK:
                    return kind, None if kind == GIL else frame
                first = first or frame
                if depth >= SILENT_FRAMES:
                    break
            elif spare is None and frame.function.kind in MANAGED_KINDS:
                spare = frame
        if said is WaitName.WORK:
            return None
        return kind, None if kind == GIL else first or spare

    def own_function(self, node: int) -> int:
        """Return the innermost function of a stack that is the program's own; -1 if none is."""
        for frame, word in self._stack(node):
            if word is WaitName.SILENT and not _C_LIBRARY.match(frame.function.module):
                return self._table.function_id(frame.function)
        return -1

    def _stack(self, node: int) -> Iterator[tuple[Frame, WaitName]]:
        trie = self._trie
        while trie.parent[node] >= 0 and trie.address[node] >= 0:
            yield from self._at(int(trie.address[node]))
            node = int(trie.parent[node])

    def _at(self, address: int) -> list[tuple[Frame, WaitName]]:
        if address not in self._frames:
            # Without how they run: a line is one place, before and after it is compiled.
            frames = [replace(each, tier="") for each in self._table.frames(address)]
            self._frames[address] = [(each, _word(each)) for each in reversed(frames)]
        return self._frames[address]


def _word(frame: Frame) -> WaitName:
    word = wait_name(frame.function)
    is_carrier = frame.function.kind is FrameKind.PYTHON and frame.function.file.endswith(
        _PYTHON_CARRIERS
    )
    return WaitName.CARRIER if word is WaitName.SILENT and is_carrier else word


def _kind(frame: Frame) -> str:
    for pattern, words in _KINDS:
        if pattern.match(frame.function.name):
            return words
    return frame.function.name


def with_text(place: LockPlace, text: str) -> LockPlace:
    """Return a place with the text of its line."""
    return replace(place, text=text)
