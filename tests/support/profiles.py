"""A small profile with names, and a naive call tree, for tests of what is built from profiles."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import wire
from flametap.linux.syscalls import KERNEL
from flametap.model import Clock, Frame, FrameKind, Function, Verdict
from flametap.recording.names.table import SymbolTable
from flametap.recording.profile.store import Profile
from flametap.tree.calltree import CallTree
from flametap.wire.decoder import Decoder

MAIN = Function("main", "prog", "main.c")
WORK = Function("work", "prog", "work.c")
INLINED = Function("clamp", "prog", "clamp.h", FrameKind.INLINED)
WAIT = Function("epoll_wait", "libc.so.6")

MAIN_ADDR, WORK_ADDR, WORK_ADDR_2, WAIT_ADDR, UNNAMED_ADDR = (
    wire.frame(1, 0x1000 + 0x10 * i) for i in range(5)
)
NAMES: dict[int, list[Frame]] = {
    MAIN_ADDR: [Frame(MAIN, 10)],
    WORK_ADDR: [Frame(WORK, 20), Frame(INLINED, 3)],
    WORK_ADDR_2: [Frame(WORK, 25, "work.inc")],
    WAIT_ADDR: [Frame(WAIT, 0)],
}
EPOLL_WAIT = 232


def apply(profile: Profile, now_ns: int, **sections: Any) -> None:
    """Encode a batch and give it to the profile."""
    for batch in Decoder().feed(wire.batch(now_ns, **sections)):
        profile.apply(batch)


def name_addresses(profile: Profile, table: SymbolTable) -> None:
    """Give all addresses of the profile that have names in NAMES these names."""
    for address_id, frame in profile.news().addresses:
        frames = NAMES.get(wire.frame(frame.module_id, frame.addr))
        if frames:
            table.set(address_id, frames)


def small_profile() -> tuple[Profile, SymbolTable]:
    """Two threads; every kind of frame there is; weights that do not round evenly.

    CPU, in nanoseconds::

        main (101)  main → work → clamp          1 500
                    main → work (work.inc:25)    2 300
                    main → prog+0x1040             700
                    [unattributed]                 400
                    [truncated] → work           1 100
        pool;1 (102)  main → work → clamp       10 000
                    and 5 000 000 ns parked in epoll_wait
    """
    profile = Profile()
    apply(
        profile,
        9_000_000,
        modules=[wire.module(1, "/opt/prog")],
        threads=[wire.thread(1, 101, "main"), wire.thread(2, 102, "pool;1")],
        traces=[
            wire.trace(1, [WORK_ADDR, MAIN_ADDR]),
            wire.trace(2, [WORK_ADDR_2, MAIN_ADDR]),
            wire.trace(3, [UNNAMED_ADDR, MAIN_ADDR]),
            wire.trace(4, [WORK_ADDR_2], Verdict.NO_UNWIND_INFO, fault_module=1),
            wire.trace(5, [WAIT_ADDR, MAIN_ADDR]),
        ],
        intervals=[
            wire.interval(1, 1, 1_000_000, 2_000, 1_500),
            wire.interval(1, 2, 1_002_000, 2_300, 2_300),
            wire.interval(1, 3, 1_004_300, 700, 700),
            wire.interval(1, 0, 1_005_000, 0, 400),
            wire.interval(1, 4, 1_005_000, 1_100, 1_100),
            wire.interval(2, 1, 1_000_000, 10_000, 10_000),
            wire.interval(2, 5, 1_010_000, 5_000_000, 0, wire.PARKED, sysno=EPOLL_WAIT),
        ],
    )
    table = SymbolTable(profile.locate)
    name_addresses(profile, table)
    return profile, table


# The stacks of ``small_profile``'s threads by the CPU clock, in order of time → nanoseconds.
SMALL_MAIN = [
    ("main;work;clamp", 1_500),
    ("main;work", 2_300),
    ("main;prog+0x1040", 700),
    ("[unattributed]", 400),
    ("[truncated];work", 1_100),
]
SMALL_POOL = [("main;work;clamp", 10_000)]


def random_profile(rng: random.Random, traces: int = 100) -> tuple[Profile, SymbolTable]:
    """Many stacks over few functions, recursion, inlining and tail calls among them; half of them
    named.
    """
    profile = Profile()
    addresses = [wire.frame(1, 0x1000 + i) for i in range(40)]
    verdicts = (Verdict.COMPLETE, Verdict.COMPLETE, Verdict.GUESSED, Verdict.BAD_MEMORY)
    stacks = [rng.choices(addresses, k=rng.randint(0, 15)) for _ in range(traces)]
    rows = [
        wire.interval(
            rng.randint(1, 5),
            rng.randint(0, traces),
            1000 * i,
            rng.randint(0, 10**9),
            rng.randint(0, 10**9),
            rng.choice((wire.RUNNING, wire.PARKED)),
            sysno=rng.choice((-1, 0, 1, EPOLL_WAIT)),
        )
        for i in range(1, 2_000)
    ]
    apply(
        profile,
        10**7,
        modules=[wire.module(1, "/opt/prog")],
        threads=[wire.thread(i, 100 + i, f"thread {i}") for i in range(1, 6)],
        traces=[wire.trace(i, s, rng.choice(verdicts)) for i, s in enumerate(stacks, 1)],
        intervals=rows,
    )
    table = SymbolTable(profile.locate)
    functions = [Function(f"f{i}", "prog", kind=FrameKind.NATIVE) for i in range(8)]
    for address_id, _ in profile.news().addresses:
        if rng.random() < 0.5:
            chain = rng.choices(functions, k=rng.randint(1, 3))
            table.set(address_id, [random_frame(f, rng) for f in chain])
    table.set_kernel((rng.randrange(profile.n_addresses), call) for call in (0, EPOLL_WAIT, KERNEL))
    lost = [Function(f"f{i}", "prog", kind=FrameKind.TAIL_CALL) for i in range(3)]
    n = profile.n_addresses
    for _ in range(n * n // 8):
        frames = [random_frame(f, rng) for f in rng.choices(lost, k=rng.randint(1, 2))]
        table.set_lost([(rng.randrange(n), rng.randrange(n), frames)])
    return profile, table


def random_frame(function: Function, rng: random.Random) -> Frame:
    """A frame somewhere in a function, which may take in lines of another file."""
    return Frame(function, rng.randint(0, 50), rng.choice(("", "a.inc", "b.inc")))


def stacks_of_tree(tree: CallTree) -> dict[tuple[Function, ...], int]:
    """Stacks, root first → their own weight."""
    paths: list[tuple[Function, ...]] = [()]
    found: dict[tuple[Function, ...], int] = {}
    for node in range(len(tree.parent)):
        if node:
            function = tree.functions[int(tree.function[node])]
            paths.append((*paths[int(tree.parent[node])], function))
        if tree.self_ns[node]:
            found[paths[node]] = int(tree.self_ns[node])
    return found


def naive_stacks(
    profile: Profile, table: SymbolTable, clock: Clock, by_thread: bool
) -> dict[tuple[Function, ...], int]:
    """The same, put together one stack at a time."""
    from flametap.recording.profile import stacks
    from flametap.tree import own_frames

    trie = profile.trie()
    leaves = profile.leaf_weights(clock)
    found: Counter[tuple[Function, ...]] = Counter()
    for thread_id, node, sysno, weight in zip(
        leaves.thread_id.tolist(),
        leaves.node.tolist(),
        leaves.sysno.tolist(),
        leaves.weight.tolist(),
        strict=True,
    ):
        if sysno < 0 and node > stacks.TRUNCATED:
            sysno = table.kernel().get(int(trie.address[node]), -1)
        path = [own_frames.syscall_function(sysno)] if sysno >= 0 else []
        while node != stacks.ROOT:
            if node in own_frames.SYNTHETIC:
                path.append(own_frames.SYNTHETIC[node])
            else:
                address = int(trie.address[node])
                path += [f.function for f in reversed(table.frames(address))]
                caller = int(trie.address[trie.parent[node]])
                if caller >= 0:
                    path += [f.function for f in reversed(table.lost(caller, address))]
            node = int(trie.parent[node])
        if by_thread:
            path.append(own_frames.thread_function(profile.threads[thread_id]))
        found[tuple(reversed(path))] += weight
    return dict(found)
