/*
 * The handler's repair of interrupted waits, on purpose and all the time: the agent under gcc in a process whose
 * threads sit in every kind of wait (tests/targets/waits.h). The sampler is paused; signals are sent here, without a
 * look at what the thread is doing. Built behind the agent's sources.
 *
 * Usage: eintr MILLISECONDS MEAN_GAP_US quiet|signals|bare|sampled|long|ignored
 *   quiet    prints the books of each wait and, per wait, how many of our signals found it waiting, were repaired and
 *            could not be
 *   signals  the same, with signals of the program's own
 *   bare     no signal may be queued: ours arrive without what was sent with them
 *   sampled  as `signals`, but nothing is forced: the sampler works at 1 000 Hz; prints its counters, too
 *   ignored  the main thread computes and is sampled while the process gets signals that it ignores; prints how many of
 *            them and of ours there were, and how many epoll_waits of other threads failed
 *   long     one signal into waits of LONG_MS, LATE_MS after they began; prints how long they lasted
 */
#include "in_process.h"
#include "waits.h"

#include <sys/mman.h>
#include <sys/resource.h>

struct forced {
    unsigned long sent, met, bare;
    u64 next_ns;
};

static struct forced forced[WAIT_COUNT];

static void require(int condition, const char *what)
{
    if (!condition)
        die(what);
}

static struct thread_slot *slot_of(int tid)
{
    struct agent *a = agent_cell;
    for (u32 i = 0; i < a->slot_count; i++)
        if (a->slots[i].tid == (u32)tid)
            return &a->slots[i];
    return NULL;
}

/* What the sampler does for a running thread, without asking whether it runs. */
static void force(struct forced *f, struct thread_slot *slot)
{
    struct agent *a = agent_cell;
    u32 state = load_acquire_u32(&slot->signal_state);
    if (state == SIGNAL_ANSWERED) {
        f->met += slot->waited_in != NOT_WAITING;
        f->bare += slot->came_bare;
        slot->came_bare = 0;
        slot->signal_state = SIGNAL_IDLE;
    } else if (state != SIGNAL_IDLE) {
        return;
    }
    slot->sent_off_cpu = 0;
    f->sent += signal_post(a, slot, (u64)clock_ns_sigsafe(THREAD_CPU_CLOCK(slot->tid))) == 0;
}

#define LONG_MS 600
#define LATE_MS 500
#define MS_NS 1000000ULL
#define PAUSE_NS (100 * MS_NS)
#define TRIES 10

static volatile int long_tid;
static volatile u64 long_began_ns, long_lasted_ns;

static void enter_long(const char *name)
{
    struct epoll_event event;
    struct timespec time = {0, LONG_MS * 1000000L}, left;
    if (strcmp(name, "poll") == 0)
        poll(NULL, 0, LONG_MS);
    else if (strcmp(name, "epoll_wait") == 0)
        epoll_wait(epoll_fd, &event, 1, LONG_MS);
    else if (strcmp(name, "epoll_pwait") == 0)
        epoll_pwait(epoll_fd, &event, 1, LONG_MS, NULL);
    else if (strcmp(name, "nanosleep") == 0)
        nanosleep(&time, &left);
    else if (strcmp(name, "clock_nanosleep") == 0)
        clock_nanosleep(CLOCK_MONOTONIC, 0, &time, &left);
    else
        ppoll(NULL, 0, &time, NULL);
}

static void *wait_long(void *name)
{
    long_tid = target_tid();
    long_began_ns = now_ns_sigsafe();
    enter_long(name);
    long_lasted_ns = now_ns_sigsafe() - long_began_ns;
    return NULL;
}

/*
 * One signal, LATE_MS after the wait began; the handler is told that it was sent when the wait began. 0 if this says
 * nothing: on a machine that was busy elsewhere the answer came when the wait may have been over, or all stood still.
 */
static int signal_long(struct agent *a, struct thread_slot *used, char *name)
{
    u64 seen_ns = now_ns_sigsafe(), answered_ns = 0;
    int is_sent = 0, has_paused = 0;
    struct signal_info info;
    pthread_t thread;
    long_began_ns = long_lasted_ns = 0;
    pthread_create(&thread, NULL, wait_long, name);
    while (!long_lasted_ns) {
        u64 now_ns;
        SLEEP_NS(MS_NS);
        now_ns = now_ns_sigsafe();
        a->ring->host_ns = now_ns;
        has_paused |= now_ns - seen_ns > PAUSE_NS;
        seen_ns = now_ns;
        if (!is_sent && long_began_ns && now_ns >= long_began_ns + LATE_MS * MS_NS) {
            used->tid = (u32)long_tid;
            used->signal_ns = long_began_ns;
            used->signal_state = SIGNAL_SENT;
            signal_info_fill(a, &info, used);
            is_sent = send_signal(a, used->tid, &info) == 0;
        }
        if (is_sent && !answered_ns && load_acquire_u32(&used->signal_state) == SIGNAL_ANSWERED)
            answered_ns = now_ns_sigsafe();
    }
    pthread_join(thread, NULL);
    used->tid = 0;
    return answered_ns && answered_ns < long_began_ns + LONG_MS * MS_NS && !has_paused;
}

