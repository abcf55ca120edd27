"""What the page's server answers to every request that only reads."""

from __future__ import annotations

from flametap.analysis.views import views_of
from flametap.recording.recording import Recording
from flametap.web.app import create_app

TOKEN = "secret-token"
CLOCKS = ("cpu", "wall", "off-cpu")
MAX_FUNCTIONS = 60


def answers(recording: Recording) -> dict[str, bytes]:
    """Return the answers by request."""
    client = create_app(views_of(recording), TOKEN).test_client()
    client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {TOKEN}"
    found: dict[str, bytes] = {}

    def ask(path: str) -> None:
        response = client.get(f"/api/{path}")
        assert response.status_code == 200, (path, response.data)
        found[path] = response.data

    duration_ms = recording.status().duration_ns // 1_000_000
    for clock in CLOCKS:
        for more in (
            "",
            "&language=python",
            "&plumbing=1",
            f"&range={duration_ms // 2}-{duration_ms}",
        ):
            ask(f"view?clock={clock}&width=1200&rows=40&table=self{more}")
        ask(f"symbols?clock={clock}")
        ask(f"locks?clock={clock}")
    for number in list(range(len(recording.functions)))[:MAX_FUNCTIONS]:
        for clock in ("cpu", "wall"):
            ask(f"lines?function={number}&clock={clock}")
            ask(f"instructions?function={number}&clock={clock}")
    ask("threads")
    ask("gil?clock=wall")
    ask(f"lanes?from=0&to={duration_ms}&bins=200&lanes=20&overview=100")
    for kind in ("cpu", "waits"):
        ask(f"heat?kind={kind}&from=0&to={duration_ms}&columns=50")
    return found
