"""Threads, libraries and code that come and go under the sampler's eyes."""

from __future__ import annotations

import re

from harness import Run, scenario


def _finish(target_report: list[str], pattern: str) -> int:
    assert len(target_report) == 1, target_report
    found = re.fullmatch(pattern, target_report[0])
    assert found, target_report
    return int(found[1])


@scenario("gcc")
def short_threads(run: Run) -> None:
    """200 threads a second, each a millisecond long: more than 10 000 a minute."""
    target = run.target("brief", "200")
    outcome = run.record(target.pid, own_threads="brief")
    made = _finish(target.finish(), r"threads (\d+)")
    run.expect(made > 0, "no threads were made")
    run.expect(outcome.cpu_s > 0, "their CPU time is nowhere")
    run.fact("threads", made)


@scenario("gcc")
def plugins(run: Run) -> None:
    """A library loaded, sampled in, and unloaded, by four threads at once."""
    library = run.program("plugin", "shared")
    copies = [run.folder / f"plugin{number}.so" for number in range(4)]
    for copy in copies:
        copy.write_bytes(library.read_bytes())
    target = run.target("plugins", *map(str, copies))
    outcome = run.record(target.pid, ignore=lambda line: "plugin" in line)
    rounds = _finish(target.finish(), r"rounds (\d+)")
    run.expect(rounds > 4, f"only {rounds} rounds")
    run.expect(outcome.samples > 0, "nothing was sampled")
    run.fact("rounds", rounds)


@scenario("gcc")
def jitted(run: Run) -> None:
    """Code written, run and unmapped or rewritten, with and without frame pointers."""
    target = run.target("jitted")
    outcome = run.record(target.pid, has_jit=True)
    runs = _finish(target.finish(), r"runs (\d+)")
    run.expect(runs > 4, f"only {runs} runs")
    run.expect(outcome.samples > 0, "nothing was sampled")
    run.fact("runs", runs)


@scenario("gcc")
def waits(run: Run) -> None:
    """Every way to wait, ending every few milliseconds: not one EINTR."""
    target = run.target("parked", "short")
    run.record(target.pid)
    for line in target.finish():
        run.expect(re.fullmatch(r"\w+ returns=\d+ eintr=0", line), line)


@scenario("gcc")
def everything(run: Run) -> None:
    """Threads, a library, forks and spawns in one process, each checked."""
    target = run.target("churn")
    run.record(
        target.pid,
        own_threads="churn",
        ignore=lambda line: bool(re.search("libresolv|Sig|Pnd", line)),
    )
    _finish(target.finish(), r"rounds (\d+)")


@scenario("gcc")
def registers(run: Run) -> None:
    """Every register and the red zone hold a pattern: nobody changes it."""
    target = run.target("vectors")
    run.record(target.pid)
    assert target.finish() == ["corrupt 0"]
