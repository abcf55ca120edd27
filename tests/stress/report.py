"""Results as text: a line for each run while they come in, a table with sums at the end.

``python tests/stress/report.py FILE …`` prints the table of result files.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

from flametap.wire.counters import LOSSES
from result import FINDING, SKIPPED, Result, read_results
from tally import Tally

# Title, and the counters whose sum stands under it.
COLUMNS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("ticks", ("ticks",)),
    ("signals", ("signals_sent",)),
    ("repaired", ("eintr_repaired",)),
    ("unrep.", ("eintr_unrepairable",)),
    ("late", ("signals_late",)),
    ("lost", (*(each.name for each in LOSSES), "signals_failed")),
    ("parked", ("parked_reads",)),
    ("forks", ("fork_backoff",)),
    ("gaps", ("gaps",)),
)


def progress(result: Result) -> str:
    """One line, and one more for each finding."""
    tally = result.tally
    line = (
        f"{result.at[11:]} {result.scenario}: {result.verdict}, {tally.sampled_s:.1f} s sampled in "
        f"{tally.recordings} recordings, {tally.samples} samples, took {result.took_s:.1f} s"
    )
    return "\n".join([line, *(f"    {finding}" for finding in result.findings)])


def table(results: list[Result]) -> str:
    """One row per scenario, over all its runs, one for the total; facts and findings below."""
    header = ["scenario", "runs", "sampled s", "samples", *(title for title, _ in COLUMNS)]
    header += ["p50 us", "p99 us", "max us", "verdict"]
    rows, everything = [header], Tally()
    by_name: dict[str, list[Result]] = {}
    for result in results:
        by_name.setdefault(result.scenario, []).append(result)
    for name, runs in by_name.items():
        tally = Tally()
        for run in runs:
            tally.merge(run.tally)
        everything.merge(tally)
        verdicts = Counter(run.verdict for run in runs)
        rows.append(_row(name, len(runs), tally, " ".join(f"{v} {n}" for v, n in verdicts.items())))
    findings = sum(result.verdict == FINDING for result in results)
    rows.append(_row("total", len(results), everything, f"{findings} findings"))
    return "\n".join([*_aligned(rows), *_facts(by_name), *_findings(results), _sums(everything)])


def _row(name: str, runs: int, tally: Tally, verdict: str) -> list[str]:
    counters = (sum(tally.counters[n] for n in names) for _, names in COLUMNS)
    return [
        name,
        str(runs),
        f"{tally.sampled_s:.1f}",
        str(tally.samples),
        *(str(value) for value in counters),
        f"{tally.handler_ns(0.5) / 1000:.2f}",
        f"{tally.handler_ns(0.99) / 1000:.2f}",
        f"{tally.counters['handler_ns_max'] / 1000:.0f}",
        verdict,
    ]


def _aligned(rows: list[list[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    last = len(widths) - 1
    return [
        "  ".join(
            cell.ljust(width) if column in (0, last) else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _facts(by_name: dict[str, list[Result]]) -> list[str]:
    lines = []
    for name, runs in by_name.items():
        facts: dict[str, float] = {}
        for run in runs:
            for fact, value in run.facts.items():
                facts[fact] = max(value, facts.get(fact, value))
        if facts:
            lines.append(f"{name}: " + ", ".join(f"{k} {v:.4g}" for k, v in facts.items()))
    return ["", *lines] if lines else []


def _findings(results: list[Result]) -> list[str]:
    lines = []
    for result in results:
        if result.verdict == FINDING:
            lines.append(f"{result.scenario} (seed {result.seed}, {result.commit}, {result.at}):")
            lines += [f"    {finding}" for finding in result.findings]
        elif result.verdict == SKIPPED:
            lines.append(f"{result.scenario}: skipped, {', '.join(result.findings)}")
    return ["", *lines] if lines else []


def _sums(tally: Tally) -> str:
    lines = [
        f"recordings {tally.recordings}, slowest attach {tally.attach_s_max:.2f} s, slowest stop "
        f"{tally.stop_s_max:.2f} s; CPU time {tally.cpu_s:.1f} s, in complete stacks "
        f"{tally.complete_cpu_s / tally.cpu_s if tally.cpu_s else 0:.2%}"
    ]
    lines += [f"    {name} {value}" for name, value in sorted(tally.counters.items()) if value]
    return "\n".join(["", *lines])


if __name__ == "__main__":
    print(table([result for path in sys.argv[1:] for result in read_results(Path(path))]))
