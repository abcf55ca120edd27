/*
 * Methods of Ruby: whose a frame's is, and the name of one that is written in C. All of this may run in the handler.
 *
 * A frame's environment, or that of the method around a block, refers to the method entry: which method of which class. A class
 * knows its path ("Foo::Bar"), a singleton class whose it is. Names of methods are numbers; those of symbols are never used
 * again.
 */

#define RUBY_CLASS 2                      /* types of objects, as in ruby_code.c */
#define RUBY_MODULE 3
#define RUBY_INCLUDED 0x1c
#define RUBY_IS_SINGLETON 0x1000          /* of a class */
#define RUBY_INTERNAL_VARIABLES 2         /* of an internal object: what $~ is kept in, and a method entry perhaps */
#define RUBY_INTERNAL_METHOD 6
#define RUBY_VARIABLES_METHOD 8           /* in the former */
#define RUBY_METHOD_DEFINITION 16         /* in a method entry */
#define RUBY_METHOD_OWNER 32
#define RUBY_DEFINITION_KINDS 15          /* in its first word: how it is written, 0 in Ruby */
#define RUBY_DEFINITION_ISEQ 8
#define RUBY_DEFINITION_NAME 32           /* its name's number */
#define RUBY_DEFINITION_SERIAL 40
#define RUBY_IS_BLOCK 2                   /* types of iseqs */
#define RUBY_IS_RESCUE 4
#define RUBY_IS_ENSURE 5
#define RUBY_BLOCKS_MAX 8                 /* around each other */
#define RUBY_ENVIRONMENT_LOCAL 2          /* flag of a frame: its environment is in no other one */
#define RUBY_ENVIRONMENTS_MAX 32
#define RUBY_OPERATORS 169                /* numbers up to this one are those of operators */
#define RUBY_SYMBOL_SHIFT 4               /* bits of other numbers that say what they are the names of */
#define RUBY_SYMBOLS_UNIT 512             /* symbols of one array, two elements each */
#define RUBY_VARIABLES_MAX 64             /* of a class, that are looked at */
#define RUBY_TABLE_ENTRIES 48             /* in a hash table (st_table): its entries of 24 bytes: hash, key, value */
#define RUBY_TABLE_END 40                 /* how many there are */
#define RUBY_ENTRY_BYTES 24

/* Find a word of an array. Returns 0 if it has no such element. Context: signal. */
static u32 ruby_element_sigsafe(struct managed_walk *w, u64 array, u64 index, u64 *element)
{
    u64 flags, at, length;
    if (!ruby_object_sigsafe(w, &array, RUBY_ARRAY, &flags))
        return 0;
    if (flags & RUBY_IS_OUTSIDE) {        /* its elements are in it: a few */
        length = flags >> 15 & 0x7f;
        at = array + RUBY_ARRAY_ELEMENTS;
    } else if (!managed_word_sigsafe(w, array + RUBY_ARRAY_ELEMENTS, &length) ||
               !managed_word_sigsafe(w, array + RUBY_ARRAY_POINTER, &at)) {
        return 0;
    }
    return index < length && managed_word_sigsafe(w, at + 8 * index, element);
}

/* Find the characters of a symbol. Context: signal. */
static u32 ruby_symbol_sigsafe(struct managed_walk *w, const u64 *recipe, u64 number, struct python_text *text)
{
    u64 symbols, unit, string, index = number > RUBY_OPERATORS ? number >> RUBY_SYMBOL_SHIFT : number;
    return recipe[RUBY_SYMBOLS] != ABSENT && managed_word_sigsafe(w, recipe[RUBY_SYMBOLS], &symbols) &&
           ruby_element_sigsafe(w, symbols, index / RUBY_SYMBOLS_UNIT, &unit) &&
           ruby_element_sigsafe(w, unit, index % RUBY_SYMBOLS_UNIT * 2, &string) &&
           ruby_string_sigsafe(w, recipe, string, NAME_CHARACTERS_MAX, 0, text) && text->bytes;
}

/* Find the characters of the name of a method, by its entry. Context: signal. */
static u32 ruby_method_name_sigsafe(struct managed_walk *w, const u64 *recipe, u64 method, struct python_text *text)
{
    u64 definition, number;
    return managed_word_sigsafe(w, method + RUBY_METHOD_DEFINITION, &definition) &&
           managed_word_sigsafe(w, definition + RUBY_DEFINITION_NAME, &number) && ruby_symbol_sigsafe(w, recipe, number, text);
}

/* Return whether an object is a method entry, perhaps in what a frame's variables are kept in: `*object` is set to it. Context:
 * signal. */
static u32 ruby_is_method_sigsafe(struct managed_walk *w, u64 *object)
{
    u64 flags;
    if (!ruby_object_sigsafe(w, object, RUBY_INTERNAL, &flags))
        return 0;
    if ((flags >> RUBY_INTERNAL_SHIFT & 15) == RUBY_INTERNAL_VARIABLES &&
        (!managed_word_sigsafe(w, *object + RUBY_VARIABLES_METHOD, object) ||
         !ruby_object_sigsafe(w, object, RUBY_INTERNAL, &flags)))
        return 0;
    return (flags >> RUBY_INTERNAL_SHIFT & 15) == RUBY_INTERNAL_METHOD;
}

