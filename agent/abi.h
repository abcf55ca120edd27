/*
 * The wire format: what the agent writes and the host reads. The one place where it is defined; the Python side
 * (profiler/wire/) is checked against this file by tests/unit/wire/test_abi.py.
 *
 * All integers are little-endian; every structure is laid out without holes; sizes are multiples of 8 bytes.
 *
 *   ring (one memfd, shared with the host; RING_HEADER_BYTES + RING_BYTES long, and sealed: it never shrinks or grows)
 *   ┌──────────────────────┬─────────────────────────────────────────────────────────┐
 *   │ struct ring_header   │ data: RING_BYTES bytes, a power of two, used as a ring  │
 *   │ RING_HEADER_BYTES    │ of bytes; batches follow each other without gaps        │
 *   └──────────────────────┴─────────────────────────────────────────────────────────┘
 *     head: bytes ever written by the agent (moves only after a whole batch is in place)
 *     tail: bytes ever read by the host, which keeps this number itself and only writes it here
 *     A batch that does not fit is dropped as a whole and counted (COUNTER_RING_FULL); traces, modules and threads
 *     it held are sent again with the next one.
 *
 *   batch
 *   ┌──────────────────────┬──────────────────┬──────────────────┬───
 *   │ struct batch_header  │ section_header   │ records …        │ section_header …
 *   └──────────────────────┴──────────────────┴──────────────────┴───
 *     Sections come in the order modules, threads, codes, traces, intervals, so that what a record refers to is already
 *     known.
 *
 * Version history
 *   1  first version
 *   2  heartbeat and budget of the host, the reason of a stop, room for 64 counters
 *   3  waiting for a CPU is a state of its own; intervals of running threads hold CPU time alone
 *   4  the memory of the ring is sealed, and its size is fixed
 *   5  frames of interpreters, their code, and recipes for finding them
 *   6  frames of Java: recipes of HotSpot, its methods and stubs among the codes
 *   7  frames of JavaScript: recipes of V8, its functions among the codes
 *   8  JavaScript: hash and length of a script; functions that are named later
 *   9  frames of Ruby: recipes of its virtual machine, its iseqs among the codes
 *  10  threads of the kernel: KERNEL_CODE
 *  11  HotSpot: places in its stubs, recipes that want no inlined methods; JavaScript: code of regular expressions
 *  12  which thread holds the lock that a thread waits for
 *  13  the lock that a thread holds at the moment of its stack
 *  14  GUESSED_CALLER and its verdict
 */
#ifndef FLAMETAP_ABI_H
#define FLAMETAP_ABI_H

#define ABI_VERSION 14
#define RING_MAGIC 0x31474e4952505446ULL  /* "FTPRING1" */
#define BATCH_MAGIC 0x48435442U           /* "BTCH" */
#define RING_HEADER_BYTES 4096
#define RING_BYTES 4194304U               /* of the data part */
#define MAX_FRAMES 2048                   /* deeper stacks are cut at the root side */

/* A frame is one u64. Bits 63..56 say what it is. */
#define FRAME_KIND_SHIFT 56
#define FRAME_KIND_MODULE 0               /* bits 55..40 module id (1..65535), bits 39..0 file_addr */
#define FRAME_KIND_RUNTIME 1              /* bits 55..0 runtime_addr: code that belongs to no file; or one of these: */
#define KERNEL_CODE 0xffffffffffffULL     /* what a thread of the kernel runs */
#define GUESSED_CALLER 0xfffffffffffeULL  /* the frame before it was called by the next one, or by another function */
#define FRAME_KIND_MANAGED 2              /* a function of an interpreted program: bits 55..32 position in its code in
                                           * units of the runtime, NO_POSITION if unknown; bits 31..0 code id */
#define FRAME_KIND_EVAL 3                 /* as kind MODULE: the interpreter's loop, which runs the managed frames that
                                           * follow it towards the root */
#define FRAME_MODULE_SHIFT 40
#define FRAME_POSITION_SHIFT 32
#define NO_POSITION 0xffffff

enum section_kind {
    SECTION_MODULES = 1,                  /* struct module_record, each followed by its path, padded to 8 */
    SECTION_THREADS = 2,                  /* struct thread_record */
    SECTION_CODES = 3,                    /* struct code_record, each followed by its parts, padded together to 8 */
    SECTION_TRACES = 4,                   /* struct trace_record, each followed by frame_count u64, leaf first */
    SECTION_INTERVALS = 5,                /* struct interval_record */
};

