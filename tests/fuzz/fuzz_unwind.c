/*
 * Fuzz target: the unwinder over any rules, registers, code and stack, in place and over copies. What is not the
 * thread's own stack may be gone: a page of the stack is taken away by some inputs, and code with rules cannot be read.
 * The second walk finds common rules in the cache, and must end alike.
 *
 * Input: options (1); 15 rules of 8 bytes or more; pc (2), sp (2), bp (2); then words of stack, two bytes or more each,
 * again and again until the stack is full.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "input.h"
#include "require.h"

enum {
    OPTION_BP_KNOWN = 1,
    OPTION_REGISTERS = 2,
    OPTION_OWN = 4,                       /* the stack is the thread's own */
    OPTION_ONE_STACK_KNOWN = 8,
    OPTION_SMALL_COPY = 16,
    OPTION_HOLE_SHIFT = 5,                /* two bits: which page of the stack is not there */
};

#define RULE_COUNT 16
#define FUNCTION_BYTES 64
#define CODE_BYTES 4096ULL
#define STACK_BYTES (4 * PAGE_BYTES)
#define STACK_WORDS (STACK_BYTES / 8)
/* One page each of: code with rules, a module without any, one not compiled yet, code of no file, nothing at all. */
enum { WITH_RULES, WITHOUT_RULES, RAW, OF_NO_FILE, CODE_KINDS };

static struct agent agent;
static struct memory_map map;
static struct memory_range stacks[2];
static u8 *code;
static u64 *stack;

static u64 code_addr(u64 kind, u64 byte)
{
    return (u64)code + kind % (CODE_KINDS + 1) * CODE_BYTES + byte * (CODE_BYTES / 256);
}

