"""The checks, within the virtual machine: each prints ``PASS KERNEL TARGET CHECK`` or ``FAIL …``.

A target is recorded and dumped; then it has to be alive, to end as it should, and to have seen no
EINTR. A FAIL is followed by what was seen, in lines that begin with two blanks.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from books import read_books  # not a package: the folder is put on the path above
from running import Target

RECORD_S = 3  # of the machine's time
COMMAND_S = 400.0  # software emulation is twenty times slower
CLEAN = "no thread, timer, descriptor or patch of ours is left in it"
SHOWN_LINES = 25
# What exists to be ended by a signal, and what returns only when it is.
ENDED_BY_SIGNALS = {"pause", "sigsuspend"}


def _whole(lines: list[str]) -> str:
    return "" if lines else "no report"


def _idle(lines: list[str]) -> str:
    return "" if lines == ["handled=0"] else str(lines)


def _undisturbed(lines: list[str]) -> str:
    """What is wrong with the books of ``waits``; "" for nothing. A call that the kernel lacks has
    a book without entries."""
    books = {name: book for name, book in read_books(lines).items() if book["returns"]}
    if len(books) < 40:
        return f"only {len(books)} kinds of wait"
    wrong = [
        f"{name}: {book}"
        for name, book in books.items()
        if (book["eintr"] and name not in ENDED_BY_SIGNALS) or book["wrong"] or book["early"]
    ]
    return "; ".join(wrong)


@dataclass(frozen=True)
class Case:
    """A target and what has to be seen of it.

    ``recorded`` and ``dumped`` are regular expressions that the folded stacks and the dump have to
    hold, each. ``judge`` gets the target's report and returns what is wrong with it. A case that
    ``needs_direct`` is refused by the other way in.
    """

    name: str
    recorded: tuple[str, ...]
    dumped: tuple[str, ...]
    judge: Callable[[list[str]], str]
    needs_direct: bool = False


CYCLE = ("cycle;heavy ", "cycle;light ")
CASES = [
    Case("ratio", CYCLE, (r"(heavy|light) \(ratio\)\n *cycle \(ratio\)",), _whole),
    Case("busy", ("start_thread;work;spin ",), (r"busy 0(.*\n)+.*busy 1",), _idle),
    Case(
        "waits",
        (r"wait_again_and_again;enter_\w+",),
        # Not all: in the moment of a dump, an emulated processor lets some threads sleep or start.
        (r"(?s)(enter_\w+ \(waits\).*?){10}",),
        _undisturbed,
    ),
    Case("ratio.py", (r";heavy \S*ratio\.py",), (r"\bcycle \S*ratio\.py",), _whole),
    Case("ratio-static", CYCLE, (r"cycle \(ratio-static\)",), _whole, needs_direct=True),
]


class Report:
    """Prints results; counts what failed."""

    def __init__(self, kernel: str, target: str) -> None:
        self._head = f"{kernel} {target}"
        self.failed = 0

    def tell(self, check: str, trouble: str) -> None:
        """A check is done; ``trouble`` is "" where it passed."""
        print("FAIL" if trouble else "PASS", self._head, check, flush=True)
        if trouble:
            self.failed += 1
            for line in trouble.splitlines()[-SHOWN_LINES:]:
                print(f"  {line}", flush=True)


def _flametap(*words: str) -> tuple[int, str]:
    """Exit code and whole output of a command; the code is -1 where it does not end."""
    command = [sys.executable, "-m", "flametap", *words]
    began = time.monotonic()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_S)
    except subprocess.TimeoutExpired as error:
        seen = b"".join(part for part in (error.stdout, error.stderr) if part)
        return -1, f"{words[0]} did not end in {COMMAND_S:g} s\n{seen.decode(errors='replace')}"
    print(f"  {words[0]}: {time.monotonic() - began:.1f} s", flush=True)
    return done.returncode, done.stdout + done.stderr


def _missing(patterns: tuple[str, ...], text: str) -> str:
    missing = [pattern for pattern in patterns if not re.search(pattern, text)]
    return f"{text}\nmissing: {missing}" if missing else ""


def _attach(case: Case, pid: int, options: list[str], folder: Path, report: Report) -> None:
    """Record and dump; both have to succeed, and to leave nothing behind."""
    folded = folder / f"{case.name}.folded"
    # An emulated processor makes each sample dear: without a budget they are taken all the same.
    how = ["-d", str(RECORD_S), "-o", str(folded), "--budget", "0", "--verify-detach", *options]
    code, output = _flametap("record", str(pid), *how)
    (folder / f"{case.name}.record").write_text(output)
    report.tell("record", f"{output}\nexit code {code}" if code else "")
    if code == 0:
        report.tell("stacks", _missing(case.recorded, folded.read_text() + output))
        report.tell("left-nothing", "" if CLEAN in output else output)
    code, output = _flametap("dump", str(pid), *options)
    (folder / f"{case.name}.dump").write_text(output)
    report.tell("dump", f"{output}\nexit code {code}" if code else _missing(case.dumped, output))


def _refused(pid: int, options: list[str], report: Report) -> None:
    """What cannot be entered is refused."""
    code, output = _flametap("dump", str(pid), *options)
    is_refused = code > 0 and "statically linked" in output
    report.tell("refused", "" if is_refused else f"{output}\nexit code {code}")


def check(case: Case, argv: list[str], options: list[str], folder: Path, report: Report) -> None:
    """All checks of one target."""
    target = Target(["nice", "-n", "19", *argv])  # flametap gets the CPU that it needs first
    try:
        if case.needs_direct and "direct" not in options:
            _refused(target.pid, options, report)
        else:
            _attach(case, target.pid, options, folder, report)
        report.tell("alive", "" if target.alive else f"exit code {target.exit_code}")
        try:
            report.tell("report", case.judge(target.finish()))
        except AssertionError as error:
            report.tell("report", str(error))
    finally:
        target.close()


def main() -> int:
    parser = argparse.ArgumentParser(description="the checks, within the virtual machine")
    parser.add_argument("kernel", help="its name in the results")
    parser.add_argument("folder", type=Path, help="where recordings go")
    parser.add_argument("--target", action="append", default=[], help="NAME=COMMAND")
    parser.add_argument("--option", action="append", default=[], help="of record and dump")
    arguments = parser.parse_args()
    commands = dict(each.split("=", 1) for each in arguments.target)
    failed = 0
    for case in CASES:
        if case.name in commands:
            report = Report(arguments.kernel, case.name)
            argv = commands[case.name].split()
            check(case, argv, arguments.option, arguments.folder, report)
            failed += report.failed
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
