"""A target changes the paths of its files while we follow them, or names files of root."""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from fakeproc import FakeProc
from flametap.linux import open_beneath, procfs
from flametap.linux.file_rights import ProcessUser
from flametap.model import Module
from flametap.recording.names.table import SymbolTable
from flametap.symbols.jit.names_thread import JitNames
from flametap.symbols.locate.module_files import TargetFiles
from flametap.symbols.locate.open_file import OpenFile, open_image
from objects import compile_object, open_elf
from other_user import GID, SLEEPER, UID
from running import Target, wait_until

pytestmark = pytest.mark.needs("gcc", "setpriv")

TRIES = 20_000
# Swaps a folder with a link to another place, as fast as it can: renameat2(RENAME_EXCHANGE).
SWAPPER = """
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    puts("ready");
    fflush(stdout);
    for (;;) renameat2(AT_FDCWD, argv[1], AT_FDCWD, argv[2], RENAME_EXCHANGE);
}
"""


def swapping(folder: Path, start_theirs: Callable[..., Target]) -> tuple[Target, Path]:
    """Start a target with ``folder/root`` as its root, and nobody's program that swaps a folder in
    it with a link to outside; return the target and the file of that name outside."""
    root, outside = folder / "root", folder / "outside"
    for place, text in ((root / "data", "inside"), (outside, "outside")):
        place.mkdir(parents=True)
        (place / "file").write_text(text)
    (root / "link").symlink_to(outside)
    for path in (root, root / "data"):
        os.chown(path, UID, GID)
    swapper = compile_object(folder, SWAPPER, name="swapper")
    compile_object(root, SLEEPER, "-static", name="sleeper")
    start_theirs(swapper, root / "data", root / "link")
    os.chmod(root, 0o755)
    # The target of a chroot is in our mount namespace, and has another root.
    chroot = ["chroot", f"--userspec={UID}:{GID}", str(root), "/sleeper"]
    return Target(chroot), outside / "file"


@pytest.mark.needs("static-glibc")
@pytest.mark.parametrize("has_openat2", [True, False])
def test_swapped_folder_leads_nowhere_out_of_the_root(
    their_folder: Path,
    start_theirs: Callable[..., Target],
    adopt: Callable[[Target], Target],
    monkeypatch: pytest.MonkeyPatch,
    *,
    has_openat2: bool,
) -> None:
    target, outside = swapping(their_folder, start_theirs)
    adopt(target)
    if not has_openat2:
        without_openat2(monkeypatch)
    files = TargetFiles(target.pid)
    wanted, opened, escaped = outside.stat().st_ino, 0, 0
    for _ in range(TRIES):
        with contextlib.suppress(OSError):
            file = OpenFile("/data/file", files.roots[0])
            opened += 1
            escaped += file.inode == wanted
            file.close()
    files.close()
    assert escaped == 0
    assert opened > 0


def without_openat2(monkeypatch: pytest.MonkeyPatch) -> None:
    """Act as a kernel before 5.6."""
    from flametap.linux import open_beneath
    from flametap.linux.raw_syscall import raw_syscall

    def call(name: str, *arguments: object) -> int:
        if name == "openat2":
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
        return raw_syscall(name, *arguments)

    monkeypatch.setattr(open_beneath, "raw_syscall", call)


def test_perf_map_that_is_a_name_of_roots_file_is_not_read(
    their_folder: Path, tmp_path: Path, start_theirs: Callable[..., Target]
) -> None:
    """Where hard links are not protected, anybody can give another file that name."""
    sleeper = compile_object(their_folder, SLEEPER, name="sleeper")
    target = start_theirs(sleeper)
    secret = Path(f"/tmp/perf-{target.pid}.map")
    secret.write_text("1000 10 the_secret_of_root\n")
    try:
        secret.chmod(0o600)
        table = SymbolTable()
        names = JitNames(table, target.pid)
        names.submit([(1, 0x1000)])
        assert names.wait_idle(30)
        assert "secret" not in str(table.frames(1))
        names.close()
    finally:
        secret.unlink()


def test_debug_link_to_a_file_that_the_targets_user_may_not_read(
    their_folder: Path, tmp_path: Path, start_theirs: Callable[..., Target]
) -> None:
    common = compile_object(tmp_path, "int secret_of_root;", "-g", "-shared", name="common")
    common.chmod(0o600)
    sleeper = compile_object(their_folder, SLEEPER, "-g", name="sleeper")
    link = tmp_path / "link"
    link.write_bytes(os.fsencode(common) + b"\0" + bytes.fromhex(open_elf(common).build_id))
    section = f".gnu_debugaltlink={link}"
    subprocess.run(["objcopy", "--add-section", section, sleeper], check=True, timeout=60)
    target = start_theirs(sleeper)
    files = TargetFiles(target.pid)
    build_id = open_elf(sleeper).build_id
    image = files.open_module(Module(1, str(sleeper), 0, 0, 1 << 40, build_id))
    assert image.elf.section(".gnu_debugaltlink") is not None
    assert files.open_alt_file(image) is None
    image.close()
    files.close()


def test_module_may_not_lie_outside_of_the_targets_root(
    their_folder: Path, adopt: Callable[[Target], Target]
) -> None:
    root = their_folder / "root"
    root.mkdir()
    sleeper = compile_object(root, SLEEPER, "-static", name="sleeper")
    outside = compile_object(their_folder, SLEEPER, name="outside")
    chroot = ["chroot", f"--userspec={UID}:{GID}", str(root), "/sleeper"]
    target = adopt(Target(chroot))
    files = TargetFiles(target.pid)
    build_id = open_elf(outside).build_id
    with pytest.raises(Exception, match="not found"):
        files.open_module(Module(1, str(outside), 0, 0, 1 << 40, build_id))
    own = files.open_module(Module(2, "/sleeper", 0, 0, 1 << 40, open_elf(sleeper).build_id))
    own.close()
    files.close()


