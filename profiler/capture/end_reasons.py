"""Name the reasons for which a recording ends, and the notes that explain them."""

from __future__ import annotations

from ..inject.link.endings import END_REASONS
from ..wire.abi import HOST_SILENCE_NS, STOP_HOST_SILENT, STOP_SANDBOXED

STOPPED = "stopped"
TARGET_ENDED = END_REASONS["process-terminated"]
LAST_THREAD_ENDED = "the last thread of the target ended"
HOST_WAS_STOPPED = "flametap itself was stopped"
DATA_DAMAGED = "what the agent sends from the target is damaged"
TARGET_WAS_SANDBOXED = "the target put itself under a seccomp filter"
# Reasons for which the agent stops by itself (agent/abi.h), and the note for each.
AGENT_STOP_REASONS = {STOP_HOST_SILENT: HOST_WAS_STOPPED, STOP_SANDBOXED: TARGET_WAS_SANDBOXED}
AGENT_STOP_NOTES = {
    HOST_WAS_STOPPED: "sampling stopped because flametap was stopped for too long: the agent ends "
    f"after {HOST_SILENCE_NS / 1e9:g} s without a heartbeat from flametap",
    TARGET_WAS_SANDBOXED: "sampling stopped because the target put itself under a seccomp filter: "
    "the filter might kill the target for one of the agent's system calls",
}
# Reasons that stay true even if the target has ended by the time we have detached.
FINAL_REASONS = (
    *(*AGENT_STOP_REASONS.values(), LAST_THREAD_ENDED, DATA_DAMAGED),
    END_REASONS["process-replaced"],
)
