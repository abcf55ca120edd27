/*
 * A ring of io_uring whose submissions a thread of the kernel polls for (IORING_SETUP_SQPOLL), without a pause. "ready"
 * is followed by ring=TID, that thread; by ring=0 where the kernel has no such rings, or does not let us have one.
 * Answers each line:
 *
 * ask      puts a request into the ring, without a system call, and waits for its end: "done", or "lost"
 */
#include "target.h"

#include <dirent.h>
#include <linux/io_uring.h>
#include <stdatomic.h>
#include <sys/mman.h>

#define IDLE_MS 600000
#define PATIENCE_MS 10000

static struct io_uring_params params;
static char *submissions, *completions;
static struct io_uring_sqe *entries;

static _Atomic uint32_t *word(char *ring, uint32_t offset)
{
    return (_Atomic uint32_t *)(void *)(ring + offset);
}

static void *mapped(int fd, size_t bytes, off_t what)
{
    void *found = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, what);
    if (found == MAP_FAILED)
        exit(3);
    return found;
}

static int ring_new(int *ring)
{
    int fd;
    params.flags = IORING_SETUP_SQPOLL;
    params.sq_thread_idle = IDLE_MS;
    fd = (int)syscall(SYS_io_uring_setup, 8, &params);
    if (fd < 0)
        return 0;
    submissions = mapped(fd, params.sq_off.array + params.sq_entries * sizeof(uint32_t), IORING_OFF_SQ_RING);
    completions = mapped(fd, params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe), IORING_OFF_CQ_RING);
    entries = mapped(fd, params.sq_entries * sizeof *entries, IORING_OFF_SQES);
    *ring = fd;
    return 1;
}

static int tid_of_other(void)
{
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *entry;
    int found = 0;
    while ((entry = readdir(tasks)))
        if (atoi(entry->d_name) && atoi(entry->d_name) != target_tid())
            found = atoi(entry->d_name);
    closedir(tasks);
    return found;
}

static const char *ask(void)
{
    _Atomic uint32_t *tail = word(submissions, params.sq_off.tail), *seen = word(completions, params.cq_off.head);
    uint32_t at = *tail & *word(submissions, params.sq_off.ring_mask);
    memset(&entries[at], 0, sizeof *entries);
    entries[at].opcode = IORING_OP_NOP;
    *word(submissions, params.sq_off.array + at * (uint32_t)sizeof(uint32_t)) = at;
    ++*tail;
    for (int waited_ms = 0; waited_ms < PATIENCE_MS; waited_ms++) {
        if (*word(completions, params.cq_off.tail) != *seen) {
            ++*seen;
            return "done";
        }
        usleep(1000);
    }
    return "lost";
}

int main(void)
{
    char line[64], facts[32];
    int ring, has_ring = ring_new(&ring);
    /* It sleeps until it is woken for the first time. */
    if (has_ring && syscall(SYS_io_uring_enter, ring, 0, 0, IORING_ENTER_SQ_WAKEUP, NULL, 0) < 0)
        exit(4);
    if (has_ring)
        ask();
    snprintf(facts, sizeof facts, "ring=%d", has_ring ? tid_of_other() : 0);
    target_ready(facts);
    while (fgets(line, sizeof line, stdin)) {
        puts(ask());
        fflush(stdout);
    }
    return 0;
}
