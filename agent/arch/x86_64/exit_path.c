/*
 * The frame of code without CFI, by the way from there to its return: musl and what is linked with it. All of this may run
 * in the handler: no libc, no locks, no allocation; code is read with process_vm_readv.
 *
 * Whatever a function has pushed, it takes off again before it returns. So its code is followed from pc on, over calls and
 * along jumps, to a `ret`; what happens to rsp and rbp on the way says where the return address and the caller's rbp are.
 * A jump to another function is as good: that one returns in our place. Behind a call that does not return, the path runs
 * into code that has nothing to do with this frame. What it finds there is not taken, for the stack is aligned to 16 bytes
 * at that call and so not as after a `call` (ABI 3.2.2), and there is no return address. Then another path is tried.
 */

#define EXIT_INSTRUCTIONS_MAX 2000        /* 30 us, in few functions; the result is kept in the cache of rules */
#define EXIT_CODE_BYTES 96
#define EXIT_AHEAD_BYTES 16               /* larger than all instructions */
#define EXIT_BRANCHES 24                  /* paths that are tried later */
#define EXIT_SEEN_BITS 3328               /* jumps that were taken, by a hash: two with the same lose a path */

enum place_base { PLACE_LOST = 0, PLACE_RSP = 1, PLACE_RBP = 2 };
enum exit_action { EXIT_NEXT, EXIT_RETURN, EXIT_JUMP, EXIT_BRANCH, EXIT_DEAD };

/* What a register holds, or where something lies, by the registers at the start of the path: base, and 4 for each byte
 * that it is above. One word, for there are many on a small stack. */
struct place {
    i32 word;
};

struct exit_path {
    i32 pc;                               /* from where the path begins */
    struct place sp;
    struct place bp;
    struct place saved;                   /* where the caller's rbp was read; lost if it is in rbp */
};

struct exit_search {
    struct exit_path branches[EXIT_BRANCHES];
    u64 code_addr;
    u64 code_bytes;
    u64 seen[EXIT_SEEN_BITS / 64];
    u32 branch_count;
    u8 code[EXIT_CODE_BYTES];
};

static i32 place_base_sigsafe(struct place place)
{
    return place.word & 3;
}

static i32 place_offset_sigsafe(struct place place)
{
    return (place.word & ~3) / 4;
}

static struct place place_moved_sigsafe(struct place place, i32 bytes)
{
    place.word = (i32)((u32)place.word + 4 * (u32)bytes);
    return place;
}

static i32 exit_displacement_sigsafe(const u8 *code, u32 is_short)
{
    return is_short ? (signed char)*code : code_i32_sigsafe(code);
}

/* The caller's rbp is read at `at`, unless this path has put it there. */
static void exit_load_rbp_sigsafe(struct exit_path *path, struct place at)
{
    u32 is_own = place_base_sigsafe(at) == PLACE_RSP && place_offset_sigsafe(at) < 0;
    path->saved.word = is_own ? PLACE_LOST : at.word;
    path->bp.word = is_own ? PLACE_RBP : PLACE_LOST;
}

/* Note that an instruction has written `value` to a register. */
static void exit_write_sigsafe(struct exit_path *path, u32 number, struct place value)
{
    if (number == 4)
        path->sp = value;
    if (number == 5)
        path->bp = value;
}

