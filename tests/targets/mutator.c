/*
 * Computes, and changes all that a profiler reads of it, over and over, at random. usage: mutator FOLDER SEED ATTACKS
 * ATTACKS are letters:
 *   n  names of threads and the command line: escape sequences, line feeds, broken UTF-8
 *   m  mapped files: damaged copies of this program under odd names, that are cut, replaced by links, FIFOs, folders
 *   j  a perf map for code that runs, and a jitdump: rewritten, cut, replaced by links and FIFOs, full of lies
 *   t  threads that live for a moment
 *   s  masks and handlers of signals, alternate stacks, the dumpable flag
 *   l  requests over any socket that the agent has, and answers taken from it
 *   f  descriptors of the profiler's: other files in their place, later the old ones again
 *   r  random words in the profiler's ring, after a while
 * Files are made in FOLDER; the perf map in /tmp, where a profiler looks for it. Prints "ready ".
 */
#include "target.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define CODE_BYTES 4096
#define ATTACKS_MAX 8
#define PAUSE_US 2000

static const char *folder;
static char perf_map[64], *command_line;
static size_t command_bytes;
static unsigned char *code;
static uint64_t seed;
static volatile int stopping;

static uint64_t draw(uint64_t *state)
{
    *state = *state * 6364136223846793005ULL + 1442695040888963407ULL;
    return *state >> 33;
}

/* Bytes that mean something to terminals, to procfs and to readers of text. */
static void draw_text(uint64_t *state, char *text, size_t size)
{
    static const char odd[] = "\033[2J\n\r\t\\)( /:%;\x80\xff\xc3\xe2\x80\xae<>\"'&=0x";
    for (size_t i = 0; i + 1 < size; i++)
        text[i] = draw(state) % 3 ? odd[draw(state) % (sizeof odd - 1)] : (char)('a' + draw(state) % 26);
    text[size - 1] = 0;
}

/* A place in FOLDER; one of a few, so that they meet. */
static void draw_path(uint64_t *state, char *path)
{
    static const char *const names[] = {"lib\033[31m.so", "a\nb.so",      "libc.so.6",
                                        "jit-1.dump",      "x (deleted)", "\xff.so"};
    snprintf(path, PATH_MAX, "%s/%s", folder, names[draw(state) % 6]);
}

static void write_file(uint64_t *state, const char *path, size_t bytes)
{
    static unsigned char block[1 << 16];
    int flags = O_WRONLY | O_CREAT | O_NONBLOCK | (draw(state) % 2 ? O_TRUNC : 0);
    int own = open("/proc/self/exe", O_RDONLY), fd = open(path, flags, 0644);
    ssize_t have = own >= 0 && draw(state) % 4 ? read(own, block, bytes < sizeof block ? bytes : sizeof block) : 0;
    if (have < 64)
        have = 64;
    for (uint64_t i = draw(state) % 60; i; i--)
        block[draw(state) % (draw(state) % 3 ? 512 : (uint64_t)have)] = (unsigned char)draw(state);
    if (fd >= 0 && write(fd, block, (size_t)have) < 0)
        errno = 0;
    if (draw(state) % 8 == 0)
        truncate(path, (off_t)(draw(state) << (draw(state) % 20)));
    close(own);
    close(fd);
}

/* Something else under a name. */
static void replace(uint64_t *state, const char *path)
{
    static const char *const goals[] = {"/etc/shadow", "/proc/self/mem", "/dev/zero", "/", "../../../etc/shadow"};
    if (draw(state) % 2)
        unlink(path);
    rmdir(path);
    switch (draw(state) % 5) {
    case 0: symlink(goals[draw(state) % 5], path); break;
    case 1: mkfifo(path, 0644); break;
    case 2: mkdir(path, 0755); break;
    default: write_file(state, path, 1 << 16);
    }
}

static void attack_names(uint64_t *state)
{
    char text[16], path[64];
    draw_text(state, text, sizeof text);
    prctl(PR_SET_NAME, text);
    snprintf(path, sizeof path, "/proc/self/task/%d/comm", getpid() + (int)(draw(state) % 8));
    int fd = open(path, O_WRONLY);
    if (fd >= 0 && write(fd, text, sizeof text - 1) < 0)
        errno = 0;
    close(fd);
    draw_text(state, command_line, command_bytes);
    usleep(PAUSE_US);
}

