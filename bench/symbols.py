"""Measure naming 10⁵ unique addresses of large files, and compare with other symbolisers.

    python bench/symbols.py [--quick] [--addresses 100000]

Addresses are random in the code of chromium, node and libpython. "cold" has an empty cache, "warm"
is a second run. Each peer gets the same addresses on its stdin, in one process per file. ``perf
script`` symbolises perf's own recordings of node and CPython at work, so its addresses are fewer
and repeated.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import benchmark
import cfi
from benchmark import Bench, run
from flametap.symbols.locate.open_file import open_image
from reporting import Data, Table
from stats import MISSING, spread_text

HERE = Path(__file__).resolve().parent
FILES = ("chromium", "node", "libpython")
LIMIT_S = 30.0  # of one peer and one file
PEERS: dict[str, Sequence[str]] = {
    "addr2line -fiC": ("addr2line", "-f", "-i", "-C", "-e"),
    "eu-addr2line -fiC": ("eu-addr2line", "-f", "-i", "-C", "-e"),
    "llvm-symbolizer --inlines": ("llvm-symbolizer", "--inlines", "--demangle", "--obj"),
}
JAVASCRIPT = "const e = Date.now() + 3000; while (Date.now() < e) JSON.stringify(eval('[1,2,3]'))"
PYTHON = """
import ast, re, time
end = time.time() + 3
while time.time() < end:
    ast.parse('def f(a, b=1): return [x ** 2 for x in a if x] + sorted(b)'); re.compile(str(end))
    re.purge()
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--addresses", type=int, default=100_000, help="over all files together")
    parser.add_argument("--rounds", type=int, default=3, help="of flametap, cold and warm")


def measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    if options.quick:
        options.addresses, options.rounds = 10_000, 1
    paths = {name: path for name, path in cfi.files().items() if name in FILES}
    cases = _cases(list(paths.values()), options.addresses)
    (folder / "cases.json").write_text(json.dumps(cases))
    found: dict[str, Any] = {
        "files": [
            {"name": name, "path": str(path), "bytes": path.stat().st_size}
            for name, path in paths.items()
        ],
        "addresses": sum(len(addrs) for _, _, addrs in cases),
        "missing": sorted(set(FILES) - paths.keys()),
        "cold": [],
        "warm": [],
    }
    for number in range(options.rounds):
        for state in ("cold", "warm"):
            benchmark.say(f"flametap, {state}")
            found[state].append(_flametap(folder, folder / f"cache{number}"))
    found["peers"] = [
        _peer(name, command, cases, folder)
        for name, command in PEERS.items()
        if shutil.which(command[0])
    ]
    found["perf"] = _perf(folder)
    return found


