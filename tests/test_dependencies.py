"""What we import is declared, with a floor, and holds no vulnerability that is known."""

from __future__ import annotations

import ast
import importlib.metadata
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CONNECTION_ERRORS = ("ConnectionError", "Connection refused", "resolve", "timed out", "ProxyError")


def _declared() -> dict[str, str]:
    """Dependency → its range of versions."""
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    block = re.search(r"^dependencies = \[\n(.*?)^\]", text, re.MULTILINE | re.DOTALL)
    assert block
    return dict(re.findall(r'"([a-z0-9-]+)([^"]*)"', block[1]))


def _imported(folder: str) -> Iterator[str]:
    for path in (ROOT / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                yield from (name.name.partition(".")[0] for name in node.names)
            elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
                yield node.module.partition(".")[0]


def test_all_packages_that_we_import_are_declared() -> None:
    names = {*_imported("profiler"), *_imported("web")}
    providers = importlib.metadata.packages_distributions()
    used = {
        providers[name][0].lower().replace("_", "-")
        for name in names - set(sys.stdlib_module_names) - {"flametap"}
    }
    # A plugin of pytest is imported by it.
    assert used - {"pytest"} == set(_declared())


def test_each_dependency_has_a_floor() -> None:
    assert [name for name, versions in _declared().items() if not versions.startswith(">=")] == []


@pytest.mark.nightly
def test_no_dependency_has_a_known_vulnerability(tmp_path: Path) -> None:
    """Needs ``make audit``, and a database that can be reached."""
    wanted = tmp_path / "requirements.txt"
    versions = {name: importlib.metadata.version(name) for name in _declared()}
    wanted.write_text("".join(f"{name}=={found}\n" for name, found in versions.items()))
    command = [sys.executable, "-m", "pip_audit", "-r", str(wanted), "--no-deps", "--disable-pip"]
    done = subprocess.run(
        [*command, "-f", "json", "--progress-spinner", "off"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if "No module named" in done.stderr:
        pytest.skip("needs pip-audit: make audit")
    if done.returncode and any(sign in done.stderr for sign in CONNECTION_ERRORS):
        pytest.skip(f"the database cannot be reached: {done.stderr.strip()[-200:]}")
    found = json.loads(done.stdout)["dependencies"]
    assert {each["name"].lower() for each in found} == set(versions), done.stderr
    unknown = [each["skip_reason"] for each in found if "skip_reason" in each]
    if unknown:
        pytest.skip(f"the database has no answer: {unknown[0]}")
    assert [each for each in found if each["vulns"]] == []
