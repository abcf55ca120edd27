"""Room for the agent's threads: which limit is reached, and the command that raises it."""

from __future__ import annotations

from pathlib import Path

import pytest

from elfheaders import GLIBC_LOADER, GLIBC_NOTE, executable
from fakeproc import FakeProc, mapping
from flametap.errors import CannotAttachError
from flametap.linux import procfs
from flametap.safety import preflight

PID = 100_000_000  # no real process has it
LIBC = mapping(0x7F00_0000_0000, 1 << 20, "/usr/lib/x86_64-linux-gnu/libc.so.6", "r-xp")
DYNAMIC = executable(GLIBC_LOADER, notes=GLIBC_NOTE)


@pytest.fixture
def fake(tmp_path: Path) -> FakeProc:
    return FakeProc(tmp_path / "proc")


def refusal(fake: FakeProc) -> CannotAttachError:
    with pytest.raises(CannotAttachError) as raised:
        preflight.check(PID, proc=fake.proc, way="frida")
    return raised.value


def test_process_limit_of_the_user(fake: FakeProc) -> None:
    folder = fake.process(PID, uid=1000, maps=LIBC, program=DYNAMIC, Threads="3")
    fake.process(PID + 1, uid=1000, Threads="4")
    fake.process(PID + 2, uid=1001, Threads="50")
    (folder / "limits").write_text("Max processes             16      20      processes\n")
    error = refusal(fake)
    assert "RLIMIT_NPROC of user 1000 is 16, 7 in use" in error.message
    assert f"prlimit --pid {PID} --nproc=39 (as root" in error.hint


def test_process_limit_that_its_user_may_raise(fake: FakeProc) -> None:
    folder = fake.process(PID, uid=1_000_000, maps=LIBC, program=DYNAMIC)
    (folder / "limits").write_text("Max processes             0      64      processes\n")
    assert f"prlimit --pid {PID} --nproc=33: (as uid 1000000" in refusal(fake).hint


@pytest.mark.parametrize("capability", [0, procfs.CAP_SYS_RESOURCE])
def test_remedy_says_what_root_in_a_container_lacks(tmp_path: Path, capability: int) -> None:
    fake = FakeProc(tmp_path / "proc", own_uid=0, own_capabilities=f"{1 << capability:x}")
    folder = fake.process(PID, maps=LIBC, program=DYNAMIC)
    (folder / "limits").write_text("Max processes             0      0      processes\n")
    assert ("CAP_SYS_RESOURCE, which we lack" in refusal(fake).hint) == (capability == 0)


@pytest.mark.parametrize(
    ("name", "limit", "is_named"),
    [
        ("haproxy", 0, True),
        ("haproxy", 3, False),
        ("demo", 0, False),
    ],
)
def test_haproxy_forbids_itself_new_threads(
    fake: FakeProc, name: str, limit: int, is_named: bool
) -> None:
    folder = fake.process(PID, name=name, maps=LIBC, program=DYNAMIC)
    (folder / "limits").write_text(f"Max processes             {limit} {limit}  processes\n")
    assert ("insecure-fork-wanted" in refusal(fake).hint) == is_named


@pytest.mark.parametrize(("uid", "capability"), [(0, 0), (1000, procfs.CAP_SYS_RESOURCE)])
def test_process_limit_does_not_bind_the_mighty(fake: FakeProc, uid: int, capability: int) -> None:
    effective = f"{1 << capability:x}"
    folder = fake.process(PID, uid=uid, maps=LIBC, program=DYNAMIC, CapEff=effective)
    (folder / "limits").write_text("Max processes             1      1      processes\n")
    preflight.check(PID, proc=fake.proc)


def test_task_limit_of_the_kernel(fake: FakeProc) -> None:
    (fake.root / "sys/kernel/threads-max").write_text("105\n")
    fake.process(PID, maps=LIBC, program=DYNAMIC)
    error = refusal(fake)
    assert "kernel.threads-max is 105, 100 in use" in error.message
    assert "sysctl kernel.threads-max=132" in error.hint


@pytest.mark.parametrize("version", [1, 2])
def test_task_limit_of_an_outer_control_group(fake: FakeProc, tmp_path: Path, version: int) -> None:
    mount = tmp_path / "cgroup"
    inner = mount / "outer" / "inner"
    inner.mkdir(parents=True)
    (inner / "pids.max").write_text("max\n")
    (inner / "pids.current").write_text("5\n")
    (mount / "outer" / "pids.max").write_text("12\n")
    (mount / "outer" / "pids.current").write_text("8\n")
    kind, line = [("cgroup", "4:cpu,pids"), ("cgroup2", "0:")][version - 1]
    (fake.root / "self/mountinfo").write_text(f"30 20 0:26 / {mount} rw - {kind} none rw,pids\n")
    folder = fake.process(PID, maps=LIBC, program=DYNAMIC)
    (folder / "cgroup").write_text(f"{line}:/outer/inner\n")
    error = refusal(fake)
    assert f"control group {mount}/outer is 12, 8 in use" in error.message
    assert "--pids-limit" in error.hint


@pytest.mark.parametrize(("start_ticks", "is_own"), [(5000, True), (17, False)])
def test_pid_namespace_with_and_without_its_own_procfs(
    fake: FakeProc, tmp_path: Path, start_ticks: int, is_own: bool
) -> None:
    """Number 1 in the target's /proc is the target, or the machine's first process."""
    folder = fake.process(PID, maps=LIBC, program=DYNAMIC, NSpid=f"{PID}\t1")
    within = tmp_path / "root/proc/1"
    within.mkdir(parents=True)
    (folder / "root").unlink()
    (folder / "root").symlink_to(tmp_path / "root")
    (within.parent / "self").symlink_to("1")
    before = " ".join("0" * 18)
    (folder / "stat").write_text(f"{PID} (demo) S {before} 5000 0\n")
    (within / "stat").write_text(f"1 (first) S {before} {start_ticks} 0\n")
    if is_own:
        preflight.check(PID, proc=fake.proc)
    else:
        error = refusal(fake)
        assert "pid namespace without a /proc of its own" in error.message
        assert "--mount-proc" in error.hint


def test_root_without_procfs(fake: FakeProc, tmp_path: Path) -> None:
    folder = fake.process(PID, maps=LIBC, program=DYNAMIC)
    root = tmp_path / "root"
    root.mkdir()
    (folder / "root").unlink()
    (folder / "root").symlink_to(root)
    error = refusal(fake)
    assert "without /proc" in error.message
    assert "mount proc" in error.hint


def test_frozen_control_group(fake: FakeProc, tmp_path: Path) -> None:
    mount = tmp_path / "cgroup"
    (mount / "box").mkdir(parents=True)
    (mount / "box" / "cgroup.events").write_text("populated 1\nfrozen 1\n")
    (fake.root / "self/mountinfo").write_text(f"30 20 0:26 / {mount} rw - cgroup2 none rw\n")
    folder = fake.process(PID, maps=LIBC, program=DYNAMIC)
    (folder / "cgroup").write_text("0::/box\n")
    assert "frozen" in refusal(fake).message
