"""Recordings that grow as a live one does, with what tests feed them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import wire
from flametap.analysis.views import views_of
from flametap.model import Frame, Status
from flametap.recording.code_source import CodeSource
from flametap.recording.names.table import SymbolTable
from flametap.recording.profile.store import BEGINNING, Profile
from flametap.recording.recording import Recording, with_sums
from flametap.recording.revision import Revision
from flametap.wire.decoder import Decoder
from flametap.wire.events import Batch


class Growing:
    """A recording that is fed.

    Args:
        status: returns its state; without it, that of a program that still runs.
        code: of its functions.

    Attributes:
        recording: the recording.
        views: of it.
        profile: what was sampled.
    """

    def __init__(
        self, status: Callable[[], Status] | None = None, code: CodeSource | None = None
    ) -> None:
        revision = Revision(lambda: self.profile.revision, lambda: self._table.revision)
        self.profile = Profile(revision.notify)
        self._table = SymbolTable(self.profile.locate, revision.notify)
        self.recording = Recording(
            self.profile, self._table, status or self._running, revision, code=code
        )
        self.views = views_of(self.recording)
        self._mark = BEGINNING

    @property
    def revision(self) -> int:
        """That of the recording."""
        return self.recording.revision

    def feed(self, now_ns: int, **sections: Any) -> None:
        """Add a batch as the agent sends it; see ``wire.batch``."""
        for batch in Decoder().feed(wire.batch(now_ns, **sections)):
            self.profile.apply(batch)

    def begin(self, batch: Batch, names: Mapping[int, Sequence[Frame]]) -> None:
        """Add a batch that is decoded, and names of its addresses."""
        self.profile.apply(batch)
        self.name(names)

    def name(self, names: Mapping[int, Sequence[Frame]]) -> None:
        """Name the new addresses in modules as the symbolizer does.

        Args:
            names: by address, as the agent sends it; those that have symbols.
        """
        news = self.profile.news(self._mark)
        self._mark = news.mark
        found = [
            (address_id, names[encoded])
            for address_id, raw in news.addresses
            if (encoded := wire.frame(raw.module_id, raw.addr)) in names
        ]
        self._table.set_many([each for each, _ in found], [frames for _, frames in found])

    def _running(self) -> Status:
        status = Status(7, "/opt/prog", "recording", program="prog", revision=self.revision)
        return with_sums(status, self.profile)
