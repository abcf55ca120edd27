/*
 * The least distance of rbp above rsp, from the code that made the frame. All of this may run in the handler: no libc,
 * no locks, no allocation; code is read with process_vm_readv.
 *
 * CFI of code that keeps its frame in rbp says where rbp was set, but not how rsp moved after that: compilers push
 * callee-saved registers, then make room for locals with one subtraction (System V ABI AMD64 3.2.2; gcc's
 * ix86_expand_prologue, clang's X86FrameLowering). Only instructions before the first jump or call count, since they
 * apply to all that follows, and none that may push arguments.
 */

#define PROLOGUE_BYTES 192                /* code bytes read after rbp was set */
#define PROLOGUE_AHEAD_BYTES 32           /* code bytes read ahead: two instructions */
#define SET_RBP_BYTES 64                  /* code bytes read before the row that follows it */
#define PROLOGUE_ROWS_MAX 1024            /* rows searched backwards: each early exit makes two */
#define PREFIXES_MAX 8

/* ModRM, SIB and displacement. Intel SDM volume 2, table 2-2. */
static u32 operand_bytes_sigsafe(const u8 *modrm)
{
    u32 mod = *modrm >> 6, rm = *modrm & 7, bytes = 1;
    if (mod == 3)
        return 1;
    if (rm == 4) {
        bytes++;
        if (mod == 0 && (modrm[1] & 7) == 5)
            return bytes + 4;
    }
    if (mod == 0)
        return rm == 5 ? bytes + 4 : bytes;
    return bytes + (mod == 1 ? 1 : 4);
}

/* Return the length of the part after opcode 0f or its VEX form: operands and an immediate. 0 for jumps and unknown
 * ones. */
static u32 two_byte_rest_sigsafe(const u8 *code, u32 map)
{
    u8 opcode = code[0];
    if (map == 1 && opcode == 0x38)
        return 2 + operand_bytes_sigsafe(code + 2);
    if (map == 1 && opcode == 0x3a)
        return 3 + operand_bytes_sigsafe(code + 2);
    if (map != 1)
        return 1 + operand_bytes_sigsafe(code + 1) + (map == 3);
    if ((opcode & 0xf0) == 0x80 || opcode < 0x10)               /* jcc; system instructions */
        return 0;
    if ((opcode & 0xf0) == 0x30 || opcode == 0x77 || opcode == 0xa2 || (opcode & 0xf8) == 0xc8)
        return 1;                                               /* rdtsc …; emms; cpuid; bswap */
    return 1 + operand_bytes_sigsafe(code + 1) +
           ((opcode & 0xfc) == 0x70 || opcode == 0xa4 || opcode == 0xac || opcode == 0xba || opcode == 0xc2 ||
            opcode == 0xc4 || opcode == 0xc5 || opcode == 0xc6);
}

/* Legacy prefixes: operand size, repeat, segments, lock. Intel SDM volume 2, 2.1.1. */
static u32 is_prefix_sigsafe(u8 byte)
{
    return byte == 0x66 || byte == 0xf2 || byte == 0xf3 || byte == 0x64 || byte == 0x65 || byte == 0x2e || byte == 0x3e ||
           byte == 0xf0;
}

/* Return the length of an instruction that the next one in memory follows. 0 for calls, jumps, returns and unknown
 * ones. Intel SDM volume 2, tables. */
