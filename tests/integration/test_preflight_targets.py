"""Preflight on real processes of odd kinds that ``test_bad_input`` does not record from."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import cli
from flametap.errors import CannotAttachError, NoSuchProcessError
from flametap.linux.tasks import system_call
from flametap.safety import preflight
from running import Target, wait_until

pytestmark = pytest.mark.needs("gcc")

# Forks when told so, and waits for the child when told again.
FORKING = """
import os, sys
print("ready", flush=True)
sys.stdin.readline()
end, keep = os.pipe()
child = os.fork()
if not child:
    os.close(keep)
    os.read(end, 1)
    os._exit(0)
print(child, flush=True)
sys.stdin.readline()
os.close(keep)
os.waitpid(child, 0)
print("ended", flush=True)
sys.stdin.read()
"""
FRIDA_TOOL = """
import frida, sys
session = frida.attach(int(sys.argv[1]))
print("ready", flush=True)
sys.stdin.read()
session.detach()
"""
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
# Lets another user reach our interpreter and sources wherever they lie; gives no right to trace.
READS_ALL = ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
SOURCES = {
    "strict": """
        #include <linux/seccomp.h>
        #include <sys/prctl.h>
        #include <unistd.h>
        int main(void) {
            char byte;
            prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
            return read(0, &byte, 1) < 0;
        }""",
    "vforked": """
        #include <unistd.h>
        int main(void) {
            char byte;
            if (vfork() == 0) { (void)!read(0, &byte, 1); _exit(0); }
            return 0;
        }""",
    "malloc": """
        #include <string.h>
        #include <unistd.h>
        static char heap[1 << 24];
        static size_t used;
        void *malloc(size_t bytes) {
            return heap + __atomic_fetch_add(&used, (bytes + 31) & ~15UL, __ATOMIC_SEQ_CST);
        }
        void free(void *at) { (void)at; }
        void *calloc(size_t count, size_t bytes) { return malloc(count * bytes); }
        void *realloc(void *at, size_t bytes) {
            char *moved = malloc(bytes);
            size_t known = heap + sizeof heap - (char *)at;
            return at ? memcpy(moved, at, bytes < known ? bytes : known) : moved;
        }
        int main(void) {
            char byte;
            return read(0, &byte, 1) < 0;
        }""",
    "mapped": """
        #include <stdio.h>
        #include <sys/mman.h>
        #include <unistd.h>
        int main(void) {
            long most = 0, at;
            char byte, *pages;
            FILE *limit = fopen("/proc/sys/vm/max_map_count", "r");
            if (fscanf(limit, "%ld", &most) != 1) return 1;
            pages = mmap(0, most * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            for (at = 0; at + 40 < most; at += 2) mprotect(pages + at * 4096, 4096, PROT_READ);
            return read(0, &byte, 1) < 0;
        }""",
    "codeless": """
        #include <errno.h>
        #include <stdio.h>
        #include <sys/prctl.h>
        #include <unistd.h>
        int main(void) {
            char byte;
            if (prctl(65 /* PR_SET_MDWE */, 1L, 0L, 0L, 0L)) return 1;
            errno = 0;
            puts("ready");
            fflush(stdout);
            if (read(0, &byte, 1)) return 1;
            printf("errno %d\\n", errno);
            return 0;
        }""",
    "headless": """
        #include <pthread.h>
        #include <unistd.h>
        static void *run(void *unused) { char byte; (void)!read(0, &byte, 1); _exit(0); }
        int main(void) {
            pthread_t thread;
            pthread_create(&thread, 0, run, 0);
            pthread_exit(0);
        }""",
}
SOURCES["locked malloc"] = (
    "#include <pthread.h>\nstatic pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;"
    + SOURCES["malloc"].replace("char byte;", "char byte; pthread_mutex_lock(&lock);")
)


@pytest.fixture
def run(tmp_path: Path, adopt: Callable[[Target], Target]) -> Callable[[str], Target]:
    """Compile one of ``SOURCES`` and run it."""

    def start(name: str) -> Target:
        program = tmp_path / name
        command = ["gcc", "-x", "c", "-", "-o", str(program), "-pthread"]
        subprocess.run(command, input=SOURCES[name], text=True, check=True)
        return adopt(Target([program], announces=False))

    return start


def refuse(pid: int, pattern: str, way: str = "auto") -> None:
    """Wait for the process to become what it shall be, then check the refusal."""
    deadline = time.monotonic() + 120
    while True:
        try:
            preflight.check(pid, way=way)
            reason = "it was not refused"
        except CannotAttachError as error:
            reason = error.message
        if pattern in reason:
            return
        assert time.monotonic() < deadline, reason
        time.sleep(0.02)


def test_strict_seccomp(run: Callable[[str], Target]) -> None:
    refuse(run("strict").pid, "strict seccomp")


@pytest.mark.needs("valgrind")
@pytest.mark.parametrize("tool", ["memcheck", "none"])
def test_program_run_by_valgrind(adopt: Callable[[Target], Target], tool: str) -> None:
    target = adopt(Target(["valgrind", "-q", f"--tool={tool}", "cat"], announces=False))
    refuse(target.pid, "run by valgrind")
    cli.run("record", "-p", target.pid, "-d", 1).assert_refused(5, "run by valgrind", "callgrind")
    assert "run by valgrind" in cli.run("doctor", target.pid).stdout
    assert re.search(
        rf"^ *{target.pid} .* no .*run by valgrind", cli.run("ps").stdout, re.MULTILINE
    )
    target.finish()


def test_program_whose_malloc_may_not_be_made_for_threads(run: Callable[[str], Target]) -> None:
    target = run("malloc")
    refuse(target.pid, "a malloc of its own and no threads", "frida")
    refused = cli.run("record", "-p", target.pid, "-d", 1, "--inject", "frida")
    refused.assert_refused(5, "malloc", "perf", "--force")
    assert "malloc" in preflight.check(target.pid, force=True, way="frida").warnings[0]
    assert preflight.check(target.pid).warnings == ()
    target.finish()


def test_malloc_that_uses_locks_is_made_for_threads(run: Callable[[str], Target]) -> None:
    target = run("locked malloc")
    wait_until(lambda: "libc.so.6" in Path(f"/proc/{target.pid}/maps").read_text(), "its libc")
    assert preflight.check(target.pid, way="frida").warnings == ()
    target.finish()


def test_parent_that_waits_for_its_vfork_child(run: Callable[[str], Target]) -> None:
    refuse(run("vforked").pid, "uninterruptible sleep")


def test_main_thread_that_has_exited(run: Callable[[str], Target]) -> None:
    refuse(run("headless").pid, "has ended, and an attach needs it")


def test_thread_is_no_process() -> None:
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    try:
        assert thread.native_id is not None
        with pytest.raises(NoSuchProcessError, match=f"thread of process {os.getpid()}"):
            preflight.check(thread.native_id)
    finally:
        done.set()
        thread.join()


def test_program_started_through_the_loader_passes(adopt: Callable[[Target], Target]) -> None:
    target = adopt(Target(["/lib64/ld-linux-x86-64.so.2", "/bin/cat"], announces=False))
    wait_until(lambda: "libc.so.6" in Path(f"/proc/{target.pid}/maps").read_text(), "its libc")
    assert preflight.check(target.pid).warnings == ()


@pytest.mark.parametrize(
    ("limit", "pattern"),
    [
        ("--nofile=12", "RLIMIT_NOFILE"),
        ("--as=70000000", "RLIMIT_AS"),
        ("--data=70000000", "RLIMIT_DATA"),
    ],
)
def test_limits_without_room(adopt: Callable[[Target], Target], limit: str, pattern: str) -> None:
    target = adopt(Target(["prlimit", limit, "cat"], announces=False))
    refuse(target.pid, pattern)


def test_build_with_thread_sanitizer(tmp_path: Path, adopt: Callable[[Target], Target]) -> None:
    program = tmp_path / "program"
    command = ["gcc", "-x", "c", "-", "-o", str(program), "-fsanitize=thread"]
    waiting = "#include <unistd.h>\nint main(void) { char byte; return read(0, &byte, 1) < 0; }"
    subprocess.run(command, input=waiting, text=True, check=True)
    target = adopt(Target([program], announces=False))
    # It begins itself again, without random addresses.
    wait_until(lambda: system_call(target.pid, target.pid).number == 0, "its read")
    refuse(target.pid, "built with ThreadSanitizer", "frida")
    assert preflight.check(target.pid).warnings == ()
    target.finish()


def test_no_room_for_mappings(run: Callable[[str], Target]) -> None:
    """Of 60 that were left, an attach by Frida took all: the target aborted."""
    if int(Path("/proc/sys/vm/max_map_count").read_text()) > 1 << 20:
        pytest.skip("this machine allows more mappings than a test should make")
    target = run("mapped")
    refuse(target.pid, "more mappings (vm.max_map_count)")
    target.finish()


@pytest.mark.needs("deny-write-execute", "attach")
def test_process_that_may_not_map_new_code(run: Callable[[str], Target], tmp_path: Path) -> None:
    """It cannot be seen from outside. Frida's failure left its errno in the main thread."""
    target = run("codeless")
    wait_until(lambda: target.lines, "its first line")
    refused = cli.run("record", "-p", target.pid, "-d", 1, "--inject", "frida")
    refused.assert_refused(5, "MemoryDenyWriteExecute", "systemctl edit")
    output = tmp_path / "out.folded"
    cli.run("record", "-p", target.pid, "-d", 0.2, "--clock=wall", "-o", output).assert_saved()
    assert target.finish() == ["errno 0"]


@pytest.mark.needs("gdb")
def test_process_in_a_debugger(adopt: Callable[[Target], Target]) -> None:
    target = adopt(Target(["cat"], announces=False))
    adopt(Target(["gdb", "-q", "-nx", "-p", str(target.pid)], announces=False))
    refuse(target.pid, "already traced by gdb")


@pytest.mark.needs("attach")
def test_process_in_which_another_frida_tool_is_at_work(
    adopt: Callable[[Target], Target],
) -> None:
    """Of two agents the first to leave takes the process along. Children have the agent's mappings
    without its threads."""
    target = adopt(Target([sys.executable, "-c", FORKING]))
    tool = adopt(Target([sys.executable, "-c", FRIDA_TOOL, str(target.pid)]))
    refuse(target.pid, "already holds a Frida agent", "frida")
    assert preflight.check(target.pid).warnings == ()
    target.say("fork")
    child = int(target.lines[-1])
    assert "already holds a Frida agent" in preflight.check(child, way="frida").warnings[0]
    target.say("end")
    tool.finish()

    maps = Path(f"/proc/{target.pid}/maps")

    def answers_what_is_so() -> bool:
        """Frida's tool may leave its agent behind, which must then be told."""
        holds_agent = "frida-agent" in maps.read_text()
        try:
            found = preflight.check(target.pid, way="frida").warnings
            return bool(found) == holds_agent
        except CannotAttachError:  # its threads leave after its mappings
            return holds_agent

    wait_until(answers_what_is_so, "an answer that fits the agent's mappings")
    assert target.finish() == [str(child), "ended"]


# --- what only root can set up


@pytest.fixture
def as_root() -> None:
    """Skips for anyone else."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to become someone else")


def _await_empty(folder: Path) -> None:
    wait_until(lambda: not (folder / "cgroup.procs").read_text(), "the control group to empty")


@pytest.fixture
def control_group() -> Iterator[Path]:
    """A new group of the pids controller, version 1 or 2."""
    for parent in (Path("/sys/fs/cgroup/pids"), Path("/sys/fs/cgroup")):
        folder = parent / f"flametap-test-{os.getpid()}"
        try:
            folder.mkdir()
        except OSError:
            continue
        if (folder / "pids.max").exists():
            yield folder
            _await_empty(folder)
            folder.rmdir()
            return
        folder.rmdir()
    pytest.skip("no control group with the pids controller can be made here")


@pytest.mark.usefixtures("as_root")
def test_control_group_without_room(adopt: Callable[[Target], Target], control_group: Path) -> None:
    target = adopt(Target(["cat"], announces=False))
    (control_group / "cgroup.procs").write_text(str(target.pid))
    for pids_max, way in ((6, "frida"), (1, "direct")):
        (control_group / "pids.max").write_text(str(pids_max))
        refuse(target.pid, f"{control_group} is {pids_max}, 1 in use", way)
    target.close()


@pytest.mark.usefixtures("as_root")
@pytest.mark.needs("setpriv")
def test_user_without_room(adopt: Callable[[Target], Target]) -> None:
    target = adopt(Target([*NOBODY, "prlimit", "--nproc=0", "cat"], announces=False))
    refuse(target.pid, "RLIMIT_NPROC of user 65534 is 0")


@pytest.mark.usefixtures("as_root")
@pytest.mark.needs("setpriv")
def test_remedy_for_a_user_without_room_helps(
    adopt: Callable[[Target], Target], tmp_path: Path
) -> None:
    target = adopt(Target([*NOBODY, "prlimit", "--nproc=0:4096", "cat"], announces=False))
    refuse(target.pid, "RLIMIT_NPROC of user 65534 is 0")
    refused = cli.run("record", "-p", target.pid)
    remedy = re.search(r"prlimit --pid \d+ --nproc=\S+", refused.stderr)
    assert remedy, refused.stderr
    subprocess.run([*NOBODY, *remedy[0].split()], check=True)
    output = tmp_path / "out.folded"
    cli.run("record", "-p", target.pid, "-d", 0.5, "--clock=wall", "-o", output).assert_saved()
    assert output.read_text()
    target.finish()


@pytest.mark.usefixtures("as_root")
@pytest.mark.needs("setpriv")
@pytest.mark.parametrize(
    ("asker", "owner", "pattern"),
    [
        ([*NOBODY, *READS_ALL], [], "belongs to root, and we run as nobody"),
        (["setpriv", "--reuid=65533", "--clear-groups", *READS_ALL], NOBODY, "belongs to nobody"),
        (["setpriv", "--bounding-set=-sys_ptrace", "--inh-caps=-sys_ptrace"], [], "CAP_SYS_PTRACE"),
    ],
)
def test_missing_right_is_named(
    adopt: Callable[[Target], Target], asker: list[str], owner: list[str], pattern: str
) -> None:
    target = adopt(Target([*owner, "cat"], announces=False))
    wait_until(lambda: Path(f"/proc/{target.pid}/comm").read_text() == "cat\n", "cat")
    answer = cli.run("doctor", target.pid, prefix=asker)
    if answer.exit_code in (126, 127):
        pytest.skip(f"that user cannot run our interpreter: {answer.stderr.strip()}")
    assert answer.exit_code == 4, answer.stderr
    assert pattern in answer.stdout