static void attack_maps(uint64_t *state)
{
    static struct { void *at; size_t bytes; } held[32];
    char path[PATH_MAX];
    uint64_t which = draw(state) % 32;
    if (held[which].at)
        munmap(held[which].at, held[which].bytes);
    held[which].at = NULL;
    draw_path(state, path);
    if (draw(state) % 3 == 0)
        replace(state, path);
    else
        write_file(state, path, 1 << 16);
    int fd = open(path, O_RDONLY | O_NONBLOCK);
    if (fd >= 0) {
        size_t bytes = 4096 << draw(state) % 5;
        int protection = draw(state) % 3 ? PROT_READ | PROT_EXEC : PROT_READ;
        void *at = mmap(NULL, bytes, protection, MAP_PRIVATE, fd, 0);
        held[which].at = at == MAP_FAILED ? NULL : at;
        held[which].bytes = bytes;
        close(fd);
    }
    usleep(PAUSE_US * 5);
}

static void attack_jit(uint64_t *state)
{
    static char lines[1 << 16];
    size_t used = 0;
    if (draw(state) % 10 == 0)
        replace(state, perf_map);
    int fd = open(perf_map, O_WRONLY | O_CREAT | O_NONBLOCK | (draw(state) % 8 ? O_APPEND : O_TRUNC), 0644);
    for (uint64_t i = draw(state) % 200; i && used + 200 < sizeof lines; i--) {
        char name[40];
        draw_text(state, name, sizeof name);
        uint64_t start = (uint64_t)code + draw(state) % CODE_BYTES, bytes = draw(state) >> draw(state) % 31;
        used += (size_t)sprintf(lines + used, "%s%lx %lx %s\n", draw(state) % 2 ? "0x" : "", start, bytes, name);
    }
    if (fd >= 0 && write(fd, lines, used) < 0)
        errno = 0;
    close(fd);
    usleep(PAUSE_US * 10);
}

static void *brief(void *unused)
{
    uint64_t state = 3;
    SPIN(state, 3000000, 6364136223846793005ULL);
    return state ? unused : NULL;
}

static void attack_threads(uint64_t *state)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, brief, NULL) == 0)
        pthread_detach(thread);
    usleep(PAUSE_US * (draw(state) % 8));
}

static void ignore(int number) { (void)number; }

static void attack_signals(uint64_t *state)
{
    static const int numbers[] = {SIGURG, SIGWINCH, SIGUSR1, SIGCHLD, SIGPROF};
    static char stack[1 << 16];
    sigset_t some;
    sigemptyset(&some);
    sigaddset(&some, numbers[draw(state) % 5]);
    pthread_sigmask(draw(state) % 2 ? SIG_BLOCK : SIG_UNBLOCK, &some, NULL);
    struct sigaction action = {.sa_handler = draw(state) % 2 ? ignore : SIG_IGN, .sa_flags = SA_RESTART};
    sigaction(numbers[2 + draw(state) % 2], &action, NULL);
    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack, .ss_flags = draw(state) % 2 ? SS_DISABLE : 0};
    sigaltstack(&alternate, NULL);
    prctl(PR_SET_DUMPABLE, draw(state) % 2);
    usleep(PAUSE_US * 20);
}

/* The first descriptor from a random one on whose link begins like this; -1 if there is none. */
static int find(uint64_t *state, const char *begins)
{
    char place[64], text[256];
    int first = (int)(draw(state) % 64);
    for (int i = 0; i < 64; i++) {
        int fd = 3 + (first + i) % 64;
        snprintf(place, sizeof place, "/proc/self/fd/%d", fd);
        ssize_t bytes = readlink(place, text, sizeof text - 1);
        if (bytes > 0 && (size_t)bytes >= strlen(begins) && memcmp(text, begins, strlen(begins)) == 0)
            return fd;
    }
    return -1;
}

