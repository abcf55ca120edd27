"""The rows of real binaries, against what readelf and pyelftools read in the same sections."""

from __future__ import annotations

import re
import subprocess
import sysconfig
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from elftools.dwarf.callframe import FDE
from elftools.dwarf.dwarf_expr import DWARFExprParser
from elftools.dwarf.structs import DWARFStructs
from elftools.elf.elffile import ELFFile

from capabilities import find
from eh_frame import (
    CFA_DEREF_INDEXED,
    CFA_DEREF_RBP,
    CFA_DEREF_REG,
    CFA_DEREF_RSP,
    CFA_NONE,
    CFA_PLT,
    CFA_RBP,
    CFA_REG,
    CFA_RSP,
    CFA_SIGNAL,
    CFA_UNSUPPORTED,
    RA_AT_CFA,
    RA_REG,
    RA_UNDEFINED,
    RBP_DEREF,
    RBP_SAVED,
    RBP_UNDEFINED,
    Compiled,
    Rule,
    compile_section,
    read_section,
)

pytestmark = pytest.mark.needs("readelf")

LIBRARIES = Path("/usr/lib") / (sysconfig.get_config_var("MULTIARCH") or "x86_64-linux-gnu")


def _python_library() -> Path:
    folder, name = sysconfig.get_config_var("LIBDIR"), sysconfig.get_config_var("INSTSONAME")
    return Path(folder or "/") / (name or "absent")


# What exists of these is looked at; libc and the loader always do. With each: the share of its code
# bytes that may have no usable rule: libc's setcontext takes rsp and the return address from a
# structure.
BINARIES = {
    "libc": (LIBRARIES / "libc.so.6", 1e-4),
    "ld.so": (Path("/lib64/ld-linux-x86-64.so.2"), 1e-4),
    "libstdc++": (LIBRARIES / "libstdc++.so.6", 0.0),
    "libcrypto": (LIBRARIES / "libcrypto.so.3", 1e-4),
    "libpython": (_python_library(), 0.0),
    # Debian's node is a small program in front of a library.
    "node": (next(LIBRARIES.glob("libnode.so.*"), Path("/usr/bin/node")), 1e-4),
    "libavcodec": (next(LIBRARIES.glob("libavcodec.so.*"), Path("/absent")), 0.001),
    "postgres": (Path(find("postgres") or "/absent"), 0.0),
    "libjvm": (
        next(Path("/usr/lib/jvm").glob("java-17*/lib/server/libjvm.so"), Path("/absent")),
        0.001,
    ),
}
LARGE = ("node", "libjvm", "libavcodec")
REGISTERS = (
    "rax",
    "rdx",
    "rcx",
    "rbx",
    "rsi",
    "rdi",
    "rbp",
    "rsp",
    *(f"r{n}" for n in range(8, 16)),
)


class Expected(NamedTuple):
    """A row of readelf: its texts for the CFA and for the rules of rbp, rsp and RA."""

    cfa: str
    rbp: str = "u"
    rsp: str = "u"
    ra: str = "u"


NOTHING = Expected("")


def readelf_functions(path: Path) -> Iterator[tuple[int, int, list[tuple[int, Expected]]]]:
    """Each FDE as readelf interprets it: start, end and rows (start, rules), in section order."""
    command = ["readelf", "--wide", "--debug-dump=frames-interp,no-follow-links", str(path)]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    # CIEs are known by their offsets in a section, so there must be one section: .eh_frame.
    assert output.count("Contents of the .") == 1
    initial: dict[str, Expected] = {}
    for paragraph in output.split("\n\n"):
        lines = paragraph.strip().splitlines()
        heads = (i for i, line in enumerate(lines) if " cie=" in line or " CIE " in line)
        heading = next(heads, None)
        if heading is None:
            continue
        columns = lines[heading + 1].split() if len(lines) > heading + 1 else []
        wanted = {i: name for i, name in enumerate(columns) if name in ("rbp", "rsp", "ra")}
        rows = []
        for line in lines[heading + 2 :]:
            # "rdi (rdi)" is one column.
            words = (re.sub(r" \(\S*", "", line) if "(" in line else line).split()
            rules = {name: words[i] for i, name in wanted.items()}
            rows.append((int(words[0], 16), Expected(words[1], **rules)))
        offset = lines[heading].split()[0]
        if " CIE " in lines[heading]:
            initial.update((offset, row) for _, row in rows)
            continue
        found = re.search(r"cie=(\w+) pc=(\w+)\.\.(\w+)", lines[heading])
        assert found, lines[heading]
        start, end = int(found[2], 16), int(found[3], 16)
        # No rows where the program is empty: its CIE's hold.
        yield start, end, rows or [(start, initial[found[1]])]


