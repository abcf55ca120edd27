"""Weights per line, per address and per module, against a count of one stack at a time."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from itertools import pairwise

import numpy as np
import pytest

import wire
from flametap.code.function_weights import address_weights, line_weights, places
from flametap.code.module_shares import module_shares
from flametap.code.node_weights import node_weights
from flametap.model import Clock, Frame, FrameKind, Function, RawFrame
from flametap.recording.names.table import SymbolTable
from flametap.recording.profile.store import Profile
from flametap.tree.selection import Selection
from profiles import INLINED, MAIN, WORK, apply, random_profile, small_profile

Key = tuple[int, int]


def stacks(profile: Profile, table: SymbolTable, clock: Clock) -> list[tuple[list[int], bool, int]]:
    """Address ids leaf first, whether it is in a system call, weight."""
    trie, kernel = profile.trie(), table.kernel()
    leaves = profile.leaf_weights(clock)
    found = []
    for node, sysno, weight in zip(
        leaves.node.tolist(), leaves.sysno.tolist(), leaves.weight.tolist(), strict=True
    ):
        path = []
        while node > 0:
            path.append(int(trie.address[node]))
            node = int(trie.parent[node])
        path = [each for each in path if each >= 0]
        found.append((path, sysno >= 0 or (path[:1] != [] and path[0] in kernel), weight))
    return found


Place = tuple[str, int]


def naive_lines(
    profile: Profile, table: SymbolTable, clock: Clock, function: Function
) -> tuple[dict[Place, list[int]], int, int]:
    """Other file and line → [self, total]; and self and total of the function."""
    lines: defaultdict[Place, list[int]] = defaultdict(lambda: [0, 0])
    own = total = 0
    frames_of = {a: table.frames(a) for a in range(profile.n_addresses)}
    for path, is_in_call, weight in stacks(profile, table, clock):
        if not path:
            continue
        last = frames_of[path[0]][-1]
        if last.function == function and not is_in_call:
            lines[last.other_file, last.line][0] += weight
            own += weight
        frames = [frame for address in path for frame in frames_of[address]]
        for callee, caller in pairwise(path):
            frames += table.lost(caller, callee)
        seen = {(f.other_file, f.line) for f in frames if f.function == function}
        for place in seen:
            lines[place][1] += weight
        total += weight * bool(seen)
    return {place: sums for place, sums in lines.items() if sums[1]}, own, total


@pytest.mark.parametrize("clock", Clock)
@pytest.mark.parametrize("seed", range(2))
def test_lines_equal_a_count_stack_by_stack(seed: int, clock: Clock) -> None:
    profile, table = random_profile(random.Random(seed))
    weights = node_weights(profile, table, Selection(clock))
    # Some that were named, recursive and inlined into themselves; and some stand-ins.
    functions = list(table.functions)
    lost = [each for each in functions if each.kind is FrameKind.TAIL_CALL]
    assert lost
    for function in functions[:9] + lost:
        expected, own, total = naive_lines(profile, table, clock, function)
        found = line_weights(weights, [table.function_id(function)])
        columns = zip(found.self_ns.tolist(), found.total_ns.tolist(), strict=True)
        numbers = list(zip(found.line_file.tolist(), found.line.tolist(), strict=True))
        at = [(table.line_files[file], line) for file, line in numbers]
        assert dict(zip(at, map(list, columns), strict=True)) == expected
        assert numbers == sorted(numbers)
        assert (found.function_self_ns, found.function_total_ns) == (own, total)
        assert sum(found.self_ns.tolist()) == own


@pytest.mark.parametrize("seed", range(2))
def test_addresses_equal_a_count_stack_by_stack(seed: int) -> None:
    profile, table = random_profile(random.Random(seed))
    weights = node_weights(profile, table, Selection(Clock.WALL))
    for function in table.functions[:9]:
        own: Counter[int] = Counter()
        total: Counter[int] = Counter()
        for path, waits, weight in stacks(profile, table, Clock.WALL):
            for address in set(path):
                if any(frame.function == function for frame in table.frames(address)):
                    total[address] += weight
                    own[address] += weight * (address == path[0] and not waits)
        raw = dict(profile.news().addresses)
        expected = {(raw[a].module_id, raw[a].addr): (own[a], total[a]) for a in total if total[a]}
        found = places(profile, weights, [table.function_id(function)])
        numbers = np.arange(len(found.address))
        self_ns, total_ns = address_weights(weights, found.address, numbers, len(numbers))
        at = zip(found.module_id.tolist(), found.addr.tolist(), strict=True)
        sums = zip(self_ns.tolist(), total_ns.tolist(), strict=True)
        assert dict(zip(at, sums, strict=True)) == expected
        assert total_ns.tolist() == found.total_ns.tolist()
        assert found.addr.tolist() == sorted(found.addr.tolist())


def test_lines_of_the_small_profile() -> None:
    profile, table = small_profile()
    weights = node_weights(profile, table, Selection(Clock.CPU))
    found = line_weights(weights, [table.function_id(WORK)])
    assert found.line.tolist() == [20, 25]
    assert [table.line_files[file] for file in found.line_file.tolist()] == ["", "work.inc"]
    assert found.self_ns.tolist() == [0, 2_300 + 1_100]  # at line 20 it is in clamp
    assert found.total_ns.tolist() == [11_500, 3_400]
    inlined = line_weights(weights, [table.function_id(INLINED)])
    assert (inlined.line.tolist(), inlined.self_ns.tolist()) == ([3], [11_500])
    of_one = node_weights(profile, table, Selection(Clock.CPU, frozenset([1])))
    assert line_weights(of_one, [table.function_id(WORK)]).total_ns.tolist() == [1500, 3400]


def test_a_wait_is_of_no_line_of_its_own() -> None:
    profile, table = small_profile()
    wall = node_weights(profile, table, Selection(Clock.WALL))
    found = line_weights(wall, [table.function_id(MAIN)])
    assert found.self_ns.tolist() == [0]
    assert found.function_total_ns >= 5_000_000


def test_a_function_nobody_called_weighs_nothing() -> None:
    profile, table = small_profile()
    weights = node_weights(profile, table, Selection(Clock.CPU))
    nobody = table.function_id(Function("nobody", "prog"))
    lines = line_weights(weights, [nobody])
    assert (len(lines.line), lines.function_self_ns, lines.function_total_ns) == (0, 0, 0)
    assert len(places(profile, weights, [nobody]).addr) == 0
    empty = Profile()
    of_nothing = node_weights(empty, SymbolTable(), Selection(Clock.CPU))
    assert of_nothing.sum_ns == 0
    assert len(line_weights(of_nothing, [0]).line) == 0
    assert module_shares(empty, SymbolTable(), of_nothing) == []


def modules_profile() -> tuple[Profile, SymbolTable]:
    """main (module 1) → lib (2) → main again (1) → code without a file (0)."""
    profile = Profile()
    main, again, lib = wire.frame(1, 0x1000), wire.frame(1, 0x1010), wire.frame(2, 0x2000)
    jit = 1 << 56 | 0x7F0000001000
    apply(
        profile,
        10**6,
        modules=[wire.module(1, "/opt/prog"), wire.module(2, "/opt/lib.so")],
        threads=[wire.thread(1, 101, "main")],
        traces=[
            wire.trace(1, [main]),
            wire.trace(2, [lib, main]),
            wire.trace(3, [again, lib, main]),
            wire.trace(4, [jit, again, lib, main]),
        ],
        intervals=[
            wire.interval(1, 1, 1_000, 100, 100),
            wire.interval(1, 2, 2_000, 20, 20),
            wire.interval(1, 3, 3_000, 3, 3),
            wire.interval(1, 4, 4_000, 4_000, 4_000),
            wire.interval(1, 0, 9_000, 0, 70_000),  # nobody saw that stack
        ],
    )
    table = SymbolTable(profile.locate)
    ids = {frame: number for number, frame in profile.news().addresses}
    table.set(ids[RawFrame(1, 0x1000)], [Frame(MAIN, 7)])
    table.set(ids[RawFrame(1, 0x1010)], [Frame(WORK)])
    unknown = Function("lib.so+0x2000", "lib.so", kind=FrameKind.UNKNOWN)
    table.set(ids[RawFrame(2, 0x2000)], [Frame(unknown)])
    return profile, table


def test_modules_hold_what_ends_in_them() -> None:
    profile, table = modules_profile()
    weights = node_weights(profile, table, Selection(Clock.CPU))
    shares = {share.module_id: share for share in module_shares(profile, table, weights)}
    assert [*shares] == [0, 1, 2]  # heaviest first
    prog, lib, jit = shares[1], shares[2], shares[0]
    assert (prog.self_ns, prog.named_ns, prog.lined_ns) == (103, 103, 100)
    assert prog.total_ns == 4_123  # twice on the stack, counted once
    assert (lib.self_ns, lib.named_ns, lib.lined_ns, lib.total_ns) == (20, 0, 0, 4_023)
    assert (jit.self_ns, jit.named_ns, jit.total_ns) == (4_000, 0, 4_000)
    assert sum(share.self_ns for share in shares.values()) == weights.sum_ns - 70_000


@pytest.mark.parametrize("clock", Clock)
def test_module_sums_equal_a_count_stack_by_stack(clock: Clock) -> None:
    profile, table = random_profile(random.Random(11))
    weights = node_weights(profile, table, Selection(clock))
    own = named = lined = total = 0
    for path, _, weight in stacks(profile, table, clock):
        if path:
            last = table.frames(path[0])[-1]
            own += weight
            named += weight * (last.function.kind is not FrameKind.UNKNOWN)
            lined += weight * (last.line > 0)
            total += weight
    (share,) = module_shares(profile, table, weights)
    assert (share.self_ns, share.named_ns, share.lined_ns, share.total_ns) == (
        *(own, named, lined),
        total,
    )


def test_a_group_of_addresses_counts_a_stack_once() -> None:
    profile, table = modules_profile()
    weights = node_weights(profile, table, Selection(Clock.CPU))
    ids = {frame: number for number, frame in profile.news().addresses}
    # Both addresses of the program are on the deepest stacks.
    both = np.array([ids[RawFrame(1, 0x1010)], ids[RawFrame(1, 0x1000)]])
    own, total = address_weights(weights, both, np.zeros(2, np.int64), 1)
    assert (own.tolist(), total.tolist()) == ([103], [4_123])
