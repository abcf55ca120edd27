"""What the kernel says and does: /proc, ptrace(2), seccomp(2), sockets."""
