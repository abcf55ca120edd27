/*
 * Prepare, begin and end. Context: our thread (entry/serve.c), or a test's.
 */

static int outboxes_new(struct agent *a)
{
    return outbox_new(a, &a->modules_out, 1U << 20) | outbox_new(a, &a->threads_out, 1U << 20) |
           outbox_new(a, &a->codes_out, 1U << 20) | outbox_new(a, &a->traces_out, 1U << 20) | outbox_new(a, &a->intervals_out, 512U << 10);
}

static void agent_free(struct agent *a)
{
    u32 i;
    for (i = 1; i <= a->module_count; i++)
        table_free(a, a->modules[i].table);
    for (i = 0; i < a->registered_count; i++)
        table_free(a, a->registered[i].table);
    pages_free(a->registered, sizeof(struct registered_object) * REGISTERED_MAX);
    managed_free(a);
    heaps_free(a);
    v8_free(a);
    for (i = 0; i < MAX_THREADS && a->slots; i++)
        pages_free(a->slots[i].frames, SLOT_PAGES_BYTES);
    while (a->retired) {
        struct memory_map *next = a->retired->next_retired;
        memory_map_free(a, a->retired);
        a->retired = next;
    }
    memory_map_free(a, a->map);
    tables_free_retired(a);
    pages_free(a->modules, sizeof(struct module) * MAX_MODULES);
    pages_free(a->slots, sizeof(struct thread_slot) * MAX_THREADS);
    pages_free((void *)a->rule_cache, RULE_CACHE_SLOTS * 8);
    pages_free((void *)a->call_cache, CALL_CACHE_SLOTS * 8);
    pages_free(a->rules, sizeof(struct rule_table));
    pages_free(a->function_scratch, sizeof(struct function_scratch));
    pages_free(a->traces, sizeof(struct trace_slot) * TRACE_SLOTS);
    pages_free(a->stack_copy, STACK_COPY_BYTES);
    pages_free(a->parked_frames, MAX_FRAMES * 8);
    pages_free(a->text, SCRATCH_BYTES);
    pages_free(a->modules_out.data, a->modules_out.capacity);
    pages_free(a->threads_out.data, a->threads_out.capacity);
    pages_free(a->codes_out.data, a->codes_out.capacity);
    pages_free(a->traces_out.data, a->traces_out.capacity);
    pages_free(a->intervals_out.data, a->intervals_out.capacity);
    pages_free(a->ring, RING_HEADER_BYTES + RING_BYTES);
    close_fd(a->ring_fd);
    close_fd(a->host_fd);
    close_fd(a->host_end_fd);
    pages_free(a, sizeof *a);
}

static int agent_allocate(struct agent *a)
{
    a->modules = agent_pages(a, sizeof(struct module) * MAX_MODULES);
    a->slots = agent_pages(a, sizeof(struct thread_slot) * MAX_THREADS);
    a->rule_cache = agent_pages(a, RULE_CACHE_SLOTS * 8);
    a->call_cache = agent_pages(a, CALL_CACHE_SLOTS * 8);
    a->rules = agent_pages(a, sizeof(struct rule_table));
    a->function_scratch = agent_pages(a, sizeof(struct function_scratch));
    a->traces = agent_pages(a, sizeof(struct trace_slot) * TRACE_SLOTS);
    a->stack_copy = agent_pages(a, STACK_COPY_BYTES);
    a->parked_frames = agent_pages(a, MAX_FRAMES * 8);
    a->text = agent_pages(a, SCRATCH_BYTES);
    if (!a->modules || !a->slots || !a->rule_cache || !a->call_cache || !a->rules || !a->function_scratch || !a->traces ||
        !a->stack_copy || !a->parked_frames || !a->text)
        return -1;
    return outboxes_new(a);
}

/* Find our own code and libc's: in libc's code, the handler may change registers as libc does. */
static void code_find(struct agent *a)
{
    const struct code_range *range = code_range_sigsafe(a->map, BOOT->libc_code);
    a->own_code = (u64)sampler_main;
    if (range) {
        a->libc_start = range->start;
        a->libc_end = range->end;
    }
}

