"""Encode who held the GIL, or a mutex, while threads waited for it, as JSON.

::

    total_ns        int     of the waits; where two threads wait at a time, both count
    holders         [{thread, tid, function, place, ns}], heaviest first. function is "" where no
                    Python function ran, or none of the program's own; place is its file. Of a
                    mutex, they may be less than total_ns: the rest is not known, or nobody held it
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flametap.locks.lock_waits import LockWaits
from flametap.model import Function, ThreadInfo


def encode_holders(
    waits: LockWaits, threads: Mapping[int, ThreadInfo], functions: Sequence[Function]
) -> dict[str, Any]:
    """Return the answer to a gil request."""
    rows = []
    for holder in waits.holders:
        thread = threads.get(holder.thread_id)
        function = functions[holder.function_id] if holder.function_id >= 0 else Function("", "")
        rows.append(
            {
                "thread": thread.name if thread else "",
                "tid": thread.tid if thread else 0,
                "function": function.name,
                "place": function.module,
                "ns": holder.ns,
            }
        )
    return {"total_ns": waits.total_ns, "holders": rows}
