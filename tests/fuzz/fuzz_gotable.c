/*
 * Fuzz target: Go's table of functions. Blocks have their exact sizes, so that AddressSanitizer sees a byte read outside.
 *
 * Input: the table; its code lies from TEXT_START on.
 */
#include "input.h"
#include "require.h"

#define TEXT_START 0x401000ULL
#define TEXT_BYTES_MAX 0x10000ULL

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    static struct agent agent;
    static struct module module;
    struct go_table go;
    u8 *copy = malloc(size);
    if (!agent.rules)
        agent.rules = calloc(1, sizeof *agent.rules);
    if ((!copy && size) || !agent.rules)
        abort();
    if (size)
        memcpy(copy, data, size);
    module.text_start = TEXT_START;
    module.text_end = TEXT_START + TEXT_BYTES_MAX;
    if (!agent.rules->count)
        agent.rules->count = 1;
    u32 is_open = go_table_open(&go, copy, size, &module, module.text_start);
    struct cfi_table *table = is_open ? go_compile(&agent, &module, &go) : NULL;
    for (u32 i = 0; table && i < table->row_count; i++) {
        require(table->rows[i].rule < agent.rules->count, "a row's rule exists");
        require(table->rows[i].pc_offset <= TEXT_BYTES_MAX, "rows lie in the text");
        require(!i || table->rows[i - 1].pc_offset < table->rows[i].pc_offset, "rows are sorted, no two alike");
    }
    table_free(&agent, table);
    free(copy);
    if (agent.rules->count > 2048) {
        memset(agent.rules->rules, 0, sizeof agent.rules->rules[0] * agent.rules->count);
        memset(agent.rules->hash, 0, sizeof agent.rules->hash);
        agent.rules->count = 0;
    }
    return 0;
}
