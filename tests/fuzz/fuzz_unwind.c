/*
 * Fuzz target: the unwinder over any rules, registers, code and stack. Both ways: in place, as the handler walks, and
 * over a copy, as for parked threads. The stack is a block of its exact size, so that AddressSanitizer sees a word read
 * outside; code of no file cannot be read, so that a look at it in place is a crash. The second walk finds common rules in the
 * cache, and must end alike.
 *
 * Input: options (1); 15 rules of 12 bytes; pc (2), sp (1), bp (1); then words of stack, two bytes each: what it is
 * (1), and which (1).
 */
#include <sys/mman.h>
#include <unistd.h>

#include "input.h"
#include "require.h"

enum {
    OPTION_BP_KNOWN = 1,
    OPTION_REGISTERS = 2,
    OPTION_COPY = 4,
    OPTION_ALTERNATE_STACK = 8,
};

#define RULE_COUNT 16
#define FUNCTION_BYTES 64
#define CODE_BYTES 4096ULL
#define WORDS_MAX 256
/* One page each of: code with rules, a module without any, one not compiled yet, code of no file, nothing at all. */
enum { WITH_RULES, WITHOUT_RULES, RAW, OF_NO_FILE, CODE_KINDS };

static struct agent agent;
static struct memory_map map;
static struct memory_range stacks[2];
static u8 *code;

static u64 code_addr(u64 kind, u64 byte)
{
    return (u64)code + kind % (CODE_KINDS + 1) * CODE_BYTES + byte * (CODE_BYTES / 256);
}

static void setup(void)
{
    static struct code_range ranges[CODE_KINDS];
    code = mmap(NULL, (CODE_KINDS + 1) * CODE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    agent.pid = (u32)getpid();
    agent.rule_cache = calloc(RULE_CACHE_SLOTS, 8);
    agent.rules = calloc(1, sizeof *agent.rules);
    agent.modules = calloc(CODE_KINDS, sizeof *agent.modules);
    if (code == MAP_FAILED || !agent.rule_cache || !agent.rules || !agent.modules)
        abort();
    for (u32 i = 0; i < 2 * CODE_BYTES; i += 3)
        memcpy(code + i, "\xff\xd0\x90", 3); /* call *%rax; nop */
    /* A file's code is there while a frame of it is; the rest need not be there any more. */
    mprotect(code + 2 * CODE_BYTES, (CODE_KINDS - 1) * CODE_BYTES, PROT_NONE);
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
    m->row_count = CODE_BYTES / FUNCTION_BYTES;
    m->rows = calloc(m->row_count, sizeof *m->rows);
    if (!m->rows)
        abort();
    for (u32 i = 0; i < m->row_count; i++) {
        m->rows[i].pc_offset = i * FUNCTION_BYTES;
        m->rows[i].rule = i % RULE_COUNT;
    }
    agent.modules[WITHOUT_RULES + 1].state = MODULE_WITHOUT_CFI;
    agent.modules[RAW + 1].state = MODULE_RAW;
}

static void take_rules(struct input *input)
{
    for (u32 i = 1; i < RULE_COUNT; i++) {
        struct unwind_rule *rule = &agent.rules->rules[i];
        u32 scale = (u32)take(input, 1);
        rule->cfa_kind = (u8)(take(input, 1) % (CFA_UNSUPPORTED + 1));
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
static u64 word(struct input *input, const u64 *stack)
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
        return (u64)(stack + which);
    case 5:
        return stacks[1].start + 8 * which;
    case 6:
        return which;
    default:
        return (kind << 56 | which << 48) | take(input, 6);
    }
}

static void walk(struct unwinder *u, u64 *frames)
{
    struct unwinder fresh = *u;
    u64 again[MAX_FRAMES];
    fresh.frames = frames;
    agent.cache_generation++;
    *u = fresh;
    unwind_sigsafe(u);
    require(u->frame_count <= MAX_FRAMES, "no more frames than there is room for");
    require(u->verdict <= VERDICT_UNSUPPORTED_RULE || u->verdict == VERDICT_RETRY, "a verdict");
    struct unwinder second = fresh;
    second.frames = again;
    unwind_sigsafe(&second);
    require(second.frame_count == u->frame_count && second.verdict == u->verdict, "the cache changes nothing");
    require(!memcmp(frames, again, u->frame_count * sizeof *frames), "the cache changes no frame");
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    struct input input = {data, data + size};
    static u64 frames[MAX_FRAMES];
    u64 gregs[23] = {0};
    struct unwinder u;
    if (!code)
        setup();
    u32 options = (u32)take(&input, 1);
    take_rules(&input);
    u64 pc_kind = take(&input, 1), pc = code_addr(pc_kind, take(&input, 1)), sp = take(&input, 1), bp = take(&input, 1);
    u64 words = (u64)(input.end - input.at) / 2 + 1;
    if (words > WORDS_MAX)
        words = WORDS_MAX;
    u64 *stack = malloc(words * 8), *alternate = malloc(64 * 8);
    if (!stack || !alternate)
        abort();
    stacks[0].start = (u64)(stack < alternate ? stack : alternate);
    stacks[0].end = stacks[0].start + (stack < alternate ? words : 64) * 8;
    stacks[1].start = (u64)(stack < alternate ? alternate : stack);
    stacks[1].end = stacks[1].start + (stack < alternate ? 64 : words) * 8;
    map.stack_count = options & OPTION_ALTERNATE_STACK ? 2 : 1;
    if (map.stack_count == 1) {
        stacks[0].start = (u64)stack;
        stacks[0].end = (u64)(stack + words);
    }
    for (u32 i = 0; i < 64; i++)
        alternate[i] = (u64)(stack + i % words);
    for (u32 i = 0; i < 23; i++)
        gregs[i] = i % 3 ? (u64)(stack + 3 * i % words) : code_addr(WITH_RULES, 7 * i);
    for (u64 i = 0; i < words; i++)
        stack[i] = word(&input, stack);

    memset(&u, 0, sizeof u);
    u.agent = &agent;
    u.map = &map;
    u.pc = pc;
    u.sp = (u64)(stack + sp % words) + (bp & 128 && !(options & OPTION_COPY) ? 4 : 0);
    u.bp = (u64)(stack + bp % 128);
    u.bp_known = options & OPTION_BP_KNOWN;
    u.in_handler = !(options & OPTION_COPY);
    u.gregs = options & OPTION_REGISTERS ? gregs : NULL;
    if (options & OPTION_COPY) {
        u64 bytes = (u64)(stack + words) - u.sp;
        u8 *copy = malloc(bytes);
        if (!copy)
            abort();
        memcpy(copy, (const void *)u.sp, bytes);
        u.window_start = u.sp;
        u.window_end = u.sp + bytes;
        u.window_delta = (u64)copy - u.sp;
        walk(&u, frames);
        free(copy);
    } else {
        const struct memory_range range = {(u64)stack, (u64)(stack + words)};
        u.window_start = red_zone_sigsafe(&range, u.sp);
        u.window_end = range.end;
        walk(&u, frames);
    }
    free(alternate);
    free(stack);
    return 0;
}
