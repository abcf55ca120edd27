"""Looking up exported symbols in memory, also where the memory is hostile."""

from __future__ import annotations

import random
import struct
import time
from pathlib import Path

import pytest

from fake_memory import FakeMemory
from flametap.linux.elf_headers import PT_LOAD
from flametap.linux.process_memory import MemoryReadError
from flametap.symbols.locate.loaded_symbols import LoadedElf, gnu_hash, sysv_hash
from flametap.symbols.object.elf import ElfFile, from_bytes
from flametap.symbols.object.symtab import SymbolIndex

START = 0x7F0000000000


def libc() -> bytes:
    return next(Path("/usr/lib").glob("*-linux-gnu/libc.so.6")).read_bytes()


def segments(elf: ElfFile) -> dict[int, bytearray]:
    """The loaded parts of a file, at their addresses."""
    data = {}
    for segment in elf.segments:
        if segment.kind == PT_LOAD:
            start = segment.vaddr & -4096
            size = segment.file_size + segment.vaddr - start
            data[START + start] = bytearray(elf.at_addr(segment.vaddr, segment.file_size)[:size])
            data[START + start][:0] = bytes(segment.vaddr - start)
    return data


def memory_of(parts: dict[int, bytearray]) -> FakeMemory:
    return FakeMemory({start: bytes(part) for start, part in parts.items()})


def test_hashes() -> None:
    assert gnu_hash(b"printf") == 0x156B2BB8
    assert sysv_hash(b"printf") == 0x077905A6


def test_exported_symbol_is_found_where_the_file_has_it() -> None:
    elf = from_bytes(libc())
    memory = memory_of(segments(elf))
    loaded = LoadedElf(memory, START)
    index = SymbolIndex([(elf, ".dynsym")])
    for name in ("printf", "malloc", "pthread_create", "getenv"):
        found = loaded.symbol(name)
        assert found is not None
        symbol = index.lookup(found.addr - START)
        assert symbol is not None
        assert symbol.start == found.addr - START
        assert found.size > 0
    assert loaded.load_bias == START
    assert loaded.so_name == "libc.so.6"


def test_program_headers_may_have_been_moved() -> None:
    """As by LIEF, which node's single executable applications are made with."""
    parts = segments(from_bytes(libc()))
    first = parts[START]
    offset, size, count = struct.unpack_from("<Q14xHH", first, 32)
    moved = len(first) // 2 & -4096
    headers = first[offset : offset + size * count]
    first[offset : offset + size * count] = bytes(size * count)
    first[moved : moved + size * count] = headers
    struct.pack_into("<Q", first, 32, moved)
    loaded = LoadedElf(memory_of(parts), START)
    assert loaded.so_name == "libc.so.6"


def test_what_is_not_exported_costs_few_reads() -> None:
    memory = memory_of(segments(from_bytes(libc())))
    loaded = LoadedElf(memory, START)
    before = memory.reads
    assert loaded.symbol("_PyRuntime") is None
    assert memory.reads - before <= 6


@pytest.mark.parametrize("data", [b"", b"\x7fELF", b"\x7fELF" + bytes(60), bytes(4096)])
def test_no_elf_file_is_refused(data: bytes) -> None:
    with pytest.raises(MemoryReadError):
        LoadedElf(FakeMemory({START: data}), START)


def test_damaged_memory_raises_nothing_else_and_takes_little_time() -> None:
    elf = from_bytes(libc())
    parts = segments(elf)
    numbers = random.Random(1)
    dynamic = next(each for each in elf.program_headers if each.kind == 2)
    places = [(START, 1024), (START + dynamic.vaddr, dynamic.file_size)]
    for name in (".gnu.hash", ".dynsym", ".dynstr"):
        section = elf.section(name)
        assert section is not None
        places.append((START + section.addr, min(section.size, 4096)))
    began = time.process_time()
    found = 0
    for _ in range(1500):
        damaged = {start: part for start, part in parts.items()}
        for _ in range(numbers.choice([1, 3, 10])):
            start, size = numbers.choice(places)
            place = start + numbers.randrange(size)
            holder = max(each for each in damaged if each <= place)
            if damaged[holder] is parts[holder]:
                damaged[holder] = bytearray(parts[holder])
            byte = numbers.choice([0, 1, 0x7F, 0x80, 0xFF, numbers.randrange(256)])
            if place - holder < len(damaged[holder]):
                damaged[holder][place - holder] = byte
        memory = FakeMemory(damaged)  # type: ignore[arg-type]
        try:
            loaded = LoadedElf(memory, START)
        except MemoryReadError:
            continue
        found += loaded.symbol("printf") is not None
        loaded.symbol("_PyRuntime")
        assert isinstance(loaded.so_name, str)
        assert memory.reads < 5000
    assert found > 100
    assert time.process_time() - began < 60
