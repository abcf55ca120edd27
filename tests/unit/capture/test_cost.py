"""The figures of what a recording cost."""

from __future__ import annotations

from flametap.model import Status
from flametap.recording.cost import Certificate


def a_status() -> Status:
    status = Status(7, "demo", "ended", rate_hz=1000.0, duration_ns=2_000_000_000)
    status.engine, status.look_rate_hz, status.effective_rate_hz = "cpu-timers", 40.0, 248.06
    status.handler_p50_ns, status.handler_p99_ns = 1750, 5500
    status.counters = {
        "signals_handled": 1900,
        "signals_sent": 1901,
        "handler_ns_total": 4_000_000,
        "handler_ns_max": 41_234,
        "sampler_cpu_ns": 46_000_000,
        "once_cpu_ns": 30_000_000,
        "bytes_held": 12 << 20,
        "eintr_repaired": 3,
        "parked_reads": 812,
    }
    return status


def test_certificate_says_what_it_took_and_what_it_did() -> None:
    assert Certificate.of(a_status()).lines() == [
        "cost: 1.00% of a core in the process (and 30 ms once, at its beginning), 12 MiB held;"
        " a sample took 1.75 µs"
        " (99 % at most 5.5 µs, longest 41.2 µs); CPU timers: 1,000 samples a second of CPU time"
        " (248 taken), 40 looks a second at sleeping threads",
        "in the process: 1,900 signals taken, 812 sleeping stacks read,"
        " 3 interrupted system calls restarted, 0 system calls returned EINTR",
    ]


def test_certificate_says_one_and_none() -> None:
    def inside(**counters: int) -> str:
        status = Status(7, "demo", "ended", counters=counters)
        return Certificate.of(status).lines()[1].removeprefix("in the process: ")

    assert inside() == "0 signals taken, 0 sleeping stacks read, 0 system calls interrupted"
    assert inside(signals_handled=1, parked_reads=1, eintr_unrepairable=606) == (
        "1 signal taken, 1 sleeping stack read, 606 system calls returned EINTR"
    )
    assert "1 interrupted system call restarted, 1 system call" in inside(
        eintr_repaired=1, eintr_unrepairable=1
    )


def test_long_handler_is_told_in_milliseconds() -> None:
    status = a_status()
    status.counters["handler_ns_max"] = 2_160_000
    assert "longest 2.16 ms" in Certificate.of(status).lines()[0]


def test_certificate_of_nothing_makes_no_claims() -> None:
    empty = Certificate.of(Status(7, "demo", "attaching"))
    assert empty.core_share == 0.0
    assert empty.lines()[0] == "cost: 0.00% of a core in the process, 0 MiB held"


def test_certificate_for_programs_has_every_figure() -> None:
    as_json = Certificate.of(a_status()).as_json()
    assert as_json["core_share"] == 0.01
    assert as_json["waits_resumed"] == 3
    assert as_json["waits_broken"] == 0
    assert as_json["handler_max_ns"] == 41_234
    assert (as_json["engine"], as_json["rate_hz"]) == ("cpu-timers", 1000.0)
    assert (as_json["look_rate_hz"], as_json["effective_rate_hz"]) == (40.0, 248.06)


def test_certificate_names_rounds_as_such() -> None:
    status = Status(7, "demo", "ended", rate_hz=100.0, look_rate_hz=100.0, engine="rounds")
    assert Certificate.of(status).lines()[0].endswith("; 100 rounds a second")
