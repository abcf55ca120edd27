/*
 * The whole state of the agent. Machine code has no globals that are written, so all state is reached through
 * `agent_cell`, which is in `boot` (entry/control.h).
 *
 * Who writes what:
 *   our thread       everything, unless said otherwise (also called the sampler thread, which it is while it samples)
 *   signal handler   the `answer` part of the slot that its signal carries, `wanted` of a module, want_refresh,
 *                    want_modules, rule_cache, call_cache; under rows_lock what function_rows.c compiles
 *   JS thread        `owner` of a slot, where Frida is the way in
 */
#ifndef FLAMETAP_AGENT_H
#define FLAMETAP_AGENT_H

#define MAX_THREADS 8192
#define MAX_MODULES 16384
#define RULE_CACHE_SLOTS 65536
#define CALL_CACHE_SLOTS 4096
#define TRACE_SLOTS 65536
#define STACK_COPY_BYTES (64U << 10)      /* bytes of a sleeping thread's stack copied at a time */
#define SLOT_COPY_BYTES (8U << 10)        /* the same for a running thread's stack that is not read in place */
#define SAMPLES_BYTES (64U << 10)         /* ring of one thread's samples: two of the deepest stacks, or 12 of 300 frames */
#define SLOT_PAGES_BYTES (MAX_FRAMES * 8 + SLOT_COPY_BYTES + SAMPLES_BYTES)
/* What is not in the ring yet is lost if the target dies: at most a hundredth of the recording, or this much. Each batch
 * costs the host, so later ones are rarer, and those without new data. */
#define FLUSH_LEAST_NS 10000000ULL
#define FLUSH_MOST_NS 100000000ULL
#define FLUSH_PART 100
#define QUIET_FLUSH_NS 200000000ULL

#define CLOCK_TABLE 1024                  /* entries; TABLE_MASK in profiler/inject/perf_clock.py */

enum module_state { MODULE_RAW = 0, MODULE_READY = 1, MODULE_WITHOUT_CFI = 2 };
#define WANTED_FROM_FILE 2                /* rows of mapped sections do not cover the code; the file may have more */
#define WANTED_WHOLE 3                    /* a function cannot be compiled by itself */
/* Which threads of the target had seccomp filters at the attach; from the host. */
enum filtered { FILTERED_NOBODY = 0, FILTERED_OTHERS = 1, FILTERED_MAIN = 2 };
enum clocks { CLOCKS_CPU_TIMERS = 1, CLOCKS_LENT = 2 };    /* bits */
enum command { COMMAND_RUN = 0, COMMAND_PAUSE = 1, COMMAND_STOP = 2 };

/* Verdict of an unwind to repeat after a module is compiled or the maps are read again. Never sent to the host. */
#define VERDICT_RETRY 255

/* Results of rule_for_sigsafe besides rule numbers, which are below 2^24. */
#define RULE_NOT_READY 0xfffff0U          /* the module is not compiled yet */
#define RULE_JIT 0xfffff1U                /* executable memory without a file */
#define RULE_NO_CODE 0xfffff2U            /* not executable at all */

struct code_range {
    u64 start;                            /* runtime_addr */
    u64 end;
    u32 module;                           /* index into modules, 0 for none */
    u32 is_to_come;                       /* reserved behind generated code, which it may hold by now; may be unmapped */
};

struct memory_range {
    u64 start;
    u64 end;
    u64 is_guarded;                       /* a mapping without access rights ends where this one starts, so this is a
                                           * stack */
    u64 is_heap;                          /* memory of malloc, by its name or its alignment */
};

/* One reading of /proc/self/maps. Not changed after it is published; freed when no handler can still use it. */
struct memory_map {
    u64 bytes;                            /* of this allocation */
    u32 code_count;
    u32 stack_count;
    struct code_range *code;              /* executable mappings and code to come, sorted */
    struct memory_range *stacks;          /* readable and writable mappings, sorted */
    struct memory_range main_stack;       /* the main thread's, among them */
    u64 area_end;                         /* while it is read: where code to come would continue; 0: nowhere */
    struct memory_map *next_retired;
    u64 retired_ns;
};

