"""Sum weights by the verdicts on their stacks. Pure functions; ``Profile`` holds the lock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from ...model import ManagedVerdict, Module, Verdict
from .stacks import Stacks
from .totals import CellWeights


@dataclass(frozen=True)
class VerdictSums:
    """Weights by verdict; what has none is not included.

    Attributes:
        native: by the name of the verdict on the stack.
        managed: by the name of the verdict on its interpreted frames; not of stacks without such.
        modules: of truncated stacks, by the module in which unwinding stopped, heaviest first; ""
            is code outside any file. Stacks that are only too deep are not included: no module is
            at fault.
    """

    native: dict[str, int]
    managed: dict[str, int]
    modules: dict[str, int]


def verdict_sums(stacks: Stacks, modules: Mapping[int, Module], cells: CellWeights) -> VerdictSums:
    """Return the sums of weights by stack; modules by ``module_id``."""
    managed = _by_verdict(ManagedVerdict, stacks.stack_managed(), cells)
    managed.pop(ManagedVerdict.NONE.name, None)
    return VerdictSums(
        _by_verdict(Verdict, stacks.stack_verdicts(), cells),
        managed,
        _by_module_at_fault(stacks, modules, cells),
    )


def _by_verdict(
    kinds: type[IntEnum], verdict_of_stack: npt.NDArray[np.uint8], cells: CellWeights
) -> dict[str, int]:
    """Return the weight of the stacks with each verdict; ``kinds`` numbers them from 0."""
    sums = np.zeros(len(kinds), np.int64)
    np.add.at(sums, verdict_of_stack[cells.stack], cells.weight)
    return {kinds(i).name: weight for i, weight in enumerate(sums.tolist()) if weight}


def _by_module_at_fault(
    stacks: Stacks, modules: Mapping[int, Module], cells: CellWeights
) -> dict[str, int]:
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
