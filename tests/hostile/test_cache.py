"""Names planted in the cache of symbols, for somebody else's session."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

import other_user
from flametap.model import RawFrame
from flametap.recording.names.table import SymbolTable
from flametap.symbols.debuginfo import disk_cache
from flametap.symbols.debuginfo.disk_cache import DiskCache
from flametap.symbols.locate.open_file import OpenFile
from flametap.symbols.symbolizer import Symbolizer
from objects import compile_object, module_of, symbols

WAIT_S = 60
# Names that only debug information has: the symbol table does not know inlined functions.
SOURCE = """
static inline __attribute__((always_inline)) int kept_name(int x)
{
    volatile int y = x * 3;
    return y;
}
__attribute__((noinline)) int outer(int x) { return kept_name(x) + 1; }
int main(int argc, char **argv) { return outer(argc); }
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    return compile_object(tmp_path, SOURCE, "-O1", "-g", "-static", name="program")


def inlined_names(program: Path, cache: Path) -> set[str]:
    """What a session names the code of ``outer`` by."""
    table = SymbolTable()
    one = Symbolizer(table, None, cache_dir=cache)
    try:
        start, size = symbols(program)["outer"]
        one.add_module(module_of(program))
        one.submit_many((i, RawFrame(1, start + i)) for i in range(size))
        assert one.wait_idle(WAIT_S)
        return {frame.function.name for i in range(size) for frame in table.frames(i)}
    finally:
        one.close()


def renamed_unseen(program: Path, copy: Path) -> None:
    """Rename a function where a key of samples, 64 blocks evenly spread, does not look."""
    data = bytearray(program.read_bytes())
    step = max(len(data) // 64, 4096)
    place = data.index(b"kept_name\0")
    # Pad behind the end (no reader minds) until the name lies between two samples.
    while place % step < 4096:
        data += bytes(64 * 64)
        step = max(len(data) // 64, 4096)
    pad = len(data) - program.stat().st_size
    with open(program, "ab") as file:
        file.write(bytes(pad))
    data[place : place + 9] = b"evil_name"
    copy.write_bytes(data)
    copy.chmod(0o755)


@pytest.mark.needs("gcc")
def test_files_that_differ_in_any_byte_have_their_own_names(program: Path, tmp_path: Path) -> None:
    """The attack: another program with this build-id, and names of the attacker's choice."""
    planted = tmp_path / "planted"
    renamed_unseen(program, planted)
    cache = tmp_path / "cache"
    assert "evil_name" in inlined_names(planted, cache)
    assert list(cache.iterdir())
    names = inlined_names(program, cache)
    assert "kept_name" in names
    assert "evil_name" not in names


@pytest.mark.needs("gcc", "setpriv")
def test_file_of_another_user_never_names_ours(program: Path, tmp_path: Path) -> None:
    """Even with the same bytes: its owner may change it after it was hashed, while it is read."""
    theirs = tmp_path / "theirs"
    shutil.copy2(program, theirs)
    os.chown(theirs, other_user.UID, other_user.GID)
    keys, names = disk_cache.EntryKeys(), []
    for path in (program, theirs):
        file = OpenFile(str(path))
        names.append(keys.of("abcdef", [file]))
        file.close()
    assert all(names)
    assert names[0] != names[1]


@pytest.mark.needs("gcc")
def test_file_that_anybody_may_write_is_not_kept(program: Path, tmp_path: Path) -> None:
    program.chmod(0o777)
    cache = tmp_path / "cache"
    assert "kept_name" in inlined_names(program, cache)
    assert not cache.exists() or not list(cache.iterdir())


@pytest.mark.needs("gcc", "setpriv")
def test_parts_of_another_user_do_not_name_our_program(tmp_path: Path) -> None:
    """The program is root's; the .dwo file beside it, which it only names, is the attacker's."""
    (tmp_path / "part.c").write_text(SOURCE)
    build = ["gcc", "-O1", "-g", "-gsplit-dwarf", "-Wl,--build-id=sha1", "-o", "program", "part.c"]
    subprocess.run(build, cwd=tmp_path, check=True, timeout=60)
    program, cache = tmp_path / "program", tmp_path / "cache"
    (part,) = tmp_path.glob("*.dwo")
    original = part.read_bytes()
    part.write_bytes(original.replace(b"kept_name", b"evil_name"))
    os.chown(part, other_user.UID, other_user.GID)
    assert "evil_name" in inlined_names(program, cache)
    part.write_bytes(original)
    os.chown(part, os.getuid(), os.getgid())
    assert "kept_name" in inlined_names(program, cache)
    part.unlink()
    assert "kept_name" in inlined_names(program, cache), "of our own files, they are kept"


@pytest.fixture
def cache(tmp_path: Path) -> DiskCache:
    cache = DiskCache(tmp_path / "cache")
    cache.save("abcd", b"payload")
    assert cache.load("abcd") == b"payload"
    return cache


def entry(cache: DiskCache) -> Path:
    assert cache.folder is not None
    (path,) = cache.folder.iterdir()
    return path


@pytest.mark.parametrize("mode", [0o660, 0o602, 0o666])
def test_entry_that_others_may_write_is_not_used(cache: DiskCache, mode: int) -> None:
    entry(cache).chmod(mode)
    assert cache.load("abcd") is None


@pytest.mark.needs("setpriv")
def test_entry_of_another_user_is_not_used(cache: DiskCache) -> None:
    os.chown(entry(cache), other_user.UID, other_user.GID)
    assert cache.load("abcd") is None


@pytest.mark.parametrize("kind", ["link", "fifo"])
def test_entry_that_is_no_file_is_not_used(cache: DiskCache, tmp_path: Path, kind: str) -> None:
    path = entry(cache)
    path.rename(tmp_path / "elsewhere")
    if kind == "link":
        path.symlink_to(tmp_path / "elsewhere")
    else:
        os.mkfifo(path)  # open(2) would wait for ever
    assert cache.load("abcd") is None


@pytest.mark.needs("setpriv")
@pytest.mark.parametrize("how", ["theirs", "writable", "link"])
def test_folder_that_others_may_change_is_not_used(
    cache: DiskCache, tmp_path: Path, how: str
) -> None:
    folder = cache.folder
    assert folder is not None
    if how == "theirs":
        os.chown(folder, other_user.UID, other_user.GID)
    elif how == "writable":
        folder.chmod(0o777)
    else:
        folder.rename(tmp_path / "moved")
        folder.symlink_to(tmp_path / "moved")
    before = sorted(folder.iterdir())
    assert cache.load("abcd") is None
    cache.save("abce", b"payload")
    assert "not kept" in cache.note
    assert sorted(folder.iterdir()) == before


def test_nobody_else_may_read_or_write_what_is_kept(cache: DiskCache) -> None:
    assert cache.folder is not None
    assert stat.S_IMODE(cache.folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(entry(cache).stat().st_mode) == 0o600
