"""The readers of hostile bytes in flametap's own process: a table for ``host_fuzzing``.

Each takes an input as the product does, asks it for all that it offers, and raises what it
documents. Seeds are made here: nothing binary is kept in the repository. ``symbol_readers`` has
those of names.
"""

from __future__ import annotations

import functools
import io
import json
import os
import random
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import orjson

import wire
from elfheaders import GLIBC_LOADER, GLIBC_NOTE, executable
from flametap.errors import FlametapError
from flametap.inject.frida import fork_stack
from flametap.inject.frida.agent_answers import Entered
from flametap.linux import elf_headers, maps, procfs, seccomp
from flametap.linux.executable import read_program
from flametap.model import Clock
from flametap.recording.profile.store import BEGINNING, Profile
from flametap.web.app import create_app
from flametap.web.gate import Refusal, request_length
from flametap.wire import abi
from flametap.wire.decoder import Decoder, ProtocolError
from flametap.wire.ring import Ring
from foreign_readers import FOREIGN_READERS
from host_fuzzing import Reader
from java_readers import JAVA_READERS
from recording_readers import RECORDING_READERS
from ruby_readers import RUBY_READERS
from symbol_readers import SYMBOL_READERS
from v8_readers import V8_READERS

SMALL_RING_BYTES = 1 << 12
PID = 4242
TOKEN = "fuzz-token"
API = ("view", "view", "symbols", "lines", "instructions", "status", "pause")
QUERY_WORDS = [
    "clock=cpu",
    "clock=wall",
    "clock=off-cpu",
    "threads=",
    "zoom=",
    "width=",
    "rows=",
    "q=",
    "table=self",
    "table=total",
    "revision=",
    "function=1",
    "&",
    ";",
    "=",
    "%00",
    "%ff",
    "%ed%a0%80",
    "nan",
    "inf",
    "-1",
    "1e400",
    "99999999999999999999",
    "1_0",
    "0x10",
    ",",
    ".",
    "q=re:",
    "q=re:(a|b)*",
    "q=re:(?i)x{1000}",
    "q=module:",
    "q=file:re:",
    "1.2.3",
    "function=0",
    "width=100&rows=5",
    "%",
]


# ---- the ring


def _batches() -> list[bytes]:
    """Streams of batches, as an agent writes them."""
    stacks = [[wire.frame(1, 0x10 * i), wire.frame(2, 8), wire.runtime_frame(i)] for i in range(5)]
    first = wire.batch(
        10_000,
        modules=[wire.module(1, "/bin/a"), wire.module(2, "/lib/ü b", gone=True)],
        threads=[wire.thread(1, 100, "main"), wire.thread(2, 101, "t" * 15, flags=3)],
        traces=[wire.trace(i + 1, stack) for i, stack in enumerate(stacks)],
        intervals=[
            wire.interval(1, 1, 2000, 500, 400),
            wire.interval(1, 2, 3000, 500, 500, wire.QUEUED),
            wire.interval(2, 3, 2000, 900, 0, wire.PARKED, sysno=202, is_open=True),
            wire.interval(2, 0, 4000, 10, 10, samples=3),
        ],
    )
    second = wire.batch(
        20_000,
        sequence=1,
        threads=[wire.thread(1, 100, "main", flags=1)],
        traces=[wire.trace(6, stacks[0] * 20)],
        intervals=[wire.interval(2, 6, 2000, 9000, 0, wire.PARKED, sysno=202)],
    )
    third = wire.batch(30_000, sequence=2, intervals=[wire.interval(1, 4, 10_500, 99, 98)] * 30)
    return [first, first + second, first + second + third, second + third, third]


def _decoded(data: bytes) -> list[Any]:
    """Feed a stream in pieces of many sizes."""
    decoder, found, at = Decoder(), [], 0
    sizes = random.Random(len(data))
    while at < len(data):
        size = sizes.choice((1, 7, 48, 200, 5000))
        found += decoder.feed(data[at : at + size])
        at += size
    if decoder.error is not None:
        raise decoder.error
    return found


