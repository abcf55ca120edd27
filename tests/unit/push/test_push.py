"""What is pushed: where it goes, what becomes of it, and what waits."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from flametap.push.labels import labels_of
from flametap.push.post import Fate, post
from flametap.push.spool import Spool
from flametap.push.store import store_of
from profile_store import Answer, profile_store

BODY = {"Content-Type": "multipart/form-data; boundary=x"}


@pytest.mark.parametrize(
    ("answer", "fate", "why", "after_s"),
    [
        ((302, {"Location": "http://127.0.0.1:1/x"}), Fate.LATER, "redirects to http://127", None),
        ((401, {}), Fate.LATER, "HTTP 401", None),
        ((400, {}), Fate.REFUSED, "HTTP 400", None),
        ((413, {}), Fate.REFUSED, "HTTP 413", None),
        ((429, {"Retry-After": "7"}), Fate.LATER, "HTTP 429", 7.0),
        ((429, {"Retry-After": "soon"}), Fate.LATER, "HTTP 429", None),
        ((503, {}), Fate.LATER, "HTTP 503", None),
        ("breaks", Fate.LATER, "closed connection", None),
    ],
)
def test_answers(answer: Answer, fate: Fate, why: str, after_s: float | None) -> None:
    with profile_store(answer) as store:
        outcome = post(f"{store.url}/ingest", b"--x--", BODY)
        assert outcome.fate is fate
        assert why in outcome.why
        assert outcome.after_s == after_s
        assert store.n_requests == 1


def test_server_that_is_not_there() -> None:
    assert post("http://127.0.0.1:1/ingest", b"", {}).fate is Fate.LATER
    assert post("http://no-such-host.invalid/ingest", b"", {}).fate is Fate.LATER


def test_labels_come_from_the_user_the_program_and_the_machine() -> None:
    labels = labels_of(None, "shop", {}, host="web7")
    assert labels == {"service_name": "shop", "host": "web7"}
    labels = labels_of(os.getpid(), "python", {"service": "a{b}", "env": "prod"})
    assert labels["service_name"] == "a_b_"
    assert labels["env"] == "prod"


def test_name_has_the_labels() -> None:
    store = store_of("http://x", {"service_name": "shop", "env": "a b"})
    assert store.url(1.4, 3.6).startswith(
        "http://x/ingest?name=shop%7Benv%3Da+b%7D&from=1&until=4&format=pprof"
    )


def test_spool_keeps_the_newest() -> None:
    spool = Spool(max_bytes=10)
    for number in range(5):
        spool.add(b"1234", number, number + 1)
    assert (len(spool), spool.n_dropped) == (2, 3)
    first = spool.first()
    assert first is not None
    assert first.from_s == 3
    for _ in range(2):
        segment = spool.first()
        assert segment is not None
        spool.remove(segment)
    spool.close()
    assert not Path(spool.folder).exists()
