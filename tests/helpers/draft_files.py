"""What writes drafts' files, which lies beside a preset."""

from __future__ import annotations

import importlib.util
from pathlib import Path

_FILE = Path(__file__).parents[2] / "presets" / "smollm2-135m-draft" / "files.py"
_spec = importlib.util.spec_from_file_location("files", _FILE)
assert _spec is not None
assert _spec.loader is not None
_files = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_files)
save_head, table_file = _files.save_head, _files.table_file
