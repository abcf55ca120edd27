/*
 * A thread for each kind of wait, again and again for a few milliseconds: see waits.h. usage: waits quiet | signals
 *
 * quiet:   the program uses no signals: every EINTR is somebody else's.
 * signals: it sends signals to its own threads, whose EINTRs it expects, all of them.
 */
#include "waits.h"

int main(int count, char **arguments)
{
    if (count != 2 || (strcmp(arguments[1], "quiet") != 0 && strcmp(arguments[1], "signals") != 0)) {
        fputs("usage: waits quiet|signals\n", stderr);
        return 2;
    }
    waits_begin(strcmp(arguments[1], "signals") == 0);
    target_ready("");
    while (!target_asked_to_stop())
        usleep(2000);
    waits_report(stdout);
    waits_close();
    _exit(0); /* the threads never end by themselves */
}
