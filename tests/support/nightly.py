"""The cases of a matrix that only ``make test-all`` runs; tests/README.md says which, and why."""

from __future__ import annotations

from typing import Any

import pytest


def nightly(*cases: Any) -> list[Any]:
    """Return cases for ``parametrize`` with the mark ``nightly``.

    Args:
        cases: values; of several parameters, tuples.
    """
    return [
        pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.nightly)
        for case in cases
    ]
