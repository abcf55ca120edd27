"""Why a session ended, by Frida's word for it."""

from __future__ import annotations

END_REASONS = {
    "process-terminated": "the target exited",
    "process-replaced": "the target replaced itself by another program (exec)",
    "connection-terminated": "the connection to the target was lost",
    "device-lost": "the device was lost",
}
