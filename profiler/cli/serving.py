"""Record for a flametap elsewhere: what ``flametap serve`` runs for each recording."""

from __future__ import annotations

import contextlib
import re
import socket
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from ..errors import UsageError
from ..linux import heaps, procfs
from ..linux.command_line import program_name
from ..remote.messages import Line, LineError
from ..remote.outgoing import Outgoing
from ..remote.session import SILENT_S, Session
from . import start
from .attach_options import AttachOptions
from .containers import Containers
from .progress import Progress
from .signals import Interrupted, Interrupts
from .targets import find_targets

if TYPE_CHECKING:
    from ..capture.live import Capture

NAMES_S = 60.0  # for the rest of the names

Tell = Callable[[str, dict[str, Any]], None]


def main(descriptor: int) -> None:
    """Be a process of ``flametap serve`` that records for whom a socket leads to."""
    heaps.keep_small()
    connection = socket.socket(fileno=descriptor)
    line = Line(connection.fileno(), connection.fileno(), connection)
    try:
        message = line.receive(SILENT_S)
        wish = message.facts if message is not None else {}
    except (LineError, TimeoutError):
        return
    Session(connection, line, str(wish.get("session")), ServedRecorder(wish)).run()


class ServedRecorder:
    """A ``remote.session.Recorder`` of processes of this machine.

    Args:
        wish: what the other side asks for; whatever is in it.
    """

    def __init__(self, wish: dict[str, Any]) -> None:
        self._wish = wish
        self._open = contextlib.ExitStack()
        self._capture: Capture | None = None
        self._interrupts: Interrupts | None = None
        self._progress = Progress(quiet=True)
        self._end_s = 0.0
        self._file: Outgoing | None = None

    def find(self, tell: Tell) -> dict[str, Any]:
        """See ``Recorder``."""
        wish = self._wish
        self._progress = _Telling(tell)
        self._interrupts = self._open.enter_context(Interrupts())
        pattern = wish.get("pattern")
        pids = find_targets(
            tuple(map(str, _list(wish.get("words")))),
            _of(int, wish.get("pid")),
            re.compile(pattern) if isinstance(pattern, str) else None,
            self._progress,
            containers=Containers(_text(wish.get("container")), _text(wish.get("pod"))),
        )
        if wish.get("verbose") is True:
            start.print_findings(pids[0], self._progress)
        self._capture = self._open.enter_context(
            start.prepared(
                pids,
                _options(wish),
                self._progress,
                follows_workers=wish.get("follows_workers") is True,
            )
        )
        command = ""
        with contextlib.suppress(*procfs.GONE):  # told when it is attached to
            command = procfs.read_command(pids[0])
        found = {"pid": pids[0], "command": command, "program": program_name(command)}
        return found | {"meta": self._capture.recording.meta}

    def begin(self, file: Outgoing) -> None:
        """See ``Recorder``."""
        capture = self._recording
        self._file = file
        assert self._interrupts is not None
        with_sources = self._wish.get("with_sources") is not False
        capture.keep_in(cast(BinaryIO, file), "the connection", with_sources=with_sources)
        try:
            start.start(capture, self._interrupts, self._progress)
        except Interrupted:
            raise UsageError("it was interrupted", "record again") from None
        duration_s = _of(float, self._wish.get("duration_s"))
        self._end_s = time.monotonic() + duration_s if duration_s else float("inf")

    def wait(self, timeout_s: float) -> bool:
        """See ``Recorder``."""
        assert self._interrupts is not None
        if self._interrupts.stop or time.monotonic() >= self._end_s:
            return True
        return self._recording.wait(min(timeout_s, max(0.0, self._end_s - time.monotonic())))

    def finish(self) -> None:
        """See ``Recorder``."""
        capture = self._recording
        capture.stop()
        capture.finish_symbols(NAMES_S)
        if capture.keeper is not None:
            capture.keeper.finish()

    def close(self) -> None:
        """See ``Recorder``."""
        self._open.close()

    def pause(self, paused: bool) -> None:
        """See ``Recorder``."""
        if self._capture is not None:
            self._capture.set_paused(paused)

    def control(self, facts: dict[str, Any]) -> dict[str, Any]:
        """See ``Recorder``."""
        capture = self._recording
        rate_hz = _of(float, facts.get("rate_hz"))
        budget_percent = _of(float, facts.get("budget_percent"))
        if rate_hz is not None and budget_percent is not None:
            capture.set_sampling(rate_hz, budget_percent)
        if facts.get("wants") == "children":
            return {"children": [asdict(each) for each in capture.children()]}
        if facts.get("wants") == "code" and capture.keeper is not None and self._file is not None:
            capture.keeper.write_code()
            return {"n_bytes": self._file.n_bytes}
        return {}

    @property
    def _recording(self) -> Capture:
        if self._capture is None:
            raise UsageError("nothing is being recorded", "record again")
        return self._capture


class _Telling(Progress):
    """Passes on what a user should know."""

    def __init__(self, tell: Tell) -> None:
        super().__init__()
        self._tell = tell

    @property
    def wants_step(self) -> bool:
        """Steps are not passed on."""
        return False

    def say(self, text: str) -> None:
        """Pass on a message."""
        self._tell("SAYS", {"text": text})


def _options(wish: dict[str, Any]) -> AttachOptions:
    """Return the options of a wish that make sense; the others as they are by default."""
    usual = AttachOptions()
    found: dict[str, Any] = {}
    for name, example in asdict(usual).items():
        value = wish.get(name)
        if name == "debuginfod_urls":
            found[name] = tuple(map(str, _list(value)))
        elif name in ("rate_hz", "budget_ppm") and _of(float, value) is not None:
            found[name] = type(example)(value)
        elif name == "children" or isinstance(value, type(example)):
            found[name] = value if isinstance(value, (bool, str)) else None
    found = {name: value for name, value in found.items() if value is not None}
    return AttachOptions(**found)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _of(kind: type[Any], value: Any) -> Any:
    """Return a number of a kind, None if it is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return kind(value)
