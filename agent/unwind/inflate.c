/*
 * Inflate a zlib stream: sections of debug information are often compressed. Sampler thread only.
 *
 * The input is not trusted: every read and write is checked, and the work is bounded by the given size of the output.
 * Sources: RFC 1950 (zlib), RFC 1951 (deflate). The checksum at the end is not verified.
 */

#define INFLATE_CODE_BITS_MAX 15

struct inflater {
    const u8 *at;
    const u8 *end;
    u8 *out;
    u64 out_bytes;
    u64 written;
    u64 bits;                             /* read ahead, the next one lowest */
    u32 bit_count;
    u32 failed;
};

/* A canonical Huffman code: the number of codes of each length, and the symbols in the order of their codes. */
struct inflate_code {
    u16 count[INFLATE_CODE_BITS_MAX + 1];
    u16 symbols[288];
};

static u32 inflate_bits(struct inflater *z, u32 count)
{
    u32 value;
    while (z->bit_count < count) {
        if (z->at == z->end) {
            z->failed = 1;
            return 0;
        }
        z->bits |= (u64)*z->at++ << z->bit_count;
        z->bit_count += 8;
    }
    value = (u32)(z->bits & ((1ULL << count) - 1));
    z->bits >>= count;
    z->bit_count -= count;
    return value;
}

/* Make the code from the lengths of its codes. Returns 0 if there are more codes than fit. */
static u32 inflate_code_new(struct inflate_code *code, const u8 *lengths, u32 symbol_count)
{
    u16 next[INFLATE_CODE_BITS_MAX + 1];
    u32 i, room = 1;
    for (i = 0; i <= INFLATE_CODE_BITS_MAX; i++)
        code->count[i] = 0;
    for (i = 0; i < symbol_count; i++)
        code->count[lengths[i]]++;
    code->count[0] = 0;
    next[0] = next[1] = 0;
    for (i = 1; i <= INFLATE_CODE_BITS_MAX; i++) {
        room *= 2;
        if (code->count[i] > room)
            return 0;
        room -= code->count[i];
        if (i < INFLATE_CODE_BITS_MAX)
            next[i + 1] = (u16)(next[i] + code->count[i]);
    }
    for (i = 0; i < symbol_count; i++)
        if (lengths[i])
            code->symbols[next[lengths[i]]++] = (u16)i;
    return 1;
}

static u32 inflate_symbol(struct inflater *z, const struct inflate_code *code)
{
    u32 bits, value = 0, first = 0, before = 0;
    for (bits = 1; bits <= INFLATE_CODE_BITS_MAX; bits++) {
        value = value << 1 | inflate_bits(z, 1);
        if (value - first < code->count[bits])
            return code->symbols[before + value - first];
        before += code->count[bits];
        first = (first + code->count[bits]) << 1;
    }
    z->failed = 1;
    return 0;
}

/* Read the codes of a block: fixed (RFC 1951 3.2.6) or described before it (3.2.7). */
static u32 inflate_block_codes(struct inflater *z, u32 is_fixed, struct inflate_code *literals,
                               struct inflate_code *distances)
{
    static const u8 order[19] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
    u8 lengths[320];
    u32 i, literal_count, distance_count, code_count;
    for (i = 0; i < 320; i++)
        lengths[i] = 0;
    if (is_fixed) {
        for (i = 0; i < 288; i++)
            lengths[i] = i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8;
        for (i = 288; i < 318; i++)
            lengths[i] = 5;
        return inflate_code_new(literals, lengths, 288) && inflate_code_new(distances, lengths + 288, 30);
    }
    literal_count = inflate_bits(z, 5) + 257;
    distance_count = inflate_bits(z, 5) + 1;
    code_count = inflate_bits(z, 4) + 4;
    for (i = 0; i < code_count; i++)
        lengths[order[i]] = (u8)inflate_bits(z, 3);
    if (z->failed || literal_count > 286 || !inflate_code_new(literals, lengths, 19))
        return 0;
    for (i = 0; i < literal_count + distance_count && !z->failed;) {
        u32 symbol = inflate_symbol(z, literals), repeat = 1;
        u8 length = (u8)symbol;
        if (symbol == 16) {
            if (i == 0)
                return 0;
            length = lengths[i - 1];
            repeat = 3 + inflate_bits(z, 2);
        } else if (symbol > 16) {
            length = 0;
            repeat = symbol == 17 ? 3 + inflate_bits(z, 3) : 11 + inflate_bits(z, 7);
        }
        if (i + repeat > literal_count + distance_count)
            return 0;
        while (repeat--)
            lengths[i++] = length;
    }
    return !z->failed && inflate_code_new(literals, lengths, literal_count) &&
           inflate_code_new(distances, lengths + literal_count, distance_count);
}

/* Read a length or distance: a base, and as many extra bits as its group has. `group_bits` is 2 for lengths, 1 for
 * distances (RFC 1951 3.2.5: the tables are regular). */
static u32 inflate_value(struct inflater *z, u32 symbol, u32 group_bits)
{
    u32 group = 1U << group_bits, extra;
    if (symbol < 2 * group)
        return symbol;
    extra = (symbol >> group_bits) - 1;
    return ((group + (symbol & (group - 1))) << extra) + inflate_bits(z, extra);
}

static void inflate_block(struct inflater *z, const struct inflate_code *literals, const struct inflate_code *distances)
{
    while (!z->failed) {
        u32 symbol = inflate_symbol(z, literals), length, distance;
        if (symbol == 256 || z->failed)
            return;
        if (symbol < 256) {
            if (z->written == z->out_bytes) {
                z->failed = 1;
                return;
            }
            z->out[z->written++] = (u8)symbol;
            continue;
        }
        length = symbol == 285 ? 258 : 3 + inflate_value(z, symbol - 257, 2);
        symbol = inflate_symbol(z, distances);
        distance = 1 + (symbol < 30 ? inflate_value(z, symbol, 1) : 0);
        if (symbol >= 30 || distance > z->written || length > z->out_bytes - z->written) {
            z->failed = 1;
            return;
        }
        for (; length; length--, z->written++)
            z->out[z->written] = z->out[z->written - distance];
    }
}

static void inflate_stored(struct inflater *z)
{
    u32 bytes;
    z->bits >>= z->bit_count & 7;
    z->bit_count &= ~7U;
    bytes = inflate_bits(z, 16);
    if ((inflate_bits(z, 16) ^ bytes) != 0xffff || bytes > z->out_bytes - z->written)
        z->failed = 1;
    while (bytes-- && !z->failed)
        z->out[z->written++] = (u8)inflate_bits(z, 8);
}

/* Inflate a whole zlib stream into exactly `out_bytes`. Returns 1, or 0 if it is malformed or has another size. */
static u32 inflate_zlib(const u8 *in, u64 in_bytes, u8 *out, u64 out_bytes)
{
    struct inflater z = {in, in + in_bytes, out, out_bytes, 0, 0, 0, 0};
    struct inflate_code literals, distances;
    u32 is_last = 0;
    if ((inflate_bits(&z, 8) & 15) != 8)  /* deflate */
        return 0;
    if (inflate_bits(&z, 8) & 32)         /* a preset dictionary */
        return 0;
    while (!is_last && !z.failed) {
        u32 kind;
        is_last = inflate_bits(&z, 1);
        kind = inflate_bits(&z, 2);
        if (kind == 0)
            inflate_stored(&z);
        else if (kind < 3 && inflate_block_codes(&z, kind == 1, &literals, &distances))
            inflate_block(&z, &literals, &distances);
        else
            z.failed = 1;
    }
    return !z.failed && z.written == out_bytes;
}
