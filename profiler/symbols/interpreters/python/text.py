"""Decode the strings of Python objects as the agent copies them out of memory."""

from __future__ import annotations

import numpy as np

from ....wire.events import CodePart
from ...names.limits import MARK

MAX_CHARACTERS = 1024
_REPLACEMENT = 0xFFFD
_SURROGATES = 0xD800, 0xE000
_END = 0x110000  # of Unicode


def name_text(part: CodePart) -> str:
    """Return a name; a long one is cut at its end, with a mark."""
    text = _decode(part)
    if part.is_cut or len(text) > MAX_CHARACTERS:
        return text[: MAX_CHARACTERS - 1] + MARK
    return text


def file_text(part: CodePart) -> str:
    """Return a file name; a long one is cut at its front, with a mark."""
    text = _decode(part)
    if part.is_cut or len(text) > MAX_CHARACTERS:
        return MARK + text[-(MAX_CHARACTERS - 1) :]
    return text


def _decode(part: CodePart) -> str:
    """Return characters of 1, 2 or 4 bytes; what is no character is replaced."""
    if part.wide == 1:
        return part.raw.decode("latin-1")
    if part.wide not in (2, 4):
        return ""
    whole = len(part.raw) // part.wide * part.wide
    codes = np.frombuffer(part.raw[:whole], f"<u{part.wide}").astype("<u4")
    is_bad = (codes >= _SURROGATES[0]) & (codes < _SURROGATES[1]) | (codes >= _END)
    return (
        np.where(is_bad, np.uint32(_REPLACEMENT), codes).astype("<u4").tobytes().decode("utf-32-le")
    )
