"""The options of every command that attaches."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class AttachOptions:
    """Options of one attach. ``budget_ppm``: CPU time in millionths of one core; 0 for no limit."""

    rate_hz: float = 100.0
    budget_ppm: int = 10_000
    inlines: bool = True
    symbol_dirs: tuple[str, ...] = ()
    debuginfod_urls: tuple[str, ...] = ()
    enable_perf_map: bool = False
    inject: str = "auto"
    force: bool = False
    verbose: bool = False
    verify_detach: bool = False
    via: tuple[str, ...] = ()  # commands that lead to where the process runs
    children: bool | None = None  # record what the process starts, too; None for the command's way