def expected_rows(path: Path) -> list[tuple[int, Expected]]:
    """readelf's rows of the whole file in our form: sorted, each holds up to the next.

    Of FDEs with the same start the first counts, and a later start ends what stands before it, as
    cfi.c promises.
    """
    functions: dict[int, tuple[int, list[tuple[int, Expected]]]] = {}
    for start, end, rows in readelf_functions(path):
        if start < end:
            functions.setdefault(start, (end, rows))
    table: list[tuple[int, Expected]] = []
    covered = 0
    starts = sorted(functions)
    for start, next_start in zip(starts, [*starts[1:], 1 << 63], strict=True):
        end, rows = functions[start]
        if start > covered:
            table.append((covered, NOTHING))
        end = min(end, next_start)
        by_addr = {addr: row for addr, row in rows if addr < end}
        table.extend(sorted(by_addr.items()))
        covered = end
    return [*table, (covered, NOTHING)]


def agrees(rule: Rule, expected: Expected) -> bool:
    """Whether our rule is what readelf prints. What it prints as ``exp`` is checked elsewhere."""
    if rule.cfa_kind == CFA_NONE or expected == NOTHING:
        return rule.cfa_kind == CFA_NONE and expected == NOTHING
    if rule.cfa_kind == CFA_SIGNAL:
        return expected.cfa == "exp" and expected.ra == "exp"
    if rule.cfa_kind in (CFA_PLT, CFA_DEREF_RSP, CFA_DEREF_RBP, CFA_DEREF_REG, CFA_DEREF_INDEXED):
        cfa = "exp"
    else:
        register = {CFA_RSP: "rsp", CFA_RBP: "rbp"}.get(rule.cfa_kind, REGISTERS[rule.cfa_reg])
        cfa = f"{register}{rule.cfa_off:+d}"
    # Where rsp has a rule of its own, that is what we call the CFA.
    cfa_agrees = cfa == (expected.cfa if expected.rsp == "u" else f"{expected.rsp}+0")
    rbp_agrees = {
        RBP_SAVED: expected.rbp == f"c{rule.rbp_off:+d}",
        RBP_UNDEFINED: expected.rbp == "u" or expected.rbp.startswith("r"),
        RBP_DEREF: expected.rbp == "exp",
    }.get(rule.rbp_kind, expected.rbp in ("u", "s"))
    ra_agrees = {
        RA_AT_CFA: expected.ra == f"c{rule.ra_off:+d}",
        RA_UNDEFINED: expected.ra == "u",
        RA_REG: expected.ra == f"r{rule.ra_off}",
    }[rule.ra_kind]
    return cfa_agrees and rbp_agrees and ra_agrees


def lookup(compiled: Compiled, starts: list[int], addr: int) -> Rule:
    index = bisect_right(starts, addr) - 1
    return compiled.rows[index][1] if index >= 0 else Rule(CFA_NONE)


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.nightly if name in LARGE else ()) for name in BINARIES],
)
def test_rows_agree_with_readelf(name: str, cfi_driver: Path, tmp_path: Path) -> None:
    """Every row of readelf is ours, between its address and the next one's nothing else of ours."""
    path, unsupported_share = BINARIES[name]
    if not path.exists():
        pytest.skip(f"no {path} here")
    compiled = compile_section(cfi_driver, read_section(path), tmp_path)
    assert (compiled.code, compiled.bad_fde_count, compiled.rules_full) == (0, 0, 0)
    table = expected_rows(path)
    assert len(table) > 100
    starts = [addr for addr, _ in compiled.rows]
    ours_within = set(starts)
    wrong: list[str] = []
    unsupported_bytes = code_bytes = 0
    for (addr, expected), (next_addr, _) in zip(table, [*table[1:], table[-1]], strict=True):
        rule = lookup(compiled, starts, addr)
        ours_within.discard(addr)
        if expected != NOTHING:
            code_bytes += next_addr - addr
        if rule.cfa_kind == CFA_UNSUPPORTED:
            unsupported_bytes += next_addr - addr
            complicated = expected.cfa == "exp" or expected.rsp != "u" or expected.ra == "exp"
            if not complicated:
                wrong.append(f"{addr:#x} {expected}: unsupported without need")
        elif not agrees(rule, expected):
            wrong.append(f"{addr:#x} {expected}: {rule}")
    assert wrong == []
    assert ours_within == set(), "rows at addresses where readelf has none"
    print(
        f"{name}: {compiled.fde_count} FDEs, {len(table)} rows of readelf, {len(starts)} of ours, "
        f"{compiled.rule_count} rules, unsupported {unsupported_bytes / code_bytes:.4%}"
    )
    assert unsupported_bytes / code_bytes <= unsupported_share


def operations(expression: list[int], structs: DWARFStructs) -> list[tuple[str, tuple[int, ...]]]:
    parsed = DWARFExprParser(structs).parse_expr(expression)
    return [(op.op_name.removeprefix("DW_OP_"), tuple(op.args)) for op in parsed]


