"""Who may talk to the server, and what the page may do."""

from __future__ import annotations

import re

import pytest
from flask.testing import FlaskClient

from flametap.web.app import create_app
from flametap.web.guard import is_trusted_host, new_token
from flametap.web.login import COOKIE, Key
from made_server import TOKEN, MadeServer

KEY = Key(TOKEN)
PAGE = f"/{KEY.address}/"
BEARER = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture
def client() -> FlaskClient:
    """A browser that has not been here yet."""
    made = MadeServer(100)
    return create_app(made.views, TOKEN, controls=made.controls).test_client()


@pytest.fixture
def page(client: FlaskClient) -> FlaskClient:
    """A browser that has opened the printed URL."""
    assert client.get(f"/?token={TOKEN}").status_code == 200
    return client


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


@pytest.mark.parametrize("path", ["/api/status", "/", f"/?token={TOKEN}"])
def test_rebound_name_gets_nothing(client: FlaskClient, path: str) -> None:
    response = client.get(path, headers={"Host": "evil.example:8000", **BEARER})
    assert response.status_code == 403
    assert "Set-Cookie" not in response.headers


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/api/status",
        "/?token=",
        "/?token=wrong",
        f"/?token={TOKEN}x",
        f"/?token=%FF{TOKEN}",
        f"/api/status?token={TOKEN}",
        f"/{TOKEN}/",
        f"/{TOKEN}/api/status",
        f"/?token={KEY.cookie}",
        f"/?token={KEY.address}",
        PAGE,
        f"{PAGE}api/status",
        f"{PAGE}static/main.js",
        f"{PAGE}static/page.js",
        f"{PAGE}?token={TOKEN}",
        "/static/main.js",
        "//",
        "/nonsense",
    ],
)
def test_without_the_token_there_is_nothing(client: FlaskClient, path: str) -> None:
    response = client.get(path)
    assert response.status_code == 403
    assert "Set-Cookie" not in response.headers


def test_printed_url_leads_to_an_address_without_a_secret(client: FlaskClient) -> None:
    typed = client.get(f"/?token={TOKEN}", headers={"Sec-Fetch-Site": "none"})
    assert (typed.status_code, typed.headers["Location"]) == (303, PAGE)
    assert not {TOKEN, KEY.cookie} & set(PAGE.split("/"))
    assert "<canvas" in client.get(PAGE).text


@pytest.mark.parametrize("site", [{}, {"Sec-Fetch-Site": "cross-site"}])
def test_visitor_from_elsewhere_is_led_on_by_a_page_of_ours(
    client: FlaskClient, site: dict[str, str]
) -> None:
    """As the browser would not send the cookie of a strict site along with a redirect."""
    response = client.get(f"/?token={TOKEN}", headers=site)
    assert response.status_code == 200
    assert f'content="0; url={PAGE}"' in response.text
    assert TOKEN not in response.text


def test_printed_url_opens_any_number_of_browsers() -> None:
    app = create_app(MadeServer(100).views, TOKEN)
    for _ in range(2):
        browser = app.test_client()
        for _ in range(2):
            assert browser.get(f"/?token={TOKEN}").status_code == 200
            assert browser.get(PAGE).status_code == 200


