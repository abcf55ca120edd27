"""One definition of what counts as a loss, for terminal, page and exports."""

from __future__ import annotations

import json
from importlib.resources import files

from flametap.wire.abi import COUNTER_NAMES
from flametap.wire.counters import HOST_COUNTERS, LOSSES, SKIPS, losses, skips

COUNTED_BY_ANOTHER = {"ring_full"}


def test_every_counter_of_something_lost_is_a_loss_or_a_skip() -> None:
    names = [*(each.name for each in LOSSES), *SKIPS]
    assert len(set(names)) == len(names)
    assert set(HOST_COUNTERS) <= set(names)
    assert set(names) <= {*COUNTER_NAMES, *HOST_COUNTERS} - COUNTED_BY_ANOTHER
    assert {name for name in COUNTER_NAMES if name.endswith("_lost")} <= set(names)


def test_only_what_occurred_is_told_in_order() -> None:
    counters = {"records_lost": 1, "modules_lost": 2, "ticks": 9, "signals_late": 3}
    found = [(each.name, n) for each, n in losses(counters).items()]
    assert found == [("modules_lost", 2), ("records_lost", 1)]
    assert skips(counters) == {"signals_late": 3}


def test_page_has_the_same_list() -> None:
    text = files("flametap.web").joinpath("static/model/losses.js").read_text("utf-8")
    _, _, found = text.partition("export const LOSSES = ")
    assert json.loads(found.rstrip().rstrip(";")) == [
        [each.name, each.label, each.meaning] for each in LOSSES
    ]
