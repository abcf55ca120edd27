/*
 * Methods of Java: what tells one from another that later gets the same address, when a class is unloaded. All of this may
 * run in the handler; what a method consists of lies in memory that may be unmapped.
 *
 * Method → ConstMethod (the bytecode follows it) → ConstantPool → the class → its name, a Symbol: u16 length, characters.
 */

#define SYMBOL_MIXED_BYTES 128
#define POOL_ENTRY_BYTES 8

/* Mix in the first characters of a symbol. Returns 0 if it cannot be read. Context: signal. */
static u32 symbol_mix_sigsafe(struct managed_walk *w, const u64 *recipe, u64 symbol, u64 *hash)
{
    u64 at, end, word;
    u32 length;
    if (symbol & 7 || !managed_u16_sigsafe(w, symbol + recipe[HOTSPOT_SYMBOL_LENGTH], &length) || !length)
        return 0;
    *hash = code_mix_sigsafe(*hash, length);
    at = symbol + recipe[HOTSPOT_SYMBOL_BODY];
    end = at + (length < SYMBOL_MIXED_BYTES ? length : SYMBOL_MIXED_BYTES);
    for (at &= ~7ULL; at < end; at += 8) {
        if (!managed_word_sigsafe(w, at, &word))
            return 0;
        if (at < symbol + recipe[HOTSPOT_SYMBOL_BODY])
            word >>= (symbol + recipe[HOTSPOT_SYMBOL_BODY] - at) * 8;
        if (end - at < 8)
            word &= (1ULL << (end - at) * 8) - 1;
        *hash = code_mix_sigsafe(*hash, word);
    }
    return 1;
}

/* Return the symbol at an index of a constant pool; 0 if there is none. Context: signal. */
static u64 pool_symbol_sigsafe(struct managed_walk *w, const u64 *recipe, u64 pool, u32 index)
{
    u64 symbol;
    u32 length;
    if (!index || !managed_u32_sigsafe(w, pool + recipe[HOTSPOT_POOL_LENGTH], &length) || index >= length || length > 65536 ||
        !managed_word_sigsafe(w, pool + recipe[HOTSPOT_POOL_BYTES] + (u64)index * POOL_ENTRY_BYTES, &symbol))
        return 0;
    return symbol;
}

/* Read what tells a method from others. Returns 0 if the memory is no method. Context: signal. */
static u32 java_method_sigsafe(struct managed_walk *w, const u64 *recipe, u64 method, struct java_method *found)
{
    u64 constant, pool, klass, class_name, hash;
    u32 name, signature;
    if (method & 7 || !managed_word_sigsafe(w, method + recipe[HOTSPOT_METHOD_CONST], &constant) || constant & 7 ||
        !managed_word_sigsafe(w, constant + recipe[HOTSPOT_CONST_POOL], &pool) || pool & 7 ||
        !managed_u16_sigsafe(w, constant + recipe[HOTSPOT_CONST_NAME], &name) ||
        !managed_u16_sigsafe(w, constant + recipe[HOTSPOT_CONST_SIGNATURE], &signature) ||
        !managed_u16_sigsafe(w, constant + recipe[HOTSPOT_CONST_CODE_BYTES], &found->code_bytes) ||
        !managed_word_sigsafe(w, pool + recipe[HOTSPOT_POOL_HOLDER], &klass) || klass & 7 ||
        !managed_word_sigsafe(w, klass + recipe[HOTSPOT_KLASS_NAME], &class_name))
        return 0;
    found->codes = constant + recipe[HOTSPOT_CONST_BYTES];
    hash = code_mix_sigsafe(constant, pool);
    hash = code_mix_sigsafe(hash, (u64)found->code_bytes << 32 | name << 16 | signature);
    hash = code_mix_sigsafe(hash, pool_symbol_sigsafe(w, recipe, pool, name));
    if (!symbol_mix_sigsafe(w, recipe, class_name, &hash))
        return 0;
    found->fingerprint = (u32)hash > 1 ? (u32)hash : 2; /* 1 stands for stubs */
    return 1;
}

/*
 * Methods of the interpreter's frames that were read before: where their bytecode is. An entry is one u64, read and written
 * whole: {runtime_addr of the bytecode : 48, part of the method's : 16}.
 */
static volatile u64 *known_method_sigsafe(struct agent *a, u64 method)
{
    return &a->known_methods[(method >> 3 ^ method >> 15) & (KNOWN_METHODS - 1)];
}

static u64 known_tag_sigsafe(u64 method)
{
    return code_mix_sigsafe(0, method) & 0xffff;
}

static void known_method_keep_sigsafe(struct agent *a, u64 method, const struct java_method *found)
{
    if (a->known_methods)
        *known_method_sigsafe(a, method) = found->codes << 16 | known_tag_sigsafe(method);
}

/* Return whether a frame with this method and bytecode is one that was read before: two words of it agree. Context: signal. */
static u32 is_known_method_sigsafe(struct agent *a, u64 method, u64 bytecode)
{
    u64 known = a->known_methods ? *known_method_sigsafe(a, method) : 0;
    return method && known && (known & 0xffff) == known_tag_sigsafe(method) && bytecode - (known >> 16) < JAVA_NO_INDEX;
}
