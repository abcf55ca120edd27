"""Profiles of Python programs, and a naive frame filter, for tests of what is built from them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

import wire
from flametap.model import MANAGED, Clock, Frame, FrameKind, Function, Verdict
from flametap.recording.names.table import SymbolTable
from flametap.recording.profile import stacks
from flametap.recording.profile.store import Profile
from flametap.symbols.interpreters.python.plumbing import is_plumbing
from flametap.tree import own_frames
from flametap.tree.frame_filter import FrameFilter, Language
from flametap.wire import abi
from profiles import apply

SERVE = Function("serve", "app/main.py", "/srv/app/main.py", FrameKind.PYTHON)
HANDLE = Function("Handler.get", "app/views.py", "/srv/app/views.py", FrameKind.PYTHON)
QUERY = Function(
    "Query.fetch",
    "django/db/models/query.py",
    "/srv/venv/lib/python3.12/site-packages/django/db/models/query.py",
    FrameKind.PYTHON,
)
DUMPS = Function(
    "dumps", "json/__init__.py", "/usr/lib/python3.12/json/__init__.py", FrameKind.PYTHON
)
MAIN = Function("main", "python3.12")
EVAL = Function("_PyEval_EvalFrameDefault", "libpython3.12.so")
CALL = Function("_PyObject_MakeTpCall", "libpython3.12.so")
SORT = Function("list_sort", "libpython3.12.so", "/build/Objects/listobject.c")
FREE = Function("Py_DECREF", "libpython3.12.so", "", FrameKind.INLINED)
WORKER = Function("worker", "libblas.so")

(SERVE_ADDR, HANDLE_ADDR, HANDLE_ADDR_2, QUERY_ADDR, DUMPS_ADDR) = (
    wire.managed_frame(code_id, line)
    for code_id, line in ((1, 40), (2, 12), (2, 14), (3, 99), (4, 238))
)
MAIN_ADDR, CALL_ADDR, SORT_ADDR, WORKER_ADDR = (wire.frame(1, 0x1000 * i) for i in range(1, 5))
EVAL_ADDR = wire.eval_frame(1, 0x9000)
NAMES: dict[int, list[Frame]] = {
    SERVE_ADDR: [Frame(SERVE, 40)],
    HANDLE_ADDR: [Frame(HANDLE, 12)],
    HANDLE_ADDR_2: [Frame(HANDLE, 14)],
    QUERY_ADDR: [Frame(QUERY, 99)],
    DUMPS_ADDR: [Frame(DUMPS, 238)],
    MAIN_ADDR: [Frame(MAIN, 0)],
    EVAL_ADDR: [Frame(EVAL, 3000), Frame(FREE, 700)],
    CALL_ADDR: [Frame(CALL, 0)],
    SORT_ADDR: [Frame(SORT, 2300)],
    WORKER_ADDR: [Frame(WORKER, 0)],
}
POLL = 7
# Root first, CPU ns.
STACKS: list[tuple[list[int], int]] = [
    ([MAIN_ADDR, SERVE_ADDR, HANDLE_ADDR, EVAL_ADDR], 3_000),
    ([MAIN_ADDR, SERVE_ADDR, HANDLE_ADDR_2, EVAL_ADDR, CALL_ADDR], 2_000),
    ([MAIN_ADDR, SERVE_ADDR, HANDLE_ADDR, EVAL_ADDR, SORT_ADDR, QUERY_ADDR, EVAL_ADDR], 5_000),
    ([MAIN_ADDR, SERVE_ADDR, HANDLE_ADDR, EVAL_ADDR, SORT_ADDR], 1_000),
    ([MAIN_ADDR, CALL_ADDR], 400),  # the interpreter starts: no Python function yet
    ([MAIN_ADDR, SERVE_ADDR, DUMPS_ADDR, EVAL_ADDR], 600),
]


def raw(module_id: int, addr: int, is_eval: bool) -> int:
    """Encode a frame as the agent does."""
    if module_id == MANAGED:
        return abi.FRAME_KIND_MANAGED << abi.FRAME_KIND_SHIFT | addr
    return (wire.eval_frame if is_eval else wire.frame)(module_id, addr)


def python_profile() -> tuple[Profile, SymbolTable]:
    """A web server's main thread, and a worker of a C library in thread 2. See ``STACKS``.

    Thread 1 also has 500 ns without a stack, and 1 100 ns in a cut stack of ``worker``; thread 2
    has 7 000 ns of CPU time in ``worker``, and waits in poll for 90 000 ns.
    """
    profile = Profile()
    traces = [wire.trace(i, path[::-1]) for i, (path, _) in enumerate(STACKS, 1)]
    rows = [
        wire.interval(1, i, 1_000_000 + 10_000 * i, ns, ns) for i, (_, ns) in enumerate(STACKS, 1)
    ]
    apply(
        profile,
        9_000_000,
        modules=[wire.module(1, "/usr/lib/libpython3.12.so")],
        threads=[wire.thread(1, 101, "python"), wire.thread(2, 102, "blas")],
        traces=[
            *traces,
            wire.trace(20, [WORKER_ADDR]),
            wire.trace(21, [WORKER_ADDR], Verdict.NO_UNWIND_INFO, fault_module=1),
        ],
        intervals=[
            *rows,
            wire.interval(1, 0, 2_000_000, 0, 500),
            wire.interval(1, 21, 2_000_000, 1_100, 1_100),
            wire.interval(2, 20, 1_000_000, 7_000, 7_000),
            wire.interval(2, 20, 1_010_000, 90_000, 0, wire.PARKED, sysno=POLL),
        ],
    )
    return profile, named(profile, NAMES)


def named(profile: Profile, names: dict[int, list[Frame]]) -> SymbolTable:
    """Return a table with names for the profile's addresses."""
    table = SymbolTable(profile.locate)
    is_eval = profile.eval_addresses().tolist()
    for address_id, frame in profile.news().addresses:
        frames = names.get(raw(frame.module_id, frame.addr, is_eval[address_id]))
        if frames:
            table.set(address_id, frames)
    return table


