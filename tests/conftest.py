"""Rules for the whole suite: what a test may need, and what it may not leave behind.

Capabilities
    Declare what a test needs beyond Python packages, by the names in ``support/capabilities.py``::

        pytestmark = pytest.mark.needs("attach", "gcc")          # a whole file

        @pytest.mark.needs("redis")                               # one test
        def test_redis(): ...

        def test_one_of_many(require_capability):                 # in the middle, or in a fixture
            python = require_capability("python3.13")             # the path of the program

        @pytest.fixture(scope="session")
        def browser(require_capability):
            chromium = require_capability("chromium")

    Missing on a developer's machine: the test is skipped, with the package to install as the
    reason. Missing where ``CI`` is set: the test fails, unless the table says that CI may lack it.
    A new need is one line in that table, and ``.ci/run`` then installs its package.

Leaks
    After each test no child process and no Python thread that it started may be alive: ``no_leaks``
    waits for ten seconds, then fails the test. What session and module fixtures started before the
    test is theirs to end.

Workers
    ``pytest -n 2`` runs two tests at a time, but for those that need a quiet machine:
    ``support/parallel.py`` says which.

Shared helpers
    Modules in ``tests/support`` import by their plain names (``from capabilities import find``).
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

import parallel
from capabilities import CAPABILITIES, find
from flametap.agent.build import BuildError, build
from long_tests import is_long

# A shell that starts us in the background has SIGINT ignored, nohup SIGHUP; what we start would
# inherit that, and ignore them as it should.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

LEAK_GRACE_S = 10.0  # a busy machine may take seconds until an end is seen
# Started by Frida on the first attach of a process and shared by all later ones; ends with us.
SHARED_CHILDREN = ("frida-helper", "re.frida.helper")


def _require(name: str) -> str:
    found = find(name)
    if found is not None:
        return found
    capability = CAPABILITIES[name]
    hint = f": apt install {' '.join(capability.packages)}" if capability.packages else ""
    reason = f"needs {name}, which this machine lacks{hint}"
    if capability.required and os.environ.get("CI", "").lower() not in ("", "0", "false"):
        pytest.fail(f"{reason} (an error where CI is set)", pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def require_capability() -> Callable[[str], str]:
    """A function that returns the path of a needed program, or skips (in CI: fails) the test."""
    return _require


@pytest.fixture(scope="session")
def browser(require_capability: Callable[[str], str]) -> Iterator[Browser]:
    """Headless Chromium: one for the session, as Playwright runs only once in a thread.

    Connections to the world are off: there may be none, and tests need none.
    """
    path = require_capability("chromium")
    from playwright.sync_api import sync_playwright  # not there where only the wheel is tested

    with sync_playwright() as playwright:
        arguments = [
            *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
            *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
        ]
        browser = playwright.chromium.launch(executable_path=path, args=arguments)
        yield browser
        browser.close()


def pytest_configure(config: pytest.Config) -> None:
    """What is tested is the agent of the present sources, as `make dev` would build it."""
    is_worker = hasattr(config, "workerinput")  # it is built once for all
    if not is_worker and "FLAMETAP_EXPECT_WHEEL" not in os.environ:
        with contextlib.suppress(BuildError):
            build()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Apply every ``needs`` marker of the test, its class and its module, before any fixture."""
    for marker in item.iter_markers("needs"):
        for name in marker.args:
            _require(name)


@pytest.hookimpl(tryfirst=True)  # before pytest selects by mark
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark long tests, and put all into the order in which they are dealt out."""
    for item in items:
        if is_long(item.nodeid):
            item.add_marker(pytest.mark.nightly)
    items.sort(key=lambda item: parallel.rank(item.nodeid))


@pytest.hookimpl(optionalhook=True)  # the plugin is not there where only the wheel is tested
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Deals tests out to workers in the units that ``parallel`` says."""
    from xdist.scheduler import LoadScopeScheduling

    config.option.loadscopereorder = False
    scheduling = LoadScopeScheduling(config, log)
    # The way to units of one's own that pytest-xdist's documentation shows, by a subclass there.
    scheduling._split_scope = lambda nodeid: parallel.unit_of_work(nodeid)
    return scheduling


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """A test and its fixtures wait for their turn."""
    with parallel.turn(item.nodeid):
        return (yield)


def _children() -> dict[int, str]:
    """Direct children of this process: pid → command line, or name and state. Zombies count: nobody
    waited for them."""
    found: dict[int, str] = {}
    for task in Path("/proc/self/task").iterdir():
        try:
            pids = (task / "children").read_text().split()
        except OSError:  # the thread ended while we looked
            continue
        for pid in map(int, pids):
            with contextlib.suppress(OSError):  # it ended
                found[pid] = _describe(pid)
    return {
        pid: line
        for pid, line in found.items()
        if not any(known in line for known in SHARED_CHILDREN)
    }


def _describe(pid: int) -> str:
    words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").strip()
    if words:
        return words.decode("utf-8", "replace")
    stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    return stat[stat.index("(") : stat.rindex(")") + 3]  # "(name) Z"


def _started_s(pid: int) -> float:
    """When a process was started, CLOCK_BOOTTIME; never where it has gone. proc(5), ``stat``."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return 0.0
    return int(stat.rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")


@pytest.fixture(autouse=True)
def no_leaks() -> Iterator[None]:
    """Fail a test that leaves a child process or a Python thread behind.

    The list of children may miss some while others end (proc(5)), so what is older than the test
    is none of its.
    """
    children, threads = set(_children()), set(threading.enumerate())
    began_s = time.clock_gettime(time.CLOCK_BOOTTIME) - 2 / os.sysconf("SC_CLK_TCK")
    yield
    deadline = time.monotonic() + LEAK_GRACE_S
    while True:
        left = {
            pid: line
            for pid, line in _children().items()
            if pid not in children and _started_s(pid) >= began_s
        }
        running = [
            thread
            for thread in threading.enumerate()
            if thread not in threads
            and thread.name != "tracer"  # linux/ptrace_thread.py: stays until the next attach
        ]
        if not left and not running:
            return
        if time.monotonic() > deadline:
            pytest.fail(f"left behind: child processes {left}, threads {running}", pytrace=False)
        time.sleep(0.02)