/* A function of a module: sorted by start, up to the next one. */
struct function_entry {
    u32 start;                            /* relative to text_start */
    volatile u32 rows_at;                 /* function_rows.c: where its rows are, or its FDE: from the section's start */
};

/* The rows of a module (rules.h), in pages of their own: all, or those of the functions that stacks have contained. */
struct cfi_table {
    struct cfi_table *next_retired;
    struct cfi_table *volatile more;      /* where this one has no rule; may be 0 */
    u64 bytes;                            /* of this allocation */
    u64 section_file_addr;                /* .eh_frame; for functions */
    volatile u32 row_count;               /* for functions: of words in use, and changed under rows_lock */
    u32 row_limit;
    u32 function_count;                   /* 0: the rows are those of the whole module, sorted */
    volatile u32 is_closed;               /* no more functions are compiled */
    struct function_entry *functions;
    struct cfi_row *rows;
};

#define REGISTERED_MAX 1024
/* Code that its compiler has registered: unwind/registered_code.c. */
struct registered_object {
    u64 file;                             /* runtime_addr of its object file; 0: it has gone */
    u64 file_bytes;
    u64 start;                            /* its code, runtime_addr; empty once it has gone */
    volatile u64 end;
    struct cfi_table *volatile table;     /* 0: nothing says how to unwind it */
    u32 seen_in;
};

struct module {
    u32 module_id;                        /* equals the index; 0 stands for no module */
    volatile u32 state;                   /* enum module_state */
    volatile u32 wanted;                  /* set when a stack contains its code: 1, WANTED_FROM_FILE or _WHOLE */
    u32 injected;                         /* Frida's agent: never compiled */
    u64 device;
    u64 inode;
    u64 load_bias;
    u64 image_bias;                       /* bias of the whole file; differs from load_bias if only this part is
                                           * mapped elsewhere */
    u64 start;                            /* executable part, runtime_addr */
    u64 end;
    u64 text_start;                       /* the same, file_addr */
    u64 text_end;
    u64 eh_frame;                         /* file_addr, 0 if none */
    u64 eh_frame_limit;                   /* file_addr where its segment ends */
    u64 eh_frame_hdr;                     /* file_addr, 0 if none */
    u64 headers;                          /* runtime_addr of the ELF header, 0 if not mapped */
    u64 line_start;                       /* address range of one of its mappings in /proc/self/maps */
    u64 line_end;
    struct cfi_table *volatile table;     /* 0: no rows */
    volatile u32 file_searched;           /* 1: the file was searched for rows, or there is none */
    u32 seen_in;                          /* number of the last map reading that contained it */
    u32 gone;
    u32 is_unannounced;                   /* its last change was not sent to the host yet */
    u32 build_id_bytes;
    u8 build_id[32];
    u32 path_bytes;
    char path[508];
};

struct outbox {                           /* one section of the current batch */
    u8 *data;
    u32 capacity;
    u32 used;
    u32 records;
};

struct trace_slot {
    u64 hash;
    u32 trace_id;
    u32 injected;                         /* the stack contains code of Frida's agent */
};

#define CREDENTIAL_GROUPS 64
struct credentials {
    u32 users[4];                         /* real, effective, saved, of file systems */
    u32 main_groups[4];
    u32 group_count;
    u32 groups[CREDENTIAL_GROUPS];
};

