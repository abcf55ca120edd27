"""Damaged files in JSON: each is read or refused, whatever is changed in it."""

from __future__ import annotations

import io
import random
from pathlib import Path

import pytest

from flametap.errors import InputError
from flametap.foreign.opening import read_foreign
from foreign_readers import damaged_json, json_seeds

INPUTS = 25
SEEDS = json_seeds(Path())


@pytest.mark.parametrize("seed", range(len(SEEDS)))
def test_damage_is_read_or_refused(seed: int) -> None:
    choose, n_refused = random.Random(seed), 0
    for _ in range(INPUTS):
        data = damaged_json(choose, SEEDS[seed : seed + 1])
        message = ""
        try:
            read_foreign(io.BytesIO(data), "x")
        except InputError as error:
            message = error.message
        assert "\n" not in message
        n_refused += bool(message)
    assert 0 < n_refused < INPUTS
