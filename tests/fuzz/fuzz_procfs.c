/*
 * Fuzz target: what the agent reads in procfs. First byte even: a /proc/PID/task/TID/syscall line. Odd: lines of
 * /proc/PID/maps, which also go through the tables of code, stacks and modules.
 */
#include <unistd.h>

#include "input.h"
#include "require.h"

#define LINES_MAX 64

static struct agent agent;
static struct ring_header ring;

static void parse_wait(const char *text, u64 bytes)
{
    struct wait_record wait;
    memset(&wait, 0, sizeof wait);
    if (wait_record_parse(text, (i64)bytes, &wait))
        require(wait.sp && wait.pc, "a wait has sp and pc");
}

static void parse_maps(const char *text, u64 bytes)
{
    struct memory_map *map = memory_map_new(&agent, LINES_MAX);
    u64 from = 0, at;
    u32 lines = 0;
    agent.module_count = 0;
    agent.modules_out.used = agent.modules_out.records = 0;
    for (at = 0; at < bytes && lines < LINES_MAX; at++) {
        struct map_line line;
        if (text[at] != '\n')
            continue;
        map_line_parse(text + from, text + at, &line);
        require(line.path >= text + from && line.path_bytes <= at - from, "the path lies in the line");
        require(!line.path_bytes || line.path + line.path_bytes == text + at, "the path ends the line");
        from = at + 1;
        lines++;
        memory_map_add(&agent, map, &line, 0, line.start);
    }
    require(map->code_count <= lines && map->stack_count <= lines, "a line is one range at most");
    for (u32 i = 0; i < map->code_count; i++)
        require(map->code[i].module <= agent.module_count, "code is of a known module");
    for (u32 i = 1; i <= agent.module_count; i++)
        require(agent.modules[i].path_bytes <= sizeof agent.modules[i].path, "paths have room");
    memset(agent.modules, 0, sizeof(struct module) * (agent.module_count + 1));
    memory_map_free(&agent, map);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    if (!agent.modules) {
        agent.pid = (u32)getpid();
        agent.ring = &ring;
        agent.modules = calloc(LINES_MAX + 1, sizeof(struct module));
        if (!agent.modules || outbox_new(&agent, &agent.modules_out, 4096))
            abort();
    }
    if (!size)
        return 0;
    char *text = malloc(size);            /* of the exact size: AddressSanitizer guards its end */
    if (!text)
        abort();
    memcpy(text, data + 1, size - 1);
    text[size - 1] = 0;                   /* as syscall_file_read ends it */
    if (data[0] & 1)
        parse_maps(text, size - 1);
    else
        parse_wait(text, size - 1);
    free(text);
    return 0;
}