def test_form_of_the_file_opens_the_page(client: FlaskClient) -> None:
    form = KEY.form("http://127.0.0.1:1/")
    assert 'method="post" action="http://127.0.0.1:1/"' in form
    assert f'name="token" value="{TOKEN}"' in form
    headers = {"Origin": "null", "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    wrong = client.post("/", data={"token": "wrong"}, headers=headers)
    assert wrong.status_code == 403
    assert client.post("/", data={"token": TOKEN}, headers=headers).status_code == 200
    assert client.get(PAGE).status_code == 200


def test_cookie_is_out_of_reach_of_scripts_sites_and_servers_on_other_ports(
    client: FlaskClient,
) -> None:
    cookie = client.get(f"/?token={TOKEN}").headers["Set-Cookie"]
    name, *flags = cookie.split("; ")
    assert name == f"{COOKIE}={KEY.cookie}"
    assert sorted(flags) == ["HttpOnly", f"Path={PAGE}", "SameSite=Strict"]
    assert KEY.cookie != TOKEN
    assert Key("other").address != KEY.address  # two flametaps do not share it


def test_cookie_counts_only_where_the_browser_keeps_it_from_others() -> None:
    client = create_app(MadeServer(100).views, TOKEN).test_client(use_cookies=False)
    cookie = {"Cookie": f"{COOKIE}={KEY.cookie}"}
    assert client.get("/api/status", headers=cookie).status_code == 403
    assert client.get(f"{PAGE}api/status", headers=cookie).status_code == 200
    # Another server of this host can set cookies for all paths, which come after those for ours.
    both = {"Cookie": f"{COOKIE}={KEY.cookie}; {COOKIE}=junk"}
    assert client.get(f"{PAGE}api/status", headers=both).status_code == 200


@pytest.mark.parametrize(
    "given", [f"Bearer {TOKEN}x", "Bearer", f"Basic {TOKEN}", TOKEN, "Bearer \xff"]
)
def test_programs_send_the_token_in_a_header(client: FlaskClient, given: str) -> None:
    assert client.get("/api/status", headers=BEARER).status_code == 200
    assert client.get("/api/status", headers={"Authorization": given}).status_code == 403


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "http://localhost:81", "null", "http://[", "", "localhost"]
)
def test_other_origins_are_refused_even_with_the_cookie(page: FlaskClient, origin: str) -> None:
    url = f"{PAGE}api/pause"
    foreign = page.post(url, json={"paused": True}, headers={"Origin": origin})
    assert foreign.status_code == 403
    own = page.post(url, json={"paused": False}, headers={"Origin": "http://localhost"})
    assert own.status_code == 200


@pytest.mark.parametrize(
    ("path", "mode", "status"),
    [
        ("", "navigate", 200),  # a link: its page cannot read ours
        ("", "no-cors", 403),
        ("api/status", "navigate", 403),
        ("api/status", "no-cors", 403),
        ("static/main.js", "no-cors", 403),
        ("static/page.js", "no-cors", 403),
    ],
)
@pytest.mark.parametrize("site", ["same-site", "cross-site"])
def test_pages_of_other_ports_and_sites_may_only_link_here(
    page: FlaskClient, path: str, mode: str, status: int, site: str
) -> None:
    fetch = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode}
    with page.get(PAGE + path, headers=fetch) as response:
        assert response.status_code == status


@pytest.mark.parametrize(
    "path", ["", "api/status", "static/main.js", "static/page.js", "api/nonsense", "nonsense"]
)
def test_every_answer_has_the_headers(page: FlaskClient, path: str) -> None:
    for each in (PAGE + path, f"/?token={TOKEN}", "/"):
        with page.get(each) as response:
            headers = response.headers
        policy = headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'")
        assert "unsafe" not in policy
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["X-Content-Type-Options"] == "nosniff"


def test_page_has_no_inline_script_or_style_and_loads_only_its_own_files(
    page: FlaskClient,
) -> None:
    text = page.get(PAGE).text
    assert not re.search(r"<script(?![^>]*\bsrc=)", text)
    assert not re.search(r"\sstyle=|<style|\son[a-z]+=|javascript:", text)
    links = re.findall(r'\b(?:src|href)="([^"#][^"]*)"', text)
    assert links
    assert all(link.startswith("static/") for link in links)
    for link in set(links):
        with page.get(PAGE + link) as response:
            assert response.status_code == 200


def test_page_is_served_with_one_script_and_one_style_sheet(page: FlaskClient) -> None:
    text = page.get(PAGE).text
    assert re.findall(r'<link rel="stylesheet" href="([^"]*)"', text) == ["static/page.css"]
    assert re.findall(r'<script type="module" src="([^"]*)"', text) == ["static/page.js"]
    script, sheet = (page.get(f"{PAGE}static/{name}") for name in ("page.js", "page.css"))
    assert "// server/connection.js\n" in script.text  # not the one of a report
    assert not re.search(r"^(import|export)\b", script.text, re.MULTILINE)
    assert (script.mimetype, sheet.mimetype) == ("text/javascript", "text/css")
    assert ":root" in sheet.text


def test_command_line_of_the_target_is_text_not_markup() -> None:
    made = MadeServer(100)
    made.command = "/bin/<script>alert(1)</script> & co"
    page = create_app(made.views, TOKEN).test_client().get("/", headers=BEARER).text
    assert "<script>alert" not in page
    assert "&lt;script&gt;" in page


def test_tokens_are_long_and_never_the_same() -> None:
    tokens = {new_token() for _ in range(50)}
    assert len(tokens) == 50
    assert all(re.fullmatch(r"[\w-]{22}", token) for token in tokens)
