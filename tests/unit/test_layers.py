"""Who may import whom: the packages stand on floors, held by reading the imports of every file.

Packages stand from low to high, each with the packages below it that it may import. Imports under
``TYPE_CHECKING`` and inside functions count: they couple just as much. A permission that nothing
uses, and a cycle between files, are errors, too. A new package needs a row here.
"""

from __future__ import annotations

import ast
import re
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = {"profiler": "flametap", "web": "flametap.web", "agent": "flametap.agent"}

# Package, or a file that belongs to no package or is above its own → what of ours it may import.
MAY_IMPORT: dict[str, tuple[str, ...]] = {
    "version": (),
    "model": (),
    "errors": (),
    "agent": (),
    "linux": (),
    "wire": ("errors", "model"),
    # Addresses to functions.
    "recording.names": ("model",),
    "symbols.names": ("linux", "model"),
    "symbols.object": ("linux", "model", "recording.names", "symbols.names"),
    "symbols.locate": ("linux", "model", "symbols.object"),
    "symbols.dwarf": ("linux", "symbols.locate", "recording.names", "symbols.object"),
    "symbols.debuginfo": (
        *("linux", "model", "recording.names"),
        *("symbols.dwarf", "symbols.locate", "symbols.names", "symbols.object"),
    ),
    "symbols.jit": (
        *("errors", "linux", "model", "recording.names"),
        *("symbols.locate", "symbols.names", "symbols.object"),
    ),
    "symbols.interpreters": (
        *("linux", "model", "recording.names", "wire"),
        *("symbols.debuginfo", "symbols.locate", "symbols.names", "symbols.object"),
    ),
    "symbols": (
        *("linux", "model", "recording.names", "wire"),
        *("symbols.debuginfo", "symbols.dwarf", "symbols.interpreters", "symbols.jit"),
        *("symbols.locate", "symbols.names", "symbols.object"),
    ),
    # What was recorded, and the attach that records.
    "recording.profile": ("linux", "model", "wire"),
    "recording": (
        *("errors", "model", "recording.names", "recording.profile", "symbols.locate"),
        *("version", "wire"),
    ),
    "recording.merge": (
        *("errors", "model", "recording", "recording.names", "recording.profile"),
        *("symbols.locate", "wire"),
    ),
    "inject.link": ("errors", "linux", "wire"),
    "inject.direct": ("agent", "errors", "inject.link", "linux", "wire"),
    "inject.frida": ("agent", "errors", "inject.link", "linux"),
    "inject": (
        *("agent", "errors", "inject.direct", "inject.frida", "inject.link", "linux", "wire"),
    ),
    "safety": ("errors", "inject", "inject.frida", "linux"),
    # What readers make of a recording, by subject.
    "tree": (
        "linux",
        "model",
        "recording.profile",
        "recording",
        "symbols.interpreters",
        "recording.names",
    ),
    "timeline": ("model", "recording.profile"),
    "locks": ("linux", "model", "recording.profile", "recording.names", "tree"),
    "code": (
        *("linux", "model", "recording.profile", "recording", "symbols", "symbols.locate"),
        *("recording.names", "symbols.object", "tree"),
    ),
    "analysis": ("code", "errors", "locks", "model", "recording", "timeline", "tree"),
    "perf": ("linux", "model", "recording", "symbols.object"),
    "capture": (
        *(
            "analysis",
            "code",
            "errors",
            "inject",
            "inject.link",
            "linux",
            "model",
            "perf",
            "recording.profile",
        ),
        *("recording", "symbols", "symbols.interpreters", "symbols.jit", "symbols.locate"),
        *("recording.names", "safety", "wire"),
    ),
    # What other profilers recorded.
    "foreign": (*("errors", "model", "recording", "recording.names", "recording.profile", "wire"),),
    # Recordings that are sent to a store while they are made.
    "push": ("errors", "export", "foreign", "linux", "model", "recording", "tree", "version"),
    # Recordings that are made elsewhere.
    "remote": (
        *("capture", "errors", "linux", "model", "recording", "recording.merge"),
        *("symbols.locate", "version"),
    ),
    "device": (
        *("capture", "errors", "model", "recording", "recording.names", "recording.profile"),
        *("symbols", "symbols.names", "symbols.object", "wire"),
    ),
    # What people see.
    "export": (
        *("analysis", "code", "errors", "linux", "locks", "model", "recording.profile"),
        *("recording", "symbols.interpreters", "recording.names", "timeline", "tree", "version"),
    ),
    "web": (
        *("analysis", "code", "errors", "export", "locks", "model", "recording", "timeline"),
        *("tree",),
    ),
    "cli": (
        *("analysis", "capture", "code", "errors", "export", "inject", "linux", "locks"),
        *("model", "recording", "safety", "symbols.interpreters", "symbols.jit"),
        *("device", "push", "remote", "symbols.locate", "tree", "wire"),
    ),
    "cli.commands": (
        *(
            "agent",
            "analysis",
            "capture",
            "cli",
            "device",
            "errors",
            "export",
            "foreign",
            "linux",
            "locks",
        ),
        "model",
        *(
            "recording.profile",
            "recording",
            "recording.merge",
            "safety",
            "symbols",
            "symbols.locate",
            "symbols.object",
        ),
        *("remote", "tree", "web"),
    ),
    "cli.main": ("cli", "errors", "version"),
    # For scripts, notebooks and runs of tests; the package itself loads it when it is used.
    "api": (
        *(
            "analysis",
            "capture",
            "errors",
            "export",
            "foreign",
            "inject",
            "model",
            "recording",
            "recording.merge",
            "safety",
        ),
        *("timeline", "tree"),
    ),
    "flametap": ("api", "errors", "version"),
    "__main__": ("cli", "cli.main", "linux"),
}
# Third-party packages → the only packages that import them.
BELONGS_TO: dict[str, tuple[str, ...]] = {
    "frida": ("inject.frida", "device"),
    "flask": ("web",),
    "werkzeug": ("web",),
    "jinja2": ("export.bundle",),
    "click": ("cli",),
    "zstandard": ("export.compression", "foreign.unpacked", "recording"),
    "numpy": (
        "device",
        "wire",
        "recording",
        "symbols",
        "tree",
        "timeline",
        "locks",
        "code",
        "analysis",
        "foreign",
        "export.cell_leaves",
        "export.firefox",
        "export.report_code",
        "export.sqlite",
        "export.time_rows",
    ),
    "capstone": ("symbols.object",),
    "elftools": ("symbols",),
    "symbolic": ("symbols",),
    "multi_demangle": ("symbols.names",),
    "orjson": ("web", "export", "cli", "foreign.opening", "recording", "remote", "push"),
    "re2": ("tree.search",),
    "pytest": ("api.pytest_plugin",),
}
DOM_FREE = sorted((ROOT / "web" / "static" / "model").glob("*.js"))


