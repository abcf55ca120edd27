/* A promise that is broken ends the program. */
#ifndef REQUIRE_H
#define REQUIRE_H

#include <stdio.h>
#include <stdlib.h>

static void require(int condition, const char *promise)
{
    if (!condition) {
        fprintf(stderr, "broken promise: %s\n", promise);
        abort();
    }
}

#endif
