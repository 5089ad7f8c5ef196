"""A home of the test's own for presets, caches, checkpoints and package indexes that somebody else made."""

from __future__ import annotations

from tests.models.conftest import home as home
