"""``--container`` and ``--pod``: the processes of a container or a pod of this machine."""

from __future__ import annotations

import functools
import json
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import click

from ..errors import NoSuchProcessError, UsageError
from ..linux import procfs
from ..linux.containers import SHORTEST_ID, processes_of
from .attach_options import AttachOptions
from .progress import Progress

ASK_S = 10.0
_RUNTIMES = ("docker", "podman", "nerdctl")
_IS_ID = re.compile(rf"[0-9a-f]{{{SHORTEST_ID},64}}")
_MOST_SHOWN = 200


@dataclass(frozen=True)
class Containers:
    """What names containers: ``name`` and ``pod``, each None if it is not given."""

    name: str | None = None
    pod: str | None = None

    def __bool__(self) -> bool:
        return self.name is not None or self.pod is not None

    def followed(self, how: AttachOptions) -> AttachOptions:
        """Return the options of an attach: a container is all that runs in it."""
        return replace(how, children=True) if self and how.children is None else how


NONE = Containers()


def container_options(command: Callable[..., int]) -> Callable[..., int]:
    """Add ``--container`` and ``--pod``; the command receives them as ``containers``."""

    @functools.wraps(command)
    def with_containers(*, container: str | None, pod: str | None, **others: object) -> int:
        return command(containers=Containers(container, pod), **others)

    pod = click.option(
        "--pod",
        metavar="NAMESPACE/NAME",
        help="Record the containers of this Kubernetes pod, which run on this machine.",
    )
    container = click.option(
        "--container",
        metavar="NAME",
        help="Record this container of docker, podman, nerdctl or crictl, by its name or id.",
    )
    return container(pod(with_containers))


def find_in_containers(named: Containers, progress: Progress) -> list[int]:
    """Return the first process of each container; what they start are its other processes.

    Args:
        named: what names them.
        progress: told which processes these are.

    Raises:
        UsageError: both are named, or nobody knows them.
        NoSuchProcessError: nothing runs there.
    """
    if named.name is not None and named.pod is not None:
        raise UsageError("--container and --pod are both given", "leave one of them out")
    name = named.name or named.pod or ""
    ids = _ids_of_container(name) if named.pod is None else _ids_of_pod(named.pod)
    found = [pid for each in ids for pid in _first_processes(each)]
    if not found:
        raise NoSuchProcessError(
            f"nothing of {name} runs on this machine", "`docker ps` or `crictl ps` lists containers"
        )
    progress.say(f"{name} is {', '.join(map(str, found))}")
    return found


def _first_processes(container_id: str) -> list[int]:
    """Return the processes of a container whose parents are not in it: one, and what joined it."""
    pids = processes_of(container_id)
    parents = {}
    for pid in pids:
        try:
            parents[pid] = procfs.read_status(pid).parent
        except OSError:
            continue  # it has ended
    return [pid for pid, parent in parents.items() if parent not in parents]


def _ids_of_container(name: str) -> list[str]:
    if _IS_ID.fullmatch(name) and processes_of(name):
        return [name]
    tried: list[str] = []
    for runtime in _RUNTIMES:
        if shutil.which(runtime) is None:
            continue
        code, said = _ask(runtime, "container", "inspect", "--format", "{{.Id}}", "--", name)
        if code == 0 and any(map(processes_of, said.split())):
            return said.split()
        tried.append(f"{runtime}: {said if code else 'it does not run'}")
    if shutil.which("crictl") is not None:
        code, said = _ask("crictl", "ps", "-q", "--no-trunc", "--name", f"^{re.escape(name)}$")
        if code == 0 and len(said.split()) == 1:
            return said.split()
        many = f"{len(said.split())} containers have that name" if code == 0 and said else said
        tried.append(f"crictl: {many or 'it knows none of that name'}")
    why = "; ".join(tried) or "none of docker, podman, nerdctl and crictl is installed here"
    raise UsageError(f"there is no container {name}: {why}"[:_MOST_SHOWN], _HINT)


_HINT = "name it by the first 12 digits of its id, or one of its processes"


def _ids_of_pod(name: str) -> list[str]:
    namespace, _, pod = name.rpartition("/")
    if shutil.which("crictl") is not None:
        words = ("--namespace", f"^{re.escape(namespace or 'default')}$")
        code, said = _ask(
            "crictl", "pods", "-q", "--no-trunc", "--name", f"^{re.escape(pod)}$", *words
        )
        ids = said.split() if code == 0 else []
        found = [_ask("crictl", "ps", "-q", "--no-trunc", "--pod", each) for each in ids]
        if ids:
            return [word for code, said in found if code == 0 for word in said.split()]
    if shutil.which("kubectl") is not None:
        place = ["-n", namespace] if namespace else []
        code, said = _ask("kubectl", "get", "pod", *place, "-o", "json", "--", pod)
        if code == 0:
            return _container_ids(said)
        raise UsageError(f"there is no pod {name}: {said}"[:_MOST_SHOWN], _HINT)
    raise UsageError(
        f"nobody here knows pod {name}: neither crictl nor kubectl does", "name a process: PID"
    )


def _container_ids(text: str) -> list[str]:
    """Return the ids in what kubectl tells of a pod: "containerd://4c0e…"."""
    try:
        statuses: Sequence[Any] = json.loads(text)["status"]["containerStatuses"]
        return [str(each["containerID"]).rpartition("/")[2] for each in statuses]
    except (ValueError, KeyError, TypeError):
        return []


def _ask(*words: str) -> tuple[int, str]:
    """Run a command; return its exit code, and what it prints, or why it failed."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=ASK_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return 1, str(error)
    if done.returncode == 0:
        return 0, " ".join(done.stdout.split())
    lines = (done.stderr or done.stdout).strip().splitlines()
    return done.returncode, lines[-1].strip() if lines else f"it ended with {done.returncode}"
