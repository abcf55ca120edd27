/*
 * Fixed-width types, and the few atomic operations that the agent needs.
 *
 * x86-64 keeps loads in order with loads and stores with stores, so an aligned volatile access with a compiler barrier
 * is an acquire load or a release store (Intel SDM volume 3, 9.2.2). There is a barrier on both sides, so that the compiler
 * keeps all accesses before it before it, and those after it after it: seqlocks need that.
 */
#ifndef FLAMETAP_ATOMICS_H
#define FLAMETAP_ATOMICS_H

#ifdef FLAMETAP_MACHINE_CODE              /* memory_functions.c */
void *memcpy(void *to, const void *from, unsigned long bytes);
void *memmove(void *to, const void *from, unsigned long bytes);
#else
#include <string.h>                       /* memcpy, memmove: never in the handler */
#endif

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef short i16;
typedef int i32;
typedef long long i64;

#define COMPILER_BARRIER() __asm__ volatile("" ::: "memory")

/* Keep loads behind it from passing stores before it. */
#define FULL_BARRIER() __asm__ volatile("mfence" ::: "memory")

static u32 load_acquire_u32(const volatile u32 *p)
{
    u32 value;
    COMPILER_BARRIER();
    value = *p;
    COMPILER_BARRIER();
    return value;
}

static void store_release_u32(volatile u32 *p, u32 value)
{
    COMPILER_BARRIER();
    *p = value;
    COMPILER_BARRIER();
}

static u64 load_acquire_u64(const volatile u64 *p)
{
    u64 value;
    COMPILER_BARRIER();
    value = *p;
    COMPILER_BARRIER();
    return value;
}

static void store_release_u64(volatile u64 *p, u64 value)
{
    COMPILER_BARRIER();
    *p = value;
    COMPILER_BARRIER();
}

/* Tell the CPU that the thread waits for another one. */
static void cpu_pause_sigsafe(void)
{
    __builtin_ia32_pause();
}

/* Take a lock, unless another thread has it. It is given back by store_release_u32. */
static u32 try_lock_sigsafe(volatile u32 *lock)
{
    return *lock == 0 && __atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE) == 0;
}

/* Read the time stamp counter, which has a constant rate on every x86-64 machine whose Linux uses it for
 * CLOCK_MONOTONIC. */
static u64 read_tsc_sigsafe(void)
{
    u32 low, high;
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
    return ((u64)high << 32) | low;
}

/*
 * Protection keys (pkeys(7)): the kernel starts each signal handler with a register that denies all memory with a key,
 * whatever the interrupted thread may read; engines give one to code of WebAssembly. The page that a thread runs could not
 * be read then, and a read in place would end the target.
 */
#define KEYS_DENY_WRITES 0xaaaaaaaaU      /* two bits for each key: access, writing */

/* Return whether the kernel uses them. cpuid(7): OSPKE */
static u32 keys_are_used(void)
{
    u32 a = 0, b, c = 0, d;
    __asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
    if (a < 7)
        return 0;
    a = 7;
    c = 0;
    __asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
    return c >> 4 & 1;
}

/* Let the handler read memory with any key, by rdpkru and wrpkru. The kernel restores the register when the handler ends.
 * Only if keys are used. Context: signal. */
static void keys_open_sigsafe(void)
{
    u32 denied, high;
    __asm__ volatile(".byte 0x0f,0x01,0xee" : "=a"(denied), "=d"(high) : "c"(0));
    __asm__ volatile(".byte 0x0f,0x01,0xef" : : "a"(denied & KEYS_DENY_WRITES), "c"(0), "d"(0) : "memory");
}

#endif
