"""Bytes → batches: whole, in pieces, damaged; and the ring they come from."""

from __future__ import annotations

import contextlib
import random
import struct

import numpy as np
import pytest

import wire
from flametap.model import Module, RawFrame, ThreadState, Verdict
from flametap.wire import abi
from flametap.wire.decoder import Decoder, ProtocolError
from flametap.wire.events import raw_frame
from flametap.wire.ring import Ring

HEAD_AT = 24  # in the ring's header; the size of the ring is before it, tail behind it


def sample_batch(sequence: int = 0) -> bytes:
    return wire.batch(
        5_000,
        sequence=sequence,
        modules=[
            wire.module(1, "/usr/lib/libfoo.so.1", build_id=b"\xab\xcd"),
            wire.module(2, "/tmp/gone.so", gone=True, build_id=b""),
        ],
        threads=[
            wire.thread(1, 4242, "worker"),
            wire.thread(2, 4243, "x" * 16, flags=abi.THREAD_EXITED | abi.THREAD_SIGNAL_BLOCKED),
        ],
        traces=[
            wire.trace(1, [wire.frame(1, 0x1234), wire.runtime_frame(0x7F00_0000_1000)]),
            wire.trace(2, [wire.frame(2, 0xFF)], Verdict.NO_UNWIND_INFO, fault_module=2),
            wire.trace(3, [], Verdict.BAD_MEMORY),
        ],
        intervals=[
            wire.interval(1, 1, 1_000, 500, 490),
            wire.interval(2, 2, 1_000, 4_000, 0, wire.PARKED, sysno=232, is_open=True),
        ],
    )


def test_batch_is_decoded() -> None:
    (batch,) = Decoder().feed(sample_batch(7))
    assert (batch.sequence, batch.now_ns) == (7, 5_000)
    assert [update.gone for update in batch.modules] == [False, True]
    assert batch.modules[0].module == Module(
        1, "/usr/lib/libfoo.so.1", 0x5000_0000, 0x5000_1000, 0x5000_9000, "abcd"
    )
    first, second = batch.threads
    assert (first.thread_id, first.tid, first.name, first.exited) == (1, 4242, "worker", False)
    assert (second.name, second.exited, second.signals_blocked) == ("x" * 16, True, True)
    assert [trace.verdict for trace in batch.traces] == [
        Verdict.COMPLETE,
        Verdict.NO_UNWIND_INFO,
        Verdict.BAD_MEMORY,
    ]
    assert [raw_frame(f) for f in batch.traces[0].frames.tolist()] == [
        RawFrame(1, 0x1234),
        RawFrame(0, 0x7F00_0000_1000),
    ]
    assert batch.traces[1].fault_module == 2
    assert len(batch.traces[2].frames) == 0
    row = batch.intervals[1]
    assert (row["wall_ns"], row["state"], row["sysno"]) == (4_000, ThreadState.PARKED, 232)


def test_stream_cut_anywhere_gives_the_same_batches() -> None:
    stream = b"".join(sample_batch(i) for i in range(3))
    for step in (1, 7, 40, 1000):
        decoder = Decoder()
        batches = [
            batch
            for at in range(0, len(stream), step)
            for batch in decoder.feed(stream[at : at + step])
        ]
        assert [batch.sequence for batch in batches] == [0, 1, 2]
        assert all(len(batch.intervals) == 2 for batch in batches)


def test_torn_tail_is_held_until_the_rest_comes() -> None:
    decoder = Decoder()
    assert decoder.feed(sample_batch()[:-1]) == []
    assert len(decoder.feed(sample_batch()[-1:])) == 1


def test_name_that_is_not_utf8_is_readable() -> None:
    record = abi.THREAD_RECORD.pack(1, 2, 0, 0, 0, b"caf\xe9")
    (batch,) = Decoder().feed(wire.batch(1, threads=[record]))
    assert batch.threads[0].name == "caf\N{REPLACEMENT CHARACTER}"


@pytest.mark.parametrize(
    ("damaged", "message"),
    [
        (b"JUNK" + sample_batch()[4:], "batch starts with"),
        (sample_batch()[:4] + b"\xfe" + sample_batch()[5:], "has version 254"),
        (sample_batch()[:8] + bytes(4) + sample_batch()[12:], "impossible size"),
        (sample_batch()[:8] + b"\xf8\xff\xff\xff" + sample_batch()[12:], "impossible size"),
        (wire.batch(1 << 63), "impossible time"),
        (wire.batch(1, modules=[wire.module(0, "x")]), "module record 0"),
        (wire.batch(1, modules=[wire.module(1, "x" * 5000)]), "module record 1"),
        (wire.batch(1, threads=[wire.thread(0, 1, "x")]), "thread record 0"),
        (wire.batch(1, threads=[wire.thread(1 << 25, 1, "x")]), "thread record"),
        (wire.batch(1, threads=[bytes(8)]), "do not hold"),
        (wire.batch(1, traces=[wire.trace(0, [1])]), "trace record 0"),
        (wire.batch(1, traces=[wire.trace(1, [1], Verdict.NO_STACK)]), "trace record 1"),
        (wire.batch(1, traces=[wire.trace(1, [7 << 56])]), "unknown kind"),
        (wire.batch(1, traces=[wire.trace(1, [1])[:-8]]), "ends inside a trace"),
        (wire.batch(1, traces=[wire.trace(1, [1]) + bytes(8)]), "a section's records take"),
        (wire.batch(1, intervals=[wire.interval(1, 1, 1, 1, state=9)]), "unknown state"),
        (wire.batch(1, intervals=[wire.interval(1, 1, 1, 1 << 63)]), "impossible time"),
        (wire.batch(1, intervals=[wire.interval(0, 1, 1, 1)]), "impossible thread id"),
        (wire.batch(1, intervals=[bytes(56)]), "do not hold"),
    ],
    ids=range(19),
)
def test_damage_is_refused(damaged: bytes, message: str) -> None:
    with pytest.raises(ProtocolError, match=message):
        Decoder().feed(damaged)


