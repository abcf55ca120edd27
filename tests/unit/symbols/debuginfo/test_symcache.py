"""Inline chains against addr2line, and the disk cache against damage."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

from flametap.model import FrameKind
from flametap.recording.names.inline_chains import LinesError
from flametap.symbols.debuginfo import symcache
from flametap.symbols.debuginfo.disk_cache import DiskCache, EntryKeys, default_dir
from flametap.symbols.debuginfo.symcache_table import VERSIONS, SymcacheTable
from flametap.symbols.locate.module_files import TargetFiles
from flametap.symbols.locate.open_file import OpenFile
from flametap.symbols.names.demangle import demangle
from flametap.symbols.resolver import ModuleResolver
from objects import compile_object, module_of, open_elf, run, symbols

pytestmark = pytest.mark.needs("gcc", "g++", "addr2line")

SOURCE = """
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <algorithm>
namespace app {
template <class T> static inline __attribute__((always_inline)) T spin(T x) {
    volatile T sum = 0;
    for (int i = 0; i < 100; i++)
        sum += x * i;
    return sum;
}
struct Box {
    int value;
    inline __attribute__((always_inline)) int operator()(int y) const { return spin(value + y); }
};
static __attribute__((noinline)) int outer(int a) {
    Box box{a};
    return box(a) + spin<int>(a + 1);
}
__attribute__((noinline, cold)) void rare(long n) { fprintf(stderr, "%ld\\n", n); }
__attribute__((noinline)) long often(long n) {
    if (n > 1000000) {
        rare(n);
        n = abs((int)n) + 7;
        rare(n);
    }
    return n * 3;
}
}
int main(int argc, char **argv) {
    std::vector<int> all;
    for (int i = 0; i < 1000; i++)
        all.push_back(app::outer(i * argc));
    std::sort(all.begin(), all.end(), [](int a, int b) { return a > b; });
    printf("%d %ld\\n", all[0], app::often(argc));
}
"""


@pytest.fixture(scope="module", params=["-gdwarf-4", "-gdwarf-5", "-gz"])
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inlines")
    return compile_object(folder, SOURCE, "-O2", "-g", request.param, name="program++")


def resolver_of(program: Path, *, inlines: bool = True) -> ModuleResolver:
    parsed = open_elf(program)
    resolver = ModuleResolver(module_of(program), parsed, None, inlines=inlines)
    resolver.lines = symcache.build(str(program), parsed.base_addr)
    return resolver


def addr2line(program: Path, addresses: list[int]) -> list[list[tuple[str, str, int]]]:
    """Per address: (short name, file name, line), outermost function first."""
    text = "\n".join(map(hex, addresses))
    output = run(["addr2line", "-fia", "-e", str(program)], text).splitlines()
    chains: list[list[tuple[str, str, int]]] = []
    while output:
        line = output.pop(0)
        if line.startswith("0x"):
            chains.append([])
            continue
        place = re.match(r"(.*):(\d+|\?)", output.pop(0))
        assert place is not None
        number = 0 if place[2] == "?" else int(place[2])
        chains[-1].insert(0, (demangle(line)[0], os.path.basename(place[1]), number))
    return chains


def test_inline_chains_are_those_of_addr2line(program: Path) -> None:
    resolver = resolver_of(program)
    addresses = [
        file_addr
        for start, size in symbols(program).values()
        for file_addr in range(start, start + size)
    ]
    assert len(addresses) > 1000
    same_shape = same_names = 0
    deepest = 0
    for file_addr, expected in zip(addresses, addr2line(program, addresses), strict=True):
        frames = resolver.resolve(file_addr)
        deepest = max(deepest, len(frames))
        same_shape += [f.line for f in frames] == [line for _, _, line in expected]
        same_names += [f.function.name for f in frames] == [name for name, _, _ in expected]
    assert deepest >= 4
    assert same_shape / len(addresses) > 0.98
    # addr2line leaves out namespaces where DWARF has a name without linkage, and repeats the outer
    # function's name for some inlined ones; the rest has to agree.
    assert same_names / len(addresses) > 0.75


def test_known_chain_has_functions_files_lines_and_kinds(program: Path) -> None:
    resolver = resolver_of(program)
    start, size = symbols(program)["_ZN3appL5outerEi"]
    chains = {
        tuple(frame.function.name for frame in resolver.resolve(file_addr)): file_addr
        for file_addr in range(start, start + size)
    }
    wanted = next(c for c in chains if c[:2] == ("app::outer", "app::Box::operator()") and c[2:])
    frames = resolver.resolve(chains[wanted])
    assert [f.function.kind for f in frames] == [FrameKind.NATIVE] + [FrameKind.INLINED] * 2
    assert {os.path.basename(f.function.file) for f in frames} == {"program++.cc"}
    assert frames[0].function.full_name == "app::outer(int)"
    assert frames[0].function.module == "program++"
    lines = SOURCE.splitlines()
    assert "return box(a)" in lines[frames[0].line - 1]
    assert "operator()" in lines[frames[1].line - 1]


def test_without_inlines_the_function_that_was_called_remains(program: Path) -> None:
    resolver = resolver_of(program, inlines=False)
    start, size = symbols(program)["_ZN3appL5outerEi"]
    for file_addr in range(start, start + size):
        (frame,) = resolver.resolve(file_addr)
        assert frame.function.name == "app::outer"
        assert frame.line > 0


def test_cold_part_is_its_function(program: Path) -> None:
    found = symbols(program)
    cold = next(name for name in found if name.endswith(".cold") and "often" in name)
    whole = cold.removesuffix(".cold")
    resolver = resolver_of(program)
    functions = {resolver.resolve(found[name][0])[0].function for name in (cold, whole)}
    assert len(functions) == 1
    assert functions.pop().name == "app::often"


def test_lines_of_other_files_are_of_one_function(tmp_path: Path) -> None:
    source = """
    extern void rare(long);
    __attribute__((noinline)) long often(long n) {
        if (n > 1000000) {
#line 500 "rare.inc"
            rare(n);
            rare(n + 1);
#line 9 "own.c"
        }
        return n * 3;
    }
    __attribute__((noinline, cold)) void rare(long n) { volatile long m = n; (void)m; }
    int main(int argc, char **argv) { return often(argc + !argv); }
    """
    built = compile_object(tmp_path, source, "-O2", "-g", "-fno-ipa-icf")
    found = symbols(built)
    resolver = resolver_of(built)
    (whole,) = resolver.resolve(found["often"][0])
    start, size = found["often.cold"]
    cold = [frame for at in range(start, start + size) for frame in resolver.resolve(at)]
    assert {frame.function for frame in cold} == {whole.function}
    elsewhere = {(os.path.basename(f.file), f.line) for f in cold if f.other_file}
    assert elsewhere == {("rare.inc", 500), ("rare.inc", 501)}


def test_space_between_functions_has_no_name(program: Path) -> None:
    resolver = resolver_of(program)
    found = sorted(symbols(program).values())
    text = open_elf(program).section(".text")
    assert text is not None
    gaps = [
        start + size
        for (start, size), (following, _) in itertools.pairwise(found)
        if size and start + size < following and text.addr <= start < text.addr + text.size
    ]
    assert gaps
    for gap in gaps:
        (frame,) = resolver.resolve(gap)
        assert frame.function.kind is FrameKind.UNKNOWN


def test_stripped_functions_are_one_box_each(program: Path, tmp_path: Path) -> None:
    start, size = symbols(program)["_ZN3appL5outerEi"]
    stripped = tmp_path / "stripped"
    run(["strip", "-o", str(stripped), str(program)])
    resolver = ModuleResolver(module_of(stripped), open_elf(stripped), None)
    names = {
        resolver.resolve(file_addr)[0].function.name for file_addr in range(start, start + size)
    }
    assert names == {f"stripped+{start:#x}"}


def test_non_pie_addresses_count_from_the_lowest_segment(tmp_path: Path) -> None:
    program = compile_object(tmp_path, SOURCE, "-O2", "-g", "-no-pie", name="fixed++")
    start, _ = symbols(program)["_ZN3appL5outerEi"]
    assert start > 0x400000
    assert resolver_of(program).resolve(start + 4)[0].line > 0


def test_damaged_debug_information_is_an_error_of_ours(program: Path, tmp_path: Path) -> None:
    data = bytearray(program.read_bytes())
    damaged = tmp_path / "damaged"
    for name in (".debug_info", ".debug_abbrev", ".debug_line"):
        section = open_elf(program).section(name)
        assert section is not None
        data[section.offset : section.offset + section.size] = b"\xff" * section.size
    damaged.write_bytes(data)
    start, _ = symbols(program)["_ZN3appL5outerEi"]
    resolver = ModuleResolver(module_of(damaged), open_elf(damaged), None)
    with contextlib.suppress(LinesError):
        resolver.lines = symcache.build(str(damaged), 0)
    assert resolver.resolve(start)[0].function.name == "app::outer"
    (tmp_path / "text").write_text("hello")
    for path in (tmp_path / "text", tmp_path / "nothing"):
        with pytest.raises(LinesError) as caught:
            symcache.build(str(path), 0)
        assert "\n" not in str(caught.value)


def test_cache_gives_back_the_same_chains(program: Path, tmp_path: Path) -> None:
    cache = DiskCache(tmp_path / "cache")
    built = symcache.build(str(program), 0)
    assert cache.load("abcd") is None
    cache.save("abcd", built.to_bytes())
    assert cache.load("abce") is None
    payload = cache.load("abcd")
    assert payload is not None
    loaded = symcache.load(payload, 0)
    for start, size in symbols(program).values():
        for file_addr in range(start, start + size):
            assert loaded.lookup(file_addr) == built.lookup(file_addr)


def test_damaged_entries_are_removed(program: Path, tmp_path: Path) -> None:
    cache = DiskCache(tmp_path)
    payload = symcache.build(str(program), 0).to_bytes()
    for damage in (b"", b"short", None, "bit"):
        cache.save("abcd", payload)
        (entry,) = tmp_path.iterdir()
        data = bytearray(entry.read_bytes())
        if damage == "bit":
            data[len(data) // 2] ^= 1
        else:
            data = data[: len(data) // 2] if damage is None else bytearray(damage)  # type: ignore[arg-type]
        entry.write_bytes(data)
        assert cache.load("abcd") is None
        assert not list(tmp_path.iterdir()) or not damage
    with pytest.raises(LinesError):
        symcache.load(b"SYMC" + bytes(200), 0)


def test_cap_deletes_what_was_not_used_for_longest(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, max_bytes=3500)
    for number, build_id in enumerate(("aa", "bb", "cc")):
        cache.save(build_id, bytes(1000))
        entry = next(tmp_path.glob(f"{build_id}.*"))
        os.utime(entry, (number, number))
    assert cache.load("aa") is not None  # used: now the youngest
    cache.save("dd", bytes(1000))
    assert {path.name[:2] for path in tmp_path.iterdir()} == {"aa", "cc", "dd"}


def test_folder_that_cannot_be_made_leaves_a_note(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cache = DiskCache(tmp_path / "file" / "cache")
    cache.save("abcd", b"payload")
    assert cache.load("abcd") is None
    assert str(tmp_path) in cache.note


def test_default_folder_follows_xdg(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_dir() == tmp_path / "flametap" / "symcache"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", "/home/somebody")
    assert default_dir() == Path("/home/somebody/.cache/flametap/symcache")


@pytest.mark.needs("libc-debug")
def test_debug_file_of_libc_gives_lines_and_public_names() -> None:
    path = next(Path("/").glob("usr/lib/*/libc.so.6"))
    module = module_of(path)
    files = TargetFiles(None)
    own = files.open_module(module)
    debug = files.open_debug_file(module, own.elf)
    if debug is None or debug.file is None:
        own.close()
        pytest.skip("no debug file of libc: apt install libc6-dbg")
    resolver = ModuleResolver(module, own.elf, debug.elf)
    resolver.lines = symcache.build(f"/proc/self/fd/{debug.file.fileno()}", debug.elf.base_addr)
    public = re.findall(r"(\w+) [TW] (qsort|getenv|fopen)@", run(["nm", "-D", str(path)]))
    assert len(public) >= 3
    for file_addr, name in public:
        frame = resolver.resolve(int(file_addr, 16) + 4)[0]
        assert frame.function.name == name
        assert frame.line > 0
    own.close()
    debug.close()


def test_key_tells_files_of_one_build_id_apart(tmp_path: Path) -> None:
    """A file that claims libc's build-id must not give libc its names."""
    keys = set()
    entry_key = EntryKeys().of
    for number, content in enumerate((b"a" * 100_000, b"a" * 99_999 + b"b", b"b" + b"a" * 99_999)):
        path = tmp_path / str(number)
        path.write_bytes(content)
        file = OpenFile(str(path))
        keys.add(entry_key("abcdef", [file]))
        keys.add(entry_key("abcdef", [file, file]))
        assert entry_key("", [file]) == entry_key("../../etc", [file]) == ""
        file.close()
    assert len(keys) == 6


