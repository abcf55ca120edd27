"""Know where each version of Ruby keeps what: offsets in bytes, by major and minor version. Pure.

Ruby exports no description of its structures, so these are what the compiler says of its headers
(``offsetof`` in a program against ``vm_core.h``, ``ractor_core.h``, ``iseq.h``), as configured for
Linux on x86-64. Tried on Debian's 3.1.2 and 3.3.8. A build with other switches is recognised by
``check``.
"""

from __future__ import annotations

from collections.abc import Mapping

_COMMON = {
    "vm_ractors": 8,  # rb_vm_t.ractor.set
    "thread_node": 0,  # rb_thread_t.lt_node
    "thread_ractor": 24,
    "thread_interpreter": 32,  # .vm
    "context_stack": 0,  # rb_execution_context_t.vm_stack
    "context_stack_words": 8,
    "context_frame": 16,  # .cfp
    "frame_position": 0,  # rb_control_frame_t.pc
    "frame_code": 16,  # .iseq
    "frame_environment": 32,  # .ep
    "code_body": 16,  # rb_iseq_t.body
    "body_words": 4,  # rb_iseq_constant_body.iseq_size
    "code_bytes": 8,  # .iseq_encoded
    "code_file_name": 64,  # .location.pathobj
    "code_name": 80,  # .location.label
    "code_first_line": 88,
    "string_length": 16,  # RString, in 3.1 of those with the characters outside
    "string_pointer": 24,
}
_OF_VERSION: Mapping[tuple[int, int], Mapping[str, int]] = {
    (3, 1): {
        "ractor_node": 568,  # rb_ractor_t.vmlr_node
        "ractor_threads": 304,  # .threads.set
        "ractor_owner": 336,  # .threads.gvl.owner
        "thread_pointer": 80,  # rb_thread_t.thread_id
        "thread_context": 40,
        "frame_bytes": 64,
        "body_line_shift": 1,  # a fixnum
        "body_extent": 100,  # .location.code_location
        "body_parent": 168,  # .parent_iseq
        "code_line_table": 120,  # .insns_info.body
        "body_lines": 136,
        "body_places": 144,  # .insns_info.succ_index_table
        "string_compact": 16,
        "string_shift": 14,  # RSTRING_EMBED_LEN_SHIFT
        "class_extension": 24,  # RClass.ptr
        "class_is_inline": 0,
        "class_variables": 8,  # rb_classext_struct.iv_tbl
        "class_serial": 32,  # RClass.class_serial
    },
    (3, 3): {
        "ractor_node": 432,
        "ractor_threads": 256,
        "ractor_owner": 328,  # .threads.sched.running
        "thread_native": 40,  # rb_thread_t.nt
        "thread_pointer": 16,  # rb_native_thread.thread_id
        "thread_context": 48,
        "frame_bytes": 56,
        "body_line_shift": 0,
        "body_extent": 96,
        "body_parent": 160,
        "code_line_table": 112,
        "body_lines": 128,
        "body_places": 136,
        "string_compact": 24,
        "class_extension": 32,  # behind RClass
        "class_is_inline": 1,
        "class_path": 120,  # rb_classext_struct.classpath
        "class_attached": 96,  # .as.singleton_class.attached_object
    },
}
VERSIONS = tuple(sorted(_OF_VERSION))


def layout_of(version: tuple[int, int]) -> dict[str, int] | None:
    """Return the offsets of a version by the names of ``abi.RUBY_RECIPE_NAMES``; None if unknown.

    Args:
        version: (3, 1), for example.
    """
    own = _OF_VERSION.get(version)
    return None if own is None else {**_COMMON, **own}