def test_sections_out_of_order_are_refused() -> None:
    sections = wire.section(abi.SECTION_THREADS, []) + wire.section(abi.SECTION_MODULES, [])
    header = abi.BATCH_HEADER.pack(
        abi.BATCH_MAGIC, abi.ABI_VERSION, abi.BATCH_HEADER.size + len(sections), 2, 0, 0
    )
    with pytest.raises(ProtocolError, match="out of order"):
        Decoder().feed(header + sections)


def test_random_damage_gives_batches_or_a_protocol_error_and_nothing_else() -> None:
    rng = random.Random(1)
    stream = sample_batch()
    for _ in range(2_000):
        damaged = bytearray(stream)
        for _ in range(rng.randint(1, 4)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        with contextlib.suppress(ProtocolError):
            Decoder().feed(bytes(damaged))


def ring_of(data_bytes: int, *, head: int, tail: int) -> bytearray:
    buffer = bytearray(abi.RING_HEADER_BYTES + data_bytes)
    abi.RING_HEADER.pack_into(
        buffer, 0, abi.RING_MAGIC, abi.ABI_VERSION, 99, data_bytes, head, tail, 111, 222, 0, 0, 0, 0
    )
    return buffer


def test_ring_gives_what_was_written_once_and_moves_tail() -> None:
    buffer = ring_of(64, head=24, tail=0)
    buffer[abi.RING_HEADER_BYTES : abi.RING_HEADER_BYTES + 24] = bytes(range(24))
    ring = Ring(buffer)
    ring.check()
    assert ring.read() == bytes(range(24))
    assert ring.read() == b""
    assert struct.unpack_from("<Q", buffer, 32) == (24,)
    assert (ring.start_ns, ring.now_ns, ring.stopped) == (111, 222, False)
    ring.close()


def read_up_to(buffer: bytearray, *heads: int) -> Ring:
    """A ring of which the host has read all up to these positions, one after the other."""
    ring = Ring(buffer)
    for head in heads:
        struct.pack_into("<Q", buffer, HEAD_AT, head)
        ring.read()
    return ring


def test_ring_wraps_around() -> None:
    buffer = ring_of(64, head=0, tail=0)
    ring = read_up_to(buffer, 56)
    struct.pack_into("<Q", buffer, HEAD_AT, 72)
    buffer[abi.RING_HEADER_BYTES + 56 :] = b"endofrin"
    buffer[abi.RING_HEADER_BYTES : abi.RING_HEADER_BYTES + 8] = b"gbegins!"
    assert ring.read() == b"endofringbegins!"


def test_full_ring_is_read_whole() -> None:
    buffer = ring_of(64, head=0, tail=0)
    ring = read_up_to(buffer, 36)
    struct.pack_into("<Q", buffer, HEAD_AT, 100)
    assert len(ring.read()) == 64


@pytest.mark.parametrize("head", [8, 16 + 64 + 8, (1 << 64) - 8])
def test_ring_positions_that_make_no_sense_are_refused(head: int) -> None:
    buffer = ring_of(64, head=0, tail=0)
    ring = read_up_to(buffer, 16)
    struct.pack_into("<Q", buffer, HEAD_AT, head)
    with pytest.raises(ProtocolError, match="positions are invalid"):
        ring.read()


def test_size_and_tail_in_the_ring_are_not_believed() -> None:
    buffer = ring_of(64, head=0, tail=0)
    ring = read_up_to(buffer, 48)
    struct.pack_into("<3Q", buffer, HEAD_AT - 8, 1 << 36, 56, 0)
    buffer[abi.RING_HEADER_BYTES + 48 : abi.RING_HEADER_BYTES + 56] = b"the next"
    assert ring.read() == b"the next"
    assert struct.unpack_from("<Q", buffer, HEAD_AT + 8) == (56,)


def test_batches_before_the_damage_are_kept() -> None:
    decoder = Decoder()
    (kept,) = decoder.feed(sample_batch(3) + b"JUNK" + bytes(100))
    assert kept.sequence == 3
    assert decoder.error is not None
    with pytest.raises(ProtocolError, match="batch starts with"):
        decoder.feed(b"")


def test_ring_of_another_version_or_size_is_refused() -> None:
    wrong_magic, wrong_version = ring_of(64, head=0, tail=0), ring_of(64, head=0, tail=0)
    wrong_magic[0] ^= 1
    wrong_version[8] = 77
    for buffer, message in (
        (wrong_magic, "ring starts with"),
        (wrong_version, "version 77"),
        (ring_of(48, head=0, tail=0), "power of two"),
        (ring_of(64, head=0, tail=0)[:-1], "in a mapping for 63"),
    ):
        with pytest.raises(ProtocolError, match=message):
            Ring(buffer).check()
    with pytest.raises(ProtocolError, match="smaller than its header"):
        Ring(bytearray(100))


def test_ring_counters_and_histogram_are_read_by_name() -> None:
    buffer = ring_of(64, head=0, tail=0)
    words = np.frombuffer(buffer, "<u8")
    words[11 : 11 + abi.COUNTER_COUNT] = np.arange(abi.COUNTER_COUNT)
    words[75 : 75 + abi.HANDLER_HISTOGRAM_BUCKETS] = 1000 + np.arange(64)
    ring = Ring(buffer)
    counters = ring.counters()
    assert counters["ticks"] == 0
    assert counters["gap_ns"] == abi.COUNTER_NAMES.index("gap_ns")
    assert ring.handler_histogram() == list(range(1000, 1064))
