"""The page's requests and the stream of events. All paths are below ``api/``, of another recording
than the first below ``2/api/``, ``3/api/``…:

GET view      the boxes of a view (encode.py has the shape). SELECTION  zoom=ID.ID.…  width=PX
              rows=LAST  q=PATTERN  revision=AT_LEAST  table=self|total  table_first=ROW
              table_rows=N  run=ID-ID (only these children of the zoomed box fill the width, from
              one function to another)  have=ANSWER (the page keeps functions: known_functions.py;
              0: it has none)  SHAPE
              COMPARISON
POST tree     {"nodes": [{"path": "ID.ID", "offset": 0, "limit": 100}], "heaviest": {"path": "ID"}}
              → the children of each node, and those along the heaviest path (encode_tree.py has
              the shape). SELECTION  SHAPE  COMPARISON
GET symbols   modules and their share of the profile (encode_code.py has the shape). SELECTION
GET lines     the lines of one function: function=ID from a view, SELECTION
GET instructions  its machine code; arguments as for lines
GET gil       who held the GIL during the waits of one box: path=ID.ID.… from a view, SELECTION
              (encode_gil.py has the shape)
GET locks     where threads wait for locks (encode_locks.py has the shape): SELECTION
GET lanes     what threads did over time (timeline/encode_lanes.py has the shape): from=MS  to=MS
              (without: now)  bins=AT_MOST  level=L (that of an earlier answer)  lanes=N  skip=N
              idle=1  also=IDS  only=IDS  overview=BINS (of the whole recording)  threads=IDS
GET heat      heat maps (timeline/encode_lanes.py): kind=cpu|waits  from=MS  to=MS  columns=AT_MOST
              threads=IDS
GET status    {status: model.Status, thread_count}
GET threads   a part of the list of threads (encode_threads.py has the shape). filter=TEXT or
              re:PATTERN  sort=cpu|wall|off-cpu|held|awaited|name|tid|waits  group=1  offset=ROW
              limit=ROWS  ids=1,2  range=… (their weights in this time)
GET elsewhere what there is if a view is empty: {wall_ns: of all threads, children: processes that
              the target has started and that have used CPU time: {pid, command, cpu_ns}}
GET events    server-sent events. ``status``: model.Status without ``symbols``, at most five times a
              second, at least every other second; ``end``: the profile will not change any more;
              ``bye``: the server closes
GET exports   {exports: [{name, label, about}]}: what the next request can write
GET export    a file with what is counted, as it is shown: format=NAME, SELECTION  SHAPE. 413 if it
              would be too large, 503 while others are built
POST pause    {"paused": bool} → {"paused": bool}

SELECTION is what is counted, the same in each: clock=cpu|wall|off-cpu  threads=1,2 (all without)
language=all|python|native  plumbing=1 (the interpreter's own functions, too)  gil=1 (only while the
thread holds the GIL; see tree/frame_filter.py)  range=START-END (milliseconds since the start of
the recording) or range=lastN (the last N milliseconds).  Threads may have ranges of ids (1-8,12),
or be given as name@tid, and paths as NAME@MODULE;NAME@MODULE (see tree/spelling.py).

SHAPE, a part of views and of the tree table, is how the tree is shown: shape=VERB:TARGET;VERB (see
tree/shaper.py). COMPARISON: compare=START-END|lastN|rest|file|fileN  scale=share|time
width_of=here|both (see comparing.py; fileN is recording N, ``file`` the first other one).

POST settings {"rate_hz": number, "budget_percent": number} → the same. The latter is of one core,
              0 for no limit. 400 if one is out of bounds


Errors are {"error": "one line"} with status 400, 403, 404, 413, 415 or 503 (too many streams). 500
is a fault of ours; the page shows it, and the traceback goes to the log at level DEBUG.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import re
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import orjson
from flask import Blueprint, Response, abort, request
from werkzeug.exceptions import HTTPException

from flametap.errors import FlametapError
from flametap.locks.lock_places import GIL, LockPlace
from flametap.model import Status
from flametap.recording.recording import Recording
from flametap.timeline.encode_lanes import encode_heat, encode_lanes
from flametap.tree.spelling import find_threads

from .arguments import parse_function, parse_numbers, parse_selection, parse_view_query
from .control_types import Controls
from .controls import add_controls, json_body
from .encode import ViewQuery, encode_view
from .encode_code import encode_instructions, encode_lines, encode_symbols
from .encode_gil import encode_holders
from .encode_locks import encode_locks
from .encode_threads import encode_threads
from .lane_query import parse_heat_query, parse_lane_query
from .recordings import Recordings, Shown
from .thread_query import parse_thread_query
from .view_query import parse_pages, shape_of

EVENT_GAP_S = 0.2  # at most five events a second, however fast the profile grows
HEARTBEAT_S = 2.0  # shows the page that the server runs, and the server that a page was closed
WAIT_S = 0.25  # the longest time until a stream notices that the server closes
RECONNECT_MS = 1000
BUSY_NS = 100_000_000  # of CPU time, of a child that may be what the user looks for
MAX_CHILDREN = 3  # to name
COUNT_AGE_S = 2.0  # how old the number of threads in a status may be
MAX_STREAMS = 64  # open pages; each takes a connection and a thread


@dataclass
class Service:
    """State that the requests of one server share.

    Attributes:
        recordings: those that it shows.
        controls: of the recorder; None if nothing is being recorded.
        closing: set when the server closes; each event stream then says ``bye`` and ends.
    """

    recordings: Recordings
    controls: Controls | None = None
    closing: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.streams = 0  # open ones
        self._streams_lock = threading.Lock()

    @contextlib.contextmanager
    def stream(self) -> Iterator[None]:
        """Count an event stream as open while the block runs."""
        with self._streams_lock:
            self.streams += 1
        try:
            yield
        finally:
            with self._streams_lock:
                self.streams -= 1


def blueprint(service: Service) -> Blueprint:
    """Return the routes, without a prefix."""
    api = Blueprint("api", __name__)
    asked = service.recordings.asked

    @api.get("/view")
    def view() -> Response:
        shown = asked()
        args = request.args.to_dict()
        query = parse_view_query(args, shown.threads.get)
        found, revision = shown.trees.view(query)
        answer = {**encode_view(found, query, revision), **restored(args, query, shown)}
        if query.have is not None:
            shown.known.leave_out(answer, query.have)
        return json_response(answer)

    @api.post("/tree")
    def tree() -> Response:
        shown = asked()
        args = request.args.to_dict()
        query = parse_view_query(args, shown.threads.get)
        pages, heaviest = parse_pages(json_body())
        return json_response(shown.trees.pages(query, pages, heaviest))

    @api.get("/symbols")
    def symbols() -> Response:
        shown = asked()
        selection = parse_selection(request.args.to_dict(), shown.threads.get)
        return json_response(encode_symbols(shown.views.symbols(selection)))

    @api.get("/lines")
    def lines() -> Response:
        shown = asked()
        args = request.args.to_dict()
        function = parse_function(args, len(shown.recording.functions))
        found = shown.views.lines(function, parse_selection(args, shown.threads.get))
        return json_response(encode_lines(found))

    @api.get("/instructions")
    def instructions() -> Response:
        shown = asked()
        args = request.args.to_dict()
        function = parse_function(args, len(shown.recording.functions))
        found = shown.views.instructions(function, parse_selection(args, shown.threads.get))
        return json_response(encode_instructions(found))

    @api.get("/gil")
    def gil() -> Response:
        shown = asked()
        args = request.args.to_dict()
        selection = parse_selection(args, shown.threads.get)
        waits = shown.views.lock_waits(selection, parse_numbers(args, "path", "."))
        known = {each.thread_id: each for each in shown.threads.get()}
        return json_response(encode_holders(waits, known, shown.recording.functions))

    @api.get("/locks")
    def locks() -> Response:
        shown = asked()
        selection = parse_selection(request.args.to_dict(), shown.threads.get)
        found = shown.views.lock_places(selection)
        known = {each.thread_id: each for each in shown.threads.get()}

        def held(place: LockPlace) -> dict[str, Any] | None:
            waits = place.held
            if place.kind == GIL:
                waits = shown.views.lock_waits(selection, None)
            return encode_holders(waits, known, shown.recording.functions) if waits else None

        return json_response(encode_locks(found, shown.recording.function_id, held))

    @api.get("/lanes")
    def lanes() -> Response:
        shown = asked()
        args = request.args.to_dict()
        query = parse_lane_query(args, parse_selection(args, shown.views.threads).thread_ids)
        # Read before the lanes are made, so it is never newer than they are.
        revision = shown.recording.revision
        return json_response(encode_lanes(shown.views.lanes(query), revision))

    @api.get("/heat")
    def heat() -> Response:
        shown = asked()
        args = request.args.to_dict()
        query = parse_heat_query(args, parse_selection(args, shown.views.threads).thread_ids)
        revision = shown.recording.revision
        return json_response(encode_heat(shown.views.heat(query), revision))

    @api.get("/status")
    def status() -> Response:
        shown = asked()
        count = len(shown.threads.get(COUNT_AGE_S))
        return json_response({"status": shown.recording.status(), "thread_count": count})

    @api.get("/threads")
    def threads() -> Response:
        shown = asked()
        args = request.args.to_dict()
        found = shown.threads.within(parse_selection(args).span)
        return json_response(encode_threads(found, parse_thread_query(args)))

    @api.get("/elsewhere")
    def elsewhere() -> Response:
        shown = asked()
        children = service.controls.children() if service.controls else []
        busy = [each for each in children if each.cpu_ns >= BUSY_NS]
        wall_ns = sum(each.wall_ns for each in shown.threads.get(COUNT_AGE_S))
        return json_response({"wall_ns": wall_ns, "children": busy[:MAX_CHILDREN]})

    @api.get("/events")
    def events() -> Response:
        if service.streams >= MAX_STREAMS:
            abort(503, f"{MAX_STREAMS} pages are open; close one")
        response = Response(event_stream(service, asked().recording), mimetype="text/event-stream")
        response.headers["Cache-Control"] = "no-store"
        return response

    @api.get("/exports")
    def exports() -> Response:
        shown = asked()
        return json_response({"exports": shown.exports.formats()})

    @api.get("/export")
    def export() -> Response:
        shown = asked()
        args = request.args.to_dict()
        selection = parse_selection(args, shown.threads.get)
        return shown.exports.response(args.get("format", ""), selection, shape_of(args))

    add_controls(api, service.controls)

    @api.errorhandler(FlametapError)
    def refused(error: FlametapError) -> Response:
        return json_response({"error": f"{error.message}: {error.hint}"}, 400)

    @api.errorhandler(HTTPException)
    def failed(error: HTTPException) -> Response:
        return json_response({"error": error.description}, error.code or 500)

    @api.errorhandler(Exception)
    def broke(error: Exception) -> Response:
        # Neither a silent loss nor a traceback in the user's terminal.
        logging.getLogger(__name__).debug("%s", request.path, exc_info=error)
        return json_response({"error": f"internal error: {type(error).__name__}"}, 500)

    return api


def restored(args: dict[str, str], query: ViewQuery, shown: Shown) -> dict[str, Any]:
    """Return the threads that a view's names mean, and the names that mean none."""
    text = args.get("threads", "")
    if not re.search(r"[^\d,-]", text):
        return {}
    chosen = query.selection.thread_ids or ()
    threads = shown.threads.get()
    columns = [
        {"thread_id": each.thread_id, "name": each.name, "tid": each.tid}
        for each in threads
        if each.thread_id in chosen
    ]
    return {"threads": {"chosen": columns, "missing": find_threads(text, threads)[1]}}


def json_response(value: Any, status: int = 200) -> Response:
    """Return a value as a JSON response. Numpy arrays and dataclasses are allowed in it."""
    data = orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)
    return Response(data, status, mimetype="application/json")


def event_stream(service: Service, recording: Recording) -> Iterator[bytes]:
    """Yield the events of one connection until the profile is final or the server closes."""
    with service.stream():
        yield f"retry: {RECONNECT_MS}\n\n".encode()
        while not service.closing.is_set():
            status = recording.status()
            until = time.monotonic() + HEARTBEAT_S
            yield _event("status", _without_symbols(status))
            if status.is_final:
                yield _event("end", {})
                return
            service.closing.wait(EVENT_GAP_S)
            while not service.closing.is_set() and time.monotonic() < until:
                if recording.wait_newer(status.revision, WAIT_S) > status.revision:
                    break
        yield _event("bye", {})


def _without_symbols(status: Status) -> dict[str, Any]:
    """Return the status as a dict without ``symbols``, which is too long for an event."""
    fields = dataclasses.fields(status)
    return {each.name: getattr(status, each.name) for each in fields if each.name != "symbols"}


def _event(name: str, value: Any) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + orjson.dumps(value) + b"\n\n"
