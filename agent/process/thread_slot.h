/*
 * What the agent keeps of each thread. The slot of a thread that has ended is given to another one.
 *
 * Who writes what: see agent.h.
 */
#ifndef FLAMETAP_THREAD_SLOT_H
#define FLAMETAP_THREAD_SLOT_H

#define SENT_JUST_NOW (~0ULL)             /* for `signal_ns` */

/* SENT by the sampler, HANDLING and ANSWERED by the handler, IDLE by the sampler. */
enum signal_state { SIGNAL_IDLE = 0, SIGNAL_SENT = 1, SIGNAL_HANDLING = 2, SIGNAL_ANSWERED = 3 };
enum thread_owner { OWNER_UNKNOWN = 0, OWNER_TARGET = 1, OWNER_INJECTED = 2 };

#define PHASES 8                          /* tick_phase.c */
#define CYCLE_PARTS 25

/* Values of waited_in besides system call numbers. */
#define NOT_WAITING (-1)
#define WAIT_UNKNOWN (-2)                 /* in a system call of which only its EINTR is known */

struct interval {
    u64 t0_ns;
    u64 wall_ns;
    u64 cpu_ns;
    u32 trace_id;
    u32 samples;
    u8 state;                             /* 0: no interval yet */
    u8 dirty;                             /* differs from what the host was told */
    i16 sysno;
};

struct thread_slot {
    /* between sampler and handler */
    volatile u32 signal_state;            /* enum signal_state */
    u32 tid;
    /* From the first look at it running on: MAX_FRAMES pcs, leaf first; SLOT_COPY_BYTES; SAMPLES_BYTES. */
    u64 *frames;
    u64 thread_pointer;                   /* by the sampler: looked at, and the thread's own stack that it tells of, */
    u64 stack_start;                      /* both 0 if none */
    u64 stack_end;
    u64 thread_pointer_seen;              /* answer: the one in force */
    u32 frame_count;                      /* answer … */
    u32 verdict;
    u64 fault_pc;
    u64 handler_tsc;
    u32 near_fork;
    u32 sent_off_cpu;                     /* by the sampler: it was runnable when the signal was sent, but not on a CPU */
    u32 sent_on_cpu;                      /* by the sampler: at the very moment it was on one */
    u32 woken;                            /* answer: it was just coming back from a wait */
    u64 taken_ns;                         /* answer: when; known only if sent_off_cpu */
    u64 run_delay_ns;                     /* by the sampler, only if sent_off_cpu: run_queue.c … */
    u64 sent_late_ns;                     /* … and how late the round began */
    u32 queued_looks;                     /* by the sampler: in a row */
    i32 waited_in;                        /* the system call our signal cut short, NOT_WAITING if none */
    u64 sp_seen;                          /* where its stack pointer stood */
    u64 alternate_start;                  /* the thread's alternate signal stack … */
    u64 alternate_bytes;                  /* … 0 for none */
    u32 came_bare;                        /* answer: the signal came without what was sent with it */
    u32 eintr_repaired;                   /* by the handler: EINTRs since the slot is this thread's … */
    u32 eintr_unrepairable;
    u64 ignored_pc;                       /* handler only: the wait begun again after a signal that the target ignores, … */
    u32 ignored_repairs;                  /* … and how often in a row */
    u64 signal_ns;                        /* by the sampler: when the signal was sent, or SENT_JUST_NOW, … */
    u64 signal_cpu_ns;                    /* … and the thread's CPU clock then */

