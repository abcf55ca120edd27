"""How tests are dealt out to workers: what is said to be quiet exists, and is one unit, dealt out
last."""

from __future__ import annotations

import parallel


def test_what_is_quiet_exists() -> None:
    for entry in parallel.QUIET:
        path, _, name = entry.partition("::")
        assert f"def {name or 'test_'}" in (parallel.TESTS.parent / path).read_text(), entry


def test_units_and_their_order() -> None:
    file, scenario = "tests/unit/test_a.py", "tests/stress/test_stress.py::test_scenario[redis]"
    quiet = [f"{entry}[1]" if "::" in entry else f"{entry}::test_b" for entry in parallel.QUIET]
    assert {parallel.unit_of_work(test) for test in quiet} == {"quiet"}
    assert parallel.unit_of_work(f"{file}::test_b[x::y]") == file
    assert parallel.unit_of_work(scenario) == scenario
    order = [f"{file}::test_b", f"{file}::test_a", scenario, *quiet]
    assert sorted([*quiet, scenario, *order[:2]], key=parallel.rank) == order
