/* The end of a driver with cases: `DRIVER list` names them, `DRIVER CASE` runs one. */
#ifndef CASES_H
#define CASES_H

#include <stdio.h>
#include <string.h>

struct test {
    const char *name;
    void (*run)(void);
};

#define CASE(name) {#name, case_##name}

/* AddressSanitizer has its notes here: they can be read, but not by the code that it checks. */
#define NOTES_START 0x7fff8000ULL
#define NOTES_BYTES (0x10007fff8000ULL - NOTES_START)

/* Return a value that may be damage; 0 instead of one that is an address of such a note. */
static inline unsigned long long damage(unsigned long long value)
{
    return value - NOTES_START < NOTES_BYTES ? 0 : value;
}

static int cases_run(const struct test *tests, size_t test_count, int count, char **arguments)
{
    for (size_t i = 0; i < test_count; i++) {
        if (count > 1 && !strcmp(arguments[1], "list"))
            printf("%s\n", tests[i].name);
        else if (count > 1 && !strcmp(arguments[1], tests[i].name))
            tests[i].run();
    }
    return 0;
}

#endif
