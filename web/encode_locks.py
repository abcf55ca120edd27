"""Encode where threads wait for locks, as JSON.

::

    total_ns    int     of all waits for locks; where two threads wait at a time, both count
    count       int     places; only the heaviest are listed
    places      [{kind, function, line, file, text, wait_ns, threads, held}], the longest first.
                function is {id name module file kind full_name}, or null where the place does not
                matter (the GIL) or is not known; text is the source line, or ""; held is as in
                encode_gil.py: who held the lock meanwhile; null if that is not known
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flametap.locks.lock_places import LockPlace, LockPlaces
from flametap.model import Function


def encode_locks(
    found: LockPlaces,
    function_id: Callable[[Function], int],
    held: Callable[[LockPlace], dict[str, Any] | None],
) -> dict[str, Any]:
    """Return the answer to a locks request.

    Args:
        found: the places.
        function_id: returns the id of a function.
        held: returns who held the lock of a place, encoded.
    """
    return {
        "total_ns": found.total_ns,
        "count": found.n_places,
        "places": [{**_place(each, function_id), "held": held(each)} for each in found.places],
    }


def _place(place: LockPlace, function_id: Callable[[Function], int]) -> dict[str, Any]:
    frame = place.frame
    return {
        "kind": place.kind,
        "function": frame and _function(frame.function, function_id),
        "line": frame.line if frame else 0,
        "file": frame.file if frame else "",
        "text": place.text,
        "wait_ns": place.wait_ns,
        "threads": len(place.thread_ids),
    }


def _function(function: Function, function_id: Callable[[Function], int]) -> dict[str, Any]:
    return {
        "id": function_id(function),
        "name": function.name,
        "module": function.module,
        "file": function.file,
        "kind": function.kind.value,
        "full_name": function.full_name,
    }
