"""The text of a search: which functions it finds, and what is refused."""

from __future__ import annotations

import pytest

from flametap.model import FrameKind, Function
from flametap.tree.search import SearchError, compile_search


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("alloc", True),
        ("ALLOC", False),  # upper case heeds case
        ("Arena", True),
        ("alloc$", False),  # plain text
        ("Alloc(unsigned)", False),
        ("alloc(unsigned)", True),
        ("re:arena::ALLOC$", False),
        ("re:arena::alloc$", True),
        ("module:app", True),
        ("module:libc", False),
        ("module:re:^app", True),
        ("module:re:^pp", False),
        ("file:/src/", True),
        ("file:arena.h", True),
        ("file:arena\\.h", False),
        ("file:re:arena\\.h", True),
        ("unsigned", True),  # in the full name
        ("file::x", False),  # a name, not a file
        ("re::x", False),  # a name, not a pattern
        ("re:file::x|arena", True),
        ("re:", True),
        ("\ud800", False),
        ("re:\ud800", False),
    ],
)
def test_search_text(pattern: str, found: bool) -> None:
    function = Function("Arena::alloc", "app", "/src/arena.h", full_name="Arena::alloc(unsigned)")
    assert compile_search(pattern)(function) is found


@pytest.mark.parametrize(
    "pattern",
    [
        *("re:(", "re:[z-a]", "re:(?=a)", r"re:(a)\1", "re:(x{900}){900}"),
        "x" * 1001,
    ],
)
def test_patterns_that_cannot_be_used_are_refused_in_one_line(pattern: str) -> None:
    with pytest.raises(SearchError) as caught:
        compile_search(pattern)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("pattern", ["((a)+)+$", ".*.*.*.*.*=x", "(a|aa)*b"])
def test_no_pattern_takes_longer_than_its_share(pattern: str) -> None:
    matches = compile_search("re:" + pattern)
    function = Function("a" * 10_000 + "!", "m")  # Python's own would take minutes
    assert not matches(function)
    assert not matches(function)  # the deadline has not passed


def test_search_has_a_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flametap.tree.search.DEADLINE_S", -1.0)
    with pytest.raises(SearchError, match="too long"):
        compile_search("a")(Function("a", "m"))


def test_search_finds_the_short_path_of_python_functions() -> None:
    function = Function("get", "shop/views.py", "/home/shop/views.py", FrameKind.PYTHON)
    assert compile_search("shop/views")(function)
    assert not compile_search("home")(function)
    assert compile_search("file:home")(function)
    assert not compile_search("libc")(Function("read", "libc.so.6"))
