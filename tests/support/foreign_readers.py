"""The readers of other profilers' files: a table for ``host_fuzzing``."""

from __future__ import annotations

import copy
import gzip
import io
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import orjson

import foreign_text
from flametap.errors import InputError
from flametap.export import FORMATS
from flametap.export.request import ExportRequest
from flametap.foreign.opening import read_foreign
from flametap.model import Clock
from host_fuzzing import Reader
from profiles import random_profile, small_profile
from recordings import recorded

OPEN_S = 3.0  # of CPU time


def read(data: bytes) -> None:
    """Read a file, and build the tree of each clock."""
    request = ExportRequest(read_foreign(io.BytesIO(data), "x"))
    for clock in Clock:
        request.tree(clock)


def seeds_of(form: str) -> Callable[[Path], Sequence[bytes]]:
    """Return what makes our own files of a format."""

    def seeds(_: Path) -> Sequence[bytes]:
        found = []
        for profile, names in (small_profile(), random_profile(random.Random(1))):
            file = io.BytesIO()
            FORMATS[form].write(ExportRequest(recorded(profile, names)), file)
            data = file.getvalue()
            found.append(gzip.decompress(data) if FORMATS[form].is_compressed else data)
        return found

    return seeds


KEPT = Path(__file__).parents[1] / "data" / "foreign"
ODD = (None, True, -1, -2, 0, 1, 7, 0.5, -1e308, 1e308, 1 << 31, 1 << 53, (1 << 63) - 1, -(1 << 63))
ODD_OTHERS: tuple[Any, ...] = ("", "0x1", "nan", "a" * 99, [], {}, [[]], [{}], {"a": 1}, [None])


def json_seeds(_: Path) -> Sequence[bytes]:
    """Return small files of the formats in JSON that others write."""
    names = ("samply", "tachyon", "chromium-cpu", "pyspy.trace", "viztracer", "pyspy.speedscope")
    paths = [KEPT / f"{name}.json.gz" for name in names]
    found = [gzip.decompress(path.read_bytes()) for path in [*paths, KEPT / "node.cpuprofile.gz"]]
    gecko = {
        "meta": {"interval": 1, "startTime": 0, "sampleUnits": {"threadCPUDelta": "ns"}},
        "libs": [{"name": "a.so", "start": 16, "end": 32}],
        "threads": [
            {
                "name": "GeckoMain",
                "pid": 1,
                "tid": 2,
                "samples": {
                    "schema": {"stack": 0, "time": 1, "threadCPUDelta": 2},
                    "data": [[2, 1, 5], [1, 2, 9], [None, 3, None], [0, 4, 2]],
                },
                "frameTable": {
                    "schema": {"location": 0, "line": 1},
                    "data": [[0, 3], [1], [2, None]],
                },
                "stackTable": {
                    "schema": {"prefix": 0, "frame": 1},
                    "data": [[None, 0], [0, 1], [1, 2]],
                },
                "stringTable": ["0x18", "f (https://a/b.js:1:2)", "g (in libc.so)"],
            }
        ],
    }
    outer = {**gecko, "processes": [{**gecko, "processes": []}]}
    return [*found, *seeds_of("firefox")(_), orjson.dumps(outer)]


def damaged_json(choose: random.Random, seeds: Sequence[bytes]) -> bytes:
    """Return a file with values of its tree replaced, left out, doubled or swapped."""
    data = orjson.loads(choose.choice(seeds))
    for _ in range(choose.choice((1, 1, 1, 2, 3, 8))):
        place, key = data, None
        while isinstance(place, dict | list) and place:
            inner = choose.choice(list(place) if isinstance(place, dict) else range(len(place)))
            if key is not None and choose.random() < 0.15:
                break
            outer, key, place = place, inner, place[inner]
        if key is None:
            break
        what = choose.randrange(8)
        if what == 0:
            del outer[key]
        elif what == 1 and isinstance(outer, list):
            outer.insert(key, place)
        elif what == 2 and isinstance(outer, list):
            other = choose.randrange(len(outer))
            outer[key], outer[other] = outer[other], outer[key]
        elif what == 3 and isinstance(place, int) and not isinstance(place, bool):
            outer[key] = max(
                -(1 << 63), min(place + choose.choice((-1, 1, 2, 1000)), (1 << 63) - 1)
            )
        else:
            odd = choose.choice(ODD if choose.random() < 0.6 else ODD_OTHERS)
            outer[key] = copy.deepcopy(odd)
    text = orjson.dumps(data)
    return text if choose.random() < 0.95 else text[: choose.randrange(len(text))]


def text_seeds(_: Path) -> Sequence[bytes]:
    """Return small files of the formats in text, ours and those of others."""
    return [
        *map(foreign_text.start_of, foreign_text.TEXTS),
        *seeds_of("folded")(_),
        *seeds_of("perf-script")(_),
    ]


TEXT_WORDS = (
    *(
        b"\n",
        b"\n\n",
        b"\t",
        b";",
        b" 1\n",
        b" -1\n",
        b" 0.5\n",
        b" 9223372036854775808\n",
        b" nan\n",
    ),
    *(
        b"# mode: memory\n",
        b"# austin: 4\n",
        b"P1;T0x2;",
        b",1,0\n",
        b":GC:",
        b"[a tid=1];",
        b"_[i]",
    ),
    *(b'process 1:"a";', b"thread (0x1): a;", b" (a.py:1)", b"a-1/2;", b"_[k];", b"a/b/C.d_[0];"),
    *(b"a 1/2 [000] 3.4: 5 cycles: \n", b" (inlined)", b"\n  a.c:1 (inlined)\n", b"->", b"+0x1 ("),
    *(b"PERF_RECORD_LOST lost 9", b"cpu-clock:", b"# flametap 1\n", b"([unknown])", b"\xff", b"\0"),
)


FOREIGN_READERS = {
    f"foreign-{form}": Reader(seeds_of(form), read, (InputError,), words, max_cpu_s=OPEN_S)
    for form, words in (
        ("pprof", ()),
        (
            "speedscope",
            (b"null", b"-1", b"1e999", b"[]", b"{}", b'"evented"', b"9223372036854775808"),
        ),
    )
}
FOREIGN_READERS["foreign-json"] = Reader(
    json_seeds, read, (InputError,), make=damaged_json, max_cpu_s=OPEN_S
)
FOREIGN_READERS["foreign-text"] = Reader(
    text_seeds, read, (InputError,), TEXT_WORDS, max_cpu_s=OPEN_S
)
