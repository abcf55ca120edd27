/*
 * The whole state of the agent. CModule's globals are read-only once linked, so all state hangs off `agent_cell`, a
 * pointer that agent.js allocates.
 *
 * Who writes what:
 *   sampler thread   everything, unless said otherwise
 *   signal handler   the `answer` part of the slot it was sent for, `wanted` of a module, want_refresh, want_modules, rule_cache,
 *                    call_cache
 *   JS thread        `command`, and `owner` of a slot; everything before the sampler thread starts and after it ended
 */
#ifndef FLAMETAP_AGENT_H
#define FLAMETAP_AGENT_H

#define MAX_THREADS 8192
#define MAX_MODULES 16384
#define RING_BYTES (4U << 20)
#define RULE_CACHE_SLOTS 65536
#define CALL_CACHE_SLOTS 4096
#define TRACE_SLOTS 65536
#define STACK_COPY_BYTES (64U << 10)      /* how much of a parked thread's stack is copied at a time … */
#define SLOT_COPY_BYTES (8U << 10)        /* … and of a running one's where it is not read in place */
#define SAMPLES_BYTES (36U << 10)         /* samples of one thread on their way: room for two of the deepest stacks */
#define SLOT_PAGES_BYTES (MAX_FRAMES * 8 + SLOT_COPY_BYTES + SAMPLES_BYTES)
/* What was sampled is with the host after so long, also when the target dies; less often when there is nothing new. */
#define FLUSH_INTERVAL_NS 10000000ULL
#define QUIET_FLUSH_INTERVAL_NS 50000000ULL

#define PROBES_MAX 256                    /* stackprobe.py: 24 of each of 8 threads */

enum module_state { MODULE_RAW = 0, MODULE_READY = 1, MODULE_WITHOUT_CFI = 2 };
#define WANTED_FROM_FILE 2                /* a module's mapped rows do not cover the code: its file may say more */
enum filtered { FILTERED_NOBODY = 0, FILTERED_OTHERS = 1, FILTERED_MAIN = 2 };    /* when we came; from the host */
enum clocks { CLOCKS_CPU_TIMERS = 1, CLOCKS_LENT = 2 };    /* bits */
enum command { COMMAND_RUN = 0, COMMAND_PAUSE = 1, COMMAND_STOP = 2 };

/* Verdict of an unwind that must be tried again once a module is compiled or the maps are read anew. Never on the
 * wire. */
#define VERDICT_RETRY 255

/* What rule_for_sigsafe gives besides rule numbers (which stay below 2^24). */
#define RULE_NOT_READY 0xfffff0U          /* the module is not compiled yet */
#define RULE_JIT 0xfffff1U                /* executable memory that belongs to no file */
#define RULE_NO_CODE 0xfffff2U            /* not executable at all */

struct code_range {
    u64 start;                            /* runtime_addr */
    u64 end;
    u32 module;                           /* index into modules, 0 for none */
    u32 reserved;
};

struct memory_range {
    u64 start;
    u64 end;
    u64 is_guarded;                       /* a mapping without rights ends where this one starts: it is a stack's */
    u64 is_heap;                          /* malloc's, by its name or its alignment */
};

/* One reading of /proc/self/maps. Never changed once published; freed when no handler can still hold it. */
struct memory_map {
    u64 bytes;                            /* of this allocation */
    u32 code_count;
    u32 stack_count;
    struct code_range *code;              /* executable mappings, sorted */
    struct memory_range *stacks;          /* readable and writable mappings, sorted */
    struct memory_range main_stack;       /* the main thread's, among them */
    struct memory_map *next_retired;
    u64 retired_ns;
};

/* The rows of a module; see rules.h. In pages of their own. */
struct cfi_table {
    struct cfi_table *next_retired;
    u64 bytes;                            /* of this allocation */
    u32 row_count;
    u32 reserved;
    struct cfi_row rows[];
};

struct module {
    u32 module_id;                        /* = index; 0 is no module */
    volatile u32 state;                   /* enum module_state */
    volatile u32 wanted;                  /* set by whoever met it on a stack: 1, or WANTED_FROM_FILE */
    u32 injected;                         /* Frida's agent: never compiled */
    u64 device;
    u64 inode;
    u64 load_bias;
    u64 image_bias;                       /* of the whole file; another one where only this part was mapped elsewhere */
    u64 start;                            /* executable part, runtime_addr */
    u64 end;
    u64 text_start;                       /* the same, file_addr */
    u64 text_end;
    u64 eh_frame;                         /* file_addr, 0 if none */
    u64 eh_frame_limit;                   /* file_addr where its segment ends */
    u64 headers;                          /* runtime_addr of the ELF header, 0 if not mapped */
    u64 line_start;                       /* one of its mappings, as in /proc/self/maps */
    u64 line_end;
    struct cfi_table *volatile table;     /* 0 when there are no rows */
    volatile u32 file_searched;           /* or there is no file: no more rows to be had */
    u32 seen_in;                          /* number of the last map reading it was found in */
    u32 gone;
    u32 is_unannounced;                   /* the host has not been told of its last change */
    u32 build_id_bytes;
    u8 build_id[32];
    u32 path_bytes;
    char path[508];
};

