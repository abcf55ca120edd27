"""Compute the sampling rates of a recording: the requested, the current and the achieved rate.

Samples of running threads have one rate, looks at sleeping threads another. Timers on the CPU clock
of each thread decide when a running thread is sampled. Without such timers the sampler's rounds
decide it, and both rates are equal. Pure functions of counters (``agent/abi.h``) and sums.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from ..recording.figures import three_digits
from ..wire.abi import ENGINE_CPU_TIMERS

CPU_TIMERS, ROUNDS = "cpu-timers", "rounds"
# A note reports a rate below this share of the requested rate.
LOWERED_SHARE = 0.95
# A note reports samples taken below this share of the samples due. It is lower because a period
# is random, and its end is rounded to a timer tick.
TAKEN_SHARE = 0.8
# With fewer samples due, the share of taken samples is mostly chance.
DUE_MIN = 200
CLOCK_MONOTONIC_COARSE = 6  # its resolution is the kernel's tick period; clock_getres(2)


@dataclass(frozen=True)
class Rates:
    """The current and achieved rates of a recording, in Hz."""

    engine: str  # CPU_TIMERS or ROUNDS; "" while unknown
    rate_hz: float  # samples in a second of each thread's CPU time, in force now
    look_rate_hz: float  # looks a second at each sleeping thread, in force now
    effective_rate_hz: float  # samples taken in a second of CPU time that has stacks; 0 for none
    samples_due: float  # at the rate in force

    @classmethod
    def of(
        cls, asked_hz: float, counters: Mapping[str, int], cpu_samples: int, seen_cpu_ns: int
    ) -> Rates:
        """Compute the rates.

        Args:
            asked_hz: the rate that the user requested.
            counters: the agent's counters; empty before it has started.
            cpu_samples: stacks taken of running threads.
            seen_cpu_ns: the CPU time of these stacks.
        """
        engine = ""
        if "engine_now" in counters:
            engine = CPU_TIMERS if counters["engine_now"] == ENGINE_CPU_TIMERS else ROUNDS
        look_rate_hz = counters.get("rate_mhz_now", 0) / 1000 or asked_hz
        rate_hz = counters.get("cpu_rate_mhz_now", 0) / 1000 or look_rate_hz
        seen_s = seen_cpu_ns / 1e9
        return cls(
            engine, rate_hz, look_rate_hz, cpu_samples / seen_s if seen_s else 0.0, rate_hz * seen_s
        )

    def notes(
        self, asked_hz: float, budget_ppm: int, lowered: int, tick_hz: float | None = None
    ) -> list[str]:
        """Explain why the rate is below the requested one; return an empty list if it is not.

        Args:
            asked_hz: the rate that the user requested.
            budget_ppm: the limit for the CPU time of sampling, in millionths of a core.
            lowered: how often a rate was lowered.
            tick_hz: timer ticks of the kernel in a second; None to ask this kernel.
        """
        notes = self._budget_notes(asked_hz, budget_ppm, lowered) if lowered else []
        is_sparse = self.effective_rate_hz < TAKEN_SHARE * self.rate_hz
        if self.engine == CPU_TIMERS and is_sparse and self.samples_due >= DUE_MIN:
            tick_hz = tick_hz or kernel_tick_hz()
            found = (
                f"{three_digits(self.effective_rate_hz)} samples a second of CPU time instead of "
                f"{three_digits(self.rate_hz)}"
            )
            if self.rate_hz > tick_hz / 2:
                notes.append(
                    f"the kernel's timers tick {three_digits(tick_hz)} times a second: {found}"
                )
            else:
                notes.append(f"{found}: each sample counts for more time")
        return notes

    def _budget_notes(self, asked_hz: float, budget_ppm: int, lowered: int) -> list[str]:
        cause = f"to stay within {budget_ppm / 1e4:g} % of a core (--budget 0: no limit)"
        asked, look_rate = three_digits(asked_hz), three_digits(self.look_rate_hz)
        looks = f"looks at sleeping threads lowered from {asked} to {look_rate} Hz"
        fewer_looks = self.look_rate_hz < LOWERED_SHARE * asked_hz
        if self.rate_hz < LOWERED_SHARE * asked_hz:
            note = f"rate lowered from {asked} to {three_digits(self.rate_hz)} Hz {cause}"
            return [f"{note}; {looks}" if fewer_looks and self.engine == CPU_TIMERS else note]
        if fewer_looks:
            return [f"{looks} {cause}; running threads are sampled as often as before"]
        often = "once" if lowered == 1 else f"{lowered:,} times"
        return [f"rate lowered {often}, for a while, {cause}"]


def kernel_tick_hz() -> float:
    """Return the kernel's tick rate in Hz (CONFIG_HZ); it checks CPU clock timers at each tick."""
    return 1 / time.clock_getres(CLOCK_MONOTONIC_COARSE)
