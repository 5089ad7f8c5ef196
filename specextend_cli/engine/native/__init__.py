"""Our own native code for CPUs: C++ behind a plain C interface, for several instruction sets."""

from specextend_cli.engine.native.shared_library import CannotCompileError, Library, is_loaded

__all__ = ["CannotCompileError", "Library", "is_loaded"]
