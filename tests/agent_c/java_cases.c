/*
 * Java frames on literal stacks and a made code heap; built behind the agent's sources, with sanitizers. `java_cases NAME`
 * runs one case and aborts when a promise is broken; `java_cases list` names them.
 *
 * The layout is that of no version: each field has a place of its own. The heap is a mapping of its exact size.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cases.h"
#include "require.h"

#define HEAP_BYTES 65536ULL
#define SHIFT 7
#define SEGMENT (1ULL << SHIFT)
#define HEADER 16
#define BLOB_NAME 8
#define BLOB_BYTES 16
#define BLOB_WORDS 20
#define BLOB_COMPLETE 24
#define BLOB_CODE_OFFSET 28
#define COMPILED_METHOD 32
#define COMPILED_ID 40
#define COMPILED_LEVEL 44
#define COMPILED_ORIGINAL 48
#define COMPILED_DEOPT 52
#define COMPILED_ENTRY 56
#define PLACES 60
#define PLACES_END 64
#define SCOPES 68
#define METHODS 72
#define CODE_AT 128                       /* of a blob */
#define ENTRY_AT 16                       /* of its code */
#define COMPLETE_AT 32
#define ROOT 0x400000ULL                  /* code of a file, whose frames end the stack */
#define BARE 0x500000ULL                  /* code of a file without unwind information */

static struct agent agent;
static struct unwinder u;
static struct managed_walk walk;
static u64 *recipe, *stack;
static u64 words[MAX_FRAMES];
static u8 *heap, *map;
static u64 heap_used, heap_high, map_high;
static u32 stack_words;
static char names[256] = "nmethod\0.......native nmethod\0Interpreter\0....StubRoutines (1)\0vtable chunks\0new_instance\0StubRoutines (continuation stubs)\0";
static struct memory_map memory;
static struct code_range code[3];
static struct memory_range range;

static u64 name_of(const char *text)
{
    for (u32 i = 0; i + strlen(text) < sizeof names; i++)
        if (!strcmp(names + i, text) && (i == 0 || !names[i - 1] || names[i - 1] == '.'))
            return (u64)(names + i);
    require(0, "the name is there");
    return 0;
}

