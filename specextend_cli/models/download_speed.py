"""How fast the last large download was, so that the next one's time can be told before it begins."""

from __future__ import annotations

import json
import os
from math import inf
from pathlib import Path

import platformdirs

_LEAST = 4_000_000  # bytes; less says little


def record(size: int, seconds: float) -> None:
    """Keep the speed of a download of `size` bytes; a cache that cannot be written keeps nothing."""
    if size < _LEAST or seconds <= 0:
        return
    try:
        file = _file()
        file.parent.mkdir(parents=True, exist_ok=True)
        made = file.with_name(f"{file.name}.{os.getpid()}")
        made.write_text(json.dumps({"bytes_per_second": size / seconds}))
        made.replace(file)
    except OSError:
        pass


def expected_seconds(size: int) -> float | None:
    """Seconds that `size` bytes take at the speed of the last download; None where there was none."""
    try:
        speed = float(json.loads(_file().read_text())["bytes_per_second"])
    except (OSError, ValueError, LookupError, TypeError):
        return None
    return size / speed if 1 < speed < inf else None


def _file() -> Path:
    return Path(platformdirs.user_cache_dir("specextend")) / "download-speed.json"