def python_files() -> dict[str, Path]:
    """Every module: its name without ``flametap.`` ("flametap" for the top) → its file."""
    found = {}
    for folder, package in FOLDERS.items():
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = (*package.split("."), *path.relative_to(ROOT / folder).with_suffix("").parts)
            name = ".".join(part for part in parts if part != "__init__")
            found[name.removeprefix("flametap.")] = path
    return found


FILES = python_files()


def is_within(module: str, package: str) -> bool:
    """True for the package itself and everything below it."""
    return module == package or module.startswith(package + ".")


def row_for(module: str) -> str | None:
    """The longest row of the table that covers the module."""
    return max((name for name in MAY_IMPORT if is_within(module, name)), key=len, default=None)


def imports(module: str, text: str) -> list[tuple[int, str, bool]]:
    """(line, full dotted name, is relative) of everything a source text imports."""
    package = f"flametap.{module}".split(".")
    if module == "flametap" or FILES.get(module, Path()).name != "__init__.py":
        package = package[:-1]
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name, False) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) + 1 - node.level] if node.level else []
            base = ".".join([*above, *filter(None, [node.module])])
            found += [(node.lineno, f"{base}.{alias.name}", node.level > 0) for alias in node.names]
    return sorted(found)


def ours(name: str) -> str | None:
    """The module of ours an imported dotted name means, None if it is not ours."""
    if not is_within(name, "flametap"):
        return None
    name = name.removeprefix("flametap.")
    while name and name not in FILES:  # the last part is a class or function, not a module
        name = name.rpartition(".")[0]
    return name or "flametap"


