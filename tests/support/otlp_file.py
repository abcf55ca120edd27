"""Read OpenTelemetry's profiles by its own messages, and hold them to what these promise."""

from __future__ import annotations

import gzip
from collections import Counter
from typing import Any, NamedTuple

from opentelemetry.proto.collector.profiles.v1development.profiles_service_pb2 import (
    ExportProfilesServiceRequest,
)

Attributes = dict[str, str | int]


class OtlpSample(NamedTuple):
    """A stack, root first, whose it is, and its time."""

    stack: tuple[str, ...]
    attributes: Attributes
    value: int


class OtlpFile:
    """An ``ExportProfilesServiceRequest``, packed with gzip.

    Attributes:
        resource: its attributes.
        samples: of each profile, by the name of its type.
        profiles: the messages, by the same.
    """

    def __init__(self, data: bytes) -> None:
        sent = ExportProfilesServiceRequest.FromString(gzip.decompress(data))
        self.dictionary = tables = sent.dictionary
        self._check_tables()
        (resource,) = sent.resource_profiles
        (scope,) = resource.scope_profiles
        self.scope = scope.scope
        self.resource = {each.key: each.value.string_value for each in resource.resource.attributes}
        self.profiles = {self._type(each): each for each in scope.profiles}
        assert len(self.profiles) == len(scope.profiles)
        self.samples = {name: self._samples(each) for name, each in self.profiles.items()}
        assert tables.link_table[0].trace_id == bytes(16)

    def sums(self, name: str) -> Counter[tuple[str, ...]]:
        """The values of each stack."""
        found: Counter[tuple[str, ...]] = Counter()
        for sample in self.samples[name]:
            found[sample.stack] += sample.value
        return found

    def attributes(self, indices: Any) -> Attributes:
        """What a list of attributes says."""
        tables, found = self.dictionary, {}
        for index in indices:
            assert index > 0
            entry = tables.attribute_table[index]
            value = entry.value
            said = value.int_value if value.HasField("int_value") else value.string_value
            found[tables.string_table[entry.key_strindex]] = said
        assert len(found) == len(indices)  # no key twice
        return found

    def _check_tables(self) -> None:
        tables = self.dictionary
        for name in ("mapping", "location", "function", "attribute", "stack"):
            entries = getattr(tables, f"{name}_table")
            assert entries[0].ByteSize() == 0, name
            packed = [each.SerializeToString(deterministic=True) for each in entries]
            assert len(set(packed)) == len(packed), f"{name}: an entry is there twice"
        assert tables.string_table[0] == ""
        assert len(set(tables.string_table)) == len(tables.string_table)

    def _type(self, profile: Any) -> str:
        words = list(map(str, self.dictionary.string_table))
        assert words[profile.sample_type.unit_strindex] == "nanoseconds"
        assert len(profile.profile_id) == 16
        return str(words[profile.sample_type.type_strindex])

    def _samples(self, profile: Any) -> list[OtlpSample]:
        tables = self.dictionary
        keys = [(each.stack_index, tuple(each.attribute_indices)) for each in profile.samples]
        assert len(set(keys)) == len(keys), "a sample is there twice"
        found = []
        for sample in profile.samples:
            names: list[str] = []
            for index in tables.stack_table[sample.stack_index].location_indices:
                location = tables.location_table[index]
                assert index > 0
                assert tables.mapping_table[location.mapping_index] is not None
                for line in location.lines:
                    function = tables.function_table[line.function_index]
                    names.append(tables.string_table[function.name_strindex])
            (value,) = sample.values
            attributes = self.attributes(sample.attribute_indices)
            found.append(OtlpSample(tuple(reversed(names)), attributes, value))
        return found
