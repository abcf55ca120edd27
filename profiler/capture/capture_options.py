"""What a recording is asked for."""

from __future__ import annotations

from dataclasses import dataclass

from ..inject.ways import AUTO, WAYS

__all__ = ["AUTO", "BUDGET_PPM", "WAYS", "CaptureOptions"]

# 1 % of a core.
BUDGET_PPM = 10_000


@dataclass(frozen=True)
class CaptureOptions:
    """Settings of a recording."""

    rate_hz: float = 100.0
    budget_ppm: int = BUDGET_PPM  # the most CPU time of sampling, in millionths of a core; 0: any
    inlines: bool = True
    symbol_dirs: tuple[str, ...] = ()
    debuginfod_urls: tuple[str, ...] = ()  # servers to ask for debug files; empty: no requests
    names_remedies: bool = True  # find the packages of missing debug files, for the notes
    inject: str = AUTO  # the way into the process: inject.ways.WAYS
    force: bool = False  # attach although a check that may be a false alarm says no
    enable_perf_map: bool = False  # ask the runtime of .NET to write one meanwhile
