"""Report the cost of a recording to the sampled process; every recording includes these figures.

The agent measures them in the process: the duration of each run of its signal handler, the CPU
time of its sampler thread, and the memory it holds. The cost of the injection, once per attach, is
not included.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..model import LOOKS, Status
from .figures import counted, short_time, three_digits


@dataclass(frozen=True)
class Certificate:
    """Cost and footprint of a recording up to now. Times are nanoseconds."""

    duration_ns: int
    engine: str  # "cpu-timers" or "rounds": what decides when running threads are sampled
    rate_hz: float  # samples in a second of CPU time, in force at the end
    look_rate_hz: float  # looks a second at each sleeping thread, in force at the end
    effective_rate_hz: float  # samples taken in a second of CPU time
    handler_runs: int
    handler_p50_ns: int  # upper bound of a histogram bucket; 0 if the handler never ran
    handler_p99_ns: int
    handler_max_ns: int
    handler_total_ns: int
    sampler_cpu_ns: int
    once_cpu_ns: int  # of that: reading the program, and the first stack of each thread
    bytes_held: int
    signals_sent: int
    waits_resumed: int  # system calls that our signal interrupted and the agent restarted
    waits_broken: int  # system calls that our signal interrupted and that returned EINTR
    parked_reads: int  # stacks read from sleeping threads, without waking them
    threads_admitted: int  # threads that blocked our signal, whose masks were changed meanwhile

    @classmethod
    def of(cls, status: Status) -> Certificate:
        """Build a certificate from the counters of a status (abi.h, enum counter).

        A missing counter is 0.
        """
        counters = status.counters
        return cls(
            duration_ns=status.recorded_ns,
            engine=status.engine,
            rate_hz=status.rate_hz,
            look_rate_hz=status.look_rate_hz,
            effective_rate_hz=round(status.effective_rate_hz, 3),
            handler_runs=counters.get("signals_handled", 0),
            handler_p50_ns=status.handler_p50_ns,
            handler_p99_ns=status.handler_p99_ns,
            handler_max_ns=counters.get("handler_ns_max", 0),
            handler_total_ns=counters.get("handler_ns_total", 0),
            sampler_cpu_ns=counters.get("sampler_cpu_ns", 0),
            once_cpu_ns=counters.get("once_cpu_ns", 0),
            bytes_held=counters.get("bytes_held", 0),
            signals_sent=counters.get("signals_sent", 0),
            waits_resumed=counters.get("eintr_repaired", 0),
            waits_broken=counters.get("eintr_unrepairable", 0),
            parked_reads=counters.get("parked_reads", 0),
            threads_admitted=counters.get("threads_admitted", 0),
        )

    @property
    def core_share(self) -> float:
        """CPU time of the handler and the sampler thread as a share of one core; 0 at the start.

        Without what is done once: the budget is for the rest.
        """
        if self.duration_ns <= 0:
            return 0.0
        steady_ns = max(0, self.sampler_cpu_ns - self.once_cpu_ns)
        return (self.handler_total_ns + steady_ns) / self.duration_ns

    def lines(self) -> list[str]:
        """Format the cost as two lines of text: time and memory, then signals and system calls."""
        if self.engine == LOOKS:
            return ["cost: not known, as a device does not tell it"]
        if self.engine == LOOKS:
            return ["cost: not known, as a device does not tell it"]
        took = f"cost: {self.core_share:.2%} of a core in the process"
        if self.once_cpu_ns:
            took += f" (and {short_time(self.once_cpu_ns)} once, at its beginning)"
        took += f", {_mebibytes(self.bytes_held)}"
        if self.handler_p50_ns:
            took += (
                f"; a sample took {short_time(self.handler_p50_ns)}"
                f" (99 % at most {short_time(self.handler_p99_ns)},"
                f" longest {short_time(self.handler_max_ns)})"
            )
        took += self._rates()
        inside = (
            f"in the process: {counted(self.handler_runs, 'signal')} taken, "
            f"{counted(self.parked_reads, 'sleeping stack')} read, {self._interrupted()}"
        )
        if self.threads_admitted:
            inside += f", {counted(self.threads_admitted, 'signal mask')} changed meanwhile"
        return [took, inside]

    def _interrupted(self) -> str:
        if not self.waits_resumed and not self.waits_broken:
            return "0 system calls interrupted"
        broken = f"{counted(self.waits_broken, 'system call')} returned EINTR"
        if not self.waits_resumed:
            return broken
        return f"{counted(self.waits_resumed, 'interrupted system call')} restarted, {broken}"

    def _rates(self) -> str:
        if self.engine == "cpu-timers":
            return (
                f"; CPU timers: {three_digits(self.rate_hz)} samples a second of CPU time "
                f"({three_digits(self.effective_rate_hz)} taken), "
                f"{three_digits(self.look_rate_hz)} looks a second at sleeping threads"
            )
        return f"; {three_digits(self.rate_hz)} rounds a second" if self.engine else ""

    def as_json(self) -> dict[str, int | float | str]:
        """Return all fields by name and ``core_share``, for a JSON file; times in nanoseconds."""
        return {**vars(self), "core_share": round(self.core_share, 6)}


def _mebibytes(count: int) -> str:
    return f"{three_digits(count / (1 << 20))} MiB held"
