"""Define which of the agent's counters are losses, and explain each one to users.

Terminal, page and exports all use this definition. ``web/static/model/losses.js`` repeats
``LOSSES`` for the page; ``tests/unit/wire/test_counters.py`` compares the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Counter:
    """A counter of ``abi.h`` with its explanation.

    ``name`` is one of ``abi.COUNTER_NAMES`` or ``HOST_COUNTERS``, ``label`` a plural noun,
    ``meaning`` a sentence.
    """

    name: str
    label: str
    meaning: str


# Losses of the host: ``Profile.losses`` counts them, not the agent.
HOST_COUNTERS = ("stacks_full", "threads_full", "modules_full", "intervals_merged")
# Data that the recording lacks for good, worst first. ``ring_full`` is not included: it counts the
# batches whose samples ``intervals_lost`` counts, and nothing is counted twice.
LOSSES = (
    Counter("intervals_lost", "Samples dropped", "Their time is missing."),
    Counter(
        "threads_lost",
        "Threads not watched",
        "More threads at once than can be watched; these are missing.",
    ),
    Counter(
        "traces_lost",
        "Stacks not kept",
        "The table of stacks was full; their time shows as [unattributed].",
    ),
    Counter(
        "stacks_full",
        "Samples whose stacks were not kept",
        "flametap's own table of stacks is full; their time shows as [stack table full].",
    ),
    Counter(
        "threads_full",
        "Samples of further threads",
        "flametap's own table of threads is full; their time shows as [more threads].",
    ),
    Counter(
        "modules_lost",
        "Files not told apart",
        "More different files were mapped than can be told apart; these have no names.",
    ),
    Counter(
        "modules_full",
        "Files not kept",
        "flametap's own table of files is full; functions in the others have no names.",
    ),
    Counter(
        "intervals_merged",
        "Samples kept as sums",
        "The recording is larger than the memory limit: moments in its oldest part are unknown.",
    ),
    Counter(
        "codes_lost",
        "Functions without a name",
        "The program had thrown them away before their names were read.",
    ),
    Counter(
        "records_lost",
        "Dropped messages about threads",
        "The names or ends of some threads found no room and may be missing.",
    ),
)
# Counter of samples that were due but not taken → the reason. Their time is added to the thread's
# next sample.
SKIPS = {
    "signals_late": "the signal before had not arrived yet",
    "parked_torn": "the thread woke up while its stack was read",
    "signal_blocked": "the thread blocks the signal",
    "small_stack": "the stack may have no room for a signal",
    "stray_stack": "the thread was on a stack of its own making",
    "fork_backoff": "a thread was forking",
    "samples_lost": "earlier samples of the thread were not fetched in time",
}


def losses(counters: Mapping[str, int]) -> dict[Counter, int]:
    """Return the counters of losses that are not 0, in the order of ``LOSSES``."""
    return {each: count for each in LOSSES if (count := counters.get(each.name, 0))}


def skips(counters: Mapping[str, int]) -> dict[str, int]:
    """Return the counters of skipped samples that are not 0, in the order of ``SKIPS``."""
    return {name: count for name in SKIPS if (count := counters.get(name, 0))}
