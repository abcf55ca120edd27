"""Fuzz targets of the agent's C: building them, and the inputs they begin with.

A target is ``tests/fuzz/fuzz_NAME.c`` behind the agent's sources. clang's libFuzzer runs it for
long (``tests/fuzz/run.py``), ``replay.c`` for a moment in every test run. Seeds are made here from
what the machine has: nothing binary is kept in the repository.
"""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

from agent_build import CFI_SOURCES, PART, WARNINGS, compiled
from eh_frame import (
    ENTRY_PROGRAM,
    SECTION_ADDR,
    TEXT_START,
    Section,
    SectionBuilder,
    cie,
    read_section,
    record,
    sleb,
    uleb,
)
from flametap.agent import C_SOURCES, source

FOLDER = Path(__file__).parents[1] / "fuzz"
PIECE_BYTES = 768  # of a real section: a CIE and some of its FDEs
SANITIZE = "-fsanitize=address,undefined"
TARGETS: dict[str, tuple[str, ...]] = {
    "cfi": CFI_SOURCES,
    "elf": C_SOURCES,
    "gotable": C_SOURCES,
    "inflate": C_SOURCES,
    "procfs": C_SOURCES,
    "unwind": C_SOURCES,
}
"""Name of a target → the agent's files it is built behind."""


def build(name: str, compiler: str, *flags: str, more: tuple[str, ...] = ()) -> Path:
    """Build a target with sanitizers; any finding ends the program.

    Args:
        name: of ``TARGETS``.
        flags: which sanitizers.
        more: files of tests/fuzz to put behind it.

    Returns:
        the program (``build_cache``).

    Raises:
        RuntimeError: the compiler refused; the message is its own.
    """
    text = source(TARGETS[name])
    for file in (f"fuzz_{name}.c", *more):
        text += f'#line 1 "{file}"\n{(FOLDER / file).read_text("utf-8")}\n'
    includes = (f"-I{FOLDER}", f"-I{FOLDER.parent / 'agent_c'}")
    finding = ("-fno-sanitize-recover=all", "-O1", "-g", "-pthread")
    kind = f"{Path(compiler).name}/fuzz_{name}"
    return compiled(kind, text, [compiler, *WARNINGS, *PART, *finding, *includes, *flags])


def write_seeds(name: str, folder: Path, binaries: list[Path], limit: int) -> int:
    """Write at most ``limit`` different seeds into ``folder``; returns how many."""
    makers: dict[str, Callable[[list[Path]], Iterator[bytes]]] = {
        "cfi": _cfi_seeds,
        "elf": _elf_seeds,
        "gotable": _gotable_seeds,
        "inflate": _inflate_seeds,
        "procfs": _procfs_seeds,
        "unwind": _unwind_seeds,
    }
    seeds = dict.fromkeys(makers[name](binaries))
    chosen = random.Random(1).sample(list(seeds), min(limit, len(seeds)))
    for i, seed in enumerate(chosen):
        (folder / f"seed_{i:05}").write_bytes(seed)
    return len(chosen)


# ---- .eh_frame


