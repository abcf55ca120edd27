"""Join what recordings say of themselves: state, counters, notes, and where they were made. Pure.

Times and counters are added. Numbers that cannot be added become what holds for all: the highest
bound, the lowest rate.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...model import Clock, Status, SymbolSource
from ...wire.decoder import MAX_NS
from ..counters import added, fitting, summed
from ..figures import counted
from .parts import MERGED, NS_PER_S, Part, n_processes

_HELD = "bytes_held"


def merged_meta(metas: Sequence[Mapping[str, Any]], here: Mapping[str, Any]) -> dict[str, Any]:
    """Return where the parts were made.

    Args:
        metas: of the parts.
        here: by what they are merged.
    """
    made_s = [each["made_s"] for each in metas if isinstance(each.get("made_s"), (int, float))]
    places = {name: _joined(metas, name) for name in ("host", "system", "machine")}
    return {"flametap": here["flametap"], **places, "made_s": min(made_s, default=0.0)}


def list_of(parts: Sequence[Part]) -> dict[str, Any]:
    """Return the fact of ``META`` that lists the parts; of one that was merged, its own parts."""
    start_ns = min(part.between_ns[0] for part in parts)
    listed: list[dict[str, Any]] = []
    for part in parts:
        begin_ns = part.between_ns[0] - start_ns
        own = part.meta.get(MERGED)
        if isinstance(own, list) and all(map(_is_listed, own)):
            listed += [{**each, "start_ns": each["start_ns"] + begin_ns} for each in own]
            continue
        listed.append(
            {
                "command": part.status.command,
                "pid": part.status.pid,
                "host": part.host,
                "made_s": part.begun_s,
                "start_ns": begin_ns,
                "duration_ns": part.now_ns - part.start_ns,
            }
        )
    return {MERGED: listed}


def _is_listed(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    start_ns = value.get("start_ns")
    return isinstance(start_ns, int) and 0 <= start_ns < MAX_NS


def merged_status(
    parts: Sequence[Part], symbols: list[SymbolSource], notes: Sequence[str]
) -> Status:
    """Return the state of the whole.

    Args:
        parts: in order of time, placed.
        symbols: the sources of names of all modules.
        notes: on how they were merged.
    """
    states = [part.status for part in parts]
    spans = [part.between_ns for part in parts]
    duration_ns = max(end for _, end in spans) - min(begin for begin, _ in spans)
    recorded_ns = min(_union_ns(spans), sum(each.recorded_ns for each in states))
    processes = n_processes(parts)
    is_one = processes == 1
    begun = [part.begun_s for part in parts if part.begun_s]
    # Weighted by CPU time, which is what it is a rate of.
    cpu_ns = [sum(each.verdict_cpu_ns.values()) for each in states]
    taken = sum(each.effective_rate_hz * ns for each, ns in zip(states, cpu_ns, strict=True))
    return Status(
        pid=states[0].pid if is_one else 0,
        command=states[0].command if is_one else _commands(parts),
        program=states[0].program if is_one else _commands(parts),
        state="ended",
        started_s=min(begun, default=0.0),
        reason=f"merged from {counted(len(list_of(parts)[MERGED]), 'recording')}",
        engine=_same(each.engine for each in states),
        rate_hz=_lowest(each.rate_hz for each in states),
        look_rate_hz=_lowest(each.look_rate_hz for each in states),
        effective_rate_hz=taken / max(1, sum(cpu_ns)),
        asked_rate_hz=_lowest(each.asked_rate_hz for each in states),
        budget_ppm=max(each.budget_ppm for each in states),
        duration_ns=duration_ns,
        paused_ns=max(0, duration_ns - recorded_ns),
        revision=1,
        samples=fitting(sum(each.samples for each in states)),
        counters=_counters(parts),
        handler_p50_ns=max(each.handler_p50_ns for each in states),
        handler_p99_ns=max(each.handler_p99_ns for each in states),
        verdict_cpu_ns=added(each.verdict_cpu_ns for each in states),
        managed_verdict_cpu_ns=added(each.managed_verdict_cpu_ns for each in states),
        languages=list(dict.fromkeys(name for each in states for name in each.languages)),
        has_gil=any(each.has_gil for each in states),
        verdict_modules=_heaviest_first(added(each.verdict_modules for each in states)),
        symbols=symbols,
        symbols_pending=fitting(sum(each.symbols_pending for each in states)),
        is_final=True,
        processes=processes,
        notes=[*notes, *_own_notes(parts), *_limits(parts)],
        source=", ".join(dict.fromkeys(each.source for each in states if each.source)),
        clocks=_clocks_of_all(states),
        weights=states[0].weights,
        has_moments=all(each.has_moments for each in states),
    )


def _clocks_of_all(states: Sequence[Status]) -> list[str]:
    """Return the clocks that all parts have; empty for all clocks."""
    if not any(each.clocks for each in states):
        return []
    return [clock.value for clock in Clock if all(each.has_clock(clock) for each in states)]


def _counters(parts: Sequence[Part]) -> dict[str, int]:
    found = summed([part.status.counters for part in parts])
    if _HELD in found:
        held: dict[int, int] = {}  # by process: one recording after another
        for part in parts:
            size = part.status.counters.get(_HELD, 0)
            held[part.process] = max(size, held.get(part.process, 0))
        found[_HELD] = fitting(sum(held.values()))
    return found


def _heaviest_first(weights: dict[str, int]) -> dict[str, int]:
    return dict(sorted(weights.items(), key=lambda each: -each[1]))


def _lowest(rates: Iterable[float]) -> float:
    return min((float(each) for each in rates if each > 0), default=0.0)


def _same(words: Iterable[str]) -> str:
    found = set(words)
    return found.pop() if len(found) == 1 else ""


def _joined(metas: Sequence[Mapping[str, Any]], name: str) -> str:
    return " + ".join(dict.fromkeys(str(each[name]) for each in metas if each.get(name)))


def _commands(parts: Sequence[Part]) -> str:
    return " + ".join(dict.fromkeys(part.label or part.status.command for part in parts))


def _own_notes(parts: Sequence[Part]) -> list[str]:
    notes = [
        f"{part.label}: {note}" if part.label and MERGED not in part.meta else note
        for part in parts
        for note in part.status.notes
    ]
    return list(dict.fromkeys(notes))


def _limits(parts: Sequence[Part]) -> list[str]:
    """Say what of the whole is less exact than that of its parts."""
    notes = []
    rates = sorted({part.status.rate_hz for part in parts if part.status.rate_hz > 0})
    if len(rates) > 1:
        listed = ", ".join(f"{each:g} Hz" for each in rates)
        notes.append(f"the recordings have different rates ({listed}): chance is that of the least")
    with_gil = [part for part in parts if part.status.has_gil]
    if len({part.process for part in with_gil}) > 1 and _overlap(with_gil):
        notes.append(
            "several processes have a GIL: who held it while others waited for it is right in their"
            " own recordings only"
        )
    return notes


def _overlap(parts: Sequence[Part]) -> bool:
    spans = [part.between_ns for part in parts]
    return _union_ns(spans) < sum(end - begin for begin, end in spans)


def _union_ns(spans: Sequence[tuple[int, int]]) -> int:
    """Return how much time lies in at least one of some spans."""
    total_ns, until_ns = 0, 0
    for begin, end in sorted(spans):
        total_ns += max(0, end - max(begin, until_ns))
        until_ns = max(until_ns, end)
    return total_ns


def title_of(part: Part) -> str:
    """Name a part for a note: its process, and when it was made."""
    return f"{part.label or part.path} ({(part.now_ns - part.start_ns) / NS_PER_S:.2f} s)"
