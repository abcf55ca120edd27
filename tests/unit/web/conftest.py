"""A made-up profile, and a client of the server that shows it."""

from __future__ import annotations

import pytest
from flask.testing import FlaskClient

from fake_source import TOKEN, FakeSource
from flametap.web.app import create_app


@pytest.fixture
def source() -> FakeSource:
    source = FakeSource(400)
    source.advance(5.0)
    return source


@pytest.fixture
def client(source: FakeSource) -> FlaskClient:
    client = create_app(source, TOKEN, controls=source).test_client()
    client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {TOKEN}"
    return client
