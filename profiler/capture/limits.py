"""The bounds of what a user may ask of sampling."""

from __future__ import annotations

from ..errors import UsageError

RATE_MIN_HZ = 1.0
RATE_MAX_HZ = 10_000.0  # above it the sampler thread has no time left between two rounds

# Too small for one sample; more than all cores of the largest machines.
BUDGET_MIN_PPM = 100
BUDGET_MAX_PPM = 100_000_000


def check_rate_hz(rate_hz: float, given: str) -> float:
    """Return a rate that is within the bounds.

    Args:
        rate_hz: the rate; 0 for a text that is none.
        given: as the user wrote it.

    Raises:
        UsageError: it is not within RATE_MIN_HZ to RATE_MAX_HZ.
    """
    if not RATE_MIN_HZ <= rate_hz <= RATE_MAX_HZ:
        raise UsageError(
            f"the rate '{given}' is not between {RATE_MIN_HZ:g} and {RATE_MAX_HZ:g} Hz",
            "100 is a good rate; 1k shows short phases better",
        )
    return rate_hz


def check_budget_ppm(percent: float, given: str) -> int:
    """Return a budget in millionths of one core; 0 for no limit.

    Args:
        percent: of one core; negative for a text that is none.
        given: as the user wrote it.

    Raises:
        UsageError: it is not 0, and not within BUDGET_MIN_PPM to BUDGET_MAX_PPM.
    """
    budget_ppm = round(percent * 10_000) if abs(percent) < BUDGET_MAX_PPM else -1
    if percent != 0 and not BUDGET_MIN_PPM <= budget_ppm <= BUDGET_MAX_PPM:
        raise UsageError(
            f"'{given}' is not a budget", "give per cent of one core: 2 or 0.5%; 0 is no limit"
        )
    return budget_ppm


def check_sampling(rate_hz: float, budget_percent: float) -> tuple[float, int]:
    """Return a rate and a budget in millionths of one core.

    Raises:
        UsageError: one of them is out of bounds.
    """
    rate_hz = check_rate_hz(rate_hz, f"{rate_hz:g}")
    return rate_hz, check_budget_ppm(budget_percent, f"{budget_percent:g}")
