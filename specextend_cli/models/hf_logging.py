"""A terminal that is ours: transformers says nothing on it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """No progress bars or advice from transformers; what it was told before holds again afterwards."""
    from transformers.utils import logging as transformers_logging

    logging: Any = transformers_logging  # its functions carry no annotations
    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()
