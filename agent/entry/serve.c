/*
 * Our thread in the target, from its first instruction in C to its last: it serves the host's requests, and is the
 * sampler in between. It is born with all signals blocked, and has no libc and no thread pointer (arch/x86_64/stub.S,
 * thread_clone.c).
 */
#define PR_SET_NAME_OPTION 15
#define SERVE_LOOK_NS 100000000ULL
#define SERVE_LOOKS_MAX 50                     /* without a request, while there is no ring with a sign of life */
/* Before anything is sampled. On a busy machine the host needs seconds for its first sign of life; one that has died is
 * noticed by its process that attaches. */
#define SERVE_SILENCE_NS (10 * HOST_SILENCE_NS)
#define STACK_GUARD_BYTES 4096
#define FAILED_SHOWN_NS 50000000ULL

/* Map the pages of the gate for the host to write its code into: never writable and executable, not even in turn, since
 * the target may have forbidden that (PR_SET_MDWE). Returns 0 where there is no memory. */
static u64 gate_pages_new(void)
{
    /* PROT_READ|PROT_EXEC, MAP_PRIVATE|MAP_ANONYMOUS */
    i64 gate = sys_call6(NR_MMAP, 0, GATE_BYTES, 5, 0x22, (u64)-1, 0);
    if (gate < 0 && gate > -4096)
        return 0;
    if (sys_call3(NR_MPROTECT, (u64)gate + GATE_CODE_BYTES, GATE_BYTES - GATE_CODE_BYTES, 3) < 0) {
        pages_free((void *)gate, GATE_BYTES);
        return 0;
    }
    return (u64)gate;
}

static i32 serve_prepare(struct control *control)
{
    u32 rate_hz = control_rate_hz(control);
    i32 error = agent_cell || !rate_hz ? -ERR_EINVAL
                                       : agent_prepare(rate_hz, (u32)control->arguments[1], (u32)control->arguments[2]);
    struct agent *a = agent_cell;
    control->ring_fd = control->host_end_fd = -1;
    if (error)
        return error;
    a->control = control;
    a->tid_offset = control->tid_offset;
    a->stack_notes_offset = control->stack_notes_offset;
    a->robust_list_offset = control->robust_list_offset;
    control->ring_fd = a->ring_fd;
    control->host_end_fd = a->host_end_fd;
    return 0;
}

/* Sample until the end. The request is answered when nothing can fail any more. */
static void serve_sampling(struct control *control)
{
    struct agent *a = agent_cell;
    u32 i, count = load_acquire_u32(&control->count);
    i32 error;
    if (!a || a->has_ended) {
        control_answer(control, -ERR_EINVAL);
        return;
    }
    for (i = 0; i < count && i < CONTROL_PROBES; i++) {
        const struct control_probe *probe = &control->u.probes[i];
        room_note(a, (u32)probe->tid, probe->sp, probe->alternate_start, probe->alternate_bytes);
    }
    close_fd(a->ring_fd);                 /* the host has both by now */
    close_fd(a->host_end_fd);
    a->ring_fd = a->host_end_fd = -1;
    error = sampling_begin(a);
    control_answer(control, -error);
    if (!error)
        sampler_main(a);
}

/* Return whether nobody is there to serve: the host has fallen silent, or agent.js says so. `looks` without a call of the
 * host's count where there is no ring yet in which it gives a sign of life. */
static u32 serve_is_over(u32 looks)
{
    return BOOT->must_leave ||
           (agent_cell ? host_silence_ns(agent_cell, now_ns_sigsafe()) >= SERVE_SILENCE_NS : looks > SERVE_LOOKS_MAX);
}

/* Carry out a request while we do not sample. Returns 0 if it is none of the host's calls, as where the target writes into
 * the memory at random. */
static u32 serve_request(struct control *control, u32 call)
{
    switch (call) {
    case CONTROL_PREPARE:
        control_answer(control, serve_prepare(control));
        return 1;
    case CONTROL_START:
        serve_sampling(control);
        return 1;
    case CONTROL_CONNECT:
        control_answer(control, agent_cell ? hostfiles_connect(agent_cell, control->u.words, control->arguments[0])
                                           : -ERR_EINVAL);
        return 1;
    case CONTROL_RECIPES:
        control_answer(control, agent_cell ? control_set_recipes(agent_cell, control) : 0);
        return 1;
    case CONTROL_STOP:
        control_answer(control, agent_stop());
        return 1;
    default:
        control_answer(control, -ERR_EINVAL);
        return 0;
    }
}

static void serve(struct control *control)
{
    struct timespec64 pause = {0, (i64)SERVE_LOOK_NS};
    u32 looks = 0, call;
    while (!serve_is_over(looks++)) {
        if (!control_is_asked(control)) {
            sys_call6(NR_FUTEX, (u64)&control->request, FUTEX_WAIT_OPERATION, control->answered, (u64)&pause, 0, 0);
            continue;
        }
        call = load_acquire_u32(&control->call);
        if (call == CONTROL_LEAVE)
            return;
        if (serve_request(control, call))
            looks = 0;
        else
            sleep_until_ns(now_ns_sigsafe() + SERVE_LOOK_NS);
        if (agent_cell && agent_cell->stop_reason == STOP_HOST_SILENT)
            return;
    }
}

/* Say why we end. The host looks every 0.1 ms, and soon there is no `boot` any more. */
static void boot_fail(i64 error)
{
    BOOT->error = (i32)-error;
    store_release_u32(&BOOT->state, BOOT_FAILED);
    sleep_until_ns(now_ns_sigsafe() + FAILED_SHOWN_NS);
}

/* On return, nothing of ours is mapped but the code, `boot` and this stack. */
void agent_main(void)
{
    struct control *control;
    i64 error = descriptors_own();
    if (error < 0) {
        boot_fail(error);
        return;
    }
    sys_call6(NR_PRCTL, PR_SET_NAME_OPTION, (u64) "flametap", 0, 0, 0, 0);
    capabilities_drop();
    pages_keep_from_children((void *)BOOT->stack, BOOT->stack_bytes);
    sys_call3(NR_MPROTECT, BOOT->stack, STACK_GUARD_BYTES, 0 /* PROT_NONE */);
    BOOT->gate = gate_pages_new();
    BOOT->tid = (u32)sys_call3(NR_GETTID, 0, 0, 0);
    control = control_new(&error);
    if (!control || !BOOT->gate)
        boot_fail(control ? -ERR_ENOMEM : error);
    else {
        store_release_u32(&BOOT->state, BOOT_READY);
        serve(control);
        agent_stop();
    }
    pages_free((void *)BOOT->gate, GATE_BYTES);   /* unless it is in use: gate_new */
    pages_free(control, CONTROL_BYTES);
    if (BOOT->state != BOOT_FAILED)
        store_release_u32(&BOOT->state, BOOT_LEFT);
}
