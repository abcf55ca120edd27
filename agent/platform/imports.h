/*
 * What the agent takes from outside: the address of `boot`, which holds the address of the agent's state. Machine code
 * has a pointer for it, which the host fills in before the code runs (machine_code.py). Tests link a `boot` of their own.
 */
#ifndef FLAMETAP_IMPORTS_H
#define FLAMETAP_IMPORTS_H

struct agent;

#ifdef FLAMETAP_MACHINE_CODE
#define IMPORT __attribute__((section(".imports")))
IMPORT struct boot *const volatile import_boot = 0;
#define BOOT import_boot
#else
static struct boot boot_of_test;
#define BOOT (&boot_of_test)
#endif
#define agent_cell (*(struct agent *volatile *)&BOOT->cell)

#endif
