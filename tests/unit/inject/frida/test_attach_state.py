"""What an attach does about each thing that can happen to it, without a process."""

from __future__ import annotations

import signal
from dataclasses import replace

import pytest

from flametap.inject.frida import attach_state
from flametap.inject.frida.attach_events import (
    Action,
    Asked,
    BringOut,
    CallRegisters,
    Do,
    Ended,
    Event,
    Failed,
    HeldGoes,
    HeldStands,
    LetGo,
    MustEnd,
    Noted,
    NoteLoader,
    NothingYet,
    NotPutBack,
    OwnRegisters,
    PutBack,
    PutBackWithin,
    Release,
    Released,
    Reported,
    Request,
    Requested,
    Restored,
    Seized,
    Stop,
    Tick,
    Traced,
)
from flametap.inject.frida.attach_state import Held, Phase, Progress, State, Thread, advance

PID, OTHER = 7, 8
FUNCTION = 0x7F00_0000_1000
OPTIONS = 0x40
UNTIL_S = 50.0
CALLS = [each for each in Request if each not in (Request.WAIT, Request.POLL)]
LIVE = (Phase.STOPPING, Phase.STANDING, Phase.READY, Phase.CALLING)
# How a function is called …
CALL: tuple[Event, ...] = (
    Requested(PID, Request.WRITE_REGISTERS),
    CallRegisters(PID, FUNCTION),
    Requested(PID, Request.GO_ON),
)
# … and what an attach does that nothing disturbs: event, actions, phase afterwards.
UNDISTURBED: list[tuple[Event, tuple[Action, ...], Phase | None]] = [
    (Asked(), (), None),
    (Traced(PID, True, OPTIONS), (), Phase.STOPPING),
    (Requested(PID, Request.POLL), (Do.POLL,), Phase.STOPPING),
    (NothingYet(PID), (Do.LOOK_AGAIN,), Phase.STOPPING),
    (Reported(PID, Stop.STOPPED), (BringOut(OPTIONS), Do.ANSWER), Phase.STOPPING),
    (Requested(PID, Request.READ_REGISTERS), (Do.NOTE, Do.PASS), Phase.STOPPING),
    (Noted(PID), (), Phase.STANDING),
    (Requested(PID, Request.WORD), (Do.PASS,), Phase.STANDING),
    (CALL[0], (Do.COMPARE,), Phase.STANDING),
    (CALL[1], (Do.PASS,), Phase.READY),
    (CALL[2], (Do.BEGIN_CALL, Do.PASS), Phase.CALLING),
    (Requested(PID, Request.POLL), (Do.POLL,), Phase.CALLING),
    (Reported(PID, Stop.STOPPED), (NoteLoader(FUNCTION), Do.ANSWER), Phase.STANDING),
    (Requested(PID, Request.WRITE_REGISTERS), (Do.COMPARE,), Phase.STANDING),
    (OwnRegisters(PID), (Do.END_CALL,), Phase.STANDING),
    (Requested(PID, Request.DETACH), (Do.RESTORE,), Phase.STANDING),
    (Restored(PID, 0, UNTIL_S), (Do.SUCCEED,), None),
    (LetGo(), (Release(PID),), None),
    (HeldGoes(PID), (), None),
]


def in_phase(phase: Phase, *, is_asked: bool = False, must_end: bool = False) -> State:
    function_addr = FUNCTION if phase in (Phase.READY, Phase.CALLING) else 0
    thread = Thread(phase, options=OPTIONS, function_addr=function_addr)
    return State(PID, is_asked, must_end, {PID: thread})


def phase_of(state: State, tid: int = PID) -> Phase | None:
    return state.threads[tid].phase if tid in state.threads else None


def test_attach_that_nothing_disturbs() -> None:
    progress = Progress(PID)
    for event, actions, phase in UNDISTURBED:
        assert progress.apply(event) == actions, event
        assert phase_of(progress.state) is phase, event
    assert progress.state == State(PID)


def test_event_leaves_the_state_before_it_as_it_was() -> None:
    before = in_phase(Phase.STANDING)
    advance(before, Ended(PID))
    advance(before, Seized(OTHER, UNTIL_S))
    assert before == in_phase(Phase.STANDING)


# --- what Frida wants


@pytest.mark.parametrize("request_", [Request.WAIT, Request.POLL])
def test_wait_for_a_thread_that_is_not_traced_goes_to_the_kernel(request_: Request) -> None:
    assert advance(State(PID), Requested(OTHER, request_)) == (State(PID), (Do.WAIT,))


