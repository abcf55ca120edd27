"""Record a process on a device or another system, by Frida; see README.md."""
