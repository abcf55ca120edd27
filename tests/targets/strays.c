/*
 * A thread that computes on stacks of 4 KiB from malloc, where a signal has no room: its frame would overwrite what lies
 * below. Below each of them lies a pattern that must stay as it is.
 *
 * usage: strays none | small | roomy | unused | stale
 *   none    the thread has no alternate signal stack
 *   small   one of 4 KiB, with a pattern below it, and a handler for SIGSEGV that runs there
 *   roomy   one of 64 KiB, and such a handler
 *   unused  one of 64 KiB, and no handler that runs there
 *   stale   the thread stays on its own stack. It has an alternate one whose memory was given to something else long ago,
 *           a handler for SIGSEGV that would run there, and another one that would not
 *
 * The report counts wrong results, and bytes of the patterns that have changed.
 */
#include "switch_stack.h"
#include "target.h"

#include <signal.h>

#define STACKS 16
#define STACK_BYTES 4096
#define BELOW_BYTES 8192
#define PATTERN 0xc3

struct stray {
    unsigned char *memory; /* the pattern, and above it the stack */
    void *sp;
    unsigned seed, result;
    int is_done;
};

static struct stray strays[STACKS];
static struct stray *current;
static void *scheduler_sp;
static unsigned char *below_alternate;
static volatile int stop;
static int is_at_home;
static size_t below_bytes = BELOW_BYTES;
static unsigned wrong, spoilt, rounds;

NOINLINE static unsigned compute(unsigned seed, int depth)
{
    volatile unsigned state = seed;
    if (depth)
        return compute(seed + 1, depth - 1) ^ state;
    uint64_t sum = state;
    SPIN(sum, 20000, 6364136223846793005ULL);
    return (unsigned)(sum >> 32);
}

static void stray(void)
{
    struct stray *me = current;
    me->result = compute(me->seed, 8);
    switch_stack(&me->sp, scheduler_sp);
    me->result ^= compute(me->seed + 7, 8);
    me->is_done = 1;
    switch_stack(&me->sp, scheduler_sp);
}

static void begin(struct stray *one, unsigned seed)
{
    void **top = (void **)((uintptr_t)(one->memory + BELOW_BYTES + STACK_BYTES) & ~(uintptr_t)15);
    *--top = NULL;          /* where stray would return to: the stack is aligned as after a call */
    *--top = (void *)stray;
    top -= 6;
    memset(top, 0, 6 * sizeof *top);
    *one = (struct stray){.memory = one->memory, .sp = top, .seed = seed};
}

static unsigned changed(const unsigned char *pattern, size_t bytes)
{
    unsigned count = 0;
    for (size_t i = 0; i < bytes; i++)
        count += pattern[i] != PATTERN;
    return count;
}

static void *work(void *unused)
{
    (void)unused;
    while (!stop) {
        if (is_at_home) {
            wrong += compute(rounds, 8) != compute(rounds, 8);
            rounds++;
            continue;
        }
        for (int i = 0; i < STACKS; i++)
            begin(&strays[i], rounds + (unsigned)i);
        for (int turn = 0; turn < 2; turn++)
            for (int i = 0; i < STACKS; i++) {
                current = &strays[i];
                switch_stack(&scheduler_sp, current->sp);
            }
        for (int i = 0; i < STACKS; i++)
            wrong += !strays[i].is_done ||
                     (rounds % 256 == 0 && strays[i].result != (compute(rounds + (unsigned)i, 8) ^ compute(rounds + (unsigned)i + 7, 8)));
        rounds++;
    }
    return NULL;
}

static void on_fault(int number)
{
    _exit(number);
}

static void *worker(void *kind)
{
    int is_small = !strcmp(kind, "small");
    if (strcmp(kind, "none")) {
        size_t bytes = is_small ? 4096 : 65536;
        unsigned char *memory = malloc(BELOW_BYTES + bytes);
        stack_t alternate = {.ss_sp = memory + BELOW_BYTES, .ss_size = bytes};
        memset(memory, PATTERN, BELOW_BYTES);
        below_alternate = memory;
        sigaltstack(&alternate, NULL);
        if (is_at_home) {
            below_bytes += bytes;
            memset(memory, PATTERN, below_bytes);
        }
    }
    return work(NULL);
}

int main(int count, char **arguments)
{
    char *kind = count > 1 ? arguments[1] : "none";
    pthread_t thread;
    for (int i = 0; i < STACKS; i++) {
        strays[i].memory = malloc(BELOW_BYTES + STACK_BYTES);
        memset(strays[i].memory, PATTERN, BELOW_BYTES);
    }
    is_at_home = !strcmp(kind, "stale");
    if (!strcmp(kind, "small") || !strcmp(kind, "roomy") || is_at_home) {
        struct sigaction action = {.sa_handler = on_fault, .sa_flags = SA_ONSTACK};
        sigaction(SIGSEGV, &action, NULL);
        action.sa_flags = 0;
        if (is_at_home)
            sigaction(SIGUSR1, &action, NULL);
    }
    pthread_create(&thread, NULL, worker, kind);
    while (!__atomic_load_n(&rounds, __ATOMIC_RELAXED))
        usleep(1000);
    target_ready("");
    target_wait_for_stop();
    stop = 1;
    pthread_join(thread, NULL);
    for (int i = 0; i < STACKS; i++)
        spoilt += changed(strays[i].memory, BELOW_BYTES);
    if (below_alternate)
        spoilt += changed(below_alternate, below_bytes);
    printf("wrong %u spoilt %u\n", wrong, spoilt);
    return 0;
}
