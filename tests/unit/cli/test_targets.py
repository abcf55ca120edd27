"""Processes by name: which fit, which is taken, what is said where there are none or several."""

from __future__ import annotations

import io
import os
import re
import sys
from pathlib import Path

import pytest

from fakeproc import FakeProc
from flametap.cli.commands.record import _split_words
from flametap.cli.main import run
from flametap.cli.progress import Progress
from flametap.cli.targets import (
    Matches,
    Named,
    choose,
    find_matching,
    find_processes,
    find_target,
    find_targets,
    is_name,
    listing,
    shorten,
)
from flametap.errors import UsageError

OWN = 4_000_000  # beyond the largest process id
PF_KTHREAD = 0x0020_0000


@pytest.fixture
def machine(tmp_path: Path) -> FakeProc:
    fake = FakeProc(tmp_path)
    fake.process(10, name="nginx", command="nginx: master process /usr/sbin/nginx")
    fake.process(11, name="nginx", command="nginx: worker process")
    fake.process(12, name="redis-server", command="/usr/bin/redis-server *:6379")
    fake.process(13, name="memcached", command="memcached -m 64")
    fake.process(14, name="memcached-exporter", command="memcached-exporter")
    fake.process(15, name="nginx", command="", status={"State": "Z (zombie)"})
    fake.process(16, name="kredis", command="", flags=PF_KTHREAD)
    fake.process(OWN, name="flametap", command="python -m flametap redis")
    fake.process(OWN + 1, name="redis-child", command="redis", status={"PPid": str(OWN)})
    fake.process(OWN + 2, name="redis-grand", command="x", status={"PPid": str(OWN + 1)})
    return fake


def pids(fake: FakeProc, name: str) -> list[int]:
    found = find_processes(name, fake.proc, OWN)
    return [each.pid for each in found.processes]


def test_exact_name_wins_over_names_that_contain_it(machine: FakeProc) -> None:
    assert pids(machine, "memcached") == [13]
    assert find_processes("memcached", machine.proc, OWN).is_exact
    assert pids(machine, "memcache") == [13, 14]
    assert not find_processes("memcache", machine.proc, OWN).is_exact


def test_dead_kernel_and_own_processes_do_not_count(machine: FakeProc) -> None:
    assert pids(machine, "nginx") == [10, 11]
    assert pids(machine, "REDIS") == [12]
    assert pids(machine, "flametap") == []
    assert pids(machine, "nothing") == []


def test_file_name_of_the_first_argument_is_a_name(tmp_path: Path) -> None:
    fake = FakeProc(tmp_path)
    folder = fake.process(20, name="MainThread")
    (folder / "cmdline").write_bytes(b"/opt/app/bin/worker\0--fast\0")
    assert pids(fake, "worker") == [20]


@pytest.mark.parametrize(
    ("text", "is_one"),
    [("nginx", True), ("7zz", True), ("12", False), ("./a", False), ("-d", False), ("", False)],
)
def test_words_that_may_be_names(text: str, is_one: bool) -> None:
    assert is_name(text) == is_one


NGINX = [Named(10, "root", "nginx: master " + "x" * 200), Named(211, "www", "nginx: worker")]


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> dict[str, Matches]:
    """name → what the machine has of that name."""
    has: dict[str, Matches] = {}

    def found(name: str, *_: object) -> Matches:
        return has.get(name, Matches([], False))

    for module in ("targets", "main", "commands.symbols"):
        monkeypatch.setattr(f"flametap.cli.{module}.find_processes", found)
    return has


def test_one_process_is_taken_and_told(played: dict[str, Matches]) -> None:
    played["nginx"] = Matches(NGINX[1:], True)
    out = io.StringIO()
    assert find_target("nginx", None, Progress(stream=out)) == 211
    assert out.getvalue() == "nginx is process 211: nginx: worker\n"
    assert find_target("12", None, Progress(stream=out)) == 12
    assert find_target(None, 13, Progress(stream=out)) == 13
    with pytest.raises(UsageError, match="two processes are named"):
        find_target("nginx", 13, Progress(stream=out))


def test_several_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError, match="2 processes match the name 'nginx'") as raised:
        choose("nginx", NGINX, Progress())
    assert "flametap 10" in raised.value.hint
    first, second = capsys.readouterr().err.splitlines()
    assert first.split()[:2] == ["10", "root"]
    assert second == "    211  www   nginx: worker"


