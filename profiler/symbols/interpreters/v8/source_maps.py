"""Find the source maps of scripts, in a thread of their own: a file system may not answer.

A map is read only if it belongs to the script as it was loaded: the script's own file must be what
the engine has in memory, else it was built anew, or changed while it was loaded. A map in the
script itself always belongs to it. Files are opened with the target's rights, below its root. A map
is parsed in a process without rights (``debuginfo.worker``). One that cannot be used is a note, and
its script is shown as it runs.
"""

from __future__ import annotations

import hashlib
import os
import posixpath
from collections import Counter
from collections.abc import Callable, Sequence

from ....recording.names.inline_chains import LinesError
from ...debuginfo.job import SOURCE_MAP, DebugJob
from ...debuginfo.source_map import MAX_MAP_BYTES
from ...debuginfo.source_map_table import SourceMapTable
from ...debuginfo.worker_client import Worker
from ...locate.open_file import OpenFile, Root
from ...locate.source_text import SourceText, lines_of
from ...names.limits import Budget
from ...object.object_file import ObjectError
from ..request_thread import RequestThread
from .heap import MAX_TEXT_CHARACTERS, Text
from .map_link import data_of, is_data, path_of
from .mapped_places import SourceMap
from .paths import short_path
from .scripts import Script

_MAX_MAPS = 1 << 13
_REST_AFTER_S = 2.0
_BOM = b"\xef\xbb\xbf"