enum thread_state {
    STATE_RUNNING = 1,                    /* on a CPU */
    STATE_PARKED = 2,                     /* asleep in a system call */
    STATE_BLOCKED = 3,                    /* asleep outside a system call */
    STATE_QUEUED = 4,                     /* runnable, and waiting for a CPU */
};

enum verdict {
    VERDICT_COMPLETE = 0,                 /* root reached, by CFI all the way */
    VERDICT_GUESSED = 1,                  /* root reached, a step by frame pointer or a likely word among them */
    VERDICT_SCANNED = 2,                  /* root reached, but a caller is just the first word that can be one: GUESSED_CALLER */
    VERDICT_TRUNCATED_DEPTH = 3,          /* more than MAX_FRAMES */
    VERDICT_NO_UNWIND_INFO = 4,           /* no row and no frame pointer; fault_module says where */
    VERDICT_BAD_MEMORY = 5,               /* the next frame is not on the stack */
    VERDICT_UNSUPPORTED_RULE = 6,         /* a rule that is not interpreted */
    VERDICT_NO_STACK = 7,                 /* trace 0: CPU time whose stack was never seen */
};

/* Every loss and every cost has a counter. They live in the ring header, so the host reads them at any time, also
 * after the target has died. Only ever growing, but for those named *_NOW. */
enum counter {
    COUNTER_TICKS = 0,                    /* rounds of the sampler */
    COUNTER_TICKS_LATE = 1,               /* rounds that began more than one period late */
    COUNTER_SIGNALS_SENT = 2,
    COUNTER_SIGNALS_HANDLED = 3,
    COUNTER_SIGNALS_LATE = 4,             /* thread-ticks skipped: it ran, yet its last signal was still on its way */
    COUNTER_PARKED_READS = 5,             /* stacks of parked threads read through procfs */
    COUNTER_PARKED_TORN = 6,              /* … thrown away because the thread ran meanwhile */
    COUNTER_UNCHANGED = 7,                /* thread-ticks with no CPU used: the old stack still holds */
    COUNTER_RING_FULL = 8,                /* batches dropped because the host did not keep up */
    COUNTER_INTERVALS_LOST = 9,           /* intervals in those batches */
    COUNTER_TRACES_LOST = 10,             /* stacks that found no room in the trace table */
    COUNTER_THREADS_LOST = 11,            /* threads that found no slot */
    COUNTER_THREADS_EXITED = 12,
    COUNTER_SIGNAL_BLOCKED = 13,          /* thread-ticks not signalled because the thread blocks our signal */
    COUNTER_EINTR_REPAIRED = 14,
    COUNTER_EINTR_UNREPAIRABLE = 15,
    COUNTER_FORK_BACKOFF = 16,            /* signals withheld around fork, vfork and clone */
    COUNTER_HANDLER_NS_TOTAL = 17,
    COUNTER_HANDLER_NS_MAX = 18,
    COUNTER_SAMPLER_CPU_NS = 19,
    COUNTER_CFI_ROWS = 20,                /* rows of unwind information held */
    COUNTER_CFI_MODULES = 21,             /* modules compiled */
    COUNTER_CFI_COMPILE_NS = 22,
    COUNTER_BYTES_HELD = 23,              /* memory the agent uses: what it has mapped, less tables not touched yet */
    COUNTER_UNATTRIBUTED_CPU_NS = 24,     /* CPU time reported under trace 0 */
    COUNTER_MODULE_REFRESHES = 25,
    COUNTER_RATE_MHZ_NOW = 26,            /* rate in force, in 1/1000 Hz */
    COUNTER_NOT_READY = 27,               /* samples retried because unwind information was being compiled */
    COUNTER_WAITS_INTERRUPTED = 28,       /* signals that found their thread just gone to sleep */
    COUNTER_SIGNALS_FAILED = 29,          /* signals the kernel did not take, or took without what we sent with them */
    COUNTER_HANDLER_REPLACED = 30,        /* thread-ticks not signalled: the target has set a handler of its own */
    COUNTER_BUDGET_LOWERED = 31,          /* times the rate was lowered to stay within the budget … */
    COUNTER_BUDGET_RAISED = 32,           /* … and raised again */
    COUNTER_GAPS = 33,                    /* times all of the target stood still: SIGSTOP, freezer, debugger */
    COUNTER_GAP_NS = 34,                  /* how long; in no interval */
    COUNTER_SMALL_STACK = 35,             /* thread-ticks not signalled, and signals without a sample: no room on one of
                                           * the thread's stacks */
    COUNTER_MODULES_LOST = 36,            /* mapped files that found no number: frames in them are bare addresses */
    COUNTER_RECORDS_LOST = 37,            /* news of threads (name, end) that found no room in the ring */
    COUNTER_STRAY_STACK = 38,             /* … it left its own stack (coroutines) and has no alternate one with room */
    COUNTER_UNATTRIBUTED_ENDED_NS = 39,   /* of COUNTER_UNATTRIBUTED_CPU_NS: the thread ended before its first sample … */
    COUNTER_UNATTRIBUTED_BLOCKED_NS = 40, /* … it blocks our signal … */
    COUNTER_UNATTRIBUTED_HANDLER_NS = 41, /* … the target has set a handler of its own for our signal … */
    COUNTER_UNATTRIBUTED_STACK_NS = 42,   /* … it runs on a stack that may have no room for a signal … */
    COUNTER_UNATTRIBUTED_UNSEEN_NS = 43,  /* … or it came and went between two looks */
    COUNTER_ENGINE_NOW = 44,              /* enum engine */
    COUNTER_TIMERS_FAILED = 45,           /* threads that could have no timer */
    COUNTER_SAMPLES_LOST = 46,            /* samples that found no room in their thread's ring */
    COUNTER_CPU_RATE_MHZ_NOW = 47,        /* samples a second of CPU time that are asked of each thread, in 1/1000 Hz */
    COUNTER_CLOCKS_LENT = 48,             /* precise clocks that threads were given: perf_clocks.c */
    COUNTER_CODES = 49,                   /* functions of interpreted programs that were sent */
    COUNTER_CODES_LOST = 50,              /* … whose memory was used again before it could be read */
    COUNTER_THREADS_ADMITTED = 51,        /* threads whose masks the host has changed to let our signal in: admission.c */
    COUNTER_ONCE_CPU_NS = 52,             /* of COUNTER_SAMPLER_CPU_NS: for work that is done once, mostly at the start */
    COUNTER_COUNT = 64,                   /* room for more without a new layout */
};