def _records(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + 8 <= len(data):
        (length,) = struct.unpack_from("<I", data, at)
        if length == 0 or length == 0xFFFFFFFF or at + 4 + length > len(data):
            return
        yield at, data[at : at + 4 + length]
        at += 4 + length


def _pieces(section: Section) -> Iterator[bytes]:
    """Each CIE with as many of the FDEs that follow it as fit; as a section of its own."""
    cies: dict[int, bytes] = {}
    piece, base, own = b"", -1, -1
    for at, one in _records(section.data):
        (pointer,) = struct.unpack_from("<I", one, 4)
        if pointer == 0:
            cies[at] = one
            continue
        wanted = at + 4 - pointer
        if wanted not in cies:
            continue
        if wanted != own or len(piece) + len(one) > PIECE_BYTES:
            if piece:
                yield piece
            piece, own, base = cies[wanted], wanted, TEXT_START
        # Its code is put behind that of the one before: pc begin is pcrel and 4 bytes wide.
        (size,) = struct.unpack_from("<I", one, 12)
        here = SECTION_ADDR + len(piece) + 8
        head = struct.pack("<III", len(one) - 4, len(piece) + 4, (base - here) & 0xFFFFFFFF)
        piece += head + one[12:]
        base += size % 4096
    if piece:
        yield piece


def _as_debug_frame(piece: bytes) -> bytes:
    """The same records as .debug_frame has them: other ids, addresses that are absolute."""
    data = b""
    for _, one in _records(piece):
        (pointer,) = struct.unpack_from("<I", one, 4)
        if pointer == 0:
            program = ENTRY_PROGRAM
            body = struct.pack("<IB", 0xFFFFFFFF, 3) + b"\0\1\x78\x10" + program
        else:
            (size,) = struct.unpack_from("<I", one, 12)
            body = struct.pack("<IQQ", 0, TEXT_START + len(data), size % 256) + one[17:]
        data += record(body)
    return data


def _instructions() -> Iterator[bytes]:
    """Every call frame instruction with operands of several sizes, and expressions."""
    numbers = [0, 1, 6, 7, 8, 16, 17, 127, 128, 1 << 14, (1 << 31) - 1, 1 << 31, (1 << 63) + 5]
    blocks = [
        b"",
        b"\x77\x08",
        b"\x77\x08\x80\x00\x3f\x1a\x3b\x2a\x33\x24\x22",
        b"\x76\x78\x06",
        b"\x77" + sleb(-200) + b"\x06\x23\x08",
        b"\x7a\x00\x06",
        b"\x92" + uleb(300) + b"\x00",
        b"\x77\xa8\x01",
        b"\x77\x08\x79\x00\x38\x1e\x22",
    ]
    for op in (0x05, 0x0C, 0x14, 0x09, 0x2F):
        for a in numbers:
            yield bytes([op]) + uleb(a % 64) + uleb(a)
    for op in (0x06, 0x07, 0x08, 0x0D, 0x0E, 0x2E):
        for a in numbers:
            yield bytes([op]) + uleb(a)
    for op in (0x11, 0x12, 0x15):
        for a in numbers:
            yield bytes([op]) + uleb(a % 32) + sleb(a) + bytes([op]) + uleb(6) + sleb(-a)
    for a in numbers:
        yield b"\x13" + sleb(a) + b"\x13" + sleb(-a)
    for block in blocks:
        yield b"\x0f" + uleb(len(block)) + block
        for register in (6, 7, 16, 3):
            yield b"\x10" + uleb(register) + uleb(len(block)) + block
            yield b"\x16" + uleb(register) + uleb(len(block)) + block
    yield from (
        bytes([0x02, 9]),
        b"\x03\x10\x01",
        b"\x04\x10\0\0\0",
        b"\x1d" + bytes([1] + [0] * 7),
    )
    yield from (b"\x0a\x0e\x20\x41\x0b", b"\x0a" * 70, b"\x0b", b"\x2d", b"\x01\0\0\0\0\0\0\0\0")


def _cfi_seeds(binaries: list[Path]) -> Iterator[bytes]:
    for path in binaries:
        try:
            section = read_section(path)
        except ValueError:
            continue
        for piece in _pieces(section):
            yield b"\0" + piece
            yield b"\x20" + _as_debug_frame(piece)
    for options in (0, 2, 4, 6, 8, 16):
        for encoding in (b"\x1b", b"\x00", b"\x03", b"\x0b", b"\x1c", b"\x01", b"\x09", b"\x50"):
            builder = SectionBuilder()
            first = builder.add(cie(data=encoding))
            for i in range(4):
                builder.fde(first, TEXT_START + 64 * i, 64, b"\x41\x0e\x10\x86\x02\x48\xc6\x0e\x08")
            yield bytes([options]) + builder.section().data
    for letters in ("zR", "zRS", "", "zPLR", "zX", "R"):
        for version, register in ((1, 16), (3, 16), (4, 16), (1, 30)):
            builder = SectionBuilder()
            data = b"\x9b\x01\x02\x03\x04\x1b\x1b" if "P" in letters else b"\x1b"
            made = cie(augmentation=letters, data=data, version=version, ra_reg=register)
            builder.fde(builder.add(made), TEXT_START, 64, b"\x41\x0e\x10")
            yield b"\0" + builder.section().data
    yield b"\0" + record(b"\0" * 4) + b"\0" * 4
    # The form whose records are made by the target.
    entry = bytes([0, 0, len(ENTRY_PROGRAM)]) + ENTRY_PROGRAM
    for kind in range(8):
        for instruction in _instructions():
            program = b"\x44" + instruction[:200] + b"\x48\x0e\x18"
            fde = struct.pack("<HHB", 16, 128, len(program)) + program
            yield (
                bytes([1, kind])
                + entry[1:]
                + fde
                + struct.pack("<HHB", 200, 64, 3)
                + b"\x41\x0e\x10"
            )


# ---- images of ELF files


def _elf_seeds(binaries: list[Path]) -> Iterator[bytes]:
    for path in binaries:
        with path.open("rb") as file:
            yield bytes([0, 2]) + file.read(2000)
    for packed in (None, False, True):
        yield bytes([1, 2]) + tiny_image(packed)


def _gotable_seeds(_: list[Path]) -> Iterator[bytes]:
    """Small tables of Go 1.18 and 1.20: frames that grow and shrink, roots, a signal's return."""
    names = b"\0main.main\0runtime.sigreturn\0runtime.sigtramp\0runtime.goexit\0"
    frames = b"\0\x02\x08\x40\x10\x3f\x08\0" + b"\x02\x20\0" + b"\x82\x01\x90\x01\x81\x01\x10\0"
    for magic, extra in ((0xFFFFFFF0, 37), (0xFFFFFFF1, 41)):
        for step in (1, 32, 64):
            records, index = b"", b""
            kinds = [(1, 1, 0), (1, 9, 0), (11, 1, 0), (29, 12, 2), (47, 1, 1), (1, 0, 0)]
            for i, (name, values, flags) in enumerate(kinds):
                index += struct.pack("<II", 1 + step * i, 8 * len(kinds) + 8 + len(records))
                fields = struct.pack("<5I", step * i, name, 0, 0, values)
                records += fields + bytes(extra - 20) + bytes([flags]) + bytes(6)
            index += struct.pack("<II", step * len(kinds) + 1, 0)
            parts, at = [names, frames, index + records], [72]
            for part in parts:
                at.append(at[-1] + len(part))
            text = 0x401000
            counts = struct.pack("<QQQ", len(kinds), 1, text)
            offsets = struct.pack("<5Q", at[0], at[0], at[0], at[1], at[2])
            yield struct.pack("<IHBB", magic, 0, 1, 8) + counts + offsets + b"".join(parts)


def _inflate_seeds(_: list[Path]) -> Iterator[bytes]:
    """Streams of all kinds of blocks, most of them of the size they say."""
    chance = random.Random(3)
    for i in range(200):
        words = [chance.randbytes(chance.randrange(1, 9)) for _ in range(chance.randrange(1, 40))]
        data = b"".join(chance.choices(words, k=chance.randrange(1, 200)))
        packer = zlib.compressobj(i % 10, strategy=(0, 1, 2, 3, 4)[i % 5])
        yield struct.pack("<H", len(data)) + packer.compress(data) + packer.flush()


def tiny_image(packed: bool | None = None) -> bytes:
    """A file that has all the agent looks for: code, a build-id, .eh_frame with its header; with
    ``packed`` given, a .debug_frame instead, compressed or not.
    """
    builder = SectionBuilder()
    frames, header, note = 0x300, 0x280, 0x240
    first = builder.add(cie())
    data = bytearray(builder.data)
    for i in range(4):
        at = frames + len(data)
        body = struct.pack("<IiI", len(data) + 4 - first, 0x1000 + 64 * i - (at + 8), 64)
        data += record(body + b"\0" + b"\x41\x0e\x10\x86\x02")
    image = bytearray(0x1200)
    segments = [
        (1, 4, 0, 0, 0x1000),
        (1, 5, 0x1000, 0x1000, 0x1000),
        (4, 4, note, note, 36),
        (0x6474E550, 4, header, header, 8),
    ]
    image[:64] = struct.pack(
        "<4s4B8sHHIQQQIHHHHHH",
        *(b"\x7fELF", 2, 1, 1, 0, b"", 3, 62, 1, 0x1000, 64, 0, 0, 64, 56, len(segments), 0, 0, 0),
    )
    for i, (kind, flags, offset, vaddr, size) in enumerate(segments):
        entry = struct.pack("<IIQQQQQQ", kind, flags, offset, vaddr, vaddr, size, size, 0x1000)
        image[64 + 56 * i : 120 + 56 * i] = entry
    image[note : note + 36] = struct.pack("<III4s20s", 4, 20, 3, b"GNU\0", bytes(range(20)))
    image[header : header + 8] = b"\x01\x1b\x03\x3b" + struct.pack("<i", frames - header - 4)
    image[frames : frames + len(data)] = data
    if packed is None:
        return bytes(image)
    image[header] = 0  # nothing to be found that way
    debug = _as_debug_frame(bytes(data))
    if packed:
        debug = struct.pack("<IIQQ", 1, 0, len(debug), 8) + zlib.compress(debug)
    names = b"\0.shstrtab\0.debug_frame\0"
    sections = struct.pack("<IIQQQQIIQQ", *[0] * 10)
    for name, flags, at, content in ((1, 0, 0x500, names), (11, 0x800 * packed, 0x600, debug)):
        image[at : at + len(content)] = content
        sections += struct.pack("<IIQQQQIIQQ", name, 1, flags, 0, at, len(content), 0, 0, 1, 0)
    image[0x900 : 0x900 + len(sections)] = sections
    image[40:48] = struct.pack("<Q", 0x900)
    image[58:64] = struct.pack("<HHH", 64, 3, 1)
    return bytes(image)


# ---- procfs


def _procfs_seeds(_: list[Path]) -> Iterator[bytes]:
    maps = Path("/proc/self/maps").read_bytes()
    for at in range(0, len(maps), 1000):
        yield b"\1" + maps[at : at + 1000] + b"\n"
    for path in ("/a b", "/memfd:x (deleted)", "[vdso]", "[anon: \xff]", "/" + "long" * 200, ""):
        line = f"7f0000000000-7f0000002000 r-xp 00001000 08:01 123 {path:>40}\n"
        yield b"\1" + line.encode("latin-1")
    yield b"\1ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0      [vsyscall]\n"
    for line in (
        "202 0x7ffd0 0x80 0x0 0x0 0x0 0xffffffff 0x7ffdc0 0x7f1234567890\n",
        "-1 0x7ffdc0 0x7f1234567890\n",
        "running\n",
        "-1\n",
        "0 0x0\n",
        "18446744073709551615 " + "0xffffffffffffffff " * 8 + "\n",
    ):
        yield b"\0" + line.encode()


# ---- stacks


def _unwind_seeds(_: list[Path]) -> Iterator[bytes]:
    """Worlds of random rules, of which some carry a walk: CFA = rsp + 8 … and a root."""
    chance = random.Random(2)
    for _n in range(400):
        rules = b""
        for i in range(15):
            kind = chance.choice([1, 1, 1, 2, 2, 3, 4, 5, 6, 7, 8])
            offset = chance.choice([1, 1, 2, 3, 4]) if kind in (1, 2) else chance.randrange(8)
            saved = chance.choice([0, 0, 1, 3])
            returns = 1 if i == 14 else chance.choice([0, 0, 0, 0, 0, 3])
            rules += bytes([0x33, kind, saved, returns, chance.randrange(16), offset, 256 - 2, 0])
        words = bytes(chance.randrange(64) for _ in range(2 * chance.randrange(4, 120)))
        start = bytes([0, chance.randrange(256), *chance.randbytes(4)])
        yield bytes([chance.randrange(128)]) + rules + start + words
