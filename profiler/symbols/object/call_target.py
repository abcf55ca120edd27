"""Where a call instruction leads to, by its bytes (x86-64).

Source: Intel SDM, CALL.
"""

from __future__ import annotations

CALL_BYTES = 6  # of code before a return address, as many as the longest of these calls has

UNKNOWN_GOAL = -1


def call_goal(code: bytes, return_addr: int) -> int | None:
    """The address that the call before a return address leads to.

    Args:
        code: the ``CALL_BYTES`` before the return address.
        return_addr: its file_addr.

    Returns:
        ``UNKNOWN_GOAL`` for a call through a fixed place in memory, which the linker fills in;
        ``None`` for one through a register or a computed place: it may lead anywhere.
    """
    if len(code) != CALL_BYTES:
        return None
    if code[:2] == b"\xff\x15":
        return UNKNOWN_GOAL
    if code[1] == 0xE8:
        return return_addr + int.from_bytes(code[2:], "little", signed=True)
    return None
