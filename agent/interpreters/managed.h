/*
 * Functions of interpreted programs ("managed" frames): what the parts of this folder share.
 *
 *   python_states.c  sampler      which interpreter state belongs to which thread
 *   managed_memory.c both         reading the interpreter's memory
 *   python_text.c    both         texts of Python: where they lie, what they hold
 *   python_code.c    both         what tells one code object from another; which number it has on the wire
 *   code_notes.c     both         names of code objects that may soon be gone
 *   python_chain.c   both         where a chain of frames begins; repairs
 *   greenlet.c       both         stacks that greenlet switches
 *   python_walk.c    both         thread state → runs of frames
 *   ruby_code.c      both         Ruby: iseqs, their names and tables
 *   ruby_method.c    both         Ruby: method entries, classes, names of symbols
 *   ruby_identity.c  both         Ruby: what tells functions apart
 *   ruby_record.c    sampler      Ruby's functions → records for the host
 *   ruby_walk.c      both         thread of Ruby → runs of frames
 *   ruby_threads.c   sampler      which thread of Ruby belongs to which thread
 *   state_of_thread.c both        a thread → its thread states; the lock
 *   managed_merge.c  both         runs + native frames → one stack
 *   code_table.c     sampler      code objects → records for the host
 *   code_words.c     sampler      stacks with code objects → stacks with their numbers
 *   recipes.c        JS           where the interpreters are, and how to read them
 *   lock_holder.c    sampler      which thread holds the interpreter's lock
 *
 * "Both" runs in the handler for a running thread, and in the sampler thread for a sleeping one.
 *
 * A run is what one call of the interpreter's loop executes: frames that call each other without another native frame.
 * Each such call has an object of known address in its own native frame (the run's anchor), so the native frame that
 * contains the address is the one that runs them. No symbols are needed.
 */
#ifndef FLAMETAP_MANAGED_H
#define FLAMETAP_MANAGED_H

/*
 * A stack on its way to the host is an array of words, leaf first. A native frame is its pc. The others have a mark in
 * the top byte; the first two are frame kinds of abi.h.
 *
 *   FRAME_KIND_MANAGED   position, code id
 *   FRAME_KIND_EVAL      pc
 *   WORD_CODE            a code object without a number: its runtime_addr, and in bits 55..48 the recipe's index; it is
 *                        followed by a word with its position (bits 55..32) and fingerprint (bits 31..0), and for Python by
 *                        one with a mix of what its record has to say (bits 55..0), each with the mark; for Ruby by one with
 *                        the runtime_addr of the class that has the method (or 0), and one with such a mix
 */
#define WORD_CODE 4                       /* the next ones are in hotspot.h and v8.h */
#define CODE_WORDS 3                      /* of Python */
#define RUBY_WORDS 4
#define MANAGED_WORDS_MAX 4               /* of one step */
#define CONTENT_MASK ((1ULL << WORD_SHIFT) - 1)
#define WORD_SHIFT FRAME_KIND_SHIFT
#define WORD_RECIPE_SHIFT 48
#define WORD_ADDRESS_MASK ((1ULL << WORD_RECIPE_SHIFT) - 1)

#define RUNS_MAX 1024
#define STEPS_MAX 32768                   /* of one walk: a millisecond */
#define CACHED_PAGES 256
#define SPAN_BYTES 256                    /* of a frame or a code object, at most */
#define MIXED_STRINGS 8
#define CACHED_LINES 64                   /* of LINE_BYTES, copied by a handler */
#define LINE_BYTES 512
#define RECIPES_STORED_MAX 64             /* with those that were corrected: bits of recipes_used */
#define STATES_MAX 4096                   /* thread states of all interpreters */
#define CODE_TABLE_SLOTS 32768
#define LINE_TABLE_BYTES_MAX 65536
#define NATIVE_NONE (~0U)
#define GREENLET_SEARCH_BYTES 16384       /* of C functions between a switch and the Python function that asks for it */

struct managed_run {
    u64 anchor;                           /* runtime_addr in the native frame that runs it; 0: not known */
    u32 first;                            /* index of its first word */
    u32 words;
    u32 native;                           /* index of that native frame, or of the one that it is placed after */
    u32 is_placed;                        /* it is that frame which runs it */
    u32 recipe;                           /* index */
    u32 reserved;
};