def random_python_profile(rng: random.Random, traces: int = 60) -> tuple[Profile, SymbolTable]:
    """Many stacks of all kinds of frames, in any order: also such that no agent would send."""
    kinds: Sequence[int] = [
        *(wire.managed_frame(i % 5, i) for i in range(8)),
        *(wire.eval_frame(1, 0x100 + i) for i in range(2)),
        *(wire.frame(1, 0x200 + i) for i in range(8)),
    ]
    python = [Function(f"p{i}", "m.py", "/m.py", FrameKind.PYTHON) for i in range(5)]
    native = [Function(f"c{i}", "prog") for i in range(3)]
    native += [CALL, FREE, Function("PyObject_Call", "libpython3.12.so")]
    names: dict[int, list[Frame]] = {}
    for at, frame in enumerate(kinds):
        if at < 8:
            names[frame] = [Frame(python[at % 5], 1 + at)]
        elif rng.random() < 0.9:
            names[frame] = [
                Frame(each, rng.randint(0, 9)) for each in rng.choices(native, k=rng.randint(1, 3))
            ]
    paths = [rng.choices(kinds[rng.choice((0, 8)) :], k=rng.randint(0, 9)) for _ in range(traces)]
    verdicts = (Verdict.COMPLETE, Verdict.COMPLETE, Verdict.BAD_MEMORY)
    profile = Profile()
    rows = [
        wire.interval(
            rng.randint(1, 3),
            rng.randint(0, traces),
            1000 * i,
            rng.randint(0, 10**6),
            rng.randint(0, 10**6),
            rng.choice((wire.RUNNING, wire.PARKED)),
            sysno=rng.choice((-1, POLL)),
        )
        for i in range(1, 500)
    ]
    apply(
        profile,
        10**7,
        modules=[wire.module(1, "/usr/lib/libpython3.12.so")],
        threads=[wire.thread(i, 100 + i, f"thread {i}") for i in range(1, 4)],
        traces=[wire.trace(i, path, rng.choice(verdicts)) for i, path in enumerate(paths, 1)],
        intervals=rows,
    )
    table = named(profile, names)
    n = profile.n_addresses
    for _ in range(n):
        lost = [Frame(each, 2) for each in rng.choices(native, k=rng.randint(1, 2))]
        table.set_lost([(rng.randrange(n), rng.randrange(n), lost)])
    table.set_kernel([(rng.randrange(n), POLL)])
    return profile, table


def naive_filtered(
    profile: Profile, table: SymbolTable, clock: Clock, frames: FrameFilter
) -> dict[tuple[Function, ...], int]:
    """Stacks, root first → their own weight: filtered one stack at a time."""
    trie = profile.trie()
    leaves = profile.leaf_weights(clock)
    module_ids, is_eval = profile.addresses()[0].tolist(), profile.eval_addresses().tolist()
    interpreters = {module_ids[at] for at, runs in enumerate(is_eval) if runs}
    found: Counter[tuple[Function, ...]] = Counter()
    for node, sysno, weight in zip(
        leaves.node.tolist(), leaves.sysno.tolist(), leaves.weight.tolist(), strict=True
    ):
        if sysno < 0 and node > stacks.TRUNCATED:
            sysno = table.kernel().get(int(trie.address[node]), -1)
        path: list[tuple[int, Function]] = []  # leaf first; address id, -1 for a lost frame
        while node > stacks.TRUNCATED:
            address, caller = int(trie.address[node]), int(trie.address[trie.parent[node]])
            path += [(address, each.function) for each in reversed(table.frames(address))]
            if caller >= 0:
                path += [(-1, each.function) for each in reversed(table.lost(caller, address))]
            node = int(trie.parent[node])
        has_python = any(at >= 0 and module_ids[at] == MANAGED for at, _ in path)

        def shows(at: int, function: Function, has_python: bool = has_python) -> bool:
            is_managed = at >= 0 and module_ids[at] == MANAGED
            if frames.language is Language.NATIVE:
                return not is_managed
            if frames.language is Language.PYTHON:
                return is_managed
            if not has_python or frames.plumbing or is_managed:
                return True
            is_nameless = function.kind is FrameKind.UNKNOWN and module_ids[at] in interpreters
            return not (at >= 0 and is_eval[at]) and not is_nameless and not is_plumbing(function)

        kept = [function for at, function in path if shows(at, function)]
        if path and not kept and sysno < 0 and frames.language is Language.NATIVE:
            kept = [path[0][1]]
        if sysno >= 0:
            kept.insert(0, own_frames.syscall_function(sysno))
        if node != stacks.ROOT:
            kept.append(own_frames.SYNTHETIC[node])
        if path and not has_python and frames.language is Language.PYTHON:
            kept.append(own_frames.NO_PYTHON_FUNCTION)
        found[tuple(reversed(kept))] += weight
    return {path: weight for path, weight in found.items() if weight}
