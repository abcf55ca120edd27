/*
 * A wait that lets in a signal which its thread blocks otherwise (pselect with a mask), and our signals sent without a
 * look at what the thread is doing, also while it comes back from the handler of its own: each of its own signals must
 * end a wait. Built behind the agent's sources.
 *
 * Usage: opened MILLISECONDS
 * Prints: opened waits=N own=N lost=N foreign=N sent=N: waits that its own signal ended, that went on although its
 * handler had run, that ended without, and signals of ours.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/select.h>
#include <time.h>
#include <unistd.h>

#include "in_process.h"
#include "require.h"

#define WAIT_LIMIT_NS 100000000L          /* so long lasts one that has lost its end */
#define OUR_GAP_NS 20000L

static volatile sig_atomic_t handled;
static volatile unsigned long waits, own, lost, foreign;
static volatile int is_over, waiter_tid;
static pthread_t waiter;

static void on_signal(int signo)
{
    (void)signo;
    handled++;
}

static void sleep_ns(long ns)
{
    struct timespec time = {0, ns};
    nanosleep(&time, NULL);
}

static void *wait_opened(void *argument)
{
    sigset_t none;
    (void)argument;
    sigemptyset(&none);
    waiter_tid = (int)sys_call3(NR_GETTID, 0, 0, 0);
    while (!is_over) {
        struct timespec limit = {0, WAIT_LIMIT_NS};
        int before = handled, result, has_run;
        waits++;
        result = pselect(0, NULL, NULL, NULL, &limit, &none);
        has_run = handled != before;
        own += result < 0 && has_run;
        lost += result == 0 && has_run;
        foreign += result < 0 && !has_run;
    }
    return NULL;
}

static void *signals_send(void *argument)
{
    unsigned long last = 0;
    (void)argument;
    while (!is_over) {
        while (waits == last && !is_over)
            sleep_ns(1000);
        last = waits;
        pthread_kill(waiter, SIGCHLD);
    }
    return NULL;
}

static struct thread_slot *slot_of_waiter(void)
{
    struct agent *a = agent_cell;
    for (u32 i = 0; i < a->slot_count; i++)
        if (a->slots[i].tid == (u32)waiter_tid)
            return &a->slots[i];
    return NULL;
}

int main(int count, char **arguments)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    struct thread_slot *slot;
    struct ring_header *ring;
    unsigned long sent = 0;
    pthread_t sender;
    sigset_t blocked;
    u64 until;
    require(count == 2, "usage: opened MILLISECONDS");
    sigaction(SIGCHLD, &action, NULL);
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGCHLD);
    pthread_sigmask(SIG_BLOCK, &blocked, NULL);
    pthread_create(&waiter, NULL, wait_opened, NULL);
    while (!waiter_tid)
        sleep_ns(1000000);
    pthread_create(&sender, NULL, signals_send, NULL);
    require(in_process_prepare(100, is_filtered_sigsafe() ? FILTERED_MAIN : FILTERED_NOBODY, 1) == 0, "prepare");
    ring = agent_cell->ring;
    in_process_set_paused(1);
    require(in_process_begin() == 0, "begin");
    slot = slot_of_waiter();
    require(slot != NULL, "slot");
    slot->frames = pages_new(SLOT_PAGES_BYTES);
    until = now_ns_sigsafe() + (u64)atoi(arguments[1]) * 1000000ULL;
    while (now_ns_sigsafe() < until) {
        u32 state = load_acquire_u32(&slot->signal_state);
        ring->host_ns = now_ns_sigsafe();
        ring->tail = ring->head;
        sleep_ns(OUR_GAP_NS);
        if (state == SIGNAL_ANSWERED)
            slot->signal_state = SIGNAL_IDLE;
        else if (state != SIGNAL_IDLE)
            continue;
        sent += signal_post(agent_cell, slot, (u64)clock_ns_sigsafe(THREAD_CPU_CLOCK(slot->tid))) == 0;
    }
    is_over = 1;
    pthread_join(waiter, NULL);
    pthread_join(sender, NULL);
    printf("opened waits=%lu own=%lu lost=%lu foreign=%lu sent=%lu\n", waits, own, lost, foreign, sent);
    fflush(stdout);
    _exit(0);
}
