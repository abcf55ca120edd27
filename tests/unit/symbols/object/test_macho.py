"""Mach-O files and dSYM bundles: the right part of the right file, against LLVM's answers."""

from __future__ import annotations

import os
import random
import shutil
import struct
from dataclasses import replace
from pathlib import Path

import pytest

import appleshapes
from appleshapes import ARCHES, PATH
from flametap.model import Frame, FrameKind, Module, RawFrame
from flametap.recording.names.table import SymbolTable
from flametap.symbols.advice import advice
from flametap.symbols.debuginfo import symcache
from flametap.symbols.debuginfo.symcache_table import SymcacheTable
from flametap.symbols.locate.module_files import FilesError, TargetFiles
from flametap.symbols.locate.open_file import open_image
from flametap.symbols.names.demangle import demangle
from flametap.symbols.object.loaded_image import LoadedImage
from flametap.symbols.object.macho import MachOFile, fat_slices
from flametap.symbols.object.macho_symbols import StubNames, function_symbols, has_debug_map
from flametap.symbols.object.object_file import ObjectError, ObjectFile, Segment
from flametap.symbols.object.open_object import arches, open_object
from flametap.symbols.resolver import ModuleResolver
from flametap.symbols.symbolizer import Symbolizer

SLIDE = 0x4A30000


@pytest.fixture
def shapes(tmp_path: Path) -> Path:
    return appleshapes.unpack(tmp_path / "mac")


def apple_module(arch: str, uuid: str = "") -> Module:
    return Module(7, PATH, SLIDE, 0x100000000 + SLIDE, 0x100010000 + SLIDE,
                  uuid or appleshapes.expected(arch).uuid)  # fmt: skip


def open_macho(path: Path, arch: str = "") -> MachOFile:
    image = open_image(str(path), arch=arch)
    assert isinstance(image.elf, MachOFile)
    return image.elf


def resolver_for(module: Module, *symbol_dirs: Path) -> ModuleResolver:
    """What Symbolizer does, without its threads."""
    files = TargetFiles(None, [str(folder) for folder in symbol_dirs])
    own = files.open_module(module)
    debug = files.open_debug_file(module, own.elf)
    resolver = ModuleResolver(module, own.elf, None if debug is None else debug.elf)
    for image in (own, debug):
        if image is not None and image.elf.debug_info_bytes:
            assert image.file is not None
            built = symcache.build(
                f"/proc/self/fd/{image.file.fileno()}", image.elf.base_addr, image.elf.build_id
            )
            resolver.lines = SymcacheTable(built.to_bytes(), image.elf.base_addr)
    return resolver


def test_fat_file_gives_the_part_with_the_wanted_uuid(shapes: Path) -> None:
    for arch in ARCHES:
        uuid = appleshapes.expected(arch).uuid
        image = open_image(str(shapes / "shapes"), build_id=uuid)
        assert isinstance(image.elf, MachOFile)
        assert (image.elf.build_id, image.elf.arch) == (uuid, arch)
        assert image.file is not None
        assert (arch, uuid) in arches(image.file.read, image.file.size)
        image.close()


@pytest.mark.parametrize("arch", ARCHES)
def test_functions_are_those_of_llvm_nm(shapes: Path, arch: str) -> None:
    symbols = function_symbols(open_macho(shapes / "shapes", arch))
    text = symbols.strings
    found = {
        text[name : text.index(b"\0", name)].decode(): start
        for name, start in zip(symbols.names.tolist(), symbols.starts.tolist(), strict=True)
    }
    known = appleshapes.expected(arch).functions
    assert found == {name.removeprefix("_"): addr for name, addr in known.items()}


@pytest.mark.parametrize("arch", ARCHES)
def test_chains_are_those_of_llvm_symbolizer(shapes: Path, arch: str) -> None:
    module = apple_module(arch)
    resolver = resolver_for(module, shapes)
    wrong = []
    for addr, chain in appleshapes.expected(arch).chains.items():
        ours = [(f.function.name, f.function.file, f.line) for f in resolver.resolve(addr)]
        theirs = [(demangle(symbol)[0], file, line) for symbol, file, line in chain]
        # Stubs and thunks have no line; llvm-symbolizer names no stub.
        if theirs[0][1] and ours != theirs:
            wrong.append((hex(addr), ours, theirs))
    assert not wrong
    assert any(len(chain) == 3 for chain in appleshapes.expected(arch).chains.values())


