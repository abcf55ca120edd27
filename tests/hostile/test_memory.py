"""A target that fills the recorder's memory: the limits hold, what exceeds them is counted and
shown, and all time is in the views.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import flood
from flametap.recording.profile.budget import INTERVALS_BYTES, TABLES_BYTES
from nightly import nightly

SMALL_TABLES_BYTES, SMALL_INTERVALS_BYTES = 64 << 20, 8 << 20
# One batch as the ring has it, decoded, and as columns.
BATCH_BYTES = 96 << 20
# What each flood shows as lost, in the end.
LOST = {
    "addresses": "stacks_full",
    "stacks": "stacks_full",
    "trace ids": "stacks_full",
    "threads": "threads_full",
    "hidden threads": "threads_full",
    "cells": "stacks_full",
    "modules": "modules_full",
    "intervals": "intervals_merged",
}
# All hidden threads that there are numbers for have room.
IN_USE = [kind for kind in flood.KINDS if kind != "hidden threads"]


def run(kind: str, tables_bytes: int, intervals_bytes: int, rounds: int) -> dict[str, Any]:
    """Have a process of its own recorded; returns what ``flood.py`` prints."""
    command = [sys.executable, flood.__file__, kind]
    numbers = [str(number) for number in (tables_bytes, intervals_bytes, rounds)]
    environment = os.environ | {"PYTHONPATH": str(Path(flood.__file__).parent)}
    done = subprocess.run(
        [*command, *numbers], capture_output=True, text=True, env=environment, timeout=600
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def check(found: dict[str, Any], limit_bytes: int) -> None:
    assert found["viewed"] < limit_bytes + BATCH_BYTES, found
    times = (found["total_ns"], found["tree_ns"], found["self_ns"])
    assert times == 3 * (found["expected_ns"],), found


@pytest.mark.parametrize("kind", flood.KINDS)
def test_memory_has_a_limit_and_no_time_is_lost(kind: str) -> None:
    rounds = 100 if kind == "intervals" else 40
    found = run(kind, SMALL_TABLES_BYTES, SMALL_INTERVALS_BYTES, rounds)
    assert found["losses"].get(LOST[kind]), found
    check(found, SMALL_TABLES_BYTES + SMALL_INTERVALS_BYTES)


@pytest.mark.parametrize("kind", [*nightly(*IN_USE)])
def test_limits_in_use_hold(kind: str) -> None:
    rounds = 1500 if kind == "intervals" else 300
    found = run(kind, TABLES_BYTES, INTERVALS_BYTES, rounds)
    assert found["losses"].get(LOST[kind]), found
    check(found, TABLES_BYTES + INTERVALS_BYTES)
