"""A recording that is made elsewhere, as the command line and the page control one made here."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

from ..capture.keeper import Kept
from ..errors import (
    AttachFailedError,
    CannotAttachError,
    FlametapError,
    InputError,
    NoSamplesError,
    NoSuchProcessError,
    PermissionRefusedError,
    TargetDiedError,
    UsageError,
)
from ..model import ChildProcess, Status
from ..recording.figures import duration
from ..recording.growing import Growing
from .far_code import FarCode
from .link import Link
from .messages import OFFSET, LineError, Message
from .offset import Offset

ANSWER_S = 10.0
ATTACH_S = 120.0  # as long as an attach may take on a busy machine, and a login
LOOK_S = 0.2
CLOCK_ASKED, CLOCK_S = 5, 2.0
MOST_SAID = 200  # messages for the user
BY_CODE = {
    each.exit_code: each
    for each in (
        *(UsageError, NoSuchProcessError, PermissionRefusedError, CannotAttachError),
        *(NoSamplesError, TargetDiedError),
    )
}


class FarCapture(Kept):
    """See the module; its methods are those of ``capture.live.Capture``.

    Args:
        via: the command that leads there.
        wish: what is to be recorded there.
        say: called with what the user should know.
        is_wanted: asked while the other side does not answer; False gives up.

    Attributes:
        pid: of the first process, there.
        command: what it runs.
        program: the name of its program.
        host: where it runs.
        recording: what has come so far.
        profile: its threads, modules, stacks and intervals.
        boot: the start of the machine where it runs.
        offset: between the clocks there and here.
        error: why it ended early; None if it did not.

    Raises:
        FlametapError: nothing can be recorded there.
    """

    def __init__(
        self,
        via: str,
        wish: dict[str, Any],
        say: Callable[[str], None],
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> None:
        self._say, self._is_wanted = say, is_wanted
        self._growing = Growing(f"'{via}'", self._completed)
        self.recording = self._growing.recording
        self.profile = self.recording.profile
        self.error: FlametapError | None = None
        self.exit_status = None
        self._failure: FlametapError | None = None
        self._targets: dict[str, Any] = {}
        self._known, self._begun = threading.Event(), threading.Event()
        self._ended, self._has_all = threading.Event(), threading.Event()
        self._n_bytes = -1  # of the whole, once that is known
        self._is_stopped = self._is_closed = self._is_finished = False
        self.offset = Offset()
        self._full_s, self._was_full_s = 0.0, 0.0  # since when it pauses; how long it did
        self._n_said = 0
        self.pid, self.command, self.program, self.host = 0, "", "", ""
        self._awaited: set[int] = set()
        self._answers: dict[int, dict[str, Any]] = {}
        self._n_asked = 0
        self._asking = threading.Condition()
        self._link = Link(
            via, wish, self._take, lambda: self._growing.n_bytes, say, self._is_wanted
        )
        self.host, self.boot = self._link.hello.host, self._link.hello.boot
        self._link.start()
        self.recording.code = FarCode(
            self._growing.code, lambda: self.status().symbols, self._fetch_code
        )
        self._wait(self._known)
        meta = self._targets.get("meta")
        self.recording.meta.update(meta if isinstance(meta, dict) else {})
        self.pid = _int(self._targets.get("pid"))
        self.command = str(self._targets.get("command", ""))
        self.program = str(self._targets.get("program", ""))

    # ------------------------------------------------------------------ life

    def measure_clock(self) -> None:
        """Ask for the time there, until some answers have come."""
        for _ in range(CLOCK_ASKED):
            n_known = self.offset.n_answers
            self._link.send("PING", sent=time.monotonic_ns())
            until_s = time.monotonic() + CLOCK_S
            while self.offset.n_answers == n_known and time.monotonic() < until_s:
                time.sleep(0.002)

    def start(self, on_sampling: Callable[[], None] = lambda: None) -> None:
        """Let it begin to sample there. Raises FlametapError."""
        self._link.insist("STRT")
        self._wait(self._begun)
        on_sampling()

    def wait(self, timeout_s: float) -> bool:
        """Wait for the end; return False after a timeout."""
        return self._ended.wait(timeout_s)

    def stop(self) -> None:
        """Let it end there. Idempotent."""
        self._is_stopped = True
        self._link.insist("STOP")

    def finish_symbols(self, timeout_s: float) -> bool:
        """Wait until all has come, with its names; return False after a timeout."""
        if not self._has_all.wait(timeout_s):
            return False
        self._finish()
        return True

    def what_is_left(self) -> str:
        """Say what ``finish_symbols`` waits for."""
        return f"fetching the last samples and names from {self.host}"

    def close(self) -> None:
        """End it, and the connection. Idempotent."""
        if self._is_closed:
            return
        self._is_closed = True
        self.stop()
        self._link.send("BYES")
        self._link.close()
        self._finish()
        if self.keeper is not None:
            self.keeper.close()

    def _finish(self) -> None:
        if self._is_finished:
            return
        self._is_finished = True
        try:
            self._growing.finish()
        except InputError as error:
            if self._begun.is_set() and self.error is None:
                self.error = NoSamplesError(error.message, error.hint)
        self._growing.step()

    # ------------------------------------------------------------------ its state, and controls

    def status(self) -> Status:
        """Return state, counters, verdicts and symbols, as they were there a moment ago."""
        return self._growing.status()

    def _completed(self, status: Status) -> Status:
        """Return a state with what is known here."""
        is_over = self._is_finished
        state = "recording" if status.state == "ended" else status.state or "attaching"
        notes = self.offset.notes(self.host)
        if self._was_full_s:
            lasted = duration(self._was_full_s)
            notes.append(f"sampling paused for {lasted}: the connection was too slow")
        if is_over and self.error is not None:
            notes.append(self.error.message)
        return replace(
            status,
            pid=status.pid or self.pid,
            command=status.command or self.command,
            program=status.program or self.program,
            host=self.host,
            state="ended" if is_over else state,
            is_final=is_over,
            notes=[*status.notes, *notes],
        )

    def children(self) -> list[ChildProcess]:
        """Return the processes that it has started, the busiest first."""
        if self._ended.is_set():
            return []
        found = self._ask(wants="children").get("children")
        known = {each.name for each in fields(ChildProcess)}
        rows = found if isinstance(found, list) else []
        made = []
        for each in rows:
            if isinstance(each, dict) and known <= each.keys():
                made.append(
                    ChildProcess(_int(each["pid"]), str(each["command"]), _int(each["cpu_ns"]))
                )
        return made

    def set_paused(self, paused: bool) -> None:
        """Stop taking samples, or resume."""
        self._ask(paused=paused)

    def set_sampling(self, rate_hz: float, budget_percent: float) -> None:
        """Sample at another rate, or within another budget. Raises FlametapError."""
        self._ask(rate_hz=rate_hz, budget_percent=budget_percent)

    def _fetch_code(self) -> bool:
        """Let texts and instructions come; return whether they have."""
        if self._is_stopped or self._ended.is_set():
            return False  # all comes at the end
        try:
            n_bytes = _int(self._ask(wants="code").get("n_bytes"))
        except FlametapError:
            return False
        until_s = time.monotonic() + ANSWER_S
        while self._growing.n_bytes < n_bytes and time.monotonic() < until_s:
            time.sleep(0.02)
        return 0 < n_bytes <= self._growing.n_bytes

    def interpreters(self) -> list[Any]:
        """Return nothing: interpreters are looked at there."""
        return []

    # ------------------------------------------------------------------ what comes

    def _take(self, message: Message) -> None:
        if message.kind == "DATA":
            self._take_data(message.data)
        elif message.kind == "PONG":
            self.offset.take(message.facts)
        elif message.kind == "SAYS":
            self._n_said += 1
            if self._n_said <= MOST_SAID:
                self._say(f"{self._link.hello.host}: {message.facts.get('text')}")
        elif message.kind == "FULL":
            self._take_full(is_full=bool(message.facts.get("is_full")))
        elif message.kind == "TARG":
            self._targets = message.facts
            self._known.set()
        elif message.kind == "BEGN":
            self._begun.set()
        elif message.kind == "FAIL":
            self._fail(_error_of(message.facts, self._link.hello.host), is_last=False)
        elif message.kind == "ANSW":
            with self._asking:
                number = _int(message.facts.get("number"))
                if number in self._awaited:
                    self._answers[number] = message.facts
                    self._asking.notify_all()
        elif message.kind == "DONE":
            self._n_bytes = _int(message.facts.get("n_bytes"))
            self._look()
        elif message.kind == "LOST":
            where = self._link.hello.host
            self._fail(InputError(f"the connection to {where} is lost", "record again"))

    def _take_data(self, data: bytes) -> None:
        if len(data) < OFFSET.size:
            raise LineError("a piece of a recording without its place")
        (offset,) = OFFSET.unpack_from(data)
        skipped = self._growing.n_bytes - offset  # it was sent again
        if skipped < 0:
            raise LineError("a piece of a recording that is not the next one")
        if skipped < len(data) - OFFSET.size:
            self._growing.add(data[OFFSET.size + skipped :])
        if self._growing.damage:
            self._fail(InputError(f"{self.host} sends a recording that {self._growing.damage}", ""))
        if self.keeper is not None and not self._is_finished:
            self.keeper.step()
        self._look()

    def _take_full(self, *, is_full: bool) -> None:
        now_s = time.monotonic()
        if is_full and not self._full_s:
            self._full_s = now_s
            self._say(f"{self.host}: the connection is too slow: sampling pauses")
        elif self._full_s and not is_full:
            self._was_full_s += now_s - self._full_s
            self._full_s = 0.0

    def _look(self) -> None:
        if 0 <= self._n_bytes <= self._growing.n_bytes:
            self._link.done()
            self._link.send("TAKE", offset=self._growing.n_bytes)
            self._link.send("BYES")
            self._end()

    def _fail(self, error: FlametapError, *, is_last: bool = True) -> None:
        """Take note of an error; ``is_last``: nothing more of the recording comes."""
        if self._begun.is_set():
            self.error = self.error or error
        else:
            self._failure = self._failure or error
        self._known.set()
        self._begun.set()
        self._ended.set()
        if is_last:
            self._end()

    def _end(self) -> None:
        self._ended.set()
        self._has_all.set()
        self._growing.step()

    def _wait(self, event: threading.Event) -> None:
        until_s = time.monotonic() + ATTACH_S
        while not event.wait(LOOK_S):
            is_wanted = self._is_wanted()
            if is_wanted and time.monotonic() < until_s:
                continue
            self.close()
            if not is_wanted:
                raise UsageError("it was interrupted", "")
            why = f"{self._link.hello.host} has not begun within {ATTACH_S:.0f} s"
            raise AttachFailedError(why, "try again")
        if self._failure is not None:
            self.close()
            raise self._failure

    def _ask(self, **facts: Any) -> dict[str, Any]:
        """Ask, and return the answer. Raises FlametapError."""
        if self._ended.is_set():
            raise UsageError("nothing is being recorded", "the recording has ended")
        with self._asking:
            self._n_asked += 1
            number = self._n_asked
            self._awaited.add(number)
        self._link.send("CTRL", number=number, **facts)
        with self._asking:
            self._asking.wait_for(lambda: number in self._answers, ANSWER_S)
            self._awaited.discard(number)
            found = self._answers.pop(number, None)
        if found is None:
            raise UsageError(f"{self.host} does not answer", "try again when it does")
        if "message" in found:
            raise UsageError(str(found["message"]), str(found.get("hint", "")))
        return found


def _int(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _error_of(facts: dict[str, Any], host: str) -> FlametapError:
    kind = BY_CODE.get(_int(facts.get("code")), FlametapError)
    return kind(f"{host}: {facts.get('message')}", str(facts.get("hint") or ""))
