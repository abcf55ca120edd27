/*
 * Literal stacks for the unwinder; built behind the agent's sources, with sanitizers. `unwind_cases NAME` runs one case
 * and aborts when a promise is broken; `unwind_cases list` names them.
 *
 * The code is imaginary: module 1 has one rule per 16 bytes of code, set by each case. Stacks are blocks of their exact
 * size, so that AddressSanitizer sees a read outside.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define CODE 0x400000ULL
#define CODE_END (CODE + 0x10000)
#define BARE 0x500000ULL                  /* a module without CFI */
#define RAW 0x600000ULL                   /* a module that is not compiled yet */
#define JIT 0x700000ULL                   /* code of no file */
#define RULE_COUNT 16
#define FUNCTION(n) (CODE + 16ULL * (n))  /* code that rule n holds for */
#define RETURN_TO(n) (FUNCTION(n) + 5)    /* a return address into it */

static struct agent agent;
static struct unwinder u;
static u64 frames[MAX_FRAMES];
static u64 *stack;
static u32 stack_words;

static void require(int condition, const char *promise)
{
    if (!condition) {
        fprintf(stderr, "broken promise: %s (verdict %u, %u frames, fault %llx)\n", promise, u.verdict, u.frame_count,
                u.fault_pc);
        abort();
    }
}

static struct memory_range ranges[2];

static void world_new(u32 words)
{
    static struct memory_map map;
    static struct code_range code[4];
    agent.pid = (u32)getpid();
    agent.cache_generation = 1;
    agent.rule_cache = calloc(RULE_CACHE_SLOTS, 8);
    agent.call_cache = calloc(CALL_CACHE_SLOTS, 8);
    agent.rules = calloc(1, sizeof(struct rule_table));
    agent.modules = calloc(8, sizeof(struct module));
    agent.rules->count = RULE_COUNT;
    for (u32 i = 0; i < 4; i++) {
        code[i].start = CODE + 0x100000ULL * i;
        code[i].end = code[i].start + 0x10000;
        code[i].module = i < 3 ? i + 1 : 0;
    }
    map.code = code;
    map.code_count = 4;
    map.stacks = ranges;
    map.stack_count = 1;
    agent.map = &map;
    struct module *m = &agent.modules[1];
    m->state = MODULE_READY;
    m->text_start = CODE;
    m->text_end = CODE_END;
    m->table = calloc(1, sizeof *m->table);
    m->table->rows = calloc(RULE_COUNT, sizeof(struct cfi_row));
    m->table->row_count = RULE_COUNT;
    m->file_searched = 1;
    for (u32 i = 0; i < RULE_COUNT; i++) {
        m->table->rows[i].pc_offset = 16 * i;
        m->table->rows[i].rule = i;
        agent.rules->rules[i].ra_off = -8;
    }
    agent.modules[2].state = MODULE_WITHOUT_CFI;
    agent.modules[2].file_searched = 1;
    agent.modules[3].state = MODULE_RAW;
    stack_words = words;
    stack = malloc(words * 8);
    memset(stack, 0x5a, words * 8);
    ranges[0].start = (u64)stack;
    ranges[0].end = (u64)(stack + words);
}

