/* The library of moved.c. */
#define JOINED(build, name) build##_##name
#define NAMED(build, name) JOINED(build, name)

unsigned NAMED(BUILD, library)(unsigned rounds);

static volatile unsigned sink;

__attribute__((noinline)) unsigned NAMED(BUILD, library)(unsigned rounds) {
    for (unsigned i = 0; i < rounds; i++)
        sink += i * 7;
    return sink;
}
