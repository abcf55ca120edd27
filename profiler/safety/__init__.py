"""Check a process before an attach, and compare it with its former state after a detach."""
