"""``record --push``: a store gets all of a recording, also one that fails, stalls and recovers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import cli
from flametap.model import Clock
from flametap.push.pusher import Pusher
from otlp_file import OtlpFile
from pprof_file import PprofFile
from profile_store import Answer, Store, profile_store
from recording import capturing
from running import Start, wait_until

pytestmark = pytest.mark.needs("attach", "gcc")

SEGMENT_S = 0.7


def cpu_ns(store: Store) -> int:
    files = [PprofFile(each) for each in store.profiles]
    return sum(sample.values["cpu"] for each in files for sample in each.samples)


@pytest.mark.parametrize(
    "answers",
    [
        [],
        [(500, {}), (503, {"Retry-After": "1"}), "breaks", (429, {"Retry-After": "0"})],
    ],
    ids=["takes all", "fails"],
)
def test_segments_are_all_of_the_recording(start: Start, answers: list[Answer]) -> None:
    target = start("ratio")
    said: list[str] = []
    with profile_store(*answers) as store:
        with capturing(target.pid) as capture:
            labels = {"service_name": "ratio", "env": "test"}
            headers = {"Authorization": "Bearer x"}
            pusher = Pusher(
                capture.recording, store.url, labels, headers, said.append, segment_s=SEGMENT_S
            )
            pusher.start()
            wait_until(lambda: len(store.profiles) >= 3, "three segments")
        told = pusher.finish()
        total_ns = capture.profile.total_ns(Clock.CPU)
        assert len(store.profiles) >= 3
        assert told == [f"pushed {len(store.profiles)} segments to {store.url}"]
        # What is cut at the border of two segments is rounded.
        assert cpu_ns(store) == pytest.approx(total_ns, rel=1e-3)
        assert bool(said) == bool(answers), said
        assert store.n_requests == len(store.profiles) + len(answers)
        assert {each["name"] for each in store.queries} == {"ratio{env=test}"}
        assert {each["Authorization"] for each in store.headers} == {"Bearer x"}
        times = [(int(each["from"]), int(each["until"])) for each in store.queries]
        assert times == sorted(times)
        names = {
            name
            for each in store.profiles
            for sample in PprofFile(each).samples
            for name in sample.stack
        }
        assert {"heavy", "light"} <= names
    target.finish()


def test_collector_gets_all_of_the_recording(start: Start) -> None:
    target = start("ratio")
    with profile_store((503, {"Retry-After": "0"})) as store:
        with capturing(target.pid) as capture:
            labels = {"service_name": "ratio", "host": "web7"}
            pusher = Pusher(
                *(capture.recording, f"otlp+{store.url}", labels, {}, lambda _: None),
                segment_s=SEGMENT_S,
            )
            pusher.start()
            wait_until(lambda: len(store.profiles) >= 2, "two segments")
        told = pusher.finish()
        files = [OtlpFile(each) for each in store.profiles]
    assert told == [f"pushed {len(files)} segments to otlp+{store.url}"]
    assert set(store.paths) == {"/v1development/profiles"}
    for clock in Clock:
        sent_ns = sum(each.sums(clock.value.replace("-", "_")).total() for each in files)
        assert sent_ns == pytest.approx(capture.profile.total_ns(clock), rel=1e-3)
    assert {each.resource["service.name"] for each in files} == {"ratio"}
    samples = [sample for each in files for sample in each.samples["cpu"]]
    assert {"heavy", "light"} <= {name for each in samples for name in each.stack}
    assert {each.attributes["process.pid"] for each in samples} == {target.pid}
    target.finish()


def test_command_pushes_and_writes_no_file(start: Start, tmp_path: Path) -> None:
    target = start("ratio")
    with profile_store() as store:
        result = cli.run(
            *("record", target.pid, "-d", 1, "-r", 250, "--push", store.url),
            *("--label", "service=shop", "--label", "env=prod"),
            env={**os.environ, "TMPDIR": str(tmp_path), "FLAMETAP_PUSH_HEADERS": "X-Key=a%20b"},
        )
        result.assert_saved()
        assert "pushed 1 segments" in result.stderr
        (query,), (headers,) = store.queries, store.headers
    assert query["name"].startswith("shop{")
    assert f"host={os.uname().nodename}" in query["name"]
    assert "env=prod" in query["name"]
    assert headers["X-Key"] == "a b"
    assert "wrote" not in result.stderr
    assert list(tmp_path.iterdir()) == []
    target.finish()


def test_store_that_never_takes_any_is_said(start: Start) -> None:
    target = start("ratio")
    with profile_store(*[(400, {})] * 50) as store:
        result = cli.run("record", target.pid, "-d", 1, "-r", 250, "--push", store.url)
    assert result.exit_code == 0
    assert "1 segments were refused (HTTP 400)" in result.stderr
    with profile_store() as store:
        # ExportProfilesServiceResponse, partial_success: one profile was rejected, "too old"
        store.says = b"\x0a\x0b\x08\x01\x12\x07too old"
        result = cli.run("record", target.pid, "-d", 1, "-r", 250, "--push", f"otlp+{store.url}")
    assert result.exit_code == 0
    assert "1 segments were refused (too old)" in result.stderr
    target.finish()


@pytest.mark.parametrize(
    ("url", "more", "what"),
    [
        ("ftp://x", (), "--push ftp://x is no address"),
        ("http://", (), "--push http:// is no address"),
        ("http://x/?a=b", (), "has a query"),
        ("otlp+grpc://x", (), "--push otlp+grpc://x is no address"),
        ("http://x", ("--label", "1=2"), "--label 1=2 is not NAME=VALUE"),
    ],
)
def test_bad_address_is_said(url: str, more: tuple[str, ...], what: str) -> None:
    result = cli.run("record", os.getpid(), "--push", url, *more)
    assert result.exit_code == 2
    assert what in result.stderr
