"""Find out which source map a script names, and what its sources are called. Pure.

A script names its map in a comment on its last line with content: a file, relative to the script,
or the map itself as a ``data:`` URL.

Source: ECMA-426, "Extracting source map URLs"; RFC 2397.
"""

from __future__ import annotations

import base64
import binascii
import posixpath
import re
from urllib.parse import unquote, unquote_to_bytes, urlsplit

from ...names.limits import cut
from .heap import Text

MAX_URL_CHARACTERS = 4096  # but for those that hold the map
_MAX_NAME_CHARACTERS = 256
_MAX_BETWEEN = 64  # between a function's name and its parameters: "=async function*"
_MAX_CLASS_CHARACTERS = 1 << 16  # between a class's name and its constructor
_MAP, _NAME = "sourceMappingURL=", "sourceURL="
_COMMENT = re.compile(r"//[#@][ \t]source(?:Mapping)?URL=([^\s'\"`]+)[ \t]*")
_REST = re.compile(r"//.*|[\s)\]};]*")  # a line behind it: evaluated modules end in brackets
_DATA = re.compile(r"data:([^,]*),", re.IGNORECASE)
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")


def link_of(source: Text) -> str:
    """Return the URL of the map that a script names; "" if it names none."""
    return _url_in_comment(source, _MAP)


def name_of(source: Text) -> str:
    """Return the name that evaluated code gives itself; "" if it gives none."""
    return _url_in_comment(source, _NAME)


def _url_in_comment(source: Text, text: str) -> str:
    mark = text.encode("utf-16-le" if source.is_wide else "latin-1")
    width = 2 if source.is_wide else 1
    at = source.raw.rfind(mark)
    if at < 4 * width or at % width:
        return ""
    tail = str(Text(source.raw[at - 4 * width :], is_wide=source.is_wide))
    found = _COMMENT.match(tail)
    if found is None:
        return ""
    rest = (line.strip() for line in tail[found.end() :].splitlines())
    if not all(map(_REST.fullmatch, rest)):
        return ""  # it is within the code
    url = found[1]
    return url if len(url) <= MAX_URL_CHARACTERS or _DATA.match(url[:1024]) else ""


def is_data(url: str) -> bool:
    """Return whether a URL holds what it stands for."""
    return _DATA.match(url[:1024]) is not None


def data_of(url: str) -> bytes | None:
    """Return what a ``data:`` URL holds; None if it is damaged."""
    head, _, body = url.partition(",")
    if head.lower().endswith(";base64"):
        try:
            return base64.b64decode(unquote_to_bytes(body), validate=True)
        except binascii.Error:
            return None
    return unquote_to_bytes(body)


def path_of(url: str, script: str) -> str:
    """Return the path of the file that a script's link names; "" if it is in no file.

    Args:
        url: the link.
        script: the path of the script.
    """
    scheme = _SCHEME.match(url)
    if scheme and scheme[1].lower() != "file":
        return ""
    path = _url_path(url)
    return _absolute(path, posixpath.dirname(script)) if path and script.startswith("/") else ""


def identifier_of(source: Text, name: str, start: int) -> int:
    """Return the offset of the word that gives a function its name; -1 if it is not found.

    Args:
        source: the script.
        name: the word.
        start: where the function begins: at its parameters.
    """
    width = 2 if source.is_wide else 1
    if not name or start <= 0 or len(name) > _MAX_NAME_CHARACTERS:
        return -1

    def before(characters: int) -> str:
        raw = source.raw[max(start - characters, 0) * width : start * width]
        return str(Text(raw, is_wide=source.is_wide))

    text = before(len(name) + _MAX_BETWEEN)
    word = rf"(?<![\w$]){re.escape(name)}(?![\w$])"
    found = re.search(rf"{word}\s*(?:[=:]\s*)?(?:async\b\s*)?(?:function\b\s*\*?\s*)?$", text)
    if found:
        return start - len(text) + found.start()
    if text.rstrip().endswith("constructor"):
        text = before(_MAX_CLASS_CHARACTERS)
        at = max(text.rfind(f"class {name} "), text.rfind(f"class {name}{{"))
        return start - len(text) + at + len("class ") if at >= 0 else -1
    return -1


def source_file(source: str, folder: str) -> str:
    """Return the file name of a source.

    Args:
        source: its name in the map, not empty.
        folder: where the map lies.
    """
    scheme = _SCHEME.match(source)
    if scheme is None:
        name = _absolute(source, folder) if folder.startswith("/") else source
    elif scheme[1].lower() == "file":
        name = _absolute(_url_path(source), "/")
    else:  # webpack://name/./src/x.ts: no file that we could find
        head, _, path = source.partition("?")[0].partition("://")  # webpack adds hashes
        name = f"{head}://{posixpath.normpath(path).lstrip('/')}" if path else source
    return cut("".join(c if c.isprintable() else "?" for c in name))


def _url_path(url: str) -> str:
    try:
        return unquote(urlsplit(url).path)
    except ValueError:
        return ""


def _absolute(path: str, folder: str) -> str:
    found = posixpath.normpath(posixpath.join(folder, path))
    return f"/{found.lstrip('/')}" if found.startswith("/") else found
