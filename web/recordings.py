"""The recordings that one server shows, by number from 1, and what requests keep of each.

A recording of a file is opened when it is first asked for. Those that were used last are kept; of
another, nothing stays but the functions that it got from those it was compared with: it has them
again when it is opened again, so that open pages have the right ids.
"""

from __future__ import annotations

import gc
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from flask import abort, request

from flametap.analysis.views import Views
from flametap.model import Function

from .exports import Exports
from .known_functions import KnownFunctions
from .thread_list import ThreadList
from .trees import Others, TreeCache, no_others

MAX_KEPT = 3
NUMBER = "flametap.recording"  # of the request, in its WSGI environment


@dataclass(frozen=True)
class File:
    """A file that a server shows.

    Attributes:
        name: as the page shows it.
        open: opens it; may raise a FlametapError.
    """

    name: str
    open: Callable[[], Views]


class Shown:
    """A recording, and what requests keep of it.

    Args:
        views: of the recording.
        others: returns the views of another one, by its number.
        added: functions that it had when it was open before.
    """

    def __init__(
        self, views: Views, others: Others = no_others, added: Sequence[Function] = ()
    ) -> None:
        self.views = views
        self.recording = views.recording
        self._own_functions = len(self.recording.functions)
        for each in added:
            self.recording.function_id(each)
        self.trees = TreeCache(views, others)
        self.threads = ThreadList(views)
        self.known = KnownFunctions()
        self.exports = Exports(self.recording, self.trees.shaper)

    @property
    def added(self) -> Sequence[Function]:
        """The functions that it got since it was opened, in the order of their ids."""
        return self.recording.functions[self._own_functions :]


class Recordings:
    """The recordings of one server. Any thread may call.

    Args:
        files: the recordings, the first one first.
    """

    def __init__(self, files: Sequence[File]) -> None:
        self.names = [each.name for each in files]
        self._files = files
        self._lock = threading.Lock()
        self._opening = [threading.Lock() for _ in files]
        self._kept: OrderedDict[int, Shown] = OrderedDict()
        self._added: dict[int, Sequence[Function]] = {}  # of those that are not kept

    @classmethod
    def of(cls, views: Views) -> Recordings:
        """Return the only recording of a server."""
        return cls([File("", lambda: views)])

    @property
    def asked_number(self) -> int:
        """The number of the recording that the request that is being answered asks for."""
        found: int = request.environ.get(NUMBER, 1)
        return found

    def asked(self) -> Shown:
        """Return the recording of the request that is being answered.

        Raises:
            NotFound: there is none of this number.
            FlametapError: it cannot be opened.
        """
        if not 1 <= self.asked_number <= len(self._files):
            abort(404, f"there is no recording {self.asked_number}")
        return self.get(self.asked_number)

    def get(self, number: int) -> Shown:
        """Return a recording; it is opened if it is not kept.

        Raises:
            FlametapError: it cannot be opened.
        """
        found = self._found(number)
        if found is not None:
            return found
        with self._opening[number - 1]:  # a second request for it waits for the first
            found = self._found(number)
            if found is None:
                self._keep_only(MAX_KEPT - 1)
                views = self._files[number - 1].open()
                found = Shown(views, partial(self._other, number), self._added.get(number, ()))
                with self._lock:
                    self._kept[number] = found
                self._keep_only(MAX_KEPT)
        return found

    def _found(self, number: int) -> Shown | None:
        with self._lock:
            found = self._kept.get(number)
            if found is not None:
                self._kept.move_to_end(number)
            return found

    def _keep_only(self, count: int) -> None:
        """Drop those that were not used for the longest time."""
        with self._lock:
            dropped = [self._kept.popitem(last=False) for _ in range(len(self._kept) - count)]
            kept = list(self._kept.values())
        if not dropped:
            return
        self._added.update((number, list(each.added)) for number, each in dropped)
        dropped.clear()
        for each in kept:
            each.trees.forget_spreads()  # which may be those from a dropped one
        gc.collect()  # a recording and its views have each other

    def _other(self, own: int, number: int) -> Views:
        """Return the views of a recording to compare with; 0 for the first other one.

        Raises:
            BadRequest: there is no such recording.
            FlametapError: it cannot be opened.
        """
        if len(self._files) == 1:
            return no_others(number)
        number = number or (2 if own == 1 else 1)
        if number > len(self._files):
            abort(400, f"there is no recording {number} to compare with")
        if number == own:
            abort(400, "a recording is not compared with itself")
        return self.get(number).views
