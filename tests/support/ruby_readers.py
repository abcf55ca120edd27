"""The readers of what a Ruby's memory holds: a part of ``host_readers``."""

from __future__ import annotations

import struct
from pathlib import Path

from fake_memory import FakeMemory
from flametap.linux.elf_headers import PT_LOAD, ProgramHeader
from flametap.linux.process_memory import MemoryReadError
from flametap.symbols.interpreters.recipe import Recipe
from flametap.symbols.interpreters.ruby import check, recipes
from flametap.symbols.interpreters.ruby.layout import layout_of
from flametap.symbols.interpreters.ruby.names import RubyNames
from flametap.symbols.interpreters.ruby.paths import origin_of_ruby
from flametap.symbols.locate.loaded_symbols import LoadedElf, LoadedSymbol
from flametap.symbols.names.limits import Budgets
from flametap.wire.abi import CODE_PARTS, NO_POSITION, RUBY_IN_C, RUBY_SINGLETON
from flametap.wire.events import Code, CodePart
from host_fuzzing import Reader

_HEAD = struct.Struct("<4HIQ")  # bytes of the four parts; the two details
_LINES = struct.pack("<6i", 8, -1, 0, 9, -1, 0)
_PLACES = (1 | 1 << 7 | 2 << 14).to_bytes(8, "little") * 6 + bytes(80)


def _methods(_: Path) -> list[bytes]:
    seeds = []
    for label, owner, path, table, detail in (
        (
            "block (2 levels) in <=>",
            "A::B",
            "/g/gems/a-1.2/lib/a.rb",
            _LINES + _PLACES,
            len(_LINES),
        ),
        ("new", "Ünï", "", b"", RUBY_IN_C | RUBY_SINGLETON),
        ("rescue in <main>", "", "<internal:kernel>", _LINES, len(_LINES)),
    ):
        parts = (label.encode(), owner.encode(), path.encode(), table)
        seeds.append(_HEAD.pack(*map(len, parts), 7, detail) + b"".join(parts))
    return seeds


def _read_method(data: bytes) -> None:
    if len(data) < _HEAD.size:
        return
    *sizes, first_line, detail = _HEAD.unpack_from(data)
    at, parts = _HEAD.size, []
    for size in sizes:
        parts.append(CodePart(data[at : at + size], 1, bool(size & 1)))
        at += size
    assert len(parts) == CODE_PARTS
    budgets = Budgets()
    method = RubyNames(budgets.names, budgets.table_bytes).code(
        Code(1, 1, False, tuple(parts), (first_line, detail))
    )
    for position in (0, 1, 53, 54, 600, NO_POSITION, data[0]):
        (frame,) = method.frames_at(position)
        function = frame.function
        assert function.name.isprintable()
        assert function.full_name.isprintable() or not function.full_name
        assert function.file.isprintable() or not function.file
        assert 0 <= frame.line < 1 << 31
        origin_of_ruby(function.file)


class _Elf(LoadedElf):
    """A file with one segment, of data, which has all the variables."""

    def __init__(self, size: int, *, is_stripped: bool = False) -> None:
        self.start, self.end, self.load_bias = 0x10000, 0x10000, 0x10000
        self.is_stripped = is_stripped
        self.program_headers = [ProgramHeader(PT_LOAD, 6, 0, 0, 0, size, size, 4096)]

    def symbol(self, name: str) -> LoadedSymbol | None:
        places = {"ruby_current_vm_ptr": 0, "rb_cObject": 8, "ruby_version": 16, "rb_vm_exec": 64}
        if self.is_stripped:
            del places["ruby_current_vm_ptr"]
        return LoadedSymbol(0x10000 + places[name], 64) if name in places else None


def _memories(_: Path) -> list[bytes]:
    """A machine with one thread, which has one frame; and symbols."""
    memory = bytearray(0x3000)
    seeds = []
    for version, layout_version in ((b"3.1.2", (3, 1)), (b"3.3.8", (3, 3))):
        layout = layout_of(layout_version)
        assert layout is not None

        def put(at: int, *words: int) -> None:
            struct.pack_into(f"<{len(words)}Q", memory, at - 0x10000, *words)

        machine, ractor, thread, context, stack = 0x10100, 0x10200, 0x10600, 0x10900, 0x10A00
        put(0x10000, machine, 0x12000)
        memory[16 : 16 + len(version)] = version
        put(machine + 8, ractor + layout["ractor_node"])
        put(ractor + layout["ractor_node"], machine + 8, machine + 8)
        put(ractor + layout["ractor_threads"], thread)
        put(thread, ractor + layout["ractor_threads"])
        put(thread + 24, ractor, machine)
        put(thread + layout["thread_context"], context)
        end = stack + 8 * layout["frame_bytes"]
        frame, iseq, body = end - layout["frame_bytes"], 0x11000, 0x11100
        put(context, stack, (end - stack) // 8, frame)
        put(frame, 0x11408, 0, iseq, 0, stack + 64)
        put(stack + 64, 0x11110021)
        put(iseq, 0x1A | 7 << 12, 0, body)
        put(body, 20 << 32, 0x11400)
        put(body + layout["code_file_name"], 0x11500)
        put(body + layout["code_name"], 0x11500)
        put(0x11500, 5 | 4 << 14, 0, 4)
        memory[0x1500 + layout["string_compact"] : 0x1504 + layout["string_compact"]] = b"name"
        put(0x10040, 2000, 0x12100, 0x12200)
        put(0x12200, 7 | 0x2000 | 1 << 15, 0, 0x12300)
        put(0x12300, 7 | 0x2000 | 3 << 15, 0)
        seeds += [bytes(memory), bytes(memory[:-1]) + b"\xff"]
    return seeds


def _read_memory(data: bytes) -> None:
    memory, elf = FakeMemory({0x10000: data}), _Elf(len(data), is_stripped=data[-1:] > b"\x7f")
    place = recipes.with_machine(memory, recipes.locate(memory, elf, None))
    made = recipes.make_recipe(place, 1)
    if isinstance(made, Recipe):
        check.check(memory, made, 0)
        recipes.with_names(memory, place, made)


RUBY_READERS: dict[str, Reader] = {
    "ruby-method": Reader(_methods, _read_method, (), (b"block in ", b"<", b"#", b"/gems/", b"-1")),
    "ruby-memory": Reader(_memories, _read_memory, (MemoryReadError,), (b"3.1.", b"3.3.")),
}
