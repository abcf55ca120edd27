/*
 * One thread that does one thing in a tight loop: whenever somebody stops it, it is in the middle of that.
 *
 * usage: loops MODE [LIBRARY]
 *   malloc realloc    blocks of 100 kB; one block that grows and shrinks
 *   mmap brk          pages mapped and unmapped; the break moved up and down
 *   fork spawn        children, and waiting for them
 *   dlopen            LIBRARY loaded, called and unloaded
 *   setlocale         two locales in turn
 *   numeric hosts     getaddrinfo of an address, and of a name in /etc/hosts
 *   printf            numbers into /dev/null
 *
 * Each round carries a number through what it does (counted.h). Prints "ready ", and when its standard input ends
 * "rounds N sum S"; exit code 42.
 */
#include "counted.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <locale.h>
#include <netdb.h>
#include <netinet/in.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define BLOCK_BYTES 100000
#define PAGES_BYTES 65536
#define WRONG 1 /* added to a token, gives another one */

extern char **environ;
static const char *library;
static volatile uint64_t *shared; /* with the children */
static FILE *nowhere;

static uint64_t loop_malloc(uint64_t token)
{
    volatile uint64_t *block = malloc(BLOCK_BYTES);
    const size_t last = BLOCK_BYTES / sizeof *block - 1;
    if (!block)
        return token + WRONG;
    for (size_t i = 0; i <= last; i += 512)
        block[i] = token;
    block[last] = token;
    uint64_t sum = block[last];
    for (size_t i = 0; i <= last; i += 512)
        sum += block[i] - token;
    free((void *)(uintptr_t)block);
    return sum;
}

static uint64_t loop_realloc(uint64_t token)
{
    static uint64_t *block;
    static size_t words;
    static uint64_t kept; /* what the round before has left there */
    size_t wanted = 128 + token % (BLOCK_BYTES / sizeof *block);
    uint64_t *moved = realloc(block, wanted * sizeof *block);
    if (!moved)
        return token + WRONG;
    size_t common = wanted < words ? wanted : words;
    uint64_t wrong = 0;
    for (size_t i = 0; i < common; i += 64)
        wrong += moved[i] != kept + i;
    for (size_t i = 0; i < wanted; i += 64)
        moved[i] = token + i;
    block = moved;
    words = wanted;
    kept = token;
    return block[64] - 64 + wrong;
}

static uint64_t through_pages(volatile char *pages, uint64_t token)
{
    uint64_t wrong = 0;
    for (size_t at = 0; at < PAGES_BYTES; at += 4096) {
        wrong += pages[at] != 0; /* fresh memory */
        *(volatile uint64_t *)(pages + at) = token;
    }
    return *(volatile uint64_t *)(pages + PAGES_BYTES - 4096) + wrong;
}

static uint64_t loop_mmap(uint64_t token)
{
    void *pages = mmap(NULL, PAGES_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED)
        return token + WRONG;
    uint64_t result = through_pages(pages, token);
    return munmap(pages, PAGES_BYTES) == 0 ? result : token + WRONG;
}

static uint64_t loop_brk(uint64_t token)
{
    char *begin = sbrk(PAGES_BYTES);
    if (begin == (char *)-1)
        return token + WRONG;
    /* The first page may be the one that the break was in before. */
    volatile uint64_t *word = (volatile uint64_t *)(((uintptr_t)begin + PAGES_BYTES - 8) & ~(uintptr_t)7);
    *word = token;
    uint64_t result = *word;
    /* Nobody else may have moved it meanwhile. */
    return sbrk(-PAGES_BYTES) == begin + PAGES_BYTES ? result : token + WRONG;
}

static int ends_with(pid_t child, int code)
{
    int status;
    return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == code;
}

static uint64_t loop_fork(uint64_t token)
{
    pid_t child = fork();
    if (child == 0) {
        *shared = token;
        _exit((int)(token >> 33) & 63);
    }
    return child > 0 && ends_with(child, (int)(token >> 33) & 63) ? *shared : token + WRONG;
}

