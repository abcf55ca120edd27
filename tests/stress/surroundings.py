"""Scenarios of targets in unusual surroundings: one processor, other schedulers, debuggers,
namespaces, little memory, a program that was deleted."""

from __future__ import annotations

import os
import re
import resource
import shutil
import signal
import subprocess
import time
from pathlib import Path

from flametap.inject.frida.fork_stack import LIBC
from flametap.linux import procfs
from harness import Run, scenario

MEMORY = Path("/sys/fs/cgroup/memory")
PARKED = re.compile(r"\w+ returns=[1-9]\d* eintr=0")


def _is_root() -> bool:
    return os.geteuid() == 0


def _started_by(run: Run, *prefix: str) -> None:
    """Record a busy program and one that waits, each started by the command ``prefix``."""
    for name, *arguments in (["ratio"], ["parked", "short"]):
        command = [*prefix, str(run.program(name)), *arguments]
        target = run.start(command, announces=True)
        outcome = run.record(target.pid)
        run.expect(outcome.samples > 0, f"{name}: nothing was sampled: {outcome.counters}")
        for line in target.finish():
            run.expect(name == "ratio" or PARKED.fullmatch(line), line)


@scenario("gcc")
def on_one_processor(run: Run) -> None:
    """Target, agent and sampler share one CPU."""
    _started_by(run, "taskset", "-c", "0")


@scenario("gcc")
def with_the_lowest_priority(run: Run) -> None:
    """nice 19: the agent inherits it, and gets little time on a busy machine."""
    _started_by(run, "nice", "-n", "19")


@scenario("gcc")
def when_nobody_else_runs(run: Run) -> None:
    """SCHED_IDLE."""
    _started_by(run, "chrt", "--idle", "0")


@scenario("gcc")
def before_everybody_else(run: Run) -> None:
    """SCHED_FIFO with all of its CPU's time: its own threads starve, and nothing else happens."""
    if not _is_root():
        return
    target = run.start(["chrt", "--fifo", "1", str(run.program("ratio"))], announces=True)
    run.record(target.pid)
    target.finish()


@scenario("gcc")
def in_namespaces_of_its_own(run: Run) -> None:
    """Its own pid, mount and user namespaces: it is number 1, and has a /proc of its own."""
    command = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc"]
    launcher = run.start([*command, run.program("ratio")], announces=True)
    children = Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children").read_text().split()
    outcome = run.record(int(children[0]))
    run.expect(outcome.samples > 0, f"nothing was sampled: {outcome.counters}")
    launcher.finish()


@scenario("gcc")
def with_a_c_library_of_its_own(run: Run) -> None:
    """Another file than ours, as in a container: the attach takes another way."""
    mappings = procfs.read_mappings(os.getpid())
    shutil.copy2(next(m.path for m in mappings if LIBC.fullmatch(m.name)), run.folder)
    for _ in range(3):
        _started_by(run, "env", f"LD_LIBRARY_PATH={run.folder}")


@scenario("gcc")
def with_its_program_deleted(run: Run) -> None:
    """The file it runs is gone, and another one is in its place."""
    program = run.folder / "deleted"
    shutil.copy2(run.program("ratio"), program)
    target = run.start([program], announces=True)
    program.unlink()
    program.write_text("something else")
    outcome = run.record(target.pid)
    run.expect(outcome.complete_cpu_s > 0.9 * outcome.cpu_s, f"{outcome.verdict_cpu_s}")
    target.finish()


@scenario("gcc", "gdb")
def debugged_before_and_after(run: Run) -> None:
    """gdb stops it, looks and leaves, before we come and after we have gone."""
    target = run.target("parked", "long")
    look = ["gdb", "-q", "-batch", "-nx", "-p", str(target.pid), "-ex", "thread apply all bt 3"]
    for _ in range(2):
        done = subprocess.run(look, capture_output=True, text=True, timeout=60, check=False)
        run.expect("park_in_" in done.stdout, f"gdb sees nothing: {done.stdout[-300:]}")
        run.record(target.pid)
    target.finish()


@scenario("gcc", "gdb")
def debugger_comes_while_we_are_there(run: Run) -> None:
    """gdb attaches, stops all threads, ours too, and leaves again while we record."""
    target = run.target("ratio")
    look = ["gdb", "-q", "-batch", "-nx", "-p", str(target.pid), "-ex", "thread apply all bt 3"]
    with run.unharmed(target.pid):
        recording = run.begin(target.pid, max(run.seconds, 4.0))
        if recording.wait_begun():
            done = subprocess.run(look, capture_output=True, text=True, timeout=60, check=False)
            run.expect("main" in done.stdout, f"gdb sees nothing: {done.stdout[-300:]}")
        run.collect(recording)
    target.finish()


@scenario("gcc", "gdb")
def core_dumped_while_we_are_there(run: Run) -> None:
    """It dies of SIGABRT while it is recorded: the core shows its threads."""
    limits = resource.getrlimit(resource.RLIMIT_CORE)
    pattern = Path("/proc/sys/kernel/core_pattern").read_text().strip()
    if pattern.startswith(("|", "/")) or limits[1] == 0:
        return
    command = ["prlimit", "--core=unlimited", str(run.program("ratio"))]
    target = run.start(command, announces=True, cwd=run.folder)
    recording = run.begin(target.pid)
    if recording.wait_begun():
        time.sleep(0.3)
        os.kill(target.pid, signal.SIGABRT)
    outcome = run.collect(recording)
    run.expect(outcome.samples > 0, "what was sampled before the end is lost")
    run.expect(target.exit_code == -signal.SIGABRT, f"exit code {target.exit_code}")
    cores = list(run.folder.glob("core*"))
    assert cores, "no core"
    look = ["gdb", "-q", "-batch", "-nx", "-ex", "thread apply all bt", str(run.program("ratio"))]
    done = subprocess.run(
        [*look, str(cores[0])], capture_output=True, text=True, timeout=60, check=False
    )
    run.expect(re.search(r"heavy|light", done.stdout), f"gdb sees: {done.stdout[-400:]}")


@scenario("gcc")
def with_little_memory(run: Run) -> None:
    """A control group with 48 MiB: room for the agent, and not for much else."""
    if not os.access(MEMORY / "tasks", os.W_OK):
        return
    target = run.target("ratio")
    group = MEMORY / f"flametap-{target.pid}"
    group.mkdir()
    run.at_end(lambda: _remove(group))
    (group / "memory.limit_in_bytes").write_text(str(48 << 20))
    (group / "cgroup.procs").write_text(str(target.pid))
    run.record(target.pid)
    target.finish()


def _remove(group: Path) -> None:
    deadline = time.monotonic() + 5.0
    while group.exists():
        try:
            group.rmdir()
        except OSError:
            assert time.monotonic() < deadline, f"{group} cannot be removed"
            time.sleep(0.05)