/* mov, lea and arithmetic on rsp and rbp: `modrm` is behind the opcode. Intel SDM volume 2, table 2-2. */
static void exit_data_sigsafe(struct exit_path *path, u32 opcode, const u8 *modrm, u32 rex)
{
    u32 mod = *modrm >> 6, reg = (*modrm >> 3 & 7) | (rex & 4) << 1, rm = (*modrm & 7) | (rex & 1) << 3;
    struct place value = {PLACE_LOST};
    if (opcode == 0x81 || opcode == 0x83) {                     /* reg is part of the opcode: add, sub; cmp */
        i32 immediate = exit_displacement_sigsafe(modrm + 1, opcode == 0x83);
        value = rm == 4 ? path->sp : path->bp;
        if (mod != 3 || (reg & 7) == 7)
            return;
        value = place_moved_sigsafe(value, (reg & 7) == 5 ? -immediate : immediate);
        if ((reg & 7) != 0 && (reg & 7) != 5)
            value.word = PLACE_LOST;
        exit_write_sigsafe(path, rm, value);
    } else if (mod == 3) {
        u32 to = opcode == 0x8b || opcode == 0x03 || opcode == 0x2b || opcode == 0x23 || opcode == 0x33 ? reg : rm;
        u32 from = to == reg ? rm : reg;
        if ((opcode == 0x89 || opcode == 0x8b) && (from == 4 || from == 5))
            value = from == 4 ? path->sp : path->bp;
        exit_write_sigsafe(path, to, value);
    } else if (opcode == 0x8b || opcode == 0x8d) {
        u32 is_sp = rm == 4 && modrm[1] == 0x24, is_bp = rm == 5 && mod != 0;
        if (is_sp || is_bp) {
            value = is_sp ? path->sp : path->bp;
            value = place_moved_sigsafe(value, mod == 0 ? 0 : exit_displacement_sigsafe(modrm + 1 + is_sp, mod == 1));
        }
        if (opcode == 0x8b && reg == 5 && place_base_sigsafe(value) != PLACE_LOST) {
            exit_load_rbp_sigsafe(path, value);
        } else {
            value.word = opcode == 0x8d ? value.word : PLACE_LOST;
            exit_write_sigsafe(path, reg, value);
        }
    } else if (opcode == 0x03 || opcode == 0x2b || opcode == 0x23 || opcode == 0x33) {
        exit_write_sigsafe(path, reg, value);
    }
}

static u32 exit_jump_sigsafe(struct exit_path *path, i32 *target, i32 next, i32 displacement, u32 action)
{
    *target = (i32)((u32)next + (u32)displacement);
    path->pc = next;
    return action;
}

/* Follow one instruction; returns what comes next (enum exit_action). Opcodes: Intel SDM volume 2, tables and
 * */
