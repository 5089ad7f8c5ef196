"""TOML: the standard library's reader, which Python 3.10 has not, and values as they are written."""

from __future__ import annotations

import json
import sys

if sys.version_info >= (3, 11):
    from tomllib import TOMLDecodeError, loads
else:
    from tomli import TOMLDecodeError, loads

__all__ = ["TOMLDecodeError", "loads", "written"]


def written(value: object) -> str:
    """A string, number, truth value or list of them; JSON's are TOML's, with DEL escaped."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
