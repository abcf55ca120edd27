/*
 * Functions that end in a jump to the next one and leave no frame.
 *
 *   main → first → second → last     by the only way
 *   main → either → left or right → last
 *   main → through → *pointer or last
 *   main → last                      called
 *
 * Each keeps the processor busy in last() for about as long.
 */
#include "target.h"

volatile uint64_t state = 1;
volatile unsigned turn;
void (*volatile pointer)(uint64_t);

NOINLINE void last(uint64_t multiplier)
{
    uint64_t s = state;
    SPIN(s, 200000, multiplier);
    state = s;
}

NOINLINE void second(uint64_t multiplier)
{
    turn++;
    last(multiplier + 2);
}

NOINLINE void first(uint64_t multiplier)
{
    turn++;
    second(multiplier + 4);
}

NOINLINE void left(uint64_t multiplier)
{
    turn += 2;
    last(multiplier + 6);
}

NOINLINE void right(uint64_t multiplier)
{
    turn += 3;
    last(multiplier + 8);
}

NOINLINE void either(uint64_t multiplier)
{
    if (turn & 1)
        left(multiplier);
    else
        right(multiplier);
}

NOINLINE void through(uint64_t multiplier)
{
    if (turn & 2)
        pointer(multiplier);
    else
        last(multiplier);
}

int main(void)
{
    pointer = last;
    target_ready("");
    while (!target_asked_to_stop()) {
        first(1);
        turn++;
        either(1);
        turn++;
        through(1);
        turn++;
        last(1);
        turn++;
    }
    return 0;
}
