"""A file takes over the process that reads debug information: what can it do from there?"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from flametap.linux.sandbox import STRANGERS
from flametap.model import Module
from flametap.recording.names.inline_chains import LinesError
from flametap.symbols.debuginfo.disk_cache import DiskCache
from flametap.symbols.debuginfo.job import DebugJob
from flametap.symbols.debuginfo.reader import DebugInfo
from flametap.symbols.debuginfo.worker_client import Worker
from flametap.symbols.locate.module_files import TargetFiles
from harm import harmful
from objects import compile_object, open_elf
from other_user import AS_NOBODY, SLEEPER
from running import Target

pytestmark = pytest.mark.needs("gcc")

LIBC = "ctypes.CDLL(None, use_errno=True)"


def call(number: int, *arguments: object) -> str:
    """Code that makes a system call and reports its errno, which is 0 if it succeeds."""
    values = ", ".join(f"ctypes.c_long({each})" for each in (number, *arguments))
    return (
        f"libc = {LIBC}; code = libc.syscall({values}); "
        "raise ValueError('errno %d' % (ctypes.get_errno() if code == -1 else 0))"
    )


def tried(code: str) -> str:
    """Code that reports the error of some Python, or its success."""
    return f"exec({f'import socket, subprocess{chr(10)}{code}'!r}); raise ValueError('done')"


@pytest.fixture
def program(tmp_path: Path) -> Path:
    return compile_object(tmp_path, SLEEPER, "-O2", "-g")


def answer(worker: Worker, program: Path) -> str:
    with open(program, "rb") as file, pytest.raises(LinesError) as caught:
        worker.build(DebugJob(str(program), 0), [file.fileno()], 1000)
    return str(caught.value)


@pytest.mark.parametrize(
    "harm",
    [
        tried("open('/etc/shadow').read()"),
        tried("open('/etc/passwd').read()"),
        tried("open('/tmp/flametap-hostile-worker', 'w')"),
        tried("os.open('/proc/self/mem', os.O_RDWR)"),
        tried("os.listdir('/tmp')"),
        tried("os.unlink('/tmp/flametap-hostile-worker')"),
        tried("socket.socket()"),
        tried("socket.socketpair()"),
        tried("os.fork()"),
        tried("os.execv('/bin/true', ['true'])"),
        tried("os.kill(os.getppid(), 0)"),
        call(101, 16, "os.getppid()", 0, 0),  # ptrace, PTRACE_ATTACH
        call(310, "os.getppid()", 0, 0, 0, 0, 0),  # process_vm_readv
        call(311, "os.getppid()", 0, 0, 0, 0, 0),  # process_vm_writev
        call(234, "os.getppid()", "os.getppid()", 0),  # tgkill
        call(302, "os.getppid()", 7, 0, 0),  # prlimit64
        call(425, 1, 0),  # io_uring_setup
        call(272, 0x10000000),  # unshare, CLONE_NEWUSER
        call(321, 0, 0, 0),  # bpf
        call(298, 0, 0, 0, 0, 0),  # perf_event_open
        call(438, 0, 0, 0),  # pidfd_getfd
        call(16, 0, 0x5412, 0),  # ioctl, TIOCSTI
    ],
)
def test_worker_may_do_nothing_but_compute(
    program: Path, worker: Worker, monkeypatch: pytest.MonkeyPatch, harm: str
) -> None:
    harmful(monkeypatch, harm)
    said = answer(worker, program)
    assert "errno 1" in said.lower(), said


@pytest.mark.needs("setpriv")
def test_worker_has_no_rights(
    program: Path, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, who has rights to lose")
    harmful(monkeypatch, "raise ValueError(str(os.getpid()))")
    pid = answer(worker, program)
    lines = dict(
        line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines()
    )
    user = lines["Uid"].split()[0]
    assert int(user) in STRANGERS
    assert lines["Uid"].split() == lines["Gid"].split() == [user] * 4
    assert lines["Groups"].split() == []
    for kind in ("Inh", "Prm", "Eff", "Amb"):
        assert int(lines[f"Cap{kind}"], 16) == 0
    assert lines["NoNewPrivs"] == "1"
    assert lines["Seccomp"] == "2"
    assert os.stat(f"/proc/{pid}/mem").st_uid == 0  # not dumpable: nobody else of its user reads it
    for attack in (["kill", "-STOP", pid], ["renice", "19", pid], ["prlimit", "--as=1", "-p", pid]):
        assert subprocess.run([*AS_NOBODY, *attack], capture_output=True).returncode, attack


@pytest.mark.needs("setpriv")
@pytest.mark.parametrize("path", ["secret", "outside", "own"])
def test_worker_gets_only_files_that_the_targets_user_may_read(
    their_folder: Path,
    tmp_path: Path,
    start_theirs: Callable[..., Target],
    monkeypatch: pytest.MonkeyPatch,
    path: str,
) -> None:
    sleeper = compile_object(their_folder, SLEEPER, "-g", name="sleeper")
    secret = tmp_path / "secret"
    secret.write_text("the secret of root")
    secret.chmod(0o600)
    own = their_folder / "own"
    own.write_text("the file of nobody")
    folder = tmp_path / "symbols"
    folder.mkdir()
    place = {"secret": secret, "own": own, "outside": f"{folder}/../secret"}[path]
    ask = (
        f"file = None\n    for number in range(3):\n        try: file = opened[0]({str(place)!r}, "
    )
    ask += "type('Root', (), {'path': str(number)}))\n        except OSError: continue\n"
    ask += "    raise ValueError('nothing' if file is None else file.read(0, 99))"
    harmful(monkeypatch, ask)
    target = start_theirs(sleeper)
    files = TargetFiles(target.pid, [str(folder)])
    reader = DebugInfo(files, DiskCache(tmp_path / "cache"))
    module = Module(1, str(sleeper), 0, 0, 1 << 40, open_elf(sleeper).build_id)
    image = files.open_module(module)
    try:
        with pytest.raises(LinesError) as caught:
            reader.read(module, image)
    finally:
        image.close()
        reader.close()
        reader.rest()
        files.close()
    assert ("nobody" if path == "own" else "nothing") in str(caught.value)
    assert "secret" not in str(caught.value)
