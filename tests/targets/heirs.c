/*
 * A program that forks as fast as it can, and whose children need what the C library guards with locks. A child that
 * was made while another thread held one finds it taken for ever.
 * usage: heirs main|thread
 *
 * The main thread forks, or a second one while the main thread waits. Each child loads and unloads a library, looks up
 * symbols, changes the locale, asks for a translation and a conversion, makes a thread, prints and exits; one all of whose
 * threads wait in futex(2) PATIENCE_NS later, and a second after that at the same place, is ended, and so is one that
 * takes TOO_LONG_NS. The report is
 * "children N hung H crashed C", preceded by one line "lost AT_NS REASON STEP" for each of the latter two: when it was
 * made, its wait status, and what it was about to do.
 */
#include "target.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <iconv.h>
#include <libintl.h>
#include <locale.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define AT_ONCE 16
#define PATIENCE_NS 1000000000ULL
#define TOO_LONG_NS 30000000000ULL
#define LOST_MAX 4096

struct child {
    pid_t pid;
    uint64_t at_ns;
    uint64_t looked_ns;
    char waits[512];                      /* where each of its threads waited then: /proc/PID/task/TID/syscall, proc(5) */
};

static struct child running[AT_ONCE];
static const char *volatile *steps;       /* shared with the children: one for each place in `running` */
static struct {
    uint64_t at_ns;
    int status;
    const char *step;
} lost[LOST_MAX];
static unsigned long children, hung, crashed;

static void *do_nothing(void *argument)
{
    return argument;
}

static int live(const char *volatile *step)
{
    *step = "setlocale";
    if (!setlocale(LC_ALL, "C") || !setlocale(LC_ALL, "C.UTF-8"))
        return 2;
    *step = "dlopen";
    void *library = dlopen("libnss_files.so.2", RTLD_NOW);
    *step = "dlsym";
    if (!library || !dlsym(RTLD_DEFAULT, "qsort"))
        return 3;
    *step = "dlclose";
    dlclose(library);
    *step = "dgettext";
    dgettext("nobody", "words");
    *step = "strerror";
    strerror(12345);
    *step = "iconv_open";
    iconv_close(iconv_open("UTF-16", "UTF-8"));
    *step = "localtime";
    time_t now = time(NULL);
    localtime(&now);
    *step = "setenv";
    setenv("HEIR", "yes", 1);
    *step = "pthread_create";
    pthread_t thread;
    if (pthread_create(&thread, NULL, do_nothing, NULL) || pthread_join(thread, NULL))
        return 4;
    *step = "malloc";
    free(malloc(1 << 20));
    *step = "fopen";
    FILE *nowhere = fopen("/dev/null", "w");
    fprintf(nowhere, "%g\n", 1.5);
    fclose(nowhere);
    *step = "exit";
    return 0;
}

/* Where the threads of a process wait, a line for each. False if one of them does not wait in futex(2): it may wake the
 * others, and on a busy machine it may be long before it has a CPU. */
static int waits_for_locks(pid_t pid, char *waits, size_t size)
{
    char path[64];
    size_t length = 0;
    int all = 1;
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *threads = opendir(path);
    if (!threads)
        return 0;
    for (struct dirent *thread = readdir(threads); thread && all; thread = readdir(threads)) {
        if (thread->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "/proc/%d/task/%.10s/syscall", pid, thread->d_name);
        int fd = open(path, O_RDONLY);
        ssize_t got = read(fd, waits + length, size - length - 1);
        close(fd);
        length += got > 0 ? (size_t)got : 0;
        waits[length] = 0;
        all = got > 0 && atoi(waits + length - got) == SYS_futex;
    }
    closedir(threads);
    return all && length;
}

/* Ends children that will wait for ever. */
static void look_for_hung(void)
{
    uint64_t now_ns = target_now_ns();
    for (int i = 0; i < AT_ONCE; i++) {
        char waits[sizeof running[i].waits] = "";
        if (!running[i].pid || now_ns - running[i].looked_ns < PATIENCE_NS)
            continue;
        running[i].looked_ns = now_ns;
        if ((waits_for_locks(running[i].pid, waits, sizeof waits) && strcmp(waits, running[i].waits) == 0) ||
            now_ns - running[i].at_ns > TOO_LONG_NS)
            kill(running[i].pid, SIGKILL);
        strcpy(running[i].waits, waits);
    }
}

/* Takes note of the end of children. True while there are others. */
static int reap(void)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        for (int i = 0; i < AT_ONCE; i++) {
            if (running[i].pid != pid)
                continue;
            running[i].pid = 0;
            if (status == 0)
                break;
            unsigned long at = hung + crashed;
            if (at < LOST_MAX) {
                lost[at].at_ns = running[i].at_ns;
                lost[at].status = status;
                lost[at].step = steps[i];
            }
            if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
                hung++;
            else
                crashed++;
            break;
        }
    }
    return pid == 0;
}

static void make_heirs(void)
{
    while (!target_asked_to_stop()) {
        int place = 0;
        while (place < AT_ONCE && running[place].pid)
            place++;
        if (place == AT_ONCE) {
            look_for_hung();
            usleep(1000);
            reap();
            continue;
        }
        running[place].at_ns = target_now_ns();
        pid_t child = fork();
        if (child == 0) {
            exit(live(&steps[place]));
        }
        running[place].pid = child > 0 ? child : 0;
        running[place].looked_ns = running[place].at_ns;
        running[place].waits[0] = 0;
        children += child > 0;
        look_for_hung();
        reap();
    }
    while (reap()) {
        look_for_hung();
        usleep(1000);
    }
}

static void *make_heirs_in_thread(void *argument)
{
    make_heirs();
    return argument;
}

int main(int count, char **arguments)
{
    if (count != 2) {
        fputs("usage: heirs main|thread\n", stderr);
        return 2;
    }
    steps = mmap(NULL, AT_ONCE * sizeof *steps, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    setlocale(LC_ALL, "C.UTF-8");
    target_ready("");
    if (strcmp(arguments[1], "thread") == 0) {
        pthread_t thread;
        pthread_create(&thread, NULL, make_heirs_in_thread, NULL);
        pthread_join(thread, NULL);
    } else {
        make_heirs();
    }
    for (unsigned long i = 0; i < hung + crashed && i < LOST_MAX; i++)
        printf("lost %llu %d %s\n", (unsigned long long)lost[i].at_ns, lost[i].status, lost[i].step);
    printf("children %lu hung %lu crashed %lu\n", children, hung, crashed);
    return 0;
}
