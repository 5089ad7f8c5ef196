"""What an awkward document is: how it is made, and the text or the error that is right for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from specextend_cli.errors import Exit, InputError


@dataclass(frozen=True)
class EdgeCase:
    """`make` gives the file, which must be read as `text` exactly, or be refused with an `error` that begins so.

    `warning` is in the first warning; where it is "" there must be none. One that `is_large` is for the full tests.
    """

    name: str
    make: Callable[[], bytes]
    text: str = ""
    error: str = ""
    warning: str = ""
    password: str | None = None
    is_large: bool = False


def refusal(call: Callable[[], object]) -> InputError:
    """The error with which a document is refused."""
    with pytest.raises(InputError) as caught:
        call()
    assert caught.value.exit is Exit.INPUT
    return caught.value
