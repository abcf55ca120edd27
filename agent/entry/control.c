/*
 * Requests of the host, and our answers: `struct control` in a memfd. Our thread only. futex(2), memfd_create(2)
 */
#define FUTEX_WAIT_OPERATION 0            /* not private: the host waits in its own mapping */
#define FUTEX_WAKE_OPERATION 1
#define FUTEX_WAIT_UNTIL 9                /* FUTEX_WAIT_BITSET: until a time of CLOCK_MONOTONIC */
#define FUTEX_ANY 0xffffffffU
#define RATE_MOST_HZ 10000                /* RATE_MAX_HZ in profiler/capture/limits.py */

/* Create and map the memory, and note its descriptor in `boot`. Returns 0, or -errno in `*error`. */
static struct control *control_new(i64 *error)
{
    i64 result, fd = sealed_file("flametap-control", CONTROL_BYTES);
    *error = fd;
    if (fd < 0)
        return (struct control *)0;
    *error = result = sys_call6(NR_MMAP, 0, CONTROL_BYTES, 3, 1 /* MAP_SHARED */, (u64)fd, 0);
    if (result < 0 && result > -4096)
        return (struct control *)0;
    pages_keep_from_children((void *)result, CONTROL_BYTES);
    BOOT->control_fd = (i32)fd;
    return (struct control *)result;
}

static u32 control_is_asked(const struct control *control)
{
    return load_acquire_u32(&control->request) != control->answered;
}

static void control_answer(struct control *control, i32 result)
{
    control->result = result;
    store_release_u32(&control->answered, load_acquire_u32(&control->request));
    sys_call6(NR_FUTEX, (u64)&control->answered, FUTEX_WAKE_OPERATION, 1, 0, 0, 0);
}

/* Sleep until a time, or until there is a request. */
static void control_sleep_until_ns(struct agent *a, u64 until_ns)
{
    struct timespec64 until = {(i64)(until_ns / 1000000000ULL), (i64)(until_ns % 1000000000ULL)};
    if (!a->control)
        sleep_until_ns(until_ns);
    else if (!control_is_asked(a->control))
        sys_call6(NR_FUTEX, (u64)&a->control->request, FUTEX_WAIT_UNTIL, a->control->answered, (u64)&until, 0, FUTEX_ANY);
}

/* Return the rate that is asked for, in bounds; 0 for none. */
static u32 control_rate_hz(const struct control *control)
{
    u64 rate_hz = load_acquire_u64((const volatile u64 *)&control->arguments[0]);
    return rate_hz < RATE_MOST_HZ ? (u32)rate_hz : RATE_MOST_HZ;
}

static i32 control_set_recipes(struct agent *a, const struct control *control)
{
    u32 count = load_acquire_u32(&control->count);
    return count * (u64)RECIPE_WORDS > CONTROL_WORDS ? -ERR_EINVAL : (i32)recipes_set(a, control->u.words, count);
}

/* Carry out a request that comes while we sample. A stop is answered when sampling has ended (serve.c). */
static void control_look(struct agent *a)
{
    struct control *control = a->control;
    u32 rate_hz;
    if (BOOT->must_leave)
        a->command = COMMAND_STOP;
    if (!control || !control_is_asked(control))
        return;
    switch (load_acquire_u32(&control->call)) {
    case CONTROL_RECIPES:
        control_answer(control, control_set_recipes(a, control));
        return;
    case CONTROL_PAUSE:
        if (a->command != COMMAND_STOP)
            a->command = control->arguments[0] ? COMMAND_PAUSE : COMMAND_RUN;
        control_answer(control, 0);
        return;
    case CONTROL_RATE:
        rate_hz = control_rate_hz(control);
        if (rate_hz)
            a->asked_rate_hz = rate_hz;
        control_answer(control, 0);
        return;
    case CONTROL_STOP:
    case CONTROL_LEAVE:
        a->command = COMMAND_STOP;
        return;
    default:
        control_answer(control, -ERR_EINVAL);
    }
}
