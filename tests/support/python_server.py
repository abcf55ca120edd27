"""A made-up recording of a Python web server: for the page's controls of Python frames.

``python tests/support/python_server.py`` serves it, without a target.
"""

from __future__ import annotations

import random
import time
from pathlib import Path

import wire
from flametap.analysis.views import views_of
from flametap.code.live_code import LiveCode
from flametap.model import Frame, FrameKind, Function, ManagedVerdict, Status
from flametap.recording.profile.store import Profile
from flametap.recording.recording import Recording, with_sums
from profiles import apply
from python_profiles import named

HERE = Path(__file__)
SITE = "/srv/shop/venv/lib/python3.12/site-packages/"
STDLIB = "/usr/lib/python3.12/"
LIBPYTHON = "libpython3.12.so.1.0"
# Short path → whole path.
FILES = {
    "shop/server.py": "/srv/shop/server.py",
    "shop/views.py": str(HERE),  # a file that can be read
    "shop/models.py": "/srv/shop/models.py",
    "django/core/handlers/base.py": SITE + "django/core/handlers/base.py",
    "django/db/models/query.py": SITE + "django/db/models/query.py",
    "django/db/backends/utils.py": SITE + "django/db/backends/utils.py",
    "jinja2/environment.py": SITE + "jinja2/environment.py",
    "json/__init__.py": STDLIB + "json/__init__.py",
    "json/encoder.py": STDLIB + "json/encoder.py",
    "re/__init__.py": STDLIB + "re/__init__.py",
    "threading.py": STDLIB + "threading.py",
    "socketserver.py": STDLIB + "socketserver.py",
}
# name → (file of a Python function or module of a native one, first line, what it calls).
GRAPH: dict[str, tuple[str, int, str]] = {
    "_start": ("python3.12", 0, "__libc_start_main"),
    "__libc_start_main": ("libc.so.6", 0, "Py_BytesMain"),
    "Py_BytesMain": (LIBPYTHON, 0, "pymain_run_python"),
    "pymain_run_python": (LIBPYTHON, 0, "PyEval_EvalCode"),
    "PyEval_EvalCode": (LIBPYTHON, 0, "<module>"),
    "<module>": ("shop/server.py", 3, "serve"),
    "serve": ("shop/server.py", 40, "BaseServer.serve_forever"),
    "BaseServer.serve_forever": ("socketserver.py", 215, "Worker.handle select_poll_poll"),
    "start_thread": ("libc.so.6", 0, "thread_run"),
    "thread_run": (LIBPYTHON, 0, "_PyObject_MakeTpCall"),
    "Thread._bootstrap": ("threading.py", 1030, "Worker.handle"),
    "Worker.handle": ("shop/server.py", 71, "BaseHandler.get_response"),
    "BaseHandler.get_response": ("django/core/handlers/base.py", 140, "product_list cart checkout"),
    "product_list": ("shop/views.py", 24, "QuerySet._fetch_all Template.render prices sorted"),
    "cart": ("shop/views.py", 61, "QuerySet._fetch_all dumps Cart.total"),
    "checkout": ("shop/views.py", 96, "Cart.total dumps QuerySet._fetch_all"),
    "prices": ("shop/models.py", 12, "method_vectorcall"),
    "Cart.total": ("shop/models.py", 55, "Cart.total.<locals>.<genexpr> sorted"),
    "Cart.total.<locals>.<genexpr>": ("shop/models.py", 57, "long_add"),
    "QuerySet._fetch_all": ("django/db/models/query.py", 1880, "CursorWrapper.execute from_db"),
    "from_db": ("django/db/models/query.py", 88, "type_call dict_merge"),
    "CursorWrapper.execute": ("django/db/backends/utils.py", 78, "pysqlite_cursor_execute"),
    "Template.render": ("jinja2/environment.py", 1271, "unicode_join sub root"),
    "root": ("jinja2/environment.py", 900, "unicode_join long_add"),
    "dumps": ("json/__init__.py", 183, "JSONEncoder.encode"),
    "JSONEncoder.encode": ("json/encoder.py", 183, "encoder_call"),
    "sub": ("re/__init__.py", 180, "pattern_subx"),
    "sorted": (LIBPYTHON, 0, "list_sort"),
    "list_sort": (LIBPYTHON, 0, "by_price"),
    "by_price": ("shop/views.py", 19, "long_add"),
    "encoder_call": ("_json.cpython-312.so", 0, "unicode_join malloc"),
    "pysqlite_cursor_execute": ("_sqlite3.cpython-312.so", 0, "sqlite3_step"),
    "sqlite3_step": ("libsqlite3.so.0", 0, "sqlite3VdbeExec"),
    "sqlite3VdbeExec": ("libsqlite3.so.0", 0, "sqlite3BtreeNext malloc"),
    "sqlite3BtreeNext": ("libsqlite3.so.0", 0, ""),
    "pattern_subx": ("_sre.cpython-312.so", 0, "sre_search"),
    "sre_search": ("_sre.cpython-312.so", 0, ""),
    "select_poll_poll": (LIBPYTHON, 0, "poll"),
    "poll": ("libc.so.6", 0, ""),
    "_PyObject_MakeTpCall": (LIBPYTHON, 0, "Thread._bootstrap"),
    "method_vectorcall": (LIBPYTHON, 0, "long_add"),
    **{name: (LIBPYTHON, 0, "malloc") for name in ("type_call", "dict_merge", "unicode_join")},
    "long_add": (LIBPYTHON, 0, ""),
    "malloc": ("libc.so.6", 0, ""),
}
EVAL, EVAL_ADDR = "_PyEval_EvalFrameDefault", wire.eval_frame(1, 0x77)
POLL = 7


