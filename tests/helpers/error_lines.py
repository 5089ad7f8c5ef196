"""What a command says of an error on stderr."""

from __future__ import annotations

import re


def said(done) -> dict[str, str]:
    """The error's lines by their labels, which come last on stderr and in this order."""
    assert "Traceback" not in done.stderr
    assert "defect" not in done.stderr
    found = re.search(r"^error: (.+)\n(?:why:   (.+)\n)?(?:try:   (.+)\n)?\Z", done.stderr, re.M)
    assert found, done.stderr
    return dict(zip(("error", "why", "try"), (group or "" for group in found.groups()), strict=True))
