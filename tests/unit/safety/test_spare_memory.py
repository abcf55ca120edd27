"""Room for the agent's memory: below which limit there is too little, and what is told."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from elfheaders import GLIBC_LOADER, GLIBC_NOTE, executable
from fakeproc import FakeProc, mapping
from flametap.errors import CannotAttachError
from flametap.safety import preflight
from flametap.safety.spare_memory import AGENT_BYTES, OWN_BYTES

PID = 100_000_000  # no real process has it
LIBC = mapping(0x7F00_0000_0000, 1 << 20, "/usr/lib/x86_64-linux-gnu/libc.so.6", "r-xp")
MIB = 1 << 20


@pytest.fixture
def fake(tmp_path: Path) -> FakeProc:
    fake = FakeProc(tmp_path / "proc")
    fake.process(PID, maps=LIBC, program=executable(GLIBC_LOADER, notes=GLIBC_NOTE))
    return fake


class Group:
    """A control group of the target, below a mount of its own."""

    def __init__(self, fake: FakeProc, tmp_path: Path, *, version: int, path: str = "/app") -> None:
        self.mount = tmp_path / "cgroup"
        self.folder = self.mount / path.lstrip("/")
        self.folder.mkdir(parents=True)
        kind, options = ("cgroup2", "rw") if version == 2 else ("cgroup", "rw,memory")
        line = f"31 23 0:28 / {self.mount} rw - {kind} {kind} {options}\n"
        (fake.root / "self/mountinfo").write_text(line)
        group = f"0::{path}\n" if version == 2 else f"4:memory:{path}\n"
        (fake.root / str(PID) / "cgroup").write_text(group)

    def say(self, **files: int | str) -> None:
        """Write files of the group; _ stands for a dot."""
        for name, content in files.items():
            (self.folder / name.replace("memory_", "memory.")).write_text(f"{content}\n")


def refusal(fake: FakeProc) -> CannotAttachError:
    with pytest.raises(CannotAttachError) as raised:
        preflight.check(PID, proc=fake.proc, way="frida")
    return raised.value


def test_group_that_is_nearly_full(fake: FakeProc, tmp_path: Path) -> None:
    group = Group(fake, tmp_path, version=2)
    group.say(memory_max=400 * MIB, memory_current=395 * MIB)
    error = refusal(fake)
    assert f"control group {group.folder} has 5 MiB left" in error.message
    assert "may take 48 MiB" in error.message
    assert "--force" in error.hint
    assert "outside" not in error.hint, "flametap is outside"
    assert "5 MiB left" in preflight.check(PID, force=True, proc=fake.proc).warnings[0]


def test_pages_of_files_are_free(fake: FakeProc, tmp_path: Path) -> None:
    group = Group(fake, tmp_path, version=2)
    stat = f"anon {300 * MIB}\ninactive_file {60 * MIB}\nactive_file {30 * MIB}"
    group.say(memory_max=400 * MIB, memory_current=395 * MIB, memory_stat=stat)
    assert preflight.check(PID, proc=fake.proc).warnings == ()


def test_swap_counts_as_far_as_the_group_may_use_it(fake: FakeProc, tmp_path: Path) -> None:
    group = Group(fake, tmp_path, version=2)
    group.say(memory_max=400 * MIB, memory_current=395 * MIB)
    (fake.root / "meminfo").write_text(
        f"MemAvailable: {8 << 20} kB\nHugePages_Total: 0\nSwapFree: {200 << 10} kB\n"
    )
    assert preflight.check(PID, proc=fake.proc).warnings == ()
    (group.folder / "memory.swap.max").write_text(f"{100 * MIB}\n")
    (group.folder / "memory.swap.current").write_text(f"{90 * MIB}\n")
    assert "15 MiB left" in refusal(fake).message


def test_version_1(fake: FakeProc, tmp_path: Path) -> None:
    group = Group(fake, tmp_path, version=1)
    group.say(
        memory_limit_in_bytes=400 * MIB,
        memory_usage_in_bytes=390 * MIB,
        memory_stat=f"inactive_file 0\ntotal_inactive_file {20 * MIB}",
    )
    assert "30 MiB left" in refusal(fake).message


def test_the_outer_group_decides_if_it_has_less(fake: FakeProc, tmp_path: Path) -> None:
    group = Group(fake, tmp_path, version=2, path="/pod/app")
    group.say(memory_max="max", memory_current=395 * MIB)
    (group.mount / "pod/memory.max").write_text(f"{400 * MIB}\n")
    (group.mount / "pod/memory.current").write_text(f"{399 * MIB}\n")
    assert f"{group.mount}/pod has 1 MiB left" in refusal(fake).message


@pytest.mark.parametrize(
    ("spare", "remedy"),
    [(AGENT_BYTES[False] + OWN_BYTES // 2, "outside of that group"), (1, "--force")],
)
def test_flametap_in_the_same_group_needs_more(
    fake: FakeProc, tmp_path: Path, spare: int, remedy: str
) -> None:
    group = Group(fake, tmp_path, version=2, path="/")
    group.say(memory_max=400 * MIB, memory_current=400 * MIB - spare)
    error = refusal(fake)
    assert "may take 240 MiB" in error.message
    assert remedy in error.hint


def test_flametap_alone_in_a_group(fake: FakeProc, tmp_path: Path) -> None:
    """If the kernel killed flametap's helper amid an attach, the target would stay half held."""
    group = Group(fake, tmp_path, version=2)
    group.say(memory_max=400 * MIB, memory_current=300 * MIB)
    (fake.root / str(PID) / "cgroup").write_text("0::/\n")
    (fake.root / str(os.getpid()) / "cgroup").write_text("0::/app\n")
    error = refusal(fake)
    assert "flametap, with the target in its hands, may be killed" in error.message
    assert "100 MiB left, and an attach may take 192 MiB" in error.message
    assert "outside of that group" in error.hint


def test_machine_without_memory(fake: FakeProc) -> None:
    (fake.root / "meminfo").write_text("MemAvailable: 100000 kB\nSwapFree: 0 kB\n")
    assert "the machine has 97 MiB left" in refusal(fake).message