/* A thread state of an interpreter: of Python, or a thread of Ruby (interpreter: its virtual machine). Sorted by thread
 * pointer. */
struct python_state {
    u64 thread_pointer;
    u64 runtime_addr;
    u64 interpreter;                      /* runtime_addr of its interpreter state */
    u32 tid;                              /* 0: not known */
    u32 recipe;                           /* index */
};

#define STATES_PER_THREAD 8
#define CODE_NOTES 16
#define NOTED_BYTES 120                   /* of a text; a multiple of 8 */

/* Parts of a code object's record. */
#define PART_NAME 0
#define PART_QUALIFIED_NAME 1
#define PART_FILE_NAME 2
#define PART_LINE_TABLE 3

struct noted_text {
    u32 bytes;                            /* 0: it could not be copied */
    u16 wide;                             /* log2 of the bytes of a character */
    u16 is_cut;                           /* it is longer */
    u64 words[NOTED_BYTES / 8];
};

/* What a handler noted of a code object without a number: code_notes.c. */
struct code_note {
    volatile u32 version;                 /* odd while it is written */
    u32 fingerprint;
    u64 code;                             /* runtime_addr, 0: free */
    u32 first_line;
    u32 reserved;
    struct noted_text name;
    struct noted_text file;
};

/* A text of Python without a hash, which several code objects have: the names of files. */
struct mixed_string {
    u64 string;                           /* runtime_addr, 0: none */
    u64 mix;
};

/* The walk over one thread's managed frames. One for each thread that is sampled, and one for the sampler thread. */
struct managed_walk {
    const struct agent *agent;
    u32 in_handler;
    u32 verdict;                          /* enum managed_verdict */
    u32 marks;                            /* enum mark */
    u32 run_count;
    u32 word_count;
    u32 recipe;                           /* index of that of the thread state that is walked */
    u32 placed;                           /* up to this run, those that have their native frame got it */
    u32 is_cut;                           /* more frames than fit */
    u32 steps_left;                       /* along chains of frames */
    u64 leaf_sp;
    u64 leaf_frame;                       /* runtime_addr of the innermost managed frame, 0: none */
    u32 is_alive;                         /* what is read cannot be unmapped meanwhile: no checks */
    u32 is_copying;                       /* in a handler: another thread may take away what is read, so it is copied */
    u64 runtime_start;                    /* a variable of the interpreter's file, which stays mapped */
    u64 runtime_bytes;
    u64 stack_start;                      /* of the thread's own stack: what the native walk has read of it, in place */
    u64 stack_bytes;
    const u64 *measured;                  /* the recipe that the next two are of */
    u32 frame_bytes;                      /* up to its last field that is read */
    u32 code_bytes;
    u64 span[SPAN_BYTES / 8];             /* a copy of what lies on two pages; only for sleeping threads */
    u64 page_last;                        /* last byte of the page that was read last, in the handler; 0: none */
    u64 walk_number;                      /* 0 … PAGE_BYTES - 1 */
    u64 pages[CACHED_PAGES];              /* page | walk_number: known to be readable, or copied; others: not */
    struct mixed_string mixed_strings[MIXED_STRINGS]; /* by address */
    u8 *copies;                           /* CACHED_PAGES pages; only for sleeping threads */
    u64 lines[CACHED_LINES];              /* addresses of what a handler has copied; 1: none */
    u64 line_words[CACHED_LINES][LINE_BYTES / 8];
    struct python_state states[STATES_PER_THREAD]; /* those of the thread */
    struct managed_run runs[RUNS_MAX];
    u32 next_note;
    u32 noted;                            /* in this walk */
    struct code_note notes[CODE_NOTES];
    u64 words[MAX_FRAMES];
    u64 cfas[MAX_FRAMES];                 /* of the native frames; 0: not known */
};

struct python_states {
    volatile u32 count;
    u32 reserved;
    struct python_state states[STATES_MAX];
};

#define LOCKS_MAX 16                      /* sub-interpreters may have their own */

/* The lock of one or more interpreters. */
struct python_lock {
    u64 runtime_addr;
    u32 recipe;                           /* index */
    u32 slot;                             /* index of the thread that held it last */
};

struct code_slot {
    u64 code;                             /* runtime_addr of the code object, 0: free */
    u64 known;                            /* fingerprint << 32 | code id: read and written whole */
};

#endif
