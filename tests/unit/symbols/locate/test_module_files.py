"""The right file or none: build-ids, deleted files, debug files in all their places."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from elfheaders import with_sections
from flametap.model import Module, RawFrame
from flametap.recording.names.table import SymbolTable
from flametap.symbols.locate.debug_links import AltLink, alt_link, supplement_id
from flametap.symbols.locate.memory_image import VDSO_PATH
from flametap.symbols.locate.module_files import FilesError, TargetFiles
from flametap.symbols.locate.open_file import OURS, OpenFile, Root, open_image
from flametap.symbols.locate.symbol_dirs import breakpad_id
from flametap.symbols.object.elf import from_bytes
from flametap.symbols.object.symtab import SymbolIndex
from flametap.symbols.symbolizer import Symbolizer
from objects import compile_object, module_of, open_elf, run, split_debug, symbols

pytestmark = pytest.mark.needs("gcc")

SOURCE = """
#include <stdio.h>
#include <unistd.h>
int main(void) { puts("ready"); fflush(stdout); pause(); return 0; }
"""

DWZ_SOURCE = """
#include <stdio.h>
struct item { int a, b, c, d, e, f; char name[100]; struct item *next; };
static inline int weigh(struct item *item) { return item->a * item->b + item->c; }
int work(struct item *item) { return weigh(item) + weigh(item->next); }
int main(void) { struct item item = {0}; item.next = &item; return work(&item); }
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_object(tmp_path_factory.mktemp("files"), SOURCE, "-g")


@pytest.fixture
def program(built: Path, tmp_path: Path) -> Path:
    """A copy of the program, to do with as one likes."""
    return Path(shutil.copy(built, tmp_path))


