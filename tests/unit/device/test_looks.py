"""What a device sends: decoded, placed in files, and added up; nonsense is refused."""

from __future__ import annotations

import random
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from flametap.device.batches import GAP_NS, Batches
from flametap.device.connect import Where, check, explained
from flametap.device.images import UNKNOWN, ImageFacts, image_facts
from flametap.device.looks import DeviceLies, LoadedModule, look_of, modules_of, names_of
from flametap.errors import CannotAttachError, UsageError
from flametap.model import Clock, Verdict
from flametap.recording.profile.store import Profile

RUNNING, WAITING = 0, 2
TICK_US = 20_000
NOW_NS = 10**12
LIBRARY = LoadedModule(0x7000, 0x1000, "/lib/libx.so")


def look(time_us: int, *threads: tuple[int, int, bool, list[int]], lost: int = 0) -> bytes:
    """A look as the agent writes it."""
    words = [time_us, lost]
    for tid, state, is_whole, frames in threads:
        words += [tid, state | is_whole << 8, len(frames), *frames]
    return struct.pack(f"<{len(words)}Q", *words)


def test_look_is_decoded() -> None:
    found = look_of(look(5, (42, RUNNING, True, [0x7010, 0x7020]), (43, WAITING, False, [1])))
    assert found.time_us == 5
    first, second = found.threads
    assert (first.tid, first.state, first.is_whole) == (42, RUNNING, True)
    assert first.frames.tolist() == [0x7010, 0x7020]
    assert not second.is_whole


def test_nonsense_is_refused_and_harms_nothing() -> None:
    rng = random.Random(7)
    good = look(5, (42, RUNNING, True, [0x7010] * 5), (43, WAITING, False, [1]))
    for _ in range(3000):
        data = bytearray(good[: rng.randrange(len(good) + 1)])
        for _ in range(rng.randrange(4)):
            if data:
                data[rng.randrange(len(data))] = rng.choice([0, 1, 0x7F, 0x80, 0xFF])
        try:
            found = look_of(bytes(data))
            Batches(lambda _: UNKNOWN).batch(found, {}, NOW_NS)
        except DeviceLies:
            continue
    for words in (None, 3, [3], [{"base": 7}], [{"base": "zz", "size": 1, "path": "x"}]):
        with pytest.raises(DeviceLies):
            modules_of(words)
    assert modules_of([{"base": "0x7000", "size": -1, "path": "x"}]) == []
    assert names_of([[1, "a"], [2], "b", ["x", "y"]]) == {1: "a"}
    with pytest.raises(DeviceLies):
        names_of({"a": 1})


def recorded(*looks: bytes, names: dict[int, str]) -> tuple[Profile, Batches]:
    profile, batches = Profile(), Batches(lambda _: ImageFacts(0x1000, "abcd"))
    batches.load([LIBRARY], [])
    for number, each in enumerate(looks):
        profile.apply(batches.batch(look_of(each), names, NOW_NS + number * 1000 * TICK_US))
    return profile, batches


def test_time_is_what_a_thread_was_seen_doing() -> None:
    looks = [
        look(TICK_US * n, (42, RUNNING if n % 4 else WAITING, True, [0x7010, 0x7021]))
        for n in range(41)
    ]
    profile, _ = recorded(*looks, names={42: "main"})
    assert profile.total_ns(Clock.WALL) == 40 * 1000 * TICK_US
    assert profile.total_ns(Clock.CPU) == 30 * 1000 * TICK_US
    (info,) = profile.thread_infos()
    assert (info.name, info.tid) == ("main", 42)
    modules = profile.modules
    assert [(each.path, each.build_id) for each in modules.values()] == [("/lib/libx.so", "abcd")]
    # file_addr: where it is linked; of a caller, the byte before it returns to.
    _, addresses = profile.addresses()
    assert set(addresses.tolist()) == {0x1010, 0x1020}
    assert profile.verdicts().native.keys() == {Verdict.GUESSED.name}


