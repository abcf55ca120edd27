/*
 * Ruby's frames in a made heap; built behind the agent's sources, with sanitizers. `ruby_cases NAME` runs one case and aborts
 * when a promise is broken; `ruby_cases list` names them. The layout is that of Ruby 3.1.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "cases.h"
#include "require.h"

#define HEAP_BYTES 65536ULL
#define LOOP 0x500000ULL                  /* rb_vm_exec */
#define OTHER 0x600000ULL                 /* any other native function */
#define STACK_WORDS 512
enum { METHOD = 0x11110001, BLOCK = 0x22220001, IN_C = 0x55550001 | 0x80, DUMMY = 0x79990001 | 0xa0, FINISH = 0x20, LOCAL = 2 };
enum { FRAME_BYTES = 64, INSTRUCTIONS = 20, CLASS_PATH = 7777, NAME_EACH = 20 << 4 };

static struct agent *agent;
static struct managed_walk *walk;
static struct unwinder u;
static u64 *recipe, words[MAX_FRAMES], answer[MAX_FRAMES];
static u8 *heap;
static u64 heap_used, machine, ractor, thread, context, stack, frame, environments, object_class;

static void put(u64 at, u64 value)
{
    memcpy((void *)at, &value, 8);
}

static void put_u32(u64 at, u32 value)
{
    memcpy((void *)at, &value, 4);
}

static u64 memory_new(u64 bytes)
{
    u64 at = (u64)heap + heap_used;
    heap_used += (bytes + 7) & ~7ULL;
    require(heap_used <= HEAP_BYTES, "the heap is large enough");
    return at;
}

static u64 object_new(u64 flags)
{
    u64 at = memory_new(40);
    put(at, flags);
    return at;
}

/* A string: its characters are in it, or outside and at no even place. */
static u64 string_new(const char *text)
{
    u64 length = strlen(text), at = object_new(RUBY_STRING | (length < 24 ? length << 14 : RUBY_IS_OUTSIDE)), data = at + 16;
    if (length >= 24) {
        data = memory_new(length + 9) + 3;
        put(at + 16, length);
        put(at + 24, data);
    }
    memcpy((void *)data, text, length);
    return at;
}

static u64 table_of_one(u64 key, u64 value)
{
    u64 table = memory_new(56), entries = memory_new(24);
    put(table + 40, 1);
    put(table + 48, entries);
    put(entries + 8, key);
    put(entries + 16, value);
    return table;
}

static u64 class_new(const char *path)
{
    u64 at = object_new(RUBY_CLASS), extension = memory_new(64);
    static u64 serial = 1;
    put(at + 24, extension);
    put(at + 32, serial++);
    put(extension + 8, table_of_one(CLASS_PATH, string_new(path)));
    return at;
}

static u64 method_new(u64 owner, u64 name, u64 iseq)
{
    static u64 serial = 1;
    u64 at = object_new(RUBY_INTERNAL | RUBY_INTERNAL_METHOD << RUBY_INTERNAL_SHIFT), definition = memory_new(64);
    put(definition, name ? 1 : 0);
    put(definition + 8, iseq);
    put(definition + 40, serial++);
    put(at + 16, definition);
    put(at + 32, owner);
    put(definition + 32, name);
    return at;
}

static u64 iseq_new(const char *label, u64 path)
{
    u64 at = object_new(RUBY_INTERNAL | RUBY_INTERNAL_ISEQ << RUBY_INTERNAL_SHIFT), body = memory_new(200);
    u64 lines = memory_new(2 * RUBY_LINE_BYTES), places = memory_new(64);
    put(at + 16, body);
    put_u32(body + 4, INSTRUCTIONS);
    put(body + 8, memory_new(8 * INSTRUCTIONS));
    put(body + 64, path);
    put(body + 80, string_new(label));
    put(body + 88, 7 << 1 | 1);
    put(body + 120, lines);
    put_u32(body + 136, 2);
    put(body + 144, places);
    put_u32(lines, 8);
    put_u32(lines + RUBY_LINE_BYTES, 9);
    return at;
}

/* Push a frame: at the root first. Returns its environment. */
static u64 frame_push(u64 flags, u64 iseq, u32 position, u64 method)
{
    u64 environment = environments += 24, pc = 0;
    if (iseq) {
        memcpy(&pc, (void *)(iseq + 16), 8);
        memcpy(&pc, (void *)(pc + 8), 8);
        pc += 8 * position;
    }
    frame -= FRAME_BYTES;
    put(environment, flags | LOCAL);
    put(environment - 16, method);
    put(frame, pc);
    put(frame + 16, iseq);
    put(frame + 32, environment);
    put(context + 16, frame);
    return environment;
}

