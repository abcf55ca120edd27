/*
 * The stack of a running thread, for its signal handler, and the known range of the thread's own stack.
 *
 * libc gives each thread a stack with its control block at the upper end. The thread pointer (the base of fs) points
 * to the block, which records where the stack begins (glibc) or ends (musl); the host has found where
 * (profiler/inject/link/libc_block.py). The handler only reads the register. The sampler thread reads the block from
 * outside, once, so that a thread with an fs base of its own cannot make us fault. Until then, and where fs cannot be
 * read, the stack is copied.
 */

#define AT_HWCAP2_TYPE 26                 /* getauxval(3) */
#define PR_GET_AUXV 0x41555856            /* linux/prctl.h */
#define HWCAP2_FSGSBASE 2                 /* kernel Documentation/arch/x86/x86_64/fsgs.rst */

/* Return the base of fs; 0 if the kernel does not allow reading it. Context: signal. */
static u64 thread_pointer_sigsafe(const struct agent *a)
{
    u64 value = 0;
    if (a->has_fsgsbase)
        __asm__ volatile(".byte 0xf3, 0x48, 0x0f, 0xae, 0xc0" : "=a"(value)); /* rdfsbase %rax */
    return value;
}

/* Prepare `u` to unwind the stack of the interrupted thread into `frames`. Context: signal. */
static void stack_begin_sigsafe(struct agent *a, const struct thread_slot *slot, const u64 *gregs, u64 *frames,
                                struct unwinder *u)
{
    u64 block = thread_pointer_sigsafe(a);
    u->agent = a;
    u->map = a->map;
    u->pc = gregs[GREG_RIP];
    u->sp = gregs[GREG_RSP];
    u->bp = gregs[GREG_RBP];
    u->bp_known = 1;
    u->gregs = gregs;
    u->frames = frames;
    u->copy = (u8 *)(slot->frames + MAX_FRAMES);
    u->copy_bytes = SLOT_COPY_BYTES;
    u->in_handler = 1;
    u->java_thread = slot->java_thread;
    u->java_tid = slot->tid;
    u->own_start = u->own_end = 0;
    u->thread_pointer = block;
    if (slot->tid == a->pid) {
        u->own_start = u->map->main_stack.start;
        u->own_end = u->map->main_stack.end;
    } else if (block && block == load_acquire_u64((const volatile u64 *)&slot->thread_pointer)) {
        u->own_start = slot->stack_start;
        u->own_end = slot->stack_end;
        /* The sampler may be writing the range that belongs to another block. */
        if (block != load_acquire_u64((const volatile u64 *)&slot->thread_pointer))
            u->own_start = u->own_end = 0;
    }
}

/* Read the auxiliary vector: pairs of type and value, getauxval(3). Where there is no procfs, the kernel is asked: since
 * Linux 6.4, and unless the target has a filter that may not know the question. Returns its bytes. */
static i64 auxv_read(const struct agent *a, u64 *pairs, u64 bytes)
{
    i32 fd = open_readonly(a, "/proc/self/auxv");
    i64 got = fd < 0 ? 0 : sys_call3(NR_READ, (u64)fd, (u64)pairs, bytes);
    close_fd(fd);
    if (fd < 0 && !a->was_filtered)
        got = permitted_call(a, NR_PRCTL, PR_GET_AUXV, (u64)pairs, bytes, 0, 0);
    return got > (i64)bytes ? (i64)bytes : got;
}

/* Find out whether the handler may read the thread pointer. Context: sampler thread, at its start. */
static void thread_pointers_prepare(struct agent *a)
{
    u64 auxv[64], i;
    i64 got = auxv_read(a, auxv, sizeof auxv);
    for (i = 0; (i64)(i * 8 + 16) <= got; i += 2)
        if (auxv[i] == AT_HWCAP2_TYPE)
            a->has_fsgsbase = (auxv[i + 1] & HWCAP2_FSGSBASE) != 0;
}

/* Learn the stack of a thread pointer that a handler saw for the first time. Context: sampler thread. */
static void stack_learn(struct agent *a, struct thread_slot *slot)
{
    u64 block = slot->thread_pointer_seen, notes[3], start = 0, end = 0, is_end = a->stack_notes_offset & 1;
    if (block == slot->thread_pointer || !a->stack_notes_offset)
        return;
    if (read_memory(a, block + a->stack_notes_offset - is_end, notes, sizeof notes) != sizeof notes || notes[1] >= 1ULL << 40)
        notes[0] = notes[1] = notes[2] = 0;
    if (is_end && notes[1] < notes[0] && notes[0] <= block) {    /* the guard lies below */
        start = notes[0] - notes[1];
        end = notes[0] & ~7ULL;
    } else if (!is_end && notes[2] < notes[1] && block > notes[0] + notes[2] && block < notes[0] + notes[1]) {
        start = notes[0] + notes[2];
        end = block & ~7ULL;
    }
    /* A handler of this thread may read them now: clear the block first, so that it never sees the stack of another
     * block. */
    store_release_u64((volatile u64 *)&slot->thread_pointer, 0);
    store_release_u64((volatile u64 *)&slot->stack_start, start);
    store_release_u64((volatile u64 *)&slot->stack_end, end);
    store_release_u64((volatile u64 *)&slot->thread_pointer, block);
}
