"""A program names files as its source text: debug information may name any."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from flametap.analysis.views import views_of
from flametap.model import Clock
from flametap.recording.names.table import SymbolTable
from flametap.symbols.locate.source_text import read_source
from flametap.symbols.symbolizer import Symbolizer
from flametap.tree.selection import Selection
from other_user import AS_NOBODY
from recording import record
from running import Target

pytestmark = pytest.mark.needs("gcc", "setpriv")

SECRET = "the secret of root"
SOURCE = """
#include <stdio.h>
int main(void)
{
    volatile unsigned long n = 0;
    puts("ready");
    fflush(stdout);
#line 1 "%s"
    for (;;) n++;
}
"""


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A file that only root may read."""
    path = tmp_path / "secret.c"
    path.write_text(f"{SECRET}\n" * 30)
    path.chmod(0o600)
    return path


def program(folder: Path, source_path: Path) -> Path:
    """A program whose debug information says that it was built from another file."""
    (folder / "busy.c").write_text(SOURCE % source_path)
    subprocess.run(
        ["gcc", "-g", "-O1", "-o", folder / "busy", folder / "busy.c"], check=True, timeout=60
    )
    return folder / "busy"


def shown(target: Target, path: str | Path) -> list[str]:
    """The lines of a file that the page shows for a running target that names it."""
    symbolizer = Symbolizer(SymbolTable(), target.pid)
    try:
        return read_source(str(path), symbolizer.roots).lines or []
    finally:
        symbolizer.close()


@pytest.mark.needs("attach")
@pytest.mark.parametrize("path", ["secret", "/etc/shadow"])
def test_page_shows_no_file_that_the_targets_user_may_not_read(
    their_folder: Path, secret: Path, start_theirs: Callable[..., Target], path: str
) -> None:
    named = secret if path == "secret" else Path(path)
    target = start_theirs(program(their_folder, named))
    capture = record(target.pid, 0.3, cpu_s=0.2)
    try:
        files = []
        for number, function in enumerate(capture.recording.functions):
            if function.name == "main":
                found = views_of(capture.recording).lines(number, Selection(Clock.CPU))
                files += [line.file for line in found.lines]
                assert not [
                    line.text
                    for line in found.lines
                    if line.file == str(named) and line.text is not None
                ]
                assert any("permission denied" in note for note in found.notes), found.notes
        assert str(named) in files
    finally:
        capture.close()


def test_own_sources_are_shown(
    their_folder: Path, start_theirs: Callable[..., Target], secret: Path
) -> None:
    target = start_theirs(program(their_folder, secret))
    own = their_folder / "own.c"
    own.write_text("mine\n")
    own.chmod(0o600)
    os.chown(own, 65534, 65534)
    assert shown(target, own) == ["mine", ""]
    assert shown(target, secret) == []


@pytest.mark.needs("mount-namespace")
def test_file_outside_of_the_targets_root_is_not_shown(
    their_folder: Path, adopt: Callable[[Target], Target]
) -> None:
    """Everybody may read it here, but in the target's mount namespace it does not exist."""
    binary = program(their_folder, Path("/nowhere.c"))
    folder = their_folder / "covered"
    folder.mkdir()
    outside = folder / "outside.c"
    outside.write_text("outside\n")
    cover = f"mount -t tmpfs none {folder} && exec {' '.join(AS_NOBODY)} {binary}"
    target = adopt(Target(["unshare", "-m", "sh", "-c", cover]))
    assert shown(target, outside) == []


@pytest.mark.parametrize("kind", ["fifo", "device", "link", "procfs", "folder"])
def test_only_regular_files_are_opened(
    their_folder: Path,
    secret: Path,
    start_theirs: Callable[..., Target],
    kind: str,
) -> None:
    target = start_theirs(program(their_folder, secret))
    path = their_folder / "named.c"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "link":
        path.symlink_to(secret)
    elif kind == "procfs":
        path.symlink_to(f"/proc/{os.getpid()}/root{secret}")
    else:
        path.mkdir()
    assert shown(target, path) == []
