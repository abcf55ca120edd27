"""A Python service that handles signals: each thread is sampled from the start."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from nightly import nightly
from recording import ENOUGH_CPU_S, capturing, complete_share, doubts, record
from running import Target, wait_until

LOOKS = 20
ENOUGH = 100
PATIENCE_S = 60.0

# As in gunicorn: CPython lets all its handlers run on alternate stacks. Threads wait for the GIL
# when flametap attaches, so that nobody can tell whether they have such a stack.
SERVICE = """
import signal, threading
for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGCHLD, signal.SIGWINCH):
    signal.signal(number, lambda *_: None)
def work():
    while True:
        sum(range(1000))
for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
print("ready", flush=True)
input()
"""


# As in pytest, IPython's kernels and many containers (PYTHONFAULTHANDLER=1): the main thread has an
# alternate stack of some 10 kB, for SIGSEGV.
FAULT_HANDLER = """
import faulthandler, signal
faulthandler.enable()
signal.signal(signal.SIGUSR1, lambda *_: None)
print("ready", flush=True)
while True:
    sum(range(1000))
"""


# As threads of libzmq and of many pools. They start to work when flametap has looked at them.
BLOCKING = """
import signal, sys, threading
signal.signal(signal.SIGUSR1, lambda *_: None)
signals = {signals}
go = threading.Event()
def work():
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    go.wait()
    while True:
        sum(range(1000))
threading.Thread(target=work, daemon=True).start()
print("ready", flush=True)
sys.stdin.readline()
go.set()
print("go", flush=True)
sys.stdin.readline()
"""


@pytest.mark.needs("python", "attach")
def test_threads_of_a_service_with_handlers_are_sampled_at_once(
    adopt: Callable[[Target], Target], require_capability: Callable[[str], str], tmp_path: Path
) -> None:
    script = tmp_path / "service.py"
    script.write_text(SERVICE)
    target = adopt(Target([require_capability("python"), script]))
    capture = record(target.pid, 0.3, rate_hz=100.0, cpu_s=0.5)
    try:
        counters = capture.status().counters
        doubted = counters.get("small_stack", 0) + counters.get("stray_stack", 0)
        assert doubted <= counters["signals_handled"] / 4
    finally:
        capture.close()


@pytest.mark.needs("python", "attach")
def test_program_with_a_fault_handler_is_sampled(
    adopt: Callable[[Target], Target], require_capability: Callable[[str], str], tmp_path: Path
) -> None:
    script = tmp_path / "service.py"
    script.write_text(FAULT_HANDLER)
    target = adopt(Target([require_capability("python"), script]))
    capture = record(target.pid, 0.3, cpu_s=ENOUGH_CPU_S)
    try:
        assert complete_share(capture) >= 0.99, doubts(capture)
    finally:
        capture.close()


@pytest.mark.needs("python", "attach")
@pytest.mark.parametrize(
    "signals",
    [
        "signal.valid_signals()",
        *nightly("{signal.SIGINT, signal.SIGTERM}", "{signal.SIGUSR1}"),
    ],
)
def test_threads_that_block_signals_are_sampled(
    adopt: Callable[[Target], Target],
    require_capability: Callable[[str], str],
    tmp_path: Path,
    signals: str,
) -> None:
    script = tmp_path / "service.py"
    script.write_text(BLOCKING.format(signals=signals))
    target = adopt(Target([require_capability("python"), script]))
    with capturing(target.pid) as capture:
        wait_until(lambda: capture.status().counters.get("ticks", 0) > LOOKS, "looks", PATIENCE_S)
        target.say("go", PATIENCE_S)
        wait_until(lambda: capture.profile.cpu_samples > ENOUGH, "samples", PATIENCE_S)
        capture.stop()
    target.finish()
