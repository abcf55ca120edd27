/*
 * How to find the frames of one interpreter in memory: numbers that the host knows by the interpreter's version, and
 * gives to the agent before it starts and whenever another interpreter is loaded. Offsets are in bytes; ABSENT where a
 * version has no such field. profiler/symbols/interpreters/ makes them. Part of the wire format: abi.h has
 * its version.
 */
#ifndef FLAMETAP_RECIPE_H
#define FLAMETAP_RECIPE_H

#define RECIPES_MAX 8
#define ABSENT (~0ULL)
#define RUNTIME_PYTHON 1
#define RUNTIME_HOTSPOT 2
#define RUNTIME_V8 3
#define RUNTIME_RUBY 4
#define RUNTIME_REGISTERED 5              /* no interpreter: a list of registered code, at RECIPE_RUNTIME_ADDR */

enum python_walk {
    PYTHON_FRAME_OBJECTS = 1,             /* 3.8, 3.9: thread state → frame objects; one runs in one call of the loop */
    PYTHON_CFRAME_OBJECTS = 2,            /* 3.10: the same, and a C frame in each call of the loop */
    PYTHON_CFRAMES = 3,                   /* 3.11: C frames → interpreter frames; is_entry ends a C frame's run */
    PYTHON_CFRAME_ENTRIES = 4,            /* 3.12: C frame → interpreter frames, with an entry frame in each call */
    PYTHON_ENTRIES = 5,                   /* 3.13 …: thread state → interpreter frames, with such entry frames */
};

