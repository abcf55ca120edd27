"""Reading ``/proc``: what the kernel says about a process. Decides nothing, changes nothing, stops
nobody.

Every function takes the folder ``proc`` so that tests can lay out one of their own. A process may
go at any moment: ``FileNotFoundError`` and ``ProcessLookupError`` then come out of every function
here (see ``GONE``), and ``PermissionError`` where the kernel asks for the right to trace.

Source: proc(5), Documentation/filesystems/proc.rst, cgroups(7).
"""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass

from .maps import Mapping, read_maps

PROC = "/proc"

GONE = (FileNotFoundError, ProcessLookupError)  # what a read says when the process has gone

PF_KTHREAD = 0x0020_0000  # include/linux/sched.h; flags are field 9 of /proc/PID/stat

CAP_DAC_OVERRIDE = 1
CAP_SYS_PTRACE = 19  # include/uapi/linux/capability.h
CAP_SYS_ADMIN = 21
CAP_SYS_RESOURCE = 24

SECCOMP_STRICT = 1
SECCOMP_FILTER = 2


@dataclass(frozen=True)
class ProcessStatus:
    """The lines of ``/proc/PID/status`` we use.

    Every user may read them, unless ``/proc`` is mounted with hidepid.
    """

    name: str
    state: str  # one letter: R S D T t Z X I
    pid: int
    thread_group: int  # the process a thread belongs to; equal to ``pid`` for a process
    parent: int
    tracer: int  # 0 if nobody traces it
    uids: tuple[int, int, int, int]  # real, effective, saved, file system
    gids: tuple[int, int, int, int]
    threads: int
    capabilities_permitted: int  # bit mask
    capabilities_effective: int
    seccomp: int  # 0 none, 1 strict, 2 filter
    own_pid: int  # what the process itself sees: in the innermost of its pid namespaces
    groups: frozenset[int] = frozenset()  # supplementary ones


@dataclass(frozen=True)
class TaskTimes:
    """What a thread has used up to now, or between two readings (their difference)."""

    user_ns: int  # in units of 10 ms
    system_ns: int  # in units of 10 ms
    page_faults: int  # minor ones
    cpu_ns: int | None  # all of it, exactly; None if it was not asked for, or is not told

    def __sub__(self, before: TaskTimes) -> TaskTimes:
        is_known = self.cpu_ns is not None and before.cpu_ns is not None
        return TaskTimes(
            self.user_ns - before.user_ns,
            self.system_ns - before.system_ns,
            self.page_faults - before.page_faults,
            (self.cpu_ns or 0) - (before.cpu_ns or 0) if is_known else None,
        )


def list_pids(proc: str = PROC) -> list[int]:
    """Every process visible to us, in ascending order."""
    return sorted(int(name) for name in os.listdir(proc) if name.isdigit())


def read_status(pid: int, proc: str = PROC) -> ProcessStatus:
    """Parses ``/proc/PID/status``."""
    lines = _read_fields(f"{proc}/{pid}/status")
    uids = [int(field) for field in lines["Uid"].split()]
    gids = [int(field) for field in lines["Gid"].split()]
    return ProcessStatus(
        name=lines["Name"],
        state=lines["State"][:1],
        pid=int(lines["Pid"]),
        thread_group=int(lines["Tgid"]),
        parent=int(lines["PPid"]),
        tracer=int(lines["TracerPid"]),
        uids=(uids[0], uids[1], uids[2], uids[3]),
        gids=(gids[0], gids[1], gids[2], gids[3]),
        threads=int(lines.get("Threads", "0")),
        capabilities_permitted=int(lines.get("CapPrm", "0"), 16),
        capabilities_effective=int(lines.get("CapEff", "0"), 16),
        seccomp=int(lines.get("Seccomp", "0")),
        own_pid=int(lines.get("NSpid", lines["Pid"]).split()[-1]),
        groups=frozenset(map(int, lines.get("Groups", "").split())),
    )


def list_tasks(pid: int, proc: str = PROC) -> list[int]:
    """The threads of a process."""
    return [int(name) for name in os.listdir(f"{proc}/{pid}/task")]


