"""The Flask app: the page, its files and the API, all below ``/TOKEN/``."""

from __future__ import annotations

from flask import Flask, render_template

from .api import Service, blueprint
from .guard import protect
from .source import ProfileSource


def create_app(source: ProfileSource, token: str) -> Flask:
    """Create an app that serves one profile to clients that know the token.

    ``app.extensions["flametap"]`` is its ``Service``; setting its ``closing`` ends event streams.
    """
    service = Service(source)
    app = Flask(__name__, static_url_path=f"/{token}/static")
    app.extensions["flametap"] = service
    protect(app, token)
    app.register_blueprint(blueprint(service), url_prefix=f"/{token}/api")

    @app.get(f"/{token}/")
    def page() -> str:
        return render_template("index.html", status=source.status())

    return app
