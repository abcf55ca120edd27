"""Log in: exchange the token of the printed URL for a cookie.

The token is a login code. It stands in the URL that flametap prints (``/?token=…``), which works
any number of times, and in the form of the file that opens the browser. Both lead to the page's own
address, ``/ADDRESS/``, which holds no secret. The page's requests are known by the cookie; programs
send ``Authorization: Bearer TOKEN`` instead.

Browsers send the cookies of a host to all its ports, so to the servers of other users, too. The
path of ours keeps it from them, as nobody else knows the address. For the same reason the cookies
of two flametaps do not meet.
"""

from __future__ import annotations

import base64
import hmac
import html
import re
from dataclasses import dataclass
from functools import cached_property

COOKIE = "flametap"
WORD = re.compile(r"[\w-]+", re.ASCII)
HOW_TO_ENTER = "open the URL that flametap printed; it ends in ?token=…"
# The script sends the form before anybody can see it; the button is for browsers without scripts.
FORM = """<!doctype html>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<title>flametap</title>
<form method="post" action="{action}">
<input type="hidden" name="token" value="{token}"><button>Open flametap</button>
</form>
<script>document.forms[0].submit()</script>
"""


def is_same(given: str, secret: str) -> bool:
    """Compare with a secret. The time tells nothing about the secret but its length."""
    return hmac.compare_digest(given.encode("utf-8", "replace"), secret.encode())


@dataclass(frozen=True)
class Key:
    """The token, and what is derived from it: neither of the two tells the token or the other.

    Derived instead of random, so that a server with the token of an earlier one knows its pages.
    """

    token: str

    @cached_property
    def address(self) -> str:
        """The first part of the page's path. No secret: alone it opens nothing."""
        return self._derive("address")

    @cached_property
    def cookie(self) -> str:
        """The cookie's value."""
        return self._derive("cookie")

    def is_in(self, request: bytes) -> bool:
        """Return True if a request contains the token or the cookie anywhere as a word."""
        return any(
            is_same(word, secret)
            for word in WORD.findall(request.decode("latin-1"))
            for secret in (self.token, self.cookie)
            if len(word) == len(secret)
        )

    def form(self, url: str) -> str:
        """Return HTML that logs in at a server and then shows its page: a file, for a browser.

        The token is in its body, and so in no command line and no history.
        """
        return FORM.format(action=html.escape(url), token=html.escape(self.token))

    def _derive(self, purpose: str) -> str:
        digest = hmac.digest(self.token.encode(), purpose.encode(), "sha256")
        return base64.urlsafe_b64encode(digest[:16]).rstrip(b"=").decode()
