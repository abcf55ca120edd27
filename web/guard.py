"""Access checks: only requests with token or cookie, our Origin, and an address as Host.

Another web site open in the same browser can send requests to 127.0.0.1, but the browser adds the
cookie to none of them (``SameSite=Strict``), except to those of pages on another port of the same
host: ``Origin`` and ``Sec-Fetch-Site`` tell them. A site can also let its own domain name resolve
to 127.0.0.1 (DNS rebinding) and then read the answers; the ``Host`` of such a request is that name,
while the ``Host`` of ours is an address or ``localhost``. The content security policy lets the page
load files only from this server, and run only scripts that are files.
"""

from __future__ import annotations

import ipaddress
import secrets
from urllib.parse import urlsplit

from flask import Flask, Response, abort, render_template, request
from werkzeug.exceptions import HTTPException

from .login import COOKIE, HOW_TO_ENTER, Key, is_same

TOKEN_BYTES = 16  # 128 bits cannot be guessed
CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",  # the printed URL holds the token
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


def new_token() -> str:
    """Return a random token."""
    return secrets.token_urlsafe(TOKEN_BYTES)


def is_trusted_host(header: str) -> bool:
    """Return True for a Host header that DNS cannot forge: an address, or localhost.

    The port is not checked: through an SSH tunnel it differs from ours.
    """
    try:
        name = urlsplit(f"//{header}").hostname
    except ValueError:
        return False
    if name is None:
        return False
    if name == "localhost":
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def protect(app: Flask, key: Key, view: str = "") -> None:
    """Check every request to the app and set the security headers of every response.

    Args:
        app: the app.
        key: of its page.
        view: the state in which the page opens after a login.
    """

    @app.before_request
    def check() -> Response | None:
        if not is_trusted_host(request.headers.get("Host", "")):
            abort(403, "the Host header names neither an address nor localhost")
        if _is_login(key):
            return _enter(key, f"#{view}" if view else "")
        if not _has_key(key):
            abort(403, HOW_TO_ENTER)
        if _is_foreign():
            abort(403, "the request comes from another origin")
        return None

    @app.after_request
    def harden(response: Response) -> Response:
        response.headers.update(HEADERS)
        response.headers.setdefault("Cache-Control", "no-store")
        return response

    @app.errorhandler(HTTPException)
    def failed(error: HTTPException) -> Response:
        return Response(f"flametap: {error.description}\n", error.code, mimetype="text/plain")


def _is_login(key: Key) -> bool:
    if request.script_root or request.path != "/":
        return False
    source = request.form if request.method == "POST" else request.args
    return is_same(source.get("token", ""), key.token)


def _enter(key: Key, view: str) -> Response:
    """Set the cookie, and send the browser to the page's address."""
    path = f"/{key.address}/"
    place = path + view
    # A browser that comes from another site would follow a redirect without the cookie, as that is
    # strict. So does one that comes from a file. A page of ours that leads on is of our site.
    if request.headers.get("Sec-Fetch-Site") in ("none", "same-origin", "same-site"):
        response = Response(status=303, headers={"Location": place})
    else:
        response = Response(render_template("enter.html", place=place))
    response.set_cookie(COOKIE, key.cookie, path=path, httponly=True, samesite="Strict")
    return response


def _has_key(key: Key) -> bool:
    scheme, _, given = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return is_same(given.strip(), key.token)
    # A cookie for this path: one that another server of this host set for all paths comes after it.
    cookies = request.cookies.getlist(COOKIE) if request.script_root else []
    return any(is_same(each, key.cookie) for each in cookies)


def _is_foreign() -> bool:
    """Return True for requests that pages of other origins make, except for opening the page."""
    origin = request.headers.get("Origin")
    if origin is not None and origin.partition("://")[2] != request.host:
        return True
    if request.headers.get("Sec-Fetch-Site") not in ("cross-site", "same-site"):
        return False
    opens_page = request.method == "GET" and request.path == "/"
    return not (opens_page and request.headers.get("Sec-Fetch-Mode") == "navigate")
