"""Keep what was read of V8's code, for pieces of the same functions that could not. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .code import CodePlaces
from .functions import SharedFunction
from .identity import CodeKey, FunctionKey

_MAX_CODES = 1 << 18


class KeptCodes:
    """What was read, by what it is known by; and what could not be read, until it can."""

    def __init__(self) -> None:
        self._functions: dict[FunctionKey, SharedFunction] = {}
        self._places: dict[CodeKey, CodePlaces] = {}
        self._missing: dict[FunctionKey, dict[int, CodeKey]] = {}  # by code id
        self._missing_count = 0

    def add(
        self, code_id: int, keys: Sequence[CodeKey], places: CodePlaces | None
    ) -> dict[int, CodePlaces]:
        """Add a piece of code; ``places`` is None if it could not be read.

        Returns:
            What codes are, by their ids, that could not be read before.
        """
        earlier: dict[int, CodePlaces] = {}
        for key in keys:
            if places is None:
                self._miss(code_id, key)
                continue
            if len(self._places) < _MAX_CODES:
                self._functions[key.function] = places.function
                self._places[key] = places
            missing = self._missing.pop(key.function, {})
            self._missing_count -= len(missing)
            for each, kept in missing.items():
                if each != code_id:
                    earlier[each] = places if kept == key else CodePlaces(places.function, None)
        return earlier

    def _miss(self, code_id: int, key: CodeKey) -> None:
        if key.function not in self._functions and self._missing_count < _MAX_CODES:
            waiting = self._missing.setdefault(key.function, {})
            self._missing_count += code_id not in waiting
            waiting[code_id] = key

    def places(self, keys: Iterable[CodeKey]) -> CodePlaces | None:
        """Return the places of a piece of code, without lines if only its function is known.

        None if that is not known either.
        """
        keys = list(keys)
        for key in keys:
            if key in self._places:
                return self._places[key]
        functions = (self._functions.get(key.function) for key in keys)
        function = next((each for each in functions if each is not None), None)
        return None if function is None else CodePlaces(function, None)
