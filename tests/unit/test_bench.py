"""Every bench can be asked what it does, and README's tables are those of the results.

Nothing is measured here: benches run by hand.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from agent_build import CFI_SOURCES
from flametap.agent import source

BENCH = Path(__file__).resolve().parents[2] / "bench"
if not BENCH.exists():
    pytest.skip("the benches are part of the checkout only", allow_module_level=True)
README = (BENCH / "README.md").read_text("utf-8")


def run(*arguments: str) -> str:
    """Output of a file of bench/. A process of its own: its modules have short names."""
    command = [sys.executable, *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=BENCH, timeout=60)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.fixture(scope="module")
def names() -> list[str]:
    return re.findall(r"^  (\w+) ", run("suite.py"), re.MULTILINE)


def test_all_benches_are_listed(names: list[str]) -> None:
    with_main = {path.stem for path in BENCH.glob("*.py") if "\nBENCH = " in path.read_text()}
    assert set(names) == with_main
    assert len(names) == len(with_main) >= 10


def test_every_bench_tells_its_options_and_has_its_place_in_the_readme(names: list[str]) -> None:
    # In one process: most of the time is to import numpy.
    program = (
        "import contextlib, runpy, sys\n"
        "for name in sys.argv[1:]:\n"
        "    sys.argv = [name, '--help']\n"
        "    with contextlib.suppress(SystemExit):\n"
        "        runpy.run_path(f'{name}.py', run_name='__main__')\n"
        "    print('\\f')\n"
    )
    texts = run("-c", program, *names).split("\f\n")
    for name, text in zip(names, texts[:-1], strict=True):
        assert "--quick" in text
        assert "--json" in text
        assert f"`make bench ARGS={name}`" in README
        assert README.count(f"<!-- {name} -->") == 1


def test_tables_in_the_readme_come_from_the_results() -> None:
    program = "import suite, reporting; print(suite.rendered(reporting.README.read_text()), end='')"
    assert run("-c", program) == README, "make bench ARGS=render"


def test_a_result_becomes_a_table(tmp_path: Path) -> None:
    """Peers with figures, failures and none at all; ranges; what was just measured."""
    window = {"target": "C", "threads": 10, "rounds_per_second": 100.0, "rss_kb": 2048}
    data = {
        "windows": [
            {**window, "peer": "flametap", "host_cpu_percent": 1.0, "sampler_cpu_percent": 2.0},
            {**window, "peer": "flametap", "host_cpu_percent": 3.0, "sampler_cpu_percent": 2.0},
            {"target": "Python", "threads": 10, "peer": "py-spy", "error": "it fell over"},
        ],
        "missing": ["austin"],
        "settings": {"rate_hz": 100.0, "seconds": 4.0},
    }
    path = tmp_path / "data.json"
    path.write_text(json.dumps(data))
    program = (
        "import sys, json, idle, reporting;"
        "print(reporting.terminal(idle.tables(json.load(open(sys.argv[1])))))"
    )
    text = run("-c", program, str(path))
    assert re.search(r"flametap: its own process +2\.00 \(1\.00 … 3\.00\) +2", text)
    assert "failed: it fell over" in text
    assert re.search(r"austin +missing", text)


def test_time_in_the_kernel_is_that_of_leaves_which_are_system_calls() -> None:
    """Other names in brackets are none, and what has no stack is left out."""
    leaves = {"[read]": 0.2, "[kernel]": 0.1, "[syscall_999]": 0.1, "main": 0.2, "[jit] 0x1": 0.2}
    leaves |= {"[truncated]": 0.0, "[unattributed]": 0.2}
    program = "import sys, json, shares; print(shares.in_system(json.loads(sys.argv[1])))"
    assert float(run("-c", program, json.dumps(leaves))) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("said", "faults"),
    [
        ("[ 1s ] thds: 4 tps: 9.1 lat (ms,95%): 0.30 err/s: 0.00 reconn/s: 0.00", 0),
        ("[ 1s ] thds: 4 tps: 9.1 lat (ms,95%): 0.30 err/s: 2.00 reconn/s: 0.20", 3),
        ("progress: 1.0 s, 100 tps, lat 0.1 ms stddev 0.0, 0 failed", 0),
        ("progress: 1.0 s, 100 tps, lat 0.1 ms stddev 0.0, 7 failed\npgbench: error: x", 8),
        ("requests 100 errors 0", 0),
        ("requests 100 errors 12", 12),
        ("1 threads and 8 connections\n  9 requests in 1.00s, 3.00MB read\nTransfer/sec: 3.1MB", 0),
        ("  Socket errors: connect 0, read 1, write 2, timeout 3", 6),
        ("  Non-2xx or 3xx responses: 4", 4),
        ("GET: rps=100.0 (overall: 100.0) avg_msec=0.1", 0),
        ("Error from server: LOADING", 1),
    ],
)
def test_failures_are_counted_in_what_loads_print(said: str, faults: int) -> None:
    program = "import sys, realservers; print(realservers.faults(sys.argv[1]))"
    assert int(run("-c", program, said)) == faults


def test_a_server_is_compared_with_the_kernel(tmp_path: Path) -> None:
    """A row with figures, one that failed, and a word on what is not installed."""
    system = {"flametap": 0.5, "kernel": 0.48, "perf": 0.49, "kernel_beside_perf": 0.47}
    good = {
        "server": "redis",
        "place": "one",
        "system": system,
        "samples": 900,
        "samples_per_cpu_s": 90.0,
        "cpu_s": 10.0,
        "cores": {"flametap": 1.0, "kernel": 1.0},
        "unattributed": 0.03,
        "because": ["3.0% not sampled in time"],
        "eintr_repaired": 2,
        "eintr_unrepairable": 0,
        "errors": 0,
    }
    data = {
        "recordings": [good, {"server": "memcached", "place": "one", "error": "it fell over"}],
        "missing": {"nginx, wrk": ["wrk"]},
        "settings": {"seconds": 10.0, "rate_hz": 100.0, "runs": 1},
        "tick_hz": 250,
    }
    path = tmp_path / "data.json"
    path.write_text(json.dumps(data))
    program = (
        "import sys, json, servers, reporting;"
        "print(reporting.terminal(servers.tables(json.load(open(sys.argv[1])))))"
    )
    text = run("-c", program, str(path))
    assert re.search(
        r"redis +one +50\.0 +48\.0 +2\.0 +1\.9 +49\.0 +47\.0 +3\.0: 3\.0% not sampled", text
    )
    assert "failed: it fell over" in text
    assert "nginx, wrk was left out: no wrk" in text


@pytest.mark.needs("gcc")
def test_every_target_in_c_builds_without_a_warning(tmp_path: Path) -> None:
    targets = sorted((BENCH / "targets").glob("*.c"))
    assert targets
    for target in targets:
        text = target.read_text("utf-8")
        if "cfi_compile" in text:  # is built behind a part of the agent
            text = source(CFI_SOURCES) + text
        command = ["gcc", "-x", "c", "-", "-O2", "-pthread", "-fno-strict-aliasing", "-std=gnu11"]
        command += ["-Wall", "-Wextra", "-Werror", "-Wno-unused-function"]
        command += ["-c", "-o", str(tmp_path / "object")]
        built = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
        assert built.returncode == 0, f"{target.name}:\n{built.stderr}"
