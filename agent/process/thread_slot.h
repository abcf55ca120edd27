/*
 * The agent's state of each thread. A slot is reused after its thread has ended.
 *
 * agent.h says who writes what.
 */
#ifndef FLAMETAP_THREAD_SLOT_H
#define FLAMETAP_THREAD_SLOT_H

#define HELD_LOCK_SHIFT 16                /* above the marks of a stack: number of a lock that the thread holds */
#define MARKS_OF_STACK ((1U << HELD_LOCK_SHIFT) - 1)
#define SENT_JUST_NOW (~0ULL)             /* value of `signal_ns` */

/* The sampler sets SENT and IDLE, the handler HANDLING and ANSWERED. */
enum signal_state { SIGNAL_IDLE = 0, SIGNAL_SENT = 1, SIGNAL_HANDLING = 2, SIGNAL_ANSWERED = 3 };
/* Kinds of precise clocks: perf_clocks.c. CLOCK_REFUSED is a value of clock_asked only. */
enum clock_kind { CLOCK_NONE = 0, CLOCK_OWN = 1, CLOCK_OF_CPU = 2, CLOCK_REFUSED = 3 };
#define BLOCKED_FOR_GOOD 2                /* signals_blocked: it takes signals by sigwait(3), and would take ours */

enum thread_owner { OWNER_UNKNOWN = 0, OWNER_TARGET = 1, OWNER_INJECTED = 2 };

#define PHASES 8                          /* tick_phase.c */
#define CYCLE_PARTS 25

/* Values of waited_in besides system call numbers. */
#define NOT_WAITING (-1)
#define WAIT_UNKNOWN (-2)                 /* in an unknown system call that returned EINTR */

struct interval {
    u64 t0_ns;
    u64 wall_ns;
    u64 cpu_ns;
    u32 trace_id;
    u32 samples;
    u8 state;                             /* 0: no interval */
    u8 dirty;                             /* changed since it was sent to the host */
    i16 sysno;
    u32 marks;                            /* of its stack: enum mark; and the lock that it holds: HELD_LOCK_SHIFT */
    u32 holder_id;                        /* thread id of the one that holds the lock it waits for; 0: not known */
    u32 awaited_lock;                     /* number of that lock; 0: none that is known */
};

struct thread_slot {
    /* shared by sampler and handler */
    volatile u32 signal_state;            /* enum signal_state */
    u32 tid;
    /* Allocated before its first signal: MAX_FRAMES pcs, leaf first; SLOT_COPY_BYTES; SAMPLES_BYTES. */
    u64 *frames;
    struct managed_walk *managed;         /* allocated as soon as an interpreter is known */
    u64 java_thread;                      /* by the sampler: its JavaThread in HotSpot; 0 if it has none */
    u64 thread_pointer;                   /* by the sampler: the thread pointer whose control block was read, and the
                                           * stack */
    u64 stack_start;                      /* from that block; both 0 if unknown */
    u64 stack_end;
    u64 thread_pointer_seen;              /* answer: the current thread pointer */
    u32 frame_count;                      /* answer: number of frames; the next seven fields are part of the answer */
    u32 verdict;
    u32 managed_verdict;
    u32 marks;                            /* enum mark, and the lock that it holds: HELD_LOCK_SHIFT */
    u64 fault_pc;
    u64 handler_tsc;
    u64 began_tsc;                        /* answer: when the handler began */
    u32 near_fork;
    u32 sent_off_cpu;                     /* by the sampler: runnable, but not on a CPU when the signal was sent */
    u32 sent_on_cpu;                      /* by the sampler: on a CPU while the signal was sent */
    u32 woken;                            /* answer: it was returning from a wait */
    u64 taken_ns;                         /* answer: time of the handler; set only if sent_off_cpu */
    u64 run_delay_ns;                     /* by the sampler, only if sent_off_cpu (run_queue.c): its run delay */
    u64 sent_late_ns;                     /* by the sampler, only if sent_off_cpu: how late the round began */
    u32 queued_looks;                     /* by the sampler: looks in a row that found it off the CPU */
    i32 waited_in;                        /* answer: the system call that our signal interrupted, or NOT_WAITING */
    u64 sp_seen;                          /* answer: its stack pointer */
    u64 alternate_start;                  /* the thread's alternate signal stack */
    u64 alternate_bytes;                  /* 0: none */
    u32 came_bare;                        /* answer: the signal arrived without its siginfo value */
    volatile u32 is_admitted;             /* admission.c: set by the sampler; the handler clears it … */
    volatile u32 is_returned;             /* … and sets this, when a signal of the target's came */
    u32 eintr_repaired;                   /* by the handler: EINTR results since the slot belongs to this thread */
    u32 eintr_unrepairable;
    u64 ignored_pc;                       /* handler only: the wait restarted after a signal that the target ignores */
    u32 ignored_repairs;                  /* number of restarts there in a row */
    u64 signal_ns;                        /* by the sampler: time when the signal was sent, or SENT_JUST_NOW */
    u64 signal_cpu_ns;                    /* by the sampler: the thread's CPU clock at that time */

