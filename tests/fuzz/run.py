"""Fuzzes the agent's C with clang's libFuzzer, AddressSanitizer and UBSan: ``make fuzz``.

One process and one core at a time. A finding ends the run with exit code 1, its report on stderr
and the input that shows it in build/fuzz/TARGET/. What was found interesting is kept in
build/fuzz/TARGET/corpus and used by the next run.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))

import fuzzing  # noqa: E402  # not a package: the folder is put on the path just above
from capabilities import find  # noqa: E402

BUILD = HERE.parents[1] / "build" / "fuzz"
SEEDS_MAX = 6000
INPUT_BYTES_MAX = {
    "cfi": 1536,
    "elf": 8192,
    "gotable": 1024,
    "inflate": 1024,
    "procfs": 1024,
    "unwind": 700,
}


def binaries() -> list[Path]:
    """Files whose unwind information is worth beginning with; those that are here."""
    folders = [Path("/usr/lib/x86_64-linux-gnu"), Path("/lib/x86_64-linux-gnu")]
    names = ["libc.so.6", "libcrypto.so.3", "libstdc++.so.6", "ld-linux-x86-64.so.2"]
    paths = [folder / name for name in names for folder in folders]
    return [
        *dict.fromkeys(p.resolve() for p in paths if p.exists()),
        Path(sys.executable).resolve(),
    ]


def fuzz(name: str, runs: int, seconds: int, compiler: str) -> bool:
    """Build and run one target; True if nothing was found."""
    folder = BUILD / name
    for part in ("seeds", "corpus"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    count = fuzzing.write_seeds(name, folder / "seeds", binaries(), SEEDS_MAX)
    program = folder / f"fuzz_{name}"
    shutil.copy(fuzzing.build(name, compiler, f"{fuzzing.SANITIZE},fuzzer"), program)
    limit = f"-runs={runs}" if runs else f"-max_total_time={seconds}"
    print(f"{name}: {count} seeds, {limit[1:]}", flush=True)
    # At the lowest priority, half a minute can pass without a turn: only an endless loop is one.
    options = [f"-max_len={INPUT_BYTES_MAX[name]}", "-timeout=300", "-print_final_stats=1"]
    command = [str(program), limit, *options, f"-artifact_prefix={folder}/", "corpus", "seeds"]
    environment = os.environ | {
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1:quarantine_size_mb=16"
    }
    return subprocess.run(command, cwd=folder, env=environment, check=False).returncode == 0


def main() -> int:
    parser = argparse.ArgumentParser(description="fuzz the agent's C")
    parser.add_argument("targets", nargs="*", default=[], metavar="TARGET")
    parser.add_argument("--runs", type=int, default=0, help="executions of each target")
    parser.add_argument("--seconds", type=int, default=10, help="of each target, without --runs")
    arguments = parser.parse_args()
    if unknown := set(arguments.targets) - set(fuzzing.TARGETS):
        parser.error(f"no target {unknown}; there are {sorted(fuzzing.TARGETS)}")
    compiler = find("clang-fuzzer")
    if compiler is None:
        print("needs clang with libFuzzer: apt install clang", file=sys.stderr)
        return 2
    names = arguments.targets or list(fuzzing.TARGETS)
    results = {name: fuzz(name, arguments.runs, arguments.seconds, compiler) for name in names}
    print(", ".join(f"{name}: {'clean' if ok else 'FOUND'}" for name, ok in results.items()))
    return 0 if all(results.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
