"""Files that are not where they were: deleted, replaced on disk, in another mount namespace."""

from __future__ import annotations

import dataclasses
import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from flametap.linux.elf_headers import PT_LOAD
from flametap.model import Module
from flametap.symbols.locate import memory_image
from flametap.symbols.locate.mappings import Mappings
from flametap.symbols.locate.memory_image import copy_module
from flametap.symbols.locate.module_files import FilesError, TargetFiles
from flametap.symbols.locate.open_file import open_image
from flametap.symbols.object.object_file import ObjectError
from flametap.symbols.object.symtab import SymbolIndex
from objects import compile_object, run, symbols

pytestmark = pytest.mark.needs("gcc")

BIAS = 0x10000
LIBRARY = """
int VERSION_before(void) { return 1; }
int VERSION_work(int n) { for (volatile int i = 0; i < n; i++) n ^= i; return n; }
"""
PROGRAM = """
#include <stdio.h>
#include <unistd.h>
extern int VERSION_work(int);
int VERSION_main(int n) { return VERSION_work(n) + 1; }
int main(void) { VERSION_main(9); puts("ready"); fflush(stdout); pause(); return 0; }
"""


class Build(NamedTuple):
    """One build of a program and its library, in a folder of their own."""

    folder: Path
    version: str
    addrs: dict[str, int]  # file_addr of each function


def build(folder: Path, version: str, *flags: str) -> Build:
    """Build both; the library is found beside the program."""
    folder.mkdir(parents=True)
    text = LIBRARY.replace("VERSION", version)
    shared = ("-shared", "-fPIC", "-Wl,-soname,libwork.so")
    library = compile_object(folder, text, *shared, *flags, name="libwork.so")
    link = (str(library), "-Wl,-rpath,$ORIGIN", "-rdynamic")
    program = compile_object(folder, PROGRAM.replace("VERSION", version), *link, *flags)
    addrs = {n: a for path in (program, library) for n, (a, _) in symbols(path).items()}
    return Build(folder, version, addrs)


def start(command: list[str]) -> subprocess.Popen[str]:
    """Start the program and wait until it runs."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def modules_of(pid: int, folder: Path, *, with_build_ids: bool = True) -> list[Module]:
    """Program and library as the agent reports them: from the process's own memory."""
    mappings = Mappings(f"/proc/{pid}")
    found: list[Module] = []
    for line in mappings.read():
        path = line.path.removesuffix(" (deleted)")
        if line.is_executable and Path(path).parent == folder:
            original = open_image(path, via=f"/proc/{pid}/map_files/{line.span}")
            build_id = original.elf.build_id if with_build_ids else ""
            bias = line.start - line.file_offset
            found.append(Module(len(found) + 1, path, bias, line.start, line.end, build_id))
            original.close()
    assert len(found) == 2
    return found


def names_in(files: TargetFiles, modules: list[Module], addrs: dict[str, int]) -> dict[str, str]:
    """Where each module's file was found, after looking up its functions."""
    origins = {}
    for module in modules:
        image = files.open_module(module)
        index = SymbolIndex([(image.elf, ".dynsym")])
        name = "work" if module.name == "libwork.so" else "main"
        full_name = next(n for n in addrs if n.endswith(f"_{name}"))
        found = index.lookup(addrs[full_name])
        assert found is not None
        assert found.name == full_name
        assert files.open_debug_file(module, image.elf) is None
        origins[module.name] = image.origin
        image.close()
    return origins


@pytest.fixture
def running(tmp_path: Path) -> Iterator[tuple[int, Build]]:
    """A build that runs; another one lies ready in ``other``."""
    old = build(tmp_path / "bin", "old")
    process = start([str(old.folder / "program")])
    yield process.pid, old
    process.kill()
    process.communicate()


def replace(old: Build, version: str = "new") -> None:
    """What an upgrade does: new files are written beside the old and renamed over them."""
    new = build(old.folder.parent / version, version)
    for name in ("program", "libwork.so"):
        os.replace(new.folder / name, old.folder / name)


needs_map_files = pytest.mark.skipif(os.geteuid() != 0, reason="map_files is for root")


@needs_map_files
@pytest.mark.parametrize("with_build_ids", [True, False])
@pytest.mark.parametrize("how", ["kept", "replaced", "deleted"])
def test_mapped_files_are_opened_whatever_became_of_their_names(
    running: tuple[int, Build], how: str, with_build_ids: bool
) -> None:
    pid, old = running
    modules = modules_of(pid, old.folder, with_build_ids=with_build_ids)
    if how == "replaced":
        replace(old)
    elif how == "deleted":
        shutil.rmtree(old.folder)
    files = TargetFiles(pid)
    origins = names_in(files, modules, old.addrs)
    assert origins == {"program": "mapped file", "libwork.so": "mapped file"}
    files.close()


# Run without the right to read map_files: prints where each file was found, and a name in it.
WITHOUT_RIGHT = """
import json, sys
from flametap.model import Module
from flametap.symbols.locate.module_files import TargetFiles
from flametap.symbols.object.symtab import SymbolIndex
pid, modules = json.loads(sys.argv[1])
files = TargetFiles(pid)
for fields, file_addr in modules:
    image = files.open_module(Module(*fields))
    found = SymbolIndex([(image.elf, ".dynsym")]).lookup(file_addr)
    print(image.origin, found.name, sep=":")
"""


