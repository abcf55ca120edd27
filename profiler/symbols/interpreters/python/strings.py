"""Read the strings of Python in another process, as its recipe describes them.

One may be damaged, or change meanwhile: what does not fit is an ``ObjectError``.
"""

from __future__ import annotations

from ....linux.process_memory import MemoryReadError, ProcessMemory
from ....wire.events import CodePart
from ..recipe import Recipe

MAX_LENGTH = 1 << 48  # of any object
_BYTES_AT_ONCE = 160  # enough for most strings


class ObjectError(MemoryReadError):
    """There is no such object at an address."""


def read_string(
    memory: ProcessMemory, recipe: Recipe, addr: int, limit: int, *, from_end: bool = False
) -> tuple[CodePart, int]:
    """Return the characters of a str, and how many it has.

    Args:
        memory, recipe: of its interpreter.
        addr: of the object; its type is not checked.
        limit: characters to read of a longer one.
        from_end: of a longer one, the last characters; else the first.

    Raises:
        MemoryReadError: it cannot be read, or is damaged.
    """
    head = memory.read_some(addr, _BYTES_AT_ONCE)
    if len(head) < recipe["string_compact"]:
        head = memory.read(addr, recipe["string_compact"])
    length = int.from_bytes(head[recipe["string_length"] :][:8], "little")
    state = int.from_bytes(head[recipe["string_state"] :][:4], "little")
    state >>= recipe["string_kind_shift"]
    kind, is_compact, is_ascii = state & 7, state >> 3 & 1, state >> 4 & 1
    if kind not in (1, 2, 4) or length > MAX_LENGTH:
        raise ObjectError(f"the string at {addr:#x} is damaged")
    place = recipe["string_ascii" if is_ascii and is_compact else "string_compact"]
    data = addr + place if is_compact else memory.word(addr + place)
    shown = min(length, limit)
    size, skipped = shown * kind, (length - shown) * kind if from_end else 0
    start = data + skipped - addr
    is_in_head = is_compact and start + size <= len(head)
    raw = head[start : start + size] if is_in_head else memory.read(data + skipped, size)
    return CodePart(raw, kind, length > shown), length
