"""Parse abbreviations, and the attributes of one entry of ``.debug_info``.

An entry may have a few dozen attributes; ten of them are needed for functions and lines. We prepare
each abbreviation once: which bytes to skip, and which to keep. If all attributes have a fixed size,
an entry is skipped with one addition.

Damaged data raises ``DwarfError`` or ``IndexError``; nothing reads beyond the section.

Source: DWARF 5, sections 7.5.3 (abbreviations) and 7.5.5 (forms).
"""

from __future__ import annotations

from typing import NamedTuple

from . import constants as dw

# A value in the file: its form, and the number, or for DW_FORM_string the text.
Value = tuple[int, "int | bytes"]
Values = dict[int, Value]

MAX_TEXT_BYTES = 1 << 16  # names of C++ templates reach some thousands

_KEPT = frozenset(
    (
        *(dw.AT_SIBLING, dw.AT_NAME, dw.AT_STMT_LIST, dw.AT_LOW_PC, dw.AT_HIGH_PC),
        *(dw.AT_LANGUAGE, dw.AT_COMP_DIR, dw.AT_ABSTRACT_ORIGIN, dw.AT_SPECIFICATION, dw.AT_RANGES),
        *(dw.AT_CALL_FILE, dw.AT_CALL_LINE, dw.AT_LINKAGE_NAME, dw.AT_MIPS_LINKAGE_NAME),
        *(dw.AT_STR_OFFSETS_BASE, dw.AT_ADDR_BASE, dw.AT_RNGLISTS_BASE, dw.AT_DWO_NAME),
        *(dw.AT_PRODUCER, dw.AT_EXTERNAL, dw.AT_CALL_ALL_CALLS, dw.AT_CALL_ALL_TAIL_CALLS),
        *(dw.AT_CALL_RETURN_PC, dw.AT_CALL_ORIGIN, dw.AT_CALL_PC, dw.AT_CALL_TAIL_CALL),
        *(dw.AT_GNU_TAIL_CALL, dw.AT_GNU_ALL_TAIL_CALL_SITES, dw.AT_GNU_ALL_CALL_SITES),
        *(dw.AT_GNU_DWO_NAME, dw.AT_GNU_DWO_ID, dw.AT_GNU_RANGES_BASE, dw.AT_GNU_ADDR_BASE),
    )
)

# Size of each form in bytes; a negative number for forms of variable size.
_LEB, _BLOCK1, _BLOCK2, _BLOCK4, _BLOCK, _STRING, _INDIRECT = -1, -2, -3, -4, -5, -6, -7
_SIZES = {
    0x01: 8, 0x03: _BLOCK2, 0x04: _BLOCK4, 0x05: 2, 0x06: 4, 0x07: 8, 0x08: _STRING,
    0x09: _BLOCK, 0x0A: _BLOCK1, 0x0B: 1, 0x0C: 1, 0x0D: _LEB, 0x0F: _LEB, 0x11: 1, 0x12: 2,
    0x13: 4, 0x14: 8, 0x15: _LEB, 0x16: _INDIRECT, 0x18: _BLOCK, 0x19: 0, 0x1A: _LEB, 0x1B: _LEB,
    0x1C: 4, 0x1E: 16, 0x20: 8, 0x21: 0, 0x22: _LEB, 0x23: _LEB, 0x24: 8, 0x25: 1, 0x26: 2,
    0x27: 3, 0x28: 4, 0x29: 1, 0x2A: 2, 0x2B: 3, 0x2C: 4, 0x1F01: _LEB, 0x1F02: _LEB,
}  # fmt: skip
# strp, ref_addr, sec_offset, strp_sup, line_strp, GNU_ref_alt, GNU_strp_alt: the size of an offset.
_OFFSETS = frozenset((0x0E, 0x10, 0x17, 0x1D, 0x1F, 0x1F20, 0x1F21))


class DwarfError(ValueError):
    """Debug information that cannot be read; the message gives the reason, in one line."""


class Step(NamedTuple):
    """A range of bytes of an entry."""

    attribute: int  # 0: skip
    form: int
    size: int  # in bytes, or one of the negative numbers above
    constant: int  # value of DW_FORM_implicit_const


class Abbreviation(NamedTuple):
    """The layout of entries of one kind."""

    tag: int
    has_children: bool
    steps: tuple[Step, ...]
    fixed_size: int  # of the whole entry after its code; -1 if it varies
    has_sibling: bool


Abbreviations = dict[int, Abbreviation]


