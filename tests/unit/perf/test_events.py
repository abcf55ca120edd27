"""What the kernel writes into its ring is read as it is, in order of time."""

from __future__ import annotations

import struct
import time

import pytest

from flametap.perf import events
from flametap.perf.events import Forked, Mapped, PerfEvents, Record, Replaced, Sample

PAGE = 4096
REGISTERS = tuple(range(1, 18))


def record(kind: int, body: bytes, misc: int = 2) -> bytes:
    return struct.pack("=IHH", kind, misc, 8 + len(body)) + body


def identity(pid: int, time_ns: int) -> bytes:
    return struct.pack("=IIQ", pid, pid, time_ns)


def sample(pid: int, time_ns: int, stack: bytes, *, misc: int = 2, abi: int = 2) -> bytes:
    head = struct.pack("=QIIQQ", 0x10, pid, pid, time_ns, abi)
    if abi != 2:
        return record(9, head + struct.pack("=Q", 0), misc)
    asked = stack.ljust(64, b"\xee")
    body = head + struct.pack("=17Q", *REGISTERS) + struct.pack("=Q", 64) + asked
    return record(9, body + struct.pack("=Q", len(stack)), misc)


def mapped(pid: int, time_ns: int, path: bytes) -> bytes:
    body = struct.pack("=IIQQQIIQQII", pid, pid, 0x1000, 0x2000, 0x3000, 8, 1, 42, 0, 5, 2)
    return record(
        10, body + path.ljust(-(-(len(path) + 1) // 8) * 8, b"\0") + identity(pid, time_ns)
    )


def task(kind: int, pid: int, parent: int, time_ns: int) -> bytes:
    body = struct.pack("=IIIIQ", pid, parent, pid, parent, time_ns)
    return record(kind, body + identity(pid, time_ns))


def comm(pid: int, time_ns: int, misc: int) -> bytes:
    return record(
        3, struct.pack("=II", pid, pid) + b"ls\0\0\0\0\0\0" + identity(pid, time_ns), misc
    )


class FakeRing:
    def __init__(self, data: bytes) -> None:
        self.data = data

    def read(self) -> bytes:
        found, self.data = self.data, b""
        return found


def reader(*rings: bytes) -> PerfEvents:
    found = PerfEvents.__new__(PerfEvents)
    found.lost = 0
    found._early = []
    found._rings = [FakeRing(each) for each in rings]  # type: ignore[misc]
    return found


def test_records_of_all_cpus_are_in_order_of_time() -> None:
    first = task(7, 11, 10, 100) + mapped(11, 300, b"/bin/ls") + sample(11, 500, b"\x01" * 16)
    second = comm(11, 200, 2 | 1 << 13) + sample(11, 400, b"", misc=1) + task(4, 11, 10, 600)
    found: list[Record] = reader(first, second).read()
    assert found == [
        Forked(100, 11, 10),
        Replaced(200, 11, "ls"),
        Mapped(300, 11, 0x1000, 0x3000, 0x3000, 42, "/bin/ls"),
        Sample(400, 11, 11, True, REGISTERS, b""),
        Sample(500, 11, 11, False, REGISTERS, b"\x01" * 16),
    ]


def test_threads_and_new_names_are_left_out() -> None:
    data = task(7, 10, 10, 100) + comm(10, 200, 2) + sample(12, 400, b"")
    assert [each.pid for each in reader(data).read()] == [12]


def test_thread_without_registers_and_lost_records_are_told() -> None:
    lost = record(2, struct.pack("=QQ", 1, 7) + identity(10, 5))
    found = reader(sample(10, 300, b"", abi=0) + lost)
    assert found.read() == [Sample(300, 10, 10, False, (), b"", has_memory=False)]
    assert found.lost == 7


def test_what_a_cpu_writes_amid_a_reading_comes_with_the_next() -> None:
    """It may follow what another CPU has written after its ring was read."""
    later_ns = time.monotonic_ns() + 50_000_000
    found = reader(sample(10, 300, b"") + sample(11, later_ns, b""))
    assert [each.pid for each in found.read()] == [10]
    time.sleep(0.06)
    found._rings[0].data = sample(12, later_ns - 1, b"")  # type: ignore[attr-defined]
    assert [each.pid for each in found.read()] == [12, 11]


def test_rings_are_alike_and_as_large_as_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user may lock so much memory of all CPUs together."""
    left = [(4 * 32 + 4) * PAGE]

    def mapped(_: int, size: int) -> bytearray:
        if size > left[0]:
            raise PermissionError
        left[0] -= size
        return bytearray(size)

    def again(*arguments: int) -> bytearray:
        try:
            return mapped(*arguments)
        except PermissionError:
            left[0] = (4 * 32 + 4) * PAGE
            raise

    monkeypatch.setattr("flametap.perf.events.mmap.mmap", again)
    rings = events._rings([3, 4, 5, 6], 4096)
    assert [each._size for each in rings] == [32 * PAGE] * 4


@pytest.mark.parametrize("cut", [1, 7])
def test_end_of_the_data_amid_a_record_ends_it(cut: int) -> None:
    data = task(7, 11, 10, 100)
    assert reader(data + data[:cut]).read() == [Forked(100, 11, 10)]


def test_rings_take_a_part_of_the_memory() -> None:
    for cpus in (1, 2, 64, 4096):
        pages = events._power_of_two(events.MOST_RINGS_BYTES // PAGE // cpus)
        assert pages & (pages - 1) == 0
        assert pages == events._LEAST_RING_PAGES or pages * cpus * PAGE <= events.MOST_RINGS_BYTES
