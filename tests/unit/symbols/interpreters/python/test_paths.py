"""Short paths, and whose code is in a file."""

from __future__ import annotations

import pytest

from flametap.model import MANAGED_KINDS, FrameKind, Function
from flametap.symbols.interpreters.function_origin import origin_of
from flametap.symbols.interpreters.origin import Origin
from flametap.symbols.interpreters.python.paths import short_path


@pytest.mark.parametrize(
    ("file", "short", "origin"),
    [
        ("/srv/shop/app/views.py", "app/views.py", Origin.PROJECT),
        ("/app.py", "app.py", Origin.PROJECT),
        ("app.py", "app.py", Origin.PROJECT),
        ("", "", Origin.PROJECT),
        ("/usr/lib/python3.11/json/decoder.py", "json/decoder.py", Origin.STDLIB),
        ("/opt/py/lib/python3.13t/threading.py", "threading.py", Origin.STDLIB),
        ("/usr/lib64/python3.9/re.py", "re.py", Origin.STDLIB),
        ("/opt/app/lib/python311.zip/re/_parser.py", "re/_parser.py", Origin.STDLIB),
        (
            "/srv/venv/lib/python3.12/site-packages/django/db/models/query.py",
            "django/db/models/query.py",
            Origin.LIBRARY,
        ),
        ("/usr/lib/python3/dist-packages/apt/cache.py", "apt/cache.py", Origin.LIBRARY),
        ("<frozen importlib._bootstrap>", "<frozen importlib._bootstrap>", Origin.STDLIB),
        ("<string>", "<string>", Origin.PROJECT),
        ("<template>", "<template>", Origin.PROJECT),
        (
            "<__array_function__ internals>",
            "<__array_function__ internals>",
            Origin.LIBRARY,
        ),
        ("<ipython-input-12-3f0a91c2b7de>", "In[12]", Origin.PROJECT),
        ("/tmp/ipykernel_4711/3928374.py", "ipykernel_4711/3928374.py", Origin.PROJECT),
        ("…/deep/er/file.py", "er/file.py", Origin.PROJECT),
        ("/srv/" + "a/" * 5000 + "site-packages\n/x.py", "site-packages\n/x.py", Origin.PROJECT),
    ],
)
def test_path(file: str, short: str, origin: Origin) -> None:
    assert short_path(file) == short
    assert origin_of(Function("f", short, file, FrameKind.PYTHON)) is origin


@pytest.mark.parametrize("kind", [kind for kind in FrameKind if kind not in MANAGED_KINDS])
def test_other_functions_are_native(kind: FrameKind) -> None:
    assert origin_of(Function("f", "libc.so.6", "/usr/lib/python3.11/x.py", kind)) is Origin.NATIVE
