"""Damaged, hostile and huge object files through a whole symbolizer: a note, never more."""

from __future__ import annotations

import os
import struct
from dataclasses import replace
from pathlib import Path

import pytest

import damage
from flametap.model import RawFrame
from flametap.recording.names.table import SymbolTable
from flametap.symbols.symbolizer import Symbolizer
from objects import compile_object, module_of, open_elf, symbols

pytestmark = pytest.mark.needs("gcc", "g++")

LOADER = Path("/lib64/ld-linux-x86-64.so.2")
SOURCE = """
template <class T> struct Box {
    T value;
    inline __attribute__((always_inline)) T twice(T x) const { volatile T y = x * 2; return y; }
    __attribute__((noinline)) T sum(T *x, int n) const {
        T all = value;
        for (int i = 0; i < n; i++)
            all += twice(x[i]);
        return all;
    }
};
int main(int argc, char **) {
    int x[4] = {argc, 3, 1, 2};
    double y[4] = {1.0 * argc, 3, 1, 2};
    return Box<int>{argc}.sum(x, 4) + (int)Box<double>{1.5}.sum(y, 4);
}
"""
# 48 files take five seconds; python tests/support/damage.py does any number.
ROUNDS = max(1, int(4 * float(os.environ.get("FLAMETAP_TEST_SECONDS", "1")) * 12 / damage.BATCH))
WAIT_S = 60


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("files")
    return [LOADER] + [
        compile_object(folder, SOURCE, "-O2", *flags.split(), name=f"{number}++")
        for number, flags in enumerate(("-gdwarf-5", "-gdwarf-4", "-g -gz", "-s"))
    ]


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_damaged_files_are_answered(files: list[Path], tmp_path: Path, seed: int) -> None:
    cases = damage.make_cases(files, damage.BATCH, seed, tmp_path)
    outcome = damage.symbolize(cases, tmp_path / "cache")
    assert not damage.findings(cases, outcome)
    assert outcome.peak_bytes < 500 << 20


def test_a_name_by_another_build_would_be_found(files: list[Path], tmp_path: Path) -> None:
    """Else the test above says nothing."""
    addrs = [start for start, _ in symbols(files[1]).values()]
    case = damage.Case(str(files[1]), open_elf(files[1]).build_id, addrs, "none", False)
    outcome = damage.symbolize([case], tmp_path / "cache")
    assert outcome.answers[0].source == "symcache"
    assert not damage.findings([case], outcome)
    (found,) = damage.findings([replace(case, is_other_build=True)], outcome)
    assert found.startswith("named by another build")


@pytest.mark.parametrize("name", [".symtab", ".strtab", ".debug_info", ".plt", ".eh_frame_hdr"])
def test_section_of_a_terabyte_is_a_note(files: list[Path], tmp_path: Path, name: str) -> None:
    """A file with holes: it is as large as it says."""
    program = tmp_path / "huge"
    data = bytearray(files[1].read_bytes())
    elf = open_elf(files[1])
    index = next(i for i, section in enumerate(elf.sections) if section.name == name)
    place = struct.unpack_from("<Q", data, 40)[0] + 64 * index
    struct.pack_into("<QQ", data, place + 24, 1 << 32, 1 << 40)
    program.write_bytes(data)
    os.truncate(program, (1 << 40) + (1 << 32))
    table = SymbolTable()
    one = Symbolizer(table, None, cache_dir=tmp_path / "cache")
    start, _ = symbols(files[1])["main"]
    one.add_module(module_of(program))
    one.submit_many([(0, RawFrame(1, start)), (1, RawFrame(1, 0x1010))])
    assert one.wait_idle(WAIT_S)
    (source,) = one.sources()
    assert source.note
    one.close()
