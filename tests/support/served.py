"""Several recordings of one server."""

from __future__ import annotations

from functools import partial

from flametap.analysis.views import views_of
from flametap.recording.recording import Recording
from flametap.web.recordings import File, Recordings


def served(**recordings: Recording) -> Recordings:
    """Return recordings as a server shows them, by the names of their files without extension."""
    return Recordings(
        [File(f"{name}.flametap", partial(views_of, each)) for name, each in recordings.items()]
    )