    /* cpu_timers.c, sample_ring.c */
    volatile u32 has_timer;               /* by the sampler */
    volatile u32 timer_is_set;            /* by the sampler: samples are wanted; the handler clears it if room must
                                           * be checked first */
    u32 timer_may_be_set;                 /* by the sampler */
    volatile u32 is_on_alternate;         /* by the sampler: its signals run on an alternate stack with room */
    i32 timer_id;
    u32 timer_has_failed;                 /* by the sampler: timer_create failed */
    volatile u32 is_taking;               /* by the handler: a handler is taking a timer sample */
    volatile u64 samples_written;         /* by the handler: bytes ever written to the ring */
    volatile u64 samples_read;            /* by the sampler: bytes ever read from it */
    volatile u32 samples_missed;          /* by the handler: samples without room in the ring */
    u32 samples_missed_told;
    volatile u32 signals_crowded;         /* by the handler: signals that met too little of an alternate stack */
    u32 signals_crowded_told;
    u64 timer_random;                     /* by the handler, after the timer was created */
    volatile u32 has_clock;               /* perf_clocks.c: enum clock_kind; by the sampler */
    u32 had_clock;                        /* its signal may still be on its way */
    u32 clock_asked;                      /* enum clock_kind */
    u32 clock_looks;                      /* looks at which it had run since then */
    u64 clock_period_ns;                  /* that the host was told */
    u32 was_unmet;                        /* tick_phase.c: no tick has sampled it for a while, since choice_ns */
    u64 choice_ns;                        /* time of the last decision whether it gets a clock */
    u64 slices;                           /* number of times it was given a CPU; below: the same, its run delay and
                                           * its CPU time at choice_ns */
    u64 slices_then;
    u64 delay_then_ns;
    u64 cpu_then_ns;
    u64 own_slices;                       /* its part of the agent's */
    u8 phases[PHASES];                    /* tick_phase.c, by the sampler: how often it was found running, by part of
                                           * the tick */
    u8 cycle[CYCLE_PARTS];                /* the same by part of CYCLE_NS */
    u32 found_running;                    /* how often in total */
    u32 early_samples;                    /* by the sampler: of a thread that started during the recording, how many of its
                                           * first samples are still to come */
    u64 timer_set_cpu_ns;                 /* by the sampler: the thread's CPU clock at the timer's start or last
                                           * sample */

    /* held_lock.c, by the sampler: a lock that this thread was seen holding while another one waited for it, and a word
     * that tells whether it does: by the bits of `held_mask` */
    volatile u64 held_runtime_addr;       /* of the word; 0: there is no such lock */
    volatile u64 held_word;
    volatile u64 held_mask;
    volatile u32 held_lock;               /* number of the lock */

    /* the last wait seen through procfs; the handler compares with it before it restarts a call */
    i64 wait_sysno;
    u64 wait_args[6];
    u64 wait_sp;
    u64 wait_pc;