def read_task_state(pid: int, tid: int, proc: str = PROC) -> str:
    """One letter: R S D T t Z X I."""
    return _stat_fields(f"{proc}/{pid}/task/{tid}")[0]


def read_task_times(pid: int, tid: int, proc: str = PROC, *, is_exact: bool) -> TaskTimes:
    """What a thread has used. ``is_exact``: read a second file, for the exact sum."""
    fields = _stat_fields(f"{proc}/{pid}/task/{tid}")
    unit_ns = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    # Fields 14, 15 and 10.
    user_ns, system_ns, faults = int(fields[11]), int(fields[12]), int(fields[7])
    cpu_ns = None
    if is_exact:
        with contextlib.suppress(FileNotFoundError):  # a kernel without CONFIG_SCHED_INFO
            cpu_ns = read_task_cpu_ns(pid, tid, proc)
    return TaskTimes(user_ns * unit_ns, system_ns * unit_ns, faults, cpu_ns)


def read_task_cpu_ns(pid: int, tid: int, proc: str = PROC) -> int:
    """The exact CPU time of a thread. ``FileNotFoundError``, too, without CONFIG_SCHED_INFO."""
    return int(_read(f"{proc}/{pid}/task/{tid}/schedstat").split()[0])


def read_start_ticks(pid: int, proc: str = PROC) -> int:
    """When the process started, in clock ticks since the machine did; tells processes apart that
    had the same number.
    """
    fields = _stat_fields(f"{proc}/{pid}")
    return int(fields[19])  # field 22, starttime


def read_exit_status(pid: int, proc: str = PROC) -> int | None:
    """How a zombie ended, as wait(2) gives it; None for a process that is none.

    The kernel answers 0 where we lack the right to trace.
    """
    fields = _stat_fields(f"{proc}/{pid}")
    return int(fields[49]) if fields[0] in "ZX" else None  # field 52, exit_code


def read_start_s(pid: int, proc: str = PROC) -> float:
    """When the process started, on the clock of ``time.time``; right to some hundredths of a
    second unless that clock was set since.
    """
    since_boot_s = read_start_ticks(pid, proc) / os.sysconf("SC_CLK_TCK")
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + since_boot_s


def read_monotonic_offset_ns(pid: int, proc: str = PROC) -> int:
    """How far CLOCK_MONOTONIC of a process is ahead of the machine's: it may be in a time namespace
    of its own. time_namespaces(7).

    0 on a kernel without these, and for a process that has made one for its children alone.
    """
    folder = f"{proc}/{pid}"
    try:
        if os.readlink(f"{folder}/ns/time") != os.readlink(f"{folder}/ns/time_for_children"):
            return 0
        lines = _read_lines(f"{folder}/timens_offsets")
    except FileNotFoundError:
        return 0
    for line in lines:
        name, *fields = line.split()
        if name == "monotonic" and len(fields) == 2:
            return int(fields[0]) * 1_000_000_000 + int(fields[1])
    return 0


def read_task_seccomp(pid: int, tid: int, proc: str = PROC) -> tuple[int, int]:
    """(mode, number of filters) of a thread; before Linux 5.9 the number is given as 1."""
    lines = _read_fields(f"{proc}/{pid}/task/{tid}/status")
    mode = int(lines.get("Seccomp", "0"))
    return mode, int(lines.get("Seccomp_filters", "1")) if mode == SECCOMP_FILTER else 0


def is_kernel_thread(pid: int, proc: str = PROC) -> bool:
    """True for a thread of the kernel: it has no program and no memory of its own."""
    return bool(_flags(f"{proc}/{pid}") & PF_KTHREAD)


def read_task_flags(pid: int, tid: int, proc: str = PROC) -> int:
    """What the kernel notes of a thread: ``PF_…`` of <linux/sched.h>."""
    return _flags(f"{proc}/{pid}/task/{tid}")


