/*
 * Functions that agent.js calls where Frida has brought us in: make our thread, have it end, and tell the target's threads
 * from Frida's. Context: JS thread.
 */
#define OWN_STACK_BYTES (256U << 10)
#define ALL_SIGNALS (~0ULL)
#define LEAVE_LOOK_NS 1000000ULL

/* Make our thread. Returns its number as the target knows it, or -errno. */
int agent_enter(void)
{
    u64 all = ALL_SIGNALS, before = 0;
    u8 *stack = pages_new(OWN_STACK_BYTES);
    i64 tid;
    if (!stack)
        return -ERR_ENOMEM;
    BOOT->stack = (u64)stack;
    BOOT->stack_bytes = OWN_STACK_BYTES;
    sys_call6(NR_RT_SIGPROCMASK, 2 /* SIG_SETMASK */, (u64)&all, (u64)&before, 8, 0, 0);
    tid = thread_clone(stack + OWN_STACK_BYTES, &BOOT->tid, agent_main);
    sys_call6(NR_RT_SIGPROCMASK, 2, (u64)&before, 0, 8, 0, 0);
    if (tid < 0) {
        pages_free(stack, OWN_STACK_BYTES);
        BOOT->stack = 0;
        store_release_u32(&BOOT->tid, 0);         /* agent_leave waits for nobody */
    }
    return (int)tid;
}

/* Return whether our thread has ended, by itself or because a seccomp filter ended it alone (SECCOMP_RET_KILL_THREAD). */
int agent_has_left(void)
{
    return load_acquire_u32(&BOOT->tid) == 0;
}

/* Have our thread end, and wait for that. May be called again. */
void agent_leave(void)
{
    struct agent *a;
    store_release_u32(&BOOT->must_leave, 1);
    while (!agent_has_left())
        sleep_until_ns(now_ns_sigsafe() + LEAVE_LOOK_NS);
    a = agent_cell;
    if (a) {                              /* it was killed amid its work */
        a->unanswered = handlers_drain_blind(a);
        ring_close(a, STOP_SANDBOXED);
        agent_cell = (struct agent *)0;
        a->ring_fd = a->host_fd = a->host_end_fd = -1;    /* its descriptor table has ended with it */
        agent_free(a);
    }
    pages_free((void *)BOOT->stack, BOOT->stack_bytes);
    BOOT->stack = 0;
}

/* Enter the agent's state, which our thread does not free before `state_leave`; 0 if there is none. */
static struct agent *state_enter(void)
{
    store_release_u32(&BOOT->visitors, 1);
    FULL_BARRIER();
    return agent_cell;
}

static void state_leave(void)
{
    store_release_u32(&BOOT->visitors, 0);
}

/* Return a thread of which it is not known whether it is Frida's, 0 for none. */
unsigned int agent_next_unknown(void)
{
    struct agent *a = state_enter();
    u32 tid = a ? owner_next_unknown(a) : 0;
    state_leave();
    return tid;
}

void agent_set_owner(unsigned int tid, int injected)
{
    struct agent *a = state_enter();
    if (a)
        owner_set(a, tid, injected ? OWNER_INJECTED : OWNER_TARGET);
    state_leave();
}

/* Shut down the connection to the host through the socket with this inode number: Frida then unloads everything.
 * Finding the socket takes calls that a filter may kill for; if one was installed meanwhile, the connection stays
 * open. */
void agent_hang_up(unsigned long long inode, unsigned int filtered)
{
    if (filtered == FILTERED_MAIN || !filter_has_come_sigsafe())
        socket_shut_down(inode);
}
