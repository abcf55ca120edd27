"""The readers of files with names, and of names themselves: a part of ``host_readers``."""

from __future__ import annotations

import os
import struct
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

import appleshapes
import gotables
import jitdumps
from capabilities import find
from elfheaders import with_sections
from flametap.linux.elf_headers import EM_AARCH64, EM_X86_64
from flametap.model import FrameKind
from flametap.recording.names.inline_chains import LinesError
from flametap.symbols.debuginfo.build_callgraph import build_calls
from flametap.symbols.debuginfo.job import DebugJob
from flametap.symbols.debuginfo.reader import open_symcache
from flametap.symbols.debuginfo.symcache import build_symcache
from flametap.symbols.debuginfo.worker_client import parse_answer
from flametap.symbols.dwarf.tail_call_graph import CallGraph
from flametap.symbols.jit.code_ranges import ANY_TIME_NS
from flametap.symbols.jit.growing_file import AppendedFile
from flametap.symbols.jit.jitdump import JitDump
from flametap.symbols.jit.names import frames_of
from flametap.symbols.jit.object_lists import functions_of
from flametap.symbols.jit.perfmap import PerfMap
from flametap.symbols.locate.debug_links import alt_link, debug_link, shown, supplement_id
from flametap.symbols.locate.memory_image import _Loaded
from flametap.symbols.names.demangle import demangle
from flametap.symbols.names.limits import MAX_NAME_CHARACTERS, ModuleNames
from flametap.symbols.object.data_symbols import DataSymbols
from flametap.symbols.object.disassembly import disassemble
from flametap.symbols.object.elf import from_bytes
from flametap.symbols.object.go_names import go_names
from flametap.symbols.object.macho_symbols import StubNames, has_debug_map
from flametap.symbols.object.object_file import ObjectError, ObjectFile
from flametap.symbols.object.open_object import arches, open_object
from flametap.symbols.object.plt import PltNames
from flametap.symbols.object.symtab import SymbolIndex
from fuzzing import tiny_image
from host_fuzzing import MAX_INPUT_BYTES, Reader

SOURCE = """
static int table[4];
extern int outside(int);
static inline __attribute__((always_inline)) int twice(int x) { return x * 2 + table[x & 3]; }
__attribute__((noinline)) static int inner(int x) { return outside(twice(x)) + 1; }
__attribute__((noinline, cold)) int rare(int x) { return inner(x) * 3; }
int middle(int x) { return x > 9 ? rare(x) : inner(x + 1); }
int outer(int x) { for (int i = 0; i < x; i++) table[i & 3] += middle(i); return middle(x); }
"""
BASE = 0x7F0000001000
MANGLED = [
    "_ZN3app4spinIiEET_S1_",
    "_ZNSt6vectorIiSaIiEE9push_backEOi",
    "_ZN1AC1IiEET_",
    "_ZNKSt3mapIiS_E4findERKi",
    "_ZZN1f3gEvENKUlvE_clEv",
    "_RNvCs1234_7mycrate3foo",
    "_RINvNtC3std3mem8align_ofdE",
    "_D3std5stdio7writelnFZv",
    "_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE",
    "$s4main3fooyyF",
    "__pyx_pw_3pkg_3mod_1run",
    "_Z1fIXsr3fooE3barEEvv",
    "_RNvMs_NtCs_3a_1bINtB4_3XpE3new",
    "_ZTch0_h16_NKR1AE3fooEv",
    "f.constprop.0.cold",
    "memcpy@@GLIBC_2.14",
    "_ZL3fooPFviE.isra.0",
    "_ZN5boost3mplINS_3arg_IXadL_Z3barvEEEEE",
    "_Z4testIiEDTcl3fooT_EE",
]
JIT_NAMES = """
JS:*fib /srv/app.js:6:13|LazyCompile:*get size file:///a.js:1|Script:~ /a.js:1:1
wasm-function-liftoff|py::Class.method:/srv/app.py|py::<module>:<string>
int java.lang.String.hashCode()
Ljava/lang/String;::hashCode|Ljava/lang/String;hashCode()I->La/B;c()V|java.lang.String::hashCode
instance bool [System.Private.CoreLib] System.String::Equals(string)[Optimized]
stub<12> GenerateDispatchStub<GenerateDispatchStub>|void [a] B::C(int)[PreJIT]|_ZN1a1bEv|Eval:x
""".replace("\n", "|").split("|")
_JIT_WORDS = (
    "JS: LazyCompile: py:: :: [a] ( ) [ ] -> L ; . / < > : $ stub< ~ * 0x12345678 -turbofan"
)


