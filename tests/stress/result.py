"""What one run of one scenario came to, and the file of such results: one JSON object per line."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tally import Tally

CLEAN, FINDING, SKIPPED = "clean", "finding", "skipped"


@dataclass
class Result:
    """One run of one scenario."""

    scenario: str
    verdict: str
    findings: list[str] = field(default_factory=list)
    facts: dict[str, float] = field(default_factory=dict)
    tally: Tally = field(default_factory=Tally)
    seconds: float = 0.0  # asked for, per recording
    took_s: float = 0.0
    seed: int = 0
    commit: str = ""
    at: str = ""

    def as_json(self) -> dict[str, Any]:
        """All fields; ``from_json`` reads them."""
        return {**vars(self), "tally": self.tally.as_json()}

    @staticmethod
    def from_json(fields: dict[str, Any]) -> Result:
        """The inverse of ``as_json``."""
        return Result(**{**fields, "tally": Tally.from_json(fields["tally"])})


def read_results(path: Path) -> list[Result]:
    """The results in a file; none if there is no file. A torn last line is left out."""
    results = []
    lines = path.read_text().splitlines() if path.exists() else []
    for line in lines:
        try:
            results.append(Result.from_json(json.loads(line)))
        except json.JSONDecodeError:
            continue
    return results


def sampled_s(results: list[Result]) -> float:
    """Seconds of sampled targets in some results."""
    return sum(result.tally.sampled_s for result in results)
