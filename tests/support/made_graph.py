"""The call graph of a server that never was: its functions, modules, threads and waits."""

from __future__ import annotations

from typing import NamedTuple

from flametap.model import FrameKind, Function

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
THREADS = ("orderd", *(f"worker-{i}" for i in range(1, 9)), "rules-py", "log-writer", "tls-io")
ENTRIES = ("_start", "start_thread")
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


class Wait(NamedTuple):
    """Where a thread sleeps: its stack, root first, and the number of the system call."""

    stack: str
    sysno: int


_MAIN = "_start __libc_start_main main Server::run EventLoop::poll"
_WORKER = "start_thread worker_main"
EPOLL_WAIT, FUTEX, READ, CLOCK_NANOSLEEP = 232, 202, 0, 230
POLL = Wait(f"{_MAIN} epoll_wait", EPOLL_WAIT)
REQUEST = Wait(f"{_MAIN} Connection::on_readable SSL_read ssl3_read_bytes read", READ)
QUEUE = Wait(f"{_WORKER} Queue::pop pthread_cond_wait", FUTEX)
LOCK = Wait(f"{_WORKER} Queue::pop pthread_mutex_lock", FUTEX)
ANSWER = Wait(f"{_WORKER} Worker::step rules::evaluate read", READ)
NAP = Wait(f"{_WORKER} Worker::step clock_nanosleep", CLOCK_NANOSLEEP)
VENDOR = Wait(f"{_WORKER} Worker::step vendor+0x41c0?", FUTEX)
WAITS = (POLL, REQUEST, QUEUE, LOCK, ANSWER, NAP, VENDOR)
# What the main thread does when it does not run, mostly and at times; and kinds of others.
MAIN_WAITS = (POLL, REQUEST)
WORKER_WAITS = ((NAP, QUEUE), (QUEUE, VENDOR), (QUEUE, LOCK), (ANSWER, LOCK))
ON_CPU = ("epoll_wait", "pthread_cond_wait", "read")  # calls that take little CPU time


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


TAKES_IN, TAKES_IN_FROM = "/ceval.c", 120  # its functions' lines from there on are in another file
TAKEN_IN = "/build/orderd-2.4/src/generated_cases.c.h"
