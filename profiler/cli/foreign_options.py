"""Replacements for options and commands of other profilers that flametap does not have.

Taken from the help texts of `py-spy record`, `top` and `dump`, `perf record`, `samply record`,
async-profiler's `asprof` and `austin`. Every entry describes flametap, not the other profiler. An
option that means different things in them has one entry for all, or one for each of our commands.
"""

from __future__ import annotations

from dataclasses import dataclass

ATTACHING = frozenset({"live", "record", "dump"})


@dataclass(frozen=True)
class Foreign:
    """Options of other profilers. ``says``: why flametap has none; ``hint``: what to do instead."""

    names: tuple[str, ...]
    says: str
    hint: str
    commands: frozenset[str] = ATTACHING


def _on(command: str, names: str, says: str, hint: str) -> Foreign:
    return Foreign(tuple(names.split()), says, hint, frozenset({command}))


def _all(names: str, says: str, hint: str) -> Foreign:
    return Foreign(tuple(names.split()), says, hint)


LEAVE_OUT = "leave it out"

# Commands of other profilers → what to do instead.
COMMANDS = {
    "report": "`flametap record PID -o FILE.html` saves a report that opens in any browser",
    "attach": "`flametap PID` attaches, and shows a live page",
}

# The first match counts: entries of one command stand before those of all commands.
FOREIGN = (
    # -- options of one of our commands, given to another
    _on(
        "live",
        "-i --idle --wall --off-cpu --clock",
        "the page has a switch for the clock: CPU, wall, off-CPU",
        "choose wall there to see waiting threads, too",
    ),
    _on(
        "live",
        "-t --threads --tid --thread --per-thread --main-thread-only",
        "threads are chosen on the page",
        "`flametap record` has -t, --tid and --thread",
    ),
    _on(
        "live",
        "-s --save-only",
        "`flametap live` serves a page",
        "`flametap record PID -o FILE` only saves; for child processes, attach to each",
    ),
    _on(
        "live",
        "--python-only --native-only --no-python --plumbing",
        "the page has a switch for the language: all, Python, native",
        "`flametap record` and `flametap dump` have these options",
    ),
    _on(
        "live",
        "--functions --lines --full-filenames",
        "the page shows the path and the lines of each function",
        "`flametap record` has these options",
    ),
    _on("live", "--address", "the page's address is given with --host", "--host 0.0.0.0"),
    _on("live", "-P", "the page's port is given with --port", "--port 8080"),
    _on("live", "-j --json", "`flametap live` serves a page", "`flametap dump --json` prints JSON"),
    _on(
        "record",
        "-s --save-only --no-open --port --host --address -P",
        "`flametap record` only saves: it opens no page and no port",
        "leave it out; `flametap PID` has the page; for child processes, record each",
    ),
    _on("record", "--wall", "the clock is an option with a value", "--clock wall"),
    _on("record", "--off-cpu", "the clock is an option with a value", "--clock off-cpu"),
    _on(
        "record",
        "--main-thread-only",
        "threads are chosen by their id; the main thread's id is the process id",
        "--tid PID",
    ),
    _on("record", "--per-thread", "each thread is recorded", "-t gives each a root of its own"),
    _on(
        "record",
        "-j --json",
        "the format is told by the file's name",
        "-o FILE.speedscope.json is JSON",
    ),
    _on("dump", "-j", "the option is called --json", "`flametap dump --json PID`"),
    _on("dump", "-i --idle --wall --off-cpu", "dump shows waiting threads, too", LEAVE_OUT),
    _on("dump", "-t --threads --tid --thread", "dump shows all threads", LEAVE_OUT),
    _on("dump", "--functions --lines", "dump always shows the line", LEAVE_OUT),
    _on("dump", "--gil", "dump shows all threads", "`flametap record --gil` has this option"),
    _on(
        "dump",
        "-d --duration -o --output -f --format --clock --unit",
        "dump shows each thread once, now, on stdout",
        "`flametap record` samples for a while, to files",
    ),
    # -- py-spy
    _all("-n --native", "native functions are always shown", LEAVE_OUT),
    _all("--nonblocking", "flametap stops no thread while it samples", LEAVE_OUT),
    _all(
        "-g --call-graph --cstack --user-callchains",
        "whole stacks are always taken, without frame pointers, too",
        "leave it out; --gil counts only the time with Python's GIL",
    ),
    _all(
        "-s --subprocesses -C --children -I --inherit --no-inherit",
        "flametap samples one process, without its children",
        "start one flametap for each; `flametap ps` lists them",
    ),
    _all("--function --nolineno", "a frame is a whole function, not a line of it", LEAVE_OUT),
    _all("-l --locals", "variables are shown by another command", "`flametap dump --locals PID`"),
    _all("--core", "flametap samples running processes", "`gdb PROGRAM CORE` reads core files"),
    # -- perf
    _all(
        "-a --all-cpus --all --cgroup -G -u --uid --cpu",
        "flametap samples one process, not a whole machine",
        "`perf record -a` does",
    ),
    _all(
        "-e --event -c --count -P --period --filter",
        "flametap samples time, not events",
        "-r gives the samples a second; `flametap record --clock` gives the kind of time",
    ),
    _all("-D --delay", "flametap samples from the attach on", "wait before: `sleep 5; flametap …`"),
    _all(
        "-k --all-kernel --all-user --kernel-callchains --kernel --kcore --vmlinux",
        "flametap shows the system call, not the kernel's functions",
        "`perf record -g` shows those",
    ),
    _all(
        "-b --branch-any --branch-filter -W --weight",
        "flametap samples time, not branches",
        "`perf record -b` does",
    ),
    _all("-z --compression-level", "files are not compressed", "`gzip FILE` afterwards"),
    _all("-m --mmap-pages", "flametap chooses the size of its buffer", LEAVE_OUT),
    _all("-B --no-buildid -N --no-buildid-cache", "flametap keeps no copies of files", LEAVE_OUT),
    # -- samply
    _all("--profile-name --title", "a recording is named after its process", LEAVE_OUT),
    _all("--presymbolicate --unstable-presymbolicate", "names are always in the file", LEAVE_OUT),
    _all("--reuse-threads --fold-recursive-prefix", "flametap does not merge those", LEAVE_OUT),
    _all("--iteration-count", "flametap starts a program once", "use a loop in the shell"),
    _all(
        "--breakpad-symbol-dir --windows-symbol-cache",
        "one option is for all layouts",
        "--symbol-dir DIR",
    ),
    # -- async-profiler, austin
    _all("-i --interval", "the rate is in samples a second", "-r 100 is one every 10 ms"),
    _all(
        "--alloc --heap --memory --live --nativemem",
        "flametap samples time, not memory",
        "heaptrack does",
    ),
    _all("--lock", "waiting for locks is off-CPU time", "`flametap record --clock off-cpu`"),
    _all("-j --jstackdepth", "stacks have up to 2,048 frames", LEAVE_OUT),
    _all("--timeout -x --exposure --loop", "the duration is given with -d", "-d 10"),
    _all(
        "--minwidth --reverse --inverted --total --flamegraph --dot --simple --sig --ann --lib",
        "the flame graph has one form",
        "-o FILE.html is a page to search and zoom in, -o FILE.svg a picture",
    ),
    _all("--jfrsync --chunksize --chunktime", "flametap writes no JFR files", "-f speedscope"),
    _all("--pipe --where --sleepless --binary", "flametap has no such mode", "`flametap --help`"),
)


def instead_of(option: str, command: str) -> Foreign | None:
    """Return the entry for an option that one of our commands does not have; None if there is none.

    Args:
        option: as typed, without a value: ``-n``, ``--native``.
        command: the name of our command.
    """
    for entry in FOREIGN:
        if command in entry.commands and option in entry.names:
            return entry
    return None
