/*
 * The main thread holds the dynamic loader's lock nearly all the time, as a program does that throws exceptions or
 * loads plugins: whoever wants to load a library while this thread is stopped waits for it.
 */
#include "target.h"

#include <link.h>

static int asleep(struct dl_phdr_info *info, size_t size_bytes, void *unused)
{
    (void)info;
    (void)size_bytes;
    (void)unused;
    usleep(10000);
    return 1;
}

int main(void)
{
    target_ready("");
    while (!target_asked_to_stop())
        dl_iterate_phdr(asleep, NULL);
    return 0;
}
