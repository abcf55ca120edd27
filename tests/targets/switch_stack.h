/* The switch from one stack to another by hand: six registers and the stack pointer, as boost.context does. */
#ifndef SWITCH_STACK_H
#define SWITCH_STACK_H

/* Leave the running stack, its pointer in *save, and go on where the stack at to was left. */
void switch_stack(void **save, void *to);
__asm__(".text\n.globl switch_stack\n.type switch_stack,@function\nswitch_stack:\n"
        "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
        "movq %rsp,(%rdi)\nmovq %rsi,%rsp\n"
        "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\n"
        "ret\n.size switch_stack,.-switch_stack\n");

#endif
