"""Tell the agent and the symbolizer which interpreters the target has, at first and later on.

The agent is also told where compilers have registered their code for debuggers.

A thread looks: before sampling begins, whenever modules were loaded, and from time to time while an
interpreter is loaded that has not run anything yet. A hostile target may make a look wait for ever,
so nobody waits for it longer than ``FIRST_LOOK_S``.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence

from ..errors import FlametapError
from ..symbols.interpreters.found import FoundInterpreter
from ..symbols.interpreters.recipe import Recipe
from ..symbols.interpreters.search import Interpreters
from ..wire.abi import RECIPES_MAX, RUNTIME_REGISTERED

FIRST_LOOK_S = 1.0  # 3 to 30 ms for most programs
# Between two looks. A program that loads a hundred modules one by one is looked at a few times.
_REST_S = 0.1
# While an interpreter has not started. Doubled each time: one may be loaded and never used.
_RETRY_S, _MAX_RETRY_S = 0.2, 5.0
_CLOSE_TIMEOUT_S = 0.5


class InterpreterWatch:
    """Looks for interpreters as long as a recording runs.

    Args:
        interpreters: those of the target.
        set_recipes: gives all recipes to the agent; called in the thread, when they have changed.
        set_interpreters: gives what was found to the symbolizer, before that.
        find_lists: returns the runtime_addrs of the lists of registered code.
    """

    def __init__(
        self,
        interpreters: Interpreters,
        set_recipes: Callable[[Sequence[tuple[int, ...]]], None],
        set_interpreters: Callable[[Sequence[FoundInterpreter]], None],
        find_lists: Callable[[], Sequence[int]],
    ) -> None:
        self._interpreters = interpreters
        self._find_lists = find_lists
        self._set_recipes = set_recipes
        self._set_interpreters = set_interpreters
        self._recipes: list[tuple[int, ...]] = []
        self._registered: list[tuple[int, ...]] = []  # recipes of lists
        self._found: list[FoundInterpreter] = []
        self._wanted = threading.Event()
        self._closing = threading.Event()
        self._has_looked = threading.Event()
        self._thread = threading.Thread(
            target=self._loop, name="flametap-interpreters", daemon=True
        )

    def start(self) -> None:
        """Look once, and hand over what was found; returns after ``FIRST_LOOK_S`` at the latest."""
        self._thread.start()
        self._has_looked.wait(FIRST_LOOK_S)

    def look_again(self) -> None:
        """Have it look again soon: the target has loaded modules."""
        self._wanted.set()

    @property
    def notes(self) -> list[str]:
        """What the user should know about the interpreters, one line each."""
        return [each.note for each in self._found if each.note]

    def found(self) -> Sequence[FoundInterpreter]:
        """Return the interpreters that are known now."""
        return list(self._found)

    def close(self) -> None:
        """End the thread. Idempotent."""
        self._closing.set()
        self._wanted.set()
        if self._thread.is_alive():
            self._thread.join(_CLOSE_TIMEOUT_S)

    def _loop(self) -> None:
        retry_s = _RETRY_S
        while not self._closing.is_set():
            self._wanted.clear()
            self._look()
            self._has_looked.set()
            self._look_for_lists()
            self._give_recipes()
            self._closing.wait(_REST_S)
            if self._interpreters.is_settled:
                retry_s = _RETRY_S
                self._wanted.wait()
            elif self._wanted.wait(retry_s):
                retry_s = _RETRY_S
            else:
                retry_s = min(retry_s * 2, _MAX_RETRY_S)

    def _look(self) -> None:
        found = list(self._interpreters.look())
        if found != self._found:
            self._found = found
            self._set_interpreters(found)
        self._give_recipes()

    def _look_for_lists(self) -> None:
        """Some milliseconds for each large library: nobody waits for it."""
        self._registered = [
            Recipe({"runtime": RUNTIME_REGISTERED, "runtime_addr": place}).words()
            for place in self._find_lists()
        ]

    def _give_recipes(self) -> None:
        recipes = [*self._interpreters.recipes(), *self._registered][:RECIPES_MAX]
        if recipes != self._recipes:
            self._recipes = recipes
            with contextlib.suppress(FlametapError):  # the attach is over
                self._set_recipes(recipes)
