"""The labels of what is pushed: what the program, its container and the machine say of themselves.

OpenTelemetry's variables are read from the environment that the program was started with.
"""

from __future__ import annotations

import contextlib
import os
import platform
import re
from collections.abc import Mapping
from urllib.parse import unquote

from ..errors import UsageError
from ..linux import procfs
from ..linux.containers import SHORTEST_ID, container_of

SERVICE = "service_name"
MAX_LABELS, MAX_TEXT = 32, 256
_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
# What a variable of the program says; OTEL_RESOURCE_ATTRIBUTES has these by their own names.
_VARIABLES = {
    "OTEL_SERVICE_NAME": SERVICE,
    "POD_NAME": "pod",
    "POD_NAMESPACE": "namespace",
    "GIT_COMMIT": "git_commit",
    "SOURCE_COMMIT": "git_commit",
}
_ATTRIBUTES = {
    "service.name": SERVICE,
    "service.version": "version",
    "service.namespace": "namespace",
    "deployment.environment": "env",
    "deployment.environment.name": "env",
    "k8s.pod.name": "pod",
    "k8s.namespace.name": "namespace",
}


def parse_label(word: str) -> tuple[str, str]:
    """Return name and value of ``NAME=VALUE``. Raises UsageError."""
    name, sign, value = word.partition("=")
    if not sign or not _NAME.fullmatch(name):
        raise UsageError(
            f"--label {word} is not NAME=VALUE",
            "names have letters, digits and _: --label env=prod",
        )
    return name, value[:MAX_TEXT]


def labels_of(
    pid: int | None, program: str, chosen: Mapping[str, str], host: str = ""
) -> dict[str, str]:
    """Return the labels of a process.

    Args:
        pid: of the process; its environment is read if we may. None if it is elsewhere.
        program: the name of its program: the service, if nothing else is said.
        chosen: what the user says, which counts.
        host: where it runs; without it, here.
    """
    found = {SERVICE: program or "program", "host": host or platform.node()}
    if pid is not None:
        with contextlib.suppress(OSError):
            container = container_of(pid)
            found["container"] = container.id[:SHORTEST_ID] if container is not None else ""
        with contextlib.suppress(*procfs.GONE, PermissionError):
            found |= _from_environment(_environment(pid))
    if "service" in chosen:
        found[SERVICE] = chosen["service"]
    found |= {name: value for name, value in chosen.items() if name != "service"}
    named = {name: _plain(value) for name, value in found.items() if value}
    return dict(list(named.items())[:MAX_LABELS])


def _environment(pid: int) -> dict[str, str]:
    with open(f"{procfs.PROC}/{pid}/environ", "rb") as file:
        words = file.read(1 << 20).split(b"\0")
    pairs = (os.fsdecode(word).partition("=") for word in words)
    return {name: value for name, sign, value in pairs if sign}


def _from_environment(variables: Mapping[str, str]) -> dict[str, str]:
    found = {label: variables[name] for name, label in _VARIABLES.items() if variables.get(name)}
    for pair in variables.get("OTEL_RESOURCE_ATTRIBUTES", "").split(","):
        name, _, value = pair.partition("=")
        label = _ATTRIBUTES.get(name.strip())
        if label is not None:
            found.setdefault(label, unquote(value.strip()))
    return found


def _plain(value: str) -> str:
    """Return a value without what could end it where labels stand in braces."""
    return re.sub(r"[^\w.:/@+ -]", "_", value)[:MAX_TEXT]
