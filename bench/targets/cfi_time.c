/* Compile one .eh_frame and report the time; built after the agent's sources. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

struct bench_result {
    unsigned long long ns;
    unsigned long long rows;
    unsigned long long rules;
    unsigned long long fdes;
    unsigned long long rows_bytes;    /* kept afterwards */
    unsigned long long scratch_bytes; /* during compilation: scratch memory, and rows that were mapped and not used */
};

static unsigned long long bench_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (unsigned long long)now.tv_sec * 1000000000ULL + (unsigned long long)now.tv_nsec;
}

static void *bench_pages(unsigned long long bytes)
{
    return mmap((void *)0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

/* Compile as compile.c does, from a copy of the section. Returns 0, or -1. */
static int bench_compile(const unsigned char *section, unsigned long long bytes, unsigned long long file_addr,
                         unsigned long long text_start, unsigned long long text_end, struct bench_result *result)
{
    struct cfi_input input = {section, bytes, file_addr, text_start, text_end, 0 /* not .debug_frame */};
    struct cfi_result compiled;
    struct rule_table *table = bench_pages(sizeof *table);
    unsigned long long begin = bench_now_ns();
    unsigned long long scratch_bytes;
    struct cfi_row *rows;
    void *scratch;
    unsigned int limit;
    int code;
    limit = cfi_row_limit(&input);
    scratch_bytes = cfi_scratch_bytes(&input) + 1;
    scratch = bench_pages(scratch_bytes);
    rows = bench_pages(limit * sizeof *rows + 1);
    code = cfi_compile(&input, table, rows, limit, scratch, &compiled);
    result->ns = bench_now_ns() - begin;
    result->rows = compiled.row_count;
    result->rules = table->count;
    result->fdes = compiled.fde_count;
    result->rows_bytes = compiled.row_count * sizeof *rows;
    result->scratch_bytes = scratch_bytes;
    munmap(scratch, scratch_bytes);
    munmap(rows, limit * sizeof *rows + 1);
    munmap(table, sizeof *table);
    return code;
}

/* usage: cfi_time SECTION FILE_ADDR TEXT_START TEXT_END; prints the fields of bench_result. */
int main(int count, char **arguments)
{
    FILE *file = count == 5 ? fopen(arguments[1], "rb") : NULL;
    struct bench_result result = {0, 0, 0, 0, 0, 0};
    unsigned char *section;
    unsigned long long bytes;
    if (!file || fseek(file, 0, SEEK_END))
        return 2;
    bytes = (unsigned long long)ftell(file);
    rewind(file);
    section = malloc(bytes);
    if (!section || fread(section, 1, bytes, file) != bytes)
        return 2;
    if (bench_compile(section, bytes, strtoull(arguments[2], NULL, 0), strtoull(arguments[3], NULL, 0),
                      strtoull(arguments[4], NULL, 0), &result) != 0)
        return 1;
    printf("%llu %llu %llu %llu %llu %llu\n", result.ns, result.rows, result.rules, result.fdes, result.rows_bytes,
           result.scratch_bytes);
    return 0;
}
