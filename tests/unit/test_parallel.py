"""How tests are dealt out to workers: what is said to be quiet exists, and is one unit, dealt out
last."""

from __future__ import annotations

import parallel


def test_what_is_quiet_exists() -> None:
    for entry in parallel.QUIET:
        assert (parallel.TESTS.parent / entry).exists(), entry


def test_units_and_their_order() -> None:
    file, scenario = "tests/unit/test_a.py", "tests/stress/test_stress.py::test_scenario[redis]"
    quiet = [scenario, "tests/integration/test_a.py::test_b[x::y]"]
    assert {parallel.unit_of_work(test) for test in quiet} == {"quiet"}
    assert parallel.unit_of_work(f"{file}::test_b[x::y]") == file
    order = [f"{file}::test_b", f"{file}::test_a", *quiet]
    assert sorted([*quiet, *order[:2]], key=parallel.rank) == order