struct outbox {                           /* one section of the batch being filled */
    u8 *data;
    u32 capacity;
    u32 used;
    u32 records;
};

struct trace_slot {
    u64 hash;
    u32 trace_id;
    u32 injected;                         /* runs through Frida's agent */
};

struct agent {
    u32 pid;
    u32 sampler_tid;
    u64 period_ns;                        /* in force */
    u64 asked_period_ns;
    u64 cpu_period_ns;                    /* mean CPU time from one sample of a thread to the next */
    u64 tick_ns;                          /* of the scheduler; 0: not known */
    u64 timers_left;                      /* so many more may be made */
    u32 engine_is_timers;
    u32 host_lends_clocks;                /* perf_clocks.c … */
    u32 clock_count;                      /* … so many threads have one */
    u32 late_rounds_16;                   /* tick_phase.c: share of them, of late, times 2^16 */
    volatile u32 command;
    volatile u32 has_ended;               /* the sampler has done all it had to do */
    u32 stop_reason;                      /* enum stop_reason */
    u32 unanswered;                       /* threads that never took their last signal */
    u8 *gate;                             /* disposition.c */
    u32 was_replaced;                     /* the target has set a handler of its own, at least once */
    u32 signal_is_ours;                   /* as of this round */
    u32 signals_open;                     /* a signal was sent in this round */
    u64 blocking_handlers;                /* signals whose handlers, the target's own, block ours: bit n - 1 is signal n */
    u64 handler_mask;                     /* what our handler blocks, in the same way … */
    u64 handler_mask_least;               /* … and blocked at any time */
    u64 dispositions_read_ns;
    i32 signo;
    u32 has_fsgsbase;                     /* the thread pointer can be read without a system call */
    u64 stack_notes_offset;               /* from the thread pointer to where glibc notes the stack; 0: not known */
    u32 on_alternate_stack;               /* our handler runs on the alternate stacks of threads that have one */
    u64 frame_bytes;                      /* of a signal's frame on the stack */
    u64 robust_list_offset;               /* from the thread pointer to glibc's robust list; 0: not known */
    u32 was_filtered;                     /* seccomp_watch.c: the target, when we came … */
    u64 filters;                          /* … by so many filters */
    u64 filters_read_ns;
    u32 is_sandboxed;
    u32 drain_is_blind;                   /* drain.c: a thread that is there could not be looked at */
    u32 asks;                             /* seccomp_guard.c: our threads came without a filter, but one may come … */
    u32 handlers_ask;                     /* … and so did all others */
    u64 alternate_handlers;               /* alternate_stack.c: signals whose handlers run there and go on afterwards … */
    u32 alternate_is_for_ours;            /* … or that of SIGURG did, when we came … */
    u32 handlers_are_plain;               /* … or some that go on afterwards do not … */
    u32 strays_have_alternates;           /* … or stack_headroom.c wants it so … */
    u32 alternate_is_shared;              /* … or some threads have the same memory for theirs */
    u64 alternate_smallest;               /* of all alternate stacks that threads are known to have; 0: none */
    u32 has_strays;                       /* stack_headroom.c: threads on coroutines' stacks, without an alternate one */
    u32 probe_count;
    struct probe {
        u32 tid;
        u64 sp;
    } probes[PROBES_MAX];                 /* what the host saw before the first signal */
    u64 own_code;                         /* some address in our own code */
    u64 libc_start;                       /* libc's code, runtime_addr */
    u64 libc_end;
    u64 fd_limit;                         /* RLIMIT_NOFILE */
    struct kernel_sigaction old_action;
    u64 sampler_thread;                   /* pthread_t */
    i32 ring_fd;
    i32 host_fd;                          /* host_files.c: the sampler's end of the pair, -1: none … */
    u32 host_lends_files;                 /* … which is asked for files … */
    i32 host_end_fd;                      /* … and the host's, … */
    i32 host_fd_of_target;                /* … and the sampler's, in the target's table */
    u32 fds_private;                      /* the sampler thread has its own descriptor table … */
    volatile u32 has_descriptors;         /* … or could not get one */
    u64 tsc_start;
    u64 tsc_start_ns;
    u64 ns_per_tsc_20;                    /* nanoseconds per TSC tick, times 2^20; 0 until calibrated */
    u64 random;

    struct ring_header *ring;
    u64 batch_sequence;
    u64 last_flush_ns;
    struct outbox modules_out, threads_out, traces_out, intervals_out;

    struct memory_map *volatile map;
    struct memory_map *retired;
    struct cfi_table *retired_tables;
    struct cfi_table *retired_tables_seen; /* the newest of them when they were looked at last … */
    u64 tables_retired_ns;                /* … and when that was first so */
    volatile u32 want_refresh;
    volatile u32 want_modules;            /* some module's `wanted` was set */
    u32 map_number;
    u64 map_read_ns;
    u64 map_cost_ns;
    u32 has_unannounced;
    struct module *modules;
    u32 module_count;
    volatile u32 cache_generation;
    volatile u64 *rule_cache;
    volatile u64 *call_cache;             /* return addresses that were looked at: heuristics.c */
    struct rule_table *rules;

