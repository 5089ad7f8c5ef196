"""Targets and drafts with recurrent layers: lossless, their states those of reading in order, their batches too."""

from __future__ import annotations

from functools import partial

import pytest
import torch
import transformers

from specextend_cli.engine.batch import BatchRequest, slots_for
from specextend_cli.engine.cache import KVCache
from specextend_cli.engine.config import TreeShape
from specextend_cli.engine.drafters import LMDrafter, NoDrafter
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.step import Step
from specextend_cli.engine.stop import Stop
from specextend_cli.engine.target import Target
from specextend_cli.engine.tree import DraftTree
from specextend_cli.errors import ModelError
from tests.engine.tiny_models import COMMON, MAMBA, RECURRENT, VOCABULARY, by_generate, generate, prompt, tiny
from tests.helpers.decoding import NEW, run, small
from tests.helpers.decoding import decode_together as run_batch
from tests.helpers.grid import but_for

SOME = ("qwen3.5", "lfm2")
"""One of each kind, a delta net and convolutions: those of presets."""


class Oracle(NoDrafter):
    """Proposes what the target writes, up to a token that it does not, among wrong siblings."""

    def __init__(self, answer: list[int]) -> None:
        super().__init__()
        self.answer, self.written = answer, 0

    def observe(self, tokens, features, ids=None) -> None:
        super().observe(tokens, features, ids)
        self.written += len(tokens)

    def propose(self, shape: TreeShape) -> DraftTree:
        follow = self.answer[self.written :][: self.written % 6]
        tokens = [self._last, *follow, (self._last + 1) % VOCABULARY, 3, 3]
        chain = [max(node - 1, 0) for node in range(len(follow) + 2)]
        return DraftTree(tokens, [*chain, 0, len(tokens) - 2], [0.95**node for node in range(len(tokens))])


@pytest.mark.parametrize("name", but_for(SOME, RECURRENT))
def test_right_drafts_are_accepted_along_a_chain(name: str) -> None:
    target, answer = Target(LanguageModel(tiny(name))), by_generate(NEW, name=name)
    drafter = Oracle([*prompt(), *answer])
    written, meter = run(target, drafter, prompt(), small("full"))
    assert written == answer
    assert meter.steps < NEW / 2


@pytest.mark.parametrize("is_self", [True, False])
def test_they_do_not_draft(is_self: bool) -> None:
    target = Target(model("qwen3.5")) if is_self else Target(LanguageModel(tiny()))
    with pytest.raises(ModelError, match="cannot draft"):
        LMDrafter(model("qwen3.5"), target, small("full"))


@pytest.mark.parametrize("name", SOME)
@pytest.mark.parametrize("shared", [16, 20, 50])
def test_a_shared_prefix_is_gone_back_to(name: str, shared: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The states at its end are remembered: of the second prompt only the rest is read."""
    lm, read = LanguageModel(tiny(name)), []
    first, second = prompt(70), [*prompt(70)[:shared], *prompt(30, 4)]
    written = [generate(tiny(name), tokens, 9) for tokens in (first, second, first)]
    forward = lm.forward
    monkeypatch.setattr(lm, "forward", lambda ids, *a, **k: (read.append(len(ids)), forward(ids, *a, **k))[1])
    requests = [BatchRequest(tokens, Stop(9), shared_prefix=shared) for tokens in (first, second, first)]
    assert run_batch(lm, requests, 2) == written
    assert sum(read) == shared + (70 - shared) + 30 + (70 - shared)


def read_in_order(lm: LanguageModel, tokens: list[int]) -> KVCache:
    cache = lm.new_cache(len(tokens))
    lm.forward(torch.tensor(tokens), torch.arange(len(tokens)), cache)
    cache.commit()
    return cache


def assert_same_states(cache: KVCache, other: KVCache) -> None:
    """But for rounding, which single numbers that nearly cancel may show: by the size of the whole state."""
    assert len(cache.states.layers) == len(other.states.layers) > 0
    for own, their in zip(cache.states.layers, other.states.layers, strict=True):
        for mine, expected in zip(own.state, their.state, strict=True):
            assert (mine is None) == (expected is None)
            if mine is not None and expected is not None:
                assert mine.shape == expected.shape
                assert (mine - expected).norm() <= 1e-3 * expected.norm()


def chain_of(tokens: list[int]) -> DraftTree:
    return DraftTree(tokens, [max(node - 1, 0) for node in range(len(tokens))], [1.0] * len(tokens))


MODELS: dict[str, LanguageModel] = {}


def model(name: str) -> LanguageModel:
    """Made once: hypothesis asks for it often."""
    if name not in MODELS:
        MODELS[name] = LanguageModel(tiny(name))
    return MODELS[name]


def test_a_length_that_was_not_marked_cannot_be_gone_back_to() -> None:
    lm, tokens = model("lfm2"), prompt(30)
    cache = read_in_order(lm, tokens[:20])
    cache.mark()
    lm.forward(torch.tensor(tokens[20:]), torch.arange(20, 30), cache)
    cache.commit()
    assert cache.can_roll_back(20)
    assert not cache.can_roll_back(19)
    with pytest.raises(RuntimeError, match="19 tokens are not known"):
        cache.rollback(19)
    cache.rollback(20)
    assert_same_states(cache, read_in_order(lm, tokens[:20]))


def test_what_cannot_be_kept_is_an_error() -> None:
    lm = model("qwen3.5")
    cache = read_in_order(lm, prompt(40)[:10])
    lm.forward(torch.tensor([1, 2, 3]), torch.arange(10, 13), cache)
    with pytest.raises(RuntimeError, match="committed as a whole"):
        cache.commit([0, 1])
    with pytest.raises(RuntimeError, match="committed tokens only"):
        lm.forward(torch.tensor([1]), torch.tensor([12]), cache)
    cache.rollback()
    lm.run(Step.of_tree(chain_of([1, 2, 3]), 10, cache))
    with pytest.raises(RuntimeError, match="the first ones"):
        cache.commit([0, 2])
    cache.rollback()
    with pytest.raises(RuntimeError, match="not a tree"):
        lm.run(Step.of_tree(DraftTree([1, 2, 3], [0, 0, 0], [1.0] * 3), 10, cache))


def test_only_layers_that_attend_take_memory_for_each_token() -> None:
    lm = model("qwen3.5")
    cache = lm.new_cache(256)
    assert cache.buffers[0].shape[1] == 1
    assert lm.state_bytes == read_in_order(lm, prompt(40)).states.nbytes
    row = cache.nbytes // cache.capacity
    assert slots_for(lm, 100, 3 * (100 * row + lm.state_bytes)) == 3


HYBRID = {**COMMON, "num_hidden_layers": 4}


@pytest.mark.parametrize(
    ("config", "why"),
    [
        (partial(transformers.BambaConfig, **MAMBA, attn_layer_indices=[1]), "neither gated delta nets"),
        (partial(transformers.BambaConfig, **MAMBA, attn_layer_indices=[]), "none of its layers attends"),
        (partial(transformers.MiniMaxConfig), "neither gated delta nets"),
    ],
)
def test_others_are_refused(config: type[transformers.PreTrainedConfig], why: str) -> None:
    with torch.device("meta"):
        net = transformers.AutoModelForCausalLM.from_config(config(**HYBRID))
    with pytest.raises(ModelError) as caught:
        LanguageModel(net)
    assert why in caught.value.why


def test_a_retrieval_s_layers_are_named_as_in_the_model() -> None:
    for asked, own in (((1,), {1}), ((0, -1), {1})):  # the only one that attends
        assert Target(model("qwen3.5"), score_layers=asked).score_layers == own
