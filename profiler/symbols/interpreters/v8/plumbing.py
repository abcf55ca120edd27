"""Tell the functions by which V8 calls JavaScript functions from those that do work. Pure.

Source: src/execution/execution.cc, src/builtins, src/api/api.cc, of 9 to 13.
"""

from __future__ import annotations

import re

from ....model import FrameKind, Function

_NATIVE = (FrameKind.NATIVE, FrameKind.INLINED, FrameKind.TAIL_CALL)
_BUILTINS = re.compile(
    r"Builtins_(JSEntry|JSConstructEntry|JSRunMicrotasksEntry|JSEntryTrampoline|JSConstructEntryTrampoline"
    r"|InterpreterEntryTrampoline\w*|ArgumentsAdaptorTrampoline|InterpreterPushArgs\w+"
    r"|Call_Receiver\w+|CallFunction_Receiver\w+|CallFunction\w*|Call\w*WithSpread\w*|CallVarargs\w*"
    r"|JSBuiltinsConstructStub|JSConstructStubGeneric|ConstructFunction\w*|Construct|BaselineOutOfLinePrologue)"
)
_CALLS = re.compile(
    r"v8::internal::(?:\(anonymous namespace\)::)?(Invoke|InvokeWithTryCatch|Execution::\w+)"
    r"|v8::Function::Call|v8::internal::MicrotaskQueue::RunMicrotasks"
    r"|v8::internal::Execution::(Call|TryCall|TryRunMicrotasks|New)"
)


def is_plumbing(function: Function) -> bool:
    """Return True for a native function by which V8 calls functions."""
    if function.kind not in _NATIVE:
        return False
    if function.name.startswith("Builtins_"):
        return _BUILTINS.fullmatch(function.name) is not None
    return _CALLS.fullmatch(function.name) is not None
