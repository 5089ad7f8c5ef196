"""Our own kernels for processors with AVX-512: C++ that is compiled once, for the machine it runs on."""

from specextend_cli.engine.native.compiler import CannotCompileError
from specextend_cli.engine.native.library import Library, is_loaded, version

__all__ = ["CannotCompileError", "Library", "is_loaded", "version"]