enum recipe {                             /* index into an array of u64: Python's */
    RECIPE_RUNTIME = 0,                   /* RUNTIME_PYTHON; in all recipes */
    RECIPE_ID = 1,                        /* 1, 2, 3 …: number of the interpreter; in all recipes */
    RECIPE_WALK = 2,                      /* enum python_walk */
    RECIPE_RUNTIME_ADDR = 3,              /* runtime_addr of _PyRuntime */
    RECIPE_CODE_TYPE_ADDR = 4,            /* runtime_addr of PyCode_Type */
    RECIPE_IMAGE_START = 5,               /* runtime_addr: all mappings of the file that holds the interpreter; in all recipes */
    RECIPE_IMAGE_END = 6,
    RECIPE_EVAL_START = 7,                /* runtime_addr: _PyEval_EvalFrameDefault; needed for 3.8 and 3.9 only */
    RECIPE_EVAL_END = 8,
    RECIPE_EVAL_COLD_START = 9,           /* its part for rare cases, 0 if there is none */
    RECIPE_EVAL_COLD_END = 10,
    RECIPE_RUNTIME_HEAD = 11,             /* offsets in _PyRuntime: the first interpreter */
    RECIPE_RUNTIME_FINALIZING = 12,
    RECIPE_RUNTIME_BYTES = 13,            /* size of _PyRuntime, 0 if unknown */
    RECIPE_INTERPRETER_NEXT = 14,         /* offsets in an interpreter state */
    RECIPE_INTERPRETER_THREADS = 15,
    RECIPE_THREAD_NEXT = 16,              /* offsets in a thread state */
    RECIPE_THREAD_INTERPRETER = 17,
    RECIPE_THREAD_POINTER = 18,           /* thread_id: pthread_self() */
    RECIPE_THREAD_TID = 19,               /* native_thread_id, ABSENT before 3.11 */
    RECIPE_THREAD_FRAME = 20,             /* frame, or current_frame */
    RECIPE_THREAD_CFRAME = 21,
    RECIPE_THREAD_ROOT_CFRAME = 22,
    RECIPE_THREAD_BASE_FRAME = 23,        /* pointer to the sentinel frame, 3.15 */
    RECIPE_THREAD_DATASTACK_TOP = 24,
    RECIPE_THREAD_DATASTACK_CHUNK = 25,
    RECIPE_CFRAME_FRAME = 26,             /* offsets in a C frame: its current frame */
    RECIPE_CFRAME_PREVIOUS = 27,
    RECIPE_FRAME_PREVIOUS = 28,           /* offsets in a frame */
    RECIPE_FRAME_CODE = 29,
    RECIPE_FRAME_CODE_TAGS = 30,          /* low bits of that word that are no part of the pointer */
    RECIPE_FRAME_POSITION = 31,           /* the index of the instruction, or a pointer to it */
    RECIPE_FRAME_POSITION_UNIT = 32,      /* bytes that one counts of the index; 0: it is a pointer */
    RECIPE_FRAME_OWNER = 33,              /* u8 */
    RECIPE_FRAME_IS_ENTRY = 34,           /* u8, 3.11 */
    RECIPE_CODE_BYTES = 35,               /* offsets in a code object: the instructions, if they are in it */
    RECIPE_CODE_FIRST_LINE = 36,          /* i32 */
    RECIPE_CODE_FILE_NAME = 37,
    RECIPE_CODE_NAME = 38,
    RECIPE_CODE_QUALIFIED_NAME = 39,
    RECIPE_CODE_LINE_TABLE = 40,
    RECIPE_CODE_VERSION = 41,             /* u32, unique for each code object, 3.12 … */
    RECIPE_OBJECT_TYPE = 42,              /* offsets in any object */
    RECIPE_STRING_LENGTH = 43,            /* offsets in a str */
    RECIPE_STRING_HASH = 44,
    RECIPE_STRING_STATE = 45,             /* u32 */
    RECIPE_STRING_KIND_SHIFT = 46,        /* bit of `state` where kind (3 bits), compact (1), ascii (1) begin */
    RECIPE_STRING_ASCII = 47,             /* the characters of a compact ASCII string */
    RECIPE_STRING_COMPACT = 48,           /* those of other compact strings; a pointer to them in the rest */
    RECIPE_BYTES_LENGTH = 49,             /* offsets in a bytes object */
    RECIPE_BYTES_DATA = 50,
    RECIPE_GIL_ADDR = 51,                 /* runtime_addr of the lock, ABSENT if each interpreter points to its own */
    RECIPE_INTERPRETER_GIL = 52,          /* offset of that pointer in an interpreter state */
    RECIPE_GIL_HOLDER = 53,               /* offsets in the lock: last_holder */
    RECIPE_GIL_LOCKED = 54,               /* i32 */
    RECIPE_GIL_BYTES = 55,                /* size of the lock */
    RECIPE_INTERPRETER_COLLECTING = 56,   /* i32: the garbage collector runs */
    RECIPE_WORDS = 96,
};

#define RUBY_CONTROL_FRAMES 6             /* RECIPE_WALK of Ruby: thread → execution context → an array of frames */

/*
 * Ruby's: from a table of its versions (vm_core.h, ractor_core.h, iseq.h). The words above, where Ruby has the like: the
 * variable that points to the virtual machine (RUNTIME_ADDR), rb_vm_exec (EVAL), a thread's pthread_t and virtual machine
 * (THREAD_POINTER, THREAD_INTERPRETER), a frame's iseq and pc (FRAME_CODE, FRAME_POSITION), the place, label and lines of
 * the iseq's body (CODE_…), strings. And these, offsets in bytes:
 */
