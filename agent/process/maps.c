/*
 * Read /proc/self/maps into a memory_map that handlers can search, and publish it. Sampler thread only.
 */

#define RETIRED_MIN_NS 1000000ULL
/* glibc's malloc arenas begin at such an address, often right above the unused part of another one. HEAP_MAX_SIZE,
 * malloc/arena.c */
#define ARENA_ALIGNMENT (64ULL << 20)

static struct memory_map *memory_map_new(struct agent *a, u32 line_limit)
{
    u64 bytes = sizeof(struct memory_map) +
                (u64)line_limit * (sizeof(struct code_range) + sizeof(struct memory_range));
    struct memory_map *map = agent_pages(a, bytes);
    if (!map)
        return map;
    map->bytes = bytes;
    map->code = (struct code_range *)(map + 1);
    map->stacks = (struct memory_range *)(map->code + line_limit);
    return map;
}

static void memory_map_free(struct agent *a, struct memory_map *map)
{
    if (map) {
        a->held_bytes -= map->bytes;
        pages_free(map, map->bytes);
    }
}

#define JIT_PAGE_BYTES (256ULL << 10)     /* V8's; each begins with data, src/heap/memory-chunk-layout.h */
#define JIT_PAGE_DATA_BYTES (16ULL << 10)

/* Return whether a line may be a part of one of V8's pages: what they begin with, or code that is writable for a moment. */
static u32 is_in_jit_page(const struct map_line *line)
{
    return line->readable && line->writable && line->start % JIT_PAGE_BYTES < JIT_PAGE_DATA_BYTES &&
           line->end - line->start <= JIT_PAGE_BYTES && line->start % ARENA_ALIGNMENT != 0;
}

/*
 * Note memory that lies right behind generated code and has no rights: its owner has reserved it for more. A page of it may
 * hold code a moment after the maps were read, and a busy V8 maps some in each second. Nothing here is read in place.
 */
static void code_to_come_add(struct memory_map *map, const struct map_line *line)
{
    struct code_range *last = map->code_count ? &map->code[map->code_count - 1] : (struct code_range *)0;
    u32 has_rights = line->readable || line->writable || line->executable;
    u32 is_touching = last && line->start == map->area_end;
    map->area_end = 0;
    if (line->inode || line->path_bytes)
        return;
    if (line->executable && line->readable) {
        map->area_end = line->end;
        return;
    }
    if (!is_touching || (has_rights && !is_in_jit_page(line)))
        return;
    map->area_end = line->end;
    if (last->is_to_come && last->end == line->start) {
        last->end = line->end;
        return;
    }
    last[1].start = line->start;
    last[1].end = line->end;
    last[1].is_to_come = 1;
    map->code_count++;
}

/* Add a line. `barrier_end` is the end of the last mapping without access rights. */
static void memory_map_add(struct agent *a, struct memory_map *map, const struct map_line *line, u64 base, u64 barrier_end)
{
    if (line->executable && line->readable) {
        struct code_range *range = &map->code[map->code_count++];
        u32 is_file = line->path_bytes && (line->inode || text_is(line->path, line->path_bytes, "[vdso]"));
        range->start = line->start;
        range->end = line->end;
        range->module = is_file ? module_for_line(a, line, base) : 0;
    }
    code_to_come_add(map, line);
    if (line->readable && line->writable) {
        /* Neighbours stay separate: one may be unmapped while a stack in the other is read. */
        if (text_is(line->path, line->path_bytes, "[stack]")) {
            map->main_stack.start = line->start;
            map->main_stack.end = line->end;
        }
        map->stacks[map->stack_count].start = line->start;
        map->stacks[map->stack_count].end = line->end;
        map->stacks[map->stack_count].is_guarded = line->start == barrier_end && line->start % ARENA_ALIGNMENT != 0;
        map->stacks[map->stack_count].is_heap =
            line->start % ARENA_ALIGNMENT == 0 || text_is(line->path, line->path_bytes, "[heap]");
        map->stack_count++;
    }
}

/* Read all lines into `map`. Returns 0, or -1 if there are more than `line_limit` lines or procfs cannot be read. */
static i32 memory_map_read(struct agent *a, struct memory_map *map, u32 line_limit)
{
    char *text = (char *)a->text;
    struct mapped_file file = {0, 0, 0, 0, 0, text + 2 * TEXT_BYTES};
    u64 barrier_end = 0;
    u32 held = 0, lines = 0;
    i32 fd = open_readonly(a, "/proc/self/maps");
    if (fd < 0)
        return -1;
    for (;;) {
        i64 got = sys_call3(NR_READ, (u64)fd, (u64)(text + held), TEXT_BYTES - held);
        u32 from = 0, at, end;
        if (got <= 0)
            break;
        end = held + (u32)got;
        for (at = held; at < end; at++) {
            struct map_line line;
            if (text[at] != '\n')
                continue;
            map_line_parse(text + from, text + at, &line);
            from = at + 1;
            if (++lines > line_limit) {
                close_fd(fd);
                return -1;
            }
            if (line.offset == 0 && line.path_bytes)
                mapped_file_keep(&file, &line);
            else
                moved_code_adopt(a, &file, &line);
            mapped_file_extend(&file, &line);
            memory_map_add(a, map, &line, is_line_of(&file, &line) ? file.headers : 0, barrier_end);
            if (!line.readable && !line.writable && !line.executable)
                barrier_end = line.end;
        }
        held = end - from;
        memmove(text, text + from, held);
        if (held == TEXT_BYTES)           /* a line longer than the buffer: no path is that long */
            held = 0;
    }
    close_fd(fd);
    return lines ? 0 : -1;
}

/* Return the index of the first range of a file from `at` on. */
static u32 file_range_from(const struct memory_map *map, u32 at)
{
    while (at < map->code_count && !map->code[at].module)
        at++;
    return at;
}

