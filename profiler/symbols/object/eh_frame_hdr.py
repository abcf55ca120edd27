"""Find the start and end of functions in the unwind tables, the only source in a stripped file.

Source: LSB core, ".eh_frame" and ".eh_frame_hdr".
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .object_file import ObjectFile

_FDE_BYTES = 16  # length, CIE pointer, pc_begin, pc_range
# For more functions than this, their part of .eh_frame is read at once, if it is not too large.
_SINGLE_READS = 50
_MAX_SPAN_BYTES = 64 << 20
_MAX_ADDR = 1 << 61

_Indexes = NDArray[np.int64]


class FdeTable:
    """The binary search table of ``.eh_frame_hdr``, in the encoding that every linker uses.

    Args:
        elf: the file, to read the FDEs to which the table points.
        header_addr: file_addr to which its offsets are relative.
        entries: pairs of i32: start of a function, its FDE.
    """

    def __init__(self, elf: ObjectFile, header_addr: int, entries: bytes) -> None:
        self._elf = elf
        offsets = np.frombuffer(entries, "<i4").reshape(-1, 2)
        self._starts = offsets[:, 0].astype(np.int64) + header_addr
        self._fdes = offsets[:, 1].astype(np.int64) + header_addr

    def functions_at(self, file_addrs: Sequence[int]) -> list[tuple[int, int] | None]:
        """Return start and end (file_addr) of the function that covers each address.

        Raises:
            ObjectError: the file can no longer be read.
        """
        if not len(self._starts):
            return [None] * len(file_addrs)
        addrs, starts, ends = self._before(file_addrs)
        covered = (addrs >= starts) & (addrs < ends)
        return [
            (start, end) if is_covered else None
            for start, end, is_covered in zip(
                starts.tolist(), ends.tolist(), covered.tolist(), strict=True
            )
        ]

    def starts_at(self, file_addrs: Sequence[int]) -> list[int]:
        """Return where the function, or the code between two, begins (file_addr) at each address.

        Of an address before all functions, that is itself.

        Raises:
            ObjectError: the file can no longer be read.
        """
        if not len(self._starts):
            return list(file_addrs)
        addrs, starts, ends = self._before(file_addrs)
        # One whose size is not known covers nothing, and ends nowhere.
        is_known = (starts <= addrs) & (starts < ends)
        begins = np.where(addrs < ends, starts, ends)
        return [int(addr) for addr in np.where(is_known, begins, file_addrs)]

    def _before(self, file_addrs: Sequence[int]) -> tuple[_Indexes, _Indexes, _Indexes]:
        """Return the addresses, and start and end of the last function that begins before each."""
        addrs = np.array([a if 0 <= a < _MAX_ADDR else -1 for a in file_addrs], np.int64)
        rows = np.searchsorted(self._starts, addrs, side="right") - 1
        begun, position = np.unique(np.maximum(rows, 0), return_inverse=True)
        fdes = self._read(self._fdes[begun])
        starts = self._starts[begun]
        # We assume DW_EH_PE_pcrel|sdata4. If pc_begin disagrees with the table, that is wrong, and
        # size 0 makes the function cover no address.
        agrees = self._fdes[begun] + 8 + fdes[:, 2].astype(np.int64) == starts
        ends = starts + np.where(agrees, fdes[:, 3].astype(np.int64) & 0xFFFFFFFF, 0)
        return addrs, starts[position], ends[position]

    def _read(self, addrs: _Indexes) -> NDArray[np.int32]:
        """Return the first words of the FDEs at these addresses; zeros outside of the file."""
        low, high = int(addrs.min()), int(addrs.max()) + _FDE_BYTES
        if len(addrs) > _SINGLE_READS and high - low <= _MAX_SPAN_BYTES:
            data = self._elf.at_addr(low, high - low)
            if len(data) == high - low:
                places = (addrs - low)[:, None] + np.arange(_FDE_BYTES)
                words: NDArray[np.int32] = np.frombuffer(data, np.uint8)[places].view("<i4")
                return words
        parts = [self._elf.at_addr(addr, _FDE_BYTES) for addr in addrs.tolist()]
        whole = b"".join(part if len(part) == _FDE_BYTES else bytes(_FDE_BYTES) for part in parts)
        return np.frombuffer(whole, "<i4").reshape(-1, 4)
