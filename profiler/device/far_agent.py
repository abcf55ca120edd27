"""Our agent in a process on a device: load it, ask it, take what it sends, and leave."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from importlib import resources
from typing import Any

from ..errors import AttachFailedError
from .connect import ATTACH_S, Where, explained, within

MAX_LOOK_BYTES = 1 << 20
ANSWER_S = 10.0
LOST = "the connection to the device is lost"
# Why Frida's session has ended → what the user is told.
REASONS = {
    "process-terminated": "the process has exited",
    "process-replaced": "the process replaced itself by another program",
    "connection-terminated": LOST,
    "device-lost": LOST,
}


class FarAgent:
    """See the module. ``end`` it.

    Args:
        device: where it runs.
        pid: of the process.
        where: names the device in messages.
        take: called with each message and its data, on a thread of Frida's.
        on_end: called with the reason when the session has ended, on a thread of Frida's.

    Attributes:
        about: what the agent says of the process: arch, platform, path.

    Raises:
        FlametapError: it cannot be loaded.
    """

    def __init__(
        self,
        device: Any,
        pid: int,
        where: Where,
        take: Callable[[dict[str, Any], bytes], None],
        on_end: Callable[[str], None],
    ) -> None:
        self._take, self._on_end, self._where = take, on_end, where
        self._device = device  # a connection lives as long as it
        self._has_ended = self._is_silent = False
        try:
            self._session = within(lambda: device.attach(pid), ATTACH_S)
        except Exception as error:
            raise explained(error, where) from error
        try:
            self._session.on("detached", self._detached)
            text = source("agent.js")
            self._script = self._within(lambda: self._session.create_script(text, name="flametap"))
            self._script.on("message", self._arrived)
            within(self._script.load, ATTACH_S)
            about = self._within(lambda: self._script.exports_sync.about())
        except Exception as error:
            with contextlib.suppress(Exception):
                self._within(self._session.detach)
            raise explained(error, where) from error
        self.about: dict[str, Any] = about if isinstance(about, dict) else {}

    def begin(self, period_us: int) -> None:
        """Let it look at the threads. Raises FlametapError."""
        try:
            sources = source("walk.c"), source("linux_look.c")
            self._within(lambda: self._script.exports_sync.begin(*sources, period_us))
        except Exception as error:
            raise AttachFailedError(
                f"the agent cannot begin on {self._where}: {' '.join(str(error).split())}",
                "the process is left as it was",
            ) from error

    def set_period(self, period_us: int) -> None:
        """Look at another rate."""
        self._within(lambda: self._script.exports_sync.set_period(period_us))

    def set_paused(self, *, paused: bool) -> None:
        """Look no more, or again."""
        self._within(lambda: self._script.exports_sync.set_paused(paused))

    def read(self, address: int, size: int) -> bytes:
        """Return memory of the process; nothing if it cannot be read."""
        try:
            found = self._within(lambda: self._script.exports_sync.read(hex(address), size))
        except Exception:  # the device is gone, or says nonsense
            return b""
        return found if isinstance(found, bytes) else b""

    def names(self, addresses: Sequence[int]) -> list[Any]:
        """Return name, file and line of each runtime_addr, as the device knows them."""
        words = [hex(each) for each in addresses]
        found = self._within(lambda: self._script.exports_sync.names(words))
        return found if isinstance(found, list) else []

    def end(self) -> None:
        """Unload it, and let the process go. Idempotent."""
        if self._has_ended:
            return
        self._has_ended = True
        for step in (self._script.unload, self._session.detach):
            try:
                within(step, ANSWER_S)  # also if it was silent: it may be there again
            except Exception:
                continue

    def _within(self, call: Callable[[], Any]) -> Any:
        """Return what a call returns. Raises TimeoutError: the line is dead; then all others do."""
        if self._is_silent:
            raise TimeoutError("the device does not answer")
        try:
            return within(call, ANSWER_S)
        except TimeoutError:
            self._is_silent = True
            raise

    def _arrived(self, message: Any, data: bytes | None) -> None:
        self._is_silent = False
        if not isinstance(message, dict) or len(data or b"") > MAX_LOOK_BYTES:
            return
        if message.get("type") == "error":
            self._take({"kind": "error", "text": str(message.get("description"))}, b"")
            return
        payload = message.get("payload")
        if isinstance(payload, dict):
            self._take(payload, data or b"")
            if data:
                with contextlib.suppress(Exception):  # it is gone
                    self._script.post({"type": "taken", "bytes": len(data)})

    def _detached(self, reason: str, *_: Any) -> None:
        if not self._has_ended:
            self._on_end(REASONS.get(reason, reason))


def source(name: str) -> str:
    """Return a part of the agent, as text."""
    return resources.files("flametap.device").joinpath(name).read_text()


def period_us(rate_hz: float) -> int:
    """Return the time between two looks."""
    return max(1, round(1e6 / rate_hz))
