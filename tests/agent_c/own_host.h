/*
 * A host for our thread as it is really made (agent/entry/frida.c), in a test's own process: it asks through the memory
 * that both map, writes what else a host does through /proc/self/mem, and looks whether all is as it was before.
 *
 * Include behind the agent's sources.
 */
#ifndef OWN_HOST_H
#define OWN_HOST_H

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "require.h"

#define RATE_HZ 200
#define DEADLINE_NS 60000000000ULL
#define LOOK_US 1000

static struct control *control;
static int own_tid;

/* ---- what must be as before */

#define TEXT_ROOM (1 << 18)

struct surroundings {
    char descriptors[4096];
    char mappings[TEXT_ROOM];
    struct kernel_sigaction actions[65];
    int threads;
};

static struct surroundings before, at_start, after;

static void descriptors_note(char *text)
{
    char name[64], where[256];
    size_t used = 0;
    for (int fd = 0; fd < 64; fd++) {
        snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
        ssize_t bytes = readlink(name, where, sizeof where);
        if (bytes > 0)
            used += (size_t)snprintf(text + used, 4096 - used, "%d %.*s\n", fd, (int)bytes, where);
    }
}

static int tasks_count(void)
{
    DIR *folder = opendir("/proc/self/task");
    int count = 0;
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;)
        count += entry->d_name[0] != '.';
    closedir(folder);
    return count;
}

static void surroundings_note(struct surroundings *s)
{
    memset(s, 0, sizeof *s);
    s->threads = tasks_count();
    descriptors_note(s->descriptors);
    for (int signo = 1; signo <= 64; signo++)
        kernel_sigaction_get(signo, &s->actions[signo]);
    int fd = open("/proc/self/maps", O_RDONLY);
    ssize_t got;
    for (size_t used = 0; (got = read(fd, s->mappings + used, TEXT_ROOM - 1 - used)) > 0;)
        used += (size_t)got;
    close(fd);
}

static void until(int (*is_so)(void), const char *what)
{
    u64 end_ns = now_ns_sigsafe() + DEADLINE_NS;
    while (!is_so()) {
        require(now_ns_sigsafe() < end_ns, what);
        usleep(LOOK_US);
    }
}

/* Whoever waits for a thread's end may learn of it before the thread has left the list. */
static int tasks_are_as_before(void)
{
    return tasks_count() == before.threads;
}

static void require_as_before(void)
{
    until(tasks_are_as_before, "so many threads are there as before");
    surroundings_note(&after);
    if (strcmp(before.mappings, after.mappings))
        fprintf(stderr, "before:\n%safter:\n%s", before.mappings, after.mappings);
    require(!strcmp(before.mappings, after.mappings), "the mappings are as before");
    require(!strcmp(before.descriptors, after.descriptors), "the descriptors are as before");
    require(!memcmp(before.actions, after.actions, sizeof before.actions), "the dispositions are as before");
}

/* ---- the host */

static int is_ready(void)
{
    return load_acquire_u32(&BOOT->state) == BOOT_READY;
}

static void gate_write(void)
{
    int fd = open("/proc/self/mem", O_RDWR);
    require(pwrite(fd, gate_code, sizeof gate_code, (off_t)BOOT->gate) == (ssize_t)sizeof gate_code &&
            pwrite(fd, gate_restorer, sizeof gate_restorer, (off_t)(BOOT->gate + GATE_RESTORER)) == (ssize_t)sizeof gate_restorer,
            "the gate can be written from outside");
    close(fd);
}

static void *own_file_map(int fd, size_t bytes)
{
    char name[64];
    snprintf(name, sizeof name, "/proc/self/task/%d/fd/%d", own_tid, fd);
    int opened = open(name, O_RDWR | O_CLOEXEC);
    require(opened >= 0, "our thread's files can be opened");
    void *found = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, opened, 0);
    require(found != MAP_FAILED, "mmap");
    require((fcntl(opened, F_GET_SEALS) & RING_SEALS) == RING_SEALS, "they are sealed");
    close(opened);
    return found;
}

static void enter(void)
{
    BOOT->libc_code = (u64)sigaction;
    BOOT->is_alone = 1;
    surroundings_note(&before);
    surroundings_note(&before);           /* libc has taken what memory it needs for it */
    own_tid = agent_enter();
    require(own_tid > 0, "our thread is made");
    until(is_ready, "our thread gets ready");
    gate_write();
    control = own_file_map(BOOT->control_fd, CONTROL_BYTES);
}

static void leave(void)
{
    agent_leave();
    munmap(control, CONTROL_BYTES);
}

static u32 request(u32 call, u64 first, u64 second, u64 third)
{
    u32 number = control->request + 1;
    control->call = call;
    control->arguments[0] = first;
    control->arguments[1] = second;
    control->arguments[2] = third;
    store_release_u32(&control->request, number);
    syscall(SYS_futex, &control->request, FUTEX_WAKE_OPERATION, 1, NULL, NULL, 0);
    return number;
}

static int ask(u32 call, u64 first, u64 second, u64 third)
{
    u64 end_ns = now_ns_sigsafe() + DEADLINE_NS;
    u32 number = request(call, first, second, third);
    while (load_acquire_u32(&control->answered) != number) {
        require(now_ns_sigsafe() < end_ns, "a request is answered");
        usleep(LOOK_US);
    }
    return control->result;
}

static u32 filtered_now(void)
{
    return is_filtered_sigsafe() ? FILTERED_MAIN : FILTERED_NOBODY;
}

static struct ring_header *ring;
static int host_end = -1;

/* Take our end of the sockets, as file_lender.py does: before Linux 6.9 a thread's own table is closed to everybody. */
static void host_end_take(void)
{
    int thread = (int)syscall(SYS_pidfd_open, own_tid, O_EXCL /* PIDFD_THREAD */);
    host_end = thread < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, thread, control->host_end_fd, 0);
    if (thread >= 0)
        close(thread);
}

static void prepare(u32 filtered)
{
    require(ask(CONTROL_PREPARE, RATE_HZ, filtered, CLOCKS_CPU_TIMERS) == 0, "prepare");
    require(control->ring_fd >= 0, "the answer has the ring");
    ring = own_file_map(control->ring_fd, RING_HEADER_BYTES + RING_BYTES);
    require(ring->magic == RING_MAGIC, "the ring is one");
    host_end_take();
}

static void start(void)
{
    control->count = 0;
    require(ask(CONTROL_START, 0, 0, 0) == 0, "start");
}

/* Be alive as a host, and let the agent have so many rounds more. */
static void rounds_pass(u64 count)
{
    u64 end_ns = now_ns_sigsafe() + DEADLINE_NS, first = ring->counters[COUNTER_TICKS];
    while (ring->counters[COUNTER_TICKS] < first + count) {
        require(now_ns_sigsafe() < end_ns, "rounds pass");
        ring->host_ns = now_ns_sigsafe();
        ring->tail = ring->head;
        usleep(LOOK_US);
    }
}

static void ring_leave(void)
{
    munmap(ring, RING_HEADER_BYTES + RING_BYTES);
    close(host_end);
}

#endif
