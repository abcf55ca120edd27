"""Recordings of a made-up program whose functions have chosen shares of the time."""

from __future__ import annotations

import numpy as np

import wire
from flametap.model import Frame, Function, Status
from flametap.recording.profile.store import Profile
from flametap.recording.recording import Recording
from profiles import apply
from python_profiles import named
from recordings import recorded

FUNCTIONS = ("main", "parse", "match", "emit", "sort", "hash")
SAMPLES = 4_000
SAMPLE_NS = 10_000_000
START_NS = 10**9


def program(
    shares: dict[str, float],
    seed: int,
    *,
    folder: str = "/src",
    bursts: int = 1,
    is_sorted: bool = False,
) -> Recording:
    """A recording in which the functions that main calls have some shares, but for chance.

    Args:
        shares: relative ones.
        seed: of chance.
        folder: of the source files.
        bursts: of so many samples in a row, all are of one function.
        is_sorted: one function runs after the other.
    """
    profile = Profile()
    profile.keep_new()  # for a file
    places = [wire.frame(1, 0x1000 * at) for at in range(1, len(FUNCTIONS) + 1)]
    weights = np.array([shares.get(each, 1.0) for each in FUNCTIONS[1:]])
    drawn = np.random.default_rng(seed).choice(
        len(weights), -(-SAMPLES // bursts), p=weights / weights.sum()
    )
    stacks = np.repeat(drawn, bursts)[:SAMPLES] + 1
    if is_sorted:
        stacks.sort()
    apply(
        profile,
        START_NS + SAMPLES * SAMPLE_NS,
        modules=[wire.module(1, "/opt/prog")],
        threads=[wire.thread(1, 7, "main")],
        traces=[wire.trace(at, [places[at], places[0]]) for at in range(1, len(places))],
        intervals=[
            wire.interval(1, stack, START_NS + at * SAMPLE_NS, SAMPLE_NS, SAMPLE_NS)
            for at, stack in enumerate(stacks.tolist())
        ],
    )
    names = {
        place: [Frame(Function(name, "prog", f"{folder}/{name}.c"), 3)]
        for place, name in zip(places, FUNCTIONS, strict=True)
    }
    status = Status(7, "/opt/prog", "ended", rate_hz=100.0, duration_ns=profile.duration_ns)
    return recorded(profile, named(profile, names), status)
