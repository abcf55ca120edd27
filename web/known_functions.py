"""Send the functions of views once: a page keeps those that it has.

Each answer to a page that keeps functions has a number, ``names.answer``. The page's next request
names the newest answer that it has taken over (``have``), and the server leaves out the functions
that the page had got until then. Answers that never arrive do no harm: the page names them never.
"""

from __future__ import annotations

import itertools
import secrets
import threading
from collections import OrderedDict
from typing import Any

MAX_ANSWERS = 64  # remembered ones: open pages, and those under way
COLUMNS = ("name", "module", "file", "kind", "full_name", "twin", "origin")
NOTHING: tuple[tuple[str, ...], frozenset[int]] = ((), frozenset())


class KnownFunctions:
    """What the open pages have, by the number of an answer. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers = itertools.count(1 + secrets.randbits(32))  # another server's are others
        self._known: OrderedDict[int, tuple[tuple[str, ...], frozenset[int]]] = OrderedDict()

    def leave_out(self, answer: dict[str, Any], have: int) -> None:
        """Replace the functions of an answer to a view request by those that are new to the page.

        ``functions`` keeps ``id`` (and ``matches``); ``table.rows`` keeps ``id`` and the weights.
        All else is in ``names``: {answer: int, functions: columns of the new ones}.

        Args:
            answer: as ``encode_view`` returns it; is changed.
            have: the number of the newest answer that the page has, 0 for none.
        """
        parts = [answer["functions"]]
        if answer["table"]:
            parts.append(answer["table"]["rows"])
        columns = tuple(name for name in COLUMNS if name in parts[0])
        with self._lock:
            had, known = self._known.get(have, NOTHING)
            number = next(self._numbers)
        if had != columns:  # the profile has Python functions since then: they have an origin
            known = NOTHING[1]
        new: dict[str, list[Any]] = {name: [] for name in ("id", *columns)}
        for part in parts:
            ids = part["id"]
            chosen = [at for at, each in enumerate(ids) if each not in known]
            new["id"] += [ids[at] for at in chosen]
            for name in columns:
                column = part.pop(name)
                new[name] += [column[at] for at in chosen]
            known = known.union(ids) if chosen else known
        answer["names"] = {"answer": number, "functions": new}
        with self._lock:
            self._known[number] = (columns, known)
            if have in self._known:
                self._known.move_to_end(have)
            while len(self._known) > MAX_ANSWERS:
                self._known.popitem(last=False)