@pytest.mark.parametrize("request_", CALLS)
def test_call_for_a_thread_that_is_not_traced_goes_to_the_kernel(request_: Request) -> None:
    assert advance(State(PID), Requested(OTHER, request_)) == (State(PID), (Do.PASS,))


@pytest.mark.parametrize("phase", LIVE)
def test_wait_without_a_limit_goes_to_the_kernel(phase: Phase) -> None:
    state = in_phase(phase)
    assert advance(state, Requested(PID, Request.WAIT)) == (state, (Do.WAIT,))


def test_thread_goes_on_without_a_call_where_frida_has_set_none() -> None:
    state = in_phase(Phase.STANDING)
    assert advance(state, Requested(PID, Request.GO_ON)) == (state, (Do.PASS,))


def test_call_that_is_taken_back_by_its_own_registers_is_none() -> None:
    state, actions = advance(in_phase(Phase.READY), OwnRegisters(PID))
    assert actions == (Do.END_CALL,)
    assert advance(state, Requested(PID, Request.GO_ON)) == (state, (Do.PASS,))


def test_call_that_may_not_be_is_refused() -> None:
    # Another program, or memory that is gone or in use: the facts come with the event.
    state, actions = advance(in_phase(Phase.STANDING), CallRegisters(PID, FUNCTION, False))
    assert actions == (Do.REFUSE,)
    assert not state.is_calling()


@pytest.mark.parametrize(("is_asked", "tid"), [(False, PID), (True, OTHER)])
def test_thread_goes_on_at_the_detach_if_it_is_not_to_be_held(is_asked: bool, tid: int) -> None:
    state = State(PID, is_asked=is_asked, threads={tid: Thread(Phase.STANDING)})
    assert advance(state, Restored(tid, 0, UNTIL_S)) == (state, (Do.PASS,))
    ended, _ = advance(state, Ended(tid))
    assert ended == State(PID, is_asked=is_asked)


def test_signal_of_the_detach_goes_with_a_held_thread() -> None:
    state = in_phase(Phase.STANDING, is_asked=True)
    state, actions = advance(state, Restored(PID, signal.SIGUSR1, UNTIL_S))
    assert actions == (Do.SUCCEED,)
    assert state == State(PID, held={PID: Held(PID, UNTIL_S, number=signal.SIGUSR1)})


def test_state_that_could_not_be_noted_is_noted_at_the_next_chance() -> None:
    state, _ = advance(in_phase(Phase.STOPPING), Requested(PID, Request.READ_REGISTERS))
    assert phase_of(state) is Phase.STOPPING
    _, actions = advance(state, Requested(PID, Request.READ_REGISTERS))
    assert actions == (Do.NOTE, Do.PASS)


# --- how a wait ends


def test_thread_that_is_attached_to_by_a_signal_is_not_brought_out() -> None:
    state = State(PID, threads={PID: Thread(is_seized=False)})
    assert advance(state, Reported(PID, Stop.STOPPED)) == (state, (Do.ANSWER,))


@pytest.mark.parametrize("phase", [Phase.STOPPING, Phase.STANDING, Phase.RELEASED])
def test_end_of_a_thread_is_told(phase: Phase) -> None:
    state = in_phase(phase)
    assert advance(state, Reported(PID, Stop.ENDED)) == (state, (Do.ANSWER,))
    assert advance(state, Ended(PID)) == (State(PID), ())


@pytest.mark.parametrize(
    ("stop", "action"),
    [(Stop.BY_PROCESS, Do.GO_ON_WITH_SIGNAL), (Stop.BY_OTHERS, Do.GO_ON)],
)
def test_stop_that_is_none_of_the_calls_does_not_end_it(stop: Stop, action: Do) -> None:
    state = in_phase(Phase.CALLING)
    assert advance(state, Reported(PID, stop)) == (state, (action,))


@pytest.mark.parametrize("stop", [Stop.STOPPED, Stop.ENDED])
def test_call_ends_with_its_return_or_its_thread(stop: Stop) -> None:
    state, actions = advance(in_phase(Phase.CALLING), Reported(PID, stop))
    assert actions == (NoteLoader(FUNCTION), Do.ANSWER)
    assert not state.is_calling()
    # Going on again is no call of that function.
    assert advance(state, Requested(PID, Request.GO_ON))[1] == (Do.PASS,)


LIMITS = attach_state.CALL_LIMIT_S, attach_state.CALL_LOCKED_S, attach_state.CALL_ALONE_S


