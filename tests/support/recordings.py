"""Recordings of what tests have made up."""

from __future__ import annotations

from flametap.model import Status
from flametap.recording.names.table import SymbolTable
from flametap.recording.profile.store import Profile
from flametap.recording.recording import Recording, ended


def recorded(profile: Profile, names: SymbolTable, status: Status | None = None) -> Recording:
    """Return a recording of one program, in the state that is given, or that of one that ended."""
    return Recording(profile, names, lambda: status or ended(profile))