/* What decides when a running thread is sampled. */
enum engine {
    ENGINE_ROUNDS = 0,                    /* the sampler's rounds: it sends a signal to each thread that runs */
    ENGINE_CPU_TIMERS = 1,                /* a POSIX timer on the thread's own CPU clock */
};

/* Why sampling ended, as far as the agent knows. */
enum stop_reason {
    STOP_NONE = 0,                        /* it goes on */
    STOP_ASKED = 1,                       /* by the host, or because the script was unloaded */
    STOP_HOST_SILENT = 2,                 /* the host gave no sign of life for HOST_SILENCE_NS */
    STOP_SANDBOXED = 3,                   /* the target has put itself under a seccomp filter */
};

#define HOST_SILENCE_NS 3000000000ULL     /* of the time in which the agent itself could run */

#define HANDLER_HISTOGRAM_BUCKETS 64      /* handler time: the first bucket ends at HANDLER_HISTOGRAM_NS; from there on, four
                                           * equal ones to the double of each; the last, from 12.6 ms, has no end */
#define HANDLER_HISTOGRAM_NS 256

struct ring_header {
    unsigned long long magic;             /* RING_MAGIC */
    unsigned int version;                 /* ABI_VERSION */
    unsigned int pid;                     /* as the target sees itself */
    unsigned long long ring_bytes;        /* RING_BYTES */
    unsigned long long head;
    unsigned long long tail;
    unsigned long long start_ns;          /* CLOCK_MONOTONIC when sampling began */
    unsigned long long now_ns;            /* CLOCK_MONOTONIC of the last round */
    unsigned long long stopped;           /* 1 after the last batch */
    unsigned long long stop_reason;       /* enum stop_reason */
    unsigned long long host_ns;           /* CLOCK_MONOTONIC, by the host, several times a second; 0: not begun */
    unsigned long long budget_ppm;        /* by the host: what sampling may cost, in millionths of a core; 0: no limit */
    unsigned long long counters[COUNTER_COUNT];
    unsigned long long handler_histogram[HANDLER_HISTOGRAM_BUCKETS];
};

