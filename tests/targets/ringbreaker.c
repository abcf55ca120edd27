/*
 * Looks for the profiler's ring and turns on it, while it computes. What the ring is mapped to is its own memory, too; the
 * descriptor should not be among its own.
 * usage: ringbreaker ATTACK [FILE]
 *   punch     takes pages out of it, over and over
 *   garbage   writes random words over its header and its data, over and over
 *   positions moves what the header says of the ring's size and of what was read and written, over and over
 *   replace   puts FILE in the place of its descriptor: 64 GiB, sparse, which begins like the ring
 *   pipe      puts the FIFO called FILE there
 * Prints "ready "; at the end how often it struck.
 */
#include "target.h"
#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define MAPPED_BYTES (4096 + (4 << 20))
#define HUGE_BYTES (1LL << 36)

static const char *attack, *file;
static volatile int stopping;
static volatile unsigned long strikes;

/* A second mapping of the ring, NULL while there is no first one. */
static volatile uint64_t *ring_mapping(void)
{
    char line[512];
    volatile uint64_t *found = NULL;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && !found && fgets(line, sizeof line, maps))
        if (strstr(line, "/memfd:flametap-ring"))
            found = (uint64_t *)strtoul(line, NULL, 16);
    if (maps)
        fclose(maps);
    /* An old size of 0: another mapping of the same pages, mremap(2). */
    return found ? mremap((void *)found, 0, MAPPED_BYTES, MREMAP_MAYMOVE) : NULL;
}

/* The number of the ring's descriptor, -1 while there is none. */
static int ring_find(void)
{
    char place[64], text[256];
    for (int fd = 3; fd < 64; fd++) {
        snprintf(place, sizeof place, "/proc/self/fd/%d", fd);
        ssize_t bytes = readlink(place, text, sizeof text - 1);
        if (bytes <= 0)
            continue;
        text[bytes] = 0;
        if (strncmp(text, "/memfd:flametap-ring", 20) == 0)
            return fd;
    }
    return -1;
}

static void put_in_place(int fd)
{
    int other;
    if (strcmp(attack, "pipe") == 0) {
        mkfifo(file, 0600);
        other = open(file, O_RDWR);
    } else {
        uint64_t header[16];
        other = open(file, O_RDWR | O_CREAT, 0600);
        if (ftruncate(other, HUGE_BYTES) != 0)
            return;
        /* The agent writes it a moment after it has made the file. */
        while (pread(fd, header, sizeof header, 0) != sizeof header || !header[0]) {
        }
        header[2] = 1ULL << 35;
        header[3] = 3ULL << 30;
        if (pwrite(other, header, sizeof header, 0) != sizeof header)
            return;
    }
    if (dup2(other, fd) == fd)
        strikes++;
}

static void strike(volatile uint64_t *ring, uint64_t *random)
{
    *random = *random * 6364136223846793005ULL + 1442695040888963407ULL;
    if (strcmp(attack, "punch") == 0) {
        uint64_t at = (*random >> 40) % (MAPPED_BYTES - (1 << 16)) & ~4095ULL;
        strikes += madvise((char *)ring + at, 1 << 16, MADV_REMOVE) == 0;
        usleep(1000);
    } else if (strcmp(attack, "positions") == 0) {
        ring[2 + (*random >> 33) % 3] = *random >> (*random >> 58);
        strikes++;
    } else {
        ring[(*random >> 33) % (MAPPED_BYTES / 8) / ((*random >> 60) ? 1 : 1024)] = *random;
        strikes++;
    }
}

static void *attacker(void *unused)
{
    uint64_t random = 1;
    volatile uint64_t *ring;
    int fd = -1;
    while (file && !stopping && (fd = ring_find()) < 0)
        continue;
    if (fd >= 0)
        put_in_place(fd);
    while (!file && !stopping && !(ring = ring_mapping()))
        continue;
    if (file || stopping || ring == MAP_FAILED)
        return unused;
    while (!ring[3] && !stopping) /* until the first batch is on its way */
        usleep(1000);
    usleep(300000);
    while (!stopping)
        strike(ring, &random);
    return unused;
}

int main(int count, char **arguments)
{
    pthread_t thread;
    uint64_t state = 1;
    if (count < 2)
        return 2;
    attack = arguments[1];
    file = count > 2 ? arguments[2] : NULL;
    pthread_create(&thread, NULL, attacker, NULL);
    target_ready("");
    while (!target_asked_to_stop())
        SPIN(state, 100000, 6364136223846793005ULL);
    stopping = 1;
    pthread_join(thread, NULL);
    printf("struck %lu\n", strikes);
    return state == 0;
}
