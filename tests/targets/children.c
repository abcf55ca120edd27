/*
 * Makes one child after another and waits for each. usage: children fork|vfork|spawn|exec MIB
 *
 *   fork   the child checks that it has one thread, works for a moment and exits with a number of its own
 *   vfork  the child only exits
 *   spawn  posix_spawn of true
 *   exec   fork, then exec of true
 *
 * MIB of memory are in use, in pages of 4 KiB, so that a fork takes its time. Each line on standard input is answered by
 * "made N median_us N longest_us N eintr N": children since the last line, the time of the call that makes them, and
 * waits that failed with EINTR. A child that ends wrongly ends the target with 1.
 */
#include "target.h"

#include <dirent.h>
#include <errno.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>

extern char **environ;

#define WINDOW 65536
static uint64_t took_ns[WINDOW];
static unsigned long made, eintr, serial;

static int task_count(void)
{
    int count = 0;
    DIR *folder = opendir("/proc/self/task");
    struct dirent *entry;
    while (folder && (entry = readdir(folder)))
        count += entry->d_name[0] != '.';
    return count;
}

static void child_works(int code)
{
    uint64_t state = 1;
    SPIN(state, 100000, 6364136223846793005ULL);
    _exit(task_count() == 1 && state ? code : 255);
}

static volatile int vfork_code;

/* By itself, since a local variable of vfork's caller may not change. */
NOINLINE static pid_t make_by_vfork(void)
{
    pid_t child = vfork();
    if (child == 0)
        _exit(vfork_code);
    return child;
}

static pid_t make_child(const char *how, int code)
{
    char *const arguments[] = {(char *)"true", NULL};
    pid_t child = -1;
    if (strcmp(how, "spawn") == 0)
        return posix_spawnp(&child, "true", NULL, NULL, arguments, environ) == 0 ? child : -1;
    if (strcmp(how, "vfork") == 0) {
        vfork_code = code;
        return make_by_vfork();
    }
    child = fork();
    if (child == 0) {
        if (strcmp(how, "exec") == 0) {
            execvp("true", arguments);
            _exit(255);
        }
        child_works(code);
    }
    return child;
}

/* Returns 0 if the child was made and ended as it should. */
static int round_trip(const char *how)
{
    int status = 0, code = (int)(++serial % 200), expected = how[0] == 's' || how[0] == 'e' ? 0 : code;
    uint64_t start_ns = target_now_ns();
    pid_t child = make_child(how, code), done;
    if (child < 0) {
        printf("failed: %s: %s\n", how, strerror(errno));
        return 1;
    }
    took_ns[made++ % WINDOW] = target_now_ns() - start_ns;
    while ((done = waitpid(child, &status, 0)) < 0 && errno == EINTR)
        eintr++;
    if (done == child && WIFEXITED(status) && WEXITSTATUS(status) == expected)
        return 0;
    printf("failed: %s: child's status %#x instead of exit code %d\n", how, status, expected);
    return 1;
}

static int by_size(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

static void answer(void)
{
    size_t count = made < WINDOW ? made : WINDOW;
    qsort(took_ns, count, sizeof took_ns[0], by_size);
    printf("made %lu median_us %llu longest_us %llu eintr %lu\n", made,
           count ? (unsigned long long)took_ns[count / 2] / 1000 : 0,
           count ? (unsigned long long)took_ns[count - 1] / 1000 : 0, eintr);
    fflush(stdout);
    made = eintr = 0;
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "fork";
    size_t bytes = (argc > 2 ? strtoul(argv[2], NULL, 10) : 0) << 20;
    struct pollfd input = {.fd = 0, .events = POLLIN, .revents = 0};
    char line[64];
    if (bytes) {
        char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED)
            return 1;
        madvise(memory, bytes, MADV_NOHUGEPAGE);
        for (size_t at = 0; at < bytes; at += 4096)
            memory[at] = 1;
    }
    target_ready("");
    for (;;) {
        if (round_trip(how)) {
            fflush(stdout);
            return 1;
        }
        if (poll(&input, 1, 0) != 1)
            continue;
        if (read(0, line, sizeof line) <= 0)
            break;
        answer();
    }
    printf("made %lu\n", serial);
    return 0;
}
