/*
 * A program with many mappings: single pages of different rights. usage: patchwork MAPPINGS
 *
 * main → cycle → heavy (3 parts of the work) or light (1 part), as in ratio.c. The pages that may be written to hold
 * their number. The report counts those that do not hold it any more, and says whether the number of mappings was right.
 */
#include "target.h"

#include <sys/mman.h>

#define PAGE 4096

static volatile uint64_t sink;

NOINLINE static uint64_t heavy(uint64_t state)
{
    SPIN(state, 3 * 2000000, 6364136223846793005ULL);
    return state;
}

NOINLINE static uint64_t light(uint64_t state)
{
    SPIN(state, 2000000, 2862933555777941757ULL);
    return state;
}

NOINLINE static void cycle(void)
{
    sink += heavy(sink);
    sink += light(sink);
}

static unsigned lines_of_maps(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    unsigned lines = 0;
    for (int c; maps && (c = getc(maps)) != EOF;)
        lines += c == '\n';
    if (maps)
        fclose(maps);
    return lines;
}

int main(int count, char **arguments)
{
    static const int rights[] = {PROT_READ | PROT_WRITE, PROT_READ, PROT_READ | PROT_WRITE, PROT_READ | PROT_EXEC};
    size_t pages = count > 1 ? strtoul(arguments[1], NULL, 10) : 1000;
    unsigned spoilt = 0;
    char *patchwork = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (patchwork == MAP_FAILED) {
        perror("patchwork: mmap");
        return 1;
    }
    for (size_t i = 0; i < pages; i++) {
        if (i % 2 == 0)
            *(volatile size_t *)(patchwork + i * PAGE) = i;
        else if (mprotect(patchwork + i * PAGE, PAGE, rights[i % 4]) != 0) {
            perror("patchwork: mprotect");
            return 1;
        }
    }
    if (lines_of_maps() < pages) {
        fputs("patchwork: mappings were joined\n", stderr);
        return 1;
    }
    target_ready("");
    while (!target_asked_to_stop())
        cycle();
    for (size_t i = 0; i < pages; i += 2)
        spoilt += *(volatile size_t *)(patchwork + i * PAGE) != i;
    printf("spoilt %u\n", spoilt);
    return 0;
}
