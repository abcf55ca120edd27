"""Compare two recordings: which functions take another share of the time, by more than chance.

Functions of the two recordings are the same if their names, modules and files are; those of
another build, whose file or folder has another name, if their names and modules are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from ..errors import UsageError
from ..model import Clock, Function
from ..recording.figures import are_comparable, weight_name
from ..recording.recording import Recording
from ..tree.calltree import CallTree
from ..tree.comparison import Sizes, function_changes, join, sample_ns_of
from ..tree.name_order import NameOrder
from ..tree.tree_view import TreeIndex
from .dispersion import Dispersion, Side, translated
from .views import views_of

Ints = npt.NDArray[np.int64]

_ALL = 1 << 30


@dataclass(frozen=True)
class Change:
    """How a function differs. Shares are parts of each side's time; the others seconds a second.

    Attributes:
        function: which.
        share: before and after.
        rate: the same, as time in a second of the recording.
        grade: 0 for chance, 1 likely, 2 certain; negative for less (``comparison.grades``).
    """

    function: Function
    share: tuple[float, float]
    rate: tuple[float, float]
    grade: int

    @property
    def points(self) -> float:
        """The difference of the shares."""
        return self.share[1] - self.share[0]


@dataclass(frozen=True)
class Difference:
    """How two recordings differ.

    Attributes:
        tree: of both, joined; its first side is the one after.
        own: by functions' own time, the greatest change first, changes by chance at the end.
        total: by their time with what they call.
    """

    tree: CallTree
    own: Sequence[Change]
    total: Sequence[Change]


def difference_of(before: Side, after: Side) -> Difference:
    """Compare two recordings by the clock of their selections.

    Raises:
        UsageError: what they count cannot be compared.
    """
    check_comparable(before.recording, after.recording, after.selection.clock)
    here, there = _tree(after), translated(_tree(before), after.recording)
    order = NameOrder().of(after.recording.functions)
    index = TreeIndex(join(here, there, order))
    clock = after.selection.clock
    chance_ns = sample_ns_of(clock, before.recording.status(), after.recording.status())
    sizes = Sizes(float(here.total_ns[0]), float(there.total_ns[0]), chance_ns, True)
    spreads = Dispersion(before, after).spreads
    lengths_ns = max(before.length_ns, 1), max(after.length_ns, 1)
    own, total = (
        function_changes(index, 0, _ALL, sizes, by_self=by_self, spreads=spreads)
        for by_self in (True, False)
    )
    make = partial(_changes, index.tree.functions, sizes, lengths_ns)
    return Difference(
        index.tree,
        make(own.function, own.self_there, own.self_here, own.self_grade),
        make(total.function, total.total_there, total.total_here, total.total_grade),
    )


def check_comparable(before: Recording, after: Recording, clock: Clock) -> None:
    """Check that two recordings count the same.

    Raises:
        UsageError: they do not.
    """
    states = before.status(), after.status()
    if not are_comparable(*states, clock):
        names = " and ".join(weight_name(each, clock) for each in states)
        raise UsageError(f"{names} cannot be compared", "name files that count the same")


def _tree(side: Side) -> CallTree:
    return views_of(side.recording).tree(side.selection)


def _changes(
    functions: Sequence[Function],
    sizes: Sizes,
    lengths_ns: tuple[int, int],
    function: Ints,
    before: Ints,
    after: Ints,
    grade: npt.NDArray[np.int8],
) -> list[Change]:
    wholes = max(sizes.there_ns, 1.0), max(sizes.here_ns, 1.0)
    rows = zip(function.tolist(), before.tolist(), after.tolist(), grade.tolist(), strict=True)
    return [
        Change(
            functions[at],
            (there / wholes[0], here / wholes[1]),
            (there / lengths_ns[0], here / lengths_ns[1]),
            how_sure,
        )
        for at, there, here, how_sure in rows
    ]