def test_names_of_objective_c_stay_and_those_of_swift_are_made_readable(shapes: Path) -> None:
    resolver = resolver_for(apple_module("arm64"), shapes)
    functions = appleshapes.expected("arm64").functions

    def name(symbol: str) -> str:
        return resolver.resolve(functions[symbol])[0].function.name

    assert name("-[Counter addTo:times:]") == "-[Counter addTo:times:]"
    assert name("_$s4Demo7CounterV5totalyS2iF") == "Counter.total(_:)"
    assert name("__ZNK6shapes3BoxIlE5twiceEl") == "shapes::Box<long>::twice"


LAYOUTS = {
    "bundle in the folder": "shapes.dSYM",
    "bundle under another name": "Release build.dSYM",
    "Xcode archive": "dSYMs/shapes.app.dSYM",
    "by UUID, two levels": "{a}/{b}.dSYM",
}


@pytest.mark.parametrize("layout", [*LAYOUTS, "the folder is the bundle", "flat", "Apple's UUIDs"])
def test_dsym_is_found_by_uuid(shapes: Path, tmp_path: Path, layout: str) -> None:
    uuid = appleshapes.expected("arm64").uuid
    folder = tmp_path / "symbols"
    bundle = shapes / "shapes.dSYM"
    inside = bundle / "Contents/Resources/DWARF/shapes"
    if layout in LAYOUTS:
        shutil.copytree(bundle, folder / LAYOUTS[layout].format(a=uuid[:2], b=uuid[2:]))
    elif layout == "the folder is the bundle":
        folder = bundle
    elif layout == "flat":
        folder.mkdir()
        shutil.copy(inside, folder / "shapes")
    else:
        upper = uuid.upper()
        place = folder.joinpath(*(upper[i : i + 4] for i in range(0, 20, 4)))
        place.mkdir(parents=True)
        shutil.copy(inside, place / upper[20:])
    shutil.rmtree(shapes) if folder != bundle else (shapes / "shapes").unlink()
    resolver = resolver_for(apple_module("arm64"), folder)
    addr = appleshapes.expected("arm64").functions["_main"]
    [*_, leaf] = resolver.resolve(addr)
    assert (leaf.function.name, leaf.function.file) == ("main", "/src/shapes.cc")


@pytest.mark.parametrize(
    ("image", "bundle"),
    [
        ("shapes", "shapes.dSYM"),
        ("Demo.app/Contents/MacOS/shapes", "Demo.app.dSYM"),
        ("Kit.framework/Versions/A/shapes", "Kit.framework.dSYM"),
        (
            "Demo.app/Contents/Frameworks/Kit.framework/Versions/A/shapes",
            "Demo.app/Contents/Frameworks/Kit.framework.dSYM",
        ),
    ],
)
def test_dsym_is_found_beside_what_the_image_belongs_to(
    shapes: Path, tmp_path: Path, image: str, bundle: str
) -> None:
    place = tmp_path / "build" / image
    place.parent.mkdir(parents=True)
    shutil.copy(shapes / "shapes", place)
    shutil.copytree(shapes / "shapes.dSYM", tmp_path / "build" / bundle)
    module = replace(apple_module("arm64"), path=str(place))
    resolver = resolver_for(module)
    [*_, leaf] = resolver.resolve(appleshapes.expected("arm64").functions["_main"])
    assert leaf.function.file == "/src/shapes.cc"


def test_names_that_only_the_loader_has_are_read(shapes: Path) -> None:
    file = open_macho(shapes / "shapes", "arm64")
    functions = appleshapes.expected("arm64").functions
    file.symbols = None
    symbols = function_symbols(file)
    exported = ("-[Counter addTo:times:]", "_$s4Demo7CounterV5totalyS2iF", "_main")
    assert set(symbols.starts.tolist()) == {functions[name] for name in exported}
    resolver = ModuleResolver(apple_module("arm64"), file, None)
    hidden = functions["__ZN6shapesL6hiddenEi"]
    assert resolver.resolve(functions["_main"] + 4)[0].function.name == "main"
    assert resolver.resolve(hidden)[0].function.kind is FrameKind.UNKNOWN


@pytest.mark.parametrize("is_wide", [False, True])
def test_fat_files_of_both_kinds_are_taken_apart(shapes: Path, is_wide: bool) -> None:
    fat = (shapes / "shapes").read_bytes()
    parts = fat_slices(lambda offset, size: fat[offset : offset + size], len(fat))
    arm = next(part for part in parts if part.arch == "arm64")
    thin = fat[arm.place.offset : sum(arm.place)]
    # A part that cannot be read (32 bits) beside one that can, which claims to be arm64e's.
    old, new = (7, 3, bytes.fromhex("cefaedfe") + bytes(100)), (0x0100000C, 0x80000002, thin)
    data = struct.pack(">II", 0xCAFEBABF if is_wide else 0xCAFEBABE, 2).ljust(4096, b"\0")
    table = b""
    for cpu, subtype, contents in (old, new):
        place = (cpu, subtype, len(data), len(contents), 14)
        table += struct.pack(">IIQQII", *place, 0) if is_wide else struct.pack(">IIIII", *place)
        data += contents
    data = data[:8] + table + data[8 + len(table) :]
    file = open_object(lambda offset, size: data[offset : offset + size], len(data))
    assert isinstance(file, MachOFile)
    assert file.build_id == appleshapes.expected("arm64").uuid
    assert len(function_symbols(file).starts) == len(appleshapes.expected("arm64").functions)


