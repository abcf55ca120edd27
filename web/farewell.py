"""Let open pages save the recording before the server closes.

When flametap ends, the recording is only in its memory. A page that sees the recording end asks
every two seconds whether flametap is leaving, and if so asks its user whether to save. While it
does, and while it saves, it says so; the server stays for it, but not for ever.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

FIRST_S = 2.0  # a page that follows the events sees the end of the recording by then, and asks
GRACE_S = 5.0  # longer than a page takes to ask again
RECENT_S = 5.0  # a page that asked then is still open
STAY_S = 6.0  # a page that wants to save repeats it every second
LIMIT_S = 180.0  # for an answer, and for the download
MAX_PAGES = 64
POLL_S = 0.1


class Farewell:
    """The pages that may want to save; see the module docstring. Any thread may call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_leaving = False
        self._asked_s = -RECENT_S
        self._staying: dict[str, float] = {}  # page → when it last said so

    def ask(self, page: str, wants_stay: bool) -> bool:
        """Return whether flametap is leaving, and note what a page wants."""
        now_s = time.monotonic()
        with self._lock:
            self._asked_s = now_s
            if not wants_stay:
                self._staying.pop(page, None)
            elif page in self._staying or len(self._staying) < MAX_PAGES:
                self._staying[page] = now_s
            return self._is_leaving

    def wait(self, has_streams: bool, is_impatient: Callable[[], bool]) -> None:
        """Wait until no page wants to save any more; at most ``LIMIT_S``.

        Args:
            has_streams: pages follow the events of the recording.
            is_impatient: True if the user does not want to wait.
        """
        begin_s = time.monotonic()
        with self._lock:
            self._is_leaving = True
            is_open = has_streams or begin_s - self._asked_s < RECENT_S
        was_staying = False
        while is_open and not is_impatient():
            now_s = time.monotonic()
            with self._lock:
                is_staying = any(said_s > now_s - STAY_S for said_s in self._staying.values())
                has_asked = now_s - self._asked_s < RECENT_S
            was_staying = was_staying or is_staying
            limit_s = LIMIT_S if is_staying else GRACE_S if has_asked else FIRST_S
            if now_s - begin_s > limit_s or (was_staying and not is_staying):
                return
            time.sleep(POLL_S)
