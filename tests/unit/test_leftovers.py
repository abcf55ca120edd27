"""Leftovers of killed profilers are removed, and nothing else is."""

import os
import time
from pathlib import Path

from flametap import leftovers

NAME = "frida-0123456789abcdef0123456789abcdef"


def _folder(root: Path, name: str, age_s: float) -> Path:
    folder = root / name
    folder.mkdir()
    (folder / "helper").write_bytes(b"x")
    os.utime(folder, (time.time() - age_s,) * 2)
    return folder


def test_a_stale_folder_is_removed(tmp_path: Path) -> None:
    folder = _folder(tmp_path, NAME, 3600)

    assert leftovers.remove(tmp_path) == 1
    assert not folder.exists()


def test_a_fresh_folder_and_foreign_names_stay(tmp_path: Path) -> None:
    fresh = _folder(tmp_path, NAME, 0)
    foreign = _folder(tmp_path, "frida-notes", 3600)

    assert leftovers.remove(tmp_path) == 0
    assert fresh.exists()
    assert foreign.exists()
