/*
 * Compiles the function table of a Go program; built behind the agent's sources, with sanitizers.
 *
 *   gotable_driver TABLE TEXT_START TEXT_END TEXT    to stdout, a line a row: address relative to the text, kind of the
 *                                                    CFA, its offset, 1 for a root; at last the address where threads are
 *                                                    preempted; ends with 1 if there is no table;
 *                                                    TEXT is where functions are counted from if the table does not say
 *   gotable_driver TABLE TEXT_START TEXT_END TEXT ROUNDS  damages the table at random: never a read outside, rows stay sorted
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct agent agent;
static struct module module;
static u64 text;

static struct cfi_table *compile(const u8 *data, u64 bytes)
{
    struct go_table table;
    return go_table_open(&table, data, bytes, &module, text) ? go_compile(&agent, &module, &table) : NULL;
}

int main(int argument_count, char **arguments)
{
    FILE *file = argument_count >= 5 ? fopen(arguments[1], "rb") : NULL;
    if (!file || fseek(file, 0, SEEK_END))
        return 2;
    size_t bytes = (size_t)ftell(file);
    rewind(file);
    u8 *data = malloc(bytes), *damaged = malloc(bytes);
    agent.rules = calloc(1, sizeof *agent.rules);
    if (!data || !damaged || !agent.rules || fread(data, 1, bytes, file) != bytes)
        return 2;
    fclose(file);
    agent.rules->count = 1;
    module.text_start = strtoull(arguments[2], NULL, 0);
    module.text_end = strtoull(arguments[3], NULL, 0);
    text = strtoull(arguments[4], NULL, 0);
    struct cfi_table *table = compile(data, bytes);
    if (!table)
        return 1;
    for (u32 i = 0; argument_count == 5 && i < table->row_count; i++) {
        const struct unwind_rule *rule = &agent.rules->rules[table->rows[i].rule];
        printf("%u %u %d %u\n", table->rows[i].pc_offset, rule->cfa_kind, rule->cfa_off, rule->ra_kind == RA_UNDEFINED);
    }
    if (argument_count == 5)
        printf("%llu\n", agent.injected_entry);
    table_free(&agent, table);
    u64 random = 0x9e3779b97f4a7c15ULL;
    for (long round = argument_count == 6 ? strtol(arguments[5], NULL, 0) : 0; round; round--) {
        memcpy(damaged, data, bytes);
        for (int j = 0; j < 40; j++) {
            random = random * 6364136223846793005ULL + 1442695040888963407ULL;
            u64 at = j < 2 ? 8 + (random >> 33) % 64 : (random >> 33) % bytes;
            damaged[at] ^= (u8)(1U << (random >> 20 & 7));
        }
        table = compile(damaged, bytes);
        for (u32 i = 1; table && i < table->row_count; i++)
            if (table->rows[i].pc_offset <= table->rows[i - 1].pc_offset)
                abort();
        if (agent.rules->count > MAX_RULES / 2) {
            memset(agent.rules, 0, sizeof *agent.rules);
            agent.rules->count = 1;
        }
        table_free(&agent, table);
    }
    free(data);
    free(damaged);
    free(agent.rules);
    return 0;
}
