"""Is a thread in fork, malloc or the dynamic loader? Of the first two the stack tells: somewhere
above there is a return address into that function; of the third its locks.

fork is far more than the system call: glibc runs the functions of pthread_atfork(3) before and
after it, takes the locks of malloc and stdio, and gives them back. All that is code of the process
itself, in which no system call shows where the thread is. malloc and its like hold the lock of an
arena, which the next call of malloc waits for.

Reads libc's symbols by itself: the target stands still meanwhile, and ``symbols`` would first load
numpy (0.25 s). System V ABI, "Symbol Table"; proc(5).
"""

from __future__ import annotations

import contextlib
import os
import re
import struct

from ...linux import elf_headers, procfs, ptrace
from ...linux.file_rights import ProcessUser
from ...linux.open_beneath import open_mapped_file

FORK = (b"fork",)
ALLOCATION = (b"malloc", b"free", b"calloc", b"realloc", b"memalign", b"posix_memalign")
# glibc before 2.34 calls itself libc-2.31.so.
LOADER = re.compile(r"ld-linux-x86-64\.so\.2|ld-2\.\d+\.so")
MUTEX_RECURSIVE = 1  # <pthread.h>, PTHREAD_MUTEX_RECURSIVE
LOCKED_MAX = 100  # as deep as dlopen(3) is called from constructors
LIBC = re.compile(r"libc(\.so\.6|-2\.\d+\.so)")
# How far up the stack: fork's own functions need little, those of pthread_atfork may need more. The
# further up, the more of it is older than the call, and says nothing.
STACK_BYTES = {FORK: 4096, ALLOCATION: 1024}

# Of a table; libc's are 0.1 MB.
_MAX_BYTES = 1 << 22


Ranges = list[tuple[int, int]]


def holds(tid: int, sp: int, pc: int, names: tuple[bytes, ...], ranges: Ranges) -> bool:
    """True if a thread that stands still is in one of some functions, or in what they have called.

    Args:
        tid: the thread.
        sp, pc: its registers, runtime_addr.
        names: ``FORK`` or ``ALLOCATION``.
        ranges: where these are, see ``find``.
    """
    with contextlib.suppress(OSError):
        words = (pc, *ptrace.stack(tid, sp, STACK_BYTES[names]))
        return any(start <= word < end for start, end in ranges for word in words)
    return False


def is_in_loader(tid: int, pc: int) -> bool:
    """True if a stopped thread is in the dynamic loader, or holds one of the loader's locks.

    It holds one in dlopen(3), in a constructor that is called there, and in the callback of
    dl_iterate_phdr(3). The stack could not tell: it has old return addresses in what nobody has
    written to.
    """
    with contextlib.suppress(OSError), open(f"/proc/{tid}/mem", "rb", buffering=0) as memory:
        own_tid = procfs.read_status(tid).own_pid  # what the process has written into the lock
        for each in procfs.read_mappings(tid):
            if LOADER.fullmatch(each.name):
                if "x" in each.permissions and each.start <= pc < each.end:
                    return True
                if "w" in each.permissions:
                    memory.seek(each.start)
                    if _has_lock_of(own_tid, memory.read(each.end - each.start)):
                        return True
    return False


def _has_lock_of(own_tid: int, data: bytes) -> bool:
    """True if there is a recursive mutex that a thread has locked, by its tid in its own namespace.

    Its words are the lock, how often it is taken, the owner (0 in a program without libpthread,
    before glibc 2.34), the number of users, and the kind. <bits/struct_mutex.h>
    """
    words = struct.unpack_from(f"<{len(data) // 4}I", data)
    return any(
        kind == MUTEX_RECURSIVE
        and 0 < count <= LOCKED_MAX
        and (owner == own_tid if lock else not owner)
        for lock, count, owner, kind in zip(words, words[1:], words[2:], words[4:], strict=False)
    )


def find(pid: int, names: tuple[bytes, ...]) -> Ranges:
    """Start and end of functions in a process, runtime_addr; none if they cannot be found."""
    with contextlib.suppress(OSError, elf_headers.ElfHeaderError):
        for mapping in procfs.read_mappings(pid):
            if mapping.file_offset == 0 and LIBC.fullmatch(mapping.name):
                descriptor = open_mapped_file(ProcessUser(pid), mapping)
                if descriptor is not None:
                    try:
                        return [
                            (mapping.start + start, mapping.start + start + size)
                            for start, size in _functions(descriptor, names)
                        ]
                    finally:
                        os.close(descriptor)
    return []


def _functions(descriptor: int, names: tuple[bytes, ...]) -> list[tuple[int, int]]:
    """file_addr and size in bytes of each exported function of these names in an ELF file.

    Raises:
        OSError, ElfHeaderError: the file cannot be read, or is damaged.
    """
    read = elf_headers.file_reader(descriptor, _MAX_BYTES)
    header = elf_headers.parse_header(read(0, elf_headers.HEADER.size))
    sections = elf_headers.read_section_headers(header, read)
    for section in sections:
        if section.kind == elf_headers.SHT_DYNSYM and section.link < len(sections):
            symbols = read(section.offset, section.size)
            strings = read(sections[section.link].offset, sections[section.link].size)
            # A name may be the end of a longer one.
            ends = re.finditer(b"(?=(" + b"|".join(names) + b")\0)", strings)
            places = {match.start() for match in ends}
            whole = symbols[: len(symbols) // elf_headers.SYMBOL.size * elf_headers.SYMBOL.size]
            return [
                (value, size)
                for name, _, _, _, value, size in elf_headers.SYMBOL.iter_unpack(whole)
                if name in places and size
            ]
    return []
