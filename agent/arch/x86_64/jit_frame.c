/*
 * How code without a file (JIT code) uses rbp, by the nearest function entry before a pc. All of this may run in the
 * handler: no libc, no locks, no allocation; code is read with process_vm_readv.
 *
 * V8 and others begin a function with `push %rbp; mov %rsp,%rbp`: rbp points to the frame. HotSpot's compilers save rbp
 * at the top of the frame and do not change it: it still points to a frame further up. OpenJDK's
 * MacroAssembler::verified_entry and build_frame; V8's TurboAssembler::EnterFrame.
 */

#define ENTRY_SEARCH_BYTES 8192           /* larger functions count as using frame pointers */
#define ENTRY_CHUNK_BYTES 256
#define ENTRY_PATTERN_BYTES 11
#define ENTRY_READS_MAX 128               /* limit for all searches of one walk */

enum rbp_use { RBP_USE_UNKNOWN = 0, RBP_LEFT_ALONE = 1, RBP_IS_FRAME = 2 };

/* Return how the function that begins here uses rbp (enum rbp_use); unknown if no function begins here. */
static u32 entry_kind_sigsafe(const u8 *code)
{
    if (code[0] == 0x55) {                                      /* push %rbp */
        if (code[1] != 0x48)
            return RBP_USE_UNKNOWN;
        if ((code[2] == 0x89 && code[3] == 0xe5) || (code[2] == 0x8b && code[3] == 0xec)) /* mov %rsp,%rbp */
            return RBP_IS_FRAME;
        return (code[2] == 0x83 || code[2] == 0x81) && code[3] == 0xec; /* sub $n,%rsp */
    }
    if (code[0] != 0x48 || code[2] != 0xec)
        return 0;
    if (code[1] == 0x83)                                        /* sub $n,%rsp; mov %rbp,n(%rsp) */
        return code[4] == 0x48 && code[5] == 0x89 && code[6] == 0x6c && code[7] == 0x24;
    return code[1] == 0x81 && code[7] == 0x48 && code[8] == 0x89 && code[9] == 0xac && code[10] == 0x24;
}

/* Return enum rbp_use of the nearest entry before `pc`; unknown if there is none near. Context: signal. */
static u32 entry_search_sigsafe(struct unwinder *u, u64 pc)
{
    const struct code_range *range = code_range_sigsafe(u->map, pc);
    u64 high = pc, floor;
    u8 code[ENTRY_CHUNK_BYTES + ENTRY_PATTERN_BYTES - 1];
    if (!range)
        return 0;
    floor = pc - range->start > ENTRY_SEARCH_BYTES ? pc - ENTRY_SEARCH_BYTES : range->start;
    while (high > floor && u->entry_reads < ENTRY_READS_MAX) {
        u64 low = high - floor > ENTRY_CHUNK_BYTES ? high - ENTRY_CHUNK_BYTES : floor;
        u64 bytes = high - low + ENTRY_PATTERN_BYTES - 1, i;
        if (bytes > range->end - low)
            bytes = range->end - low;
        u->entry_reads++;
        if (read_memory_sigsafe(u->agent, low, code, bytes) != (i64)bytes)
            return 0;
        for (i = bytes; i < sizeof code; i++)
            code[i] = 0;
        for (i = high - low; i-- > 0;) {
            u32 kind = entry_kind_sigsafe(code + i);
            if (kind)
                return kind == RBP_IS_FRAME && pc - (low + i) < 4 ? RBP_LEFT_ALONE : kind; /* `mov` has not run yet */
        }
        high = low;
    }
    return 0;
}

/* Return how the JIT code at `pc` uses rbp: enum rbp_use. Context: signal. */
static u32 rbp_use_sigsafe(struct unwinder *u, u64 pc)
{
    volatile u64 *slot = kept_slot_sigsafe(u->agent, pc, ASKED_RBP);
    u64 key = kept_key_sigsafe(u->agent, pc, ASKED_RBP), entry = *slot;
    u32 answer;
    if ((entry & ~0xfULL) == key)
        return entry & 0xf;
    answer = entry_search_sigsafe(u, pc);
    *slot = key | answer;
    return answer;
}
