"""Place the recordings that are merged in one time.

Each recording has times of its machine's CLOCK_MONOTONIC. Those of one machine since its start are
comparable, and stay as they are to each other; the others are placed by the time of day.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...wire.decoder import MAX_NS
from ..figures import duration
from .parts import NS_PER_S, Part

MAX_GAP_NS = 600 * NS_PER_S  # without any recording; longer ones are shortened


def place(part: Part, before: Sequence[Part]) -> str:
    """Set the process of a part, and what is added to its times.

    Args:
        part: it.
        before: the parts before it, which are placed.

    Returns:
        A note on what is not certain about its place; "" if there is nothing.
    """
    same = next((each for each in before if part.is_of_process_of(each)), None)
    part.process = len(before) if same is None else same.process
    if not before:
        return ""
    for other in before:
        if part.has_clock_of(other):
            part.shift_ns = other.shift_ns
            return _overlap_note(part, before)
    first = before[0]
    if part.begun_s and first.begun_s:
        shift_ns = part.offset_ns - first.offset_ns + first.shift_ns
        if part.now_ns + shift_ns < MAX_NS:
            part.shift_ns = shift_ns
            if part.host == first.host:
                return ""
            return (
                f"placed by the time of day of {part.host or 'its machine'}, which may differ from"
                f" that of {first.host or 'the first'}"
            )
    part.shift_ns = first.start_ns + first.shift_ns - part.start_ns
    return "when it was made is not known: it begins with the first one"


def settle(parts: Sequence[Part]) -> str:
    """Shift parts so that no time is before 1, and long times without any recording are short.

    The page shows all time from the first moment to the last: two seconds of two days would be two
    thin lines, and sums by time would take memory for the days between.

    Returns:
        A note on what was left out; "" if nothing was.
    """
    longest_ns = max(MAX_GAP_NS, *(part.now_ns - part.start_ns for part in parts))
    moved_ns = max(0, 1 - min(part.between_ns[0] for part in parts))
    left_out_ns = until_ns = 0
    for part in sorted(parts, key=lambda part: part.between_ns):
        start_ns, end_ns = part.between_ns
        if until_ns and start_ns - until_ns > longest_ns:
            left_out_ns += start_ns - until_ns - longest_ns
        until_ns = max(until_ns, end_ns)
        part.shift_ns += moved_ns - left_out_ns
    if not left_out_ns:
        return ""
    return f"{duration(left_out_ns / NS_PER_S)} in which nothing was recorded are left out"


def _overlap_note(part: Part, before: Sequence[Part]) -> str:
    start_ns, end_ns = part.between_ns
    for other in before:
        if other.process == part.process and other.between_ns[1] > start_ns:
            both_ns = min(end_ns, other.between_ns[1]) - start_ns
            return f"{both_ns / NS_PER_S:.2f} s of it count twice: two recordings have them"
    return ""
