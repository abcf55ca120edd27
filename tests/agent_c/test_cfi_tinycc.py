"""The same text under Frida's TinyCC: it compiles, and gives the same rows as under gcc."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import frida
import pytest

from agent_build import CFI_SOURCES, run_driver
from eh_frame import HEADER, ROW, RULE, driver_arguments, read_section
from flametap.agent import source
from flametap.inject.frida import quirks

pytestmark = pytest.mark.needs("attach", "gcc")

LIBC = Path("/lib/x86_64-linux-gnu/libc.so.6")
SCRIPT = """
const INPUT_BYTES = 48, RESULT_BYTES = 20, TABLE_BYTES = 4 + 65535 * 20 + 131072 * 4;
let module = null;
rpc.exports = {
  compile(text, fileAddr, textStart, textEnd, section) {
    module = new CModule(text);
    const rowLimit = new NativeFunction(module.cfi_row_limit, 'uint', ['pointer']);
    const scratchBytes = new NativeFunction(module.cfi_scratch_bytes, 'uint64', ['pointer']);
    const compile = new NativeFunction(
      module.cfi_compile, 'int', ['pointer', 'pointer', 'pointer', 'uint', 'pointer', 'pointer']);
    const bytes = Memory.alloc(section.byteLength);
    bytes.writeByteArray(section);
    const input = Memory.alloc(INPUT_BYTES);
    input.writePointer(bytes);
    [section.byteLength, fileAddr, textStart, textEnd].forEach((value, i) =>
      input.add(8 * (i + 1)).writeU64(value));
    const table = Memory.alloc(TABLE_BYTES);
    const limit = rowLimit(input);
    const rows = Memory.alloc(limit * 8);
    const scratch = Memory.alloc(Number(scratchBytes(input)));
    const result = Memory.alloc(RESULT_BYTES);
    const begin = Date.now();
    const code = compile(input, table, rows, limit, scratch, result);
    const spent = Date.now() - begin;
    send({code, limit, spent});
    send('result', result.readByteArray(RESULT_BYTES));
    send('rules', table.readByteArray(4 + table.readU32() * 20));
    send('rows', rows.readByteArray(result.readU32() * 8));
  },
};
"""


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[int]:
    """A process of ours that waits for its input to end."""
    program = tmp_path / "sleeper"
    text = "#include <unistd.h>\nint main(void) { char c; return (int)read(0, &c, 1); }\n"
    build = ["gcc", "-x", "c", "-", "-o", str(program)]
    subprocess.run(build, input=text, text=True, check=True)
    with subprocess.Popen([program], stdin=subprocess.PIPE) as process:
        yield process.pid
        process.communicate(timeout=60)


@pytest.mark.nightly  # Frida's own attach, which may hang on a busy machine
@pytest.mark.skipif(not LIBC.exists(), reason="no libc at Debian's place")
def test_rows_under_tinycc_are_those_under_gcc(
    sleeper: int, cfi_driver: Path, tmp_path: Path
) -> None:
    section = read_section(LIBC)
    messages: list[dict[str, Any]] = []
    data: dict[str, bytes] = {}

    def on_message(message: Any, blob: bytes | None) -> None:
        messages.append(message)
        if blob is not None:
            data[message["payload"]] = blob

    # As the profiler does: else Frida starts a daemon by way of a child of ours.
    quirks.refuse_folders(frida._frida.__file__)
    session = frida.attach(
        sleeper,
        exceptor="off",
        unwind_broker=False,
        exit_monitor=False,
        thread_suspend_monitor=False,
    )
    try:
        script = session.create_script(SCRIPT)
        script.on("message", on_message)
        script.load()
        addresses = section.file_addr, section.text_start, section.text_end
        script.exports_sync.compile(source(CFI_SOURCES), *addresses, section.data)
        script.unload()
    finally:
        session.detach()

    gcc = run_driver(cfi_driver, "rows", *driver_arguments(section, tmp_path))
    code, *counters, limit, rule_count = HEADER.unpack_from(gcc)
    rules_end = HEADER.size + rule_count * RULE.size
    assert messages[0]["payload"]["code"] == code == 0
    assert messages[0]["payload"]["limit"] == limit
    assert data["result"] == HEADER.pack(code, *counters, limit, rule_count)[4:-8]
    assert data["rules"][4:] == gcc[HEADER.size : rules_end]
    assert data["rows"] == gcc[rules_end:]
    assert len(data["rows"]) == counters[0] * ROW.size
    # 2 ms where this was written; a module is compiled while its first sample waits.
    assert messages[0]["payload"]["spent"] < 500