USERS = """
import random, sys
from pathlib import Path
from flametap.symbols.debuginfo.disk_cache import DiskCache
cache = DiskCache(Path(sys.argv[1]), max_bytes=5000)
generator = random.Random(int(sys.argv[2]))
for _ in range(400):
    number = generator.randrange(10)
    payload = cache.load(f"{number:04}")
    assert payload in (None, bytes([number]) * 1000)
    cache.save(f"{number:04}", bytes([number]) * 1000)
assert not cache.note, cache.note
"""


def test_processes_share_the_folder(tmp_path: Path) -> None:
    users = [
        subprocess.Popen([sys.executable, "-I", "-c", USERS, str(tmp_path), str(seed)])
        for seed in range(3)
    ]
    assert [user.wait(60) for user in users] == [0, 0, 0]
    left = list(tmp_path.iterdir())
    assert {path.suffix for path in left} == {".symcache"}
    assert 1 <= len(left) <= 7  # the cap is 4; others may have been writing at its last look


def test_leftovers_of_killed_processes_are_removed(tmp_path: Path) -> None:
    old, young = tmp_path / ".new-old", tmp_path / ".new-young"
    old.write_bytes(b"x")
    young.write_bytes(b"x")
    os.utime(old, (1, 1))
    DiskCache(tmp_path).save("abcd", b"payload")
    assert young.exists()
    assert not old.exists()


