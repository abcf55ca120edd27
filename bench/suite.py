"""All benches: list them, run them, write README.md's tables from the results.

python bench/suite.py                      lists them
python bench/suite.py NAME… [options]      runs them one after another, each with these options
python bench/suite.py all [options]
python bench/suite.py render               writes the tables from results/*.json
"""

from __future__ import annotations

import subprocess
import sys

import accuracy
import attach
import bigpage
import cfi
import completeness
import cost
import depth
import eintr
import formats
import handler
import idle
import java_peers
import javascript
import kept
import latency_c
import latency_python
import latency_tachyon
import livepage
import memory
import reporting
import servers
import store
import symbols
import timeline
import transforms
import truth
from benchmark import Bench

BENCHES: tuple[Bench, ...] = (
    cost.BENCH,
    latency_c.BENCH,
    latency_python.BENCH,
    latency_tachyon.BENCH,
    eintr.BENCH,
    idle.BENCH,
    attach.BENCH,
    depth.BENCH,
    handler.BENCH,
    cfi.BENCH,
    memory.BENCH,
    store.BENCH,
    kept.BENCH,
    formats.BENCH,
    timeline.BENCH,
    transforms.BENCH,
    bigpage.BENCH,
    livepage.BENCH,
    symbols.BENCH,
    accuracy.BENCH,
    truth.BENCH,
    servers.BENCH,
    completeness.BENCH,
    java_peers.BENCH,
    javascript.BENCH,
)
LIMIT_S = 900.0  # of one bench, unless more is requested
BY_NAME = {bench.name: bench for bench in BENCHES}


def rendered(text: str) -> str:
    """Return the README's text with tables from the results."""
    return reporting.render(text, {bench.name: bench.tables for bench in BENCHES})


def render() -> None:
    """Write README.md's tables."""
    reporting.README.write_text(rendered(reporting.README.read_text("utf-8")), "utf-8")


def main() -> None:
    names = [name for name in sys.argv[1:] if name in BY_NAME or name in ("all", "render")]
    rest = [argument for argument in sys.argv[1:] if argument not in names]
    if names == ["render"]:
        render()
        return
    if not names:
        print("make bench ARGS='NAME… [--quick]'; bench/README.md tells more\n")
        for bench in BENCHES:
            print(f"  {bench.name:<16} {bench.what}")
        sys.exit(2 if rest else 0)
    failed = []
    for name in BY_NAME if "all" in names else names:
        print(f"\n=== {name}", flush=True)
        # In a separate process: memory and Frida's threads of one bench do not affect the next.
        command = [sys.executable, str(reporting.HERE / f"{name}.py"), *rest]
        try:
            subprocess.run(command, check=True, timeout=None if "--minutes" in rest else LIMIT_S)
        except subprocess.SubprocessError as error:
            failed.append(f"{name} ({error})")
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