static void world_new(u32 count)
{
    static struct code_heaps heaps;
    agent.pid = (u32)getpid();
    agent.ring = calloc(1, RING_HEADER_BYTES);
    agent.cache_generation = 1;
    agent.rule_cache = calloc(RULE_CACHE_SLOTS, 8);
    agent.call_cache = calloc(CALL_CACHE_SLOTS, 8);
    agent.rules = calloc(1, sizeof(struct rule_table));
    agent.modules = calloc(4, sizeof(struct module));
    agent.frame_cache = calloc(1, FRAME_CACHE_BYTES);
    agent.known_methods = calloc(KNOWN_METHODS, 8);
    agent.codes = calloc(CODE_TABLE_SLOTS, sizeof(struct code_slot));
    agent.rules->count = 2;
    agent.rules->rules[1].cfa_kind = CFA_RSP;
    agent.rules->rules[1].cfa_off = 8;
    agent.rules->rules[1].ra_kind = RA_UNDEFINED;
    heap = mmap(NULL, HEAP_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    map = malloc(HEAP_BYTES >> SHIFT);
    memset(map, SEGMENT_FREE, HEAP_BYTES >> SHIFT);
    code[0].start = ROOT;
    code[0].end = ROOT + 0x1000;
    code[0].module = 1;
    code[1].start = BARE;
    code[1].end = BARE + 0x1000;
    code[1].module = 2;
    code[2].start = (u64)heap;
    code[2].end = (u64)heap + HEAP_BYTES;
    memory.code = code;
    memory.code_count = 3;
    memory.stacks = &range;
    memory.stack_count = 1;
    agent.map = &memory;
    struct module *m = &agent.modules[1];
    m->state = MODULE_READY;
    m->text_start = ROOT;
    m->text_end = ROOT + 0x1000;
    m->file_searched = 1;
    m->table = calloc(1, sizeof *m->table);
    m->table->rows = calloc(1, sizeof(struct cfi_row));
    m->table->row_count = 1;
    m->table->rows[0].rule = 1;
    agent.modules[2] = *m;
    agent.modules[2].text_start = BARE;
    agent.modules[2].text_end = BARE + 0x1000;
    agent.modules[2].table = calloc(1, sizeof *m->table);
    recipe = agent.recipes[0];
    for (u32 i = 0; i < RECIPE_WORDS; i++)
        recipe[i] = ABSENT;
    recipe[RECIPE_RUNTIME] = RUNTIME_HOTSPOT;
    recipe[RECIPE_IMAGE_START] = (u64)names;
    recipe[RECIPE_IMAGE_END] = (u64)names + sizeof names;
    recipe[HOTSPOT_BLOCK_USED] = 8;
    recipe[HOTSPOT_BLOCK_BYTES] = HEADER;
    recipe[HOTSPOT_BLOB_NAME] = BLOB_NAME;
    recipe[HOTSPOT_BLOB_BYTES] = BLOB_BYTES;
    recipe[HOTSPOT_BLOB_FRAME_WORDS] = BLOB_WORDS;
    recipe[HOTSPOT_BLOB_FRAME_COMPLETE] = BLOB_COMPLETE;
    recipe[HOTSPOT_BLOB_CODE_OFFSET] = BLOB_CODE_OFFSET;
    recipe[HOTSPOT_COMPILED_METHOD] = COMPILED_METHOD;
    recipe[HOTSPOT_COMPILED_ID] = COMPILED_ID;
    recipe[HOTSPOT_COMPILED_LEVEL] = COMPILED_LEVEL;
    recipe[HOTSPOT_COMPILED_ORIGINAL] = COMPILED_ORIGINAL;
    recipe[HOTSPOT_COMPILED_DEOPT_OFFSET] = COMPILED_DEOPT;
    recipe[HOTSPOT_COMPILED_ENTRY_OFFSET] = COMPILED_ENTRY;
    recipe[HOTSPOT_PLACES] = PLACES;
    recipe[HOTSPOT_PLACES_END] = PLACES_END;
    recipe[HOTSPOT_SCOPES_OFFSET] = SCOPES;
    recipe[HOTSPOT_METHODS_OFFSET] = METHODS;
    recipe[HOTSPOT_PLACE_BYTES] = 16;
    recipe[HOTSPOT_METHOD_CONST] = 8;
    recipe[HOTSPOT_CONST_POOL] = 8;
    recipe[HOTSPOT_CONST_NAME] = 16;
    recipe[HOTSPOT_CONST_SIGNATURE] = 18;
    recipe[HOTSPOT_CONST_CODE_BYTES] = 20;
    recipe[HOTSPOT_CONST_BYTES] = 32;
    recipe[HOTSPOT_POOL_HOLDER] = 8;
    recipe[HOTSPOT_POOL_LENGTH] = 16;
    recipe[HOTSPOT_POOL_BYTES] = 24;
    recipe[HOTSPOT_KLASS_NAME] = 8;
    recipe[HOTSPOT_SYMBOL_LENGTH] = 4;
    recipe[HOTSPOT_SYMBOL_BODY] = 6;
    recipe[HOTSPOT_FRAME_BYTECODE] = 64;
    recipe[HOTSPOT_NUMBER_BASE] = 1;
    heaps.low = heaps.heaps[0].low = (u64)heap;
    heaps.bytes = heaps.heaps[0].bytes = HEAP_BYTES;
    heaps.heaps[0].limit = HEAP_BYTES;
    heaps.heaps[0].high_at = (u64)&heap_high;
    heaps.heaps[0].map_high_at = (u64)&map_high;
    heap_high = (u64)heap + HEAP_BYTES;
    map_high = (u64)map + (HEAP_BYTES >> SHIFT);
    heaps.heaps[0].map = (u64)map;
    heaps.heaps[0].shift = SHIFT;
    heaps.count = 1;
    agent.heaps = &heaps;
    stack_words = count;
    stack = malloc(count * 8);
    memset(stack, 0, count * 8);
    range.start = (u64)stack;
    range.end = (u64)(stack + count);
}

static void put_u32(u64 at, u32 value)
{
    memcpy((void *)at, &value, 4);
}

static void put_u64(u64 at, u64 value)
{
    memcpy((void *)at, &value, 8);
}

/* Add a blob of `bytes`; returns where its code is. */
static u64 blob_new(const char *name, u32 bytes, i32 frame_words, u32 compile_id)
{
    u64 first = heap_used >> SHIFT, segments = (HEADER + bytes + SEGMENT - 1) >> SHIFT;
    u64 blob = (u64)heap + heap_used + HEADER;
    for (u64 i = 0; i < segments; i++)
        map[first + i] = (u8)(i < 254 ? i : 1 + (i - 254) % 254);
    heap[heap_used + 8] = 1;
    heap_used += segments << SHIFT;
    put_u64(blob + BLOB_NAME, name_of(name));
    put_u32(blob + BLOB_BYTES, bytes);
    put_u32(blob + BLOB_WORDS, (u32)frame_words);
    put_u32(blob + BLOB_COMPLETE, COMPLETE_AT);
    put_u32(blob + BLOB_CODE_OFFSET, CODE_AT);
    put_u32(blob + COMPILED_ID, compile_id);
    put_u32(blob + COMPILED_ENTRY, ENTRY_AT);
    put_u32(blob + COMPILED_DEOPT, CODE_AT + 200);
    memset((void *)(blob + CODE_AT), 0x90, bytes - CODE_AT);
    return blob + CODE_AT;
}

static void take(u64 pc, u32 sp, u64 bp, const u64 *gregs)
{
    u.agent = &agent;
    u.map = &memory;
    u.pc = pc;
    u.sp = (u64)(stack + sp);
    u.bp = bp;
    u.bp_known = 1;
    u.gregs = gregs;
    u.frames = words;
    u.walk = &walk;
    u.in_handler = 1;
    u.own_start = (u64)stack;
    u.own_end = (u64)(stack + stack_words);
    walk.agent = &agent;
    walk.in_handler = 1;
    managed_forget_pages_sigsafe(&walk);
    unwind_sigsafe(&u);
}

static void is_compiled(u32 at, u64 pc, u64 detail, const char *promise)
{
    require(words[at] == ((u64)WORD_COMPILED << WORD_SHIFT | pc) &&
                words[at + 1] == ((u64)WORD_COMPILED << WORD_SHIFT | detail), promise);
}

/* A caller of compiled code at `sp`, whose own caller ends the stack. */
static u64 outer;
static void outer_at(u32 sp, u32 frame_words)
{
    outer = blob_new("nmethod", 512, (i32)frame_words, 77);
    stack[sp + frame_words - 1] = ROOT + 5;
    stack[sp + frame_words - 2] = 0x1234;
}

static void walked(u32 frames, const char *promise)
{
    require(u.verdict == VERDICT_COMPLETE && u.frame_count == frames && u.managed_verdict == MANAGED_EXACT, promise);
}

static const u64 no_registers[23];

static void case_compiled_frames_have_their_size(void)
{
    world_new(64);
    u64 inner = blob_new("nmethod", 1024, 6, 76);
    outer_at(16, 4);
    stack[15] = outer + 60;               /* the call is before it */
    stack[14] = 0x5678;
    for (u32 round = 0; round < 3; round++) { /* later rounds come from the cache */
        take(inner + 100, 10, 0, no_registers);
        walked(5, "two Java frames and the root");
        is_compiled(0, inner + 100, COMPILED_LEAF | 76, "the leaf has its pc");
        is_compiled(2, outer + 60, 77, "the caller has its return address");
        require(u.bp == 0x1234, "rbp is the one that the outermost frame saved");
    }
}

static void case_code_made_anew_is_not_taken_for_the_old(void)
{
    world_new(64);
    u64 inner = blob_new("nmethod", 1024, 6, 76);
    outer_at(16, 4);
    stack[15] = outer + 60;
    take(inner + 100, 10, 0, no_registers);
    take(inner + 100, 10, 0, no_registers);
    walked(5, "known by now");
    put_u32(outer - CODE_AT + COMPILED_ID, 78);
    put_u32(outer - CODE_AT + BLOB_WORDS, 8);
    stack[16 + 7] = ROOT + 5;
    stack[16 + 3] = 0;
    take(inner + 100, 10, 0, no_registers);
    walked(5, "the new frame is larger");
    is_compiled(2, outer + 60, 78, "the number is the new one");
}

static void leaf_at(u64 pc, u32 sp, const char *promise)
{
    take(pc, sp, 0x777, no_registers);
    walked(5, promise);
    is_compiled(2, outer + 60, 77, promise);
}

static void case_frames_that_are_being_made_or_left(void)
{
    static const u8 push[] = {0x89, 0x84, 0x24, 0, 0xc0, 0xfe, 0xff, 0x55, 0x48, 0x83, 0xec, 0x20};
    static const u8 exit[] = {0x48, 0x83, 0xc4, 0x20, 0x5d, 0x49, 0x3b, 0xa7, 0x38, 3, 0, 0, 0x0f, 0x87, 1, 2, 3, 4, 0xc3};
    world_new(64);
    u64 inner = blob_new("nmethod", 1024, 6, 76);
    outer_at(16, 4);
    memcpy((void *)(inner + ENTRY_AT), push, sizeof push);
    memcpy((void *)(inner + 100), exit, sizeof exit);
    stack[15] = outer + 60;
    stack[14] = 0x777;
    leaf_at(inner + 4, 15, "before the entry");
    leaf_at(inner + ENTRY_AT, 15, "at the entry");
    leaf_at(inner + ENTRY_AT + 7, 15, "before the push");
    leaf_at(inner + ENTRY_AT + 8, 14, "after the push");
    leaf_at(inner + ENTRY_AT + 12, 10, "the frame is there, and not marked as complete yet");
    leaf_at(inner + 100, 10, "before the frame is left");
    leaf_at(inner + 104, 14, "before the pop");
    leaf_at(inner + 105, 15, "at the poll");
    leaf_at(inner + 112, 15, "at its jump");
    leaf_at(inner + 118, 15, "at the return");
}

static void case_the_way_out_of_a_poll_and_an_exception(void)
{
    static const u8 poll[] = {0x4c, 0x8d, 0x15, 1, 2, 3, 4, 0x4d, 0x89, 0x97, 0, 4, 0, 0, 0xe9, 1, 2, 3, 4};
    static const u8 exception[] = {0x48, 0x83, 0xc4, 0x20, 0x5d, 0xe9, 1, 2, 3, 4};
    static const u8 working[] = {0x83, 0xf8, 0x5d, 0x49, 0x8b, 0x87, 0, 1, 0, 0}; /* cmp $']',%eax; mov n(%r15),%rax */
    world_new(64);
    u64 inner = blob_new("nmethod", 1024, 6, 76);
    outer_at(16, 4);
    memcpy((void *)(inner + 100), poll, sizeof poll);
    memcpy((void *)(inner + 200), exception, sizeof exception);
    memcpy((void *)(inner + 300), working, sizeof working);
    stack[15] = outer + 60;
    stack[14] = 0x777;
    leaf_at(inner + 100, 15, "the poll is taken");
    leaf_at(inner + 107, 15, "the pc is kept");
    leaf_at(inner + 114, 15, "before the jump");
    leaf_at(inner + 205, 15, "to where exceptions are handled");
    leaf_at(inner + 303, 10, "the same byte as a number");
}

static void case_native_methods(void)
{
    static const u8 left[] = {0xc9, 0x49, 0x81, 0x7f, 8, 0, 0, 0, 0, 0x0f, 0x85, 1, 0, 0, 0, 0xc3};
    static const u8 left_11[] = {0xc9, 0x49, 0x8b, 0x4f, 0x38, 0xc7, 0x81, 0, 1, 0, 0, 0, 0, 0, 0, 0x49, 0x83, 0x7f, 8, 0,
                                 0x0f, 0x85, 1, 0, 0, 0, 0xc3};
    world_new(64);
    u64 inner = blob_new("native nmethod", 1024, 6, 76);
    outer_at(16, 4);
    memcpy((void *)(inner + 100), left, sizeof left);
    memcpy((void *)(inner + 200), left_11, sizeof left_11);
    stack[15] = outer + 60;
    stack[14] = 0x777;
    leaf_at(inner + 100, 10, "before the frame is left");
    leaf_at(inner + 101, 15, "is an exception pending?");
    leaf_at(inner + 109, 15, "at its jump");
    leaf_at(inner + 115, 15, "at the return");
    leaf_at(inner + 201, 15, "handles are freed");
    leaf_at(inner + 205, 15, "in two steps");
    leaf_at(inner + 215, 15, "is an exception pending?");
    leaf_at(inner + 220, 15, "at its jump");
    take(inner + 60, 8, (u64)(stack + 14), no_registers);
    walked(5, "two words were pushed below the frame");
    is_compiled(2, outer + 60, 77, "rbp points to it");
    put_u32(inner - CODE_AT + BLOB_WORDS, 0);
    put_u32(inner - CODE_AT + BLOB_COMPLETE, 800);
    leaf_at(inner + 60, 15, "calls of method handles have no frame");
}

static void case_stubs_that_c_calls(void)
{
    world_new(64);
    u64 reader = blob_new("new_instance", 512, 0, 0);
    stack[20] = ROOT + 5;
    *kept_slot_sigsafe(&agent, ROOT + 5, ASKED_CALL) = kept_key_sigsafe(&agent, ROOT + 5, ASKED_CALL) | 1;
    take(reader + 40, 20, 0x777, no_registers);
    walked(3, "a stub without a frame, and the C function that called it");
}

/* An adapter between compiled code and the interpreter finds that the call can go to compiled code from now on: it saves all
 * registers and calls C. */
static void case_adapters_that_save_registers(void)
{
    static const u8 restore[] = {0xc5, 0xf8, 0x77, 0x48, 0x0f, 0xae, 0x0c, 0x24, 0x48, 0x81, 0xc4, 0x80, 0, 0, 0, 0x4c, 0x8b, 0x3c, 0x24};
    u64 registers[23] = {0};
    world_new(128);
    u64 adapter = blob_new("vtable chunks", 1024, 0, 0);
    memcpy((void *)(adapter + 200), restore, sizeof restore);
    outer_at(60, 4);
    stack[59] = outer + 60;
    stack[20 + 16 + 2] = (u64)(stack + 59); /* r13, above what add $0x80 skips */
    stack[19] = adapter + 200;
    u64 callee = blob_new("nmethod", 1024, 3, 76);
    take(callee + 100, 17, 0, no_registers);
    walked(7, "its caller is where r13 was");
    is_compiled(2, adapter + 200, 0, "the adapter");
    is_compiled(4, outer + 60, 77, "its caller");
    registers[5] = (u64)(stack + 59);     /* r13 */
    take(adapter + 150, 30, 0, registers);
    walked(5, "the innermost one, while it saves them");
    registers[5] = (u64)(stack + 60);
    registers[GREG_RAX] = outer + 60;
    take(adapter + 300, 40, 0, registers);
    walked(5, "the return address is in rax, the caller's sp in r13");
    stack[40] = outer + 60;
    take(adapter + 304, 40, 0, registers);
    walked(5, "it is on the stack again, below the arguments");
    is_compiled(2, outer + 60, 77, "its caller");
}

static void case_stubs_that_push(void)
{
    static const u8 framed[] = {0x55, 0x48, 0x8b, 0xec, 0x50, 0x51}; /* push %rbp; mov %rsp,%rbp; push %rax; push %rcx */
    static const u8 aligned[] = {0x48, 0x83, 0xec, 8, 0xe8, 1, 2, 3, 4, 0x48, 0x83, 0xc4, 8};
    world_new(64);
    outer_at(16, 4);
    stack[15] = outer + 60;
    stack[14] = 0x777;
    u64 in_rbp = blob_new("new_instance", 512, -1, 0);
    memcpy((void *)in_rbp, framed, sizeof framed);
    take(in_rbp + 60, 12, (u64)(stack + 14), no_registers);
    walked(5, "a frame in rbp that is made at the blob's first byte");
    u64 pushes = blob_new("new_instance", 512, -1, 0);
    *(u8 *)(pushes + 512 - CODE_AT - 1) = 0xc3;
    *(u8 *)(outer + 55) = 0xe8;           /* call to it */
    put_u32(outer + 56, (u32)(pushes - (outer + 60)));
    leaf_at(pushes + 60, 11, "registers are pushed below the address to which it returns");
    leaf_at(pushes + 104, 15, "at the return");
    leaf_at(pushes + 512 - CODE_AT - 1, 15, "where the last byte of the blob is its return");
    u64 calls = blob_new("new_instance", 512, -1, 0);
    memcpy((void *)(calls + 100), aligned, sizeof aligned);
    leaf_at(calls + 104, 14, "before an aligned call");
    leaf_at(calls + 109, 14, "after it");
    u64 inner = blob_new("nmethod", 1024, 3, 76);
    stack[13] = calls + 109;
    take(inner + 100, 11, 0, no_registers);
    walked(7, "called by it");
    is_compiled(4, outer + 60, 77, "its caller");
}

static void case_callers_that_push_arguments(void)
{
    static const u8 call[] = {0x50, 0x41, 0x50, 0x52, 0xe8}; /* push %rax; push %r8; push %rdx; call */
    static const u8 pops[] = {0x5a, 0x41, 0x58, 0x58, 0x85, 0xc0};
    world_new(64);
    outer_at(23, 4);
    stack[22] = outer + 60;
    stack[21] = 0x777;
    u64 inner = blob_new("nmethod", 1024, 6, 76), stub = blob_new("new_instance", 512, -1, 0);
    memcpy((void *)(inner + 300 - sizeof call - 4), call, sizeof call);
    put_u32(inner + 296, (u32)(stub - (inner + 300)));
    memcpy((void *)(inner + 300), pops, sizeof pops);
    stack[13] = inner + 300;
    stack[19] = outer + 60;               /* where the frame would end without them */
    for (u32 round = 0; round < 2; round++) {
        take(stub + 60, 11, 0x777, no_registers);
        walked(7, "the arguments are below the frame of the caller");
        is_compiled(2, inner + 300, 76, "which has them");
        is_compiled(4, outer + 60, 77, "its caller");
        require(u.sp == (u64)(stack + 27), "at the end of its frame");
    }
}

static u64 java_thread[8];

/* The thread has left Java for C at word `sp`: above the call's return address, or with a pc of its own. */
static void left_java_at(u32 sp, u64 pc, u64 fp)
{
    recipe[HOTSPOT_THREAD_SYSTEM] = 0;
    recipe[HOTSPOT_SYSTEM_TID] = 40;
    recipe[HOTSPOT_THREAD_ANCHOR_SP] = 8;
    recipe[HOTSPOT_THREAD_ANCHOR_PC] = 16;
    recipe[HOTSPOT_THREAD_ANCHOR_FP] = 24;
    java_thread[0] = (u64)java_thread;
    java_thread[1] = (u64)(stack + sp);
    java_thread[2] = pc;
    java_thread[3] = fp;
    java_thread[5] = 4711;
    u.java_thread = (u64)java_thread;
    u.java_tid = 4711;
}

static void case_threads_that_left_java(void)
{
    u64 registers[23] = {0};
    world_new(64);
    u64 caller = blob_new("native nmethod", 1024, 6, 76);
    outer_at(26, 4);
    stack[25] = outer + 60;
    *(u8 *)(caller + 95) = 0xe8;          /* a call that returns to caller + 100 */
    stack[12] = caller + 100;             /* stale */
    take(BARE + 0x10, 10, 0x777, registers);
    require(words[1] == GUESSED_CALLER && words[2] == ((u64)WORD_COMPILED << WORD_SHIFT | (caller + 100)) &&
                u.managed_verdict == MANAGED_TORN,
            "without the anchor a stale address is met");
    left_java_at(20, caller + 200, 0);
    for (u32 round = 0; round < 2; round++) { /* the pc of the anchor, or the call's */
        take(BARE + 0x10, 10, 0x777, registers);
        require(u.verdict == VERDICT_GUESSED && u.managed_verdict == MANAGED_EXACT && u.frame_count == 6, "the anchor is not missed");
        is_compiled(1, caller + 200, 76, "where Java was left");
        is_compiled(3, outer + 60, 77, "its caller");
        java_thread[2] = 0;
        stack[19] = caller + 200;
    }
    stack[12] = 0;
    take(BARE + 0x10, 10, 0x777, registers);
    require(u.managed_verdict == MANAGED_EXACT && u.frame_count == 6, "nor where there is nothing to guess");
    registers[GREG_RBP] = (u64)(stack + 24);
    take(BARE + 0x10, 10, (u64)(stack + 24), registers);
    require(u.managed_verdict == MANAGED_EXACT && u.frame_count == 6, "nor where rbp leads past it");
    java_thread[1] = (u64)(stack + 8);
    take(BARE + 0x10, 10, 0x777, registers);
    require(u.managed_verdict == MANAGED_NONE, "an anchor below the stack pointer is none");
    java_thread[1] = (u64)(stack + 20);
    java_thread[5]++;
    take(BARE + 0x10, 10, 0x777, registers);
    require(u.managed_verdict == MANAGED_NONE, "nor is that of another thread");
}

/* A virtual thread of which only the innermost frame is on the stack: it returns to a stub, the carrier's frames are above. */
static void case_virtual_threads_that_came_back(void)
{
    static const u8 barrier[] = {0x49, 0x8b, 0xa7, 48, 0, 0, 0, 0x50};
    world_new(64);
    u64 inner = blob_new("nmethod", 1024, 6, 76), stub = blob_new("StubRoutines (continuation stubs)", 1024, 0, 0);
    outer_at(32, 4);
    left_java_at(0, 0, 0);
    memcpy((void *)(stub + 90), barrier, sizeof barrier);
    stack[15] = stub + 90;
    stack[18] = inner + 300;              /* stale, between the frame and the entry */
    stack[31] = outer + 60;               /* the entry is 8 words, then rbp */
    stack[30] = 0x5678;
    java_thread[6] = (u64)(stack + 22);
    for (u32 round = 0; round < 2; round++) {
        take(inner + 100, 10, 0, no_registers);
        walked(7, "two Java frames, the stub and the root");
        is_compiled(2, stub + 90, 0, "the stub stands for the frames in the heap");
        is_compiled(4, outer + 60, 77, "the carrier's frame");
        java_thread[6] = (u64)(stack + 4); /* another continuation, that this one runs */
        stack[5] = (u64)(stack + 22);
    }
    java_thread[5]++;
    take(inner + 100, 10, 0, no_registers);
    require(u.managed_verdict == MANAGED_TORN, "the record of another thread is not used");
    java_thread[5]--;
    java_thread[6] = (u64)(stack + 63);
    take(inner + 100, 10, 0, no_registers);
    require(u.managed_verdict == MANAGED_TORN, "an entry without a return address is none");
}

/* The last instructions of the stub, when the frames of the virtual thread are on the stack. */
static void case_virtual_threads_whose_frames_are_back(void)
{
    static const u8 barrier[] = {0x49, 0x8b, 0xa7, 48, 0, 0, 0, 0x50};
    static const u8 leaves[] = {0x48, 0x8b, 0xe3, 0x48, 0x83, 0xec, 0x10, 0x5d, 0xc3};
    static const u8 throws[] = {0x48, 0x8b, 0xe3, 0x48, 0x83, 0xec, 0x10, 0x49, 0x8b, 0xff, 0x50, 0x5d, 0x5a, 0xff, 0xe3};
    world_new(64);
    u64 stub = blob_new("StubRoutines (continuation stubs)", 1024, 0, 0);
    outer_at(16, 4);
    left_java_at(0, 0, 0);
    memcpy((void *)(stub + 90), barrier, sizeof barrier);
    memcpy((void *)(stub + 200), leaves, sizeof leaves);
    memcpy((void *)(stub + 300), throws, sizeof throws);
    stack[15] = outer + 60;
    stack[14] = 0x777;
    stack[51] = outer + 60;               /* the carrier's, above the entry */
    stack[55] = ROOT + 5;
    java_thread[6] = (u64)(stack + 42);
    leaf_at(stub + 203, 16, "below the stack pointer are rbp and the return address");
    require(u.sp == (u64)(stack + 20), "to the frame that is back");
    leaf_at(stub + 207, 14, "before rbp is taken");
    require(u.sp == (u64)(stack + 20), "to the frame that is back");
    leaf_at(stub + 208, 15, "at the return");
    require(u.sp == (u64)(stack + 20), "to the frame that is back");
    take(stub + 310, 14, 0x777, no_registers);
    require(u.managed_verdict == MANAGED_TORN, "on the way to where an exception is handled nothing is said to be exact");
    take(stub + 315, 14, 0x777, no_registers);
    require(u.managed_verdict == MANAGED_EXACT && u.sp == (u64)(stack + 56), "the code behind it leads to the carrier");
}

/* A poll in a loop: the signal's handler leads the thread to a stub, and keeps its pc. */
static void case_polls_that_stop_a_loop(void)
{
    static const u8 begins[] = {0x53, 0x55, 0x48, 0x8b, 0xec, 0x9c}, takes[] = {0x49, 0x8b, 0x9f, 8, 0, 0, 0, 0x48, 0x89, 0x5d, 8};
    u64 registers[23] = {0}, thread[2] = {0};
    world_new(64);
    u64 stub = blob_new("new_instance", 2048, 356, 0);
    memcpy((void *)stub, begins, sizeof begins);
    memcpy((void *)(stub + 300), takes, sizeof takes);
    outer_at(20, 4);
    thread[1] = outer + 60;
    registers[7] = (u64)thread;           /* r15 */
    static const struct { u32 pc, sp; } at[] = {{0, 20}, {1, 19}, {2, 18}, {5, 18}, {6, 17}, {300, 10}, {307, 10}};
    stack[18] = 0x777;
    stack[19] = outer + 100;              /* the room: what rbx was */
    for (u32 i = 0; i < sizeof at / sizeof *at; i++) {
        take(stub + at[i].pc, at[i].sp, (u64)(stack + 18), registers);
        walked(5, "to the loop");
        is_compiled(2, outer + 60, 77, "at its poll");
        require(u.sp == (u64)(stack + 24), "with its frame");
    }
    take(stub + 311, 10, (u64)(stack + 18), registers);
    is_compiled(2, outer + 100, 77, "from then on its pc is on the stack");
}

/* Barriers of the garbage collector: one of the code, out of line, and one at the entry of methods. */
static void case_barriers(void)
{
    static const u8 loads[] = {0xff, 0xd0, 0x48, 0x8b, 0x7c, 0x24, 8, 0x48, 0x83, 0xc4, 0x20, 0xe9, 1, 2, 3, 4};
    world_new(64);
    u64 inner = blob_new("nmethod", 1024, 6, 76);
    outer_at(20, 4);
    memcpy((void *)(inner + 300), loads, sizeof loads);
    stack[19] = outer + 60;
    leaf_at(inner + 302, 10, "four words below the frame");
    leaf_at(inner + 311, 14, "they are gone");
    static const u8 entry[] = {0x6a, 0xff, 0x55, 0x48, 0x8b, 0xec, 0x57};
    u64 stubs = blob_new("StubRoutines (1)", 1024, 0, 0);
    memcpy((void *)(stubs + 200), entry, sizeof entry);
    stack[18] = ~0ULL;
    stack[17] = 0x777;
    leaf_at(stubs + 200, 19, "before the cookie");
    leaf_at(stubs + 202, 18, "above the return address is a cookie");
    leaf_at(stubs + 203, 17, "rbp is pushed");
    take(stubs + 260, 12, (u64)(stack + 17), no_registers);
    walked(5, "its frame is there");
    is_compiled(2, outer + 60, 77, "its caller");
}

static void case_frames_of_stubs(void)
{
    static const u8 made[] = {0x48, 0x83, 0xec, 0x08, 0x48, 0x89, 0x2c, 0x24};
    world_new(64);
    u64 stub = blob_new("new_instance", 512, 2, 0);
    outer_at(16, 4);
    memcpy((void *)stub, made, sizeof made);
    stack[15] = outer + 60;
    stack[14] = 0x777;
    leaf_at(stub, 15, "at its entry");
    leaf_at(stub + 4, 14, "rbp is not saved yet");
    leaf_at(stub + 8, 14, "its frame is there");
    stack[12] = stub + 100;               /* C was called with an aligned stack: a word is between */
    stack[14] = (u64)(stack + 30);
    u64 inner = blob_new("nmethod", 1024, 2, 76);
    stack[11] = (u64)(stack + 14);
    take(inner + 100, 11, 0, no_registers);
    walked(7, "rbp points to the frame");
    is_compiled(4, outer + 60, 77, "its caller");
}

static void case_frames_made_without_a_push(void)
{
    static const u8 made[] = {0x48, 0x81, 0xec, 0x28, 0, 0, 0, 0x48, 0x89, 0x6c, 0x24, 0x20};
    world_new(64);
    u64 inner = blob_new("nmethod", 1024, 6, 76);
    outer_at(16, 4);
    memcpy((void *)(inner + ENTRY_AT), made, sizeof made);
    stack[15] = outer + 60;
    leaf_at(inner + ENTRY_AT, 15, "before the subtraction");
    leaf_at(inner + ENTRY_AT + 7, 10, "rbp is not saved yet");
    leaf_at(inner + ENTRY_AT + 12, 10, "rbp is saved");
}

static void case_deoptimised_frames_have_their_own_pc(void)
{
    world_new(64);
    u64 inner = blob_new("nmethod", 1024, 6, 76);
    outer_at(16, 4);
    put_u32(outer - CODE_AT + COMPILED_ORIGINAL, 8);
    stack[15] = outer + 200;              /* what deoptimising put in its place */
    stack[17] = outer + 60;
    for (u32 round = 0; round < 2; round++) {
        take(inner + 100, 10, 0, no_registers);
        walked(5, "the frame has its size still");
        is_compiled(2, outer + 60, 77, "and the pc that it had");
    }
}

static u64 made_method[8], made_const[16], made_pool[8], made_klass[4], made_symbol[2];

/* A method of eight bytes of bytecode. */
static u64 method_new(const char *class_name)
{
    u32 length = (u32)strlen(class_name);
    made_method[1] = (u64)made_const;
    made_const[1] = (u64)made_pool;
    made_const[2] = 1 | 1 << 16 | 8ULL << 32;
    made_pool[1] = (u64)made_klass;
    made_pool[2] = 2;
    made_pool[4] = (u64)made_symbol;
    made_klass[1] = (u64)made_symbol;
    memset(made_symbol, 0, sizeof made_symbol);
    ((u8 *)made_symbol)[4] = (u8)length;
    memcpy((u8 *)made_symbol + 6, class_name, length);
    return (u64)made_method;
}

#define BYTECODES ((u64)made_const + 32)

/* A frame of the interpreter: rbp points to word `at`, the caller's sp is word `sender`. */
static void interpreted_at(u32 at, u32 sender, u64 return_address, u64 method, u64 bytecode)
{
    stack[at] = (u64)(stack + at + 30);
    stack[at + 1] = return_address;
    stack[at - 1] = (u64)(stack + sender);
    stack[at - 3] = method;
    stack[at - 8] = bytecode;
}

static void is_interpreted(u32 at, u64 method, u64 index, const char *promise)
{
    require(words[at] == ((u64)WORD_CODE << WORD_SHIFT | method) && words[at + 1] >> WORD_SHIFT == WORD_CODE &&
                (words[at + 1] >> FRAME_POSITION_SHIFT & NO_POSITION) == index, promise);
}

static void case_interpreted_frames_name_their_method(void)
{
    u64 registers[23] = {0};
    world_new(64);
    u64 interpreter = blob_new("Interpreter", 2048, 0, 0), method = method_new("a/B");
    interpreted_at(20, 30, interpreter + 300, method, BYTECODES + 2);
    interpreted_at(40, 50, ROOT + 5, method, BYTECODES + 7);
    stack[20] = (u64)(stack + 40);
    registers[5] = BYTECODES + 3;         /* r13 */
    take(interpreter + 200, 10, (u64)(stack + 20), registers);
    walked(5, "two frames of the interpreter");
    is_interpreted(0, method, 3, "the register is newer than the frame");
    is_interpreted(2, method, 7, "callers have what the frame says");
    registers[5] = (u64)method;
    take(interpreter + 200, 10, (u64)(stack + 20), registers);
    is_interpreted(0, method, 2, "a register that holds something else does not count");
}

static void case_methods_that_are_being_entered(void)
{
    u64 registers[23] = {0};
    world_new(64);
    u64 interpreter = blob_new("Interpreter", 2048, 0, 0), method = method_new("a/B");
    interpreted_at(40, 50, ROOT + 5, method, BYTECODES + 7);
    registers[11] = method;               /* rbx */
    registers[5] = (u64)(stack + 22);     /* r13: the caller's sp */
    stack[21] = interpreter + 300;
    take(interpreter + 200, 21, (u64)(stack + 40), registers);
    walked(5, "the return address is on the stack");
    is_interpreted(0, method, 0, "the method that is entered");
    is_interpreted(2, method, 7, "its caller");
    stack[21] = stack[20] = 0;
    registers[GREG_RAX] = interpreter + 300;
    take(interpreter + 200, 20, (u64)(stack + 40), registers);
    walked(5, "the return address is in rax");
    is_interpreted(2, method, 7, "its caller");
}

static void case_what_tells_methods_apart(void)
{
    struct java_method one, other;
    world_new(8);
    u64 method = method_new("a/Proxy1");
    walk.agent = &agent;
    walk.in_handler = 1;
    managed_forget_pages_sigsafe(&walk);
    require(java_method_sigsafe(&walk, recipe, method, &one) == 1, "a method");
    method_new("a/Proxy2");
    require(java_method_sigsafe(&walk, recipe, method, &other) == 1, "a method");
    require(one.fingerprint != other.fingerprint, "the name of the class tells them apart");
    require(one.codes == BYTECODES && one.code_bytes == 8, "where its bytecode is");
    made_method[1] = 1 << 20;
    require(!java_method_sigsafe(&walk, recipe, method, &other), "memory that is not mapped is no method");
    made_method[1] = (u64)made_const + 4;
    require(!java_method_sigsafe(&walk, recipe, method, &other), "nor is a pointer that is not aligned");
}

static void case_blobs_are_found_from_everywhere_in_them(void)
{
    struct code_blob blob;
    world_new(8);
    u64 first = blob_new("nmethod", 40000, 6, 5), second = blob_new("new_instance", 700, 2, 9);
    for (u64 pc = first; pc < first - CODE_AT + 40000; pc += 61)
        require(blob_find_sigsafe(recipe, agent.heaps, pc, &blob) && blob.code == first && blob.compile_id == 5, "the large one");
    require(blob_find_sigsafe(recipe, agent.heaps, second, &blob) && blob.kind == BLOB_OTHER && blob.compile_id == 0, "the stub");
    require(!blob_find_sigsafe(recipe, agent.heaps, first - CODE_AT, &blob), "a header is no code");
    require(!blob_find_sigsafe(recipe, agent.heaps, (u64)heap + HEAP_BYTES - 1, &blob), "free memory is none");
    heap[8] = 0;
    require(!blob_find_sigsafe(recipe, agent.heaps, first, &blob), "a block that was freed is none");
}

static void case_heaps_that_grow(void)
{
    struct code_blob blob;
    world_new(8);
    u64 last = 0;
    while (heap_used < HEAP_BYTES / 2)
        last = blob_new("nmethod", 4000, 6, 5);
    agent.heaps->heaps[0].bytes = heap_used / 2;
    require(blob_find_sigsafe(recipe, agent.heaps, last + 100, &blob) == 1, "it has grown since");
    agent.heaps->heaps[0].bytes = last + 200 - (u64)heap;
    require(blob_find_sigsafe(recipe, agent.heaps, last + 100, &blob) == 1, "only the end of the code is new");
    agent.heaps->heaps[0].bytes = heap_used / 2;
    map_high = (u64)map + (heap_used >> SHIFT) / 2;
    require(!blob_find_sigsafe(recipe, agent.heaps, last + 100, &blob), "its map has not yet");
    map_high = heap_high = ~0ULL;
    require(!blob_find_sigsafe(recipe, agent.heaps, last + 100, &blob), "an impossible end does not count");
}

/* Random bytes in the heap, its map and the stack: nothing is read outside. */
static void case_damage_ends_the_walk(void)
{
    u64 random = 88172645463325252ULL, registers[23];
    world_new(512);
    u64 interpreter = blob_new("Interpreter", 2048, 0, 0), method = method_new("a/B");
    u64 stubs = blob_new("StubRoutines (1)", 2048, 0, 0), compiled = blob_new("nmethod", 2048, 6, 76);
    u64 places[] = {interpreter + 300, compiled + 100, compiled + 18, stubs + 500, ROOT + 5, method, (u64)stack, 0};
    for (u32 round = 0; round < 20000; round++) {
        for (u32 i = 0; i < 24; i++) {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            stack[random % 512] = places[random >> 20 & 7] + (random >> 40 & 0xff);
            registers[random >> 8 & 15] = places[random >> 24 & 7] + (random >> 48 & 0xf8);
            if (round % 4 == 1)
                heap[(random >> 16) % heap_used] = (u8)(random >> 32);
            if (round % 4 == 2)
                map[(random >> 16) % (HEAP_BYTES >> SHIFT)] = (u8)(random >> 32);
        }
        take(places[random % 4] + (random >> 30 & 0x1f), (u32)(random >> 50 & 127), (u64)(stack + (random >> 40 & 511)), registers);
        require(u.frame_count <= MAX_FRAMES, "the stack has room");
        for (u32 i = 0; i < 3; i++)
            put_u64((&interpreter)[0] - CODE_AT + BLOB_NAME, name_of("Interpreter"));
    }
}

static const struct test tests[] = {
    CASE(compiled_frames_have_their_size),
    CASE(code_made_anew_is_not_taken_for_the_old),
    CASE(frames_that_are_being_made_or_left),
    CASE(the_way_out_of_a_poll_and_an_exception),
    CASE(native_methods),
    CASE(stubs_that_c_calls),
    CASE(adapters_that_save_registers),
    CASE(stubs_that_push),
    CASE(callers_that_push_arguments),
    CASE(threads_that_left_java),
    CASE(virtual_threads_that_came_back),
    CASE(virtual_threads_whose_frames_are_back),
    CASE(polls_that_stop_a_loop),
    CASE(barriers),
    CASE(frames_of_stubs),
    CASE(frames_made_without_a_push),
    CASE(deoptimised_frames_have_their_own_pc),
    CASE(interpreted_frames_name_their_method),
    CASE(methods_that_are_being_entered),
    CASE(what_tells_methods_apart),
    CASE(blobs_are_found_from_everywhere_in_them),
    CASE(heaps_that_grow),
    CASE(damage_ends_the_walk),
};

int main(int count, char **arguments)
{
    return cases_run(tests, sizeof tests / sizeof *tests, count, arguments);
}
