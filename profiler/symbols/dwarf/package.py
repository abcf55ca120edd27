"""Read DWARF packages (.dwp): the split units of a program in one file, found by their ids.

Each part of the package's sections belongs to one unit. A unit is returned as a file with only
these parts, so it can be read like one from a .dwo file.

Source: DWARF 5, section 7.3.5; for version 2 the GCC wiki, "DebugFissionDWP".
"""

from __future__ import annotations

import struct

from .attributes import DwarfError
from .units import DwarfFile

_HEADER = struct.Struct("<IIII")  # version (low half), columns, units, slots
_INFO, _ABBREV, _STR_OFFSETS, _RNGLISTS = 1, 3, 6, 8
_MAX_UNITS = 1 << 22


class Package:
    """The units of one package.

    Args:
        whole: all its ``.dwo`` sections.
        index: ``.debug_cu_index``.

    Raises:
        DwarfError: the index is damaged, or has an unknown version.
    """

    def __init__(self, whole: DwarfFile, index: bytes) -> None:
        self._whole = whole
        try:
            self._parts = _read_index(index)
        except struct.error as error:
            raise DwarfError("damaged .debug_cu_index") from error

    def file_of(self, dwo_id: int) -> DwarfFile | None:
        """Return the parts of the unit with that id, as a file; None if there is no such unit."""
        parts = self._parts.get(dwo_id)
        if parts is None:
            return None
        whole = self._whole

        def cut(section: int, data: bytes) -> bytes:
            offset, size = parts.get(section, (0, 0))
            return data[offset : offset + size]

        return DwarfFile(
            info=cut(_INFO, whole.info),
            abbrev=cut(_ABBREV, whole.abbrev),
            strings=whole.strings,
            str_offsets=cut(_STR_OFFSETS, whole.str_offsets),
            rnglists=cut(_RNGLISTS, whole.rnglists),
        )


def _read_index(data: bytes) -> dict[int, dict[int, tuple[int, int]]]:
    """Parse the index: dwo_id → section → (offset, size)."""
    version, columns, units, slots = _HEADER.unpack_from(data)
    if version & 0xFFFF not in (2, 5):
        raise DwarfError("a package of an unknown version")
    if units > _MAX_UNITS or slots > 4 * _MAX_UNITS or not 0 < columns <= 8:
        raise DwarfError("damaged .debug_cu_index")
    place = _HEADER.size
    ids = struct.unpack_from(f"<{slots}Q", data, place)
    place += 8 * slots
    rows = struct.unpack_from(f"<{slots}I", data, place)
    place += 4 * slots
    sections = struct.unpack_from(f"<{columns}I", data, place)
    place += 4 * columns
    numbers = struct.unpack_from(f"<{2 * units * columns}I", data, place)
    offsets, sizes = numbers[: units * columns], numbers[units * columns :]
    found = {}
    for dwo_id, row in zip(ids, rows, strict=True):
        if 1 <= row <= units:
            cells = slice((row - 1) * columns, row * columns)
            pairs = zip(offsets[cells], sizes[cells], strict=True)
            found[dwo_id] = dict(zip(sections, pairs, strict=True))
    return found
