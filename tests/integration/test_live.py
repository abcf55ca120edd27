"""`flametap live` and the other commands, from outside: address, page, names within the promised
time, Ctrl-C."""

from __future__ import annotations

import json
import os
import re
import signal
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

import cli
import receipt
from flametap.linux import procfs
from flametap.recording.opened import open_recording
from nightly import nightly
from recording import capturing, stacks
from running import Start, wait_until
from visitor import Visitor

pytestmark = pytest.mark.needs("attach", "gcc")

URL = r"(http://127\.0\.0\.1:\d+/\S+)"


def test_first_graph_has_names(start: Start) -> None:
    """How soon it comes is measured by ``make bench``."""
    target = start("ratio")
    with capturing(target.pid, rate_hz=100) as capture:
        wait_until(lambda: {"main", "heavy"} <= stacks(capture).names(), "names")
    target.finish()


@pytest.mark.parametrize("spelling", [[], *nightly(["live"], ["live", "-p"])])
def test_live_serves_the_page_until_ctrl_c(
    start: Start, tmp_path: Path, spelling: list[str]
) -> None:
    target = start("ratio")
    before = receipt.take(target.pid)
    arguments = [*spelling, target.pid, "--no-open"]
    with cli.Running(str(tmp_path), *arguments) as run:
        url = run.wait_for(URL)
        visitor = Visitor(url)
        assert "<canvas" in visitor.page
        assert "default-src" in visitor.headers["Content-Security-Policy"]
        with pytest.raises(urllib.error.HTTPError) as refusal:
            urllib.request.urlopen(url.partition("?")[0], timeout=60)
        refusal.value.close()
        assert refusal.value.code == 403
        run.interrupt()
        result = run.result()
        result.assert_saved()
        left = re.search(r"the recording is in (\S+\.flametap)", result.stderr)
        assert left, result.stderr
        kept = open_recording(left[1])
        assert (kept.status().pid, kept.status().state) == (target.pid, "ended")
        assert "heavy" in {each.name for each in kept.functions}
    assert receipt.harm_after_settling(target.pid, before) == []
    target.finish()


def test_page_of_an_ended_recording_leaves_the_process_to_the_next(
    start: Start, tmp_path: Path
) -> None:
    target = start("ratio")
    with cli.Running(str(tmp_path), target.pid, "--no-open", "-d", 1) as run:
        visitor = Visitor(run.wait_for(URL))
        wait_until(
            lambda: visitor.ask("status")["status"]["state"] == "ended", "the end of the recording"
        )
        cli.run("record", "-p", target.pid, "-d", 1, "-o", tmp_path / "out.folded").assert_saved()
        run.interrupt()
        run.result().assert_saved()
    target.finish()


def test_live_serves_lines_and_instructions_while_it_records(start: Start, tmp_path: Path) -> None:
    target = start("lines", variant="lines")
    often = ("-r", "1000", "--budget", "0")
    with cli.Running(str(tmp_path), target.pid, "--no-open", *often) as run:
        ask = Visitor(run.wait_for(URL)).ask

        def number() -> int | None:
            """The page's number for uneven() once its lines are known."""
            functions = ask(f"view?width=1000&revision={2**52}")["functions"]
            for name, file, number in zip(
                functions["name"], functions["file"], functions["id"], strict=True
            ):
                if (name, Path(file).name) == ("uneven", "lines.c"):
                    return int(number)
            return None

        wait_until(lambda: number() is not None, "uneven with its file")
        # Enough for the heaviest of its lines to be told from the others.
        wait_until(
            lambda: ask(f"lines?function={number()}")["self_ns"] > 2 * 10**8, "0.2 s of it", 30
        )
        lines = ask(f"lines?function={number()}")
        assert sum(lines["lines"]["self_ns"]) == lines["self_ns"] > 0
        hottest = lines["lines"]["self_ns"].index(max(lines["lines"]["self_ns"]))
        assert "HEAVY" in lines["lines"]["text"][hottest]
        code = ask(f"instructions?function={number()}")
        assert sum(code["rows"]["self_ns"]) == code["self_ns"] >= lines["self_ns"]
        modules = {each["module"]: each for each in ask("symbols")["modules"]}
        assert modules["lines-lines"]["lined_ns"] > 0
        run.interrupt()
        run.result().assert_saved()
    target.finish()


def test_dump_shows_every_thread_once_with_its_wait(start: Start) -> None:
    target = start("parked", "long")
    result = cli.run("dump", target.pid)
    result.assert_saved()
    for name in target.facts:
        assert result.stdout.count(f"park_in_{name}") == 1, result.stdout
    assert target.finish() == [f"{name} returns=0 eintr=0" for name in target.facts]


def test_dump_as_json_can_be_parsed(start: Start) -> None:
    target = start("parked", "long")
    result = cli.run("dump", target.pid, "--json")
    result.assert_saved()
    text = json.dumps(json.loads(result.stdout))
    for name, tid in target.facts.items():
        assert f"park_in_{name}" in text
        assert str(tid) in text
    target.finish()


def threads_of_dump(pid: int) -> dict[str, dict[str, Any]]:
    """What ``dump --json`` says of each thread, by its name."""
    result = cli.run("dump", pid, "--json")
    result.assert_saved()
    return {thread["name"]: thread for thread in json.loads(result.stdout)["threads"]}


@pytest.mark.parametrize("kind", ["alternate", "blocked"])
def test_dump_shows_threads_that_signals_reach_late(start: Start, kind: str) -> None:
    """Beside handlers on alternate stacks, and where the threads block all signals."""
    target = start("busy", kind)

    def are_seen() -> bool:
        threads = threads_of_dump(target.pid)
        return all(
            "spin" in [frame["name"] for frame in threads[name]["frames_leaf_first"]]
            and threads[name]["unseen_because"] is None
            for name in ("busy 0", "busy 1")
        )

    # On a busy machine one dump may not meet them.
    wait_until(are_seen, "stacks of the busy threads")
    target.finish()


def test_ps_lists_the_target_and_doctor_finds_nothing_wrong(start: Start) -> None:
    target = start("sleeper")
    listed = cli.run("ps")
    listed.assert_saved()
    assert [line for line in listed.stdout.splitlines() if str(target.pid) in line.split()]
    healthy = cli.run("doctor", target.pid)
    healthy.assert_saved()
    assert target.finish() == ["done"]


def test_doctor_names_the_way_in_and_what_would_stop_an_attach(start: Start) -> None:
    target = start("sleeper")
    assert re.search(r"^ok +way in +direct: ", cli.run("doctor", target.pid).stdout, re.MULTILINE)
    os.kill(target.pid, signal.SIGSTOP)
    wait_until(lambda: procfs.read_task_state(target.pid, target.pid) == "T", "its stop")
    result = cli.run("doctor", target.pid)
    assert result.exit_code == 5, result.stdout + result.stderr
    assert "kill -CONT" in result.stdout
    os.kill(target.pid, signal.SIGCONT)
    assert target.finish() == ["done"]
