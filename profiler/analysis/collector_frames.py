"""Show the garbage collector as a frame, ``[garbage collection]``, below what made it run.

In a build with symbols, it is the caller of the interpreter's function that collects: exact, also
where a finalizer runs Python functions, or lets another thread run. Where the interpreter has no
names, the innermost Python function calls it, in stacks whose threads are marked as collecting; the
profile has put it there (``COLLECTION_CODE``).
"""

from __future__ import annotations

from array import array
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from ..model import COLLECTION_CODE, MANAGED
from ..symbols.interpreters.python.collector import is_collector
from ..symbols.names.table import COLLECTION, FramePool, SymbolTable

Bools = npt.NDArray[np.bool_]


def collecting_marks(module_ids: npt.NDArray[np.int32], addrs: npt.NDArray[np.uint64]) -> Bools:
    """Return which addresses are those that the profile has put in; see ``Profile.addresses``."""
    code = addrs & np.uint64(0xFFFFFFFF)
    found: Bools = (module_ids == MANAGED) & (code == COLLECTION_CODE)
    return found


def with_collections(
    pool: FramePool, table: SymbolTable, in_interpreter: Bools
) -> tuple[FramePool, bool]:
    """Add the frame to addresses of the function that collects.

    Args:
        pool: the frames of all addresses.
        table: the names.
        in_interpreter: whether each address is in the file of an interpreter.

    Returns:
        The pool, and whether there was such an address.
    """
    is_collecting = np.frombuffer(table.labels(is_collector), np.bool_)
    if not is_collecting.any():
        return pool, False
    hit = is_collecting[np.frombuffer(pool.functions, np.int32)]
    before = np.concatenate(([0], np.cumsum(hit)))
    first, count = np.array(pool.first), np.array(pool.count)
    found = np.flatnonzero((before[first + count] > before[first]) & in_interpreter)
    if not len(found):
        return pool, False
    collection = table.function_id(COLLECTION)
    functions, lines, files = pool.functions[:], pool.lines[:], pool.line_files[:]
    new_first, new_count = pool.first[:], pool.count[:]
    for address in found.tolist():
        start, end = pool.first[address], pool.first[address] + pool.count[address]
        at = start + int(hit[start:end].argmax())
        new_first[address] = len(functions)
        new_count[address] += 1
        for column, own, put in (
            (functions, pool.functions, collection),
            (lines, pool.lines, 0),
            (files, pool.line_files, 0),
        ):
            column += own[start:at] + array("i", [put]) + own[at:end]
    pool = replace(
        pool,
        first=new_first,
        count=new_count,
        functions=functions,
        lines=lines,
        line_files=files,
    )
    return pool, True
