/*
 * What the agent takes from outside: a cell for the address of its state, and libc's functions for threads and signals.
 * There are three ways to link it. TinyCC is given symbols (CModule). Machine code holds pointers, which agent.js fills in
 * before the code becomes read-only (machine_code.py). Tests link with libc.
 */
#ifndef FLAMETAP_IMPORTS_H
#define FLAMETAP_IMPORTS_H

struct agent;

#if defined(__TINYC__)

extern struct agent *agent_cell;          /* `&agent_cell` is the address that agent.js allocated */
extern int libc_sigaction(int signo, const void *action, void *old);
extern int libc_pthread_create(void *thread, const void *attributes, void *(*start)(void *), void *argument);
extern int libc_pthread_join(u64 thread, void *result);
extern int libc_pthread_attr_init(void *attributes);
extern int libc_pthread_attr_setstacksize(void *attributes, u64 bytes);
extern int libc_pthread_attr_destroy(void *attributes);
#define LIBC_CODE ((u64)libc_sigaction)   /* an address in libc */

#elif defined(FLAMETAP_MACHINE_CODE)

#define IMPORT __attribute__((section(".imports")))
IMPORT struct agent **const volatile import_agent_cell = 0;
IMPORT int (*const volatile import_libc_sigaction)(int signo, const void *action, void *old) = 0;
IMPORT int (*const volatile import_libc_pthread_create)(void *thread, const void *attributes, void *(*start)(void *), void *argument) = 0;
IMPORT int (*const volatile import_libc_pthread_join)(u64 thread, void *result) = 0;
IMPORT int (*const volatile import_libc_pthread_attr_init)(void *attributes) = 0;
IMPORT int (*const volatile import_libc_pthread_attr_setstacksize)(void *attributes, u64 bytes) = 0;
IMPORT int (*const volatile import_libc_pthread_attr_destroy)(void *attributes) = 0;
#define agent_cell (*import_agent_cell)
#define libc_sigaction import_libc_sigaction
#define libc_pthread_create import_libc_pthread_create
#define libc_pthread_join import_libc_pthread_join
#define libc_pthread_attr_init import_libc_pthread_attr_init
#define libc_pthread_attr_setstacksize import_libc_pthread_attr_setstacksize
#define libc_pthread_attr_destroy import_libc_pthread_attr_destroy
#define LIBC_CODE ((u64)import_libc_sigaction)

#else

#include <pthread.h>
#include <signal.h>
static struct agent *agent_cell;
#define libc_sigaction(signo, action, old) sigaction(signo, (const struct sigaction *)(action), (struct sigaction *)(old))
#define libc_pthread_create(thread, attributes, start, argument) \
    pthread_create((pthread_t *)(thread), (const pthread_attr_t *)(attributes), start, argument)
#define libc_pthread_join(thread, result) pthread_join((pthread_t)(thread), (void **)(result))
#define libc_pthread_attr_init(attributes) pthread_attr_init((pthread_attr_t *)(attributes))
#define libc_pthread_attr_setstacksize(attributes, bytes) pthread_attr_setstacksize((pthread_attr_t *)(attributes), bytes)
#define libc_pthread_attr_destroy(attributes) pthread_attr_destroy((pthread_attr_t *)(attributes))
#define LIBC_CODE ((u64)sigaction)

#endif
#endif
