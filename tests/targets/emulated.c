/*
 * Runs code that it has written into memory, as an emulator does: called through a pointer, with data in rbp and words of
 * its own on the stack, and going on by computed jumps, so that nothing but a likely word tells who has called it. Report:
 * "runs N".
 * usage: emulated [registered]
 *   registered  registers an object file whose .debug_frame describes the frame, as QEMU does
 */
#include "target.h"
#include "registration.h"

#include <elf.h>
#include <sys/mman.h>

/* uint64_t f(uint64_t n): counts n down to 0 and returns 7; System V ABI. */
static const unsigned char text[] = {
    0x55, 0x53,                                                 /* push rbp; push rbx */
    0x6a, 0x00, 0x6a, 0x00, 0x6a, 0x00, 0x6a, 0x00, 0x6a, 0x00, /* push 0, five times */
    0x48, 0x89, 0xfd,                                           /* mov rbp, rdi */
    0x48, 0x8d, 0x05, 0x07, 0x00, 0x00, 0x00,                   /* lea rax, [1] */
    0x48, 0x8d, 0x15, 0x0c, 0x00, 0x00, 0x00,                   /* lea rdx, [2] */
    0x48, 0x89, 0xc1, 0x48, 0xff, 0xcd,                         /* 1: mov rcx, rax; dec rbp */
    0x48, 0x0f, 0x44, 0xca, 0xff, 0xe1,                         /* cmovz rcx, rdx; jmp rcx; 2: */
    0xb8, 0x07, 0x00, 0x00, 0x00,                               /* mov eax, 7 */
    0x48, 0x83, 0xc4, 0x28,                                     /* add rsp, 40 */
    0x5b, 0x5d, 0xc3,                                           /* pop rbx; pop rbp; ret */
};

/* DWARF 5, 6.4: the CFA is rsp + 64, rbp was saved at CFA - 16. */
static struct __attribute__((packed)) {
    uint32_t cie_bytes, cie_id;
    uint8_t cie[16];
    uint32_t fde_bytes, fde_cie;
    uint64_t start, bytes;
    uint8_t fde[4];
} frame = {
    20, 0xffffffff, {1, 0, 1, 0x78, 16, 0x0c, 7, 64, 0x90, 1, 0x86, 2}, 24, 0, 0, sizeof text, {0},
};

static struct {
    Elf64_Ehdr header;
    Elf64_Shdr sections[4];
    char names[32];
} object;

static void register_code(void *code)
{
    static struct jit_code_entry entry;
    static const char names[] = "\0.text\0.debug_frame\0.shstrtab";
    frame.start = (uint64_t)code;
    memcpy(object.names, names, sizeof names);
    object.header = (Elf64_Ehdr){
        .e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
        .e_type = ET_EXEC, .e_machine = EM_X86_64, .e_version = EV_CURRENT, .e_shoff = sizeof object.header,
        .e_ehsize = sizeof object.header, .e_shentsize = sizeof(Elf64_Shdr), .e_shnum = 4, .e_shstrndx = 3,
    };
    object.sections[1] = (Elf64_Shdr){.sh_name = 1, .sh_type = SHT_NOBITS, .sh_flags = SHF_ALLOC | SHF_EXECINSTR,
                                      .sh_addr = (uint64_t)code, .sh_size = sizeof text};
    object.sections[2] = (Elf64_Shdr){.sh_name = 7, .sh_type = SHT_PROGBITS, .sh_size = sizeof frame,
                                      .sh_offset = sizeof object};
    object.sections[3] = (Elf64_Shdr){.sh_name = 20, .sh_type = SHT_STRTAB, .sh_size = sizeof names,
                                      .sh_offset = sizeof object.header + sizeof object.sections};
    entry.object_bytes = sizeof object + sizeof frame;
    char *whole = malloc(entry.object_bytes);
    memcpy(whole, &object, sizeof object);
    memcpy(whole + sizeof object, &frame, sizeof frame);
    entry.object = whole;
    __jit_debug_descriptor.first = &entry;
}

NOINLINE static unsigned long emulate(void *code)
{
    uint64_t (*function)(uint64_t);
    unsigned long runs = 0;
    *(void **)&function = code;
    while (!target_asked_to_stop())
        runs += function(2000000) == 7;
    return runs;
}

int main(int count, char **arguments)
{
    void *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (code == MAP_FAILED)
        return 2;
    memcpy(code, text, sizeof text);
    if (mprotect(code, 4096, PROT_READ | PROT_EXEC))
        return 2;
    if (count == 2 && !strcmp(arguments[1], "registered"))
        register_code(code);
    target_ready("");
    printf("runs %lu\n", emulate(code));
    return 0;
}