static int long_waits(void)
{
    static char *names[] = {"poll", "epoll_wait", "epoll_pwait", "nanosleep", "clock_nanosleep", "ppoll"};
    static struct thread_slot slot;
    struct agent *a;
    waits_open();
    waits_close();
    require(in_process_prepare(100, is_filtered_sigsafe() ? FILTERED_MAIN : FILTERED_NOBODY, 1) == 0, "prepare");
    in_process_set_paused(1);
    require(in_process_begin() == 0, "begin");
    a = agent_cell;
    slot.wait_sysno = -1;
    slot.frames = pages_new(SLOT_PAGES_BYTES);
    require(slot.frames != NULL, "pages");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct thread_slot *used = &a->slots[MAX_THREADS - 1];
        int tries = 0;
        do {
            require(tries++ < TRIES, "a signal in time");
            *used = slot;
        } while (!signal_long(a, used, names[i]));
        printf("%s lasted_ms=%llu repaired=%u\n", names[i], long_lasted_ns / MS_NS, used->eintr_repaired);
    }
    return 0;
}

static volatile unsigned long bystander_eintr, ignored_sent;

static void *bystander(void *argument)
{
    struct epoll_event event;
    (void)argument;
    while (!waits_end)
        bystander_eintr += epoll_wait(epoll_fd, &event, 1, 50) < 0;
    return NULL;
}

static void *ignored_signals_send(void *argument)
{
    (void)argument;
    while (!waits_end) {
        kill(getpid(), SIGCHLD);
        ignored_sent++;
        SLEEP_NS(20000);
    }
    return NULL;
}

static int ignored_signals(int milliseconds)
{
    struct ring_header *ring;
    volatile u64 sink = 1;
    pthread_t thread;
    u64 until;
    waits_open();
    waits_close();
    for (int i = 0; i < 3; i++)
        pthread_create(&thread, NULL, bystander, NULL);
    pthread_create(&thread, NULL, ignored_signals_send, NULL);
    require(in_process_prepare(1000, is_filtered_sigsafe() ? FILTERED_MAIN : FILTERED_NOBODY, 1) == 0 && in_process_begin() == 0, "agent");
    ring = agent_cell->ring;
    until = now_ns_sigsafe() + (u64)milliseconds * 1000000ULL;
    while (now_ns_sigsafe() < until) {
        uint64_t state = sink;
        ring->host_ns = now_ns_sigsafe();
        SPIN(state, 100000, 6364136223846793005ULL);
        sink = state;
    }
    printf("ignored sent=%lu handled=%llu eintr=%lu\n", ignored_sent, ring->counters[COUNTER_SIGNALS_HANDLED],
           bystander_eintr);
    fflush(stdout);
    _exit(0);
}

int main(int count, char **arguments)
{
    struct thread_slot *slots[WAIT_COUNT];
    require(count == 4, "usage: eintr MILLISECONDS MEAN_GAP_US quiet|signals|bare|sampled|long|ignored");
    if (strcmp(arguments[3], "long") == 0)
        return long_waits();
    if (strcmp(arguments[3], "ignored") == 0)
        return ignored_signals(atoi(arguments[1]));
    u64 gap_ns = (u64)atoi(arguments[2]) * 1000;
    int is_sampled = strcmp(arguments[3], "sampled") == 0;
    waits_begin(is_sampled || strcmp(arguments[3], "signals") == 0);
    require(in_process_prepare(is_sampled ? 1000 : 100, is_filtered_sigsafe() ? FILTERED_MAIN : FILTERED_NOBODY, 1) == 0, "prepare");
    struct ring_header *ring = in_process_ring();
    require(ring != NULL, "mmap");
    in_process_set_paused(!is_sampled);
    require(in_process_begin() == 0, "begin");
    if (strcmp(arguments[3], "bare") == 0) {
        struct rlimit none = {0, 0};
        setrlimit(RLIMIT_SIGPENDING, &none);
    }
    for (size_t i = 0; i < WAIT_COUNT; i++) {
        slots[i] = waits[i].tid ? slot_of(waits[i].tid) : NULL;
        if (!slots[i] || is_sampled)
            continue;
        slots[i]->frames = pages_new(SLOT_PAGES_BYTES);
        require(slots[i]->frames != NULL, "pages");
    }
    u64 until = now_ns_sigsafe() + (u64)atoi(arguments[1]) * 1000000ULL, random = 88172645463325252ULL;
    while (now_ns_sigsafe() < until) {
        u64 now_ns = now_ns_sigsafe();
        ring->host_ns = now_ns;
        ring->tail = ring->head;
        for (size_t i = 0; i < WAIT_COUNT; i++) {
            if (is_sampled || !slots[i] || now_ns < forced[i].next_ns)
                continue;
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            forced[i].next_ns = now_ns + random % (2 * gap_ns);
            force(&forced[i], slots[i]);
        }
        SLEEP_NS(50000);
    }
    SLEEP_NS(100000000); /* all have been taken */
    waits_report(stdout);
    for (int i = 0; is_sampled && i < COUNTER_COUNT; i++)
        printf("counter_%d value=%llu\n", i, ring->counters[i]);
    for (size_t i = 0; i < WAIT_COUNT; i++)
        if (slots[i])
            printf("%s sent=%lu met=%lu bare=%lu repaired=%u unrepairable=%u\n", waits[i].name, forced[i].sent,
                   forced[i].met, forced[i].bare, slots[i]->eintr_repaired, slots[i]->eintr_unrepairable);
    fflush(stdout);
    waits_close();
    _exit(0);
}
