/*
 * Looks like CPython 3.12 to a profiler: it exports the interpreter's symbols, and has its structures, with one function
 * that runs, `spin`. usage: fakepython ATTACK [SEED]
 *   none    nothing is wrong
 *   random  a second thread changes single words at random, and puts them right again: chains that lead in a circle,
 *           lengths of terabytes, pointers to nowhere
 *   circle  after half a second the frames lead in a circle, all of them of the kind that is not shown
 * Prints "ready "; at the end how often it struck.
 */
#include "target.h"

/* Offsets of CPython 3.12, 64 bits: Include/internal. */
enum {
    RUNTIME_HEAD = 40, INTERPRETER_NEXT = 0, INTERPRETER_THREADS = 72, INTERPRETER_LOCK = 384,
    THREAD_NEXT = 8, THREAD_INTERPRETER = 16, THREAD_CFRAME = 56, THREAD_POINTER = 136, THREAD_TID = 144,
    THREAD_CHUNK = 232, THREAD_TOP = 240, THREAD_ROOT_CFRAME = 272,
    FRAME_CODE = 0, FRAME_PREVIOUS = 8, FRAME_INSTRUCTION = 56, FRAME_OWNER = 70,
    CODE_FIRST_LINE = 68, CODE_VERSION = 92, CODE_FILE = 112, CODE_NAME = 120, CODE_QUALIFIED_NAME = 128,
    CODE_LINES = 136, CODE_INSTRUCTIONS = 192,
    OBJECT_TYPE = 8, SIZE = 16, TEXT_STATE = 32, TEXT = 40, BYTES = 32,
};
#define ENTRY_OWNER 3
#define COMPACT_ASCII (1 << 2 | 1 << 5 | 1 << 6)
#define PAUSE_NS 100000

struct object { _Alignas(16) unsigned char bytes[1024]; };

struct object _PyRuntime, PyCode_Type, PyUnicode_Type;
const unsigned long Py_Version = 0x030c01f0;

static struct object interpreter, thread, other_thread, frame, other_frame, code, other_code, name, file, lines, chunk, lock;
static volatile int stopping;
static volatile unsigned long strikes;

static void put(struct object *object, int offset, uint64_t value)
{
    *(volatile uint64_t *)(object->bytes + offset) = value;
}

static uint64_t addr(const void *place)
{
    return (uint64_t)(uintptr_t)place;
}

static void text_make(struct object *to, const char *text)
{
    put(to, OBJECT_TYPE, addr(&PyUnicode_Type));
    put(to, SIZE, strlen(text));
    put(to, TEXT_STATE, COMPACT_ASCII);
    strcpy((char *)to->bytes + TEXT, text);
}

static void code_make(struct object *to)
{
    put(to, OBJECT_TYPE, addr(&PyCode_Type));
    put(to, CODE_FIRST_LINE & ~7, 7ULL << 32);
    put(to, CODE_VERSION & ~7, 99ULL << 32);
    put(to, CODE_FILE, addr(&file));
    put(to, CODE_NAME, addr(&name));
    put(to, CODE_QUALIFIED_NAME, addr(&name));
    put(to, CODE_LINES, addr(&lines));
}

static void frame_make(struct object *to, struct object *of, const void *previous)
{
    put(to, FRAME_CODE, addr(of));
    put(to, FRAME_PREVIOUS, addr(previous));
    put(to, FRAME_INSTRUCTION, addr(of->bytes + CODE_INSTRUCTIONS));
    to->bytes[FRAME_OWNER] = 0;
}

static void state_make(struct object *to)
{
    put(to, THREAD_INTERPRETER, addr(&interpreter));
    put(to, THREAD_POINTER, (uint64_t)pthread_self());
    put(to, THREAD_TID, (uint64_t)target_tid());
    put(to, THREAD_CHUNK, addr(&chunk));
    put(to, THREAD_TOP, addr(&chunk.bytes[512]));
}

static uint64_t draw(uint64_t *state)
{
    *state = *state * 6364136223846793005ULL + 1442695040888963407ULL;
    return *state >> 33;
}

/* Have `frame` and `other_frame` return to each other; the code of the second, and of both if `is_hidden`, is of the kind
 * that a walk leaves out. */
static void circle_make(int is_hidden)
{
    put(&frame, FRAME_CODE, addr(is_hidden ? &other_code : &code));
    put(&frame, FRAME_PREVIOUS, addr(&other_frame));
}