/* Find the method entry of a frame by its environment; 0 if it has none. Context: signal. */
static u64 ruby_method_sigsafe(struct managed_walk *w, u64 environment)
{
    u64 flags, method;
    u32 i;
    for (i = 0; i < RUBY_ENVIRONMENTS_MAX; i++) {
        if (!managed_word_sigsafe(w, environment, &flags) || !managed_word_sigsafe(w, environment - 16, &method))
            return 0;
        if (method && !(method & 7) && ruby_is_method_sigsafe(w, &method))
            return method;
        if (flags & RUBY_ENVIRONMENT_LOCAL || !managed_word_sigsafe(w, environment - 8, &environment))
            return 0;
        environment &= ~3ULL;
    }
    return 0;
}

/* Read the number of the definition of a method that runs this iseq, or around a block that is in its code. Returns 0 if it is
 * of no such method: code that was made by eval is not. Context: signal. */
static u32 ruby_serial_sigsafe(struct managed_walk *w, const u64 *recipe, u64 method, u64 iseq, u64 body, u64 *serial)
{
    u64 definition, kind, own;
    u32 i, type;
    if (!managed_word_sigsafe(w, method + RUBY_METHOD_DEFINITION, &definition) ||
        !managed_word_sigsafe(w, definition, &kind) || kind & RUBY_DEFINITION_KINDS ||
        !managed_word_sigsafe(w, definition + RUBY_DEFINITION_ISEQ, &own))
        return 0;
    for (i = 0; iseq != own; i++) {
        /* Code refers to the blocks in it, so they live as long as it does. */
        if (i == RUBY_BLOCKS_MAX || !managed_u32_sigsafe(w, body, &type) ||
            (type != RUBY_IS_BLOCK && type != RUBY_IS_RESCUE && type != RUBY_IS_ENSURE) ||
            !managed_word_sigsafe(w, body + recipe[RUBY_BODY_PARENT], &iseq) ||
            !managed_word_sigsafe(w, iseq + recipe[RUBY_CODE_BODY], &body))
            return 0;
    }
    return managed_word_sigsafe(w, definition + RUBY_DEFINITION_SERIAL, serial);
}

/* Find the class that has the method; 0 if it is not known. Context: signal. */
static u64 ruby_owner_sigsafe(struct managed_walk *w, u64 method)
{
    u64 owner, flags = 0;
    if (!method || !managed_word_sigsafe(w, method + RUBY_METHOD_OWNER, &owner) || !owner || owner & 7)
        return 0;
    if (ruby_object_sigsafe(w, &owner, RUBY_INCLUDED, &flags) && !managed_word_sigsafe(w, owner + 8, &owner))
        return 0;
    return ruby_object_sigsafe(w, &owner, RUBY_CLASS, &flags) || (flags & RUBY_TYPE_MASK) == RUBY_MODULE ? owner : 0;
}

/* Find what a class has in a field: RUBY_CLASS_PATH or RUBY_CLASS_ATTACHED. Returns 0 if there is nothing. Context: signal. */
static u32 ruby_of_class_sigsafe(struct managed_walk *w, const u64 *recipe, u64 owner, u32 field, u64 *value)
{
    u64 extension = owner + recipe[RUBY_CLASS_EXTENSION], table, entries, count, i, key;
    if (recipe[field] == ABSENT || (!recipe[RUBY_CLASS_IS_INLINE] && !managed_word_sigsafe(w, extension, &extension)))
        return 0;
    if (recipe[RUBY_CLASS_VARIABLES] == ABSENT)
        return managed_word_sigsafe(w, extension + recipe[field], value);
    if (!managed_word_sigsafe(w, extension + recipe[RUBY_CLASS_VARIABLES], &table) || !table ||
        !managed_word_sigsafe(w, table + RUBY_TABLE_ENTRIES, &entries) ||
        !managed_word_sigsafe(w, table + RUBY_TABLE_END, &count))
        return 0;
    for (i = 0; i < count && i < RUBY_VARIABLES_MAX; i++)
        if (!managed_word_sigsafe(w, entries + RUBY_ENTRY_BYTES * i + 8, &key))
            return 0;
        else if (key == recipe[field])
            return managed_word_sigsafe(w, entries + RUBY_ENTRY_BYTES * i + 16, value);
    return 0;
}

/* Find the path of a class, or of that whose singleton class it is: sets `*is_singleton`. Returns 0 if it has none. Context:
 * signal. */
static u32 ruby_class_sigsafe(struct managed_walk *w, const u64 *recipe, u64 owner, u32 *is_singleton, struct python_text *text)
{
    u64 flags, path;
    *is_singleton = 0;
    if (!owner || recipe[RUBY_CLASS_EXTENSION] == ABSENT || !managed_word_sigsafe(w, owner, &flags))
        return 0;
    if ((flags & RUBY_TYPE_MASK) == RUBY_CLASS && flags & RUBY_IS_SINGLETON) {
        *is_singleton = 1;
        if (!ruby_of_class_sigsafe(w, recipe, owner, RUBY_CLASS_ATTACHED, &owner) || !owner || owner & 7 ||
            !managed_word_sigsafe(w, owner, &flags) ||
            ((flags & RUBY_TYPE_MASK) != RUBY_CLASS && (flags & RUBY_TYPE_MASK) != RUBY_MODULE))
            return 0;
    }
    return ruby_of_class_sigsafe(w, recipe, owner, RUBY_CLASS_PATH, &path) && path && !(path & 7) &&
           ruby_string_sigsafe(w, recipe, path, NAME_CHARACTERS_MAX, 0, text) && text->bytes;
}
