"""A drafter is added by one entry of the registry."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

import pytest
from torch import Tensor

from specextend_cli.engine.config import TreeShape
from specextend_cli.engine.drafters import Drafter
from specextend_cli.engine.drafters.ngram_table import NgramTable
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.registry import DRAFTERS, DrafterEntry, DrafterSetup, make_drafter
from specextend_cli.engine.target import Target
from specextend_cli.engine.tree import DraftTree
from tests.engine.tiny_models import by_generate, prompt, small_draft, tiny
from tests.helpers.decoding import NEW, run, small


class RepeatDrafter(Drafter):
    """Proposes the last token three times more."""

    name = "repeat"
    proposed = 0

    def observe(self, tokens: Sequence[int], features: Tensor | None, ids: Tensor | None = None) -> None:
        self.last = tokens[-1]

    def propose(self, shape: TreeShape) -> DraftTree:
        self.proposed += 1
        return DraftTree([self.last] * 4, [0, 0, 1, 2], [1.0, 0.9, 0.8, 0.7])


@pytest.fixture
def setup(monkeypatch: pytest.MonkeyPatch) -> DrafterSetup:
    entry = DrafterEntry(lambda setup: RepeatDrafter(), "the last token again", attends=False)
    monkeypatch.setitem(DRAFTERS, "repeat", entry)
    target = Target(LanguageModel(tiny()))
    return DrafterSetup(
        target,
        small("retrieval"),
        load_lm=lambda: LanguageModel(small_draft()),
        load_head=lambda: pytest.fail("no head is needed"),
        load_table=lambda: NgramTable({}, [], []),
        load_mtp=lambda: pytest.fail("no layer is needed"),
        load_assistant=lambda: pytest.fail("no assistant is needed"),
        parts=("repeat", "ngram"),
    )


@pytest.mark.parametrize("name", ["repeat", "blend", "lm", "self", "none", "table"])
def test_a_drafter_from_the_registry_is_lossless(setup: DrafterSetup, name: str) -> None:
    drafter = make_drafter(name, setup)
    assert run(setup.target, drafter, prompt(), setup.retrieval)[0] == by_generate(NEW)
    for source in getattr(drafter, "sources", (drafter,)):
        assert getattr(source, "proposed", 1) > 0


def test_the_registry_is_imported_without_torch() -> None:
    code = "import sys; from specextend_cli.engine.registry import DRAFTERS; print('torch' in sys.modules, *DRAFTERS)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert out == ["False", *DRAFTERS]
