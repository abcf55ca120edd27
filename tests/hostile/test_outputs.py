"""Another user plants links and files where flametap writes: nothing of ours is overwritten."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import cli
import other_user
from flametap.errors import OutputError
from flametap.export import write_file
from flametap.export.request import ExportRequest
from profiles import small_profile
from recordings import recorded
from running import Target, wait_until

pytestmark = pytest.mark.needs("setpriv")


@pytest.fixture
def shared_folder(their_folder: Path) -> Path:
    """A folder like /tmp: everybody may create files in it, and nobody delete those of others."""
    folder = their_folder / "shared"
    folder.mkdir()
    folder.chmod(0o1777)
    return folder


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A file of ours that no other user may write."""
    path = tmp_path / "victim"
    path.write_text("precious")
    return path


def plant(*command: str | Path) -> None:
    """Run a command as the other user."""
    subprocess.run([*other_user.AS_NOBODY, *command], check=True)


def record_into(path: Path) -> None:
    write_file(str(path), "folded", ExportRequest(recorded(*small_profile())))


def test_temporary_name_cannot_be_foreseen(shared_folder: Path, victim: Path) -> None:
    plant("ln", "-s", victim, shared_folder / f".out.folded.{os.getpid()}.part")
    record_into(shared_folder / "out.folded")
    assert victim.read_text() == "precious"
    output = shared_folder / "out.folded"
    assert stat.S_ISREG(output.lstat().st_mode)
    assert output.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("folder", ["shared_folder", "their_folder"])
def test_link_of_theirs_is_refused(
    folder: str, victim: Path, request: pytest.FixtureRequest
) -> None:
    output: Path = request.getfixturevalue(folder) / "out.folded"
    plant("ln", "-s", victim, output)
    with pytest.raises(OutputError, match=f"symbolic link of user {other_user.UID}") as raised:
        record_into(output)
    assert "realpath" in raised.value.hint
    assert victim.read_text() == "precious"


def test_link_of_theirs_in_place_of_a_folder_is_refused(shared_folder: Path, victim: Path) -> None:
    plant("ln", "-s", victim.parent, shared_folder / "folder")
    with pytest.raises(OutputError, match="symbolic link of user"):
        record_into(shared_folder / "folder" / "victim")
    assert victim.read_text() == "precious"


@pytest.mark.parametrize("command", ["touch", "mkfifo"])
def test_file_of_theirs_in_a_shared_folder_is_refused(command: str, shared_folder: Path) -> None:
    """To open a FIFO to which nobody listens would take as long as the other user likes."""
    output = shared_folder / "out.folded"
    plant(command, output)
    before = output.stat()
    with pytest.raises(OutputError, match=f"belongs to user {other_user.UID}"):
        record_into(output)
    after = output.stat()
    assert (after.st_ino, after.st_uid, after.st_size) == (before.st_ino, other_user.UID, 0)


def test_files_of_theirs_in_their_folder_do_not_decide_who_reads(their_folder: Path) -> None:
    output = their_folder / "out.folded"
    plant("touch", output)
    plant("chmod", "0666", output)
    record_into(output)
    found = output.stat()
    assert (found.st_uid, found.st_mode & 0o777) == (0, 0o600)


def test_link_is_refused_before_the_attach(
    start: Callable[..., Target], shared_folder: Path, victim: Path
) -> None:
    target = start("busy")
    output = shared_folder / "out.folded"
    plant("ln", "-s", victim, output)
    refused = cli.run("record", target.pid, "-d", "1", "-o", output)
    refused.assert_refused(1, "symbolic link of user")
    assert "realpath" in refused.stderr
    assert victim.read_text() == "precious"


def test_link_that_appears_while_recording_is_refused(
    start: Callable[..., Target], shared_folder: Path, victim: Path, tmp_path: Path
) -> None:
    output = shared_folder / "out.folded"
    target = start("busy")
    maps = Path(f"/proc/{target.pid}/maps")
    with cli.Running(str(tmp_path), "record", target.pid, "-d", "2", "-o", output) as recorder:
        wait_until(lambda: "flametap-ring" in maps.read_text(), "the attach")
        plant("ln", "-s", victim, output)
        assert recorder.process.wait(cli.TIMEOUT_S) == 1, recorder.output
        assert "symbolic link of user" in recorder.output
    assert victim.read_text() == "precious"
    (saved,) = shared_folder.glob("out.folded.*")  # under a name that nobody could foresee
    assert str(saved) in recorder.output
    assert saved.read_text().strip()
