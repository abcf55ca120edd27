/*
 * A program that gives up root: prints "ready", and for each line of standard input goes a step on: other groups and
 * user, dumpable again; root's effective user no more, and again (with "seteuid"). At the end it prints whether it can be
 * dumped. Exit code 42.
 */
#define _GNU_SOURCE
#include <grp.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    gid_t groups[2] = {33, 44};
    char line[16];
    int is_brief = argc > 1 && strcmp(argv[1], "seteuid") == 0, step;
    puts("ready");
    fflush(stdout);
    for (step = 0; fgets(line, sizeof line, stdin); step++) {
        if (is_brief && seteuid(step % 2 ? 0 : 65534) != 0)
            return 1;
        if (!is_brief && step == 0 && (setgroups(2, groups) != 0 || setgid(65534) != 0 || setuid(65534) != 0))
            return 1;
        if (!is_brief)
            prctl(PR_SET_DUMPABLE, 1);
        puts("done");
        fflush(stdout);
    }
    printf("dumpable %d\n", prctl(PR_GET_DUMPABLE));
    return 42;
}
