"""Lines and instructions of a real program from a made-up profile; and files that spoil it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import wire
from flametap.code import code_view
from flametap.code.code_view import CodeView
from flametap.code.live_code import LiveCode
from flametap.model import Clock, Frame, FrameKind, Function, RawFrame
from flametap.recording.names.table import SymbolTable
from flametap.recording.profile.store import Profile
from flametap.recording.recording import Recording
from flametap.symbols.symbolizer import Symbolizer
from flametap.tree.selection import Selection
from objects import compile_object, module_of, open_elf, symbols
from profiles import WORK_ADDR, WORK_ADDR_2, apply, small_profile

pytestmark = pytest.mark.needs("gcc")

SOURCE = """#include <unistd.h>
static inline __attribute__((always_inline)) int inner(int x) { volatile int y = x; return y + 1; }
__attribute__((noinline)) int outer(int x) {
    return inner(x) * 2;
}
int main(int argc, char **argv) {
    volatile int n = argc + !argv;
    return outer(n);
}
"""
OUTER_NS, MAIN_NS, JIT_NS = 700, 200, 100


class Recorded:
    """outer() was met at its first instruction and called by main(), which was met itself."""

    def __init__(self, folder: Path) -> None:
        self.program = compile_object(folder, SOURCE, "-O1", "-g", "-fcf-protection=none")
        places = symbols(self.program)
        outer, main = places["outer"][0], places["main"][0]
        code = open_elf(self.program).at_addr(main, places["main"][1])
        self.call = main + code.index(b"\xe8")
        self.profile = Profile()
        apply(
            self.profile,
            10**6,
            modules=[wire.module(1, str(self.program))],
            threads=[wire.thread(1, 101, "main")],
            traces=[
                # A caller's address is the one before where it returns to.
                wire.trace(1, [wire.frame(1, outer), wire.frame(1, self.call + 4)]),
                wire.trace(2, [wire.frame(1, main)]),
                wire.trace(3, [wire.runtime_frame(0x7F0000001000), wire.frame(1, self.call + 4)]),
            ],
            intervals=[
                wire.interval(1, 1, 1_000, OUTER_NS, OUTER_NS),
                wire.interval(1, 2, 2_000, MAIN_NS, MAIN_NS),
                wire.interval(1, 3, 3_000, JIT_NS, JIT_NS),
            ],
        )
        self.table = SymbolTable(self.profile.locate)
        self.symbolizer = Symbolizer(self.table, None, cache_dir=folder / "cache")
        self.symbolizer.add_module(module_of(self.program))
        self.symbolizer.submit_many(self.profile.news().addresses)
        assert self.symbolizer.wait_idle(30)
        self.view = CodeView(
            Recording(self.profile, self.table, code=LiveCode(self.profile, self.symbolizer))
        )

    def function(self, name: str) -> Function:
        return next(f for f in self.table.functions if f.name == name and f.file)

    def id_of(self, name: str) -> int:
        return self.table.function_id(self.function(name))


@pytest.fixture
def recorded(tmp_path: Path) -> Iterator[Recorded]:
    recorded = Recorded(tmp_path)
    yield recorded
    recorded.symbolizer.close()


def test_callers_weigh_at_their_call(recorded: Recorded) -> None:
    code = recorded.view.instructions(recorded.id_of("main"), Selection(Clock.CPU))
    assert code.notes == []
    rows = {row.addr: row for row in code.rows if row.total_ns}
    assert {addr: row.self_ns for addr, row in rows.items() if row.self_ns} == {
        symbols(recorded.program)["main"][0]: MAIN_NS
    }
    call = rows[recorded.call]
    assert (call.total_ns, call.target) == (OUTER_NS + JIT_NS, "outer")
    assert (code.self_ns, code.total_ns) == (MAIN_NS, OUTER_NS + MAIN_NS + JIT_NS)


def test_an_inlined_function_has_its_own_instructions_only(recorded: Recorded) -> None:
    assert recorded.function("inner").kind is FrameKind.INLINED
    code = recorded.view.instructions(recorded.id_of("inner"), Selection(Clock.CPU))
    outer = recorded.view.instructions(recorded.id_of("outer"), Selection(Clock.CPU))
    assert 0 < len(code.rows) < len(outer.rows)
    assert {row.inlined for row in code.rows} == {"inner"}
    assert code.self_ns == outer.self_ns == OUTER_NS
    lines = recorded.view.lines(recorded.id_of("outer"), Selection(Clock.CPU))
    assert [(each.line, each.self_ns, each.total_ns) for each in lines.lines if each.total_ns] == [
        (4, 0, OUTER_NS)
    ]


def test_a_function_shown_before_its_lines_were_read_is_found(recorded: Recorded) -> None:
    # As the symbol table named it, before debug information said where it is.
    early = recorded.table.function_id(Function("outer", recorded.program.name))
    lines = recorded.view.lines(early, Selection(Clock.CPU))
    assert (lines.file, lines.total_ns) == (recorded.function("outer").file, OUTER_NS)
    assert recorded.view.instructions(early, Selection(Clock.CPU)).self_ns == OUTER_NS
    gone = recorded.table.function_id(Function("gone", "nowhere"))
    assert recorded.view.lines(gone, Selection(Clock.CPU)).notes == [code_view.NOT_THERE]
    assert recorded.view.instructions(gone, Selection(Clock.CPU)).notes == [code_view.NOT_THERE]


def test_generated_code_and_tail_calls_have_none(recorded: Recorded) -> None:
    modules = [function.module for function in recorded.table.functions]
    generated = modules.index("[jit]")
    assert recorded.view.instructions(generated, Selection(Clock.CPU)).notes == [
        code_view.GENERATED
    ]
    jumped = Function("jumped", recorded.program.name, "a.c", FrameKind.TAIL_CALL)
    ids = {frame: number for number, frame in recorded.profile.news().addresses}
    caller = ids[RawFrame(1, recorded.call + 4)]
    callee = ids[RawFrame(1, symbols(recorded.program)["outer"][0])]
    recorded.table.set_lost([(caller, callee, [Frame(jumped, 9)])])
    jumped_id = recorded.table.function_id(jumped)
    lines = recorded.view.lines(jumped_id, Selection(Clock.CPU))
    assert [(each.line, each.self_ns, each.total_ns) for each in lines.lines] == [(9, 0, OUTER_NS)]
    assert "left no frame" in recorded.view.instructions(jumped_id, Selection(Clock.CPU)).notes[0]


def test_source_that_is_gone_leaves_the_lines(recorded: Recorded) -> None:
    path = recorded.program.with_suffix(".c")
    path.unlink()
    found = recorded.view.lines(recorded.id_of("main"), Selection(Clock.CPU))
    assert [each.line for each in found.lines] == [6, 8]
    assert {each.text for each in found.lines} == {None}
    assert "no such file" in found.notes[0]
    assert found.self_ns == MAIN_NS == sum(each.self_ns for each in found.lines)
    os.mkfifo(path)
    assert (
        "not a regular file"
        in recorded.view.lines(recorded.id_of("main"), Selection(Clock.CPU)).notes[0]
    )
    path.unlink()
    path.write_text("one line\n")
    notes = recorded.view.lines(recorded.id_of("main"), Selection(Clock.CPU)).notes
    assert any("shorter" in note for note in notes)


def test_a_program_truncated_meanwhile_is_a_note(recorded: Recorded) -> None:
    os.truncate(recorded.program, 0)
    code = recorded.view.instructions(recorded.id_of("main"), Selection(Clock.CPU))
    assert code.rows == []
    assert code.notes[0].startswith("the machine code cannot be read")


def test_of_a_long_function_only_what_weighs_is_shown(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = recorded.view.instructions(recorded.id_of("main"), Selection(Clock.CPU))
    monkeypatch.setattr(code_view, "MAX_ROWS", 4)
    monkeypatch.setattr(code_view, "CONTEXT_ROWS", 0)
    cut = recorded.view.instructions(recorded.id_of("main"), Selection(Clock.CPU))
    assert cut.rows == [row for row in whole.rows if row.total_ns]
    assert "left out" in cut.notes[0]
    assert (cut.self_ns, cut.total_ns) == (whole.self_ns, whole.total_ns)


def test_nothing_attached_yet() -> None:
    profile = Profile()
    table = SymbolTable(profile.locate)
    view = CodeView(Recording(profile, table))
    assert view.symbols(Selection(Clock.CPU)).modules == []
    assert (
        view.lines(table.function_id(Function("f", "m", "f.c")), Selection(Clock.CPU)).lines == []
    )
    assert (
        view.instructions(table.function_id(Function("f", "m")), Selection(Clock.WALL)).rows == []
    )


def test_lines_of_a_function_that_takes_in_a_file(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    profile, table = small_profile()
    own, other = tmp_path / "own.c", tmp_path / "other.inc"
    own.write_text("".join(f"own {line}\n" for line in range(1, 100)))
    other.write_text("".join(f"other {line}\n" for line in range(1, 100)))
    work = Function("work", "prog", str(own))
    ids = {wire.frame(1, frame.addr): number for number, frame in profile.news().addresses}
    table.set(ids[WORK_ADDR], [Frame(work, 20)])
    table.set(ids[WORK_ADDR_2], [Frame(work, 20, str(other))])
    symbolizer = Symbolizer(table, None, cache_dir=tmp_path / "cache")
    request.addfinalizer(symbolizer.close)
    view = CodeView(Recording(profile, table, code=LiveCode(profile, symbolizer)))
    found = view.lines(table.function_id(work), Selection(Clock.CPU))
    assert found.file == str(own)
    heavy = [(each.file, each.line, each.text) for each in found.lines if each.total_ns]
    assert heavy == [(str(own), 20, "own 20"), (str(other), 20, "other 20")]
    assert sum(each.self_ns for each in found.lines) == found.self_ns
    other.unlink()
    found = view.lines(table.function_id(work), Selection(Clock.CPU))
    assert {each.text for each in found.lines if each.file == str(other)} == {None}
    assert [note.partition(":")[0] for note in found.notes] == ["other.inc"]
