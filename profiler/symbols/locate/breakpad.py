"""Open Breakpad's symbol files, which are text, and read their build-id.

The worker reads functions, lines and inlined functions from them, as from debug information.
Addresses in such a file are relative to the start of the loaded module.

Source: breakpad, docs/symbol_files.md.
"""

from __future__ import annotations

import re

from ..object.object_file import ObjectError, ObjectFile, Read, Section
from .open_file import Image, OpenFile
from .symbol_dirs import breakpad_id

_HEAD_BYTES = 4096
_MODULE = re.compile(r"MODULE \S+ \S+ ([0-9A-Fa-f]{33,40}) [^\r\n]+")
_CODE_ID = re.compile(r"^INFO CODE_ID ([0-9A-Fa-f]+)", re.MULTILINE)


class BreakpadFile(ObjectFile):
    """A Breakpad symbol file, in place of a debug file of the module ``own``.

    Raises:
        ObjectError: not a symbol file.
    """

    format_name = "Breakpad"

    def __init__(self, read: Read, size: int, own: ObjectFile) -> None:
        super().__init__(read, size)
        head = read(0, _HEAD_BYTES).decode("utf-8", "replace")
        module = _MODULE.match(head)
        if module is None:
            raise ObjectError("not a Breakpad symbol file")
        code_id = _CODE_ID.search(head)
        if code_id is not None:
            self.build_id = code_id[1].lower()
        elif module[1].upper() == breakpad_id(own.build_id):
            self.build_id = own.build_id  # the file has only its first 16 bytes
        self.machine = own.machine
        self.segments, self.sections = [], []
        self._base_addr = own.base_addr

    @property
    def base_addr(self) -> int:
        """The start of the module: addresses are relative to it."""
        return self._base_addr

    @property
    def has_symtab(self) -> bool:
        """False: there are no tables, only lines of text."""
        return False

    @property
    def debug_info_bytes(self) -> int:
        """Size of the file."""
        return self._size

    def section(self, name: str) -> Section | None:
        """Return None: there are no sections."""
        return None


def open_breakpad(path: str, own: ObjectFile) -> Image:
    """Open a symbol file for the module ``own``. Does not check the build-id.

    Raises:
        OSError: it cannot be opened, or is not a regular file.
        ObjectError: it is not a symbol file.
    """
    file = OpenFile(path)
    try:
        return Image(BreakpadFile(file.read, file.size, own), file, "symbol folder")
    except BaseException:
        file.close()
        raise
