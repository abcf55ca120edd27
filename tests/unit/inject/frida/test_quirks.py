"""What Frida may not do."""

from __future__ import annotations

import frida
import pytest

from flametap.errors import CannotAttachError
from flametap.inject.frida import quirks


def test_installed_frida_can_be_restrained() -> None:
    quirks.restrain(frida._frida.__file__)


def test_frida_that_reads_in_another_way_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quirks, "read_no_data", lambda library: False)
    with pytest.raises(CannotAttachError, match=frida.__version__):
        quirks.restrain(frida._frida.__file__)