struct agent {
    u32 pid;
    u32 sampler_tid;
    u64 period_ns;                        /* current interval between rounds */
    u32 looks_16;                         /* share of the threads that have run which a round looks at, times 2^16 */
    u64 asked_period_ns;                  /* at the rate that the host asks for */
    u32 asked_rate_hz;                    /* another rate that the host asks for since; 0: none */
    u64 cpu_period_ns;                    /* mean CPU time between two samples of a thread */
    u64 tick_ns;                          /* interval of the scheduler's tick; 0: unknown */
    u64 timers_left;                      /* number of timers that may still be created */
    u32 engine_is_timers;
    u32 keys_are_used;                    /* atomics.h: protection keys */
    u32 host_lends_clocks;                /* perf_clocks.c: the host can provide precise clocks */
    u32 had_clocks;                       /* perf_clocks.c: a thread had a precise clock */
    u64 own_slices;                       /* tick_phase.c: time slices per second of threads with clocks of their own */
    u64 clock_cookie;
    volatile u64 clock_table[CLOCK_TABLE]; /* threads that want the signal, at number modulo size: cookie xor number xor
                                            * kind of the clock << 32, which no other memory holds */
    u32 late_rounds_16;                   /* tick_phase.c: share of late rounds, moving average, times 2^16 */
    u32 command;
    volatile u32 has_ended;               /* the sampler thread has finished */
    u32 stop_reason;                      /* enum stop_reason */
    u32 unanswered;                       /* number of threads that never handled their last signal */
    u8 *gate;                             /* disposition.c */
    u32 was_replaced;                     /* the target has set its own handler at least once */
    u32 signal_is_ours;                   /* our handler is installed, as checked in this round */
    u32 signals_open;
    u64 blocking_handlers;                /* target signals whose handlers block ours: bit n - 1 is signal n */
    u64 handler_mask;                     /* signals that our handler blocks, same bits */
    u64 handler_mask_least;               /* signals that it has blocked all the time since the start */
    u64 dispositions_read_ns;
    i32 signo;
    u32 has_fsgsbase;                     /* the thread pointer is readable without a system call */
    volatile u64 injected_entry;          /* runtime_addr of Go's asyncPreempt; 0: none known (unwind.c) */
    u64 stack_notes_offset;               /* offset from the thread pointer to libc's record of the stack, + 1 if that
                                           * begins with its end; 0: unknown */
    u64 tid_offset;                       /* offset from the thread pointer to libc's record of the tid; 0: unknown */
    u32 on_alternate_stack;               /* our handler runs on alternate signal stacks, where a thread has one */
    u64 frame_bytes;                      /* size of a signal frame on the stack */
    u64 robust_list_offset;               /* offset from the thread pointer to glibc's robust list; 0: unknown */
    u32 was_filtered;                     /* seccomp_watch.c: the target had a seccomp filter at the attach */
    u64 filters;                          /* seccomp_watch.c: number of filters at the attach */
    u64 filters_read_ns;
    u32 is_sandboxed;
    u32 drain_is_blind;                   /* drain.c: the state of an existing thread could not be read */
    u32 asks;                             /* seccomp_guard.c: our threads have no filter, so check for a new one */
    u32 handlers_ask;                     /* the same for handlers: no thread had a filter at the attach */
    u64 alternate_handlers;               /* alternate_stack.c: signals whose handlers run there and return */
    u64 frequent_handlers;                /* of these, those that may be met while they run */
    u32 alternate_is_for_ours;            /* the target's SIGURG handler ran there at the attach */
    u32 handlers_are_plain;               /* some handlers that return do not run there */
    u32 strays_have_alternates;           /* set by stack_headroom.c: threads off their own stack have one */
    u32 alternate_is_shared;              /* several threads share the memory of one */
    u64 alternate_smallest;               /* size of the smallest known alternate stack; 0: none known */
    u32 has_strays;                       /* stack_headroom.c: threads on coroutine stacks, without an alternate one */
    u32 probe_count;
    struct probe {
        u32 tid;
        u64 sp;
    } probes[CONTROL_PROBES];                 /* stack pointers that the host saw before the first signal */
    u64 own_code;                         /* an address in our own code */
    u64 libc_start;                       /* libc's code, runtime_addr */
    u64 libc_end;
    u64 fd_limit;                         /* RLIMIT_NOFILE */
    struct kernel_sigaction old_actions[2]; /* the target's own action for our signal … */
    volatile u32 old_action_at;           /* … which of the two: the handler may read it while it changes */
    u32 takeovers;                        /* disposition.c */
    i32 ring_fd;
    i32 host_fd;                          /* host_files.c: sampler's end of the socket pair; -1: none */
    u32 host_lends_files;                 /* the host can open procfs files for the agent */
    i32 host_end_fd;                      /* the host's end of the socket pair, until it has taken it */
    struct control *control;              /* entry/control.h; 0 in tests without a host */
    struct credentials credentials;       /* entry/credentials.c: of the main thread, when they were read last */
    u64 credentials_ns;
    u64 tsc_start;
    u64 tsc_start_ns;
    u64 ns_per_tsc_20;                    /* nanoseconds per TSC tick, times 2^20; 0 until calibrated */
    u64 random;