def folder_of(module: str) -> str:
    """The top-level folder that a module is in."""
    return module.partition(".")[0] if module.partition(".")[0] in FOLDERS else "profiler"


def broken_rules(module: str, text: str) -> list[str]:
    """One line per import of the module that the tables forbid."""
    row = row_for(module)
    if row is None:
        return [f"{module} has no row in MAY_IMPORT: say on which floor it is"]
    problems = []
    for number, name, is_relative in imports(module, text):
        top = name.partition(".")[0]
        if top in FOLDERS:
            problems.append(f"line {number}: {top} is a folder, the import name is {FOLDERS[top]}")
        owners = BELONGS_TO.get(top)
        if owners is not None and not any(is_within(module, owner) for owner in owners):
            problems.append(f"line {number}: only {', '.join(owners)} may import {top}")
        target = ours(name)
        if target is None or target == module:
            continue
        if is_relative != (folder_of(target) == folder_of(module)):
            problems.append(f"line {number}: {name}: relative within a folder, absolute beyond it")
        if row_for(target) not in (row, *MAY_IMPORT[row]):
            problems.append(f"line {number}: {module} may not import {target}")
    return list(dict.fromkeys(problems))


@pytest.mark.parametrize("module", FILES)
def test_module_imports_only_lower_floors(module: str) -> None:
    problems = broken_rules(module, FILES[module].read_text("utf-8"))
    assert not problems, f"{FILES[module].relative_to(ROOT)}: {problems}"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("import frida", "only inject.frida, device may import frida"),
        ("from web.app import create_app", "web is a folder, the import name is flametap.web"),
        ("def late():\n    from ..linux import procfs", "wire.new may not import linux.procfs"),
        ("from flametap.web import app", "wire.new may not import web.app"),
        (
            "from flametap.errors import UsageError",
            "flametap.errors.UsageError: relative within a folder, absolute beyond it",
        ),
        ("from .. import load", "wire.new may not import flametap"),
    ],
)
def test_planted_violation_is_found(text: str, problem: str) -> None:
    assert [found.partition(": ")[2] for found in broken_rules("wire.new", text)] == [problem]


def test_package_without_a_row_is_found() -> None:
    assert "no row in MAY_IMPORT" in broken_rules("helpers", "")[0]


def _uses() -> dict[str, set[str]]:
    """What of ours each file imports."""
    return {
        module: {
            target
            for _, name, _ in imports(module, path.read_text("utf-8"))
            if (target := ours(name)) is not None and target != module
        }
        for module, path in FILES.items()
    }


def test_no_permission_is_unused() -> None:
    used: dict[str, set[str | None]] = {}
    for module, targets in _uses().items():
        used.setdefault(row_for(module) or "", set()).update(map(row_for, targets))
    unused = {row: set(allowed) - used.get(row, set()) for row, allowed in MAY_IMPORT.items()}
    assert not {row: names for row, names in unused.items() if names}


def test_no_cycle_between_files_nor_packages() -> None:
    for graph in (_uses(), MAY_IMPORT):
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            pytest.fail(f"a cycle: {' → '.join(error.args[1])}")


@pytest.mark.parametrize("path", DOM_FREE, ids=lambda path: path.name)
def test_javascript_that_runs_under_node_touches_no_dom(path: Path) -> None:
    text = re.sub(r"/\*.*?\*/|//[^\n]*", "", path.read_text("utf-8"), flags=re.DOTALL)
    touched = re.findall(r"\b(?:document|window|navigator|localStorage|HTMLElement)\b", text)
    assert not touched, f"{path.relative_to(ROOT)} uses {sorted(set(touched))}"
