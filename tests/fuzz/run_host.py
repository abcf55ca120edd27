"""Fuzz the readers of hostile bytes in flametap's own process: ``make fuzz-host``.

python tests/fuzz/run_host.py [--runs 20000] [--seed 1] [--first 0] [READER…]

Each reader of ``tests/support/host_readers.py`` gets that many inputs, in a child process; one
that takes long for each gets fewer. A
finding is a line with its seed and number; ``--seed S --first NUMBER --runs 1 READER`` makes that
input again, and ``--print`` shows it. Exit code 1 if there are findings.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))

import host_fuzzing  # noqa: E402  # not a package: the folder is put on the path just above
import host_readers  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(description="fuzz the parsers of flametap's own process")
    parser.add_argument(
        "readers", nargs="*", metavar="READER", help=", ".join(host_readers.READERS)
    )
    parser.add_argument(
        "--runs", type=int, default=20_000, help="inputs of each reader, fewer of dear ones"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first input")
    parser.add_argument("--print", action="store_true", help="show the inputs")
    options = parser.parse_args()
    try:
        chosen = host_readers.names(options.readers)
    except ValueError as error:
        parser.error(str(error))
    found = 0
    for name in chosen:
        reader = host_readers.READERS[name]
        runs = max(1, options.runs // reader.cost)
        numbers = range(options.first, options.first + runs)
        with tempfile.TemporaryDirectory(prefix="flametap-fuzz-") as folder:
            if options.print:
                seeds = reader.seeds(Path(folder))
                for number in numbers:
                    print(host_fuzzing.make_input(name, reader, seeds, options.seed, number))
            started = time.monotonic()
            result = host_fuzzing.run(name, reader, Path(folder), options.seed, numbers)
        print(
            f"{name}: {result.executions:,} inputs in {time.monotonic() - started:.0f} s, "
            f"{result.refused:,} refused, slowest {result.slowest_s * 1000:.0f} ms, "
            f"{result.memory_bytes >> 20} MB, {len(result.findings)} findings",
            flush=True,
        )
        for line in result.findings:
            print(f"  {line}", flush=True)
        found += len(result.findings)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
