"""Object files to names."""

from flametap.symbols.symbolizer import Symbolizer
from flametap.symbols.table import SymbolTable

__all__ = ["SymbolTable", "Symbolizer"]
