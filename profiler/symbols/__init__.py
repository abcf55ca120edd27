"""Find the functions, files and lines of addresses, from object files and generated code."""

from .names.table import SymbolTable
from .symbolizer import Symbolizer

__all__ = ["SymbolTable", "Symbolizer"]
