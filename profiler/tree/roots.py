"""The frames that stacks may begin with: their thread, process or program."""

from __future__ import annotations

from collections.abc import Mapping

from ..model import FrameKind, Function, Process, Split, Thread
from ..recording.profile.store import Profile
from .own_frames import thread_function


def root_functions(profile: Profile, split: Split, thread_ids: list[int]) -> list[Function | None]:
    """Return what the stacks of each thread begin with; None for their own outermost frame.

    Args:
        profile: has the threads and processes.
        split: what is shown apart.
        thread_ids: of the threads.
    """
    threads, processes = profile.threads, profile.processes
    titles = profile.process_titles if split is Split.PROCESS else {}
    found: list[Function | None] = []
    for thread_id in thread_ids:
        thread = threads.get(thread_id) or Thread(thread_id, 0, "?")
        if split is Split.THREAD:
            found.append(thread_function(thread))
        else:
            found.append(_of_process(thread, processes, titles))
    return found


def _of_process(
    thread: Thread, processes: Mapping[int, Process], titles: Mapping[int, str]
) -> Function | None:
    process = processes.get(thread.process)
    if process is None:
        return None
    if process.pid:
        name = titles.get(process.number, process.program.rpartition("/")[2])
    else:  # of those that were counted by name: "cc1 × 41"
        name = thread.name if titles else thread.name.partition(" × ")[0]
    return Function(name, "", "", FrameKind.SYNTHETIC, f"process {name}")
