"""Containers by the paths of their control groups, as the runtimes write them."""

from __future__ import annotations

from pathlib import Path

import pytest

from flametap.linux.containers import Container, container_of, processes_of

ID = "3f2a" * 16
OTHER = "0c1d" * 16
POD = "8a6f1c52-4b0e-4d7c-9c7e-1f2a3b4c5d6e"


def write(proc: Path, pid: int, text: str) -> None:
    (proc / str(pid)).mkdir()
    (proc / str(pid) / "cgroup").write_text(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"0::/system.slice/docker-{ID}.scope\n", Container("docker", ID, "")),
        (f"12:pids:/docker/{ID}\n1:name=systemd:/docker/{ID}\n", Container("docker", ID, "")),
        (f"0::/machine.slice/libpod-{ID}.scope/container\n", Container("podman", ID, "")),
        (
            f"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod"
            f"{POD.replace('-', '_')}.slice/cri-containerd-{ID}.scope\n",
            Container("containerd", ID, POD),
        ),
        (f"4:cpu:/kubepods/besteffort/pod{POD}/{ID}\n", Container("kubernetes", ID, POD)),
        (f"0::/kubepods.slice/crio-{ID}.scope\n", Container("cri-o", ID, "")),
        # docker in docker: the inner one
        (f"0::/docker/{OTHER}/docker/{ID}\n", Container("docker", ID, "")),
        (f"0::/machine.slice/libpod-conmon-{ID}.scope\n", None),
        (f"0::/kubepods.slice/crio-conmon-{ID}.scope\n", None),
        ("0::/user.slice/user-1000.slice/session-2.scope\n", None),
        (f"0::/some/x{ID}\n", None),
        ("", None),
    ],
)
def test_paths(tmp_path: Path, text: str, expected: Container | None) -> None:
    write(tmp_path, 7, text)
    assert container_of(7, str(tmp_path)) == expected


def test_name_is_that_of_the_runtime() -> None:
    assert str(Container("docker", ID, "")) == "docker container 3f2a3f2a3f2a"
    assert str(Container("", ID, POD)) == f"container 3f2a3f2a3f2a of pod {POD}"


def test_processes_are_found_by_the_first_digits(tmp_path: Path) -> None:
    write(tmp_path, 7, f"0::/docker/{ID}\n")
    write(tmp_path, 8, f"0::/docker/{OTHER}\n")
    write(tmp_path, 9, f"0::/docker/{ID}/init.scope\n")
    (tmp_path / "10").mkdir()  # it ends
    assert processes_of(ID[:12], str(tmp_path)) == [7, 9]
