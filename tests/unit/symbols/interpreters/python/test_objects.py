"""Reading objects out of memory that lies, and texts of them."""

from __future__ import annotations

import random
import struct
import time
from collections.abc import Callable

import pytest

from fake_memory import FakeMemory
from flametap.linux.process_memory import MemoryReadError
from flametap.symbols.interpreters.python import object_layout as at
from flametap.symbols.interpreters.python.coroutines import Coroutines
from flametap.symbols.interpreters.python.frames import Frames
from flametap.symbols.interpreters.python.locals import variables
from flametap.symbols.interpreters.python.object_layout import layout_of
from flametap.symbols.interpreters.python.objects import Objects
from flametap.symbols.interpreters.python.offsets import TABLES
from flametap.symbols.interpreters.python.tasks import Tasks
from flametap.symbols.interpreters.python.thread_names import thread_names
from flametap.symbols.interpreters.python.values import DAMAGED, Values
from flametap.symbols.interpreters.recipe import Recipe

BASE, SIZE = 0x10000, 1 << 14
VERSIONS = list(TABLES)


def readers(version: tuple[int, int], memory: FakeMemory) -> tuple[Objects, Frames]:
    numbers = {
        **TABLES[version],
        "runtime_addr": BASE,
        "code_type_addr": BASE + 0x100,
        "image_start": 0,
        "image_end": 0,
    }
    recipe, layout = Recipe(numbers), layout_of(version)
    assert layout is not None
    return Objects(memory, recipe, layout), Frames(memory, recipe, version)


class Builder:
    """Lays out objects of CPython 3.12 in memory."""

    def __init__(self) -> None:
        self.pieces: dict[int, bytearray] = {}
        self._next = BASE
        self.type_type = self.new(400, 0)
        self.put(self.type_type, 8, self.type_type)
        self.put(self.type_type, at.TYPE_FLAGS, at.IS_TYPE)

    def new(self, size: int, kind: int) -> int:
        addr = self._next
        self._next += size + 15 & ~15
        self.pieces[addr] = bytearray(size)
        if size >= 16:
            self.put(addr, 8, kind)
        return addr

    def put(self, addr: int, offset: int, *words: int) -> None:
        struct.pack_into(f"<{len(words)}Q", self.pieces[addr], offset, *words)

    def kind(self, name: str, flags: int) -> int:
        addr = self.new(400, self.type_type)
        text = self.new(len(name) + 1, 0)
        self.pieces[text][:] = name.encode() + b"\0"
        self.put(addr, at.TYPE_NAME, text)
        self.put(addr, at.TYPE_FLAGS, flags)
        return addr

    def list_of(self, kind: int, items: list[int], length: int | None = None) -> int:
        addr, place = self.new(40, kind), self.new(max(16, 8 * len(items)), 0)
        if items:
            self.put(place, 0, *items)
        size = len(items) if length is None else length
        self.put(addr, 16, size, place, max(size, len(items)))
        return addr

    def text(self, addr: int, limit: int = 120) -> str:
        memory = FakeMemory({key: bytes(piece) for key, piece in self.pieces.items()})
        return Values(readers((3, 12), memory)[0], limit).text(addr)


@pytest.fixture
def builder() -> Builder:
    return Builder()


def test_containers_within_themselves_end(builder: Builder) -> None:
    kind = builder.kind("list", at.IS_LIST)
    inner = builder.list_of(kind, [0, 0])
    outer = builder.list_of(kind, [inner])
    place = struct.unpack_from("<Q", builder.pieces[inner], 24)[0]
    builder.put(place, 0, inner, outer)
    assert builder.text(outer) == "[[[...], [...]]]"


def test_wide_and_deep_containers_are_cut(builder: Builder) -> None:
    kind = builder.kind("list", at.IS_LIST)
    level = builder.list_of(kind, [])
    for _ in range(30):
        level = builder.list_of(kind, [level] * 100)
    text = builder.text(level)
    assert text.startswith("[[[[[[[[")
    assert text.count("…") > 3
    assert len(text) < 400


def test_subclass_is_shown_with_its_name(builder: Builder) -> None:
    assert builder.text(builder.list_of(builder.kind("Stack", at.IS_LIST), [])) == "Stack([])"


@pytest.mark.parametrize("length", [5, 1 << 40, (1 << 64) - 1])
def test_list_that_claims_more_than_it_has_is_damaged(builder: Builder, length: int) -> None:
    kind = builder.kind("list", at.IS_LIST)
    whole = builder.list_of(kind, [])
    addr = builder.list_of(kind, [whole])
    builder.put(addr, 16, length)
    assert builder.text(addr) == DAMAGED


def test_object_that_is_none_is_damaged(builder: Builder) -> None:
    for addr in (0, 8, 4097, BASE + 1, 1 << 62, (1 << 64) - 8):
        assert builder.text(addr) == DAMAGED
    assert builder.text(builder.new(64, BASE + 8)) == DAMAGED


def readings(objects: Objects, frames: Frames, addr: int, other: int) -> list[Callable[[], object]]:
    """All that may be read of an address, or of a whole process."""
    return [
        lambda: list(variables(objects, addr, other)),
        lambda: objects.attributes(addr),
        lambda: objects.lookup(addr, "x"),
        lambda: frames.frames(addr),
        lambda: frames.code(addr),
        lambda: thread_names(frames, objects),
        lambda: Tasks(frames, objects, None).loops(),
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_random_memory_ends_each_reading(version: tuple[int, int]) -> None:
    numbers = random.Random(str(version))
    layout = layout_of(version)
    assert layout is not None
    flags = [1 << bit for bit in range(24, 32)]
    began = time.process_time()
    for _ in range(60):
        words = [
            numbers.choice(
                [
                    *(0, 1, 8, 3, 1 << 63, 0x0101_0101_0101_0101),
                    numbers.choice(flags) | at.IS_TYPE,
                    *(BASE + numbers.randrange(SIZE // 8) * 8 for _ in range(6)),
                ]
            )
            for _ in range(SIZE // 8)
        ]
        memory = FakeMemory({BASE: struct.pack(f"<{len(words)}Q", *words)})
        objects, frames = readers(version, memory)
        values, coroutines = Values(objects), Coroutines(frames, objects)
        places = [BASE + numbers.randrange(SIZE // 8) * 8 for _ in range(20)]
        for addr in places:
            assert len(values.text(addr)) <= 240 + 1
            coroutines.chain(addr)
            for read in readings(objects, frames, addr, places[0]):
                try:
                    read()
                except MemoryReadError:
                    continue
        assert memory.reads < 2_000_000
    assert time.process_time() - began < 120
