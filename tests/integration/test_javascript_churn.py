"""A JavaScript program that makes scripts and throws them away, while its heap is collected."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from flametap.model import Clock, Frame, FrameKind
from nightly import nightly
from recording import complete_share, record
from running import Target

pytestmark = [pytest.mark.needs("attach"), pytest.mark.needs("node")]

CHURN = Path(__file__).parents[1] / "targets" / "churn.js"
SMALL = "--max-semi-space-size=1"
SECONDS, LONG_S = 0.5, 60.0
CPU_S = 0.8
LINES = 9  # of a script
LEAST_PAIRS, LEAST_MADE = 10, 20  # it is hundreds
UNKNOWN = "[unknown JavaScript function]"


def wrong(frames: list[Frame]) -> list[Frame]:
    """Frames of a stack with a place of another script, or below one of another; root first.

    A file or a line may be missing, and so may the caller's name.
    """
    found = []
    outer = ""
    for frame in frames:
        function = frame.function
        made = re.fullmatch(r"(?:outer|(inner))_(\d+)", function.name)
        in_script = re.fullmatch(r"made_(\d+)\.js", function.file)
        number = made[2] if made else in_script[1] if in_script else outer
        is_right = not function.file or function.file == f"made_{number}.js" or not made
        if in_script and frame.line:
            first = int(number) % 1000 + 1
            is_right &= first <= frame.line < first + LINES
        if made and not made[1]:
            outer = number
        if not is_right or (outer and number != outer):
            found.append(frame)
    return found


@pytest.mark.parametrize(
    ("version", "options", "seconds"),
    [
        ("node", ("--expose-gc", SMALL), SECONDS),
        *nightly(
            ("node", ("--expose-gc", SMALL), LONG_S),
            ("node", ("--stress-compaction", SMALL), LONG_S),
            ("node", ("--stress-compaction-random", "--always-sparkplug"), LONG_S),
            ("node16", ("--expose-gc", "--stress-compaction", SMALL), LONG_S),
            ("node18", ("--expose-gc", "--stress-compaction", SMALL), LONG_S),
            ("node22", ("--expose-gc", "--stress-compaction", SMALL, "--maglev"), LONG_S),
            ("node24", ("--expose-gc", "--stress-compaction", SMALL), LONG_S),
        ),
    ],
)
def test_functions_that_live_for_milliseconds_never_have_the_name_of_others(
    adopt: Callable[[Target], Target],
    require_capability: Callable[[str], str],
    version: str,
    options: tuple[str, ...],
    seconds: float,
) -> None:
    target = adopt(Target([require_capability(version), *options, CHURN]))
    capture = record(target.pid, seconds, rate_hz=1000.0, cpu_s=CPU_S)
    trie = capture.profile.trie()
    weights = capture.profile.leaf_weights(Clock.CPU)
    pairs = lost = 0
    for node, weight in zip(weights.node.tolist(), weights.weight.tolist(), strict=True):
        frames: list[Frame] = []
        while node > 0:
            address = int(trie.address[node])
            if address >= 0:
                frames += capture.names.frames(address)[::-1]
            node = int(trie.parent[node])
        frames.reverse()
        assert wrong(frames) == [], frames
        names = " ".join(frame.function.name for frame in frames)
        pairs += re.search(r"\bouter_\d+ inner_\d+", names) is not None
        lost += weight * any(
            frame.function.name == UNKNOWN
            or (frame.function.kind is FrameKind.JAVASCRIPT and not frame.function.file)
            for frame in frames
        )
    assert pairs > LEAST_PAIRS
    print(f"{pairs} pairs, {lost / weights.weight.sum():.2%} without a name or file")
    assert complete_share(capture) > 0.999
    (report,) = target.finish()
    assert int(report.removeprefix("made ")) > LEAST_MADE, report
    assert target.errors == []