static u32 exit_instruction_sigsafe(struct exit_path *path, const u8 *code, i32 *target)
{
    u32 at = 0, rex = 0, opcode, length, extension;
    while (at < PREFIXES_MAX && is_prefix_sigsafe(code[at]))
        at++;
    if ((code[at] & 0xf0) == 0x40)
        rex = code[at++];
    opcode = code[at++];
    extension = code[at] >> 3 & 7;
    if ((opcode & 0xf0) == 0x70 || (opcode & 0xfc) == 0xe0)     /* jcc, loop, jrcxz */
        return exit_jump_sigsafe(path, target, path->pc + (i32)at + 1, (signed char)code[at], EXIT_BRANCH);
    if (opcode == 0x0f && (code[at] & 0xf0) == 0x80)
        return exit_jump_sigsafe(path, target, path->pc + (i32)at + 5, code_i32_sigsafe(code + at + 1), EXIT_BRANCH);
    if (opcode == 0xeb)
        return exit_jump_sigsafe(path, target, path->pc + (i32)at + 1, (signed char)code[at], EXIT_JUMP);
    if (opcode == 0xe9)
        return exit_jump_sigsafe(path, target, path->pc + (i32)at + 4, code_i32_sigsafe(code + at), EXIT_JUMP);
    if (opcode == 0xc3 || opcode == 0xc2 || (opcode == 0xff && extension == 4))
        return EXIT_RETURN;               /* a jump through a pointer: another function, or a `switch`, which is as a call */
    length = instruction_bytes_sigsafe(code);
    if ((opcode & 0xf8) == 0x58) {                              /* pop */
        u32 number = (opcode & 7) | (rex & 1) << 3;
        length = at;
        if (number == 5)
            exit_load_rbp_sigsafe(path, path->sp);
        path->sp = place_moved_sigsafe(path->sp, 8);
        if (number == 4)
            path->sp.word = PLACE_LOST;
    } else if (opcode == 0xc9) {                                /* leave */
        length = at;
        path->sp = path->bp;
        exit_load_rbp_sigsafe(path, path->sp);
        path->sp = place_moved_sigsafe(path->sp, 8);
    } else if (opcode == 0xe8) {
        length = at + 4;
    } else if (opcode == 0xff && extension == 2) {              /* call */
        length = at + operand_bytes_sigsafe(code + at);
    } else if (opcode == 0x8f) {                                /* pop to memory */
        length = at + operand_bytes_sigsafe(code + at);
        path->sp = place_moved_sigsafe(path->sp, 8);
    } else if (opcode == 0x9c || opcode == 0x9d) {              /* pushf, popf */
        length = at;
        path->sp = place_moved_sigsafe(path->sp, opcode == 0x9c ? -8 : 8);
    } else if (opcode == 0x0f && code[at] == 0x05) {            /* syscall */
        length = at + 1;
    } else if (opcode == 0x62) {                                /* EVEX */
        length = at + 4 + operand_bytes_sigsafe(code + at + 4) +
                 ((code[at] & 7) == 3 || ((code[at] & 7) == 1 && ((code[at + 3] & 0xfc) == 0x70 || code[at + 3] == 0xc2 ||
                                                                 (code[at + 3] & 0xfc) == 0xc4)));
    } else if ((opcode & 0xf8) == 0xd8) {                       /* x87 */
        length = at + operand_bytes_sigsafe(code + at);
    } else if (opcode == 0xf5 || (opcode >= 0xf8 && opcode <= 0xfd) || opcode == 0x9b || opcode == 0x9e || opcode == 0x9f ||
               (opcode >= 0xa6 && opcode <= 0xa7) || (opcode >= 0xac && opcode <= 0xaf)) {
        length = at;                                            /* flags; strings */
    } else if ((opcode & 0xf8) == 0x50 || opcode == 0x68 || opcode == 0x6a || (opcode == 0xff && extension == 6)) {
        path->sp = place_moved_sigsafe(path->sp, -8);           /* push */
    } else if (opcode == 0x81 || opcode == 0x83 || opcode == 0x89 || opcode == 0x8b || opcode == 0x8d || opcode == 0x63 ||
               opcode == 0x87 || (opcode < 0x34 && (opcode & 5) == 1)) {
        exit_data_sigsafe(path, opcode, code + at, rex);        /* of 01 … 33, add to xor on whole registers */
    }
    path->pc += (i32)length;
    return length ? EXIT_NEXT : EXIT_DEAD;
}

/* Return the code at `runtime_addr`, EXIT_AHEAD_BYTES of it; 0 if it cannot be read. */
static const u8 *exit_code_sigsafe(struct unwinder *u, struct exit_search *search, u64 runtime_addr)
{
    u64 at = runtime_addr - search->code_addr;
    i64 got;
    if (at < search->code_bytes && search->code_bytes - at >= EXIT_AHEAD_BYTES)
        return search->code + at;
    if (u->entry_reads >= ENTRY_READS_MAX || !is_code_sigsafe(u, runtime_addr))
        return (const u8 *)0;
    u->entry_reads++;
    got = read_memory_sigsafe(u->agent, runtime_addr, search->code, EXIT_CODE_BYTES);
    search->code_addr = runtime_addr;
    search->code_bytes = got < 0 ? 0 : (u64)got;
    return got < EXIT_AHEAD_BYTES ? (const u8 *)0 : search->code;
}

/* Return whether a jump was followed already; notes it. */
static u32 exit_was_seen_sigsafe(struct exit_search *search, i32 pc)
{
    u32 bit = ((u32)pc ^ (u32)pc >> 12) % EXIT_SEEN_BITS;
    u32 was_seen = search->seen[bit / 64] >> bit % 64 & 1;
    search->seen[bit / 64] |= 1ULL << bit % 64;
    return was_seen;
}

