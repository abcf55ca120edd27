"""Inflating compressed sections: what zlib packs comes out again, what is damaged does no harm."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_build import QUICK, SANITIZERS, build_driver, run_driver

DRIVER = Path(__file__).parent / "inflate_driver.c"
CHOSEN = random.Random(7)
TEXTS = {
    "nothing": b"",
    "one byte": b"x",
    "a run": b"a" * 100_000,
    "noise": CHOSEN.randbytes(70_000),
    "words": b" ".join(CHOSEN.choice([b"frame", b"rule", b"row", b"pc"]) for _ in range(30_000)),
    "far matches": (far := CHOSEN.randbytes(32_000)) + far,
    "a program": Path(__file__).read_bytes(),
}


@pytest.fixture(scope="module")
def inflate_driver(require_capability: Callable[[str], str]) -> Path:
    require_capability("sanitizers")
    names = ("platform/atomics.h", "unwind/inflate.c")
    return build_driver(DRIVER, names, (*SANITIZERS, *QUICK))


@pytest.mark.parametrize("level", [0, 1, 9])
@pytest.mark.parametrize("name", TEXTS)
def test_what_zlib_packs_comes_out(
    inflate_driver: Path, name: str, level: int, tmp_path: Path
) -> None:
    packed = tmp_path / "packed"
    packed.write_bytes(zlib.compress(TEXTS[name], level))
    assert run_driver(inflate_driver, packed, len(TEXTS[name])) == TEXTS[name]


def test_fixed_codes(inflate_driver: Path, tmp_path: Path) -> None:
    packer = zlib.compressobj(9, strategy=zlib.Z_FIXED)
    packed = tmp_path / "packed"
    packed.write_bytes(packer.compress(TEXTS["words"]) + packer.flush())
    assert run_driver(inflate_driver, packed, len(TEXTS["words"])) == TEXTS["words"]


@pytest.mark.parametrize("wrong", ["short", "long", "cut"])
def test_another_size_is_refused(inflate_driver: Path, wrong: str, tmp_path: Path) -> None:
    data = zlib.compress(TEXTS["words"])
    packed = tmp_path / "packed"
    packed.write_bytes(data[:-20] if wrong == "cut" else data)
    size = len(TEXTS["words"]) + {"short": -1, "long": 1, "cut": 0}[wrong]
    with pytest.raises(RuntimeError, match="ended with 1"):
        run_driver(inflate_driver, packed, size)


@pytest.mark.parametrize("name", ["words", "noise", "a program"])
def test_random_damage(inflate_driver: Path, name: str, tmp_path: Path) -> None:
    packed = tmp_path / "packed"
    packed.write_bytes(zlib.compress(TEXTS[name][:4000]))
    run_driver(inflate_driver, packed, 4000, 3000)