enum ruby_recipe {
    RUBY_VM_RACTORS = 57,                 /* in the virtual machine: the head of the list of ractors */
    RUBY_RACTOR_NODE = 58,                /* in a ractor: its node of that list */
    RUBY_RACTOR_THREADS = 59,             /* the head of its list of threads */
    RUBY_RACTOR_OWNER = 60,               /* the thread that holds its lock (GVL) */
    RUBY_THREAD_NODE = 61,                /* in a thread: its node of that list */
    RUBY_THREAD_RACTOR = 62,
    RUBY_THREAD_NATIVE = 63,              /* its native thread, in which THREAD_POINTER is; ABSENT: it is in the thread */
    RUBY_THREAD_CONTEXT = 64,             /* the execution context of its current fiber */
    RUBY_CONTEXT_STACK = 65,              /* in that: the stack of values, at whose end the frames are */
    RUBY_CONTEXT_STACK_WORDS = 66,
    RUBY_CONTEXT_FRAME = 67,              /* the innermost frame */
    RUBY_FRAME_BYTES = 68,
    RUBY_FRAME_ENVIRONMENT = 69,          /* in a frame: pointer to the word with its kind and flags */
    RUBY_CODE_BODY = 70,                  /* in an iseq; the others are in its body */
    RUBY_BODY_WORDS = 71,                 /* u32, length of its instructions */
    RUBY_BODY_LINE_SHIFT = 72,            /* bits that are no part of the first line: 1 where that is an object */
    RUBY_BODY_EXTENT = 73,                /* four u32: begin and end in the file */
    RUBY_BODY_LINES = 74,                 /* u32, entries of the table of lines */
    RUBY_BODY_PLACES = 75,                /* the table that says which entry is whose */
    RUBY_STRING_POINTER = 76,             /* in a string: pointer to characters that are not in it */
    RUBY_STRING_SHIFT = 77,               /* where in its flags the length of others is; ABSENT: it is where that of all is */
    RUBY_SYMBOLS = 78,                    /* runtime_addr of the array of arrays with the names of all symbols; ABSENT: methods in
                                           * C have no names */
    RUBY_CLASS_EXTENSION = 79,            /* in a class: what the next ones are in … */
    RUBY_CLASS_IS_INLINE = 80,            /* … 1 if it lies there, 0 if there is a pointer to it */
    RUBY_CLASS_VARIABLES = 81,            /* in that: a hash table, with the next two as keys; ABSENT: they lie in it */
    RUBY_CLASS_PATH = 82,                 /* its name with those of the modules around it */
    RUBY_CLASS_ATTACHED = 83,             /* of a singleton class: whose it is */
    RUBY_BODY_PARENT = 84,                /* in an iseq's body: the iseq around it */
    RUBY_CLASS_SERIAL = 85,               /* in a class: a number that no other one has, nor will have; ABSENT since 3.2 */
};

#define HOTSPOT_HEAPS 4                   /* code heaps of one virtual machine */

/*
 * HotSpot's: from the tables that it exports for debuggers (vmStructs.hpp). Fields are offsets in bytes in the structure of
 * the first part of the name; those that point somewhere hold a u64, if nothing else is said.
 */
