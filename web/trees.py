"""Cache of the call trees that open pages show: one per selection and shape, built once a revision.

Zooming, scrolling and searching request the revision that the page already has, and use the cached
tree. Only a request for a newer revision builds a new tree. A shaped tree is made of the plain one,
which stays cached, so that another shape costs only its own steps.
"""

from __future__ import annotations

import contextlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from flask import abort

from flametap.analysis.difference import check_comparable
from flametap.analysis.dispersion import Dispersion, Side, translated
from flametap.analysis.views import Views
from flametap.tree.calltree import CallTree
from flametap.tree.comparison import Sizes, Spreads, join, widened
from flametap.tree.selection import EVERYTHING, Selection
from flametap.tree.shape import PLAIN, Shape
from flametap.tree.shaper import Shaper
from flametap.tree.spelling import FunctionNames
from flametap.tree.tree_rows import heaviest_path
from flametap.tree.tree_view import TreeIndex

from .comparing import Baseline, sizes_of
from .encode import View, ViewQuery, encode_comparison
from .encode_tree import MAX_HEAVIEST, PageQuery, encode_page, find_node

MAX_TREES = 12
MAX_DISPERSIONS = 4
# A tree with a million nodes and its index take some 100 MB. The two newest are kept in any case.
MAX_NODES = 4_000_000

# The number of another recording, as Baseline has it → its views.
Others = Callable[[int], Views]


def no_others(_: int) -> Views:
    """Refuse to compare with another recording.

    Raises:
        BadRequest: always.
    """
    abort(400, "there is no other recording to compare with")


@dataclass(frozen=True)
class Wanted:
    """A tree that a request wants.

    Attributes:
        selection: what is counted.
        shape: how it is shown.
        baseline: what it is compared with; None for nothing.
        path: of an upward tree, the functions along the path to expand.
    """

    selection: Selection
    shape: Shape = PLAIN
    baseline: Baseline | None = None
    path: tuple[frozenset[int], ...] = ()

    @property
    def base(self) -> Wanted | None:
        """The tree of which this one is made; None if it is made of the profile."""
        if self.shape.upward is not None:
            return replace(self, shape=self.shape.filters, path=())
        if self.shape.steps:
            return replace(self, shape=PLAIN, path=())
        return None


class _Slot:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.revision = -1
        self.index: TreeIndex | None = None


