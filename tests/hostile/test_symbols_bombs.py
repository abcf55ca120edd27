"""Files that are small on disk and large in memory, and names that take for ever or all memory."""

from __future__ import annotations

import json
import lzma
import subprocess
import sys
from pathlib import Path

import pytest

from flametap.model import RawFrame
from flametap.recording.names.table import SymbolTable
from flametap.symbols.names.demangle import demangle_many, strip_clone
from flametap.symbols.symbolizer import Symbolizer
from objects import compile_object, module_of, run, symbols

WAIT_S = 60
SOURCE = "int main(int argc, char **argv) { return argc; }"
MEMORY_BYTES = 200 << 20

# In a process of its own, for its peak of memory.
CHILD = """
import json, sys
from pathlib import Path
from flametap.model import Module, RawFrame
from flametap.recording.names.table import SymbolTable
from flametap.symbols.symbolizer import Symbolizer
path, cache, build_id = sys.argv[1:]
table = SymbolTable()
one = Symbolizer(table, None, cache_dir=Path(cache))
one.add_module(Module(1, path, 0, 0, 1 << 40, build_id))
one.submit_many([(0, RawFrame(1, 0x1100))])
assert one.wait_idle(60)
(source,) = one.sources()
one.close()
status = open("/proc/self/status").read()
peak = int(status.partition("VmHWM:")[2].split()[0]) << 10
json.dump([source.note, peak], sys.stdout)
"""


def with_section(program: Path, name: str, data: bytes) -> Path:
    section = program.with_name("section")
    section.write_bytes(data)
    output = program.with_name("output")
    run(["objcopy", "--strip-all", "--add-section", f"{name}={section}", str(program), str(output)])
    return output


@pytest.mark.needs("gcc")
def test_bomb_in_mini_debug_info_is_a_note(tmp_path: Path) -> None:
    """60 kB that unpack to 400 MB: not in the profiler's memory."""
    program = compile_object(tmp_path, SOURCE, name="program")
    packer = lzma.LZMACompressor(preset=1)
    bomb = b"".join(packer.compress(bytes(4 << 20)) for _ in range(100)) + packer.flush()
    assert len(bomb) < 100_000
    output = with_section(program, ".gnu_debugdata", bomb)
    module = module_of(output)
    command = [sys.executable, "-I", "-c", CHILD, str(output), str(tmp_path / "cache")]
    done = subprocess.run(
        [*command, module.build_id], capture_output=True, text=True, timeout=WAIT_S, check=True
    )
    note, peak = json.loads(done.stdout)
    assert "mini debug info is not used: .gnu_debugdata of" in note
    assert peak < MEMORY_BYTES


@pytest.mark.needs("gcc")
def test_mini_debug_info_that_ends_too_early_is_a_note(tmp_path: Path) -> None:
    program = compile_object(tmp_path, SOURCE, name="program")
    output = with_section(program, ".gnu_debugdata", lzma.compress(bytes(10_000))[:-40])
    table = SymbolTable()
    one = Symbolizer(table, None, cache_dir=tmp_path / "cache")
    one.add_module(module_of(output))
    one.submit_many([(0, RawFrame(1, 0x1100))])
    assert one.wait_idle(WAIT_S)
    (source,) = one.sources()
    one.close()
    assert "it ends too early" in source.note


def rust_bomb(tuples: int) -> str:
    """A Rust v0 name: each tuple holds the one before it twice, by a reference."""

    def number(value: int) -> str:
        digits, left = "", value - 1
        while not digits or left:
            left, digit = divmod(left, 62)
            digits = (
                "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"[digit] + digits
            )
        return digits + "_"

    body = "INvC1a1f"
    last = len(body)
    body += "TllE"
    for _ in range(tuples):
        here = len(body)
        body += "T" + f"B{number(last)}" * 2 + "E"
        last = here
    return f"_R{body}E"


def test_name_of_a_megabyte_is_cut() -> None:
    bomb = rust_bomb(20)
    assert len(bomb) < 300
    short, full = demangle_many([bomb])[bomb]
    assert max(len(short), len(full)) <= 4097


@pytest.mark.needs("gcc")
def test_cut_names_are_marked_and_counted(tmp_path: Path) -> None:
    source = f'int bomb(int x) __asm__("{rust_bomb(20)}");\nint bomb(int x) {{ return x + 1; }}\n'
    program = compile_object(tmp_path, source + SOURCE, name="program")
    start, _ = symbols(program)[rust_bomb(20)]
    table = SymbolTable()
    one = Symbolizer(table, None, cache_dir=tmp_path / "cache")
    one.add_module(module_of(program))
    one.submit_many([(0, RawFrame(1, start))])
    assert one.wait_idle(WAIT_S)
    (source_of_names,) = one.sources()
    (frame,) = table.frames(0)
    one.close()
    assert len(frame.function.name) == 4096
    assert frame.function.name.startswith("a::f")
    assert frame.function.name.endswith("…")
    assert "1 names of over 4,096 characters are cut" in source_of_names.note


@pytest.mark.parametrize(
    "symbol", ["f" + ".llvm.1" * 4000 + ".x", "f" + ".cold" * 6000 + ".x", "f" + ".part.0" * 4000]
)
def test_suffixes_cost_no_more_than_their_length(symbol: str) -> None:
    """A regular expression tried 2^4000 ways, with the interpreter's lock held."""
    command = "import sys; from flametap.symbols.names.demangle import strip_clone as strip\n"
    command += "assert strip(sys.argv[1]) in (sys.argv[1], 'f')"
    subprocess.run([sys.executable, "-I", "-c", command, symbol], timeout=120, check=True)
    assert strip_clone("f.llvm.1.cold") == strip_clone("f.llvm.0A1.part.2") == "f"
