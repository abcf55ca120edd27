/*
 * Frames of methods that were replaced while they ran. All of this may run in the handler: no libc, no locks, no
 * allocation; code is read with process_vm_readv.
 *
 * .NET compiles a method anew while it is in a loop, and goes on in the new code at once (on-stack replacement). The new
 * code makes its frame below the old one, as if it had been called there: its return address is where the old code asked
 * for the replacement, and rbp is saved as the old code has saved it, that of the method's caller. So rbp leads past the
 * caller, and the method seems to call itself. What the method returns to lies above the old code's frame:
 *
 *     new frame:  locals … | saved rbp | old code
 *     old frame:  locals … | saved rbp | return address
 *
 * Source: .NET 9 as it runs; dotnet/runtime, docs/design/features/OnStackReplacement.md.
 */

#define REPLACED_WORDS_MAX 1024           /* of the old code's frame */
#define PATCHPOINT_BYTES 20
#define JUMP_GREATER 0x7f

/*
 * Return whether old code asks for a replacement before a return address: it counts down, and when the counter, a local,
 * is not greater than 0, passes its address and the place in the bytecode, a number below 2^24:
 *
 *     jg over; lea counter(%rbp),%rdi; mov $place,%esi; call
 *
 * Context: signal.
 */
static u32 is_patchpoint_sigsafe(const u8 *end)
{
    u32 call = end[-5] == 0xe8 ? 5 : end[-6] == 0xff && end[-5] == 0x15 ? 6 : 0, i;
    const u8 *place = end - call - 5;
    if (!call || place[0] != 0xbe || place[4])
        return 0;
    for (i = 4; i <= 7; i += 3)           /* an offset of one byte, or of four */
        if (place[-(i32)i] == 0x48 && place[1 - (i32)i] == 0x8d && place[2 - (i32)i] == (i == 4 ? 0x7d : 0xbd) &&
            place[-(i32)i - 2] == JUMP_GREATER && place[-(i32)i - 1] == i + 5 + call)
            return 1;
    return 0;
}

/* The same, by a cache. Context: signal. */
static u32 asks_for_replacement_sigsafe(struct unwinder *u, u64 return_address)
{
    volatile u64 *slot = kept_slot_sigsafe(u->agent, return_address, ASKED_PATCHPOINT);
    u64 key = kept_key_sigsafe(u->agent, return_address, ASKED_PATCHPOINT), entry = *slot;
    u8 code[PATCHPOINT_BYTES];
    if ((entry & ~0xfULL) != key) {
        if (u->scan_checks >= SCAN_CHECKS_MAX)
            return 0;
        u->scan_checks++;
        *slot = entry = key | (read_memory_sigsafe(u->agent, return_address - PATCHPOINT_BYTES, code, PATCHPOINT_BYTES) ==
                                   PATCHPOINT_BYTES &&
                               is_patchpoint_sigsafe(code + PATCHPOINT_BYTES));
    }
    return entry & 1;
}

/* Have a step by rbp lead past the old code's frame, if that is where it leads. `cfa`, `return_address` and `saved` are
 * what the step found. Context: signal. */
static void leave_replaced_sigsafe(struct unwinder *u, u64 saved, u64 *cfa, u64 *return_address)
{
    u64 slot, word, above, limit = *cfa + REPLACED_WORDS_MAX * 8;
    if (saved < *cfa || !asks_for_replacement_sigsafe(u, *return_address))
        return;
    for (slot = *cfa; slot < limit && slot < saved && stack_word_sigsafe(u, slot, &word); slot += 8)
        if (word == saved && stack_word_sigsafe(u, slot + 8, &above) && is_code_sigsafe(u, above - 1)) {
            *cfa = slot + 16;
            *return_address = above;
            return;
        }
}
