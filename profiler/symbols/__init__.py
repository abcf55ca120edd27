"""Object files to names."""

from .names.table import SymbolTable
from .symbolizer import Symbolizer

__all__ = ["SymbolTable", "Symbolizer"]