    struct ring_header *ring;
    u64 batch_sequence;
    u64 last_flush_ns;
    struct outbox modules_out, threads_out, codes_out, traces_out, intervals_out;

    struct memory_map *volatile map;
    struct memory_map *retired;
    struct cfi_table *retired_tables;
    struct cfi_table *retired_tables_seen; /* the newest retired table at the last check */
    u64 tables_retired_ns;                /* time since when that is so */
    volatile u32 want_refresh;
    volatile u32 want_modules;            /* `wanted` of some module was set */
    u32 map_number;
    u64 map_read_ns;
    u64 map_cost_ns;
    u32 has_unannounced;
    struct module *modules;
    u32 module_count;
    volatile u32 cache_generation;
    volatile u64 *rule_cache;
    volatile u64 *call_cache;             /* results of code inspections, by address: frame.c */
    struct rule_table *rules;
    struct registered_object *registered; /* REGISTERED_MAX; 0: there are no lists */
    volatile u32 registered_count;
    volatile u32 want_registered;         /* a stack contained code without a file and without rules */
    u32 registered_round;                 /* number of the last look at the lists */
    u64 registered_used;                  /* their recipes then */
    u64 registered_ns;
    struct function_scratch *function_scratch; /* function_rows.c */
    volatile u32 rows_lock;               /* 1: a thread compiles rows */
    u64 function_rows;                    /* number of rows compiled under it … */
    u64 whole_rows;                       /* … and of those of whole modules */

    struct trace_slot *traces;
    u32 trace_count;
    u32 next_trace_id;

    struct thread_slot *slots;
    u32 slot_count;                       /* number of slots ever used; free ones have tid 0 */
    u32 next_thread_id;
    u32 list_number;
    u64 list_read_ns;
    u64 list_checked_ns;
    u64 list_links;                       /* link count of /proc/self/task */
    u64 newcomer_ns;                      /* when a thread that had started meanwhile was found last */
    u64 newcomers_cpu_ns;                 /* newcomers.c: what it has cost, in total and when the window began */
    u64 newcomers_window_ns;
    u64 tails_ns;                         /* short_threads.c: CPU time of ended threads that no thread has been given … */
    u64 tails_measured_ns;                /* … and when that was measured */
    u64 names_read_ns;
    u64 held_bytes;

    /* CPU time of the process since the start, by user: short_threads.c */
    u64 process_cpu_start_ns;
    u64 target_cpu_ns;                    /* the target's threads, up to the last reading of their clocks */
    u64 injected_cpu_ns;                  /* Frida's threads */
    u64 unseen_cpu_ns;                    /* reported as CPU time of threads that ended before they were seen */
    u64 unseen_checked_ns;
    struct thread_slot unseen;            /* represents those threads */

    /* host_watchdog.c */
    u64 host_seen_ns;
    u64 host_checked_ns;
    u64 host_silence_ns;

    /* governor.c */
    u64 handler_cost_ns;
    u64 once_cpu_ns;                      /* CPU time of the sampler for one-time work, from the first round on */
    u64 begin_cpu_ns;                     /* … and before it */
    u64 window_start_ns;
    u64 early_check_ns;
    struct governed {
        u64 window_cost_ns;
        u32 windows_over;
        u32 windows_under;
    } rounds, samples;

    /* idle.c */
    u8 idle[MAX_THREADS];                 /* 1: idle, by slot */
    u32 idle_count;
    u32 idle_stride;
    u32 idle_round;

    /* suspensions.c */
    u64 due_ns;                           /* planned start of this round */
    u64 awake_ns;
    u64 planned_sleep_ns;
    u64 own_cpu_ns;
    u64 run_delay_ns;
    u64 run_delay_read_ns;
    u64 signals_from_ns;                  /* no signal is sent before this time */

