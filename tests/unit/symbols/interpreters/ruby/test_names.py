"""Methods of Ruby by what the agent sends of them."""

from __future__ import annotations

import struct

import pytest

from flametap.model import Frame, FrameKind, Function
from flametap.symbols.interpreters.ruby.names import GONE, RubyNames, qualified
from flametap.symbols.names.limits import Budgets
from flametap.wire.abi import RUBY_IN_C, RUBY_SINGLETON
from flametap.wire.events import Code, CodePart

LINES = struct.pack("<6i", 8, -1, 0, 9, -1, 0)  # of two entries
PLACES = (1 | 1 << 7 | 2 << 14 | 2 << 21).to_bytes(8, "little")  # from instructions 0 and 2 on


def code(
    label: str = "index",
    owner: str = "Posts",
    path: str = "/srv/app/posts.rb",
    first_line: int = 7,
    flags: int = 0,
    table: bytes = LINES + PLACES,
) -> Code:
    raw = (label.encode(), owner.encode(), path.encode(), table)
    parts = tuple(CodePart(part, 1, False) for part in raw)
    return Code(1, 1, False, parts, (first_line, len(LINES) * bool(table) | flags))


@pytest.fixture
def names() -> RubyNames:
    budgets = Budgets()
    return RubyNames(budgets.names, budgets.table_bytes)


def test_a_method_has_its_class_path_and_line(names: RubyNames) -> None:
    function = Function("Posts#index", "app/posts.rb", "/srv/app/posts.rb", FrameKind.RUBY)
    method = names.code(code())
    assert method.frames_at(1) == (Frame(function, 8),)
    assert method.frames_at(3) == (Frame(function, 9),)
    assert names.code(code()) is method


def test_a_method_in_c_has_a_name_only(names: RubyNames) -> None:
    (frame,) = names.code(code("each", "Array", "", 0, RUBY_IN_C, b"")).frames_at(5)
    assert frame == Frame(Function("Array#each", "[ruby]", "", FrameKind.RUBY))


def test_without_tables_there_is_no_line(names: RubyNames) -> None:
    assert names.code(code(table=b"")).frames_at(1)[0].line == 0


def test_blocks_of_one_method_are_told_apart(names: RubyNames) -> None:
    first = names.code(code("block in index", first_line=3)).frames_at(0)[0].function
    second = names.code(code("block in index", first_line=5)).frames_at(0)[0].function
    assert first.name == second.name == "block in Posts#index"
    assert (first.full_name, second.full_name) == (
        "block in Posts#index (line 3)",
        "block in Posts#index (line 5)",
    )


def test_what_is_gone_has_no_name(names: RubyNames) -> None:
    (frame,) = names.code(Code(1, 1, True, (), (0, 0))).frames_at(0)
    assert frame.function.name == GONE
    assert names.note == "1 Ruby functions had gone before their names could be read"


def test_texts_that_are_none(names: RubyNames) -> None:
    parts = tuple(CodePart(b"\xff\x1b\0", 1, True) for _ in range(4))
    (frame,) = names.code(Code(1, 1, False, parts, (-1, 1 << 63))).frames_at(0)
    assert frame.function.name.isprintable()
    assert frame.function.file.isprintable()


@pytest.mark.parametrize(
    ("label", "owner", "flags", "name"),
    [
        ("each", "Set", 0, "Set#each"),
        ("new", "Foo::Bar", RUBY_SINGLETON, "Foo::Bar.new"),
        ("block (2 levels) in each", "Set", 0, "block (2 levels) in Set#each"),
        ("rescue in block in each", "Set", 0, "rescue in block in Set#each"),
        ("<main>", "Object", 0, "<main>"),
        ("block in <class:Foo>", "Foo", 0, "block in <class:Foo>"),
        ("<=>", "Foo", 0, "Foo#<=>"),
        ("each", "", 0, "each"),
        ("", "", 0, "[nameless]"),
    ],
)
def test_labels_with_their_class(label: str, owner: str, flags: int, name: str) -> None:
    assert qualified(label, owner, flags != 0) == name