static u32 instruction_bytes_sigsafe(const u8 *code)
{
    u32 at = 0, is_wide = 0, word = 4, rest;
    u8 opcode;
    while (at < PREFIXES_MAX && is_prefix_sigsafe(code[at]))
        if (code[at++] == 0x66)
            word = 2;
    if ((code[at] & 0xf0) == 0x40)
        is_wide = code[at++] & 8;
    opcode = code[at++];
    if (is_wide)
        word = 4;
    if (opcode == 0x0f || opcode == 0xc5 || opcode == 0xc4) {
        u32 map = opcode == 0xc4 ? code[at] & 0x1f : 1;
        at += opcode == 0xc5 ? 1 : opcode == 0xc4 ? 2 : 0;
        rest = map >= 1 && map <= 3 ? two_byte_rest_sigsafe(code + at, map) : 0;
        return rest ? at + rest : 0;
    }
    if (opcode < 0x40) {                                        /* add, or, adc, sbb, and, sub, xor, cmp */
        u32 form = opcode & 7;
        return form < 4 ? at + operand_bytes_sigsafe(code + at) : form == 4 ? at + 1 : form == 5 ? at + word : 0;
    }
    if ((opcode & 0xf8) == 0x50 || (opcode >= 0x90 && opcode <= 0x99))
        return at;                                              /* push; nop, xchg, cdqe, cqo */
    if ((opcode & 0xf8) == 0xb0)
        return at + 1;
    if ((opcode & 0xf8) == 0xb8)
        return at + (is_wide ? 8 : word);
    switch (opcode) {
    case 0x6a: case 0xa8:
        return at + 1;
    case 0x68: case 0xa9:
        return at + word;
    case 0xa4: case 0xa5: case 0xaa: case 0xab:
        return at;
    case 0x63: case 0x84: case 0x85: case 0x86: case 0x87: case 0x88: case 0x89: case 0x8a: case 0x8b: case 0x8d:
    case 0xd0: case 0xd1: case 0xd2: case 0xd3: case 0xfe:
        return at + operand_bytes_sigsafe(code + at);
    case 0x6b: case 0x80: case 0x83: case 0xc0: case 0xc1: case 0xc6:
        return at + operand_bytes_sigsafe(code + at) + 1;
    case 0x69: case 0x81: case 0xc7:
        return at + operand_bytes_sigsafe(code + at) + word;
    case 0xf6:
        return at + operand_bytes_sigsafe(code + at) + ((code[at] >> 3 & 7) < 2);
    case 0xf7:
        return at + operand_bytes_sigsafe(code + at) + ((code[at] >> 3 & 7) < 2 ? word : 0);
    case 0xff:                                                  /* inc, dec, push; not call, jmp */
        rest = code[at] >> 3 & 7;
        return rest < 2 || rest == 6 ? at + operand_bytes_sigsafe(code + at) : 0;
    default:
        return 0;
    }
}

static i32 code_i32_sigsafe(const u8 *code)
{
    return (i32)(code[0] | (u32)code[1] << 8 | (u32)code[2] << 16 | (u32)code[3] << 24);
}

/* Return by how many bytes this instruction lowers rsp for locals; 0 if it does not. */
static u32 room_made_sigsafe(const u8 *code)
{
    i32 room = 0;
    if (code[0] == 0x48 && code[1] == 0x83 && code[2] == 0xec)  /* sub $n,%rsp */
        room = (signed char)code[3];
    else if (code[0] == 0x48 && code[1] == 0x81 && code[2] == 0xec)
        room = code_i32_sigsafe(code + 3);
    else if (code[0] == 0x48 && code[1] == 0x83 && code[2] == 0xc4) /* add $-n,%rsp */
        room = -(signed char)code[3];
    else if (code[0] == 0x4c && code[1] == 0x8d && code[2] == 0x9c && code[3] == 0x24 &&
             code[8] == 0x48 && code[9] == 0x81 && code[10] == 0xec)
        room = -code_i32_sigsafe(code + 4);                     /* lea -n(%rsp),%r11: the end of a loop on rsp */
    return room > 0 ? (u32)room : 0;
}

/* Return whether this touches the new page, with more to follow. -fstack-clash-protection: orq $0,(%rsp), movq
 * $0,(%rsp). */
static u32 is_stack_probe_sigsafe(const u8 *code)
{
    return code[0] == 0x48 && ((code[1] == 0x83 && code[2] == 0x0c && code[3] == 0x24) ||
                               (code[1] == 0xc7 && code[2] == 0x04 && code[3] == 0x24));
}

/* Return whether this is a push, perhaps of an argument. */
static u32 is_push_sigsafe(const u8 *code)
{
    u32 at = code[0] == 0x41;
    return (code[at] & 0xf8) == 0x50 || code[at] == 0x6a || code[at] == 0x68 ||
           (code[at] == 0xff && (code[at + 1] >> 3 & 7) == 6);
}

