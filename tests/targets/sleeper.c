/*
 * Does nothing, politely. usage: sleeper [SHARED_MEGABYTES]: so much anonymous shared memory is mapped (not touched).
 * Also built static, for i386 and with musl: a target that must be refused.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int main(int count, char **arguments)
{
    char byte;
    if (count > 1) {
        size_t bytes = (size_t)atoi(arguments[1]) << 20;
        if (mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0) == MAP_FAILED) {
            perror("sleeper: mmap");
            return 1;
        }
    }
    puts("ready ");
    fflush(stdout);
    while (read(0, &byte, 1) > 0)
        ;
    puts("done");
    return 0;
}
