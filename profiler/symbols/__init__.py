"""Object files to names."""

from flametap.symbols.names.table import SymbolTable
from flametap.symbols.symbolizer import Symbolizer

__all__ = ["SymbolTable", "Symbolizer"]