/* Return how many bytes the first `bytes` of code after the setting of rbp keep below rbp permanently;
 * PROLOGUE_AHEAD_BYTES more can be read after them. */
static u32 frame_bytes_in_code_sigsafe(const u8 *code, u64 bytes)
{
    u32 at = 0, below = 0, pushed = 0, length;
    for (; at < bytes; at += length) {
        u32 is_high = code[at] == 0x41, opcode = code[at + is_high], room = room_made_sigsafe(code + at);
        length = instruction_bytes_sigsafe(code + at);
        if (!length)
            break;
        if (room) {
            const u8 *next = code + at + length;
            if (room == 8 && is_push_sigsafe(next))
                break;                                          /* keeps the stack aligned while arguments are on it */
            below += room;
            if (!is_stack_probe_sigsafe(next))
                break;
        } else if (is_push_sigsafe(code + at)) {
            u32 name = (opcode & 7) | is_high << 3;             /* rbx, r10, r12 … r15 */
            if ((opcode & 0xf8) != 0x50 || (name != 3 && name != 10 && name < 12) || pushed >> name & 1)
                break;                                          /* not a callee-saved register */
            pushed |= 1U << name;
            below += 8;
        }
    }
    return below;
}

/* Find the last place before `pc` where rbp was set, by the rows: returns the runtime_addr after it or, where the stack
 * was realigned, a little later. 0 if the rows do not say. */
static u64 rbp_set_sigsafe(struct agent *a, struct module *m, u64 pc, u32 *is_realigned)
{
    struct rows_view view;
    u32 row, looked;
    if (m->state != MODULE_READY || rows_around_sigsafe(a, m, pc, &view) != ROWS_HERE)
        return 0;
    for (row = view.at, looked = 0; row > 0 && looked < PROLOGUE_ROWS_MAX; row--, looked++) {
        const struct unwind_rule *rule = &a->rules->rules[view.rows[row].rule];
        const struct unwind_rule *before = &a->rules->rules[view.rows[row - 1].rule];
        if (rule->cfa_kind == CFA_NONE)
            return 0;
        *is_realigned = rule->cfa_kind == CFA_DEREF_RBP && before->cfa_kind == CFA_REG;
        if (*is_realigned ||
            (rule->cfa_kind == CFA_RBP && before->cfa_kind == CFA_RSP && before->cfa_off == rule->cfa_off))
            return m->load_bias + m->text_start + view.rows[row].pc_offset;
    }
    return 0;
}

/* Return the least distance of rbp above rsp at the call at `pc`, whose frame is in rbp. 0 if unknown. Context:
 * signal. */
static u32 frame_bytes_below_rbp_sigsafe(struct unwinder *u, u64 pc)
{
    const struct code_range *range = code_range_sigsafe(u->map, pc);
    u8 code[SET_RBP_BYTES + PROLOGUE_BYTES + PROLOGUE_AHEAD_BYTES];
    u32 is_realigned = 0, at, back;
    u64 set = 0, bytes;
    i64 got;
    if (range && range->module)
        set = rbp_set_sigsafe(u->agent, &u->agent->modules[range->module], pc, &is_realigned);
    if (!set || set > pc || set < range->start || u->scan_checks >= SCAN_CHECKS_MAX)
        return 0;
    u->scan_checks++;
    back = set - range->start < SET_RBP_BYTES ? (u32)(set - range->start) : SET_RBP_BYTES;
    got = read_memory_sigsafe(u->agent, set - back, code, sizeof code);
    for (at = got > 0 ? (u32)got : 0; at < sizeof code; at++)
        code[at] = 0;
    for (at = back; at >= 3 && (at == back || is_realigned); at--) {
        if (code[at - 3] != 0x48 || !((code[at - 2] == 0x89 && code[at - 1] == 0xe5) || /* mov %rsp,%rbp */
                                      (code[at - 2] == 0x8b && code[at - 1] == 0xec)))
            continue;
        bytes = pc - (set - back + at);
        return frame_bytes_in_code_sigsafe(code + at, bytes < PROLOGUE_BYTES ? bytes : PROLOGUE_BYTES);
    }
    return 0;
}
