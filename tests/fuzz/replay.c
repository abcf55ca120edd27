/*
 * Runs a fuzz target without a fuzzer: on every file of a folder as it is, then on ROUNDS damaged copies of them. For
 * machines without clang, and for a short run in every test suite.
 *
 *   replay FOLDER ROUNDS SEED
 */
#include <dirent.h>

#include "input.h"

#define FILES_MAX 4096
#define BYTES_MAX 4096

struct seed {
    unsigned char *bytes;
    size_t size;
};

static struct seed seeds[FILES_MAX];
static u32 seed_count;
static u64 random_state;

static u32 random_below(u64 bound)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (u32)((random_state >> 11) % bound);
}

static void run(const unsigned char *bytes, size_t size)
{
    unsigned char *exact = malloc(size);
    if (!exact && size)
        abort();
    memcpy(exact, bytes, size);
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
}

static void read_seeds(const char *folder)
{
    DIR *listing = opendir(folder);
    struct dirent *entry;
    while (listing && (entry = readdir(listing)) && seed_count < FILES_MAX) {
        static unsigned char bytes[BYTES_MAX];
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        FILE *file = entry->d_name[0] == '.' ? NULL : fopen(path, "rb");
        if (!file)
            continue;
        size_t size = fread(bytes, 1, sizeof bytes, file);
        fclose(file);
        if (!(seeds[seed_count].bytes = malloc(size + 1)))
            abort();
        memcpy(seeds[seed_count].bytes, bytes, size);
        seeds[seed_count++].size = size;
    }
    if (listing)
        closedir(listing);
}

static size_t damage(unsigned char *bytes, size_t size)
{
    static const unsigned char words[] = {0, 1, 0x7f, 0x80, 0xff, 0x10, 0x0a, 0x0b, 0x0f, 0x16};
    const struct seed *other = &seeds[random_below(seed_count)];
    size_t at = random_below(size), length = 1 + random_below(16);
    switch (random_below(6)) {
    case 0:
        bytes[at] ^= (unsigned char)(1U << random_below(8));
        break;
    case 1:
        bytes[at] = (unsigned char)random_below(256);
        break;
    case 2:
        for (size_t i = at; i < size && i < at + 4; i++)
            bytes[i] = words[random_below(sizeof words)];
        break;
    case 3:                               /* a piece of another seed */
        for (size_t i = 0; i < length && at + i < size && i < other->size; i++)
            bytes[at + i] = other->bytes[(at + i) % other->size];
        break;
    case 4:                               /* cut */
        return random_below(4) ? size : 1 + at;
    default:                              /* bytes from elsewhere */
        if (at + length <= size)
            memmove(bytes + random_below(size - length + 1), bytes + at, length);
    }
    return size;
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    read_seeds(argv[1]);
    random_state = strtoull(argv[3], NULL, 0) * 0x9e3779b97f4a7c15ULL + 1;
    for (u32 i = 0; i < seed_count; i++)
        run(seeds[i].bytes, seeds[i].size);
    u64 rounds = seed_count ? strtoull(argv[2], NULL, 0) : 0;
    for (u64 i = 0; i < rounds; i++) {
        unsigned char bytes[BYTES_MAX];
        const struct seed *seed = &seeds[random_below(seed_count)];
        size_t size = seed->size;
        memcpy(bytes, seed->bytes, size);
        for (u32 n = 1 + random_below(12); n > 0 && size > 0; n--)
            size = damage(bytes, size);
        run(bytes, size);
    }
    printf("%u seeds, %llu rounds\n", seed_count, rounds);
    return 0;
}
