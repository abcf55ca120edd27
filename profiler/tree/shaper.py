"""Steps of a shape in requests, and the functions that they mean.

``shape=`` has steps with ``;`` between them: ``VERB`` or ``VERB:TARGET`` (``Verb`` lists them). A
target is a function (``malloc@libc.so.6``, see ``spelling``), all of a module (``@libc.so.6``), of
an origin (``=library``), or those that a search finds (``?re:^std::``).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ..model import FrameKind, Function
from ..recording.recording import Recording
from .name_order import NameOrder, Order
from .search import compile_search
from .shape import TARGETED, ChosenOf, Shape, Step, Verb, arrange, turned
from .spelling import FunctionNames, plain, split
from .tree_search import match_functions
from .tree_view import TreeIndex

MAX_STEPS = 32
MAX_CHARACTERS = 8192
ORIGINS = {
    "project": "your code",
    "library": "libraries",
    "stdlib": "standard library",
    "native": "native code",
    "kernel": "kernel",
}


class ShapeError(ValueError):
    """A step cannot be understood. The message is one line for the user."""


def parse_shape(text: str) -> Shape:
    """Parse the steps of a request.

    Raises:
        ShapeError: a step is no step.
    """
    if not text:
        return Shape()
    parts = split(text, ";")
    if len(parts) > MAX_STEPS or len(text) > MAX_CHARACTERS:
        raise ShapeError(f"shape has more than {MAX_STEPS} steps, or is too long")
    return Shape(tuple(map(_parse_step, parts)))


def _parse_step(text: str) -> Step:
    word, _, target = text.partition(":")
    try:
        verb = Verb(word)
    except ValueError:
        raise ShapeError(f"shape has steps {', '.join(each.value for each in Verb)}") from None
    if (verb in TARGETED) != bool(target):
        needs = "needs a target" if verb in TARGETED else "takes no target"
        raise ShapeError(f"the step {verb.value} {needs}")
    if target.startswith("=") and target[1:] not in ORIGINS:
        raise ShapeError(f"an origin is one of {', '.join(ORIGINS)}")
    return Step(verb, target)


class Shaper:
    """Shapes trees of one recording."""

    def __init__(self, recording: Recording, names: FunctionNames) -> None:
        self._recording = recording
        self._names = names
        self._order = NameOrder()

    def order(self) -> Order:
        """Return the order of the functions that there are now."""
        return self._order.of(self._recording.functions)

    def arranged(self, index: TreeIndex, shape: Shape, chosen: ChosenOf | None = None) -> TreeIndex:
        """Return a tree after the steps that leave its root at the top.

        Args:
            index: the tree.
            shape: the steps.
            chosen: finds the functions of a target, instead of ``chosen``.
        """
        if not shape.filters.steps or index.node_count == 1:
            return index
        for step in shape.steps:
            if step.verb is Verb.FOLD:
                self.box(step.target)  # before the order is made
        return TreeIndex(arrange(index, shape, self.order(), chosen or self.chosen, self.box))

    def turned(self, index: TreeIndex, step: Step, path: Sequence[frozenset[int]]) -> TreeIndex:
        """Return a tree turned over, expanded along a path."""
        if index.node_count == 1:
            return index
        return TreeIndex(turned(index, step, self.order(), self.chosen, path))

    def means(self, index: TreeIndex, shape: Shape) -> tuple[bool, ...]:
        """Return for each step whether it means a function of a tree, or needs none."""
        used = set(index.used_functions)
        return tuple(
            step.verb not in TARGETED or not used.isdisjoint(self.chosen(index, step.target))
            for step in shape.steps
        )

    def chosen(self, index: TreeIndex, target: str) -> Collection[int]:
        """Find the functions of a target that a tree may have.

        Raises:
            SearchError: the target is a search that cannot be done.
        """
        functions, used = index.tree.functions, index.used_functions
        if target.startswith("?"):
            matches = match_functions(index.tree, compile_search(plain(target[1:])))
            return [at for at in used if matches[at]]
        if target.startswith("="):
            return _of_origin(index, target[1:])
        if target.startswith("@"):
            module = plain(target[1:])
            return [at for at in used if functions[at].module == module]
        return self._names.ids(target)

    def box(self, target: str) -> int:
        """Return the function that stands for the functions of a target."""
        module = ""
        if target.startswith("@"):
            name = module = plain(target[1:])
        elif target.startswith("="):
            name = ORIGINS[target[1:]]
        else:
            name = plain(target.lstrip("?"))
        return self._recording.function_id(Function(f"[{name}]", module, kind=FrameKind.FOLDED))


def _of_origin(index: TreeIndex, origin: str) -> list[int]:
    functions = index.tree.functions
    if origin == "kernel":
        return [at for at in index.used_functions if functions[at].kind is FrameKind.SYSCALL]
    kinds = (FrameKind.SYSCALL, FrameKind.SYNTHETIC)
    same = {"native": ("native", "interpreter")}.get(origin, (origin,))
    used = [at for at in index.used_functions if functions[at].kind not in kinds]
    return [at for at in used if index.origin(at) in same]
