"""A step with recurrent layers waits for the device as often as any other; paths cost small uploads."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from specextend_cli.engine.decode import decode
from specextend_cli.engine.draft_gate import DraftGate
from specextend_cli.engine.events import Step
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.stop import Stop
from specextend_cli.engine.target import Target
from tests.engine.test_host_reads import READS
from tests.engine.tiny_models import prompt, tiny
from tests.helpers.decoding import DRAFTERS, SHAPE, small
from tests.helpers.grid import but_for
from tests.helpers.pretend_device import PretendDevice


@pytest.mark.parametrize("drafter", but_for(("eagle3",), ("none", "ngram", "eagle3")))
@pytest.mark.parametrize("name", ["qwen3.5", "lfm2"])
def test_reads_of_a_step(pretend: PretendDevice, name: str, drafter: str) -> None:
    target, retrieval = Target(LanguageModel(tiny(name).to("cuda"))), small("retrieval")
    made, count = DRAFTERS[drafter](target, retrieval), 0
    gate = DraftGate(replace(SHAPE, threshold=0.15), enabled=False)
    for event in decode(target, made, prompt(80), stop=Stop(16), retrieval=retrieval, gate=gate):
        if isinstance(event, Step):
            count += 1
            if count > 3:
                reads, uploads, waits = (Counter(found) for found in (pretend.reads, pretend.uploads, pretend.waits))
                assert reads.total() <= READS[drafter]
                assert uploads.total() <= 2 + 2 * (drafter != "none")  # levels, path
                assert not waits
            pretend.forget()
    assert count > 4