    /* cpu_timers.c, sample_ring.c */
    volatile u32 has_timer;               /* by the sampler … */
    volatile u32 timer_is_set;            /* … and samples are wanted; by the handler: first, see whether there is room */
    u32 timer_may_be_set;                 /* by the sampler */
    volatile u32 is_on_alternate;         /* by the sampler: it takes signals on an alternate stack with room */
    i32 timer_id;
    u32 timer_has_failed;                 /* by the sampler: the kernel made none */
    volatile u32 is_taking;               /* by the handler: it is at work on a sample of the timer's */
    volatile u64 samples_written;         /* by the handler: bytes ever put into the ring … */
    volatile u64 samples_read;            /* … and taken out, by the sampler */
    volatile u32 samples_missed;          /* by the handler: they found no room */
    u32 samples_missed_told;
    u64 timer_random;                     /* by the handler, once there is a timer */
    volatile u32 has_clock;               /* perf_clocks.c: by the sampler */
    i32 clock_fd;
    u32 clock_looks;                      /* since its period was drawn */
    u32 is_clock_asked;                   /* enum file_asked … */
    u32 was_unmet;                        /* tick_phase.c: no tick had met it for a while, since … */
    u64 choice_ns;                        /* … it was last decided whether it gets one … */
    u64 slices_then;                      /* … and how often it had been given a CPU by then … */
    u64 slices;                           /* … and has been now; what it had waited for a CPU, and used, by then */
    u64 delay_then_ns;
    u64 cpu_then_ns;
    u8 phases[PHASES];                    /* tick_phase.c: by the sampler: at which parts of the tick it was found running … */
    u8 cycle[CYCLE_PARTS];                /* … and of a longer time … */
    u32 found_running;                    /* … and how often in all */
    u64 timer_set_cpu_ns;                 /* by the sampler: the thread's CPU clock when it was set, or had its last sample */

    /* the wait seen last through procfs; the handler compares with it before it restarts a call */
    i64 wait_sysno;
    u64 wait_args[6];
    u64 wait_sp;
    u64 wait_pc;

    /* sampler only */
    u32 thread_id;
    volatile u32 owner;                   /* enum thread_owner */
    i32 syscall_fd;                       /* both kept open; -1: not */
    i32 schedstat_fd;
    u32 is_file_asked;                    /* host_files.c: enum file_asked … */
    u32 is_look_due;                      /* … and its look waits for the answer */
    u64 asked_cpu_ns;                     /* sleeping.c: its CPU clock … */
    u64 asked_ns;                         /* … then */
    u32 announced;                        /* the host knows this thread */
    u32 seen_in;                          /* number of the last directory reading it was found in … */
    u32 is_gone;                          /* … and since then it has ended */
    u32 signals_blocked;                  /* 1, or BLOCKED_FOR_GOOD */
    u32 room;                             /* enum stack_room */
    u32 alternate_is_known;               /* alternate_stack.c: alternate_start and alternate_bytes are … */
    u32 alternate_is_shared;              /* … another thread has it, too … */
    u64 alternate_compared;               /* … as of this start of it … */
    u32 quiet_looks;                      /* … else so often no handler was at work there … */
    u32 is_in_own_handlers;               /* … or it was */
    u64 doubted_sp;                       /* for ROOM_IN_DOUBT */
    u64 doubted_start;                    /* of what was mapped there … */
    u32 doubted_readings;                 /* … also in so many readings since */
    u32 sightings;                        /* on memory that is not known as a stack, and not the heap's */
    u64 doubted_ns;
    u32 late_ticks;
    u32 ran_since_name;
    u64 ran_ns;                           /* when it was last seen to have run */
    u64 cpu_seen_ns;                      /* its CPU clock at the last look … */
    u64 cpu_told_ns;                      /* … up to where it is in an interval … */
    u64 accounted_ns;                     /* … and the time of that look */
    i64 blocked_ns;                       /* intervals.c: time in no interval yet in which it neither ran nor waited for a CPU … */
    u64 queued_ns;                        /* … and in which it waited for one */
    u64 run_delay_seen_ns;                /* how long it has waited for CPUs, ever, as of the last look */
    u32 may_have_waited;                  /* and it has not been seen to run since the first: a wait may have begun before */
    u64 sent_ns;
    u64 sent_cpu_ns;                      /* cpu_seen_ns when the signal was sent */
    u64 first_seen_ns;
    u64 backoff_until_ns;
    u64 backoff_ns;                       /* around fork; 0: the last signal met none */
    u32 eintr_repaired_told;              /* of the handler's counts, what is in the ring's */
    u32 eintr_unrepairable_told;
    u32 given_up;                         /* its last signal was not answered, and we stopped waiting for that */
    u32 had_timer;                        /* drain.c: and may be about to take its signal … */
    u32 drain_pending;                    /* drain.c: that signal was pending … */
    i64 drain_cpu_ns;                     /* … and the thread's CPU clock then */
    u64 last_run_ns;                      /* when it was last seen on a CPU, and on which stack */
    u32 last_run_trace;
    u32 last_wait_trace;                  /* where it was last seen asleep … */
    u8 last_wait_state;                   /* … 0 if it never was */
    i16 last_wait_sysno;
    struct interval open;
    char name[16];
};

#endif
