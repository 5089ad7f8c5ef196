"""The embedded pair writes the same tokens with drafts and without, however short the prompt is."""

from __future__ import annotations

import pytest

from specextend_cli.runtime.loading_thread import result_of
from specextend_cli.summarize.writer import TextGenerator
from tests.helpers.asked import asked
from tests.helpers.short_texts import LENGTHS, check_short_texts

pytestmark = pytest.mark.pair


@pytest.fixture(scope="module")
def stock(kernels: str) -> TextGenerator:
    """By stock layers in float32, with our kernels or torch's."""
    return result_of(asked(cache=False, dtype="float32", compile=False).load())


def test_drafts_change_no_token_of_a_short_text(stock: TextGenerator) -> None:
    check_short_texts(stock, LENGTHS[::9])  # stock layers are slow
