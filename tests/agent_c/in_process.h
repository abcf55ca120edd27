/*
 * The agent in a test's own process, with the test for its host: a thread of libc's runs what ours does
 * (agent/entry/serve.c), in the descriptor table of all. own_thread.c has the thread that is really made.
 *
 * Include behind the agent's sources.
 */
#ifndef IN_PROCESS_H
#define IN_PROCESS_H

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BLOCK_BYTES 4096                  /* of struct pthread, at most */
#define LOOK_US 100

static struct in_process {
    pthread_t thread;
    u32 rate_hz, filtered, clocks;
    volatile u32 is_prepared, may_begin, has_begun;
    int error, unanswered;
} in_process;

/*
 * Find what profiler/inject/link/libc_block.py finds: in the calling thread's struct pthread, the words that match. The
 * main thread's says nothing of its stack.
 */
static void block_offsets_find(struct agent *a)
{
    u64 words[BLOCK_BYTES / 8], here = (u64)words, block = (u64)pthread_self(), head = 0, head_bytes, count, i;
    u32 tid = (u32)syscall(SYS_gettid);
    i64 got = read_memory(a, block, words, sizeof words);
    if (syscall(SYS_get_robust_list, 0, &head, &head_bytes) == 0)
        a->robust_list_offset = head - block;
    for (i = 0; (i64)(i * 4 + 4) <= got && !a->tid_offset; i++)
        if (((const u32 *)words)[i] == tid)
            a->tid_offset = i * 4;        /* glibc nptl/descr.h: tid */
    count = got > 24 ? (u64)got / 8 - 2 : 0;
    for (i = 1; i < count && !a->stack_notes_offset; i++) {
        /* stackblock, stackblock_size, guardsize: glibc nptl/descr.h */
        u64 start = words[i], bytes = words[i + 1], guard = words[i + 2];
        if (bytes < 1ULL << 40 && start + guard <= here && here < block && block < start + bytes && guard < bytes &&
            ((start | bytes | guard) & 4095) == 0)
            a->stack_notes_offset = i * 8;
    }
}

static void *in_process_main(void *argument)
{
    struct in_process *t = argument;
    BOOT->libc_code = (u64)sigaction;
    t->error = agent_prepare(t->rate_hz, t->filtered, t->clocks);
    if (!t->error)
        block_offsets_find(agent_cell);
    store_release_u32(&t->is_prepared, 1);
    if (t->error)
        return NULL;
    while (!load_acquire_u32(&t->may_begin))
        usleep(LOOK_US);
    t->error = sampling_begin(agent_cell);
    store_release_u32(&t->has_begun, 1);
    if (!t->error)
        sampler_main(agent_cell);
    t->unanswered = agent_stop();
    return NULL;
}

/* Make the thread, and have it prepare everything but sampling. Returns as agent_prepare. */
static int in_process_prepare(unsigned int rate_hz, unsigned int filtered, unsigned int clocks)
{
    sigset_t all, before;
    in_process = (struct in_process){.rate_hz = rate_hz, .filtered = filtered, .clocks = clocks};
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&in_process.thread, NULL, in_process_main, &in_process);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    while (!error && !load_acquire_u32(&in_process.is_prepared))
        usleep(LOOK_US);
    if (!error && in_process.error)
        pthread_join(in_process.thread, NULL);
    return error ? -error : in_process.error;
}

/* Map the ring as a host does. Call before in_process_begin; NULL if that fails. */
static __attribute__((unused)) struct ring_header *in_process_ring(void)
{
    void *ring = mmap(NULL, RING_HEADER_BYTES + RING_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, agent_cell->ring_fd, 0);
    close_fd(agent_cell->ring_fd);
    agent_cell->ring_fd = -1;
    return ring == MAP_FAILED ? NULL : ring;
}

static __attribute__((unused)) void in_process_set_paused(int paused)
{
    agent_cell->command = paused ? COMMAND_PAUSE : COMMAND_RUN;
}

/* Begin to sample. Returns 0 or an errno. */
static int in_process_begin(void)
{
    store_release_u32(&in_process.may_begin, 1);
    while (!load_acquire_u32(&in_process.has_begun))
        usleep(LOOK_US);
    return in_process.error;
}

/* End sampling. Returns as agent_stop. */
static __attribute__((unused)) int in_process_stop(void)
{
    struct agent *a = agent_cell;
    if (a)                                /* it frees itself only after this thread has ended the sampling */
        a->command = COMMAND_STOP;
    pthread_join(in_process.thread, NULL);
    return in_process.unanswered;
}

#endif
