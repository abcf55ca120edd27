/*
 * JavaScript frames on literal stacks and a made heap; built behind the agent's sources, with sanitizers. `v8_cases NAME` runs
 * one case and aborts when a promise is broken; `v8_cases list` names them.
 *
 * The layout is that of V8 11.3 (node 20), but for the numbers of kinds.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cases.h"
#include "require.h"

#define HEAP_BYTES 65536ULL
#define ENGINE ((u64)engine)              /* file of the engine: its own functions */
#define INTERPRETER (ENGINE + 0x100)
#define GOES_ON (ENGINE + 0x300)          /* where the interpreter goes on after other code */
#define ROOT 0x400000ULL                  /* code of a file, whose frames end the stack */
#define CONTEXT 0x70000001ULL             /* looks like an object; nobody reads it */
#define KIND_AT 12
enum kinds { META = 1, SHARED, CODE, BYTECODE, FUNCTION, SCRIPT, STRING, ARRAY, HOLDER, KINDS };
enum { REGEXP = 3, BASELINE = 11, OPTIMISED = 13 };

static struct agent *agent;
static struct unwinder u;
static u64 *recipe, stack[128], words[MAX_FRAMES], answer[MAX_FRAMES];
static u8 *heap, *jit, *engine;
static u64 heap_used, jit_used;
static u64 maps[KINDS];
static struct code_range code[3];
static struct memory_map memory;
static struct memory_range range;
static const u64 no_registers[23];

static void put(u64 at, u64 value)
{
    memcpy((void *)at, &value, 8);
}

static void put_u32(u64 at, u32 value)
{
    memcpy((void *)at, &value, 4);
}

static u64 object_new(u32 kind, u64 bytes)
{
    u64 at = (u64)heap + heap_used;
    heap_used += (bytes + 15) & ~15ULL;
    require(heap_used <= HEAP_BYTES, "the heap is large enough");
    put(at, maps[kind] + 1);
    return at;
}

