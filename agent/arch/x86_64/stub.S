/*
 * The direct way in: what one thread of the target runs, once, so that our thread comes to be, and what our thread runs
 * before the agent is there and after it has gone. The host fills this piece in and writes it into executable bytes of
 * the target that nothing uses (profiler/inject/direct/slack.py). It is part of the machine code only to be shipped.
 *
 * Other threads may be sent here later: with `answer` filled in, a thread writes its alternate signal stack there and makes
 * no thread. There is one state for all, so each waits for the one before to leave (profiler/inject/direct/alternate_ask.py).
 *
 * Nothing here waits for the host. The thread that is diverted goes on by itself, with all its registers, flags and its
 * mask, also if the host dies at once. Our thread ends by itself unless `boot.go` is set in time.
 *
 * A call that the stop has interrupted begins again, unless a handler runs before the first instruction here: then it has
 * ended. The kernel decides that, as it does for each signal (arch/x86/kernel/signal.c).
 *
 * The diverted thread's part reads and writes no memory but this piece and uses no stack: that may be a goroutine's,
 * with no room below. A signal's frame goes to rsp, so rsp leaves the thread's stack only while all signals are blocked.
 * System calls change rcx, r11 and rax only; they are loaded last.
 */
        .text
        .globl  stub_begin, stub_nap, stub_data, stub_end
        .balign 16
stub_begin:
        jmp     1f                              # two bytes: the kernel goes back so many to begin a call again
        mov     $1, %r9d                        # and comes here after a handler that ends the call
        jmp     2f
1:      xor     %r9d, %r9d
2:      mov     $14, %eax                       # rt_sigprocmask(SIG_SETMASK, all, 0, 8)
        mov     $2, %edi
        lea     all_signals(%rip), %rsi
        xor     %edx, %edx
        mov     $8, %r10d
        syscall
        cmpq    $0, answer(%rip)
        jne     back
        mov     $56, %eax                       # clone: VM|FS|FILES|SIGHAND|THREAD|SYSVSEM|SETTLS, tls 0, the same rsp
        mov     $0xd0f00, %edi
        xor     %esi, %esi
        xor     %r10d, %r10d
        xor     %r8d, %r8d
        syscall
        test    %rax, %rax
        jz      born
back:   lea     flags(%rip), %rsp
        popfq                                   # nothing below changes flags
        mov     own_rsp(%rip), %rsp
        mov     $14, %eax                       # its own mask again: a signal that has come is delivered here
        mov     $2, %edi
        lea     mask(%rip), %rsi
        mov     $0, %edx
        mov     $8, %r10d
        syscall
        mov     answer(%rip), %rcx              # such a signal's handler has returned: an answer says that nearly all is done
        jrcxz   1f
        mov     $131, %eax                      # sigaltstack(0, answer)
        mov     $0, %edi
        mov     %rcx, %rsi
        syscall
1:      mov     own_r8(%rip), %r8
        mov     own_r10(%rip), %r10
        mov     own_rdx(%rip), %rdx
        mov     own_rsi(%rip), %rsi
        mov     own_rdi(%rip), %rdi
        mov     own_r11(%rip), %r11
        mov     %r9, %rcx
        mov     own_r9(%rip), %r9
        jrcxz   1f
        mov     own_rcx(%rip), %rcx
        mov     $-4, %rax                       # EINTR
        jmp     *call_end(%rip)
1:      mov     own_rcx(%rip), %rcx
        mov     own_rax(%rip), %rax
        jmp     *own_rip(%rip)

born:                                           # our thread: all signals are blocked, and there is no stack yet
        xor     %esp, %esp
        xor     %ebp, %ebp
        mov     $157, %eax                      # prctl(PR_SET_NAME): by it another host knows us from the first moment
        mov     $15, %edi
        lea     name(%rip), %rsi
        syscall
        mov     $9, %eax                        # mmap: readable and executable. Never writable as well
        xor     %edi, %edi
        mov     all_bytes(%rip), %rsi
        mov     $5, %edx
        mov     $0x4022, %r10d                  # MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE
        mov     $-1, %r8
        xor     %r9d, %r9d
        syscall
        cmp     $-4096, %rax
        ja      leave
        mov     %rax, %r12                      # r12: all of it, r13: boot, behind the code
        mov     code_bytes(%rip), %r13
        add     %r12, %r13
        mov     $10, %eax                       # mprotect: boot and the stack can be written, and not run
        mov     %r13, %rdi
        mov     all_bytes(%rip), %rsi
        sub     code_bytes(%rip), %rsi
        mov     $3, %edx
        syscall
        test    %rax, %rax
        jnz     unmap
        mov     naps(%rip), %ebx
1:      cmpl    $0, (%r13)                      # boot.go
        jne     2f
        dec     %ebx
        jz      unmap
        mov     $35, %eax                       # nanosleep; the host reads r12 in /proc/PID/task/TID/syscall
        lea     stub_nap(%rip), %rdi
        xor     %esi, %esi
        mov     %r12, %rdx
        syscall
        jmp     1b
2:      mov     all_bytes(%rip), %rsp
        sub     $16, %rsp
        add     %r12, %rsp
        mov     entry(%rip), %rax
        add     %r12, %rax
        call    *%rax                           # agent_main; keeps r12
unmap:  mov     $11, %eax
        mov     %r12, %rdi
        mov     all_bytes(%rip), %rsi
        syscall
leave:  mov     $60, %eax
        xor     %edi, %edi
        syscall

        .balign 8
all_signals:
        .quad   -1
name:   .asciz  "flametap"
        .balign 8
stub_nap:
        .quad   0, 500000                       # seconds, nanoseconds
stub_data:                                      # filled in: the first five by direct/, all behind by host/divert.c
all_bytes:      .quad   0
code_bytes:     .quad   0
entry:          .quad   0                       # offset of agent_main
naps:           .quad   0
answer:         .quad   0                       # address of boot.alternate_start; 0: make our thread
mask:           .quad   0
flags:          .quad   0
own_rip:        .quad   0
own_rsp:        .quad   0
own_rax:        .quad   0
own_rcx:        .quad   0
own_rdx:        .quad   0
own_rsi:        .quad   0
own_rdi:        .quad   0
own_r8:         .quad   0
own_r9:         .quad   0
own_r10:        .quad   0
own_r11:        .quad   0
call_end:       .quad   0                       # behind the call that the stop has interrupted
stub_end:
