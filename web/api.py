"""The page's requests and the stream of events. All paths are below ``api/``:

GET view      the boxes of a view (encode.py has the shape). SELECTION  zoom=ID.ID.…  width=PX
              rows=LAST  q=PATTERN  revision=AT_LEAST  table=self|total  table_first=ROW
              table_rows=N  run=ID-ID (only these children of the zoomed box fill the width, from
              one function to another)  have=ANSWER (the page keeps functions: known_functions.py;
              0: it has none)
GET symbols   modules and their share of the profile (encode_code.py has the shape). SELECTION
GET lines     the lines of one function: function=ID from a view, SELECTION
GET instructions  its machine code; arguments as for lines
GET gil       who held the GIL during the waits of one box: path=ID.ID.… from a view, SELECTION
              (encode_gil.py has the shape)
GET lanes     what threads did over time (encode_lanes.py has the shape): from=MS  to=MS (without:
              now)  bins=AT_MOST  level=L (that of an earlier answer)  lanes=N  skip=N  idle=1
              also=IDS  only=IDS  overview=BINS (of the whole recording)  threads=IDS
GET status    {status: model.Status, thread_count}
GET threads   a part of the list of threads (encode_threads.py has the shape). filter=TEXT or
              re:PATTERN  sort=cpu|wall|off-cpu|held|awaited|name|tid|waits  group=1  offset=ROW
              limit=ROWS  ids=1,2
GET elsewhere what there is if a view is empty: {wall_ns: of all threads, children: processes that
              the target has started and that have used CPU time: {pid, command, cpu_ns}}
GET events    server-sent events. ``status``: model.Status without ``symbols``, at most five times a
              second, at least every other second; ``end``: the profile will not change any more;
              ``bye``: the server closes
GET exports   {exports: [{name, label, about}]}: what the next request can write
GET export    a file with what is counted: format=NAME, SELECTION. 413 if it would be too large,
              503 while others are built
POST pause    {"paused": bool} → {"paused": bool}

SELECTION is what is counted, the same in each: clock=cpu|wall|off-cpu  threads=1,2 (all without)
language=all|python|native  plumbing=1 (the interpreter's own functions, too)  gil=1 (only while the
thread holds the GIL; see frame_filter)  range=START-END (milliseconds since the start of the
recording) or range=lastN (the last N milliseconds). threads may have ranges of ids: 1-8,12.

POST settings {"rate_hz": number, "budget_percent": number of one core, 0 for no limit} → the same.
              400 if one is out of bounds

Errors are {"error": "one line"} with status 400, 403, 404, 413, 415 or 503 (too many streams). 500
is a fault of ours; the page shows it, and the traceback goes to the log at level DEBUG.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import math
import re
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import orjson
from flask import Blueprint, Response, abort, request
from werkzeug.exceptions import HTTPException

from flametap.analysis.frame_filter import FrameFilter, Language
from flametap.analysis.selection import Selection, Span
from flametap.errors import FlametapError
from flametap.model import Clock, Status

from .controls import add_controls
from .encode import ViewQuery, encode_view
from .encode_code import encode_instructions, encode_lines, encode_symbols
from .encode_gil import encode_holders
from .encode_lanes import encode_lanes
from .encode_threads import encode_threads
from .exports import Exports, RequestOf
from .known_functions import KnownFunctions
from .lane_query import parse_lane_query
from .source import ProfileSource
from .thread_list import ThreadList
from .thread_query import parse_thread_ids, parse_thread_query
from .trees import TreeCache

EVENT_GAP_S = 0.2  # at most five events a second, however fast the profile grows
HEARTBEAT_S = 2.0  # shows the page that the server runs, and the server that a page was closed
WAIT_S = 0.25  # the longest time until a stream notices that the server closes
RECONNECT_MS = 1000
MAX_WIDTH_PX = 20_000.0
BUSY_NS = 100_000_000  # of CPU time, of a child that may be what the user looks for
MAX_CHILDREN = 3  # to name
COUNT_AGE_S = 2.0  # how old the number of threads in a status may be
MAX_STREAMS = 64  # open pages; each takes a connection and a thread
NS_PER_MS = 1_000_000
MAX_RANGE_CHARACTERS = 32
MAX_ROWS = 4096  # the agent stops at 2048 frames; inlined functions add rows


@dataclass
class Service:
    """State that the requests of one server share.

    Attributes:
        source: the profile.
        request_of: makes the requests for exports; None for none.
        closing: set when the server closes; each event stream then says ``bye`` and ends.
    """

    source: ProfileSource
    request_of: RequestOf | None = None
    closing: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.trees = TreeCache(self.source)
        self.threads = ThreadList(self.source)
        self.known = KnownFunctions()
        self.exports = Exports(self.request_of) if self.request_of else None
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

    @api.get("/view")
    def view() -> Response:
        query = parse_view_query(request.args.to_dict())
        revision, index = service.trees.get(query.selection, query.revision)
        answer = encode_view(index, query, revision)
        if query.have is not None:
            service.known.leave_out(answer, query.have)
        return json_response(answer)

    @api.get("/symbols")
    def symbols() -> Response:
        selection = parse_selection(request.args.to_dict())
        return json_response(encode_symbols(service.source.symbols(selection)))

    @api.get("/lines")
    def lines() -> Response:
        args = request.args.to_dict()
        function = parse_function(args, len(service.source.functions))
        found = service.source.lines(function, parse_selection(args))
        return json_response(encode_lines(found))

    @api.get("/instructions")
    def instructions() -> Response:
        args = request.args.to_dict()
        function = parse_function(args, len(service.source.functions))
        found = service.source.instructions(function, parse_selection(args))
        return json_response(encode_instructions(found))

    @api.get("/gil")
    def gil() -> Response:
        args = request.args.to_dict()
        waits = service.source.lock_waits(parse_selection(args), _numbers(args, "path", "."))
        known = {each.thread_id: each for each in service.threads.get()}
        return json_response(encode_holders(waits, known, service.source.functions))

    @api.get("/lanes")
    def lanes() -> Response:
        args = request.args.to_dict()
        query = parse_lane_query(args, parse_selection(args).thread_ids)
        # Read before the lanes are made, so it is never newer than they are.
        revision = service.source.wait_newer(-1, 0.0)
        return json_response(encode_lanes(service.source.lanes(query), revision))

    @api.get("/status")
    def status() -> Response:
        count = len(service.threads.get(COUNT_AGE_S))
        return json_response({"status": service.source.status(), "thread_count": count})

    @api.get("/threads")
    def threads() -> Response:
        query = parse_thread_query(request.args.to_dict())
        return json_response(encode_threads(service.threads.get(), query))

    @api.get("/elsewhere")
    def elsewhere() -> Response:
        busy = [each for each in service.source.children() if each.cpu_ns >= BUSY_NS]
        wall_ns = sum(each.wall_ns for each in service.threads.get(COUNT_AGE_S))
        return json_response({"wall_ns": wall_ns, "children": busy[:MAX_CHILDREN]})

    @api.get("/events")
    def events() -> Response:
        if service.streams >= MAX_STREAMS:
            abort(503, f"{MAX_STREAMS} pages are open; close one")
        response = Response(event_stream(service), mimetype="text/event-stream")
        response.headers["Cache-Control"] = "no-store"
        return response

    @api.get("/exports")
    def exports() -> Response:
        formats = service.exports.formats() if service.exports else []
        return json_response({"exports": formats})

    @api.get("/export")
    def export() -> Response:
        if service.exports is None:
            abort(404, "this page has no exports")
        args = request.args.to_dict()
        return service.exports.response(args.get("format", ""), parse_selection(args))

    add_controls(api, service.source)

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


def json_response(value: Any, status: int = 200) -> Response:
    """Return a value as a JSON response. Numpy arrays and dataclasses are allowed in it."""
    data = orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)
    return Response(data, status, mimetype="application/json")


def parse_view_query(args: dict[str, str]) -> ViewQuery:
    """Parse the arguments of a view request. Clamp numbers to their range.

    Raises:
        BadRequest: an argument is invalid; the message names it.
    """

    def number(name: str, default: float, low: float, high: float) -> float:
        try:
            value = float(args.get(name, default))
        except ValueError:
            value = math.nan
        if math.isnan(value):
            abort(400, f"{name} must be a number")
        return min(max(value, low), high)

    table = args.get("table", "")
    if table not in ("", "self", "total"):
        abort(400, "table must be self or total")
    return ViewQuery(
        selection=parse_selection(args),
        revision=int(number("revision", 0, 0, 2**53)),
        zoom=_numbers(args, "zoom", "."),
        width_px=number("width", ViewQuery.width_px, 1, MAX_WIDTH_PX),
        last_row=int(number("rows", ViewQuery.last_row, 1, MAX_ROWS)),
        search=args.get("q", ""),
        table=table,
        table_first=int(number("table_first", 0, 0, 2**31)),
        table_rows=int(number("table_rows", ViewQuery.table_rows, 1, MAX_ROWS)),
        run=_parse_run(args),
        have=int(number("have", 0, 0, 2**53)) if "have" in args else None,
    )


def _parse_run(args: dict[str, str]) -> tuple[int, int] | None:
    ends = _numbers(args, "run", "-")
    if len(ends) not in (0, 2):
        abort(400, "run must be two ids of functions, ID-ID")
    return (ends[0], ends[1]) if ends else None


def parse_selection(args: dict[str, str]) -> Selection:
    """Parse what is counted.

    Raises:
        BadRequest: an argument is invalid; the message names it.
    """
    try:
        clock = Clock(args.get("clock", Clock.CPU.value))
    except ValueError:
        abort(400, f"clock must be one of {', '.join(each.value for each in Clock)}")
    threads = parse_thread_ids(args)
    try:
        language = Language(args.get("language", Language.ALL.value))
    except ValueError:
        abort(400, f"language must be one of {', '.join(each.value for each in Language)}")
    for name in ("plumbing", "gil"):
        if args.get(name, "0") not in ("0", "1"):
            abort(400, f"{name} must be 0 or 1")
    frames = FrameFilter(language, args.get("plumbing") == "1", args.get("gil") == "1")
    span = _parse_span(args)
    return Selection(clock, frozenset(threads) if threads else None, frames, span)


def _parse_span(args: dict[str, str]) -> Span | None:
    text = args.get("range", "")
    if not text:
        return None
    found = re.fullmatch(r"(?:last(\d+)|(\d+)-(\d+))", text, re.ASCII)
    if not found or len(text) > MAX_RANGE_CHARACTERS:
        abort(400, "range must be START-END or lastN, in milliseconds")
    last, start, end = (int(number or 0) * NS_PER_MS for number in found.groups())
    if found[1] is not None:
        return Span(-max(last, NS_PER_MS))
    if start >= end:
        abort(400, "range must end after its start")
    return Span(start, end)


def parse_function(args: dict[str, str], count: int) -> int:
    """Parse the id of the function of a request.

    Args:
        args: of the request.
        count: how many functions there are.

    Raises:
        BadRequest: not one number.
        NotFound: no function has this id.
    """
    numbers = _numbers(args, "function", ",")
    if len(numbers) != 1:
        abort(400, "function must be the id of a function")
    if not 0 <= numbers[0] < count:
        abort(404, "there is no such function")
    return numbers[0]


def _numbers(args: dict[str, str], name: str, separator: str) -> tuple[int, ...]:
    text = args.get(name, "")
    try:
        return tuple(int(part) for part in text.split(separator)) if text else ()
    except ValueError:
        abort(400, f"{name} must be numbers with {separator!r} between them")


def event_stream(service: Service) -> Iterator[bytes]:
    """Yield the events of one connection until the profile is final or the server closes."""
    with service.stream():
        yield f"retry: {RECONNECT_MS}\n\n".encode()
        while not service.closing.is_set():
            status = service.source.status()
            until = time.monotonic() + HEARTBEAT_S
            yield _event("status", _without_symbols(status))
            if status.is_final:
                yield _event("end", {})
                return
            service.closing.wait(EVENT_GAP_S)
            while not service.closing.is_set() and time.monotonic() < until:
                if service.source.wait_newer(status.revision, WAIT_S) > status.revision:
                    break
        yield _event("bye", {})


def _without_symbols(status: Status) -> dict[str, Any]:
    """Return the status as a dict without ``symbols``, which is too long for an event."""
    fields = dataclasses.fields(status)
    return {each.name: getattr(status, each.name) for each in fields if each.name != "symbols"}


def _event(name: str, value: Any) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + orjson.dumps(value) + b"\n\n"
