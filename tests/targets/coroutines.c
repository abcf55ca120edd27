/*
 * Coroutines: code that runs on stacks nobody told the C library of. usage: coroutines ucontext | switch BYTES [bare]
 *
 * One thread makes, runs and unmaps stacks of BYTES bytes all the time, each in a mapping of its own with a guard page
 * below it or, with `bare`, every second one right above another mapping. On each a coroutine recurses, yields in the middle, and
 * returns a number that is checked. `switch` changes stacks by hand as boost.context does: six registers and the stack
 * pointer, no system call. The report counts coroutines and wrong results.
 */
#include "switch_stack.h"
#include "target.h"

#include <sys/mman.h>
#include <ucontext.h>

#define ALIVE 32
#define PAGE 4096
#define STEP_SPINS 5000

static size_t stack_bytes;
static int by_hand, is_bare;

struct coroutine {
    unsigned char *mapping;
    size_t mapping_bytes;
    void *sp;               /* by hand: where it stands while it does not run */
    ucontext_t context;
    uint64_t seed;
    uint64_t result;
    int is_done;
};

static struct coroutine coroutines[ALIVE];
static struct coroutine *current;
static ucontext_t scheduler_context;
static void *scheduler_sp;

static void yield(void)
{
    struct coroutine *me = current;
    if (by_hand)
        switch_stack(&me->sp, scheduler_sp);
    else
        swapcontext(&me->context, &scheduler_context);
}

static void resume(struct coroutine *which)
{
    current = which;
    if (by_hand)
        switch_stack(&scheduler_sp, which->sp);
    else
        swapcontext(&scheduler_context, &which->context);
}

NOINLINE static uint64_t descend(uint64_t seed, int depth)
{
    uint64_t state = seed + (uint64_t)depth;
    SPIN(state, STEP_SPINS, 6364136223846793005ULL);
    if (depth == 0)
        yield();
    else
        state += descend(state, depth - 1);
    SPIN(state, STEP_SPINS, 6364136223846793005ULL);
    return state;
}

static uint64_t expected(uint64_t seed, int depth)
{
    uint64_t state = seed + (uint64_t)depth;
    SPIN(state, STEP_SPINS, 6364136223846793005ULL);
    if (depth)
        state += expected(state, depth - 1);
    SPIN(state, STEP_SPINS, 6364136223846793005ULL);
    return state;
}

static void coroutine_main(void)
{
    struct coroutine *me = current;
    me->result = descend(me->seed, 8);
    me->is_done = 1;
    for (;;)
        yield();
}

static void begin(struct coroutine *which, unsigned number)
{
    size_t guard = is_bare && number % 2 ? 0 : PAGE;
    unsigned char *memory = mmap(NULL, guard + stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        perror("mmap");
        exit(1);
    }
    if (guard)
        mprotect(memory, guard, PROT_NONE);
    memset(which, 0, sizeof *which);
    which->mapping = memory;
    which->mapping_bytes = guard + stack_bytes;
    which->seed = number;
    if (by_hand) {
        uint64_t *top = (uint64_t *)(memory + guard + stack_bytes) - 2;
        top[0] = 0; /* what coroutine_main would return to */
        top[-1] = (uint64_t)(uintptr_t)coroutine_main;
        which->sp = top - 7;
    } else {
        getcontext(&which->context);
        which->context.uc_stack.ss_sp = memory + guard;
        which->context.uc_stack.ss_size = stack_bytes;
        makecontext(&which->context, coroutine_main, 0);
    }
}

int main(int count, char **arguments)
{
    unsigned begun = 0, wrong = 0;
    by_hand = count > 1 && strcmp(arguments[1], "switch") == 0;
    stack_bytes = count > 2 ? strtoul(arguments[2], NULL, 10) : 16384;
    is_bare = count > 3;
    target_ready("");
    while (!target_asked_to_stop()) {
        for (int round = 0; round < 4; round++) {
            for (int i = 0; i < ALIVE; i++)
                begin(&coroutines[i], begun++);
            for (int i = 0; i < ALIVE; i++)
                resume(&coroutines[i]);
            for (int i = 0; i < ALIVE; i++) {
                resume(&coroutines[i]);
                wrong += !coroutines[i].is_done || coroutines[i].result != expected(coroutines[i].seed, 8);
                munmap(coroutines[i].mapping, coroutines[i].mapping_bytes);
            }
        }
    }
    printf("coroutines %s wrong %u\n", begun ? "ran" : "none", wrong);
    return 0;
}