def _read_profile(data: bytes) -> None:
    profile, mark = Profile(tables_bytes=1 << 20, intervals_bytes=1 << 20), BEGINNING
    problem: ProtocolError | None = None
    try:
        for batch in _decoded(data):
            profile.apply(batch)
            mark = profile.news(mark).mark
    except ProtocolError as error:
        problem = error  # what was recorded before is shown all the same
    clock = list(Clock)[sum(data[-9:]) % len(Clock)]
    assert int(profile.leaf_weights(clock).weight.min(initial=0)) >= 0
    profile.leaf_weights(clock, frozenset((1,)), 2500, 9000)
    profile.leaf_samples(clock)
    list(profile.timelines(clock)(2))
    for address_id in range(min(profile.n_addresses, 4)):
        profile.locate(address_id)
    orjson.dumps([profile.thread_infos(), profile.losses(), profile.verdicts().native])
    profile.trie()
    if problem is not None:
        raise problem


def _rings(_: Path) -> list[bytes]:
    seeds = []
    for stream in _batches():
        header = bytearray(abi.RING_HEADER_BYTES)
        words = (SMALL_RING_BYTES, len(stream), 0, 1000, 2000)
        struct.pack_into("<QII5Q", header, 0, abi.RING_MAGIC, abi.ABI_VERSION, 0, *words)
        seeds.append(bytes(header) + stream)
    return seeds


