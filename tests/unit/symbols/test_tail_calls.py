"""Functions that left no frame: call sites of gcc's and clang's debug information, the rule that
nothing but the only way is told, and the way into the table of names.
"""

from __future__ import annotations

import random
import re
import subprocess
from array import array
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flametap.model import FrameKind, RawFrame
from flametap.recording.names.inline_chains import LinesError
from flametap.recording.names.table import SymbolTable
from flametap.symbols.debuginfo.build_callgraph import build_calls
from flametap.symbols.debuginfo.job import DebugJob
from flametap.symbols.debuginfo.reader import DebugInfo
from flametap.symbols.dwarf.tail_call_graph import ELSEWHERE, UNKNOWN, CallGraph, pack
from flametap.symbols.object.call_target import UNKNOWN_GOAL, call_goal
from flametap.symbols.symbolizer import Symbolizer
from objects import module_of, run, symbols

TARGET = Path(__file__).resolve().parents[2] / "targets" / "tailcalls.c"
WAIT_S = 120


def build(folder: Path, compiler: str, *flags: str) -> Path:
    output = folder / "tailcalls"
    warnings = ("-Wno-unknown-attributes", "-Wl,--build-id=sha1")
    run([compiler, str(TARGET), "-o", str(output), "-g", "-O2", *warnings, *flags])
    return output


@cache
def symbols_of(program: Path) -> dict[str, tuple[int, int]]:
    return symbols(program)


@cache
def calls_in(program: Path, function: str) -> list[tuple[int, int]]:
    """(return address, address called) of the direct calls that a function makes."""
    start, size = symbols_of(program)[function]
    span = (f"--start-address={start}", f"--stop-address={start + size}")
    text = run(["objdump", "-d", *span, str(program)])
    found = re.findall(r"^ +([0-9a-f]+):\s((?:[0-9a-f]{2} )+)\s*call +([0-9a-f]+)", text, re.M)
    return [(int(a, 16) + len(code.split()), int(to, 16)) for a, code, to in found]


def graph_of(program: Path) -> CallGraph:
    return CallGraph(build_calls(DebugJob(debug=str(program), base_addr=0)).payload)


def lost(graph: CallGraph, program: Path, called: str, callee: str) -> list[str] | None:
    """Names of the functions between main's call of one function and another one's frame."""
    at = symbols_of(program)
    (place,) = (addr for addr, to in calls_in(program, "main") if to == at[called][0])
    callee_addr = at[callee][0] + at[callee][1] // 2
    (chain,) = graph.lost(np.array([place - 1]), np.array([callee_addr]))
    names = {start: name for name, (start, _) in at.items()}
    return [names[call.entry] for call in chain]


@pytest.mark.needs("readelf")
@pytest.mark.parametrize("version", ["4", "5"])
@pytest.mark.parametrize(
    "compiler",
    [
        pytest.param("gcc", marks=pytest.mark.needs("gcc")),
        pytest.param("clang", marks=pytest.mark.needs("clang")),
    ],
)
def test_the_only_way_is_told_and_no_other(compiler: str, version: str, tmp_path: Path) -> None:
    program = build(tmp_path, compiler, f"-gdwarf-{version}")
    graph = graph_of(program)
    assert lost(graph, program, "first", "last") == ["first", "second"]
    assert lost(graph, program, "first", "second") == ["first"]
    assert lost(graph, program, "first", "first") == []
    assert lost(graph, program, "last", "last") == []
    assert lost(graph, program, "either", "last") == [], "two ways"
    assert lost(graph, program, "either", "left") == ["either"]
    assert lost(graph, program, "through", "last") == [], "by a pointer, perhaps"
    assert lost(graph, program, "first", "left") == [], "no way"


@pytest.mark.needs("gcc", "readelf")
def test_compressed_sections_and_split_off_debug_files(tmp_path: Path) -> None:
    program = build(tmp_path, "gcc", "-gz=zlib")
    assert lost(graph_of(program), program, "first", "last") == ["first", "second"]
    debug = tmp_path / "debug"
    run(["objcopy", "--only-keep-debug", str(program), str(debug)])
    assert lost(graph_of(debug), program, "first", "last") == ["first", "second"]


@pytest.mark.needs("gcc", "readelf")
def test_code_of_which_not_all_calls_are_told(tmp_path: Path) -> None:
    """Without optimisation there are no call sites, and nothing to be told."""
    program = tmp_path / "plain"
    run(["gcc", str(TARGET), "-o", str(program), "-g", "-O0"])
    graph = graph_of(program)
    assert lost(graph, program, "first", "last") == []


UNTOLD = """
template <class T> struct Way { static void go(unsigned long n); };
extern "C" { extern volatile unsigned turn; void last(unsigned long n); }
#ifdef SECOND
template <class T> __attribute__((noinline)) void Way<T>::go(unsigned long n) { turn++; last(n); }
template struct Way<int>;
volatile unsigned turn;
void last(unsigned long n) { while (n--) turn++; }
#else
extern template struct Way<int>;
extern "C" {
__attribute__((noinline)) void other(unsigned long n) { turn++; last(n); }
__attribute__((noinline)) void either(unsigned long n)
{
    if (turn & 1) other(n); else Way<int>::go(n);
}
}
int main() { either(9); turn++; other(9); turn++; return 0; }
#endif
"""


