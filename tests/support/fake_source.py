"""A made-up profile that grows: what the page is developed and tested against.

``python tests/support/fake_source.py`` serves it, without a target. The stacks are random walks
through a small call graph of a server that never was, always the same for the same seed.
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from fake_time import FakeTime
from flametap.analysis.views import Views
from flametap.capture.limits import check_sampling
from flametap.code.annotation import (
    AnnotatedCode,
    AnnotatedSource,
    ModuleSymbols,
    SourceLine,
    SymbolReport,
)
from flametap.code.module_shares import ModuleShare
from flametap.locks.lock_places import UNKNOWN, LockPlace, LockPlaces
from flametap.locks.lock_waits import Holder, LockWaits
from flametap.model import (
    ChildProcess,
    Clock,
    Frame,
    FrameKind,
    Function,
    Status,
    SymbolSource,
    ThreadInfo,
)
from flametap.recording.code_source import CodeRow
from flametap.timeline.heat import Heat, HeatQuery
from flametap.timeline.lanes import LaneQuery, Lanes
from flametap.tree.calltree import CallTree
from flametap.tree.selection import Selection, Span
from flametap.wire import abi

TOKEN = "secret-token"  # of servers under test

# function: module, source file, what it calls (the first most often). A name ending in "*" is
# inlined, in "?" has no symbol.
GRAPH = {
    "_start": ("orderd", "", "__libc_start_main"),
    "__libc_start_main": ("libc.so.6", "libc-start.c", "main"),
    "main": ("orderd", "main.cc", "Server::run"),
    "Server::run": ("orderd", "server.cc", "EventLoop::poll Server::tick"),
    "Server::tick": ("orderd", "server.cc", "metrics::flush clock_gettime"),
    "metrics::flush": ("orderd", "metrics.cc", "snprintf write"),
    "EventLoop::poll": ("orderd", "event_loop.cc", "Connection::on_readable epoll_wait"),
    "Connection::on_readable": ("orderd", "connection.cc", "http::parse_request SSL_read"),
    "http::parse_request": ("orderd", "http.cc", "http::Header::set* Connection::dispatch memchr"),
    "http::Header::set*": ("orderd", "http.h", "std::string::assign* malloc"),
    "std::string::assign*": ("orderd", "basic_string.h", "memcpy malloc"),
    "Connection::dispatch": ("orderd", "connection.cc", "OrderBook::submit json::parse route"),
    "route": ("orderd", "router.cc", "std::_Hashtable::find* strlen"),
    "std::_Hashtable::find*": ("orderd", "hashtable.h", "std::_Hash_bytes memcmp"),
    "std::_Hash_bytes": ("libstdc++.so.6", "hash_bytes.cc", ""),
    "start_thread": ("libc.so.6", "pthread_create.c", "worker_main"),
    "worker_main": ("orderd", "worker.cc", "Worker::step Queue::pop"),
    "Queue::pop": ("orderd", "queue.h", "pthread_cond_wait"),
    "Worker::step": ("orderd", "worker.cc", "OrderBook::match rules::evaluate json::dump"),
    "OrderBook::submit": ("orderd", "book.cc", "OrderBook::match Arena::alloc*"),
    "OrderBook::match": ("orderd", "book.cc", "PriceLevel::fill rb_insert OrderBook::match"),
    "PriceLevel::fill": ("orderd", "book.cc", "Trade::emit operator_new Arena::alloc*"),
    "Trade::emit": ("orderd", "trade.cc", "json::dump deflate"),
    "rb_insert": ("orderd", "rbtree.c", "rb_rotate*"),
    "rb_rotate*": ("orderd", "rbtree.h", ""),
    "Arena::alloc*": ("orderd", "arena.h", "operator_new"),
    "rules::evaluate": ("orderd", "rules.cc", "rules::Node::eval PyObject_Call"),
    "rules::Node::eval": ("orderd", "rules.cc", "rules::Node::eval rules::Var::get score"),
    "rules::Var::get": ("orderd", "rules.cc", "std::_Hashtable::find* vendor+0x41c0?"),
    "score": ("orderd", "score.cc", "exp pow vendor+0x58a2?"),
    "vendor+0x41c0?": ("libvendor.so", "", "vendor+0x58a2? memcpy"),
    "vendor+0x58a2?": ("libvendor.so", "", "exp"),
    "exp": ("libm.so.6", "e_exp.c", ""),
    "pow": ("libm.so.6", "e_pow.c", "exp"),
    "PyObject_Call": ("libpython3.11.so.1.0", "call.c", "_PyEval_EvalFrameDefault"),
    "_PyEval_EvalFrameDefault": (
        "libpython3.11.so.1.0",
        "ceval.c",
        "_PyEval_EvalFrameDefault _PyObject_Malloc PyDict_GetItem Py_DECREF* PyNumber_Add",
    ),
    "_PyObject_Malloc": ("libpython3.11.so.1.0", "obmalloc.c", "malloc"),
    "PyDict_GetItem": ("libpython3.11.so.1.0", "dictobject.c", "lookdict*"),
    "lookdict*": ("libpython3.11.so.1.0", "dictobject.c", ""),
    "Py_DECREF*": ("libpython3.11.so.1.0", "object.h", "free"),
    "PyNumber_Add": ("libpython3.11.so.1.0", "abstract.c", "_PyObject_Malloc"),
    "json::parse": ("orderd", "json.cc", "json::parse_value"),
    "json::parse_value": ("orderd", "json.cc", "json::parse_object json::parse_string* strtod"),
    "json::parse_object": ("orderd", "json.cc", "json::parse_value operator_new"),
    "json::parse_string*": ("orderd", "json.h", "memchr std::string::assign*"),
    "json::dump": ("orderd", "json.cc", "json::dump snprintf std::string::assign*"),
    "operator_new": ("libstdc++.so.6", "new_op.cc", "malloc"),
    "malloc": ("libc.so.6", "malloc.c", "_int_malloc"),
    "_int_malloc": ("libc.so.6", "malloc.c", "sysmalloc"),
    "sysmalloc": ("libc.so.6", "malloc.c", ""),
    "free": ("libc.so.6", "malloc.c", ""),
    "deflate": ("libz.so.1", "", "deflate_slow crc32_z"),
    "deflate_slow": ("libz.so.1", "", "longest_match"),
    "longest_match": ("libz.so.1", "", ""),
    "crc32_z": ("libz.so.1", "", ""),
    "SSL_read": ("libssl.so.3", "", "ssl3_read_bytes"),
    "ssl3_read_bytes": ("libssl.so.3", "", "tls13_cipher read"),
    "tls13_cipher": ("libssl.so.3", "", "aes_gcm_dec_128"),
    "aes_gcm_dec_128": ("libcrypto.so.3", "", ""),
    "clock_gettime": ("[vdso]", "", ""),
}
# What makes the tree wide: a handler for each verb and noun, calling a few of the above.
HANDLERS = [
    f"handlers::{verb}_{noun}"
    for verb in ("amend", "cancel", "expire", "get", "list", "place")
    for noun in ("account", "block", "leg", "limit", "order", "quote", "trade")
]
_CALLEES = [word for word, entry in GRAPH.items() if entry[0] == "orderd" and len(entry[2]) > 25]
for _at, _handler in enumerate(HANDLERS):
    _calls = " ".join(_CALLEES[(_at * step + step) % len(_CALLEES)] for step in (1, 5, 11))
    GRAPH[_handler] = ("orderd", f"handlers_{_at % 6}.cc", _calls)
for _caller in ("Connection::dispatch", "Worker::step"):
    GRAPH[_caller] = (*GRAPH[_caller][:2], f"{GRAPH[_caller][2]} {' '.join(HANDLERS)}")
PARKED = {"epoll_wait": "epoll_wait", "pthread_cond_wait": "futex", "read": "read"}
ENTRIES = ("_start", "start_thread")
THREADS = ("orderd", *(f"worker-{i}" for i in range(1, 9)), "rules-py", "log-writer", "tls-io")
SYMBOLS = {
    "orderd": "symcache",
    "libc.so.6": "symtab",
    "libstdc++.so.6": "symcache",
    "libpython3.11.so.1.0": "symcache",
    "libssl.so.3": "dynsym",
    "libcrypto.so.3": "dynsym",
    "libm.so.6": "pending",
    "libz.so.1": "dynsym",
    "libvendor.so": "none",
    "[vdso]": "dynsym",
}
NOTES = {
    "symtab": "no debug information: install its -dbg package for lines and inlined functions",
    "dynsym": "exported names only: install its -dbgsym package or use --symbol-dir",
    "none": "stripped and nothing exported: give its debug file with --symbol-dir",
}
COMMAND = "/usr/bin/orderd --listen 0.0.0.0:8443 --workers 8"
PID = 41873


def function(word: str) -> Function:
    """The function that a word of GRAPH means; words without an entry are libc's."""
    module, file, _ = GRAPH.get(word, ("libc.so.6", "", ""))
    kind = {"*": FrameKind.INLINED, "?": FrameKind.UNKNOWN}.get(word[-1], FrameKind.NATIVE)
    name = word.rstrip("*?").replace("operator_", "operator ")
    if kind is FrameKind.UNKNOWN:
        name = name.replace("vendor", "libvendor.so")
    source = f"/build/orderd-2.4/src/{file}" if file else ""
    full_name = f"{name}(std::string_view, unsigned long)" if "::" in name else ""
    return Function(name, module, source, kind, full_name)


