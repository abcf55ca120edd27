"""Tests that take long for what each change has to pass: ``conftest.py`` marks them ``nightly``.

They stand in ``long_tests.txt``. Each kind has shorter tests that remain in ``make test``; these
are of another program, another version or a longer wait. Measured on two cores: some two seconds
or more.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path


def _read(path: Path) -> dict[str, tuple[str, ...]]:
    """Return file → tests; of one case of a parametrized test, the begin of its id."""
    tests: defaultdict[str, list[str]] = defaultdict(list)
    file = ""
    for line in path.read_text("utf-8").splitlines():
        entry = line.strip()
        if entry.startswith("#") or not entry:
            continue
        if line == entry:
            file = entry.removesuffix(":")
        else:
            tests[file].append(entry)
    return {file: tuple(names) for file, names in tests.items()}


LONG = _read(Path(__file__).with_suffix(".txt"))


def is_long(node_id: str) -> bool:
    """Return True for a test of the list, by its id in pytest."""
    file, _, test = node_id.partition("::")
    return any(
        test == entry or test.startswith(entry if "[" in entry else f"{entry}[")
        for entry in LONG.get(file, ())
    )
