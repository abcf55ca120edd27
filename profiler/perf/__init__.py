"""Sample processes that no agent is in, by the kernel's perf events; see README.md."""