def parse_abbreviations(
    data: bytes, offset: int, version: int, offset_size: int
) -> tuple[Abbreviations, int]:
    """Parse the table at ``offset`` of ``.debug_abbrev``, for units of one version and format.

    Return the table, and the offset after it.

    Raises:
        DwarfError, IndexError: damaged.
    """
    table: Abbreviations = {}
    while True:
        code, offset = uleb(data, offset)
        if code == 0:
            return table, offset
        tag, offset = uleb(data, offset)
        has_children = data[offset] != 0
        offset += 1
        steps: list[Step] = []
        has_sibling = False
        while True:
            attribute, offset = uleb(data, offset)
            form, offset = uleb(data, offset)
            constant = 0
            if form == dw.FORM_IMPLICIT_CONST:
                constant, offset = _sleb(data, offset)
            if attribute == form == 0:
                break
            size = _size_of(form, version, offset_size)
            has_sibling |= attribute == dw.AT_SIBLING
            kept = attribute if attribute in _KEPT else 0
            if not kept and size >= 0 and steps and not steps[-1].attribute and steps[-1].size >= 0:
                steps[-1] = Step(0, 0, steps[-1].size + size, 0)
            else:
                steps.append(Step(kept, form, size, constant))
        fixed = sum(step.size for step in steps) if all(s.size >= 0 for s in steps) else -1
        table[code] = Abbreviation(tag, has_children, tuple(steps), fixed, has_sibling)


def read_entry(
    data: bytes, offset: int, steps: tuple[Step, ...], version: int, offset_size: int
) -> tuple[Values, int]:
    """Return the kept attributes of the entry at ``offset`` (after its code), and its end."""
    values: Values = {}
    for attribute, form, size, constant in steps:
        if size == _INDIRECT:
            form, offset = uleb(data, offset)
            size = _size_of(form, version, offset_size)
            if size == _INDIRECT:
                raise DwarfError("a form that names itself")
        if size >= 0:
            if attribute:
                if form == dw.FORM_IMPLICIT_CONST:
                    values[attribute] = (form, constant)
                else:
                    number = int.from_bytes(data[offset : offset + size], "little")
                    values[attribute] = (form, number)
            offset += size
        elif size == _LEB:
            number, offset = uleb(data, offset)
            if attribute:
                values[attribute] = (form, number)
        elif size == _STRING and attribute:
            text = text_at(data, offset)
            values[attribute] = (form, text)
            offset += len(text) + 1
        else:
            offset = _after(data, offset, size)
    return values, offset


def skip_entry(
    data: bytes, offset: int, steps: tuple[Step, ...], version: int, offset_size: int
) -> int:
    """Return the end of the entry at ``offset`` (after its code)."""
    for _, _, size, _ in steps:
        if size == _INDIRECT:
            form, offset = uleb(data, offset)
            size = _size_of(form, version, offset_size)
            if size == _INDIRECT:
                raise DwarfError("a form that names itself")
        if size >= 0:
            offset += size
        elif size == _LEB:
            while data[offset] > 127:
                offset += 1
            offset += 1
        else:
            offset = _after(data, offset, size)
    return offset


def uleb(data: bytes, offset: int) -> tuple[int, int]:
    """Return an unsigned LEB128 number, and its end."""
    byte = data[offset]
    offset += 1
    if byte < 128:
        return byte, offset
    number, shift = byte & 127, 7
    while True:
        byte = data[offset]
        offset += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, offset
        shift += 7
        if shift > 70:
            raise DwarfError("a number without an end")


def text_at(data: bytes, offset: int) -> bytes:
    """Return the text at ``offset``, without its terminating zero; ``b""`` beyond the section."""
    end = data.find(b"\0", offset, offset + MAX_TEXT_BYTES)
    return data[offset : end if end >= 0 else offset + MAX_TEXT_BYTES]


def _size_of(form: int, version: int, offset_size: int) -> int:
    if form in _OFFSETS:
        return 8 if form == dw.FORM_REF_ADDR and version == 2 else offset_size
    size = _SIZES.get(form)
    if size is None:
        raise DwarfError(f"unknown form {form:#x}")
    return size


def _after(data: bytes, offset: int, size: int) -> int:
    """Return the end of a block or text at ``offset``."""
    if size == _STRING:
        end = data.find(b"\0", offset)
        if end < 0:
            raise DwarfError("text without an end")
        return end + 1
    if size == _BLOCK:
        length, offset = uleb(data, offset)
        return offset + length
    width = {_BLOCK1: 1, _BLOCK2: 2, _BLOCK4: 4}[size]
    return offset + width + int.from_bytes(data[offset : offset + width], "little")


def _sleb(data: bytes, offset: int) -> tuple[int, int]:
    start = offset
    number, offset = uleb(data, offset)
    bits = 7 * (offset - start)
    return number - (1 << bits) if number >> (bits - 1) else number, offset
