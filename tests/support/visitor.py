"""A browser without a window: it keeps cookies, and follows redirects and ``<meta refresh>``."""

from __future__ import annotations

import http.client
import http.cookiejar
import json
import re
import urllib.request
from typing import Any
from urllib.parse import urljoin

REFRESH = re.compile(r'<meta http-equiv="refresh" content="0; url=([^"]+)"')
TIMEOUT_S = 90.0


class Visitor:
    """Opens the URL that flametap prints.

    Attributes:
        page: the HTML of the page.
        base: the page's own address, which its requests are relative to.
        headers: of the page's response.
        cookie: what the browser sends to the page's address; "" for nothing.
    """

    def __init__(self, url: str) -> None:
        self.cookies = http.cookiejar.CookieJar()
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPCookieProcessor(self.cookies)
        )
        while True:
            with self._opener.open(url, timeout=TIMEOUT_S) as response:
                self.page = response.read().decode()
                self.base: str = response.url
                self.headers: http.client.HTTPMessage = response.headers
            onward = REFRESH.search(self.page)
            if onward is None:
                break
            url = urljoin(self.base, onward[1])
        request = urllib.request.Request(self.base)
        self.cookies.add_cookie_header(request)
        self.cookie = request.get_header("Cookie") or ""

    def get(self, path: str) -> bytes:
        """Return what is at a path relative to the page.

        Raises:
            urllib.error.HTTPError: any status but 2xx.
        """
        with self._opener.open(self.base + path, timeout=TIMEOUT_S) as response:
            content: bytes = response.read()
            return content

    def ask(self, request: str) -> dict[str, Any]:
        """Return one answer of the API."""
        answer: dict[str, Any] = json.loads(self.get(f"api/{request}"))
        return answer
