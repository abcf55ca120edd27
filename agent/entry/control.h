/*
 * What the host and our thread in the target share before there is a ring, and beside it: the only definition. The host's
 * copy is profiler/wire/control_abi.py, and tests/unit/wire/test_control_abi.py compares the two.
 *
 * `boot` lies in private memory of the target, which the host reads and writes through /proc/PID/mem. `control` is a
 * memfd that the host maps: requests and answers, each with a futex. The target can write both at any time, so neither
 * side believes what it reads there.
 */
#ifndef FLAMETAP_CONTROL_H
#define FLAMETAP_CONTROL_H

enum boot_state {
    BOOT_NOTHING = 0,
    BOOT_READY = 1,                       /* `control_fd` is there */
    BOOT_FAILED = 2,                      /* `error` says why; our thread ends */
    BOOT_LEFT = 3,                        /* our thread has given everything back and ends */
};

struct boot {
    unsigned int go;                      /* by the host: everything else is in place */
    unsigned int state;                   /* enum boot_state */
    int error;                            /* errno */
    int control_fd;                       /* in our thread's own descriptor table */
    unsigned int tid;                     /* our thread's, as the target knows it; the kernel writes 0 when it ends */
    unsigned int is_alone;                /* by the host: all other threads are the target's own */
    unsigned int must_leave;              /* by agent.js: end now */
    unsigned int visitors;                /* threads of agent.js that are in the agent's state */
    unsigned long long cell;              /* address of struct agent; 0 while there is none */
    unsigned long long gate;              /* pages for disposition.c, into which the host writes their code; 0: none */
    unsigned long long stack;             /* our thread's stack, runtime_addr, and its length */
    unsigned long long stack_bytes;
    unsigned long long libc_code;         /* by the host: an address in the code that makes libc's system calls; 0: none */
    unsigned long long alternate_start;   /* by a thread of the target: stack_t, sigaltstack(2) */
    unsigned long long alternate_flags;
    unsigned long long alternate_bytes;
};

#define CONTROL_BYTES (128U << 10)
#define CONTROL_WORDS 12288
#define CONTROL_PROBES 256                /* stack_probe.py: 24 for each of 8 threads */

enum control_call {
    CONTROL_PREPARE = 1,                  /* arguments: rate in Hz, enum filtered, enum clocks */
    CONTROL_START = 2,                    /* `count` probes */
    CONTROL_RECIPES = 3,                  /* `count` recipes in `words` */
    CONTROL_PAUSE = 4,                    /* argument: whether to pause */
    CONTROL_RATE = 5,                     /* argument: rate in Hz */
    CONTROL_STOP = 6,                     /* answered when sampling has ended; result as agent_stop's */
    CONTROL_LEAVE = 7,                    /* our thread ends; no answer but that */
    CONTROL_CONNECT = 8,                  /* argument: bytes of an address in `words`; see hostfiles_connect */
};

struct control_probe {                    /* what the host saw of a computing thread's stacks */
    unsigned long long tid;
    unsigned long long sp;
    unsigned long long alternate_start;
    long long alternate_bytes;            /* -1: unknown */
};

struct control {
    unsigned int request;                 /* counted up by the host; futex */
    unsigned int answered;                /* the last request that was answered; futex */
    unsigned int call;                    /* enum control_call */
    int result;                           /* 0, or what the call says; below 0: -errno */
    unsigned long long arguments[4];
    /* The answer to CONTROL_PREPARE: descriptors in our thread's own table, -1 for none. */
    int ring_fd;
    int host_end_fd;
    /* libc's struct pthread, which the host has looked at: from the thread pointer to these; 0: unknown (agent.h). */
    unsigned long long tid_offset;
    unsigned long long stack_notes_offset;
    unsigned long long robust_list_offset;
    unsigned int count;
    unsigned int reserved;
    union {
        unsigned long long words[CONTROL_WORDS];
        struct control_probe probes[CONTROL_PROBES];
    } u;
};

#endif
