/*
 * Steps without call frame information: JIT code, Go, and parked threads whose rbp procfs does not tell. Everything
 * here may run in the handler: no libc, no locks, no allocation; memory that may be unmapped is read with
 * process_vm_readv.
 */

#define SCAN_WORDS 512                    /* how far a return address is looked for when there is nothing better */
#define SCAN_CHECKS_MAX 96                /* code reads a stack may cost in such searches */

/*
 * The seven bytes of code before `return_address`. Code of the file mapping that the frame itself is in is there for
 * certain while the frame runs; any other may be gone, the candidate being perhaps a stale word. Context: signal.
 */
static u32 code_before_sigsafe(struct unwinder *u, u64 return_address, u8 *code)
{
    u32 i;
    const struct code_range *range = code_range_sigsafe(u->map, return_address - 8);
    if (!range || return_address > range->end || u->scan_checks >= SCAN_CHECKS_MAX)
        return 0;
    u->scan_checks++;
    if (range->module && range == code_range_sigsafe(u->map, u->pc)) {
        for (i = 0; i < 7; i++)
            code[i] = ((const u8 *)return_address - 7)[i];
        return 1;
    }
    return read_memory_sigsafe(u->agent->pid, return_address - 7, code, 7) == 7;
}

/* Does a call instruction end just before `return_address`? Context: signal. */
static u32 follows_call_sigsafe(struct unwinder *u, u64 return_address)
{
    u8 code[8];
    if (return_address < 4096 || !code_before_sigsafe(u, return_address, code))
        return 0;
    if (code[2] == 0xe8)                                        /* call rel32 */
        return 1;
    if (code[5] == 0xff && (code[6] & 0xf8) == 0xd0)            /* call reg */
        return 1;
    if (code[5] == 0xff && (code[6] & 0xf8) == 0x10 && (code[6] & 7) != 4 && (code[6] & 7) != 5) /* call [reg] */
        return 1;
    if (code[4] == 0xff && ((code[5] & 0xf8) == 0x50 || code[5] == 0x14)) /* call [reg+8], [sib] */
        return 1;
    if (code[3] == 0xff && code[4] == 0x54)                     /* call [sib+8] */
        return 1;
    if (code[1] == 0xff && ((code[2] & 0xf8) == 0x90 || code[2] == 0x15)) /* call [reg+32], [rip+32] */
        return 1;
    return code[0] == 0xff && (code[1] == 0x94 || code[1] == 0x14); /* call [sib+32] */
}

/*
 * Without CFI. Three guesses, best first: a slot that holds our own rbp just below a return address (compiled code that
 * saved rbp and left it alone, as HotSpot's does); the frame that rbp points to; the first word further up that is a
 * return address after a call, with the saved rbp below it. Returns 0 at the end of the stack.
 */
static u32 step_by_guess_sigsafe(struct unwinder *u, u32 in_jit)
{
    u64 ra = 0, saved = 0, slot, limit;
    u32 bp_is_frame = u->bp_known && u->bp >= u->sp && !(u->bp & 7) && stack_word_sigsafe(u, u->bp, &saved) &&
                      stack_word_sigsafe(u, u->bp + 8, &ra) && (ra == 0 ? saved == 0 : is_code_sigsafe(u, ra - 1));
    u->guessed = 1;
    if (u->bp_known && u->bp == 0 && !in_jit) { /* entry points clear rbp (ABI 3.4.1, Go's gogo); a JIT may just use it */
        unwind_stop_sigsafe(u, VERDICT_COMPLETE, 0);
        return 0;
    }
    limit = u->sp + SCAN_WORDS * 8;
    if (u->bp_known) {
        for (slot = u->sp & ~7ULL; slot < limit && slot < u->bp; slot += 8) {
            u64 word, above;
            if (!stack_word_sigsafe(u, slot, &word) || !stack_word_sigsafe(u, slot + 8, &above))
                break;
            if (word == u->bp && is_code_sigsafe(u, above - 1) && follows_call_sigsafe(u, above))
                return enter_caller_sigsafe(u, slot + 16, above);
        }
    }
    if (bp_is_frame) {
        u64 cfa = u->bp + 16;
        u->bp = saved;
        return enter_caller_sigsafe(u, cfa, ra);
    }
    for (slot = u->sp & ~7ULL; slot < limit; slot += 8) {
        u64 word;
        if (!stack_word_sigsafe(u, slot, &word))
            break;
        if (word > 4096 && is_code_sigsafe(u, word - 1) && follows_call_sigsafe(u, word)) {
            u32 has_saved = slot >= u->sp + 8 && stack_word_sigsafe(u, slot - 8, &saved);
            if (!is_plausible_caller_sigsafe(u, word, slot + 8, has_saved ? saved : u->bp_known ? u->bp : 0))
                continue;
            if (has_saved) {
                u->bp = saved;
                u->bp_known = saved > slot && saved < u->window_end;
            }
            return enter_caller_sigsafe(u, slot + 8, word);
        }
    }
    unwind_stop_sigsafe(u, VERDICT_NO_UNWIND_INFO, u->pc);
    return 0;
}
