/*
 * A target that harms itself on request, to prove that the receipt of tests/integration/receipt.py notices. Each line
 * on its standard input names one harm; it answers "did NAME".
 */
#include "target.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>

NOINLINE static int victim(int value)
{
    return value * 3 + 1;
}

static void *idle(void *argument)
{
    pause();
    return argument;
}

static void on_signal(int number)
{
    (void)number;
}

static void harm(const char *name)
{
    uintptr_t page = (uintptr_t)victim & ~(uintptr_t)4095;
    pthread_t thread;
    sigset_t set;
    if (strcmp(name, "fd") == 0) {
        open("/dev/null", O_RDONLY);
    } else if (strcmp(name, "thread") == 0) {
        pthread_create(&thread, NULL, idle, NULL);
    } else if (strcmp(name, "handler") == 0) {
        signal(SIGURG, on_signal);
    } else if (strcmp(name, "ignored") == 0) {
        signal(SIGURG, SIG_IGN);
    } else if (strcmp(name, "mask") == 0) {
        sigemptyset(&set);
        sigaddset(&set, SIGURG);
        pthread_sigmask(SIG_BLOCK, &set, NULL);
    } else if (strcmp(name, "text") == 0) {
        mprotect((void *)page, 4096, PROT_READ | PROT_WRITE | PROT_EXEC);
        *(volatile unsigned char *)(uintptr_t)victim ^= 0xff;
        mprotect((void *)page, 4096, PROT_READ | PROT_EXEC);
    } else if (strcmp(name, "writable-text") == 0) {
        mprotect((void *)page, 4096, PROT_READ | PROT_WRITE | PROT_EXEC);
    } else if (strcmp(name, "memfd") == 0) {
        int fd = (int)syscall(SYS_memfd_create, "left-behind", 0);
        if (ftruncate(fd, 4096) == 0)
            mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
        close(fd);
    } else if (strcmp(name, "anonymous-code") == 0) {
        for (int i = 0; i < 3; i++) /* a hole between them, or they would be one mapping */
            mmap((void *)(0x600000000000 + 0x100000L * i), 28672, PROT_READ | PROT_WRITE | PROT_EXEC,
                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    }
}

int main(void)
{
    char line[64];
    printf("ready %d\n", victim(1));
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        harm(line);
        printf("did %s\n", line);
        fflush(stdout);
    }
    return 0;
}
