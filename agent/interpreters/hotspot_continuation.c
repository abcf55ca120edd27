/*
 * Leave the frames of a virtual thread for those of its carrier. All of this may run in the handler.
 *
 * A virtual thread that goes on has only its innermost frames on the stack. The last of them returns to a stub, the return
 * barrier, which brings the next ones from the heap. The stub begins by taking as stack pointer the ContinuationEntry, which
 * the machine's record of the thread points to: that lies in the carrier's frame of Continuation.enterSpecial, below the saved
 * rbp and the return address. The stub's frame stands for the frames in the heap, and for enterSpecial. At the end of the stub
 * these are back on the stack, and it leads to them.
 *
 * JDK 21 to 25: cpu/x86/stubGenerator_x86_64.cpp, generate_cont_thaw; sharedRuntime_x86_64.cpp, fill_continuation_entry;
 * runtime/continuationEntry.hpp.
 */

#define ENTRY_PARENT 8                    /* in a ContinuationEntry: that of the continuation which runs this one */
#define ENTRY_WORDS 8                     /* its size, or more: rbp and the return address follow */
#define ENTRIES_MAX 16                    /* continuations in each other; there is no use of more than one */
#define BARRIER_SEARCH_BYTES 512          /* of the stubs: the barrier is the second of them */

/* Read one word of the machine's memory, which may be unmapped by now. Context: signal. */
static u64 machine_word_sigsafe(const struct unwinder *u, u64 runtime_addr)
{
    u64 word = 0;
    return read_memory_sigsafe(u->agent, runtime_addr, &word, 8) == 8 ? word : 0;
}

/* Return whether the machine's record of the thread is known, and still that of this thread. Context: signal. */
static u32 has_java_thread_sigsafe(const struct unwinder *u, const u64 *recipe)
{
    u64 system = u->java_thread ? machine_word_sigsafe(u, u->java_thread + recipe[HOTSPOT_THREAD_SYSTEM]) : 0;
    return system && (u32)machine_word_sigsafe(u, system + recipe[HOTSPOT_SYSTEM_TID]) == u->java_tid;
}

/* Return where a record of a thread points to the ContinuationEntry, by the stub's code: `mov N(%r15),%rsp`; 0 if it does not
 * say. Context: signal. */
static u64 entry_offset_sigsafe(const struct code_blob *blob)
{
    u64 at, end = blob->code + BARRIER_SEARCH_BYTES;
    if (end > blob->end)
        end = blob->end;
    for (at = blob->code; at + 7 <= end; at++) {
        const u8 *code = (const u8 *)at;
        if (code[0] == 0x49 && code[1] == 0x8b && code[2] == 0xa7)
            return field_u32_sigsafe(at + 3);
    }
    return 0;
}

#define THAWED_BYTES_MAX 64               /* of code after frames are back, for an exception that goes on to them */
enum thawed { THAWED_NONE = 0, THAWED_LEFT = 1, THAWED_THROWN = 2 };

/* Return what code does at `pc` with frames that are back on the stack: the stub has done `mov %rbx,%rsp; sub $16,%rsp`. It
 * leaves for them with `pop %rbp; ret`, or finds out first where an exception is handled, and ends with `jmp *%rbx`. Context:
 * signal. */
static u32 thawed_state_sigsafe(const struct code_blob *blob, u64 pc)
{
    static const u8 moved[7] = {0x48, 0x8b, 0xe3, 0x48, 0x83, 0xec, 0x10};
    u64 at, floor = pc - blob->code > THAWED_BYTES_MAX ? pc - THAWED_BYTES_MAX : blob->code;
    u32 i;
    for (at = pc - 2; at >= floor && pc + 16 <= blob->limit; at--) {
        const u8 *code = (const u8 *)at;
        if (code[0] == 0xff && code[1] == 0xe3)
            return THAWED_NONE;           /* the stub has ended */
        for (i = 0; i < 7 && code[i] == moved[i]; i++) {
        }
        if (i == 7)
            return code[7] != POP_RBP ? THAWED_THROWN : pc <= at + 8 ? THAWED_LEFT : THAWED_NONE;
    }
    return THAWED_NONE;
}

/* Step from where the stub leaves for the frames that it has brought back. Context: signal. */
static u32 thawed_leave_sigsafe(struct java_step *step, u64 pc)
{
    u8 code = *(const u8 *)pc;
    if (code == 0x48)                     /* sub $16,%rsp: rbp and the return address are below sp */
        step->u->sp -= 16;
    return part_frame_leave_sigsafe(step, code == 0xc3 ? FRAME_IS_RETURN : FRAME_IS_PUSHED);
}

/* Step from the stubs that bring frames back. Context: signal. */
static u32 continuation_leave_sigsafe(struct java_step *step, u64 pc)
{
    struct unwinder *u = step->u;
    u64 entry, slot, ra, bp, offset = entry_offset_sigsafe(&step->blob);
    u32 i, thawed = thawed_state_sigsafe(&step->blob, pc);
    if (thawed == THAWED_LEFT && step->is_leaf)
        return thawed_leave_sigsafe(step, pc);
    if (thawed)
        return 0;
    if (!offset || !has_java_thread_sigsafe(u, step->recipe))
        return 0;
    entry = machine_word_sigsafe(u, u->java_thread + offset);
    for (i = 0; i < ENTRIES_MAX && entry && entry < u->sp; i++)
        if (!stack_word_sigsafe(u, entry + ENTRY_PARENT, &entry))
            return 0;
    if (entry < u->sp || entry & 7)
        return 0;
    for (slot = entry + 16; slot <= entry + 8 * (ENTRY_WORDS + 1); slot += 8)
        if (stack_word_sigsafe(u, slot, &ra) && is_java_return_sigsafe(step->recipe, step->heaps, ra) &&
            stack_word_sigsafe(u, slot - 8, &bp)) {
            u->bp = bp;
            u->bp_known = 1;
            return java_return_sigsafe(step, slot + 8, ra);
        }
    return 0;
}
