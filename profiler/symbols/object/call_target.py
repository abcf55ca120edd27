"""Find the target of a call instruction from its bytes (x86-64).

Source: Intel SDM, CALL.
"""

from __future__ import annotations

CALL_BYTES = 6  # bytes of code before a return address: the length of the longest of these calls

UNKNOWN_GOAL = -1


def call_goal(code: bytes, return_addr: int) -> int | None:
    """Return the target address of the call before a return address.

    Args:
        code: the ``CALL_BYTES`` before the return address.
        return_addr: its file_addr.

    Returns:
        ``UNKNOWN_GOAL`` for a call through a fixed memory location, which the linker fills in;
        ``None`` for a call through a register or a computed location, which may lead anywhere.
    """
    if len(code) != CALL_BYTES:
        return None
    if code[:2] == b"\xff\x15":
        return UNKNOWN_GOAL
    if code[1] == 0xE8:
        return return_addr + int.from_bytes(code[2:], "little", signed=True)
    return None
