"""Places of output files: found before anything is done, and written so that they are whole."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from flametap.errors import OutputError
from flametap.export import destination


def test_check_leaves_no_trace(tmp_path: Path) -> None:
    kept = tmp_path / "kept.folded"
    kept.write_text("precious")
    destination.check(str(kept))
    destination.check(str(tmp_path / "new.folded"))
    destination.check("/dev/null")
    assert [path.name for path in tmp_path.iterdir()] == ["kept.folded"]
    assert kept.read_text() == "precious"


def test_relative_path_and_pipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    destination.check("plain.folded")
    os.mkfifo("pipe")
    destination.check("pipe")


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        (".", "is a folder"),
        ("missing/out.folded", "does not exist"),
        ("file/out.folded", "is not a folder"),
        ("/proc/out.folded", ""),
        ("dangling/out.folded", "does not exist"),
    ],
)
def test_unwritable_path_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, reason: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("")
    Path("dangling").symlink_to("nowhere")
    with pytest.raises(OutputError) as raised:
        destination.check(path)
    assert path in raised.value.message
    assert reason in raised.value.message
    assert raised.value.hint


def write(path: Path | str, content: bytes = b"new") -> None:
    destination.write(str(path), lambda file: void(file.write(content)))


def void(_: object) -> None: ...


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_new_file_is_for_its_owner_only(tmp_path: Path) -> None:
    write(tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == b"new"
    assert mode(tmp_path / "out") == 0o600


def test_mode_of_a_file_that_is_replaced_stays(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_text("old")
    path.chmod(0o640)
    write(path)
    assert (path.read_bytes(), mode(path)) == (b"new", 0o640)


def test_mode_of_a_file_with_a_second_name_is_not_taken(tmp_path: Path) -> None:
    other, path = tmp_path / "other", tmp_path / "out"
    other.write_text("old")
    other.chmod(0o666)
    path.hardlink_to(other)
    write(path)
    assert (other.read_text(), mode(path)) == ("old", 0o600)


@pytest.mark.parametrize("target", ["real/file", "../{0}/real/./file", "/{1}/real/file", "again"])
def test_links_of_ours_are_followed(target: str, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "again").symlink_to("folder/file")
    (tmp_path / "folder").symlink_to("real")
    (tmp_path / "out").symlink_to(target.format(tmp_path.name, tmp_path))
    write(tmp_path / "out")
    assert (tmp_path / "out").is_symlink()
    assert (tmp_path / "real" / "file").read_bytes() == b"new"
    assert os.listdir(tmp_path / "real") == ["file"]


def test_links_in_a_circle_end(tmp_path: Path) -> None:
    (tmp_path / "out").symlink_to("out")
    with pytest.raises(OutputError, match="symbolic links"):
        write(tmp_path / "out")


def test_what_is_open_already_is_written_to(tmp_path: Path) -> None:
    """As ``/dev/stdout`` is."""
    receiving, sending = os.pipe()
    destination.check(f"/dev/fd/{sending}")
    write(f"/dev/fd/{sending}")
    os.close(sending)
    assert os.read(receiving, 100) == b"new"
    os.close(receiving)
    fd = os.open(tmp_path / "gone", os.O_RDWR | os.O_CREAT)
    os.unlink(tmp_path / "gone")
    write(f"/proc/self/fd/{fd}")
    assert os.pread(fd, 100, 0) == b"new"
    os.close(fd)


def test_folder_through_proc_is_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write("/proc/self/cwd/out")
    assert (tmp_path / "out").read_bytes() == b"new"


def test_device_is_written_to() -> None:
    write("/dev/null")
    with pytest.raises(OutputError, match="No space left"):
        write("/dev/full")


def test_no_descriptor_is_left(tmp_path: Path) -> None:
    before = os.listdir("/proc/self/fd")
    write(tmp_path / "out")
    with pytest.raises(OutputError):
        write(tmp_path / "no" / "out")
    assert os.listdir("/proc/self/fd") == before