# ---- files


def _elf_files(folder: Path) -> list[bytes]:
    """Small files with all that names come from; without a compiler, those made by hand."""
    link = b"a.debug\0" + bytes(4) + b"1234"
    links = {".gnu_debuglink": link, ".gnu_debugaltlink": b"../x\0" + bytes(range(20))}
    links[".debug_sup"] = b"\x05\0\x00name\0\x04abcd"
    seeds = [tiny_image(), tiny_image(False), tiny_image(True), with_sections(links)]
    return seeds + _compiled(folder, "-g", "-O2") + _compiled(folder, "-O1", "-s")


def _compiled(folder: Path, *flags: str) -> list[bytes]:
    compiler = find("gcc")
    if compiler is None:
        return []
    source, output = folder / "seed.c", folder / "seed.so"
    source.write_text(SOURCE)
    layout = ["-Wl,--build-id=sha1", "-Wl,-z,noseparate-code", "-Wl,-z,max-page-size=64"]
    command = [compiler, "-shared", "-fPIC", "-nostdlib", *layout, *flags, str(source)]
    subprocess.run([*command, "-o", str(output)], check=True, cwd=folder)
    return [output.read_bytes()]


def _addresses(file: ObjectFile) -> list[int]:
    """Places in and around all that is loaded."""
    found = [0, 1, 0x1000, (1 << 63) + 1, (1 << 64) - 1]
    for section in file.sections[:12]:
        found += [section.addr, section.addr + section.size // 2]
    return found


def _read_elf(data: bytes) -> None:
    file = from_bytes(data)
    problem: ObjectError | None = None
    for section in file.sections[:40]:
        try:
            file.data(section)
        except ObjectError as error:
            problem = error
    _ = file.base_addr, file.has_symtab, file.debug_info_bytes
    file.at_addr(file.base_addr, 16)
    for link in (debug_link(file), alt_link(file)):
        if link is not None:
            shown(link.name).encode()
    supplement_id(file)
    table = file.fde_table()
    if table is not None:
        for found in table.functions_at(_addresses(file)):
            assert found is None or found[0] <= found[1]
    if problem is not None:
        raise problem


def _read_symbols(data: bytes) -> None:
    file = from_bytes(data)
    index = SymbolIndex([(file, ".symtab"), (file, ".dynsym")])
    addresses = _addresses(file)
    for symbol in index.lookup_many(addresses):
        if symbol is not None:
            index.starts_of(symbol.name)
            index.bodies_of(symbol)
    index.spans(addresses)
    stubs, data_names = PltNames(file, index), DataSymbols(file)
    for addr in addresses:
        stubs.lookup(addr)
        stubs.slot(addr)
        data_names.name(addr)


def _read_loaded(data: bytes) -> None:
    file = _Loaded(bytearray(data), 0)
    SymbolIndex([(file, ".dynsym")]).lookup_many(_addresses(file))
    table = file.fde_table()
    if table is not None:
        table.functions_at(_addresses(file))


def _read_go(data: bytes) -> None:
    found = go_names(from_bytes(data), ModuleNames("a"), inlines=True)
    if found is not None:
        for addr in (*range(gotables.TEXT, gotables.TEXT + 900, 104), 0, 1 << 63):
            found.frames(addr, None)
            found.span(addr)


def _mach_files(folder: Path) -> list[bytes]:
    appleshapes.unpack(folder)
    found = []
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink() and path.read_bytes()[:1] in b"\xca\xcf":
            whole = path.read_bytes()
            read = _reader_of(whole)
            for arch in [arch for arch, _ in arches(read, len(whole))] or [""]:
                part = open_object(read, len(whole), arch=arch)
                found.append(part._read(0, MAX_INPUT_BYTES))
            found.append(whole[:4096])
    return found


def _reader_of(data: bytes) -> Callable[[int, int], bytes]:
    return lambda offset, size: data[offset : offset + size]


def _read_mach(data: bytes) -> None:
    read = _reader_of(data)
    arches(read, len(data))
    file = open_object(read, len(data))
    addresses = _addresses(file)
    _ = file.has_symtab, file.base_addr
    if file.format_name == "Mach-O":
        index = SymbolIndex([(file, "")])
        index.lookup_many(addresses)
        has_debug_map(file)  # type: ignore[arg-type]
        stubs = StubNames(file)  # type: ignore[arg-type]
        for addr in addresses:
            stubs.lookup(addr)
            stubs.slot(addr)
        table = file.fde_table()
        if table is not None:
            table.functions_at(addresses)


@contextmanager
def _memory_file(data: bytes) -> Iterator[str]:
    descriptor = os.memfd_create("fuzz")
    try:
        os.write(descriptor, data)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def _read_dwarf(data: bytes) -> None:
    """What the symbol worker does; any exception is an answer there (``worker.main``)."""
    with _memory_file(data) as path:
        built = build_symcache(DebugJob(path, 0))
        open_symcache(built.payload, 0).lookup_many(range(0, 0x800, 0x40))


def _read_calls(data: bytes) -> None:
    with _memory_file(data) as path:
        CallGraph(build_calls(DebugJob(path, 0)).payload)


# ---- what the worker answers: it may have been taken over


def _symcaches(folder: Path) -> list[bytes]:
    found = []
    for number, data in enumerate(_compiled(folder, "-g", "-O2")):
        path = folder / f"seed{number}"
        path.write_bytes(data)
        found.append(build_symcache(DebugJob(str(path), 0)).payload)
    layers = b"FTLAYER1" + struct.pack("<I", 2)
    found += [layers + struct.pack("<2Q", len(one), len(one)) + one * 2 for one in found]
    return found or [b"SYMC" + struct.pack("<I", 9) + bytes(200)]


def _read_symcache(data: bytes) -> None:
    lines = open_symcache(data, 0)
    lines.lookup_many([*range(0, 0x800, 0x40), (1 << 32) - 1, 1 << 40])


def _graphs(folder: Path) -> list[bytes]:
    found = []
    for data in _compiled(folder, "-g", "-O2"):
        (folder / "seed").write_bytes(data)
        found.append(build_calls(DebugJob(str(folder / "seed"), 0)).payload)
    return found or [b"FTCALLS2" + bytes(96)]


def _read_graph(data: bytes) -> None:
    graph = CallGraph(data)
    addresses = np.arange(0, 0x2000, 0x20)
    graph.lost(np.repeat(addresses, 4), np.tile(addresses, 4)[: 4 * len(addresses)])


def _worker_answers(_: Path) -> list[bytes]:
    return [
        b'{"error": "", "note": "", "may_be_kept": true}',
        b'{"error": "no debug information", "note": "x", "may_be_kept": false}',
    ]


# ---- what a runtime writes


def _appended(path: str) -> AppendedFile:
    owners = frozenset((os.getuid(),))
    return AppendedFile("x", lambda: os.open(path, os.O_PATH | os.O_CLOEXEC), lambda: owners)


def _growing(reader: JitDump | PerfMap, path: str, data: bytes) -> None:
    """Read a file in two steps, the second one often over the first."""
    for end in (len(data) // 2, len(data)):
        with open(path, "r+b") as file:
            file.write(data[:end])
        reader.look()
        while reader.read_more():
            pass
    addresses = np.array([0, BASE, *range(BASE, BASE + 1200, 104), (1 << 63) - 1], np.uint64)
    found = reader.find(addresses, np.full(len(addresses), ANY_TIME_NS, np.int64))
    for addr, key, start in zip(
        addresses.tolist(), found.key.tolist(), found.start.tolist(), strict=True
    ):
        if key >= 0:
            frames_of(reader.name(key, start))
            if isinstance(reader, JitDump):
                reader.source_line(key, start, addr)


def _read_jit(make: Callable[[AppendedFile], JitDump | PerfMap]) -> Callable[[bytes], None]:
    def read(data: bytes) -> None:
        with _memory_file(b"") as path:
            file = _appended(path)
            try:
                _growing(make(file), path, data)
            finally:
                file.close()

    return read


def _perf_maps(_: Path) -> list[bytes]:
    lines = [f"{BASE + 64 * i:x} {40 + i:x} {name}" for i, name in enumerate(JIT_NAMES)]
    return ["".join(f"{line}\n" for line in lines).encode(), b"0x10 0x20 a b\n10 0 x\n\n\xff 1\n"]


def _jit_dumps(_: Path) -> list[bytes]:
    found = []
    for order in "<>":
        whole = jitdumps.header(order=order)
        for i, name in enumerate(JIT_NAMES[:6]):
            addr = BASE + 64 * i
            if order == "<":
                whole += jitdumps.debug_info(addr, [(addr, i, "/a.js"), (addr + 4, i + 1, "")])
            whole += jitdumps.load(addr, 48, name, at_ns=i, order=order)
            if order == "<" and i % 3 == 0:
                whole += jitdumps.move(addr, addr + 1024, 48, at_ns=i + 1)
        found.append(whole)
    return found


# ---- names and code


def _objects(folder: Path) -> list[bytes]:
    """Object files as a compiler registers them."""
    return _compiled(folder, "-c")


def _read_object(data: bytes) -> None:
    found = functions_of(data)
    names = found.names(1 << 20)
    assert names is None or len(names) == len(found.starts) == len(found.ends)


def _read_jit_name(data: bytes) -> None:
    for frame in frames_of(data.decode("utf-8", "replace")):
        assert frame.function.name is not None


def _read_mangled(data: bytes) -> None:
    short, full = demangle(data.decode("utf-8", "replace"))
    assert max(len(short), len(full)) <= MAX_NAME_CHARACTERS + 1
    ModuleNames("a").function(short, "", FrameKind.NATIVE, full)


def _code(_: Path) -> list[bytes]:
    shapes = ["4883ec08e8000000004883c408c3", "f30f1efaff25aabbccdd0f1f4400", "c5f877480f05ebfe"]
    arm = ["fd7bbfa9fd030091c0035fd6", "00000094"]
    return [bytes((i % 2,)) + bytes.fromhex(text) * 8 for i, text in enumerate([*shapes, *arm])]


def _read_code(data: bytes) -> None:
    machine = EM_AARCH64 if data[:1] > b"\x7f" else EM_X86_64
    found = disassemble(data[1:65], 0x1000, machine, lambda goals: [hex(goal) for goal in goals])
    assert data[1:65].startswith(b"".join(one.data for one in found))


def _each(texts: Sequence[str]) -> Callable[[Path], list[bytes]]:
    return lambda _: [text.encode() for text in texts]


_ITANIUM = b"_Z N E I S_ T_ K R P St Sa C1 D0 L_Z X Dp J h17 _R C s_ B_ p $s __Z .cold . @@ Ul Ut"
SYMBOL_READERS: dict[str, Reader] = {
    "elf": Reader(_elf_files, _read_elf, (ObjectError,)),
    "symtab": Reader(_elf_files, _read_symbols, (ObjectError,)),
    "loaded": Reader(_elf_files, _read_loaded, (ObjectError,)),
    "go": Reader(
        lambda _: (
            [gotables.program(version) for version in gotables.VERSIONS]
            + [gotables.program("1.20", relocated=True)]
        ),
        _read_go,
        (ObjectError,),
    ),
    "macho": Reader(_mach_files, _read_mach, (ObjectError,)),
    "dwarf": Reader(_elf_files, _read_dwarf, (Exception,)),
    "calls": Reader(_elf_files, _read_calls, (LinesError, ObjectError)),
    "symcache": Reader(_symcaches, _read_symcache, (LinesError,), (b"FTLAYER1\1\0\0\0",)),
    "call-graph": Reader(_graphs, _read_graph, (LinesError,)),
    "worker-answer": Reader(
        _worker_answers, parse_answer, (LinesError,), (b"[", b"{", b"null", b"1", b'"', b"\\n")
    ),
    "perfmap": Reader(_perf_maps, _read_jit(PerfMap), (), (b"\n", b" ", b"0x", b"f" * 16)),
    "jitdump": Reader(_jit_dumps, _read_jit(JitDump)),
    "registered": Reader(_objects, _read_object, (ObjectError,)),
    "jit-name": Reader(
        _each(JIT_NAMES), _read_jit_name, (), tuple(word.encode() for word in _JIT_WORDS.split())
    ),
    "mangled": Reader(_each(MANGLED), _read_mangled, (), tuple(_ITANIUM.split())),
    "code": Reader(_code, _read_code),
}
