/*
 * Where a thread of HotSpot left Java for other code. The machine keeps that in the thread's JavaThread while the thread runs
 * C, so that the collector finds its Java frames: sp, pc and rbp of the innermost of them. All of this may run in the handler.
 *
 * A walk asks for it once it had to guess below its first Java frame, or does not know rbp there. It goes on at the anchor
 * where the guesses led past it, into Java elsewhere (a stale return address), or nowhere.
 *
 * cpu/x86/javaFrameAnchor_x86.hpp: sp is 0 while the thread runs Java; pc may be 0, then it is the word below sp.
 */

/* Find the anchor of the thread, if it is in C and the walk has not met Java yet; `below` is a stack pointer of its C. Context:
 * signal. */
static void anchor_find_sigsafe(struct unwinder *u, u64 below)
{
    const struct code_heaps *heaps = code_heaps_sigsafe(u->agent);
    const u64 *recipe;
    u64 sp, pc;
    if (!heaps || u->anchor_asked || u->managed_verdict)
        return;
    u->anchor_asked = 1;
    recipe = u->agent->recipes[heaps->recipe];
    if (!has_java_thread_sigsafe(u, recipe))
        return;
    sp = machine_word_sigsafe(u, u->java_thread + recipe[HOTSPOT_THREAD_ANCHOR_SP]);
    pc = machine_word_sigsafe(u, u->java_thread + recipe[HOTSPOT_THREAD_ANCHOR_PC]);
    if (!pc && sp)
        pc = machine_word_sigsafe(u, sp - 8);
    if (sp & 7 || sp < below || pc <= 4096 || !code_heap_sigsafe(heaps, pc - 1))
        return;
    u->anchor_sp = sp;
    u->anchor_pc = pc;
    u->anchor_fp = machine_word_sigsafe(u, u->java_thread + recipe[HOTSPOT_THREAD_ANCHOR_FP]);
}

/* Go on at the anchor. Returns 0 if there is none. Context: signal. */
static u32 anchor_take_sigsafe(struct unwinder *u)
{
    if (!u->guessed)
        anchor_find_sigsafe(u, u->sp);
    if (!u->anchor_sp)
        return 0;
    if (u->frame_count && u->frames[u->frame_count - 1] == GUESSED_CALLER) {
        u->frame_count--;                 /* that caller is not taken */
        u->scanned_pc = 0;
    }
    if (!u->guessed && u->frame_count)
        u->guessed_at = u->frame_count - 1;
    u->guessed = 1;                       /* frames of C may be missing */
    u->sp = u->anchor_sp;
    u->pc = call_site_sigsafe(u->anchor_pc);
    u->bp = u->anchor_fp;
    u->bp_known = u->anchor_fp != 0;
    u->gregs = (const u64 *)0;
    u->verdict = VERDICT_TRUNCATED_DEPTH;
    u->fault_pc = 0;
    u->anchor_sp = 0;
    window_open_sigsafe(u, u->sp, 0);
    return 1;
}

/* Compare where a walk that has guessed is with the anchor. Context: signal. */
static void anchor_compare_sigsafe(struct unwinder *u)
{
    u32 is_java = code_heap_sigsafe(code_heaps_sigsafe(u->agent), u->pc) != 0;
    if (u->sp == u->anchor_sp && is_java) {
        if (!u->bp_known && u->anchor_fp) {
            u->bp = u->anchor_fp;
            u->bp_known = 1;
        }
        u->anchor_sp = 0;
    } else if (u->sp >= u->anchor_sp || is_java) {
        anchor_take_sigsafe(u);
    }
}
