"""The agent's sources as package data: the code that runs inside the target.

``build.py`` compiles the joined C text; Frida loads ``agent.js`` into the target. This module only
finds and joins the files. It imports no other module of this project, does no I/O on import, and is
thread-safe.
"""

from __future__ import annotations

from importlib.resources import files

__all__ = ["C_SOURCES", "script", "source"]

C_SOURCES = (
    "abi.h",
    "recipe.h",
    "entry/control.h",
    "unwind/rules.h",
    "platform/atomics.h",
    "platform/memory_functions.c",
    "platform/imports.h",
    "platform/os_linux.h",
    "process/thread_slot.h",
    "interpreters/managed.h",
    "interpreters/hotspot.h",
    "interpreters/v8.h",
    "agent.h",
    "syscalls/seccomp_guard.c",
    "unwind/cfi.h",
    "unwind/cfi_read.c",
    "unwind/cfi_rules.c",
    "unwind/cfi_program.c",
    "unwind/cfi.c",
    "wire/ring.c",
    "arch/x86_64/call_on_stack.c",
    "unwind/function_rows.c",
    "unwind/rulecache.c",
    "unwind/stack_reader.c",
    "unwind/frame.c",
    "arch/x86_64/jit_frame.c",
    "arch/x86_64/replaced_frame.c",
    "arch/x86_64/prologue.c",
    "unwind/heuristics.c",
    "unwind/start_code.c",
    "arch/x86_64/exit_path.c",
    "unwind/bare_frame.c",
    "interpreters/managed_memory.c",
    "interpreters/python_text.c",
    "interpreters/ruby_code.c",
    "interpreters/ruby_method.c",
    "interpreters/ruby_identity.c",
    "interpreters/python_code.c",
    "interpreters/code_notes.c",
    "interpreters/hotspot_heap.c",
    "interpreters/hotspot_method.c",
    "interpreters/hotspot_code.c",
    "interpreters/hotspot_cache.c",
    "interpreters/hotspot_leave.c",
    "interpreters/hotspot_continuation.c",
    "interpreters/hotspot_stub.c",
    "interpreters/hotspot_interpreted.c",
    "interpreters/hotspot_frame.c",
    "interpreters/hotspot_anchor.c",
    "interpreters/v8_leaf.c",
    "interpreters/v8_frame.c",
    "unwind/unwind.c",
    "interpreters/python_chain.c",
    "interpreters/greenlet.c",
    "interpreters/python_walk.c",
    "interpreters/ruby_walk.c",
    "interpreters/state_of_thread.c",
    "interpreters/managed_merge.c",
    "interpreters/hotspot_names.c",
    "interpreters/ruby_record.c",
    "interpreters/code_table.c",
    "interpreters/hotspot_scopes.c",
    "interpreters/v8_heap.c",
    "interpreters/v8_known.c",
    "interpreters/v8_places.c",
    "interpreters/code_words.c",
    "wire/stack_table.c",
    "platform/procfs_text.c",
    "process/modules.c",
    "unwind/inflate.c",
    "unwind/elffile.c",
    "unwind/rowtable.c",
    "unwind/function_index.c",
    "unwind/go_pclntab.c",
    "unwind/compile.c",
    "process/moved_code.c",
    "process/maps.c",
    "sampling/jitter.c",
    "wire/intervals.c",
    "sampling/governor.c",
    "sampling/idle.c",
    "sampling/perf_clocks.c",
    "sampling/cpu_timers.c",
    "sampling/sample_ring.c",
    "process/threads.c",
    "process/kernel_threads.c",
    "interpreters/lock_holder.c",
    "interpreters/ruby_threads.c",
    "interpreters/python_states.c",
    "interpreters/hotspot_threads.c",
    "interpreters/java_monitor.c",
    "interpreters/hotspot_keep.c",
    "interpreters/v8_keep.c",
    "interpreters/recipes.c",
    "unwind/registered_code.c",
    "sampling/admission.c",
    "process/host_files.c",
    "process/thread_stack.c",
    "process/alternate_stack.c",
    "process/stack_headroom.c",
    "syscalls/seccomp_watch.c",
    "arch/x86_64/syscall_site.c",
    "syscalls/restartable.c",
    "syscalls/eintr_restart.c",
    "sampling/held_lock.c",
    "sampling/handler.c",
    "sampling/holders.c",
    "sampling/sleeping.c",
    "sampling/run_queue.c",
    "sampling/tick_phase.c",
    "sampling/collect.c",
    "process/short_threads.c",
    "sampling/disposition.c",
    "sampling/drain.c",
    "sampling/host_watchdog.c",
    "sampling/suspensions.c",
    "sampling/tick.c",
    "sampling/newcomers.c",
    "entry/credentials.c",
    "entry/control.c",
    "sampling/sampler_thread.c",
    "main.c",
    "entry/descriptors.c",
    "entry/serve.c",
    "arch/x86_64/thread_clone.c",
    "entry/frida.c",
    "host/divert.c",
)
"""All C files of the agent, in the order in which they are joined: a file calls only functions of
files before it."""


def source(names: tuple[str, ...] = C_SOURCES) -> str:
    """Join C files into the one text that is compiled, for machine code and in tests.

    The compiler sees all calls in it, and so how much stack they need. Each file is preceded by
    ``#line 1 "NAME"``, so that compiler errors and sanitizer reports name the source file and line.

    Args:
        names: files of this folder; the default is the whole agent, unit tests use a part of it.

    Returns:
        C11 text, UTF-8 when written to a file.

    Raises:
        FileNotFoundError: a file is missing from the installation.
    """
    folder = files(__name__)
    texts = (folder.joinpath(*name.split("/")).read_text("utf-8") for name in names)
    return "".join(f'#line 1 "{name}"\n{text}\n' for name, text in zip(names, texts, strict=True))


def script() -> str:
    """Return the text of ``agent.js``, the script that Frida loads into the target.

    Raises:
        FileNotFoundError: the file is missing from the installation.
    """
    return (files(__name__) / "agent.js").read_text("utf-8")
