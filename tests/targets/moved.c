/* Two functions that take turns, one here and one in libmoved.so, until standard input ends. Their
 * names begin with the build's (-DBUILD=old), so that each says which file its name came from. */
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#define JOINED(build, name) build##_##name
#define NAMED(build, name) JOINED(build, name)

extern unsigned NAMED(BUILD, library)(unsigned rounds);
unsigned NAMED(BUILD, program)(unsigned rounds);

static volatile unsigned sink;

__attribute__((noinline)) unsigned NAMED(BUILD, program)(unsigned rounds) {
    for (unsigned i = 0; i < rounds; i++)
        sink += i * 3;
    return sink;
}

int main(void) {
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    puts("ready");
    fflush(stdout);
    while (poll(&input, 1, 0) == 0) {
        NAMED(BUILD, library)(200000);
        NAMED(BUILD, program)(200000);
    }
    puts("moved 1");
    return 0;
}
