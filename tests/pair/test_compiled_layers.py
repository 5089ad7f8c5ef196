"""As `test_short_texts`, by our kernels and compiled layers, in bfloat16."""

from __future__ import annotations

import pytest

from specextend_cli import Summarizer
from specextend_cli.engine.config import TreeShape
from specextend_cli.engine.native import Library
from specextend_cli.runtime.loading_thread import result_of
from specextend_cli.runtime.runners import tree_for
from specextend_cli.summarize.writer import TextGenerator
from tests.helpers.short_texts import LENGTHS, check_short_texts

pytestmark = [pytest.mark.pair, pytest.mark.full]


@pytest.fixture(autouse=True)
def hidden_kernels() -> None:
    """Nothing is hidden: the summarizer loads the kernels itself."""


@pytest.fixture(scope="module")
def compiled(library: Library) -> TextGenerator:
    """The pair as users have it, where this machine can compile it."""
    return result_of(Summarizer(cache=False).load())


def test_drafts_change_no_token_of_a_short_text(compiled: TextGenerator) -> None:
    check_short_texts(compiled, LENGTHS)


def test_batches_and_trees_have_no_more_rows_than_are_exact(compiled: TextGenerator) -> None:
    rows = compiled.target.lm.runner.exact_rows
    if rows is None:
        pytest.skip("our kernels are not here")
    assert compiled.batch_size <= rows
    assert compiled.draft_gate.shape.nodes <= rows
    assert tree_for(compiled.target.lm, TreeShape(nodes=50)).nodes == rows  # in `bench`, too
