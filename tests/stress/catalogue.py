"""All scenarios: each module listed here enters its own when it is imported."""

from __future__ import annotations

import narrow
import servers
from harness import CATALOGUE

MODULES = (narrow, servers)
SCENARIOS = CATALOGUE
