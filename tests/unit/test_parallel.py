"""How tests are dealt out: those said to be long or quiet exist; quiet ones are one unit, dealt out
last. And the lock that makes them so."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

import parallel
from long_tests import LONG, is_long

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.parametrize("entry", [*parallel.QUIET, *parallel.LONGEST, *parallel.EACH])
def test_what_is_listed_exists(entry: str) -> None:
    file, _, test = entry.partition("::")
    assert (ROOT / file).exists()
    assert not test or f"\ndef {test}(" in (ROOT / file).read_text("utf-8")


def test_long_tests_exist() -> None:
    assert LONG
    for file, tests in LONG.items():
        text = (ROOT / file).read_text("utf-8")
        for test in tests:
            name = test.partition("[")[0].rpartition("::")[2]
            assert f"def {name}(" in text, f"{file}::{test}"
            assert is_long(f"{file}::{test}")
            assert "[" in test or not is_long(f"{file}::{test}_more")


def test_units_and_their_order() -> None:
    file, scenarios = "tests/unit/test_a.py", "tests/stress/test_stress.py::test_scenario"
    quiet = [f"{parallel.QUIET[0]}::test_b[x::y]", parallel.QUIET[-1]]
    assert {parallel.unit_of_work(test) for test in quiet} == {"quiet"}
    assert parallel.unit_of_work(f"{file}::test_b[x::y]") == file
    assert parallel.unit_of_work(f"{scenarios}[redis]") == f"{scenarios}[redis]"
    attach = "tests/integration/test_b.py::test_c"
    order = [f"{scenarios}[redis]", attach, f"{file}::test_b", f"{file}::test_a", *quiet]
    assert sorted([*quiet, *order[2:4], attach, order[0]], key=parallel.rank) == order


def test_quiet_tests_and_others_keep_each_other_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parallel, "LOCK", tmp_path / "lock")
    monkeypatch.setenv("PYTEST_XDIST_WORKER", "gw0")
    lock = parallel.open_lock(tmp_path / "lock")
    try:
        with parallel.turn("tests/unit/test_a.py::test_b"):
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            with pytest.raises(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.flock(lock, fcntl.LOCK_UN)
        with parallel.turn(parallel.QUIET[0]), pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.close(lock)


def test_lock_that_others_have_put_there_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "theirs").touch()
    (tmp_path / "link").symlink_to(tmp_path / "theirs")
    with pytest.raises(OSError, match="symbolic links"):
        parallel.open_lock(tmp_path / "link")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(PermissionError):
        parallel.open_lock(tmp_path / "pipe")
    lock = parallel.open_lock(tmp_path / "lock")
    os.close(lock)
    assert (tmp_path / "lock").stat().st_mode & 0o777 == 0o600
