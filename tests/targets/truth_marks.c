/*
 * The book in which a Python program notes which of its functions run: python_truth.py calls this at the begin and at
 * the end of each. Each thread has a book of its own, a word a mark: bits 63..16 CLOCK_MONOTONIC in nanoseconds, bits
 * 15..0 the number of the function, negative when it ends. The mark is valid from the moment of that reading on.
 */
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static __thread uint64_t *book;
static __thread uint64_t noted, room;

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000ULL + (uint64_t)now.tv_nsec;
}

/* Begin the book of this thread, with room for so many marks. Returns 0 if there is no memory for it. No file is mapped:
 * an attach would read all of it. */
int truth_begin(long marks)
{
    void *memory = mmap(NULL, (size_t)marks * 8, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return 0;
    book = memory;
    noted = 0;
    room = (uint64_t)marks;
    return 1;
}

/* Returns how many more marks there is room for. */
long truth_mark(int function)
{
    if (noted < room)
        book[noted++] = now_ns() << 16 | (uint16_t)(int16_t)function;
    return (long)(room - noted);
}

/* Write the book of this thread into a folder. Returns 0 if it could not be written. */
int truth_end(const char *folder)
{
    char path[4200];
    FILE *file;
    size_t written;
    snprintf(path, sizeof path, "%s/%ld-%llu.book", folder, syscall(SYS_gettid), (unsigned long long)now_ns());
    file = fopen(path, "wb");
    written = file ? fwrite(book, 8, noted, file) : 0;
    munmap(book, room * 8);
    return file && fclose(file) == 0 && written == noted;
}

/* Call a function of Python, from C. */
int truth_call(int (*function)(int), int value)
{
    return function(value) + 1;
}
