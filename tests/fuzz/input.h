/*
 * Taking numbers from the bytes of a fuzzer: those that are not there are 0. Included behind the agent's sources.
 */
#ifndef FUZZ_INPUT_H
#define FUZZ_INPUT_H

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What every fuzz target defines: libFuzzer's interface, which replay.c calls, too. */
int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

struct input {
    const unsigned char *at;
    const unsigned char *end;
};

static u64 take(struct input *input, u32 bytes)
{
    u64 value = 0;
    for (u32 i = 0; i < bytes && input->at != input->end; i++)
        value |= (u64)*input->at++ << (8 * i);
    return value;
}

static i32 take_i16(struct input *input)
{
    return (i16)(unsigned short)take(input, 2);
}

static i32 take_i8(struct input *input)
{
    return (signed char)(unsigned char)take(input, 1);
}

#endif
