"""Strings of Python objects, of all widths."""

from __future__ import annotations

import pytest

from flametap.symbols.interpreters.python.text import MAX_CHARACTERS, file_text, name_text
from flametap.wire.events import CodePart


@pytest.mark.parametrize(
    ("raw", "wide", "text"),
    [
        (b"name", 1, "name"),
        (b"na\xefve", 1, "naïve"),
        ("имя".encode("utf-16-le"), 2, "имя"),
        ("f_𝑥".encode("utf-32-le"), 4, "f_𝑥"),
        (b"a\x00\x00\xd8b\x00", 2, "a�b"),  # a lone surrogate
        (b"\x3d\xd8\x00\xde", 2, "��"),  # two of them are no pair
        (b"\x00\xd8\x00\x00\xff\xff\xff\xffa\x00\x00\x00", 4, "��a"),
        (b"a\x00b", 2, "a"),
        (b"", 1, ""),
        (b"", 4, ""),
        (b"abc", 3, ""),
    ],
)
def test_characters(raw: bytes, wide: int, text: str) -> None:
    assert name_text(CodePart(raw, wide, False)) == text
    assert file_text(CodePart(raw, wide, False)) == text


@pytest.mark.parametrize(("length", "is_cut"), [(MAX_CHARACTERS + 1, False), (50, True)])
def test_long_text_is_cut_with_a_mark(length: int, is_cut: bool) -> None:
    part = CodePart(b"<" + b"x" * (length - 2) + b">", 1, is_cut)
    name, file = name_text(part), file_text(part)
    assert len(name) <= MAX_CHARACTERS
    assert len(file) <= MAX_CHARACTERS
    assert (name[0], name[-1]) == ("<", "…")
    assert (file[0], file[-1]) == ("…", ">")


def test_longest_text_is_whole() -> None:
    text = "x" * MAX_CHARACTERS
    assert name_text(CodePart(text.encode(), 1, False)) == text
