"""The state of the made-up server's recording: what an agent would count, and what was sampled."""

from __future__ import annotations

from collections.abc import Mapping

from flametap.model import Clock, Status
from flametap.recording.profile.store import Profile
from flametap.recording.recording import with_sums
from flametap.wire import abi
from made_layout import SOURCES


def made_status(profile: Profile, counters: Mapping[str, int]) -> Status:
    """Return the state of a recording of the server.

    Args:
        profile: what was sampled.
        counters: those that differ from the usual.
    """
    ticks = profile.duration_ns // 10_000_000
    status = Status(
        0,
        "",
        "recording",
        engine="cpu-timers",
        look_rate_hz=50.0,
        effective_rate_hz=98.4,
        counters={**_counters(profile, ticks), **counters},
        handler_p50_ns=1750 if ticks else 0,
        handler_p99_ns=3750 if ticks else 0,
        symbols=SOURCES,
        notes=["the attach interrupted one epoll_wait of the main thread (EINTR), once"],
    )
    return with_sums(status, profile)


def _counters(profile: Profile, ticks: int) -> dict[str, int]:
    handled = ticks * 4
    cpu_ns = profile.total_ns(Clock.CPU)
    return {
        "ticks": ticks,
        "ticks_late": ticks // 90,
        "signals_sent": handled + 3,
        "signals_handled": handled,
        "signals_late": ticks // 55,
        "parked_reads": ticks,
        "parked_torn": ticks // 70,
        "unchanged": ticks * 7,
        "ring_full": 0,
        "intervals_lost": 0,
        "traces_lost": 0,
        "threads_lost": 0,
        "threads_exited": 1,
        "signal_blocked": 0,
        "eintr_repaired": ticks // 40,
        "eintr_unrepairable": 0,
        "fork_backoff": 0,
        "handler_ns_total": handled * 1730,
        "handler_ns_max": 14_200 if ticks else 0,
        "sampler_cpu_ns": profile.duration_ns * 31 // 10_000,
        "cfi_rows": 48_112,
        "cfi_modules": 9,
        "cfi_compile_ns": 21_000_000,
        "bytes_held": 11_400_000,
        "unattributed_cpu_ns": cpu_ns // 900,
        "module_refreshes": 1,
        "unattributed_ended_ns": cpu_ns // 1800,
        "engine_now": abi.ENGINE_CPU_TIMERS,
        "cpu_rate_mhz_now": 100_000,
        "rate_mhz_now": 50_000,
        "not_ready": 12,
    }
