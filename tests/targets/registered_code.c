/* The code that registered.c loads, as a compiler in a process makes it: an object file with two functions, which call
 * nothing. */
unsigned long long heavy(unsigned long long iterations)
{
    unsigned long long state = 1;
    for (unsigned long long i = 0; i < 3 * iterations; i++)
        state = state * 6364136223846793005ULL + 1;
    return state;
}

unsigned long long light(unsigned long long iterations)
{
    unsigned long long state = 1;
    for (unsigned long long i = 0; i < iterations; i++)
        state = state * 2862933555777941757ULL + 1;
    return state;
}
