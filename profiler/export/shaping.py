"""Give exports the shape in which trees are shown. Implements ``request.Shaping``."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial

from ..errors import UsageError
from ..recording.recording import Recording
from ..tree.calltree import CallTree
from ..tree.search import SearchError
from ..tree.shape import TARGETED, Shape, Verb, in_order, is_idle
from ..tree.shaped_stack import StackStep, shaped
from ..tree.shaper import ORIGINS, ShapeError, Shaper, parse_shape
from ..tree.spelling import FunctionNames, plain, split
from ..tree.tree_view import TreeIndex
from .request import Shaping, StackShaper

WORDS = {
    Verb.HIDE: "{} hidden",
    Verb.FOLD: "{} folded",
    Verb.RECURSION: "recursion folded",
    Verb.CHAINS: "chains folded",
    Verb.WITHOUT: "without {}",
    Verb.NO_IDLE: "without idle waits",
    Verb.ONLY: "only stacks through {}",
    Verb.FOCUS: "only {} and what it calls",
    Verb.CALLERS: "callers of {}",
    Verb.INVERTED: "upside down",
}


class ShapedExport:
    """One shape; see the module docstring."""

    def __init__(self, shaper: Shaper, shape: Shape) -> None:
        self._shaper = shaper
        self._shape = shape

    @property
    def words(self) -> list[str]:
        """See ``Shaping.words``."""
        return [WORDS[step.verb].format(_name(step.target)) for step in self._shape.steps]

    def tree(self, tree: CallTree) -> CallTree:
        """See ``Shaping.tree``."""
        index = self._shaper.arranged(TreeIndex(tree), self._shape)
        upward = self._shape.upward
        return index.tree if upward is None else self._shaper.turned(index, upward, ()).tree

    def stacks(self, trees: Sequence[CallTree]) -> StackShaper:
        """See ``Shaping.stacks``."""
        chosen: dict[str, set[int]] = {}

        def remember(index: TreeIndex, target: str) -> Collection[int]:
            found = self._shaper.chosen(index, target)
            chosen.setdefault(target, set()).update(found)
            return found

        upward = self._shape.upward
        for tree in trees:
            index = self._shaper.arranged(TreeIndex(tree), self._shape, remember)
            if upward is not None and upward.verb in TARGETED:
                remember(index, upward.target)
        functions = trees[-1].functions  # all of the recording, by id

        def ends_idle(stack: Sequence[int]) -> bool:
            return is_idle([functions[each] for each in stack])

        steps = [
            StackStep(
                step.verb,
                frozenset(chosen.get(step.target, ())),
                self._shaper.box(step.target) if step.verb is Verb.FOLD else -1,
                ends_idle if step.verb is Verb.NO_IDLE else None,
            )
            for step in in_order(self._shape)
            if step.verb is not Verb.CHAINS
        ]
        return partial(shaped, steps=steps)


def shaping_of(recording: Recording, steps: str, tree: CallTree | None = None) -> Shaping | None:
    """Return the shape that some steps mean; None for none.

    Args:
        recording: what is shaped.
        steps: as in a link of the page.
        tree: each step has to mean a function of this tree; None: they need not.

    Raises:
        UsageError: a step cannot be understood, or means nothing.
    """
    if not steps:
        return None
    names = FunctionNames(lambda: recording.functions)
    shaper = Shaper(recording, names)
    try:
        shape = parse_shape(steps)
        means = shaper.means(TreeIndex(tree), shape) if tree is not None else ()
    except (ShapeError, SearchError) as error:
        raise UsageError(f"--shape: {error}", "copy the steps from a link of the page") from error
    for step, has_meaning in zip(shape.steps, means, strict=False):
        if not has_meaning:
            raise UsageError(
                f"--shape: the recording has no function {_name(step.target)}",
                "a function is NAME or NAME@MODULE; ?TEXT is each whose name has the text",
            )
    return ShapedExport(shaper, shape)


def _name(target: str) -> str:
    """Return the target of a step in words."""
    if target.startswith("?"):
        return f"“{plain(target[1:])}”"
    if target.startswith("="):
        return ORIGINS[target[1:]]
    if target.startswith("@"):
        return plain(target[1:])
    return plain(split(target, "@")[0])