struct batch_header {
    unsigned int magic;                   /* BATCH_MAGIC */
    unsigned int version;                 /* ABI_VERSION */
    unsigned int total_bytes;             /* this header and all sections */
    unsigned int section_count;
    unsigned long long sequence;          /* 0, 1, 2 …; a gap is a dropped batch */
    unsigned long long now_ns;            /* intervals that are still open hold up to here */
};

struct section_header {
    unsigned int kind;                    /* enum section_kind */
    unsigned int record_count;
    unsigned int total_bytes;             /* without this header */
    unsigned int reserved;
};

#define MODULE_GONE 1                     /* flags: has been unmapped */
struct module_record {
    unsigned int module_id;               /* 1..65535 */
    unsigned int flags;
    unsigned long long load_bias;         /* runtime_addr - file_addr */
    unsigned long long start;             /* executable part, runtime_addr */
    unsigned long long end;
    unsigned char build_id[32];           /* zero-padded */
    unsigned int build_id_bytes;
    unsigned int path_bytes;              /* without padding; the path follows, padded with zeros to 8 */
};

#define THREAD_EXITED 1
#define THREAD_HIDDEN 2                   /* is not the target's (Frida's or ours): forget all it has */
#define THREAD_SIGNAL_BLOCKED 4
struct thread_record {
    unsigned int thread_id;               /* 1, 2, 3 …; never used again */
    unsigned int tid;
    unsigned int flags;
    unsigned int cpu_before_us;           /* CPU time that it had used at first_seen_ns, and is in no interval */
    unsigned long long first_seen_ns;
    char name[16];                        /* comm, zero-padded */
};

/*
 * A function of an interpreted program, sent before the first trace that contains it. The parts are what the runtime's
 * memory holds, without conversion; profiler/symbols/interpreters/ reads them.
 *
 *   Python   part 0 name, 1 qualified name, 2 file name: characters of 1, 2 or 4 bytes, see CODE_WIDE; 3 line table
 *            detail 0 first line
 *   HotSpot  a method: part 0 class, 1 name and signature, 2 source file: modified UTF-8; 3 compressed line table
 *            a stub of the virtual machine: part 1 its name
 *            detail 0 bytes of the name in part 1, 0 for a stub; detail 1 bytes of the bytecode
 *   Ruby     an iseq: part 0 label, 1 path of the class that has the method, or of the one whose singleton class that is, 2 path:
 *            characters in UTF-8 as a rule; 3 table of lines, and behind it the one that says which entry is whose (iseq.c)
 *            a method in C: part 0 name, 1 as above
 *            detail 0 first line; detail 1 bytes of the first table, RUBY_SINGLETON, RUBY_IN_C
 *   V8       bytecode, or machine code, as it lay in memory: the host reads what it refers to. Part 0 its first words,
 *            1 those of the function (SharedFunctionInfo), 2 four u64: the numbers of its script and its compilation, as
 *            small integers; of the script's name and of its source hash and length, u32 each. May come again with the same
 *            number and another place, as the garbage collector moves objects; also after a record without parts
 *            detail 0 runtime_addr of the object, in bits 63..56 enum v8_code; detail 1 runtime_addr of the function
 */
#define CODE_PARTS 4
#define CODE_GONE 1                       /* flags: its memory was used again before it could be read: no parts */
#define CODE_WIDE_SHIFT 4                 /* flags, two bits a part from here: log2 of the bytes of a character */
#define CODE_CUT_SHIFT 12                 /* flags, one bit a part from here: it is longer than what was sent */
struct code_record {
    unsigned int code_id;                 /* 1, 2, 3 …; never used again */
    unsigned short recipe_id;             /* the interpreter: RECIPE_ID */
    unsigned short flags;
    unsigned int part_bytes[CODE_PARTS];
    unsigned long long detail[2];
};

/* The position of a Java frame: bits 15..0 index of the bytecode, JAVA_NO_INDEX if unknown; the rest says how it runs. */
#define JAVA_NO_INDEX 0xffff
#define JAVA_TIER_SHIFT 16                /* four bits: 0 interpreted, 1 to 3 compiled by C1, 4 by C2, JAVA_TIER_NATIVE … */
#define JAVA_TIER_NATIVE 5                /* calls C code */
#define JAVA_TIER_STUB 6                  /* is no method, but a stub of the virtual machine. If detail 1 of its record is not 0,
                                           * that is where code of many routines begins (runtime_addr), and the position has the
                                           * bytes from there: bits 15..0 the lower ones, 23..22 the upper ones */
