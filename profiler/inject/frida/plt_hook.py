"""Make a loaded library call functions of ours where it calls libc's.

A shared library calls libc through slots of its procedure linkage table; ``redirect`` writes the
address of another function there. Nothing outside our own process is touched. ``restore`` and
``release`` put things back.

Source: System V ABI AMD64 5.2, dlinfo(3), <link.h>, <elf.h>.
"""

from __future__ import annotations

import ctypes
import mmap

DT_NULL, DT_PLTRELSZ, DT_STRTAB, DT_SYMTAB, DT_JMPREL = 0, 2, 5, 6, 23
RTLD_DI_LINKMAP = 2
RTLD_NOLOAD = 4

_libc = ctypes.CDLL(None, use_errno=True)


class _LinkMap(ctypes.Structure):  # struct link_map
    _fields_ = (
        ("l_addr", ctypes.c_uint64),
        ("l_name", ctypes.c_char_p),
        ("l_ld", ctypes.c_uint64),
    )


class _Dynamic(ctypes.Structure):  # Elf64_Dyn
    _fields_ = (("tag", ctypes.c_int64), ("value", ctypes.c_uint64))


class _Relocation(ctypes.Structure):  # Elf64_Rela
    _fields_ = (("offset", ctypes.c_uint64), ("info", ctypes.c_uint64), ("addend", ctypes.c_int64))


class _Symbol(ctypes.Structure):  # Elf64_Sym
    _fields_ = (
        ("name", ctypes.c_uint32),
        ("info", ctypes.c_uint8),
        ("other", ctypes.c_uint8),
        ("section", ctypes.c_uint16),
        ("value", ctypes.c_uint64),
        ("size", ctypes.c_uint64),
    )


_originals: dict[int, int] = {}  # address of a slot → what it held


def redirect(library: str, name: bytes, function: object) -> bool:
    """Make the library call ``function`` instead of ``name``. Done again it changes nothing.

    Args:
        library: path of a library that is loaded.
        name: of a function of another library, as the dynamic symbol table has it.
        function: a ctypes function; the caller keeps it alive.

    Returns:
        False when the library has no such slot.
    """
    slot = _slot_of(ctypes.CDLL(library, mode=RTLD_NOLOAD), name)
    if slot is None:
        return False
    # RELRO: the loader has made it read-only.
    page = slot & -mmap.PAGESIZE
    readable_writable = mmap.PROT_READ | mmap.PROT_WRITE
    if _libc.mprotect(ctypes.c_void_p(page), ctypes.c_size_t(mmap.PAGESIZE), readable_writable):
        return False
    address = ctypes.cast(function, ctypes.c_void_p).value  # type: ignore[arg-type]
    assert address is not None
    _originals.setdefault(slot, ctypes.c_uint64.from_address(slot).value)
    ctypes.c_uint64.from_address(slot).value = address
    return True


def restore(library: str, name: bytes) -> None:
    """Take ``redirect`` back."""
    slot = _slot_of(ctypes.CDLL(library, mode=RTLD_NOLOAD), name)
    if slot in _originals:
        ctypes.c_uint64.from_address(slot).value = _originals.pop(slot)


def release() -> None:
    """Take every ``redirect`` back: our functions end with the interpreter."""
    while _originals:
        slot, original = _originals.popitem()
        ctypes.c_uint64.from_address(slot).value = original


def _slot_of(library: ctypes.CDLL, name: bytes) -> int | None:
    """Address of the slot of the procedure linkage table for ``name``."""
    link_map = ctypes.POINTER(_LinkMap)()
    handle = ctypes.c_void_p(library._handle)
    if _libc.dlinfo(handle, RTLD_DI_LINKMAP, ctypes.byref(link_map)) != 0:
        return None
    loaded = link_map.contents
    dynamic: dict[int, int] = {}
    address = loaded.l_ld
    while (entry := _Dynamic.from_address(address)).tag != DT_NULL:
        dynamic[entry.tag] = entry.value
        address += ctypes.sizeof(_Dynamic)
    if not {DT_JMPREL, DT_PLTRELSZ, DT_SYMTAB, DT_STRTAB} <= dynamic.keys():
        return None
    for offset in range(0, dynamic[DT_PLTRELSZ], ctypes.sizeof(_Relocation)):
        relocation = _Relocation.from_address(dynamic[DT_JMPREL] + offset)
        index = relocation.info >> 32
        symbol = _Symbol.from_address(dynamic[DT_SYMTAB] + index * ctypes.sizeof(_Symbol))
        if ctypes.string_at(dynamic[DT_STRTAB] + symbol.name) == name:
            return int(loaded.l_addr + relocation.offset)
    return None
