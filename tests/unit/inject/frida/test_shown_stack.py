"""What Frida is told of the stack, and what else it may name."""

from __future__ import annotations

import pytest

from flametap.inject.frida.shown_stack import real, shown

STACK = 0x7FFC_DEAD_BEE8
STACK_OF_FIVE_LEVELS = 0x00FF_FFFF_DEAD_BEE8


@pytest.mark.parametrize("sp", [STACK, STACK_OF_FIVE_LEVELS, 0x1000])
def test_address_below_what_is_shown_leads_to_the_stack(sp: int) -> None:
    assert real(shown(sp) - 136) == sp - 136


@pytest.mark.parametrize("sp", [STACK, STACK_OF_FIVE_LEVELS])
def test_what_is_shown_is_no_address_of_a_program(sp: int) -> None:
    assert shown(sp) >> 56
    assert shown(sp) < 1 << 64


@pytest.mark.parametrize("argument", [0, 7, 0x7F00_0000_1000, (1 << 64) - 1, 0xFFFF_8000_0000_0000])
def test_everything_else_stays(argument: int) -> None:
    assert real(argument) == argument