/* Make a rule of a path that has come to a return. Returns 0 if it does not lead to a caller. */
static u32 exit_rule_sigsafe(struct unwinder *u, const struct exit_path *path, struct unwind_rule *rule)
{
    u64 cfa, return_address = 0;
    i32 base = place_base_sigsafe(path->sp), saved_base = place_base_sigsafe(path->saved);
    if (base == PLACE_LOST || (base == PLACE_RBP && !u->bp_known) || (saved_base != PLACE_LOST && saved_base != base))
        return 0;
    rule->cfa_kind = base == PLACE_RSP ? CFA_RSP : CFA_RBP;
    rule->cfa_off = place_offset_sigsafe(path->sp) + 8;
    rule->ra_kind = RA_AT_CFA;
    rule->ra_off = -8;
    rule->rbp_kind = saved_base == PLACE_LOST ? RBP_SAME : RBP_SAVED;
    rule->rbp_off = place_offset_sigsafe(path->saved) - rule->cfa_off;
    rule->cfa_reg = 0;
    rule->extra = 0;
    cfa = (rule->cfa_kind == CFA_RSP ? u->sp : u->bp) + (u64)(i64)rule->cfa_off;
    return cfa > u->sp && !(cfa & 7) && stack_word_sigsafe(u, cfa - 8, &return_address) && return_address > 4096 &&
           is_returned_to_sigsafe(u, return_address) && (!(cfa & 15) || is_call_to_here_sigsafe(u, return_address));
}

/* Find the rule for the frame of `u`, whose code continues at `pc`; `is_taken` is the way to try first where it divides.
 * Returns 0 if there is none; `has_returns` tells that another stack may have one. Context: signal. */
static u32 exit_find_sigsafe(struct unwinder *u, u64 pc, u32 is_taken, struct unwind_rule *rule, u32 *has_returns)
{
    struct exit_path path = {0, {PLACE_RSP}, {PLACE_RBP}, {PLACE_LOST}};
    struct exit_search search;
    u32 i;
    search.code_addr = search.code_bytes = search.branch_count = 0;
    words_zero(search.seen, EXIT_SEEN_BITS / 64);
    for (i = 0; i < EXIT_INSTRUCTIONS_MAX; i++) {
        const u8 *code = exit_code_sigsafe(u, &search, pc + (u64)(i64)path.pc);
        i32 target = 0, from = path.pc;
        u32 action = code ? exit_instruction_sigsafe(&path, code, &target) : EXIT_DEAD;
        if (action == EXIT_NEXT)
            continue;
        *has_returns |= action == EXIT_RETURN || !code;
        if (action == EXIT_RETURN && exit_rule_sigsafe(u, &path, rule))
            return 1;
        if ((action == EXIT_JUMP || action == EXIT_BRANCH) && !exit_was_seen_sigsafe(&search, from)) {
            i32 next = path.pc;
            path.pc = is_taken ? next : target;
            if (action == EXIT_BRANCH && search.branch_count < EXIT_BRANCHES)
                search.branches[search.branch_count++] = path;
            path.pc = action == EXIT_JUMP || is_taken ? target : next;
            continue;
        }
        if (!search.branch_count)
            return 0;
        path = search.branches[--search.branch_count];
    }
    return 0;
}

/*
 * Find the rule for code without CFI by its way to a return. `pc` is where the code continues. The result is kept if the code
 * is that of a file. Returns 0 if the rule is not certain. Context: signal.
 */
static u32 exit_rule_for_sigsafe(struct unwinder *u, u64 pc, u32 is_of_file, struct unwind_rule *rule)
{
    volatile u64 *slot = kept_slot_sigsafe(u->agent, pc, ASKED_EXIT);
    u64 key = kept_key_sigsafe(u->agent, pc, ASKED_EXIT);
    u32 packed, has_returns = 0;
    if (is_of_file && *slot == (key | 1))
        return 0;
    if (!exit_find_sigsafe(u, pc, 0, rule, &has_returns) && !exit_find_sigsafe(u, pc, 1, rule, &has_returns)) {
        if (is_of_file && !has_returns)
            *slot = key | 1;
        return 0;
    }
    packed = rule_pack_sigsafe(rule, 0);
    if (is_of_file && packed && u->pc >> 48 == 0)
        u->agent->rule_cache[cache_index_sigsafe(u->pc)] =
            (u->pc >> 16) << 32 | (u64)(u->agent->cache_generation & 0xff) << 24 | packed;
    return 1;
}