@pytest.mark.parametrize(
    ("waited_s", "locked_s", "must_end", "actions"),
    [
        (0.0, 0.0, False, (Do.LOOK_AGAIN,)),
        (LIMITS[2] + 0.01, 0.0, False, (Do.RELEASE_OTHERS, Do.LOOK_AGAIN)),
        (LIMITS[0], LIMITS[1], False, (Do.RELEASE_OTHERS, Do.LOOK_AGAIN)),
        (LIMITS[0] + 0.01, 0.0, False, (Do.RELEASE_OTHERS, Do.GIVE_BACK)),
        (1.5, LIMITS[1] + 0.01, False, (Do.RELEASE_OTHERS, Do.GIVE_BACK)),
        (0.0, 0.0, True, (Do.RELEASE_OTHERS, Do.GIVE_BACK)),
    ],
    ids=["just begun", "another may have the lock", "in time", "too long", "locked", "must end"],
)
def test_call_is_given_time_and_then_taken_back(
    waited_s: float, locked_s: float, must_end: bool, actions: tuple[Action, ...]
) -> None:
    state = in_phase(Phase.CALLING, must_end=must_end)
    assert advance(state, NothingYet(PID, waited_s, locked_s)) == (state, actions)


@pytest.mark.parametrize("must_end", [False, True])
@pytest.mark.parametrize("phase", [Phase.STOPPING, Phase.STANDING, Phase.READY, Phase.RELEASED])
def test_thread_that_does_not_stop_is_given_up_after_a_while(phase: Phase, must_end: bool) -> None:
    state = in_phase(phase, must_end=must_end)
    limit_s = attach_state.STOP_LIMIT_S
    assert advance(state, NothingYet(PID, limit_s)) == (state, (Do.LOOK_AGAIN,))
    assert advance(state, NothingYet(PID, limit_s + 0.01)) == (state, (Do.GIVE_UP,))


def test_end_is_known_to_a_call_that_begins_later() -> None:
    state, actions = advance(in_phase(Phase.STANDING), MustEnd())
    assert actions == ()
    for event in CALL:
        state, _ = advance(state, event)
    assert advance(state, NothingYet(PID))[1] == (Do.RELEASE_OTHERS, Do.GIVE_BACK)


# --- what is put back, and what is let go early


@pytest.mark.parametrize(
    ("phase", "number", "owed"),
    [
        (Phase.CALLING, signal.SIGSTOP, signal.SIGSTOP),
        (Phase.CALLING, signal.SIGSEGV, 0),  # the call's own end
        (Phase.CALLING, 0, 0),
        (Phase.STANDING, signal.SIGSEGV, signal.SIGSEGV),
        (Phase.STOPPING, signal.SIGRTMAX, signal.SIGRTMAX),
        (Phase.STOPPING, 0x85, 0),  # a stop at a system call
    ],
)
def test_thread_that_is_put_back_gets_its_own_signals(phase: Phase, number: int, owed: int) -> None:
    state, actions = advance(in_phase(phase), PutBack(PID, number, UNTIL_S))
    assert actions == ()
    assert phase_of(state) is Phase.OVER
    assert state.held == {PID: Held(PID, UNTIL_S, number=owed)}
    assert not state.is_calling()


OVER = replace(in_phase(Phase.OVER), held={PID: Held(PID, UNTIL_S)})


@pytest.mark.parametrize(
    ("request_", "actions"),
    [
        (Request.READ_REGISTERS, (Do.PASS,)),
        (Request.WORD, (Do.PASS,)),
        (Request.WRITE_REGISTERS, (Do.REFUSE,)),
        (Request.GO_ON, (Do.REFUSE,)),
        (Request.OTHER, (Do.REFUSE,)),
        (Request.WAIT, (Do.REFUSE,)),
        (Request.POLL, (Do.REFUSE,)),
    ],
)
def test_thread_that_was_put_back_is_only_looked_at(
    request_: Request, actions: tuple[Action, ...]
) -> None:
    assert advance(OVER, Requested(PID, request_)) == (OVER, actions)
    assert advance(OVER, Noted(PID)) == (OVER, ())


@pytest.mark.parametrize("state", [OVER, in_phase(Phase.RELEASED)], ids=["over", "released"])
def test_detach_from_a_thread_that_frida_has_no_longer(state: State) -> None:
    after, actions = advance(state, Requested(PID, Request.DETACH))
    assert actions == (Do.RELEASE,)
    assert after == replace(state, threads={})