/* Return whether any code of files was mapped, unmapped or moved. All that is known by address is known of such code; what a
 * compiler maps changes all the time. */
static u32 memory_map_differs(const struct memory_map *old, const struct memory_map *new)
{
    u32 i = 0, j = 0;
    if (!old)
        return 1;
    for (;; i++, j++) {
        i = file_range_from(old, i);
        j = file_range_from(new, j);
        if (i == old->code_count || j == new->code_count)
            return i != old->code_count || j != new->code_count;
        if (old->code[i].start != new->code[j].start || old->code[i].end != new->code[j].end ||
            old->code[i].module != new->code[j].module)
            return 1;
    }
}

/* Return when the oldest signal was sent whose handler still runs; the maximum if none does. A timer's handler may have
 * begun at any time. */
static u64 oldest_handler_ns(const struct agent *a)
{
    u64 oldest_ns = ~0ULL;
    u32 i;
    for (i = 0; i < a->slot_count; i++)
        if (load_acquire_u32(&a->slots[i].is_taking))
            return 0;
        else if (load_acquire_u32(&a->slots[i].signal_state) == SIGNAL_HANDLING && a->slots[i].sent_ns < oldest_ns)
            oldest_ns = a->slots[i].sent_ns;
    return oldest_ns;
}

/*
 * Free retired maps and tables of rows. A handler uses the map that is published when it begins, so only a handler
 * whose signal was sent before can still use an older one. The delay lets its first store, SIGNAL_HANDLING, become
 * visible.
 */
static void retired_free(struct agent *a, u64 now_ns)
{
    struct memory_map **at = &a->retired;
    u64 oldest_ns;
    if (a->retired_tables != a->retired_tables_seen) {
        a->retired_tables_seen = a->retired_tables;
        a->tables_retired_ns = now_ns_sigsafe();
    }
    if (!a->retired && !a->retired_tables)
        return;
    oldest_ns = oldest_handler_ns(a);
    if (now_ns - RETIRED_MIN_NS < oldest_ns)
        oldest_ns = now_ns - RETIRED_MIN_NS;
    while (*at) {
        struct memory_map *map = *at;
        if (map->retired_ns >= oldest_ns) {
            at = &map->next_retired;
        } else {
            *at = map->next_retired;
            memory_map_free(a, map);
        }
    }
    if (a->tables_retired_ns < oldest_ns) {
        tables_free_retired(a);
        a->retired_tables_seen = (struct cfi_table *)0;
    }
}

/* Announce modules that had no room in the last batch. */
static void modules_announce_again(struct agent *a)
{
    u32 i;
    if (!a->has_unannounced)
        return;
    a->has_unannounced = 0;
    for (i = 1; i <= a->module_count; i++)
        if (a->modules[i].is_unannounced)
            module_announce(a, &a->modules[i]);
}

/* Read the maps again and publish them. Returns 0, or -1 if procfs cannot be read. */
static i32 maps_refresh(struct agent *a)
{
    u64 started = now_ns_sigsafe();
    u32 limit = a->map ? (a->map->code_count + a->map->stack_count) * 2 + 1024 : 4096, i, gone = 0;
    struct memory_map *map, *old = a->map;

    a->want_refresh = 0;
    a->map_number++;
    for (;;) {
        map = memory_map_new(a, limit);
        if (!map)
            return -1;
        if (memory_map_read(a, map, limit) == 0)
            break;
        memory_map_free(a, map);
        if (limit > (1U << 20))
            return -1;
        limit *= 4;
    }
    for (i = 1; i <= a->module_count; i++) {
        struct module *m = &a->modules[i];
        if (!m->gone && m->seen_in != a->map_number) {
            module_forget(a, m);
            gone = 1;
            module_announce(a, m);
        }
    }
    if (!memory_map_differs(old, map) && !gone) {
        a->map_number--;                  /* the ids of known stacks stay valid */
    } else {
        if (((a->cache_generation + 1) & 0xff) == 0) {     /* entries keep as much of it */
            words_zero(a->rule_cache, RULE_CACHE_SLOTS);
            words_zero(a->call_cache, CALL_CACHE_SLOTS);
        }
        a->cache_generation++;
    }
    for (i = 1; i <= a->module_count; i++)
        if (!a->modules[i].gone)
            a->modules[i].seen_in = a->map_number;
    store_release_u64((volatile u64 *)&a->map, (u64)map);
    if (old) {
        old->next_retired = a->retired;
        old->retired_ns = now_ns_sigsafe();
        a->retired = old;
    }
    a->map_read_ns = now_ns_sigsafe();
    a->map_cost_ns = a->map_read_ns - started;
    count_up(a, COUNTER_MODULE_REFRESHES, 1);
    return 0;
}

/* Return the least time between two readings: they take a quarter of the budget at most, 1 % of the time without a
 * budget. */
static u64 map_pause_ns(const struct agent *a)
{
    u64 budget_ppm = load_acquire_u64((const volatile u64 *)&a->ring->budget_ppm);
    u64 share_ppm = budget_ppm && budget_ppm < 40000 ? budget_ppm / 4 : 10000;
    return a->map_cost_ns * (1000000 / (share_ppm ? share_ppm : 1));
}

/* Keep the maps fresh: read soon if a stack contained unknown memory, else at intervals, rarely if reading is slow. */
static void maps_keep(struct agent *a, u64 now_ns)
{
    u64 age = now_ns - a->map_read_ns;
    u64 floor = a->want_refresh ? MAP_REREAD_MIN_NS : MAP_REREAD_NS;
    if (age > floor && age > map_pause_ns(a))
        maps_refresh(a);
    modules_announce_again(a);
    retired_free(a, now_ns);
}
