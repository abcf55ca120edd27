"""Compare the CPU time of a recording with the kernel's CPU time of the same threads.

The kernel's total is exact (/proc/PID/task/TID/schedstat). It divides the time into user and
system time by the state that it finds at each timer tick (/proc/PID/task/TID/stat). Both sides of
that split are therefore samples, and a difference within their standard error is accepted. Pure
functions: figures in, sentences out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

# With less CPU time, chance alone explains nearly every difference.
CPU_MIN_NS = 1_000_000_000
# Systematic difference that we accept: the kernel's work for sampling, which has no samples itself.
# A thread that only computes has 0.0 % system time alone, 0.5 % recorded at 250 Hz, and with a
# precise clock in a virtual machine 2.5 % (4 % at 1 kHz).
MARGIN = 0.03
# One recording in 16 000 differs by more than this by chance.
STANDARD_ERRORS = 4
# Timer ticks in a second of CPU time. Kernels are built with 100, 250, 300 or 1000.
TICKS_HZ = 250
# The kernel's user and system times are truncated to 10 ms (USER_HZ). This is the standard
# deviation of a difference of two such times.
ROUNDING_NS = 10_000_000 * math.sqrt(2 / 12)
# The kernel counts a page fault as system time; we count it for the function that caused it.
FAULT_NS = 2_000
# In a virtual machine whose host has to find the memory first; 7 us were seen.
LONGEST_FAULT_NS = 20_000
# The two measurements begin and end at most this far apart if neither had to wait for a CPU.
EDGES_NS = 100_000_000


@dataclass(frozen=True)
class Comparison:
    """CPU time of the same threads, by the kernel and by the recording. Nanoseconds."""

    threads: int
    duration_ns: int
    # User and system time of threads that ran to the end, or were read shortly before their end.
    kernel_user_ns: int
    kernel_system_ns: int
    page_faults: int
    seen_ns: int  # with a stack
    seen_system_ns: int  # with a stack that ends in a system call
    # The part in rt_sigprocmask: a signal that was blocked arrives there, and its sample stands for
    # the CPU time since the one before.
    seen_unblocking_ns: int
    without_stack_ns: int
    samples: int
    # Total time of threads that ran to the end; 0 if the kernel does not provide it.
    kernel_total_ns: int
    seen_total_ns: int
    kernel_duration_ns: int  # from our first reading of the kernel's figures to the last

    @property
    def kernel_share(self) -> float:
        """Share of the CPU time that the kernel counts as system calls, 0 … 1."""
        total_ns = self.kernel_user_ns + self.kernel_system_ns
        return self.kernel_system_ns / total_ns if total_ns else 0.0

    @property
    def seen_share(self) -> float:
        """Share of the recorded CPU time with a stack that ends in a system call, 0 … 1."""
        return self.seen_system_ns / self.seen_ns if self.seen_ns else 0.0

    def notes(self) -> list[str]:
        """Describe each difference that chance and known causes do not explain, in a sentence."""
        return [note for note in (self._split_note(), self._total_note()) if note]

    def allowed(self) -> float:
        """Return the accepted difference between the two shares, 0 … 1."""
        kernel_ns = self.kernel_user_ns + self.kernel_system_ns
        # A sampled share of 0 or 1 has an error, too; its computed variance would be 0.
        shares = self.kernel_share, self.seen_share
        spread = max(max(share * (1 - share) for share in shares), 0.02)
        variance = spread / (kernel_ns / 1e9 * TICKS_HZ) + spread / self.samples
        variance += self.threads * (ROUNDING_NS / kernel_ns) ** 2
        return MARGIN + STANDARD_ERRORS * math.sqrt(variance)

    def _split_note(self) -> str:
        kernel_ns = self.kernel_user_ns + self.kernel_system_ns
        if min(kernel_ns, self.seen_ns) < CPU_MIN_NS or not self.samples:
            return ""
        # Time without a stack may or may not belong to system calls.
        known = self.seen_ns / (self.seen_ns + self.without_stack_ns)
        least, most = self.seen_share * known, self.seen_share * known + 1 - known
        allowed = self.allowed()
        faults = self.page_faults * FAULT_NS / kernel_ns
        if least - allowed <= self.kernel_share <= most + allowed + faults:
            return ""
        blocked = self.seen_unblocking_ns / (self.seen_ns + self.without_stack_ns)
        if self.kernel_share < least and least - blocked - allowed <= self.kernel_share:
            return (
                f"{least - self.kernel_share:.0%} of the CPU time passed while the program blocked "
                "the sampling signal: it is shown as [rt_sigprocmask], below the function that "
                "unblocks signals; what ran meanwhile is unknown"
            )
        longest_faults = self.page_faults * LONGEST_FAULT_NS / kernel_ns
        if most < self.kernel_share <= most + allowed + longest_faults:
            return (
                f"the kernel counts {self.kernel_share:.0%} of the CPU time as its own, "
                f"{self.seen_share:.0%} is in system calls: the rest is probably that of "
                f"{self.page_faults:,} page faults, and shown in the functions that touch memory "
                "for the first time"
            )
        return (
            f"flametap saw {self.seen_share:.0%} of the CPU time in system calls, the kernel "
            f"{self.kernel_share:.0%}: shares of functions may be wrong by as much; record again "
            "at another rate (-r 250), and report it if the difference remains"
        )

    def _total_note(self) -> str:
        if self.kernel_total_ns < CPU_MIN_NS:
            return ""
        cpus = self.kernel_total_ns / max(self.duration_ns, 1)  # in use on average
        allowed_ns = MARGIN * self.kernel_total_ns + EDGES_NS * cpus
        # On a busy machine one of the two measurements may end noticeably later than the other.
        # Meanwhile a thread may have had a CPU all the time, whatever its average is.
        allowed_ns += abs(self.duration_ns - self.kernel_duration_ns) * max(cpus, 1)
        if abs(self.seen_total_ns - self.kernel_total_ns) <= allowed_ns:
            return ""
        what = "missing" if self.seen_total_ns < self.kernel_total_ns else "counted twice"
        return (
            f"flametap counted {self.seen_total_ns / 1e9:.2f} s of CPU time, the kernel "
            f"{self.kernel_total_ns / 1e9:.2f} s: time is {what}; report it unless flametap also "
            "reports losses"
        )