class SourceMaps:
    """Reads the maps of scripts one after the other.

    Args:
        roots: where the paths of the target are valid.
        on_read: called in the thread with the key of a script, when its map is known, or that it
            has none that can be used. Each request gets such an answer.
        tables: the bytes of tables that may be kept.
    """

    def __init__(
        self,
        roots: Sequence[Root],
        on_read: Callable[[str, Script, SourceMap | None], None],
        tables: Budget,
    ) -> None:
        self._roots = roots
        self._on_read = on_read
        self._tables = tables
        self._worker = Worker("its source map")
        self._asked: set[str] = set()
        self._requests = RequestThread[Script](
            "flametap-maps",
            self._answer,
            at_once=1,
            on_idle=self._worker.rest,
            idle_s=_REST_AFTER_S,
        )
        # By file, link and a hash of the script's text; why there is none.
        self._found: dict[tuple[str, str, bytes], SourceMap | str] = {}

    def ask(self, script: Script) -> None:
        """Request the map of a script."""
        if script.key not in self._asked:
            self._asked.add(script.key)
            self._requests.ask([script])

    @property
    def note(self) -> str:
        """How many scripts are mapped, and why others are not; one line."""
        found = list(self._found.items())
        mapped = sum(isinstance(each, SourceMap) for _, each in found)
        notes = [f"{_scripts(mapped)} mapped by source maps"] if mapped else []
        why = Counter(each for _, each in found if isinstance(each, str))
        if why:
            first = next(file for (file, _, _), each in found if isinstance(each, str))
            reasons = ", ".join(each for each, _ in why.most_common(2))
            notes.append(
                f"{_scripts(why.total())} shown as compiled "
                f"({short_path(first)}{', …' if why.total() > 1 else ''}): {reasons}"
            )
        return "; ".join(notes)

    def text(self, file: str) -> SourceText | None:
        """Return the text of a source as a map has it; None if none has."""
        for each in list(self._found.values()):
            text = each.text(file) if isinstance(each, SourceMap) else None
            if text is not None:
                return SourceText(lines_of(text.encode()), "the text is from the source map")
        return None

    def modified_ns(self, file: str) -> int:
        """Return when a map with that source was written (Unix, ns); 0 if that is not known."""
        return max(
            (
                each.modified_ns
                for each in list(self._found.values())
                if isinstance(each, SourceMap) and file in each.files
            ),
            default=0,
        )

    def close(self) -> None:
        """End the thread. Idempotent."""
        self._requests.end()
        self._worker.close()
        self._requests.close()

    # -- the thread -----------------------------------------------------------------------------

    def _answer(self, scripts: list[Script]) -> None:
        (script,) = scripts
        key = script.key
        found = self._map_of(script)
        self._on_read(key, script, found if isinstance(found, SourceMap) else None)

    def _map_of(self, script: Script) -> SourceMap | str:
        source = script.source
        if source is None:
            return ""
        key = (script.file, script.link[:64], hashlib.sha256(source.raw).digest())
        if key not in self._found:
            if len(self._found) >= _MAX_MAPS:
                return "too many"
            try:
                self._found[key] = self._read(script, source)
            except (LinesError, OSError, ValueError) as error:
                self._found[key] = _line(error)
        return self._found[key]

    def _read(self, script: Script, source: Text) -> SourceMap:
        """Read the map of a script.

        Raises:
            LinesError, OSError, ValueError: there is none that can be used.
        """
        folder = posixpath.dirname(script.file)
        if is_data(script.link):
            data = data_of(script.link)
            if not data or len(data) > MAX_MAP_BYTES:
                raise LinesError("its source map is damaged" if not data else _too_large())
            payload, modified_ns = self._parsed_bytes(data), 0
        else:
            path = path_of(script.link, script.file)
            if not path:
                raise LinesError("its source map is in no file")
            self._check(script.file, source)
            file = self._open(path, MAX_MAP_BYTES, "its source map")
            try:
                folder = posixpath.dirname(path)
                payload = self._parsed(path, file.fileno(), file.size)
                modified_ns = file.modified_ns
            finally:
                file.close()
        table = SourceMapTable(payload)
        if table.last_line > script.line_count:
            raise LinesError("its source map is of another script")
        if not self._tables.take(table.size):
            raise LinesError("source maps take too much memory")
        return SourceMap(table, folder, modified_ns)

    def _check(self, path: str, source: Text) -> None:
        """Raise LinesError if a script's file is not what the engine has loaded."""
        file = self._open(path, 3 * MAX_TEXT_CHARACTERS, "the script")
        try:
            data = file.read(0, file.size)
        finally:
            file.close()
        text = data.removeprefix(_BOM).decode("utf-8", "replace")
        loaded = source.raw.removeprefix(b"\xff\xfe") if source.is_wide else source.raw
        coding = "utf-16-le" if source.is_wide else "latin-1"
        if text.encode(coding, "replace") != loaded:
            raise LinesError("the file is not, or no longer, what was loaded")

    def _open(self, path: str, most: int, what: str) -> OpenFile:
        problem = f"{what} cannot be read: the process's root is not known"
        for root in self._roots:
            try:
                file = OpenFile(path, root)
            except FileNotFoundError:
                problem = f"{what} is not there"
                continue
            except OSError as error:
                problem = f"{what} cannot be read: {(error.strerror or str(error)).lower()}"
                continue
            if file.size <= most:
                return file
            file.close()
            problem = f"{what} is larger than {most >> 20} MiB"
        raise LinesError(problem)

    def _parsed_bytes(self, data: bytes) -> bytes:
        descriptor = os.memfd_create("flametap-map", os.MFD_CLOEXEC)
        try:
            with open(descriptor, "wb", closefd=False) as file:
                file.write(data)
            return self._parsed("data:", descriptor, len(data))
        finally:
            os.close(descriptor)

    def _parsed(self, path: str, descriptor: int, size: int) -> bytes:
        if not size:
            raise LinesError("its source map is empty")
        job = DebugJob(path, 0, wants=SOURCE_MAP)
        return self._worker.build(job, [descriptor], size).payload


def _too_large() -> str:
    return f"its source map is larger than {MAX_MAP_BYTES >> 20} MiB"


def _line(error: Exception) -> str:
    if isinstance(error, (LinesError, ObjectError)):
        return str(error)
    return f"its source map cannot be read: {' '.join(str(error).split())}"


def _scripts(count: int) -> str:
    return f"{count:,} script" + "s" * (count != 1)
