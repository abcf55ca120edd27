/*
 * Java frames of HotSpot: what its files share.
 *
 *   hotspot_heap.c    both      pc → the code blob that contains it
 *   hotspot_method.c  both      what tells one method from another
 *   hotspot_code.c    both      where compiled code has its return address, by its instructions
 *   hotspot_cache.c   both      steps over frames that were met before
 *   hotspot_leave.c   both      how a frame is left
 *   hotspot_continuation.c both … by virtual threads, for their carrier
 *   hotspot_stub.c    both      … by stubs and adapters
 *   hotspot_interpreted.c both  … by the interpreter
 *   hotspot_frame.c   both      … by compiled code; one step up the stack
 *   hotspot_anchor.c  both      where a thread left Java
 *   hotspot_threads.c sampler   the machine's own record of each thread
 *   java_monitor.c    sampler   who holds the monitor that a thread waits for
 *   hotspot_scopes.c  sampler   pc → methods, those that were inlined among them
 *   hotspot_names.c   sampler   methods and stubs → records for the host
 *   hotspot_keep.c    sampler   where the code heaps are
 *
 * "Both" runs in the handler for a running thread, and in the sampler thread for a sleeping one.
 *
 * The virtual machine keeps all code that it makes in a few heaps. Each is reserved when it starts, grows, and never
 * shrinks; next to it lies a map of its segments. Both are read in place, within the bounds that the sampler thread has
 * read before and found to be mapped, or up to where the machine itself says that both have grown since. Everything else
 * is read as managed_memory.c says.
 *
 * A frame of compiled code is two words: its pc, then its compilation's number, 0 for stubs. A frame of the interpreter is
 * like a code object without a number (managed.h): its address is that of the Method.
 */
#ifndef FLAMETAP_HOTSPOT_H
#define FLAMETAP_HOTSPOT_H

#define WORD_COMPILED 5                   /* recipe in bits 55..48, runtime_addr: pc of a leaf, else the return address; the
                                           * second word: bit 32 it is a leaf, bits 31..0 number of the compilation */
#define COMPILED_LEAF (1ULL << 32)
#define JAVA_WORDS 2                      /* of one frame */

enum blob_kind {
    BLOB_OTHER = 0,                       /* a frame of a known size, if any */
    BLOB_COMPILED = 1,
    BLOB_NATIVE = 2,                      /* calls a native method */
    BLOB_INTERPRETER = 3,
    BLOB_STUBS = 4,                       /* many routines, some with a frame in rbp */
    BLOB_BARE = 5,                        /* has no frame: adapters */
    BLOB_BACK = 6,                        /* brings frames of virtual threads back */
};

struct code_blob {
    u64 start;                            /* runtime_addr */
    u64 end;
    u64 limit;                            /* up to where its heap can be read */
    u64 code;
    u32 kind;                             /* enum blob_kind */
    u32 compile_id;                       /* 0 if it is not compiled */
    i32 frame_words;
    i32 frame_complete;
};

struct code_heap {
    u64 low;
    u64 bytes;                            /* known to be mapped */
    u64 limit;                            /* bytes that it may have */
    u64 high_at;                          /* where its end is now; the machine writes it when the memory is there */
    u64 map_high_at;                      /* the same for the map */
    u64 map;                              /* runtime_addr of the map of segments */
    u64 shift;                            /* log2 of a segment's bytes */
};

#define KNOWN_BLOBS 2                     /* the interpreter, the stubs that call Java */
struct code_heaps {
    u64 low;                              /* of all, with what they may grow by */
    u64 bytes;
    u32 count;
    u32 recipe;                           /* index */
    struct code_heap heaps[HOTSPOT_HEAPS];
    struct code_blob known[KNOWN_BLOBS];  /* large ones that stay */
};

/* A method, as far as it tells itself from others. */
struct java_method {
    u64 codes;                            /* runtime_addr of its bytecode */
    u32 code_bytes;                       /* 0: native or abstract */
    u32 fingerprint;
};

#define FRAME_CACHE_SLOTS 4096            /* hotspot_cache.c */
#define FRAME_CACHE_BYTES (FRAME_CACHE_SLOTS * 32)
#define KNOWN_METHODS 1024                /* hotspot_method.c */
#define JAVA_PLACE_SLOTS 16384
#define JAVA_PLACE_WORDS 65536

/* What a pc in compiled code stands for: words of managed.h, innermost first. */
struct java_place {
    u64 pc;                               /* 0: free */
    u64 detail;                           /* the second word of its frame */
    u32 first;                            /* index into java_words */
    u32 count;
};

#endif