static void attack_link(uint64_t *state)
{
    int fd = find(state, "socket:");
    uint32_t words[10];
    for (int i = 0; i < 10; i++)
        words[i] = (uint32_t)draw(state) >> draw(state) % 32;
    words[0] = (uint32_t)(draw(state) % 2 ? getpid() : (int)(draw(state) % 5000));
    words[1] = draw(state) % 2 ? (uint32_t)SIGURG : words[1];
    int kind = 0;
    socklen_t size = sizeof kind;
    if (fd >= 0 && getsockopt(fd, SOL_SOCKET, SO_TYPE, &kind, &size) == 0 && kind == SOCK_SEQPACKET) {
        if (send(fd, words, draw(state) % 8 ? sizeof words : draw(state) % 50, MSG_DONTWAIT) < 0)
            errno = 0;
        if (draw(state) % 4 == 0 && recv(fd, words, sizeof words, MSG_DONTWAIT) < 0)
            errno = 0;
    }
    usleep(PAUSE_US);
}

static void attack_files(uint64_t *state)
{
    int fd = find(state, draw(state) % 2 ? "/memfd:flametap" : "socket:");
    if (fd >= 0) {
        int held = dup(fd), other = open(draw(state) % 2 ? "/dev/null" : "/proc/self/maps", O_RDWR | O_NONBLOCK);
        if (other >= 0)
            dup2(other, fd);
        usleep(PAUSE_US * 10);
        dup2(held, fd);
        close(held);
        close(other);
    }
    usleep(PAUSE_US * 100);
}

static void attack_ring(uint64_t *state)
{
    static volatile uint64_t *ring;
    static uint64_t looks;
    size_t bytes = 4096 + (4 << 20);
    if (!ring) {
        int fd = find(state, "/memfd:flametap-ring");
        void *at = fd < 0 ? MAP_FAILED : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        ring = at == MAP_FAILED ? NULL : at;
        looks = draw(state) % 3000;
    } else if (looks) {
        looks--; /* until something was recorded */
    } else {
        uint64_t word = draw(state) % 3 ? draw(state) % (bytes / 8) : draw(state) % 64;
        ring[word] = draw(state) << 33 >> draw(state) % 64;
    }
    usleep(PAUSE_US / 2);
}

static const struct { char letter; void (*strike)(uint64_t *); } attacks[ATTACKS_MAX] = {
    {'n', attack_names}, {'m', attack_maps},  {'j', attack_jit},   {'t', attack_threads},
    {'s', attack_signals}, {'l', attack_link}, {'f', attack_files}, {'r', attack_ring},
};

static void *attacker(void *which)
{
    uint64_t number = (uint64_t)which, state = seed * 977 + number;
    while (!stopping)
        attacks[number].strike(&state);
    return NULL;
}

/* Code that no file holds: counts down and returns, at many addresses. */
static void code_make(void)
{
    static const unsigned char count_down[] = {0xB9, 0, 0, 4, 0, 0xFF, 0xC9, 0x75, 0xFC, 0xC3};
    code = mmap(NULL, CODE_BYTES, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (size_t at = 0; at + sizeof count_down <= CODE_BYTES; at += 64)
        memcpy(code + at, count_down, sizeof count_down);
}

static NOINLINE void compute(uint64_t *state, int depth)
{
    if (depth)
        compute(state, depth - 1);
    else
        ((void (*)(void))(void *)(code + draw(state) % (CODE_BYTES / 64) * 64))();
    *state += (uint64_t)depth;
}

static void *worker(void *unused)
{
    uint64_t state = 7;
    while (!stopping)
        compute(&state, (int)(draw(&state) % 40));
    return unused;
}

int main(int count, char **arguments)
{
    pthread_t threads[ATTACKS_MAX + 1];
    size_t used = 0;
    if (count != 4)
        return 2;
    folder = strdup(arguments[1]);
    seed = strtoull(arguments[2], NULL, 10);
    const char *chosen = strdup(arguments[3]);
    command_line = arguments[1];
    command_bytes = strlen(arguments[1]);
    snprintf(perf_map, sizeof perf_map, "/tmp/perf-%d.map", getpid());
    signal(SIGPIPE, SIG_IGN);
    code_make();
    pthread_create(&threads[used++], NULL, worker, NULL);
    for (uint64_t i = 0; i < ATTACKS_MAX; i++)
        if (strchr(chosen, attacks[i].letter))
            pthread_create(&threads[used++], NULL, attacker, (void *)i);
    target_ready("");
    target_wait_for_stop();
    stopping = 1;
    while (used)
        pthread_join(threads[--used], NULL);
    unlink(perf_map);
    rmdir(perf_map);
    return 0;
}
