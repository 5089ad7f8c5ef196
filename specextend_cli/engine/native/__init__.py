"""Our own kernels for CPUs with AVX-512: C++ that is compiled once, on the machine that runs it."""

from specextend_cli.engine.native.compiler import CannotCompileError
from specextend_cli.engine.native.library import Library, is_loaded, version

__all__ = ["CannotCompileError", "Library", "is_loaded", "version"]