class PythonServer:
    """A recording of ``stacks`` made-up stacks of two threads and a native one.

    Attributes:
        recording: of them.
        views: of the recording.
        profile: what was sampled.
        has_ended: whether the recording has; a test may say so.
    """

    def __init__(self, stacks: int = 4_000) -> None:
        self._chance = random.Random(5)
        self._frames: dict[int, list[Frame]] = {EVAL_ADDR: [Frame(Function(EVAL, LIBPYTHON))]}
        self._numbers = {name: number for number, name in enumerate(GRAPH, 1)}
        profile = Profile()
        traces: dict[tuple[int, ...], int] = {}
        rows = []
        for at in range(stacks):
            thread = 1 + at % 2
            path = self._walk("_start" if thread == 1 else "start_thread")
            trace = traces.setdefault(tuple(path), 1 + len(traces))
            now = 10**9 + at * 5_000_000
            rows.append(wire.interval(thread, trace, now, 10_000_000, 10_000_000))
        blas = wire.frame(1, 0xBBBB)
        self._frames[blas] = [Frame(Function("dgemm_kernel", "libopenblas.so.0"))]
        rows.append(wire.interval(3, 1 + len(traces), 10**9, 2 * 10**9, 2 * 10**9))
        apply(
            profile,
            10**9 + stacks * 5_000_000,
            modules=[wire.module(1, f"/usr/lib/{LIBPYTHON}")],
            threads=[
                wire.thread(1, 4711, "MainThread"),
                wire.thread(2, 4712, "worker-1"),
                wire.thread(3, 4713, "blas"),
            ],
            traces=[
                *(
                    wire.trace(number, path[::-1], managed=_managed(number))
                    for path, number in traces.items()
                ),
                wire.trace(1 + len(traces), [blas]),
            ],
            intervals=rows,
        )
        self.has_ended = False
        self.profile = profile
        names = named(profile, self._frames)
        self.recording = Recording(profile, names, self._status, code=LiveCode(profile, None))
        self.views = views_of(self.recording)

    def _walk(self, name: str) -> list[int]:
        """Return a stack, root first: the loop stands after each run of Python functions."""
        path: list[int] = []
        was_python = False
        while True:
            place, line, calls = GRAPH[name]
            is_python = place.endswith(".py")
            if was_python and not is_python:
                path.append(EVAL_ADDR)
            path.append(self._frame(name, place, line))
            was_python = is_python
            chance = self._chance.random()
            if not calls or (len(path) > 12 and chance < 0.12):
                break
            name = self._chance.choice(calls.split())
        return [*path, EVAL_ADDR] if was_python else path

    def _frame(self, name: str, place: str, line: int) -> int:
        number = self._numbers[name]
        if not line:
            frame = wire.frame(1, 0x1000 * number)
            self._frames[frame] = [Frame(Function(name, place))]
            return frame
        line += self._chance.choice((1, 2, 2, 2, 5))
        frame = wire.managed_frame(number, line)
        function = Function(name, place, FILES[place], FrameKind.PYTHON)
        self._frames[frame] = [Frame(function, line)]
        return frame

    def _status(self) -> Status:
        status = Status(
            pid=4711,
            command="/usr/bin/python3.12 -m shop.server",
            state="ended" if self.has_ended else "recording",
            engine="cpu-timers",
            rate_hz=100.0,
            look_rate_hz=50.0,
            effective_rate_hz=99.0,
            revision=self.profile.revision,
            languages=["Python"],
            is_final=self.has_ended,
        )
        return with_sums(status, self.profile)


def _managed(number: int) -> ManagedVerdict:
    """What the agent says of the Python frames of a stack, by its number."""
    if number % 200 == 50:
        return ManagedVerdict.TORN
    return ManagedVerdict.EXACT if number % 100 else ManagedVerdict.ENTERING


def main() -> None:
    """Serve it until Ctrl-C."""
    from flametap.web.server import serve

    server = serve(PythonServer().views, "127.0.0.1", 0, "demo")
    print(server.url, flush=True)
    try:
        while True:
            time.sleep(1)
    except KeyboardInterrupt:
        server.close()


if __name__ == "__main__":
    main()