def test_list_has_ten_lines_as_wide_as_the_terminal() -> None:
    lines = listing(NGINX, 40)
    assert len(lines[0]) == 40
    assert lines[0].endswith("x…")
    assert len(listing(NGINX, None)[0]) > 200
    many = [Named(pid, "u", "x") for pid in range(1, 14)]
    assert len(listing(many, 80)) == 11
    assert listing(many, 80)[-1].endswith("and 3 more")
    assert shorten("abc", 3) == "abc"
    assert shorten("abcd", 3) == "ab…"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["nginx"], 2, "2 processes match"),
        (["ngin"], 2, "2 processes match"),
        (["dump", "nginx"], 2, "2 processes match"),
        (["doctor", "nginx"], 2, "2 processes match"),
        (["record", "nginx", "-o", "-"], 2, "2 processes match"),
        (["record", "nginx", "-o", "-", "--", "true"], 2, "both a process and a command"),
        (["symbols", "nginx"], 2, "2 processes match"),
        (["-d", "1", "nginx"], 2, "2 processes match"),
        (["sleepy"], 3, "no process 9999999999"),
        (["record", "sleepy", "-o", "-"], 3, "no process 9999999999"),
        # Commands win: spelled right over any process, spelled nearly so over parts of names.
        (["dump"], 2, "no process is named"),
        (["recor"], 2, "did you mean `flametap record`"),
        (["recrod"], 2, "did you mean `flametap record`"),
        (["nothing"], 2, "neither a command nor a process id"),
        (["dump", "nothing"], 2, "no process has that name"),
        (["record", "nothing", "-o", "-"], 2, "flametap record -- nothing"),
        (["symbols", "nothing"], 1, "there is no file nothing"),
    ],
)
def test_names_in_every_command(
    played: dict[str, Matches],
    capfd: pytest.CaptureFixture[str],
    arguments: list[str],
    code: int,
    message: str,
) -> None:
    played["nginx"] = played["dump"] = Matches(NGINX, True)
    played["ngin"] = played["recor"] = Matches(NGINX, False)
    played["sleepy"] = Matches([Named(9999999999, "root", "sleepy")], True)
    assert run(arguments) == code
    out, err = capfd.readouterr()
    assert out == ""
    assert message in err


@pytest.mark.parametrize(
    ("words", "program", "told"),
    [
        (("12",), None, (("12",), ())),
        (("12", "13"), None, (("12", "13"), ())),
        (("nginx",), None, (("nginx",), ())),
        (("./nginx",), None, ((), ("./nginx",))),
        (("sleep", "10"), None, ((), ("sleep", "10"))),
        ((), ("12",), ((), ("12",))),
        ((), ("nginx", "-g", "--"), ((), ("nginx", "-g", "--"))),
        (("12",), ("true",), (("12",), ("true",))),
        ((), None, ((), ())),
    ],
)
def test_record_tells_a_process_from_a_command(
    words: tuple[str, ...], program: tuple[str, ...] | None, told: tuple[object, object]
) -> None:
    assert _split_words(words, program) == told


def test_record_takes_processes_or_a_command() -> None:
    for words, program in ((("12", "true"), None), (("a", "b"), ("c",))):
        with pytest.raises(UsageError, match=r"stands before --|follows process"):
            _split_words(words, program)


def test_several_are_named_by_their_ids_or_by_an_expression(
    played: dict[str, Matches], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = io.StringIO()
    progress = Progress(stream=out)
    assert find_targets(["12", "13", "12"], None, None, progress) == [12, 13]
    played["nginx"] = Matches(NGINX[1:], True)
    assert find_targets(["12", "nginx"], None, None, progress) == [12, 211]
    monkeypatch.setattr("flametap.cli.targets.find_matching", lambda _: NGINX)
    assert find_targets([], None, re.compile("nginx"), progress) == [10, 211]
    assert "nginx: worker" in out.getvalue()
    for words, option in ((["12"], None), ([], 12)):
        with pytest.raises(UsageError, match="in two ways"):
            find_targets(words, option, re.compile("nginx"), progress)
    with pytest.raises(UsageError, match="stands beside"):
        find_targets(["12", "13"], 14, None, progress)


def test_expression_matches_names_and_command_lines(tmp_path: Path) -> None:
    fake = FakeProc(tmp_path)
    fake.process(30, name="flametap", command="flametap --name worker", status={"PPid": "31"})
    fake.process(31, name="bash", command="bash -c 'flametap --name worker'")
    fake.process(32, name="worker-1", command="a")
    fake.process(33, name="python3", command="app: worker [2]")
    fake.process(34, name="python3", command="app: master")
    found = find_matching(re.compile("worker"), fake.proc, 30)
    assert [each.pid for each in found] == [32, 33]
    assert find_matching(re.compile("^worker$"), fake.proc, 30) == []


def test_this_very_process_is_not_found() -> None:
    name = os.path.basename(os.readlink("/proc/self/exe"))
    found = find_processes(name)
    assert os.getpid() not in [each.pid for each in found.processes], sys.executable