def read_task_cpu(pid: int, tid: int, proc: str = PROC) -> int:
    """The number of the CPU on which a thread ran last. proc(5), ``stat``

    Raises:
        OSError, ValueError, IndexError: it has ended.
    """
    return int(_read(f"{proc}/{pid}/task/{tid}/stat").rpartition(")")[2].split()[39 - 3])


def read_task_name(pid: int, tid: int, proc: str = PROC) -> str:
    """What a thread is called: up to 15 bytes."""
    return _read(f"{proc}/{pid}/task/{tid}/comm").rstrip("\n")


def read_command(pid: int, proc: str = PROC) -> str:
    """The command line as one printable line, or ``[name]`` for a process without one."""
    command = _read(f"{proc}/{pid}/cmdline").replace("\0", " ").strip()
    if not command:
        command = f"[{read_status(pid, proc).name}]"
    # A command line is data of somebody else: it must not move our terminal's cursor.
    return "".join(c if c.isprintable() else "?" for c in command)


def read_mappings(pid: int, proc: str = PROC) -> list[Mapping]:
    """The named mappings in ascending order, no anonymous memory. Needs the right to trace."""
    return [mapping for mapping in read_maps(f"{proc}/{pid}") if mapping.path]


def may_trace(pid: int, proc: str = PROC) -> bool:
    """True if the kernel lets us trace the process now.

    Opening ``/proc/PID/mem`` passes the very check that ``PTRACE_SEIZE`` passes (uid, capabilities,
    dumpable flag, yama and other security modules), and has no effect on the process.
    Source: fs/proc/base.c ``mem_open``, kernel/ptrace.c ``__ptrace_may_access``, ptrace(2).
    """
    try:
        os.close(os.open(f"{proc}/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC))
    except PermissionError:
        return False
    return True


def is_non_dumpable(pid: int, status: ProcessStatus, proc: str = PROC) -> bool:
    """True if the process hides its memory from its own user (setuid programs, ssh-agent)."""
    # Then root owns the files in its folder, though not the folder itself (task_dump_owner).
    return os.stat(f"{proc}/{pid}/status").st_uid != status.uids[1]


def same_namespace(pid: int, kind: str, proc: str = PROC) -> bool | None:
    """True if the process shares our namespace of that kind (``user``); None if not visible."""
    try:
        return os.readlink(f"{proc}/{pid}/ns/{kind}") == os.readlink(f"{proc}/self/ns/{kind}")
    except OSError:
        return None


def read_yama_scope(proc: str = PROC) -> int:
    """``kernel.yama.ptrace_scope``; 0 on kernels without yama."""
    try:
        return int(_read(f"{proc}/sys/kernel/yama/ptrace_scope"))
    except (OSError, ValueError):
        return 0


def read_memory_info(proc: str = PROC) -> dict[str, int]:
    """The lines of ``meminfo`` that are amounts, in bytes; empty if it cannot be read."""
    try:
        fields = _read_fields(f"{proc}/meminfo")
    except OSError:
        return {}
    pairs = ((name, value.split()) for name, value in fields.items())
    return {name: 1024 * int(words[0]) for name, words in pairs if words[1:] == ["kB"]}


def open_program(pid: int, proc: str = PROC) -> int:
    """A descriptor of the executable, also if it was deleted or lies in another mount namespace."""
    return os.open(f"{proc}/{pid}/exe", os.O_RDONLY | os.O_CLOEXEC)


def read_limits(pid: int, name: str, proc: str = PROC) -> tuple[int | None, int | None]:
    """The soft and the hard limit of that name in ``/proc/PID/limits``; None for no limit."""
    for line in _read_lines(f"{proc}/{pid}/limits"):
        if line.startswith(name):
            soft, hard = line[len(name) :].split()[:2]
            return int(soft) if soft.isdigit() else None, int(hard) if hard.isdigit() else None
    return None, None


def spare_descriptors(pid: int, proc: str = PROC) -> int | None:
    """How many more files the process may open (RLIMIT_NOFILE); None for no limit."""
    limit, _ = read_limits(pid, "Max open files", proc)
    try:
        return None if limit is None else limit - len(os.listdir(f"{proc}/{pid}/fd"))
    except FileNotFoundError:
        return None  # its main thread has ended


def spare_address_bytes(pid: int, proc: str = PROC) -> int | None:
    """How much more memory the process may map (RLIMIT_AS); None for no limit."""
    limit, _ = read_limits(pid, "Max address space", proc)
    if limit is None:
        return None
    return limit - int(_read(f"{proc}/{pid}/statm").split()[0]) * os.sysconf("SC_PAGESIZE")


def spare_data_bytes(pid: int, proc: str = PROC) -> int | None:
    """How much more private memory the process may map (RLIMIT_DATA); None for no limit."""
    limit, _ = read_limits(pid, "Max data size", proc)
    if limit is None:
        return None
    used = _read_fields(f"{proc}/{pid}/status").get("VmData", "0 kB")
    return limit - 1024 * int(used.split()[0])


def spare_mappings(pid: int, proc: str = PROC) -> int | None:
    """How many more mappings the process may have (vm.max_map_count); None if that is not known."""
    try:
        limit = int(_read(f"{proc}/sys/vm/max_map_count"))
    except (OSError, ValueError):
        return None
    with open(f"{proc}/{pid}/maps", "rb") as lines:
        return limit - sum(1 for _ in lines)


def control_group_folders(pid: int, controller: str, proc: str = PROC) -> list[str]:
    """The folders that hold the process's limits for a controller, innermost first.

    Knows version 1 and version 2 mounts.
    """
    folders = []
    groups = [line.split(":", 2) for line in _read_lines(f"{proc}/{pid}/cgroup")]
    for line in _read_lines(f"{proc}/self/mountinfo"):
        left, _, right = line.partition(" - ")
        kind, _, options = right.split(" ", 2)
        root, mount_point = left.split(" ")[3:5]
        for _, controllers, path in groups:
            unified = kind == "cgroup2" and not controllers
            legacy = (
                kind == "cgroup"
                and controller in options.split(",")
                and (controller in controllers.split(","))
            )
            if not (unified or legacy) or path.startswith("/.."):
                continue
            inner = path[len(root) :] if root != "/" and path.startswith(root) else path
            folder = mount_point + (inner if inner != "/" else "")
            while folder.startswith(mount_point):
                folders.append(folder)
                folder = folder.rpartition("/")[0]
    return folders


def read_group_number(path: str) -> int | None:
    """Return a number in a file of a control group; None for no limit, and if there is no file."""
    try:
        text = _read(path).strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None


def is_frozen(pid: int, proc: str = PROC) -> bool:
    """True if a control group holds the process frozen (``docker pause``, for example)."""
    for folder in control_group_folders(pid, "freezer", proc):
        try:
            if "frozen 1" in _read(f"{folder}/cgroup.events"):
                return True
        except OSError:
            pass
        try:
            if _read(f"{folder}/freezer.state").strip() != "THAWED":
                return True
        except OSError:
            pass
    return False


def _read_fields(path: str) -> dict[str, str]:
    """Parse a file of lines ``key: value``."""
    lines = (line.partition(":") for line in _read_lines(path))
    return {key: value.strip() for key, _, value in lines}


def _read_lines(path: str) -> list[str]:
    """Read the lines of a file. The kernel escapes line feeds in names, and no other character that
    ``str.splitlines`` or Python's universal newlines take for the end of a line.
    """
    text = _read(path)
    return text.removesuffix("\n").split("\n") if text else []


def _stat_fields(folder: str) -> list[str]:
    """The fields of ``stat``, from the third on: the state. proc(5)."""
    # The name in parentheses may itself hold parentheses and spaces: fields are counted from the
    # last ")".
    return _read(f"{folder}/stat").rpartition(")")[2].split()


def _flags(folder: str) -> int:
    return int(_stat_fields(folder)[6])


def _read(path: str) -> str:
    # surrogateescape: names and command lines are bytes of any encoding.
    with open(path, encoding="utf-8", errors="surrogateescape", newline="\n") as file:
        return file.read()
