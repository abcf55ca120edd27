"""Frida as the way in, and everything that keeps it from harming the target."""
