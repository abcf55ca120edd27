"""Text for a terminal: one line, of characters that all show.

Names of threads, files and functions come from the process that is looked at. Its author may put
escape sequences into them, line feeds that forge a message of ours, marks that turn the direction
of the text, characters without a width, or bytes that are no UTF-8. All that we print passes here
(``streams``, ``progress``); files keep what their formats allow.
"""

from __future__ import annotations

import re

# Characters that show nothing, but count as printable to Python.
# Source: Unicode 16, DerivedCoreProperties.txt, Default_Ignorable_Code_Point; U+2800 is a blank.
_BLANK = "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2800\u3164\ufe00-\ufe0f\uffa0"
_BLANKS = re.compile(f"[{_BLANK}\U000e0100-\U000e01ef]")
_SHORT = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}
_ESCAPED_BYTES = range(0xDC80, 0xDD00)  # what "surrogateescape" makes of bytes that are no UTF-8


def printable(text: str) -> str:
    """Return a text with each character that does not show as an escape: ``\\x1b``, ``\\u202e``.

    A byte that is no UTF-8 shows as ``\\xff``. Backslashes stay as they are: this is for people,
    and JSON for programs.
    """
    if text.isprintable() and not _BLANKS.search(text):
        return text
    return "".join(
        char if char.isprintable() and not _BLANKS.match(char) else _escape(char) for char in text
    )


def _escape(char: str) -> str:
    code = ord(char)
    if code in _ESCAPED_BYTES:
        code -= 0xDC00
    if code < 0x100:
        return _SHORT.get(char, f"\\x{code:02x}")
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