@pytest.mark.parametrize("request_", [each for each in CALLS if each is not Request.DETACH])
def test_thread_that_was_let_go_early_is_not_touched(request_: Request) -> None:
    state, actions = advance(in_phase(Phase.STANDING), Released(PID))
    assert (phase_of(state), actions) == (Phase.RELEASED, ())
    assert advance(state, Requested(PID, request_)) == (state, (Do.REFUSE,))


@pytest.mark.parametrize("phase", LIVE)
def test_error_of_ours_puts_the_thread_back(phase: Phase) -> None:
    is_calling = phase is Phase.CALLING
    limit_s = attach_state.CALL_LOCKED_S if is_calling else attach_state.STOP_LIMIT_S
    state = in_phase(phase)
    assert advance(state, Failed(PID)) == (state, (Do.RELEASE_OTHERS, PutBackWithin(limit_s)))


def test_call_that_does_not_end_after_an_error_is_taken_back() -> None:
    state = in_phase(Phase.CALLING)
    assert advance(state, NotPutBack(PID)) == (state, (Do.RELEASE_OTHERS, Do.GIVE_BACK))


@pytest.mark.parametrize("phase", [Phase.STOPPING, Phase.STANDING, Phase.READY])
def test_thread_that_does_not_stop_after_an_error_is_forgotten(phase: Phase) -> None:
    assert advance(in_phase(phase), NotPutBack(PID)) == (State(PID), ())


@pytest.mark.parametrize("phase", [Phase.RELEASED, Phase.OVER])
def test_error_of_ours_changes_nothing_for_a_thread_that_is_back(phase: Phase) -> None:
    state = in_phase(phase)
    assert advance(state, Failed(PID)) == (state, ())


def test_error_of_ours_about_a_thread_that_is_not_traced() -> None:
    assert advance(State(PID), Failed(OTHER)) == (State(PID), ())


def test_thread_can_be_traced_again_after_it_was_put_back() -> None:
    state, _ = advance(OVER, Traced(PID, True, OPTIONS))
    assert state.threads == {PID: Thread(options=OPTIONS)}


# --- what is held


def holding(*tids: int) -> State:
    return State(PID, held={tid: Held(PID, UNTIL_S) for tid in tids})


def test_thread_is_held_until_it_goes_on_or_ends() -> None:
    state, actions = advance(State(PID), Seized(OTHER, UNTIL_S, is_brief=True))
    assert (state.held, actions) == ({OTHER: Held(PID, UNTIL_S, is_brief=True)}, ())
    state, _ = advance(state, HeldStands(OTHER, signal.SIGUSR1))
    assert state.held == {OTHER: Held(PID, UNTIL_S, True, signal.SIGUSR1)}
    assert advance(state, HeldGoes(OTHER)) == (State(PID), ())


def test_main_thread_goes_on_before_the_others() -> None:
    state = replace(holding(OTHER, PID, 9), is_asked=True)
    after, actions = advance(state, LetGo())
    assert actions == (Release(PID), Release(OTHER), Release(9))
    assert not after.is_asked


def test_nothing_is_let_go_where_nothing_is_held() -> None:
    assert advance(State(PID, is_asked=True), LetGo()) == (State(PID), ())


def test_thread_beside_the_main_one_that_was_put_back_waits_for_frida() -> None:
    state, _ = advance(
        State(PID, threads={OTHER: Thread(Phase.STANDING)}), PutBack(OTHER, 0, UNTIL_S)
    )
    assert advance(state, LetGo()) == (state, ())
    assert state.others(PID) == []
    assert advance(state, Tick(UNTIL_S + 1))[1] == (Release(OTHER),)


@pytest.mark.parametrize(
    ("now_s", "dead", "actions"),
    [
        (UNTIL_S, (), ()),
        (UNTIL_S + 0.1, (), (Release(PID), Release(OTHER))),
        (UNTIL_S, (OTHER,), (Release(OTHER),)),
    ],
    ids=["in time", "too long", "one has died"],
)
def test_held_threads_go_on_when_their_time_is_over(
    now_s: float, dead: tuple[int, ...], actions: tuple[Action, ...]
) -> None:
    state = holding(PID, OTHER)
    assert advance(state, Tick(now_s, frozenset(dead))) == (state, actions)


def test_attach_that_is_tried_again_holds_again() -> None:
    state = in_phase(Phase.STANDING, is_asked=True)
    for event in (Restored(PID, 0, UNTIL_S), LetGo(), HeldGoes(PID), Asked(), Traced(PID)):
        state, _ = advance(state, event)
    assert state == State(PID, is_asked=True, threads={PID: Thread()})
