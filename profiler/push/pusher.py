"""Cut a recording into segments while it is made, and send each. Sampling never waits for that."""

from __future__ import annotations

import io
import random
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from .post import Fate, Outcome, post
from .spool import Spool
from .store import store_of

if TYPE_CHECKING:
    from ..recording.recording import Recording

SEGMENT_S = 15.0
NAMES_S = 3.0  # a segment waits so long for the names of its last functions
FIRST_WAIT_S, LONGEST_WAIT_S = 1.0, 60.0
LAST_S = 20.0  # at the end, for what waits


class Pusher:
    """See the module. Any thread may call.

    Args:
        recording: still empty.
        server: the address of the store (``store.check_url``).
        labels: of all that is sent.
        headers: of each request, besides ours.
        say: called with what the user should know.
        segment_s: length of a segment.

    Attributes:
        n_sent: segments that the store has taken.
        n_refused: segments that it will never take.

    Raises:
        OSError: nothing can wait on disk.
    """

    def __init__(
        self,
        recording: Recording,
        server: str,
        labels: Mapping[str, str],
        headers: Mapping[str, str],
        say: Callable[[str], None],
        segment_s: float = SEGMENT_S,
    ) -> None:
        self._recording, self._server = recording, server
        self._store = store_of(server, labels)
        self._headers = {**self._store.headers, **headers}
        self._say, self._segment_ns = say, round(segment_s * 1e9)
        self._spool = Spool()
        self._cut_ns = 0  # up to there, since the start, all has been cut
        self.n_sent = self.n_refused = 0
        self._said = self._why = ""
        self._has_more = threading.Event()
        self._closing, self._has_all = threading.Event(), threading.Event()
        self._sender = threading.Thread(target=self._send_all, name="flametap-push", daemon=True)
        self._cutter = threading.Thread(target=self._cut_all, name="flametap-cut", daemon=True)

    def start(self) -> None:
        """Begin; the recording may begin later."""
        self._cutter.start()
        self._sender.start()

    def finish(self) -> list[str]:
        """Send the rest, and say what became of all. All names have been found."""
        self._closing.set()
        self._cutter.join()
        self._cut(self._recording.profile.duration_ns)
        self._has_all.set()
        self._has_more.set()
        until_s = time.monotonic() + LAST_S
        while len(self._spool) and time.monotonic() < until_s and self._sender.is_alive():
            self._sender.join(0.05)
        n_left = len(self._spool)
        self._spool.close()
        is_empty = not (self.n_sent or n_left or self.n_refused or self._spool.n_dropped)
        told = [] if is_empty else [f"pushed {self.n_sent} segments to {self._server}"]
        if n_left:
            told.append(
                f"warning: {n_left} segments were not taken ({self._why}); they are in"
                f" {self._spool.folder}"
            )
        if self._spool.n_dropped:
            told.append(f"warning: {self._spool.n_dropped} segments found no room, and are lost")
        if self.n_refused:
            told.append(f"warning: {self.n_refused} segments were refused ({self._why})")
        return told

    # ------------------------------------------------------------------ segments

    def _cut_all(self) -> None:
        wait_ns = self._segment_ns + min(self._segment_ns, round(NAMES_S * 1e9))
        while not self._closing.wait(0.2):
            while self._recording.profile.duration_ns - self._cut_ns >= wait_ns:
                self._cut(self._cut_ns + self._segment_ns)

    def _cut(self, until_ns: int) -> None:
        """Put what was recorded since the last segment on disk."""
        from ..export.request import ExportRequest
        from ..tree.selection import Selection, Span

        if until_ns <= self._cut_ns:
            return
        span = Span(self._cut_ns, until_ns)
        started_s = self._recording.status().started_s
        from_s, until_s = (started_s + each / 1e9 for each in (self._cut_ns, until_ns))
        self._cut_ns = until_ns
        file = io.BytesIO()
        try:
            self._store.write(ExportRequest(self._recording, Selection(span=span)), file)
            self._spool.add(file.getvalue(), from_s, until_s)
        except OSError as error:
            self._tell(f"nothing more can wait in {self._spool.folder}: {error.strerror}")
        except Exception as error:  # whatever it is: the next segment may do
            self._spool.n_dropped += 1
            self._tell(f"it cannot be written: {type(error).__name__}: {error}")
        self._has_more.set()

    # ------------------------------------------------------------------ sending

    def _send_all(self) -> None:
        wait_s = FIRST_WAIT_S
        while True:
            has_all = self._has_all.is_set()
            segment = self._spool.first()
            if segment is None:
                if has_all:
                    return
                self._has_more.wait(0.2)
                self._has_more.clear()
                continue
            try:
                with open(segment.path, "rb") as file:
                    body = self._store.body(file.read())
            except OSError:  # somebody has removed it
                self._spool.remove(segment)
                continue
            url = self._store.url(segment.from_s, segment.until_s)
            outcome = post(url, body, self._headers)
            if outcome.fate is Fate.TAKEN and (why := self._store.complaint(outcome.answer)):
                outcome = Outcome(Fate.REFUSED, why)
            if outcome.fate is not Fate.LATER:
                self._count(outcome)
                self._spool.remove(segment)
                wait_s = FIRST_WAIT_S
                continue
            self._tell(outcome.why)
            pause_s = min(max(outcome.after_s or 0.0, wait_s), LONGEST_WAIT_S)
            wait_s = min(2 * wait_s, LONGEST_WAIT_S)
            self._pause(pause_s * random.uniform(0.8, 1.2))

    def _pause(self, pause_s: float) -> None:
        """Wait; at the end of the recording, try again soon."""
        if self._closing.is_set():
            time.sleep(min(pause_s, FIRST_WAIT_S))
        else:
            self._closing.wait(pause_s)

    def _count(self, outcome: Outcome) -> None:
        if outcome.fate is Fate.TAKEN:
            self.n_sent += 1
            if self._said:
                self._say(f"{self._server} takes segments again")
            self._said = ""
            return
        self.n_refused += 1
        self._tell(outcome.why)

    def _tell(self, why: str) -> None:
        self._why = why
        if why != self._said:
            self._said = why
            self._say(f"warning: a segment was not taken by {self._server}: {why}")