static uint64_t loop_spawn(uint64_t token)
{
    char number[32];
    char *arguments[] = {"loops", "child", number, NULL};
    pid_t child;
    int code = (int)(token >> 33) & 63;
    snprintf(number, sizeof number, "%d", code);
    if (posix_spawn(&child, "/proc/self/exe", NULL, NULL, arguments, environ) != 0)
        return token + WRONG;
    return ends_with(child, code) ? token : token + WRONG;
}

static uint64_t loop_dlopen(uint64_t token)
{
    void *handle = dlopen(library, RTLD_NOW);
    if (!handle)
        return token + WRONG;
    uint64_t (*work)(uint64_t) = (uint64_t(*)(uint64_t))(uintptr_t)dlsym(handle, "plugin_work");
    /* Without a round inside it returns (42 + 42 + 1) * 3. */
    uint64_t result = work ? work(0) - 255 + token : token + WRONG;
    return dlclose(handle) == 0 ? result : token + WRONG;
}

static uint64_t loop_setlocale(uint64_t token)
{
    const char *wanted = token & 1 ? "C.UTF-8" : "C";
    const char *got = setlocale(LC_ALL, wanted);
    int is_right = got && strcmp(got, wanted) == 0 && mblen("\xc3\xa4", 2) == (token & 1 ? 2 : -1);
    return is_right ? token : token + WRONG;
}

static uint64_t look_up(const char *name, int flags, uint64_t token)
{
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM, .ai_flags = flags}, *found;
    if (getaddrinfo(name, "80", &hints, &found) != 0)
        return token + WRONG;
    const struct sockaddr_in *address = (const struct sockaddr_in *)(const void *)found->ai_addr;
    uint64_t result = address->sin_addr.s_addr == htonl(INADDR_LOOPBACK) ? token : token + WRONG;
    freeaddrinfo(found);
    return result;
}

static uint64_t loop_numeric(uint64_t token)
{
    return look_up("127.0.0.1", AI_NUMERICHOST, token);
}

static uint64_t loop_hosts(uint64_t token)
{
    return look_up("localhost", 0, token);
}

static uint64_t loop_printf(uint64_t token)
{
    char text[32], *end;
    int bytes = snprintf(text, sizeof text, "%llu", (unsigned long long)token);
    int is_whole = fprintf(nowhere, "%llu %s %f\n", (unsigned long long)token, text, 0.5) == 2 * bytes + 11;
    return is_whole ? strtoull(text, &end, 10) : token + WRONG;
}

static const struct {
    const char *name;
    uint64_t (*round)(uint64_t);
    unsigned rounds_between_looks; /* at standard input: a system call */
} modes[] = {
    {"malloc", loop_malloc, 256}, {"realloc", loop_realloc, 256}, {"mmap", loop_mmap, 16},
    {"brk", loop_brk, 16},        {"fork", loop_fork, 1},         {"spawn", loop_spawn, 1},
    {"dlopen", loop_dlopen, 4},   {"setlocale", loop_setlocale, 64}, {"numeric", loop_numeric, 64},
    {"hosts", loop_hosts, 16},    {"printf", loop_printf, 256},
};

static int run(uint64_t (*round)(uint64_t), unsigned rounds_between_looks)
{
    struct counted books = {0, 0};
    target_ready("");
    do {
        for (unsigned i = 0; i < rounds_between_looks; i++)
            counted_add(&books, round(counted_token(books.rounds + 1)));
    } while (!target_asked_to_stop());
    counted_report(&books, "");
    return COUNTED_EXIT_CODE;
}

int main(int count, char **arguments)
{
    if (count == 3 && strcmp(arguments[1], "child") == 0)
        return atoi(arguments[2]);
    library = count > 2 ? arguments[2] : NULL;
    shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    nowhere = fopen("/dev/null", "w");
    for (size_t i = 0; count > 1 && i < sizeof modes / sizeof *modes; i++)
        if (strcmp(arguments[1], modes[i].name) == 0)
            return run(modes[i].round, modes[i].rounds_between_looks);
    return 2;
}
