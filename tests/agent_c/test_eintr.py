"""The handler's repair of interrupted waits, by signals sent on purpose into every kind of wait."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_build import build_driver
from books import Book, read_books
from flametap.agent import C_SOURCES
from nightly import nightly

DRIVER = Path(__file__).parent / "eintr.c"
TARGETS = Path(__file__).parent.parent / "targets"
FLAGS = ("-O2", "-g", "-fomit-frame-pointer", "-pthread", f"-I{TARGETS}")
MUSL_FLAGS = (
    *("-O1", "-g1", "-fomit-frame-pointer", "-pthread", f"-I{TARGETS}"),
    "-specs=/usr/lib/x86_64-linux-musl/musl-gcc.specs",
    "-Wno-sign-conversion",  # of musl's FD_SET
    *("-idirafter", "/usr/include"),  # the kernel's headers
    *("-idirafter", "/usr/include/x86_64-linux-gnu"),
)
MILLISECONDS = int(float(os.environ.get("FLAMETAP_TEST_SECONDS", "1.5")) * 1000)
MEAN_GAP_US = 6000

# What the kernel begins again by itself after a handler with SA_RESTART; nothing for us to repair.
RESTARTED_BY_KERNEL = {"raw_futex_forever", "raw_futex_waitv", "read_pipe", "mq_timedreceive"}
# What exists to be ended by a signal.
ENDED_BY_SIGNALS = {"pause", "sigsuspend"}


@pytest.fixture(scope="module")
def program(require_capability: Callable[[str], str]) -> Path:
    """The driver, built once."""
    require_capability("gcc")
    return build_driver(DRIVER, C_SOURCES, FLAGS)


def _run(
    program: Path, mode: str, is_enough: Callable[[dict[str, Book]], object]
) -> dict[str, Book]:
    """Run the driver, again and longer where the machine left it too little time."""
    for factor in (1, 4, 16):
        command = [str(program), str(factor * MILLISECONDS), str(MEAN_GAP_US), mode]
        ran = subprocess.run(command, capture_output=True, timeout=120, check=False, text=True)
        assert ran.returncode == 0, ran.stderr
        books = read_books(ran.stdout.splitlines())
        if is_enough(books):
            break
    return books


def _each_was_met(books: dict[str, Book]) -> bool:
    """Whether a signal of ours came in each kind of wait."""
    return all(
        book["unrepairable" if name in ENDED_BY_SIGNALS else "met"] > 0
        and (book["repaired"] > 0 or name in RESTARTED_BY_KERNEL | ENDED_BY_SIGNALS)
        for name, book in books.items()
    )


def _sum(books: dict[str, Book], key: str) -> int:
    return sum(book[key] for name, book in books.items() if name not in ENDED_BY_SIGNALS)


def _check_repairs(books: dict[str, Book]) -> None:
    for name, book in books.items():
        if name in ENDED_BY_SIGNALS:
            assert book["eintr"] == book["returns"] > 0, (name, book)
            assert book["repaired"] == 0 < book["unrepairable"], (name, book)
            continue
        assert book["eintr"] == book["wrong"] == book["early"] == 0, (name, book)
        assert book["unrepairable"] == 0 < book["met"], (name, book)
        assert (book["repaired"] == 0) == (name in RESTARTED_BY_KERNEL), (name, book)


def test_every_wait_goes_on_as_if_nothing_had_been(program: Path) -> None:
    books = _run(program, "quiet", _each_was_met)
    assert len(books) > 45
    _check_repairs(books)


@pytest.mark.needs("musl-gcc")
@pytest.mark.parametrize(
    ("variant", "flags"), [("musl", ()), *nightly(("musl-static", ("-static",)))]
)
def test_waits_of_musl_go_on(variant: str, flags: tuple[str, ...]) -> None:
    """Its waits get the call's number as an argument: the code of their callers has it."""
    program = build_driver(DRIVER, C_SOURCES, (*MUSL_FLAGS, *flags), variant)
    books = _run(program, "quiet", _each_was_met)
    assert len(books) > 45
    _check_repairs(books)


def test_signals_that_could_not_be_queued_do_no_harm_either(program: Path) -> None:
    books = _run(program, "bare", lambda books: _each_was_met(books) and _sum(books, "bare"))
    _check_repairs(books)
    assert sum(book["bare"] for book in books.values()) > 0


def test_the_targets_own_eintrs_reach_it(program: Path) -> None:
    """Signals go to threads that wait and to threads in handlers alike, which the sampler's never
    do: where a handler that blocks ours returns just then, its EINTR is lost, now and then. Where
    the machine's host takes the CPU away for a millisecond, that looks like such a handler, and an
    EINTR of ours is left (DELIVERY_CPU_NS); without such handlers none is, see above."""
    books = _run(
        program,
        "signals",
        lambda books: _sum(books, "own") > 100 and _sum(books, "repaired") > 100,
    )
    own, repaired = _sum(books, "own"), _sum(books, "repaired")
    assert own > 100
    assert repaired > 100
    assert _sum(books, "eintr") <= max(2, 0.001 * repaired), books
    assert _sum(books, "lost") <= 0.05 * own, books


def test_time_already_waited_is_taken_off(program: Path) -> None:
    """One signal 500 ms into waits of 600 ms: begun anew, they would last 1 100 ms."""
    ran = subprocess.run(
        [str(program), "0", "0", "long"], capture_output=True, timeout=60, check=False, text=True
    )
    assert ran.returncode == 0, ran.stderr
    books = read_books(ran.stdout.splitlines())
    assert len(books) == 6
    for name, book in books.items():
        assert book["repaired"] == 1, (name, book)
        assert 600 <= book["lasted_ms"] < 1050, (name, book)


def test_a_signal_that_the_target_ignores_wakes_nobody(program: Path) -> None:
    """Were it blocked in our handler, the kernel would wake a bystander to take it: one SIGCHLD in
    fifty."""
    facts = _run(
        program,
        "ignored",
        lambda books: books["ignored"]["handled"] > 100 and books["ignored"]["sent"] > 1000,
    )["ignored"]
    assert facts["handled"] > 100
    assert facts["sent"] > 1000
    assert facts["eintr"] <= 0.001 * facts["sent"], facts