def rule_of_expression(ops: list[tuple[str, tuple[int, ...]]]) -> Rule:
    """The CFA part of the rule that an expression must become, written without a parser."""
    names = [name for name, _ in ops]
    if " ".join(names[:4] + names[5:]) == "breg7 breg16 lit15 and ge lit3 shl plus":
        return Rule(CFA_PLT, extra=int(names[4].removeprefix("lit")))
    if names[:6] == ["breg7", "breg9", "lit8", "mul", "plus", "deref"]:
        extra = ops[6][1][0] if names[6:] == ["plus_uconst"] else 0
        return Rule(CFA_DEREF_INDEXED, cfa_reg=9, cfa_off=ops[0][1][0], extra=extra)
    if names[1:] not in (["deref"], ["deref", "plus_uconst"]):
        return Rule(CFA_UNSUPPORTED)
    register = int(names[0].removeprefix("breg"))
    kind = {6: CFA_DEREF_RBP, 7: CFA_DEREF_RSP}.get(register, CFA_DEREF_REG)
    extra = ops[2][1][0] if len(ops) == 3 else 0
    return Rule(kind, cfa_off=ops[0][1][0], extra=extra)


@pytest.mark.parametrize("name", ["libc", "ld.so", "libcrypto"])
def test_expressions_agree_with_pyelftools(name: str, cfi_driver: Path, tmp_path: Path) -> None:
    path, _ = BINARIES[name]
    if not path.exists():
        pytest.skip(f"no {path} here")
    compiled = compile_section(cfi_driver, read_section(path), tmp_path)
    starts = [addr for addr, _ in compiled.rows]
    checked = 0
    with path.open("rb") as file:
        dwarf = ELFFile(file).get_dwarf_info(relocate_dwarf_sections=False)
        for entry in dwarf.EH_CFI_entries():
            if not isinstance(entry, FDE):
                continue
            # DW_CFA_def_cfa_expression; decoding the table of each function takes minutes.
            if not any(instruction.opcode == 0x0F for instruction in entry.instructions):
                continue
            for row in entry.get_decoded().table:
                if row["cfa"].expr is None:
                    continue
                ours = lookup(compiled, starts, row["pc"])
                checked += 1
                if ours.cfa_kind == CFA_SIGNAL:
                    assert entry.cie is not None
                    assert b"S" in entry.cie.header.augmentation
                    continue
                expected = rule_of_expression(operations(row["cfa"].expr, dwarf.structs))
                indexed = ours.cfa_kind == CFA_DEREF_INDEXED
                found = Rule(
                    ours.cfa_kind,
                    cfa_reg=ours.cfa_reg if indexed else 0,
                    cfa_off=ours.cfa_off,
                    extra=ours.extra,
                )
                assert found == expected, f"{row['pc']:#x}"
    assert checked > 0


C_PROGRAM = """
int sum(const int *v, int n) { int s = 0; for (int i = 0; i < n; i++) s += v[i]; return s; }
int wide(int n) { int v[n]; for (int i = 0; i < n; i++) v[i] = i ^ n; return sum(v, n); }
double realigned(int n) {
    _Alignas(64) double v[16];
    for (int i = 0; i < 16; i++) v[i] = n + i;
    return v[n & 15] + wide(n);
}
int _start(void) { return (int)realigned(3) + wide(5); }
"""
WITHOUT_EH_FRAME = ("-fno-asynchronous-unwind-tables", "-fno-unwind-tables", "-g")


@pytest.mark.needs("gcc")
@pytest.mark.parametrize("flags", [("-gdwarf-4",), ("-gdwarf-5", "-gdwarf64"), ("-gz=zlib",)])
def test_debug_frame_agrees_with_readelf(
    flags: tuple[str, ...], cfi_driver: Path, tmp_path: Path
) -> None:
    """As above, for a program whose only call frame information is debug information."""
    source, program = tmp_path / "a.c", tmp_path / "a"
    source.write_text(C_PROGRAM)
    command = [
        "gcc",
        "-O2",
        *WITHOUT_EH_FRAME,
        *flags,
        "-nostdlib",
        "-o",
        str(program),
        str(source),
    ]
    subprocess.run(command, check=True)
    compiled = compile_section(cfi_driver, read_section(program, ".debug_frame"), tmp_path)
    assert (compiled.code, compiled.bad_fde_count, compiled.rules_full) == (0, 0, 0)
    starts = [addr for addr, _ in compiled.rows]
    table = expected_rows(program)
    assert len(table) > 10
    wrong = [
        f"{addr:#x} {expected}: {lookup(compiled, starts, addr)}"
        for addr, expected in table
        if not agrees(lookup(compiled, starts, addr), expected)
    ]
    assert wrong == []


def test_known_places_in_libc(cfi_driver: Path, tmp_path: Path) -> None:
    """vfork holds its return address in a register, clone's child is a root, one signal return."""
    path = BINARIES["libc"][0]
    compiled = compile_section(cfi_driver, read_section(path), tmp_path)
    rules = [rule for _, rule in compiled.rows]
    assert any(rule.cfa_kind == CFA_SIGNAL for rule in rules)
    assert any(rule.ra_kind == RA_UNDEFINED for rule in rules)
    assert any(rule.ra_kind == RA_REG and rule.ra_off == 5 for rule in rules)
    assert any(rule.cfa_kind == CFA_PLT and rule.extra == 11 for rule in rules)
    assert any(rule.cfa_kind == CFA_REG and rule.ra_kind == RA_REG for rule in rules)
