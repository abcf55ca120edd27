"""Cache of the call trees that open pages show: one per selection, built once per revision.

Zooming, scrolling and searching request the revision that the page already has, and use the cached
tree. Only a request for a newer revision builds a new tree.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

from flametap.analysis.selection import Selection
from flametap.analysis.tree_view import TreeIndex

from .source import ProfileSource

MAX_TREES = 4  # a tree with a million nodes and its index take some 100 MB; tabs differ


class _Slot:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.revision = -1
        self.index: TreeIndex | None = None


class TreeCache:
    """A thread-safe cache. Requests for the same tree wait for each other; others do not."""

    def __init__(self, source: ProfileSource) -> None:
        self._source = source
        self._lock = threading.Lock()
        self._slots: OrderedDict[Selection, _Slot] = OrderedDict()

    def get(self, selection: Selection, revision: int) -> tuple[int, TreeIndex]:
        """Get a tree of at least the given revision, or the current one if that is older.

        Returns:
            The revision of the tree (it may contain even newer samples), and the tree.
        """
        with self._lock:
            slot = self._slots.setdefault(selection, _Slot())
            self._slots.move_to_end(selection)
            while len(self._slots) > MAX_TREES:
                self._slots.popitem(last=False)
        with slot.lock:
            if slot.index is None or slot.revision < revision:
                # Read before the tree is built, so it is never newer than the tree's samples.
                now = self._source.wait_newer(-1, 0.0)
                if slot.index is None or slot.revision != now:
                    slot.index = TreeIndex(self._source.tree(selection))
                    slot.revision = now
            return slot.revision, slot.index
