"""Who may talk to the server, and what the page may do."""

from __future__ import annotations

import re

import pytest
from flask.testing import FlaskClient

from fake_source import TOKEN, FakeSource
from flametap.web.app import create_app
from flametap.web.guard import is_trusted_host, new_token


@pytest.fixture(scope="module")
def client() -> FlaskClient:
    return create_app(FakeSource(100), TOKEN).test_client()


@pytest.mark.parametrize(
    "header",
    ["127.0.0.1", "127.0.0.1:8000", "localhost:9", "[::1]:80", "192.168.0.7:1", "LOCALHOST"],
)
def test_addresses_and_localhost_are_trusted(header: str) -> None:
    assert is_trusted_host(header)


@pytest.mark.parametrize(
    "header",
    ["", "evil.example", "evil.example:8000", "localhost.evil.example", "127.0.0.1.nip.io", "[::1"],
)
def test_names_that_a_dns_server_answers_for_are_not(header: str) -> None:
    assert not is_trusted_host(header)


def test_rebound_name_gets_nothing(client: FlaskClient) -> None:
    response = client.get(f"/{TOKEN}/api/status", headers={"Host": "evil.example:8000"})
    assert response.status_code == 403


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/api/status",
        "/wrong/api/status",
        f"/{TOKEN}x/",
        "/static/main.js",
        "//",
        f"/x/{TOKEN}/",
    ],
)
def test_without_the_token_there_is_nothing(client: FlaskClient, path: str) -> None:
    assert client.get(path, follow_redirects=True).status_code == 404


def test_other_origins_are_refused_even_with_the_token(client: FlaskClient) -> None:
    url = f"/{TOKEN}/api/pause"
    foreign = client.post(url, json={"paused": True}, headers={"Origin": "https://evil.example"})
    assert foreign.status_code == 403
    own = client.post(url, json={"paused": False}, headers={"Origin": "http://localhost"})
    assert own.status_code == 200


@pytest.mark.parametrize("path", ["", "api/status", "static/main.js", "api/nonsense"])
def test_every_answer_has_the_headers(client: FlaskClient, path: str) -> None:
    with client.get(f"/{TOKEN}/{path}") as response:
        headers = response.headers
    policy = headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["X-Content-Type-Options"] == "nosniff"


def test_page_has_no_inline_script_or_style_and_loads_only_its_own_files(
    client: FlaskClient,
) -> None:
    page = client.get(f"/{TOKEN}/").text
    assert not re.search(r"<script(?![^>]*\bsrc=)", page)
    assert not re.search(r"\sstyle=|<style|\son[a-z]+=|javascript:", page)
    links = re.findall(r'\b(?:src|href)="([^"#][^"]*)"', page)
    assert links
    assert all(link.startswith("static/") for link in links)
    for link in set(links):
        with client.get(f"/{TOKEN}/{link}") as response:
            assert response.status_code == 200


def test_command_line_of_the_target_is_text_not_markup() -> None:
    source = FakeSource(100)
    status = source.status()
    status.command = "/bin/<script>alert(1)</script> & co"
    source.status = lambda: status  # type: ignore[method-assign]
    page = create_app(source, TOKEN).test_client().get(f"/{TOKEN}/").text
    assert "<script>alert" not in page
    assert "&lt;script&gt;" in page


def test_tokens_are_long_and_never_the_same() -> None:
    tokens = {new_token() for _ in range(50)}
    assert len(tokens) == 50
    assert all(re.fullmatch(r"[\w-]{22}", token) for token in tokens)
