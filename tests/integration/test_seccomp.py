"""Targets under seccomp filters of every kind: recorded when that is safe, refused before anything
is touched when it is not, and alive in either case."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import capabilities
import cli
import receipt
from flametap.linux import procfs, seccomp_calls, syscalls
from nightly import nightly
from recording import capturing
from running import Start, Target, wait_until

pytestmark = pytest.mark.needs("attach", "gcc")

# What docker's default profile denies to a container without privileges (moby, profiles/seccomp).
DENIED_BY_DOCKER = (
    "acct add_key bpf clock_adjtime clock_settime create_module delete_module finit_module "
    "get_kernel_syms get_mempolicy init_module ioperm iopl kcmp kexec_file_load kexec_load "
    "keyctl lookup_dcookie mbind mount move_pages nfsservctl open_by_handle_at "
    "perf_event_open pivot_root ptrace query_module quotactl reboot request_key set_mempolicy "
    "setns settimeofday swapoff swapon sysfs _sysctl umount2 unshare uselib userfaultfd ustat "
    "vserver clone3"
)


@pytest.fixture(autouse=True)
def can_read_filters(start: Start) -> None:
    """Skips where the kernel does not show filters: then nothing is known about them."""
    from flametap.linux import seccomp_filters

    target = start("filtered", "error", str(syscalls.syscall_number("mount")))
    if seccomp_filters.read_filters(target.pid, 1) is None:
        pytest.skip("seccomp filters can only be read with CAP_SYS_ADMIN")


def run(start: Start, mode: str, *names: str) -> Target:
    return start("filtered", mode, *(str(syscalls.syscall_number(name)) for name in names))


def record(target: Target, folder: Path, *options: object) -> cli.Result:
    return cli.run(
        "record", "-p", target.pid, "-d", 0.5, "-r", 500, *options, "-o", folder / "out.folded"
    )


def assert_untouched(target: Target, before: receipt.Receipt) -> None:
    assert receipt.harm_after_settling(target.pid, before, attaches=0) == []
    assert target.finish() == ["survived"]


@pytest.mark.parametrize(
    ("mode", "name"),
    [
        ("kill", "process_vm_readv"),
        ("trap", "getdents64"),
        ("each kcmp", "process_vm_readv"),
        ("error", "rt_sigreturn"),
        *nightly(*(("kill", name) for name in ("rt_tgsigqueueinfo", "memfd_create", "prctl"))),
        *nightly(*(("kill", name) for name in ("close_range", "socketpair", "openat", "munmap"))),
        *nightly(("thread", "process_vm_readv"), ("error", "process_vm_readv")),
    ],
)
def test_filter_that_kills_is_refused(start: Start, tmp_path: Path, mode: str, name: str) -> None:
    target = run(start, *mode.split(), name)
    before = receipt.take(target.pid)
    record(target, tmp_path).assert_refused(5, rf"seccomp filter that would kill.*{name}")
    record(target, tmp_path, "--force").assert_refused(5, name)  # cannot be forced
    assert_untouched(target, before)


@pytest.mark.parametrize("name", ["memfd_create", *nightly("mmap", "socketpair", "clone")])
def test_filter_that_keeps_the_agent_out_is_refused(
    start: Start, tmp_path: Path, name: str
) -> None:
    # As systemd's SystemCallFilter= with SystemCallErrorNumber=EPERM.
    target = run(start, "error", name)
    before = receipt.take(target.pid)
    record(target, tmp_path).assert_refused(5, rf"seccomp filter that forbids.*{name}")
    assert_untouched(target, before)


@pytest.mark.parametrize("denied", [["rt_tgsigqueueinfo"], *nightly([])])
def test_containers_default_filter_is_no_obstacle(
    start: Start, tmp_path: Path, denied: list[str]
) -> None:
    names = [syscalls.syscall_name(number) for number in range(470)]
    allowed = [
        name
        for name in names
        if not name.startswith("syscall_") and name not in [*DENIED_BY_DOCKER.split(), *denied]
    ]
    target = run(start, "only", *allowed)
    before = receipt.take(target.pid)
    result = record(target, tmp_path, "--clock", "wall")
    result.assert_saved()
    for name in denied:
        assert seccomp_calls.OPTIONAL[name] in result.stderr
    assert receipt.harm_after_settling(target.pid, before) == []
    assert target.finish() == ["survived"]


def test_calls_the_agent_makes_are_all_known(start: Start, tmp_path: Path) -> None:
    """With exactly the calls allowed that we say it makes, it works, and nothing is killed."""
    own = ["nanosleep", "clock_nanosleep", "poll", "read", "write", "exit_group", "lseek"]
    target = run(start, "only", *seccomp_calls.DIRECT, *own)
    before = receipt.take(target.pid)
    result = record(target, tmp_path, "--clock", "wall")
    result.assert_saved()
    assert "seccomp" not in result.stderr
    assert receipt.harm_after_settling(target.pid, before) == []
    assert target.finish() == ["survived"]


@pytest.mark.nightly  # in half a second the thread that sleeps may not be met while it runs
def test_thread_that_may_not_be_asked_for_its_filter_is_sampled_all_the_same(
    start: Start, tmp_path: Path
) -> None:
    target = run(start, "thread", "prctl")
    before = receipt.take(target.pid)
    result = record(target, tmp_path, "--threads", "--budget", 0)
    result.assert_saved()
    stacks = (tmp_path / "out.folded").read_text().splitlines()
    assert any("sleeping" in stack and "start_thread" in stack for stack in stacks), stacks
    assert receipt.harm_after_settling(target.pid, before) == []
    assert target.finish() == ["survived"]


# It depends on how fast Chromium starts whether there is a renderer to record.
@pytest.mark.nightly
@pytest.mark.needs("chromium")
def test_chromiums_renderer_survives(adopt: Callable[[Target], Target], tmp_path: Path) -> None:
    program = capabilities.find("chromium")
    assert program
    page = "data:text/html,<script>setInterval(()=>{for(let i=0;i<1e6;i++);},10)</script>"
    browser = adopt(
        Target(
            [program, "--headless", "--disable-gpu", f"--user-data-dir={tmp_path}", page],
            announces=False,
        )
    )

    def renderers() -> list[int]:
        listing = subprocess.run(
            ["pgrep", "-f", f"type=renderer.*{tmp_path}|{tmp_path}.*type=renderer"],
            capture_output=True,
            text=True,
            check=False,
        )
        return [int(pid) for pid in listing.stdout.split()]

    def is_filtered() -> bool:
        return any(procfs.read_status(pid).seccomp == procfs.SECCOMP_FILTER for pid in renderers())

    try:
        wait_until(is_filtered, "a sandboxed renderer")
    except (AssertionError, *procfs.GONE):
        pytest.skip("chromium's sandbox does not run here")
    (pid, *_) = [p for p in renderers() if procfs.read_status(p).seccomp == procfs.SECCOMP_FILTER]
    result = cli.run("record", "-p", pid, "-d", 1, "--clock", "wall", "-o", tmp_path / "out.folded")
    assert result.exit_code in (0, 5), result.stderr
    if result.exit_code == 5:
        assert re.search("seccomp filter that (would kill|forbids)", result.stderr), result.stderr
    assert Path(f"/proc/{pid}/maps").exists()
    assert browser.alive


@pytest.mark.parametrize(
    ("denied", "engine"), [("timer_create", "rounds"), *nightly(("mount", "cpu-timers"))]
)
def test_timers_are_used_where_the_filter_lets_them(start: Start, denied: str, engine: str) -> None:
    target = run(start, "error", denied)
    with capturing(target.pid) as capture:
        wait_until(lambda: capture.status().counters.get("signals_handled", 0) > 0, "a sample")
        capture.stop()
    assert capture.status().engine == engine
    assert target.finish() == ["survived"]