TAKES_IN = "/ceval.c"  # most lines of its functions are in another file
TAKEN_IN = "/build/orderd-2.4/src/generated_cases.c.h"


class FakeSource(Views):
    """Views of a recording. ``advance`` adds time by hand, ``running`` lets it grow by itself.

    Args:
        node_count: nodes of the tree when everything has appeared.
    """

    def __init__(self, node_count: int = 5_000, seed: int = 7) -> None:
        self.recording: Any = self
        self.copy_to = None
        self._random = random.Random(seed)
        self._changed = threading.Condition()
        self._elapsed_s = 0.0
        self.revision = 0
        self.state = "recording"
        self.tree_calls = 0
        self.functions: list[Function] = []
        self._ids: dict[Function, int] = {}
        # The trie: per node its parent, function, weights per second by (thread, is parked), birth.
        self._parents, self._function_of = [-1], [-1]
        self._children: dict[tuple[int, int], int] = {}
        self._rates: list[tuple[int, int, bool, float]] = []  # node, thread, parked, ns per second
        self._fake_time = FakeTime(THREADS)
        self._grow(node_count)
        self._freeze()

    # --- what grows ---------------------------------------------------------------------------

    def _grow(self, node_count: int) -> None:
        """Unfold the call graph, the heaviest open node first, until there are enough nodes."""
        chance = self._random
        heap = [(-0.35, 0, ENTRIES[0], 0, 0), (-1.0, 0, ENTRIES[1], 0, 1)]
        while heap and len(self._parents) < node_count:
            weight, parent, word, depth, thread = heapq.heappop(heap)
            node = self._child(parent, function(word))
            calls = GRAPH.get(word, ("", "", ""))[2].split()
            if thread == 1 and depth > 2:  # the stacks of all but the main thread start alike
                thread = 1 + min(int(chance.expovariate(0.35)), len(THREADS) - 2)
            if word in PARKED:  # much of the time waiting, little of it on a CPU
                wait = self._child(node, Function(f"[{PARKED[word]}]", "", kind=FrameKind.SYSCALL))
                self._rates.append((wait, thread, True, -weight * 3))
                weight *= 0.03
            self_share = chance.betavariate(1.1, 12) if calls else 1.0
            self._rates.append((node, thread, False, -weight * self_share))
            chosen = calls[:2] + [call for call in calls[2:] if chance.random() < 0.45]
            shares = [chance.expovariate(1) + 0.9 / (1 + at) for at, _ in enumerate(chosen)]
            for call, share in zip(chosen, shares, strict=True):
                part = weight * (1 - self_share) * share / sum(shares)
                heapq.heappush(heap, (part, node, call, depth + 1, thread))

    def _child(self, parent: int, what: Function) -> int:
        number = self.function_id(what)
        node = self._children.setdefault((parent, number), len(self._parents))
        if node == len(self._parents):
            self._parents.append(parent)
            self._function_of.append(number)
        return node

    def _freeze(self) -> None:
        """The trie as arrays in breadth-first order, siblings by name."""
        below: dict[int, list[int]] = {}
        for node, parent in enumerate(self._parents[1:], 1):
            below.setdefault(parent, []).append(node)
        order, level = [0], [0]
        while level:
            level = [
                child
                for node in level
                for child in sorted(
                    below.get(node, []),
                    key=lambda each: self.functions[self._function_of[each]].name,
                )
            ]
            order += level
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        parents = np.array(self._parents)[order]
        self._parent = np.where(parents < 0, -1, place[parents])
        self._function = np.array(self._function_of, np.int32)[order]
        self._depth = np.zeros(len(order), np.int32)
        for node in range(1, len(order)):
            self._depth[node] = self._depth[self._parent[node]] + 1
        nodes, threads, parked, rates = zip(*self._rates, strict=True)
        self._leaf = place[np.array(nodes)]
        self._leaf_thread = np.array(threads)
        self._leaf_parked = np.array(parked)
        self._leaf_rate = np.array(rates)
        self._leaf_rate *= 4e9 / self._leaf_rate[~self._leaf_parked].sum()  # four cores busy
        stops = np.random.default_rng(3)
        self._leaf_birth_s = stops.exponential(0.8, len(rates)) * (stops.random(len(rates)) < 0.5)
        self._leaf_wave = stops.random(len(rates)) * 6.28
        self._line = 10 + (self._function * 37 + self._depth) % 900
        takes_in = [each.file.endswith(TAKES_IN) for each in self.functions]
        self._line_file = np.array(takes_in, np.int32)[np.maximum(self._function, 0)]

    def advance(self, seconds: float) -> None:
        """Let the profile grow and tell whoever waits."""
        with self._changed:
            if self.state == "recording":
                self._elapsed_s += seconds
                self._fake_time.advance(seconds)
            self.revision += 1
            self._changed.notify_all()

    def end(self, reason: str = "the process exited") -> None:
        """The target is gone."""
        with self._changed:
            self.state, self.reason = "ended", reason
            self.revision += 1
            self._changed.notify_all()

    reason = ""

    def running(self, stop: threading.Event, period_s: float = 0.1) -> threading.Thread:
        """Start a thread that advances in real time until ``stop`` is set."""

        def run() -> None:
            while not stop.wait(period_s):
                self.advance(period_s)

        thread = threading.Thread(target=run, name="fake-source", daemon=True)
        thread.start()
        return thread

    # --- Recording, Views and Controls -----------------------------------------------------

    def _weights(self, span: Span | None = None) -> np.ndarray:
        alive_s = np.maximum(0.0, self._elapsed_s - self._leaf_birth_s)
        weights = (
            self._leaf_rate * (alive_s + 0.2 * np.sin(alive_s + self._leaf_wave) ** 2)
        ).astype(np.int64) * (alive_s > 0)
        if span is None:
            return weights
        now_ns = int(self._elapsed_s * 1e9)  # as if each weight were spread evenly
        start_ns, end_ns = span.between(0, now_ns)
        share = max(0, min(end_ns, now_ns) - start_ns) / max(1, now_ns)
        return (weights * share).astype(np.int64)

    def function_id(self, what: Function) -> int:
        number = self._ids.setdefault(what, len(self.functions))
        if number == len(self.functions):
            self.functions.append(what)
        return number

    def tree(self, selection: Selection) -> CallTree:
        self.tree_calls += 1
        clock, thread_ids = selection.clock, selection.thread_ids
        weights = self._weights(selection.span)
        if clock is not Clock.WALL:
            weights = weights * (self._leaf_parked == (clock is Clock.OFF_CPU))
        if thread_ids is not None:
            weights = weights * np.isin(self._leaf_thread + 1, list(thread_ids))
        self_ns = np.zeros(len(self._parent), np.int64)
        np.add.at(self_ns, self._leaf, weights)
        total_ns = self_ns.copy()
        bounds = np.searchsorted(self._depth, np.arange(self._depth[-1] + 2))
        for low, high in list(itertools.pairwise(bounds))[:0:-1]:
            np.add.at(total_ns, self._parent[low:high], total_ns[low:high])
        kept = total_ns > 0
        kept[0] = True
        place = np.cumsum(kept) - 1
        parent = np.where(self._parent < 0, -1, place[self._parent])[kept]
        return CallTree(
            parent.astype(np.int32),
            self._function[kept],
            self_ns[kept],
            total_ns[kept],
            self._line[kept].astype(np.int32),
            self._line_file[kept],
            self._depth[kept],
            self.functions,
            ["", TAKEN_IN],
            ["", ""],
        )

    def threads(self, span: Span | None = None) -> list[ThreadInfo]:
        weights = self._weights(span)
        found = []
        for thread, name in enumerate(THREADS):
            mine = self._leaf_thread == thread
            cpu = int(weights[mine & ~self._leaf_parked].sum())
            off = int(weights[mine & self._leaf_parked].sum())
            waits_in = ("epoll_wait", "futex", "", "")[thread % 4]
            exited = name == "log-writer"
            if cpu + off:
                found.append(
                    ThreadInfo(
                        thread + 1, PID + thread, name, cpu, cpu + off, off, exited, waits_in
                    )
                )
        return found

    def children(self) -> list[ChildProcess]:
        return []

    def status(self) -> Status:
        with self._changed:  # the end and its revision are one
            return self._status()

    def _status(self) -> Status:
        ns = int(self._elapsed_s * 1e9)
        ticks = int(self._elapsed_s * 100)
        cpu = int(self._weights()[~self._leaf_parked].sum())
        handled = ticks * 4
        return Status(
            pid=PID,
            command=COMMAND,
            state=self.state,
            reason=self.reason,
            engine="cpu-timers",
            rate_hz=self.rate_hz,
            asked_rate_hz=self.rate_hz,
            budget_ppm=round(self.budget_percent * 10_000),
            look_rate_hz=50.0,
            effective_rate_hz=98.4,
            duration_ns=ns,
            revision=self.revision,
            samples=ticks * 5,
            counters={
                "ticks": ticks,
                "ticks_late": ticks // 90,
                "signals_sent": handled + 3,
                "signals_handled": handled,
                "signals_late": ticks // 55,
                "parked_reads": ticks,
                "parked_torn": ticks // 70,
                "unchanged": ticks * 7,
                "ring_full": 0,
                "intervals_lost": 0,
                "traces_lost": 0,
                "threads_lost": 0,
                "threads_exited": 1,
                "signal_blocked": 0,
                "eintr_repaired": ticks // 40,
                "eintr_unrepairable": 0,
                "fork_backoff": 0,
                "handler_ns_total": handled * 1730,
                "handler_ns_max": 14_200 if ticks else 0,
                "sampler_cpu_ns": int(ns * 0.0031),
                "cfi_rows": 48_112,
                "cfi_modules": 9,
                "cfi_compile_ns": 21_000_000,
                "bytes_held": 11_400_000,
                "unattributed_cpu_ns": cpu // 900,
                "module_refreshes": 1,
                "unattributed_ended_ns": cpu // 1800,
                "engine_now": abi.ENGINE_CPU_TIMERS,
                "cpu_rate_mhz_now": 100_000,
                "rate_mhz_now": 50_000,
                "not_ready": 12,
            },
            handler_p50_ns=1750 if handled else 0,
            handler_p99_ns=3750 if handled else 0,
            verdict_cpu_ns={
                "COMPLETE": cpu - cpu // 80 - cpu // 150 - cpu // 900,
                "GUESSED": cpu // 80,
                "NO_UNWIND_INFO": cpu // 150,
                "NO_STACK": cpu // 900,
            },
            verdict_modules={"libvendor.so": cpu // 160, "[jit]": cpu // 2400},
            symbols=[
                SymbolSource(number, module, source, NOTES.get(source, ""), source == "symcache")
                for number, (module, source) in enumerate(SYMBOLS.items(), 1)
            ],
            is_final=self.state == "ended",
            notes=["the attach interrupted one epoll_wait of the main thread (EINTR), once"],
        )

    def symbols(self, selection: Selection) -> SymbolReport:
        tree = self.tree(selection)
        modules = [tree.functions[function].module for function in tree.function[1:].tolist()]
        own: Counter[str] = Counter()
        for module, self_ns in zip(modules, tree.self_ns[1:].tolist(), strict=True):
            own[module] += self_ns
        rows = []
        for source in self.status().symbols:
            held = own[source.module]
            named = {"none": 0, "pending": 0, "dynsym": held // 3}.get(source.source, held)
            share = ModuleShare(
                source.module_id,
                held,
                min(2 * held, int(tree.total_ns[0])),
                named,
                held - held // 50 if source.has_lines else 0,
            )
            rows.append(ModuleSymbols(source, share))
        rows.sort(key=lambda row: -row.share.self_ns)
        whole = int(tree.total_ns[0])
        return SymbolReport(whole, whole - sum(own[row.source.module] for row in rows), rows)

    def _weight_of(self, function_id: int, selection: Selection) -> tuple[int, int, int]:
        """Of a function: self and total (recursion left out of account); and of everything."""
        tree = self.tree(selection)
        mine = tree.function == function_id
        total = min(int(tree.total_ns[mine].sum()), int(tree.total_ns[0]))
        return int(tree.self_ns[mine].sum()), total, int(tree.total_ns[0])

    def lines(self, function_id: int, selection: Selection) -> AnnotatedSource:
        own, total, whole = self._weight_of(function_id, selection)
        shown = self.functions[function_id]
        if not shown.file:
            return AnnotatedSource("", own, total, whole, [], ["no lines are known"])
        shares = {0: own // 50, 120: own // 5, 124: own // 2, 131: 0, self.last_line: own // 100}
        shares[125] = own - sum(shares.values())
        rows = []
        for line in [0, *range(100, 160), *range(self.last_line - 20, self.last_line + 1)]:
            self_ns = shares.get(line, 0)
            text = f"    {'  ' * (line % 4)}item[{line}] = price[{line}] * amount; // <b>{line}</b>"
            calls = total - own if line == 131 else 0
            is_taken_in = shown.file.endswith(TAKES_IN) and line >= 120
            file = TAKEN_IN if is_taken_in else shown.file
            rows.append(SourceLine(file, line, self_ns, self_ns + calls, text if line else None))
        return AnnotatedSource(shown.file, own, total, whole, rows, [])

    last_line = 900  # of the made-up source files

    def instructions(self, function_id: int, selection: Selection) -> AnnotatedCode:
        own, total, whole = self._weight_of(function_id, selection)
        shown = self.functions[function_id]
        if shown.kind is FrameKind.UNKNOWN:
            notes = ["the machine code cannot be read: its file is not there"]
            return AnnotatedCode(shown.module, own, total, whole, [], notes)
        rows = []
        for at in range(self.instruction_count):
            self_ns = own // 2 if at in (7, 40) else 0
            calls = total - own if at == 12 else 0
            text = ("movq 0x10(%rsp), %rax", "addq %rdx, %rax", "callq 0x40a1c0")[at % 3]
            inlined = "Arena::alloc" if 30 < at < 45 else ""
            rows.append(
                CodeRow(
                    0x401000 + 4 * at + (0x2000 if at > 60 else 0),
                    bytes((0x48, 0x8B, at % 256, 0x24)),
                    text,
                    "malloc@plt" if at % 3 == 2 else "",
                    self_ns,
                    self_ns + calls,
                    shown.file,
                    100 + at // 4,
                    inlined,
                )
            )
        return AnnotatedCode(shown.module, own, total, whole, rows, [])

    instruction_count = 90

    def lanes(self, query: LaneQuery) -> Lanes:
        return self._fake_time.lanes(query)

    def heat(self, query: HeatQuery) -> Heat:
        return self._fake_time.heat(query)

    def wait_newer(self, revision: int, timeout_s: float) -> int:
        with self._changed:
            self._changed.wait_for(lambda: self.revision > revision, timeout_s)
            return self.revision

    def lock_waits(self, selection: Selection, path: Sequence[int] | None) -> LockWaits:
        return LockWaits(0, ())

    def lock_places(self, selection: Selection) -> LockPlaces:
        """Some places, with hostile text, and one that is not known."""
        function = self.functions[3]
        held = LockWaits(2 * 10**9, [Holder(3, 3, 15 * 10**8)])
        threads = frozenset((1, 2))
        places = [
            LockPlace("a mutex", Frame(function, 7), 3 * 10**9, threads, "lock(<b>);", held),
            LockPlace(UNKNOWN, None, 10**9, frozenset((1,))),
        ]
        return LockPlaces(4 * 10**9, 2, places)

    def set_paused(self, paused: bool) -> None:
        with self._changed:
            self.state = "paused" if paused else "recording"
            self.revision += 1
            self._changed.notify_all()

    rate_hz, budget_percent = 100.0, 1.0

    def set_sampling(self, rate_hz: float, budget_percent: float) -> None:
        check_sampling(rate_hz, budget_percent)
        self.rate_hz, self.budget_percent = rate_hz, budget_percent
        self.advance(0)


def main() -> None:
    """Serve a growing profile until Ctrl-C."""
    from flametap.web.server import serve

    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--nodes", type=int, default=20_000)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--token", default="demo")
    options = parser.parse_args()
    source = FakeSource(options.nodes)
    source.advance(1.0)
    stop = threading.Event()
    source.running(stop)
    server = serve(source, "127.0.0.1", options.port, options.token)
    print(server.url, flush=True)
    try:
        while True:
            time.sleep(1)
    except KeyboardInterrupt:
        stop.set()
        server.close()
        sys.exit(0)


if __name__ == "__main__":
    main()