/*
 * Prepare everything except sampling: memory, ring, maps, list of threads. `filtered` is enum filtered; `clocks` are
 * the allowed bits of enum clocks. Returns 0, or a negative errno: ECANCELED if a seccomp filter was installed since
 * the host checked.
 */
int agent_prepare(unsigned int rate_hz, unsigned int filtered, unsigned int clocks)
{
    struct agent *a = pages_new(sizeof *a);
    struct thread_signals signals;
    struct moment start;
    i64 error;
    if (!a)
        return -12;
    a->ring_fd = a->host_fd = a->host_end_fd = -1;
    a->pid = (u32)sys_call3(NR_GETPID, 0, 0, 0);
    a->sampler_tid = (u32)sys_call3(NR_GETTID, 0, 0, 0);
    a->period_ns = 1000000000ULL / rate_hz;
    a->asked_period_ns = a->period_ns;
    a->looks_16 = LOOKS_ALL_16;
    a->cpu_period_ns = a->period_ns;
    a->host_checked_ns = now_ns_sigsafe();
    a->random = now_ns_sigsafe() | 1;
    a->clock_cookie = random_next(random_next(a->random ^ read_tsc_sigsafe() << 20) | 1);
    a->cache_generation = 1;
    moment_read(&start);
    a->tsc_start = start.tsc;
    a->tsc_start_ns = start.ns;
    error = ring_new(a);
    if (!error && agent_allocate(a))
        error = -12;
    if (!error) {
        a->rules->count = 1;              /* rule 0: no unwind information */
        a->ring->counters[COUNTER_RATE_MHZ_NOW] = (u64)rate_hz * 1000;
        a->ring->counters[COUNTER_CPU_RATE_MHZ_NOW] = (u64)rate_hz * 1000;
        a->fd_limit = resource_limit(7 /* RLIMIT_NOFILE */);
        sandbox_prepare(a, filtered);
        frame_bytes_read(a);
        signal_choose(a);
        if (clocks & CLOCKS_CPU_TIMERS) {
            thread_signals_read(a, a->pid, &signals);
            cpu_timers_prepare(a, signals.queued);
        }
        a->keys_are_used = keys_are_used();
        a->host_lends_clocks = a->engine_is_timers && clocks & CLOCKS_LENT && old_action_sigsafe(a)->handler <= SIGNAL_IGNORE;
        a->ring->counters[COUNTER_ENGINE_NOW] = a->engine_is_timers ? ENGINE_CPU_TIMERS : ENGINE_ROUNDS;
        if (maps_refresh(a))
            error = is_sandboxed(a) ? -ERR_ECANCELED : -2;
    }
    if (error) {
        agent_free(a);
        return (int)error;
    }
    code_find(a);
    hostfiles_prepare(a);
    threads_list(a, now_ns_sigsafe());
    agent_cell = a;
    return 0;
}

/* Have our signals handled from now on. Returns 0 or an errno. */
static i32 sampling_begin(struct agent *a)
{
    u64 now_ns = now_ns_sigsafe();
    times_begin(a);
    a->ring->start_ns = now_ns;
    a->unseen_checked_ns = now_ns;
    unseen_rebase(a);
    return signal_install(a);
}

/*
 * Free everything; sampling has ended, or never begun. Returns the number of threads that never handled their last signal
 * (and never will), or -1 if there is no agent. May be called again.
 */
int agent_stop(void)
{
    struct agent *a = agent_cell;
    u32 unanswered;
    if (!a)
        return -1;
    if (!a->has_ended)
        ring_close(a, host_is_silent(a, now_ns_sigsafe()) ? STOP_HOST_SILENT : STOP_ASKED);
    unanswered = a->unanswered;
    agent_cell = (struct agent *)0;
    FULL_BARRIER();
    while (load_acquire_u32(&BOOT->visitors))     /* frida.c */
        sleep_until_ns(now_ns_sigsafe() + 100000);
    agent_free(a);
    return (int)unanswered;
}
