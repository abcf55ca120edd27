"""Who may import whom: the table of DESIGN's house, held by reading the imports of every file.

Layers stand from low to high; a file imports only what its line allows. Imports under
``TYPE_CHECKING`` and inside functions count: they couple just as much. A new module needs a line
here before it can be imported.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = {"profiler": "flametap", "web": "flametap.web", "agent": "flametap.agent"}

# Module or package (with all below it) → what of ours it may import, likewise with all below.
# The longest match holds; "" is flametap itself (__init__.py), "*" is anything.
LOW = ("model", "errors", "syscalls")
WIRE = (*LOW, "abi", "protocol", "ring")
COLUMNS = (*WIRE, "stacks", "chunk", "cells", "intervals")
STORE = (*COLUMNS, "profile", "symbols.table", "calltree")
CODE = ("annotated", "codeview")
TARGET = (
    *(*LOW, "procfs", "program", "rights", "freeze"),
    *("seccomp", "filters", "finding", "checks", "preflight"),
)
MAY_IMPORT: dict[str, tuple[str, ...]] = {
    "": (),
    "__main__": ("cli",),
    "model": (),
    "errors": (),
    "syscalls": (),
    "certificate": ("model",),
    "rates": ("abi",),
    "unattributed": ("model",),
    "kernelcheck": (),
    "kernelwatch": (
        *("model", "procfs", "kernelcheck", "profile", "nodeweights", "symbols.table"),
    ),
    # Bytes → events → store.
    "abi": (),
    "protocol": ("model", "errors", "abi"),
    "ring": ("errors", "abi", "protocol"),
    "stacks": WIRE,
    "chunk": WIRE,
    "cells": (*WIRE, "chunk"),
    "intervals": (*WIRE, "chunk", "cells"),
    "profile": COLUMNS,
    # Names and trees.
    "symbols": (*LOW, "procfs", "ownprocess", "symbols"),
    "symbols.lines": (),
    "symbols.packed": (*LOW, "symbols.lines"),
    "symbols.table": (*LOW, "symbols.packed"),
    "calltree": (*LOW, "stacks", "profile", "symbols.table"),
    "calltree_view": (*LOW, "calltree"),
    # Weights per module, line and instruction.
    "nodeweights": (*LOW, "stacks", "profile", "symbols.table", "calltree"),
    "coverage": (*LOW, "profile", "nodeweights", "symbols.table"),
    "annotate": (*LOW, "profile", "nodeweights", "symbols.table"),
    "annotated": ("model", "coverage"),
    "sourcelines": ("annotate", "annotated", "symbols.sourcetext"),
    "codeview": (
        *STORE,
        *("nodeweights", "coverage", "annotate", "annotated", "sourcelines", "symbols"),
    ),
    "export": (*STORE, "export", ""),
    # The target, and attaching to it.
    "procfs": LOW,
    "program": LOW,
    "rights": (*LOW, "procfs"),
    "freeze": (*LOW, "procfs", "program"),
    "seccomp": LOW,
    "filters": (*LOW, "procfs", "ptrace", "rewait", "seccomp", "tasks"),
    "finding": (*LOW, "procfs", "freeze"),
    "checks": (
        *LOW,
        "procfs",
        "program",
        "rights",
        "freeze",
        "seccomp",
        "filters",
        "finding",
        "otheragents",
        "sparetasks",
    ),
    "sparetasks": (*LOW, "procfs", "rights", "finding"),
    "otheragents": (*LOW, "procfs", "finding", "presence", "tasks"),
    "preflight": TARGET,
    "launch": TARGET,
    "receipt": (*LOW, "procfs"),
    "harm": (*LOW, "faults", "receipt", "presence"),
    "agent": (),
    "unpacking": ("interpose",),
    "interpose": (),
    "quiet": (),
    "execs": (),
    "tasks": (),
    "shownstack": (),
    "rewait": ("ptrace", "tasks"),
    "remotecall": ("ptrace",),
    "codeswap": ("presence", "remotecall"),
    "unmapping": ("ptrace", "remotecall", "rewait"),
    "loader": ("presence", "ptrace", "tasks", "unmapping"),
    "ptrace": (),
    "tracer": (),
    "forkcode": (*LOW, "procfs", "ptrace"),
    "midfork": ("forkcode", "ptrace"),
    "hold": ("midfork", "procfs", "ptrace", "rewait", "tasks", "tracer"),
    "perfclock": ("ptrace",),
    "filelender": ("perfclock", "ptrace"),
    "stackprobe": ("hold", "ptrace", "remotecall", "tasks"),
    "guard": ("hold", "injection", "interpose"),
    "faults": ("ptrace", "remotecall"),
    "tracee": ("codeswap", "faults", "loader", "ptrace", "rewait", "shownstack"),
    "injection": ("execs", "hold", "loader", "ptrace", "quiet", "tasks", "tracee"),
    "connection": (),
    "handshake": (*LOW, "procfs"),
    "exitstatus": ("procfs",),
    "ends": ("errors", "procfs"),
    "ownprocess": (),
    "caretaker": ("handshake", "ownprocess"),
    "presence": (*LOW, "procfs"),
    "session": (
        *WIRE,
        *(
            "procfs",
            "unpacking",
            "guard",
            "injection",
            "handshake",
            "connection",
            "presence",
            "stackprobe",
            "filelender",
            "perfclock",
            "agent",
        ),
        *("caretaker", "ends", "execs", "filters", "patience", "hold"),
    ),
    "patience": ("errors", "guard", "injection"),
    "packets": (),
    "injectorprocess": (*LOW, "procfs", "packets", "session", "ends", "execs"),
    "injector": (*WIRE, "ends", "ownprocess", "packets"),
    "heartbeat": ("abi", "ring"),
    "capture": (
        *STORE,
        *TARGET,
        "symbols",
        "injector",
        "ends",
        "exitstatus",
        "heartbeat",
        "launch",
        "rates",
        "unattributed",
        "kernelcheck",
        "kernelwatch",
        *CODE,
    ),
    # What people see.
    "web": (*LOW, "profile", "calltree", "calltree_view", "annotated", "web", ""),
    "cli": ("*",),
}
# Third-party packages that belong to one stage each → the only modules that import them.
BELONGS_TO: dict[str, tuple[str, ...]] = {
    "frida": ("session", "ends"),
    "flask": ("web",),
    "werkzeug": ("web",),
    "jinja2": ("web",),
    "click": ("cli",),
    "numpy": (
        *("protocol", "stacks", "chunk", "cells", "intervals", "profile"),
        *("symbols", "calltree", "calltree_view"),
        *("nodeweights", "coverage", "annotate", "codeview"),
    ),
    "capstone": ("symbols",),
    "elftools": ("symbols",),
    "symbolic": ("symbols",),
    "multi_demangle": ("symbols",),
    "orjson": ("web", "export", "cli"),
}
DOM_FREE = ("layout.js", "listing.js", "format.js", "state.js", "explain.js", "color.js")


def python_files() -> dict[str, Path]:
    """Every module of the package: its name without ``flametap.`` ("" for the top) → its file."""
    found = {}
    for folder, package in FOLDERS.items():
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = (*package.split("."), *path.relative_to(ROOT / folder).with_suffix("").parts)
            name = ".".join(part for part in parts if part != "__init__")
            found[name.removeprefix("flametap").removeprefix(".")] = path
    return found


FILES = python_files()


def is_within(module: str, package: str) -> bool:
    """True for the package itself and everything below it; "" is the top module alone."""
    return module == package or (package != "" and module.startswith(package + "."))


def line_for(module: str) -> str | None:
    """The longest entry of the table that covers the module."""
    lines = [name for name in MAY_IMPORT if is_within(module, name)]
    return max(lines, key=len, default=None)


def imports(text: str) -> list[tuple[int, str]]:
    """(line, dotted name) of everything a source text imports; relative imports keep their dots."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            found += [(node.lineno, f"{base}.{alias.name}") for alias in node.names]
    return sorted(found)


