"""A recording of a made-up server, and a client of the server that shows it."""

from __future__ import annotations

import pytest
from flask.testing import FlaskClient

from flametap.web.app import create_app
from made_server import TOKEN, MadeServer


@pytest.fixture
def made() -> MadeServer:
    made = MadeServer(400)
    made.advance(5.0)
    return made


@pytest.fixture
def client(made: MadeServer) -> FlaskClient:
    client = create_app(made.views, TOKEN, controls=made.controls).test_client()
    client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {TOKEN}"
    return client
