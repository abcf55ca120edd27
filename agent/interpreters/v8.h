/*
 * JavaScript frames of V8: what its files share.
 *
 *   v8_leaf.c    both      where code has its return address while it makes or leaves its frame
 *   v8_frame.c   both      one step up the stack; what a frame says of its function
 *   v8_heap.c    sampler   objects: kinds, functions, code
 *   v8_known.c   sampler   code and bytecode with their functions: whether they still are what they were; records for the host
 *   v8_places.c  sampler   words of a stack → words for the host
 *
 * "Both" runs in the handler for a running thread, and in the sampler thread for a sleeping one.
 *
 * All code of V8 keeps its frames in rbp, so each step is exact. A frame of JavaScript holds its function; the garbage
 * collector moves that. So what the handler keeps of a frame lies on the stack, and only the sampler thread follows it, soon
 * after: to the SharedFunctionInfo, which stays in its place nearly always. What a frame is known by does not move either:
 * bytecode and an offset in it, or a pc in machine code. Everything is checked before it is used, and again once a round.
 *
 * Versions live on the host: recipe.h, profiler/symbols/interpreters/v8/.
 */
#ifndef FLAMETAP_V8_H
#define FLAMETAP_V8_H

/*
 * Words of a stack (managed.h).
 *
 *   WORD_V8_MACHINE      two words. Recipe in bits 55..48, pc; then the function: its runtime_addr / 8, 0 if not known.
 *                        V8_MUST_FIT, in the first: there may be no such frame, unless the code at the pc is that function's
 *   WORD_V8_INTERPRETED  three words. The same two, the second with bits 11..0 of the offset in the bytecode in its bits
 *                        55..44; then the bytecode's runtime_addr / 8, with bits 23..12 of the offset in the same place
 */
#define WORD_V8_MACHINE 6
#define WORD_V8_INTERPRETED 7
#define V8_MACHINE_WORDS 2
#define V8_INTERPRETED_WORDS 3
#define V8_OFFSET_SHIFT 44
#define V8_OFFSET_BITS 12
#define V8_MUST_FIT (1ULL << 47)          /* no pc has this bit */
#define V8_PC_MASK (V8_MUST_FIT - 1)
#define V8_OBJECT_MASK ((1ULL << V8_OFFSET_SHIFT) - 1)

#define V8_TAG 1ULL                       /* in the lowest two bits of a pointer to an object */
#define V8_TAG_MASK 3ULL

/* What a pc is in. */
struct v8_place {
    u64 pc;                               /* 0: free */
    u64 object;                           /* runtime_addr of the Code; 0: it is none of JavaScript's */
    u64 round;                            /* when that was found out */
    u64 is_regexp;
};

/* A Code or bytecode of a function. */
struct v8_known {
    u64 object;                           /* runtime_addr; 0: free */
    u64 start;                            /* of its instructions */
    u64 bytes;
    u64 shared;                           /* runtime_addr of its function; 0: it is not known yet, */
    u64 script;                           /* … of that one's script */
    u64 name;                             /* … of the script's name … */
    u64 source;                           /* … and source; */
    u64 deopt;                            /* … of what optimised code says of its functions; 0: none */
    u64 seen;                             /* what all of these held, mixed; without a function, what the object itself held */
    u64 round;                            /* when that was last compared */
    u32 code_id;
    u32 kind;                             /* enum v8_code */
};

#define V8_PLACE_SLOTS 16384
#define V8_KNOWN_SLOTS 8192
#define V8_MAPS_KNOWN 8                   /* maps of what holds code: some for each isolate at most */

/* A Code as the sampler thread has read it. */
struct v8_machine_code {
    u64 object;                           /* runtime_addr */
    u64 start;                            /* of its instructions */
    u64 bytes;
    u32 kind;
    u64 words[V8_OBJECT_BYTES / 8];
};

#endif