FULL = """
import resource, sys
from pathlib import Path
from flametap.symbols.debuginfo.disk_cache import DiskCache
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
cache = DiskCache(Path(sys.argv[1]))
cache.save("abcd", bytes(10_000))
assert "not kept" in cache.note, cache.note
assert cache.load("abcd") is None
cache.save("abce", bytes(1000))
assert cache.load("abce") == bytes(1000)
"""


def test_full_disk_leaves_a_note_and_no_rubbish(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-I", "-c", FULL, str(tmp_path)], check=True, timeout=60)
    assert [path.name for path in tmp_path.iterdir()] == ["abce.symcache"]


def test_no_home_means_no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", "nowhere")
    monkeypatch.setattr("flametap.linux.homes._listed_home", lambda: "")
    assert default_dir() is None
    cache = DiskCache()
    cache.save("abcd", b"payload")
    assert cache.load("abcd") is None
    assert "no home" in cache.note


def test_numpy_reader_answers_as_the_library_does(program: Path) -> None:
    payload = symcache.build(str(program), 0).to_bytes()
    library, table = symcache.load(payload, 0), SymcacheTable(payload, 0)
    addresses = [a for start, size in symbols(program).values() for a in range(start, start + size)]
    addresses += [0, 1, 1 << 31, 0xFFFFFFFE, 0xFFFFFFFF, 1 << 32, 1 << 63, -1]
    assert table.lookup_many(addresses) == library.lookup_many(addresses)
    assert len(max(table.lookup_many(addresses), key=len)) >= 4


def test_library_writes_a_format_that_is_read_here() -> None:
    """Another one is read by the library itself, ten times slower: then symcachetable needs it."""
    assert symcache.FORMAT_VERSION in VERSIONS


def test_any_damage_to_a_symcache_ends_in_an_answer_or_an_error(program: Path) -> None:
    payload = symcache.build(str(program), 0).to_bytes()
    addresses = [start for start, _ in symbols(program).values()]
    generator = random.Random(5)
    for _ in range(300):
        damaged = bytearray(payload)
        for _ in range(generator.choice((1, 10, 200))):
            damaged[generator.randrange(8, len(damaged))] = generator.choice((0, 0xFF, 0x7F, 1))
        del damaged[generator.choice((len(damaged), generator.randrange(len(damaged)))) :]
        with contextlib.suppress(LinesError):
            for chain in SymcacheTable(bytes(damaged), 0).lookup_many(addresses):
                assert len(chain) <= 600