static void world_new(void)
{
    static u64 made[RECIPE_WORDS];
    u64 symbols, unit, names;
    require(agent_prepare(100, FILTERED_NOBODY, 0) == 0, "the agent is there");
    agent = agent_cell;
    heap = mmap(NULL, HEAP_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    thread = memory_new(400);
    context = memory_new(64);
    ractor = memory_new(600);
    machine = memory_new(64);
    put(machine + 8, ractor + 568);
    put(ractor + 568, machine + 8);
    stack = memory_new(8 * STACK_WORDS);
    environments = stack;
    frame = stack + 8 * STACK_WORDS;
    object_class = class_new("Object");
    unit = object_new(RUBY_ARRAY);
    put(unit + 16, 1024);
    names = memory_new(8192);
    put(unit + 32, names);
    put(names + 8 * 2 * (NAME_EACH >> 4), string_new("each"));
    symbols = object_new(RUBY_ARRAY | RUBY_IS_OUTSIDE | 1 << 15);
    put(symbols + 16, unit);
    for (u32 i = 0; i < RECIPE_WORDS; i++)
        made[i] = ABSENT;
    made[RECIPE_RUNTIME] = RUNTIME_RUBY;
    made[RECIPE_ID] = 1;
    made[RECIPE_WALK] = RUBY_CONTROL_FRAMES;
    made[RECIPE_RUNTIME_ADDR] = memory_new(8);
    made[RECIPE_RUNTIME_BYTES] = 8;
    made[RECIPE_EVAL_START] = LOOP;
    made[RECIPE_EVAL_END] = LOOP + 0x1000;
    made[RECIPE_EVAL_COLD_START] = made[RECIPE_EVAL_COLD_END] = 0;
    made[RECIPE_THREAD_INTERPRETER] = 32;
    made[RECIPE_THREAD_POINTER] = 80;
    made[RECIPE_FRAME_POSITION] = 0;
    made[RECIPE_FRAME_CODE] = 16;
    made[RECIPE_CODE_BYTES] = 8;
    made[RECIPE_CODE_FILE_NAME] = 64;
    made[RECIPE_CODE_NAME] = 80;
    made[RECIPE_CODE_FIRST_LINE] = 88;
    made[RECIPE_CODE_LINE_TABLE] = 120;
    made[RECIPE_STRING_LENGTH] = 16;
    made[RECIPE_STRING_COMPACT] = 16;
    made[RUBY_VM_RACTORS] = 8;
    made[RUBY_RACTOR_NODE] = 568;
    made[RUBY_RACTOR_OWNER] = 336;
    made[RUBY_THREAD_RACTOR] = 24;
    made[RUBY_THREAD_CONTEXT] = 40;
    made[RUBY_CONTEXT_STACK] = 0;
    made[RUBY_CONTEXT_STACK_WORDS] = 8;
    made[RUBY_CONTEXT_FRAME] = 16;
    made[RUBY_FRAME_BYTES] = FRAME_BYTES;
    made[RUBY_FRAME_ENVIRONMENT] = 32;
    made[RUBY_CODE_BODY] = 16;
    made[RUBY_BODY_WORDS] = 4;
    made[RUBY_BODY_LINE_SHIFT] = 1;
    made[RUBY_BODY_EXTENT] = 100;
    made[RUBY_BODY_LINES] = 136;
    made[RUBY_BODY_PLACES] = 144;
    made[RUBY_STRING_POINTER] = 24;
    made[RUBY_STRING_SHIFT] = 14;
    made[RUBY_SYMBOLS] = memory_new(8);
    made[RUBY_CLASS_EXTENSION] = 24;
    made[RUBY_CLASS_IS_INLINE] = 0;
    made[RUBY_CLASS_VARIABLES] = 8;
    made[RUBY_CLASS_PATH] = CLASS_PATH;
    made[RUBY_CLASS_ATTACHED] = CLASS_PATH + 1;
    made[RUBY_BODY_PARENT] = 168;
    made[RUBY_CLASS_SERIAL] = 32;
    put(made[RUBY_SYMBOLS], symbols);
    put(thread + 24, ractor);
    put(thread + 40, context);
    put(ractor + 336, thread);
    put(context, stack);
    put(context + 8, STACK_WORDS);
    put(context + 16, frame);
    recipes_set(agent, made, 1);
    recipe = agent->recipes[0];
    require(managed_prepare(agent) != 0, "there is memory");
    agent->resolved_words = answer;
    walk = agent_pages(agent, sizeof *walk);
    u.agent = agent;
    u.frames = words;
}

/* Walk the thread's frames, between native frames of which `loops` are rb_vm_exec, in pairs with another. */
static u32 take(u32 loops)
{
    const struct python_state state = {0, thread, machine, 0, 0};
    walk->agent = agent;
    walk->in_handler = 1;
    walk->verdict = MANAGED_NONE;
    walk->run_count = walk->word_count = walk->placed = walk->is_cut = walk->noted = walk->is_copying = 0;
    walk->steps_left = STEPS_MAX;
    walk->runtime_bytes = 0;
    managed_forget_pages_sigsafe(walk);
    managed_forget_lines_sigsafe(walk);
    u.verdict = VERDICT_COMPLETE;
    u.frame_count = 0;
    for (u32 i = 0; i < loops; i++) {
        u.frames[u.frame_count++] = OTHER + i;
        u.frames[u.frame_count++] = LOOP + i;
    }
    u.frames[u.frame_count++] = OTHER + 0x100;
    ruby_walk_sigsafe(walk, &state);
    if (!walk->run_count)
        return walk->verdict;
    runs_place_by_loop_sigsafe(walk, &u, recipe);
    runs_place_rest_sigsafe(walk, &u);
    merge_cut_sigsafe(walk, &u);
    merge_insert_sigsafe(walk, &u);
    return walk->verdict;
}

/* Number the functions, as the sampler does. Returns how many words the stack has then. */
static u32 resolve(void)
{
    u32 count = u.frame_count, is_nearest;
    agent->noted_by = walk;
    codes_resolve(agent, u.frames, &count, &is_nearest);
    return count;
}

static const struct code_record *record_of(u64 word)
{
    const u8 *at = (const u8 *)agent->codes_out.data;
    for (u32 i = 0; i < agent->codes_out.records; i++) {
        const struct code_record *record = (const struct code_record *)at;
        u32 bytes = 0;
        if (record->code_id == (u32)word)
            return record;
        for (u32 part = 0; part < CODE_PARTS; part++)
            bytes += record->part_bytes[part];
        at += sizeof *record + ((bytes + 7) & ~7U);
    }
    require(0, "each number has a record");
    return NULL;
}

/* Whether a word stands for a function with these texts. */
static int is_function(u64 word, const char *name, const char *path, const char *file)
{
    const struct code_record *record = record_of(word);
    const char *texts[] = {name, path, file}, *at = (const char *)(record + 1);
    for (u32 part = 0; part < 3; at += record->part_bytes[part++])
        if (record->part_bytes[part] != strlen(texts[part]) || memcmp(at, texts[part], strlen(texts[part])) != 0)
            return 0;
    return word >> WORD_SHIFT == FRAME_KIND_MANAGED && !record->flags;
}

static u32 position_of(u64 word)
{
    return (u32)(word >> FRAME_POSITION_SHIFT) & NO_POSITION;
}

static u64 of_outer, of_block, of_deep, method_of_each, method_of_deep, pathed, data_of_path, extent_of_block;

/* The stack of the cases: <main> calls each, in C, which calls a block, which calls a method. */
static void frames_of_the_cases(void)
{
    u64 path = string_new("/srv/application/long/outer.rb"), environment, pair = object_new(RUBY_ARRAY | RUBY_IS_OUTSIDE | 2 << 15);
    put(pair + 16, path);
    put(pair + 24, path);
    memcpy(&data_of_path, (void *)(path + 24), 8);
    of_outer = iseq_new("<main>", path);
    of_block = iseq_new("block in <main>", pair);
    memcpy(&extent_of_block, (void *)(of_block + 16), 8);
    extent_of_block += 100;
    of_deep = iseq_new("a_method_with_a_name_that_is_long", pathed = string_new("two.rb"));
    method_of_each = method_new(class_new("Array"), NAME_EACH, 0);
    frame_push(DUMMY, of_outer, 0, 0);
    environment = frame_push(METHOD | FINISH, of_outer, 4, 0);
    frame_push(IN_C, 0, 0, method_of_each);
    put(frame_push(BLOCK | FINISH, of_block, 0, 0) - 8, environment | 1);
    frame_push(METHOD, of_deep, INSTRUCTIONS, method_of_deep = method_new(object_class, 0, of_deep));
}

static void case_runs_replace_the_loops(void)
{
    world_new();
    frames_of_the_cases();
    require(take(2) == MANAGED_EXACT, "each run has its loop");
    require(resolve() == 5 + 4, "native frames and functions");
    require(answer[0] == OTHER && answer[1] == ((u64)FRAME_KIND_EVAL << WORD_SHIFT | LOOP), "the innermost loop is marked");
    require(is_function(answer[2], "a_method_with_a_name_that_is_long", "Object", "two.rb"), "a method with its class");
    require(position_of(answer[2]) == INSTRUCTIONS - 1, "the pc is that of the next instruction");
    require(is_function(answer[3], "block in <main>", "", "/srv/application/long/outer.rb"), "a block without");
    require(position_of(answer[3]) == 0, "at its begin");
    require(answer[4] == OTHER + 1 && (answer[5] & WORD_ADDRESS_MASK) == LOOP + 1, "the second loop");
    require(is_function(answer[6], "each", "Array", ""), "a method in C has a name");
    require(is_function(answer[7], "<main>", "", "/srv/application/long/outer.rb"), "its caller");
    require(answer[8] == OTHER + 0x100, "the native root");
    require(record_of(answer[2])->detail[0] == 7 && (u32)record_of(answer[2])->detail[1] == 2 * RUBY_LINE_BYTES, "lines");
    require(record_of(answer[6])->detail[1] == RUBY_IN_C, "in C");
}

static void case_calls_that_begin_or_end(void)
{
    world_new();
    frames_of_the_cases();
    require(take(1) == MANAGED_ENTERING, "a frame without a loop is about to be called");
    require(resolve() == 3 + 2 && is_function(answer[2], "each", "Array", ""), "it is left out");
    require(take(3) == MANAGED_ENTERING, "a loop without a frame is about to end");
    require(resolve() == 7 + 4 && (answer[2] & ~1ULL) == OTHER, "the outer loops have the frames");
    require(take(0) == MANAGED_MISPLACED, "two frames without a loop have no place");
    put(thread + 40, 0);
    require(take(1) == MANAGED_NONE && u.frame_count == 3, "a thread without a context has no frames");
}

static void case_torn_chains_end(void)
{
    static const u64 nowhere[] = {0, 8, 0x1234567, 0x7ffffffff000, 1ULL << 63};
    u64 at, kept;
    world_new();
    frames_of_the_cases();
    for (u32 i = 0; i < sizeof nowhere / sizeof *nowhere; i++) {
        at = frame + FRAME_BYTES + 32;        /* the block's environment */
        memcpy(&kept, (void *)at, 8);
        put(at, nowhere[i]);
        require(take(2) == MANAGED_TORN && walk->word_count == RUBY_WORDS, "the frames below it are kept");
        put(at, kept);
        at = frame + FRAME_BYTES + 16;        /* and its iseq */
        memcpy(&kept, (void *)at, 8);
        put(at, nowhere[i]);
        require(nowhere[i] == 0 || take(2) == MANAGED_TORN, "an iseq that is none");
        put(at, kept);
        put(context + 16, nowhere[i]);
        require(take(2) == MANAGED_TORN && walk->word_count == 0, "the innermost frame is nowhere");
        put(context + 16, frame);
    }
    put(context + 16, frame + 8);
    require(take(2) == MANAGED_TORN, "in the middle of a frame");
    put(context + 16, frame);
    put(context + 8, 1ULL << 40);
    require(take(2) == MANAGED_TORN, "a stack without an end");
    put(context + 8, STACK_WORDS);
    require(take(2) == MANAGED_EXACT, "as before");
}

static void case_objects_that_move(void)
{
    u64 moved, word;
    world_new();
    moved = object_new(0);
    frames_of_the_cases();
    memcpy((void *)moved, (void *)of_deep, 40);
    put(of_deep, RUBY_MOVED);
    put(of_deep + 16, moved);
    require(take(2) == MANAGED_EXACT, "it left behind where it went");
    resolve();
    word = answer[2];
    require(is_function(word, "a_method_with_a_name_that_is_long", "Object", "two.rb"), "found there");
    put(moved, RUBY_MOVED);
    put(moved + 16, of_deep);
    require(take(2) == MANAGED_TORN, "one that goes round in a ring");
}

/* Let the memory of the innermost method be used again, for another definition. */
static void define_again(const char *file)
{
    u64 definition, serial;
    memcpy(&definition, (void *)(method_of_deep + 16), 8);
    memcpy(&serial, (void *)(definition + 40), 8);
    put(definition + 40, serial + 100);
    memcpy((void *)(pathed + 16), file, strlen(file));
}

static void case_memory_that_is_used_again(void)
{
    u64 first;
    world_new();
    frames_of_the_cases();
    take(2);
    resolve();
    first = answer[2];
    take(2);
    resolve();
    require(answer[2] == first, "the same function has the same number");
    define_again("six.rb");
    take(2);
    define_again("ten.rb");
    memset(walk->notes, 0, sizeof walk->notes);
    resolve();
    require((record_of(answer[2])->flags & CODE_GONE) != 0, "another one was there before it could be read");
    take(2);
    resolve();
    require(answer[2] != first && is_function(answer[2], "a_method_with_a_name_that_is_long", "Object", "ten.rb"), "the new one");
    define_again("two.rb");
    take(2);
    define_again("six.rb");
    resolve();
    require(is_function(answer[2], "a_method_with_a_name_that_is_long", "", "two.rb"), "the handler's note");
    first = answer[3];
    memcpy((void *)(data_of_path + 1), "SRV", 3);
    take(2);
    resolve();
    require(answer[3] != first && is_function(answer[3], "block in <main>", "", "/SRV/application/long/outer.rb"),
            "code that is in no method is known by what its names hold");
    first = answer[3];
    put_u32(extent_of_block, 17);
    take(2);
    resolve();
    require(answer[3] != first, "and by its place in the file");
}

static u32 lines_copied(void)
{
    u32 copied = 0;
    for (u32 i = 0; i < CACHED_LINES; i++)
        copied += walk->lines[i] > LINE_NONE;
    return copied;
}

static void case_without_the_lock_memory_is_copied(void)
{
    u64 page;
    world_new();
    heap_used = (heap_used + 4095) & ~4095ULL;
    page = (u64)heap + heap_used;
    frames_of_the_cases();
    put(thread + 24, 0);
    require(take(2) == MANAGED_EXACT && lines_copied() > 0, "copied");
    resolve();
    require(is_function(answer[2], "a_method_with_a_name_that_is_long", "Object", "two.rb"), "all the same");
    put(thread + 24, ractor);
    require(take(2) == MANAGED_EXACT && lines_copied() == 0, "with the lock it is not");
    put(ractor + 568, ractor + 584);
    put(ractor + 584, machine + 8);
    require(take(2) == MANAGED_EXACT && lines_copied() > 0, "but if there is another ractor");
    require(mprotect((void *)page, 4096, PROT_NONE) == 0, "the collector takes access away");
    require(take(2) == MANAGED_TORN, "nothing can be read");
    require(mprotect((void *)page, 4096, PROT_READ | PROT_WRITE) == 0, "and gives it back");
}

static void case_deep_stacks_are_cut(void)
{
    world_new();
    stack = (u64)mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    put(context, stack);
    put(context + 8, (1 << 20) / 8);
    frame = stack + (1 << 20);
    environments = stack;
    u64 path = string_new("a.rb"), iseq = iseq_new("a", path), root = iseq_new("<main>", path);
    frame_push(METHOD | FINISH, root, 1, 0);
    for (u32 i = 0; i < 9000; i++)
        frame_push(METHOD, iseq, 3, 0);
    take(1);
    require(walk->is_cut != 0 && u.frame_count <= MAX_FRAMES, "no more than there is room for");
    resolve();
    take(1);
    require(walk->is_cut != 0 && u.frame_count <= MAX_FRAMES && resolve() > MAX_FRAMES / 2, "numbered ones are shorter");
    require(u.frames[0] == OTHER && (u.frames[1] & WORD_ADDRESS_MASK) == LOOP, "the innermost are kept, above their loop");
}

static void case_damage_is_no_harm(void)
{
    static u8 kept[HEAP_BYTES];
    u64 seed = 1;
    world_new();
    frames_of_the_cases();
    memcpy(kept, heap, HEAP_BYTES);
    for (u32 round = 0; round < 30000; round++) {
        for (u32 i = 0; i < 3; i++) {
            seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
            u64 value = (seed >> 20) & 3 ? (u64)heap + (seed >> 33) % heap_used : damage(seed << (seed >> 60));
            put(((u64)heap + (seed >> 24) % heap_used) & ~7ULL, value & ~7ULL);
        }
        take(round % 4);
        require(resolve() <= MAX_FRAMES, "no more than there is room for");
        outbox_clear(&agent->codes_out);
        if (round % 8 == 0)
            memcpy(heap, kept, HEAP_BYTES);
    }
}

static const struct test tests[] = {
    CASE(runs_replace_the_loops),
    CASE(calls_that_begin_or_end),
    CASE(torn_chains_end),
    CASE(objects_that_move),
    CASE(memory_that_is_used_again),
    CASE(without_the_lock_memory_is_copied),
    CASE(deep_stacks_are_cut),
    CASE(damage_is_no_harm),
};

int main(int count, char **arguments)
{
    return cases_run(tests, sizeof tests / sizeof *tests, count, arguments);
}
