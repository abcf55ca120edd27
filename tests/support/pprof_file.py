"""Read a pprof file by its schema, field by field: not as the exporter writes it."""

from __future__ import annotations

import gzip
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Any

# Field numbers of proto/profile.proto: name → (number, what it is).
Schema = dict[int, tuple[str, Any]]
NUMBER, TEXT = "number", "text"
VALUE_TYPE: Schema = {1: ("type", NUMBER), 2: ("unit", NUMBER)}
LABEL: Schema = {1: ("key", NUMBER), 2: ("str", NUMBER), 3: ("num", NUMBER), 4: ("unit", NUMBER)}
SAMPLE: Schema = {1: ("location", NUMBER), 2: ("value", NUMBER), 3: ("label", LABEL)}
MAPPING: Schema = {
    1: ("id", NUMBER),
    2: ("start", NUMBER),
    3: ("limit", NUMBER),
    4: ("offset", NUMBER),
    5: ("filename", NUMBER),
    6: ("build_id", NUMBER),
    7: ("has_functions", NUMBER),
    8: ("has_filenames", NUMBER),
    9: ("has_lines", NUMBER),
    10: ("has_inlined", NUMBER),
}
LINE: Schema = {1: ("function", NUMBER), 2: ("line", NUMBER)}
LOCATION: Schema = {
    1: ("id", NUMBER),
    2: ("mapping", NUMBER),
    3: ("address", NUMBER),
    4: ("line", LINE),
}
FUNCTION: Schema = {
    number: (name, NUMBER)
    for number, name in enumerate(("id", "name", "system_name", "filename"), 1)
}
PROFILE: Schema = {
    1: ("sample_type", VALUE_TYPE),
    2: ("sample", SAMPLE),
    3: ("mapping", MAPPING),
    4: ("location", LOCATION),
    5: ("function", FUNCTION),
    6: ("string", TEXT),
    9: ("time_ns", NUMBER),
    10: ("duration_ns", NUMBER),
    11: ("period_type", VALUE_TYPE),
    12: ("period", NUMBER),
    13: ("comment", NUMBER),
    14: ("default", NUMBER),
}


@dataclass(frozen=True)
class Sample:
    """A sample: function names, root first, with values by type and labels by key."""

    stack: tuple[str, ...]
    values: dict[str, int]
    labels: dict[str, Any]

    @property
    def thread(self) -> str:
        """The thread as other formats name it."""
        return f"{self.labels['thread']} ({self.labels['tid']})"


class PprofFile:
    """A file; its ``fields`` are those of Profile, lists of numbers, texts and dicts."""

    def __init__(self, data: bytes) -> None:
        self.fields = _message(gzip.decompress(data), PROFILE)
        self.strings = [each.decode("utf-8") for each in self.fields["string"]]
        assert self.strings[0] == ""
        self.types = [self.strings[each["type"][0]] for each in self.fields["sample_type"]]
        self.default = self.strings[self.fields["default"][0]]
        self.comments = [self.strings[each] for each in self.fields["comment"]]
        self.mappings = self._by_id("mapping")
        self.functions = self._by_id("function")
        self.locations = self._by_id("location")
        self.samples = [self._sample(each) for each in self.fields["sample"]]

    def text(self, entry: dict[str, Any], name: str) -> str:
        """A text of a message; "" if it is not there."""
        return self.strings[entry[name][0]] if entry[name] else ""

    def lines(self, location: int) -> list[tuple[str, str, int]]:
        """Function, file and line of each frame of a location, innermost first."""
        found = []
        for each in self.locations[location]["line"]:
            function = self.functions[each["function"][0]]
            line = each["line"][0] if each["line"] else 0
            found.append((self.text(function, "name"), self.text(function, "filename"), line))
        return found

    def sums(self, of: str) -> dict[str, Counter[tuple[str, ...]]]:
        """Thread → stack → the sum of values of one type."""
        found: dict[str, Counter[tuple[str, ...]]] = defaultdict(Counter)
        for each in self.samples:
            if each.values[of]:
                found[each.thread][each.stack] += each.values[of]
        return dict(found)

    def _by_id(self, name: str) -> dict[int, dict[str, Any]]:
        found = {each["id"][0]: each for each in self.fields[name]}
        assert len(found) == len(self.fields[name])
        assert 0 not in found
        return found

    def _sample(self, entry: dict[str, Any]) -> Sample:
        frames = [line[0] for each in entry["location"] for line in self.lines(each)]
        assert len(entry["value"]) == len(self.types)
        labels: dict[str, Any] = {}
        for each in entry["label"]:
            value = self.text(each, "str") if each["str"] else each["num"][0]
            labels[self.text(each, "key")] = value
        assert len(labels) == len(entry["label"])
        return Sample(
            tuple(frames[::-1]), dict(zip(self.types, entry["value"], strict=True)), labels
        )


def _message(data: bytes, schema: Schema) -> dict[str, Any]:
    found: dict[str, Any] = {name: [] for name, _ in schema.values()}
    at = 0
    while at < len(data):
        tag, at = _number(data, at)
        name, what = schema[tag >> 3]
        if tag & 7 == 0:
            assert what == NUMBER
            value, at = _number(data, at)
            found[name].append(value)
            continue
        assert tag & 7 == 2
        size, at = _number(data, at)
        part = data[at : at + size]
        assert len(part) == size
        at += size
        if what == NUMBER:
            place = 0
            while place < size:
                value, place = _number(part, place)
                found[name].append(value)
        else:
            found[name].append(part if what == TEXT else _message(part, what))
    return found


def _number(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if byte < 0x80:
            return value - (1 << 64) if value >> 63 else value, at