enum hotspot_recipe {
    HOTSPOT_CALL_STUB_RETURN = 2,         /* runtime_addr to which Java returns in the stub that called it */
    HOTSPOT_INTERPRETER = 3,              /* runtime_addr in the interpreter's code */
    HOTSPOT_NUMBER_BASE = 4,              /* the least byte of a compressed number: 0, or 1 since 20 */
    HOTSPOT_HEAP = 7,                     /* runtime_addr of HOTSPOT_HEAPS structures CodeHeap */
    HOTSPOT_HEAP_LOW = 11,
    HOTSPOT_HEAP_HIGH = 12,
    HOTSPOT_HEAP_MAP = 13,                /* its map of segments: one byte for each */
    HOTSPOT_HEAP_SEGMENT_SHIFT = 14,      /* u32 */
    HOTSPOT_BLOCK_USED = 15,              /* u8 */
    HOTSPOT_BLOCK_BYTES = 16,             /* size of a block's header, which a code blob follows */
    HOTSPOT_BLOB_NAME = 17,
    HOTSPOT_BLOB_BYTES = 18,              /* i32, size */
    HOTSPOT_BLOB_FRAME_WORDS = 19,        /* i32, size of its frames with the return address */
    HOTSPOT_BLOB_FRAME_COMPLETE = 20,     /* i16, offset in the code where the frame is made */
    HOTSPOT_BLOB_CODE = 21,               /* ABSENT where the next one is there */
    HOTSPOT_BLOB_CODE_OFFSET = 22,        /* u16 */
    HOTSPOT_COMPILED_METHOD = 23,         /* nmethod */
    HOTSPOT_COMPILED_ID = 24,             /* u32 */
    HOTSPOT_COMPILED_LEVEL = 25,          /* u8 */
    HOTSPOT_COMPILED_ORIGINAL = 26,       /* i32, where its frames hold the return address that deoptimising replaced */
    HOTSPOT_COMPILED_DEOPT = 27,          /* the address that replaces it; ABSENT where the next one is there */
    HOTSPOT_COMPILED_DEOPT_OFFSET = 28,   /* i32, from the blob */
    HOTSPOT_COMPILED_ENTRY = 29,          /* behind the check of the receiver's class; ABSENT where the next one is there */
    HOTSPOT_COMPILED_ENTRY_OFFSET = 30,   /* u16, from the code */
    HOTSPOT_PLACES_BASE = 31,             /* memory that the next three are offsets in; ABSENT: the blob itself */
    HOTSPOT_PLACES = 32,                  /* i32, descriptions of places in the code (PcDesc) … */
    HOTSPOT_PLACES_END = 33,              /* i32 */
    HOTSPOT_SCOPES_OFFSET = 34,           /* i32, and what they refer to: methods and bytecode */
    HOTSPOT_SCOPES = 35,                  /* the same; ABSENT where the former is there */
    HOTSPOT_METHODS_BASE = 36,            /* memory that the next two are added to; ABSENT: the blob itself */
    HOTSPOT_METHODS_OFFSET = 37,          /* i32, the pointers to methods that scopes refer to */
    HOTSPOT_METHODS_OFFSET_2 = 38,        /* u16 */
    HOTSPOT_PLACE_BYTES = 39,             /* size of a PcDesc */
    HOTSPOT_METHOD_CONST = 40,
    HOTSPOT_CONST_POOL = 41,
    HOTSPOT_CONST_NAME = 42,              /* u16, index into the pool */
    HOTSPOT_CONST_SIGNATURE = 43,         /* u16 */
    HOTSPOT_CONST_CODE_BYTES = 44,        /* u16 */
    HOTSPOT_CONST_FLAGS = 45,             /* u32, or u16 followed by anything */
    HOTSPOT_CONST_LINES_FLAG = 46,        /* the flag of those that have a line table */
    HOTSPOT_CONST_BYTES = 47,             /* size; the bytecode follows, then the line table */
    HOTSPOT_CONST_WORDS = 48,             /* i32, size with all that follows, in words */
    HOTSPOT_POOL_HOLDER = 49,
    HOTSPOT_POOL_LENGTH = 50,             /* u32 */
    HOTSPOT_POOL_SOURCE = 51,             /* u16, index of the source file's name; ABSENT where KLASS_SOURCE is there */
    HOTSPOT_POOL_BYTES = 52,              /* size; its entries follow */
    HOTSPOT_KLASS_NAME = 53,
    HOTSPOT_KLASS_SOURCE = 54,            /* u16 */
    HOTSPOT_SYMBOL_LENGTH = 55,           /* u16 */
    HOTSPOT_SYMBOL_BODY = 56,
    HOTSPOT_FRAME_BYTECODE = 57,          /* where a frame of the interpreter holds the address of its bytecode: bytes below
                                           * rbp */
    HOTSPOT_THREADS = 58,                 /* runtime_addr of the pointer to the list of threads */
    HOTSPOT_THREADS_LENGTH = 59,          /* u32 */
    HOTSPOT_THREADS_FIRST = 60,           /* array of pointers to threads; ABSENT: the list is linked */
    HOTSPOT_THREAD_NEXT = 61,             /* link of that list */
    HOTSPOT_THREAD_SYSTEM = 62,           /* pointer to what the next one is in */
    HOTSPOT_SYSTEM_TID = 63,              /* u32 */
    HOTSPOT_THREAD_ANCHOR_SP = 64,        /* where its Java frames end, while it runs other code */
    HOTSPOT_THREAD_ANCHOR_PC = 65,
    HOTSPOT_THREAD_ANCHOR_FP = 66,
    HOTSPOT_HEAP_LIMIT = 67,              /* to where a code heap may grow */
    HOTSPOT_HEAP_MAP_HIGH = 68,           /* end of its map of segments */
    HOTSPOT_OUTERMOST = 69,               /* 1: of methods that are inlined into each other, only the outermost is wanted; else ABSENT */
    HOTSPOT_THREAD_PENDING_MONITOR = 70,  /* the monitor that a thread waits to enter; ABSENT if that is not known */
    HOTSPOT_MONITOR_OWNER = 71,
    HOTSPOT_THREAD_OWNER_ID = 72,         /* the number by which monitors know it; ABSENT where they have its address */
};

