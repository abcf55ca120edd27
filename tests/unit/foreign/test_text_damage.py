"""Damaged files in text: each is read or refused, whatever is changed in it."""

from __future__ import annotations

import random

import pytest

from flametap.errors import InputError
from foreign_readers import FOREIGN_READERS
from foreign_text import TEXTS, read, start_of
from host_fuzzing import make_input

INPUTS = 30


@pytest.mark.parametrize("name", TEXTS)
def test_damage_is_read_or_refused(name: str) -> None:
    reader, seeds, n_read = FOREIGN_READERS["foreign-text"], [start_of(name)], 0
    for number in range(INPUTS):
        data, message = make_input(name, reader, seeds, 1, number), ""
        try:
            read(data)
        except InputError as error:
            message = error.message
        assert "\n" not in message
        n_read += not message
    assert n_read > 0


@pytest.mark.parametrize("seed", range(3))
def test_garbage_is_refused(seed: int) -> None:
    with pytest.raises(InputError):
        read(random.Random(seed).randbytes(5000))
