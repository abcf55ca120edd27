"""Results: JSON in ``results/``, tables on the terminal and in README.md.

The README's tables are between ``<!-- NAME -->`` and ``<!-- end -->``. Only ``render`` writes them,
from the JSON files.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
README = HERE / "README.md"
RESULTS = HERE / "results"
Data = Mapping[str, Any]


@dataclass(frozen=True)
class Table:
    """A table: heading, column titles, rows of texts, and a remark below."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    remark: str = ""


def save(path: Path, result: Data) -> None:
    """Write a result as JSON, replacing an older one atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", "utf-8")
    fresh.replace(path)


def load(name: str) -> Data | None:
    """Return the result of a bench by its name; None if it was never run."""
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text("utf-8")) if path.exists() else None


def _width(text: str) -> int:
    return sum(not unicodedata.combining(character) for character in text)


def terminal(tables: Sequence[Table]) -> str:
    """Format tables with aligned columns."""
    lines: list[str] = []
    for table in tables:
        everything = [table.columns, *table.rows]
        widths = [max(_width(row[i]) for row in everything) for i in range(len(table.columns))]
        lines += ["", table.title]
        for row in everything:
            cells = (cell + " " * (w - _width(cell)) for cell, w in zip(row, widths, strict=True))
            lines.append("  " + "   ".join(cells).rstrip())
        if table.remark:
            lines.append("  " + table.remark)
    return "\n".join(lines)


def _markdown(tables: Sequence[Table]) -> str:
    blocks: list[str] = []
    for table in tables:
        lines = [f"**{table.title}**", ""]
        lines.append("| " + " | ".join(table.columns) + " |")
        lines.append("|" + "---|" * len(table.columns))
        lines += ["| " + " | ".join(row) + " |" for row in table.rows]
        if table.remark:
            lines += ["", table.remark]
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def origin(result: Data) -> str:
    """Describe machine, time and versions of a result in one paragraph."""
    machine, versions = (
        ", ".join(f"{name} {value}" for name, value in result[part].items())
        for part in ("machine", "versions")
    )
    low, high = result["load_average"]
    return (
        f"Made {result['made']} with `{result['command']}` in {result['took_s']:.0f} s on"
        f" {machine}; {versions}. Load average of the machine before and after: {low:.1f},"
        f" {high:.1f}."
    )


def render(text: str, names: Mapping[str, Callable[[Data], Sequence[Table]]]) -> str:
    """Return the README's text with the tables of all results between their markers."""

    def block(match: re.Match[str]) -> str:
        name = match.group(1)
        result = load(name)
        if result is None:
            body = "*Not measured yet.*"
        else:
            body = f"{_markdown(names[name](result['data']))}\n\n<sub>{origin(result)}</sub>"
        return f"<!-- {name} -->\n\n{body}\n\n<!-- end -->"

    return re.sub(r"<!-- ([a-z_]+) -->\n.*?<!-- end -->", block, text, flags=re.DOTALL)
