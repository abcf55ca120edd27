"""What the profiler and the process that attaches for it (``server``) say to each other:
packets with one JSON object each (unix(7), SOCK_SEQPACKET).

    {"id": 1, "call": "attach", "arguments": [100.0]}
    {"id": 1, "answer": null}         with the descriptor of the ring
    {"id": 1, "error": ["NoSuchProcessError", MESSAGE, HINT]}
    {"ended": "the target ended"}     once, unasked
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

MAX_PACKET_BYTES = 1 << 16


def encode(message: Mapping[str, object]) -> bytes:
    """One packet."""
    return json.dumps(message).encode()


def decode(packet: bytes) -> dict[str, Any]:
    """What one packet says.

    Raises:
        ValueError: it is none of ours.
    """
    message = json.loads(packet)
    if not isinstance(message, dict):
        raise ValueError("a packet without an object")
    return message