def test_file_with_another_uuid_is_never_used(shapes: Path) -> None:
    other = apple_module("arm64", "00112233445566778899aabbccddeeff")
    with pytest.raises(FilesError):
        TargetFiles(None, [str(shapes)]).open_module(other)


def test_dsym_of_another_build_is_never_used(shapes: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "other"
    shutil.copytree(shapes / "shapes.dSYM", elsewhere / "shapes.dSYM")
    dwarf = elsewhere / "shapes.dSYM/Contents/Resources/DWARF/shapes"
    uuid = bytes.fromhex(appleshapes.expected("arm64").uuid)
    dwarf.write_bytes(dwarf.read_bytes().replace(uuid, uuid[::-1]))
    own = open_image(str(shapes / "shapes"), build_id=uuid.hex())
    files = TargetFiles(None, [str(elsewhere)])
    assert files.open_debug_file(apple_module("arm64"), own.elf) is None
    own.close()


@pytest.mark.parametrize("arch", ARCHES)
def test_stripped_file_shows_one_box_per_function(shapes: Path, arch: str) -> None:
    stripped = open_macho(shapes / "shapes.stripped", arch)
    functions = appleshapes.expected(arch).functions
    resolver = ModuleResolver(apple_module(arch), stripped, None)
    assert resolver.tables == "dynsym"
    [main] = resolver.resolve(functions["_main"] + 8)
    assert main.function.name == "main"  # exported
    hidden = functions["__ZN6shapesL6hiddenEi"]
    boxes = {resolver.resolve(hidden + offset) for offset in range(0, 40, 4)}
    [[box]] = boxes
    assert box.function.name == f"shapes+{hidden:#x}"
    assert box.function.kind is FrameKind.UNKNOWN


def test_stripped_file_without_function_starts_names_nothing_it_cannot_bound(
    shapes: Path,
) -> None:
    def without_starts(path: Path) -> MachOFile:
        file = open_macho(path, "arm64")
        file._function_starts = None
        return file

    assert not len(function_symbols(without_starts(shapes / "shapes.stripped")).starts)
    symbols = function_symbols(without_starts(shapes / "shapes"))
    assert len(symbols.starts) == len(appleshapes.expected("arm64").functions)
    assert not symbols.sizes.any()


def test_what_is_missing_is_said_with_its_remedy(shapes: Path) -> None:
    module = apple_module("arm64")
    for name, what in (("shapes", "run dsymutil"), ("shapes.stripped", "only exported names")):
        image = open_image(str(shapes / name), build_id=module.build_id)
        text = advice(image, None, ModuleResolver(module, image.elf, None))
        assert what in text
        assert f"shapes.dSYM (UUID {module.build_id})" in text
        image.close()
    with pytest.raises(FilesError, match=f"not found on this machine.*{module.build_id}"):
        TargetFiles(None).open_module(module)


@pytest.mark.parametrize("arch", ARCHES)
def test_stubs_are_named_after_what_they_call(shapes: Path, arch: str) -> None:
    own = open_macho(shapes / "shapes", arch)
    [(section, _, stub_size)] = own.stubs
    names = [
        StubNames(own).lookup(addr)
        for addr in range(section.addr, section.addr + section.size, stub_size)
    ]
    assert "puts" in names
    resolver = ModuleResolver(apple_module(arch), own, None)
    addr = section.addr + names.index("puts") * stub_size
    assert resolver.resolve(addr)[0].function.name == "puts@plt"
    assert StubNames(own).lookup(section.addr + section.size) is None


def test_debug_map_tells_that_dsymutil_was_not_run(shapes: Path) -> None:
    assert has_debug_map(open_macho(shapes / "shapes", "arm64"))
    assert not has_debug_map(open_macho(shapes / "shapes.stripped", "arm64"))


def test_recorded_image_gets_its_names_on_this_host(shapes: Path, tmp_path: Path) -> None:
    """The way of a recording made on a Mac: UUID and slide in, frames with lines out."""
    known = appleshapes.expected("arm64")
    addr = next(addr for addr, chain in known.chains.items() if len(chain) == 3)
    table = SymbolTable()
    symbolizer = Symbolizer(table, None, symbol_dirs=[str(shapes)], cache_dir=tmp_path / "cache")
    try:
        symbolizer.add_module(apple_module("arm64"))
        symbolizer.submit_many([(0, RawFrame(7, addr))])
        assert symbolizer.wait_idle(30)
        frames = table.frames(0)
        assert [frame.line for frame in frames] == [line for _, _, line in known.chains[addr]]
        assert names_of(frames) == ["shapes::hidden", "shapes::middle", "shapes::small"]
        assert [frame.function.kind for frame in frames[1:]] == [FrameKind.INLINED] * 2
        [source] = symbolizer.sources()
        assert source.has_lines
    finally:
        symbolizer.close()


def names_of(frames: list[Frame]) -> list[str]:
    return [frame.function.name for frame in frames]


def read_all(data: bytes) -> None:
    """Everything that is ever asked of a file."""

    def read(offset: int, size: int) -> bytes:
        return data[offset : offset + size]

    arches(read, len(data))
    file = open_object(read, len(data))
    assert isinstance(file, MachOFile)
    resolver = ModuleResolver(apple_module("arm64"), file, file)
    for section in file.sections:
        for addr in (section.addr, section.addr + section.size - 1):
            assert resolver.resolve(addr)
    has_debug_map(file)


def problem_of(data: bytes) -> str:
    """What the reader says against a file, ``""`` if it read it."""
    try:
        read_all(data)
    except ObjectError as error:
        return str(error)
    return ""


def damaged(whole: bytes, numbers: random.Random) -> bytes:
    """The file cut short, or with some bytes changed, half of the time in its headers."""
    if numbers.random() < 0.4:
        return whole[: numbers.randrange(len(whole))]
    data = bytearray(whole)
    for _ in range(numbers.choice((1, 4, 32))):
        place = numbers.randrange(numbers.choice((2000, len(data))))
        data[place] = numbers.choice((0, 1, 0x7F, 0x80, 0xFF, numbers.randrange(256)))
    return bytes(data)


@pytest.mark.parametrize("name", ["shapes", "shapes.dSYM/Contents/Resources/DWARF/shapes"])
def test_damaged_file_is_an_error_and_nothing_else(shapes: Path, name: str) -> None:
    fat = (shapes / name).read_bytes()
    [thin] = [
        fat[part.place.offset : sum(part.place)]
        for part in fat_slices(lambda offset, size: fat[offset : offset + size], len(fat))
        if part.arch == "arm64"
    ]
    assert not problem_of(fat)
    assert not problem_of(thin)
    numbers = random.Random(name)
    count = int(os.environ.get("FLAMETAP_MUTATIONS", "300"))
    problems = [problem_of(damaged(numbers.choice((fat, thin)), numbers)) for _ in range(count)]
    assert len(set(problems)) > 5
    assert not [problem for problem in problems if "\n" in problem]


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "an empty file"),
        (b"MZ\x90\0" + bytes(64), "a Windows program"),
        (b"!<arch>\n" + bytes(64), "an archive"),
        (bytes.fromhex("cafebabe00000034") + bytes(64), "a Java class"),
        (bytes.fromhex("cefaedfe") + bytes(64), "32-bit"),
        (bytes.fromhex("feedfacf") + bytes(64), "big-endian"),
        (bytes.fromhex("cffaedfe") + bytes(8), "truncated"),
        (b"#!/bin/sh\n", "a script"),
        (b"some text", "not an ELF or Mach-O file"),
    ],
)
def test_what_a_file_is_instead_is_said(data: bytes, what: str) -> None:
    with pytest.raises(ObjectError, match=what):
        open_object(lambda offset, size: data[offset : offset + size], len(data))


def test_part_for_another_processor_is_named(shapes: Path) -> None:
    with pytest.raises(ObjectError, match="not for arm64e: it is for"):
        open_image(str(shapes / "shapes"), arch="arm64e")


class ShortFile(ObjectFile):
    """Says that it holds far more than it does."""

    def __init__(self) -> None:
        super().__init__(lambda offset, size: b"", 0)
        self.segments = [Segment(1, 0, 0x1000, 1 << 60)]
        self.sections = []
        self.reads = 0

    def at_addr(self, file_addr: int, size: int) -> bytes:
        self.reads += 1
        return b"needle".rjust(100)[max(0, file_addr - 0x1000) :]


def test_search_ends_where_the_file_does() -> None:
    file = ShortFile()
    assert list(LoadedImage(file).find(b"needle")) == [0x1000 + 94]
    assert file.reads == 1