@pytest.mark.needs("clang", "readelf")
def test_clang_leaves_out_calls_and_says_that_all_are_there(tmp_path: Path) -> None:
    source, program = tmp_path / "untold.cc", tmp_path / "untold"
    source.write_text(UNTOLD)
    for part in ("FIRST", "SECOND"):
        run(["clang++", "-g", "-O2", "-c", f"-D{part}", str(source), "-o", f"{program}.{part}"])
    run(["clang++", f"{program}.FIRST", f"{program}.SECOND", "-o", str(program)])
    graph = graph_of(program)
    assert lost(graph, program, "other", "last") == ["other"]
    assert lost(graph, program, "either", "last") == [], "by Way<int>::go, of which nothing is said"


@pytest.mark.needs("gcc", "gdb", "readelf")
def test_gdb_sees_the_same_frames(tmp_path: Path) -> None:
    program = build(tmp_path, "gcc")
    graph = graph_of(program)
    script = [
        "set debuginfod enabled off",
        "break last",
        "run < /dev/zero",
        "bt -frame-arguments none",
    ]
    commands = [part for line in script for part in ("-ex", line)]
    done = subprocess.run(
        ["gdb", "-nx", "-batch", *commands, str(program)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    names = re.findall(r"^#\d+ .*?(\w+) \(", done.stdout, re.M)
    if names[-1:] != ["main"]:
        pytest.skip(f"gdb cannot run programs here: {done.stdout[-200:]} {done.stderr[-200:]}")
    assert names == ["last", *reversed(lost(graph, program, "first", "last") or []), "main"]


def table(**changed: list[int]) -> bytes:
    """Functions 0 … 3 of 16 bytes at 0x1000 …; one call, to goal 1, returns to 0x2000. By default
    0 → 1 → 2 by tail calls.
    """
    arrays = {
        "entries": [0x1000, 0x1010, 0x1020, 0x1030],
        "is_complete": [1, 1, 1, 1],
        "range_starts": [0x1000, 0x1010, 0x1020, 0x1030],
        "range_ends": [0x1010, 0x1020, 0x1030, 0x1040],
        "range_functions": [0, 1, 2, 3],
        "return_addrs": [0x2000],
        "call_goals": [1],
        "tail_functions": [0, 1],
        "tail_addrs": [0x1005, 0x1015],
        "tail_goals": [2, 3],
        "goal_first": [0, 1, 2, 3, 4, 5, 6],
        "goal_members": [UNKNOWN, 0, 1, 2, 3, ELSEWHERE],
    } | changed
    kinds = {"is_complete": "B", "goal_members": "i"} | dict.fromkeys(
        ("entries", "range_starts", "range_ends", "return_addrs", "tail_addrs"), "Q"
    )
    return pack(**{name: array(kinds.get(name, "I"), arrays[name]) for name in arrays})


def way(payload: bytes, callee: int = 0x1028, caller: int = 0x1FFF) -> list[tuple[int, int]]:
    (chain,) = CallGraph(payload).lost(np.array([caller]), np.array([callee]))
    return [(call.entry, call.jump_addr) for call in chain]


def test_the_rule() -> None:
    assert way(table()) == [(0x1000, 0x1005), (0x1010, 0x1015)]
    assert way(table(), callee=0x1018) == [(0x1000, 0x1005)]
    assert way(table(), callee=0x1008) == []
    assert way(table(), callee=0x1038) == []
    assert way(table(), callee=0x5000) == []
    assert way(table(), caller=0x1FFE) == []
    # To other modules, and back to a function on the way: still the only one.
    more = {"tail_functions": [0, 0, 1], "tail_addrs": [0x1005, 0x1006, 0x1015]}
    assert way(table(**more, tail_goals=[2, 5, 3])) == [(0x1000, 0x1005), (0x1010, 0x1015)]
    back = {"tail_functions": [0, 1, 1], "tail_addrs": [0x1005, 0x1014, 0x1015]}
    assert way(table(**back, tail_goals=[2, 1, 3])) == [(0x1000, 0x1005), (0x1010, 0x1015)]
    # Two jumps to the same function: which of them is not known.
    assert way(table(**more, tail_goals=[2, 2, 3])) == [(0x1000, 0), (0x1010, 0x1015)]
    # A second way; a jump through a pointer; calls that may not all be told; a call by a pointer.
    assert way(table(**more, tail_goals=[2, 3, 3])) == []
    assert way(table(**more, tail_goals=[2, 0, 3])) == []
    assert way(table(is_complete=[1, 0, 1, 1])) == []
    assert way(table(is_complete=[1, 1, 0, 1])) == [(0x1000, 0x1005), (0x1010, 0x1015)]
    assert way(table(call_goals=[0])) == []
    assert way(table(call_goals=[5])) == []


def test_copies_of_a_function_share_its_call_sites() -> None:
    """``f`` and ``f.constprop.0`` are one to the debug information: if the way leads from one of
    them only, that is the one.
    """
    first = [0, 1, 3, 4, 5, 6, 7]
    members = [UNKNOWN, 0, 3, 1, 2, 3, ELSEWHERE]
    both = {"goal_first": first, "goal_members": members}
    assert way(table(**both)) == [(0x1000, 0x1005), (0x1010, 0x1015)]
    assert way(table(**both), callee=0x1038) == []
    ambiguous = {"tail_functions": [0, 1, 3], "tail_addrs": [0x1005, 0x1015, 0x1035]}
    assert way(table(**both, **ambiguous, tail_goals=[2, 3, 3])) == []


def test_damaged_tables_are_refused() -> None:
    whole = table()
    generator = random.Random(3)
    for end in range(0, len(whole), 7):
        with pytest.raises(LinesError):
            CallGraph(whole[:end])
    for _ in range(500):
        damaged = bytearray(whole)
        damaged[generator.randrange(8, len(whole))] = generator.randrange(256)
        try:
            graph = CallGraph(bytes(damaged))
        except LinesError:
            continue
        graph.lost(np.array([0x1FFF] * 4), np.array([0x1008, 0x1018, 0x1028, 0x1038]))


@pytest.mark.needs("gcc", "readelf")
def test_damaged_debug_information_gives_a_table_or_an_error(tmp_path: Path) -> None:
    program = build(tmp_path, "gcc")
    data = program.read_bytes()
    text = run(["readelf", "-SW", str(program)])
    spans = re.findall(r"\.debug_(?:info|abbrev|rnglists|str)\s+PROGBITS\s+\w+ (\w+) (\w+)", text)
    places = [i for at, size in spans for i in range(int(at, 16), int(at, 16) + int(size, 16))]
    generator = random.Random(4)
    damaged_file = tmp_path / "damaged"
    for _ in range(200):
        damaged = bytearray(data)
        for _ in range(generator.randrange(1, 6)):
            damaged[generator.choice(places)] = generator.randrange(256)
        damaged_file.write_bytes(damaged)
        try:
            graph_of(damaged_file)
        except LinesError:
            continue


@pytest.mark.needs("gcc", "readelf")
def test_frames_come_into_the_table_and_the_next_session_has_them_from_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = build(tmp_path, "gcc")
    at = symbols_of(program)
    (place,) = (a for a, to in calls_in(program, "main") if to == at["first"][0])

    def names_between() -> list[tuple[str, FrameKind, bool]]:
        names = SymbolTable()
        symbolizer = Symbolizer(names, None, cache_dir=tmp_path / "cache")
        try:
            one = np.array([1])
            symbolizer.submit_calls(
                one, one * 10, one * 11, np.array([place - 1]), np.array([at["last"][0] + 3])
            )
            symbolizer.add_module(module_of(program))
            symbolizer.submit_many([(10, RawFrame(1, place - 1))])
            symbolizer.submit_many([(11, RawFrame(1, at["last"][0] + 3))])
            assert symbolizer.wait_idle(WAIT_S)
        finally:
            symbolizer.close()
        return [(f.function.name, f.function.kind, f.line > 0) for f in names.lost(10, 11)]

    expected = [("first", FrameKind.TAIL_CALL, True), ("second", FrameKind.TAIL_CALL, True)]
    assert names_between() == expected
    monkeypatch.setattr("flametap.symbols.debuginfo.reader.Worker.build", _no_worker)
    assert names_between() == expected


@pytest.mark.needs("gcc", "readelf")
def test_calls_are_not_read_where_each_call_leads_to_the_function_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = build(tmp_path, "gcc")
    last = symbols(program)["last"][0]
    places = {to: addr for addr, to in calls_in(program, "main")}
    read = []
    whole = DebugInfo.read_calls

    def reading(debug_info: DebugInfo, *of: Any) -> CallGraph:
        read.append(of)
        return whole(debug_info, *of)

    monkeypatch.setattr(DebugInfo, "read_calls", reading)
    symbolizer = Symbolizer(SymbolTable(), None, cache_dir=tmp_path / "cache")
    try:
        symbolizer.add_module(module_of(program))
        symbolizer.submit_many([(1, RawFrame(1, last))])
        for number, called in enumerate((last, symbols(program)["either"][0])):
            one = np.array([1])
            symbolizer.submit_calls(
                one, one, one, np.array([places[called] - 1]), np.array([last + 5])
            )
            assert symbolizer.wait_idle(WAIT_S)
            assert len(read) == number
    finally:
        symbolizer.close()


@pytest.mark.parametrize(
    ("code", "goal"),
    [
        ("90 e8 10 00 00 00", 0x1010),
        ("90 e8 f0 ff ff ff", 0xFF0),
        ("ff 15 10 00 00 00", UNKNOWN_GOAL),  # through the linker's table
        ("90 90 90 90 ff d0", None),
        ("90 90 90 ff 50 18", None),
        ("90 e8", None),
    ],
)
def test_where_a_call_leads(code: str, goal: int | None) -> None:
    assert call_goal(bytes.fromhex(code), 0x1000) == goal


def _no_worker(*_: object) -> Callable[[], None]:
    raise AssertionError("it is in the cache")