@pytest.fixture
def running(program: Path) -> Iterator[int]:
    """The program as a process that waits; its pid."""
    process = subprocess.Popen([str(program)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    yield process.pid
    process.kill()
    process.wait()
    process.stdout.close()


def mapped_module(pid: int, path: str, build_id: str) -> Module:
    """The module as the agent reports it: from the executable mapping of ``path``."""
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        fields = line.split(maxsplit=5)
        if len(fields) == 6 and fields[5].startswith(path) and "x" in fields[1]:
            start, end = (int(part, 16) for part in fields[0].split("-"))
            return Module(1, path, start - int(fields[2], 16), start, end, build_id)
    raise AssertionError(f"{path} is not mapped")


def test_running_file_is_opened_even_when_deleted(program: Path, running: int) -> None:
    module = mapped_module(running, str(program), open_elf(program).build_id)
    program.unlink()
    files = TargetFiles(running)
    image = files.open_module(module)
    assert image.elf.build_id == module.build_id
    image.close()


def test_rebuilt_file_is_not_used(program: Path) -> None:
    module = module_of(program)
    program.unlink()
    compile_object(program.parent, SOURCE.replace("ready", "other"), "-O2")
    with pytest.raises(FilesError, match="another one"):
        TargetFiles(None).open_module(module)


def test_rebuilt_file_is_not_used_while_the_old_one_runs(program: Path, running: int) -> None:
    module = mapped_module(running, str(program), open_elf(program).build_id)
    program.unlink()
    compile_object(program.parent, SOURCE.replace("ready", "other"), "-O2")
    image = TargetFiles(running).open_module(module)
    assert image.elf.build_id == module.build_id
    image.close()


def test_file_without_build_id_is_taken_only_from_the_mapping(tmp_path: Path) -> None:
    program = compile_object(tmp_path, SOURCE, "-Wl,--build-id=none", name="anonymous")
    with subprocess.Popen([str(program)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        module = mapped_module(process.pid, str(program), "")
        image = TargetFiles(process.pid).open_module(module)
        assert image.elf.build_id == ""
        image.close()
        process.kill()


def test_mapped_file_is_taken_when_its_build_id_is_not_known(program: Path, running: int) -> None:
    module = mapped_module(running, str(program), "")
    image = TargetFiles(running).open_module(module)
    assert image.elf.build_id
    image.close()
    with pytest.raises(FilesError):
        TargetFiles(None).open_module(module)


def test_other_kinds_of_files_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "text").write_text("#!/bin/sh\n" * 100)
    for name, reason in (("fifo", "regular"), ("text", "ELF"), ("none", "not found")):
        module = Module(1, str(tmp_path / name), 0, 0, 4096, "abcd")
        with pytest.raises(FilesError, match=reason):
            TargetFiles(None).open_module(module)


def test_target_that_has_exited_is_a_reason(program: Path) -> None:
    """Neither its root nor its user is known any more."""
    process = subprocess.Popen(["true"])
    process.wait()
    files = TargetFiles(process.pid)
    assert not files.is_main_executable(str(program))
    for module in (module_of(program), Module(2, "/nowhere", 0, 0, 4096, "abcd")):
        with pytest.raises(FilesError, match="ended before"):
            files.open_module(module)


def test_main_executable_is_known(program: Path, running: int) -> None:
    files = TargetFiles(running)
    assert files.is_main_executable(str(program))
    assert not files.is_main_executable("/usr/lib/libc.so.6")


def test_vdso_is_read_from_memory() -> None:
    lines = [ln for ln in Path("/proc/self/maps").read_text().splitlines() if "[vdso]" in ln]
    if not lines:
        pytest.skip("this kernel maps no vDSO")
    start, end = (int(part, 16) for part in lines[0].split()[0].split("-"))
    with open("/proc/self/mem", "rb") as memory:
        memory.seek(start)
        image_bytes = memory.read(end - start)
    build_id = from_bytes(image_bytes).build_id
    module = Module(3, VDSO_PATH, start, start, end, build_id)
    for files in (TargetFiles(os.getpid()), TargetFiles(None)):
        image = files.open_module(module)
        index = SymbolIndex([(image.elf, ".dynsym")])
        section = image.elf.section(".text")
        assert section is not None
        names = {
            found.name
            for file_addr in range(section.addr, section.addr + section.size)
            if (found := index.lookup(file_addr)) is not None
        }
        assert any("clock_gettime" in name for name in names)
    with pytest.raises(FilesError):
        TargetFiles(None).open_module(Module(3, VDSO_PATH, start, start, end, "ffff"))


def layouts(build_id: str) -> dict[str, str]:
    """Where a folder of debug files may hold that of ``program``."""
    first, rest = build_id[:2], build_id[2:]
    debug_id = breakpad_id(build_id)
    return {
        "flat": "program.debug",
        "named": "program",
        "build-id": f".build-id/{first}/{rest}.debug",
        "bare-build-id": f"{first}/{rest}.debug",
        "mirror": f"buildid/{build_id}/debuginfo",
        "client-cache": f"{build_id}/debuginfo",
        "unified": f"{first}/{rest}/debuginfo",
        "symsrv": f"program/{build_id}/program",
        "symsrv-breakpad": f"program/{debug_id}/program.debug",
        "symsrv-key": f"_.debug/elf-buildid-sym-{build_id}/_.debug",
    }


@pytest.mark.parametrize("place", ["same", ".debug", *layouts("ab" * 20)])
def test_debug_file_is_found_in_all_its_places(program: Path, tmp_path: Path, place: str) -> None:
    debug = tmp_path / "program.debug"
    split_debug(program, debug)
    user = tmp_path / "user"
    target = {
        "same": debug,
        ".debug": tmp_path / ".debug" / "program.debug",
        **{name: user / path for name, path in layouts(open_elf(program).build_id).items()},
    }[place]
    target.parent.mkdir(parents=True, exist_ok=True)
    if target != debug:
        shutil.move(debug, target)
    files = TargetFiles(None, [str(user)])
    module = module_of(program)
    found = files.open_debug_file(module, open_elf(program))
    assert found is not None
    assert found.file is not None
    assert found.file.path == str(target)
    found.close()


def test_breakpad_id_is_a_guid_and_an_age() -> None:
    # As breakpad's dump_syms writes it, and symbolic.
    build_id = "c059c7df7cdf0422dc23c46e6c3d8613473555bd"
    assert breakpad_id(build_id) == "DFC759C0DF7C2204DC23C46E6C3D86130"
    assert breakpad_id("0102") == "00000201000000000000000000000000" + "0"


BREAKPAD = """MODULE Linux x86_64 {debug_id} program
{code_id}FILE 0 /src/program.c
INLINE_ORIGIN 0 inner
FUNC {start:x} {size:x} 0 outer
INLINE 0 7 0 0 {start:x} 4
{start:x} 4 3 0
{rest:x} {rest_size:x} 8 0
"""


@pytest.mark.parametrize(
    ("place", "tells_code_id", "link"),
    [
        ("program.sym", True, "-pie"),
        ("program/{debug_id}/program.sym", False, "-no-pie"),
    ],
)
def test_breakpad_symbols_name_functions_and_lines(
    tmp_path: Path, place: str, tells_code_id: bool, link: str
) -> None:
    program = compile_object(tmp_path, SOURCE, link)
    elf = open_elf(program)
    start, size = symbols(program)["main"]
    run(["strip", str(program)])
    begin = start - elf.base_addr
    debug_id = breakpad_id(elf.build_id)
    text = BREAKPAD.format(
        debug_id=debug_id,
        code_id=f"INFO CODE_ID {elf.build_id.upper()}\n" if tells_code_id else "",
        start=begin,
        size=size,
        rest=begin + 4,
        rest_size=size - 4,
    )
    user = tmp_path / "user" / place.format(debug_id=debug_id)
    user.parent.mkdir(parents=True)
    user.write_text(text)
    table = SymbolTable(lambda address_id: (RawFrame(1, start), "program"))
    worker = Symbolizer(
        table, None, symbol_dirs=[str(tmp_path / "user")], cache_dir=tmp_path / "cache"
    )
    try:
        worker.add_module(module_of(program))
        worker.submit_many([(0, RawFrame(1, start)), (1, RawFrame(1, start + 5))])
        assert worker.wait_idle(20)
        inlined, plain = table.frames(0), table.frames(1)
        assert [(f.function.name, f.line) for f in inlined] == [("outer", 7), ("inner", 3)]
        assert [(f.function.name, f.line) for f in plain] == [("outer", 8)]
        assert plain[0].function.file == "/src/program.c"
    finally:
        worker.close()


def test_breakpad_symbols_of_another_build_are_told_and_not_used(
    program: Path, tmp_path: Path
) -> None:
    user = tmp_path / "user"
    user.mkdir()
    wrong = "ab" * 20
    (user / "program.sym").write_text(
        f"MODULE Linux x86_64 {breakpad_id(wrong)} program\nINFO CODE_ID {wrong.upper()}\n"
    )
    run(["strip", str(program)])
    files = TargetFiles(None, [str(user)])
    module = module_of(program)
    assert files.open_debug_file(module, open_elf(program)) is None
    assert "abababab… is not" in files.rejected(module)[0]
    for text in ("", "MODULE", "MODULE Linux x86_64 0 program\n" * 99):
        (user / "program.sym").write_text(text)
        assert files.open_debug_file(module, open_elf(program)) is None


def test_debug_file_of_another_build_is_not_used(program: Path, tmp_path: Path) -> None:
    split_debug(program, tmp_path / "program.debug")
    other = compile_object(tmp_path, SOURCE.replace("ready", "other"), "-g", name="other")
    shutil.copy(other, tmp_path / "program.debug")
    assert TargetFiles(None).open_debug_file(module_of(program), open_elf(program)) is None


def test_debug_file_without_build_id_is_checked_by_its_crc(tmp_path: Path) -> None:
    program = compile_object(tmp_path, SOURCE, "-g", "-Wl,--build-id=none", name="plain")
    debug = tmp_path / "plain.debug"
    split_debug(program, debug)
    files = TargetFiles(None)
    found = files.open_debug_file(module_of(program), open_elf(program))
    assert found is not None
    found.close()
    run(["objcopy", "--add-section", f".extra={program}", str(debug)])
    assert files.open_debug_file(module_of(program), open_elf(program)) is None


@pytest.fixture
def dwz_pair(tmp_path: Path) -> tuple[Path, Path]:
    """A program whose debug information dwz made refer to a common file, by a relative path."""
    folder = tmp_path / "bin"
    folder.mkdir()
    programs = [
        compile_object(folder, DWZ_SOURCE.replace("work", f"work_{name}"), "-g", "-O1", name=name)
        for name in ("one", "two")
    ]
    common = tmp_path / "common" / "pair.debug"
    common.parent.mkdir()
    run(["dwz", "-m", str(common), "-M", "../common/pair.debug", *map(str, programs)])
    return programs[0], common


@pytest.mark.needs("dwz")
@pytest.mark.parametrize("place", ["named", "flat", "dwz", "build-id"])
def test_common_file_of_dwz_is_found_in_all_its_places(
    dwz_pair: tuple[Path, Path], tmp_path: Path, place: str
) -> None:
    program, common = dwz_pair
    build_id = supplement_id(open_elf(common))
    user = tmp_path / "user"
    target = {
        "named": common,
        "flat": user / "pair.debug",
        "dwz": user / ".dwz" / "pair.debug",
        "build-id": user / ".build-id" / build_id[:2] / f"{build_id[2:]}.debug",
    }[place]
    target.parent.mkdir(parents=True, exist_ok=True)
    if target != common:
        shutil.move(common, target)
    through_link = tmp_path / "elsewhere" / "link"
    through_link.parent.mkdir()
    through_link.symlink_to(program)
    files = TargetFiles(os.getpid(), [str(user)])
    for root in (OURS, Root("/proc/self/root")):
        image = open_image(str(through_link), root)
        found = files.open_alt_file(image)
        assert found is not None
        assert found.file is not None
        assert found.file.path == str(target)
        found.close()
        image.close()


@pytest.mark.needs("dwz")
def test_common_file_of_another_build_is_not_used(dwz_pair: tuple[Path, Path]) -> None:
    program, common = dwz_pair
    image = open_image(str(program))
    shutil.copy(program, common)
    assert TargetFiles(None).open_alt_file(image) is None
    common.unlink()
    assert TargetFiles(None).open_alt_file(image) is None
    image.close()


def test_common_file_of_dwarf_5_is_known_by_its_checksum() -> None:
    name, checksum = b"../dwz/pair\0", bytes(range(20))
    contents = b"\x05\0\0" + name + b"\x14" + checksum
    contents = b"\x05\0\0" + name + b"\x14" + checksum
    user = from_bytes(with_sections({".debug_sup": contents}))
    common = from_bytes(with_sections({".debug_sup": b"\x05\0\x01\0\x14" + checksum}))
    assert alt_link(user) == AltLink("../dwz/pair", checksum.hex())
    assert supplement_id(user) == ""
    assert alt_link(common) is None
    assert supplement_id(common) == checksum.hex()
    for cut in range(len(contents)):
        alt_link(from_bytes(with_sections({".debug_sup": contents[:cut]})))


def test_paths_stay_inside_the_root(tmp_path: Path) -> None:
    """Links are followed as the target would, whose root is not ours."""
    root = Root(str(tmp_path))
    (tmp_path / "usr/lib").mkdir(parents=True)
    (tmp_path / "usr/lib/real").write_bytes(b"inside")
    (tmp_path / "lib").symlink_to("/usr/lib")
    (tmp_path / "usr/lib/up").symlink_to("../../../../usr/./lib/real")
    (tmp_path / "usr/lib/loop").symlink_to("loop")
    for path in ("/lib/real", "lib/up", "/../../lib//real", "/usr/lib/up"):
        assert root.real_path(path) == "/usr/lib/real"
        file = OpenFile(path, root)
        assert file.read(0, 9) == b"inside"
        file.close()
    for path in ("/lib/loop", "/lib/none", "/usr/lib/real/below"):
        with pytest.raises(OSError, match=path):
            OpenFile(path, root)
