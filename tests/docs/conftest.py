"""No test sees or touches the user's caches and configuration."""

from tests.cli.conftest import home

__all__ = ["home"]
