"""Check a recipe against a running HotSpot before it is used.

The tables come from the machine itself, but a vendor may have changed what they describe. So the
recipe is followed as the agent follows it: from two known addresses to their code blobs, over the
first compiled methods to their names, and over the scopes of each to methods that can be read.

The process runs meanwhile: what is being changed looks wrong for a moment, so one wrong place among
many does not count.
"""

from __future__ import annotations

from collections.abc import Iterator

from ....linux.process_memory import MemoryReadError, ProcessMemory
from ....wire.abi import HOTSPOT_HEAPS
from ..found import Checked
from ..recipe import Recipe

_MAX_BLOBS = 4096  # that are looked at
_WANTED_METHODS = 16  # that are looked into
_MAX_HEAP_BYTES = 4 << 30
_MAX_BLOCK_BYTES = 64 << 20
_MAX_NAME_BYTES = 64
_MOST_WRONG = 0.25  # of the methods


class _Blobs:
    """The code heaps of one process."""

    def __init__(self, memory: ProcessMemory, recipe: Recipe) -> None:
        self._memory = memory
        self._recipe = recipe
        names = ["heap", *(f"heap_{i}" for i in range(1, HOTSPOT_HEAPS))]
        self._heaps = [self._heap(recipe[name]) for name in names if name in recipe]

    def find(self, pc: int) -> int:
        """Return the blob that contains a pc; 0 if there is none."""
        for low, high, segments, shift in self._heaps:
            if not low <= pc < high:
                continue
            at = (pc - low) >> shift
            while back := self._memory.integer(segments + at, 1):
                if back == 0xFF or back > at:
                    return 0
                at -= back
            return low + (at << shift) + self._recipe["block_bytes"]
        return 0

    def name(self, blob: int) -> bytes:
        """Return the name of a blob."""
        text = self._memory.word(blob + self._recipe["blob_name"])
        return self._memory.read_some(text, _MAX_NAME_BYTES).partition(b"\0")[0]

    def compiled(self) -> Iterator[int]:
        """Yield compiled methods."""
        seen = 0
        for low, high, _, shift in self._heaps:
            block = low
            while block < high and seen < _MAX_BLOBS:
                seen += 1
                # size_t before 24, u32 since: the rest is 0, or the flag.
                length = self._memory.integer(block, 4) << shift
                if not 0 < length <= _MAX_BLOCK_BYTES:
                    break
                blob = block + self._recipe["block_bytes"]
                is_used = self._memory.integer(block + self._recipe["block_used"], 1) != 0
                if is_used and self.name(blob) == b"nmethod":
                    yield blob
                block += length

    def _heap(self, addr: int) -> tuple[int, int, int, int]:
        memory, recipe = self._memory, self._recipe
        low = memory.word(addr + recipe["heap_low"])
        high = memory.word(addr + recipe["heap_high"])
        segments = memory.word(addr + recipe["heap_map"])
        shift = memory.integer(addr + recipe["heap_segment_shift"], 4)
        if not 0 < high - low <= _MAX_HEAP_BYTES or not 4 <= shift <= 16:
            raise MemoryReadError("a code heap of an impossible size")
        return low, high, segments, shift


def check(memory: ProcessMemory, recipe: Recipe) -> tuple[Checked, str]:
    """Compare a recipe with a running HotSpot; return the outcome, and what is wrong."""
    try:
        blobs = _Blobs(memory, recipe)
        if blobs.name(blobs.find(recipe["interpreter"])) != b"Interpreter":
            return Checked.WRONG, "its interpreter is not where it should be"
        stubs = blobs.find(recipe["call_stub_return"] - 1)
        if not blobs.name(stubs).startswith(b"StubRoutines"):
            return Checked.WRONG, "its stubs are not where they should be"
        right = wrong = 0
        for blob in blobs.compiled():
            try:
                is_right = _is_method(memory, recipe, memory.word(blob + recipe["compiled_method"]))
            except MemoryReadError:
                is_right = False
            right, wrong = right + is_right, wrong + (not is_right)
            if right + wrong >= _WANTED_METHODS:
                break
        if wrong > _MOST_WRONG * (right + wrong):
            return Checked.WRONG, "its methods are not where they should be"
    except MemoryReadError as error:
        return Checked.WRONG, str(error)
    return Checked.FITS, ""


def _is_method(memory: ProcessMemory, recipe: Recipe, method: int) -> bool:
    """Return whether a method has a class and a name, and both are text.

    Raises:
        MemoryReadError: its memory cannot be read.
    """
    constant = memory.word(method + recipe["method_const"])
    pool = memory.word(constant + recipe["const_pool"])
    index = memory.integer(constant + recipe["const_name"], 2)
    if not 0 < index < memory.integer(pool + recipe["pool_length"], 4):
        return False
    klass = memory.word(pool + recipe["pool_holder"])
    symbols = (
        memory.word(klass + recipe["klass_name"]),
        memory.word(pool + recipe["pool_bytes"] + 8 * index),
    )
    return all(_is_text(memory, recipe, symbol) for symbol in symbols)


def _is_text(memory: ProcessMemory, recipe: Recipe, symbol: int) -> bool:
    length = memory.integer(symbol + recipe["symbol_length"], 2)
    text = memory.read(symbol + recipe["symbol_body"], length)
    try:
        return bool(text) and text.decode("utf-8", "surrogatepass").isprintable()
    except UnicodeDecodeError:
        return False
