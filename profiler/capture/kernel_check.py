"""Compare a recording with what the kernel says of the same threads: it counts CPU time, too.

The kernel tells CPU time exactly (/proc/PID/task/TID/schedstat) and splits it between program and
system calls by what it meets at its ticks (/proc/PID/task/TID/stat). Both sides of the split are
samples, so a difference is allowed that chance explains. Pure: figures in, sentences out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

# With less CPU time chance explains nearly everything.
CPU_MIN_NS = 1_000_000_000
# What both may differ by for reasons of their own: handlers, interrupts, entry and return.
MARGIN = 0.03
# Further off than that by chance is one recording in 16 000.
STANDARD_ERRORS = 4
# Ticks in a second of CPU time. Kernels have 100, 250, 300 or 1000.
TICKS_HZ = 250
# The kernel tells its split in units of 10 ms (USER_HZ), cut off: the error of a difference.
ROUNDING_NS = 10_000_000 * math.sqrt(2 / 12)
# A page fault is system time to the kernel; to us it is the function that touched the page.
FAULT_NS = 2_000
# Both sides begin and end at moments that are so much apart at most, where one of them did not have
# to wait for a CPU.
EDGES_NS = 100_000_000


@dataclass(frozen=True)
class Comparison:
    """CPU time of the same threads, by the kernel and by the recording. Nanoseconds."""

    threads: int
    duration_ns: int
    # For the split: threads that ran to the end, and those whose last reading came late enough.
    kernel_user_ns: int
    kernel_system_ns: int
    page_faults: int
    seen_ns: int  # with a stack
    seen_system_ns: int  # … that ends in a system call
    without_stack_ns: int
    samples: int
    # For the sum: threads that ran to the end; 0 where the kernel does not tell.
    kernel_total_ns: int
    seen_total_ns: int
    kernel_duration_ns: int  # from the kernel's first reading to its last

    @property
    def kernel_share(self) -> float:
        """Share of the CPU time in system calls by the kernel, 0 … 1."""
        total_ns = self.kernel_user_ns + self.kernel_system_ns
        return self.kernel_system_ns / total_ns if total_ns else 0.0

    @property
    def seen_share(self) -> float:
        """Share of the CPU time in system calls by the recording, of what has a stack, 0 … 1."""
        return self.seen_system_ns / self.seen_ns if self.seen_ns else 0.0

    def notes(self) -> list[str]:
        """What differs by more than chance and the known reasons allow; a sentence each."""
        return [note for note in (self._split_note(), self._total_note()) if note]

    def allowed(self) -> float:
        """By how much the shares may differ."""
        kernel_ns = self.kernel_user_ns + self.kernel_system_ns
        # A share of 0 or 1 in a sample is no certainty.
        shares = self.kernel_share, self.seen_share
        spread = max(max(share * (1 - share) for share in shares), 0.02)
        variance = spread / (kernel_ns / 1e9 * TICKS_HZ) + spread / self.samples
        variance += self.threads * (ROUNDING_NS / kernel_ns) ** 2
        return MARGIN + STANDARD_ERRORS * math.sqrt(variance)

    def _split_note(self) -> str:
        kernel_ns = self.kernel_user_ns + self.kernel_system_ns
        if min(kernel_ns, self.seen_ns) < CPU_MIN_NS or not self.samples:
            return ""
        # Time without a stack may have been in system calls or not.
        known = self.seen_ns / (self.seen_ns + self.without_stack_ns)
        least, most = self.seen_share * known, self.seen_share * known + 1 - known
        allowed = self.allowed()
        faults = self.page_faults * FAULT_NS / kernel_ns
        if least - allowed <= self.kernel_share <= most + allowed + faults:
            return ""
        return (
            f"flametap saw {self.seen_share:.0%} of the CPU time in system calls, the kernel "
            f"{self.kernel_share:.0%}: shares of functions may be wrong by as much; record again "
            "at another rate (-r 250), and report it if it stays"
        )

    def _total_note(self) -> str:
        if self.kernel_total_ns < CPU_MIN_NS:
            return ""
        # On a busy machine the one goes on for a while when the other has ended.
        edges_ns = EDGES_NS + abs(self.duration_ns - self.kernel_duration_ns)
        share = MARGIN + edges_ns / max(self.duration_ns, 1)
        allowed_ns = share * self.kernel_total_ns
        if abs(self.seen_total_ns - self.kernel_total_ns) <= allowed_ns:
            return ""
        what = "missing" if self.seen_total_ns < self.kernel_total_ns else "counted twice"
        return (
            f"flametap counted {self.seen_total_ns / 1e9:.2f} s of CPU time, the kernel "
            f"{self.kernel_total_ns / 1e9:.2f} s: time is {what}; if nothing is said to be lost, "
            "report it"
        )
