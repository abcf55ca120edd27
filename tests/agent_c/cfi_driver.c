/*
 * Runs cfi_compile on a section from a file; built behind the agent's sources, with sanitizers. Big blocks are allocated
 * at their exact sizes so that AddressSanitizer sees the first byte read or written outside.
 *
 *   cfi_driver rows SECTION FILE_ADDR TEXT_START TEXT_END
 *       writes to stdout, as native u32: result code, the fields of cfi_result, row limit, number of rules; then the
 *       rules, then the rows
 *       (FILE_ADDR is "debug_frame" for a .debug_frame, here and below)
 *   cfi_driver mutate SECTION FILE_ADDR TEXT_START TEXT_END SEED ROUNDS
 *       damages the section at random, compiles it and checks what the interface promises; aborts on a broken promise
 *   cfi_driver time SECTION FILE_ADDR TEXT_START TEXT_END
 *       milliseconds of the fastest of five compilations
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cfi_promises.h"

static void *allocate(unsigned long long bytes)
{
    void *block = malloc(bytes);
    if (!block && bytes) {
        perror("malloc");
        exit(2);
    }
    return block;
}

static struct run compile(const struct cfi_input *input, struct rule_table *table)
{
    struct run run;
    memset(&run.result, 0xa5, sizeof run.result);
    run.row_limit = cfi_row_limit(input);
    run.rows = allocate(run.row_limit * sizeof *run.rows);
    void *scratch = allocate(cfi_scratch_bytes(input));
    run.code = cfi_compile(input, table, run.rows, run.row_limit, scratch, &run.result);
    free(scratch);
    return run;
}

static unsigned long long random_state;

static unsigned int random_below(unsigned int bound)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (unsigned int)((random_state >> 11) % bound);
}

static void damage(unsigned char *bytes, unsigned int count)
{
    static const unsigned int words[] = {0, 1, 4, 0x7f, 0x80, 0xff, 0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff};
    unsigned int at = random_below(count), length = 1 + random_below(24), from = random_below(count);
    switch (random_below(5)) {
    case 0:
        bytes[at] ^= (unsigned char)(1U << random_below(8));
        break;
    case 1:
        bytes[at] = (unsigned char)random_below(256);
        break;
    case 2:
        if (at + 4 <= count)
            memcpy(bytes + at, &words[random_below(10)], 4);
        break;
    case 3:                               /* a run of continuation bytes, advances, remember_state or pushes */
        if (at + length <= count)
            memset(bytes + at, "\xff\x80\x41\x0a\x0b\x0f\x16\x01"[random_below(8)], length);
        break;
    default:                              /* bytes from elsewhere */
        if (at + length <= count && from + length <= count)
            memmove(bytes + at, bytes + from, length);
    }
}

static void mutate(const struct cfi_input *input, struct rule_table *table, unsigned int rounds)
{
    unsigned int usable = 0, bad = 0;
    for (unsigned int round = 0; round < rounds; round++) {
        struct cfi_input mutant = *input;
        unsigned int bytes = (unsigned int)input->section_bytes;
        if (random_below(3) == 0)
            bytes = 1 + random_below(bytes);
        unsigned char *section = allocate(bytes);
        memcpy(section, input->section, bytes);
        for (unsigned int i = random_below(60); i > 0; i--)
            damage(section, bytes);
        mutant.section = section;
        mutant.section_bytes = bytes;
        if (random_below(8) == 0)
            mutant.text_end = mutant.text_start + 1 + random_below(0xffffffff);
        if (random_below(16) == 0)
            mutant.text_start = 0;
        struct run run = compile(&mutant, table);
        check_promises(&mutant, table, &run);
        usable += run.code == 0;
        bad += run.result.bad_fde_count;
        if (run.result.rules_full)
            memset(table, 0, sizeof *table);
        free(run.rows);
        free(section);
    }
    printf("%u rounds, %u usable, %u bad FDEs\n", rounds, usable, bad);
}

static double now_ms(void)
{
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static void write_rows(const struct cfi_input *input, struct rule_table *table)
{
    struct run run = compile(input, table);
    unsigned int header[8] = {(unsigned int)run.code,
                              run.result.row_count,
                              run.result.fde_count,
                              run.result.bad_fde_count,
                              run.result.unsupported_row_count,
                              run.result.rules_full,
                              run.row_limit,
                              table->count};
    check_promises(input, table, &run);
    fwrite(header, sizeof header, 1, stdout);
    fwrite(table->rules, sizeof table->rules[0], table->count, stdout);
    fwrite(run.rows, sizeof run.rows[0], run.result.row_count, stdout);
    free(run.rows);
}

int main(int argument_count, char **arguments)
{
    FILE *file = argument_count >= 6 ? fopen(arguments[2], "rb") : NULL;
    if (!file || fseek(file, 0, SEEK_END)) {
        fprintf(stderr, "see the first lines of cfi_driver.c\n");
        return 2;
    }
    struct cfi_input input;
    input.section_bytes = (unsigned long long)ftell(file);
    rewind(file);
    unsigned char *section = allocate(input.section_bytes);
    if (fread(section, 1, input.section_bytes, file) != input.section_bytes)
        return 2;
    fclose(file);
    input.section = section;
    input.is_debug_frame = strcmp(arguments[3], "debug_frame") == 0;
    input.section_file_addr = strtoull(arguments[3], NULL, 0);
    input.text_start = strtoull(arguments[4], NULL, 0);
    input.text_end = strtoull(arguments[5], NULL, 0);
    struct rule_table *table = calloc(1, sizeof *table);
    if (!table)
        return 2;
    if (strcmp(arguments[1], "rows") == 0)
        write_rows(&input, table);
    else if (strcmp(arguments[1], "mutate") == 0 && argument_count == 8) {
        random_state = strtoull(arguments[6], NULL, 0) * 0x9e3779b97f4a7c15ULL + 1;
        mutate(&input, table, (unsigned int)strtoul(arguments[7], NULL, 0));
    } else if (strcmp(arguments[1], "time") == 0) {
        double best = 1e9;
        for (int i = 0; i < 5; i++) {
            double begin = now_ms();
            struct run run = compile(&input, table);
            double spent = now_ms() - begin;
            best = spent < best ? spent : best;
            free(run.rows);
        }
        printf("%.2f\n", best);
    } else
        return 2;
    free(table);
    free(section);
    return 0;
}
