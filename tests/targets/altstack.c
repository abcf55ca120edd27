/*
 * Threads whose own handler runs on an alternate stack (sigaltstack) of BYTES bytes.
 * usage: altstack BYTES | tight busy | sleep
 *
 * Two threads each send themselves SIGUSR1 all the time; the handler works for half a millisecond, or sleeps three, and
 * so does the thread between two signals (a thousand times as long where the stack has 32 KB or more). Below each
 * alternate stack lies a page of a known pattern: whoever needs more stack than there is either dies when the kernel
 * lays its frame, or spoils that page. "tight" has room for two frames and the handler, and for little else. The report
 * counts the signals sent and handled, waits that were cut short, and bytes spoilt.
 */
#include "target.h"

#include <errno.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/mman.h>

#define THREADS 2
#define CANARY_BYTES 4096
#define CANARY 0x5a
#define FRAME_ENTRY 51 /* AT_MINSIGSTKSZ */
#define TIGHT_HANDLER_BYTES 3500
#define TIGHT_REST_BYTES 724

static int is_asleep;
static size_t stack_bytes, handler_bytes;
static int pauses = 1;
static volatile int stop;
static unsigned sent[THREADS], spoilt[THREADS];
static _Thread_local volatile unsigned handled, eintr;
static unsigned handled_of[THREADS], eintr_of[THREADS];

NOINLINE static void work(void)
{
    if (is_asleep) {
        struct timespec time = {0, 3000000};
        if (nanosleep(&time, NULL) < 0 && errno == EINTR)
            eintr++;
        return;
    }
    volatile uint64_t sink = 1;
    uint64_t state = sink;
    SPIN(state, 500000, 6364136223846793005ULL);
    sink = state;
}

static void on_signal(int number)
{
    (void)number;
    int saved = errno;
    volatile char room[handler_bytes];
    room[0] = room[handler_bytes - 1] = 0;
    work();
    handled++;
    errno = saved;
}

static void *worker(void *argument)
{
    size_t index = (size_t)argument;
    unsigned char *memory = mmap(NULL, CANARY_BYTES + stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                                 -1, 0);
    stack_t alternate = {.ss_sp = memory + CANARY_BYTES, .ss_size = stack_bytes, .ss_flags = 0};
    memset(memory, CANARY, CANARY_BYTES);
    if (sigaltstack(&alternate, NULL) < 0) {
        perror("sigaltstack");
        exit(1);
    }
    errno = 0; /* resolved now, and not in the handler on its small stack */
    while (!stop) {
        for (int i = 0; i < pauses && !stop; i++)
            work();
        sent[index]++;
        syscall(SYS_tgkill, getpid(), target_tid(), SIGUSR1);
    }
    for (size_t i = 0; i < CANARY_BYTES; i++)
        spoilt[index] += memory[i] != CANARY;
    handled_of[index] = handled;
    eintr_of[index] = eintr;
    return NULL;
}

int main(int count, char **arguments)
{
    pthread_t threads[THREADS];
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK | SA_RESTART};
    stack_bytes = count > 1 ? strtoul(arguments[1], NULL, 10) : 8192;
    handler_bytes = stack_bytes >= 8192 ? 1500 : 100; /* 1500: what a handler needs that calls snprintf, say */
    if (count > 1 && strcmp(arguments[1], "tight") == 0) {
        size_t frame_bytes = getauxval(FRAME_ENTRY);
        handler_bytes = TIGHT_HANDLER_BYTES;
        stack_bytes = 2 * (frame_bytes ? frame_bytes : 4096) + TIGHT_HANDLER_BYTES + TIGHT_REST_BYTES;
    }
    pauses = stack_bytes >= 32768 ? 1000 : 1; /* so that a moment without handlers is met before one with */
    is_asleep = count > 2 && strcmp(arguments[2], "sleep") == 0;
    sigaction(SIGUSR1, &action, NULL);
    for (size_t i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, worker, (void *)i);
    target_ready("");
    target_wait_for_stop();
    stop = 1;
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        printf("sent %u handled %u eintr %u spoilt %u\n", sent[i], handled_of[i], eintr_of[i], spoilt[i]);
    }
    return 0;
}
