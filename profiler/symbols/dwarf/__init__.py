"""DWARF that lies in several files (dwz, .dwo, .dwp), put together to one; see README.md."""
