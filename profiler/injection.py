"""Repairs two things that Frida does from within our process when it injects its agent.

**Vector registers.** Frida 17 stops the target's main thread, has it call a few functions, and puts
its general registers back, but not its vector registers, which those functions use. A thread that
was computing with them goes on with other numbers. Of ten attaches to a loop that holds a pattern
in xmm0 to xmm15 nine changed it (``tests/targets/vectors.c``, frida 17.26), and every tenth attach
to the command ``openssl speed ecdsap256`` ended it with a SIGSEGV. So when Frida first reads a
thread's registers all the others are read, too (NT_X86_XSTATE: x87, SSE, AVX, AVX-512), and written
back right before Frida lets go of the thread.

**Exit statuses.** Frida waits for its tracee with ``waitpid``, also after the injection: when the
target is a child of ours and ends, Frida may be first and take the exit status with it. It is kept
in ``ended``.

Frida calls libc's ``ptrace`` and ``waitpid`` through slots of its library's procedure linkage
table; ``guard`` puts functions of ours there. Every request of Frida's own is passed on as it is.
Called on Frida's threads; ``ctypes`` takes the GIL, which the caller of an attach has released.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import os

# <sys/ptrace.h>, <elf.h>
PTRACE_GETREGS, PTRACE_ATTACH, PTRACE_DETACH, PTRACE_SEIZE = 12, 16, 17, 0x4206
PTRACE_GETREGSET, PTRACE_SETREGSET = 0x4204, 0x4205
NT_X86_XSTATE = 0x202
DT_NULL, DT_PLTRELSZ, DT_STRTAB, DT_SYMTAB, DT_JMPREL = 0, 2, 5, 6, 23
RTLD_DI_LINKMAP = 2
RTLD_NOLOAD = 4
# The whole state with AMX is 11 KiB; the kernel says how much of it there is.
XSTATE_BYTES_MAX = 16384


class _Vector(ctypes.Structure):  # struct iovec
    _fields_ = (("base", ctypes.c_void_p), ("size_bytes", ctypes.c_size_t))


class _LinkMap(ctypes.Structure):  # struct link_map, <link.h>
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


_libc = ctypes.CDLL(None, use_errno=True)
_ptrace = _libc.ptrace
_ptrace.restype = ctypes.c_long
_ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]

_waitpid = _libc.waitpid
_waitpid.restype = ctypes.c_int
_waitpid.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_int]

# pid → exit code (negative: signal) of each child whose end Frida has seen.
ended: dict[int, int] = {}
_saved: dict[int, ctypes.Array[ctypes.c_char]] = {}  # tid → its vector registers


def _transfer(request: int, tid: int, registers: ctypes.Array[ctypes.c_char]) -> int:
    """PTRACE_GETREGSET or PTRACE_SETREGSET; returns the size of the state, 0 on failure."""
    vector = _Vector(ctypes.addressof(registers), len(registers))
    failed = _ptrace(request, tid, NT_X86_XSTATE, ctypes.addressof(vector))
    return 0 if failed else int(vector.size_bytes)


def _ptrace_for_frida(request: int, tid: int, where: int | None, data: int | None) -> int:
    if request in (PTRACE_ATTACH, PTRACE_SEIZE):
        _saved.pop(tid, None)  # of a thread that died in our hands
    elif request in (PTRACE_GETREGS, PTRACE_GETREGSET) and tid not in _saved:
        registers = ctypes.create_string_buffer(XSTATE_BYTES_MAX)
        if size_bytes := _transfer(PTRACE_GETREGSET, tid, registers):
            _saved[tid] = ctypes.create_string_buffer(registers.raw[:size_bytes], size_bytes)
    elif request == PTRACE_DETACH and tid in _saved:
        _transfer(PTRACE_SETREGSET, tid, _saved.pop(tid))
    ctypes.set_errno(0)
    return int(_ptrace(request, tid, where, data))


def _waitpid_for_frida(pid: int, status: int | None, options: int) -> int:
    kept = ctypes.c_int()
    ctypes.set_errno(0)
    found = int(_waitpid(pid, ctypes.addressof(kept), options))
    if found > 0:
        if os.WIFEXITED(kept.value) or os.WIFSIGNALED(kept.value):
            ended[found] = os.waitstatus_to_exitcode(kept.value)
        if status:
            ctypes.c_int.from_address(status).value = kept.value
    return found


# Frida calls them for as long as the process lives.
_REPLACEMENTS = {
    b"ptrace": ctypes.CFUNCTYPE(
        ctypes.c_long,
        *(ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p),
        use_errno=True,
    )(_ptrace_for_frida),
    b"waitpid": ctypes.CFUNCTYPE(
        ctypes.c_int, *(ctypes.c_int, ctypes.c_void_p, ctypes.c_int), use_errno=True
    )(_waitpid_for_frida),
}


_originals: dict[int, int] = {}  # address of a slot → what it held


@functools.cache
def guard(library: str) -> bool:
    """Has Frida's library call our functions from now on. Done once a process.

    Args:
        library: path of the loaded ``_frida`` extension module.

    Returns:
        False when the library does not call libc's: another way of injecting, which this module
        knows nothing about.
    """
    loaded = ctypes.CDLL(library, mode=RTLD_NOLOAD)
    return all([_redirect(loaded, name, function) for name, function in _REPLACEMENTS.items()])


def _redirect(library: ctypes.CDLL, name: bytes, function: object) -> bool:
    slot = _slot_of(library, name)
    if slot is None:
        return False
    # RELRO: the loader has made it read-only.
    page = slot & -mmap.PAGESIZE
    readable_writable = mmap.PROT_READ | mmap.PROT_WRITE
    if _libc.mprotect(ctypes.c_void_p(page), ctypes.c_size_t(mmap.PAGESIZE), readable_writable):
        return False
    address = ctypes.cast(function, ctypes.c_void_p).value  # type: ignore[arg-type]
    assert address is not None
    _originals[slot] = ctypes.c_uint64.from_address(slot).value
    ctypes.c_uint64.from_address(slot).value = address
    return True


def release() -> None:
    """Has Frida's library call libc itself again: our functions end with the interpreter."""
    for slot, original in _originals.items():
        ctypes.c_uint64.from_address(slot).value = original
    _originals.clear()


def _slot_of(library: ctypes.CDLL, name: bytes) -> int | None:
    """Address of the slot of the procedure linkage table for ``name`` (System V ABI AMD64 5.2)."""
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