/* As world_new, but the stack is `pages` pages of their own, so that some can be taken away. */
static void world_of_pages(u32 pages)
{
    world_new(1);
    stack = mmap(NULL, pages * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    require(stack != MAP_FAILED, "mmap");
    stack_words = pages * 512;
    ranges[0].start = (u64)stack;
    ranges[0].end = (u64)(stack + stack_words);
}

static struct unwind_rule *rule(u32 number, u32 cfa_kind, i32 cfa_off)
{
    struct unwind_rule *r = &agent.rules->rules[number];
    r->cfa_kind = (u8)cfa_kind;
    r->cfa_off = cfa_off;
    return r;
}

static void root(u32 number)
{
    rule(number, CFA_RSP, 8)->ra_kind = RA_UNDEFINED;
}

/*
 * Walk five times: the second time common rules come packed from the cache; from the third time on the stack is not the
 * thread's own and is copied piece by piece, the last time but for the page of the stack pointer. Nothing may change.
 */
static void walk(u64 pc, u32 sp_word, u64 bp, u32 bp_known, const u64 *gregs)
{
    static u64 copy[128];
    u64 first[MAX_FRAMES];
    u32 count = 0, verdict = 0;
    for (int pass = 0; pass < 5; pass++) {
        memset(&u, 0, sizeof u);
        u.agent = &agent;
        u.map = agent.map;
        u.pc = pc;
        u.sp = (u64)(stack + sp_word);
        u.bp = bp;
        u.bp_known = bp_known;
        u.gregs = gregs;
        u.frames = frames;
        u.copy = (u8 *)copy;
        u.copy_bytes = pass < 3 ? sizeof copy : 264;
        u.in_handler = pass < 2 || pass == 4;
        if (pass < 2) {
            const struct memory_range *own = stack_range_sigsafe(u.map, u.sp);
            u.own_start = own ? own->start : 0;
            u.own_end = own ? own->end : 0;
        }
        unwind_sigsafe(&u);
        if (pass) {
            require(u.frame_count == count && u.verdict == verdict, "neither cache nor copy change anything");
            require(!memcmp(first, frames, count * 8), "neither cache nor copy change a frame");
        }
        count = u.frame_count;
        verdict = u.verdict;
        memcpy(first, frames, count * 8);
    }
}

static void expect(u32 verdict, u32 count, const u64 *expected)
{
    require(u.verdict == verdict, "verdict");
    require(u.frame_count == count, "number of frames");
    for (u32 i = 0; i < count; i++)
        require(frames[i] == expected[i], "frame");
}

static void case_rsp_rules_down_to_the_root(void)
{
    world_new(8);
    rule(1, CFA_RSP, 8);
    rule(2, CFA_RSP, 24);
    root(3);
    stack[0] = RETURN_TO(2);
    stack[3] = RETURN_TO(3);
    walk(FUNCTION(1), 0, 0x1234, 1, NULL);
    expect(VERDICT_COMPLETE, 3, (u64[]){FUNCTION(1), RETURN_TO(2) - 1, RETURN_TO(3) - 1});
}

static void case_rbp_frames(void)
{
    world_new(12);
    struct unwind_rule *r = rule(1, CFA_RBP, 16);
    r->rbp_kind = RBP_SAVED;
    r->rbp_off = -16;
    root(2);
    stack[4] = (u64)(stack + 8); /* the caller's rbp */
    stack[5] = RETURN_TO(1);
    stack[8] = 0;
    stack[9] = RETURN_TO(2);
    walk(FUNCTION(1), 0, (u64)(stack + 4), 1, NULL);
    expect(VERDICT_COMPLETE, 3, (u64[]){FUNCTION(1), RETURN_TO(1) - 1, RETURN_TO(2) - 1});
}

/* After `pop %rbp` the rule still has rbp at CFA-16, which is below rsp then: in the red zone, and right. */
static void case_saved_rbp_in_the_red_zone(void)
{
    world_new(12);
    struct unwind_rule *r = rule(1, CFA_RSP, 8);
    r->rbp_kind = RBP_SAVED;
    r->rbp_off = -16;
    rule(2, CFA_RBP, 16);
    root(3);
    stack[1] = (u64)(stack + 6); /* popped already */
    stack[2] = RETURN_TO(2);
    stack[7] = RETURN_TO(3);
    walk(FUNCTION(1), 2, (u64)(stack + 6), 1, NULL);
    expect(VERDICT_COMPLETE, 3, (u64[]){FUNCTION(1), RETURN_TO(2) - 1, RETURN_TO(3) - 1});
}

static void case_frame_too_large_to_pack(void)
{
    world_new(40000);
    rule(1, CFA_RSP, 262208); /* seen in libpython */
    root(2);
    stack[262208 / 8 - 1] = RETURN_TO(2);
    walk(FUNCTION(1), 0, 0, 1, NULL);
    expect(VERDICT_COMPLETE, 2, (u64[]){FUNCTION(1), RETURN_TO(2) - 1});
}

static void case_dereference(void)
{
    world_new(12);
    struct unwind_rule *r = rule(1, CFA_DEREF_RSP, 16);
    r->extra = 8;
    root(2);
    stack[2] = (u64)(stack + 8);
    stack[8] = RETURN_TO(2); /* CFA = stack + 9 */
    walk(FUNCTION(1), 0, 0, 1, NULL);
    expect(VERDICT_COMPLETE, 2, (u64[]){FUNCTION(1), RETURN_TO(2) - 1});
}

static void case_plt_entry_before_and_after_its_push(void)
{
    world_new(8);
    rule(1, CFA_PLT, 0)->extra = 11;
    root(2);
    stack[0] = RETURN_TO(2);
    stack[1] = RETURN_TO(3);
    root(3);
    walk(FUNCTION(1) + 4, 0, 0, 1, NULL);
    expect(VERDICT_COMPLETE, 2, (u64[]){FUNCTION(1) + 4, RETURN_TO(2) - 1});
    walk(FUNCTION(1) + 11, 0, 0, 1, NULL);
    expect(VERDICT_COMPLETE, 2, (u64[]){FUNCTION(1) + 11, RETURN_TO(3) - 1});
}

static void case_other_registers_in_the_leaf_only(void)
{
    u64 gregs[23] = {0};
    world_new(12);
    rule(1, CFA_REG, 16)->cfa_reg = 10; /* r10 */
    rule(2, CFA_REG, 16)->cfa_reg = 10;
    gregs[2] = (u64)(stack + 4);
    stack[5] = RETURN_TO(2);
    walk(FUNCTION(1), 0, 0, 1, gregs);
    expect(VERDICT_UNSUPPORTED_RULE, 2, (u64[]){FUNCTION(1), RETURN_TO(2) - 1});
    require(u.fault_pc == RETURN_TO(2) - 1, "the frame at fault");
}

/* OpenSSL's bignum code: the old stack pointer lies behind a vector of r9 words. */
static void case_dereference_by_index(void)
{
    u64 gregs[23] = {0};
    world_new(12);
    struct unwind_rule *r = rule(1, CFA_DEREF_INDEXED, 8);
    r->cfa_reg = 9;
    r->extra = 8;
    root(2);
    gregs[1] = 3; /* r9 */
    stack[4] = (u64)(stack + 8);
    stack[8] = RETURN_TO(2);
    walk(FUNCTION(1), 0, 0, 1, gregs);
    expect(VERDICT_COMPLETE, 2, (u64[]){FUNCTION(1), RETURN_TO(2) - 1});
    walk(FUNCTION(1), 0, 0, 1, NULL);
    expect(VERDICT_UNSUPPORTED_RULE, 1, (u64[]){FUNCTION(1)});
}

static void case_return_address_in_a_register(void)
{
    u64 gregs[23] = {0};
    world_new(8);
    struct unwind_rule *r = rule(1, CFA_RSP, 8); /* vfork: popped into rdi */
    r->ra_kind = RA_REG;
    r->ra_off = 5;
    root(2);
    gregs[8] = RETURN_TO(2);
    walk(FUNCTION(1), 0, 0, 1, gregs);
    expect(VERDICT_COMPLETE, 2, (u64[]){FUNCTION(1), RETURN_TO(2) - 1});
}

/* Through the frame of a signal handler: what it interrupted is no call site, and has all its registers. */
static void case_signal_frame(void)
{
    world_new(64);
    rule(1, CFA_RSP, 8);
    rule(2, CFA_SIGNAL, 0);
    rule(3, CFA_REG, 8)->cfa_reg = 0; /* rax: known only because the kernel saved it */
    root(4);
    stack[0] = RETURN_TO(2);
    u64 *gregs = stack + 1 + UCONTEXT_GREGS / 8;
    gregs[GREG_RIP] = FUNCTION(3);
    gregs[GREG_RSP] = (u64)(stack + 40);
    gregs[GREG_RBP] = 7;
    gregs[GREG_RAX] = (u64)(stack + 50);
    stack[50] = RETURN_TO(4);
    walk(FUNCTION(1), 0, 0, 1, NULL);
    expect(VERDICT_COMPLETE, 4, (u64[]){FUNCTION(1), RETURN_TO(2) - 1, FUNCTION(3), RETURN_TO(4) - 1});
}

static void case_call_that_a_handler_of_the_target_has_begun(void)
{
    world_new(16);
    rule(1, CFA_RSP, 8);
    rule(2, CFA_REG, 8)->cfa_reg = 0; /* rax: the thread has all its registers */
    root(3);
    agent.injected_entry = FUNCTION(1);
    u64 gregs[23] = {0};
    gregs[GREG_RAX] = (u64)(stack + 4);
    stack[0] = FUNCTION(2); /* the interrupted pc: the first byte of its function */
    stack[4] = RETURN_TO(3);
    walk(FUNCTION(1), 0, 0, 1, gregs);
    expect(VERDICT_COMPLETE, 2, (u64[]){FUNCTION(2), RETURN_TO(3) - 1});
    /* Once an instruction of it has run, the thread is in it. */
    stack[0] = RETURN_TO(3);
    walk(FUNCTION(1) + 1, 0, 0, 1, gregs);
    expect(VERDICT_COMPLETE, 2, (u64[]){FUNCTION(1) + 1, RETURN_TO(3) - 1});
}

static void case_frame_pointers_where_there_is_no_cfi(void)
{
    world_new(12);
    stack[2] = (u64)(stack + 6);
    stack[3] = BARE + 0x105;
    stack[6] = 0; /* where a goroutine or a thread begins */
    stack[7] = BARE + 0x205;
    walk(BARE + 0x10, 0, (u64)(stack + 2), 1, NULL);
    expect(VERDICT_GUESSED, 3, (u64[]){BARE + 0x10, BARE + 0x104, BARE + 0x204});
}

/* Code that uses rbp for something else: the word that a call instruction stands before, not just any code address. */
static void case_return_address_found_by_scanning(void)
{
    u8 *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    world_new(16);
    page[0x20] = 0xe8; /* call rel32 ends at 0x25 */
    agent.map->code[3].start = (u64)page;
    agent.map->code[3].end = (u64)page + 4096;
    struct code_range bare = agent.map->code[3];
    bare.module = 0;
    agent.map->code[3] = bare;
    stack[1] = (u64)page + 0x80; /* code, but no call before it */
    stack[4] = (u64)(stack + 9); /* saved rbp */
    stack[5] = (u64)page + 0x25;
    stack[9] = 0;
    stack[10] = RETURN_TO(1);
    root(1);
    walk((u64)page + 0x10, 0, 0x77, 1, NULL);
    expect(VERDICT_SCANNED, 4, (u64[]){(u64)page + 0x10, GUESSED_CALLER, (u64)page + 0x24, RETURN_TO(1) - 1});
}

/* Two pages of code, both with a call that ends at 0x25: one of module `first`, and one of no file. */
static u8 *world_of_two_pages(u32 first)
{
    u8 *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    world_new(20);
    page[0x20] = page[4096 + 0x20] = 0xe8;
    for (u32 i = 2; i < 4; i++) {
        agent.map->code[i].start = (u64)page + (i - 2) * 4096;
        agent.map->code[i].end = agent.map->code[i].start + 4096;
        agent.map->code[i].module = i == 2 ? first : 0;
    }
    return page;
}

/* Frida's agent has borrowed the thread when it came, and our handler has been there: words of their calls lie on the
 * stack and mean nothing. */
static void walk_over_words_of_ours(u8 *page)
{
    stack[2] = (u64)page + 0x25;
    stack[4] = (u64)(stack + 9);
    stack[5] = (u64)page + 4096 + 0x25;
    stack[9] = 0;
    stack[10] = RETURN_TO(1);
    root(1);
    walk((u64)page + 4096 + 0x10, 0, 0x77, 1, NULL);
    expect(VERDICT_SCANNED, 4,
           (u64[]){(u64)page + 4096 + 0x10, GUESSED_CALLER, (u64)page + 4096 + 0x24, RETURN_TO(1) - 1});
}

static void case_return_address_into_the_agent_left_over(void)
{
    u8 *page = world_of_two_pages(2);
    agent.modules[2].injected = 1;
    walk_over_words_of_ours(page);
    page = world_of_two_pages(0);
    agent.own_code = (u64)page + 0x800;
    walk_over_words_of_ours(page);
}

/* Assembly of a file, without CFI, that rbp means nothing to, called by a function that has realigned its stack. */
static void case_assembly_called_from_a_realigned_frame(void)
{
    u8 *page = world_of_two_pages(2);
    struct unwind_rule *r = rule(3, CFA_DEREF_RBP, -8);
    void *code = mmap((void *)CODE, 4096, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    require(code == (void *)CODE, "mmap");
    *(u8 *)(RETURN_TO(3) - 5) = 0xe8;
    r->rbp_kind = RBP_SAVED;
    r->rbp_off = -16;
    stack[1] = (u64)(stack + 8);          /* rbp, kept by the assembly */
    stack[2] = RETURN_TO(3);
    stack[7] = (u64)(stack + 14);         /* CFA of the realigned frame */
    stack[13] = RETURN_TO(1);
    root(1);
    walk((u64)page + 0x10, 0, 0, 1, NULL);
    expect(VERDICT_SCANNED, 4, (u64[]){(u64)page + 0x10, GUESSED_CALLER, RETURN_TO(3) - 1, RETURN_TO(1) - 1});
}

static void call_put(u64 return_address, u64 target)
{
    i32 distance = (i32)(target - return_address);
    *(u8 *)(return_address - 5) = 0xe8;
    memcpy((void *)(return_address - 4), &distance, 4);
}

/* A kernel without CFI, with a buffer of its own on the stack: it keeps the old sp in rbx, and rbp leads to a frame above
 * its caller's. Above the buffer lies what an earlier call of the caller's has left. */
static void case_kernel_that_keeps_the_old_sp_in_a_register(void)
{
    u64 gregs[23] = {0};
    world_new(1300);
    void *code = mmap((void *)CODE, 4096, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    require(code == (void *)CODE, "mmap");
    call_put(RETURN_TO(3), FUNCTION(5));
    call_put(RETURN_TO(4), FUNCTION(2));
    call_put(RETURN_TO(1), FUNCTION(3));
    root(1);
    rule(3, CFA_RSP, 24);
    rule(4, CFA_RSP, 16);
    gregs[11] = (u64)(stack + 1100);       /* rbx */
    stack[1101] = RETURN_TO(4);
    stack[1103] = RETURN_TO(3);
    stack[1106] = RETURN_TO(1);
    stack[1150] = 0;
    stack[1151] = RETURN_TO(1);
    walk(FUNCTION(5) + 8, 0, (u64)(stack + 1150), 1, gregs);
    expect(VERDICT_GUESSED, 3, (u64[]){FUNCTION(5) + 8, RETURN_TO(3) - 1, RETURN_TO(1) - 1});
}

/* Code that was never called, only returned to: there is no call before it, and it may have no CFI. */
static u8 *code_page(const void *code, size_t bytes)
{
    u8 *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(page + 0x20, code, bytes);
    agent.map->code[1].start = (u64)page; /* the module without CFI */
    agent.map->code[1].end = (u64)page + 4096;
    if ((u64)page > CODE) { /* keep the map sorted */
        struct code_range moved = agent.map->code[1];
        agent.map->code[1] = agent.map->code[3];
        agent.map->code[3] = moved;
    }
    return page + 0x20;
}

static void case_signal_restorer_without_cfi(void)
{
    world_new(64);
    u64 restorer = (u64)code_page("\x48\xc7\xc0\x0f\0\0\0\x0f\x05", 9);
    rule(1, CFA_RSP, 8);
    root(4);
    stack[0] = restorer;
    u64 *gregs = stack + 1 + UCONTEXT_GREGS / 8;
    gregs[GREG_RIP] = FUNCTION(1);
    gregs[GREG_RSP] = (u64)(stack + 50);
    stack[50] = RETURN_TO(4);
    walk(FUNCTION(1), 0, 0, 1, NULL);
    expect(VERDICT_COMPLETE, 4, (u64[]){FUNCTION(1), restorer, FUNCTION(1), RETURN_TO(4) - 1});
}

/* musl has no CFI. What its code does before it returns says where a frame ends; a first call of a thread ends the stack. */
#define CLONE_CHILD "\x31\xed\x5f\x41\xff\xd1\x89\xc7\x31\xc0\xb0\x3c\x0f\x05\xf4"
#define CLONE_BEFORE 6                    /* bytes up to the return address */

static void case_way_to_a_return(void)
{
    /* 15: push %rbp; push %rbx; sub $8,%rsp; call …; 26: test %eax,%eax; je 37; 30: call noreturn; 35: ud2
     * 37: add $8,%rsp; pop %rbx; pop %rbp; ret; 44: push %rbp; call 15; 50: pop %rbp; ret */
    static const char code[] = CLONE_CHILD "\x55\x53\x48\x83\xec\x08\xe8\0\0\0\0\x85\xc0\x74\x07\xe8\0\0\0\0\x0f\x0b"
                                           "\x48\x83\xc4\x08\x5b\x5d\xc3\x55\xe8\xd8\xff\xff\xff\x5d\xc3";
    world_new(64);
    u64 page = (u64)code_page(code, sizeof code - 1);
    u32 at = (u64)stack & 8 ? 1 : 0;                   /* a call leaves rsp at a multiple of 16 */
    rule(1, CFA_RSP, 16);                              /* the leaf: one word below its return address */
    memset(stack, 0, stack_words * 8);
    stack[at + 1] = page + 26;
    stack[at + 2] = page + 26;                         /* a stale word among the locals */
    stack[at + 5] = page + 50;
    stack[at + 7] = page + CLONE_BEFORE;
    walk(FUNCTION(1), at, 0, 1, NULL);
    expect(VERDICT_COMPLETE, 4, (u64[]){FUNCTION(1), page + 25, page + 49, page + CLONE_BEFORE - 1});
}

static void case_first_call_of_a_thread(void)
{
    world_new(64);
    u64 child = (u64)code_page(CLONE_CHILD "\x53\xff\x17\xe8\0\0\0\0", 23);
    u64 start = child + 15, root_call = child + CLONE_BEFORE; /* push %rbx; call *(%rdi); call __pthread_exit */
    rule(1, CFA_RSP, 8);
    memset(stack, 0, stack_words * 8);
    stack[0] = start + 3;
    stack[2] = root_call;
    walk(FUNCTION(1), 0, 0, 1, NULL);
    expect(VERDICT_COMPLETE, 3, (u64[]){FUNCTION(1), start + 2, root_call - 1});
    stack[1] = start + 3;                              /* perhaps of a frame between: then nothing is certain */
    agent.cache_generation = 2;
    walk(FUNCTION(1), 0, 0, 1, NULL);
    require(u.verdict != VERDICT_COMPLETE, "a stack is complete only if nothing was left out");
}

/* makecontext's coroutines end in code that takes another stack: nothing is above it. */
static void case_root_of_a_coroutine(void)
{
    world_new(8);
    u64 start_context = (u64)code_page("\x48\x89\xdc\x48\x8b\x3c\x24\x48\x85\xff", 10);
    rule(1, CFA_RSP, 8);
    stack[0] = start_context;
    stack[1] = RETURN_TO(1); /* an argument, of all things */
    walk(FUNCTION(1), 0, 0, 1, NULL);
    expect(VERDICT_COMPLETE, 2, (u64[]){FUNCTION(1), start_context});
    world_new(8);
    rule(1, CFA_RSP, 8);
    stack[0] = (u64)code_page("\x48\x31\xff\xe8\x12\x34\x56\x78\xf4", 9); /* boost.context */
    walk(FUNCTION(1), 0, 0, 1, NULL);
    expect(VERDICT_COMPLETE, 2, (u64[]){FUNCTION(1), stack[0]});
}

/* Code of no file whose functions begin as `entry`: a frame holds a stale word that looks like a saved rbp. */
static u8 *world_of_jit(const char *entry, u32 entry_bytes)
{
    u8 *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    require(page != MAP_FAILED, "mmap");
    world_new(24);
    agent.map->code[3].start = (u64)page;
    agent.map->code[3].end = (u64)page + 4096;
    for (u32 i = 0; i < 4096; i += 512)
        memcpy(page + i, entry, entry_bytes);
    page[0x120] = page[0x320] = page[0x520] = 0xe8; /* call rel32: return addresses 0x125, 0x325, 0x525 */
    stack[4] = (u64)(stack + 10);         /* rbp, left there by a call that is over */
    stack[5] = (u64)page + 0x325;
    stack[10] = (u64)(stack + 16);        /* where rbp points to */
    stack[11] = (u64)page + 0x525;
    stack[16] = 0;
    stack[17] = RETURN_TO(1);
    root(1);
    return page;
}

static void case_code_with_frame_pointers_has_no_other_frames(void)
{
    static const char *const entries[] = {"\x55\x48\x89\xe5\x56\x57", "\x55\x48\x8b\xec\x48\x81\xec\x90\0\0\0\x48\x89"};
    for (u32 i = 0; i < 2; i++) {
        u8 *page = world_of_jit(entries[i], i ? 13 : 6);
        walk((u64)page + 0x110, 2, (u64)(stack + 10), 1, NULL);
        expect(VERDICT_GUESSED, 3, (u64[]){(u64)page + 0x110, (u64)page + 0x524, RETURN_TO(1) - 1});
    }
}

/* A kernel that a library has made keeps data in rbp: what it does before it returns tells who has called it, not the stale
 * words in its frame. */
static void case_generated_kernel_with_data_in_rbp(void)
{
    u8 *page = world_of_jit("", 0);
    memcpy(page + 0x110, "\x48\xff\xcd\x75\xfb\x48\x83\xc4\x58\x5d\xc3", 11); /* 1: dec %rbp; jnz 1b; add $88,%rsp; pop %rbp; ret */
    void *code = mmap((void *)CODE, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    require(code == (void *)CODE, "mmap");
    *(u8 *)(RETURN_TO(1) - 5) = 0xe8;
    u32 at = (u64)stack & 8 ? 0 : 1;                   /* 13 words below a multiple of 16 */
    stack[at + 12] = RETURN_TO(1);
    walk((u64)page + 0x110, at, 0x777, 1, NULL);
    expect(VERDICT_GUESSED, 2, (u64[]){(u64)page + 0x110, RETURN_TO(1) - 1});
}

static void case_code_that_leaves_rbp_alone(void)
{
    static const char *const entries[] = {"\x55\x48\x83\xec\x20", "\x48\x83\xec\x18\x48\x89\x6c\x24\x10"};
    for (u32 i = 0; i < 2; i++) {
        u8 *page = world_of_jit(entries[i], i ? 9 : 5);
        walk((u64)page + 0x110, 2, (u64)(stack + 10), 1, NULL);
        expect(VERDICT_GUESSED, 4,
               (u64[]){(u64)page + 0x110, (u64)page + 0x324, (u64)page + 0x524, RETURN_TO(1) - 1});
    }
}

/* Frames of JIT code on a small stack within a heap: the first has an rbp of 0, and above it lies what is left of others'
 * calls. */
static void case_chain_of_frames_that_ends(void)
{
    u8 *page = world_of_jit("\x55\x48\x89\xe5\x56\x57", 6);
    stack[10] = 0;                        /* the first frame's */
    stack[14] = (u64)page + 0x125;        /* a call that is over */
    walk((u64)page + 0x110, 2, (u64)(stack + 10), 1, NULL);
    expect(VERDICT_GUESSED, 2, (u64[]){(u64)page + 0x110, (u64)page + 0x524});
}

/* The same where the code at its end may use rbp for anything: 0 says nothing. */
static void case_rbp_of_0_in_code_that_leaves_rbp_alone(void)
{
    u8 *page = world_of_jit("\x55\x48\x89\xe5\x56\x57", 6);
    memcpy(page + 0x400, "\x55\x48\x83\xec\x20\x90", 6);
    stack[10] = 0;
    stack[14] = (u64)page + 0x125;
    walk((u64)page + 0x110, 2, (u64)(stack + 10), 1, NULL);
    require(u.frame_count > 2 && frames[2] == (u64)page + 0x124, "its caller is looked for");
}

/* JIT code with frame pointers calls code with CFI on another stack: rbp, known for sure, leads to no frame on this one,
 * and what lies there is left over. */
static void case_frame_of_jit_code_on_another_stack(void)
{
    u8 *page = world_of_jit("\x55\x48\x89\xe5\x56\x57", 6);
    rule(2, CFA_RSP, 8)->rbp_kind = RBP_SAME;
    stack[2] = (u64)page + 0x325;
    stack[10] = 0x5a5a;                   /* of the frame that is over: its saved rbp is gone */
    for (u64 bp = 0; bp <= 0x7000000; bp += 0x7000000) {
        walk(FUNCTION(2), 2, bp, 1, NULL);
        expect(VERDICT_NO_UNWIND_INFO, 2, (u64[]){FUNCTION(2), (u64)page + 0x324});
    }
}

/* .NET's code that was replaced while it ran: the new code's frame, below the old one, has the rbp of the method's caller. */
static void case_frame_of_a_method_that_was_replaced(void)
{
    static const struct { const char *code; u32 bytes; } patchpoints[] = {
        {"\x7f\x0e\x48\x8d\x7d\xc8\xbe\x1e\0\0\0\xe8\0\0\0", 16},
        {"\x7f\x0f\x48\x8d\x7d\xc8\xbe\x1e\0\0\0\xff\x15\0\0\0", 17},
        {"\x7f\x11\x48\x8d\xbd\x38\xff\xff\xff\xbe\x1e\0\x02\0\xe8\0\0\0", 19},
        {"\x7f\x0e\x48\x8d\x7d\xc8\xbe\x1e\0\0\x10\xe8\0\0\0", 16}, /* another number */
        {"\x7f\x0e\x48\x8d\x75\xc8\xbe\x1e\0\0\0\xe8\0\0\0", 16},   /* another argument */
        {"\x7f\x20\x48\x8d\x7d\xc8\xbe\x1e\0\0\0\xe8\0\0\0", 16},   /* the jump leads elsewhere */
    };
    for (u32 i = 0; i < sizeof patchpoints / sizeof *patchpoints; i++) {
        u8 *page = world_of_jit("\x55\x48\x89\xe5\x56\x57", 6);
        memcpy(page + 0x525 - patchpoints[i].bytes, patchpoints[i].code, patchpoints[i].bytes);
        stack[10] = stack[14] = (u64)(stack + 20);
        stack[15] = (u64)page + 0x325;
        stack[20] = 0;
        stack[21] = RETURN_TO(1);
        walk((u64)page + 0x110, 2, (u64)(stack + 10), 1, NULL);
        expect(VERDICT_GUESSED, 3,
               (u64[]){(u64)page + 0x110, (u64)page + (i < 3 ? 0x324 : 0x524), RETURN_TO(1) - 1});
    }
    u8 *page = world_of_jit("\x55\x48\x89\xe5\x56\x57", 6);
    memcpy(page + 0x525 - 16, patchpoints[0].code, 16);
    stack[10] = (u64)(stack + 20);        /* the old code's frame is nowhere */
    stack[20] = 0;
    stack[21] = RETURN_TO(1);
    walk((u64)page + 0x110, 2, (u64)(stack + 10), 1, NULL);
    expect(VERDICT_GUESSED, 3, (u64[]){(u64)page + 0x110, (u64)page + 0x524, RETURN_TO(1) - 1});
}

/*
 * A thread asleep: rbp is not known. Function 1 (rules 1 to 3: entered, rbp pushed, rbp set) has made a frame of 64
 * bytes below rbp and called function 7, which sleeps. Functions 5 and 8 call function 1, function 6 is the root.
 */
#define ASLEEP_RETURN (FUNCTION(3) + 11)
static void call_at(u64 return_address, u64 target)
{
    i32 distance = (i32)(target - return_address);
    *(u8 *)(return_address - 5) = 0xe8;
    memcpy((u8 *)return_address - 4, &distance, 4);
}

static void world_asleep(void)
{
    world_new(40);
    void *code = mmap((void *)CODE, 4096, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    require(code == (void *)CODE, "mmap");
    rule(1, CFA_RSP, 8);
    for (u32 i = 2; i < 4; i++) {
        struct unwind_rule *r = rule(i, i == 2 ? CFA_RSP : CFA_RBP, 16);
        r->rbp_kind = RBP_SAVED;
        r->rbp_off = -16;
    }
    memcpy((u8 *)FUNCTION(3) - 3, "\x48\x89\xe5\x53\x48\x83\xec\x38\x90", 9); /* rbp set; push %rbx; sub $56,%rsp */
    call_at(ASLEEP_RETURN, FUNCTION(7));
    rule(5, CFA_RSP, 32);
    call_at(RETURN_TO(5), FUNCTION(1));
    root(6);
    call_at(RETURN_TO(6), FUNCTION(5));
    rule(7, CFA_RSP, 8);
    rule(8, CFA_RSP, 32);
    call_at(RETURN_TO(8), FUNCTION(1));
    stack[1] = ASLEEP_RETURN;
}

/* The same function was called before, from elsewhere: that frame lies where the locals of the one at work are. */
static void case_frame_that_is_over_among_the_locals(void)
{
    world_asleep();
    stack[5] = RETURN_TO(8);
    stack[9] = RETURN_TO(6);
    stack[11] = RETURN_TO(5);
    stack[15] = RETURN_TO(6);
    walk(FUNCTION(7), 1, 0, 0, NULL);
    expect(VERDICT_GUESSED, 4, (u64[]){FUNCTION(7), ASLEEP_RETURN - 1, RETURN_TO(5) - 1, RETURN_TO(6) - 1});
}

/* Room whose size was computed, with words in it that follow calls, but of what? */
static void case_frame_of_a_computed_size(void)
{
    world_asleep();
    rule(9, CFA_RSP, 16);
    memcpy((u8 *)RETURN_TO(9) - 2, "\xff\xd0", 2); /* call *%rax */
    for (u32 i = 17; i < 25; i += 2)
        stack[i] = RETURN_TO(9);
    stack[27] = RETURN_TO(5);
    stack[31] = RETURN_TO(6);
    walk(FUNCTION(7), 1, 0, 0, NULL);
    expect(VERDICT_GUESSED, 4, (u64[]){FUNCTION(7), ASLEEP_RETURN - 1, RETURN_TO(5) - 1, RETURN_TO(6) - 1});
}

/* What code right behind the setting of rbp leaves below it, from compilers' output. */
static void case_room_made_by_a_prologue(void)
{
    static const struct {
        char code[24];
        u32 bytes;
    } prologues[] = {
        {"\x41\x57\x41\x56\x49\x89\xfe\x53\x48\x83\xec\x68\x41\x54", 128}, /* push, push; mov; push; sub $104 */
        {"\x48\x81\xec\x00\x10\0\0\x48\x83\x0c\x24\0\x48\x81\xec\x10\x01\0\0", 4096 + 272}, /* touches a page */
        {"\x4c\x8d\x9c\x24\0\0\xff\xff\x48\x81\xec\x00\x10\0\0\x48\x83\x0c\x24\0", 65536}, /* a loop of those */
        {"\x48\x83\xe4\xe0\x48\x83\xc4\x80", 128},          /* and $-32; add $-128 */
        {"\x53\x48\x83\xec\x08\x6a\x07\xe8", 8},            /* an argument is pushed, aligned */
        {"\x53\x41\x51\x48\x83\xec\x20", 8},                /* push %r9: an argument */
        {"\x53\x85\xff\x74\x10\x48\x83\xec\x20", 8},        /* only one way leads there */
        {"\x53\xc7\x84\x88\x04\0\0\0\x53\x53\x53\x53\x48\x83\xec\x18", 32}, /* bytes of an operand */
        {"\xc5\xf9\xef\xc0\x66\x0f\x6f\x05\x01\0\0\0\x48\x83\xec\x10", 16}, /* vpxor; movdqa */
        {"\xe8\0\0\0\0\x53", 0},
    };
    for (u32 i = 0; i < sizeof prologues / sizeof *prologues; i++) {
        u8 code[PROLOGUE_BYTES + PROLOGUE_AHEAD_BYTES] = {0};
        memcpy(code, prologues[i].code, sizeof prologues[i].code);
        require(frame_bytes_in_code_sigsafe(code, 24) == prologues[i].bytes, "room");
    }
}

/* Of two words that may be return addresses, the one of a call to the very function we are in. */
static void case_stale_word_below_the_return_address(void)
{
    u8 *page = world_of_jit("", 0);
    i32 to_here = 0x500 - 0x725;
    memcpy(page + 0x321, "\0\0\0\x10", 4);
    memcpy(page + 0x720, "\xe8", 1);
    memcpy(page + 0x721, &to_here, 4);
    memset(stack, 0, 24 * 8);
    stack[4] = (u64)page + 0x325;         /* of a call to far away */
    stack[10] = (u64)page + 0x725;
    stack[11] = RETURN_TO(1);
    walk((u64)page + 0x510, 2, 0, 0, NULL);
    require(u.frame_count >= 2 && frames[1] == (u64)page + 0x724, "the caller calls us");
}

static void case_return_address_outside_all_code(void)
{
    world_new(8);
    rule(1, CFA_RSP, 8);
    stack[0] = 0xdead;
    walk(FUNCTION(1), 0, 0, 1, NULL);
    expect(VERDICT_BAD_MEMORY, 1, (u64[]){FUNCTION(1)});
    require(agent.want_refresh != 0, "unknown code asks for new maps");
}

static void case_cfa_that_does_not_move_up(void)
{
    world_new(8);
    rule(1, CFA_RBP, 0);
    stack[0] = RETURN_TO(1);
    walk(FUNCTION(1), 1, (u64)(stack + 1), 1, NULL);
    require(u.verdict == VERDICT_BAD_MEMORY, "no endless walk");
}

/* Code without frames may hold any number in rbp: -8 passes for an address that ends at 0. */
static void case_rbp_that_wraps_around(void)
{
    world_new(8);
    rule(1, CFA_RBP, 8);
    for (u64 bp = ~0ULL - 40; bp >= 1ULL << 63; bp++) {
        walk(FUNCTION(1), 1, bp, 1, NULL);
        require(u.verdict == VERDICT_BAD_MEMORY, "nothing is read there");
        walk(BARE + 0x10, 1, bp, 1, NULL);
        require(u.verdict == VERDICT_NO_UNWIND_INFO, "no frame is found there");
    }
}

static void case_stack_that_ends_too_early(void)
{
    world_new(2);
    rule(1, CFA_RSP, 64);
    walk(FUNCTION(1), 0, 0, 1, NULL);
    expect(VERDICT_BAD_MEMORY, 1, (u64[]){FUNCTION(1)});
}

static void case_module_not_compiled_yet(void)
{
    world_new(8);
    rule(1, CFA_RSP, 8);
    stack[0] = RAW + 0x105;
    walk(FUNCTION(1), 0, 0, 1, NULL);
    require(u.verdict == VERDICT_RETRY, "try again");
    require(agent.modules[3].wanted != 0, "the module is asked for");
}

/* So that the next sample, and not the one after as many as there are modules, has its stack. */
static void case_all_modules_on_the_stack_are_asked_for_at_once(void)
{
    world_new(8);
    agent.modules[2].state = MODULE_RAW;
    stack[5] = BARE + 0x105;
    walk(RAW + 0x10, 0, 0, 1, NULL);
    require(u.verdict == VERDICT_RETRY, "try again");
    require(agent.modules[3].wanted && agent.modules[2].wanted, "both modules are asked for");
}

static void case_deeper_than_the_limit(void)
{
    world_new(3000);
    rule(1, CFA_RSP, 8);
    for (u32 i = 0; i < 3000; i++)
        stack[i] = RETURN_TO(1);
    walk(FUNCTION(1), 0, 0, 1, NULL);
    require(u.verdict == VERDICT_TRUNCATED_DEPTH && u.frame_count == MAX_FRAMES, "cut at the limit");
}

/* Guard pages inside a mapping: of a coroutine whose stack is an array on a thread's stack. */
static void case_guard_page_above_sp(void)
{
    world_of_pages(3);
    rule(1, CFA_RSP, 4096);
    rule(2, CFA_RSP, 8192);
    root(3);
    stack[1024 + 4] = RETURN_TO(3); /* where rule 2 leads */
    require(mprotect(stack + 512, 4096, PROT_NONE) == 0, "mprotect");
    walk(FUNCTION(1), 5, 0, 1, NULL);
    expect(VERDICT_BAD_MEMORY, 1, (u64[]){FUNCTION(1)});
    walk(FUNCTION(2), 5, 0, 1, NULL); /* beyond the guard there is stack again */
    expect(VERDICT_COMPLETE, 2, (u64[]){FUNCTION(2), RETURN_TO(3) - 1});
}

static void case_stack_unmapped_since_the_maps_were_read(void)
{
    world_of_pages(4);
    rule(1, CFA_RSP, 8192);
    require(munmap(stack + 512, 3 * 4096) == 0, "munmap");
    walk(FUNCTION(1), 5, 0, 1, NULL);
    expect(VERDICT_BAD_MEMORY, 1, (u64[]){FUNCTION(1)});
    require(munmap(stack, 4096) == 0, "munmap");
    walk(FUNCTION(1), 5, 0, 1, NULL);
    expect(VERDICT_BAD_MEMORY, 1, (u64[]){FUNCTION(1)});
    walk(BARE + 0x10, 5, (u64)(stack + 20), 1, NULL); /* a scan meets nothing either */
    expect(VERDICT_NO_UNWIND_INFO, 1, (u64[]){BARE + 0x10});
}

/* A coroutine's stack, mapped after the maps were read: copied, since nothing is known of it. */
static void case_stack_the_maps_do_not_know(void)
{
    world_of_pages(3);
    require(munmap(stack + 1024, 4096) == 0, "munmap");
    rule(1, CFA_RSP, 24);
    root(2);
    stack[1000 + 2] = RETURN_TO(1);
    stack[1000 + 5] = RETURN_TO(2);
    agent.map->stack_count = 0;
    walk(FUNCTION(1), 1000, 0, 1, NULL);
    expect(VERDICT_COMPLETE, 3, (u64[]){FUNCTION(1), RETURN_TO(1) - 1, RETURN_TO(2) - 1});
    stack[1000 + 5] = RETURN_TO(1); /* leads out of the mapping */
    walk(FUNCTION(1), 1000 + 22, 0, 1, NULL);
    expect(VERDICT_BAD_MEMORY, 1, (u64[]){FUNCTION(1)});
}

/* sp at the very end of a mapping: all of its frames have returned. */
static void case_empty_stack(void)
{
    world_of_pages(2);
    require(munmap(stack + 512, 4096) == 0, "munmap");
    ranges[0].end = (u64)(stack + 512);
    rule(1, CFA_RSP, 8);
    walk(FUNCTION(1), 512, 0, 1, NULL);
    expect(VERDICT_BAD_MEMORY, 1, (u64[]){FUNCTION(1)});
}

/* A handler of the target's own, on its alternate stack: the walk goes on in the stack that was interrupted. */
static void case_signal_frame_on_an_alternate_stack(void)
{
    world_new(300);
    u64 *other = malloc(64 * 8);
    ranges[1].start = (u64)other;
    ranges[1].end = (u64)(other + 64);
    if (ranges[1].start < ranges[0].start) {
        struct memory_range swap = ranges[0];
        ranges[0] = ranges[1];
        ranges[1] = swap;
    }
    agent.map->stack_count = 2;
    rule(1, CFA_RSP, 8);
    rule(2, CFA_SIGNAL, 0);
    rule(3, CFA_REG, 8)->cfa_reg = 0;
    root(4);
    stack[0] = RETURN_TO(2);
    u64 *gregs = stack + 1 + UCONTEXT_GREGS / 8;
    gregs[GREG_RIP] = FUNCTION(3);
    gregs[GREG_RSP] = (u64)(other + 40);
    gregs[GREG_RBP] = 7;
    gregs[GREG_RAX] = (u64)(other + 50);
    other[50] = RETURN_TO(4);
    walk(FUNCTION(1), 0, 0, 1, NULL);
    expect(VERDICT_COMPLETE, 4, (u64[]){FUNCTION(1), RETURN_TO(2) - 1, FUNCTION(3), RETURN_TO(4) - 1});
}

/* Two signal frames that name each other's stacks: not for ever. */
static void case_alternate_stacks_in_a_circle(void)
{
    world_new(64);
    rule(2, CFA_SIGNAL, 0);
    u64 *gregs = stack + UCONTEXT_GREGS / 8;
    gregs[GREG_RIP] = FUNCTION(2);
    gregs[GREG_RSP] = (u64)stack;
    walk(FUNCTION(2), 0, 0, 1, NULL);
    require(u.verdict == VERDICT_BAD_MEMORY && u.frame_count <= STACK_SWITCHES_MAX + 2, "no endless walk");
}

/* A rule that leads to another stack, as __morestack of a split stack has: rbp points there. */
static void case_rule_that_changes_stacks(void)
{
    world_new(64);
    u64 *other = malloc(64 * 8);
    ranges[1].start = (u64)other;
    ranges[1].end = (u64)(other + 64);
    if (ranges[1].start < ranges[0].start) {
        struct memory_range swap = ranges[0];
        ranges[0] = ranges[1];
        ranges[1] = swap;
    }
    agent.map->stack_count = 2;
    rule(1, CFA_RBP, 16);
    rule(2, CFA_RSP, 16);
    root(3);
    other[11] = RETURN_TO(2);
    other[13] = RETURN_TO(3);
    walk(FUNCTION(1), 5, (u64)(other + 10), 1, NULL);
    expect(VERDICT_COMPLETE, 3, (u64[]){FUNCTION(1), RETURN_TO(2) - 1, RETURN_TO(3) - 1});
}

/* Every frame in a page of its own, 16 MB in all: the walk ends when it has cost enough, and says so. */
static void case_frames_too_large_for_the_budget(void)
{
    world_of_pages(4096);
    rule(1, CFA_RSP, 8192);
    for (u32 i = 0; i < stack_words; i++)
        stack[i] = RETURN_TO(1);
    walk(FUNCTION(1), 0, 0, 1, NULL);
    require(u.verdict == VERDICT_TRUNCATED_DEPTH || u.verdict == VERDICT_BAD_MEMORY, "ends");
}

static void ends(u32 verdict, u64 fault_pc)
{
    require(u.verdict == verdict, "verdict");
    require(u.fault_pc == fault_pc, "the code at fault");
}

/* Every way a walk can end: what is said of it, and the code that is named. */
static void case_each_end_has_its_verdict_and_its_fault(void)
{
    u64 gregs[23] = {0};
    world_new(16);
    rule(1, CFA_RSP, 16);
    rule(5, CFA_UNSUPPORTED, 0);
    rule(6, CFA_RSP, 8)->ra_kind = RA_UNSUPPORTED;
    rule(7, CFA_REG, 8)->cfa_reg = 11;
    rule(8, CFA_DEREF_RSP, 0);
    rule(9, CFA_SIGNAL, 0);
    root(10);

    walk(FUNCTION(10), 0, 0, 1, NULL);
    ends(VERDICT_COMPLETE, 0);
    stack[1] = 0; /* a thread's first frame returns to nowhere */
    walk(FUNCTION(1), 0, 0, 1, NULL);
    ends(VERDICT_COMPLETE, 0);
    walk(BARE + 0x10, 0, 0, 1, NULL); /* rbp cleared at an entry point */
    ends(VERDICT_GUESSED, 0);

    walk(BARE + 0x10, 0, 0x77, 1, NULL); /* no rule, no frame pointer, nothing to be found */
    ends(VERDICT_NO_UNWIND_INFO, BARE + 0x10);
    walk(JIT + 0x10, 0, 0x77, 1, NULL); /* the same in code of no file */
    ends(VERDICT_NO_UNWIND_INFO, JIT + 0x10);
    stack[1] = BARE + 0x25; /* … and in a caller */
    walk(FUNCTION(1), 0, 0x77, 1, NULL);
    ends(VERDICT_NO_UNWIND_INFO, BARE + 0x24);

    stack[1] = 0xdead; /* the frame whose return address is none */
    walk(FUNCTION(1), 0, 0, 1, NULL);
    ends(VERDICT_BAD_MEMORY, FUNCTION(1));
    walk(0xdead, 0, 0, 1, NULL); /* a call through a wild pointer */
    ends(VERDICT_BAD_MEMORY, 0xdead);
    walk(FUNCTION(8), 0, 0, 1, NULL); /* leads nowhere */
    ends(VERDICT_BAD_MEMORY, FUNCTION(8));
    walk(FUNCTION(9), 12, 0, 1, NULL); /* registers beyond the end of the stack */
    ends(VERDICT_BAD_MEMORY, FUNCTION(9));
    walk(FUNCTION(7), 0, 0, 1, gregs); /* the register is known, and no stack */
    ends(VERDICT_BAD_MEMORY, FUNCTION(7));

    walk(FUNCTION(5), 0, 0, 1, NULL);
    ends(VERDICT_UNSUPPORTED_RULE, FUNCTION(5));
    walk(FUNCTION(6), 0, 0, 1, NULL);
    ends(VERDICT_UNSUPPORTED_RULE, FUNCTION(6));
    walk(FUNCTION(7), 0, 0, 1, NULL); /* a register that only the leaf knows */
    ends(VERDICT_UNSUPPORTED_RULE, FUNCTION(7));

    walk(RAW + 0x10, 0, 0, 1, NULL);
    ends(VERDICT_RETRY, RAW + 0x10);
}

/* What the host is told: the module of the code at fault; none where that is in no file, or where nobody is. */
static void case_the_module_at_fault(void)
{
    static struct ring_header ring;
    u32 injected = 0;
    u64 pcs[1] = {FUNCTION(1)};
    world_new(8);
    agent.ring = &ring;
    agent.traces = calloc(TRACE_SLOTS, sizeof *agent.traces);
    agent.traces_out.data = calloc(1, 4096);
    agent.traces_out.capacity = 4096;
    static const struct {
        u32 verdict;
        u64 fault_pc;
        u32 module;
    } ends[] = {
        {VERDICT_NO_UNWIND_INFO, BARE + 0x10, 2}, {VERDICT_NO_UNWIND_INFO, JIT + 0x10, 0},
        {VERDICT_BAD_MEMORY, FUNCTION(1), 1},     {VERDICT_BAD_MEMORY, 0xdead, 0},
        {VERDICT_TRUNCATED_DEPTH, 0, 0},          {VERDICT_COMPLETE, 0, 0},
    };
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        pcs[0] = FUNCTION(1) + i; /* another stack each time */
        u32 used = agent.traces_out.used;
        const struct verdicts verdicts = {ends[i].verdict, MANAGED_NONE, 0, ends[i].fault_pc};
        require(trace_intern(&agent, pcs, 1, &verdicts, &injected) == i + 1, "a new trace");
        const struct trace_record *record = (const void *)(agent.traces_out.data + used);
        require(record->trace_id == i + 1 && record->verdict == ends[i].verdict, "the record");
        require(record->fault_module == ends[i].module, "the module at fault");
    }
}

#define CASE(name) {#name, case_##name}
static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    CASE(rsp_rules_down_to_the_root),
    CASE(rbp_frames),
    CASE(saved_rbp_in_the_red_zone),
    CASE(frame_too_large_to_pack),
    CASE(dereference),
    CASE(plt_entry_before_and_after_its_push),
    CASE(other_registers_in_the_leaf_only),
    CASE(dereference_by_index),
    CASE(return_address_in_a_register),
    CASE(signal_frame),
    CASE(call_that_a_handler_of_the_target_has_begun),
    CASE(frame_pointers_where_there_is_no_cfi),
    CASE(return_address_found_by_scanning),
    CASE(return_address_into_the_agent_left_over),
    CASE(assembly_called_from_a_realigned_frame),
    CASE(kernel_that_keeps_the_old_sp_in_a_register),
    CASE(signal_restorer_without_cfi),
    CASE(root_of_a_coroutine),
    CASE(way_to_a_return),
    CASE(first_call_of_a_thread),
    CASE(code_with_frame_pointers_has_no_other_frames),
    CASE(generated_kernel_with_data_in_rbp),
    CASE(code_that_leaves_rbp_alone),
    CASE(chain_of_frames_that_ends),
    CASE(rbp_of_0_in_code_that_leaves_rbp_alone),
    CASE(frame_of_jit_code_on_another_stack),
    CASE(frame_of_a_method_that_was_replaced),
    CASE(stale_word_below_the_return_address),
    CASE(frame_that_is_over_among_the_locals),
    CASE(frame_of_a_computed_size),
    CASE(room_made_by_a_prologue),
    CASE(return_address_outside_all_code),
    CASE(cfa_that_does_not_move_up),
    CASE(rbp_that_wraps_around),
    CASE(stack_that_ends_too_early),
    CASE(module_not_compiled_yet),
    CASE(all_modules_on_the_stack_are_asked_for_at_once),
    CASE(deeper_than_the_limit),
    CASE(each_end_has_its_verdict_and_its_fault),
    CASE(the_module_at_fault),
    CASE(guard_page_above_sp),
    CASE(stack_unmapped_since_the_maps_were_read),
    CASE(stack_the_maps_do_not_know),
    CASE(empty_stack),
    CASE(signal_frame_on_an_alternate_stack),
    CASE(alternate_stacks_in_a_circle),
    CASE(rule_that_changes_stacks),
    CASE(frames_too_large_for_the_budget),
};

int main(int argc, char **argv)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (argc == 2 && !strcmp(argv[1], "list"))
            puts(cases[i].name);
        else if (argc == 2 && !strcmp(argv[1], cases[i].name))
            return cases[i].run(), 0;
    }
    return argc == 2 && !strcmp(argv[1], "list") ? 0 : 2;
}
