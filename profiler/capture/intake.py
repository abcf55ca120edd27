"""Read the ring into the profile, and tell the symbolizer what is new.

One thread reads; any thread may ask for the figures.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ..errors import FlametapError
from ..recording.numbers import ProcessNumbers
from ..recording.profile.store import Profile
from ..wire.abi import RING_BYTES
from ..wire.decoder import Decoder
from ..wire.events import Batch, Code, ModuleUpdate, joined
from ..wire.ring import Ring

if TYPE_CHECKING:
    from ..symbols.symbolizer import Symbolizer

# Between two readings: where somebody looks on, where the program may end soon, …
SOON_S, EARLY_S = 0.05, 2.0
# … and otherwise, unless the ring fills up: as long as it takes to fill that part of it.
LATER_S = 1.0
FULL_PART = 16
READ_OFTEN = 8  # processes


class Intake:
    """See the module.

    Args:
        profile: what is read goes there.
        numbers: what the agent's numbers are there.
        process: the number of the process.
        on_modules: called when there are new modules.
        fill: gives stacks to CPU time that the agent tells without; see ``KernelFill``.

    Attributes:
        error: why nothing is read any more; None while all is well.
        now_ns: time of the last batch, CLOCK_MONOTONIC of the target; 0 before the first one.
        cpu_before_ns: the CPU time of each thread that was used before it was seen, by thread_id.
    """

    def __init__(
        self,
        profile: Profile,
        numbers: ProcessNumbers,
        process: int,
        on_modules: Callable[[], None],
        fill: Callable[[Batch], Batch] = lambda batch: batch,
    ) -> None:
        self.error: FlametapError | None = None
        self.now_ns = 0
        self._profile = profile
        self._numbers = numbers
        self._process = process
        self._on_modules, self._fill = on_modules, fill
        self._decoder = Decoder()
        self.cpu_before_ns: dict[int, int] = {}
        self._counters: dict[str, int] = {}
        self._handler_ns = 0, 0
        self._bytes_per_s = 0.0
        self._read_s = time.monotonic()
        self._lock = threading.Lock()

    def due_in_s(self, *, is_watched: bool, most_s: float = LATER_S, n_processes: int = 1) -> float:
        """Return how long the next reading may wait; 0 or less if it is due. Each costs 1 ms.

        Args:
            is_watched: somebody waits for what is new.
            most_s: the longest time between two readings.
            n_processes: how many are read by turns.
        """
        pause_s = min(SOON_S * (1 + n_processes // READ_OFTEN), most_s)
        if not is_watched and self._profile.duration_ns >= EARLY_S * 1e9:
            fills_s = RING_BYTES / FULL_PART / max(self._bytes_per_s, 1.0)
            pause_s = min(max(fills_s, pause_s), most_s)
        return pause_s - (time.monotonic() - self._read_s)

    def read(self, ring: Ring | None, symbolizer: Symbolizer) -> FlametapError | None:
        """Read what is there. Return what goes wrong, once; it is the ``error`` from then on."""
        read_s = time.monotonic()
        since_s, self._read_s = read_s - self._read_s, read_s
        if ring is None or self.error is not None:
            return None
        modules: list[ModuleUpdate] = []
        codes: list[Code] = []
        try:
            with self._lock:
                data = ring.read()
                self._bytes_per_s = len(data) / max(since_s, SOON_S)
                for sent in joined(self._decoder.feed(data)):
                    batch = self._fill(self._numbers.batch(sent))
                    self._profile.apply(batch, self._process)
                    self.now_ns = max(self.now_ns, batch.now_ns)
                    modules += batch.modules
                    for thread in batch.threads:
                        if not thread.hidden:
                            self.cpu_before_ns[thread.thread_id] = thread.cpu_before_ns
                    codes += batch.codes
                self._counters = ring.counters()
                self._handler_ns = ring.handler_quantiles_ns()
            self.error = self._decoder.error
        except FlametapError as error:
            self.error = error
        except Exception as error:  # whatever the target does, what was recorded is saved
            what = f"the recording cannot go on: {type(error).__name__}: {error}"
            self.error = FlametapError(what, "please report it; what was recorded is kept")
        self._pass_on(symbolizer, modules, codes)
        return self.error

    def figures(self) -> tuple[dict[str, int], tuple[int, int]]:
        """Return the agent's counters, and the median and 99 % of the handler's time, in ns."""
        with self._lock:
            return dict(self._counters), self._handler_ns

    def _pass_on(
        self, symbolizer: Symbolizer, modules: Sequence[ModuleUpdate], codes: Sequence[Code]
    ) -> None:
        if modules:
            self._on_modules()
        symbolizer.add_codes(codes)
        for update in modules:
            if not update.gone and self._profile.has_module(update.module.module_id):
                symbolizer.add_module(update.module)
        # What is new is from this process: nobody else has added anything since the last time.
        if self._profile.stacks_mark == self._numbers.whole.passed_on:
            return
        news = self._profile.news(self._numbers.whole.passed_on)
        self._numbers.whole.passed_on = news.mark
        if news.addresses:
            symbolizer.submit_many(news.addresses, self._profile.now_ns)
        symbolizer.submit_calls(*news.calls)
        symbolizer.submit_leaves(news.leaves)
