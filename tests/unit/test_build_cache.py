"""What is compiled once is not compiled again, unless anything of it has changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from build_cache import cached

COMMAND = ("sh", "-O2")


class Maker:
    """Write a file as a compiler would, and counts how often."""

    calls = 0

    def __call__(self, folder: Path) -> None:
        self.calls += 1
        (folder / "program").write_text(f"{self.calls}")


def test_nothing_is_made_twice(tmp_path: Path) -> None:
    make = Maker()
    source = tmp_path / "a.c"
    source.write_text("int a;")
    places = [cached("a/b", COMMAND, [source, b"text"], make, tmp_path / "kept") for _ in range(2)]
    assert make.calls == 1
    assert [(place / "program").read_text() for place in places] == ["1", "1"]


@pytest.mark.parametrize("change", ["command", "file", "text"])
def test_a_change_makes_it_anew_and_what_was_there_goes(tmp_path: Path, change: str) -> None:
    make = Maker()
    source = tmp_path / "a.c"
    source.write_text("int a;")
    old = cached("a", COMMAND, [source, b"text"], make, tmp_path / "kept")
    command = ("sh", "-O1") if change == "command" else COMMAND
    if change == "file":
        source.write_text("int b;")
    text = b"other" if change == "text" else b"text"
    new = cached("a", command, [source, text], make, tmp_path / "kept")
    assert (new / "program").read_text() == "2"
    assert not old.exists()


def test_failure_leaves_nothing_behind(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        (folder / "half").touch()
        raise RuntimeError("refused")

    with pytest.raises(RuntimeError, match="refused"):
        cached("a", COMMAND, [], fail, tmp_path)
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["lock"]
    assert (cached("a", COMMAND, [], Maker(), tmp_path) / "program").exists()
