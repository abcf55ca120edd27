"""Qualified names from source text, against what a compiler says."""

from __future__ import annotations

import os
import random
import sys
import time
import types
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from flametap.symbols.interpreters.python.derived_names import SourceNames

TEXT = '''\
"""def in_text(): pass
class NorThis:
    def nor_this(self): ...
"""
import functools


class Shop(
    object,
):
    name = "it's"; also = 'def no(): \\' pass'

    @property
    @functools.cache
    def stock(self):
        # def in_comment():
        def count(x): return [y for y in x]
        return sorted([], key=lambda v: count(
            v))

    class Till:
        async def open(self):
            return (
def_ := 1
            )

\tdef tabbed(self): pass


def top(a, b=(
    1, 2)): return {k: v for k, v in a}


if True:
    def under_if():
        x = """
def in_string():
"""
        return lambda: x
'''


@pytest.mark.parametrize(
    ("name", "line", "qualified", "is_in_class"),
    [
        ("Shop", 8, "Shop", False),
        ("stock", 13, "Shop.stock", True),
        ("count", 17, "Shop.stock.<locals>.count", False),
        ("<lambda>", 18, "Shop.stock.<locals>.<lambda>", False),
        ("Till", 21, "Shop.Till", True),
        ("open", 22, "Shop.Till.open", True),
        ("top", 30, "top", False),
        ("<dictcomp>", 31, "top.<locals>.<dictcomp>", False),
        ("under_if", 35, "under_if", False),
        ("<lambda>", 39, "under_if.<locals>.<lambda>", False),
        ("<module>", 1, "<module>", False),
        ("stock", 14, "stock", False),  # another line than in the text
        ("in_string", 37, "in_string", False),
        ("<lambda>", 5, "<lambda>", False),
    ],
)
def test_name(name: str, line: int, qualified: str, is_in_class: bool) -> None:
    assert SourceNames(TEXT).qualified(name, line) == (qualified, is_in_class)


def codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from codes(constant)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="code objects have no qualified name")
def test_standard_library_is_named_as_the_compiler_names_it() -> None:
    files = sorted(Path(os.__file__).parent.glob("*.py"))
    files += sorted(Path(os.__file__).parent.glob("[a-f]*/*.py"))
    right = wrong = 0
    for file in random.Random(1).sample(files, 120):
        text = file.read_text("utf-8")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compiled = compile(text, str(file), "exec")
        names = SourceNames(text)
        for code in codes(compiled):
            own = code.co_qualname  # type: ignore[attr-defined]  # since 3.11
            is_right = names.qualified(code.co_name, code.co_firstlineno)[0] == own
            right, wrong = right + is_right, wrong + (not is_right)
    assert right > 2000
    assert wrong < right / 100  # comprehensions within comprehensions


def test_any_text_takes_little_time() -> None:
    numbers = random.Random(1)
    pieces = ["def f(", "class C:", "\n", "    ", "'''", '"', "\\", "(", ")", "@x", "#", "\t", "\f"]
    texts = ["".join(numbers.choices(pieces, k=2000)) for _ in range(50)]
    texts += ["(" * 200_000, "'" * 200_000, "\\" * 200_000, '"\\\n' * 50_000, "def f():\n" * 50_000]
    texts += ["".join(" " * i + "def f():\n" for i in range(700))]
    began = time.process_time()
    for text in texts:
        SourceNames(text).qualified("<lambda>", 10)
    assert time.process_time() - began < 10  # 0.6 s
