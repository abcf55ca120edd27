"""Attack on the API's parameters: whatever they hold is answered with 2xx or 4xx, never with 500.

The attacker has the token, or has brought somebody who has it to follow a link.
"""

from __future__ import annotations

import random
from urllib.parse import quote, quote_from_bytes

import pytest
from flask.testing import FlaskClient

from flametap.web.app import create_app
from made_server import TOKEN, MadeServer
from nightly import nightly

QUERIES = {
    "view": ("clock", "threads", "zoom", "width", "rows", "q", "table", "revision"),
    "symbols": ("clock", "threads"),
    "lines": ("function", "clock", "threads"),
    "instructions": ("function", "clock", "threads"),
    "status": (),
}
NUMBERS = (
    *("nan", "-nan", "inf", "-inf", "Infinity", "1e400", "-1e400", "1e-400", "-0", "0x10", "1_0"),
    *("-1", "0", "1", "2", "3", "10", "1.5", "2147483648", "4294967296", "9223372036854775807"),
    *("9223372036854775808", "-9223372036854775809", "18446744073709551616", "9" * 400, "9" * 5000),
    *("٣", "１", " 1 ", "1\x00", "+1", "--1", "1e", ".", ",", "1.2.3", "1,2,3", "1..2", ",,", "²"),
)
TEXTS = (
    *(
        "",
        "cpu",
        "wall",
        "off-cpu",
        "CPU",
        "self",
        "total",
        "both",
        "re:",
        "re:(",
        "re:[[:^alpha:]",
    ),
    *(
        "re:\\",
        "re:\\pN",
        "re:(?i)x",
        "re:x{1000}{1000}",
        "module:",
        "module:re:*",
        "file:re:(?P<",
        "%",
    ),
    *("\x00", "\x1b[31m", "‮", "𝕏" * 300, "x" * 20_000, "../../etc/passwd", "<script>", "'\";--"),
)
BROKEN = (b"\xff", b"\xc3(", b"\xed\xa0\x80", b"\xf8\x88\x80\x80\x80", b"\xc0\xae", b"\x80" * 50)
ROUNDS = 2_000
FETCH = (
    {"Origin": "http://["},
    {"Origin": "null"},
    {"Origin": "\xff"},
    {"Host": "["},
    {"Host": "127.0.0.1:99999999999"},
    {"Host": "\xff"},
    {"Authorization": "Bearer \xff"},
    {"Authorization": "Digest " + '"' * 50},
    {"Cookie": 'flametap="\\777; =;;,'},
    {"Sec-Fetch-Site": "\xff"},
    {"Content-Type": "multipart/form-data; boundary=" + "x" * 500},
    {"Content-Length": "-1"},
    {"Range": "bytes=9-1,-0"},
    {"If-Modified-Since": "\xff"},
)


@pytest.fixture
def client() -> FlaskClient:
    made = MadeServer(150)
    made.advance(2.0)
    client = create_app(made.views, TOKEN).test_client()
    client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {TOKEN}"
    return client


def prefix(client: FlaskClient) -> str:
    """Where the API is: older servers had the token in the path."""
    return "" if client.get("/api/status").status_code == 200 else f"/{TOKEN}"


def value(choose: random.Random) -> str:
    """One value, percent-encoded."""
    kind = choose.random()
    if kind < 0.1:
        return quote_from_bytes(choose.choice(BROKEN))
    if kind < 0.2:
        return quote_from_bytes(choose.randbytes(choose.randrange(30)))
    if kind < 0.6:
        return quote(choose.choice(NUMBERS))
    if kind < 0.7:
        some = choose.choices(NUMBERS, k=choose.randrange(1, 8))
        return quote(choose.choice(".,").join(some))
    return quote(choose.choice(TEXTS))


@pytest.mark.parametrize(("seed", "rounds"), [(1, ROUNDS), *nightly((2, 100_000), (3, 100_000))])
def test_no_query_makes_an_internal_error(client: FlaskClient, seed: int, rounds: int) -> None:
    choose = random.Random(seed)
    root = prefix(client)
    for _ in range(rounds):
        path = choose.choice(list(QUERIES))
        names = [name for name in QUERIES[path] if choose.random() < 0.4] or ["x"]
        names += choose.choices(names, k=choose.randrange(2))
        query = "&".join(f"{name}={value(choose)}" for name in names)
        response = client.get(f"{root}/api/{path}?{query}")
        assert response.status_code in (200, 400, 404), f"{path}?{query}: {response.text}"
        answer = response.get_json()
        assert ("error" in answer) == (response.status_code != 200)
        if response.status_code != 200:
            assert "\n" not in answer["error"]


@pytest.mark.parametrize("path", QUERIES)
@pytest.mark.parametrize("number", NUMBERS)
def test_every_parameter_takes_every_number(client: FlaskClient, path: str, number: str) -> None:
    root = prefix(client)
    for name in QUERIES[path]:
        response = client.get(f"{root}/api/{path}?{name}={quote(number)}")
        assert response.status_code in (200, 400, 404), f"{name}={number}: {response.text}"


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"{", b"[]", b"NaN", b'{"paused": NaN}', b'{"paused": 1}', b"\xff", b'"\\ud800"'),
        *(
            b"[" * 4000,
            b'{"paused":' * 400,
            b"9" * 4000,
            b'{"paused": true}\x00',
            b"\xef\xbb\xbf{}",
        ),
    ],
    ids=lambda body: repr(body)[:20],
)
def test_no_body_makes_an_internal_error(client: FlaskClient, body: bytes) -> None:
    url = f"{prefix(client)}/api/pause"
    response = client.post(url, data=body, content_type="application/json")
    assert response.status_code == 400, response.text
    assert client.post(url, data=body).status_code == 415


@pytest.mark.parametrize("headers", FETCH, ids=str)
def test_no_header_makes_an_internal_error(client: FlaskClient, headers: dict[str, str]) -> None:
    root = prefix(client)
    for path in ("/", "/api/status", "/static/main.js", "/?token=x"):
        with client.get(root + path, headers=headers) as response:
            assert response.status_code in (200, 206, 400, 403, 404, 416)
    with client.post(f"{root}/api/pause", headers=headers) as response:
        assert 400 <= response.status_code < 500


def test_long_body_is_refused_before_it_is_parsed(client: FlaskClient) -> None:
    url = f"{prefix(client)}/api/pause"
    body = b'{"paused": true, "x": "' + b"x" * 100_000 + b'"}'
    assert client.post(url, data=body, content_type="application/json").status_code == 413
