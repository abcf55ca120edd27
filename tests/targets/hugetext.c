/*
 * A program that has moved all of its code to anonymous memory at the same address, as those do that want it on huge pages:
 * main → outer → inner, which computes. Without frame pointers, so stacks need the file's unwind information.
 */
#include "target.h"

#include <sys/mman.h>

volatile uint64_t state = 1;

NOINLINE void inner(void)
{
    uint64_t s = state;
    SPIN(s, 200000, 6364136223846793005ULL);
    state = s;
}

NOINLINE void outer(void)
{
    inner();
    state++;
}

/* Returns 0 if the code was moved. */
static int move_code(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512], rights[8];
    uint64_t start, end;
    while (maps && fgets(line, sizeof line, maps))
        if (sscanf(line, "%lx-%lx %7s", &start, &end, rights) == 3 && rights[2] == 'x' && start <= (uint64_t)inner && (uint64_t)inner < end) {
            char *copy = mmap(NULL, end - start, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            fclose(maps);
            if (copy == MAP_FAILED)
                return 1;
            memcpy(copy, (void *)start, end - start);
            return mprotect(copy, end - start, PROT_READ | PROT_EXEC) != 0 ||
                   mremap(copy, end - start, end - start, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)start) == MAP_FAILED;
        }
    return 1;
}

int main(void)
{
    if (move_code())
        return 1;
    target_ready("");
    while (!target_asked_to_stop())
        outer();
    puts("moved 1");
    return 0;
}
