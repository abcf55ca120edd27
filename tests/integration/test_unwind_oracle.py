"""Stacks of parked threads are those that eu-stack sees, address by address."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from flametap.capture import Capture
from flametap.model import Clock
from recording import capturing
from running import Start, Target, wait_until

pytestmark = pytest.mark.needs("attach", "gcc", "eu-stack")

EU_STACK_FRAME = re.compile(r"#\d+\s+0x([0-9a-f]+)( - 1)?")


def oracle(pid: int) -> dict[int, list[int]]:
    """tid → runtime addresses, leaf first; callers as call sites (return address - 1).

    ``eu-stack -v`` shows return addresses and marks them with "- 1"; the leaf and what a signal
    interrupted have no mark. An inlined function is a line of its own with the same address
    (elfutils src/stack.c).
    """
    output = subprocess.run(
        ["eu-stack", "-v", "-n", "0", "-p", str(pid)],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    ).stdout
    stacks: dict[int, list[int]] = {}
    for line in output.splitlines():
        if line.startswith("TID "):
            stack = stacks.setdefault(int(line[4:].rstrip(":")), [])
        elif frame := EU_STACK_FRAME.match(line):
            address = int(frame[1], 16) - bool(frame[2])
            if stack[-1:] != [address]:
                stack.append(address)
    return stacks


def ours(capture: Capture) -> dict[int, set[tuple[int, ...]]]:
    """tid → the stacks it was seen with while parked, as runtime addresses, leaf first."""
    profile = capture.profile
    trie = profile.trie()
    modules = profile.modules
    tids = {thread.thread_id: thread.tid for thread in profile.threads.values()}
    leaves = profile.leaf_weights(Clock.WALL)
    stacks: dict[int, set[tuple[int, ...]]] = {}
    for thread_id, node, sysno in zip(
        leaves.thread_id.tolist(), leaves.node.tolist(), leaves.sysno.tolist(), strict=True
    ):
        if sysno < 0:
            continue
        addresses = []
        while node > 0:
            frame, _ = profile.locate(int(trie.address[node]))
            bias = modules[frame.module_id].load_bias if frame.module_id else 0
            addresses.append(bias + frame.addr)
            node = int(trie.parent[node])
        stacks.setdefault(tids[thread_id], set()).add(tuple(addresses))
    return stacks


@pytest.fixture(params=["parked", "redis", "node", "python", "nginx"])
def idle_target(
    request: pytest.FixtureRequest,
    start: Start,
    adopt: Callable[[Target], Target],
    free_port: int,
    tmp_path: Path,
    require_capability: Callable[[str], str],
) -> Iterator[Target]:
    """A process all of whose threads sleep."""
    match request.param:
        case "parked":
            yield start("parked", "long")
            return
        case "redis":
            argv = [require_capability("redis"), "--port", str(free_port), "--save", ""]
        case "node":
            argv = [require_capability("node"), "-e", "setInterval(() => {}, 1e8)"]
        case "python":
            program = (
                "import select, threading, time\n"
                "select_forever = lambda s: select.select([], [], [], s)\n"
                "waits = time.sleep, select_forever, threading.Event().wait\n"
                "for wait in waits:\n"
                "    threading.Thread(target=wait, args=(1e6,), daemon=True).start()\n"
                "threading.Event().wait()"
            )
            argv = [sys.executable, "-c", program]
        case _:
            conf = tmp_path / "nginx.conf"
            conf.write_text(
                f"daemon off; master_process off; pid {tmp_path}/pid; error_log stderr;\n"
                "events {} http { access_log off; server { listen 127.0.0.1:%d; } }" % free_port
            )
            argv = [require_capability("nginx"), "-p", str(tmp_path), "-c", str(conf)]
    target = adopt(Target(argv, announces=False))
    wait_until(lambda: _all_asleep(target.pid), "all threads to sleep", 20)
    yield target


def _all_asleep(pid: int) -> bool:
    tasks = list(Path(f"/proc/{pid}/task").iterdir())
    states = [(task / "stat").read_text().rpartition(")")[2].split()[0] for task in tasks]
    calls = [(task / "syscall").read_text().split()[0] for task in tasks]
    return set(states) == {"S"} and all(call.isdigit() and call != "59" for call in calls)


def test_parked_stacks_agree_with_eu_stack(idle_target: Target) -> None:
    with capturing(idle_target.pid, rate_hz=100) as capture:
        capture.wait(0.5)
    seen = ours(capture)
    # Afterwards: the attach interrupts the main thread's wait once, and glibc takes another path
    # into the next one, since by then the process has had a second thread.
    expected = oracle(idle_target.pid)

    assert expected
    for tid, stack in expected.items():
        # redis' allocator starts threads of its own when it sees new threads, and wakes them.
        if Path(f"/proc/{idle_target.pid}/task/{tid}/comm").read_text() == "jemalloc_bg_thd\n":
            continue
        assert tid in seen, f"thread {tid} was not seen"
        assert tuple(stack) in seen[tid], (
            f"thread {tid}: eu-stack {[hex(a) for a in stack]}, "
            f"ours {[[hex(a) for a in s] for s in seen[tid]]}"
        )