static void world_new(void)
{
    require(agent_prepare(100, FILTERED_NOBODY, 0) == 0, "the agent is there");
    agent = agent_cell;
    agent->rules->count = 3;
    agent->rules->rules[1].cfa_kind = CFA_RSP;
    agent->rules->rules[1].cfa_off = 8;
    agent->rules->rules[1].ra_kind = RA_UNDEFINED;
    agent->rules->rules[2].cfa_kind = CFA_NONE;
    heap = mmap(NULL, HEAP_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    jit = mmap(NULL, HEAP_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    engine = mmap(NULL, 0x1000, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(jit, 0x90, HEAP_BYTES);
    code[0] = (struct code_range){ROOT, ROOT + 0x1000, 1, 0};
    code[1] = (struct code_range){ENGINE, ENGINE + 0x1000, 2, 0};
    code[2] = (struct code_range){(u64)jit, (u64)jit + HEAP_BYTES, 0, 0};
    if (jit < engine) {
        code[2] = code[1];
        code[1] = (struct code_range){(u64)jit, (u64)jit + HEAP_BYTES, 0, 0};
    }
    memory.code = code;
    memory.code_count = 3;
    memory.stacks = &range;
    memory.stack_count = 1;
    agent->map = &memory;
    for (u32 i = 1; i <= 2; i++) {
        struct module *m = &agent->modules[i];
        memset(m, 0, sizeof *m);
        m->state = MODULE_READY;
        m->text_start = i == 1 ? ROOT : ENGINE;
        m->text_end = m->text_start + 0x1000;
        m->file_searched = 1;
        m->image_bias = i == 2 ? 7 : 0;
        m->table = calloc(1, sizeof *m->table);
        m->table->rows = calloc(1, sizeof(struct cfi_row));
        m->table->row_count = 1;
        m->table->rows[0].rule = i;
    }
    static u64 made[RECIPE_WORDS];
    for (u32 i = 0; i < RECIPE_WORDS; i++)
        made[i] = ABSENT;
    made[RECIPE_RUNTIME] = RUNTIME_V8;
    made[RECIPE_ID] = 1;
    made[RECIPE_IMAGE_START] = ENGINE;
    made[RECIPE_IMAGE_END] = ENGINE + 0x1000;
    made[V8_IMAGE_BIAS] = 7;
    made[V8_BUILTINS_START] = ENGINE;
    made[V8_BUILTINS_END] = ENGINE + 0x1000;
    made[V8_INTERPRETER_START] = INTERPRETER;
    made[V8_INTERPRETER_END] = INTERPRETER + 0x100;
    made[V8_MAP_TYPE] = KIND_AT;
    made[V8_SHARED_TYPE] = SHARED;
    made[V8_CODE_TYPE] = CODE;
    made[V8_BYTECODE_TYPE] = BYTECODE;
    made[V8_FUNCTION_SHARED] = 24;
    made[V8_SHARED_DATA] = 8;
    made[V8_CODE_START] = 40;
    made[V8_CODE_INSTRUCTIONS] = 16;
    made[V8_CODE_BYTES] = 56;
    made[V8_CODE_FLAGS] = 48;
    made[V8_CODE_DEOPT] = 16;
    made[V8_CODE_TABLE] = 24;
    made[V8_DEOPT_SHARED] = 16 + 8 * 6;
    made[V8_KIND_BASELINE] = BASELINE;
    made[V8_SHARED_SCRIPT] = 32;
    made[V8_SHARED_NUMBER] = 52;
    made[V8_SCRIPT_SOURCE] = 8;
    made[V8_SCRIPT_NAME] = 16;
    made[V8_SCRIPT_NUMBER] = 64;
    made[V8_DEOPT_NUMBER] = 16 + 8 * 5;
    made[V8_BYTECODE_TABLE] = 32;
    made[V8_KIND_REGEXP] = REGEXP;
    recipes_set(agent, made, 1);
    recipe = agent->recipes[0];
    v8_keep(agent);
    require(agent->v8_number == 1, "frames of V8 are read");
    agent->resolved_words = answer;
    for (u32 kind = META; kind < KINDS; kind++)
        maps[kind] = (u64)heap + 16 * kind;
    heap_used = 16 * KINDS;
    for (u32 kind = META; kind < KINDS; kind++) {
        put(maps[kind], maps[META] + 1);
        put_u32(maps[kind] + 8, 0);
        put_u32(maps[kind] + KIND_AT, kind);
    }
    range.start = (u64)stack;
    range.end = (u64)(stack + sizeof stack / 8);
}

/* A function with its script. */
struct function {
    u64 function, shared, script;
};

static u64 script_new(u32 number)
{
    u64 script = object_new(SCRIPT, 128), name = object_new(STRING, 32);
    put_u32(name + 12, 9);
    put(script + 8, name + 1);
    put(script + 16, name + 1);
    put(script + 64, (u64)number << 32);
    return script;
}

static struct function function_new(u64 script, u32 number)
{
    struct function f = {object_new(FUNCTION, 64), object_new(SHARED, 64), script};
    put(f.function + 24, f.shared + 1);
    put(f.shared + 32, script + 1);
    put_u32(f.shared + 52, number);
    return f;
}

static u64 bytecode_new(const struct function *f)
{
    u64 bytecode = object_new(BYTECODE, 96);
    put(bytecode + 8, 40ULL << 32);
    put(f->shared + 8, bytecode + 1);
    return bytecode;
}

/* Add code of `bytes`. Returns where its instructions begin. */
static u64 code_new(const struct function *f, u32 kind, u32 bytes)
{
    u64 object = object_new(CODE, 64), at = (u64)jit + jit_used, deopt = object_new(ARRAY, 128);
    jit_used += 16 + ((bytes + 63) & ~63U);
    put(at, maps[HOLDER] + 1);
    put(at + 8, object + 1);
    put(object + 40, at + 16);
    put_u32(object + 48, kind);
    put_u32(object + 56, bytes);
    put(deopt + 16 + 8 * 6, f->shared + 1);
    put(deopt + 16 + 8 * 5, 1ULL << 32);
    if (kind == BASELINE)
        put(f->shared + 8, object + 1);
    else
        put(object + 16, deopt + 1);
    return at + 16;
}

/* A frame at stack[bp]: its caller's is at stack[caller], and it returns to `ra`. */
static void frame_at(u32 bp, u32 caller, u64 ra, u64 function)
{
    stack[bp] = (u64)(stack + caller);
    stack[bp + 1] = ra;
    stack[bp - 1] = CONTEXT;
    stack[bp - 2] = function + 1;
    stack[bp - 4] = stack[bp - 5] = 0;
}

static void in_interpreter(u32 bp, u64 bytecode, u32 offset)
{
    stack[bp - 4] = bytecode + 1;
    stack[bp - 5] = (u64)(offset - 1) << 32;
}

static void take(u64 pc, u32 sp, u32 bp, const u64 *gregs)
{
    u.agent = agent;
    u.map = &memory;
    u.pc = pc;
    u.sp = (u64)(stack + sp);
    u.bp = (u64)(stack + bp);
    u.bp_known = 1;
    u.gregs = gregs;
    u.frames = words;
    u.in_handler = 1;
    u.own_start = range.start;
    u.own_end = range.end;
    unwind_sigsafe(&u);
}

/* Resolve what was taken. Returns how many words there are for the host. */
static u32 resolve(void)
{
    u32 count = u.frame_count, is_nearest;
    agent->ring->counters[COUNTER_TICKS]++;
    codes_resolve(agent, words, &count, &is_nearest);
    return count;
}

static const struct code_record *record_of(u64 word)
{
    const u8 *at = agent->codes_out.data;
    for (u32 i = 0; i < agent->codes_out.records; i++) {
        const struct code_record *record = (const struct code_record *)at;
        u32 bytes = (u32)sizeof *record;
        if (record->code_id == (u32)word)
            return record;
        for (u32 part = 0; part < CODE_PARTS; part++)
            bytes += record->part_bytes[part];
        at += (bytes + 7) & ~7U;
    }
    return NULL;
}

static void is_of(u64 word, const struct function *f, u32 kind, u64 position, const char *promise)
{
    const struct code_record *record = word >> WORD_SHIFT == FRAME_KIND_MANAGED ? record_of(word) : NULL;
    require(record && record->detail[1] == f->shared && record->detail[0] >> V8_KIND_SHIFT == kind &&
                (word >> FRAME_POSITION_SHIFT & NO_POSITION) == position, promise);
}

static void is_unknown(u64 word, const char *promise)
{
    const struct code_record *record = word >> WORD_SHIFT == FRAME_KIND_MANAGED ? record_of(word) : NULL;
    require(record && record->flags & CODE_GONE, promise);
}

static void case_frames_of_all_kinds(void)
{
    world_new();
    u64 script = script_new(5);
    struct function a = function_new(script, 1), b = function_new(script, 2), c = function_new(script, 3);
    u64 fast = code_new(&a, OPTIMISED, 256), plain = code_new(&b, BASELINE, 512), bytecode = bytecode_new(&c);
    frame_at(20, 40, plain + 100, a.function);
    frame_at(40, 60, INTERPRETER + 0x20, b.function);
    frame_at(60, 80, ROOT + 5, c.function);
    in_interpreter(60, bytecode, 70);
    for (u32 round = 0; round < 3; round++) {
        take(fast + 60, 10, 20, no_registers);
        require(u.verdict == VERDICT_COMPLETE && u.managed_verdict == MANAGED_EXACT, "the stack is whole");
        require(resolve() == 4, "three functions and the root");
        is_of(answer[0], &a, V8_CODE_IS_OPTIMISED, 60, "optimised code, with its pc");
        is_of(answer[1], &b, V8_CODE_IS_BASELINE, 99, "baseline code, with its call");
        is_of(answer[2], &c, V8_CODE_IS_BYTECODE, 70, "bytecode, with its offset");
        require(answer[3] == ROOT + 4, "the root is as it was");
    }
    require(agent->codes_out.records == 3, "each has one record");
}

static void case_regular_expressions(void)
{
    world_new();
    struct function a = function_new(script_new(5), 1);
    u64 plain = code_new(&a, BASELINE, 512), expression = code_new(&a, REGEXP, 256), other = code_new(&a, REGEXP + 1, 256);
    frame_at(20, 40, plain + 100, a.function);
    frame_at(40, 60, ROOT + 5, a.function);
    for (u32 round = 0; round < 2; round++) {
        take(expression + 60 + round, 10, 20, no_registers);
        require(resolve() == 3 && answer[0] >> WORD_SHIFT == FRAME_KIND_MANAGED, "a frame of its own");
        require((answer[0] & 0xffffffff) == agent->v8_regexp_id, "the same for all");
        is_of(answer[1], &a, V8_CODE_IS_BASELINE, 99, "its caller is known");
    }
    take(other + 60, 10, 20, no_registers);
    require(resolve() == 3 && answer[0] == other + 60, "other code stays what it is");
    require(agent->codes_out.records == 2, "one record for all");
}

static void leaf_at(u64 pc, u32 sp, const u64 *gregs, const struct function *leaf, const struct function *caller, const char *promise)
{
    take(pc, sp, 40, gregs);
    require(u.verdict == VERDICT_COMPLETE && resolve() == 3, promise);
    is_of(answer[0], leaf, V8_CODE_IS_OPTIMISED, pc - ((u64)jit + 16), promise);
    is_of(answer[1], caller, V8_CODE_IS_BASELINE, 99, promise);
}

static void case_frames_that_are_being_made_or_left(void)
{
    static const u8 entry[] = {0x48, 0x8b, 0x59, 0xf8, 0xf6, 0x43, 0x35, 1, 0x0f, 0x85, 1, 2, 3, 4, 0x55, 0x48, 0x89, 0xe5};
    static const u8 exit[] = {0x48, 0x8b, 0xe5, 0x5d, 0x41, 0x5a, 0x48, 0x8d, 0x64, 0xcc, 8, 0x41, 0x52, 0xc3};
    u64 registers[23] = {0};
    world_new();
    u64 script = script_new(5);
    struct function a = function_new(script, 1), b = function_new(script, 2);
    u64 fast = code_new(&a, OPTIMISED, 256), plain = code_new(&b, BASELINE, 512);
    memcpy((void *)fast, entry, sizeof entry);
    memcpy((void *)(fast + 100), exit, sizeof exit);
    frame_at(40, 60, ROOT + 5, b.function);
    stack[20] = (u64)(stack + 40);
    stack[21] = plain + 100;
    leaf_at(fast, 21, no_registers, &a, &b, "at the entry: was it thrown away?");
    leaf_at(fast + 4, 21, no_registers, &a, &b, "… the test");
    leaf_at(fast + 8, 21, no_registers, &a, &b, "… the jump");
    leaf_at(fast + 14, 21, no_registers, &a, &b, "before the push");
    leaf_at(fast + 15, 20, no_registers, &a, &b, "after the push");
    leaf_at(fast + 103, 20, no_registers, &a, &b, "before the pop");
    leaf_at(fast + 104, 21, no_registers, &a, &b, "after the pop");
    registers[GREG_R10] = plain + 100;
    stack[21] = 0;
    leaf_at(fast + 106, 22, registers, &a, &b, "the return address is in r10");
    leaf_at(fast + 111, 22, registers, &a, &b, "… until it is pushed again");
    stack[21] = plain + 100;
    leaf_at(fast + 113, 21, no_registers, &a, &b, "at the return");
}

static void case_entries_of_v8_up_to_10(void)
{
    static const u8 near[] = {0x48, 0x8b, 0x59, 0xa0, 0xf6, 0x43, 0x0f, 1, 0x74, 5, 0xe9, 1, 2, 3, 4, 0x55, 0x48, 0x89, 0xe5};
    static const u8 far[] = {0x48, 0x8b, 0x59, 0xc0, 0xf6, 0x43, 0x0f, 1, 0x74, 13, 0x49, 0xba, 1, 2, 3, 4, 5, 6, 7, 8,
                             0x41, 0xff, 0xe2, 0x55, 0x48, 0x89, 0xe5};
    static const u8 other[] = {0x48, 0x8b, 0x59, 0xc0, 0xf6, 0x43, 0x0f, 1, 0x74, 6, 0xe9, 1, 2, 3, 4, 0x90, 0x90, 0x55, 0x48, 0x89, 0xe5};
    world_new();
    u64 script = script_new(5);
    struct function a = function_new(script, 1), b = function_new(script, 2);
    u64 fast = code_new(&a, OPTIMISED, 256), plain = code_new(&b, BASELINE, 512);
    frame_at(40, 60, ROOT + 5, b.function);
    stack[20] = (u64)(stack + 40);
    stack[21] = plain + 100;
    memcpy((void *)fast, near, sizeof near);
    leaf_at(fast, 21, no_registers, &a, &b, "at the entry, with a near jump");
    leaf_at(fast + 4, 21, no_registers, &a, &b, "… the test");
    leaf_at(fast + 8, 21, no_registers, &a, &b, "… the jump");
    memcpy((void *)fast, far, sizeof far);
    leaf_at(fast, 21, no_registers, &a, &b, "at the entry, with a far jump");
    leaf_at(fast + 4, 21, no_registers, &a, &b, "… the test");
    leaf_at(fast + 8, 21, no_registers, &a, &b, "… the jump");
    leaf_at(fast + 23, 21, no_registers, &a, &b, "before the push");
    memcpy((void *)fast, other, sizeof other);
    require(state_of_code_sigsafe((const u8 *)fast + 4) == V8_FRAME_WHOLE, "another jump is no entry");
}

static void case_registers_that_point_to_code_that_is_gone(void)
{
    u64 registers[32] = {0};
    world_new();
    struct function a = function_new(script_new(5), 1);
    u64 gone = (u64)jit + HEAP_BYTES - 0x1000;
    require(mprotect((void *)gone, 0x1000, PROT_NONE) == 0, "a page that V8 has given back");
    frame_at(20, 60, ROOT + 5, a.function);
    registers[GREG_R11] = registers[GREG_R15] = gone + 0x7ff;
    take(ENGINE + 0x500, 10, 20, registers);
    require(u.frame_count > 0, "the stack is walked without it");
}

static void case_builtins_without_a_frame(void)
{
    static const u8 call[] = {0xe8, 1, 2, 3, 4};
    world_new();
    u64 script = script_new(5);
    struct function a = function_new(script, 1), other = function_new(script, 2);
    u64 plain = code_new(&a, BASELINE, 512), wrong = code_new(&other, BASELINE, 512);
    memcpy((void *)(plain + 95), call, sizeof call);
    memcpy((void *)(wrong + 95), call, sizeof call);
    frame_at(40, 60, ROOT + 5, a.function);
    stack[20] = 17;
    stack[21] = plain + 100;
    take(ENGINE + 0x500, 20, 40, no_registers);
    require(resolve() == 3 && answer[0] == ENGINE + 0x500, "the builtin has its name");
    is_of(answer[1], &a, V8_CODE_IS_BASELINE, 99, "its caller is found by a word on the stack");
    stack[21] = wrong + 100;
    take(ENGINE + 0x500, 20, 40, no_registers);
    require(resolve() == 2 && answer[0] == ENGINE + 0x500, "a word that does not fit the frame is none");
}

static void case_functions_that_go_on_in_the_interpreter(void)
{
    world_new();
    u64 script = script_new(5);
    struct function a = function_new(script, 1), b = function_new(script, 2);
    u64 one = bytecode_new(&a), two = bytecode_new(&b), copy = (u64)jit + jit_used + 256;
    frame_at(20, 40, GOES_ON, a.function);
    in_interpreter(20, one, 60);
    frame_at(40, 60, ROOT + 5, b.function);
    in_interpreter(40, two, 66);
    take(copy, 10, 20, no_registers);
    require(u.verdict == VERDICT_COMPLETE && resolve() == 3, "two functions and the root");
    is_of(answer[0], &a, V8_CODE_IS_BYTECODE, 60, "in a copy of the interpreter");
    is_of(answer[1], &b, V8_CODE_IS_BYTECODE, 66, "the return address is the start of a builtin");
}

static void case_memory_that_is_used_again(void)
{
    world_new();
    u64 script = script_new(5);
    struct function a = function_new(script, 1);
    u64 fast = code_new(&a, OPTIMISED, 256), word;
    frame_at(20, 40, ROOT + 5, a.function);
    take(fast + 60, 10, 20, no_registers);
    resolve();
    word = answer[0];
    resolve();
    require(answer[0] == word, "nothing has changed");
    put(script + 64, 6ULL << 32);
    resolve();
    is_of(answer[0], &a, V8_CODE_IS_OPTIMISED, 60, "it has a name");
    require(answer[0] != word, "another script at the same addresses is another one");
    word = answer[0];
    put_u32(a.shared + 52, 9);
    resolve();
    require(answer[0] != word, "so is another function of the script");
}

static void case_functions_that_move(void)
{
    world_new();
    u64 script = script_new(5);
    struct function a = function_new(script, 1), b = function_new(script, 2);
    u64 plain = code_new(&a, BASELINE, 256), moved = object_new(FUNCTION, 64);
    frame_at(20, 40, ROOT + 5, a.function);
    put(moved + 24, a.shared + 1);
    put(a.function, moved);               /* where it was: its new place, without a tag */
    take(plain + 60, 10, 20, no_registers);
    resolve();
    is_of(answer[0], &a, V8_CODE_IS_BASELINE, 60, "it is followed to its new place");
    u64 other = code_new(&b, BASELINE, 256);
    take(other + 60, 10, 20, no_registers);
    resolve();
    is_unknown(answer[0], "a function that does not run by this code names nothing");
    put(a.function, 3);
    u64 third = code_new(&a, BASELINE, 256);
    take(third + 60, 10, 20, no_registers);
    resolve();
    is_unknown(answer[0], "nor does one that is gone");
}

static void case_damage_is_no_harm(void)
{
    world_new();
    u64 script = script_new(5), seed = 1;
    struct function a = function_new(script, 1), b = function_new(script, 2);
    u64 fast = code_new(&a, OPTIMISED, 256), plain = code_new(&b, BASELINE, 512), bytecode = bytecode_new(&b);
    u8 *kept = malloc(HEAP_BYTES), *kept_jit = malloc(HEAP_BYTES);
    frame_at(20, 40, plain + 100, a.function);
    frame_at(40, 60, INTERPRETER + 0x20, b.function);
    in_interpreter(40, bytecode, 70);
    frame_at(60, 80, ROOT + 5, b.function);
    memcpy(kept, heap, HEAP_BYTES);
    memcpy(kept_jit, jit, HEAP_BYTES);
    static u64 kept_stack[sizeof stack / 8];
    memcpy(kept_stack, stack, sizeof stack);
    for (u32 round = 0; round < 20000; round++) {
        for (u32 i = 0; i < 3; i++) {
            u64 value, where;
            seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
            value = (seed >> 20) & 3 ? (u64)heap + (seed >> 33) % heap_used : damage(seed << (seed >> 60));
            if (seed >> 18 & 1)
                value |= 1;
            where = (seed >> 40) % 3;
            if (where == 0)
                stack[(seed >> 24) % (sizeof stack / 8)] = value;
            else
                put((where == 1 ? (u64)heap + (seed >> 24) % heap_used : (u64)jit + (seed >> 24) % jit_used) & ~7ULL, value);
        }
        take(round & 1 ? fast + round % 256 : ENGINE + round % 0x1000, 10 + round % 8, 20, no_registers);
        require(resolve() <= MAX_FRAMES, "no more than there is room for");
        outbox_clear(&agent->codes_out);
        if (round % 8 == 0) {
            memcpy(heap, kept, HEAP_BYTES);
            memcpy(jit, kept_jit, HEAP_BYTES);
            memcpy(stack, kept_stack, sizeof stack);
        }
    }
    for (u32 cut = 0; cut < 6; cut++) {
        memcpy(stack, kept_stack, sizeof stack);
        take(fast + 60, 10, 20, no_registers);
        u.frame_count = cut;
        require(resolve() <= cut, "a stack that is cut in the middle of a frame ends there");
    }
}

static void case_baseline_frames_that_a_builtin_makes(void)
{
    u64 registers[23] = {0};
    world_new();
    u64 script = script_new(5);
    struct function a = function_new(script, 1), b = function_new(script, 2);
    u64 plain = code_new(&a, BASELINE, 256), caller = code_new(&b, BASELINE, 512), builtin = ENGINE + 0x500;
    static const u8 entry[] = {0xbb, 1, 0, 0, 0, 0x49, 0xbc, 1, 2, 3, 4, 5, 6, 7, 8, 0xe8}, push[] = {0x55, 0x48, 0x89, 0xe5};
    i32 distance = (i32)(builtin - (plain + 20));
    memcpy((void *)plain, entry, sizeof entry);
    memcpy((void *)(plain + sizeof entry), &distance, 4);
    memset((void *)builtin, 0x90, 0x80);
    memcpy((void *)(builtin + 30), push, sizeof push);
    frame_at(40, 60, ROOT + 5, b.function);
    registers[GREG_RDI] = a.function + 1;
    stack[20] = caller + 100;
    take(plain + 5, 20, 40, registers);
    require(resolve() == 3, "at the entry");
    is_of(answer[0], &a, V8_CODE_IS_BASELINE, 5, "the function is in a register");
    for (u32 stage = 0; stage < 4; stage++) {
        u32 sp = 20, bp = 40;
        registers[GREG_R15] = stage ? plain + 20 : 0;
        stack[18] = stage ? 7 : plain + 20;
        stack[19] = (u64)(stack + 40);
        stack[19 + !stage] = stage ? stack[19] : caller + 100;
        stack[20] = caller + 100;
        if (stage == 0)
            stack[19] = plain + 20, sp = 19;
        if (stage >= 2)
            sp = 19, bp = stage == 3 ? 19 : 40;
        take(builtin + (stage == 0 ? 0 : stage == 1 ? 30 : stage == 2 ? 31 : 34), sp, bp, registers);
        require(resolve() == 4 && answer[0] >> WORD_SHIFT == 0, "the builtin, two functions and the root");
        is_of(answer[1], &a, V8_CODE_IS_BASELINE, 19, "the function whose frame it makes");
        is_of(answer[2], &b, V8_CODE_IS_BASELINE, 99, "and its caller");
    }
}

static void case_functions_that_are_known_later(void)
{
    world_new();
    u64 script = script_new(5), word;
    struct function a = function_new(script, 1), b = function_new(script, 2);
    u64 plain = code_new(&a, BASELINE, 256), bytecode = bytecode_new(&b);
    for (u32 kind = 0; kind < 2; kind++) {
        const struct function *f = kind ? &b : &a;
        frame_at(20, 40, ROOT + 5, f->function);
        if (kind)
            in_interpreter(20, bytecode, 70);
        put(f->function, 3);
        take(kind ? INTERPRETER + 8 : plain + 60, 10, 20, no_registers);
        resolve();
        word = answer[0];
        is_unknown(word, "its function has moved");
        resolve();
        require(answer[0] == word, "it keeps its number");
        put(f->function, maps[FUNCTION] + 1);
        outbox_clear(&agent->codes_out);
        resolve();
        require(answer[0] == word, "also when its function is known");
        is_of(word, f, kind ? V8_CODE_IS_BYTECODE : V8_CODE_IS_BASELINE, kind ? 70 : 60, "then its record comes");
    }
    put(a.function, 3);
    frame_at(20, 40, ROOT + 5, a.function);
    take(plain + 60, 10, 20, no_registers);
    resolve();
    word = answer[0];
    take(plain + 61, 10, 20, no_registers);
    resolve();
    require((u32)answer[0] == (u32)word && answer[0] - word == 1ULL << FRAME_POSITION_SHIFT,
            "code that is known needs no function at another place");
}

static void case_places_far_down_in_bytecode(void)
{
    world_new();
    u64 script = script_new(5);
    struct function a = function_new(script, 1);
    u64 bytecode = bytecode_new(&a), copy = (u64)jit + 4096;
    frame_at(20, 40, ROOT + 5, a.function);
    for (u32 offset = 60; offset < NO_POSITION; offset = offset * 3 + 1) {
        in_interpreter(20, bytecode, offset);
        take(copy, 10, 20, no_registers);
        require(resolve() == 2, "also in a copy of the interpreter");
        is_of(answer[0], &a, V8_CODE_IS_BYTECODE, offset, "the offset is whole");
    }
}

static void line_add(struct memory_map *map, const char *text)
{
    struct map_line line;
    map_line_parse(text, text + strlen(text), &line);
    memory_map_add(agent, map, &line, 0, 0);
}

static int is_code_to_come(const struct memory_map *map, u64 pc)
{
    const struct code_range *found = code_range_sigsafe(map, pc);
    return found && !found->module && found->is_to_come;
}

static void case_code_that_is_mapped_a_moment_later(void)
{
    world_new();
    struct memory_map *map = memory_map_new(agent, 64), *later = memory_map_new(agent, 64);
    line_add(map, "7f5010000000-7f5010002000 rw-p 00000000 00:00 0 ");
    line_add(map, "7f5010002000-7f5010003000 ---p 00000000 00:00 0 ");
    line_add(map, "7f5010003000-7f501003f000 rwxp 00000000 00:00 0 ");
    line_add(map, "7f501003f000-7f5010040000 ---p 00000000 00:00 0 ");
    line_add(map, "7f5010040000-7f5010042000 rw-p 00000000 00:00 0 ");
    line_add(map, "7f5010042000-7f5010043000 ---p 00000000 00:00 0 ");
    line_add(map, "7f5010043000-7f501007f000 rw-p 00000000 00:00 0 ");
    line_add(map, "7f501007f000-7f502fe40000 ---p 00000000 00:00 0 ");
    line_add(map, "7f502fe40000-7f502fe41000 rw-p 00000000 00:00 0 [heap]");
    line_add(map, "7f502fe41000-7f502ffd2000 ---p 00000000 00:00 0 ");
    require(!is_code_to_come(map, 0x7f5010003000) && code_range_sigsafe(map, 0x7f5010003000), "code is code");
    require(is_code_to_come(map, 0x7f5010083000), "what is reserved behind code may be code soon");
    require(is_code_to_come(map, 0x7f5010043000), "a page of code may be writable for a moment");
    require(!code_range_sigsafe(map, 0x7f5010002fff), "what lies before it is none");
    require(!code_range_sigsafe(map, 0x7f502fe41000), "nor what lies behind something else");
    line_add(later, "7f5010003000-7f501003f000 rwxp 00000000 00:00 0 ");
    line_add(later, "7f501003f000-7f5010043000 ---p 00000000 00:00 0 ");
    line_add(later, "7f5010043000-7f501007f000 rwxp 00000000 00:00 0 ");
    require(!memory_map_differs(map, later), "more generated code changes nothing that is known");
    require(mapped_end(map, 0x7f5010003000, 0x7f502fe40000, 1) == 0x7f501003f000, "it is never read in place");
    line_add(later, "7f5010043000-7f501007f000 ---p 00000000 00:00 0 ");
    memory_map_free(agent, map);
    memory_map_free(agent, later);
}

static const struct test tests[] = {
    CASE(frames_of_all_kinds),
    CASE(regular_expressions),
    CASE(frames_that_are_being_made_or_left),
    CASE(entries_of_v8_up_to_10),
    CASE(registers_that_point_to_code_that_is_gone),
    CASE(builtins_without_a_frame),
    CASE(functions_that_go_on_in_the_interpreter),
    CASE(memory_that_is_used_again),
    CASE(functions_that_move),
    CASE(baseline_frames_that_a_builtin_makes),
    CASE(functions_that_are_known_later),
    CASE(places_far_down_in_bytecode),
    CASE(code_that_is_mapped_a_moment_later),
    CASE(damage_is_no_harm),
};

int main(int count, char **arguments)
{
    return cases_run(tests, sizeof tests / sizeof *tests, count, arguments);
}
