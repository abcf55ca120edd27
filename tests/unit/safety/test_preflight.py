"""Every refusal before an attach, on a procfs of our own making."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from elfheaders import GLIBC_LOADER, GLIBC_NOTE, I386, executable
from fakeproc import FakeProc, mapping
from flametap.errors import (
    CannotAttachError,
    FlametapError,
    NoSuchProcessError,
    PermissionRefusedError,
    UsageError,
)
from flametap.linux import procfs
from flametap.safety import permissions, preflight
from flametap.safety.finding import Severity

PID = 100_000_000  # no real process has it
LIBC = mapping(0x7F00_0000_0000, 1 << 20, "/usr/lib/x86_64-linux-gnu/libc.so.6", "r-xp")
DYNAMIC = executable(GLIBC_LOADER, notes=GLIBC_NOTE)
MIB = 1 << 20


@pytest.fixture
def fake(tmp_path: Path) -> FakeProc:
    return FakeProc(tmp_path / "proc")


def refusal(fake: FakeProc, pid: int = PID, *, force: bool = False) -> FlametapError:
    with pytest.raises(FlametapError) as raised:
        preflight.check(pid, force=force, proc=fake.proc)
    error = raised.value
    assert "\n" not in error.message
    assert error.hint
    return error


def test_healthy_process_passes_without_warnings(fake: FakeProc) -> None:
    fake.process(PID, maps=LIBC, program=DYNAMIC, Threads="7")
    ready = preflight.check(PID, proc=fake.proc)
    assert (ready.pid, ready.command, ready.threads) == (PID, "demo --all", 7)
    assert ready.warnings == ()
    found = list(preflight.findings(PID, proc=fake.proc))
    assert {finding.severity for finding in found} == {Severity.OK}
    assert len(found) == 15


@pytest.mark.parametrize("pid", [0, -5])
def test_number_that_is_no_pid(fake: FakeProc, pid: int) -> None:
    assert isinstance(refusal(fake, pid), UsageError)


@pytest.mark.parametrize("pid", [PID, 1 << 40])
def test_missing_process(fake: FakeProc, pid: int) -> None:
    error = refusal(fake, pid)
    assert isinstance(error, NoSuchProcessError)
    assert f"no process {pid}" in error.message


def test_thread_names_its_process(fake: FakeProc) -> None:
    fake.process(PID, Tgid="77")
    error = refusal(fake)
    assert isinstance(error, NoSuchProcessError)
    assert "thread of process 77" in error.message


def test_ourselves(fake: FakeProc) -> None:
    assert "flametap itself" in refusal(fake, os.getpid()).message


@pytest.mark.parametrize(
    ("status", "message", "hint"),
    [
        ({"State": "Z (zombie)"}, "zombie.*parent 1", "nothing is left"),
        ({"State": "Z (zombie)", "Threads": "3"}, "main thread", "record"),
        ({"State": "T (stopped)"}, "stopped", "kill -CONT"),
        ({"State": "t (tracing stop)", "TracerPid": "55"}, "already traced by process 55", "end"),
        ({"State": "D (disk sleep)"}, "uninterruptible", "wchan"),
        ({"Seccomp": "1"}, "strict seccomp", "record"),
    ],
)
def test_states_that_refuse_an_attach(
    fake: FakeProc, status: dict[str, str], message: str, hint: str
) -> None:
    fake.process(PID, maps=LIBC, program=DYNAMIC, status=status)
    error = refusal(fake)
    assert isinstance(error, CannotAttachError)
    assert re.search(message, error.message)
    assert re.search(hint, error.hint)


def test_kernel_thread(fake: FakeProc) -> None:
    fake.process(PID, name="a) (b", flags=procfs.PF_KTHREAD)
    assert "kernel thread" in refusal(fake).message


def test_tracer_is_named(fake: FakeProc) -> None:
    fake.process(55, name="gdb")
    fake.process(PID, TracerPid="55")
    assert "already traced by gdb (process 55)" in refusal(fake).message


@pytest.mark.parametrize(
    ("program", "maps", "message"),
    [
        (executable(notes=GLIBC_NOTE), "", r"statically linked \(glibc\).*kill"),
        (executable(sections=b"\0.gopclntab\0"), "", r"statically linked \(Go\).*freeze"),
        (executable(), "", r"statically linked \(musl.*freeze"),
        (executable("/lib/ld-musl-x86_64.so.1"), "", "musl C library"),
        (executable(bits=32, machine=I386), "", "32-bit x86 program"),
        (executable(GLIBC_LOADER, machine=183), LIBC, "64-bit ARM64 program"),
        (DYNAMIC, "", "no glibc mapped"),
        (b"#!/bin/sh", "", "ELF"),
    ],
)
def test_programs_that_frida_cannot_enter(
    fake: FakeProc, program: bytes, maps: str, message: str
) -> None:
    fake.process(PID, maps=maps, program=program)
    with pytest.raises(CannotAttachError, match=message):
        preflight.check(PID, proc=fake.proc, way="frida")
    if "program" in message or message == "ELF":  # of another kind
        with pytest.raises(CannotAttachError, match=message):
            preflight.check(PID, proc=fake.proc)
    else:
        assert preflight.check(PID, proc=fake.proc).warnings == ()


@pytest.mark.parametrize(("version", "is_refused"), [("1.1.21", True), ("1.1.22", False)])
def test_musl_that_would_wait_for_our_thread_is_refused(
    fake: FakeProc, tmp_path: Path, version: str, is_refused: bool
) -> None:
    path = "/lib/ld-musl-x86_64.so.1"
    folder = fake.process(PID, maps=mapping(0x1000, 4096, path, "r-xp"), program=executable(path))
    loader = tmp_path / "root" / path[1:]
    loader.parent.mkdir(parents=True)
    loader.write_bytes(b"\x7fELF musl libc\0Version %s\n\0" + version.encode() + b"\0")
    (tmp_path / "root/proc").mkdir()
    (tmp_path / "root/proc/self").symlink_to("1")
    (folder / "root").unlink()
    (folder / "root").symlink_to(tmp_path / "root")
    if is_refused:
        assert "musl before 1.1.22" in refusal(fake).message
    else:
        preflight.check(PID, proc=fake.proc)


def test_program_started_through_the_loader_itself_passes(fake: FakeProc) -> None:
    fake.process(PID, maps=LIBC, program=executable())
    preflight.check(PID, proc=fake.proc, way="frida")


def test_seccomp_filter_that_cannot_be_read_is_refused_unless_forced(fake: FakeProc) -> None:
    fake.process(PID, maps=LIBC, program=DYNAMIC, Seccomp="2", Seccomp_filters="99")
    assert "seccomp filter that cannot be read" in refusal(fake).message
    assert "seccomp filter" in preflight.check(PID, force=True, proc=fake.proc).warnings[0]


def test_other_frida_agent_is_a_warning(fake: FakeProc) -> None:
    agent = mapping(0x1000, 4096, "/memfd:frida-agent-64.so (deleted)", "r-xp")
    fake.process(PID, maps=agent + LIBC, program=DYNAMIC)
    assert "Frida agent" in preflight.check(PID, proc=fake.proc, way="frida").warnings[0]
    assert preflight.check(PID, proc=fake.proc).warnings == ()


# --- valgrind


@pytest.mark.parametrize(
    ("tool", "mapped", "is_refused"),
    [
        ("memcheck-amd64-linux", "/usr/libexec/valgrind/vgpreload_core-amd64-linux.so", True),
        ("none-amd64-linux", "/tmp/vgdb-pipe-shared-mem-vgdb-7-by-???-on-???", True),
        ("gcc-amd64-linux", "/usr/lib/libother.so", False),
        ("demo", "/usr/libexec/valgrind/vgpreload_core-amd64-linux.so", False),
    ],
)
def test_program_run_by_valgrind(fake: FakeProc, tool: str, mapped: str, is_refused: bool) -> None:
    folder = fake.process(PID, maps=mapping(0x1000, 4096, mapped) + LIBC, program=DYNAMIC)
    (folder / "program").rename(folder / tool)
    (folder / "exe").unlink()
    (folder / "exe").symlink_to(folder / tool)
    if not is_refused:
        preflight.check(PID, proc=fake.proc)
        return
    error = refusal(fake)
    assert isinstance(error, CannotAttachError)
    assert "valgrind" in error.message


def test_force_forces_nothing_else(fake: FakeProc) -> None:
    fake.process(PID, State="T (stopped)")
    assert "stopped" in refusal(fake, force=True).message


# --- rights


def facts(tmp_path: Path) -> permissions.Facts:
    fake = FakeProc(tmp_path / "proc", own_uid=1000)
    fake.process(PID, uid=1000)
    return permissions.Facts(
        target=procfs.read_status(PID, fake.proc),
        ours=procfs.read_status(os.getpid(), fake.proc),
        yama_scope=0,
        non_dumpable=False,
        same_user_namespace=True,
        is_descendant=False,
    )


def explained(facts: permissions.Facts) -> PermissionRefusedError:
    error = permissions.explain(facts, "process 1 (x)")
    assert error.message.startswith("cannot attach to process 1 (x): ")
    assert error.exit_code == 4
    assert error.hint
    return error


def test_right_of_another_user(tmp_path: Path) -> None:
    base = facts(tmp_path)
    other = replace(base, target=replace(base.target, uids=(0, 0, 0, 0)))
    assert "belongs to root" in explained(other).message
    ptrace = 1 << procfs.CAP_SYS_PTRACE
    tracing = replace(other, ours=replace(other.ours, capabilities_effective=ptrace))
    assert "alone does not open its memory" in explained(tracing).message
    both = ptrace | 1 << procfs.CAP_DAC_OVERRIDE
    tracing = replace(other, ours=replace(other.ours, capabilities_effective=both))
    assert "security module" in explained(tracing).message
    assert "sudo" in explained(other).hint


def test_right_of_another_group(tmp_path: Path) -> None:
    base = facts(tmp_path)
    other = replace(base, target=replace(base.target, gids=(7, 7, 7, 7)))
    assert "another group" in explained(other).message


def test_right_over_a_mighty_process(tmp_path: Path) -> None:
    base = facts(tmp_path)
    other = replace(base, target=replace(base.target, capabilities_permitted=1))
    assert "capabilities that we lack" in explained(other).message


def test_right_over_a_process_that_hides(tmp_path: Path) -> None:
    assert "not dumpable" in explained(replace(facts(tmp_path), non_dumpable=True)).message


@pytest.mark.parametrize(("scope", "hint"), [(1, "sysctl"), (2, "sudo"), (3, "reboot")])
def test_right_that_yama_takes(tmp_path: Path, scope: int, hint: str) -> None:
    error = explained(replace(facts(tmp_path), yama_scope=scope))
    assert f"ptrace_scope is {scope}" in error.message
    assert hint in error.hint


def test_right_over_a_child_that_its_sibling_has_not(tmp_path: Path) -> None:
    child = replace(facts(tmp_path), yama_scope=1, is_descendant=True)
    assert "a process that we start" in explained(child).message
    assert "PR_SET_PTRACER" in explained(child).hint


@pytest.mark.parametrize(
    ("scope", "sibling", "expected"), [(1, "true", True), (1, "false", False), (0, "false", True)]
)
def test_child_of_ours_is_asked_under_yama(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scope: int, sibling: str, expected: bool
) -> None:
    fake = FakeProc(tmp_path / "proc", own_uid=1000)
    fake.process(PID, uid=1000)
    monkeypatch.setattr(procfs, "may_trace", lambda pid, proc: True)
    monkeypatch.setattr(procfs, "read_yama_scope", lambda proc: scope)
    monkeypatch.setattr(sys, "executable", f"/bin/{sibling}")
    assert permissions.may_attach(procfs.read_status(PID, fake.proc), fake.proc) is expected


def test_what_a_child_of_ours_tries_is_harmless() -> None:
    command = [sys.executable, "-I", "-S", "-c", permissions.TRY_TO_TRACE]
    assert subprocess.run([*command, "/proc/self/mem"], check=False).returncode == 0


def test_root_in_a_container(tmp_path: Path) -> None:
    base = facts(tmp_path)
    root = replace(base, ours=replace(base.ours, uids=(0, 0, 0, 0)))
    assert "CAP_SYS_PTRACE" in explained(root).message
    assert "--cap-add=SYS_PTRACE" in explained(root).hint


def test_root_over_a_process_outside_its_namespace(tmp_path: Path) -> None:
    base = facts(tmp_path)
    mighty = replace(base.ours, capabilities_effective=1 << procfs.CAP_SYS_PTRACE)
    outside = replace(base, ours=mighty, same_user_namespace=None)
    assert "namespace" in explained(outside).message


def test_ptrace_is_not_filtered_here() -> None:
    assert not permissions.ptrace_is_filtered()


# --- procfs


def test_command_line_cannot_move_the_cursor(fake: FakeProc) -> None:
    fake.process(PID, command="evil \x1b[2J")
    assert procfs.read_command(PID, fake.proc) == "evil ?[2J"


def test_command_line_of_a_process_without_one(fake: FakeProc) -> None:
    fake.process(PID, name="idle", command="")
    assert procfs.read_command(PID, fake.proc) == "[idle]"


def test_mappings_keep_spaces_and_know_deleted_files(fake: FakeProc) -> None:
    maps = mapping(0x1000, 4096, "/a b/c (deleted)") + "2000-3000 rw-p 00000000 00:00 0\n"
    fake.process(PID, maps=maps)
    (found,) = procfs.read_mappings(PID, fake.proc)
    assert (found.path, found.is_deleted, found.name, found.size) == ("/a b/c", True, "c", 4096)