#define JAVA_STUB_SHIFT 22
#define JAVA_STUB_BYTES 0x40000           /* that such code can have: JAVA_NO_INDEX beyond */
#define JAVA_INLINED 0x100000             /* is inlined into the frame below it */
#define JAVA_NEAREST 0x200000             /* by what the compiler noted for the next place in the code: there is nothing for
                                           * this one */

/* In detail 1 of a record of Ruby: its class is a singleton class; it is a method in C. */
#define RUBY_SINGLETON 0x100000000ULL
#define RUBY_IN_C 0x200000000ULL

/* What a record of V8 is. The position of its frames: offset in the bytecode, or in the machine code. */
enum v8_code {
    V8_CODE_IS_BYTECODE = 1,
    V8_CODE_IS_BASELINE = 2,
    V8_CODE_IS_OPTIMISED = 3,
    V8_CODE_IS_REGEXP = 4,                /* of a regular expression: one record for all, without parts and addresses */
};
#define V8_OBJECT_BYTES 64                /* of an object in a record */
#define V8_KIND_SHIFT 56

/* What the walk over the interpreter's frames achieved. Beside the verdict of the native stack. */
enum managed_verdict {
    MANAGED_NONE = 0,                     /* no interpreter runs in this thread */
    MANAGED_EXACT = 1,                    /* every managed frame is above the native frame that runs it */
    MANAGED_ENTERING = 2,                 /* the same; the innermost call is just being entered or left */
    MANAGED_REPAIRED = 3,                 /* the chain was being changed; its parts were put together again */
    MANAGED_TORN = 4,                     /* the chain could not be read to its end: managed frames are missing */
    MANAGED_MISPLACED = 5,                /* some managed frames belong to no native frame: placed by their order */
    MANAGED_DEPTH = 6,                    /* more frames than MAX_FRAMES: those at the root are missing */
    MANAGED_NEAREST = 7,                  /* exact but for the innermost frame: JAVA_NEAREST */
};

struct trace_record {
    unsigned int trace_id;                /* 1, 2, 3 …; 0 stands for "no stack" and is never sent */
    unsigned short frame_count;
    unsigned char verdict;                /* enum verdict */
    unsigned char managed_verdict;        /* enum managed_verdict */
    unsigned int fault_module;            /* module id where unwinding stopped, 0 if in none or complete */
    unsigned int marks;                   /* enum mark */
};

/* What an interpreter did for the thread at that moment. */
enum mark {
    MARK_LOCK = 3,                        /* these two bits: */
    MARK_LOCK_HELD = 1,                   /* the thread holds the interpreter's lock (GIL) */
    MARK_LOCK_AWAITED = 2,                /* it waits for that */
    MARK_LOCK_RELEASED = 3,               /* it has released it: C code, a system call */
    MARK_COLLECTING = 4,                  /* it collects garbage */
};

#define SYSNO_LOCK 0x7ffd                 /* in place of a number: it waits for the interpreter's lock (GIL) */
#define INTERVAL_OPEN 1                   /* goes on: holds until a record with the same thread and t0 replaces it */
struct interval_record {
    unsigned long long t0_ns;
    unsigned long long wall_ns;
    unsigned long long cpu_ns;            /* wall_ns of a thread that runs, else 0 */
    unsigned int thread_id;
    unsigned int trace_id;
    unsigned char state;                  /* enum thread_state */
    unsigned char flags;
    short sysno;                          /* system call it waits in, SYSNO_LOCK, -1 if none. With STATE_QUEUED,
                                           * SYSNO_LOCK: its stack held that lock, and the thread no longer does */
    unsigned int samples;                 /* stacks seen that fell into this interval */
    unsigned int holder_id;               /* thread id of the one that holds the lock it waits for; 0 if not known */
    unsigned short awaited_lock;          /* number of that lock: 16 bits of a hash of its address; 0: none that is known */
    unsigned short held_lock;             /* number of a lock that this thread held, and for which others waited; 0: none */
};

#endif
