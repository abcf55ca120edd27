/*
 * Threads that start late, when told to by a line on standard input, and whose alternate signal stacks (sigaltstack(2))
 * are not made for a signal of somebody else's. usage: late shared | tiny  fault | after
 *
 *   shared  two threads have the same memory as theirs, 64 KB. Harmless, as only one at a time sends itself a signal
 *   tiny    one has a stack of 2 KB, of which a signal's frame alone takes up to 3.4 KB, and never gets a signal; another
 *           one has 64 KB
 *
 *   fault   a handler for SIGSEGV would run on these stacks, but that signal never comes
 *   after   the same, and one for SIGUSR1 on the threads' own stacks; from a second line on it runs, now and then, on
 *           those of 64 KB
 *
 * The answer to the first line is "begun TID TID", or "refused" where the kernel takes no stack of 2 KB, and to the
 * second one "installed". Below and above each stack lies a pattern, and each handler keeps one in its frame. The report
 * counts wrong results and spoilt bytes.
 */
#include "target.h"

#include <signal.h>

#define THREADS 2
#define LARGE_BYTES 65536
#define TINY_BYTES 2048
#define MARGIN_BYTES 16384
#define PATTERN 0xc3
#define ROUNDS_BETWEEN_SIGNALS 40

static struct alternate {
    unsigned char *memory; /* a margin, the stack, and another margin */
    size_t bytes;
} alternates[THREADS];

static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t begun;
static volatile int is_used, is_refused, stop;
static volatile int tids[THREADS];
static unsigned wrong, spoilt, handled;

NOINLINE static unsigned compute(unsigned seed, int depth)
{
    volatile unsigned state = seed;
    if (depth)
        return compute(seed + 1, depth - 1) ^ state;
    uint64_t sum = state;
    SPIN(sum, 200000, 6364136223846793005ULL);
    return (unsigned)(sum >> 32);
}

static unsigned changed(const volatile unsigned char *pattern, size_t bytes)
{
    unsigned count = 0;
    for (size_t i = 0; i < bytes; i++)
        count += pattern[i] != PATTERN;
    return count;
}

static void on_signal(int number)
{
    volatile unsigned char pattern[4096];
    (void)number;
    for (size_t i = 0; i < sizeof pattern; i++)
        pattern[i] = PATTERN;
    unsigned first = compute(handled, 8);
    __atomic_add_fetch(&wrong, first != compute(handled, 8), __ATOMIC_RELAXED);
    __atomic_add_fetch(&spoilt, changed(pattern, sizeof pattern), __ATOMIC_RELAXED);
    handled++;
}

static void new_alternate(struct alternate *one, size_t bytes)
{
    one->bytes = bytes;
    one->memory = malloc(MARGIN_BYTES + bytes + MARGIN_BYTES);
    memset(one->memory, PATTERN, MARGIN_BYTES + bytes + MARGIN_BYTES);
}

static void install(int number, int flags)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = flags | SA_RESTART};
    sigaction(number, &action, NULL);
}

static int has_line(void)
{
    char line[16];
    return fgets(line, sizeof line, stdin) != NULL;
}

static void *work(void *argument)
{
    size_t index = (size_t)argument;
    const struct alternate *one = &alternates[alternates[index].memory ? index : 0];
    stack_t alternate = {.ss_sp = one->memory + MARGIN_BYTES, .ss_size = one->bytes};
    /* glibc might refuse what the kernel takes. */
    if (syscall(SYS_sigaltstack, &alternate, NULL) != 0)
        is_refused = 1;
    unsigned expected = compute(1, 8);
    tids[index] = target_tid();
    pthread_barrier_wait(&begun);
    for (unsigned round = 1; !stop; round++) {
        if (compute(1, 8) != expected)
            __atomic_add_fetch(&wrong, 1, __ATOMIC_RELAXED);
        if (!is_used || one->bytes == TINY_BYTES || round % ROUNDS_BETWEEN_SIGNALS)
            continue;
        pthread_mutex_lock(&turn);
        syscall(SYS_tgkill, getpid(), target_tid(), SIGUSR1);
        pthread_mutex_unlock(&turn);
    }
    return NULL;
}

int main(int count, char **arguments)
{
    int is_tiny = count > 1 && !strcmp(arguments[1], "tiny");
    const char *how = count > 2 ? arguments[2] : "fault";
    pthread_t threads[THREADS];
    install(SIGSEGV, SA_ONSTACK);
    if (!strcmp(how, "after"))
        install(SIGUSR1, 0);
    new_alternate(&alternates[0], LARGE_BYTES);
    if (is_tiny)
        new_alternate(&alternates[1], TINY_BYTES);
    pthread_barrier_init(&begun, NULL, THREADS + 1);
    target_ready("");
    if (!has_line())
        return 1;
    for (size_t i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, (void *)i);
    pthread_barrier_wait(&begun);
    if (is_refused)
        puts("refused");
    else
        printf("begun %d %d\n", tids[0], tids[1]);
    fflush(stdout);
    if (has_line()) { /* "after" */
        install(SIGUSR1, SA_ONSTACK);
        is_used = 1;
        puts("installed");
        fflush(stdout);
        target_wait_for_stop();
    }
    stop = 1;
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS && alternates[i].memory; i++)
        spoilt += changed(alternates[i].memory, MARGIN_BYTES) +
                  changed(alternates[i].memory + MARGIN_BYTES + alternates[i].bytes, MARGIN_BYTES);
    if (is_tiny)
        spoilt += changed(alternates[1].memory + MARGIN_BYTES, TINY_BYTES);
    printf("wrong %u spoilt %u handlers %s\n", wrong, spoilt, handled ? "ran" : "none");
    return 0;
}
