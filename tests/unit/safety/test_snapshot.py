"""What a look at a process finds."""

from __future__ import annotations

import mmap
import os
import shutil
from pathlib import Path

import pytest

from flametap.linux.file_rights import ProcessUser
from flametap.linux.maps import read_maps
from flametap.safety import snapshot
from flametap.safety.snapshot import CpuTimer

# One on the CPU clock of thread 77, one on that of the process, one on CLOCK_MONOTONIC for a
# thread, one that tells nobody.
TIMERS = """\
ID: 12
signal: 23/00007f0012345678
notify: signal/tid.77
ClockID: -622
ID: 3
signal: 27/0000000000000000
notify: signal/pid.70
ClockID: -6
ID: 2
signal: 23/0000000000000000
notify: signal/tid.77
ClockID: 1
ID: 1
signal: 0/0000000000000000
notify: none/tid.77
ClockID: -622
"""


def _taken_with(tmp_path: Path, timers: str | None) -> frozenset[CpuTimer]:
    """A look at ourselves, with other timers."""
    own = tmp_path / str(os.getpid())
    (own / "task").mkdir(parents=True)
    (own / "fd").mkdir()
    for name in ("maps", "status"):
        shutil.copyfile(f"/proc/self/{name}", own / name)
    for name in ("pagemap", "mem"):
        (own / name).write_bytes(b"")
    if timers is not None:
        (own / "timers").write_text(timers)
    return snapshot.take(os.getpid(), str(tmp_path)).cpu_timers


def test_timers_on_cpu_clocks_that_signal_a_thread(tmp_path: Path) -> None:
    assert _taken_with(tmp_path, TIMERS) == {CpuTimer(timer_id=12, signal=23, tid=77)}


def test_kernel_that_does_not_tell_of_timers(tmp_path: Path) -> None:
    assert _taken_with(tmp_path, None) == frozenset()


def test_process_without_timers(tmp_path: Path) -> None:
    assert _taken_with(tmp_path, "") == frozenset()


@pytest.mark.skipif(os.geteuid() != 0, reason="map_files is for root")
def test_page_of_a_file_without_a_name_whose_mapping_was_split(tmp_path: Path) -> None:
    """As the loader's after Frida has hooked it, where the file's path leads nowhere: in a chroot,
    or after an upgrade."""
    path = tmp_path / "code"
    path.write_bytes(b"".join(bytes([i]) * mmap.PAGESIZE for i in range(3)))
    with path.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ)
    path.unlink()
    mapped.madvise(mmap.MADV_DONTFORK, mmap.PAGESIZE, mmap.PAGESIZE)
    assert [part.name for part in read_maps("/proc/self")].count("code") == 3
    (joined,) = [part for part in snapshot.mappings(os.getpid()) if part.name == "code"]
    user = ProcessUser(os.getpid())
    pages = [
        snapshot.file_page(user, joined, addr)
        for addr in range(joined.start, joined.end, mmap.PAGESIZE)
    ]
    assert all(pages)
    assert len(set(pages)) == 3
    mapped.close()
