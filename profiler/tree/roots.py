"""The frames that stacks may begin with: their thread, process or program."""

from __future__ import annotations

from ..model import FrameKind, Function, Split, Thread
from ..recording.profile.roster import owner_name
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
    titles = profile.process_titles if split is Split.PROCESS else None
    found: list[Function | None] = []
    for thread_id in thread_ids:
        thread = threads.get(thread_id) or Thread(thread_id, 0, "?")
        if split is Split.THREAD:
            found.append(thread_function(thread))
        elif thread.process in processes:
            name = owner_name(thread, processes, titles)
            found.append(Function(name, "", "", FrameKind.SYNTHETIC, f"process {name}"))
        else:
            found.append(None)
    return found
