/*
 * Rows that are compiled a function at a time, beside those of the whole module: of this program and of the libraries named
 * as arguments. Built behind the agent's sources. Prints for each module: its file, functions, addresses compared, and how
 * many have different rules. Then damages the tables of the last library again and again, and checks what is promised of
 * rows: prints how many functions were compiled, and how many could not be by themselves.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "require.h"

#define THREADS 4
#define ROUNDS 300
#define PART_ROWS 2000

static u32 rule_at(struct agent *a, struct module *m, u64 pc)
{
    struct rows_view view;
    enum rows_found found = rows_around_sigsafe(a, m, pc, &view);
    while (found == ROWS_NOT_READY && !m->wanted)         /* another thread compiles, and has lost its CPU */
        found = rows_around_sigsafe(a, m, pc, &view);
    return found == ROWS_HERE ? view.rows[view.at].rule : 0;
}

static u32 rule_of_whole(const struct cfi_table *whole, u32 offset)
{
    u32 row = last_before_sigsafe(whole->rows, whole->row_count, offset);
    return offset < whole->rows[0].pc_offset ? 0 : whole->rows[row].rule;
}

struct comparison {
    struct agent *a;
    struct module *m;
    const struct cfi_table *whole;
    u32 from, to;                         /* rows */
    u32 addresses, differences;
};

/* Compare all addresses where a rule begins, and those just before. */
static void *compare(void *argument)
{
    struct comparison *c = argument;
    u64 base = c->m->load_bias + c->m->text_start;
    for (u32 i = c->from; i < c->to; i++)
        for (u32 before = 0; before < 2; before++) {
            u32 offset = c->whole->rows[i].pc_offset - before;
            if (offset >= c->m->text_end - c->m->text_start)
                continue;
            c->addresses++;
            c->differences += rule_at(c->a, c->m, base + offset) != rule_of_whole(c->whole, offset);
        }
    return NULL;
}

/* Compare a part of a module; several threads meet the same functions at once. Returns the number of functions. */
static u32 compare_part(struct comparison *all)
{
    struct comparison compared[THREADS];
    pthread_t threads[THREADS];
    struct module *m = all->m;
    u32 functions = 0;
    m->table = table_by_functions(all->a, m);
    if (!m->table)
        return 0;
    m->state = MODULE_READY;
    for (u32 i = 0; i < THREADS; i++) {
        compared[i] = *all;
        compared[i].addresses = compared[i].differences = 0;
        pthread_create(&threads[i], NULL, compare, &compared[i]);
    }
    for (u32 i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (u32 i = 0; i < THREADS; i++) {
        all->addresses += compared[i].addresses;
        all->differences += compared[i].differences;
    }
    require(!m->wanted, "each function can be compiled by itself");
    functions = m->table->function_count;
    table_free(all->a, m->table);
    m->table = NULL;
    return functions;
}

/* There is no room for the rows of all functions at once: no program has stacks of all. */
static void compare_module(struct agent *a, struct module *m)
{
    struct cfi_table *whole = table_from_memory(a, m);
    struct comparison all = {a, m, whole, 0, 0, 0, 0};
    u32 functions = 0;
    for (; whole && all.to < whole->row_count; all.from = all.to) {
        all.to = all.from + PART_ROWS < whole->row_count ? all.from + PART_ROWS : whole->row_count;
        functions = compare_part(&all);
    }
    if (functions)
        printf("%.*s %u %u %u\n", (int)m->path_bytes, m->path, functions, all.addresses, all.differences);
    require(a->function_rows > 0, "rows are counted");
    table_free(a, whole);
}

static u32 random_below(u32 bound)
{
    return (u32)random() % bound;
}

/* Look at each function of a table that lies in our copy, of which bytes are damaged. */
static void look_at_damaged(struct agent *a, const struct module *m, u64 *compiled, u64 *refused)
{
    u64 from = m->eh_frame_hdr < m->eh_frame ? m->eh_frame_hdr : m->eh_frame, bytes = m->eh_frame_limit - from;
    u8 *copy = malloc(bytes);
    require(copy && read_memory(a, from + m->image_bias, copy, bytes) > 0, "there is a section to damage");
    for (u32 round = 0; round < ROUNDS; round++) {
        struct module damaged = *m;
        u8 *mutant = malloc(bytes);
        memcpy(mutant, copy, bytes);
        for (u32 i = random_below(200); i; i--)
            mutant[m->eh_frame - from + random_below((u32)(m->eh_frame_limit - m->eh_frame))] = (u8)random();
        if (round % 8 == 0)
            mutant[m->eh_frame_hdr - from + random_below(1024)] = (u8)random();
        damaged.module_id = 1 + random_below(1000);
        damaged.image_bias = (u64)mutant - from;
        damaged.wanted = 0;
        damaged.table = table_by_functions(a, &damaged);
        for (u32 i = 0; damaged.table && i < damaged.table->function_count; i++) {
            u64 pc = m->load_bias + m->text_start + damaged.table->functions[i].start;
            struct rows_view view;
            enum rows_found found = rows_around_sigsafe(a, &damaged, pc, &view);
            *refused += found == ROWS_NOT_READY;
            *compiled += found == ROWS_HERE;
            for (u32 row = 0; found == ROWS_HERE && row < view.count; row++) {
                require(view.rows[row].rule < a->rules->count, "a row's rule exists");
                require(!row || view.rows[row - 1].pc_offset < view.rows[row].pc_offset, "rows are sorted");
                require(!row || view.rows[row - 1].rule != view.rows[row].rule, "neighbours differ");
            }
            require(damaged.table->row_count <= damaged.table->row_limit, "there is room for the rows");
        }
        table_free(a, damaged.table);
        free(mutant);
    }
    free(copy);
}

int main(int argument_count, char **arguments)
{
    for (int i = 1; i < argument_count; i++)
        if (!dlopen(arguments[i], RTLD_LAZY)) {
            fprintf(stderr, "%s\n", dlerror());
            return 2;
        }
    BOOT->libc_code = (u64)sigaction;
    require(agent_prepare(100, FILTERED_NOBODY, 0) == 0, "agent_prepare");
    struct agent *a = agent_cell;
    u64 compiled = 0, refused = 0;
    const struct module *last = NULL;
    for (u32 i = 1; i <= a->module_count; i++) {
        compare_module(a, &a->modules[i]);
        if (strstr(a->modules[i].path, arguments[argument_count - 1]))
            last = &a->modules[i];
    }
    require(last != NULL, "the last library is a module");
    look_at_damaged(a, last, &compiled, &refused);
    printf("damaged %llu %llu\n", compiled, refused);
    return 0;
}
