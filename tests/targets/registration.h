/*
 * The list in which a program registers its code for debuggers: GDB manual, "JIT Interface". Include once.
 */
#include <stdint.h>

struct jit_code_entry {
    struct jit_code_entry *next, *prev;
    const char *object;
    uint64_t object_bytes;
};

struct {
    uint32_t version, action;
    struct jit_code_entry *relevant, *first;
} __jit_debug_descriptor = {1, 0, 0, 0};
