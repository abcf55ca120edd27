/*
 * Look at a running thread on Linux and Android, behind walk.c: a signal has the thread itself say where it is, and wait until
 * its stack was walked. Frida's own way stops threads by ptrace, which can take 15 s there.
 */
#define SPINS 400000              /* of a thread that is looked at: some milliseconds at most */
#define ANSWER_US 3000

#ifdef __aarch64__
#define CONTEXT_FP 416
#define CONTEXT_SP 432
#define CONTEXT_PC 440
#else
#define CONTEXT_FP 120
#define CONTEXT_SP 160
#define CONTEXT_PC 168
#endif

struct asked {
    volatile guint64 tid;         /* 0: nobody is asked */
    volatile guint64 has_answered;
    volatile guint64 is_walked;
    guint64 pc, sp, fp;
    void (*former)(int, void *, void *); /* what the program does with the signal: NULL, or 1 to ignore it */
    gint inside;                  /* threads in on_signal */
};

extern struct asked asked;
extern long system_call(long number, long a, long b, long c);
extern guint64 numbers[3];        /* of tgkill(2), our pid, and of gettid(2) */

void on_signal(int number, void *info, guint8 *context)
{
    guint spins = 0;
    g_atomic_int_add(&asked.inside, 1);
    if (asked.tid != 0 && asked.tid == (guint64)system_call((long)numbers[2], 0, 0, 0) && !asked.has_answered) {
        asked.pc = *(guint64 *)(context + CONTEXT_PC);
        asked.sp = *(guint64 *)(context + CONTEXT_SP);
        asked.fp = *(guint64 *)(context + CONTEXT_FP);
        asked.has_answered = 1;
        while (!asked.is_walked && spins++ < SPINS)
            ;
    }
    /* One delivery may stand for a signal of the program's own, too. */
    if ((gsize)asked.former > 1)
        asked.former(number, info, context);
    g_atomic_int_add(&asked.inside, -1);
}

/* As look_add, of a running thread. One that does not answer in time, as it waits for a CPU, has no frames. */
guint look_running(guint64 *look, guint at, guint limit, guint64 tid, guint signal, guint64 mask, guint most)
{
    guint64 until_us = now_us() + ANSWER_US;
    guint found;
    if (at + THREAD_WORDS + most > limit)
        return at;
    look[at] = tid;
    look[at + 1] = look[at + 2] = 0;
    found = at + THREAD_WORDS;
    asked.has_answered = asked.is_walked = 0;
    asked.tid = tid;
    if (system_call((long)numbers[0], (long)numbers[1], (long)tid, (long)signal) == 0) {
        while (!asked.has_answered && now_us() < until_us)
            g_usleep(20);
        if (asked.has_answered)
            found = look_add(look, at, limit, tid, 0, asked.pc, asked.sp, asked.fp, sizeof(gsize), mask, most);
    }
    asked.is_walked = 1;
    asked.tid = 0;
    return found;
}