def _cases(paths: Sequence[Path], count: int) -> list[tuple[str, str, list[int]]]:
    """Return for each file: path, build-id, unique addresses in its code."""
    generator = random.Random(1)
    cases = []
    for path in paths:
        image = open_image(str(path))
        text = image.elf.section(".text")
        assert text is not None
        addrs = generator.sample(range(text.addr, text.addr + text.size), count // len(paths))
        cases.append((str(path), image.elf.build_id, addrs))
        image.close()
    return cases


def _flametap(folder: Path, cache: Path) -> dict[str, Any]:
    with open(folder / "cases.json") as cases:
        done = subprocess.run(
            [sys.executable, str(HERE / "symbolize.py"), str(cache)],
            stdin=cases,
            capture_output=True,
            check=True,
            timeout=600,
        )
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def _timed(command: Sequence[str], stdin: Path | None, stdout: Path | None) -> dict[str, Any]:
    """Run a program; return whether it ended in time, seconds, CPU seconds, peak bytes."""
    with open(stdin or os.devnull, "rb") as source, open(stdout or os.devnull, "wb") as sink:
        started = time.monotonic()
        process = subprocess.Popen(command, stdin=source, stdout=sink, stderr=subprocess.DEVNULL)
        ended = True
        while True:
            pid, _, used = os.wait4(process.pid, os.WNOHANG if ended else 0)
            if pid:
                break
            if time.monotonic() - started > LIMIT_S:
                process.kill()
                ended = False
            time.sleep(0.005)
    process.returncode = 0  # it was waited for here, where its use of memory can be had
    return {
        "ended": ended,
        "took_s": time.monotonic() - started,
        "cpu_s": used.ru_utime + used.ru_stime,
        "peak_bytes": used.ru_maxrss << 10,
    }


def _peer(name: str, command: Sequence[str], cases: Any, folder: Path) -> dict[str, Any]:
    per_file = []
    for path, _, addrs in cases:
        benchmark.say(f"{name}: {path}")
        asked = folder / "addresses"
        asked.write_text("".join(f"{addr:#x}\n" for addr in addrs))
        per_file.append(_timed([*command, path], asked, None))
    return {"name": name, "files": per_file}


def _perf(folder: Path) -> list[dict[str, Any]]:
    """Run ``perf script`` on perf's own recordings; empty if perf does not work."""
    found = []
    for name, command in (
        ("node", ["node", "-e", JAVASCRIPT]),
        ("CPython", [sys.executable, "-c", PYTHON]),
    ):
        data = folder / "perf.data"
        record = ["perf", "record", "-q", "-e", "cpu-clock:u", "-F", "15000", "-o", str(data)]
        benchmark.say(f"perf: {name}")
        try:
            subprocess.run([*record, "--", *command], capture_output=True, timeout=60, check=True)
        except (OSError, subprocess.SubprocessError):
            continue
        for fields in ("ip,sym", "ip,sym,srcline"):
            output = folder / "script"
            timed = _timed(
                ["perf", "script", "-i", str(data), "-F", fields, "--full-source-path"],
                None,
                output,
            )
            addrs = re.findall(r"^\s+([0-9a-f]{4,16}) ", output.read_text("utf-8", "replace"), re.M)
            unique = len(set(addrs))
            found.append({"name": name, "fields": fields, "unique": unique, **timed})
    return found


def _peer_row(peer: dict[str, Any], addresses: int) -> list[str]:
    files = peer["files"]
    ended = all(file["ended"] for file in files)
    sign = "" if ended else "> "
    return [
        peer["name"],
        f"{sign}{sum(file['took_s'] for file in files):.1f}",
        MISSING,
        f"{sign}{sum(file['cpu_s'] for file in files):.1f}",
        f"{max(file['peak_bytes'] for file in files) / 1e6:.0f}",
        f"{sign}{sum(file['took_s'] for file in files) / addresses * 1e6:.0f}",
    ]


def tables(data: Data) -> list[Table]:
    rows = []
    for state in ("cold", "warm"):
        runs = data[state]
        peaks = [(run["peak_bytes"] + run["worker_peak_bytes"]) / 1e6 for run in runs]
        if state == "warm":
            peaks = [run["peak_bytes"] / 1e6 for run in runs]
        rows.append(
            [
                f"flametap, {state}",
                spread_text([run["took_s"] for run in runs], 2),
                spread_text([run["first_names_s"] for run in runs], 2),
                spread_text([run["cpu_s"] + run["worker_cpu_s"] for run in runs], 2),
                spread_text(peaks, 0),
                spread_text([run["took_s"] / data["addresses"] * 1e6 for run in runs], 0),
            ]
        )
    rows += [_peer_row(peer, data["addresses"]) for peer in data["peers"]]
    files = ", ".join(f"{one['name']} {one['bytes'] / 1e6:.0f} MB" for one in data["files"])
    one = data["warm"][0]
    shares = [one[key] / data["addresses"] * 100 for key in ("named", "with_line")]
    remark = (
        f"{data['addresses']:,} unique addresses over {files}; {shares[0]:.0f} % of them are in"
        f" named functions and {shares[1]:.0f} % have a line (chromium is stripped, and most of"
        " Debian's node has no debug information). Cold includes the process that reads all debug"
        f" information. Peers: one process per file, ended after {LIMIT_S:.0f} s (>)."
    )
    columns = ("", "s", "to first names, s", "CPU, s", "peak memory, MB", "µs an address")
    found = [Table("Names for 10⁵ unique addresses", columns, rows, remark)]
    if data["perf"]:
        perf_rows = [
            [
                one["name"],
                one["fields"],
                f"{one['unique']:,}",
                f"{'' if one['ended'] else '> '}{one['took_s']:.1f}",
                f"{one['peak_bytes'] / 1e6:.0f}",
                f"{one['took_s'] / max(one['unique'], 1) * 1e6:.0f}",
            ]
            for one in data["perf"]
        ]
        columns = ("program", "fields", "unique addresses", "s", "peak memory, MB", "µs an address")
        remark = "perf's recording of three seconds, in which addresses are repeated."
        found.append(Table("perf script on its own recording", columns, perf_rows, remark))
    return found


BENCH = Bench(
    "symbols",
    "time and memory to name 10⁵ unique addresses of chromium, node and libpython",
    arguments,
    measure,
    tables,
)

if __name__ == "__main__":
    run(BENCH)