    /* interpreters/ */
    u64 recipes[RECIPES_STORED_MAX][RECIPE_WORDS]; /* recipes.c; never changed once counted */
    volatile u64 recipes_used;            /* bits by index */
    u32 recipe_count;
    u32 code_count;
    u32 next_code_id;
    u32 states_list_number;
    struct python_states *volatile states; /* the current one of states_pages; 0: none yet */
    struct python_states *states_pages;   /* two */
    u64 states_read_ns;
    u64 states_cost_ns;
    struct code_slot *codes;              /* CODE_TABLE_SLOTS */
    const struct managed_walk *noted_by;  /* the walk of the handler whose stack is being interned, 0: none */
    struct python_lock locks[LOCKS_MAX];  /* lock_holder.c */
    volatile u32 lock_count;
    u64 locks_ns;                         /* time of the last look at them */
    i64 lock_ns;                          /* how long they were held, less what is in intervals */
    u64 lock_told_ns;                     /* of late: in intervals of threads that waited for a CPU with a lock … */
    u64 lock_queued_ns;                   /* … and all time waiting for a CPU of threads that may have had it */
    u64 recipes_looked;                   /* sampler_thread.c: recipes_used when sleeping threads were looked at last */
    u64 unknown_owner;                    /* java_monitor.c: the last one that was not found, in the round of that time */
    u64 unknown_owner_ns;
    u32 holder_hint;                      /* holders.c: the slot of the last holder */
    struct managed_walk *parked_walk;     /* of the sampler thread */
    struct code_heaps *volatile heaps;    /* hotspot_keep.c: the current one of heaps_pages; 0: none yet */
    struct code_heaps *heaps_pages;       /* two */
    u64 heaps_read_ns;
    u64 java_threads_read_ns;             /* hotspot_threads.c */
    u64 java_threads_cost_ns;
    u32 java_threads_list;                /* list_number at that time */
    volatile u64 *frame_cache;            /* FRAME_CACHE_BYTES: hotspot_cache.c */
    volatile u64 *known_methods;          /* KNOWN_METHODS: hotspot_method.c */
    struct java_place *places;            /* JAVA_PLACE_SLOTS: hotspot_scopes.c */
    u64 *place_words;                     /* JAVA_PLACE_WORDS */
    u32 place_count;
    u32 place_words_used;
    u64 *resolved_words;                  /* MAX_FRAMES: code_words.c */
    volatile u32 v8_number;               /* index of V8's recipe, and 1; 0: none yet */
    u32 v8_place_count;
    u32 v8_known_count;
    struct v8_place *v8_places;           /* V8_PLACE_SLOTS: v8_places.c */
    struct v8_known *v8_known;            /* V8_KNOWN_SLOTS: v8_known.c */
    u64 v8_maps[V8_MAPS_KNOWN];           /* v8_heap.c: words by which what holds code begins */
    u32 v8_map_next;
    u32 v8_unknown_id;                    /* code id of functions whose names could not be had; 0: none yet */
    u32 v8_regexp_id;                     /* code id of regular expressions; 0: none yet */
    struct loop_place {                   /* managed_merge.c, by recipe: interpreters may be of different builds */
        volatile u64 distance;            /* from a run's anchor to the CFA of its native frame; 0: not known yet */
        volatile u64 pc;                  /* a call site in the interpreter's loop */
    } loop_places[RECIPES_STORED_MAX];
    volatile u64 greenlet_start;          /* runtime_addr of greenlet's code, which switches stacks; 0: not loaded */
    volatile u64 greenlet_end;

    u8 *stack_copy;                       /* STACK_COPY_BYTES */
    u64 *parked_frames;                   /* MAX_FRAMES */
    u8 *text;                             /* scratch memory for procfs, SCRATCH_BYTES */
};

/* Return whether a signal was sent and not answered yet: the data that the handler reads must stay. */
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

/* Zero words that handlers read meanwhile: each is what it was, or zero. */
static void words_zero(volatile u64 *to, u64 words)
{
    while (words--)
        *to++ = 0;
}

static void bytes_zero(void *to, u64 bytes)
{
    u8 *t = to;
    while (bytes--)
        *t++ = 0;
}

#endif
