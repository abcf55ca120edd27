"""Describe an interpreter to the agent: numbers by name, and as the words of ``enum recipe``.

HotSpot's are those of ``enum hotspot_recipe``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...wire.abi import ABSENT, HOTSPOT_RECIPE_NAMES, RECIPE_NAMES, RECIPE_WORDS, RUNTIME_HOTSPOT


@dataclass(frozen=True)
class Recipe:
    """One interpreter: addresses, and offsets in bytes, by the names of ``abi.RECIPE_NAMES``.

    By those of ``abi.HOTSPOT_RECIPE_NAMES`` where ``runtime`` is ``RUNTIME_HOTSPOT``.

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
        is_hotspot = self.numbers.get("runtime") == RUNTIME_HOTSPOT
        return HOTSPOT_RECIPE_NAMES if is_hotspot else RECIPE_NAMES

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
