"""Sums over recordings: the counters, the handler's time, how long was sampled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from flametap.wire.ring import bucket_end_ns

# Counters that are not sums: the largest value of all recordings is kept.
LARGEST = ("handler_ns_max", "bytes_held", "rate_mhz_now", "cfi_rows", "cfi_modules")


@dataclass
class Tally:
    """What some recordings amount to."""

    recordings: int = 0
    sampled_s: float = 0.0  # wall time of each recorded target, summed
    samples: int = 0
    cpu_s: float = 0.0
    complete_cpu_s: float = 0.0
    attach_s_max: float = 0.0
    stop_s_max: float = 0.0
    counters: Counter[str] = field(default_factory=Counter)
    histogram: list[int] = field(default_factory=list)

    def add(
        self,
        *,
        duration_s: float,
        samples: int,
        counters: Mapping[str, int],
        histogram: Sequence[int],
        attach_s: float,
        stop_s: float,
        cpu_s: float,
        complete_cpu_s: float,
    ) -> None:
        """Add one recording."""
        self._add_sums(duration_s, samples, cpu_s, complete_cpu_s)
        self.recordings += 1
        self._add_counters(counters, histogram)
        self.attach_s_max = max(self.attach_s_max, attach_s)
        self.stop_s_max = max(self.stop_s_max, stop_s)

    def merge(self, other: Tally) -> None:
        """Add all of another tally."""
        self._add_sums(other.sampled_s, other.samples, other.cpu_s, other.complete_cpu_s)
        self.recordings += other.recordings
        self._add_counters(other.counters, other.histogram)
        self.attach_s_max = max(self.attach_s_max, other.attach_s_max)
        self.stop_s_max = max(self.stop_s_max, other.stop_s_max)

    def handler_ns(self, share: float) -> int:
        """The time that this share of all handler runs stayed below: upper end of its bucket."""
        total, seen = sum(self.histogram), 0
        for bucket, count in enumerate(self.histogram):
            seen += count
            if total and seen >= share * total:
                return bucket_end_ns(bucket)
        return 0

    def as_json(self) -> dict[str, Any]:
        """All fields; ``from_json`` reads them."""
        return {**vars(self), "counters": dict(self.counters)}

    @staticmethod
    def from_json(fields: Mapping[str, Any]) -> Tally:
        """The inverse of ``as_json``."""
        return Tally(**{**fields, "counters": Counter(fields["counters"])})

    def _add_sums(self, sampled_s: float, samples: int, cpu_s: float, complete_s: float) -> None:
        self.sampled_s += sampled_s
        self.samples += samples
        self.cpu_s += cpu_s
        self.complete_cpu_s += complete_s

    def _add_counters(self, counters: Mapping[str, int], histogram: Sequence[int]) -> None:
        for name, value in counters.items():
            if name in LARGEST:
                self.counters[name] = max(self.counters[name], value)
            else:
                self.counters[name] += value
        longer = max(len(self.histogram), len(histogram))
        both = (list(self.histogram), list(histogram))
        padded = [counts + [0] * (longer - len(counts)) for counts in both]
        self.histogram = [sum(pair) for pair in zip(*padded, strict=True)]
