/*
 * The first program in the virtual machine: loads the modules of its initrd, mounts the host's file system read-only
 * and what else a program expects, runs /command there on the second serial line, prints its exit code, powers off.
 *
 * /command holds one word a line: the folder that is shared for writing, then the command and its arguments.
 */
#define _GNU_SOURCE 1
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#define MODULES_MAX 64
#define WORDS_MAX 256
#define SHARE "trans=virtio,version=9p2000.L,msize=262144"

static char command[65536];
static char *words[WORDS_MAX];

static void fail(const char *what)
{
    perror(what); /* on the first serial line: run.py shows its end */
    sync();
    reboot(RB_POWER_OFF);
}

static void mount_or_fail(const char *from, const char *to, const char *type, unsigned long flags, const char *options)
{
    if (mount(from, to, type, flags, options))
        fail(to);
}

/* Modules need each other in an order that differs between kernels: each is tried until none more can be loaded. */
static void load_modules(void)
{
    char names[MODULES_MAX][288];
    int count = 0, has_loaded = 1;
    struct dirent *entry;
    DIR *folder = opendir("/modules");
    while (folder && count < MODULES_MAX && (entry = readdir(folder)))
        if (entry->d_name[0] != '.')
            snprintf(names[count++], sizeof names[0], "/modules/%s", entry->d_name);
    while (has_loaded) {
        has_loaded = 0;
        for (int i = 0; i < count; i++) {
            int file = names[i][0] ? open(names[i], O_RDONLY | O_CLOEXEC) : -1;
            if (file >= 0 && syscall(SYS_finit_module, file, "", 0) == 0) {
                names[i][0] = 0;
                has_loaded = 1;
            }
            close(file);
        }
    }
}

static void read_command(void)
{
    int file = open("/command", O_RDONLY), count = 0;
    ssize_t size = read(file, command, sizeof command - 1);
    if (size <= 0)
        fail("/command");
    for (char *word = strtok(command, "\n"); word && count < WORDS_MAX - 1; word = strtok(NULL, "\n"))
        words[count++] = word;
    if (count < 2)
        fail("/command");
}

static void mount_all(void)
{
    mkdir("/host", 0755);
    mount_or_fail("host", "/host", "9p", MS_RDONLY, SHARE ",cache=loose");
    if (chdir("/host") || chroot("."))
        fail("/host");
    mount_or_fail("out", words[0], "9p", 0, SHARE);
    mount_or_fail("proc", "/proc", "proc", 0, NULL);
    mount_or_fail("sysfs", "/sys", "sysfs", 0, NULL);
    mount_or_fail("devtmpfs", "/dev", "devtmpfs", 0, NULL);
    mkdir("/dev/pts", 0755);
    mkdir("/dev/shm", 01777);
    mount_or_fail("devpts", "/dev/pts", "devpts", 0, NULL);
    mount_or_fail("tmpfs", "/dev/shm", "tmpfs", 0, NULL);
    mount_or_fail("tmpfs", "/run", "tmpfs", 0, NULL);
    mount_or_fail("tmpfs", "/tmp", "tmpfs", 0, NULL);
    mount("tmpfs", "/usr/lib/debug", "tmpfs", 0, NULL); /* reading libc's would take a minute */
}

/* The second serial line, as a terminal that changes no byte. */
static void use_second_line(void)
{
    struct termios settings;
    int line = open("/dev/ttyS1", O_RDWR);
    if (line < 0)
        fail("/dev/ttyS1");
    tcgetattr(line, &settings);
    cfmakeraw(&settings);
    tcsetattr(line, TCSANOW, &settings);
    for (int i = 0; i < 3; i++)
        dup2(line, i);
    if (line > 2)
        close(line);
}

int main(void)
{
    int status = 0;
    load_modules();
    read_command();
    mount_all();
    pid_t child = fork();
    if (child == 0) {
        setsid();
        use_second_line();
        ioctl(0, TIOCSCTTY, 1);
        setenv("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", 1);
        setenv("HOME", "/tmp", 1);
        setenv("FLAMETAP_DEBUG", "1", 1);
        setenv("LC_ALL", "C.UTF-8", 1);
        if (chdir(words[0]) == 0)
            execvp(words[1], words + 1);
        perror(words[1]);
        _exit(127);
    }
    for (pid_t ended; (ended = wait(&status)) != child;)
        if (ended < 0 && errno != EINTR)
            fail("wait");
    use_second_line();
    printf("\nflametap-vm: exit %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    fflush(stdout);
    tcdrain(1);
    sync();
    reboot(RB_POWER_OFF);
    return 0;
}
