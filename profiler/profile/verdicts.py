"""Sum weights by the verdicts on their stacks. Pure functions; ``Profile`` holds the lock."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from ..model import Module, Verdict
from .intervals import CellWeights
from .stacks import Stacks


def by_verdict(
    kinds: type[IntEnum], verdict_of_stack: npt.NDArray[np.uint8], cells: CellWeights
) -> dict[str, int]:
    """Return the weight of the stacks with each verdict, by its name; only if not 0.

    Args:
        kinds: the verdicts, numbered from 0.
        verdict_of_stack: the verdict of each stack.
        cells: weights by stack.
    """
    sums = np.zeros(len(kinds), np.int64)
    np.add.at(sums, verdict_of_stack[cells.stack], cells.weight)
    return {kinds(i).name: weight for i, weight in enumerate(sums.tolist()) if weight}


def by_module_at_fault(
    stacks: Stacks, modules: Mapping[int, Module], cells: CellWeights
) -> dict[str, int]:
    """Return the weight of truncated stacks by the module at fault, heaviest first.

    "" is code outside any file.
    """
    sums: dict[str, int] = {}
    verdicts = stacks.stack_verdicts()[cells.stack]
    blames = np.isin(
        verdicts,
        (Verdict.NO_UNWIND_INFO, Verdict.BAD_MEMORY, Verdict.UNSUPPORTED_RULE),
    )
    faults = stacks.stack_faults()[cells.stack]
    for fault in np.unique(faults[blames]).tolist():
        module = modules.get(fault)
        name = module.name if module else ""
        weight = int(cells.weight[blames & (faults == fault)].sum())
        sums[name] = sums.get(name, 0) + weight
    return dict(sorted(sums.items(), key=lambda item: -item[1]))
