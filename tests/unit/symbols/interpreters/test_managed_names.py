"""Names, files and lines of Python functions, from code objects as they are in memory."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

from flametap.linux.file_rights import ProcessUser
from flametap.linux.process_memory import ProcessMemory
from flametap.model import MANAGED, Frame, FrameKind, Function, RawFrame
from flametap.recording.names.table import SymbolTable
from flametap.symbols.interpreters.found import V8, FoundInterpreter
from flametap.symbols.interpreters.managed_names import ManagedNames
from flametap.symbols.interpreters.python.names import GONE
from flametap.symbols.interpreters.recipe import Recipe
from flametap.symbols.interpreters.search import find_interpreters
from flametap.symbols.locate.open_file import OURS, Root
from flametap.symbols.names.limits import LEFT_OUT, Budget, Budgets
from flametap.symbols.symbolizer import Symbolizer
from flametap.wire.abi import NO_POSITION, V8_CODE_IS_REGEXP, V8_KIND_SHIFT
from flametap.wire.events import Code, CodePart
from python_frames import Walker
from python_targets import SCRIPT, PythonTarget

TIMEOUT_S = 120.0
FOUND = FoundInterpreter(1, "CPython", "CPython 3.12.1", (3, 12), "/libpython", Recipe({}))
OLD = FoundInterpreter(2, "CPython", "CPython 3.9.1", (3, 9), "/libpython", Recipe({}))
# One unit of the first line, then one of each further line.
TABLE = bytes([0x80, 0, *([0x80 | 11 << 3, 0, 0] * 5)])


def code(
    code_id: int,
    name: str,
    file: str = "/srv/app/views.py",
    line: int = 10,
    *,
    qualified: str | None = None,
    recipe_id: int = 1,
) -> Code:
    texts = (name, name if qualified is None else qualified, file)
    parts = tuple(CodePart(text.encode("latin-1"), 1, False) for text in texts)
    return Code(code_id, recipe_id, False, (*parts, CodePart(TABLE, 1, False)), (line, 0))


def addr(code_id: int, position: int = 0) -> int:
    return position << 32 | code_id


class Names(ManagedNames):
    """Names with a table of their own, and two interpreters."""

    def __init__(self, budgets: Budgets | None = None) -> None:
        self.table = SymbolTable()
        super().__init__(self.table, (OURS,), budgets)
        self.set_interpreters([FOUND, OLD])

    def frame(self, address_id: int) -> Frame:
        """The one frame of an address."""
        (frame,) = self.table.frames(address_id)
        return frame


@pytest.fixture
def names() -> Iterator[Names]:
    made = Names()
    yield made
    made.close()


def test_function_has_name_short_path_file_and_line(names: Names) -> None:
    names.add_codes([code(1, "get", qualified="View.get")])
    names.submit([(0, addr(1, 2)), (1, addr(1, NO_POSITION))])
    function = Function("View.get", "app/views.py", "/srv/app/views.py", FrameKind.PYTHON)
    assert names.frame(0) == Frame(function, 12)
    assert names.frame(1) == Frame(function, 10)
    assert (names.pending, names.is_idle) == (0, True)


def test_addresses_wait_for_their_code(names: Names) -> None:
    names.submit([(0, addr(7)), (1, addr(7, 1)), (2, addr(8))])
    assert (names.pending, names.is_idle) == (3, True)
    assert not names.table.named(0)
    names.add_codes([code(7, "late")])
    assert names.pending == 1
    assert [names.frame(i).line for i in (0, 1)] == [10, 11]


def test_code_that_is_sent_twice_keeps_its_first_name(names: Names) -> None:
    names.add_codes([code(1, "first")])
    names.add_codes([code(1, "second")])
    names.submit([(0, addr(1))])
    assert names.frame(0).function.name == "first"


def test_code_that_has_gone_has_a_stand_in(names: Names) -> None:
    names.add_codes([Code(1, 1, True, (), (0, 0))])
    names.submit([(0, addr(1, 5))])
    assert names.frame(0) == Frame(Function(GONE, "", kind=FrameKind.SYNTHETIC))
    assert "1 functions had gone" in names.sources()[0].note


def test_javascript_gets_its_name_from_the_record_that_can_be_read(names: Names) -> None:
    engine = FoundInterpreter(3, V8, "V8 11.3.244", (0, 0), "/node", Recipe({}))
    names.set_interpreters([FOUND, OLD, engine])
    gone = Code(7, 3, True, (), (0, 0))
    names.submit([(0, addr(7))])
    # The second record may come before the first is read; both are answered together, or not.
    names.add_codes([gone, Code(7, 3, False, (), (V8_CODE_IS_REGEXP << V8_KIND_SHIFT, 0))])
    assert names.wait_idle(TIMEOUT_S)
    assert names.frame(0).function.name == "(regular expression)"


def test_equal_code_is_one_function_and_other_lines_are_another(names: Names) -> None:
    names.add_codes([code(1, "x"), code(2, "x"), code(3, "x", line=20)])
    names.submit([(i, addr(i)) for i in (1, 2, 3)])
    assert names.frame(1) == names.frame(2)
    assert names.frame(3).function.full_name == "x (line 20)"
    assert names.frame(3).function.name == "x"


def test_lambdas_show_their_line(names: Names) -> None:
    names.add_codes([code(1, "<lambda>", qualified="f.<locals>.<lambda>"), code(2, "<module>")])
    names.submit([(1, addr(1)), (2, addr(2))])
    assert names.frame(1).function.full_name == "f.<locals>.<lambda> (line 10)"
    assert names.frame(2).function.full_name == ""


def test_unknown_interpreter_gives_a_name_without_line(names: Names) -> None:
    names.add_codes([code(1, "f", recipe_id=9)])
    names.submit([(0, addr(1, 1))])
    assert (names.frame(0).function.name, names.frame(0).line) == ("f", 0)


def test_class_of_a_method_is_found_in_the_source(names: Names, tmp_path: Path) -> None:
    source = tmp_path / "old.py"
    source.write_text("class Shop:\n    def sell(self):\n        return 1\n\n\ndef top(): pass\n")
    names.add_codes(
        [
            code(1, "sell", str(source), 2, qualified="", recipe_id=2),
            code(2, "top", str(source), 6, qualified="", recipe_id=2),
            code(3, "gone", str(source), 5, qualified="", recipe_id=2),
            code(4, "f", str(tmp_path / "none.py"), 5, qualified="", recipe_id=2),
        ]
    )
    names.submit([(i, addr(i)) for i in (1, 2, 3, 4)])
    assert names.wait_idle(TIMEOUT_S)
    assert names.pending == 0
    found = [names.frame(i).function for i in (1, 2, 3, 4)]
    assert [f.name for f in found] == ["Shop.sell", "top", "gone", "f"]
    assert found[0].full_name == "Shop.sell (class found in the source file)"
    assert {f.full_name for f in found[1:]} == {""}


def test_names_have_a_budget() -> None:
    names = Names(Budgets(names=Budget(700)))
    names.add_codes([code(1, "a"), code(2, "b")])
    names.submit([(1, addr(1)), (2, addr(2))])
    assert names.frame(1).function.name == "a"
    assert names.frame(2).function.name == LEFT_OUT
    assert "1 functions have no name" in names.sources()[0].note


def test_each_interpreter_is_a_source(names: Names) -> None:
    note = "CPython 3.16.0: not known yet: its functions are shown as the interpreter's own"
    unknown = FoundInterpreter(0, "CPython", "CPython 3.16.0", (3, 16), "/x", None, note)
    names.set_interpreters([FOUND, OLD, unknown])
    found = [(s.module, s.source, s.note, s.has_lines) for s in names.sources()]
    assert found == [
        ("CPython 3.12.1", "python", "", True),
        ("CPython 3.9.1", "python", "", True),
        ("CPython 3.16.0", "none", note, False),
    ]


def qualified_names() -> dict[tuple[str, int], str]:
    """(Bare name, first line) → what a Python that knows says about the script."""

    def codes(code: types.CodeType) -> Iterator[types.CodeType]:
        yield code
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                yield from codes(constant)

    compiled = compile(SCRIPT.read_text("utf-8"), str(SCRIPT), "exec")
    return {
        (each.co_name, each.co_firstlineno): each.co_qualname  # type: ignore[attr-defined]
        for each in codes(compiled)
    }


@pytest.mark.needs("attach")
def test_stacks_are_named_as_python_names_them(waiting_python: PythonTarget) -> None:
    pid = waiting_python.pid
    (found,) = find_interpreters(pid)
    assert found.recipe is not None
    table = SymbolTable()
    names = ManagedNames(table, [Root(f"/proc/{pid}/root", ProcessUser(pid))])
    names.set_interpreters([found])
    code_ids: dict[int, int] = {}
    stacks: dict[int, list[int]] = {}
    count = 0
    with ProcessMemory(f"/proc/{pid}") as memory:
        walker = Walker(memory, found.recipe)
        for thread in walker.threads():
            for frame in thread.frames:
                code_id = code_ids.setdefault(frame.code_addr, len(code_ids) + 1)
                names.add_codes([walker.code(frame.code_addr, code_id)])
                names.submit([(count, addr(code_id, frame.position))])
                stacks.setdefault(thread.pointer, []).append(count)
                count += 1
    assert names.wait_idle(TIMEOUT_S)
    names.close()
    known = qualified_names() if sys.version_info >= (3, 11) else {}
    for pointer, expected in waiting_python.stacks.items():
        got = [table.frames(address_id)[0] for address_id in stacks[pointer]]
        wanted = [(qualified or name, file, line) for name, qualified, file, line, _ in expected]
        if expected[0][1] is None:
            seen = [(f.function.name.rpartition(".")[2], f.file, f.line) for f in got]
            assert seen == [(name, file, line) for name, file, line in wanted]
        else:
            assert [(f.function.name, f.file, f.line) for f in got] == wanted
        for named, (name, _, file, _, first_line) in zip(got, expected, strict=True):
            if file == str(SCRIPT) and known:
                assert named.function.name == known[name, first_line]


def test_symbolizer_names_interpreted_frames(tmp_path: Path) -> None:
    table = SymbolTable()
    symbolizer = Symbolizer(table, None, cache_dir=tmp_path)
    try:
        symbolizer.set_interpreters([FOUND])
        symbolizer.submit_many([(0, RawFrame(MANAGED, addr(1, 1))), (1, RawFrame(MANAGED, 2))])
        assert symbolizer.pending == 2
        symbolizer.add_codes([code(1, "f")])
        assert symbolizer.pending == 1
        assert symbolizer.wait_idle(TIMEOUT_S)
        assert table.frames(0)[0].line == 11
        assert [source.module for source in symbolizer.sources()] == ["CPython 3.12.1"]
    finally:
        symbolizer.close()