def test_long_gap_is_in_no_interval() -> None:
    far_us = 2 * GAP_NS // 1000
    thread = (42, RUNNING, True, [0x7010])
    profile, batches = Profile(), Batches(lambda _: UNKNOWN)
    for time_us in (0, TICK_US, far_us, far_us + TICK_US):
        profile.apply(batches.batch(look_of(look(time_us, thread)), {}, NOW_NS + 1000 * time_us))
    assert profile.total_ns(Clock.CPU) == 2 * 1000 * TICK_US
    assert batches.gap_ns == 1000 * (far_us - TICK_US)


def test_thread_that_is_gone_ends_and_its_number_may_come_again() -> None:
    profile, _ = recorded(
        look(0, (42, RUNNING, True, [1])),
        look(TICK_US, (42, RUNNING, True, [1])),
        look(2 * TICK_US),
        look(3 * TICK_US),
        look(4 * TICK_US, (42, RUNNING, True, [1])),
        names={},
    )
    assert [each.exited for each in profile.thread_infos()] == [True, False]
    # The second one has the time since the look before it was seen.
    assert profile.total_ns(Clock.CPU) == 2 * 1000 * TICK_US


def test_thread_that_could_not_be_looked_at_is_still_there() -> None:
    profile, _ = recorded(
        look(0, (42, RUNNING, True, [1])),
        look(TICK_US, (42, WAITING, False, [])),
        look(2 * TICK_US),
        look(3 * TICK_US, (42, RUNNING, True, [1])),
        names={42: "main"},
    )
    assert [(each.name, each.exited) for each in profile.thread_infos()] == [("main", False)]
    assert profile.total_ns(Clock.CPU) == 3 * 1000 * TICK_US


@pytest.mark.needs("readelf")
def test_file_is_known_by_what_is_loaded_of_it() -> None:
    maps = Path("/proc/self/maps").read_text().splitlines()
    path = next(each.split()[-1] for each in maps if "libc.so" in each or "libc-" in each)
    base = int(next(each for each in maps if each.endswith(path)).partition("-")[0], 16)

    def read(address: int, size: int) -> bytes:
        with open("/proc/self/mem", "rb") as memory:
            memory.seek(address)
            return memory.read(size)

    notes = subprocess.run(["readelf", "-n", path], capture_output=True, text=True, check=True)
    build_id = notes.stdout.partition("Build ID: ")[2].split()[0]
    assert image_facts(read, base) == ImageFacts(0, build_id)


def test_mach_o_is_known_by_its_uuid_and_damage_is_no_harm() -> None:
    uuid = bytes(range(16))
    segment = struct.pack("<II16sQQQQIIII", 0x19, 72, b"__TEXT", 0x100000000, *[0] * 3, 5, 5, 0, 0)
    commands = segment + struct.pack("<II16s", 0x1B, 24, uuid)
    image = struct.pack("<4sIIIIIII", b"\xcf\xfa\xed\xfe", 0, 0, 2, 2, len(commands), 0, 0)
    image += commands

    def reader(data: bytes) -> object:
        return lambda address, size: data[address - 0x5000 : address - 0x5000 + size]

    assert image_facts(reader(image), 0x5000) == ImageFacts(0x100000000, uuid.hex())  # type: ignore[arg-type]
    elf = Path(sys.executable).resolve().read_bytes()[:8192]
    rng = random.Random(3)
    for original in (image, elf):
        for _ in range(500):
            data = bytearray(original[: rng.randrange(len(original))])
            for _ in range(3):
                if data:
                    data[rng.randrange(min(len(data), 256))] = rng.randrange(256)
            image_facts(reader(bytes(data)), 0x5000)  # type: ignore[arg-type]


def test_device_is_named_once() -> None:
    check(Where(usb=True))
    for where in (
        Where(usb=True, host="x"),
        Where(usb=True, token="x"),
        Where(device_id="x", certificate="y"),
    ):
        with pytest.raises(UsageError):
            check(where)


@pytest.mark.parametrize(
    ("said", "what"),
    [
        ("incorrect token", "refuses the token"),
        ("not authorized, authentication required", "asks for a token"),
        ("Connection reset by peer", "ends the connection"),
        ("Unacceptable TLS certificate", "cannot prove who it is"),
    ],
)
def test_errors_of_the_library_are_explained(said: str, what: str) -> None:
    error = explained(RuntimeError(said), Where(host="phone:27042"))
    assert isinstance(error, CannotAttachError)
    assert what in error.message
    assert error.hint
