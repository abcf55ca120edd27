"""Summarise a recording in a few lines: the terminal prints them, and files hold them."""

from __future__ import annotations

from collections.abc import Sequence

from ..model import LOOKS, Clock, ManagedVerdict, Status, ThreadInfo, Verdict
from ..wire.counters import SKIPS, losses, skips
from .figures import counted, duration
from .programs import program_line
from .recording import Recording

TITLE_CHARACTERS = 80  # of the command
# Of one core: below it, the figures of the CPU clock rest on a handful of samples.
IDLE_SHARE = 0.01
SHARE_SHOWN = 0.0005  # less would be printed as 0.0%
NO_FILE = "code outside of any file (JIT)"
# Why a stack is not complete, in the words of the summary.
CUT_BY = {
    Verdict.SCANNED: "with a caller that is only likely ([guessed])",
    Verdict.TRUNCATED_DEPTH: "deeper than the limit",
    Verdict.NO_UNWIND_INFO: "code without unwind information",
    Verdict.BAD_MEMORY: "stack memory that could not be unwound",
    Verdict.UNSUPPORTED_RULE: "an unsupported unwind rule",
    Verdict.NO_STACK: "without a stack",
}
# Why Python functions are missing in a stack, or above the wrong native function.
PYTHON_CUT_BY = {
    ManagedVerdict.TORN: "read while they changed",
    ManagedVerdict.MISPLACED: "perhaps below the wrong native functions",
    ManagedVerdict.DEPTH: "deeper than the limit",
}


def title(recording: Recording) -> str:
    """Name a recording by its command and process id; a class path alone may have 12 kB.

    One that was merged from several processes has no process id.
    """
    status = recording.status()
    command = status.command
    if len(command) > TITLE_CHARACTERS:
        command = command[: TITLE_CHARACTERS - 1] + "…"
    if not command:
        return status.source or "flametap"
    return f"{command} ({status.pid})" if status.pid else command


def summary(recording: Recording, waits_shown_by: str = "") -> list[str]:
    """Format the summary: what was recorded, how many stacks are complete, what was lost.

    Args:
        recording: at its end.
        waits_shown_by: what shows what a sleeping program waits for; "" to say nothing of it.

    Returns:
        Lines without a full stop.
    """
    profile = recording.profile
    cpu_ns, threads = profile.total_ns(Clock.CPU), profile.thread_infos()
    lines = summary_of(recording.status(), cpu_ns, threads, waits_shown_by)
    by_program = program_line(profile, threads)
    return [*lines, f"CPU time by program: {by_program}"] if by_program else lines


def summary_of(
    status: Status, cpu_ns: int, threads: Sequence[ThreadInfo], waits_shown_by: str
) -> list[str]:
    """Format the same, of the CPU time of all threads."""
    if status.source:
        samples = f"{counted(status.samples, 'sample')} " if status.samples else ""
        return [f"{samples}from a file of another profiler: {status.source}"]
    # CPU shares rest on the samples of running threads only.
    ran = min(status.counters.get("signals_handled", 0), status.samples)
    if status.engine == LOOKS:
        ran = status.samples
    lines = [
        f"recorded {duration(status.recorded_ns / 1e9)} of {counted(len(threads), 'thread')}: "
        f"{duration(cpu_ns / 1e9)} of CPU time in {counted(ran, 'sample')}"
    ]
    if looks := status.samples - ran:
        lines[0] += f", and {counted(looks, 'look')} at sleeping threads"
    if cpu_ns < IDLE_SHARE * status.recorded_ns:
        where = f": {waits_shown_by} shows where" if waits_shown_by else ""
        lines.append(f"it slept nearly all the time{where}")
        return lines + _loss_lines(status)
    total_ns = sum(status.verdict_cpu_ns.values())
    cut = {
        verdict: status.verdict_cpu_ns.get(verdict.name, 0) / total_ns
        for verdict in Verdict
        if total_ns and not verdict.is_complete
    }
    if sum(cut.values()) >= SHARE_SHOWN:
        whole = 1 - sum(cut.values())
        reasons = [
            f"{share:.1%} {CUT_BY[verdict]}"
            for verdict, share in cut.items()
            if share >= SHARE_SHOWN
        ]
        lines.append(f"{whole:.1%} of it in complete stacks; the rest: {', '.join(reasons)}")
    lines += _interpreted_lines(status)
    blocking = [thread.name for thread in threads if thread.signals_blocked]
    if blocking and cut.get(Verdict.NO_STACK, 0) >= SHARE_SHOWN:
        names = ", ".join(sorted(set(blocking))[:5])
        lines.append(
            f"{counted(len(blocking), 'thread')} blocked our signal, and is seen only while it "
            f"waits where the kernel did not sample it: {names}"
        )
    if status.verdict_modules:
        modules = [module or NO_FILE for module in status.verdict_modules][:5]
        lines.append(f"stacks were cut in: {', '.join(modules)}")
    return lines + _loss_lines(status)


def _interpreted_lines(status: Status) -> list[str]:
    """Say how much time of interpreted programs lacks functions; nothing if it is little."""
    total_ns = sum(status.managed_verdict_cpu_ns.values())
    cut = {
        why: status.managed_verdict_cpu_ns.get(verdict.name, 0) / max(total_ns, 1)
        for verdict, why in PYTHON_CUT_BY.items()
    }
    if sum(cut.values()) < SHARE_SHOWN:
        return []
    reasons = [f"{share:.1%} {why}" for why, share in cut.items() if share >= SHARE_SHOWN]
    language = " and ".join(status.languages) or "interpreted"
    return [
        f"{1 - sum(cut.values()):.1%} of the {language} time has all its {language} functions; "
        f"the rest: {', '.join(reasons)}"
    ]


def _loss_lines(status: Status) -> list[str]:
    """Format the losses, one line each with its reason, and one line for skipped samples."""
    lines = [
        f"lost: {each.label.lower()}: {count:,}. {each.meaning.removesuffix('.')}"
        for each, count in losses(status.counters).items()
    ]
    skipped = [
        f"{counted(n, 'sample')} ({SKIPS[name]})" for name, n in skips(status.counters).items()
    ]
    return [*lines, f"skipped: {', '.join(skipped)}"] if skipped else lines
