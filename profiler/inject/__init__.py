"""Frida's attach, and everything that keeps it from harming the target."""