def _read_ring(data: bytes) -> None:
    """The ring as it is, then with half of its bytes changed behind the reader's back."""
    size = abi.RING_HEADER_BYTES + SMALL_RING_BYTES
    data = data[:size]
    memory = bytearray(data.ljust(size, b"\0"))
    ring, decoder = Ring(memory), Decoder()
    try:
        ring.check()
        for _ in range(2):
            decoder.feed(ring.read())
            memory[len(data) // 2 : len(data)] = data[: len(data) - len(data) // 2]
        counts = [*ring.counters().values(), *ring.handler_quantiles_ns()]
        orjson.dumps([counts, ring.start_ns, ring.now_ns, ring.stopped, ring.stop_reason])
    finally:
        ring.close()


# ---- the kernel's files, and what else the target says


def _texts(folder: Path) -> list[bytes]:
    return [
        b"demo\0/usr/lib/libc.so.6\0demo\0--all\0",
        b"a) S 1 (\0/tmp/a b (deleted)\0\0",
        b"\nUid:\t0\t0\t0\t0\0//x\0\xff\x1b[31m\0",
    ]


def _escaped(name: bytes, characters: bytes) -> bytes:
    """As the kernel's ``string_escape_mem`` has it (lib/string_helpers.c, ESCAPE_OCTAL)."""
    return b"".join(b"\\%03o" % c if c in characters else bytes((c,)) for c in name)


@functools.cache
def _proc() -> Path:
    """A procfs of our own, in memory, kept open by its descriptor's name."""
    from tempfile import mkdtemp

    folder = Path(mkdtemp(prefix="flametap-fuzz-", dir="/dev/shm"))
    (folder / str(PID)).mkdir()
    return folder


def _read_procfs(data: bytes) -> None:
    name, path, command = (*data.split(b"\0", 2), b"", b"")[:3]
    name, path = name[:15], path[:4096]
    folder = _proc() / str(PID)
    status = (
        b"Name:\t" + _escaped(name, b"\n\\") + b"\nState:\tS (sleeping)\nTgid:\t4242\nPid:\t4242\n"
        b"PPid:\t1\nTracerPid:\t0\nUid:\t7\t7\t7\t7\nGid:\t8\t8\t8\t8\nThreads:\t1\nSeccomp:\t0\n"
    )
    (folder / "status").write_bytes(status)
    stat = b"4242 (" + _escaped(name, b"\n\\") + b") S 1 1 1 0 -1 64" + b" 0" * 12 + b" 77 0\n"
    (folder / "stat").write_bytes(stat)
    (folder / "cmdline").write_bytes(command)
    line = b"7f00-7f10 r-xp 00001000 08:01 42" + b" " * 20 + _escaped(path, b"\n") + b"\n"
    (folder / "maps").write_bytes(line)
    proc = str(folder.parent)
    read = procfs.read_status(PID, proc)
    assert (read.uids[1], read.gids[1], read.state) == (7, 8, "S"), "a name forges a field"
    assert procfs.read_start_ticks(PID, proc) == 77
    assert procfs.read_command(PID, proc).isprintable()
    (mapping,) = maps.read_maps(str(folder))
    assert (mapping.start, mapping.permissions, mapping.inode) == (0x7F00, "r-xp", 42)
    _ = mapping.name, mapping.shown_path, mapping.span


def _programs(_: Path) -> list[bytes]:
    loader = Path(GLIBC_LOADER).read_bytes()
    libc_start = loader[: 1 << 15]
    return [
        executable(GLIBC_LOADER, notes=GLIBC_NOTE, sections=b"\0.text\0.gopclntab\0"),
        executable(bits=32),
        executable("/lib/ld-musl-x86_64.so.1"),
        libc_start,
    ]


def _read_program(data: bytes) -> None:
    descriptor = os.memfd_create("fuzz")
    try:
        os.write(descriptor, data)
        read_program(descriptor)
        fork_stack._functions(descriptor, fork_stack.ALLOCATION)
    finally:
        os.close(descriptor)


def _filters(_: Path) -> list[bytes]:
    allow = struct.pack("=HBBI", 0x06, 0, 0, seccomp.ALLOW)
    load = struct.pack("=HBBI", 0x20, 0, 0, 0)
    some = [struct.pack("=HBBI", 0x15, 0, 1, number) + allow for number in (0, 1, 9, 231)]
    arithmetic = [struct.pack("=HBBI", 4 | op, 0, 0, 3) for op in range(0, 0xB0, 0x10)]
    memory = struct.pack("=HBBI", 2, 0, 0, 3) + struct.pack("=HBBI", 0x60, 0, 0, 3)
    end = struct.pack("=HBBI", 0x06, 0, 0, seccomp.ERRNO | 1)
    return [allow, load + b"".join(some) + end, load + b"".join(arithmetic) + memory + end]


def _read_filter(data: bytes) -> None:
    program = data[: len(data) // 8 * 8][: 8 * 64]  # the kernel has checked it; run for many calls
    seccomp.decide([program], is_main_thread=len(data) % 9 == 0)


def _answers(_: Path) -> list[bytes]:
    whole = {"tid": 4711, "boot": "0x7f0012340000"}
    others: list[object] = [{"tid": -11}, {**whole, "boot": 5}, [], None, {**whole, "tid": 1.5}]
    return [json.dumps(each).encode() for each in (whole, *others)]


def _read_answer(data: bytes) -> None:
    try:
        answer = json.loads(data)  # Frida's part
    except (ValueError, RecursionError):
        return
    Entered.of(answer)


# ---- the page


def _queries(_: Path) -> list[bytes]:
    lines = [
        "clock=cpu&width=800&rows=40",
        "clock=wall&zoom=1.2.3&q=read",
        "function=3&threads=1,2",
    ]
    lines += ["q=re:^a.*b$&table=self", "q=module:libc&table=total&revision=1", ""]
    lines += [f"q={quote('ünïcode <b>')}", "zoom=1&zoom=2", "threads=1&clock=off-cpu&function=0"]
    return [bytes((place,)) + line.encode() for place in range(len(API)) for line in lines]


@functools.cache
def _app() -> Callable[..., Any]:
    from made_server import MadeServer

    made = MadeServer(20)
    made.advance(2.0)
    return create_app(made.views, TOKEN).wsgi_app


def _ask(place: str, query: bytes, body: bytes = b"") -> tuple[int, bytes]:
    """Give a request to the application as the server does."""
    said: list[str] = []
    environ = {
        "REQUEST_METHOD": "POST" if place == "pause" else "GET",
        "PATH_INFO": f"/api/{place}",
        "QUERY_STRING": query.decode("latin-1"),
        "SERVER_NAME": "127.0.0.1",
        "SERVER_PORT": "80",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "HTTP_HOST": "127.0.0.1",
        "HTTP_AUTHORIZATION": f"Bearer {TOKEN}",
        "CONTENT_TYPE": "application/json",
        "CONTENT_LENGTH": str(len(body)),
        "wsgi.input": io.BytesIO(body),
        "wsgi.url_scheme": "http",
        "wsgi.errors": io.StringIO(),
        "wsgi.version": (1, 0),
    }
    parts = _app()(environ, lambda status, headers, failure=None: said.append(status))
    return int(said[0][:3]), b"".join(parts)


def _read_query(data: bytes) -> None:
    place = API[data[0] % len(API)] if data else "view"
    query = data[1:].replace(b"\r", b"").replace(b"\n", b"").replace(b" ", b"+")
    request_length(b"GET /api/view?" + query + b" HTTP/1.1\r\n\r\n")
    status, answer = _ask(place, b"" if place == "pause" else query, query[:4096])
    assert status in (200, 400, 404), (place, status, answer)
    assert ("error" in orjson.loads(answer)) == (status != 200)


def _requests(_: Path) -> list[bytes]:
    head = b"GET /api/view?clock=cpu HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer x\r\n\r\n"
    post = b"POST /a/api/pause HTTP/1.1\r\nContent-Length: 4\r\nContent-Type: a/b\r\n\r\n{}{}"
    return [head, post, head.replace(b"\r\n\r\n", b"\r\nCookie: flametap=a; b=c\r\n\r\n")]


def _read_request(data: bytes) -> None:
    for end in (len(data) // 3, len(data)):
        length = request_length(data[:end])
        assert length is None or length >= 0


READERS: dict[str, Reader] = {
    "ring": Reader(_rings, _read_ring, (ProtocolError,)),
    "decoder": Reader(lambda _: _batches(), _decoded, (ProtocolError,)),
    "profile": Reader(lambda _: _batches(), _read_profile, (ProtocolError,)),
    "procfs": Reader(_texts, _read_procfs, (), (b"\n", b"\\", b") ", b"(", b" (deleted)", b"\0")),
    "program": Reader(_programs, _read_program, (elf_headers.ElfHeaderError,)),
    "filter": Reader(_filters, _read_filter, (ValueError,)),
    "agent-answer": Reader(
        _answers, _read_answer, (FlametapError,), (b"1e999", b"NaN", b"-", b"[")
    ),
    "query": Reader(
        _queries, _read_query, (Refusal,), tuple(word.encode() for word in QUERY_WORDS)
    ),
    "request": Reader(
        _requests,
        _read_request,
        (Refusal,),
        (
            b"\r\n\r\n",
            b"\r\n",
            b"Content-Length: ",
            b"Transfer-Encoding: chunked\r\n",
            b"//[",
            b" ",
        ),
    ),
    **FOREIGN_READERS,
    **RECORDING_READERS,
    **SYMBOL_READERS,
    **JAVA_READERS,
    **RUBY_READERS,
    **V8_READERS,
}


def names(chosen: Sequence[str]) -> list[str]:
    """Return the names of the chosen readers, of all if none is chosen.

    Raises:
        ValueError: there is no such reader.
    """
    if unknown := set(chosen) - set(READERS):
        raise ValueError(f"no reader {', '.join(sorted(unknown))}; there are {', '.join(READERS)}")
    return list(chosen) or list(READERS)