/*
 * V8's: from the symbols that it exports for debuggers (v8dbg_…, tools/gen-postmortem-metadata.py). Offsets are in bytes from
 * the start of an object; those that point somewhere hold a tagged u64, if nothing else is said.
 */
enum v8_recipe {
    V8_IMAGE_BIAS = 2,                    /* of the file that holds the engine: runtime_addr - file_addr */
    V8_BUILTINS_START = 3,                /* file_addr: the engine's own functions in machine code … */
    V8_BUILTINS_END = 4,
    V8_INTERPRETER_START = 7,             /* file_addr: the one of them that runs bytecode; all of them if it is not known */
    V8_INTERPRETER_END = 8,
    V8_MAP_TYPE = 9,                      /* u16, the kind of the objects that have this map */
    V8_SHARED_TYPE = 10,                  /* kinds: SharedFunctionInfo … */
    V8_CODE_TYPE = 11,
    V8_BYTECODE_TYPE = 12,
    V8_FUNCTION_SHARED = 13,              /* in a JSFunction */
    V8_SHARED_DATA = 14,                  /* in a SharedFunctionInfo: its bytecode or baseline code */
    V8_CODE_START = 15,                   /* u64, address of the instructions; ABSENT if they lie in the Code itself */
    V8_CODE_INSTRUCTIONS = 16,            /* offset of the instructions: in the Code, or in what holds them */
    V8_CODE_BYTES = 17,                   /* u32 */
    V8_CODE_FLAGS = 18,                   /* u32, the kind of code in the lowest four bits */
    V8_CODE_DEOPT = 19,                   /* what optimised code says of its functions */
    V8_CODE_TABLE = 20,                   /* its table of positions */
    V8_DEOPT_SHARED = 21,                 /* in the former: the function that was compiled … */
    V8_WRAPPER_SHARED = 22,               /* … or what holds it: where; ABSENT if it is not held by anything */
    V8_KIND_BASELINE = 23,                /* kinds of code of a higher number are optimised */
    V8_SHARED_SCRIPT = 24,                /* in a SharedFunctionInfo: its script, or what is known of it for debuggers */
    V8_SHARED_NUMBER = 25,                /* u32, which one it is in its script */
    V8_SCRIPT_SOURCE = 26,
    V8_SCRIPT_NAME = 27,
    V8_SCRIPT_NUMBER = 28,                /* a small integer, another one for each script */
    V8_DEOPT_NUMBER = 29,                 /* in what optimised code says: a small integer, another one for each compilation */
    V8_BYTECODE_TABLE = 30,               /* in bytecode: its table of positions */
    V8_KIND_REGEXP = 31,                  /* code of this kind is a regular expression; ABSENT if that is not known */
};

#endif
