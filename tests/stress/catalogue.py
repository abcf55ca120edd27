"""All scenarios: each module listed here enters its own when it is imported."""

from __future__ import annotations

import servers
from harness import CATALOGUE

MODULES = (servers,)
SCENARIOS = CATALOGUE
