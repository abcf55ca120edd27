"""Runs flametap on other kernels, in a virtual machine: ``make kernels``.

Exit code 0 if every check of every kernel passed, 1 if one failed or a machine did not end in time,
2 if something is missing.
"""

from __future__ import annotations

import argparse
import compileall
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support")]

import virtual_machine  # noqa: E402  # not a package: the folders are put on the path above
from kernel_packages import FOLDER, RELEASES, Kernel, KernelError, kernel  # noqa: E402
from targetbuild import SOURCES, Builder, BuildError  # noqa: E402

DEADLINE_S = 1800.0  # a quiet machine needs a third
DEFAULT = ["5.10", "6.1"]


def targets() -> dict[str, str]:
    """The names of the targets (``guest.CASES``) and their commands.

    Raises:
        BuildError: one cannot be built.
    """
    build = Builder()
    return {
        "ratio": str(build.program("ratio")),
        "busy": f"{build.program('busy')} alternate",
        "waits": f"{build.program('waits')} quiet",
        "ratio.py": f"{sys.executable} {SOURCES / 'ratio.py'}",
        "ratio-static": str(build.program("ratio", "static")),
    }


class Results:
    """Shows a machine's lines and counts its results."""

    def __init__(self) -> None:
        self.passed = 0
        self.failed = 0

    def take(self, line: str) -> None:
        """One line of the machine's output."""
        print(line, flush=True)
        self.passed += line.startswith("PASS ")
        self.failed += line.startswith("FAIL ")


def check(one: Kernel, arguments: argparse.Namespace, commands: dict[str, str]) -> bool:
    """Run the checks, or the user's command, on one kernel; True if all is well."""
    folder = FOLDER / "run" / one.name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    results = Results()
    began = time.monotonic()
    ended = virtual_machine.run(
        one,
        _command(one.name, folder, arguments, commands),
        folder,
        arguments.accel,
        arguments.deadline,
        results.take,
    )
    is_well = ended.exit_code == 0 and not results.failed
    if not arguments.command:
        is_well = is_well and results.passed > 0
    why = ended.why or f"exit code {ended.exit_code}"
    counts = "" if arguments.command else f"{results.passed} passed, {results.failed} failed, "
    print(f"{one.name}: {counts}{why}, {time.monotonic() - began:.0f} s", flush=True)
    if is_well and not arguments.keep:
        shutil.rmtree(folder)
    else:
        print(f"{one.name}: recordings and the kernel's messages are in {folder}", flush=True)
    return is_well


def _command(
    name: str, folder: Path, arguments: argparse.Namespace, commands: dict[str, str]
) -> Sequence[str]:
    if arguments.command:
        return shlex.split(arguments.command)
    wanted = {each: text for each, text in commands.items() if each in arguments.target}
    return [
        *(sys.executable, str(HERE / "guest.py"), name, str(folder)),
        *(f"--target={each}={text}" for each, text in (wanted or commands).items()),
        *(f"--option={word}" for text in arguments.record_option for word in shlex.split(text)),
    ]


def compile_modules() -> None:
    """Make the bytecode of all that runs in the machine, which cannot write it."""
    root = HERE.parents[1]
    for folder in ("profiler", "web", "agent", "tests/support"):
        compileall.compile_dir(root / folder, quiet=1)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="run flametap on other kernels")
    parser.add_argument(
        "kernels",
        nargs="*",
        default=DEFAULT,
        metavar="KERNEL",
        help=f"{', '.join(RELEASES)}, or a kernel's .deb file; by default {' and '.join(DEFAULT)}",
    )
    parser.add_argument("--keep", action="store_true", help="keep the recordings, also if all pass")
    parser.add_argument("--command", help="run this instead of the checks; paths are the host's")
    parser.add_argument(
        "--record-option",
        action="append",
        default=[],
        metavar="OPTIONS",
        help="more options for record and dump: --record-option='--inject direct'",
    )
    parser.add_argument("--target", action="append", default=[], help="only this one")
    parser.add_argument(
        "--accel", choices=["tcg", "kvm"], default="tcg", help="tcg is emulation, and runs anywhere"
    )
    parser.add_argument(
        "--deadline", type=float, default=DEADLINE_S, metavar="SECONDS", help="for each kernel"
    )
    return parser.parse_args()


def main() -> int:
    arguments = _parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the machine is ended, too
    try:
        commands = targets()
        compile_modules()
        return 0 if all([check(kernel(k), arguments, commands) for k in arguments.kernels]) else 1
    except (BuildError, KernelError) as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