@needs_map_files
@pytest.mark.needs("setpriv")
@pytest.mark.parametrize("with_build_ids", [True, False])
def test_replaced_files_are_read_without_the_right_to_map_files(
    running: tuple[int, Build], with_build_ids: bool
) -> None:
    pid, old = running
    modules = modules_of(pid, old.folder, with_build_ids=with_build_ids)
    replace(old)
    asked = [
        (dataclasses.astuple(module), old.addrs[f"old_{what}"])
        for module, what in zip(modules, ("main", "work"), strict=True)
    ]
    drop = ["setpriv", "--inh-caps=-all", "--bounding-set=-sys_admin,-checkpoint_restore"]
    script = [sys.executable, "-I", "-c", WITHOUT_RIGHT, json.dumps([pid, asked])]
    assert run([*drop, *script]).split("\n")[:2] == ["mapped file:old_main", "memory:old_work"]


@needs_map_files
@pytest.mark.needs("mount-namespace")
def test_private_copies_in_a_mount_namespace_of_their_own(tmp_path: Path) -> None:
    """What stands at the same paths outside is another build."""
    public = build(tmp_path / "public", "public")
    private = build(tmp_path / "private", "private")
    mount = f"mount --bind {private.folder} {public.folder} && exec {public.folder}/program"
    process = start(["unshare", "-m", "sh", "-c", mount])
    try:
        modules = modules_of(process.pid, public.folder)
        files = TargetFiles(process.pid)
        origins = names_in(files, modules, private.addrs)
        assert origins == {"program": "mapped file", "libwork.so": "mapped file"}
        # A debug file beside it in that namespace, not what stands there outside.
        for place in (private, public):
            shutil.copy(private.folder / "program", place.folder / "program.debug")
        own = files.open_module(modules[0])
        link = f"--add-gnu-debuglink={private.folder / 'program.debug'}"
        run(["objcopy", link, str(private.folder / "program"), str(tmp_path / "linked")])
        linked = open_image(str(tmp_path / "linked"))
        (public.folder / "program.debug").write_bytes(b"decoy")
        found = files.open_debug_file(modules[0], linked.elf)
        assert found is not None
        assert found.origin == "debug link"
        for image in (own, linked, found):
            image.close()
        # What it has open is still found in its root when it is gone.
        process.kill()
        process.wait()
        after = files.open_module(modules[0])
        assert after.origin == "path in its root"
        after.close()
        files.close()
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("kind", ["fifo", "device", "directory", "loop", "sparse", "text"])
def test_what_is_no_debug_file_is_told_and_not_waited_for(tmp_path: Path, kind: str) -> None:
    program = compile_object(tmp_path, "int main(void) { return 0; }", "-g")
    own = open_image(str(program))
    place = tmp_path / "program.debug"
    run(["objcopy", "--only-keep-debug", str(program), str(place)])
    run(["objcopy", "--strip-all", f"--add-gnu-debuglink={place}", str(program)])
    own.close()
    own = open_image(str(program))
    place.unlink()
    if kind == "fifo":
        os.mkfifo(place)
    elif kind == "device":
        place.symlink_to("/dev/zero")
    elif kind == "directory":
        place.mkdir()
    elif kind == "loop":
        place.symlink_to(place)
    elif kind == "sparse":
        with place.open("wb") as file:
            file.truncate(1 << 42)
    else:
        place.write_text("not an ELF file" * 99)
    files = TargetFiles(None, [str(tmp_path)])
    module = Module(1, str(program), 0, 0, 1 << 40, own.elf.build_id)
    assert files.open_debug_file(module, own.elf) is None
    told = [line for line in files.rejected(module) if line.startswith(str(place))]
    assert bool(told) == (kind != "directory")
    # The same in place of the module's own file.
    with pytest.raises(FilesError):
        files.open_module(Module(2, str(place), 0, 0, 1 << 40, own.elf.build_id))
    own.close()


def test_damaged_image_in_memory_is_an_error_or_has_other_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a process has in its memory may be anything: it can write there."""
    library = compile_object(tmp_path, LIBRARY, "-shared", "-fPIC", name="libwork.so")
    own = open_image(str(library))
    loaded = [segment for segment in own.elf.segments if segment.kind == PT_LOAD]
    memory = bytearray(max(segment.vaddr + segment.file_size for segment in loaded))
    for segment in loaded:
        data = own.elf.at_addr(segment.vaddr, segment.file_size)
        memory[segment.vaddr : segment.vaddr + len(data)] = data
    own.close()
    damaged = memory

    def read(proc: str, runtime_addr: int, size: int) -> bytes:
        return bytes(damaged[runtime_addr - BIAS : runtime_addr - BIAS + size])

    monkeypatch.setattr(memory_image, "read_memory", read)
    module = Module(1, "/lib", BIAS, BIAS, BIAS + len(memory), "")
    outcomes = set()
    chance = random.Random(4)
    for attempt in range(400):
        damaged = bytearray(memory)
        for _ in range(min(attempt, 3)):
            place = chance.randrange(chance.choice((64, 1024, len(memory) - 8)))
            value = chance.choice((0, 2**64 - 1, 2**63, chance.getrandbits(64)))
            damaged[place : place + 8] = value.to_bytes(8, "little")
        try:
            image = copy_module(module, BIAS, "/proc/1")
            names = len(SymbolIndex([(image, ".dynsym")]))
            table = image.fde_table()
            outcomes.add((names > 0, table is not None))
        except ObjectError:
            outcomes.add((False, False))
        if attempt == 0:
            assert outcomes == {(True, True)}
    assert len(outcomes) > 1