def test_rights_are_those_of_one_thread_and_come_back(
    their_folder: Path, tmp_path: Path, start_theirs: Callable[..., Target]
) -> None:
    from flametap.linux.file_rights import ProcessUser, acting_as, read_capabilities

    secret = tmp_path / "secret"
    secret.write_text("x")
    secret.chmod(0o600)
    target = start_theirs(compile_object(their_folder, SLEEPER, name="sleeper"))
    before = read_capabilities(), os.getgroups()
    seen: list[str] = []
    for end in (None, ZeroDivisionError):
        with contextlib.suppress(ZeroDivisionError), acting_as(ProcessUser(target.pid)):
            with pytest.raises(PermissionError):
                secret.read_text()
            other = threading.Thread(target=lambda: seen.append("started inside"))
            other.start()
            other.join()
            if end is not None:
                raise end
        assert secret.read_text() == "x"
        assert (read_capabilities(), os.getgroups()) == before
    assert len(seen) == 2


def test_user_of_a_target_that_has_ended_is_not_that_of_its_number(
    their_folder: Path, start_theirs: Callable[..., Target]
) -> None:
    from flametap.linux.file_rights import ProcessUser

    target = start_theirs(compile_object(their_folder, SLEEPER, name="sleeper"))
    user = ProcessUser(target.pid)
    assert user.rights().uid == UID
    user._pid = os.getpid()  # as if the number were given to a process of root's
    assert user.rights().uid == UID


def test_without_the_right_to_act_as_the_user_nothing_is_opened(
    their_folder: Path, start_theirs: Callable[..., Target]
) -> None:
    sleeper = compile_object(their_folder, SLEEPER, name="sleeper")
    target = start_theirs(sleeper)
    script = (
        "import sys\n"
        "from flametap.symbols.locate.module_files import TargetFiles\n"
        "from flametap.symbols.locate.open_file import OpenFile\n"
        "files = TargetFiles(int(sys.argv[1]))\n"
        "try:\n"
        "    OpenFile(sys.argv[2], files.roots[0])\n"
        "except PermissionError as error:\n"
        "    print(error)\n"
    )
    drop = ["setpriv", "--inh-caps=-all", "--bounding-set=-setuid"]
    command = [*drop, sys.executable, "-I", "-c", script, str(target.pid), str(sleeper)]
    said = subprocess.run(command, check=True, timeout=60, capture_output=True, text=True).stdout
    assert "needs CAP_SETUID" in said


def test_fifo_in_place_of_a_module_is_not_waited_for(
    their_folder: Path, start_theirs: Callable[..., Target]
) -> None:
    target = start_theirs(compile_object(their_folder, SLEEPER, name="sleeper"))
    os.mkfifo(their_folder / "fifo")
    files = TargetFiles(target.pid)
    with pytest.raises(OSError, match="not a regular file"):
        open_image(str(their_folder / "fifo"), files.roots[0])
    files.close()


def test_setuid_program_opens_nothing_for_the_one_before(
    tmp_path: Path, their_folder: Path, start_theirs: Callable[..., Target]
) -> None:
    """The target becomes ``su``, say: a process of root's with the same number."""
    secret = tmp_path / "secret"
    secret.write_text("the secret of root")
    secret.chmod(0o600)
    tmp_path.chmod(0o755)
    program = compile_object(their_folder, SLEEPER, name="program")
    program.chmod(0o4755)
    target = start_theirs("sh", "-c", f"echo ready; read line; exec {program}")
    user = ProcessUser(target.pid)
    assert user.rights().uid == UID
    target.say("go")
    wait_until(lambda: procfs.read_status(target.pid).uids[3] == 0, "the program to be root's")
    assert user.rights().uid == UID
    with pytest.raises(PermissionError):
        open_beneath.open_regular(str(secret), f"/proc/{target.pid}/root", user=user)


@pytest.mark.parametrize(
    ("changed", "uid"),
    [
        ({"Uid": "5\t5\t5\t5"}, 1000),
        ({"Uid": "0\t0\t0\t0"}, 1000),
        ({"CapPrm": "ff", "CapEff": "ff"}, 1000),  # a program with capabilities of its own
        ({"Groups": "42"}, 1000),
        ({"Uid": "1000\t1001\t1000\t1001"}, 1001),  # one of its own
    ],
    ids=str,
)
def test_rights_change_only_to_what_the_process_may_become(
    changed: dict[str, str], uid: int, tmp_path: Path
) -> None:
    proc = FakeProc(tmp_path)
    uids = "1000\t1000\t1001\t1000"
    folder = proc.process(77, Uid=uids)
    (tmp_path / "self/ns").mkdir()
    (folder / "ns").mkdir()
    for place in ("self", "77"):
        (tmp_path / place / "ns/user").symlink_to("user:[1]")
    user = ProcessUser(77, proc.proc)
    before = user.rights()
    text = (folder / "status").read_text()
    for name, value in changed.items():
        text = "".join(
            line for line in text.splitlines(keepends=True) if not line.startswith(f"{name}:")
        )
        text += f"{name}:\t{value}\n"
    (folder / "status").write_text(text)
    assert user.rights().uid == uid
    assert user.rights() == before or uid != 1000
