"""Measure time and memory of compiling .eh_frame into the agent's tables.

    python bench/cfi.py [--quick] [--rounds 5]

The files are real, from libc to chromium. The agent's source is compiled with gcc -O2, as its
machine code is, into a program. readelf reads and interprets the same section
(``--debug-dump=frames-interp``) without keeping the result.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import benchmark
import programs
from benchmark import Bench, run
from flametap.agent import source
from reporting import Data, Table
from stats import MISSING, ratio_text, spread_text

SUPPORT = Path(__file__).resolve().parent.parent / "tests" / "support"
sys.path.append(str(SUPPORT))
from agent_build import CFI_SOURCES  # noqa: E402
from eh_frame import Section, read_section  # noqa: E402

READELF_TIMEOUT_S = 40.0
RULE_BYTES = 20


def files() -> dict[str, Path]:
    """Return the files that exist on this machine, by their name in the table."""
    version = sysconfig.get_config_var("LDVERSION")
    lists: dict[str, Iterable[Path]] = {
        "libc": Path("/lib/x86_64-linux-gnu").glob("libc.so.6"),
        "libpython": Path(sysconfig.get_config_var("LIBDIR")).glob(f"libpython{version}.so.1.0"),
        "node": Path("/usr/bin").glob("node"),
        "libjvm": sorted(Path("/usr/lib/jvm").glob("*/lib/server/libjvm.so")),
        "chromium": Path("/usr/lib/chromium").glob("chromium"),
    }
    return {name: path for name, found in lists.items() if (path := next(iter(found), None))}


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rounds", type=int, default=5, help="compilations of each file")


def measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    if options.quick:
        options.rounds = 1
    text = source(CFI_SOURCES) + (programs.TARGETS / "cfi_time.c").read_text("utf-8")
    (folder / "joined.c").write_text(text, "utf-8")
    program = programs.build("cfi_time", folder, "-fno-strict-aliasing", source=folder / "joined.c")
    found = []
    names = files()
    for name, path in names.items():
        benchmark.say(f"{name}: {path}")
        section = read_section(path)
        compiled = _compiled(program, section, folder, options.rounds)
        found.append(
            {
                "name": name,
                "path": str(path),
                "section_bytes": len(section.data),
                "gcc_ns": [result[0] for result in compiled],
                "readelf_s": _readelf_s(path),
                "rows": compiled[0][1],
                "rules": compiled[0][2],
                "fdes": compiled[0][3],
                "rows_bytes": compiled[0][4],
                "scratch_bytes": compiled[0][5],
            }
        )
    missing = {"libc", "libpython", "node", "libjvm", "chromium"} - names.keys()
    return {"files": found, "missing": sorted(missing)}


def _compiled(program: Path, section: Section, folder: Path, rounds: int) -> list[tuple[int, ...]]:
    """Return the fields of ``bench_result`` in targets/cfi_time.c, for each round."""
    path = folder / "eh_frame"
    path.write_bytes(section.data)
    addresses = map(str, (section.file_addr, section.text_start, section.text_end))
    command = [str(program), str(path), *addresses]
    return [
        tuple(map(int, subprocess.run(command, capture_output=True, check=True).stdout.split()))
        for _ in range(rounds)
    ]


def _readelf_s(path: Path) -> float | None:
    """Return the seconds that readelf takes; None if it is missing or takes too long."""
    began = time.monotonic()
    try:
        subprocess.run(
            ["readelf", "--debug-dump=frames-interp", path],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=READELF_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return time.monotonic() - began


def tables(data: Data) -> list[Table]:
    rows = []
    for one in data["files"]:
        readelf = [] if one["readelf_s"] is None else [one["readelf_s"] * 1e9]
        held = one["rows_bytes"] + one["rules"] * RULE_BYTES
        rows.append(
            [
                one["name"],
                f"{one['section_bytes'] / 1e6:.2f}",
                f"{one['fdes']:,}",
                spread_text(one["gcc_ns"], 1, 1e-6),
                spread_text(readelf, 0, 1e-6) if readelf else f"> {READELF_TIMEOUT_S * 1000:.0f}",
                ratio_text(readelf, one["gcc_ns"], 0) if readelf else MISSING,
                f"{one['rows']:,}",
                f"{one['rules']}",
                f"{held / 1e6:.2f}",
            ]
        )
    rows += [[name, *["missing"] * 8] for name in data["missing"]]
    columns = (
        *("file", ".eh_frame, MB", "FDEs", "flametap, ms", "readelf, ms", "readelf ÷ flametap"),
        *("rows", "rules", "held, MB"),
    )
    remark = "Median (range). Compiled once, when the module is first met on a stack."
    return [Table("Unwind tables: compile time and memory", columns, rows, remark)]


BENCH = Bench(
    "cfi",
    "compile time and memory of unwind tables: libc, libpython, node, libjvm, chromium",
    arguments,
    measure,
    tables,
)

if __name__ == "__main__":
    run(BENCH)
