/*
 * Fuzz target: a mapped file that says anything of itself. Its headers are read out of memory, then its unwind
 * information is compiled, as for a module that a stack ran into, from memory and from the sections of the file.
 *
 * Input: first page of the mapping (1), pages that are executable (1), then the image; what it does not fill is not
 * mapped.
 */
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "input.h"
#include "require.h"

#define IMAGE_PAGES 16
#define PAGE 4096ULL

static struct agent agent;
static int file;
static struct ring_header ring;

static void setup(unsigned char **image)
{
    *image = mmap(NULL, IMAGE_PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    agent.pid = (u32)getpid();
    file = memfd_create("image", 0);
    agent.ring = &ring;
    agent.rules = calloc(1, sizeof *agent.rules);
    if (*image == MAP_FAILED || !agent.rules)
        abort();
}

/* The same bytes as a file; its inode. */
static u64 file_new(const unsigned char *bytes, u64 count)
{
    static u64 inode;
    struct stat status;
    if (ftruncate(file, (off_t)count) || pwrite(file, bytes, count, 0) != (ssize_t)count)
        abort();
    if (!inode) {
        fstat(file, &status);
        inode = status.st_ino;
    }
    return inode;
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    static unsigned char *image;
    static u32 used_pages;
    struct input input = {data, data + size};
    u32 first = (u32)take(&input, 1) % IMAGE_PAGES, pages = 1 + (u32)take(&input, 1) % IMAGE_PAGES;
    u64 bytes = (u64)(input.end - input.at);
    struct module m;
    if (!image)
        setup(&image);
    if (bytes > IMAGE_PAGES * PAGE)
        bytes = IMAGE_PAGES * PAGE;
    u32 mapped = (u32)((bytes + PAGE - 1) / PAGE);
    if (mapped != used_pages) {
        mprotect(image, IMAGE_PAGES * PAGE, PROT_NONE);
        if (mapped)
            mprotect(image, mapped * PAGE, PROT_READ | PROT_WRITE);
        used_pages = mapped;
    }
    if (mapped) {
        memset(image + (mapped - 1) * PAGE, 0, PAGE);
        memcpy(image, input.at, bytes);
    }
    memset(&m, 0, sizeof m);
    m.start = (u64)image + first * PAGE;
    m.end = m.start + pages * PAGE;
    m.load_bias = (u64)image;
    m.text_start = m.start - m.load_bias;
    m.text_end = m.end - m.load_bias;
    m.inode = file_new(input.at, bytes);
    m.path_bytes = (u32)snprintf(m.path, sizeof m.path, "/proc/self/fd/%d", file);
    module_read_headers(&agent, &m, (u64)image);
    require(m.build_id_bytes <= sizeof m.build_id, "the build-id has room");
    require(!m.eh_frame || m.eh_frame < m.eh_frame_limit, "the section has an end");
    m.wanted = 1;
    module_compile(&agent, &m);
    if (m.state == MODULE_READY) {
        m.wanted = WANTED_FROM_FILE;
        module_compile(&agent, &m);
    }
    require(m.state == MODULE_READY || m.state == MODULE_WITHOUT_CFI, "compiled or not");
    require((m.state == MODULE_READY) == (m.table != NULL), "rows are there exactly if they are good");
    for (u32 i = 1; m.table && i < m.table->row_count; i++)
        require(m.table->rows[i - 1].pc_offset < m.table->rows[i].pc_offset, "rows are sorted, no two alike");
    for (u64 pc = m.start; m.table && pc < m.end; pc += PAGE / 64 + 1)
        require(rule_in_module_sigsafe(&m, pc) < agent.rules->count, "a look-up gives a rule that exists");
    module_forget(&agent, &m);
    tables_free_retired(&agent);
    require(agent.held_bytes == 0, "what was allocated is freed, and both are counted");
    if (agent.rules->count > 2048) {
        memset(agent.rules->rules, 0, sizeof agent.rules->rules[0] * agent.rules->count);
        memset(agent.rules->hash, 0, sizeof agent.rules->hash);
        agent.rules->count = 0;
    }
    return 0;
}