    /* sampler only */
    u32 thread_id;
    volatile u32 owner;                   /* enum thread_owner */
    i32 syscall_fd;                       /* both descriptors are kept open; -1: not open */
    i32 schedstat_fd;
    u32 is_file_asked;                    /* host_files.c: enum file_asked */
    u32 is_look_due;                      /* to be looked at although it has not run: it waits for the host's answer, say */
    u64 asked_cpu_ns;                     /* sleeping.c: its CPU clock at asked_ns */
    u64 asked_ns;
    u32 announced;                        /* the host knows this thread */
    u32 seen_in;                          /* number of the last directory reading that contained it */
    u32 is_gone;                          /* it has ended since then */
    u32 signals_blocked;                  /* 1, or BLOCKED_FOR_GOOD */
    u32 is_of_kernel;                     /* kernel_threads.c */
    u64 admission_from_ns;                /* admission.c: when the host may be asked next; 0: not blocked before */
    u64 admission_pause_ns;
    u32 admission_is_asked;               /* the host's answer has not come yet */
    u32 admissions;                       /* times that the host has let our signal in */
    u32 room;                             /* enum stack_room */
    u32 alternate_is_known;               /* alternate_stack.c: alternate_start and alternate_bytes are known */
    u32 alternate_asks;                   /* times that the host was asked for it */
    u32 alternate_is_told;                /* its answer has come */
    u64 alternate_from_ns;                /* when the host may be asked next; 0: it was not in doubt yet */
    u64 alternate_pause_ns;
    u32 alternate_is_shared;              /* another thread uses the same memory */
    u64 alternate_compared;               /* value of alternate_start at the last comparison */
    u32 quiet_looks;                      /* looks that found no handler of the target's running there */
    u32 is_in_own_handlers;               /* such a handler was seen running */
    u64 signals_taken;                    /* those with such handlers that it was seen not to block */
    u32 may_be_in_handler;                /* at the last look it blocked such a signal */
    u64 doubted_sp;                       /* stack pointer that led to ROOM_IN_DOUBT */
    u64 doubted_start;                    /* start of the mapping at doubted_sp */
    u32 doubted_readings;                 /* readings of the maps since then that agree */
    u32 sightings;                        /* sightings on memory that is neither a known stack nor the heap */
    u64 doubted_ns;
    u32 late_ticks;
    u32 ran_since_name;
    u32 has_state;                        /* python_states.c: it was among the threads with a state of Python */
    u32 stateless_looks;                  /* looks at which it was not, and had run */
    u64 ran_ns;                           /* last time it was found to have run */
    u64 cpu_seen_ns;                      /* its CPU clock at the last look */
    u64 cpu_told_ns;                      /* CPU clock up to which its time is in an interval */
    u64 accounted_ns;                     /* time of the last look */
    i64 blocked_ns;                       /* intervals.c: time asleep that is in no interval yet */
    u64 queued_ns;                        /* time waiting for a CPU that is in no interval yet */
    u64 run_delay_seen_ns;                /* its total run delay at the last look */
    u32 may_have_waited;                  /* it has not run since the first look: a wait may have begun before that */
    u32 cpu_before_us;                    /* abi.h */
    u64 sent_ns;
    u64 sent_cpu_ns;                      /* cpu_seen_ns when the signal was sent */
    u64 first_seen_ns;
    u64 backoff_until_ns;
    u64 backoff_ns;                       /* pause around fork; 0: the last signal did not arrive in one */
    u32 eintr_repaired_told;              /* the part of the handler's counts that is in the ring's counters */
    u32 eintr_unrepairable_told;
    u32 given_up;                         /* its last signal was not answered, and we stopped waiting for it */
    u32 had_timer;                        /* drain.c: it had a timer and may be about to handle its signal */
    u32 drain_pending;                    /* drain.c: our signal was pending */
    i64 drain_cpu_ns;                     /* drain.c: the thread's CPU clock at that time */
    u64 last_run_ns;                      /* time when it was last seen on a CPU, and its stack */
    u32 last_run_trace;
    u32 last_run_marks;
    u64 lock_ns;                          /* lock_holder.c: how long it was seen holding the lock, less the time
                                           * waiting for a CPU that is told to be such */
    u64 awaited;                          /* holders.c: runtime_addr of the lock it waits for; 0: none that is known */
    u64 awaited_owner;                    /* the owner that was seen there; 0: none, or it was not known */
    u64 awaited_from_ns;                  /* when to look again; the pause doubles while the owner is not known */
    u64 awaited_pause_ns;
    u32 awaited_list;                     /* list_number at that time */
    u32 awaited_is_monitor;               /* it is a monitor of Java */
    u32 last_wait_trace;                  /* stack on which it was last seen asleep */
    u8 last_wait_state;                   /* 0: never seen asleep */
    i16 last_wait_sysno;
    struct interval open;
    char name[16];
};

#endif