class TreeCache:
    """A thread-safe cache. Requests for the same tree wait for each other; others do not."""

    def __init__(self, views: Views, others: Others = no_others) -> None:
        self._views = views
        self._others = others
        recording = self._recording = views.recording
        self.names = FunctionNames(lambda: recording.functions)
        self.shaper = Shaper(recording, self.names)
        self._lock = threading.Lock()
        self._slots: OrderedDict[Wanted, _Slot] = OrderedDict()
        self._dispersions: dict[tuple[Selection, int], Dispersion] = {}

    def begin(self) -> None:
        """Build the tree that most pages show first, while the browser loads the page."""
        with self._lock:
            if self._slots:  # pages are open already
                return

        def build() -> None:
            with contextlib.suppress(Exception):  # the page's own request tells it
                self.get(EVERYTHING, 0)

        threading.Thread(target=build, name="flametap-web-first", daemon=True).start()

    def get(self, wanted: Wanted | Selection, revision: int) -> tuple[int, TreeIndex]:
        """Get a tree of at least the given revision, or the current one if that is older.

        Returns:
            The revision of the tree (it may contain even newer samples), and the tree.
        """
        wanted = Wanted(wanted) if isinstance(wanted, Selection) else wanted
        if wanted.shape.upward is None:
            wanted = replace(wanted, path=())
        with self._lock:
            slot = self._slots.setdefault(wanted, _Slot())
            self._slots.move_to_end(wanted)
            self._forget()
        with slot.lock:
            if slot.index is None or slot.revision < revision:
                # Read before the tree is built, so it is never newer than the tree's samples.
                now = self._recording.revision
                if slot.index is None or slot.revision != now:
                    slot.revision, slot.index = self._build(wanted, max(revision, 0), now)
            return slot.revision, slot.index

    def view(self, query: ViewQuery) -> tuple[View, int]:
        """Return what a view is made of, and the revision of its tree."""
        path = tuple(self.names.path(query.zoom))
        wanted = Wanted(query.selection, query.shape, query.baseline, path)
        revision, index = self.get(wanted, query.revision)
        upward = query.shape.upward
        listed = index
        if upward is not None:
            _, listed = self.get(replace(wanted, shape=query.shape.filters), revision)
        sizes = None
        if query.baseline is not None:
            _, whole = self.get(replace(wanted, shape=PLAIN), revision)
            sizes = self._sizes(whole.tree, query.selection, query.baseline)
        steps: tuple[bool, ...] = ()
        if query.shape.steps:
            _, plain = self.get(Wanted(query.selection), revision)
            steps = self.shaper.means(plain, query.shape)
        spreads = self._spreads(query)
        return View(index, listed, self.names, sizes, spreads, steps), revision

    def pages(
        self, query: ViewQuery, pages: Sequence[PageQuery], heaviest: PageQuery | None
    ) -> dict[str, Any]:
        """Return the rows that a tree table wants (encode_tree.py has the shape)."""
        view, revision = self.view(replace(query, zoom=()))
        found = []

        def add(index: TreeIndex, node: int, page: PageQuery) -> None:
            found.append(encode_page(index, node, page, self.names, view.sizes))

        for page in pages:
            opened = self._opened(query, page, view.index, revision)
            if opened is not None:
                add(*opened, page)
        start = self._opened(query, heaviest, view.index, revision) if heaviest else None
        if heaviest is not None and start is not None:
            for node in (start[1], *heaviest_path(*start, MAX_HEAVIEST)):
                add(start[0], node, heaviest)
        total_ns = int(view.index.tree.total_ns[0])
        return {
            "revision": revision,
            "total_ns": total_ns,
            "comparison": encode_comparison(view),
            "nodes": found,
        }

    def forget_spreads(self) -> None:
        """Forget how weights vary by chance, and with it the recordings compared with."""
        with self._lock:
            self._dispersions.clear()

    def _opened(
        self, query: ViewQuery, page: PageQuery, index: TreeIndex, revision: int
    ) -> tuple[TreeIndex, int] | None:
        """Find a node in a tree that has its children; None if there is no such node."""
        path = tuple(self.names.path(page.path))
        node = find_node(index, path)
        is_cut = index.tree.is_cut
        if is_cut is not None and (node is None or is_cut[node]):
            wanted = Wanted(query.selection, query.shape, query.baseline, path)
            _, index = self.get(wanted, revision)
            node = find_node(index, path)
        return None if node is None else (index, node)

    def _forget(self) -> None:
        """Drop the trees that were not wanted for the longest time, beyond the limits."""
        nodes = 0
        for kept, (wanted, slot) in enumerate(reversed(list(self._slots.items())), 1):
            nodes += slot.index.node_count if slot.index is not None else 0
            if kept > MAX_TREES or (nodes > MAX_NODES and kept > 2):
                del self._slots[wanted]

    def _build(self, wanted: Wanted, revision: int, now: int) -> tuple[int, TreeIndex]:
        base = wanted.base
        if base is not None:
            revision, index = self.get(base, revision)
            upward = wanted.shape.upward
            if upward is not None:
                return revision, self.shaper.turned(index, upward, wanted.path)
            return revision, self.shaper.arranged(index, wanted.shape)
        if wanted.baseline is not None:
            return self._compared(wanted, wanted.baseline, revision)
        return now, TreeIndex(self._views.tree(wanted.selection))

    def _compared(self, wanted: Wanted, baseline: Baseline, revision: int) -> tuple[int, TreeIndex]:
        revision, here = self.get(wanted.selection, revision)
        selection = baseline.other(wanted.selection)
        if baseline.file is not None:
            other = self._others(baseline.file)
            check_comparable(other.recording, self._recording, selection.clock)
            there = translated(other.tree(selection), self._recording)
        else:
            there = self.get(selection, revision)[1].tree
        tree = join(here.tree, there, self.shaper.order(), is_rest=baseline.is_rest)
        if baseline.is_both:
            tree = widened(tree, self._sizes(tree, wanted.selection, baseline))
        return revision, TreeIndex(tree)

    def _spreads(self, query: ViewQuery) -> Spreads | None:
        """Return how far weights vary by chance, if the view is compared with a file."""
        baseline = query.baseline
        if baseline is None or baseline.file is None:
            return None
        other, key = self._others(baseline.file), (query.selection, baseline.file)
        with self._lock:
            kept = self._dispersions
            found = kept.pop(key, None)
            if found is None:
                before = Side(other.recording, baseline.other(query.selection))
                found = Dispersion(before, Side(self._recording, query.selection))
            kept[key] = found
            while len(kept) > MAX_DISPERSIONS:
                del kept[next(iter(kept))]
        return found.spreads

    def _sizes(self, tree: CallTree, selection: Selection, baseline: Baseline) -> Sizes:
        status = self._recording.status()
        if baseline.file is None:
            return sizes_of(tree, selection, baseline, status, status)
        other = self._others(baseline.file).recording
        return sizes_of(tree, selection, baseline, status, other.status())