static void setup(void)
{
    static struct code_range ranges[CODE_KINDS];
    code = mmap(NULL, (CODE_KINDS + 1) * CODE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    /* A page that is not there, the stack, another, a second stack, another. */
    u8 *pages = mmap(NULL, 2 * STACK_BYTES + 3 * PAGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (code == MAP_FAILED || pages == MAP_FAILED)
        abort();
    stack = (u64 *)(void *)(pages + PAGE_BYTES);
    for (u32 i = 0; i < 2; i++) {
        stacks[i].start = (u64)stack + i * (STACK_BYTES + PAGE_BYTES);
        stacks[i].end = stacks[i].start + STACK_BYTES;
        mprotect((void *)stacks[i].start, STACK_BYTES, PROT_READ | PROT_WRITE);
    }
    for (u32 i = 0; i < STACK_WORDS; i++)
        ((u64 *)stacks[1].start)[i] = i % 3 ? (u64)(stack + 53 * i % STACK_WORDS) : code_addr(i, 11 * i);
    for (u32 i = 0; i < CODE_KINDS * CODE_BYTES; i += 3)
        memcpy(code + i, "\xff\xd0\x90", 3); /* call *%rax; nop */
    /* What the maps call code need not be there any more. */
    mprotect(code + WITH_RULES * CODE_BYTES, CODE_BYTES, PROT_NONE);
    mprotect(code + CODE_KINDS * CODE_BYTES, CODE_BYTES, PROT_NONE);
    agent.pid = (u32)getpid();
    agent.rule_cache = calloc(RULE_CACHE_SLOTS, 8);
    agent.rules = calloc(1, sizeof *agent.rules);
    agent.modules = calloc(CODE_KINDS, sizeof *agent.modules);
    agent.call_cache = calloc(CALL_CACHE_SLOTS, 8);
    if (!agent.rule_cache || !agent.call_cache || !agent.rules || !agent.modules)
        abort();
    agent.rules->count = RULE_COUNT;
    for (u32 i = 0; i < CODE_KINDS; i++) {
        ranges[i].start = code_addr(i, 0);
        ranges[i].end = ranges[i].start + CODE_BYTES;
        ranges[i].module = i == OF_NO_FILE ? 0 : i + 1;
    }
    map.code = ranges;
    map.code_count = CODE_KINDS;
    map.stacks = stacks;
    agent.map = &map;
    struct module *m = &agent.modules[WITH_RULES + 1];
    m->state = MODULE_READY;
    m->load_bias = ranges[WITH_RULES].start;
    m->text_end = CODE_BYTES;
    m->file_searched = 1;
    m->table = calloc(1, sizeof *m->table + CODE_BYTES / FUNCTION_BYTES * sizeof m->table->rows[0]);
    if (!m->table)
        abort();
    m->table->row_count = CODE_BYTES / FUNCTION_BYTES;
    for (u32 i = 0; i < m->table->row_count; i++) {
        m->table->rows[i].pc_offset = i * FUNCTION_BYTES;
        m->table->rows[i].rule = i % RULE_COUNT;
    }
    agent.modules[WITHOUT_RULES + 1].state = MODULE_WITHOUT_CFI;
    agent.modules[WITHOUT_RULES + 1].file_searched = 1;
    agent.modules[RAW + 1].state = MODULE_RAW;
}

static void take_rules(struct input *input)
{
    for (u32 i = 1; i < RULE_COUNT; i++) {
        struct unwind_rule *rule = &agent.rules->rules[i];
        u32 scale = (u32)take(input, 1);
        rule->cfa_kind = (u8)(take(input, 1) % (CFA_DEREF_INDEXED + 1));
        rule->rbp_kind = (u8)(take(input, 1) % (RBP_DEREF + 1));
        rule->ra_kind = (u8)(take(input, 1) % (RA_REG + 1));
        rule->cfa_reg = (u8)take(input, 1);
        rule->cfa_off = (i32)(take_i8(input) * (1 << (scale & 15)));
        rule->rbp_off = (i32)(take_i8(input) * (1 << (scale >> 4 & 7)));
        rule->ra_off = scale & 128 ? take_i16(input) : -8;
        rule->extra = take_i8(input);
    }
}

/* A word as a stack may hold it: return addresses, pointers into the stack, registers the kernel saved, anything. */
static u64 word(struct input *input)
{
    u64 kind = take(input, 1), which = take(input, 1);
    switch (kind & 7) {
    case 0:
    case 1:
        return code_addr(WITH_RULES, which) + (kind >> 3);
    case 2:
        return code_addr(kind >> 3, which);
    case 3:
    case 4:
        return (u64)(stack + which * 8 + (kind >> 3));
    case 5:
        return stacks[1].start + 64 * which + kind;
    case 6:
        return which;
    default:
        return (kind << 56 | which << 48) | take(input, 6);
    }
}

static void walk(const struct unwinder *start)
{
    static u64 frames[2][MAX_FRAMES];
    struct unwinder walks[2];
    if ((++agent.cache_generation & 0xff) == 0) { /* as maps_refresh does */
        memset((void *)(size_t)agent.rule_cache, 0, RULE_CACHE_SLOTS * 8);
        memset((void *)(size_t)agent.call_cache, 0, CALL_CACHE_SLOTS * 8);
    }
    for (u32 i = 0; i < 2; i++) {
        walks[i] = *start;
        walks[i].frames = frames[i];
        unwind_sigsafe(&walks[i]);
        require(walks[i].frame_count <= MAX_FRAMES, "no more frames than there is room for");
    }
    u32 verdict = walks[0].verdict;
    require(verdict <= VERDICT_UNSUPPORTED_RULE || verdict == VERDICT_RETRY, "a verdict");
    /* A walk that has cost enough ends early; the next one finds in the cache what it has paid for. */
    if (walks[0].scan_checks >= SCAN_CHECKS_MAX || walks[0].entry_reads >= ENTRY_READS_MAX)
        return;
    require(walks[1].frame_count == walks[0].frame_count && walks[1].verdict == verdict, "the cache changes nothing");
    require(!memcmp(frames[0], frames[1], walks[0].frame_count * 8), "the cache changes no frame");
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    struct input input = {data, data + size};
    u64 gregs[23] = {0};
    struct unwinder u;
    if (!code)
        setup();
    u32 options = (u32)take(&input, 1);
    take_rules(&input);
    u64 pc_kind = take(&input, 1), pc = code_addr(pc_kind, take(&input, 1)), sp = take(&input, 2), bp = take(&input, 2);
    u32 words = (u32)(input.end - input.at) / 2 + 1;
    for (u32 i = 0; i < words && i < STACK_WORDS; i++)
        stack[i] = word(&input);
    for (u32 i = words; i < STACK_WORDS; i++)
        stack[i] = stack[i - words];
    for (u32 i = 0; i < 23; i++)
        gregs[i] = i % 3 ? (u64)(stack + 97 * i) : code_addr(WITH_RULES, 7 * i);

    memset(&u, 0, sizeof u);
    u.agent = &agent;
    u.map = &map;
    u.pc = pc;
    u.sp = (u64)stack + sp % STACK_BYTES;
    u.bp = (u64)stack + bp % STACK_BYTES;
    u.bp_known = options & OPTION_BP_KNOWN;
    u.gregs = options & OPTION_REGISTERS ? gregs : NULL;
    if (options & OPTION_OWN) {
        u.own_start = (u64)stack + (sp >> 13) * 8;
        u.own_end = stacks[0].end - (bp >> 13) * 8;
    }
    u.in_handler = options & OPTION_OWN || options & OPTION_REGISTERS;
    map.stack_count = options & OPTION_ONE_STACK_KNOWN ? 1 : 2;
    u.copy_bytes = options & OPTION_SMALL_COPY ? 264 : STACK_BYTES / 2;
    u.copy = malloc(u.copy_bytes);        /* of the exact size: AddressSanitizer guards its ends */
    u8 *hole = (u8 *)stack + PAGE_BYTES * (options >> OPTION_HOLE_SHIFT & 3);
    if (!u.copy)
        abort();
    if (options >> OPTION_HOLE_SHIFT & 3)
        mprotect(hole, PAGE_BYTES, PROT_NONE);
    walk(&u);
    if (options >> OPTION_HOLE_SHIFT & 3)
        mprotect(hole, PAGE_BYTES, PROT_READ | PROT_WRITE);
    free(u.copy);
    return 0;
}
