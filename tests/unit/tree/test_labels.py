"""Labels of functions in text."""

from __future__ import annotations

import pytest

from flametap.model import FrameKind, Function
from flametap.tree.labels import label


@pytest.mark.parametrize(
    ("module", "file", "full_filenames", "expected"),
    [
        ("e/app.py", "/srv/e/app.py", False, "f (e/app.py:7)"),
        ("e/app.py", "/srv/e/app.py", True, "f (/srv/e/app.py:7)"),
        ("numba", "", False, "f (numba:7)"),
        ("numba", "", True, "f (numba:7)"),
        ("", "", False, "f (?:7)"),
    ],
)
def test_python_function_has_its_file(
    module: str, file: str, full_filenames: bool, expected: str
) -> None:
    function = Function("f", module, file, FrameKind.PYTHON)
    assert label(function, 7, full_filenames=full_filenames) == expected
    assert label(function, full_filenames=full_filenames) == expected.replace(":7", "")