/* Change one word, let it be so for a moment, and put it right. */
static void strike(uint64_t *seed)
{
    static struct { struct object *object; int offset; } words[] = {
        {&_PyRuntime, RUNTIME_HEAD}, {&interpreter, INTERPRETER_NEXT}, {&interpreter, INTERPRETER_THREADS},
        {&interpreter, INTERPRETER_LOCK}, {&thread, THREAD_NEXT}, {&thread, THREAD_INTERPRETER}, {&thread, THREAD_CFRAME},
        {&thread, THREAD_POINTER}, {&thread, THREAD_CHUNK}, {&thread, THREAD_TOP}, {&frame, FRAME_CODE},
        {&frame, FRAME_PREVIOUS}, {&frame, FRAME_INSTRUCTION}, {&code, OBJECT_TYPE}, {&code, CODE_FIRST_LINE & ~7},
        {&code, CODE_VERSION & ~7}, {&code, CODE_FILE}, {&code, CODE_NAME}, {&code, CODE_QUALIFIED_NAME},
        {&code, CODE_LINES}, {&name, SIZE}, {&name, TEXT_STATE}, {&file, SIZE}, {&file, TEXT_STATE}, {&lines, SIZE},
        {&lock, SIZE},
    };
    const uint64_t values[] = {
        0, 8, 1, 4096, 0x7fffffffffff, 1ULL << 47, 1ULL << 62, ~0ULL, addr(&frame), addr(&other_frame), addr(&thread),
        addr(&other_thread), addr(&interpreter), addr(&code), addr(&other_code), addr(&name) + 1, addr(&lines),
        addr(&seed), draw(seed), draw(seed) << 20,
    };
    size_t at = draw(seed) % (sizeof words / sizeof *words);
    struct object *object = words[at].object;
    uint64_t right = *(volatile uint64_t *)(object->bytes + words[at].offset);
    int is_circle = draw(seed) % 4 == 0, is_hidden = draw(seed) % 2;
    struct timespec pause = {.tv_nsec = (long)(draw(seed) % PAUSE_NS)};
    uint64_t previous = *(volatile uint64_t *)(frame.bytes + FRAME_PREVIOUS), own = addr(&code);
    if (is_circle) {
        circle_make(is_hidden);
    } else {
        put(object, words[at].offset, values[draw(seed) % (sizeof values / sizeof *values)]);
    }
    nanosleep(&pause, NULL);
    if (is_circle) {
        put(&frame, FRAME_PREVIOUS, previous);
        put(&frame, FRAME_CODE, own);
    } else {
        put(object, words[at].offset, right);
    }
    strikes++;
}

static void *strike_once(void *argument)
{
    struct timespec pause = {.tv_nsec = 500000000};
    nanosleep(&pause, NULL);
    circle_make(1);
    strikes++;
    return argument;
}

static void *strike_all(void *argument)
{
    uint64_t seed = *(const uint64_t *)argument;
    while (!stopping) {
        struct timespec pause = {.tv_nsec = PAUSE_NS};
        strike(&seed);
        nanosleep(&pause, NULL);
    }
    return NULL;
}

/* The loop: its C frame and its entry frame are locals. */
NOINLINE void _PyEval_EvalFrameDefault(void)
{
    struct object entry;
    struct { volatile uint64_t current, previous; } cframe = {addr(&frame), addr(thread.bytes + THREAD_ROOT_CFRAME)};
    uint64_t state = 1;
    memset(&entry, 0, sizeof entry);
    entry.bytes[FRAME_OWNER] = ENTRY_OWNER;
    frame_make(&frame, &code, &entry);
    put(&thread, THREAD_CFRAME, addr((const void *)&cframe));
    put(&_PyRuntime, RUNTIME_HEAD, addr(&interpreter));
    target_ready("");
    while (!target_asked_to_stop())
        SPIN(state, 100000, 3);
    put(&_PyRuntime, RUNTIME_HEAD, state ? 0 : 8);
}

int main(int argc, char **argv)
{
    const char *attack = argc > 1 ? argv[1] : "none";
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    pthread_t striker;
    text_make(&name, "spin");
    text_make(&file, "/srv/app.py");
    put(&lines, SIZE, 2);
    lines.bytes[BYTES] = 0x80 | 11 << 3;
    code_make(&code);
    code_make(&other_code);
    put(&other_code, CODE_FILE, addr(&name));
    frame_make(&other_frame, &other_code, &frame);
    put(&chunk, SIZE - 8, sizeof chunk);
    put(&interpreter, INTERPRETER_THREADS, addr(&thread));
    put(&interpreter, INTERPRETER_LOCK, addr(&lock));
    state_make(&thread);
    state_make(&other_thread);
    put(&other_thread, THREAD_NEXT, addr(&thread));
    int attacks = strcmp(attack, "none") != 0;
    if (attacks)
        pthread_create(&striker, NULL, strcmp(attack, "circle") ? strike_all : strike_once, &seed);
    _PyEval_EvalFrameDefault();
    stopping = 1;
    if (attacks)
        pthread_join(striker, NULL);
    printf("strikes %lu\n", strikes);
    return 0;
}
