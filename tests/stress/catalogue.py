"""All scenarios: each module listed here enters its own when it is imported."""

from __future__ import annotations

import attaches
import churn
import damaged_files
import databases
import ends
import forks
import jobs
import kills
import loops
import narrow
import own_signals
import rights
import standstill
import surroundings
import thousand
import webservers
import zoo
from harness import CATALOGUE

MODULES = (
    databases,
    webservers,
    jobs,
    churn,
    forks,
    ends,
    attaches,
    loops,
    narrow,
    own_signals,
    rights,
    standstill,
    kills,
    surroundings,
    thousand,
    damaged_files,
    zoo,
)
SCENARIOS = CATALOGUE