    struct trace_slot *traces;
    u32 trace_count;
    u32 next_trace_id;

    struct thread_slot *slots;
    u32 slot_count;                       /* slots ever used; free ones among them have tid 0 */
    u32 next_thread_id;
    u32 list_number;
    u64 list_read_ns;
    u64 list_checked_ns;
    u64 list_links;                       /* link count of /proc/self/task */
    u64 names_read_ns;
    u64 held_bytes;

    /* CPU time of the process since the start, and who used it: short_threads.c */
    u64 process_cpu_start_ns;
    u64 target_cpu_ns;                    /* the target's threads, as far as their clocks were read */
    u64 injected_cpu_ns;                  /* Frida's threads */
    u64 unseen_cpu_ns;                    /* reported as the CPU time of threads that ended unseen */
    u64 unseen_checked_ns;
    struct thread_slot unseen;            /* stands for those threads */

    /* host_watchdog.c */
    u64 host_seen_ns;
    u64 host_checked_ns;
    u64 host_silence_ns;

    /* governor.c */
    u64 handler_cost_ns;
    u64 once_cpu_ns;                      /* of handler and sampler, spent on what happens once */
    u64 window_start_ns;
    u64 early_check_ns;
    struct governed {
        u64 window_cost_ns;
        u32 windows_over;
        u32 windows_under;
    } rounds, samples;

    /* idle.c */
    u8 idle[MAX_THREADS];                 /* by slot */
    u32 idle_count;
    u32 idle_stride;
    u32 idle_round;

    /* suspensions.c */
    u64 due_ns;                           /* when this round was to begin */
    u64 awake_ns;
    u64 planned_sleep_ns;
    u64 own_cpu_ns;
    u64 run_delay_ns;
    u64 run_delay_read_ns;
    u64 signals_from_ns;                  /* none are sent before */

    u8 *stack_copy;                       /* STACK_COPY_BYTES */
    u64 *parked_frames;                   /* MAX_FRAMES */
    u8 *text;                             /* TEXT_BYTES of scratch for procfs */
};

#define TEXT_BYTES 65536                  /* `text` has twice that: one half for files, one for directories */

#ifdef __TINYC__
extern struct agent *agent_cell;          /* the cell itself: `&agent_cell` is what agent.js allocated */
extern int libc_sigaction(int signo, const void *action, void *old);
#define LIBC_CODE ((u64)libc_sigaction)   /* some address in it */
extern int libc_pthread_create(void *thread, const void *attributes, void *(*start)(void *), void *argument);
extern int libc_pthread_join(u64 thread, void *result);
extern int libc_pthread_attr_init(void *attributes);
extern int libc_pthread_attr_setstacksize(void *attributes, u64 bytes);
extern int libc_pthread_attr_destroy(void *attributes);
#else
#include <pthread.h>
#include <signal.h>
static struct agent *agent_cell;
#define LIBC_CODE ((u64)sigaction)
#define libc_sigaction(signo, action, old) sigaction(signo, (const struct sigaction *)(action), (struct sigaction *)(old))
#define libc_pthread_create(thread, attributes, start, argument) \
    pthread_create((pthread_t *)(thread), (const pthread_attr_t *)(attributes), start, argument)
#define libc_pthread_join(thread, result) pthread_join((pthread_t)(thread), (void **)(result))
#define libc_pthread_attr_init(attributes) pthread_attr_init((pthread_attr_t *)(attributes))
#define libc_pthread_attr_setstacksize(attributes, bytes) pthread_attr_setstacksize((pthread_attr_t *)(attributes), bytes)
#define libc_pthread_attr_destroy(attributes) pthread_attr_destroy((pthread_attr_t *)(attributes))
#endif

/* A signal is on its way or its handler at work: what the handler reads must stay. */
static u32 signal_is_under_way(const struct thread_slot *slot)
{
    u32 state = load_acquire_u32(&slot->signal_state);
    return state == SIGNAL_SENT || state == SIGNAL_HANDLING;
}

static void count_up(struct agent *a, u32 counter, u64 amount)
{
    a->ring->counters[counter] += amount;
}

static void *agent_pages(struct agent *a, u64 bytes)
{
    void *pages = pages_new(bytes);
    if (pages) {
        pages_keep_from_children(pages, bytes);
        a->held_bytes += bytes;
    }
    return pages;
}

static void bytes_copy(void *to, const void *from, u64 bytes)
{
    u8 *t = to;
    const u8 *f = from;
    while (bytes--)
        *t++ = *f++;
}

static void bytes_zero(void *to, u64 bytes)
{
    u8 *t = to;
    while (bytes--)
        *t++ = 0;
}

#endif
