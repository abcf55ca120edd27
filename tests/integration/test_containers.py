"""``--container`` and ``--pod``: what runs in a control group as a runtime would make it."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

import cli
from flametap.recording.opened import open_recording
from running import Start, wait_until

pytestmark = pytest.mark.needs("attach", "gcc")

# Version 1 with one controller, or version 2.
ROOTS = ("/sys/fs/cgroup/pids", "/sys/fs/cgroup")


@contextlib.contextmanager
def control_group(pids: list[int]) -> Iterator[str]:
    """Put processes into the control group of a container, and yield its id."""
    number = secrets.token_hex(32)
    root = next((Path(each) for each in ROOTS if (Path(each) / "cgroup.procs").exists()), None)
    if root is None:
        pytest.skip("there are no control groups here")
    folder = root / "docker" / number
    try:
        folder.mkdir(parents=True)
        for pid in pids:
            (folder / "cgroup.procs").write_text(str(pid))
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error}")
    try:
        yield number
    finally:
        for line in (folder / "cgroup.procs").read_text().split():
            with contextlib.suppress(OSError):
                (root / "cgroup.procs").write_text(line)
        with contextlib.suppress(OSError):
            folder.rmdir()
            folder.parent.rmdir()


def tool(folder: Path, name: str, script: str) -> dict[str, str]:
    """A runtime's command, as it answers; returns an environment that has it."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return {**os.environ, "PATH": f"{folder}:/usr/sbin:/usr/bin:/sbin:/bin"}


def test_all_that_runs_in_a_container_is_recorded(start: Start, tmp_path: Path) -> None:
    target = start("family", "2")
    pids = {target.pid, *target.facts.values()}
    out = tmp_path / "out.flametap"
    with control_group(sorted(pids)) as number:
        environment = tool(tmp_path, "docker", f'[ "$6" = web ] && echo {number} || exit 1')
        named = cli.run("doctor", target.pid).stdout
        assert f"docker container {number[:12]}" in named
        for name in ("web", number[:12]):
            out.unlink(missing_ok=True)
            result = cli.run(
                *("record", "--container", name, "-d", 2.5, "-o", out), env=environment
            )
            result.assert_saved()
            assert f"{name} is {target.pid}" in result.stderr
            recorded = open_recording(str(out)).profile.processes
            assert {each.pid for each in recorded.values()} == pids
        pod = {"status": {"containerStatuses": [{"containerID": f"containerd://{number}"}]}}
        environment = tool(tmp_path, "kubectl", f"echo '{json.dumps(pod)}'")
        result = cli.run("record", "--pod", "shop/web", "-d", 0.5, "-o", out, env=environment)
        result.assert_saved()
        result = cli.run("record", "--container", "api", "-d", 1, "-o", out, env=environment)
        result.assert_refused(2, "there is no container api")
    target.finish()
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), "the end")


@pytest.mark.parametrize(
    ("options", "code", "what"),
    [
        (("--container", "a", "--pod", "b"), 2, "--container and --pod are both given"),
        (("1", "--container", "a"), 2, "a container and a process are both named"),
        (("--pod", "a/b"), 2, "there is no pod a/b: no such object"),
        (("--container", "0" * 12), 2, "there is no container 000000000000"),
    ],
)
def test_what_names_no_container_is_said(
    options: tuple[str, ...], code: int, what: str, tmp_path: Path
) -> None:
    for name in ("docker", "kubectl"):
        environment = tool(tmp_path, name, "echo is; echo no such object >&2; exit 1")
    result = cli.run("record", *options, "-d", 1, "-o", tmp_path / "x.svg", env=environment)
    assert result.exit_code == code, result.stderr
    assert what in result.stderr
