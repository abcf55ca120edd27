"""What a process calls itself does not change what else is read about it."""

from __future__ import annotations

from pathlib import Path

import pytest

from fakeproc import FakeProc
from flametap.linux import procfs

PID = 4242


@pytest.mark.parametrize("mark", ["\r", "\x0b", "\x0c", "\x1c", "\x85", "\u2028"])
def test_no_character_but_a_line_feed_ends_a_line(tmp_path: Path, mark: str) -> None:
    tree = FakeProc(tmp_path / "proc")
    tree.process(PID, name=f"x{mark}NSpid:7")
    (tmp_path / "proc/self/mountinfo").write_text(f"1 2 0:1 / /mnt/a{mark}b rw - tmpfs none rw\n")
    (tmp_path / f"proc/{PID}/cgroup").write_text(f"0::/user/a{mark}b\n")
    status = procfs.read_status(PID, tree.proc)
    assert (status.name, status.own_pid) == (f"x{mark}NSpid:7", PID)
    assert procfs.control_group_folders(PID, "pids", tree.proc) == []
