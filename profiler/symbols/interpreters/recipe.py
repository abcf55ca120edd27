"""Describe an interpreter to the agent: numbers by name, and as the words of ``enum recipe``.

HotSpot's are those of ``enum hotspot_recipe``, V8's those of ``enum v8_recipe``, Ruby's also
those of ``enum ruby_recipe``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...wire.abi import (
    ABSENT,
    HOTSPOT_RECIPE_NAMES,
    RECIPE_NAMES,
    RECIPE_WORDS,
    RUBY_RECIPE_NAMES,
    RUNTIME_HOTSPOT,
    RUNTIME_RUBY,
    RUNTIME_V8,
    V8_RECIPE_NAMES,
)

_NAMES_OF = {
    RUNTIME_HOTSPOT: HOTSPOT_RECIPE_NAMES,
    RUNTIME_V8: V8_RECIPE_NAMES,
    RUNTIME_RUBY: RUBY_RECIPE_NAMES,
}


@dataclass(frozen=True)
class Recipe:
    """One interpreter: addresses, and offsets in bytes, by the names of ``abi.RECIPE_NAMES``.

    By those of ``abi.HOTSPOT_RECIPE_NAMES``, ``V8_RECIPE_NAMES`` and ``RUBY_RECIPE_NAMES`` where
    ``runtime`` says so.

    What a version lacks is not among them. For a name that is no word of a recipe, the constructor
    raises ValueError.
    """

    numbers: Mapping[str, int]

    def __post_init__(self) -> None:
        unknown = self.numbers.keys() - set(self._names)
        if unknown:
            raise ValueError(f"no words of a recipe: {', '.join(sorted(unknown))}")

    @property
    def _names(self) -> tuple[str, ...]:
        return _NAMES_OF.get(self.numbers.get("runtime", 0), RECIPE_NAMES)

    def __getitem__(self, name: str) -> int:
        """Return one number.

        Raises:
            KeyError: this version lacks it.
        """
        return self.numbers[name]

    def __contains__(self, name: str) -> bool:
        """Return whether the version has it."""
        return name in self.numbers

    def words(self) -> tuple[int, ...]:
        """Return all words in the order of its enum, ``ABSENT`` where there is nothing."""
        rest = (ABSENT,) * (RECIPE_WORDS - len(self._names))
        return tuple(self.numbers.get(name, ABSENT) for name in self._names) + rest
