"""Describe an interpreter to the agent: numbers by name, and as the words of ``enum recipe``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...wire.abi import ABSENT, RECIPE_NAMES, RECIPE_WORDS


@dataclass(frozen=True)
class Recipe:
    """One interpreter: addresses, and offsets in bytes, by the names of ``abi.RECIPE_NAMES``.

    What a version lacks is not among them. For a name that is no word of a recipe, the constructor
    raises ValueError.
    """

    numbers: Mapping[str, int]

    def __post_init__(self) -> None:
        unknown = self.numbers.keys() - set(RECIPE_NAMES)
        if unknown:
            raise ValueError(f"no words of a recipe: {', '.join(sorted(unknown))}")

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
        """Return all words in the order of ``enum recipe``, ``ABSENT`` where there is nothing."""
        rest = (ABSENT,) * (RECIPE_WORDS - len(RECIPE_NAMES))
        return tuple(self.numbers.get(name, ABSENT) for name in RECIPE_NAMES) + rest
