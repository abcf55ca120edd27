/* A library (variant "shared") whose constructor calls back into stuck.c, and never returns. */
void stuck_here(void);

__attribute__((constructor)) static void hang(void)
{
    stuck_here();
    __asm__ volatile(""); /* a call, no jump */
}
