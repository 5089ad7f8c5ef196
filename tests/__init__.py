"""One package of tests for each package of `specextend_cli`; `helpers` are shared, `scripts` are run by hand."""

from pathlib import Path

ROOT = Path(__file__).parents[1]
"""The repository: where programs that import `tests` are started."""
