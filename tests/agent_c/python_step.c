/*
 * The agent's walk over Python's frames at every machine instruction of a thread. A shared library that a Python program
 * loads (tests/targets/python_steps.py); built behind the agent's sources, without Frida.
 *
 * step_begin(recipe, steps) makes the calling thread trap after each instruction (the trap flag, Intel SDM volume 3,
 * 18.3.1.4); the handler of SIGTRAP takes the stack as the handler of a sample does. step_end(path) writes what was taken:
 * for each step, as u64: number of words, managed verdict, native verdict, and the words (agent/interpreters/managed.h).
 * step_unlist() empties the list of thread states, as it is for a thread that has just begun; step_withdraw() takes back the
 * recipe, too, as the host does for an interpreter that is gone.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "in_process.h"

#define TRAP_FLAG 0x100ULL
#define GREG_EFL 17
#define TAKEN_BYTES (1ULL << 30)

static u64 *taken;
static u64 taken_words, steps_left, steps_done;

static struct thread_slot *own_slot(struct agent *a)
{
    u32 tid = (u32)syscall(SYS_gettid);
    for (u32 i = 0; i < a->slot_count; i++)
        if (a->slots[i].tid == tid)
            return &a->slots[i];
    return NULL;
}

static void trap(int signo, siginfo_t *info, void *context)
{
    u64 *gregs = (u64 *)((u8 *)context + UCONTEXT_GREGS);
    struct agent *a = agent_cell;
    struct thread_slot *slot = own_slot(a);
    struct unwinder u;
    (void)signo;
    (void)info;
    if (!steps_left || (taken_words + MAX_FRAMES + 3) * 8 > TAKEN_BYTES) {
        gregs[GREG_EFL] &= ~TRAP_FLAG;
        return;
    }
    steps_left--;
    steps_done++;
    gregs[GREG_EFL] |= TRAP_FLAG;
    stack_begin_sigsafe(a, slot, gregs, slot->frames, &u);
    u32 managed = stack_take_sigsafe(&u, slot->managed, u.thread_pointer, 0, gregs);
    for (u32 tries = 0; u.verdict == VERDICT_RETRY && tries < COMPILE_ROUNDS_MAX; tries++) {
        modules_compile_wanted(a);        /* as the sampler thread does between two rounds */
        stack_begin_sigsafe(a, slot, gregs, slot->frames, &u);
        managed = stack_take_sigsafe(&u, slot->managed, u.thread_pointer, 0, gregs);
    }
    taken[taken_words++] = u.frame_count;
    taken[taken_words++] = managed;
    taken[taken_words++] = u.verdict;
    memcpy(taken + taken_words, u.frames, u.frame_count * 8);
    taken_words += u.frame_count;
}

int step_begin(const u64 *recipe, long steps)
{
    struct sigaction action;
    u64 wrong[RECIPE_WORDS];
    if (in_process_prepare(100, FILTERED_NOBODY, 0))      /* and its thread waits */
        return 1;
    struct agent *a = agent_cell;
    struct thread_slot *slot = own_slot(a);
    thread_pointers_prepare(a);
    bytes_copy(wrong, recipe, sizeof wrong);
    wrong[RECIPE_FRAME_CODE] += 8;
    recipes_set(a, wrong, 1);             /* until the host knows better */
    recipes_set(a, recipe, 1);
    states_keep(a, now_ns_sigsafe());
    if (!slot || !a->states || !a->states->count)
        return 2;
    slot->frames = agent_pages(a, SLOT_PAGES_BYTES);
    slot->managed = agent_pages(a, sizeof *slot->managed);
    taken = mmap(NULL, TAKEN_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (taken == MAP_FAILED || !slot->frames || !slot->managed)
        return 3;
    steps_left = (u64)steps;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = trap;
    action.sa_flags = SA_SIGINFO;
    sigfillset(&action.sa_mask);
    sigaction(SIGTRAP, &action, NULL);
    syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), SIGTRAP);
    return 0;
}

void step_unlist(void)
{
    agent_cell->states->count = 0;
}

void step_withdraw(void)
{
    recipes_set(agent_cell, NULL, 0);
    step_unlist();
}

int step_is_on(void)
{
    return steps_left != 0;
}

/* Returns the number of steps, 0 if the file could not be written. */
long step_end(const char *path)
{
    steps_left = 0;
    signal(SIGTRAP, SIG_DFL);
    FILE *file = fopen(path, "wb");
    size_t written = file ? fwrite(taken, 8, taken_words, file) : 0;
    return file && fclose(file) == 0 && written == taken_words ? (long)steps_done : 0;
}
