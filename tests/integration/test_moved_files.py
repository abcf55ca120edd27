"""Programs whose code is not where their files' paths say: containers, upgrades, huge pages."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

import receipt
from objects import run
from recording import complete_share, doubts, record, stacks
from running import Start, Target
from targetbuild import SOURCES

pytestmark = pytest.mark.needs("attach", "gcc")


def build(folder: Path, name: str) -> Path:
    """Build the program and its library into ``folder``; functions begin with ``name``."""
    folder.mkdir()
    define = f"-DBUILD={name}"
    library, program = folder / "libmoved.so", folder / "moved"
    shared = ("-shared", "-fPIC", "-Wl,-soname,libmoved.so")
    run(["gcc", "-O2", define, *shared, str(SOURCES / "libmoved.c"), "-o", str(library)])
    link = (str(library), "-Wl,-rpath,$ORIGIN")
    run(["gcc", "-O2", define, str(SOURCES / "moved.c"), *link, "-o", str(program)])
    return folder


@pytest.mark.needs("mount-namespace")
def test_private_copies_and_replaced_files_are_named_by_what_runs(
    adopt: Callable[[Target], Target], seconds: float, tmp_path: Path
) -> None:
    """In a mount namespace of its own a program runs that nobody else can see; then both its
    files are replaced by another build, as an upgrade does.
    """
    public, private = build(tmp_path / "public", "public"), build(tmp_path / "private", "private")
    upgrade = build(tmp_path / "upgrade", "upgraded")
    mount = f"mount --bind {private} {public} && exec {public}/moved"
    target = adopt(Target(["unshare", "-m", "sh", "-c", mount]))
    for is_replaced in (False, True):
        if is_replaced:
            for name in ("moved", "libmoved.so"):
                os.replace(upgrade / name, private / name)
        capture = record(target.pid, seconds / 2)
        seen = stacks(capture)
        for name in ("private_program", "private_library"):
            assert seen.share(name) > 0.2, seen.heaviest()
        assert not seen.names() & {"public_program", "upgraded_program"}
    assert target.finish() == ["moved 1"]


def test_code_in_anonymous_memory_is_still_the_files(start: Start, seconds: float) -> None:
    target = start("hugetext")
    maps = Path(f"/proc/{target.pid}/maps").read_text()
    assert not re.search(r"r-xp .*/hugetext", maps), "the program has moved its code"
    before = receipt.take_at_rest(target.pid)
    capture = record(target.pid, seconds / 2)
    seen = stacks(capture)
    assert receipt.harm_after_settling(target.pid, before) == []
    assert target.finish() == ["moved 1"]
    assert seen.share("inner") > 0.9, seen.heaviest()
    assert min(seen.share("outer"), seen.share("main")) > 0.9, seen.heaviest()
    assert complete_share(capture) > 0.99, doubts(capture)