def ours(name: str) -> str | None:
    """The module of ours an imported dotted name means ("" for the top), None if it is not ours."""
    if not is_within(name, "flametap"):
        return None
    name = name.removeprefix("flametap").removeprefix(".")
    while name and name not in FILES:  # the last part is a class or function, not a module
        name = name.rpartition(".")[0]
    return name


def broken_rules(module: str, text: str) -> list[str]:
    """One line per import of the module that the tables forbid."""
    line = line_for(module)
    if line is None:
        return [f"{module} has no line in MAY_IMPORT: say which layer it belongs to"]
    allowed = MAY_IMPORT[line]
    problems = []
    for number, name in imports(text):
        top = name.partition(".")[0]
        if name.startswith("."):
            problems.append(f"line {number}: relative import {name}, write flametap.…")
        if top in FOLDERS:
            problems.append(f"line {number}: {top} is a folder, the import name is {FOLDERS[top]}")
        owners = BELONGS_TO.get(top)
        if owners is not None and not any(is_within(module, owner) for owner in owners):
            problems.append(f"line {number}: only {', '.join(owners)} may import {top}")
        target = ours(name)
        if target is None or target == module or "*" in allowed:
            continue
        if not any(is_within(target, entry) for entry in allowed):
            problems.append(f"line {number}: {module} may not import {target or 'flametap'}")
    return list(dict.fromkeys(problems))


@pytest.mark.parametrize("module", FILES)
def test_module_imports_only_lower_layers(module: str) -> None:
    problems = broken_rules(module, FILES[module].read_text("utf-8"))
    assert not problems, f"{FILES[module].relative_to(ROOT)}: {problems}"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("import frida", "only session, ends may import frida"),
        ("from . import x", "relative import ..x, write flametap.…"),
        ("from web.app import create_app", "web is a folder, the import name is flametap.web"),
        ("def late():\n    from flametap import cli", "model may not import cli"),
        ("from flametap.web import Source", "model may not import web"),
        ("import flametap", "model may not import flametap"),
    ],
)
def test_planted_violation_is_found(text: str, problem: str) -> None:
    assert [found.partition(": ")[2] for found in broken_rules("model", text)] == [problem]


def test_module_without_a_layer_is_found() -> None:
    assert "no line in MAY_IMPORT" in broken_rules("helpers", "")[0]


@pytest.mark.parametrize("name", DOM_FREE)
def test_javascript_that_runs_under_node_touches_no_dom(name: str) -> None:
    path = ROOT / "web" / "static" / name
    text = re.sub(r"/\*.*?\*/|//[^\n]*", "", path.read_text("utf-8"), flags=re.DOTALL)
    touched = re.findall(r"\b(?:document|window|navigator|localStorage|HTMLElement)\b", text)
    assert not touched, f"{path.relative_to(ROOT)} uses {sorted(set(touched))}"
