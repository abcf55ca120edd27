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
    for name in names:
        text = run(f"{name}.py", "--help")
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
