"""Access checks: only requests with the token, an address or localhost as Host, and our Origin.

Another web site open in the same browser can send requests to 127.0.0.1, but does not know the
token. It can also let its own domain name resolve to 127.0.0.1 (DNS rebinding) and then read the
answers; the ``Host`` of such a request is that name, while the ``Host`` of ours is an address or
``localhost``. The content security policy lets the page load files only from this server, and run
only scripts that are files.
"""

from __future__ import annotations

import hmac
import ipaddress
import secrets
from urllib.parse import urlsplit

from flask import Flask, Response, abort, request

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
    "Referrer-Policy": "no-referrer",  # the URL holds the token
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


def new_token() -> str:
    """Return a random token for a URL path."""
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


def protect(app: Flask, token: str) -> None:
    """Check every request to the app and set the security headers of every response."""

    @app.before_request
    def check() -> None:
        if not is_trusted_host(request.headers.get("Host", "")):
            abort(403, "the Host header names neither an address nor localhost")
        given = request.path.split("/", 2)[1]
        if not hmac.compare_digest(given.encode(), token.encode()):
            abort(404)
        origin = request.headers.get("Origin")
        if origin is not None and urlsplit(origin).netloc != request.host:
            abort(403, "the request comes from another origin")

    @app.after_request
    def harden(response: Response) -> Response:
        response.headers.update(HEADERS)
        response.headers.setdefault("Cache-Control", "no-store")
        return response
