"""Record a run of tests: ``pytest --flametap=DIR``.

DIR gets one recording of the whole run, ``tests.flametap``, and ``tests.json``: when each test ran,
in seconds since the start of the recording, as ``flametap export --range`` takes it. With
``--flametap-baseline`` and ``--flametap-fail-above`` the run fails if a function has grown.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .own_process import OwnRecording

RECORDING, RANGES = "tests.flametap", "tests.json"
NS_PER_S = 1e9
DEFAULT_RATE_HZ = 100.0
SHOWN = 5
FAILED = 1  # pytest's exit code of failed tests


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add our options."""
    group = parser.getgroup("flametap", "record the run with flametap")
    group.addoption("--flametap", metavar="DIR", help="Record the run into this folder.")
    group.addoption(
        "--flametap-rate",
        type=float,
        default=DEFAULT_RATE_HZ,
        metavar="HZ",
        help="Samples a second.",
    )
    group.addoption(
        "--flametap-baseline", metavar="FILE", help="Compare with this recording of an earlier run."
    )
    group.addoption(
        "--flametap-fail-above",
        type=float,
        metavar="POINTS",
        help="Fail if the share of a function, with what it calls, has grown by more than so many"
        " percentage points since the baseline, and by more than chance.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Begin to record, if the user asks for it; not in the workers of xdist."""
    folder = config.getoption("--flametap")
    if config.getoption("--flametap-fail-above") is not None and not (
        folder and config.getoption("--flametap-baseline")
    ):
        raise pytest.UsageError("--flametap-fail-above needs --flametap and --flametap-baseline")
    if folder and not hasattr(config, "workerinput"):
        rate = float(config.getoption("--flametap-rate") or DEFAULT_RATE_HZ)
        config.pluginmanager.register(_Run(Path(folder), rate), "flametap-run")


class _Run:
    """One recorded run."""

    def __init__(self, folder: Path, rate: float) -> None:
        self._folder = folder
        self._rate = rate
        self._own: OwnRecording | None = None
        self._ranges_ns: dict[str, tuple[int, int]] = {}
        self._lines: list[str] = []

    def pytest_sessionstart(self) -> None:
        from ..errors import FlametapError
        from .own_process import OwnRecording

        self._folder.mkdir(parents=True, exist_ok=True)
        try:
            self._own = OwnRecording(str(self._folder / RECORDING), self._rate)
        except FlametapError as error:
            raise pytest.UsageError(f"--flametap: {error.message}") from error

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Any:
        begin_ns = time.monotonic_ns()
        try:
            return (yield)
        finally:
            self._ranges_ns[item.nodeid] = begin_ns, time.monotonic_ns()

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        from ..errors import FlametapError
        from .recording import load

        if self._own is None:
            return
        try:
            self._own.stop()
            recording = load(self._own.path)
        except FlametapError as error:
            self._lines.append(f"flametap: {error.message}")
            return
        start_ns = recording._recorded.profile.start_ns
        ranges = {
            test: [max(0, at - start_ns) / NS_PER_S for at in pair]
            for test, pair in self._ranges_ns.items()
        }
        (self._folder / RANGES).write_text(json.dumps(ranges, indent=1), "utf-8")
        self._lines += [
            f"recorded {recording.duration_s:.1f} s: flametap open {self._own.path}",
            "most CPU time of their own:",
        ]
        whole_s = sum(each.cpu_s for each in recording.threads)
        for each in recording.functions()[:SHOWN]:
            share = each.own_s / whole_s if whole_s else 0.0
            self._lines.append(f"  {share:6.1%}  {each.name}  {each.module}")
        self._compare(session, recording)

    def _compare(self, session: pytest.Session, recording: Any) -> None:
        from ..errors import FlametapError
        from .recording import load

        baseline = session.config.getoption("--flametap-baseline")
        if not baseline:
            return
        try:
            changes = [each for each in load(baseline).diff(recording) if each.grade]
        except FlametapError as error:
            self._lines.append(f"flametap: {error.message}")
            session.exitstatus = FAILED
            return
        for each in changes[:SHOWN]:
            self._lines.append(f"  {100 * each.points:+6.2f} points  {each.function.name}")
        most = session.config.getoption("--flametap-fail-above")
        grown = [each for each in changes if each.grade > 0]
        if most is not None and any(100 * each.points > most for each in grown):
            self._lines.append(f"a function has grown by more than {most:g} percentage points")
            session.exitstatus = FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self._lines:
            terminalreporter.section("flametap")
            for line in self._lines:
                terminalreporter.write_line(line)
